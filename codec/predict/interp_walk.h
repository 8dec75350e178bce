/* interp_walk.h - a tile's levels in the order of coding, for one floating-point type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included by interp.c with REAL (float or double), LARGEST, ROUND (1.5 times the power of two that
 * leaves no fraction bits), RUN (struct pithi_interp_run or its like), NAME(x) for each, and
 * ENCODE(w), DECODE(w): what codes a run.
 *
 * Every level has a dense grid of its own, of which the level before is the even elements: so all
 * levels run the same loops, and neighbours along a dimension are one step apart in memory. */

/* ---- One value -------------------------------------------------------------------------------*/

static inline REAL NAME(predict)(const RUN *r, enum pithi_interp_kind kind, size_t i) {
    const REAL a = r->a[i];
    switch (kind) {
    case PITHI_INTERP_CUBIC:
        return (REAL)0.5625 * (a + r->b[i]) - (REAL)0.0625 * (r->c[i] + r->e[i]);
    case PITHI_INTERP_LEFT: return ((REAL)0.75 * a + (REAL)0.375 * r->b[i]) - (REAL)0.125 * r->c[i];
    case PITHI_INTERP_RIGHT:
        return ((REAL)0.375 * a + (REAL)0.75 * r->b[i]) - (REAL)0.125 * r->e[i];
    case PITHI_INTERP_LINEAR: return (REAL)0.5 * (a + r->b[i]);
    case PITHI_INTERP_BEYOND: return (REAL)1.5 * a - (REAL)0.5 * r->c[i];
    default: return a;
    }
}

static inline bool NAME(within)(REAL x, REAL limit) { return x < limit && x > -limit; }

/* Returns a reconstruction, which is always finite, as neighbours of later values must be. */
static inline REAL NAME(rebuild)(const RUN *r, REAL predicted, int32_t q) {
    const REAL y = predicted + (REAL)q * r->step;
    return y <= LARGEST && y >= -LARGEST ? y : 0;
}

static inline uint32_t NAME(encode_value)(const RUN *r, REAL predicted, REAL x, REAL *y) {
    const REAL t = (x - predicted) * r->inverse;
    bool kept = NAME(within)(t, PITHI_QUANT_LIMIT);
    const int32_t q = kept ? (int32_t)((t + ROUND) - ROUND) : 0;
    *y = NAME(rebuild)(r, predicted, q);
    kept = kept && NAME(within)(x - NAME(rounded)(r->dtype, *y), r->bound);
    if (kept && !(r->signed_zeros && NAME(negative_zero)(x))) return pithi_zigzag((uint32_t)q);
    *y = NAME(rebuild)(r, predicted, 0);
    return PITHI_INTERP_MISS;
}

static inline bool NAME(encode_kind)(const RUN *r, enum pithi_interp_kind kind, const uint8_t *x,
                                     size_t n, REAL *y, uint32_t *words) {
    bool missed = false;
    for (size_t i = 0; i < n; i++) {
        REAL value;
        memcpy(&value, x + i * r->apart * sizeof value, sizeof value);
        words[i] = NAME(encode_value)(r, NAME(predict)(r, kind, i), value, &y[i]);
        missed |= words[i] == PITHI_INTERP_MISS;
    }
    return missed;
}

static bool NAME(encode_run)(const RUN *r, const void *x, size_t n, REAL *y, uint32_t *words) {
    return NAME(encode_kind)(r, r->kind, x, n, y, words);
}

static void NAME(decode_run)(const RUN *r, const uint32_t *words, size_t n, REAL *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = NAME(rebuild)(r, NAME(predict)(r, r->kind, i), (int32_t)pithi_unzigzag(words[i]));
}

/* ---- Memory ----------------------------------------------------------------------------------*/

struct NAME(walk) {
    const struct pithi_interp *t;
    const uint8_t *values; /* encode: values of the tile */
    uint32_t *words;       /* encode: where the next word goes */
    uint8_t *miss;         /* encode: bits of missed values; decode: NULL */
    const uint32_t *read;  /* decode: the next words */
    size_t unread;         /* how many words can be read */
    size_t misses;
    unsigned level;
    size_t grid[PITHI_TILE_NDIM], coarse_grid[PITHI_TILE_NDIM];
    size_t stride[PITHI_TILE_NDIM]; /* from one element of the coarse grid to the next */
    REAL *fine, *coarse; /* reconstructions on the grid of this level and of the one before */
    const uint8_t *x;    /* values on this level's grid */
    REAL *buffer[2], *gathered, *line_x, *line_y;
    RUN run;
};

/* Lays out memory for encoding. Fine grids of the levels take turns in two buffers: the second has
 * at most half of the tile, rounded up. */
static void NAME(place)(struct NAME(walk) * w, size_t count) {
    const size_t half = count - count / 2;
    uint8_t *at = w->t->scratch;
    w->buffer[0] = (REAL *)(void *)at;
    at += pithi_pad64(count * sizeof(REAL));
    w->buffer[1] = (REAL *)(void *)at;
    at += pithi_pad64(half * sizeof(REAL));
    w->line_x = (REAL *)(void *)at;
    w->line_y = w->line_x + LINE;
    w->gathered = w->line_y + LINE;
}

/* Lays out memory for decoding, which keeps `half` values of the finest grid. */
static void NAME(place_read)(struct NAME(walk) * w, size_t half) {
    w->line_x = w->t->scratch;
    w->line_y = w->line_x + LINE;
    w->buffer[0] = w->line_y + LINE;
    w->buffer[1] = w->buffer[0] + pithi_pad64(half * sizeof(REAL)) / sizeof(REAL);
}

/* Gathers the tile's values on the level's grid as REAL, where they are not so already. */
static void NAME(gather)(struct NAME(walk) * w) {
    const uint32_t dtype = w->run.dtype;
    const size_t element = dtype == PITH_F32 ? 4 : dtype == PITH_F64 ? 8 : 2;
    w->x = w->values;
    if (w->level == 0 && element == sizeof(REAL)) return;
    const size_t *const g = w->grid;
    const uint32_t *const extent = w->t->extent;
    REAL *to = w->gathered;
    for (size_t i = 0; i < g[0] * g[1] * g[2]; i++, to += g[3]) {
        const size_t i0 = i / (g[1] * g[2]), i1 = i / g[2] % g[1], i2 = i % g[2];
        const size_t row =
            (((i0 << w->level) * extent[1] + (i1 << w->level)) * extent[2]) + (i2 << w->level);
        const uint8_t *const from = w->values + row * extent[3] * element;
        NAME(gather_row)(dtype, from, (size_t)1 << w->level, g[3], to);
    }
    w->x = (const uint8_t *)w->gathered;
}

/* ---- Runs ------------------------------------------------------------------------------------*/

/* Sets the bits of missed values, which are numbers `first`, first + step ... of the grid. */
static void NAME(mark)(struct NAME(walk) * w, size_t n, size_t first, size_t step) {
    const size_t *const g = w->grid;
    for (size_t i = 0; i < n; i++) {
        if (w->words[i] != PITHI_INTERP_MISS) continue;
        size_t rest = first + i * step, at = 0, pitch = 1;
        for (size_t d = PITHI_TILE_NDIM; d--;) {
            at += (rest % g[d] << w->level) * pitch;
            rest /= g[d];
            pitch *= w->t->extent[d];
        }
        w->words[i] = 0;
        w->miss[at / 8] = (uint8_t)(w->miss[at / 8] | 1u << at % 8);
        w->misses++;
    }
}

static void NAME(advance)(RUN *run, size_t n) {
    run->a += n;
    if (run->b) run->b += n;
    if (run->c) run->c += n;
    if (run->e) run->e += n;
}

/* Decodes the values y of the next n words, which uses up the run. */
static void NAME(decode)(struct NAME(walk) * w, size_t n, REAL *y) {
    for (size_t m; n; n -= m, y += m) {
        if (!w->unread) w->unread = w->t->next(w->t->next_arg, &w->read);
        m = n < w->unread ? n : w->unread;
        DECODE(w)(&w->run, w->read, m, y);
        NAME(advance)(&w->run, m);
        w->read += m, w->unread -= m;
    }
}

/* Codes the next n words, of elements first, first + step ... of the grid: encodes their values, or
 * decodes to y. */
static void NAME(code)(struct NAME(walk) * w, size_t n, REAL *y, size_t first, unsigned step) {
    if (!w->miss) {
        NAME(decode)(w, n, y);
        return;
    }
    w->run.apart = step;
    if (ENCODE(w)(&w->run, w->x + first * sizeof(REAL), n, y, w->words))
        NAME(mark)(w, n, first, step);
    w->words += n;
}

/* Sets the neighbours of a run: `a` is the first one's, and `step` the distance to the next
 * neighbour. */
static void NAME(aim)(struct NAME(walk) * w, enum pithi_interp_kind kind, const REAL *a,
                      size_t step) {
    const bool cubic = kind == PITHI_INTERP_CUBIC;
    w->run.kind = kind;
    w->run.a = a;
    w->run.b = kind <= PITHI_INTERP_LINEAR ? a + step : NULL;
    w->run.c = cubic || kind == PITHI_INTERP_LEFT || kind == PITHI_INTERP_BEYOND ? a - step : NULL;
    w->run.e = cubic || kind == PITHI_INTERP_RIGHT ? a + 2 * step : NULL;
}

/* Codes a row of the grid along the last dimension: its even elements are a row of the level
 * before. */
static void NAME(row)(struct NAME(walk) * w, size_t at, const REAL *even) {
    const size_t n = w->grid[3], odd = n / 2;
    REAL *const to = w->fine + at;
    for (size_t i = 0, m; i < odd; i += m) {
        NAME(aim)(w, pithi_interp_kind(2 * i + 1, n), even + i, 1);
        m = w->run.kind == PITHI_INTERP_CUBIC ? (n - 3) / 2 - i : 1;
        if (m > LINE) m = LINE;
        NAME(code)(w, m, w->line_y, at + 2 * i + 1, 2);
        NAME(interleave)(to + 2 * i, even + i, w->line_y, m);
    }
    if (n % 2) to[n - 1] = even[odd];
}

static void NAME(rows)(struct NAME(walk) * w) {
    const size_t *const g = w->grid, *const stride = w->stride;
    const REAL *even = w->coarse;
    for (size_t i0 = 0; i0 < g[0]; i0 += stride[0])
        for (size_t i1 = 0; i1 < g[1]; i1 += stride[1])
            for (size_t i2 = 0; i2 < g[2]; i2 += stride[2], even += w->coarse_grid[3])
                NAME(row)(w, ((i0 * g[1] + i1) * g[2] + i2) * g[3], even);
}

/* Codes the elements at odd places along dimension d and even ones along those before it, behind
 * each of `outer` places there. */
static void NAME(slabs)(struct NAME(walk) * w, size_t outer, size_t places, size_t pitch) {
    for (size_t i = 1; i < places; i += 2) {
        const size_t at = outer + i * pitch;
        REAL *const to = w->fine + at;
        NAME(aim)(w, pithi_interp_kind(i, places), to - pitch, 2 * pitch);
        NAME(code)(w, pitch, to, at, 1);
    }
}

static void NAME(pass)(struct NAME(walk) * w, unsigned d) {
    const size_t *const g = w->grid;
    size_t pitch = 1, count[2] = {1, 1}, step[2] = {0, 0}, apart[2] = {1, 1};
    for (size_t k = PITHI_TILE_NDIM; k-- > d + 1;) pitch *= g[k];
    for (size_t k = 0; k < d; k++) {
        count[k] = g[k];
        apart[k] = w->stride[k];
        step[k] = pitch * g[d];
        for (size_t m = k + 1; m < d; m++) step[k] *= g[m];
    }
    for (size_t i = 0; i < count[0]; i += apart[0])
        for (size_t j = 0; j < count[1]; j += apart[1])
            NAME(slabs)(w, i * step[0] + j * step[1], g[d], pitch);
}

/* ---- Levels ----------------------------------------------------------------------------------*/

static void NAME(begin_level)(struct NAME(walk) * w, unsigned level) {
    const REAL bound = w->run.bound * (REAL)pithi_interp_factor(w->t->row, level);
    w->level = level;
    w->run.step = 2 * bound;
    w->run.inverse = NAME(inverse)(w->run.step);
    for (size_t d = 0; d < PITHI_TILE_NDIM; d++) {
        w->coarse_grid[d] = ((w->t->extent[d] - 1) >> (level + 1)) + 1;
        w->grid[d] = ((w->t->extent[d] - 1) >> level) + 1;
        w->stride[d] = 2;
    }
    w->fine = w->buffer[level % 2];
    w->coarse = w->buffer[(level + 1) % 2];
    if (w->miss) NAME(gather)(w);
}

static void NAME(one_level)(struct NAME(walk) * w, unsigned level) {
    NAME(begin_level)(w, level);
    NAME(rows)(w);
    for (unsigned d = 3; d--;) NAME(pass)(w, d);
}

/* Codes element 0 and, of `count` levels, those from `last` on. */
static void NAME(coarse_levels)(struct NAME(walk) * w, unsigned count, unsigned last) {
    static const REAL zero = 0;
    NAME(begin_level)(w, count ? count - 1 : 0);
    w->run.kind = PITHI_INTERP_COPY;
    w->run.a = &zero;
    NAME(code)(w, 1, count ? w->coarse : w->fine, 0, 1);
    for (unsigned level = count; level-- > last;) NAME(one_level)(w, level);
}

static void NAME(levels)(struct NAME(walk) * w) {
    const unsigned count = levels_of(w->t->extent);
    NAME(coarse_levels)(w, count, 1);
    if (count) NAME(one_level)(w, 0);
}

/* ---- The finest level, read ------------------------------------------------------------------*/

/* Decodes the finest level of a tile that is a row. */
static void NAME(last_row)(struct NAME(walk) * w, const struct pithi_sink *to) {
    const size_t n = w->grid[3], odd = n / 2;
    const REAL *const even = w->coarse;
    for (size_t i = 0, m; i < odd; i += m) {
        NAME(aim)(w, pithi_interp_kind(2 * i + 1, n), even + i, 1);
        m = w->run.kind == PITHI_INTERP_CUBIC ? (n - 3) / 2 - i : 1;
        if (m > LINE / 2) m = LINE / 2;
        NAME(decode)(w, m, w->line_y);
        NAME(interleave)(w->line_x, even + i, w->line_y, m);
        to->put(to->arg, 2 * i, 2 * m, w->line_x);
    }
    if (n % 2) to->put(to->arg, n - 1, 1, even + odd);
}

/* Decodes what lies between the slabs of dimension d that are known. */
static void NAME(last_slabs)(struct NAME(walk) * w, unsigned d, const struct pithi_sink *to) {
    const size_t places = w->t->extent[d];
    size_t pitch = 1;
    for (size_t k = d + 1; k < PITHI_TILE_NDIM; k++) pitch *= w->grid[k];
    for (size_t i = 0; i < places; i++) {
        const REAL *const slab = w->fine + i / 2 * pitch; /* the last known one up to i */
        if (i % 2 == 0) to->put(to->arg, i * pitch, pitch, slab);
        for (size_t at = 0, m; i % 2 && at < pitch; at += m) {
            m = pitch - at < LINE ? pitch - at : LINE;
            NAME(aim)(w, pithi_interp_kind(i, places), slab + at, pitch);
            NAME(decode)(w, m, w->line_y);
            to->put(to->arg, i * pitch + at, m, w->line_y);
        }
    }
}

/* Decodes the finest level, which ends in dimension `last`. Of the finest grid only what is even
 * there is kept; the rest goes to the sink as it is made. */
static void NAME(finest)(struct NAME(walk) * w, unsigned last, const struct pithi_sink *to) {
    NAME(begin_level)(w, 0);
    if (w->grid[last] == 1) {
        to->put(to->arg, 0, 1, w->fine);
        return;
    }
    if (last == PITHI_TILE_NDIM - 1) {
        NAME(last_row)(w, to);
        return;
    }
    w->grid[last] = w->coarse_grid[last];
    w->stride[last] = 1;
    NAME(rows)(w);
    for (unsigned d = PITHI_TILE_NDIM - 1; d-- > last + 1;) NAME(pass)(w, d);
    NAME(last_slabs)(w, last, to);
}
