/* trellis_job_tmpl.h - jobs of trellis-coded groups, whatever finds paths and levels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has the lanes, and defines before it includes this one:
 *   WIDE            how many sequences are coded together, one to a lane: those of as many groups,
 *                   or of one
 *   eight           a vector of eight lanes of 16 bits, or of several such, side by side
 *   e_low, e_high   in turn a lane of one and of another vector, from the lower and from the upper
 *                   half of eight lanes
 *   struct tables   what belongs to a number of bits: with `plain`, the trellis
 *   struct paths    what belongs to sequences that are coded together
 *   struct decoder  what decoding needs
 * and after that:
 *   tables_make     fills the tables
 *   decoded_before  whether the first PITHI_TRELLIS_LOOK values of a group are levels
 *   encode_sequences
 *                   codes up to WIDE sequences, and sums what their groups' scales follow from
 *   decoder_make, decode_part
 *                   decode whole groups, or sequences of one, whose scales fit
 *   decode_first    decodes a job without a base to 16 bits in a way of its own, from its first
 *                   value on; returns how many, whole groups or sequences */
#ifndef PITHI_GROUP_TRELLIS_JOB_TMPL_H
#define PITHI_GROUP_TRELLIS_JOB_TMPL_H

#include "common/lanes_tmpl.h"
#include "group/group_part.h"
#include "group/trellis.h"
#include "group/trellis_value.h"

enum { UNIT = 64 };

/* Eight rows of eight numbers become columns in three rounds. */
ALWAYS void interlace(const eight x[8], eight y[8]) {
    PITHI_UNROLL for (size_t i = 0; i < 4; i++) {
        y[2 * i] = e_low(x[i], x[i + 4]);
        y[2 * i + 1] = e_high(x[i], x[i + 4]);
    }
}
ALWAYS void transpose_rows(eight rows[8], eight columns[8]) {
    interlace(rows, columns);
    interlace(columns, rows);
    interlace(rows, columns);
}

/* ---- Encode: values ---------------------------------------------------------------------------*/

/* Values of a job where they lie, or differences, as f32, in a buffer. */
struct values {
    const uint8_t *at;
    uint32_t dtype;
};
ALWAYS v16 values_at(const struct values *x, size_t k) { return load(x->dtype, x->at, k); }

ALWAYS void subtract(const struct pithi_group_job *job, uint32_t vt, uint32_t bt, size_t i,
                     size_t n, uint8_t *to) {
    const uint8_t *const value = (const uint8_t *)job->value + i * width(vt);
    const uint8_t *const base = (const uint8_t *)job->base + i * width(bt);
    for (size_t k = 0; k < n; k += 16)
        v_store(to + 4 * k, f_sub(load(vt, value, k), v_saturate(load(bt, base, k), 0)));
}

static __attribute__((noinline)) void subtract_any(const struct pithi_group_job *job, size_t i,
                                                   size_t n, uint8_t *to) {
    const uint32_t vt = job->value_dtype, bt = job->base_dtype;
    if (vt == PITH_F32 && bt == PITH_F32)
        subtract(job, PITH_F32, PITH_F32, i, n, to);
    else if (vt == PITH_F32 && bt == PITH_BF16)
        subtract(job, PITH_F32, PITH_BF16, i, n, to);
    else if (vt == PITH_BF16 && bt == PITH_BF16)
        subtract(job, PITH_BF16, PITH_BF16, i, n, to);
    else
        subtract(job, vt, bt, i, n, to);
}

/* Returns n values of a job from i on; differences are put in `buffer`. */
ALWAYS struct values stage(const struct pithi_group_job *job, size_t i, size_t n, uint8_t *buffer) {
    const uint8_t *const value = (const uint8_t *)job->value + i * width(job->value_dtype);
    if (job->base_dtype == PITH_NONE) return (struct values){value, job->value_dtype};
    subtract_any(job, i, n, buffer);
    return (struct values){buffer, PITH_F32};
}

/* ---- Encode: groups ---------------------------------------------------------------------------*/

/* What the sequences of a group need while they are coded. */
struct coded {
    float unit;                              /* what values are multiplied by */
    bool blank;                              /* all codes are 0 */
    bool mirrored;                           /* of a group of one sequence */
    uint8_t with_value[64], with_itself[64]; /* sums, vectors that need no place of their own */
};

/* Groups that are coded together: up to WIDE of up to 256 values, or of as many sequences, or one.
 * What scales follow from is in arrays of an entry for each group, so that it is a lane of 16.
 * Differences from a base are formed one sequence at a time, and once more where sums are: all of
 * them would double what is on the stack. */
struct batch {
    struct coded group[WIDE];
    _Alignas(64) float largest[WIDE], utmost[WIDE], reach[WIDE];
    struct paths paths;
    _Alignas(64) uint8_t differences[SEQUENCE * 4];
};

ALWAYS v16 lanes_of(const float *p) { return v_load((const uint8_t *)p); }
ALWAYS void set_lanes(float *p, v16 x) { v_store((uint8_t *)p, x); }

static uint32_t largest_of(const struct pithi_group_job *job, size_t i, size_t n, uint8_t *buffer) {
    v16 most = v_set(0);
    for (size_t at = 0; at < n; at += SEQUENCE) {
        const size_t part = n - at < SEQUENCE ? n - at : SEQUENCE;
        const struct values x = stage(job, i + at, part, buffer);
        for (size_t k = 0; k < part; k += 16) most = v_maxu(most, magnitude16(values_at(&x, k)));
    }
    return v_reduce_maxu(most);
}

/* Does pithi_codebook_reach for 16 groups; returns which of them it has to look at itself. */
ALWAYS uint32_t reach_utmost(const struct pithi_group_setting *s, uint32_t dtype, float top, v16 m,
                             float utmost[16]) {
    const v16 coded = v_greater(m, v_set(PITHI_CODEBOOK_TINY - 1));
    const v16 scale = v_and(round_step(s->scale_dtype, f_div(m, v_spread(&top))), coded);
    set_lanes(utmost, scale);
    return v_nonfinite(m) | v_nonfinite(scale) |
           v_nonfinite(round_to(dtype, f_mul(v_spread(&top), scale)));
}

/* Whether the first values are levels by this unit. */
static bool decoded_before(const struct tables *t, const struct values *x, float unit);

/* Finds what the values of groups from i on are multiplied by. */
static void open_groups(const struct pithi_group_job *job, const struct tables *t, size_t i,
                        size_t groups, int reach, struct batch *b) {
    const struct pithi_group_setting *s = &job->set;
    const uint32_t dtype = pithi_trellis_dtype(s, job->value_dtype);
    const float last = (float)t->plain.top, top = last / PITHI_TRELLIS_UNIT;
    _Alignas(64) float unit[WIDE];
    for (size_t k = 0; k < WIDE; k++) {
        b->largest[k] =
            k < groups ? pithi_float(largest_of(job, i + k * s->group, s->group, b->differences))
                       : 0;
        b->reach[k] = (float)reach;
    }
    for (size_t first = 0; first < groups; first += 16) {
        const v16 m = lanes_of(b->largest + first);
        uint32_t irregular = reach_utmost(s, dtype, top, m, b->utmost + first);
        for (; irregular; irregular &= irregular - 1) {
            const size_t k = first + (size_t)__builtin_ctz(irregular);
            b->utmost[k] = pithi_codebook_reach(top, s, dtype, pithi_bits(b->largest[k]));
        }
        set_lanes(unit + first, f_div(v_spread(&last), m));
    }
    for (size_t k = 0; k < groups; k++) {
        struct coded *const g = &b->group[k];
        g->blank = pithi_nonfinite(pithi_bits(b->utmost[k])) || b->utmost[k] == 0;
        g->mirrored = false;
        v_store(g->with_value, v_set(0));
        v_store(g->with_itself, v_set(0));
        if (g->blank) continue;
        const struct values x = stage(job, i + k * s->group, PITHI_TRELLIS_LOOK, b->differences);
        if (decoded_before(t, &x, unit[k])) b->reach[k] = last;
    }
    for (size_t first = 0; first < groups; first += 16)
        set_lanes(unit + first, f_div(lanes_of(b->reach + first), lanes_of(b->largest + first)));
    for (size_t k = 0; k < groups; k++) b->group[k].unit = unit[k];
}

static void tables_make(struct tables *t, uint32_t bits);
/* Codes up to WIDE sequences of n values from i on, one behind the other. */
static void encode_sequences(struct pithi_group_job *job, const struct tables *t, struct batch *b,
                             size_t i, size_t n, size_t count);

/* Does pithi_trellis_scale for 16 groups of a batch, from group `first` of it on. */
ALWAYS v16 fitted(const struct pithi_group_setting *s, const struct tables *t, uint32_t dtype,
                  const struct batch *b, size_t first, v16 with_value, v16 with_itself) {
    const v16 utmost = lanes_of(b->utmost + first), reach = lanes_of(b->reach + first);
    const v16 part = v_set(pithi_bits(1 / PITHI_TRELLIS_UNIT)), infinite = v_set(PITHI_F32_INF);
    const v16 least = v_set(pithi_bits(pithi_trellis_least(s))), none = v_set(0);
    const float top = (float)t->plain.top / PITHI_TRELLIS_UNIT;
    const v16 a = f_min(f_max(f_div(with_value, with_itself), least), f_mul(reach, part));
    const v16 unit =
        f_mul(f_div(lanes_of(b->largest + first), reach), v_set(pithi_bits(PITHI_TRELLIS_UNIT)));
    const v16 scale = round_step(s->scale_dtype, f_mul(a, unit));
    const v16 reached = round_to(dtype, f_mul(v_spread(&top), scale));
    v16 good = v_and(v_greater(utmost, none), v_greater(infinite, utmost)); /* not blank */
    good = v_and(good, v_and(v_greater(scale, none), v_greater(infinite, scale)));
    good = v_and(good, v_greater(infinite, reached));
    return v_xor(utmost, v_and(good, v_xor(utmost, scale)));
}

/* Writes the scales of the groups of a batch, the first of which has number `index`. */
static void close_groups(struct pithi_group_job *job, const struct tables *t, size_t index,
                         size_t groups, const struct batch *b) {
    const struct pithi_group_setting *s = &job->set;
    const uint32_t dtype = pithi_trellis_dtype(s, job->value_dtype);
    for (size_t first = 0; first < groups; first += 16) {
        const size_t some = groups - first < 16 ? groups - first : 16;
        _Alignas(64) float with_value[16] = {0}, with_itself[16] = {0}, scale[16];
        for (size_t k = 0; k < some; k++) {
            with_value[k] = f_sum(v_load(b->group[first + k].with_value));
            with_itself[k] = f_sum(v_load(b->group[first + k].with_itself));
        }
        set_lanes(scale,
                  fitted(s, t, dtype, b, first, lanes_of(with_value), lanes_of(with_itself)));
        for (size_t k = 0; k < some; k++) {
            const uint32_t u = pithi_bits(scale[k]);
            job->poisoned += pithi_nonfinite(u);
            pithi_scale_store(job->scales, s->scale_dtype, index + first + k,
                              b->group[first + k].mirrored ? u ^ 0x80000000u : u);
        }
    }
}

static void trellis_decode(struct pithi_group_job *job);

/* Adds what groups decode to to their base. */
static __attribute__((noinline)) void update(struct pithi_group_job *job, size_t i, size_t count) {
    const uint64_t poisoned = job->poisoned;
    void *const out = job->out;
    job->out = NULL;
    scalar_part(job, i, count, trellis_decode);
    job->out = out;
    job->poisoned = poisoned;
}

static void trellis_encode(struct pithi_group_job *job) {
    const struct pithi_group_setting *s = &job->set;
    const size_t size = s->group, whole = job->count / size,
                 shift = (size_t)__builtin_ctz(s->group);
    const size_t n = size < SEQUENCE ? size : SEQUENCE;
    const size_t most = size >= WIDE * n ? 1 : WIDE * n >> shift; /* groups of a batch */
    const int reach = pithi_trellis_reach(s->bits, size);
    struct tables t;
    struct batch b;
    if (whole) tables_make(&t, s->bits);
    if (n < UNIT) memset(&b.paths, 0, sizeof b.paths); /* rows of whole units are read */
    for (size_t g = 0, groups; g < whole; g += groups) {
        groups = whole - g < most ? whole - g : most;
        open_groups(job, &t, g * size, groups, reach, &b);
        const size_t sequences = groups * size / n;
        for (size_t k = 0; k < sequences; k += WIDE)
            encode_sequences(job, &t, &b, g * size + k * n, n,
                             sequences - k < WIDE ? sequences - k : WIDE);
        close_groups(job, &t, g, groups, &b);
        if (job->update) update(job, g * size, groups * size);
    }
    if (job->count % size)
        scalar_part(job, whole * size, job->count % size, pithi_trellis_encode_c);
}

/* ---- Decode -----------------------------------------------------------------------------------*/
/* PART values are decoded at a time: those of whole groups, or of a whole number of sequences of
 * one. Their codes are copied, so that what is read beside them is there. Scales from 2^119 up,
 * where values could overflow, go to the scalar reference with the groups beside them. */
enum { PART = 2048, BEFORE = 16, READABLE = 64 };

/* For the dtype of a base: values are added to sums (pithi_group_job). */
enum { SUMS = 255 };

/* Puts values over their base by the scalar arithmetic: they are not 64, or one of them or of the
 * base is not finite. */
static __attribute__((noinline)) void update_scalar(struct pithi_group_job *job, size_t i,
                                                    const v16 x[4], size_t n) {
    float value[UNIT];
    for (size_t k = 0; k < 4; k++) v_store((uint8_t *)(value + 16 * k), x[k]);
    for (size_t k = 0; k < n; k++) {
        const uint32_t b = pithi_load(job->base, job->base_dtype, i + k);
        const uint32_t u = job->sums ? pithi_bits(pithi_float(b) + value[k])
                                     : pithi_group_update(b, pithi_bits(value[k]), job->base_dtype,
                                                          &job->saturated);
        if (job->update) pithi_store(job->base, job->base_dtype, i + k, u);
        if (job->out) pithi_store(job->out, job->out_dtype, i + k, u);
    }
}

ALWAYS void put16(uint8_t *to, uint32_t dtype, size_t i, v16 x, struct streamer *stream) {
    if (dtype == PITH_F32 && stream)
        v_stream(stream, to + 4 * i, x);
    else
        store(dtype, to, i, round_loosely(dtype, x));
}

/* Adds a unit to its sums; fetches codes of the frame's part that is added next. */
ALWAYS void add_unit(struct pithi_group_job *job, size_t i, const v16 x[4]) {
    uint8_t *const sum = (uint8_t *)job->base + 4 * i;
    __builtin_prefetch(job->codes + (i + PITHI_TRELLIS_SUMMED) * job->set.bits / 8);
    PITHI_UNROLL for (size_t k = 0; k < 4; k++)
        v_store(sum + 64 * k, f_add(v_load(sum + 64 * k), x[k]));
}

/* Decodes a unit of 64 values to `out` or, with a base of this dtype, to that and to any out. */
ALWAYS void put_unit(struct pithi_group_job *job, size_t i, const v16 x[4], uint32_t bt,
                     uint32_t ot, struct streamer *stream) {
    if (bt == SUMS) {
        add_unit(job, i, x);
        return;
    }
    uint8_t *const base = bt != PITH_NONE ? (uint8_t *)job->base + i * width(bt) : NULL;
    uint8_t *const out = job->out ? (uint8_t *)job->out + i * width(ot) : NULL;
    v16 y[4] = {x[0], x[1], x[2], x[3]};
    if (bt != PITH_NONE) {
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) y[k] =
            round_loosely(bt, f_add(load(bt, base, 16 * k), x[k]));
        if (__builtin_expect(some_overflow(y), 0)) {
            update_scalar(job, i, x, UNIT);
            return;
        }
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
            if (job->update) store(bt, base, 16 * k, y[k]);
            y[k] = tidy(bt, y[k]);
        }
        if (!out) return;
    }
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) put16(out, ot, 16 * k, y[k], stream);
}

/* Decodes the last values of a job, into a copy. */
static __attribute__((noinline)) void put_end(struct pithi_group_job *job, size_t i, size_t n,
                                              const v16 x[4]) {
    uint8_t out[UNIT * 4];
    if (job->base_dtype != PITH_NONE) {
        update_scalar(job, i, x, n);
        return;
    }
    PITHI_UNROLL for (size_t k = 0; k < 4; k++)
        store(job->out_dtype, out, 16 * k, round_loosely(job->out_dtype, x[k]));
    memcpy((uint8_t *)job->out + i * width(job->out_dtype), out, n * width(job->out_dtype));
}

/* Reads scales as f32; returns the largest magnitude's bits. */
static uint32_t read_scales(const struct pithi_group_job *job, size_t first, size_t groups,
                            float to[]) {
    const uint32_t dtype = job->set.scale_dtype;
    const uint8_t *from = job->scales + first * width(dtype);
    v16 most = v_set(0);
    for (size_t g = 0; g < groups; g += 16) {
        if (g + 16 <= groups)
            v_store((uint8_t *)(to + g), load(dtype, from, g));
        else
            for (size_t k = g; k < g + 16; k++)
                to[k] = pithi_float(k < groups ? pithi_load(from, dtype, k) : 0);
        most = v_maxu(most, magnitude16(v_load((const uint8_t *)(to + g))));
    }
    return v_reduce_maxu(most);
}

static void decoder_make(struct decoder *d, uint32_t bits);
static size_t decode_first(struct pithi_group_job *job);
/* Decodes n values from i on, whose scales fit. */
ALWAYS void decode_part(const struct decoder *d, struct pithi_group_job *job, size_t i, size_t n,
                        const float *scale, unsigned bits, uint32_t bt, uint32_t ot,
                        struct streamer *stream);

ALWAYS void decode_all(struct pithi_group_job *job, size_t from, unsigned bits, uint32_t bt,
                       uint32_t ot, bool streamed) {
    const size_t group = job->set.group;
    struct decoder d;
    float scale[PART / 16 + 16];
    struct streamer stream; /* nobody has its address, so that it stays in registers */
    decoder_make(&d, bits);
    v_stream_begin(&stream, job->out);
    for (size_t first = from, whole; first < job->count; first += whole) {
        whole = group > PART ? group : PART;
        whole = job->count - first < whole ? job->count - first : whole;
        if (read_scales(job, first / group, (whole + group - 1) / group, scale) >=
            PITHI_SCALE_LIMIT) {
            if (streamed) v_stream_end(&stream, (uint8_t *)job->out + first * width(ot));
            scalar_part(job, first, whole, pithi_trellis_decode_c);
            continue;
        }
        for (size_t i = 0, n; i < whole; i += n) {
            n = whole - i < PART ? whole - i : PART;
            decode_part(&d, job, first + i, n, scale + i / group, bits, bt, ot,
                        streamed ? &stream : NULL);
        }
    }
    if (streamed && job->count) v_stream_end(&stream, (uint8_t *)job->out + job->count * width(ot));
}

ALWAYS void decode_bits(struct pithi_group_job *job, size_t from, uint32_t bt, uint32_t ot,
                        bool streamed) {
    if (job->set.bits == 2)
        decode_all(job, from, 2, bt, ot, streamed);
    else if (job->set.bits == 3)
        decode_all(job, from, 3, bt, ot, streamed);
    else
        decode_all(job, from, 4, bt, ot, streamed);
}

static __attribute__((noinline)) void decode_f32(struct pithi_group_job *job) {
    if (job->nontemporal && v_stream_fits(job->out))
        decode_bits(job, 0, PITH_NONE, PITH_F32, true);
    else
        decode_bits(job, 0, PITH_NONE, PITH_F32, false);
}
static __attribute__((noinline)) void decode_bf16(struct pithi_group_job *job) {
    decode_bits(job, decode_first(job), PITH_NONE, PITH_BF16, false);
}
static __attribute__((noinline)) void decode_f16(struct pithi_group_job *job) {
    decode_bits(job, decode_first(job), PITH_NONE, PITH_F16, false);
}
static __attribute__((noinline)) void decode_sums(struct pithi_group_job *job) {
    decode_bits(job, 0, SUMS, PITH_F32, false);
}
static __attribute__((noinline)) void decode_base(struct pithi_group_job *job) {
    if (job->base_dtype == PITH_F32)
        decode_bits(job, 0, PITH_F32, job->out_dtype, false);
    else if (job->base_dtype == PITH_BF16)
        decode_bits(job, 0, PITH_BF16, job->out_dtype, false);
    else
        decode_bits(job, 0, PITH_F16, job->out_dtype, false);
}

static void trellis_decode(struct pithi_group_job *job) {
    if (job->sums)
        decode_sums(job);
    else if (job->base_dtype != PITH_NONE)
        decode_base(job);
    else if (!job->out)
        pithi_trellis_decode_c(job);
    else if (job->out_dtype == PITH_F32)
        decode_f32(job);
    else if (job->out_dtype == PITH_BF16)
        decode_bf16(job);
    else
        decode_f16(job);
}

#endif
