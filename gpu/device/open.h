/* open.h - frames opened by the whole team: a warp to each, a thread to eight bytes of its header.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every team of a launch checks what it reads for itself, so that none waits for another; this is
 * what keeps that short. All teams of an item find the same. */
#ifndef PITHI_GPU_DEVICE_OPEN_H
#define PITHI_GPU_DEVICE_OPEN_H

#include "device/team.h"

/* The frame that a warp opens, of those from `first` on. */
PITHI_DEVICE struct pithi_gpu_item pithi_open_item(const struct pithi_gpu_call *a,
                                                   const struct pithi_gpu_shared *s, uint32_t k) {
    struct pithi_gpu_item it = s->from;
    it.index = s->from.index * a->per_item + k;
    it.frame = pithi_item_frame(&a->from.items, it.index);
    return it;
}

/* Bytes [at, at + 8) of a frame; 0 behind its length. */
PITHI_DEVICE uint64_t pithi_open_word(const uint8_t *frame, uint64_t at, uint64_t length) {
    uint64_t word = 0;
    if (at + 8 <= length && pithi_is_aligned(frame, 8)) return pithi_get_aligned64(frame + at);
    if (at + 8 <= length) return pithi_get64(frame + at);
    for (uint32_t k = 0; at + k < length && k < 8; k++) word |= (uint64_t)frame[at + k] << 8 * k;
    return word;
}

/* How bytes of the frame differ from the table's, as far as these go; word: those at `at`. */
PITHI_DEVICE void pithi_open_compare(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     uint64_t word, uint64_t at, uint32_t *differs) {
    for (uint32_t kind = 0; kind < (a->from.plan.base_dtype == PITH_NONE ? 1u : 2u); kind++) {
        const struct pithi_device_plan_form *const form = &s->from.slot->form[kind];
        const uint8_t *const mine = s->from.plan_memory + form->header + at;
        if (at >= form->header_bytes) continue;
        const uint64_t differ = word ^ pithi_get_aligned64(mine);
        const uint64_t mask = pithi_get_aligned64(mine + form->header_bytes);
        if (differ)
            pithi_atomic_max32(&differs[kind],
                               differ & mask ? PITHI_HEADER_OTHER : PITHI_HEADER_FREE);
    }
}

PITHI_PHASE(pithi_open_fetch, uint32_t first) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP, at = 8 * lane;
    if (s->from.status != PITH_OK || a->checked || first + warp >= a->per_item) return;
    const struct pithi_gpu_item it = pithi_open_item(a, s, first + warp);
    const uint64_t length = pithi_item_length(&a->from.items, it.index);
    const uint64_t word = it.frame ? pithi_open_word(it.frame, at, length) : 0;
    s->head[warp][lane] = word;
    pithi_open_compare(a, s, word, at, s->differs[warp]);
}

/* What all frames of a sum have in common. */
PITHI_DEVICE void pithi_open_summand(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     uint32_t k, const struct pithi_gpu_item *it) {
    if (it->first) pithi_item_answer(&a->from.items, it, 0);
    if (it->status != PITH_OK) {
        pithi_atomic_min32(&s->bad, k);
        return;
    }
    const uint8_t *const payload = it->frame + s->from.form->header_bytes;
    if (k < PITHI_SUMMANDS && pithi_is_aligned(payload, 8))
        s->payload[k] = payload;
    else
        pithi_atomic_max32(&s->apart, 1);
}

/* sums: every frame is answered for, and s->bad says which is the lowest that cannot be read. Else
 * there is one, and s->from says how it is. */
PITHI_PHASE(pithi_open_judge, uint32_t first, bool sums) {
    const uint32_t warp = t->tid / PITHI_WARP, k = first + warp;
    if (t->tid % PITHI_WARP || k >= a->per_item) return;
    struct pithi_gpu_item it = pithi_open_item(a, s, k);
    it.status = pithi_item_check(a, &it, (const uint8_t *)s->head[warp], s->differs[warp]);
    s->differs[warp][0] = s->differs[warp][1] = PITHI_HEADER_SAME;
    if (sums)
        pithi_open_summand(a, s, k, &it);
    else
        s->from = it;
}

/* Part of a body, after s->from is located. */
#define PITHI_OPEN_FRAMES(sums)                                      \
    do {                                                             \
        for (uint32_t k_ = 0; k_ < a->per_item; k_ += PITHI_HEADS) { \
            PITHI_RUN(pithi_open_fetch, k_);                         \
            PITHI_RUN(pithi_open_judge, k_, sums);                   \
        }                                                            \
    } while (0)

#endif
