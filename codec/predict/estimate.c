/* estimate.c - the entropy of bit lengths in short runs all over a tile.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/estimate.h"

#include <string.h>

#include "predict/estimate_value.h"
#include "predict/interp.h"

enum { RUN = PITHI_ESTIMATE_RUN };

static void add(struct pithi_kinds *s, uint32_t word) {
    s->of[pithi_kind_of(word)]++;
    s->total++;
}
static void add_words(struct pithi_kinds *s, const uint32_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) s->of[pithi_kind_of(words[i])]++;
    s->total += (uint32_t)n;
}

struct tile {
    const struct pithi_quant *q;
    bool f32;
    pithi_predict_fn *difference;
    const void *values;
    const int32_t *codes;
    const uint32_t *extent;
};

/* ---- Differences -----------------------------------------------------------------------------*/

/* Makes words of n elements from place x of their row on. */
static void differ(const struct tile *t, unsigned order, size_t at, size_t x, size_t n,
                   uint32_t *words) {
    const int32_t *const codes = t->codes;
    if (order > 1) {
        t->difference(codes + at, t->extent, order, at, n, words);
        return;
    }
    uint32_t before = order && x ? (uint32_t)codes[at - 1] : 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t code = (uint32_t)codes[at + i];
        words[i] = pithi_zigzag(code - before);
        before = order ? code : 0;
    }
}

/* ---- Interpolation ---------------------------------------------------------------------------*/

/* Returns 16 times a value in steps. */
PITHI_INLINE int64_t fine(const struct tile *t, size_t i) {
    double steps;
    if (t->q->dtype == PITH_F64) {
        memcpy(&steps, (const uint8_t *)t->values + 8 * i, 8);
        steps *= t->q->inverse64;
    } else {
        float x;
        if (t->f32)
            memcpy(&x, (const uint8_t *)t->values + 4 * i, 4);
        else
            x = pithi_float(pithi_load(t->values, t->q->dtype, i));
        steps = (double)(x * t->q->inverse);
    }
    if (steps < PITHI_QUANT_LIMIT && steps > -PITHI_QUANT_LIMIT) return (int64_t)(steps * 16);
    return 16 * (int64_t)t->codes[i];
}

/* Returns 16 times a neighbour's reconstruction in steps: it lies between the value and its code,
 * for codes err each by itself, and predictions that are kept err as smoothly as the values. */
PITHI_INLINE int64_t rebuilt(const struct tile *t, size_t i) {
    return (fine(t, i) >> 1) + 8 * (int64_t)t->codes[i];
}

/* Returns 16 times what the neighbours `distance` elements away predict for element i; they
 * exist. */
static int64_t predict(const struct tile *t, size_t i, enum pithi_interp_kind kind,
                       size_t distance) {
    const int64_t a = rebuilt(t, i - distance);
    const int64_t b = kind <= PITHI_INTERP_LINEAR ? rebuilt(t, i + distance) : 0;
    switch (kind) {
    case PITHI_INTERP_CUBIC:
        return (9 * (a + b) - rebuilt(t, i - 3 * distance) - rebuilt(t, i + 3 * distance)) >> 4;
    case PITHI_INTERP_LEFT: return (6 * a + 3 * b - rebuilt(t, i - 3 * distance)) >> 3;
    case PITHI_INTERP_RIGHT: return (3 * a + 6 * b - rebuilt(t, i + 3 * distance)) >> 3;
    case PITHI_INTERP_LINEAR: return (a + b) >> 1;
    case PITHI_INTERP_BEYOND: return (3 * a - rebuilt(t, i - 3 * distance)) >> 1;
    default: return a;
    }
}

/* Writes what fine and rebuilt return for each of n elements. */
static void fine_run(const struct tile *t, size_t at, size_t n, int32_t *to) {
    for (size_t i = 0; !t->f32 && i < n; i++) to[i] = (int32_t)fine(t, at + i);
    for (size_t i = 0; t->f32 && i < n; i++) {
        float x;
        memcpy(&x, (const uint8_t *)t->values + 4 * (at + i), 4);
        const float steps = x * t->q->inverse;
        const bool within = steps < PITHI_QUANT_LIMIT && steps > -PITHI_QUANT_LIMIT;
        const int32_t near = (int32_t)((within ? steps : 0) * 16);
        to[i] = within ? near : 16 * t->codes[at + i];
    }
}

static void rebuilt_run(const struct tile *t, size_t at, size_t n, int32_t *to) {
    fine_run(t, at, n, to);
    for (size_t i = 0; i < n; i++) to[i] = (to[i] >> 1) + 8 * t->codes[at + i];
}

/* Adds the words of n elements of the finest level that are predicted alike, by neighbours in other
 * rows. Codes are below 2^22, so that sums are below 10 * 2^27. */
static void add_between(struct pithi_kinds *s, const struct tile *t, size_t at, size_t n,
                        enum pithi_interp_kind kind, size_t distance) {
    int32_t x[RUN], a[RUN], b[RUN], c[RUN], e[RUN];
    const bool has_b = kind <= PITHI_INTERP_LINEAR;
    const bool has_c = kind != PITHI_INTERP_RIGHT && kind != PITHI_INTERP_LINEAR;
    fine_run(t, at, n, x);
    rebuilt_run(t, at - distance, n, a);
    if (has_b) rebuilt_run(t, at + distance, n, b);
    if (has_c && kind != PITHI_INTERP_COPY) rebuilt_run(t, at - 3 * distance, n, c);
    if (kind == PITHI_INTERP_CUBIC || kind == PITHI_INTERP_RIGHT)
        rebuilt_run(t, at + 3 * distance, n, e);
    for (size_t i = 0; i < n; i++) {
        int32_t p = a[i];
        switch (kind) {
        case PITHI_INTERP_CUBIC: p = (9 * (a[i] + b[i]) - c[i] - e[i]) >> 4; break;
        case PITHI_INTERP_LEFT: p = (6 * a[i] + 3 * b[i] - c[i]) >> 3; break;
        case PITHI_INTERP_RIGHT: p = (3 * a[i] + 6 * b[i] - e[i]) >> 3; break;
        case PITHI_INTERP_LINEAR: p = (a[i] + b[i]) >> 1; break;
        case PITHI_INTERP_BEYOND: p = (3 * a[i] - c[i]) >> 1; break;
        default:;
        }
        add(s, pithi_zigzag((uint32_t)((x[i] - p + 8) >> 4)));
    }
}

/* Adds the words of n elements from `at` on, each on the level and along the dimension where it is
 * coded: to s[0] on the finest level, else to s[1]. */
static void add_interp(struct pithi_kinds *s, const struct tile *t, size_t at, size_t n) {
    size_t place[PITHI_TILE_NDIM], pitch[PITHI_TILE_NDIM], rest = at, distance = 1;
    for (size_t d = PITHI_TILE_NDIM; d--; rest /= t->extent[d], distance *= t->extent[d]) {
        place[d] = rest % t->extent[d];
        pitch[d] = distance;
    }
    for (unsigned d = 0; d < PITHI_TILE_NDIM - 1; d++)
        if (place[d] & 1) {
            add_between(&s[0], t, at, n, pithi_interp_kind(place[d], t->extent[d]), pitch[d]);
            return;
        }
    for (size_t i = 0; i < n; i++, place[PITHI_TILE_NDIM - 1]++) {
        const size_t all = place[0] | place[1] | place[2] | place[3];
        unsigned level = 0, d = 0;
        if (!all) continue;
        while (!(all >> level & 1)) level++;
        while (!(place[d] >> level & 1)) d++;
        const size_t places = ((t->extent[d] - 1) >> level) + 1;
        const enum pithi_interp_kind kind = pithi_interp_kind(place[d] >> level, places);
        const int64_t error = fine(t, at + i) - predict(t, at + i, kind, pitch[d] << level);
        const int64_t code = (error + 8) >> 4;
        add(&s[level > 0], pithi_zigzag((uint32_t)code));
    }
}

/* ---- Weighted interpolation ------------------------------------------------------------------*/

static size_t place_of(const uint32_t extent[PITHI_TILE_NDIM], const struct pithi_box *b, size_t j1,
                       size_t j2) {
    return ((b->at[1] + j1) * extent[2] + b->at[2] + j2) * extent[3] + b->at[3];
}

static void copy_box(const struct pithi_interp *t, const struct pithi_box *b, const void *values,
                     uint8_t *to) {
    const size_t element = t->quant->dtype == PITH_F32 ? 4 : 2, row = b->extent[3] * element;
    for (size_t j1 = 0; j1 < b->extent[1]; j1++)
        for (size_t j2 = 0; j2 < b->extent[2]; j2++, to += row)
            memcpy(to, (const uint8_t *)values + place_of(t->extent, b, j1, j2) * element, row);
}

/* Adds words of a coded box: those of each class of the finest level, and before them the coarse
 * ones, all of which count. */
static void add_weighted(struct pithi_kinds s[PITHI_WEIGHTED_CLASSES + 1],
                         const struct pithi_box *b, const uint32_t *words) {
    const size_t coarse = pithi_interp_coarse(b->extent);
    add_words(&s[0], words, coarse);
    words += coarse;
    for (unsigned k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) {
        if (!pithi_weighted_count(b->extent, k)) continue;
        const size_t n = (b->extent[3] + (k & 1 ? 0 : 1)) / 2;
        for (size_t j1 = k >> 2 & 1; j1 < b->extent[1]; j1 += 2)
            for (size_t j2 = k >> 1 & 1; j2 < b->extent[2]; j2 += 2, words += n) {
                if (!pithi_box_inner(j1, b->extent[1]) || !pithi_box_inner(j2, b->extent[2]))
                    continue;
                add_words(&s[k], words + PITHI_BOX_INNER_LAST / 2, n - PITHI_BOX_INNER_LAST);
            }
    }
}

static unsigned boxes_of(const uint32_t extent[PITHI_TILE_NDIM]) {
    return (size_t)extent[1] * extent[2] * extent[3] < PITHI_BOX_OF ? 1 : PITHI_BOXES;
}
static struct pithi_box box_of(const uint32_t extent[PITHI_TILE_NDIM], unsigned i) {
    return pithi_box_of(extent[1], extent[2], extent[3], boxes_of(extent) == 1 ? 2 : i);
}

uint32_t pithi_estimate_weighted(const struct pithi_interp *t, const void *values,
                                 const struct pithi_estimate_memory *memory) {
    const size_t count = (size_t)t->extent[1] * t->extent[2] * t->extent[3];
    const size_t coarse = pithi_interp_coarse(t->extent);
    struct pithi_kinds kinds[PITHI_WEIGHTED_CLASSES + 1] = {{0}};
    for (unsigned i = 0; i < boxes_of(t->extent); i++) {
        const struct pithi_box b = box_of(t->extent, i);
        struct pithi_interp tile = *t;
        struct pithi_weights weights;
        memcpy(tile.extent, b.extent, sizeof tile.extent);
        copy_box(t, &b, values, memory->values);
        pithi_weighted_encode(&tile, memory->values, memory->words, memory->miss, &weights);
        add_weighted(kinds, &b, memory->words);
    }
    uint64_t fine = 0, total = 0;
    for (unsigned k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) {
        fine += pithi_kinds_entropy(&kinds[k]);
        total += kinds[k].total;
    }
    return (uint32_t)((fine / total * (count - coarse) +
                       pithi_kinds_entropy(&kinds[0]) / kinds[0].total * coarse) /
                      count);
}

uint32_t pithi_estimate_differences(const uint32_t extent[PITHI_TILE_NDIM], const int32_t *codes,
                                    unsigned order, uint32_t *words) {
    struct pithi_kinds kinds = {0};
    for (unsigned i = 0; i < boxes_of(extent); i++) {
        const struct pithi_box b = box_of(extent, i);
        const size_t n = b.extent[3] - 2 * PITHI_BOX_INNER_LAST;
        for (size_t j1 = 0; j1 < b.extent[1]; j1++)
            for (size_t j2 = 0; j2 < b.extent[2]; j2++) {
                if (!pithi_box_inner(j1, b.extent[1]) || !pithi_box_inner(j2, b.extent[2]))
                    continue;
                const size_t at = place_of(extent, &b, j1, j2) + PITHI_BOX_INNER_LAST;
                pithi_predict_c(codes + at, extent, order, at, n, words);
                add_words(&kinds, words, n);
            }
    }
    return (uint32_t)(pithi_kinds_entropy(&kinds) / kinds.total);
}

struct pithi_estimate pithi_estimate_tile(const struct pithi_quant *q, pithi_predict_fn *difference,
                                          const void *values, const int32_t *codes,
                                          const uint32_t extent[PITHI_TILE_NDIM]) {
    const struct tile t = {q, q->dtype == PITH_F32, difference, values, codes, extent};
    const size_t count = (size_t)extent[0] * extent[1] * extent[2] * extent[3], row = extent[3];
    const size_t runs = pithi_estimate_runs(count);
    struct pithi_kinds lorenzo[PITHI_TILE_NDIM + 1] = {{0}}, interp[2] = {{0}};
    unsigned most = PITHI_TILE_NDIM; /* higher orders than the tile has dimensions say the same */
    while (most > 1 && extent[PITHI_TILE_NDIM - most] == 1) most--;
    for (size_t run = 0; run < runs; run++) {
        const size_t at = (size_t)pithi_estimate_at(count, run);
        const size_t x = at % row, left = row - x, n = left < RUN ? left : RUN;
        uint32_t words[RUN];
        for (unsigned order = 0; order <= most; order++) {
            differ(&t, order, at, x, n, words);
            add_words(&lorenzo[order], words, n);
        }
        if (!q->relative) add_interp(interp, &t, at, n);
    }
    struct pithi_estimate result = {.interp = UINT32_MAX};
    const uint64_t sum = pithi_kinds_entropy(&interp[0]) + pithi_kinds_entropy(&interp[1]);
    const uint32_t total = interp[0].total + interp[1].total;
    if (total) {
        result.interp = (uint32_t)(sum / total);
        result.interp_row = pithi_interp_row_of(result.interp, sum / 256 * count / total);
    }
    for (unsigned order = 0; order <= PITHI_TILE_NDIM; order++)
        result.lorenzo[order] =
            order <= most ? (uint32_t)(pithi_kinds_entropy(&lorenzo[order]) / lorenzo[order].total)
                          : result.lorenzo[most];
    return result;
}
