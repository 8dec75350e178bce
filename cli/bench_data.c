/* bench_data.c - the buffers of pith bench and what they are filled with.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "roofline.h"

#include "bench.h"
#include "metrics.h"

enum { BUFFERS = 6, QUICK_BYTES = 1 << 20, PAGE = 4096 };

static bool reserve(void **p, size_t bytes) {
    if (posix_memalign(p, PAGE, bytes) != 0) *p = NULL;
    if (*p) memset(*p, 0, bytes);
    return *p != NULL;
}

/* ---- Values ----------------------------------------------------------------------------------*/

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns noise that is nearly normal with variance 1: the sum of four uniform 16-bit numbers. */
static float noise(uint64_t index) {
    const uint64_t r = mix(index * 0x9e3779b97f4a7c15u);
    const int sum =
        (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
    return ((float)sum - 131070.0f) * (1.0f / 37837.0f);
}

static int sample_weights(struct bench_data *d) {
    d->sampled = 1 << 20;
    d->sample = malloc((size_t)d->sampled * sizeof *d->sample);
    if (!d->sample) return say_errno(NULL, "bench");
    for (uint64_t i = 0; i < d->sampled; i++) d->sample[i] = 0.02f * noise(i);
    return EXIT_GOOD;
}

static bool wanted(const struct tensor *t) {
    return t->dtype == PITH_F32 || t->dtype == PITH_BF16 || t->dtype == PITH_F16;
}

static void sample_tensor(struct bench_data *d, const struct tensor *t) {
    struct tensor_memory memory = {0};
    struct reader r = {.t = t, .bytes = tensor_bytes(t, &memory)};
    if (!r.bytes) return;
    for (uint64_t n = tensor_count(t); n > 0 && d->sampled < d->count; n--) {
        const float v = (float)reader_next(&r);
        if (isfinite(v)) d->sample[d->sampled++] = v;
    }
    tensor_memory_free(&memory);
}

static int sample_file(struct bench_data *d, const char *path) {
    struct tensor_set set;
    const struct tensor_hint hint = {0};
    int code = tensors_open(&set, path, &hint, true);
    if (code != EXIT_GOOD) return code;
    uint64_t count = 1;
    for (size_t i = 0; i < set.count; i++)
        if (wanted(&set.items[i])) count += tensor_count(&set.items[i]);
    if (count > d->count) count = d->count;
    d->sample = malloc((size_t)count * sizeof *d->sample);
    if (!d->sample) code = say_errno(NULL, "bench");
    for (size_t i = 0; i < set.count && d->sample; i++)
        if (wanted(&set.items[i])) sample_tensor(d, &set.items[i]);
    tensors_close(&set);
    if (code == EXIT_GOOD && d->sampled == 0)
        return say_error(path, "no finite values of dtype f32, bf16 or f16");
    return code;
}

/* Rounds to the nearest bf16, ties to even; the values are finite. */
static uint16_t to_bf16(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void store(void *to, uint32_t dtype, uint64_t index, float v) {
    if (dtype == PITH_BF16)
        ((uint16_t *)to)[index] = to_bf16(v);
    else
        ((float *)to)[index] = v;
}

/* Returns the size of the noise of one training step: a thousandth of a typical value. */
static float step_size(const struct bench_data *d) {
    double sum = 0;
    for (uint64_t i = 0; i < d->sampled; i++) sum += fabs((double)d->sample[i]);
    return (float)(1e-3 * sum / (double)d->sampled);
}

/* Repeats the first `period` bytes up to `bytes`. */
static void repeat_bytes(void *at, size_t period, size_t bytes) {
    for (size_t done = period; done < bytes;) {
        const size_t n = done < bytes - done ? done : bytes - done;
        memcpy((uint8_t *)at + done, at, n);
        done += n;
    }
}

void bench_data_fill(struct bench_data *d, uint64_t count, uint32_t dtype, uint32_t base_dtype) {
    const float step = step_size(d);
    const uint64_t period = d->sampled < count ? d->sampled : count;
    const size_t size = pith_dtype_bytes(dtype), base_size = pith_dtype_bytes(base_dtype);
    for (uint64_t i = 0; i < period; i++) {
        const float v = d->sample[i];
        store(d->value, dtype, i, v);
        if (base_dtype != PITH_NONE) store(d->start, base_dtype, i, v + step * noise(~i));
    }
    repeat_bytes(d->value, period * size, count * size);
    if (base_dtype != PITH_NONE) repeat_bytes(d->start, period * base_size, count * base_size);
}

/* ---- Life ------------------------------------------------------------------------------------*/

int bench_data_open(struct bench_data *d, const char *path, bool quick) {
    *d = (struct bench_data){.bytes = quick ? QUICK_BYTES : roofline_bytes(BUFFERS),
                             .repetitions = quick ? 3 : 7};
    d->count = d->bytes / sizeof(float);
    const int code = path ? sample_file(d, path) : sample_weights(d);
    if (code != EXIT_GOOD) return code;
    if (reserve(&d->value, d->bytes) && reserve(&d->start, d->bytes) &&
        reserve(&d->sender, d->bytes) && reserve(&d->receiver, d->bytes) &&
        reserve(&d->out, d->bytes))
        return EXIT_GOOD;
    return say_errno(NULL, "bench");
}

bool bench_reserve_frame(struct bench_data *d, uint64_t bytes) {
    if (bytes <= d->frame_capacity) return true;
    free(d->frame);
    d->frame_capacity = reserve(&d->frame, (size_t)bytes) ? (size_t)bytes : 0;
    return d->frame_capacity > 0;
}

void bench_data_close(struct bench_data *d) {
    void *const buffers[] = {d->sample,   d->value, d->start, d->sender,
                             d->receiver, d->out,   d->frame};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free(buffers[i]);
    *d = (struct bench_data){0};
}
