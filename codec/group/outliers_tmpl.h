/* outliers_tmpl.h - the outliers of columns, written once over 16-lane vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has the lanes. Columns go in tiles of 64, a column to a lane. The first pass
 * keeps the largest magnitudes of each in order; the second one takes what is above a threshold.
 * That is exact: magnitudes are compared as integers, and as soon as enough of those that equal the
 * least one are taken it is the threshold itself. What is not symmetric, or not finite, goes to
 * scalar C. */
#include "common/lanes_tmpl.h"
#include "group/outliers.h"
#include "group/outliers_value.h"

enum { TILE = 64, ROWS = 256, MOST = PITHI_OUTLIERS_MOST };

/* Arrays have an entry for each column. */
struct tile {
    const struct pithi_outliers_job *job;
    size_t first, columns;
    const uint8_t *value; /* its values, and the bytes from one row of them to the next */
    int64_t row;
    uint8_t *to; /* what is coded of them */
    size_t to_row;
    _Alignas(64) uint32_t least[TILE]; /* the least magnitude taken */
    uint32_t from[TILE];               /* magnitudes above it are taken */
    uint32_t limit[TILE];              /* others are clamped to it */
    uint8_t left[TILE];                /* how many that equal the least one are still to take */
    uint8_t taken[TILE];
    v16 top[4 * (MOST + 1)]; /* descending: four vectors of columns each */
};

ALWAYS v16 magnitude16(v16 x) { return v_and(x, v_set(0x7FFFFFFFu)); }
ALWAYS v16 lanes_at(const uint32_t *p, size_t k) { return v_load((const uint8_t *)(p + 16 * k)); }
ALWAYS void set_lanes(uint32_t *p, size_t k, v16 x) { v_store((uint8_t *)(p + 16 * k), x); }

/* ---- The largest magnitudes ------------------------------------------------------------------*/

/* Enters magnitudes into the first `count` of each column. */
ALWAYS void enter(v16 *top, size_t count, v16 x) {
    for (size_t j = 0; j < count; j++) {
        const v16 t = top[4 * j];
        top[4 * j] = v_maxi(t, x);
        x = v_mini(t, x);
    }
}

/* Finds the first two of each column, in registers. */
ALWAYS void find_two(struct tile *t, uint32_t dtype) {
    v16 a[4], b[4];
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) a[k] = b[k] = v_set(0);
    for (size_t i = 0; i < t->job->rows; i++) {
        const uint8_t *const row = t->value + (int64_t)i * t->row;
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
            const v16 m = magnitude16(load(dtype, row, 16 * k));
            b[k] = v_maxi(b[k], v_mini(a[k], m));
            a[k] = v_maxi(a[k], m);
        }
    }
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) t->top[k] = a[k], t->top[4 + k] = b[k];
}

/* Most values are below all that were found so far. */
ALWAYS void find_more(struct tile *t, uint32_t dtype) {
    const size_t count = t->job->most + 1;
    for (size_t j = 0; j < 4 * count; j++) t->top[j] = v_set(0);
    for (size_t i = 0; i < t->job->rows; i++) {
        const uint8_t *const row = t->value + (int64_t)i * t->row;
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
            const v16 m = magnitude16(load(dtype, row, 16 * k));
            if (v_any(v_greater(m, t->top[4 * (count - 1) + k]))) enter(t->top + k, count, m);
        }
    }
}

/* ---- What is taken ---------------------------------------------------------------------------*/

/* Prepares the second pass; false where a value is not finite. */
ALWAYS bool open_takes(struct tile *t, uint32_t dtype) {
    const size_t most = t->job->most;
    const bool limited = pithi_outliers_limited(t->job->set);
    const v16 one = v_set(1);
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
        const v16 least = t->top[4 * (most - 1) + k];
        v16 left = v_set(1);
        if (v_reduce_maxu(t->top[k]) >= PITHI_F32_INF) return false;
        for (size_t j = 0; j + 1 < most; j++)
            left = v_add(left, v_and(v_greater(one, v_xor(t->top[4 * j + k], least)), one));
        set_lanes(t->least, k, least);
        set_lanes(t->from, k, v_sub(least, one));
        set_lanes(t->limit, k, t->top[4 * most + k]);
        uint32_t n[16];
        set_lanes(n, 0, left);
        for (size_t c = 0; c < 16; c++) t->left[16 * k + c] = (uint8_t)n[c];
    }
    for (size_t c = 0; limited && c < TILE; c++) {
        const uint32_t m = t->limit[c];
        if (pithi_outliers_near(pithi_float(m), pithi_float(t->least[c])))
            t->limit[c] = pithi_bits(pithi_outliers_limit(t->job->set, dtype, m, t->least[c]));
    }
    memset(t->taken, 0, sizeof t->taken);
    return true;
}

/* Fetches the next tile's part of a row. */
ALWAYS void fetch_next(const uint8_t *row, uint32_t dtype) {
    for (size_t k = 0; k < TILE * width(dtype); k += 64)
        __builtin_prefetch(row + TILE * width(dtype) + k, 0, 3);
}

/* Notes the outliers of 16 columns that row i has, at the lanes of a mask. */
ALWAYS void note(struct tile *t, uint32_t mask, size_t k, size_t i, const uint8_t *row,
                 uint32_t dtype) {
    const struct pithi_outliers_job *const job = t->job;
    for (; mask; mask &= mask - 1) {
        const size_t c = 16 * k + (size_t)__builtin_ctz(mask);
        const size_t at = (t->first + c) * job->most + t->taken[c]++;
        if (c >= t->columns) continue;
        job->places[at] = (uint8_t)i;
        memcpy((uint8_t *)job->exact + at * width(dtype), row + c * width(dtype), width(dtype));
    }
}

/* Lowers by one what is left of the least magnitudes of columns that took one. */
static __attribute__((noinline)) void count_least(struct tile *t, uint32_t mask, size_t k,
                                                  const v16 *magnitudes) {
    uint32_t m[16];
    set_lanes(m, 0, *magnitudes);
    for (; mask; mask &= mask - 1) {
        const size_t lane = (size_t)__builtin_ctz(mask), c = 16 * k + lane;
        if (m[lane] == t->least[c] && --t->left[c] == 0) t->from[c] = t->least[c];
    }
}

/* Returns a vector of a row without what was taken, the others clamped. */
ALWAYS v16 without(v16 x, v16 m, v16 limit, v16 taken) {
    const v16 clamped = v_xor(v_xor(x, m), v_mini(m, limit));
    return v_and(clamped, v_xor(taken, v_set(~0u)));
}

/* Takes at most one of each column: once it has, no magnitude is above its threshold. */
ALWAYS void take_first(struct tile *t, size_t i, size_t k, const uint8_t *row, uint8_t *to,
                       v16 *from, v16 limit, uint32_t dtype) {
    const v16 x = load(dtype, row, 16 * k), m = magnitude16(x);
    const v16 taken = v_greater(m, *from);
    if (__builtin_expect(v_any(taken), 0)) {
        *from = v_maxi(*from, v_and(taken, v_set(0x7FFFFFFFu)));
        note(t, v_nonfinite(taken), k, i, row, dtype);
    }
    store(dtype, to, 16 * k, without(x, m, limit, taken)); /* perhaps where it was */
}

ALWAYS void take_one(struct tile *t, uint32_t dtype) {
    v16 f0 = lanes_at(t->from, 0), f1 = lanes_at(t->from, 1), f2 = lanes_at(t->from, 2);
    v16 f3 = lanes_at(t->from, 3);
    const v16 l0 = lanes_at(t->limit, 0), l1 = lanes_at(t->limit, 1), l2 = lanes_at(t->limit, 2);
    const v16 l3 = lanes_at(t->limit, 3);
    for (size_t i = 0; i < t->job->rows; i++) {
        const uint8_t *const row = t->value + (int64_t)i * t->row;
        uint8_t *const to = t->to + i * t->to_row;
        fetch_next(row, dtype);
        take_first(t, i, 0, row, to, &f0, l0, dtype);
        take_first(t, i, 1, row, to, &f1, l1, dtype);
        take_first(t, i, 2, row, to, &f2, l2, dtype);
        take_first(t, i, 3, row, to, &f3, l3, dtype);
    }
}

ALWAYS void take_more(struct tile *t, uint32_t dtype) {
    for (size_t i = 0; i < t->job->rows; i++) {
        const uint8_t *const row = t->value + (int64_t)i * t->row;
        uint8_t *const to = t->to + i * t->to_row;
        fetch_next(row, dtype);
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
            const v16 x = load(dtype, row, 16 * k), m = magnitude16(x);
            const v16 taken = v_greater(m, lanes_at(t->from, k));
            if (v_any(taken)) {
                count_least(t, v_nonfinite(taken), k, &m);
                note(t, v_nonfinite(taken), k, i, row, dtype);
            }
            store(dtype, to, 16 * k, without(x, m, lanes_at(t->limit, k), taken));
        }
    }
}

/* ---- Tiles -----------------------------------------------------------------------------------*/

static __attribute__((noinline)) void scalar_tile(const struct tile *t) {
    const size_t size = width(t->job->dtype);
    struct pithi_outliers_job p = *t->job;
    p.columns = t->columns;
    p.value = t->value;
    p.stride = t->row / (int64_t)size;
    p.others = t->to;
    p.others_stride = t->to_row / size;
    p.places += t->first * p.most;
    p.exact = (uint8_t *)p.exact + t->first * p.most * size;
    pithi_outliers_columns_c(&p);
}

ALWAYS void take_tile(struct tile *t, uint32_t dtype) {
    const bool one = t->job->most == 1;
    if (one)
        find_two(t, dtype);
    else
        find_more(t, dtype);
    if (!open_takes(t, dtype))
        scalar_tile(t);
    else if (one)
        take_one(t, dtype);
    else
        take_more(t, dtype);
}

/* Takes columns that are no whole tile in copies that are. */
static __attribute__((noinline)) void take_rest(struct tile *t, uint32_t dtype) {
    uint8_t copy[ROWS * TILE * 4];
    const size_t bytes = t->columns * width(dtype), row = TILE * width(dtype);
    uint8_t *const to = t->to;
    for (size_t i = 0; i < t->job->rows; i++) {
        memcpy(copy + i * row, t->value + (int64_t)i * t->row, bytes);
        memset(copy + i * row + bytes, 0, row - bytes);
    }
    t->value = t->to = copy;
    t->row = (int64_t)row;
    t->to_row = row;
    take_tile(t, dtype);
    for (size_t i = 0; i < t->job->rows; i++)
        memcpy(to + i * t->job->others_stride * width(dtype), copy + i * row, bytes);
}

ALWAYS void take_tiles(const struct pithi_outliers_job *job, uint32_t dtype) {
    struct tile t;
    t.job = job;
    for (t.first = 0; t.first < job->columns; t.first += TILE) {
        t.columns = job->columns - t.first < TILE ? job->columns - t.first : TILE;
        t.value = (const uint8_t *)job->value + t.first * width(dtype);
        t.row = job->stride * (int64_t)width(dtype);
        t.to = (uint8_t *)job->others + t.first * width(dtype);
        t.to_row = job->others_stride * width(dtype);
        if (t.columns == TILE)
            take_tile(&t, dtype);
        else
            take_rest(&t, dtype);
    }
}

static void outliers_take(const struct pithi_outliers_job *job) {
    if (job->set->asymmetric || job->most == 0 || job->most >= job->rows || job->most > MOST)
        pithi_outliers_columns_c(job);
    else if (job->dtype == PITH_F32)
        take_tiles(job, PITH_F32);
    else if (job->dtype == PITH_BF16)
        take_tiles(job, PITH_BF16);
    else
        take_tiles(job, PITH_F16);
}
