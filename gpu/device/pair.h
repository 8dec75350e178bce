/* pair.h - items whose frames are read and made in one: the opening and the end of reduce-encode.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PAIR_H
#define PITHI_GPU_DEVICE_PAIR_H

#include "device/group/decode.h"
#include "device/group/encode.h"

/* Status of the lowest frame of a sum that has one. */
PITHI_DEVICE int32_t pithi_pair_bad(const struct pithi_gpu_call *a,
                                    const struct pithi_gpu_shared *s) {
    struct pithi_gpu_item it = s->from;
    it.index = s->from.index * a->per_item + s->bad;
    it.frame = pithi_item_frame(&a->from.items, it.index);
    return pithi_item_check(a, &it, NULL, NULL);
}

/* Checks both sides in the order of the CPU call: the slots, the capacity, the frames. */
PITHI_PHASE(pithi_pair_match, uint64_t number) {
    const struct pithi_device_plan_slot *const x = s->from.slot, *const y = s->to.slot;
    (void)number;
    if (t->tid) return;
    if (x->count != y->count || x->exempt_digest != y->exempt_digest) s->to.status = PITH_ERR_ARG;
    if (s->to.status == PITH_OK && s->bad != UINT32_MAX) s->to.status = pithi_pair_bad(a, s);
}

/* Part of a body: opens the item and its frames; returns whether it is coded. */
PITHI_DEVICE bool pithi_pair_begin(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t number) {
    PITHI_RUN(pithi_encode_open, number);
    PITHI_RUN(pithi_decode_open, number);
    PITHI_OPEN_FRAMES(true);
    PITHI_RUN(pithi_pair_match, number);
    if (s->to.status == PITH_OK) return true;
    PITHI_RUN(pithi_encode_refuse, number);
    return false;
}

/* Part of a body, after the blocks. */
PITHI_DEVICE void pithi_pair_close(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t number) {
    pithi_encode_end(a, s, t, team, PITHI_OF_FRAMES);
    PITHI_GATHER_HASHED(a->from.plan.base_dtype != PITH_NONE, a->to.plan.base_dtype != PITH_NONE,
                        number);
    PITHI_RUN(pithi_decode_close, number);
    PITHI_RUN(pithi_encode_close, number);
}

#endif
