/* slots.h - what slots remember of their choice: requested by the caller, and told.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_SPARSE_SLOTS_H
#define PITHI_GPU_DEVICE_SPARSE_SLOTS_H

#include "device/sparse/encode.h"

/* Returns what the slot of an item remembers, NULL where it cannot be told; called by the team's
 * first thread, a team an item. */
PITHI_DEVICE struct pithi_gpu_chosen *pithi_slot_of_item(const struct pithi_gpu_call *a,
                                                         struct pithi_gpu_shared *s,
                                                         uint64_t number) {
    pithi_item_locate(a, &a->to, number, &s->to);
    return s->to.status == PITH_OK ? pithi_chosen_of(a, &s->to) : NULL;
}
PITHI_DEVICE void pithi_slot_answer(const struct pithi_gpu_call *a,
                                    const struct pithi_gpu_shared *s) {
    a->to.items.status[s->to.index] = s->to.status;
}

/* Checks and takes a request, as take_request of sets.c. */
PITHI_DEVICE int32_t pithi_request_take(const pith_sparse_request *r, uint64_t n,
                                        struct pithi_sparse_request *to) {
    const uint32_t threshold = pithi_bits(r->threshold);
    if (r->size != sizeof *r || r->first > n || r->count > n - r->first) return PITH_ERR_ARG;
    if (threshold >= PITHI_F32_INF && threshold != 0x80000000u) return PITH_ERR_ARG;
    to->first = r->first;
    to->end = r->count ? r->first + r->count : n;
    to->k = r->k;
    to->threshold = threshold & 0x7FFFFFFFu;
    return PITH_OK;
}

PITHI_PHASE(pithi_request_set, uint64_t number) {
    if (t->tid) return;
    struct pithi_gpu_chosen *const c = pithi_slot_of_item(a, s, number);
    struct pithi_sparse_request own;
    own.first = own.end = own.k = 0;
    own.threshold = 0;
    if (c && a->sparse.requests)
        s->to.status =
            pithi_request_take(&a->sparse.requests[s->to.index], s->to.slot->count, &own);
    if (s->to.status == PITH_OK) c->request = own;
    pithi_slot_answer(a, s);
}
PITHI_BODY(pithi_sparse_request) { PITHI_RUN(pithi_request_set, number); }

PITHI_PHASE(pithi_report_take, uint64_t number) {
    if (t->tid) return;
    struct pithi_gpu_chosen *const c = pithi_slot_of_item(a, s, number);
    if (c && !c->control.steps) s->to.status = PITH_ERR_STATE;
    if (s->to.status == PITH_OK) {
        c->control.selected = a->sparse.chosen[s->to.index];
        c->reported = 1;
    }
    pithi_slot_answer(a, s);
}
PITHI_BODY(pithi_sparse_report) { PITHI_RUN(pithi_report_take, number); }

PITHI_PHASE(pithi_state_give, uint64_t number) {
    if (t->tid) return;
    const struct pithi_gpu_chosen *const c = pithi_slot_of_item(a, s, number);
    pithi_slot_answer(a, s);
    if (!c) return;
    pith_sparse_state *const to = &a->sparse.states[s->to.index];
    to->size = sizeof *to;
    to->k = s->to.slot->sets.chosen;
    to->most = s->to.slot->sets.chosen_most;
    to->sent = c->sent;
    to->overflowed = c->overflowed;
    to->held = 0;
    to->threshold = pithi_float(c->threshold);
    to->holds = c->holds;
}
PITHI_BODY(pithi_sparse_state) { PITHI_RUN(pithi_state_give, number); }

/* Counts the elements of the set that the slot holds, a team a run of tiles, when pithi_state_give
 * has told the rest. */
PITHI_PHASE(pithi_tally_open, uint64_t number) {
    t->predict.total = 0;
    if (t->tid) return;
    const struct pithi_gpu_chosen *const c = pithi_slot_of_item(a, s, number);
    if (!c || !c->holds) s->to.status = PITH_ERR_STATE; /* nothing to count */
}
PITHI_LOCAL(pithi_tally_words, uint64_t end) {
    const uint8_t *const map = pithi_chosen_map(a, &s->to);
    for (uint64_t i = s->to.begin / 64 + t->tid; i < end; i += PITHI_TEAM) {
        const uint64_t word = pithi_get_aligned64(map + 8 * i);
        t->predict.total += pithi_ones32((uint32_t)word) + pithi_ones32((uint32_t)(word >> 32));
    }
}
PITHI_PHASE(pithi_tally_add, uint64_t number) {
    (void)number;
    if (t->tid % PITHI_WARP == 0)
        pithi_atomic_add64(&a->sparse.states[s->to.index].held, t->predict.total);
}
PITHI_BODY(pithi_sparse_tally) {
    PITHI_RUN(pithi_tally_open, number);
    if (s->to.status != PITH_OK) return;
    PITHI_STEP(pithi_tally_words, (s->to.end + 63) / 64);
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_tally_add, number);
}

#endif
