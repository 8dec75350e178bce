/* codebook.h - group quantizer jobs whose codes are numbers of levels.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_CODEBOOK_H
#define PITHI_GROUP_CODEBOOK_H

#include "group/group.h"

/* Encode and decode jobs whose setting has a codebook; pithi_group_encode_c and _decode_c call
 * them. */
pithi_group_fn pithi_codebook_encode_c, pithi_codebook_decode_c;
/* Returns the largest |x - x'| of a group with this scale. */
double pithi_codebook_bound(const struct pithi_group_setting *s, double scale);

#endif
