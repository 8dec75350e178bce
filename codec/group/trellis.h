/* trellis.h - group quantizer jobs with codebook=trellis.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_TRELLIS_H
#define PITHI_GROUP_TRELLIS_H

#include "group/group.h"

/* Encode and decode jobs whose codebook is trellis; pithi_group_encode_c and _decode_c call them.
 * Jobs may have a base. */
pithi_group_fn pithi_trellis_encode_c, pithi_trellis_decode_c;
/* Does what pithi_group_sum_c does, with a decoder of such jobs. The sums of so many values, or of
 * a longer group, are in the cache while values of all frames are added. */
enum { PITHI_TRELLIS_SUMMED = 2048 };
void pithi_trellis_sum(struct pithi_sum_job *job, pithi_group_fn *decode);
/* Returns the largest |d - x'| of a group with this scale. */
double pithi_trellis_bound(const struct pithi_group_setting *s, double scale);

#endif
