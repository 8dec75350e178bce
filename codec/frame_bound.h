/* frame_bound.h - the bound of a frame: from what was asked for and from the values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bounded codecs have some of the keys abs, rel, pwrel, psnr, nmse and range, of which the first
 * five exclude each other. */
#ifndef PITHI_FRAME_BOUND_H
#define PITHI_FRAME_BOUND_H

#include "frame_codec.h"
#include "predict/bound_value.h"

/* The rules across these keys. */
pith_status pithi_bounded_check(const struct pithi_params *params, const char **detail);
/* Which target the parameters name; PITHI_TARGETS when none or several. */
enum pithi_target pithi_bounded_target(const struct pithi_params *params);
/* What the spec asks for, in the unit of its key. */
double pithi_bounded_requested(const struct pithi_params *params);

/* Settle the frame's bound and encode all blocks. psnr and nmse speak of the whole frame: it is
 * decoded again and, where it misses, encoded with a smaller bound. */
pith_status pithi_encode_bounded(struct pithi_coding *c, uint64_t room, uint64_t *used);

/* A block whose coded form is not shorter: its values as they are, all of them exact. */
void pithi_plain_put(struct pithi_block *block);
/* NULL, or what is wrong. */
const char *pithi_plain_take(struct pithi_block *block);

#endif
