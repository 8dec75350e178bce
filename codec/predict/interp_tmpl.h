/* interp_tmpl.h - runs of interpolation in 16 lanes, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and codec.h. */
#ifndef PITHI_PREDICT_INTERP_TMPL_H
#define PITHI_PREDICT_INTERP_TMPL_H

#include "common/lanes_tmpl.h"

struct level {
    const struct pithi_interp_run *run;
    v16 bound, step, inverse;
};

ALWAYS struct level level_of(const struct pithi_interp_run *run) {
    return (struct level){.run = run,
                          .bound = v_set(pithi_bits(run->bound)),
                          .step = v_set(pithi_bits(run->step)),
                          .inverse = v_set(pithi_bits(run->inverse))};
}

ALWAYS v16 v_near(const float *p, size_t i) { return v_load((const uint8_t *)(p + i)); }
ALWAYS v16 f_times(v16 x, float factor) { return f_mul(x, v_set(pithi_bits(factor))); }

ALWAYS v16 predicted(const struct pithi_interp_run *r, enum pithi_interp_kind kind, size_t i) {
    const v16 a = v_near(r->a, i);
    switch (kind) {
    case PITHI_INTERP_CUBIC:
        return f_sub(f_times(f_add(a, v_near(r->b, i)), 0.5625f),
                     f_times(f_add(v_near(r->c, i), v_near(r->e, i)), 0.0625f));
    case PITHI_INTERP_LEFT:
        return f_sub(f_add(f_times(a, 0.75f), f_times(v_near(r->b, i), 0.375f)),
                     f_times(v_near(r->c, i), 0.125f));
    case PITHI_INTERP_RIGHT:
        return f_sub(f_add(f_times(a, 0.375f), f_times(v_near(r->b, i), 0.75f)),
                     f_times(v_near(r->e, i), 0.125f));
    case PITHI_INTERP_LINEAR: return f_times(f_add(a, v_near(r->b, i)), 0.5f);
    case PITHI_INTERP_BEYOND: return f_sub(f_times(a, 1.5f), f_times(v_near(r->c, i), 0.5f));
    default: return a;
    }
}

ALWAYS v16 magnitude(v16 x) { return v_and(x, v_set(0x7FFFFFFFu)); }
/* Sets all ones where |x| < limit; NaN is not. */
ALWAYS v16 below(v16 x, v16 limit) { return v_greater(limit, magnitude(x)); }

ALWAYS v16 rebuild(const struct level *l, v16 predicted, v16 q) {
    const v16 y = f_add(predicted, f_mul(f_from_i(q), l->step));
    return v_and(y, below(y, v_set(PITHI_F32_INF)));
}

/* Encodes 16 values at i; all ones in the lanes that are missed. */
ALWAYS v16 encode16(const struct level *l, enum pithi_interp_kind kind, uint32_t dtype,
                    unsigned apart, const uint8_t *x, size_t i, float *y, uint32_t *words) {
    const v16 value = apart == 1 ? v_load(x + 4 * i) : v_load_every_other(x + 8 * i);
    const v16 p = predicted(l->run, kind, i);
    const v16 t = f_mul(f_sub(value, p), l->inverse);
    v16 q = f_round_to_i(t), rebuilt = rebuild(l, p, q);
    v16 kept = v_and(below(t, v_set(pithi_bits((float)PITHI_QUANT_LIMIT))),
                     below(f_sub(value, round_to(dtype, rebuilt)), l->bound));
    if (l->run->signed_zeros) kept = v_and(kept, v_greater(value, v_set(0x80000000u)));
    const v16 missed = v_xor(kept, v_set(0xFFFFFFFFu));
    v16 word = v_xor(v_add(q, q), v_sar31(q));
    if (__builtin_expect(v_any(missed), 0)) {
        q = v_and(q, kept);
        rebuilt = rebuild(l, p, q);
        word = v_xor(v_and(word, kept), missed);
    }
    v_store((uint8_t *)(y + i), rebuilt);
    v_store((uint8_t *)(words + i), word);
    return missed;
}

/* Encodes n >= 16 values: the last vector ends with the run, and may do some elements again. */
ALWAYS bool encode_all(const struct pithi_interp_run *run, enum pithi_interp_kind kind,
                       uint32_t dtype, unsigned apart, const uint8_t *x, size_t n, float *y,
                       uint32_t *words) {
    const struct level l = level_of(run);
    v16 missed = v_set(0);
    size_t i = 0;
    for (; i + 16 < n; i += 16)
        missed = v_maxu(missed, encode16(&l, kind, dtype, apart, x, i, y, words));
    return v_any(v_maxu(missed, encode16(&l, kind, dtype, apart, x, n - 16, y, words)));
}

ALWAYS bool encode_dtype(const struct pithi_interp_run *run, enum pithi_interp_kind kind,
                         const uint8_t *x, size_t n, float *y, uint32_t *words) {
    if (run->dtype == PITH_F32) return encode_all(run, kind, PITH_F32, 1, x, n, y, words);
    return encode_all(run, kind, run->dtype, 1, x, n, y, words);
}

/* Values every other one apart: those of rows, and of weighted interpolation. */
static bool encode_apart(const struct pithi_interp_run *run, const uint8_t *x, size_t n, float *y,
                         uint32_t *words) {
    const bool f32 = run->dtype == PITH_F32;
    if (run->kind == PITHI_INTERP_COPY)
        return f32 ? encode_all(run, PITHI_INTERP_COPY, PITH_F32, 2, x, n, y, words)
                   : encode_all(run, PITHI_INTERP_COPY, run->dtype, 2, x, n, y, words);
    if (run->kind == PITHI_INTERP_CUBIC)
        return f32 ? encode_all(run, PITHI_INTERP_CUBIC, PITH_F32, 2, x, n, y, words)
                   : encode_all(run, PITHI_INTERP_CUBIC, run->dtype, 2, x, n, y, words);
    return pithi_interp_encode_c(run, x, n, y, words);
}

static bool interp_encode(const struct pithi_interp_run *run, const void *values, size_t n,
                          float *y, uint32_t *words) {
    const uint8_t *const x = values;
    if (n < 16) return pithi_interp_encode_c(run, values, n, y, words);
    if (run->apart != 1) return encode_apart(run, x, n, y, words);
    switch (run->kind) {
    case PITHI_INTERP_CUBIC: return encode_dtype(run, PITHI_INTERP_CUBIC, x, n, y, words);
    case PITHI_INTERP_LEFT: return encode_dtype(run, PITHI_INTERP_LEFT, x, n, y, words);
    case PITHI_INTERP_RIGHT: return encode_dtype(run, PITHI_INTERP_RIGHT, x, n, y, words);
    case PITHI_INTERP_LINEAR: return encode_dtype(run, PITHI_INTERP_LINEAR, x, n, y, words);
    case PITHI_INTERP_BEYOND: return encode_dtype(run, PITHI_INTERP_BEYOND, x, n, y, words);
    default: return encode_dtype(run, PITHI_INTERP_COPY, x, n, y, words);
    }
}

/* Adds a term of so many neighbours to vectors at i, of which there are 1 or 2. */
ALWAYS void add_neighbours(v16 sum[2], unsigned vectors, const float *from,
                           const ptrdiff_t *distance, size_t points, float weight) {
    PITHI_UNROLL for (unsigned v = 0; v < vectors; v++) {
        v16 x = f_add(v_near(from + distance[0], 16 * v), v_near(from + distance[1], 16 * v));
        PITHI_UNROLL for (size_t k = 2; k < points; k++) x =
            f_add(x, v_near(from + distance[k], 16 * v));
        sum[v] = f_add(sum[v], f_times(x, weight));
    }
}

ALWAYS void weigh_vectors(const struct pithi_interp_terms *t, unsigned vectors, size_t i,
                          float *to) {
    const ptrdiff_t *distance = t->distance;
    const float *const from = t->from + i;
    v16 sum[2] = {v_set(0), v_set(0)};
    for (size_t k = 0; k < t->terms; distance += t->points[k++]) {
        if (t->points[k] == 2) add_neighbours(sum, vectors, from, distance, 2, t->weight[k]);
        if (t->points[k] == 4) add_neighbours(sum, vectors, from, distance, 4, t->weight[k]);
        if (t->points[k] == 8) add_neighbours(sum, vectors, from, distance, 8, t->weight[k]);
    }
    for (unsigned v = 0; v < vectors; v++) v_store((uint8_t *)(to + i + 16 * v), sum[v]);
}

/* The last vector ends with the values, and may do some again. */
static void interp_weigh(const struct pithi_interp_terms *t, size_t n, float *to) {
    if (n < 16) {
        pithi_interp_weigh_c(t, n, to);
        return;
    }
    size_t i = 0;
    for (; i + 32 <= n; i += 32) weigh_vectors(t, 2, i, to);
    if (i + 16 <= n) {
        weigh_vectors(t, 1, i, to);
        i += 16;
    }
    if (i < n) weigh_vectors(t, 1, n - 16, to);
}

ALWAYS d16 d_all(double x) { return d_set(x, x); }

/* Sets what weights leave of 16 values, and what each value counts. False where one does not. */
ALWAYS bool fit_left(const struct pithi_interp_sample *s, size_t i, double *left, double *share) {
    d16 x = d_widen(v_near(s->value, i));
    for (size_t k = 0; k < s->terms; k++)
        x = d_sub(x, d_mul(d_widen(v_near(s->term[k], i)), d_all(s->weight[k])));
    const d16 size = d_magnitude(x);
    if (!d_below(size, 1e30)) return false;
    d_store(left + i, left + i + 8, x);
    d_store(share + i, share + i + 8, d_div(d_all(1), d_add(size, d_all(s->step))));
    return true;
}

enum { FITTED = PITHI_WEIGHTED_SAMPLE, TERMS = PITHI_WEIGHTED_TERMS };

/* Sets the terms of 16 values, zeros behind them. */
ALWAYS void fit_terms(const struct pithi_interp_sample *s, size_t i, double (*term)[TERMS]) {
    v16 x[16];
    for (size_t k = 0; k < 16; k++) x[k] = k < s->terms ? v_near(s->term[k], i) : v_set(0);
    v_transpose(x);
    for (size_t k = 0; k < 16; k++) d_store(term[i + k], term[i + k] + 8, d_widen(x[k]));
}

/* Adds products to the first 8 columns of rows k to k + 3 of the matrix or, `whole`, to all columns
 * of rows k and k + 1. */
ALWAYS void fit_rows(const double (*term)[TERMS], const double (*shared)[TERMS], size_t values,
                     size_t k, bool whole, struct pithi_equations *e) {
    double *const p = e->matrix[k], *const q = e->matrix[k + 1];
    double *const p2 = whole ? p + 8 : q, *const q2 = whole ? q + 8 : e->matrix[k + 3];
    double *const q1 = whole ? q : e->matrix[k + 2];
    d16 a = d_load(p, p2), b = d_load(q1, q2);
    for (size_t i = 0; i < values; i++) {
        const double *const t = term[i], *const w = shared[i] + k;
        const d16 x = d_load(t, whole ? t + 8 : t);
        a = d_add(a, d_mul(whole ? d_all(w[0]) : d_set(w[0], w[1]), x));
        b = d_add(b, d_mul(whole ? d_all(w[1]) : d_set(w[2], w[3]), x));
    }
    d_store(p, p2, a);
    d_store(q1, q2, b);
}

/* Lanes are the terms of a value: sums of all weights' equations go on from value to value. */
static void interp_fit(const struct pithi_interp_sample *s, struct pithi_equations *e) {
    double term[FITTED][TERMS], shared[FITTED][TERMS], left[FITTED], share[FITTED];
    const size_t values = s->count;
    bool all = values % 16 == 0;
    for (size_t i = 0; all && i < values; i += 16) all = fit_left(s, i, left, share);
    if (!all) {
        pithi_interp_fit_c(s, e);
        return;
    }
    for (size_t i = 0; i < values; i += 16) fit_terms(s, i, term);
    d16 sum = d_load(e->vector, e->vector + 8);
    for (size_t i = 0; i < values; i++) {
        const d16 x = d_mul(d_load(term[i], term[i] + 8), d_all(share[i]));
        d_store(shared[i], shared[i] + 8, x);
        sum = d_add(sum, d_mul(x, d_all(left[i])));
    }
    d_store(e->vector, e->vector + 8, sum);
    for (size_t k = 0; k < s->terms && k < 8; k += 4) fit_rows(term, shared, values, k, false, e);
    for (size_t k = 8; k < s->terms; k += 2) fit_rows(term, shared, values, k, true, e);
}

ALWAYS void decode16(const struct level *l, enum pithi_interp_kind kind, const uint32_t *words,
                     size_t i, float *y) {
    const v16 word = v_load((const uint8_t *)(words + i));
    const v16 negative = v_greater(v_and(word, v_set(1)), v_set(0));
    const v16 q = v_xor(v_shr(word, 1), negative);
    v_store((uint8_t *)(y + i), rebuild(l, predicted(l->run, kind, i), q));
}

ALWAYS void decode_all(const struct pithi_interp_run *run, enum pithi_interp_kind kind,
                       const uint32_t *words, size_t n, float *y) {
    const struct level l = level_of(run);
    size_t i = 0;
    for (; i + 16 < n; i += 16) decode16(&l, kind, words, i, y);
    decode16(&l, kind, words, n - 16, y);
}

static void interp_decode(const struct pithi_interp_run *run, const uint32_t *words, size_t n,
                          float *y) {
    if (n < 16) {
        pithi_interp_decode_c(run, words, n, y);
        return;
    }
    switch (run->kind) {
    case PITHI_INTERP_CUBIC: decode_all(run, PITHI_INTERP_CUBIC, words, n, y); break;
    case PITHI_INTERP_LEFT: decode_all(run, PITHI_INTERP_LEFT, words, n, y); break;
    case PITHI_INTERP_RIGHT: decode_all(run, PITHI_INTERP_RIGHT, words, n, y); break;
    case PITHI_INTERP_LINEAR: decode_all(run, PITHI_INTERP_LINEAR, words, n, y); break;
    case PITHI_INTERP_BEYOND: decode_all(run, PITHI_INTERP_BEYOND, words, n, y); break;
    default: decode_all(run, PITHI_INTERP_COPY, words, n, y);
    }
}

#endif
