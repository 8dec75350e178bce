/* bounded.h - the bound of a frame: from what was requested and from the values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bounded codecs have some of the keys abs, rel, pwrel, psnr, nmse and range, of which the first
 * five exclude each other. */
#ifndef PITHI_PREDICT_BOUNDED_H
#define PITHI_PREDICT_BOUNDED_H

#include "device_plan.h"
#include "frame_codec.h"
#include "predict/bound_value.h"

/* What a setting says about the bound of frames. Decimals are those of common/decimal.h; 0 means
 * that it says nothing. */
struct pithi_bound_setting {
    uint32_t target; /* enum pithi_target; PITHI_TARGETS when the setting has none, or several */
    uint32_t value;  /* decimal, in the unit of the target */
    uint32_t range;  /* decimal: the range that rel and psnr refer to; 0: the values' own */
    uint32_t decay;  /* enum pithi_decay: how a bound that begins loose becomes tight */
    uint32_t start, steps; /* decimal: the first bound, in units of the last; and how long */
    bool signed_zeros;     /* -0 comes back as -0 */
    bool rows;             /* rows that the bound makes equal are coded once */
    uint32_t row;          /* elements of such a row, once the layout is known */
};

/* What codecs with a bound provide for this family, behind pithi_codec.own. */
struct pithi_bounded_codec {
    /* Returns what is requested of the bound, but for its target. */
    struct pithi_bound_setting (*setting)(const struct pithi_params *params);
};

/* The hooks `fixed` and `block_bytes` of these codecs: no block has more bytes than its values. */
bool pithi_bounded_fixed(const struct pithi_params *params);
uint64_t pithi_bounded_block_bytes(const struct pithi_params *params, uint64_t count);

/* Checks the rules across these keys. */
pith_status pithi_bounded_check(const struct pithi_params *params, const char **detail);
/* Returns what a setting requests: what the codec's hook says of it, and the target, whose key is
 * the one real number that frames record. */
struct pithi_bound_setting pithi_bound_setting_of(const struct pithi_params *params);
/* Returns the value of the target, in its unit; 0 without one. */
double pithi_bound_setting_value(const struct pithi_bound_setting *setting);
/* Does for hooks `describe` what bounded codecs have in common; false when kernels do not take what
 * is requested. */
bool pithi_bound_describe(const struct pithi_params *params, struct pithi_device *device);

/* The frame hooks of these codecs: the bound is set before the first block. psnr and nmse are
 * about the whole frame, which is decoded again and, where it misses, encoded with a smaller
 * bound. */
extern const struct pithi_frame_hooks pithi_bounded_frame_hooks;

static inline bool pithi_is_bounded(const struct pithi_codec *codec) {
    return codec->frame_hooks == &pithi_bounded_frame_hooks;
}

/* Writes the values of a block as they are, where the coded form is not shorter: all of them are
 * exact. */
void pithi_plain_put(struct pithi_block *block);
/* Reads such a block; returns NULL, or what is wrong. */
const char *pithi_plain_take(struct pithi_block *block);

#endif
