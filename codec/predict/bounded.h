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

/* The rules across these keys. */
pith_status pithi_bounded_check(const struct pithi_params *params, const char **detail);
/* What a setting of a bounded codec requests: what the codec's hook says of it, and the target,
 * whose key is the one real number that frames record. */
struct pithi_bound_setting pithi_bound_setting_of(const struct pithi_params *params);
/* The value of the target, in its unit; 0 without one. */
double pithi_bound_setting_value(const struct pithi_bound_setting *setting);
/* For hooks `describe` of bounded codecs: false when kernels do not take what is requested. */
bool pithi_bound_describe(const struct pithi_params *params, struct pithi_device *device);

/* Of these codecs: the bound is set before the first block. psnr and nmse speak of the whole frame:
 * it is decoded again and, where it misses, encoded with a smaller bound. */
extern const struct pithi_whole pithi_whole_bounded;

/* A block whose coded form is not shorter: its values as they are, all of them exact. */
void pithi_plain_put(struct pithi_block *block);
/* NULL, or what is wrong. */
const char *pithi_plain_take(struct pithi_block *block);

#endif
