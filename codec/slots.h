/* slots.h - how a tensor is cut into slots, each with frames of its own: in a reduce-scatter the
 * shard of a rank, or a slice of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SLOTS_H
#define PITHI_SLOTS_H

#include "plan.h"
#include "view.h"

/* Checks that the layout's slots have all elements of the plan's tensor, plan->count, and fills in
 * how many slots there are and how many elements each has. Slots are equal but for the last ones,
 * or ragged: the layout's slot_counts says how many elements each has. */
pith_status pithi_slots_take(pith_plan *plan, const pith_layout *layout, pith_error *error);
/* Returns the bytes of the list in which a plan keeps where ragged slots begin; 0 without them. */
uint64_t pithi_slots_bytes(const pith_plan *plan, const pith_layout *layout);
/* Fills in that list, in memory of so many bytes at `first`. */
void pithi_slots_keep(pith_plan *plan, const pith_layout *layout, uint64_t *first);

/* Returns where a slot begins. Slot number plan->slots, one past the last, begins at the tensor's
 * end. A tensor of one slot, which most are, costs no division, and no product can overflow. */
static inline uint64_t pithi_slot_first(const pith_plan *p, uint64_t slot) {
    if (!slot) return 0;
    if (p->slot_first) return p->slot_first[slot];
    return slot > p->count / (p->slot_count ? p->slot_count : 1) ? p->count : slot * p->slot_count;
}
/* Returns how many elements a slot has. */
static inline uint64_t pithi_slot_count(const pith_plan *p, uint64_t slot) {
    if (p->slot_first) return p->slot_first[slot + 1] - p->slot_first[slot];
    const uint64_t first = pithi_slot_first(p, slot), left = p->count - first;
    return left < p->slot_count ? left : p->slot_count;
}

/* Fails with PITH_ERR_SHAPE: a view of `count` elements is neither one of the slot nor one of the
 * whole tensor. */
pith_status pithi_slot_refuse_view(const pith_plan *p, uint64_t slot, uint64_t count,
                                   pith_error *error);
/* Callers give a view of the slot alone or of the whole tensor. Makes the span of either begin at
 * the slot's first element; PITH_ERR_SHAPE where it has another number of elements. */
static inline pith_status pithi_slot_span(const pith_plan *p, uint64_t slot,
                                          struct pithi_span *span, pith_error *error) {
    if (span->count == pithi_slot_count(p, slot)) return PITH_OK;
    if (span->count != p->count) return pithi_slot_refuse_view(p, slot, span->count, error);
    span->first = pithi_slot_first(p, slot);
    return PITH_OK;
}

#endif
