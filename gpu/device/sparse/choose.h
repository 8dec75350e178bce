/* choose.h - which elements topk sends: a threshold, the map of those that reach it, ties.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_SPARSE_CHOOSE_H
#define PITHI_GPU_DEVICE_SPARSE_CHOOSE_H

#include "device/predict/encode.h"

/* ---- Memory ----------------------------------------------------------------------------------*/

PITHI_DEVICE struct pithi_gpu_search *pithi_search_of(const struct pithi_gpu_call *a,
                                                      uint64_t frame) {
    uint8_t *const part = pithi_frame_workspace(a, &a->to, frame);
    return (struct pithi_gpu_search *)(void *)(part + pithi_workspace_search(&a->to.plan));
}

/* The slot of an item in a stream, of which only the item's own teams know. */
PITHI_DEVICE struct pithi_gpu_chosen *pithi_chosen_of(const struct pithi_gpu_call *a,
                                                      const struct pithi_gpu_item *it) {
    return pithi_stream_chosen(&a->to.plan, a->to.stream) +
           pithi_item_slot(&a->to.items, it->index);
}

/* The map of slot number `slot`: bit i % 8 of byte i / 8 is element i. */
PITHI_DEVICE uint8_t *pithi_slot_map(const struct pithi_gpu_side *side,
                                     const struct pithi_gpu_item *it, uint64_t slot) {
    uint8_t *const maps = (uint8_t *)side->stream + pithi_stream_maps_at(&side->plan);
    return maps + 8 * (it->slot->first / 64 + slot);
}
PITHI_DEVICE uint8_t *pithi_chosen_map(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_item *it) {
    return pithi_slot_map(&a->to, it, pithi_item_slot(&a->to.items, it->index));
}
/* The same of the set that the slot held before an encode with same_blocks. */
PITHI_DEVICE uint8_t *pithi_chosen_before(const struct pithi_gpu_call *a,
                                          const struct pithi_gpu_item *it) {
    return a->sparse.scratch + it->index * pithi_workspace_map(&a->to.plan);
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* The momentum of the item's slot, which lies behind the residual. */
PITHI_DEVICE float *pithi_momentum(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   uint32_t next) {
    return pithi_residual(a, it, next) + a->to.plan.count;
}
/* Adds the momentum before to what is given, as read_changed of sparse_frame.c. */
PITHI_DEVICE uint32_t pithi_momentum_of(const struct pithi_gpu_call *a, float before, uint32_t x) {
    const float kept = a->to.plan.device.sets.momentum * before;
    return pithi_bits(kept + pithi_float(x));
}

/* x := f32 bits of what is added to the residual: values, of which `before` momentum becomes
 * another. */
PITHI_DEVICE void pithi_choose_given(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_item *it, uint64_t e, uint32_t n,
                                     uint32_t x[8], uint32_t before[8]) {
    const uint32_t dtype = a->to.items.dtype;
    pithi_unit_load(it->tensor + e * pithi_dtype_bytes(dtype), dtype, n, x);
    if (a->to.plan.device.sets.momentum == 0) return;
    pithi_unit_load((const uint8_t *)(pithi_momentum(a, it, 0) + e), PITH_F32, n, before);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
        pithi_momentum_of(a, pithi_float(before[k]), x[k]);
}

/* The momentum where nothing is sent, as keep_momentum of topk.c. */
PITHI_DEVICE void pithi_momentum_keep(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it, uint64_t e, uint32_t n) {
    uint32_t x[PITHI_UNIT], before[PITHI_UNIT];
    if (a->to.plan.device.sets.momentum == 0) return;
    pithi_choose_given(a, it, e, n, x, before);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (pithi_nonfinite(x[k])) x[k] =
        before[k];
    pithi_unit_put((uint8_t *)(pithi_momentum(a, it, 1) + e), 4, n, x);
}

/* x := f32 bits of what is chosen from, of n elements from e on; before := their residual. */
PITHI_DEVICE void pithi_choose_load(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                    uint64_t e, uint32_t n, uint32_t x[8], uint32_t before[8]) {
    pithi_choose_given(a, it, e, n, x, before);
    if (!a->to.plan.device.feedback) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) before[k] = 0;
        return;
    }
    pithi_unit_load((const uint8_t *)(pithi_residual(a, it, 0) + e), PITH_F32, n, before);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
        pithi_bits(pithi_float(before[k]) + pithi_float(x[k]));
}

/* Returns the value that one element is chosen by, as pithi_choose_load has those of a unit. */
PITHI_DEVICE uint32_t pithi_choose_value(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_item *it, uint64_t e) {
    const uint32_t dtype = a->to.items.dtype, width = pithi_dtype_bytes(dtype);
    uint32_t x = pithi_unit_widen(dtype, pithi_own_get(it->tensor + e * width, width));
    if (!a->to.plan.device.feedback) return x;
    if (a->to.plan.device.sets.momentum != 0)
        x = pithi_momentum_of(a, pithi_momentum(a, it, 0)[e], x);
    return pithi_bits(pithi_residual(a, it, 0)[e] + pithi_float(x));
}

/* What the residual `before` becomes where `lost` is not sent, as residual_after of topk.c. */
PITHI_DEVICE uint32_t pithi_residual_after(const struct pithi_device_plan *p, uint32_t before,
                                           float lost) {
    const uint32_t ef = p->device.feedback;
    const float decay = (float)(ef - 1) / 1000.0f, gain = (float)(1001 - ef) / 1000.0f;
    const uint32_t next = pithi_bits(ef == 1 ? lost : decay * pithi_float(before) + gain * lost);
    return pithi_nonfinite(next) ? before : next;
}

/* ---- The threshold ---------------------------------------------------------------------------*/

/* Whether every row of a slot is chosen from by itself. */
PITHI_DEVICE bool pithi_choose_by_row(const struct pithi_device_plan_slot *slot) {
    return slot->sets.row && slot->count;
}

/* What of the slot may be chosen, and how many of it: as open_selection and set_range of
 * sparse_frame.c. */
PITHI_DEVICE void pithi_choose_range(const struct pithi_device_plan_slot *slot,
                                     const struct pithi_sparse_request *r,
                                     struct pithi_gpu_search *f) {
    const uint64_t n = slot->count;
    uint64_t k = slot->sets.chosen ? slot->sets.chosen : 1;
    f->end = r->end && r->end < n ? r->end : n;
    f->first = r->first < f->end ? r->first : f->end;
    f->most = slot->sets.chosen_most;
    if (f->end - f->first < n) k = pithi_control_share(k, f->end - f->first, n);
    if (r->k) k = r->k < f->most ? r->k : f->most;
    f->kth[0].k = k;
}

/* Takes over what the rule has come to. exact: its threshold is the k-th largest magnitude. */
PITHI_DEVICE void pithi_choose_took(struct pithi_gpu_search *f) {
    f->exact = f->step.ask == PITHI_ASK_KTH;
    f->threshold = f->step.t;
    f->control.extra = f->step.extra;
    f->control.threshold = pithi_control_kept(f->step.next);
}

/* Begins the choice of a step's threshold, as choose of sparse_frame.c and the beginning of
 * pithi_control_choose. */
PITHI_DEVICE void pithi_choose_threshold(const struct pithi_device_plan *p,
                                         const struct pithi_gpu_item *it,
                                         const struct pithi_gpu_chosen *chosen,
                                         struct pithi_gpu_search *f) {
    struct pithi_control_step *const step = &f->step;
    f->control = chosen->control;
    f->control.steps++;
    if (pithi_choose_by_row(it->slot)) return;
    f->threshold = chosen->request.threshold;
    f->control.threshold = pithi_control_kept(f->threshold);
    if (f->threshold) return;
    step->before = chosen->control;
    step->k = f->kth[0].k;
    step->n = f->end - f->first;
    step->wanted = (double)(chosen->reported ? it->slot->sets.chosen : step->k);
    step->whole = step->n < it->slot->count ? (double)it->slot->sets.chosen : step->wanted;
    step->number = it->slot_state->step;
    step->kind = p->device.sets.control;
    step->every = p->device.sets.every;
    pithi_control_begin(step);
    pithi_choose_took(f);
}

/* Returns the status of an item that is a sum: whether its slot is like that of its frames, and the
 * first status that one of these has. */
PITHI_DEVICE int32_t pithi_summed_status(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_item *it) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_device_plan_slot *const slots =
        (const struct pithi_device_plan_slot *)(const void *)(a->from.plan_memory + p->slots_at);
    const uint64_t slot = pithi_item_slot(&a->from.items, it->index);
    int32_t status = PITH_OK;
    if (slot < p->slots && slots[slot].count != it->slot->count) return PITH_ERR_ARG;
    for (uint64_t k = a->sparse.summands; k-- > 0;) {
        const int32_t one = a->from.items.status[it->index * a->sparse.summands + k];
        if (one != PITH_OK) status = one;
    }
    return status;
}

PITHI_PHASE(pithi_choose_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    if (it->status == PITH_OK && !it->frame) it->status = PITH_ERR_ARG;
    if (it->status == PITH_OK && a->sparse.sends && !pithi_chosen_of(a, it)->holds)
        it->status = PITH_ERR_STATE;
    if (it->status == PITH_OK && !a->sparse.sends && pithi_choose_by_row(it->slot) &&
        !it->slot->sets.row_chosen)
        it->status = PITH_ERR_UNSUPPORTED;
    if (it->status == PITH_OK && a->sparse.summands) it->status = pithi_summed_status(a, it);
    pithi_mark(a, it->index)->status = it->status;
}

PITHI_PHASE(pithi_choose_clear, uint64_t frame) {
    struct pithi_gpu_search *const f = pithi_search_of(a, frame);
    uint8_t *const part = pithi_frame_workspace(a, &a->to, frame);
    for (uint64_t i = t->tid; i < s->to.slot->blocks; i += PITHI_TEAM)
        pithi_entry(part, i)->set.count = 0;
    for (uint32_t round = 0; round < 2; round++) {
        struct pithi_gpu_kth *const kth = &f->kth[round];
        uint32_t *const bins = kth->bins[0];
        for (uint32_t i = t->tid; i < PITHI_SELECT_LEVELS * PITHI_SELECT_BINS; i += PITHI_TEAM)
            bins[i] = 0;
        if (t->tid) continue;
        kth->larger = 0;
        kth->prefix = kth->equal = 0;
        for (uint32_t i = 0; i < PITHI_SELECT_LEVELS; i++) kth->arrived[i] = 0;
        f->found[round] = 0;
    }
    if (t->tid) return;
    const struct pithi_gpu_chosen *const chosen = pithi_chosen_of(a, &s->to);
    pithi_choose_range(s->to.slot, &chosen->request, f);
    f->anew = a->to.plan.device.sets.control == PITHI_CONTROL_PROP && !chosen->request.threshold;
    f->kth[1].k = f->anew ? f->kth[0].k : f->most;
    f->exact = false;
    f->arrived = 0;
    f->reached = 0;
    f->threshold = UINT32_MAX; /* more than the bits of every magnitude */
    f->step.ask = PITHI_ASK_NOTHING;
    if (!a->sparse.sends) pithi_choose_threshold(&a->to.plan, &s->to, chosen, f);
}

/* A team a frame. */
PITHI_BODY(pithi_sparse_begin) {
    PITHI_RUN(pithi_choose_open, number);
    if (s->to.status == PITH_OK) PITHI_RUN(pithi_choose_clear, s->to.index);
}

/* ---- The k-th largest magnitude --------------------------------------------------------------*/

/* By the team's first thread: the elements that may be chosen. */
PITHI_DEVICE void pithi_choose_bounds(const struct pithi_gpu_search *f,
                                      struct pithi_gpu_shared *s) {
    s->strip.block.lo = f->first;
    s->strip.block.hi = f->end;
}
/* Which elements of the unit at e these are, of its first n. */
PITHI_DEVICE uint32_t pithi_choose_within(const struct pithi_gpu_shared *s, uint64_t e,
                                          uint32_t n) {
    const uint64_t lo = s->strip.block.lo, hi = s->strip.block.hi;
    const uint32_t from = pithi_unit_left(e, lo), end = pithi_unit_left(e, hi);
    return ((1u << (end < n ? end : n)) - 1) & ~((1u << from) - 1);
}

/* Whether more elements reach the threshold than the hard limit allows. An exact k-th has no more
 * than k, of which ties are cut. */
PITHI_DEVICE bool pithi_choose_overflows(const struct pithi_gpu_search *f) {
    return !f->exact && f->found[0] > f->most;
}
/* Whether the search of a round is wanted. */
PITHI_DEVICE bool pithi_choose_wanted(const struct pithi_gpu_search *f, uint32_t round) {
    return round ? pithi_choose_overflows(f) : f->exact != 0;
}

/* Bits of a magnitude below those of a level. */
PITHI_DEVICE uint32_t pithi_level_shift(uint32_t level) {
    return 10 * (PITHI_SELECT_LEVELS - 1 - level);
}

PITHI_PHASE(pithi_count_open, uint64_t number) {
    for (uint32_t i = t->tid; i < PITHI_SELECT_BINS; i += PITHI_TEAM) s->strip.bins[i] = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    const struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    const struct pithi_gpu_kth *const kth = &f->kth[a->sparse.round];
    s->strip.touched =
        pithi_mark(a, s->to.index)->status == PITH_OK && pithi_choose_wanted(f, a->sparse.round);
    if (!s->strip.touched) return;
    s->strip.low = kth->prefix;
    s->strip.carry[0] = kth->k - kth->larger;
    s->strip.fault = 0;
    pithi_choose_bounds(f, s);
}

/* Counts a magnitude whose bits above those of the level are s->strip.low. */
PITHI_DEVICE void pithi_bin_count(struct pithi_gpu_shared *s, uint32_t level, uint32_t magnitude) {
    const uint32_t shift = pithi_level_shift(level), bits = level ? 10 : 11;
    const uint32_t mask = level ? 1023 : PITHI_SELECT_BINS - 1;
    if (!level || magnitude >> shift >> bits == s->strip.low)
        pithi_atomic_add32(&s->strip.bins[magnitude >> shift & mask], 1);
}

PITHI_PHASE(pithi_count_take, uint64_t tile) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, s->to.end);
        uint32_t x[PITHI_UNIT], before[PITHI_UNIT];
        const uint32_t within = pithi_choose_within(s, e, n);
        pithi_choose_load(a, &s->to, e, n, x, before);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (within >> k & 1)
            pithi_bin_count(s, a->sparse.level, pithi_select_magnitude(x[k]));
    }
}

PITHI_PHASE(pithi_count_hand, uint64_t frame) {
    uint32_t *const to = pithi_search_of(a, frame)->kth[a->sparse.round].bins[a->sparse.level];
    for (uint32_t i = t->tid; i < PITHI_SELECT_BINS; i += PITHI_TEAM)
        if (s->strip.bins[i]) pithi_atomic_add32(&to[i], s->strip.bins[i]);
    pithi_fence();
}

PITHI_PHASE(pithi_count_arrive, uint64_t frame) {
    struct pithi_gpu_kth *const kth = &pithi_search_of(a, frame)->kth[a->sparse.round];
    if (t->tid) return;
    s->strip.fault = pithi_atomic_add32(&kth->arrived[a->sparse.level], 1) + 1 == a->chunks;
    pithi_fence();
}

/* A thread's bins, the first thread's being the last: their elements. */
enum { PITHI_PICK = PITHI_SELECT_BINS / PITHI_TEAM };
PITHI_DEVICE uint32_t pithi_pick_first(uint32_t tid) {
    return PITHI_SELECT_BINS - (tid + 1) * PITHI_PICK;
}

PITHI_PHASE(pithi_pick_sum, uint64_t frame) {
    uint32_t *const bins = pithi_search_of(a, frame)->kth[a->sparse.round].bins[a->sparse.level];
    t->predict.total = 0;
    PITHI_UNROLL for (uint32_t i = 0; i < PITHI_PICK; i += 2) {
        const uint32_t bin = pithi_pick_first(t->tid) + i;
        const uint64_t two = pithi_fresh64((const uint64_t *)(const void *)(bins + bin));
        s->strip.bins[bin] = (uint32_t)two;
        s->strip.bins[bin + 1] = (uint32_t)(two >> 32);
        t->predict.total += (uint32_t)two + (two >> 32);
    }
}

/* Whether the thread has the bin of the k-th, and what that says of it; carry: how many are missing
 * to k. */
struct pithi_gpu_pick {
    uint64_t larger;
    uint32_t prefix, equal;
};
PITHI_DEVICE bool pithi_pick_bin(const struct pithi_gpu_shared *s, uint32_t tid, uint64_t k,
                                 uint32_t level, struct pithi_gpu_pick *found) {
    const uint64_t missing = s->strip.carry[0];
    uint64_t larger = pithi_scan_before(s, 0, tid);
    for (uint32_t i = PITHI_PICK; i-- > 0;) {
        const uint32_t bin = pithi_pick_first(tid) + i, here = s->strip.bins[bin];
        if (larger < missing && larger + here >= missing) {
            found->prefix = s->strip.low << (level ? 10 : 11) | bin;
            found->larger = k - missing + larger;
            found->equal = here;
            return true;
        }
        larger += here;
    }
    return false;
}
PITHI_PHASE(pithi_pick_find, uint64_t frame) {
    struct pithi_gpu_kth *const kth = &pithi_search_of(a, frame)->kth[a->sparse.round];
    struct pithi_gpu_pick found;
    if (!pithi_pick_bin(s, t->tid, kth->k, a->sparse.level, &found)) return;
    kth->prefix = found.prefix;
    kth->larger = found.larger;
    kth->equal = found.equal;
}

/* The last team to arrive finds the bin of the k-th largest. */
PITHI_BODY(pithi_sparse_count) {
    PITHI_RUN(pithi_count_open, number);
    if (!s->strip.touched) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
        PITHI_RUN(pithi_count_take, tile);
    PITHI_RUN(pithi_count_hand, s->to.index);
    PITHI_RUN(pithi_count_arrive, s->to.index);
    if (!s->strip.fault) return;
    PITHI_RUN(pithi_pick_sum, s->to.index);
    PITHI_SCAN(0);
    PITHI_RUN(pithi_pick_find, s->to.index);
}

/* ---- The k-th of few elements ----------------------------------------------------------------*/

/* Elements of a slot that one team looks at: a row, or a sample. carry[0]: how many are missing to
 * k; run: what a level finds of the k-th magnitude, its bits and how many are larger. */
struct pithi_gpu_few {
    uint64_t first, stride, count;
};
PITHI_PHASE(pithi_few_clear, uint32_t level) {
    (void)a;
    for (uint32_t i = t->tid; i < PITHI_SELECT_BINS; i += PITHI_TEAM) s->strip.bins[i] = 0;
    if (t->tid) return;
    s->strip.low = level ? (uint32_t)s->strip.run[0] : 0;
    s->strip.carry[0] = s->strip.set.total - (level ? s->strip.run[1] : 0);
}
PITHI_PHASE(pithi_few_count, struct pithi_gpu_few few, uint32_t level) {
    for (uint64_t i = t->tid; i < few.count; i += PITHI_TEAM)
        pithi_bin_count(
            s, level,
            pithi_select_magnitude(pithi_choose_value(a, &s->to, few.first + i * few.stride)));
}
PITHI_LOCAL(pithi_few_sum, uint32_t level) {
    (void)a, (void)level;
    t->predict.total = 0;
    for (uint32_t i = 0; i < PITHI_PICK; i++)
        t->predict.total += s->strip.bins[pithi_pick_first(t->tid) + i];
}
PITHI_PHASE(pithi_few_find, uint32_t level) {
    struct pithi_gpu_pick found;
    (void)a;
    if (!pithi_pick_bin(s, t->tid, s->strip.set.total, level, &found)) return;
    s->strip.run[0] = found.prefix;
    s->strip.run[1] = found.larger;
}
/* Part of a body: finds the s->strip.set.total-th largest magnitude of them. */
PITHI_DEVICE void pithi_few_kth(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                struct pithi_gpu_thread *t, struct pithi_team *team,
                                struct pithi_gpu_few few) {
    for (uint32_t level = 0; level < PITHI_SELECT_LEVELS; level++) {
        PITHI_RUN(pithi_few_clear, level);
        PITHI_RUN(pithi_few_count, few, level);
        PITHI_STEP(pithi_few_sum, level);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_few_find, level);
    }
}

/* ---- The map ---------------------------------------------------------------------------------*/

PITHI_DEVICE uint32_t *pithi_choose_ties(const struct pithi_gpu_call *a, uint64_t frame) {
    uint8_t *const part = pithi_frame_workspace(a, &a->to, frame);
    return (uint32_t *)(void *)(part + pithi_workspace_ties(&a->to.plan));
}

/* The threshold of a round. */
PITHI_DEVICE uint32_t pithi_choose_reached(const struct pithi_gpu_search *f, uint32_t round) {
    if (!round && !f->exact) return f->threshold;
    return f->kth[round].prefix ? f->kth[round].prefix : 1;
}

PITHI_PHASE(pithi_reach_open, uint64_t number) {
    t->predict.total = t->predict.own = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    const struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    s->strip.touched = pithi_mark(a, s->to.index)->status == PITH_OK &&
                       (!a->sparse.round || pithi_choose_overflows(f));
    s->strip.low = s->strip.touched ? pithi_choose_reached(f, a->sparse.round) : 0;
    pithi_choose_bounds(f, s);
    s->strip.set.found = s->strip.set.ties = 0;
}

/* The map of a tile, whose last word is whole, unless that is what the slot holds; and the residual
 * where nothing is sent. With same_blocks what was held is kept, which after a second round nobody
 * looks at. */
PITHI_LOCAL(pithi_reach_take, uint64_t tile) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t least = s->strip.low;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->end);
        uint32_t x[PITHI_UNIT], before[PITHI_UNIT], reached = 0, equal = 0;
        const uint32_t within = pithi_choose_within(s, e, n);
        if (e >= (it->slot->count + 63) / 64 * 64) continue;
        pithi_choose_load(a, it, e, n, x, before);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const uint32_t magnitude = pithi_select_magnitude(x[k]);
            reached |= (uint32_t)(magnitude >= least) << k;
            equal |= (uint32_t)(magnitude == least) << k;
        }
        reached &= within;
        equal &= within;
        if (a->sparse.same_blocks)
            pithi_chosen_before(a, it)[e / 8] = pithi_chosen_map(a, it)[e / 8];
        if (!a->sparse.sends) pithi_chosen_map(a, it)[e / 8] = (uint8_t)reached;
        t->predict.total += pithi_ones32(reached);
        t->predict.own += pithi_ones32(equal);
        if (!a->to.plan.device.feedback || a->sparse.round) continue;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
            pithi_residual_after(&a->to.plan, before[k], pithi_float(x[k]));
        pithi_unit_put((uint8_t *)(pithi_residual(a, it, 1) + e), 4, n, x);
        pithi_momentum_keep(a, it, e, n);
    }
}

PITHI_PHASE(pithi_reach_join, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP) return;
    pithi_atomic_add32(&s->strip.set.found, (uint32_t)t->predict.total);
    pithi_atomic_add32(&s->strip.set.ties, (uint32_t)t->predict.own);
}

PITHI_PHASE(pithi_reach_close, uint64_t number) {
    struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    if (t->tid) return;
    pithi_atomic_add64(&f->found[a->sparse.round], s->strip.set.found);
    pithi_choose_ties(a, s->to.index)[number % a->chunks] = s->strip.set.ties;
}

PITHI_BODY(pithi_sparse_map) {
    PITHI_RUN(pithi_reach_open, number);
    if (!s->strip.touched) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
        PITHI_STEP(pithi_reach_take, tile);
    PITHI_WARP_ADD(predict.total);
    PITHI_WARP_ADD(predict.own);
    PITHI_RUN(pithi_reach_join, number);
    PITHI_RUN(pithi_reach_close, number);
}

/* ---- Rows ------------------------------------------------------------------------------------*/

/* The largest of every row, where k of each are chosen: the team has a row at a time. The map is
 * that of no element yet. */
PITHI_PHASE(pithi_by_row_open, uint64_t number) {
    t->predict.total = t->predict.own = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    const struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    const struct pithi_device_plan_slot *const slot = s->to.slot;
    const uint64_t requested = pithi_chosen_of(a, &s->to)->request.k;
    const uint64_t k = requested ? requested : slot->sets.row_chosen;
    const uint64_t most = slot->sets.row_most;
    s->strip.touched = pithi_mark(a, s->to.index)->status == PITH_OK && pithi_choose_by_row(slot);
    s->strip.set.total = k < most ? k : most;
    s->strip.set.found = 0;
    pithi_choose_bounds(f, s);
}

/* low: of element i of the row, whether it is larger than the k-th, and whether it equals it, which
 * zeros do not. */
PITHI_LOCAL(pithi_row_look, uint64_t row, uint64_t first) {
    const uint64_t i = first + t->tid;
    t->predict.low = 0;
    if (i < s->to.slot->sets.row) {
        const uint32_t x = pithi_select_magnitude(pithi_choose_value(a, &s->to, row + i));
        t->predict.low = (uint32_t)(x > s->strip.run[0]) | (uint32_t)(x && x == s->strip.run[0])
                                                               << 1;
    }
    t->predict.total = t->predict.low >> 1;
}
PITHI_PHASE(pithi_row_mark, uint64_t row, uint64_t first) {
    const uint64_t e = row + first + t->tid, parity = first / PITHI_TEAM % 2;
    const uint64_t before = first ? s->strip.carry[parity] : 0;
    const uint64_t rank = before + pithi_scan_before(s, 0, t->tid);
    const uint64_t ties = s->strip.set.total - s->strip.run[1];
    if (t->tid == 0) s->strip.carry[!parity] = before + pithi_scan_all(s, 0);
    if (!t->predict.low || (t->predict.low > 1 && rank >= ties)) return;
    if (e < s->strip.block.lo || e >= s->strip.block.hi) return;
    pithi_atomic_or32((uint32_t *)(void *)pithi_chosen_map(a, &s->to) + e / 32, 1u << e % 32);
    t->predict.own++;
}

PITHI_PHASE(pithi_by_row_join, uint64_t number) {
    (void)number;
    if (t->tid % PITHI_WARP == 0)
        pithi_atomic_add64(&pithi_search_of(a, s->to.index)->found[0], t->predict.own);
}

/* Teams take the rows by turns. */
PITHI_BODY(pithi_sparse_rows) {
    PITHI_RUN(pithi_by_row_open, number);
    if (!s->strip.touched) return;
    const uint64_t length = s->to.slot->sets.row, step = a->chunks * length;
    for (uint64_t row = number % a->chunks * length; row < s->to.slot->count; row += step) {
        struct pithi_gpu_few few;
        few.first = row;
        few.stride = 1;
        few.count = length;
        pithi_few_kth(a, s, t, team, few);
        for (uint64_t first = 0; first < length; first += PITHI_TEAM) {
            PITHI_STEP(pithi_row_look, row, first);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_row_mark, row, first);
        }
    }
    PITHI_WARP_ADD(predict.own);
    PITHI_RUN(pithi_by_row_join, number);
}

/* ---- Units -----------------------------------------------------------------------------------*/

/* A byte of the map where units are whole: they are smaller than a byte, or have several. */
PITHI_DEVICE uint32_t pithi_unit_fill(const uint8_t *map, uint64_t bytes, uint64_t at,
                                      uint32_t unit) {
    const uint64_t each = unit / 8, begin = each ? at / each * each : at;
    const uint64_t end = bytes - begin < each ? bytes : begin + each;
    uint32_t any = 0;
    for (uint64_t i = begin; i < end; i++) any |= map[i];
    if (each) return any ? 0xFF : 0;
    for (uint32_t k = 0; k < 8; k += unit) {
        const uint32_t all = ((1u << unit) - 1) << k;
        if (map[at] & all) any |= all;
    }
    return any;
}

PITHI_PHASE(pithi_units_open, uint64_t number) {
    t->predict.total = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    pithi_choose_bounds(pithi_search_of(a, s->to.index), s);
}
/* low: the bytes of a thread's units, which others read until all are known. */
PITHI_PHASE(pithi_units_look, uint64_t tile) {
    const uint8_t *const map = pithi_chosen_map(a, &s->to);
    const uint64_t bytes = (s->to.slot->count + 63) / 64 * 8;
    t->predict.low = 0;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t within = pithi_choose_within(s, e, pithi_unit_left(e, s->to.end));
        if (!within) continue;
        t->predict.low |= (within & pithi_unit_fill(map, bytes, e / 8, a->to.plan.device.sets.unit))
                          << 8 * u;
    }
}
PITHI_PHASE(pithi_units_put, uint64_t tile) {
    uint8_t *const map = pithi_chosen_map(a, &s->to);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        if (e < s->to.end) map[e / 8] = (uint8_t)(t->predict.low >> 8 * u);
    }
    t->predict.total += pithi_ones32(t->predict.low);
}
PITHI_PHASE(pithi_units_join, uint64_t number) {
    (void)number;
    if (t->tid % PITHI_WARP == 0)
        pithi_atomic_add64(&pithi_search_of(a, s->to.index)->found[1], t->predict.total);
}

/* A team a run of tiles, of which each has whole units. */
PITHI_BODY(pithi_sparse_units) {
    PITHI_RUN(pithi_units_open, number);
    if (s->to.status != PITH_OK) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE) {
        PITHI_RUN(pithi_units_look, tile);
        PITHI_RUN(pithi_units_put, tile);
    }
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_units_join, number);
}

/* ---- Ties ------------------------------------------------------------------------------------*/

/* Ties of the threshold that are chosen: the first ones. UINT64_MAX: all. */
PITHI_DEVICE uint64_t pithi_choose_quota(const struct pithi_gpu_search *f) {
    const uint32_t round = pithi_choose_overflows(f);
    const struct pithi_gpu_kth *const kth = &f->kth[round];
    if (!pithi_choose_wanted(f, round) || !kth->prefix) return UINT64_MAX;
    return kth->larger + kth->equal > kth->k ? kth->k - kth->larger : UINT64_MAX;
}

/* Elements that reach the threshold, those beyond the hard limit included. */
PITHI_DEVICE uint64_t pithi_choose_found(const struct pithi_device_plan *p,
                                         const struct pithi_gpu_search *f) {
    if (p->device.sets.unit) return f->found[1];
    return f->exact && pithi_choose_quota(f) != UINT64_MAX ? f->kth[0].k : f->found[0];
}

PITHI_PHASE(pithi_cut_open, uint64_t number) {
    t->predict.total = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    const struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    s->to.status = pithi_mark(a, s->to.index)->status;
    s->strip.set.total = 0;
    s->strip.touched = false;
    if (s->to.status != PITH_OK) return;
    s->strip.low = pithi_choose_reached(f, pithi_choose_overflows(f));
    pithi_choose_bounds(f, s);
    s->strip.run[0] = pithi_choose_quota(f);
    s->strip.touched = s->strip.run[0] != UINT64_MAX;
}

/* Ties of the teams before. */
PITHI_LOCAL(pithi_cut_before, uint64_t team) {
    const uint32_t *const ties = pithi_choose_ties(a, s->to.index);
    for (uint64_t i = t->tid; i < team; i += PITHI_TEAM) t->predict.total += ties[i];
}
PITHI_PHASE(pithi_cut_join, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP == 0) pithi_atomic_add64(&s->strip.set.total, t->predict.total);
}
PITHI_PHASE(pithi_cut_judge, uint64_t team) {
    const uint64_t before = s->strip.set.total;
    if (t->tid) return;
    s->strip.carry[0] = before;
    s->strip.touched = before + pithi_choose_ties(a, s->to.index)[team] > s->strip.run[0];
}

/* A row of a tile has a unit of every thread. low: which of its elements equal the threshold. */
PITHI_LOCAL(pithi_cut_look, uint64_t row) {
    const uint64_t e = row + (uint64_t)t->tid * PITHI_UNIT;
    const uint32_t n = pithi_unit_left(e, s->to.end);
    uint32_t x[PITHI_UNIT], before[PITHI_UNIT];
    pithi_choose_load(a, &s->to, e, n, x, before);
    t->predict.low = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->predict.low |=
        (uint32_t)(pithi_select_magnitude(x[k]) == s->strip.low) << k;
    t->predict.low &= pithi_choose_within(s, e, n);
    t->predict.total = pithi_ones32(t->predict.low);
}
PITHI_PHASE(pithi_cut_drop, uint64_t row, uint32_t parity) {
    const uint64_t e = row + (uint64_t)t->tid * PITHI_UNIT;
    uint64_t rank = s->strip.carry[parity] + pithi_scan_before(s, 0, t->tid);
    uint32_t drop = 0;
    if (t->tid == 0) s->strip.carry[!parity] = s->strip.carry[parity] + pithi_scan_all(s, 0);
    for (uint32_t ties = t->predict.low; ties; ties &= ties - 1, rank++)
        if (rank >= s->strip.run[0]) drop |= ties & (0 - ties);
    if (!drop) return;
    uint8_t *const byte = pithi_chosen_map(a, &s->to) + e / 8;
    *byte = (uint8_t)(*byte & ~drop);
}

/* Elements of the row in each block. From 256 elements a block on, a warp has them of one. */
PITHI_LOCAL(pithi_cut_ones, uint64_t row) {
    const uint64_t e = row + (uint64_t)t->tid * PITHI_UNIT;
    t->predict.total = e < s->to.end ? pithi_ones32(pithi_chosen_map(a, &s->to)[e / 8]) : 0;
}
PITHI_LOCAL(pithi_cut_add, uint64_t row, bool warps) {
    const uint64_t e = row + (uint64_t)t->tid * PITHI_UNIT;
    uint8_t *const part = pithi_frame_workspace(a, &a->to, s->to.index);
    if (!t->predict.total || (warps && t->tid % PITHI_WARP)) return;
    pithi_atomic_add32(&pithi_entry(part, e >> a->to.plan.block_log2)->set.count,
                       (uint32_t)t->predict.total);
}

/* Cuts ties, and counts what every block has. */
PITHI_BODY(pithi_sparse_cut) {
    const bool warps = a->to.plan.block_log2 >= 8;
    PITHI_RUN(pithi_cut_open, number);
    if (s->to.status != PITH_OK) return;
    if (s->strip.touched) {
        PITHI_STEP(pithi_cut_before, number % a->chunks);
        PITHI_WARP_ADD(predict.total);
        PITHI_RUN(pithi_cut_join, number);
        PITHI_RUN(pithi_cut_judge, number % a->chunks);
    }
    if (s->strip.touched) {
        uint32_t parity = 0;
        for (uint64_t row = s->to.begin; row < s->to.end; row += PITHI_ROW, parity = !parity) {
            PITHI_STEP(pithi_cut_look, row);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_cut_drop, row, parity);
        }
    }
    for (uint64_t row = s->to.begin; row < s->to.end; row += PITHI_ROW) {
        PITHI_STEP(pithi_cut_ones, row);
        if (warps) PITHI_WARP_ADD(predict.total);
        PITHI_STEP(pithi_cut_add, row, warps);
    }
}

#endif
