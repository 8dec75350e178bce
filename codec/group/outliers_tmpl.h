/* outliers_tmpl.h - the outliers of columns, written once over 16-lane vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has the lanes, and magnitude16 of group_encode_tmpl.h. Columns go in tiles of
 * 64, a column to a lane. The first pass keeps the largest magnitudes of each in order; the second
 * one takes what is above a threshold. That is exact: magnitudes are compared as integers, and as
 * soon as enough of those that equal the least one are taken it is the threshold itself. One
 * outlier of 16 bits needs no second pass, as the first one finds its place. What is not symmetric,
 * or not finite, goes column by column.
 *
 * Of groups that lie together one value after another is found as the largest integer of an order,
 * and taken out of it. What is no whole vectors, or not finite, goes to scalar C. */
#include "common/lanes_tmpl.h"
#include "group/outliers.h"
#include "group/outliers_value.h"

enum { TILE = 64, ROWS = 256, MOST = PITHI_OUTLIERS_MOST };

ALWAYS v16 vector_at(const uint32_t *p, size_t k) { return v_load((const uint8_t *)(p + 16 * k)); }
ALWAYS void set_vector(uint32_t *p, size_t k, v16 x) { v_store((uint8_t *)(p + 16 * k), x); }

/* ---- Groups that lie together ----------------------------------------------------------------*/

/* Ranks of values; what was taken has the least of all. */
enum { VECTORS = ROWS / 16 };
struct ranks {
    _Alignas(64) uint32_t rank[ROWS];
    size_t vectors;
};

ALWAYS int32_t highest(const struct ranks *r) {
    v16 most = v_set(0x80000000u);
    for (size_t k = 0; k < r->vectors; k++) most = v_maxi(most, vector_at(r->rank, k));
    return v_reduce_maxi(most);
}

/* Takes out the highest rank, of equal ones the first or the last; returns its place. */
ALWAYS uint32_t take_highest(struct ranks *r, bool last, int32_t *rank) {
    uint32_t place = 0;
    *rank = highest(r);
    for (size_t k = 0; k < r->vectors; k++) {
        const uint32_t mask =
            v_nonfinite(v_greater(vector_at(r->rank, k), v_set((uint32_t)*rank - 1)));
        if (!mask) continue;
        place =
            (uint32_t)(16 * k) + (uint32_t)(last ? 31 - __builtin_clz(mask) : __builtin_ctz(mask));
        if (!last) break;
    }
    r->rank[place] = 0x80000000u;
    return place;
}

struct taken {
    uint64_t bits[ROWS / 64]; /* which places */
    uint32_t instead;         /* bits of what is coded of them */
    uint32_t limit, largest;  /* bits of what others are clamped to, and of the largest of them */
};
ALWAYS void add_place(struct taken *t, uint32_t place) {
    t->bits[place / 64] |= UINT64_C(1) << place % 64;
}

/* Both choose as scalar C does; false where a value is not finite. */
ALWAYS bool take_sizes(struct taken *t, const struct pithi_group_setting *set, const uint8_t *value,
                       uint32_t dtype, size_t vectors, size_t most) {
    struct ranks r;
    int32_t least = 0;
    r.vectors = vectors;
    for (size_t k = 0; k < vectors; k++)
        set_vector(r.rank, k, magnitude16(load(dtype, value, 16 * k)));
    for (size_t k = 0; k < most; k++) {
        add_place(t, take_highest(&r, false, &least));
        if (k == 0 && least >= (int32_t)PITHI_F32_INF) return false;
    }
    t->largest = t->limit = (uint32_t)highest(&r);
    if (pithi_outliers_limited(set))
        t->limit = pithi_bits(pithi_outliers_limit(set, dtype, t->largest, (uint32_t)least));
    return true;
}

ALWAYS bool take_ends(struct taken *t, const uint8_t *value, uint32_t dtype, size_t vectors,
                      size_t most) {
    uint64_t below[MOST + 1], above[MOST + 1];
    struct ranks low, high;
    int32_t rank;
    low.vectors = high.vectors = vectors;
    for (size_t k = 0; k < vectors; k++) {
        const v16 x = v_ordered(load(dtype, value, 16 * k));
        set_vector(high.rank, k, x);
        set_vector(low.rank, k, v_xor(x, v_set(~0u)));
    }
    for (size_t k = 0; k <= most; k++) {
        const uint32_t first = take_highest(&low, false, &rank);
        below[k] = pithi_outlier_word(pithi_bits(pithi_from_ordered(~rank)), first);
        const uint32_t last = take_highest(&high, true, &rank);
        above[k] = ~pithi_outlier_word(pithi_bits(pithi_from_ordered(rank)), last);
        if (k == 0 && (pithi_nonfinite(pithi_bits(pithi_outlier_value(below[0]))) ||
                       pithi_nonfinite(pithi_bits(pithi_outlier_value(~above[0])))))
            return false;
    }
    const size_t from_above = pithi_outliers_above(below, above, most);
    for (size_t k = 0; k < most - from_above; k++) add_place(t, pithi_outlier_place(below[k]));
    for (size_t k = 0; k < from_above; k++) add_place(t, pithi_outlier_place(~above[k]));
    t->instead = pithi_bits(pithi_outlier_value(below[most - from_above]));
    return true;
}

ALWAYS bool take_group_as(const struct pithi_group_setting *set, uint8_t *value, uint32_t dtype,
                          size_t count, size_t most, uint8_t *places, uint8_t *exact) {
    struct taken t = {.instead = 0};
    size_t n = 0;
    if (!(set->asymmetric ? take_ends(&t, value, dtype, count / 16, most)
                          : take_sizes(&t, set, value, dtype, count / 16, most)))
        return false;
    for (size_t w = 0; w < ROWS / 64; w++)
        for (uint64_t bits = t.bits[w]; bits; bits &= bits - 1, n++) {
            const size_t i = 64 * w + (size_t)__builtin_ctzll(bits);
            places[n] = (uint8_t)i;
            memcpy(exact + n * width(dtype), value + i * width(dtype), width(dtype));
            pithi_store(value, dtype, i, t.instead);
        }
    for (size_t i = 0; t.limit != t.largest && i < count; i += 16) {
        const v16 x = load(dtype, value, i), m = magnitude16(x);
        store(dtype, value, i, v_xor(v_xor(x, m), v_mini(m, v_set(t.limit))));
    }
    return true;
}

static bool take_group(const struct pithi_group_setting *set, void *value, uint32_t dtype,
                       size_t count, size_t most, uint8_t *places, void *exact) {
    if (dtype == PITH_F32) return take_group_as(set, value, PITH_F32, count, most, places, exact);
    if (dtype == PITH_BF16) return take_group_as(set, value, PITH_BF16, count, most, places, exact);
    return take_group_as(set, value, PITH_F16, count, most, places, exact);
}

static void outliers_take_group(const struct pithi_group_setting *set, void *values, uint32_t dtype,
                                size_t count, size_t most, uint8_t *places, void *exact) {
    const bool fits = count % 16 == 0 && count <= ROWS && most > 0 && most < count && most <= MOST;
    if (!fits || !take_group(set, values, dtype, count, most, places, exact))
        pithi_outliers_take(set, values, dtype, count, most, places, exact);
}

/* ---- Columns ---------------------------------------------------------------------------------*/

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
    uint32_t place[TILE];              /* one outlier of 16 bits: where it is */
    uint8_t left[TILE];                /* how many that equal the least one are still to take */
    uint8_t taken[TILE];
    v16 top[4 * (MOST + 1)]; /* descending: four vectors of columns each */
};

/* Fetches the next tile's part of a row. */
ALWAYS void fetch_next(const uint8_t *row, uint32_t dtype) {
    for (size_t k = 0; k < TILE * width(dtype); k += 64)
        __builtin_prefetch(row + TILE * width(dtype) + k, 0, 3);
}

/* Enters magnitudes into the first `count` of each column. */
ALWAYS void enter(v16 *top, size_t count, v16 x) {
    for (size_t j = 0; j < count; j++) {
        const v16 t = top[4 * j];
        top[4 * j] = v_maxi(t, x);
        x = v_mini(t, x);
    }
}

/* Finds the first two of each column, in registers, and copies the rows to what is coded of them.
 * Values of 16 bits leave the low byte of a magnitude 0: it takes the place, counted from the end,
 * so that of equal ones the first is the largest. */
ALWAYS void find_places(struct tile *t, uint32_t dtype) {
    v16 a[4], b[4];
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) a[k] = b[k] = v_set(0);
    for (size_t i = 0; i < t->job->rows; i++) {
        const uint8_t *const row = t->value + (int64_t)i * t->row;
        const v16 place = v_set((uint32_t)(ROWS - 1 - i));
        fetch_next(row, dtype);
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
            const v16 m = v_add(magnitude16(load(dtype, row, 16 * k)), place);
            b[k] = v_maxi(b[k], v_mini(a[k], m));
            a[k] = v_maxi(a[k], m);
        }
        if (t->value == t->to) continue;
        v_store(t->to + i * t->to_row, v_load(row));
        v_store(t->to + i * t->to_row + 64, v_load(row + 64));
    }
    const v16 low = v_set(ROWS - 1), high = v_set(~(uint32_t)(ROWS - 1));
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
        t->top[k] = v_and(a[k], high), t->top[4 + k] = v_and(b[k], high);
        set_vector(t->place, k, v_xor(v_and(a[k], low), low));
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
        set_vector(t->least, k, least);
        set_vector(t->from, k, v_sub(least, one));
        set_vector(t->limit, k, t->top[4 * most + k]);
        uint32_t n[16];
        set_vector(n, 0, left);
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
    set_vector(m, 0, *magnitudes);
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
    v16 f0 = vector_at(t->from, 0), f1 = vector_at(t->from, 1), f2 = vector_at(t->from, 2);
    v16 f3 = vector_at(t->from, 3);
    const v16 l0 = vector_at(t->limit, 0), l1 = vector_at(t->limit, 1), l2 = vector_at(t->limit, 2);
    const v16 l3 = vector_at(t->limit, 3);
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

/* Clamps the values of a column, of 16 bits, to its limit. */
static __attribute__((noinline)) void clamp_column(const struct tile *t, size_t c, uint32_t dtype) {
    for (size_t i = 0; i < t->job->rows; i++) {
        uint8_t *const at = t->to + i * t->to_row;
        const uint32_t u = pithi_load(at, dtype, c), limit = t->limit[c];
        if (pithi_magnitude(u) > limit) pithi_store(at, dtype, c, (u & 0x80000000u) | limit);
    }
}

/* Takes what find_places found. */
ALWAYS void take_placed(struct tile *t, uint32_t dtype) {
    const struct pithi_outliers_job *const job = t->job;
    uint32_t second[TILE];
    PITHI_UNROLL for (size_t k = 0; k < 4; k++) set_vector(second, k, t->top[4 + k]);
    for (size_t c = 0; c < t->columns; c++) {
        uint8_t *const at = t->to + t->place[c] * t->to_row + c * 2;
        job->places[t->first + c] = (uint8_t)t->place[c];
        memcpy((uint8_t *)job->exact + (t->first + c) * 2, at, 2);
        memset(at, 0, 2);
        if (t->limit[c] != second[c]) clamp_column(t, c, dtype);
    }
}

ALWAYS void take_more(struct tile *t, uint32_t dtype) {
    for (size_t i = 0; i < t->job->rows; i++) {
        const uint8_t *const row = t->value + (int64_t)i * t->row;
        uint8_t *const to = t->to + i * t->to_row;
        fetch_next(row, dtype);
        PITHI_UNROLL for (size_t k = 0; k < 4; k++) {
            const v16 x = load(dtype, row, 16 * k), m = magnitude16(x);
            const v16 taken = v_greater(m, vector_at(t->from, k));
            if (v_any(taken)) {
                count_least(t, v_nonfinite(taken), k, &m);
                note(t, v_nonfinite(taken), k, i, row, dtype);
            }
            store(dtype, to, 16 * k, without(x, m, vector_at(t->limit, k), taken));
        }
    }
}

/* Takes columns one by one. */
static __attribute__((noinline)) void take_columns(const struct tile *t) {
    const struct pithi_outliers_job *const job = t->job;
    const size_t size = width(job->dtype), rows = job->rows;
    _Alignas(64) uint8_t values[ROWS * sizeof(float)];
    for (size_t c = 0; c < t->columns; c++) {
        for (size_t i = 0; i < rows; i++)
            memcpy(values + i * size, t->value + (int64_t)i * t->row + c * size, size);
        outliers_take_group(job->set, values, job->dtype, rows, job->most,
                            job->places + (t->first + c) * job->most,
                            (uint8_t *)job->exact + (t->first + c) * job->most * size);
        for (size_t i = 0; i < rows; i++)
            memcpy(t->to + i * t->to_row + c * size, values + i * size, size);
    }
}

ALWAYS void take_tile(struct tile *t, uint32_t dtype) {
    const bool one = t->job->most == 1, placed = one && width(dtype) == 2;
    if (placed)
        find_places(t, dtype);
    else if (one)
        find_two(t, dtype);
    else
        find_more(t, dtype);
    if (!open_takes(t, dtype))
        take_columns(t);
    else if (placed)
        take_placed(t, dtype);
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
        if (job->set->asymmetric)
            take_columns(&t);
        else if (t.columns == TILE)
            take_tile(&t, dtype);
        else
            take_rest(&t, dtype);
    }
}

/* Takes groups that lie together, where they lie. */
static void take_groups(const struct pithi_outliers_job *job) {
    const size_t size = width(job->dtype);
    for (size_t c = 0; c < job->columns; c++) {
        const uint8_t *const from = (const uint8_t *)job->value + c * job->apart * size;
        uint8_t *const to = (uint8_t *)job->others + c * job->others_apart * size;
        if (to != from) memcpy(to, from, job->rows * size);
        outliers_take_group(job->set, to, job->dtype, job->rows, job->most,
                            job->places + c * job->most,
                            (uint8_t *)job->exact + c * job->most * size);
    }
}

static void outliers_take(const struct pithi_outliers_job *job) {
    const bool columns = job->apart == 1 && job->others_apart == 1;
    if (job->stride == 1 && job->others_stride == 1)
        take_groups(job);
    else if (!columns || job->most == 0 || job->most >= job->rows || job->most > MOST)
        pithi_outliers_columns_c(job);
    else if (job->dtype == PITH_F32)
        take_tiles(job, PITH_F32);
    else if (job->dtype == PITH_BF16)
        take_tiles(job, PITH_BF16);
    else
        take_tiles(job, PITH_F16);
}
