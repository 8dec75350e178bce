/* state.h - calls about a state: its beginning, its base, its settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Here an item is a slot. The state of another plan is left as it is. */
#ifndef PITHI_GPU_DEVICE_STATE_H
#define PITHI_GPU_DEVICE_STATE_H

#include "device/team.h"

PITHI_DEVICE bool pithi_state_ours(const struct pithi_gpu_call *a) {
    return a->to.state->fingerprint == a->to.plan.fingerprint;
}

/* ---- Settings --------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_state_assign, uint64_t number) {
    struct pithi_gpu_state *const state = a->to.state;
    (void)s, (void)number;
    if (t->tid || !pithi_state_ours(a)) return;
    switch (a->what) {
    case PITHI_SET_RANDOM:
        state->seed = a->random.seed;
        state->stream = a->random.stream;
        state->step = a->random.step;
        break;
    case PITHI_SET_RANKS: state->shift = a->random.shift; break;
    case PITHI_SET_NEXT: state->step++; break;
    case PITHI_SET_BASE: state->external = a->base; break;
    }
}

PITHI_BODY(pithi_state_set) { PITHI_RUN(pithi_state_assign, number); }

/* ---- Every slot, a thread each ---------------------------------------------------------------*/

/* All of the state is 0. */
PITHI_PHASE(pithi_state_begin, uint64_t number) {
    struct pithi_gpu_state *const state = a->to.state;
    const uint64_t slot = number * PITHI_TEAM + t->tid;
    (void)s;
    if (slot == 0) {
        state->fingerprint = a->to.plan.fingerprint;
        state->slots = sizeof *state;
        state->memory = pithi_state_memory_at(&a->to.plan);
    }
    if (slot < a->to.plan.slots)
        ((struct pithi_gpu_slot_state *)(void *)(state + 1))[slot].undone = 1;
}

PITHI_BODY(pithi_state_init) { PITHI_RUN(pithi_state_begin, number); }

PITHI_PHASE(pithi_state_undo, uint64_t number) {
    const uint64_t i = number * PITHI_TEAM + t->tid;
    (void)s;
    if (i >= a->to.plan.slots || !pithi_state_ours(a)) return;
    struct pithi_gpu_slot_state *const slot = pithi_state_slots(a->to.state) + i;
    if (slot->undone || slot->step != a->step + 1) return;
    slot->side ^= 1;
    slot->undone = 1;
}

PITHI_BODY(pithi_state_skip) { PITHI_RUN(pithi_state_undo, number); }

/* ---- Base ------------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_state_open, uint64_t number) {
    pithi_thread_clear(t);
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_item_locate(a, &a->to, number, &s->to);
}

/* A new base, when there is a tensor to take it from; equal dtypes keep every bit. */
PITHI_DEVICE void pithi_state_take(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   uint64_t e, uint32_t n) {
    const uint32_t from = a->to.items.dtype, to = a->to.plan.base_dtype;
    uint32_t x[PITHI_UNIT];
    pithi_unit_get(it->tensor + e * pithi_width(from), pithi_width(from), n, x);
    pithi_unit_recast(from, to, x);
    pithi_unit_put(it->base + e * pithi_width(to), pithi_width(to), n, x);
}

PITHI_LOCAL(pithi_state_read, uint64_t tile) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t dtype = a->to.plan.base_dtype, width = pithi_width(dtype);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->slot->count);
        uint32_t x[PITHI_UNIT];
        if (!n) continue;
        if (it->tensor) pithi_state_take(a, it, e, n);
        if (!a->to.plan.device.base_hash) continue;
        pithi_unit_get(it->base + e * width, width, n, x);
        t->made.hash += pithi_unit_hash_bits(dtype, e, n, x);
    }
}

/* A body's text: reads, or sets, the base of the team's span; s->made has its hash. */
#define PITHI_STATE_READ(number)                                                   \
    do {                                                                           \
        for (uint64_t tile_ = s->to.begin; tile_ < s->to.end; tile_ += PITHI_TILE) \
            PITHI_STEP(pithi_state_read, tile_);                                   \
        PITHI_GATHER_HASHED(false, true, number);                                  \
    } while (0)

PITHI_PHASE(pithi_state_identify, uint64_t number) {
    struct pithi_gpu_slot_state *const slot = s->to.state;
    (void)number;
    if (t->tid || !pithi_results_hand(a, &s->made, slot)) return;
    const uint64_t hash = pithi_results_finish(a->to.state, slot, 0, false);
    slot->step = a->step;
    slot->base_hash = pithi_item_base_hash(&a->to.plan, &s->to, hash);
    slot->invalid = 0;
}

PITHI_BODY(pithi_state_base) {
    PITHI_RUN(pithi_state_open, number);
    if (s->to.status != PITH_OK) return;
    PITHI_STATE_READ(number);
    PITHI_RUN(pithi_state_identify, number);
}

PITHI_PHASE(pithi_state_compare, uint64_t number) {
    struct pithi_gpu_slot_state *const slot = s->to.state;
    (void)number;
    if (t->tid || !pithi_results_hand(a, &s->made, slot)) return;
    const uint64_t hash = pithi_results_finish(a->to.state, slot, 0, false);
    if (pithi_item_base_hash(&a->to.plan, &s->to, hash) != slot->base_hash)
        s->to.status = PITH_ERR_BASE;
    pithi_item_answer(&a->to.items, &s->to, 0);
}

PITHI_PHASE(pithi_state_refuse, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->to.first) pithi_item_answer(&a->to.items, &s->to, 0);
}

PITHI_PHASE(pithi_state_whole, uint64_t number) {
    (void)a, (void)number;
    if (t->tid == 0 && s->to.status == PITH_OK && s->to.state->invalid)
        s->to.status = PITH_ERR_STATE;
}

PITHI_BODY(pithi_state_verify) {
    PITHI_RUN(pithi_state_open, number);
    PITHI_RUN(pithi_state_whole, number);
    if (s->to.status != PITH_OK) {
        PITHI_RUN(pithi_state_refuse, number);
        return;
    }
    PITHI_STATE_READ(number);
    PITHI_RUN(pithi_state_compare, number);
}

#endif
