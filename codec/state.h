/* state.h - what a stream remembers between frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STATE_H
#define PITHI_STATE_H

#include "frame_bound.h"

struct pithi_slot_state {
    uint64_t step;
    uint64_t base_hash;
    uint32_t invalid; /* 1: a call failed while it wrote the base, which is neither old nor new */
    uint16_t side;    /* which copy of the residual counts */
    uint16_t undone;  /* 1: the other copy is not the residual before the last encode */
    /* Of codecs with a bound: above 0 the bound, below 0 minus a factor for the spec's, 0
     * neither; and what the last encode found nonzero, of how many. */
    double bound;
    uint64_t nonzero, counted;
};

struct pith_state {
    uint64_t fingerprint; /* of the plan it was made by */
    uint8_t *base;        /* dense, all slots; NULL: an external base that is not bound yet */
    float *residual[2];   /* dense, all slots, or NULL */
    uint64_t *sums;       /* a hash of every block of the base, to compare with; NULL: none */
    uint64_t sums_kind;   /* of which blocks, and of how much of each; 0: none are kept */
    struct pithi_slot_state *slot;
    uint64_t slots;
    uint64_t seed;
    uint32_t stream;
    pith_stats stats;
};

uint64_t pithi_state_bytes(const pith_plan *plan);
uint64_t pithi_state_save_bytes(const pith_plan *plan);
/* PITH_OK when the state is this plan's and has its base, or is NULL where none is needed. */
pith_status pithi_state_check(const pith_plan *plan, const pith_state *state, pith_error *error);
/* PITH_ERR_STATE when a slot's base is invalid. */
pith_status pithi_state_whole(const pith_state *state, uint64_t slot, pith_error *error);
/* The residual of a slot: what counts (next 0), and where the next one goes. */
float *pithi_state_residual(const pith_plan *plan, const pith_state *state, uint64_t slot,
                            int next);
/* Whether the hashes of blocks are of every byte, the parts of the identity, or of a sample. */
bool pithi_state_whole_sums(const pith_plan *plan);
/* Those of a slot; NULL where none are kept. */
uint64_t *pithi_state_sums(const pith_plan *plan, const pith_state *state, uint64_t slot);
/* Count a frame that was coded, with its results. */
void pithi_state_count(pith_state *state, bool key, uint64_t saturated, uint64_t poisoned);
/* A slot was encoded: the residual that was written next counts now. */
void pithi_state_residual_swap(pith_state *state, uint64_t slot, uint64_t step);
/* What a state says of the bound of its slot's next frame. */
void pithi_state_request(const pith_state *state, uint64_t slot, struct pithi_request *request);
/* A slot was encoded under a bound, with these results. */
void pithi_state_encoded(pith_state *state, uint64_t slot, uint64_t exact, uint64_t nonzero,
                         uint64_t count);
/* Hash of count base elements from a complete sum. */
uint64_t pithi_base_hash(const pith_plan *plan, uint64_t sum, uint64_t count);

#endif
