/* interp.h - values predicted from reconstructed neighbours, level by level; how blocks of eb are
 * cut into sequences of words; values of frames that were predicted so.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a tile, or a box of one. What is predicted along one dimension of a level, and a class
 * of a weighted level, depends on nothing of its own, so that all threads work on it, with a
 * barrier before the next. Reconstructions lie in the workspace, in the order of the tile. */
#ifndef PITHI_GPU_DEVICE_PREDICT_INTERP_H
#define PITHI_GPU_DEVICE_PREDICT_INTERP_H

#include "device/predict/check.h"

/* ---- Sequences of words ----------------------------------------------------------------------*/

/* Returns how many elements of the finest level a class has. */
PITHI_DEVICE uint32_t pithi_class_count(const struct pithi_tile *t, uint32_t parities) {
    uint32_t n = 1;
    PITHI_UNROLL for (uint32_t d = 1; d < PITHI_TILE_NDIM; d++) {
        const uint32_t half = t->extent[d] / 2;
        n *= parities >> (PITHI_TILE_NDIM - 1 - d) & 1 ? half : t->extent[d] - half;
    }
    return n;
}
/* Returns how many words come before those of the finest level. */
PITHI_DEVICE uint32_t pithi_coarse_count(const struct pithi_tile *t) {
    return pithi_class_count(t, 0) * (t->extent[0] - t->extent[0] / 2);
}

/* Words of a block that are coded by themselves: how many, and how many come before them. */
struct pithi_gpu_sequence {
    uint32_t before, words;
};
PITHI_DEVICE struct pithi_gpu_sequence pithi_sequence_of(const struct pithi_tile *t,
                                                         uint32_t method, uint32_t i) {
    const uint32_t count = (uint32_t)t->count, coarse = pithi_coarse_count(t);
    struct pithi_gpu_sequence q;
    q.before = 0;
    q.words = 0;
    if (method == PITHI_EB_CODED) {
        q.words = i == 0 ? count : 0;
    } else if (method == PITHI_EB_INTERPOLATED) {
        q.before = i == 0 ? 0 : coarse;
        q.words = i == 0 ? coarse : i == 1 ? count - coarse : 0;
    } else if (method == PITHI_EB_WEIGHTED) {
        q.words = coarse;
        for (uint32_t k = 1; k <= i; k++) {
            q.before += q.words;
            q.words = pithi_class_count(t, k);
        }
    }
    return q;
}

/* ---- The workspace ---------------------------------------------------------------------------*/

PITHI_DEVICE float *pithi_rebuilt_of(const struct pithi_gpu_side *side,
                                     const struct pithi_gpu_block *b) {
    uint8_t *const at = b->workspace + pithi_workspace_rebuilt(&side->plan);
    return (float *)(void *)at + b->before;
}
PITHI_DEVICE uint32_t *pithi_missed_of(const struct pithi_gpu_side *side,
                                       const struct pithi_gpu_block *b) {
    uint8_t *const at = b->workspace + pithi_workspace_missed(&side->plan);
    return (uint32_t *)(void *)at + b->before / 32 + b->number;
}
PITHI_DEVICE struct pithi_weights *pithi_weights_of(const struct pithi_gpu_side *side,
                                                    const struct pithi_gpu_block *b) {
    uint8_t *const at = b->workspace + pithi_workspace_weights(&side->plan);
    return (struct pithi_weights *)(void *)at + b->number;
}

/* ---- One value -------------------------------------------------------------------------------*/

/* Returns what neighbours predict, `step` elements of the box apart. */
PITHI_DEVICE float pithi_interp_predict(enum pithi_interp_kind kind, const float *y,
                                        uint32_t step) {
    const ptrdiff_t d = (ptrdiff_t)step;
    const float a = y[-d];
    switch (kind) {
    case PITHI_INTERP_CUBIC: return 0.5625f * (a + y[d]) - 0.0625f * (y[-3 * d] + y[3 * d]);
    case PITHI_INTERP_LEFT: return (0.75f * a + 0.375f * y[d]) - 0.125f * y[-3 * d];
    case PITHI_INTERP_RIGHT: return (0.375f * a + 0.75f * y[d]) - 0.125f * y[3 * d];
    case PITHI_INTERP_LINEAR: return 0.5f * (a + y[d]);
    case PITHI_INTERP_BEYOND: return 1.5f * a - 0.5f * y[-3 * d];
    default: return a;
    }
}
PITHI_DEVICE bool pithi_interp_within(float x, float limit) { return x < limit && x > -limit; }
PITHI_DEVICE float pithi_interp_rebuild(float predicted, int32_t q, float step) {
    const float y = predicted + (float)q * step, most = pithi_float(PITHI_F32_MAX);
    return y <= most && y >= -most ? y : 0;
}
/* Returns a value as the frame's dtype has it, in f32. */
PITHI_DEVICE float pithi_interp_rounded(uint32_t dtype, float y) {
    const uint32_t u = pithi_bits(y);
    if (dtype == PITH_F32) return y;
    return pithi_float(dtype == PITH_BF16 ? pithi_from_bf16(pithi_to_bf16(u))
                                          : pithi_from_f16(pithi_to_f16(u)));
}
/* Returns the value of an element of the tensor that is encoded. */
PITHI_DEVICE float pithi_interp_value(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_shared *s, uint64_t element) {
    const uint32_t dtype = a->to.plan.dtype, width = pithi_dtype_bytes(dtype);
    return pithi_float(
        pithi_unit_widen(dtype, pithi_own_get(s->to.tensor + element * width, width)));
}

/* Codes word number `word`, of the element of the box at `at` and of the tensor at `element`. */
PITHI_DEVICE void pithi_interp_code(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    bool encode, uint32_t word, uint32_t at, uint64_t element,
                                    float predicted) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    if (!encode) {
        w->y[at] = pithi_interp_rebuild(predicted, (int32_t)w->words[word], w->step);
        return;
    }
    const float x = pithi_interp_value(a, s, element), steps = (x - predicted) * w->inverse;
    bool kept = pithi_interp_within(steps, PITHI_QUANT_LIMIT);
    int32_t q = kept ? (int32_t)((steps + 0x1.8p23f) - 0x1.8p23f) : 0;
    float y = pithi_interp_rebuild(predicted, q, w->step);
    kept = kept && pithi_interp_within(x - pithi_interp_rounded(a->to.plan.dtype, y), w->bound) &&
           !(a->to.plan.device.requested.signed_zeros && pithi_bits(x) == 0x80000000u);
    if (!kept) {
        q = 0;
        y = pithi_interp_rebuild(predicted, 0, w->step);
    }
    w->y[at] = y;
    w->words[word] = (uint32_t)q;
    if (kept || !w->map) return;
    pithi_atomic_or32(&w->map[at / 32], 1u << at % 32);
    pithi_atomic_add32(&s->strip.misses, 1);
}

/* ---- Levels ----------------------------------------------------------------------------------*/

/* By the team's first thread: a box of these extents from an element of the tile on. */
PITHI_DEVICE void pithi_interp_open(struct pithi_gpu_interp *w, const struct pithi_tiling *t,
                                    const struct pithi_tile *tile,
                                    const uint32_t at[PITHI_TILE_NDIM],
                                    const uint32_t extent[PITHI_TILE_NDIM]) {
    uint32_t pitch = 1;
    uint64_t apart = 1;
    w->first = 0;
    PITHI_UNROLL for (int d = PITHI_TILE_NDIM - 1; d >= 0; d--) {
        w->extent[d] = extent[d];
        w->pitch[d] = pitch;
        w->apart[d] = apart;
        w->first += (tile->origin[d] + at[d]) * apart;
        pitch *= extent[d];
        apart *= t->shape[d];
    }
    w->map = NULL;
}

PITHI_DEVICE uint32_t pithi_interp_levels(const struct pithi_gpu_interp *w) {
    uint32_t levels = 0;
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++)
        while ((w->extent[d] - 1) >> levels) levels++;
    return levels;
}
PITHI_PHASE(pithi_interp_level, uint32_t level) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    (void)a;
    if (t->tid) return;
    w->level = level;
    w->step = 2 * (w->bound * pithi_interp_factor(w->row, level));
    w->inverse = pithi_quant_inverse(w->step);
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) w->grid[d] = ((w->extent[d] - 1) >> level) + 1;
}

PITHI_PHASE(pithi_interp_first, bool encode) {
    if (t->tid == 0) pithi_interp_code(a, s, encode, 0, 0, s->strip.interp.first, 0);
}

/* The elements of the level's grid at odd places along dimension `along`, even ones before it, and
 * any behind. */
PITHI_PHASE(pithi_interp_pass, bool encode, uint32_t along) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    uint32_t n = 1, before = 1;
    PITHI_UNROLL for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) {
        const uint32_t places = w->grid[d], half = places / 2;
        n *= d > along ? places : d == along ? half : places - half;
        before *= d > along ? places : places - half;
    }
    for (uint32_t i = t->tid; i < n; i += PITHI_TEAM) {
        uint32_t rest = i, at = 0, place = 0, places = 0, step = 0;
        uint64_t element = w->first;
        PITHI_UNROLL for (int k = PITHI_TILE_NDIM - 1; k >= 0; k--) {
            const uint32_t d = (uint32_t)k, all = w->grid[d], half = all / 2;
            const uint32_t count = d > along ? all : d == along ? half : all - half;
            const uint32_t in = rest % count;
            const uint32_t x = d > along ? in : 2 * in + (d == along);
            rest /= count;
            at += (x << w->level) * w->pitch[d];
            element += (uint64_t)(x << w->level) * w->apart[d];
            if (d != along) continue;
            place = x;
            places = all;
            step = w->pitch[d] << w->level;
        }
        const float predicted =
            pithi_interp_predict(pithi_interp_kind(place, places), w->y + at, step);
        pithi_interp_code(a, s, encode, before + i, at, element, predicted);
    }
}

/* Part of a body: the first element, and all levels from the coarsest one to `last`. */
PITHI_DEVICE void pithi_interp_walk(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    bool encode, uint32_t last) {
    const uint32_t levels = pithi_interp_levels(&s->strip.interp);
    PITHI_RUN(pithi_interp_level, levels ? levels - 1 : 0);
    PITHI_RUN(pithi_interp_first, encode);
    for (uint32_t level = levels; level-- > last;) {
        PITHI_RUN(pithi_interp_level, level);
        for (uint32_t along = PITHI_TILE_NDIM; along-- > 0;)
            PITHI_RUN(pithi_interp_pass, encode, along);
    }
}

/* ---- Classes of weighted levels --------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_class_parity(uint32_t parities, uint32_t d) {
    return parities >> (PITHI_TILE_NDIM - 1 - d) & 1;
}
/* Returns the number of elements of the class along a dimension. */
PITHI_DEVICE uint32_t pithi_class_places(const struct pithi_gpu_interp *w, uint32_t parities,
                                         uint32_t d) {
    const uint32_t half = w->grid[d] / 2;
    return pithi_class_parity(parities, d) ? half : w->grid[d] - half;
}
PITHI_DEVICE uint32_t pithi_class_elements(const struct pithi_gpu_interp *w, uint32_t parities) {
    return pithi_class_places(w, parities, 1) * pithi_class_places(w, parities, 2) *
           pithi_class_places(w, parities, 3);
}
/* Whether the class has elements, on every level: boxes of it have extents of 1 or of many. Bodies
 * look at it, while the first thread may be at the grid of the next level already. */
PITHI_DEVICE bool pithi_class_exists(const struct pithi_gpu_interp *w, uint32_t parities) {
    bool exists = true;
    for (uint32_t d = 1; d < PITHI_TILE_NDIM; d++)
        if (pithi_class_parity(parities, d) && w->extent[d] == 1) exists = false;
    return exists;
}
/* Whether elements of the class have a term, by the places of a grid along dimensions 1 to 3. */
PITHI_DEVICE bool pithi_class_has(const uint32_t grid[PITHI_TILE_NDIM], uint32_t parities,
                                  uint32_t term) {
    uint32_t other = parities;
    for (uint32_t d = 1; d < PITHI_TILE_NDIM; d++) {
        const uint32_t offset = pithi_weighted_offset(term, d - 1);
        if (offset && grid[d] == 1) return false;
        other ^= (offset & 1) << (PITHI_TILE_NDIM - 1 - d);
    }
    return other < parities;
}

PITHI_DEVICE uint32_t pithi_class_terms(const uint32_t grid[PITHI_TILE_NDIM], uint32_t parities) {
    uint32_t terms = 0;
    for (uint32_t k = 0; k < PITHI_WEIGHTED_TERMS; k++) terms += pithi_class_has(grid, parities, k);
    return terms;
}

/* Returns the bytes of the weights of a block, of which these are chosen. */
PITHI_DEVICE uint32_t pithi_weights_bytes(const struct pithi_weights *w,
                                          const struct pithi_tile *tile) {
    uint32_t terms = 0;
    for (uint32_t level = 0; level < PITHI_WEIGHTED_LEVELS; level++)
        for (uint32_t k = 0; k < PITHI_WEIGHTED_CLASSES; k++)
            if (w->set[level] >> k & 1) terms += pithi_class_terms(tile->extent, k + 1);
    return PITHI_WEIGHTED_LEVELS + PITHI_WEIGHT_BYTES * terms;
}

/* By the team's first thread: a class with its usual weights. Returns its number of terms. */
PITHI_DEVICE uint32_t pithi_class_open(struct pithi_gpu_interp *w, uint32_t parities) {
    const uint32_t odd = (uint32_t)pithi_ones32(parities);
    w->parities = parities;
    w->terms = 0;
    w->at = 0;
    for (uint32_t k = 0; k < parities; k++) w->at += pithi_class_elements(w, k);
    for (uint32_t k = 0; k < PITHI_WEIGHTED_TERMS; k++) {
        if (!pithi_class_has(w->grid, parities, k)) continue;
        w->term[w->terms] = (uint8_t)k;
        w->weight[w->terms++] = pithi_weighted_usual(k, odd);
    }
    return w->terms;
}

/* Where element j of a line is, which mirrors what it has at its first or last even element where j
 * is outside: the value is then twice that of `edge` less that of `other`. */
struct pithi_gpu_mirror {
    uint32_t edge, other;
    bool outside;
};
PITHI_DEVICE struct pithi_gpu_mirror pithi_mirror_of(int32_t j, uint32_t places) {
    struct pithi_gpu_mirror m;
    m.outside = j < 0 || (uint32_t)j >= places;
    m.edge = m.outside ? (j < 0 ? 0 : (places - 1) / 2 * 2) : (uint32_t)j;
    m.other = m.outside ? 2 * m.edge - (uint32_t)j : m.edge;
    return m;
}
/* Returns the reconstruction of an element of the level's grid, of which the mirrors along
 * dimensions 1, 2 and 3 are made in this order. */
PITHI_DEVICE float pithi_near(const struct pithi_gpu_interp *w, int32_t j1, int32_t j2,
                              int32_t j3) {
    const struct pithi_gpu_mirror m1 = pithi_mirror_of(j1, w->grid[1]);
    const struct pithi_gpu_mirror m2 = pithi_mirror_of(j2, w->grid[2]);
    const struct pithi_gpu_mirror m3 = pithi_mirror_of(j3, w->grid[3]);
    float of1 = 0;
    for (uint32_t i1 = 0; i1 <= (uint32_t)m1.outside; i1++) {
        const uint32_t at1 = ((i1 ? m1.other : m1.edge) << w->level) * w->pitch[1];
        float of2 = 0;
        for (uint32_t i2 = 0; i2 <= (uint32_t)m2.outside; i2++) {
            const uint32_t at2 = at1 + ((i2 ? m2.other : m2.edge) << w->level) * w->pitch[2];
            float x = w->y[at2 + (m3.edge << w->level)];
            if (m3.outside) x = 2 * x - w->y[at2 + (m3.other << w->level)];
            of2 = i2 ? 2 * of2 - x : x;
        }
        of1 = i1 ? 2 * of1 - of2 : of2;
    }
    return of1;
}
/* Returns the sum of the neighbours of a term. */
PITHI_DEVICE float pithi_term_sum(const struct pithi_gpu_interp *w, uint32_t term, uint32_t j1,
                                  uint32_t j2, uint32_t j3) {
    const int32_t o1 = (int32_t)pithi_weighted_offset(term, 0);
    const int32_t o2 = (int32_t)pithi_weighted_offset(term, 1);
    const int32_t o3 = (int32_t)pithi_weighted_offset(term, 2);
    float sum = 0;
    bool begun = false;
    for (int32_t s1 = -o1; s1 <= o1; s1 += o1 ? 2 * o1 : 1)
        for (int32_t s2 = -o2; s2 <= o2; s2 += o2 ? 2 * o2 : 1)
            for (int32_t s3 = -o3; s3 <= o3; s3 += o3 ? 2 * o3 : 1) {
                const float x = pithi_near(w, (int32_t)j1 + s1, (int32_t)j2 + s2, (int32_t)j3 + s3);
                sum = begun ? sum + x : x;
                begun = true;
            }
    return sum;
}
/* Returns what the terms of the open class predict by these weights. */
PITHI_DEVICE float pithi_class_predict(const struct pithi_gpu_interp *w, const float *weight,
                                       uint32_t j1, uint32_t j2, uint32_t j3) {
    float y = 0;
    for (uint32_t k = 0; k < w->terms; k++)
        if (weight[k] != 0) y = y + weight[k] * pithi_term_sum(w, w->term[k], j1, j2, j3);
    return y;
}

PITHI_PHASE(pithi_class_code, bool encode) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    const uint32_t n = pithi_class_elements(w, w->parities);
    const uint32_t n2 = pithi_class_places(w, w->parities, 2);
    const uint32_t n3 = pithi_class_places(w, w->parities, 3);
    for (uint32_t i = t->tid; i < n; i += PITHI_TEAM) {
        const uint32_t j1 = 2 * (i / n3 / n2) + pithi_class_parity(w->parities, 1);
        const uint32_t j2 = 2 * (i / n3 % n2) + pithi_class_parity(w->parities, 2);
        const uint32_t j3 = 2 * (i % n3) + pithi_class_parity(w->parities, 3);
        const uint32_t x1 = j1 << w->level, x2 = j2 << w->level, x3 = j3 << w->level;
        const uint32_t at = x1 * w->pitch[1] + x2 * w->pitch[2] + x3;
        const uint64_t element = w->first + x1 * w->apart[1] + x2 * w->apart[2] + x3;
        pithi_interp_code(a, s, encode, w->at + i, at, element,
                          pithi_class_predict(w, w->weight, j1, j2, j3));
    }
}

/* ---- Frames to values ------------------------------------------------------------------------*/

PITHI_PHASE(pithi_interp_read_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_interp *const w = &s->strip.interp;
    const struct pithi_gpu_mark *const m = pithi_mark(a, number / a->chunks);
    const uint32_t none[PITHI_TILE_NDIM] = {0, 0, 0, 0};
    if (t->tid) return;
    pithi_block_locate(a, s, t, number);
    b->live = b->live && b->interpolated && pithi_mark_status(m) == PITH_OK;
    if (!b->live) return;
    pithi_interp_open(w, &s->from.slot->tiling, &b->tile, none, b->tile.extent);
    w->row = b->order;
    w->bound = b->quant.bound;
    w->y = pithi_rebuilt_of(&a->from, b);
    w->words = (uint32_t *)(void *)pithi_codes_of(&a->from, b);
    w->stored = b->body + PITHI_WEIGHTED_LEVELS;
}
PITHI_PHASE(pithi_class_read_open, uint32_t parities) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    (void)a;
    if (t->tid) return;
    const uint32_t terms = pithi_class_open(w, parities);
    const uint32_t set = s->strip.block.body[PITHI_WEIGHTED_LEVELS - 1 - w->level];
    if (!(set >> (parities - 1) & 1)) return;
    for (uint32_t k = 0; k < terms; k++, w->stored += PITHI_WEIGHT_BYTES)
        w->weight[k] = (float)pithi_weight_get(w->stored) * (1.0f / PITHI_WEIGHT_ONE);
}

/* A team a block: reconstructions of its elements, before they are rounded. */
PITHI_BODY(pithi_interp_decode) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_interp_read_open, number);
    if (!b->live) return;
    const bool weighted = b->method == PITHI_EB_WEIGHTED;
    pithi_interp_walk(a, s, t, team, false, weighted ? (uint32_t)PITHI_WEIGHTED_LEVELS : 0);
    if (!weighted) return;
    for (uint32_t level = PITHI_WEIGHTED_LEVELS; level-- > 0;) {
        PITHI_RUN(pithi_interp_level, level);
        for (uint32_t k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) {
            if (!pithi_class_exists(&s->strip.interp, k)) continue;
            PITHI_RUN(pithi_class_read_open, k);
            PITHI_RUN(pithi_class_code, false);
        }
    }
}

#endif
