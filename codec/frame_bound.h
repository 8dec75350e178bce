/* frame_bound.h - the bound of a frame: from what was asked for and from the values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bounded codecs have some of the keys abs, rel, pwrel, psnr, nmse and range, of which the first
 * five exclude each other. */
#ifndef PITHI_FRAME_BOUND_H
#define PITHI_FRAME_BOUND_H

#include "device_plan.h"
#include "frame_codec.h"
#include "predict/bound_value.h"

/* The rules across these keys. */
pith_status pithi_bounded_check(const struct pithi_params *params, const char **detail);
/* What a setting of a bounded codec asks for: what the codec's hook says of it, and the target,
 * whose key is the one real number that frames record. */
struct pithi_bound_setting pithi_bound_setting_of(const struct pithi_params *params);
/* The value of the target, in its unit; 0 without one. */
double pithi_bound_setting_value(const struct pithi_bound_setting *setting);
/* For hooks `describe` of bounded codecs: false when kernels do not take what is asked for. */
bool pithi_bound_describe(const struct pithi_params *params, struct pithi_device *device);

/* Settle the frame's bound and encode all blocks. psnr and nmse speak of the whole frame: it is
 * decoded again and, where it misses, encoded with a smaller bound. */
pith_status pithi_encode_bounded(struct pithi_coding *c, uint64_t room, uint64_t *used);

/* A block whose coded form is not shorter: its values as they are, all of them exact. */
void pithi_plain_put(struct pithi_block *block);
/* NULL, or what is wrong. */
const char *pithi_plain_take(struct pithi_block *block);

#endif
