/* sets.h - the sets that slots hold: made of frames or of lists, and values at their elements.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A set is a bit for each element, in the stream (device/call.h). Frames are merged by a team a
 * block, after the checks of decode.h. Where a block's values stand among all is found as for lists
 * of an encode: its elements are counted by a team a block, summed by one a frame. */
#ifndef PITHI_GPU_DEVICE_SPARSE_SETS_H
#define PITHI_GPU_DEVICE_SPARSE_SETS_H

#include "device/sparse/decode.h"

/* ---- Hold ------------------------------------------------------------------------------------*/

/* By the team's first thread, besides what sums open with: where the item's set goes. */
PITHI_PHASE(pithi_hold_open, uint64_t number) {
    if (t->tid == 0) pithi_item_locate(a, &a->to, number, &s->to);
}

/* Frame k of the item: its set goes to the map, or, of an intersection from the second one on, to
 * space beside it. */
PITHI_PHASE(pithi_hold_frame, uint64_t number, uint32_t k) {
    struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t item = number / a->chunks, block = number % a->chunks;
    if (t->tid) return;
    pithi_frame_locate(a, (item * a->per_item + k) * a->chunks + block, &s->from);
    pithi_topk_block(a, s, block);
    if (!s->strip.block.live) return;
    uint8_t *map = pithi_chosen_map(a, &s->to);
    if (k && a->sparse.scratch) map = a->sparse.scratch + item * pithi_workspace_map(&a->to.plan);
    c->marks = (uint32_t *)(void *)(map + c->first / 8);
}

PITHI_DEVICE uint32_t pithi_hold_words(const struct pithi_gpu_set *c) {
    return 2 * ((c->n + 63) / 64);
}

/* A block without indices has those of the map already. */
PITHI_PHASE(pithi_hold_begin, uint32_t k) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const bool there = c->form == PITHI_INDEX_BITMAP && c->index == (const uint8_t *)c->marks;
    if (there || (k && !a->sparse.scratch)) return;
    for (uint32_t i = t->tid; i < pithi_hold_words(c); i += PITHI_TEAM) c->marks[i] = 0;
}

/* Joins a frame's set with those before; behind it no thread looks at this frame any more. */
PITHI_PHASE(pithi_hold_join, uint32_t k) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    if (!k || !a->sparse.scratch) return;
    uint32_t *const map = (uint32_t *)(void *)(pithi_chosen_map(a, &s->to) + c->first / 8);
    for (uint32_t i = t->tid; i < pithi_hold_words(c); i += PITHI_TEAM) map[i] &= c->marks[i];
}

PITHI_PHASE(pithi_hold_close, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->to.first) pithi_chosen_of(a, &s->to)->holds = 1;
}

/* Both sides of the call are the same. */
PITHI_BODY(pithi_sparse_hold) {
    PITHI_RUN(pithi_topk_sum_open, number, true);
    if (s->bad != UINT32_MAX) return;
    PITHI_RUN(pithi_hold_open, number);
    for (uint32_t k = 0; k < a->per_item; k++) {
        PITHI_RUN(pithi_hold_frame, number, k);
        if (!s->strip.block.live) break; /* nor is it of the other frames */
        PITHI_RUN(pithi_hold_begin, k);
        pithi_set_walk(a, s, t, team, PITHI_VISIT_MARK);
        PITHI_RUN(pithi_hold_join, k);
    }
    PITHI_RUN(pithi_hold_close, number);
}

/* ---- Lists of the caller's -------------------------------------------------------------------*/

/* Numbers of runs stand in place of the item's frame. */
PITHI_DEVICE uint64_t pithi_runs_listed(const struct pithi_gpu_call *a,
                                        const struct pithi_gpu_item *it) {
    return pithi_item_length(&a->to.items, it->index) / 8;
}
/* Words of the map that a run touches at the most. */
PITHI_DEVICE uint64_t pithi_run_words(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it) {
    const uint64_t n = it->slot->count, run = a->sparse.run < n ? a->sparse.run : n;
    return (run + 30) / 32 + 1;
}

PITHI_PHASE(pithi_listed_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    if (it->status == PITH_OK && pithi_item_length(&a->to.items, it->index) % 8)
        it->status = PITH_ERR_SHAPE;
    if (it->status == PITH_OK && !it->frame && pithi_runs_listed(a, it)) it->status = PITH_ERR_ARG;
    if (it->first) pithi_mark(a, it->index)->status = it->status;
}

/* Every run begins inside the slot. */
PITHI_PHASE(pithi_listed_look, uint64_t team) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t n = it->slot->count, listed = pithi_runs_listed(a, it);
    uint32_t outside = 0;
    for (uint64_t i = team * PITHI_TEAM + t->tid; i < listed; i += a->chunks * PITHI_TEAM)
        outside |= !n || pithi_header_word(it->frame + 8 * i) > (n - 1) / a->sparse.run;
    if (outside) pithi_atomic_max32(&pithi_mark(a, it->index)->corrupt, 1);
}
PITHI_BODY(pithi_sparse_listed) {
    PITHI_RUN(pithi_listed_open, number);
    if (s->to.status == PITH_OK) PITHI_RUN(pithi_listed_look, number % a->chunks);
}

PITHI_PHASE(pithi_listed_find, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    const struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    it->status = m->status == PITH_OK && m->corrupt ? PITH_ERR_ARG : m->status;
}
PITHI_PHASE(pithi_map_empty, uint64_t team) {
    const uint64_t words = (s->to.slot->count + 63) / 64;
    uint8_t *const map = pithi_chosen_map(a, &s->to);
    for (uint64_t i = team * PITHI_TEAM + t->tid; i < words; i += a->chunks * PITHI_TEAM)
        pithi_put_aligned64(map + 8 * i, 0);
}
PITHI_BODY(pithi_sparse_empty) {
    PITHI_RUN(pithi_listed_find, number);
    if (s->to.status == PITH_OK) PITHI_RUN(pithi_map_empty, number % a->chunks);
}

/* Word `word` of those that a run touches. */
PITHI_DEVICE void pithi_run_mark(uint32_t *map, uint64_t first, uint64_t end, uint64_t word) {
    const uint64_t base = 32 * (first / 32 + word);
    if (base >= end) return;
    uint32_t bits = UINT32_MAX;
    if (first > base) bits <<= first - base;
    if (end - base < 32) bits &= (1u << (end - base)) - 1;
    pithi_atomic_or32(&map[base / 32], bits);
}

/* Runs from `first` on, one for each thread of the team: threads share their words. */
PITHI_PHASE(pithi_listed_mark, uint64_t first, uint64_t words) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t n = it->slot->count, run = a->sparse.run;
    const uint64_t left = pithi_runs_listed(a, it) - first;
    const uint64_t runs = left < PITHI_TEAM ? left : (uint64_t)PITHI_TEAM;
    uint32_t *const map = (uint32_t *)(void *)pithi_chosen_map(a, it);
    for (uint64_t i = t->tid; i < runs * words; i += PITHI_TEAM) {
        const uint64_t begin = pithi_header_word(it->frame + 8 * (first + i / words)) * run;
        pithi_run_mark(map, begin, run < n - begin ? begin + run : n, i % words);
    }
}
PITHI_PHASE(pithi_listed_close, uint64_t number) {
    const struct pithi_gpu_item *const it = &s->to;
    (void)number;
    if (t->tid || !it->first) return;
    a->to.items.status[it->index] = it->status;
    if (it->status == PITH_OK) pithi_chosen_of(a, it)->holds = 1;
}
PITHI_BODY(pithi_sparse_mark) {
    PITHI_RUN(pithi_listed_find, number);
    const uint64_t begin = number % a->chunks * PITHI_TEAM, step = a->chunks * PITHI_TEAM;
    if (s->to.status == PITH_OK) {
        const uint64_t listed = pithi_runs_listed(a, &s->to), words = pithi_run_words(a, &s->to);
        for (uint64_t first = begin; first < listed; first += step)
            PITHI_RUN(pithi_listed_mark, first, words);
    }
    PITHI_RUN(pithi_listed_close, number);
}

/* ---- Where values stand ----------------------------------------------------------------------*/

/* The status of an item whose slot must hold a set. */
PITHI_DEVICE int32_t pithi_held_status(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_item *it) {
    if (it->status != PITH_OK) return it->status;
    return pithi_chosen_of(a, it)->holds ? PITH_OK : PITH_ERR_STATE;
}

/* By the team's first thread: the block, whose item is located. */
PITHI_DEVICE void pithi_held_block(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    b->number = number % a->chunks;
    b->workspace = pithi_frame_workspace(a, &a->to, s->to.index);
    b->live = s->to.status == PITH_OK && b->number < s->to.slot->blocks;
    if (b->live) pithi_set_open(&a->to.plan, &s->to, b->number, &s->strip.set);
}

PITHI_PHASE(pithi_held_find, uint64_t number) {
    t->predict.total = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_held_status(a, &s->to);
    if (s->to.first) pithi_mark(a, s->to.index)->status = s->to.status;
    pithi_held_block(a, s, number);
}

PITHI_LOCAL(pithi_held_count, uint32_t words) {
    for (uint32_t i = t->tid; i < words; i += PITHI_TEAM) {
        const uint64_t word = pithi_map_word(a, s, i);
        t->predict.total += pithi_ones32((uint32_t)word) + pithi_ones32((uint32_t)(word >> 32));
    }
}
PITHI_PHASE(pithi_held_join, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP == 0) pithi_atomic_add64(&s->strip.set.total, t->predict.total);
}
PITHI_PHASE(pithi_held_close, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)number;
    if (t->tid) return;
    pithi_entry(b->workspace, b->number)->set.count = (uint32_t)s->strip.set.total;
    pithi_atomic_add64(&pithi_mark(a, s->to.index)->set.counted, s->strip.set.total);
}

PITHI_BODY(pithi_sparse_held) {
    PITHI_RUN(pithi_held_find, number);
    if (!s->strip.block.live) return;
    PITHI_STEP(pithi_held_count, (s->strip.set.n + 63) / 64);
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_held_join, number);
    PITHI_RUN(pithi_held_close, number);
}

/* ---- Gather, scatter -------------------------------------------------------------------------*/

/* Whether the values of the item fit; bytes: of as many as its set has elements. adds: they are
 * there already. */
PITHI_DEVICE int32_t pithi_values_fit(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it, uint64_t bytes, bool adds) {
    const struct pithi_gpu_items *const items = &a->to.items;
    if (it->status != PITH_OK) return it->status;
    if (bytes && !it->frame) return PITH_ERR_ARG;
    if (bytes > items->capacity) return adds ? PITH_ERR_SHAPE : PITH_ERR_SPACE;
    if (adds && items->lengths && items->lengths[it->index] != bytes) return PITH_ERR_SHAPE;
    return PITH_OK;
}

PITHI_PHASE(pithi_values_open, uint64_t number, bool adds) {
    struct pithi_gpu_item *const it = &s->to;
    const struct pithi_gpu_items *const items = &a->to.items;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    const struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    const uint64_t bytes = m->set.counted * pithi_dtype_bytes(a->sparse.dtype);
    it->status = m->status;
    it->status = pithi_values_fit(a, it, bytes, adds);
    pithi_held_block(a, s, number);
    if (s->strip.block.live)
        s->strip.carry[0] = pithi_entry(s->strip.block.workspace, s->strip.block.number)->set.first;
    if (!it->first) return;
    items->status[it->index] = it->status;
    if (!adds && items->lengths) items->lengths[it->index] = it->status == PITH_OK ? bytes : 0;
}

/* Element e of the slot, the i-th of its set: value i := it, or it := it + scale * value i. Without
 * a tensor it is the residual's. */
PITHI_DEVICE void pithi_held_visit(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   uint64_t e, uint64_t i, bool adds) {
    const uint32_t dtype = a->to.items.dtype, width = pithi_dtype_bytes(dtype);
    const uint32_t values = a->sparse.dtype, step = pithi_dtype_bytes(values);
    uint8_t *const value = it->frame + i * step;
    if (!adds) {
        const uint32_t x =
            it->tensor ? pithi_unit_widen(dtype, pithi_own_get(it->tensor + e * width, width))
                       : pithi_bits(pithi_residual(a, it, 0)[e]);
        pithi_own_put(value, step, pithi_unit_round(values, x));
        return;
    }
    uint8_t *const dense = it->tensor + e * width;
    const float x = pithi_float(pithi_unit_widen(values, pithi_own_get(value, step)));
    const float before = pithi_float(pithi_unit_widen(dtype, pithi_own_get(dense, width)));
    const float product = x * a->scale;
    pithi_own_put(dense, width, pithi_unit_round(dtype, pithi_bits(before + product)));
}

PITHI_PHASE(pithi_values_move, uint32_t strip, bool adds) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t at = strip * PITHI_TEAM + t->tid;
    uint64_t i = pithi_scan_carry(s, t->tid, strip);
    uint64_t word = pithi_map_word(a, s, at);
    for (uint32_t half = 0; half < 2; half++, word >>= 32)
        for (uint32_t bits = (uint32_t)word; bits; bits &= bits - 1, i++)
            pithi_held_visit(a, &s->to,
                             c->first + 64 * at + 32 * half + pithi_ones32((bits & (0 - bits)) - 1),
                             i, adds);
}

PITHI_DEVICE void pithi_values_walk(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number, bool adds) {
    PITHI_RUN(pithi_values_open, number, adds);
    if (!s->strip.block.live) return;
    const uint32_t words = (s->strip.set.n + 63) / 64;
    for (uint32_t strip = 0; strip < (words + PITHI_TEAM - 1) / PITHI_TEAM; strip++) {
        PITHI_STEP(pithi_listing_count, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_values_move, strip, adds);
    }
}

PITHI_BODY(pithi_sparse_gather) { pithi_values_walk(a, s, t, team, number, false); }
PITHI_BODY(pithi_sparse_scatter) { pithi_values_walk(a, s, t, team, number, true); }

/* ---- Clear -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_clear_open, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_held_status(a, &s->to);
    if (s->to.first) a->to.items.status[s->to.index] = s->to.status;
}

PITHI_LOCAL(pithi_clear_take, uint64_t tile) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        if (e >= s->to.end) continue;
        float *const residual = pithi_residual(a, &s->to, 0) + e;
        float *const momentum =
            a->to.plan.device.sets.momentum != 0 ? pithi_momentum(a, &s->to, 0) + e : residual;
        const uint32_t bits = pithi_chosen_map(a, &s->to)[e / 8];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            if (!(bits >> k & 1)) continue;
            residual[k] = 0;
            momentum[k] = 0;
        }
    }
}

/* A team a run of tiles. */
PITHI_BODY(pithi_sparse_clear) {
    PITHI_RUN(pithi_clear_open, number);
    if (s->to.status != PITH_OK) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
        PITHI_STEP(pithi_clear_take, tile);
}

#endif
