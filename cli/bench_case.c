/* bench_case.c - measures one codec setting, roofline and codec by turns.
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

/* What one repetition measures; of rows that are done in several ways the best median counts. */
enum row {
    READ,
    FILL,
    FILL_STREAM,
    COPY,
    ENCODE,
    DECODE,
    ENCODE_MOVE,
    DECODE_MOVE = ENCODE_MOVE + CEILING_MOVERS,
    ROWS = DECODE_MOVE + CEILING_MOVERS
};

struct runner {
    const struct bench_case *which;
    struct bench_data *data;
    const char *spec;
    pith_plan *plan;
    void *state_memory[2]; /* sender's, receiver's */
    pith_state *state[2];
    pith_view value, out;
    uint64_t count, raw_bytes, base_bytes;
    size_t written;
    double bound;
    int turns; /* repetitions done */
    double seconds[ROWS][MAX_REPETITIONS];
};

static int failed(const struct runner *r, pith_status status) {
    const pith_error error = pith_plan_error(r->plan);
    return say_error("bench", "%s: %s (%s)", r->spec, error.text, pith_status_name(status));
}

static bool is_stream(const struct runner *r) { return r->which->base_dtype != PITH_NONE; }

/* ---- Setting up ------------------------------------------------------------------------------*/

/* Codec kv wants tokens of heads, of a dimension that a head can be rotated in. */
enum { HEADS = 8, DIM = 128 };

static uint64_t count_of(const struct bench_case *which, const struct bench_data *data) {
    return data->count / which->divide / (HEADS * DIM) * (HEADS * DIM);
}

static pith_layout layout_for(const struct bench_case *which, uint64_t count) {
    const bool stream = which->base_dtype != PITH_NONE;
    const uint64_t tokens = count / (HEADS * DIM);
    pith_layout layout = {.size = sizeof layout,
                          .dtype = which->dtype,
                          .base_dtype = which->base_dtype,
                          .ndim = 1,
                          .flags = stream ? PITH_LAYOUT_EXTERNAL_BASE : 0,
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
    uint64_t bytes;
    pith_error error;
    return pith_compress_bound(which->spec, &layout, &bytes, &error) != PITH_ERR_UNSUPPORTED;
}

static int make_plan(struct runner *r, const pith_env *env) {
    pith_error error = {"", 0};
    const pith_layout layout = layout_for(r->which, r->count);
    const pith_status status = pith_plan_create(&r->plan, r->spec, &layout, env, &error);
    if (status != PITH_OK)
        return say_error("bench", "%s: %s (%s)", r->spec, error.text, pith_status_name(status));
    if (!bench_reserve_frame(r->data, pith_plan_frame_bytes(r->plan, 0, 0)))
        return say_errno(NULL, "bench");
    return EXIT_GOOD;
}

static int make_states(struct runner *r) {
    pith_sizes sizes;
    pith_plan_sizes(r->plan, &sizes);
    for (int i = 0; i < 2 && is_stream(r); i++) {
        r->state_memory[i] = malloc(sizes.state_bytes ? (size_t)sizes.state_bytes : 1);
        if (!r->state_memory[i]) return say_errno(NULL, "bench");
    }
    return EXIT_GOOD;
}

/* Both bases as they were before the step. */
static int restore_bases(struct runner *r) {
    void *const bases[2] = {r->data->sender, r->data->receiver};
    pith_sizes sizes;
    pith_plan_sizes(r->plan, &sizes);
    for (int i = 0; i < 2 && is_stream(r); i++) {
        memcpy(bases[i], r->data->start, (size_t)r->base_bytes);
        pith_status status =
            pith_state_init(r->plan, r->state_memory[i], (size_t)sizes.state_bytes, &r->state[i]);
        if (status == PITH_OK) status = pith_state_bind_base(r->plan, r->state[i], bases[i], 0);
        if (status != PITH_OK) return failed(r, status);
    }
    return EXIT_GOOD;
}

/* ---- One repetition --------------------------------------------------------------------------*/

/* Exactly the bytes that encode reads and writes. */
static struct roofline_mover encode_mover(const struct runner *r) {
    struct roofline_mover m = {.read = {r->data->value},
                               .read_bytes = {(size_t)r->raw_bytes},
                               .write = {r->data->frame},
                               .write_bytes = {r->written}};
    if (is_stream(r)) {
        m.read[1] = m.write[1] = r->data->sender;
        m.read_bytes[1] = m.write_bytes[1] = (size_t)r->base_bytes;
    }
    return m;
}

static struct roofline_mover decode_mover(const struct runner *r) {
    struct roofline_mover m = {.read = {r->data->frame},
                               .read_bytes = {r->written},
                               .write = {r->data->out},
                               .write_bytes = {(size_t)r->raw_bytes}};
    if (is_stream(r)) {
        m.read[1] = m.write[0] = r->data->receiver;
        m.read_bytes[1] = m.write_bytes[0] = (size_t)r->base_bytes;
    }
    return m;
}

static void run_roofline(struct runner *r, int turn) {
    struct bench_data *d = r->data;
    const size_t n = (size_t)r->raw_bytes;
    const struct roofline_mover encode = encode_mover(r), decode = decode_mover(r);
    r->seconds[READ][turn] = roofline_read(d->value, n);
    r->seconds[FILL][turn] = roofline_fill(d->out, n, false);
    r->seconds[FILL_STREAM][turn] = roofline_fill(d->out, n, true);
    r->seconds[COPY][turn] = roofline_memcpy(d->out, d->value, n);
    for (int variant = 0; variant < CEILING_MOVERS; variant++) {
        r->seconds[ENCODE_MOVE + variant][turn] = roofline_move(&encode, variant);
        r->seconds[DECODE_MOVE + variant][turn] = roofline_move(&decode, variant);
    }
}

static int run_codec(struct runner *r, int turn) {
    struct bench_data *d = r->data;
    double at = roofline_clock();
    pith_status status =
        pith_encode(r->plan, r->state[0], &r->value, 0, d->frame, d->frame_room, &r->written);
    r->seconds[ENCODE][turn] = roofline_clock() - at;
    if (status != PITH_OK) return failed(r, status);
    at = roofline_clock();
    status =
        pith_decode(r->plan, r->state[1], 0, d->frame, r->written, is_stream(r) ? NULL : &r->out);
    r->seconds[DECODE][turn] = roofline_clock() - at;
    return status == PITH_OK ? EXIT_GOOD : failed(r, status);
}

/* ---- Verification ----------------------------------------------------------------------------*/

enum { LANES = 16, CHUNK = 64 * LANES };

/* Values [first, first + n) in f32, which may be where they stand. */
static const float *as_floats(float *room, const void *p, uint32_t dtype, uint64_t first, int n) {
    if (dtype == PITH_F32) return (const float *)p + first;
    for (int i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)((const uint16_t *)p)[first + (uint64_t)i] << 16;
        memcpy(&room[i], &bits, sizeof bits);
    }
    return room;
}

/* By lanes, so that compilers take vectors. An error that is not finite becomes the largest. */
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

/* The bound is on the decoded difference; the base adds one rounding of its own. */
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
    const void *decoded = is_stream(r) ? d->receiver : d->out;
    pith_error error;
    if (is_stream(r) && memcmp(d->sender, d->receiver, (size_t)r->base_bytes) != 0) return false;
    if (pith_error_bound(d->frame, r->written, &r->bound, &error) != PITH_OK) return false;
    pith_codec_info codec;
    if (!codec_of_spec(r->spec, &codec)) return false;
    if (codec.traits & PITH_TRAIT_LOSSLESS)
        return memcmp(decoded, d->value, (size_t)r->raw_bytes) == 0;
    const uint32_t dtype = is_stream(r) ? r->which->base_dtype : r->which->dtype;
    if (codec.traits & PITH_TRAIT_BOUND) return within_bound(r, decoded, dtype, 0);
    return within_bound(r, decoded, dtype, dtype == PITH_BF16 ? 0x1p-8 : 0x1p-23);
}

/* ---- All repetitions -------------------------------------------------------------------------*/

static int run_once(struct runner *r, int turn) {
    /* The first frame tells how many bytes the movers move. */
    if (r->written) run_roofline(r, turn);
    const int code = restore_bases(r);
    return code == EXIT_GOOD ? run_codec(r, turn) : code;
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

static double best(struct runner *r, enum row first, int ways) {
    double seconds = median(r->seconds[first], r->turns);
    for (int variant = 1; variant < ways; variant++)
        seconds = fmin(seconds, median(r->seconds[(int)first + variant], r->turns));
    return seconds;
}

static void collect(struct runner *r, struct bench_result *out) {
    const int n = r->turns;
    out->raw_bytes = r->raw_bytes;
    out->bytes = r->written;
    out->repetitions = r->turns;
    out->read = median(r->seconds[READ], n);
    out->fill = best(r, FILL, 2);
    out->copy = median(r->seconds[COPY], n);
    out->encode = median(r->seconds[ENCODE], n);
    out->decode = median(r->seconds[DECODE], n);
    out->encode_move = best(r, ENCODE_MOVE, CEILING_MOVERS);
    out->decode_move = best(r, DECODE_MOVE, CEILING_MOVERS);
}

/* The first turn warms up and is measured again. Every round trip is verified. */
static int repeat(struct runner *r) {
    int code = run_once(r, 0);
    if (code == EXIT_GOOD) code = verify(r);
    const double begun = roofline_clock();
    while (code == EXIT_GOOD && r->turns < r->data->repetitions) {
        if (r->turns >= LEAST_REPETITIONS && roofline_clock() - begun > row_seconds) break;
        code = run_once(r, r->turns++);
        if (code == EXIT_GOOD) code = verify(r);
    }
    return code;
}

static int measure(struct runner *r, const pith_env *env, struct bench_result *out) {
    int code = make_plan(r, env);
    if (code == EXIT_GOOD) code = make_states(r);
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
    free(r->state_memory[0]);
    free(r->state_memory[1]);
    free(r);
    return code;
}
