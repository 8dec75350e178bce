/* slots.c - the cut of a tensor into slots: equal but for the last, or ragged.
 * SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include "common/checked.h"
#include "common/pad.h"
#include "error.h"

pith_status pithi_slots_take(pith_plan *p, const pith_layout *l, pith_error *error) {
    p->slots = l->slots ? l->slots : 1;
    p->one_frame = p->slots == 1 && !l->slot_counts;
    if (p->slots > (UINT64_C(1) << 32))
        return pithi_fail_numbers(error, PITH_ERR_ARG, "at most # slots, not #", UINT64_C(1) << 32,
                                  p->slots);
    if (l->slot_counts) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < p->slots; i++) {
            if (l->slot_counts[i] > p->count - sum)
                return pithi_fail_numbers(
                    error, PITH_ERR_SHAPE,
                    "the tensor has # elements, slots hold more: up to number #", p->count, i);
            sum += l->slot_counts[i];
            if (l->slot_counts[i] > p->slot_count) p->slot_count = l->slot_counts[i];
        }
        if (sum == p->count) return PITH_OK;
        return pithi_fail_numbers(error, PITH_ERR_SHAPE,
                                  "the tensor has # elements, its slots together #", p->count, sum);
    }
    p->slot_count =
        l->slot_count ? l->slot_count : p->count / p->slots + (p->count % p->slots != 0);
    if (p->slot_count > p->count) p->slot_count = p->count;
    uint64_t capacity;
    if (pithi_checked_multiply(p->slot_count, p->slots, &capacity) && capacity < p->count)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE,
                                  "the tensor has # elements, its slots together #", p->count,
                                  capacity);
    return PITH_OK;
}

uint64_t pithi_slots_bytes(const pith_plan *p, const pith_layout *layout) {
    return layout->slot_counts ? pithi_pad64((p->slots + 1) * sizeof(uint64_t)) : 0;
}

void pithi_slots_keep(pith_plan *p, const pith_layout *layout, uint64_t *first) {
    p->slot_first = layout->slot_counts ? first : NULL;
    for (uint64_t i = 0, sum = 0; layout->slot_counts && i <= p->slots; i++) {
        first[i] = sum;
        if (i < p->slots) sum += layout->slot_counts[i];
    }
}

pith_status pithi_slot_refuse_view(const pith_plan *p, uint64_t slot, uint64_t count,
                                   pith_error *error) {
    return pithi_fail_with(
        error, PITH_ERR_SHAPE, 0, "the view has # elements, the slot #, the tensor #",
        &(struct pithi_words){.number = {count, pithi_slot_count(p, slot), p->count}});
}

/* ---- API -------------------------------------------------------------------------------------*/

pith_status pith_plan_slot(const pith_plan *plan, uint64_t slot, uint64_t *first, uint64_t *count) {
    if (!plan || !first || !count || slot >= plan->slots) return PITH_ERR_ARG;
    *first = pithi_slot_first(plan, slot);
    *count = pithi_slot_count(plan, slot);
    return PITH_OK;
}

void pith_slot_order(uint64_t nodes, uint64_t per_node, uint64_t *slots) {
    for (uint64_t j = 0; j < per_node; j++)
        for (uint64_t m = 0; m < nodes; m++) slots[j * nodes + m] = m * per_node + j;
}
