/* measure.c - how well a codec keeps real weights: chains of training steps, and exact updates.
 * SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"
#include "weights.h"

/* ---- Weights ---------------------------------------------------------------------------------*/

/* All tensors of wo_t<step> one after another; the files hold them so. */
static float *load_step(const char *directory, int step, void **file, size_t *count) {
    char name[32];
    struct weights w;
    snprintf(name, sizeof name, "wo_t%d", step);
    *file = weights_load(directory, name);
    *count = 0;
    if (!*file || !weights_at(*file, 0, &w)) return NULL;
    float *all = malloc(1 << 20);
    for (size_t i = 0; all && weights_at(*file, i, &w); i++) {
        if ((*count + w.count) * sizeof *all > 1 << 20 || w.dtype != PITH_F32) exit(2);
        memcpy(all + *count, w.data, w.count * sizeof *all);
        *count += w.count;
    }
    return all;
}

static uint16_t cast_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static double square_error(const float *a, const float *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sum;
}

static double cast_error(const float *w, uint32_t dtype, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count && dtype == PITH_BF16; i++) {
        const uint32_t u = (uint32_t)cast_bf16(w[i]) << 16;
        float back;
        memcpy(&back, &u, sizeof back);
        sum += ((double)back - (double)w[i]) * ((double)back - (double)w[i]);
    }
    return sum;
}

/* ---- A chain ---------------------------------------------------------------------------------*/

struct chain {
    struct end sender, receiver;
    uint8_t *frame;
    size_t cap, count;
    uint32_t dtype;
    float *before, *now, *base[2];
    uint16_t *cast;
};

static int chain_open(struct chain *c, const char *spec, uint32_t base_dtype) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = c->dtype,
                                .base_dtype = base_dtype,
                                .ndim = 1,
                                .shape = {c->count}};
    if (end_open(&c->sender, spec, &layout, NULL, NULL) ||
        end_open_other(&c->receiver, &c->sender, NULL))
        return 1;
    c->cap = (size_t)c->sender.sizes.slot_bytes;
    c->frame = malloc(c->cap);
    c->cast = malloc(c->count * 2);
    for (int i = 0; i < 2; i++) c->base[i] = malloc(c->count * sizeof(float));
    return !c->base[0] || !c->base[1] || !c->frame || !c->cast;
}

static void chain_close(struct chain *c) {
    end_close(&c->receiver);
    end_close(&c->sender);
    for (int i = 0; i < 2; i++) free(c->base[i]);
    free(c->frame);
    free(c->cast);
}

static pith_view values(struct chain *c) {
    if (c->dtype == PITH_F32) return pith_view_flat(c->now, PITH_F32, c->count);
    for (size_t i = 0; i < c->count; i++) c->cast[i] = cast_bf16(c->now[i]);
    return pith_view_flat(c->cast, PITH_BF16, c->count);
}

static int bases(struct chain *c) {
    const struct end *const ends[2] = {&c->sender, &c->receiver};
    for (int i = 0; i < 2; i++) {
        const pith_view v = pith_view_flat(c->base[i], PITH_F32, c->count);
        if (end_said(ends[i], pith_stream_get_base(ends[i]->work, ends[i]->stream, 0, &v)))
            return 1;
    }
    return 0;
}

static int chain_step(struct chain *c, uint32_t base_dtype, struct measure_step *out) {
    size_t length;
    const pith_view v = values(c);
    if (end_encode(&c->sender, &v, c->frame, c->cap, &length) ||
        end_decode(&c->receiver, c->frame, length, NULL) || bases(c))
        return 1;
    const double energy = square_error(c->now, NULL, c->count);
    const double error = square_error(c->base[1], c->now, c->count);
    out->bits = (double)length * 8 / (double)c->count;
    out->update_nmse = error / square_error(c->now, c->before, c->count);
    out->weight_nmse = error / energy;
    out->cast_nmse = cast_error(c->now, base_dtype, c->count) / energy;
    out->identical =
        memcmp(c->base[0], c->base[1], c->count * sizeof(float)) == 0 &&
        pith_stream_base_hash(c->sender.stream, 0) == pith_stream_base_hash(c->receiver.stream, 0);
    return 0;
}

static int run_steps(struct chain *c, const char *directory, uint32_t base_dtype,
                     struct measure_step steps[MEASURE_STEPS]) {
    for (int t = 1; t <= MEASURE_STEPS; t++) {
        void *file;
        size_t count;
        c->before = c->now;
        c->now = load_step(directory, t, &file, &count);
        free(file);
        const int failed = !c->now || count != c->count || chain_step(c, base_dtype, &steps[t - 1]);
        free(c->before);
        if (failed) return 1;
    }
    return 0;
}

static int set_base(const struct end *e, const pith_view *base) {
    return end_said(e, pith_stream_set_base(e->work, e->stream, base, 1)) != PITH_OK;
}

int measure_chain(const char *directory, const char *spec, uint32_t values_dtype,
                  uint32_t base_dtype, struct measure_step steps[MEASURE_STEPS]) {
    struct chain c = {.dtype = values_dtype};
    void *file;
    c.now = load_step(directory, 0, &file, &c.count);
    free(file);
    if (!c.now) return 1;
    int failed = chain_open(&c, spec, base_dtype);
    if (!failed) {
        const pith_view v = values(&c);
        failed = set_base(&c.sender, &v) || set_base(&c.receiver, &v) ||
                 run_steps(&c, directory, base_dtype, steps);
    }
    free(c.now);
    chain_close(&c);
    return failed;
}

/* ---- A pair of checkpoints -------------------------------------------------------------------*/

enum { UPDATES = 1 << 16 };

/* Position of a bf16 value among all of them. */
static uint32_t order(uint16_t u) { return u & 0x8000 ? 0xFFFFu - u : u + 0x8000u; }

static void count_updates(const struct weights *next, const struct weights *prev, size_t *counts) {
    for (size_t i = 0; i < next->count; i++) {
        uint16_t a, b;
        memcpy(&a, (const uint8_t *)next->data + 2 * i, 2);
        memcpy(&b, (const uint8_t *)prev->data + 2 * i, 2);
        counts[(order(a) - order(b)) & (UPDATES - 1)]++;
    }
}

static double entropy(const size_t *counts, size_t total) {
    double bits = 0;
    for (size_t i = 0; i < UPDATES; i++)
        if (counts[i]) bits -= (double)counts[i] * log2((double)counts[i] / (double)total);
    return bits / 8;
}

static int pack_one(const char *spec, const struct weights *next, const struct weights *prev,
                    struct measure_pair *out) {
    const pith_view v = pith_view_flat(next->data, next->dtype, next->count);
    const pith_view b = pith_view_flat(prev->data, prev->dtype, prev->count);
    const size_t raw = next->count * 2, cap = raw + raw / 2 + 4096;
    uint8_t *frame = malloc(cap), *back = malloc(raw + 1);
    size_t length = 0;
    if (!frame || !back || next->count != prev->count || next->dtype != PITH_BF16) exit(2);
    const pith_view o = pith_view_flat(back, next->dtype, next->count);
    const int failed = pith_compress(spec, &v, &b, NULL, NULL, frame, cap, &length, NULL) ||
                       pith_decompress(frame, length, &b, NULL, &o, NULL);
    out->identical = out->identical && memcmp(back, next->data, raw) == 0;
    out->bytes += length;
    out->raw_bytes += raw;
    out->weights += next->count;
    free(frame);
    free(back);
    return failed;
}

int measure_pair(const char *directory, const char *spec, struct measure_pair *out) {
    void *next_file = weights_load(directory, "ckpt_next_bf16");
    void *prev_file = weights_load(directory, "ckpt_prev_bf16");
    size_t *counts = calloc(UPDATES, sizeof *counts);
    struct weights next, prev;
    int failed = !next_file || !prev_file || !counts;
    *out = (struct measure_pair){.identical = 1};
    for (size_t i = 0;
         !failed && weights_at(next_file, i, &next) && weights_at(prev_file, i, &prev); i++) {
        failed = pack_one(spec, &next, &prev, out);
        count_updates(&next, &prev, counts);
    }
    if (!failed) out->entropy_bytes = entropy(counts, out->weights);
    free(next_file);
    free(prev_file);
    free(counts);
    return failed || out->weights == 0;
}
