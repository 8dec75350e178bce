/* special.h - kernels for the settings of most calls, which know those when they are compiled.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A special kernel is the general source on a copy of the call in which some fields are set to what
 * they hold anyway. A compiler that sees the values leaves out what they rule out: divisions become
 * shifts, loops unroll, registers are saved. What is compared and what is set is one list, so that
 * no such kernel can do anything else than the general one. */
#ifndef PITHI_GPU_DEVICE_SPECIAL_H
#define PITHI_GPU_DEVICE_SPECIAL_H

#include "device/call.h"

/* What tells the settings apart; any: nothing is known. form: what a codec's frames are like. add:
 * of the call, what is read is added to the tensor. random: encodes round at random. */
enum pithi_known_form {
    PITHI_KNOWN_WDIFF,
    PITHI_KNOWN_GRAD,
    PITHI_KNOWN_PATHS, /* of grad, through trellises; with a base, of wdiff */
    PITHI_KNOWN_HEADS,
    PITHI_KNOWN_COLUMNS,
    PITHI_KNOWN_TURNED, /* rotated heads */
    PITHI_KNOWN_SOUGHT  /* symmetric heads, whose ranges are searched */
};
struct pithi_known {
    bool any;
    enum pithi_known_form form;
    uint32_t dtype, base_dtype, bits, group, order;
    bool add, random;
};

#define PITHI_KNOWN(name, ...)                                 \
    PITHI_INLINE struct pithi_known pithi_known_##name(void) { \
        const struct pithi_known k = {__VA_ARGS__};            \
        return k;                                              \
    }
PITHI_KNOWN(any, true, PITHI_KNOWN_WDIFF, PITH_NONE, PITH_NONE, 0, 0, 0, false, false)
PITHI_KNOWN(wdiff_ff, false, PITHI_KNOWN_WDIFF, PITH_F32, PITH_F32, 4, 2048, 0, false, false)
PITHI_KNOWN(wdiff_fb, false, PITHI_KNOWN_WDIFF, PITH_F32, PITH_BF16, 4, 2048, 0, false, false)
PITHI_KNOWN(wdiff_bb, false, PITHI_KNOWN_WDIFF, PITH_BF16, PITH_BF16, 4, 2048, 0, false, false)
PITHI_KNOWN(wdiff_ff_random, false, PITHI_KNOWN_WDIFF, PITH_F32, PITH_F32, 4, 2048, 0, false, true)
PITHI_KNOWN(wdiff_fb_random, false, PITHI_KNOWN_WDIFF, PITH_F32, PITH_BF16, 4, 2048, 0, false, true)
PITHI_KNOWN(wdiff_bb_random, false, PITHI_KNOWN_WDIFF, PITH_BF16, PITH_BF16, 4, 2048, 0, false,
            true)
PITHI_KNOWN(wdiff_to_f, false, PITHI_KNOWN_WDIFF, PITH_F32, PITH_F32, 4, 2048, 0, true, false)
PITHI_KNOWN(wdiff_to_b, false, PITHI_KNOWN_WDIFF, PITH_BF16, PITH_BF16, 4, 2048, 0, true, false)
PITHI_KNOWN(inter_f, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 4, 128, 32, false, false)
PITHI_KNOWN(inter_b, false, PITHI_KNOWN_GRAD, PITH_BF16, PITH_NONE, 4, 128, 32, false, false)
PITHI_KNOWN(inter_f_random, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 4, 128, 32, false, true)
PITHI_KNOWN(inter_b_random, false, PITHI_KNOWN_GRAD, PITH_BF16, PITH_NONE, 4, 128, 32, false, true)
PITHI_KNOWN(inter_to_f, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 4, 128, 32, true, false)
PITHI_KNOWN(intra_f, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 8, 128, 32, false, false)
PITHI_KNOWN(plain_f, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 8, 128, 0, false, false)
PITHI_KNOWN(intra_to_f, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 8, 128, 32, true, false)
PITHI_KNOWN(plain_to_f, false, PITHI_KNOWN_GRAD, PITH_F32, PITH_NONE, 8, 128, 0, true, false)
PITHI_KNOWN(paths_f, false, PITHI_KNOWN_PATHS, PITH_F32, PITH_NONE, 4, 128, 32, false, false)
PITHI_KNOWN(paths2_f, false, PITHI_KNOWN_PATHS, PITH_F32, PITH_NONE, 2, 128, 32, false, false)
PITHI_KNOWN(paths_ff, false, PITHI_KNOWN_PATHS, PITH_F32, PITH_F32, 4, 2048, 0, false, false)
PITHI_KNOWN(heads_b, false, PITHI_KNOWN_HEADS, PITH_BF16, PITH_NONE, 4, 128, 0, false, false)
PITHI_KNOWN(heads_h, false, PITHI_KNOWN_HEADS, PITH_F16, PITH_NONE, 4, 128, 0, false, false)
PITHI_KNOWN(heads_bb, false, PITHI_KNOWN_HEADS, PITH_BF16, PITH_BF16, 4, 128, 0, false, false)
PITHI_KNOWN(turned_b, false, PITHI_KNOWN_TURNED, PITH_BF16, PITH_NONE, 4, 128, 0, false, false)
PITHI_KNOWN(columns_b, false, PITHI_KNOWN_COLUMNS, PITH_BF16, PITH_NONE, 4, 32, 0, false, false)
PITHI_KNOWN(columns_h, false, PITHI_KNOWN_COLUMNS, PITH_F16, PITH_NONE, 4, 32, 0, false, false)
PITHI_KNOWN(sought_b, false, PITHI_KNOWN_SOUGHT, PITH_BF16, PITH_NONE, 4, 32, 0, false, false)
#undef PITHI_KNOWN

PITHI_INLINE bool pithi_known_pages(const struct pithi_known *k) {
    return k->form >= PITHI_KNOWN_HEADS;
}
PITHI_INLINE bool pithi_known_grad(const struct pithi_known *k) {
    return k->form == PITHI_KNOWN_GRAD ||
           (k->form == PITHI_KNOWN_PATHS && k->base_dtype == PITH_NONE);
}
PITHI_INLINE bool pithi_known_sought(const struct pithi_known *k) {
    return k->form == PITHI_KNOWN_SOUGHT;
}
PITHI_INLINE uint8_t pithi_known_scales(const struct pithi_known *k) {
    if (!pithi_known_pages(k)) return PITH_F32;
    return k->form == PITHI_KNOWN_TURNED ? PITH_BF16 : PITH_F16;
}

/* EACH(field of the plan p, its value). reads: of the side that is read, where how frames are made
 * does not matter. */
#define PITHI_KNOWN_FIELDS(EACH, k)                                                               \
    EACH(dtype, (k)->dtype)                                                                       \
    EACH(base_dtype, (k)->base_dtype)                                                             \
    EACH(block_log2, pithi_known_pages(k) ? p->block_log2 : 14)                                   \
    EACH(ranges, 0)                                                                               \
    EACH(checksums, false)                                                                        \
    EACH(device.kind, pithi_known_pages(k) ? PITHI_KIND_PAGES : PITHI_KIND_GROUPS)                \
    EACH(device.groups.set.group, (k)->group)                                                     \
    EACH(device.groups.set.bits, (uint8_t)(k)->bits)                                              \
    EACH(device.groups.set.scale_dtype, pithi_known_scales(k))                                    \
    EACH(device.groups.set.asymmetric, pithi_known_pages(k) && !pithi_known_sought(k))            \
    EACH(device.groups.set.stochastic, reads ? p->device.groups.set.stochastic : (k)->random)     \
    EACH(device.groups.set.search, reads ? p->device.groups.set.search : false)                   \
    EACH(device.groups.set.shrink, reads ? p->device.groups.set.shrink : pithi_known_sought(k))   \
    EACH(device.groups.set.short_zero,                                                            \
         reads ? p->device.groups.set.short_zero : (k)->form == PITHI_KNOWN_TURNED)               \
    EACH(device.groups.set.codebook, (k)->form == PITHI_KNOWN_PATHS ? PITHI_CODEBOOK_TRELLIS : 0) \
    EACH(device.groups.rotation.order, (k)->order)                                                \
    EACH(device.groups.rotation.signs, 0)                                                         \
    EACH(device.pages.channel, (k)->form == PITHI_KNOWN_COLUMNS)                                  \
    EACH(device.pages.rotated, (k)->form == PITHI_KNOWN_TURNED)                                   \
    EACH(device.pages.outliers, false)                                                            \
    EACH(device.groups.domain, pithi_known_grad(k))                                               \
    EACH(device.feedback, reads ? p->device.feedback : 0)                                         \
    EACH(device.groups.antithetic, reads ? p->device.groups.antithetic : false)

/* Whether it holds of this side of the call. A tensor has the plan's dtype, if there is one. */
PITHI_INLINE bool pithi_known_fits(const struct pithi_known *k, const struct pithi_gpu_call *a,
                                   const struct pithi_gpu_side *side) {
    const struct pithi_device_plan *const p = &side->plan;
    const bool reads = side == &a->from;
    if (k->any) return true;
    if (k->add != a->add) return false;
    const bool pairs = p->device.kind == PITHI_KIND_PAGES && a->kv.pairs;
    if ((side->items.tensor || side->items.tensors || pairs) && side->items.dtype != k->dtype)
        return false;
#define EACH(field, value) \
    if (p->field != (value)) return false;
    PITHI_KNOWN_FIELDS(EACH, k)
#undef EACH
    return true;
}

PITHI_INLINE void pithi_known_put(const struct pithi_known *k, struct pithi_gpu_call *a,
                                  struct pithi_gpu_side *side) {
    struct pithi_device_plan *const p = &side->plan;
    const bool reads = side == &a->from;
    if (k->any) return;
    a->add = k->add;
    side->items.dtype = k->dtype;
#define EACH(field, value) p->field = (value);
    PITHI_KNOWN_FIELDS(EACH, k)
#undef EACH
}

/* Whether a call is of the kind that special kernels know: no range, no key frames, and a base
 * becomes what is read. */
PITHI_INLINE bool pithi_known_plain(const struct pithi_gpu_call *a) {
    return a->first == 0 && a->count == UINT64_MAX && !a->key && a->update;
}
PITHI_INLINE void pithi_known_plainly(struct pithi_gpu_call *a) {
    a->first = 0;
    a->count = UINT64_MAX;
    a->key = false;
    a->update = true;
}

#endif
