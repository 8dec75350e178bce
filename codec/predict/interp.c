/* interp.c - the levels of a tile, in f32 and in f64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/interp.h"

#include <float.h>
#include <string.h>

#include "common/convert.h"
#include "common/log2.h"
#include "common/pad.h"
#include "common/popcount.h"
#include "predict/lorenzo.h"

enum { LINE = 1024 };

static unsigned levels_of(const uint32_t extent[PITHI_TILE_NDIM]) {
    unsigned levels = 0;
    for (size_t d = 0; d < PITHI_TILE_NDIM; d++)
        while ((extent[d] - 1) >> levels) levels++;
    return levels;
}

/* ---- f32, and bf16 and f16 in f32 ------------------------------------------------------------*/

static inline float f32_rounded(uint32_t dtype, float y) {
    if (dtype == PITH_F32) return y;
    const uint32_t u = pithi_bits(y);
    return pithi_float(dtype == PITH_BF16 ? pithi_from_bf16(pithi_to_bf16(u))
                                          : pithi_from_f16(pithi_to_f16(u)));
}
static inline bool f32_negative_zero(float x) { return pithi_bits(x) == 0x80000000u; }

static inline float f32_inverse(float step) { return pithi_quant_inverse(step); }

/* Gathers count elements of the dtype, `step` apart. */
static void f32_gather_row(uint32_t dtype, const uint8_t *from, size_t step, size_t count,
                           float *to) {
    if (dtype == PITH_F32)
        for (size_t i = 0; i < count; i++) memcpy(&to[i], from + 4 * i * step, 4);
    else
        for (size_t i = 0; i < count; i++) to[i] = pithi_float(pithi_load(from, dtype, i * step));
}
static void f32_interleave(float *to, const float *even, const float *odd, size_t count) {
    for (size_t i = 0; i < count; i++) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

#define REAL float
#define LARGEST FLT_MAX
#define ROUND 0x1.8p23f
#define RUN struct pithi_interp_run
#define NAME(x) f32_##x
#define ENCODE(w) (w)->t->encode
#define DECODE(w) (w)->t->decode
#include "predict/interp_walk.h"
#undef REAL
#undef LARGEST
#undef ROUND
#undef RUN
#undef NAME
#undef ENCODE
#undef DECODE

bool pithi_interp_encode_c(const struct pithi_interp_run *run, const void *x, size_t n, float *y,
                           uint32_t *words) {
    return f32_encode_run(run, x, n, y, words);
}
void pithi_interp_decode_c(const struct pithi_interp_run *run, const uint32_t *words, size_t n,
                           float *y) {
    f32_decode_run(run, words, n, y);
}

static void add2(float *restrict y, const float *from, const ptrdiff_t d[], float w, size_t n) {
    const float *const a = from + d[0], *const b = from + d[1];
    for (size_t i = 0; i < n; i++) y[i] = y[i] + w * (a[i] + b[i]);
}
static void add4(float *restrict y, const float *from, const ptrdiff_t d[], float w, size_t n) {
    const float *const a = from + d[0], *const b = from + d[1];
    const float *const c = from + d[2], *const e = from + d[3];
    for (size_t i = 0; i < n; i++) y[i] = y[i] + w * (((a[i] + b[i]) + c[i]) + e[i]);
}
static void add8(float *restrict y, const float *from, const ptrdiff_t d[], float w, size_t n) {
    const float *const a = from + d[0], *const b = from + d[1];
    const float *const c = from + d[2], *const e = from + d[3];
    const float *const f = from + d[4], *const g = from + d[5];
    const float *const h = from + d[6], *const k = from + d[7];
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] + w * (((((((a[i] + b[i]) + c[i]) + e[i]) + f[i]) + g[i]) + h[i]) + k[i]);
}

void pithi_interp_weigh_c(const struct pithi_interp_terms *t, size_t n, float *y) {
    const ptrdiff_t *distance = t->distance;
    memset(y, 0, n * sizeof *y);
    for (size_t k = 0; k < t->terms; distance += t->points[k++]) {
        if (t->points[k] == 2) add2(y, t->from, distance, t->weight[k], n);
        if (t->points[k] == 4) add4(y, t->from, distance, t->weight[k], n);
        if (t->points[k] == 8) add8(y, t->from, distance, t->weight[k], n);
    }
}

/* The equations of a row of weights; of the symmetric matrix the first `count` columns are set. */
static void add_products(const double (*term)[PITHI_WEIGHTED_TERMS], const double *share,
                         size_t values, size_t k, size_t count, double *row) {
    for (size_t i = 0; i < values; i++) {
        const double shared = term[i][k] * share[i];
        for (size_t m = 0; m < count; m++) row[m] += shared * term[i][m];
    }
}

void pithi_interp_fit_c(const struct pithi_interp_sample *s, struct pithi_equations *e) {
    double term[PITHI_WEIGHTED_SAMPLE][PITHI_WEIGHTED_TERMS];
    double left[PITHI_WEIGHTED_SAMPLE], share[PITHI_WEIGHTED_SAMPLE];
    size_t values = 0;
    for (size_t i = 0; i < s->count; i++) {
        double x = s->value[i];
        for (size_t k = 0; k < s->terms; k++) {
            term[values][k] = s->term[k][i];
            x -= term[values][k] * s->weight[k];
        }
        if (!(x < 1e30 && x > -1e30)) continue;
        left[values] = x;
        /* Large differences count linearly, since so about grows what their words take. */
        share[values++] = 1 / ((x < 0 ? -x : x) + s->step);
    }
    for (size_t k = 0; k < s->terms; k++) {
        add_products(term, share, values, k, k + 1, e->matrix[k]);
        for (size_t i = 0; i < values; i++) e->vector[k] += term[i][k] * share[i] * left[i];
    }
}

/* ---- f64 -------------------------------------------------------------------------------------*/

struct f64_run {
    enum pithi_interp_kind kind;
    const double *a, *b, *c, *e;
    uint32_t dtype;
    bool signed_zeros;
    double bound, step, inverse;
    unsigned apart;
};

static inline double f64_rounded(uint32_t dtype, double y) {
    (void)dtype;
    return y;
}
static inline bool f64_negative_zero(double x) {
    return pithi_get64(&x) == UINT64_C(0x8000000000000000);
}
static inline double f64_inverse(double step) { return pithi_quant_inverse64(step); }
static void f64_gather_row(uint32_t dtype, const uint8_t *from, size_t step, size_t count,
                           double *to) {
    (void)dtype;
    for (size_t i = 0; i < count; i++) memcpy(&to[i], from + 8 * i * step, 8);
}
static void f64_interleave(double *to, const double *even, const double *odd, size_t count) {
    for (size_t i = 0; i < count; i++) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

#define REAL double
#define LARGEST DBL_MAX
#define ROUND 0x1.8p52
#define RUN struct f64_run
#define NAME(x) f64_##x
#define ENCODE(w) f64_encode_run
#define DECODE(w) f64_decode_run
#include "predict/interp_walk.h"

/* ---- Any dtype -------------------------------------------------------------------------------*/

size_t pithi_interp_coarse(const uint32_t extent[PITHI_TILE_NDIM]) {
    size_t count = 1;
    for (size_t d = 0; d < PITHI_TILE_NDIM; d++) count *= extent[d] - extent[d] / 2;
    return count;
}

size_t pithi_interp_scratch(size_t max_count, uint32_t dtype) {
    const size_t half = max_count - max_count / 2, real = dtype == PITH_F64 ? 8 : 4;
    const size_t gathered = dtype == PITH_F64 || dtype == PITH_F32 ? half : max_count;
    return pithi_pad64(max_count * real) + pithi_pad64(half * real) + 2 * LINE * real +
           pithi_pad64(gathered * real);
}

static size_t count_of(const struct pithi_interp *t) {
    return (size_t)t->extent[0] * t->extent[1] * t->extent[2] * t->extent[3];
}

static struct f32_walk walk32(const struct pithi_interp *t) {
    struct f32_walk w = {.t = t};
    w.run.dtype = t->quant->dtype;
    w.run.signed_zeros = t->quant->signed_zeros;
    w.run.bound = t->quant->bound;
    return w;
}
static struct f64_walk walk64(const struct pithi_interp *t) {
    struct f64_walk w = {.t = t};
    w.run.dtype = PITH_F64;
    w.run.signed_zeros = t->quant->signed_zeros;
    w.run.bound = t->quant->bound64;
    return w;
}

size_t pithi_interp_encode(const struct pithi_interp *t, const void *values, uint32_t *words,
                           uint8_t *miss) {
    memset(miss, 0, (count_of(t) + 7) / 8);
    if (t->quant->dtype == PITH_F64) {
        struct f64_walk w = walk64(t);
        f64_place(&w, count_of(t));
        w.values = values, w.words = words, w.miss = miss;
        f64_levels(&w);
        return w.misses;
    }
    struct f32_walk w = walk32(t);
    f32_place(&w, count_of(t));
    w.values = values, w.words = words, w.miss = miss;
    f32_levels(&w);
    return w.misses;
}

/* Returns the dimension in which the finest level ends: the first of more than one element, else
 * the last. */
static unsigned last_of(const uint32_t extent[PITHI_TILE_NDIM]) {
    unsigned d = 0;
    while (d < PITHI_TILE_NDIM - 1 && extent[d] == 1) d++;
    return d;
}

/* Returns how many values are at even places along that dimension, or, for a row, on the level
 * before the coarse grid. */
static size_t half_of(const uint32_t extent[PITHI_TILE_NDIM]) {
    const unsigned last = last_of(extent);
    if (last == PITHI_TILE_NDIM - 1) return extent[last] / 4 + 1;
    size_t count = extent[last] - extent[last] / 2;
    for (unsigned d = last + 1; d < PITHI_TILE_NDIM; d++) count *= extent[d];
    return count;
}

size_t pithi_interp_decode_scratch(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype) {
    const size_t real = dtype == PITH_F64 ? 8 : 4;
    return 2 * LINE * real + pithi_pad64(half_of(extent) * real) +
           pithi_pad64(pithi_interp_coarse(extent) * real);
}

void pithi_interp_decode_coarse(const struct pithi_interp *t) {
    if (t->quant->dtype == PITH_F64) {
        struct f64_walk w = walk64(t);
        f64_place_read(&w, half_of(t->extent));
        f64_coarse_levels(&w, levels_of(t->extent), 1);
    } else {
        struct f32_walk w = walk32(t);
        f32_place_read(&w, half_of(t->extent));
        f32_coarse_levels(&w, levels_of(t->extent), 1);
    }
}

void pithi_interp_decode_finest(const struct pithi_interp *t, const struct pithi_sink *to) {
    if (t->quant->dtype == PITH_F64) {
        struct f64_walk w = walk64(t);
        f64_place_read(&w, half_of(t->extent));
        f64_finest(&w, last_of(t->extent), to);
    } else {
        struct f32_walk w = walk32(t);
        f32_place_read(&w, half_of(t->extent));
        f32_finest(&w, last_of(t->extent), to);
    }
}

/* ---- Weighted interpolation ------------------------------------------------------------------*/

#include "predict/interp_weighted.h"

bool pithi_weighted_can(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype) {
    return dtype != PITH_F64 && pithi_weighted_fits(extent);
}

size_t pithi_weighted_count(const uint32_t extent[PITHI_TILE_NDIM], unsigned parities) {
    size_t side[SIDES], count = 1;
    sides_of(extent, 0, side);
    for (size_t d = 0; d < SIDES; d++) count *= places_of(side, parities, d);
    return count;
}

unsigned pithi_weighted_terms(const uint32_t extent[PITHI_TILE_NDIM], unsigned parities) {
    size_t side[SIDES];
    sides_of(extent, 0, side);
    return class_of(side, parities).count;
}

/* Returns the floats of memory for tiles of at most this extent that can be, 0 where none can. */
static size_t weighted_floats(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype, bool reads) {
    struct f32_walk w;
    struct grid grid[PITHI_WEIGHTED_LEVELS];
    uint32_t most[PITHI_TILE_NDIM];
    if (dtype == PITH_F64 || extent[3] < PITHI_WEIGHTED_LAST_MIN) return 0;
    for (size_t d = 0; d < PITHI_TILE_NDIM; d++)
        most[d] = d == 3 || (d && extent[d] >= PITHI_WEIGHTED_SIDE_MIN) ? extent[d] : 1;
    return place_weighted(&w, most, reads, NULL, grid);
}

size_t pithi_weighted_decode_scratch(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype) {
    return weighted_floats(extent, dtype, true) * sizeof(float);
}

size_t pithi_weighted_scratch(const uint32_t extent[PITHI_TILE_NDIM], uint32_t dtype) {
    const size_t floats = weighted_floats(extent, dtype, false);
    const size_t gathered = dense_floats(extent, dtype == PITH_F32 ? 1 : 0);
    return floats ? (floats + padded(gathered)) * sizeof(float) : 0;
}

size_t pithi_weighted_encode(const struct pithi_interp *t, const void *values, uint32_t *words,
                             uint8_t *miss, struct pithi_weights *weights) {
    struct grid grid[PITHI_WEIGHTED_LEVELS];
    struct f32_walk w = walk32(t);
    place_weighted(&w, t->extent, false, t->scratch, grid);
    memset(miss, 0, (count_of(t) + 7) / 8);
    memset(weights, 0, sizeof *weights);
    w.values = values, w.words = words, w.miss = miss;
    f32_coarse_levels(&w, levels_of(t->extent), PITHI_WEIGHTED_LEVELS);
    begin_of_dense(&grid[1], w.fine);
    for (unsigned level = PITHI_WEIGHTED_LEVELS; level--;) {
        const struct grid *const g = &grid[level];
        f32_begin_level(&w, level);
        for (unsigned k = 0; k < CLASSES; k++) {
            if (!has_class(g->side, k + 1)) continue;
            struct class c = class_of(g->side, k + 1);
            if (choose_weights(&w, g, &c, weights->of[level][k]))
                weights->set[level] = (uint8_t)(weights->set[level] | 1u << k);
            code_class(&w, g, &c);
        }
        if (level) begin_of(&grid[level - 1], g);
    }
    return w.misses;
}

/* Returns a class of a level that is decoded. */
static struct class read_class(const struct grid *g, unsigned level,
                               const struct pithi_weights *weights, unsigned parities) {
    struct class c = class_of(g->side, parities);
    if (weights->set[level] >> (parities - 1) & 1)
        set_weights(&c, weights->of[level][parities - 1]);
    return c;
}

void pithi_weighted_decode_coarse(const struct pithi_interp *t,
                                  const struct pithi_weights *weights) {
    struct grid grid[PITHI_WEIGHTED_LEVELS];
    struct f32_walk w = walk32(t);
    place_weighted(&w, t->extent, true, t->scratch, grid);
    f32_coarse_levels(&w, levels_of(t->extent), PITHI_WEIGHTED_LEVELS);
    begin_of_dense(&grid[1], w.fine);
    f32_begin_level(&w, 1);
    for (unsigned k = 1; k <= CLASSES; k++) {
        if (!has_class(grid[1].side, k)) continue;
        const struct class c = read_class(&grid[1], 1, weights, k);
        code_class(&w, &grid[1], &c);
    }
}

/* What reads the classes of the finest level. */
struct reader {
    struct pithi_interp tile[CLASSES];
    struct f32_walk walk[CLASSES];
    struct class class[CLASSES];
};

/* Decodes the next plane of a class, or what else is done with it. */
static void take_plane(struct reader *r, const struct grid grid[PITHI_WEIGHTED_LEVELS], unsigned k,
                       size_t j1, const struct pithi_sink *to) {
    const struct grid *const g = &grid[0];
    if (k == 0) {
        begin_plane(g, &grid[1], j1);
    } else if (k == PUT) {
        put_plane(&r->walk[0], g, j1, to);
    } else {
        struct pithi_interp_terms terms = terms_of(g, &r->class[k - 1], j1);
        code_plane(&r->walk[k - 1], g, &r->class[k - 1], &terms, NULL, j1);
    }
}

/* Decodes planes of all classes in turn. What needs most goes first: so the fewest planes are
 * waited for. */
static void take_planes(struct reader *r, const struct grid grid[PITHI_WEIGHTED_LEVELS],
                        const struct pithi_sink *to) {
    struct progress progress;
    begin_progress(&grid[0], &progress);
    while (progress.done[PUT] < grid[0].side[0]) {
        unsigned k = PUT;
        while (k && !can_go(&progress, k)) k--;
        take_plane(r, grid, k, plane_at(k, progress.done[k]++), to);
    }
}

void pithi_weighted_decode_finest(const struct pithi_interp *t, const struct pithi_weights *weights,
                                  void *const next_args[PITHI_WEIGHTED_CLASSES],
                                  const struct pithi_sink *to) {
    struct grid grid[PITHI_WEIGHTED_LEVELS];
    struct reader r;
    const struct grid *const g = &grid[0];
    for (unsigned k = 0; k < CLASSES; k++) {
        r.tile[k] = *t;
        r.tile[k].next_arg = next_args[k];
        r.walk[k] = walk32(&r.tile[k]);
        place_weighted(&r.walk[k], t->extent, true, t->scratch, grid);
        f32_begin_level(&r.walk[k], 0);
        if (has_class(g->side, k + 1)) r.class[k] = read_class(g, 0, weights, k + 1);
    }
    if (g->planes < all_rows(g, 0)) {
        take_planes(&r, grid, to);
        return;
    }
    begin_of(g, &grid[1]);
    for (unsigned k = 0; k < CLASSES; k++)
        if (has_class(g->side, k + 1)) code_class(&r.walk[k], g, &r.class[k]);
    for (size_t j1 = 0; j1 < g->side[0]; j1++) put_plane(&r.walk[0], g, j1, to);
}
