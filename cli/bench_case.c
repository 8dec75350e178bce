/* bench_case.c - measures one codec setting, roofline and codec in every round.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "roofline.h"

#include "bench.h"
#include "choose.h"
#include "packed.h"

/* A row takes all repetitions when it can do so in its time, which keeps the whole run near two
 * minutes, and else no fewer than the least. */
enum { MAX_REPETITIONS = 15, LEAST_REPETITIONS = 3 };
static const double row_seconds = 3;

/* A row is what one repetition measures; of a row with several variants the best median counts. */
enum row {
    READ,
    FILL,
    FILL_NONTEMPORAL,
    COPY,
    ENCODE,
    DECODE,
    ENCODE_MOVE,
    DECODE_MOVE = ENCODE_MOVE + BASELINE_VARIANTS,
    ROWS = DECODE_MOVE + BASELINE_VARIANTS
};

struct runner {
    const struct bench_case *which;
    struct bench_data *data;
    const char *spec;
    const pith_plan *plan;
    void *work_memory, *stream_memory[2]; /* sender's, receiver's */
    pith_work *work;
    pith_stream *stream[2];
    pith_view value, out;
    uint64_t count, raw_bytes, base_bytes;
    size_t stream_bytes, written;
    double bound;
    int rounds; /* repetitions done */
    double seconds[ROWS][MAX_REPETITIONS];
};

static int failed(const struct runner *r, pith_status status, const pith_error *error) {
    return say_error("bench", "%s: %s (%s)", r->spec, error->text, pith_status_name(status));
}

static bool has_base(const struct runner *r) { return r->which->base_dtype != PITH_NONE; }

/* ---- Setting up ------------------------------------------------------------------------------*/

/* Codec kv wants tokens of heads, of a dimension that a head can be rotated in. */
enum { HEADS = 8, DIM = 128 };

static uint64_t count_of(const struct bench_case *which, const struct bench_data *data) {
    return data->count / which->divide / (HEADS * DIM) * (HEADS * DIM);
}

static pith_layout layout_for(const struct bench_case *which, uint64_t count) {
    const bool base = which->base_dtype != PITH_NONE;
    const uint64_t tokens = count / (HEADS * DIM);
    pith_layout layout = {.size = sizeof layout,
                          .dtype = which->dtype,
                          .base_dtype = which->base_dtype,
                          .ndim = 1,
                          .flags = base ? PITH_LAYOUT_EXTERNAL_BASE : 0,
                          .shape = {count}};
    pith_codec_info codec;
    if (!codec_of_spec(which->spec, &codec) || strcmp(codec.name, "kv") != 0) return layout;
    const bool heads_first = strstr(which->spec, "order=heads");
    layout.ndim = 3;
    layout.shape[0] = heads_first ? HEADS : tokens;
    layout.shape[1] = heads_first ? tokens : HEADS;
    layout.shape[2] = DIM;
    return layout;
}

bool bench_takes(const struct bench_case *which, const struct bench_data *data) {
    const pith_layout layout = layout_for(which, count_of(which, data));
    const pith_plan *plan;
    const pith_status status = pith_plan_create(&plan, which->spec, &layout, NULL, NULL);
    pith_plan_destroy(plan);
    return status != PITH_ERR_UNSUPPORTED;
}

static int make_plan(struct runner *r, const pith_env *env) {
    pith_error error = {.size = sizeof error};
    const pith_layout layout = layout_for(r->which, r->count);
    const pith_status status = pith_plan_create(&r->plan, r->spec, &layout, env, &error);
    return status == PITH_OK ? EXIT_GOOD : failed(r, status, &error);
}

/* Allocates the work, and memory for a frame and both streams. */
static int make_memory(struct runner *r, const pith_env *env) {
    pith_error error = {.size = sizeof error};
    pith_sizes sizes = {.size = sizeof sizes};
    pith_plan_sizes(r->plan, &sizes);
    const size_t work_bytes = (size_t)pith_work_bytes(&r->plan, 1, env->threads);
    r->stream_bytes = (size_t)sizes.stream_bytes;
    r->work_memory = malloc(work_bytes);
    for (int i = 0; i < 2; i++) r->stream_memory[i] = malloc(r->stream_bytes);
    if (!r->work_memory || !r->stream_memory[0] || !r->stream_memory[1] ||
        !bench_reserve_frame(r->data, sizes.slot_bytes))
        return say_errno(NULL, "bench");
    const pith_status status = pith_work_init(r->work_memory, work_bytes, env, &r->work, &error);
    return status == PITH_OK ? EXIT_GOOD : failed(r, status, &error);
}

/* Makes both streams, and their bases, what they were before the step. */
static int restore_streams(struct runner *r) {
    void *const bases[2] = {r->data->sender, r->data->receiver};
    pith_error error = {.size = sizeof error};
    for (int i = 0; i < 2; i++) {
        pith_status status = pith_stream_init(r->plan, r->stream_memory[i], r->stream_bytes, NULL,
                                              &r->stream[i], &error);
        if (status != PITH_OK) return failed(r, status, &error);
        if (!has_base(r)) continue;
        memcpy(bases[i], r->data->start, (size_t)r->base_bytes);
        status = pith_stream_bind_base(r->work, r->stream[i], bases[i], 0);
        if (status != PITH_OK) return failed(r, status, pith_work_error(r->work));
    }
    return EXIT_GOOD;
}

/* ---- One repetition --------------------------------------------------------------------------*/

/* Returns the ranges of exactly the bytes that encode reads and writes. */
static struct roofline_baseline encode_baseline(const struct runner *r) {
    struct roofline_baseline m = {.read = {r->data->value},
                                  .read_bytes = {(size_t)r->raw_bytes},
                                  .write = {r->data->frame},
                                  .write_bytes = {r->written}};
    if (has_base(r)) {
        m.read[1] = m.write[1] = r->data->sender;
        m.read_bytes[1] = m.write_bytes[1] = (size_t)r->base_bytes;
    }
    return m;
}

static struct roofline_baseline decode_baseline(const struct runner *r) {
    struct roofline_baseline m = {.read = {r->data->frame},
                                  .read_bytes = {r->written},
                                  .write = {r->data->out},
                                  .write_bytes = {(size_t)r->raw_bytes}};
    if (has_base(r)) {
        m.read[1] = m.write[0] = r->data->receiver;
        m.read_bytes[1] = m.write_bytes[0] = (size_t)r->base_bytes;
    }
    return m;
}

static void run_roofline(struct runner *r, int round) {
    struct bench_data *d = r->data;
    const size_t n = (size_t)r->raw_bytes;
    const struct roofline_baseline encode = encode_baseline(r), decode = decode_baseline(r);
    r->seconds[READ][round] = roofline_read(d->value, n);
    r->seconds[FILL][round] = roofline_fill(d->out, n, false);
    r->seconds[FILL_NONTEMPORAL][round] = roofline_fill(d->out, n, true);
    r->seconds[COPY][round] = roofline_memcpy(d->out, d->value, n);
    for (int variant = 0; variant < BASELINE_VARIANTS; variant++) {
        r->seconds[ENCODE_MOVE + variant][round] = roofline_move(&encode, variant);
        r->seconds[DECODE_MOVE + variant][round] = roofline_move(&decode, variant);
    }
}

static int run_codec(struct runner *r, int round) {
    struct bench_data *d = r->data;
    pith_item item = {.size = sizeof item,
                      .stream = r->stream[0],
                      .view = r->value,
                      .frame = d->frame,
                      .capacity = d->frame_capacity};
    double at = roofline_clock();
    pith_status status = pith_encode(r->work, &item, 1, 0);
    r->seconds[ENCODE][round] = roofline_clock() - at;
    if (status != PITH_OK) return failed(r, status, pith_work_error(r->work));
    r->written = item.length;
    item.stream = r->stream[1];
    item.view = r->out;
    /* A receiver's base is what it decodes to, and is not wanted a second time. */
    if (has_base(r)) item.view = (pith_view){.dtype = PITH_NONE};
    at = roofline_clock();
    status = pith_decode(r->work, &item, 1, 0);
    r->seconds[DECODE][round] = roofline_clock() - at;
    return status == PITH_OK ? EXIT_GOOD : failed(r, status, pith_work_error(r->work));
}

/* ---- Verification ----------------------------------------------------------------------------*/

enum { LANES = 16, CHUNK = 64 * LANES };

/* Returns values [first, first + n) in f32, in `to` or where they stand. */
static const float *as_floats(float *to, const void *p, uint32_t dtype, uint64_t first, int n) {
    if (dtype == PITH_F32) return (const float *)p + first;
    for (int i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)((const uint16_t *)p)[first + (uint64_t)i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

/* The largest error and value of each lane: with lanes compilers use vectors. An error that is not
 * finite counts as infinite. */
struct extremes {
    float error[LANES], magnitude[LANES];
};

static inline void extend(struct extremes *e, const float *value, const float *decoded, int lanes) {
    for (int i = 0; i < lanes; i++) {
        const float v = fabsf(value[i]), off = fabsf(value[i] - decoded[i]);
        const float d = off <= FLT_MAX ? off : INFINITY;
        e->error[i] = d > e->error[i] ? d : e->error[i];
        e->magnitude[i] = v > e->magnitude[i] ? v : e->magnitude[i];
    }
}

static void extend_all(struct extremes *e, const float *value, const float *decoded, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) extend(e, value + i, decoded + i, LANES);
    extend(e, value + i, decoded + i, n - i);
}

/* Whether every value is within the bound. The bound is on the decoded difference; the base adds
 * one rounding of its own. */
static bool within_bound(const struct runner *r, const void *decoded, uint32_t dtype,
                         double slack) {
    float value[CHUNK], out[CHUNK];
    struct extremes e = {{0}, {0}};
    for (uint64_t i = 0; i < r->count; i += CHUNK) {
        const int n = (int)(r->count - i < CHUNK ? r->count - i : CHUNK);
        extend_all(&e, as_floats(value, r->data->value, r->which->dtype, i, n),
                   as_floats(out, decoded, dtype, i, n), n);
    }
    float largest = 0, magnitude = 0;
    for (int lane = 0; lane < LANES; lane++) {
        largest = fmaxf(largest, e.error[lane]);
        magnitude = fmaxf(magnitude, e.magnitude[lane]);
    }
    return (double)largest <= r->bound + slack * ((double)magnitude + r->bound);
}

static bool good_round_trip(struct runner *r) {
    const struct bench_data *d = r->data;
    const void *decoded = has_base(r) ? d->receiver : d->out;
    if (has_base(r) && memcmp(d->sender, d->receiver, (size_t)r->base_bytes) != 0) return false;
    if (pith_error_bound(d->frame, r->written, &r->bound, NULL) != PITH_OK) return false;
    pith_codec_info codec;
    if (!codec_of_spec(r->spec, &codec)) return false;
    if (codec.traits & PITH_TRAIT_LOSSLESS)
        return memcmp(decoded, d->value, (size_t)r->raw_bytes) == 0;
    const uint32_t dtype = has_base(r) ? r->which->base_dtype : r->which->dtype;
    if (codec.traits & PITH_TRAIT_BOUND) return within_bound(r, decoded, dtype, 0);
    return within_bound(r, decoded, dtype, dtype == PITH_BF16 ? 0x1p-8 : 0x1p-23);
}

/* ---- All repetitions -------------------------------------------------------------------------*/

static int run_once(struct runner *r, int round) {
    /* The first frame tells how many bytes the copy baselines move. */
    if (r->written) run_roofline(r, round);
    const int code = restore_streams(r);
    return code == EXIT_GOOD ? run_codec(r, round) : code;
}

static int verify(struct runner *r) {
    if (good_round_trip(r)) return EXIT_GOOD;
    return say_error("bench", "%s: the round trip failed", r->spec);
}

static int compare_seconds(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, int n) {
    qsort(seconds, (size_t)n, sizeof *seconds, compare_seconds);
    return seconds[n / 2];
}

static double best(struct runner *r, enum row first, int variants) {
    double seconds = median(r->seconds[first], r->rounds);
    for (int variant = 1; variant < variants; variant++)
        seconds = fmin(seconds, median(r->seconds[(int)first + variant], r->rounds));
    return seconds;
}

static void collect(struct runner *r, struct bench_result *out) {
    const int n = r->rounds;
    out->raw_bytes = r->raw_bytes;
    out->bytes = r->written;
    out->repetitions = r->rounds;
    out->read = median(r->seconds[READ], n);
    out->fill = best(r, FILL, 2);
    out->copy = median(r->seconds[COPY], n);
    out->encode = median(r->seconds[ENCODE], n);
    out->decode = median(r->seconds[DECODE], n);
    out->encode_move = best(r, ENCODE_MOVE, BASELINE_VARIANTS);
    out->decode_move = best(r, DECODE_MOVE, BASELINE_VARIANTS);
}

/* Repeats the case. The first round warms up and is measured again; every round trip is
 * verified. */
static int repeat(struct runner *r) {
    int code = run_once(r, 0);
    if (code == EXIT_GOOD) code = verify(r);
    const double begun = roofline_clock();
    while (code == EXIT_GOOD && r->rounds < r->data->repetitions) {
        if (r->rounds >= LEAST_REPETITIONS && roofline_clock() - begun > row_seconds) break;
        code = run_once(r, r->rounds++);
        if (code == EXIT_GOOD) code = verify(r);
    }
    return code;
}

static int measure(struct runner *r, const pith_env *env, struct bench_result *out) {
    int code = make_plan(r, env);
    if (code == EXIT_GOOD) code = make_memory(r, env);
    if (code == EXIT_GOOD) code = repeat(r);
    if (code == EXIT_GOOD) collect(r, out);
    return code;
}

int bench_measure(const struct bench_case *which, struct bench_data *data, const pith_env *env,
                  struct bench_result *out) {
    struct runner *r = calloc(1, sizeof *r);
    if (!r) return say_errno(NULL, "bench");
    *out = (struct bench_result){.dtype = which->dtype, .base_dtype = which->base_dtype};
    r->which = which;
    r->data = data;
    r->spec = which->spec;
    r->count = count_of(which, data);
    r->raw_bytes = r->count * pith_dtype_bytes(which->dtype);
    r->base_bytes = r->count * pith_dtype_bytes(which->base_dtype);
    r->value = pith_view_flat(data->value, which->dtype, r->count);
    r->out = pith_view_flat(data->out, which->dtype, r->count);
    bench_data_fill(data, r->count, which->dtype, which->base_dtype);
    codec_of_spec(which->spec, &out->codec);
    strcpy(out->spec, which->spec);
    const int code = measure(r, env, out);
    pith_plan_destroy(r->plan);
    free(r->work_memory);
    free(r->stream_memory[0]);
    free(r->stream_memory[1]);
    free(r);
    return code;
}
