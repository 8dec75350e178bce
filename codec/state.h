/* state.h - what a stream remembers between frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STATE_H
#define PITHI_STATE_H

#include "plan.h"

struct pithi_slot_state {
    uint64_t step;
    uint64_t identity;
    uint64_t torn; /* 1: a call failed while it wrote the base, which is neither old nor new */
};

struct pith_state {
    uint64_t fingerprint; /* of the plan it was made by */
    uint8_t *base;        /* dense, all slots; NULL: an external base that is not bound yet */
    struct pithi_slot_state *slot;
    uint64_t slots;
    uint64_t seed;
    uint32_t stream;
    pith_stats stats;
};

uint64_t pithi_state_bytes(const pith_plan *plan);
uint64_t pithi_state_save_bytes(const pith_plan *plan);
/* PITH_OK when the state is this plan's and has its base; plans without a base take none. */
pith_status pithi_state_check(const pith_plan *plan, const pith_state *state, pith_error *error);
/* PITH_ERR_STATE when a slot's base is torn. */
pith_status pithi_state_whole(const pith_plan *plan, const pith_state *state, uint64_t slot,
                              pith_error *error);
/* Identity of count base elements from a complete sum. */
uint64_t pithi_identity(const pith_plan *plan, uint64_t sum, uint64_t count);

#endif
