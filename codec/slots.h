/* slots.h - how a tensor is cut into slots, each with frames of its own: in a reduce-scatter the
 * shard of a rank.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SLOTS_H
#define PITHI_SLOTS_H

#include "plan.h"

/* Cuts a plan's tensor, whose count is known, into the layout's slots, which must hold it. */
pith_status pithi_slots_take(pith_plan *plan, const pith_layout *layout, pith_error *error);
/* Returns the bytes that ragged slots need besides the plan: of their first elements. */
uint64_t pithi_slots_bytes(const pith_plan *plan, const pith_layout *layout);
/* Keeps the first elements of ragged slots in memory of that size. */
void pithi_slots_keep(pith_plan *plan, const pith_layout *layout, uint64_t *first);

/* Return the first element of a slot and how many it has. Slot plan->slots begins at the end. */
static inline uint64_t pithi_slot_first(const pith_plan *p, uint64_t slot) {
    if (!slot) return 0; /* without a division */
    if (p->slot_first) return p->slot_first[slot];
    return slot > p->count / (p->slot_count ? p->slot_count : 1) ? p->count : slot * p->slot_count;
}
static inline uint64_t pithi_slot_count(const pith_plan *p, uint64_t slot) {
    if (p->slot_first) return p->slot_first[slot + 1] - p->slot_first[slot];
    const uint64_t first = pithi_slot_first(p, slot), left = p->count - first;
    return left < p->slot_count ? left : p->slot_count;
}

#endif
