/* interp_encode.h - blocks of eb whose words are coded under an absolute bound: whether they are
 * interpolated, by which weights, and the words of those that are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team a block decides as the CPU does (codecs/eb.c, predict/estimate.c, interp_weighted.h),
 * behind the launch that chooses an order of differences. Counts are of integers, so that their
 * order does not matter; sums of floating-point numbers have a thread each, in the CPU's order. */
#ifndef PITHI_GPU_DEVICE_PREDICT_INTERP_ENCODE_H
#define PITHI_GPU_DEVICE_PREDICT_INTERP_ENCODE_H

#include "device/predict/encode.h"
#include "device/predict/interp.h"

/* ---- The weights of a class ------------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_fit_samples(const struct pithi_gpu_interp *w) {
    const uint32_t samples = pithi_class_elements(w, w->parities) / PITHI_WEIGHTED_SAMPLED;
    if (samples < PITHI_WEIGHTED_SAMPLES_MIN) return PITHI_WEIGHTED_SAMPLES_MIN;
    return samples < PITHI_WEIGHTED_SAMPLES_MAX ? samples : (uint32_t)PITHI_WEIGHTED_SAMPLES_MAX;
}

/* Part number i of a sample: n elements of a row, the first of which is element `at` of the class
 * there. */
struct pithi_gpu_sampled {
    uint32_t j1, j2, at, n;
};
PITHI_DEVICE struct pithi_gpu_sampled pithi_sampled_of(const struct pithi_gpu_interp *w,
                                                       uint32_t i) {
    const uint64_t n2 = pithi_class_places(w, w->parities, 2);
    const uint64_t n3 = pithi_class_places(w, w->parities, 3);
    const uint64_t rows = pithi_class_places(w, w->parities, 1) * n2;
    const uint64_t row = i * (rows * 40503 >> 16 | 1) % rows;
    struct pithi_gpu_sampled q;
    q.n = n3 < PITHI_WEIGHTED_SAMPLE ? (uint32_t)n3 : (uint32_t)PITHI_WEIGHTED_SAMPLE;
    q.j1 = (uint32_t)(row / n2) * 2 + pithi_class_parity(w->parities, 1);
    q.j2 = (uint32_t)(row % n2) * 2 + pithi_class_parity(w->parities, 2);
    q.at = (uint32_t)((uint64_t)i * 40503 % (n3 - q.n + 1));
    return q;
}
/* Returns the place along dimension 3 of element `in` of the part. */
PITHI_DEVICE uint32_t pithi_sampled_j3(const struct pithi_gpu_interp *w,
                                       const struct pithi_gpu_sampled *q, uint32_t in) {
    return 2 * (q->at + in) + pithi_class_parity(w->parities, 3);
}
PITHI_DEVICE float pithi_sampled_value(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_shared *s,
                                       const struct pithi_gpu_sampled *q, uint32_t in) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    return pithi_interp_value(a, s,
                              w->first + ((uint64_t)q->j1 << w->level) * w->apart[1] +
                                  ((uint64_t)q->j2 << w->level) * w->apart[2] +
                                  ((uint64_t)pithi_sampled_j3(w, q, in) << w->level));
}

PITHI_PHASE(pithi_fit_clear, uint32_t unused) {
    struct pithi_gpu_fit *const f = &s->strip.fit;
    (void)a, (void)unused;
    f->equations.matrix[t->tid / PITHI_WEIGHTED_TERMS][t->tid % PITHI_WEIGHTED_TERMS] = 0;
    if (t->tid < PITHI_WEIGHTED_TERMS) f->equations.vector[t->tid] = 0;
    if (t->tid == 0) f->before = f->after = f->count = 0;
}
/* Terms of the values of parts first, first + 2 and so on; half of them by other threads. */
PITHI_PHASE(pithi_fit_terms, uint32_t first) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    const uint32_t i = t->tid % PITHI_FIT_VALUES, in = i % PITHI_WEIGHTED_SAMPLE;
    const uint32_t part = first + 2 * (i / PITHI_WEIGHTED_SAMPLE);
    (void)a;
    if (part >= pithi_fit_samples(w)) return;
    const struct pithi_gpu_sampled q = pithi_sampled_of(w, part);
    if (in >= q.n) return;
    for (uint32_t k = t->tid / PITHI_FIT_VALUES; k < w->terms; k += PITHI_TEAM / PITHI_FIT_VALUES)
        s->strip.fit.term[k][i] =
            0.0f + pithi_term_sum(w, w->term[k], q.j1, q.j2, pithi_sampled_j3(w, &q, in));
}
PITHI_PHASE(pithi_fit_left, uint32_t first) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    struct pithi_gpu_fit *const f = &s->strip.fit;
    const uint32_t i = t->tid, in = i % PITHI_WEIGHTED_SAMPLE;
    const uint32_t part = first + 2 * (i / PITHI_WEIGHTED_SAMPLE);
    if (i >= PITHI_FIT_VALUES) return;
    f->share[i] = -1;
    if (part >= pithi_fit_samples(w)) return;
    const struct pithi_gpu_sampled q = pithi_sampled_of(w, part);
    if (in >= q.n) return;
    double left = (double)pithi_sampled_value(a, s, &q, in);
    for (uint32_t k = 0; k < w->terms; k++) left -= (double)f->term[k][i] * (double)w->weight[k];
    if (!(left < 1e30 && left > -1e30)) return;
    f->left[i] = left;
    f->share[i] = 1 / ((left < 0 ? -left : left) + (double)w->step);
}
/* A thread has an element of the lower half of the matrix; of its diagonal, one of the vector
 * too. */
PITHI_PHASE(pithi_fit_add, uint32_t unused) {
    struct pithi_gpu_fit *const f = &s->strip.fit;
    const uint32_t k = t->tid / PITHI_WEIGHTED_TERMS, m = t->tid % PITHI_WEIGHTED_TERMS;
    (void)a, (void)unused;
    if (k >= s->strip.interp.terms || m > k) return;
    double sum = f->equations.matrix[k][m], side = m == k ? f->equations.vector[k] : 0;
    for (uint32_t i = 0; i < PITHI_FIT_VALUES; i++) {
        if (f->share[i] < 0) continue;
        const double shared = (double)f->term[k][i] * f->share[i];
        sum += shared * (double)f->term[m][i];
        side += shared * f->left[i];
    }
    f->equations.matrix[k][m] = sum;
    if (m == k) f->equations.vector[k] = side;
}

PITHI_PHASE(pithi_fit_solve, uint32_t unused) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    struct pithi_gpu_fit *const f = &s->strip.fit;
    (void)a, (void)unused;
    if (t->tid) return;
    f->solved = pithi_equations_solve(&f->equations, w->terms);
    for (uint32_t k = 0; k < w->terms && f->solved; k++) {
        f->solved = pithi_weight_of(f->equations.vector[k] + (double)w->weight[k], &f->stored[k]);
        if (f->solved) f->weight[k] = pithi_weight_value(f->stored[k]);
    }
}

/* Returns about what the words of a part take, in 1/256 bit. */
PITHI_DEVICE uint64_t pithi_sampled_cost(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s,
                                         const struct pithi_gpu_sampled *q, const float *weight) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    struct pithi_word_cost cost = pithi_word_cost_none();
    for (uint32_t in = 0; in < q->n; in++) {
        const float predicted =
            pithi_class_predict(w, weight, q->j1, q->j2, pithi_sampled_j3(w, q, in));
        pithi_word_cost_add(&cost, (pithi_sampled_value(a, s, q, in) - predicted) * w->inverse);
    }
    return pithi_word_cost_sum(&cost);
}
/* Two threads a part: with the usual weights, and with those that were found. */
PITHI_PHASE(pithi_fit_cost, uint32_t unused) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    struct pithi_gpu_fit *const f = &s->strip.fit;
    const uint32_t part = t->tid / 2 * 2 + 1;
    (void)unused;
    if (part >= pithi_fit_samples(w)) return;
    const struct pithi_gpu_sampled q = pithi_sampled_of(w, part);
    const bool own = t->tid % 2;
    pithi_atomic_add64(own ? &f->after : &f->before,
                       pithi_sampled_cost(a, s, &q, own ? f->weight : w->weight));
    if (!own) pithi_atomic_add64(&f->count, q.n);
}
/* Takes the weights that were found where they pay. */
PITHI_PHASE(pithi_fit_judge, uint32_t unused) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    const struct pithi_gpu_fit *const f = &s->strip.fit;
    const uint32_t k = w->parities - 1;
    (void)a, (void)unused;
    if (t->tid || !f->solved || f->before <= f->after) return;
    const uint64_t saved = (f->before - f->after) / f->count * pithi_class_elements(w, w->parities);
    if (saved < (uint64_t)w->terms * PITHI_WEIGHT_BYTES * 8 * 256) return;
    struct pithi_weights *const to = w->weights;
    to->set[w->level] = (uint8_t)(to->set[w->level] | 1u << k);
    for (uint32_t i = 0; i < w->terms; i++) {
        to->of[w->level][k][i] = f->stored[i];
        w->weight[i] = f->weight[i];
    }
}

/* Part of a body: the weights of the open class. */
PITHI_DEVICE void pithi_class_fit(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                  struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint32_t samples = pithi_fit_samples(&s->strip.interp);
    PITHI_RUN(pithi_fit_clear, 0);
    for (uint32_t first = 0; first < samples; first += 2 * PITHI_FIT_PARTS) {
        PITHI_RUN(pithi_fit_terms, first);
        PITHI_RUN(pithi_fit_left, first);
        PITHI_RUN(pithi_fit_add, 0);
    }
    PITHI_RUN(pithi_fit_solve, 0);
    if (s->strip.fit.solved) PITHI_RUN(pithi_fit_cost, 0);
    PITHI_RUN(pithi_fit_judge, 0);
}

PITHI_PHASE(pithi_class_write_open, uint32_t parities) {
    (void)a;
    if (t->tid == 0) pithi_class_open(&s->strip.interp, parities);
}
PITHI_PHASE(pithi_weights_clear, uint32_t unused) {
    struct pithi_weights *const w = s->strip.interp.weights;
    (void)a, (void)unused;
    if (t->tid < PITHI_WEIGHTED_LEVELS) w->set[t->tid] = 0;
}
/* Part of a body: words of the open box by weighted interpolation. */
PITHI_DEVICE void pithi_weighted_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_RUN(pithi_weights_clear, 0);
    pithi_interp_walk(a, s, t, team, true, PITHI_WEIGHTED_LEVELS);
    for (uint32_t level = PITHI_WEIGHTED_LEVELS; level-- > 0;) {
        PITHI_RUN(pithi_interp_level, level);
        for (uint32_t k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) {
            if (!pithi_class_exists(&s->strip.interp, k)) continue;
            PITHI_RUN(pithi_class_write_open, k);
            pithi_class_fit(a, s, t, team);
            PITHI_RUN(pithi_class_code, true);
        }
    }
}

/* ---- Samples of a tile -----------------------------------------------------------------------*/

/* Returns 16 times the value of an element in steps. */
PITHI_DEVICE int64_t pithi_fine(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                uint32_t i) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint64_t element = pithi_place_of(&s->to.slot->tiling, &b->tile, i).at;
    const float steps = pithi_interp_value(a, s, element) * b->quant.inverse;
    if (pithi_interp_within(steps, PITHI_QUANT_LIMIT)) return (int64_t)(steps * 16);
    const uint8_t *const codes = pithi_codes_of(&a->to, b);
    return 16 * (int64_t)(int32_t)pithi_get_aligned32(codes + 4 * (uint64_t)i);
}
/* Returns 16 times a neighbour's reconstruction in steps, between its value and its code. */
PITHI_DEVICE int64_t pithi_fine_rebuilt(const struct pithi_gpu_call *a,
                                        const struct pithi_gpu_shared *s, uint32_t i) {
    const uint8_t *const codes = pithi_codes_of(&a->to, &s->strip.block);
    const int64_t code = (int32_t)pithi_get_aligned32(codes + 4 * (uint64_t)i);
    return (pithi_fine(a, s, i) >> 1) + 8 * code;
}
/* Returns 16 times what neighbours predict, `step` elements of the tile apart. */
PITHI_DEVICE int64_t pithi_fine_predict(const struct pithi_gpu_call *a,
                                        const struct pithi_gpu_shared *s, uint32_t i,
                                        enum pithi_interp_kind kind, uint32_t step) {
    const bool has_b = kind <= PITHI_INTERP_LINEAR;
    const bool has_c =
        kind == PITHI_INTERP_CUBIC || kind == PITHI_INTERP_LEFT || kind == PITHI_INTERP_BEYOND;
    const bool has_e = kind == PITHI_INTERP_CUBIC || kind == PITHI_INTERP_RIGHT;
    const int64_t near = pithi_fine_rebuilt(a, s, i - step);
    const int64_t b = has_b ? pithi_fine_rebuilt(a, s, i + step) : 0;
    const int64_t c = has_c ? pithi_fine_rebuilt(a, s, i - 3 * step) : 0;
    const int64_t e = has_e ? pithi_fine_rebuilt(a, s, i + 3 * step) : 0;
    switch (kind) {
    case PITHI_INTERP_CUBIC: return (9 * (near + b) - c - e) >> 4;
    case PITHI_INTERP_LEFT: return (6 * near + 3 * b - c) >> 3;
    case PITHI_INTERP_RIGHT: return (3 * near + 6 * b - e) >> 3;
    case PITHI_INTERP_LINEAR: return (near + b) >> 1;
    case PITHI_INTERP_BEYOND: return (3 * near - c) >> 1;
    default: return near;
    }
}

PITHI_PHASE(pithi_fine_clear, uint32_t unused) {
    (void)a, (void)unused;
    if (t->tid >= PITHI_KINDS) return;
    s->strip.levels[0].of[t->tid] = s->strip.levels[1].of[t->tid] = 0;
}
/* Counts the words of samples, each on the level and along the dimension where it is coded. */
PITHI_PHASE(pithi_fine_count, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t row = pithi_tile_extent(&b->tile, 3);
    const uint32_t words = pithi_estimate_runs(b->count) * PITHI_ESTIMATE_RUN;
    (void)unused;
    for (uint32_t i = t->tid; i < words; i += PITHI_TEAM) {
        const uint32_t begin = (uint32_t)pithi_estimate_at(b->count, i / PITHI_ESTIMATE_RUN);
        const uint32_t in = i % PITHI_ESTIMATE_RUN, at = begin + in;
        if (in >= row - begin % row || !at) continue;
        const struct pithi_gpu_place p = pithi_place_of(&s->to.slot->tiling, &b->tile, at);
        const uint32_t all = p.x[0] | p.x[1] | p.x[2] | p.x[3], h = all & (0 - all);
        uint32_t place = 0, places = 0, step = 0, pitch = 1;
        PITHI_UNROLL for (int d = PITHI_TILE_NDIM - 1; d >= 0; d--) {
            if (p.x[d] & h) {
                place = p.x[d] / h;
                places = (b->tile.extent[d] - 1) / h + 1;
                step = h * pitch;
            }
            pitch *= b->tile.extent[d];
        }
        const int64_t predicted =
            pithi_fine_predict(a, s, at, pithi_interp_kind(place, places), step);
        const int64_t code = (pithi_fine(a, s, at) - predicted + 8) >> 4;
        pithi_atomic_add32(&s->strip.levels[h > 1].of[pithi_kind_of(pithi_zigzag((uint32_t)code))],
                           1);
    }
}

PITHI_DEVICE void pithi_kinds_total(struct pithi_kinds *kinds) {
    kinds->total = 0;
    for (uint32_t k = 0; k < PITHI_KINDS; k++) kinds->total += kinds->of[k];
}

/* How a block is coded as far as samples say it, or which row of weighted interpolation is looked
 * at first. Higher orders of differences than 0 pay where neighbours are alike. */
PITHI_PHASE(pithi_fine_weigh, uint32_t unused) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    struct pithi_kinds *const levels = s->strip.levels;
    (void)a, (void)unused;
    if (t->tid) return;
    pithi_kinds_total(&levels[0]);
    pithi_kinds_total(&levels[1]);
    const uint64_t sum = pithi_kinds_entropy(&levels[0]) + pithi_kinds_entropy(&levels[1]);
    const uint32_t total = levels[0].total + levels[1].total;
    const bool fits = b->count >= PITHI_WEIGHTED_MIN && pithi_weighted_fits(b->tile.extent);
    w->cost = total ? (uint32_t)(sum / total) : UINT32_MAX;
    w->row = total ? pithi_interp_row_of(w->cost, sum / 256 * b->count / total) : 0;
    w->lorenzo = entry->bounded.packed;
    w->rows = w->row;
    w->share = UINT32_MAX;
    const bool best = w->cost < w->lorenzo;
    const bool near = entry->bounded.order || w->cost < w->lorenzo + PITHI_INTERP_NEAR;
    w->method = !best ? PITHI_EB_CODED : fits ? PITHI_EB_WEIGHTED : PITHI_EB_INTERPOLATED;
    w->boxes = best || !fits || !near ? 0 : b->count < PITHI_BOX_OF ? 1 : (uint32_t)PITHI_BOXES;
}

/* ---- Boxes of a tile -------------------------------------------------------------------------*/

PITHI_PHASE(pithi_boxes_clear, uint32_t unused) {
    struct pithi_gpu_fit *const f = &s->strip.fit;
    (void)a, (void)unused;
    if (t->tid >= PITHI_KINDS) return;
    f->lorenzo.of[t->tid] = 0;
    for (uint32_t k = 0; k <= PITHI_WEIGHTED_CLASSES; k++) f->weighted[k].of[t->tid] = 0;
}
PITHI_DEVICE struct pithi_box pithi_box_number(const struct pithi_gpu_shared *s, uint32_t box) {
    const struct pithi_tile *const tile = &s->strip.block.tile;
    return pithi_box_of(tile->extent[1], tile->extent[2], tile->extent[3],
                        s->strip.interp.boxes == 1 ? 2 : box);
}
PITHI_PHASE(pithi_box_open, uint32_t box, uint32_t row) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    const struct pithi_box b = pithi_box_number(s, box);
    (void)a;
    if (t->tid) return;
    pithi_interp_open(w, &s->to.slot->tiling, &s->strip.block.tile, b.at, b.extent);
    w->row = row;
}
PITHI_DEVICE void pithi_box_add(struct pithi_kinds *kinds, uint32_t word) {
    pithi_atomic_add32(&kinds->of[pithi_kind_of(word)], 1);
}
/* Words of differences in the box; neighbours may be outside of it. */
PITHI_PHASE(pithi_box_differences, uint32_t box) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_box of = pithi_box_number(s, box);
    const struct pithi_gpu_line l = {pithi_codes_of(&a->to, b), NULL, 0};
    const uint32_t order = pithi_entry(b->workspace, b->number)->bounded.order;
    const uint32_t n3 = of.extent[3] - 2 * PITHI_BOX_INNER_LAST;
    for (uint32_t i = t->tid; i < of.extent[1] * of.extent[2] * n3; i += PITHI_TEAM) {
        const uint32_t j1 = i / n3 / of.extent[2], j2 = i / n3 % of.extent[2];
        if (!pithi_box_inner(j1, of.extent[1]) || !pithi_box_inner(j2, of.extent[2])) continue;
        const uint32_t x1 = of.at[1] + j1, x2 = of.at[2] + j2;
        const uint32_t x3 = of.at[3] + PITHI_BOX_INNER_LAST + i % n3;
        const uint32_t e = (x1 * b->tile.extent[2] + x2) * b->tile.extent[3] + x3;
        const struct pithi_gpu_place p = pithi_place_of(&s->to.slot->tiling, &b->tile, e);
        pithi_box_add(&s->strip.fit.lorenzo, pithi_word_of(&b->tile, &l, order, p.x, e));
    }
}
PITHI_PHASE(pithi_box_coarse, uint32_t unused) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    const uint32_t n = pithi_class_elements(w, 0);
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < n; i += PITHI_TEAM)
        pithi_box_add(&s->strip.fit.weighted[0], pithi_zigzag(w->words[i]));
}
/* Words of a class of the finest level, which is the level of the walk. */
PITHI_PHASE(pithi_box_class, uint32_t parities) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    const uint32_t n2 = pithi_class_places(w, parities, 2), n3 = pithi_class_places(w, parities, 3);
    const uint32_t n = pithi_class_elements(w, parities), side = PITHI_BOX_INNER_LAST / 2;
    uint32_t before = 0;
    (void)a;
    for (uint32_t k = 0; k < parities; k++) before += pithi_class_elements(w, k);
    for (uint32_t i = t->tid; i < n; i += PITHI_TEAM) {
        const uint32_t j1 = 2 * (i / n3 / n2) + pithi_class_parity(parities, 1);
        const uint32_t j2 = 2 * (i / n3 % n2) + pithi_class_parity(parities, 2), in = i % n3;
        if (!pithi_box_inner(j1, w->grid[1]) || !pithi_box_inner(j2, w->grid[2])) continue;
        if (in >= side && in + side < n3)
            pithi_box_add(&s->strip.fit.weighted[parities], pithi_zigzag(w->words[before + i]));
    }
}
/* What a row takes, where differences take 2^16. */
PITHI_PHASE(pithi_boxes_judge, uint32_t row) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    struct pithi_gpu_fit *const f = &s->strip.fit;
    const struct pithi_gpu_block *const b = &s->strip.block;
    uint64_t fine = 0, total = 0;
    (void)a;
    if (t->tid) return;
    pithi_kinds_total(&f->lorenzo);
    pithi_kinds_total(&f->weighted[0]);
    for (uint32_t k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) {
        pithi_kinds_total(&f->weighted[k]);
        fine += pithi_kinds_entropy(&f->weighted[k]);
        total += f->weighted[k].total;
    }
    const uint64_t coarse = pithi_coarse_count(&b->tile), count = b->count;
    const uint32_t weighted =
        (uint32_t)((fine / total * (count - coarse) +
                    pithi_kinds_entropy(&f->weighted[0]) / f->weighted[0].total * coarse) /
                   count);
    const uint32_t lorenzo = (uint32_t)(pithi_kinds_entropy(&f->lorenzo) / f->lorenzo.total);
    const uint64_t share = ((uint64_t)weighted << 16) / (lorenzo ? lorenzo : 1);
    w->better = share < w->share;
    if (!w->better) return;
    w->share = (uint32_t)share;
    w->rows = row;
}

/* Part of a body: the row of weighted interpolation that is said to take least, in w->rows, and
 * what it takes, in w->share; words and reconstructions of boxes lie where those of the block
 * will. */
PITHI_DEVICE void pithi_boxes_weigh(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint32_t boxes = s->strip.interp.boxes, first = s->strip.interp.rows;
    for (uint32_t row = first; row < PITHI_INTERP_ROWS; row++) {
        PITHI_RUN(pithi_boxes_clear, 0);
        for (uint32_t box = 0; box < boxes; box++) {
            PITHI_RUN(pithi_box_open, box, row);
            PITHI_RUN(pithi_box_differences, box);
            pithi_weighted_encode(a, s, t, team);
            PITHI_RUN(pithi_box_coarse, 0);
            for (uint32_t k = 1; k <= PITHI_WEIGHTED_CLASSES; k++) PITHI_RUN(pithi_box_class, k);
        }
        PITHI_RUN(pithi_boxes_judge, row);
        if (!s->strip.interp.better) return;
    }
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_interp_plan_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_interp *const w = &s->strip.interp;
    pithi_code_open(a, s, t, number);
    if (t->tid || !b->live) return;
    b->live = pithi_entry(b->workspace, b->number)->bounded.method == PITHI_EB_CODED;
    w->bound = b->quant.bound;
    w->y = pithi_rebuilt_of(&a->to, b);
    w->words = (uint32_t *)(void *)pithi_scratch_of(&a->to, b);
    w->weights = pithi_weights_of(&a->to, b);
}
/* The method, and the tile as a box. */
PITHI_PHASE(pithi_interp_decide, uint32_t unused) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t none[PITHI_TILE_NDIM] = {0, 0, 0, 0};
    (void)unused;
    if (t->tid) return;
    if (w->share < PITHI_WEIGHTED_PAYS) w->method = PITHI_EB_WEIGHTED;
    pithi_interp_open(w, &s->to.slot->tiling, &b->tile, none, b->tile.extent);
    w->map = pithi_missed_of(&a->to, b);
    w->row = w->rows;
    s->strip.misses = 0;
}
PITHI_PHASE(pithi_missed_clear, uint32_t unused) {
    const struct pithi_gpu_interp *const w = &s->strip.interp;
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < (s->strip.block.count + 31) / 32; i += PITHI_TEAM) w->map[i] = 0;
}
/* No sample sees that sums of values near the largest number are infinite. */
PITHI_PHASE(pithi_interp_accept, uint32_t unused) {
    struct pithi_gpu_interp *const w = &s->strip.interp;
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    (void)a, (void)unused;
    if (t->tid) return;
    w->kept = s->strip.misses <= (uint64_t)entry->bounded.misses + b->count / PITHI_INTERP_FEW;
    if (!w->kept) return;
    entry->bounded.method = (uint8_t)w->method;
    entry->bounded.order = (uint8_t)w->row;
    entry->bounded.misses = s->strip.misses;
}
PITHI_PHASE(pithi_missed_begin, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    if (t->tid < b->parts) pithi_part_of(&a->to, b, t->tid)->misses = 0;
}
/* Values that are stored exactly, as launches of differences leave them. */
PITHI_PHASE(pithi_missed_hand, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t *const from = s->strip.interp.map;
    uint8_t *const map = pithi_misses_of(&a->to, b);
    const uint32_t strips = (b->groups + PITHI_TEAM - 1) / PITHI_TEAM;
    const uint32_t each = (strips + b->parts - 1) / b->parts * PITHI_TEAM;
    (void)unused;
    for (uint32_t g = t->tid; g < b->groups; g += PITHI_TEAM) {
        const uint32_t bits = from[g / 2] >> 16 * (g % 2) & 0xFFFF;
        map[2 * g] = (uint8_t)bits;
        if (pithi_group_count(b, g) > 8) map[2 * g + 1] = (uint8_t)(bits >> 8);
        if (bits)
            pithi_atomic_add32(&pithi_part_of(&a->to, b, g / each)->misses, pithi_ones32(bits));
    }
}

/* A team a block. */
PITHI_BODY(pithi_interp_plan) {
    PITHI_RUN(pithi_interp_plan_open, number);
    if (!s->strip.block.live) return;
    PITHI_RUN(pithi_fine_clear, 0);
    PITHI_RUN(pithi_fine_count, 0);
    PITHI_RUN(pithi_fine_weigh, 0);
    if (s->strip.interp.boxes) pithi_boxes_weigh(a, s, t, team);
    PITHI_RUN(pithi_interp_decide, 0);
    const uint32_t method = s->strip.interp.method;
    if (method == PITHI_EB_CODED) return;
    PITHI_RUN(pithi_missed_clear, 0);
    if (method == PITHI_EB_WEIGHTED)
        pithi_weighted_encode(a, s, t, team);
    else
        pithi_interp_walk(a, s, t, team, true, 0);
    PITHI_RUN(pithi_interp_accept, 0);
    if (!s->strip.interp.kept) return;
    PITHI_RUN(pithi_missed_begin, 0);
    PITHI_RUN(pithi_missed_hand, 0);
    pithi_plan_parts(a, s, t, team, false);
}

#endif
