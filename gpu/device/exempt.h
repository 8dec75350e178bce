/* exempt.h - elements that go around the codec: into their area of a frame, out of it, summed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every thread looks its units up in the plan's ranges; plans without ranges never come here. */
#ifndef PITHI_GPU_DEVICE_EXEMPT_H
#define PITHI_GPU_DEVICE_EXEMPT_H

#include "device/team.h"

PITHI_DEVICE const struct pithi_device_plan_range *pithi_ranges(const struct pithi_device_plan *p,
                                                                const struct pithi_gpu_item *it) {
    return (const struct pithi_device_plan_range *)(const void *)(it->plan_memory + p->ranges_at);
}

/* The first range that ends behind element e of the tensor. */
PITHI_DEVICE uint64_t pithi_range_after(const struct pithi_device_plan *p,
                                        const struct pithi_gpu_item *it, uint64_t e) {
    const struct pithi_device_plan_range *const r = pithi_ranges(p, it);
    uint64_t lo = 0, hi = p->ranges;
    while (lo < hi) {
        const uint64_t middle = lo + (hi - lo) / 2;
        if (r[middle].first + r[middle].count > e)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

/* One exempt element of a unit: where its value stands in the payload, and how. */
struct pithi_exempt_spot {
    bool is;
    uint32_t dtype;
    uint64_t at;
};

/* Element e + k of the slot; *i is the range that the search has come to. */
PITHI_DEVICE struct pithi_exempt_spot pithi_exempt_spot(const struct pithi_device_plan *p,
                                                        const struct pithi_gpu_item *it, uint64_t e,
                                                        uint64_t *i) {
    const struct pithi_device_plan_range *const r = pithi_ranges(p, it);
    const uint64_t whole = it->slot->first + e;
    struct pithi_exempt_spot spot = {false, PITH_NONE, 0};
    while (*i < p->ranges && r[*i].first + r[*i].count <= whole) ++*i;
    if (*i == p->ranges || r[*i].first > whole) return spot;
    spot.is = true;
    spot.dtype = r[*i].dtype;
    spot.at = it->slot->exempt_values - it->slot->exempt_from + r[*i].at +
              (whole - r[*i].first) * pithi_dtype_bytes(spot.dtype);
    return spot;
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* The unit's exempt values (f32 bits of dtype) go to the frame and become 0. Values that are
 * stored in their own dtype keep every bit, so they are taken from `from`, where they stand. */
PITHI_DEVICE void pithi_exempt_take(const struct pithi_device_plan *p,
                                    const struct pithi_gpu_item *it, uint64_t e, uint32_t n,
                                    const uint8_t *from, uint32_t dtype, uint32_t v[8]) {
    uint64_t i = pithi_range_after(p, it, it->slot->first + e);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        const struct pithi_exempt_spot spot = pithi_exempt_spot(p, it, e + k, &i);
        if (!spot.is) continue;
        const uint32_t width = pithi_dtype_bytes(spot.dtype);
        if (from && spot.dtype == dtype)
            memcpy(it->payload + spot.at, from + k * width, width);
        else
            pithi_store(it->payload + spot.at, spot.dtype, 0, v[k]);
        v[k] = 0;
    }
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* The unit's exempt values of one frame, into `to`, which holds n elements of dtype. */
PITHI_DEVICE void pithi_exempt_put(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_item *it, uint64_t e, uint32_t k,
                                   uint64_t *i, uint8_t *to, uint32_t dtype) {
    const struct pithi_exempt_spot spot = pithi_exempt_spot(p, it, e + k, i);
    const uint32_t width = pithi_dtype_bytes(dtype);
    if (!spot.is) return;
    if (spot.dtype == dtype)
        memcpy(to, it->payload + spot.at, width);
    else
        pithi_store(to, dtype, 0, pithi_load(it->payload + spot.at, spot.dtype, 0));
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* scale * the sum of one exempt element over the item's frames. */
PITHI_DEVICE float pithi_exempt_total(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it,
                                      const struct pithi_exempt_spot *spot) {
    float sum = 0;
    for (uint32_t f = 0; f < a->per_item; f++) {
        const uint8_t *const payload =
            pithi_item_frame(&a->from.items, it->index * a->per_item + f) + it->form->header_bytes;
        const float v = pithi_float(pithi_load(payload + spot->at, spot->dtype, 0));
        sum = f ? sum + v : v;
    }
    return a->scale == 1.0f ? sum : sum * a->scale;
}

/* The unit's exempt elements of a sum: v, f32 bits, takes their totals. */
PITHI_DEVICE void pithi_exempt_sum(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   uint64_t e, uint32_t n, uint32_t v[8]) {
    const struct pithi_device_plan *const p = &a->from.plan;
    uint64_t i = pithi_range_after(p, it, it->slot->first + e);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        const struct pithi_exempt_spot spot = pithi_exempt_spot(p, it, e + k, &i);
        if (spot.is) v[k] = pithi_bits(pithi_exempt_total(a, it, &spot));
    }
}

#endif
