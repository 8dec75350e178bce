/* kv.h - calls on items of codecs in pages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_KV_H
#define PITHI_GPU_KV_H

#include "device/kv/setting.h"
#include "plan.h"

static inline bool pithi_cuda_is_paged(const pith_cuda_plan *c) {
    return c->plan.device.kind == PITHI_KIND_PAGES;
}
/* Returns slot 0: only a plan of one slot has more than one page in it. */
static inline const struct pithi_device_plan_slot *pithi_cuda_first_slot(const pith_cuda_plan *c) {
    return (const struct pithi_device_plan_slot *)(const void *)(c->image + c->plan.slots_at);
}
/* Returns the teams per page when there are so many pages: few tiles a team while there are few
 * teams. */
uint32_t pithi_cuda_page_parts(const pith_cuda_plan *c, uint64_t pages);
/* Sets how many teams do `items` items, of each of which so many neighbouring elements are
 * wanted. */
void pithi_cuda_paged_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                             uint64_t elements);

#endif
