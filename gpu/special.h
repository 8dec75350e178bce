/* special.h - kernels for the settings of most calls, which know those when they are compiled.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A special kernel is the general text on a copy of the call in which some fields are set to what
 * they hold anyway. A compiler that sees the values leaves out what they rule out: divisions become
 * shifts, loops unroll, registers are saved. What is compared and what is set is one list, so that
 * no such kernel can do anything else than the general one. */
#ifndef PITHI_GPU_SPECIAL_H
#define PITHI_GPU_SPECIAL_H

#include "call.h"

/* What tells the settings apart; any: nothing is known. */
struct pithi_known {
    bool any;
    uint32_t dtype, base_dtype, bits, group, order;
};

#define PITHI_KNOWN(name, ...)                                 \
    PITHI_INLINE struct pithi_known pithi_known_##name(void) { \
        const struct pithi_known k = {__VA_ARGS__};            \
        return k;                                              \
    }
PITHI_KNOWN(any, true, PITH_NONE, PITH_NONE, 0, 0, 0)
PITHI_KNOWN(wdiff_ff, false, PITH_F32, PITH_F32, 4, 2048, 0)
PITHI_KNOWN(wdiff_fb, false, PITH_F32, PITH_BF16, 4, 2048, 0)
PITHI_KNOWN(wdiff_bb, false, PITH_BF16, PITH_BF16, 4, 2048, 0)
PITHI_KNOWN(inter_f, false, PITH_F32, PITH_NONE, 4, 128, 32)
PITHI_KNOWN(intra_f, false, PITH_F32, PITH_NONE, 8, 128, 32)
#undef PITHI_KNOWN

/* EACH(field of the plan, its value) */
#define PITHI_KNOWN_FIELDS(EACH, k)           \
    EACH(dtype, (k)->dtype)                   \
    EACH(base_dtype, (k)->base_dtype)         \
    EACH(block_log2, 14)                      \
    EACH(ranges, 0)                           \
    EACH(checksums, false)                    \
    EACH(device.kind, PITHI_DEVICE_groups)    \
    EACH(device.set.group, (k)->group)        \
    EACH(device.set.bits, (uint8_t)(k)->bits) \
    EACH(device.set.scale_dtype, PITH_F32)    \
    EACH(device.set.asymmetric, false)        \
    EACH(device.set.stochastic, false)        \
    EACH(device.set.search, false)            \
    EACH(device.rotation.order, (k)->order)   \
    EACH(device.rotation.signs, 0)            \
    EACH(device.domain, (k)->order != 0)      \
    EACH(device.decay, 0)                     \
    EACH(device.antithetic, false)

/* Whether it holds of this side of the call. A tensor has the plan's dtype, if there is one. */
PITHI_INLINE bool pithi_known_fits(const struct pithi_known *k, const struct pithi_gpu_side *side) {
    const struct pithi_table *const p = &side->plan;
    if (k->any) return true;
    if ((side->items.tensor || side->items.tensors) && side->items.dtype != k->dtype) return false;
#define EACH(field, value) \
    if (p->field != (value)) return false;
    PITHI_KNOWN_FIELDS(EACH, k)
#undef EACH
    return true;
}

PITHI_INLINE void pithi_known_put(const struct pithi_known *k, struct pithi_gpu_side *side) {
    struct pithi_table *const p = &side->plan;
    if (k->any) return;
    side->items.dtype = k->dtype;
#define EACH(field, value) p->field = (value);
    PITHI_KNOWN_FIELDS(EACH, k)
#undef EACH
}

/* Of the whole call: no range, nothing added to a tensor. */
PITHI_INLINE bool pithi_known_plain(const struct pithi_gpu_call *a) {
    return a->first == 0 && a->count == UINT64_MAX && !a->add && !a->key && a->update;
}
PITHI_INLINE void pithi_known_plainly(struct pithi_gpu_call *a) {
    a->first = 0;
    a->count = UINT64_MAX;
    a->add = a->key = false;
    a->update = true;
}

#endif
