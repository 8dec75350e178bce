/* device_groups.h - what device kernels know of a setting that codes in groups.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_DEVICE_GROUPS_H
#define PITHI_GROUP_DEVICE_GROUPS_H

#include "group/group_value.h"
#include "group/hadamard.h"
#include "group/trellis_value.h"

/* The part of struct pithi_device that gradients, weights, pages and values of sets in int8 have in
 * common. */
struct pithi_groups {
    struct pithi_group_setting set;
    struct pithi_rotation rotation;
    struct pithi_trellis trellis;             /* settings with codebook=trellis */
    int16_t factors[PITHI_SEARCH_CANDIDATES]; /* of candidates; settings that search for scales */
    bool domain;                              /* sums are formed before the rotation is undone */
    bool antithetic;                          /* random bits of ranks are shifted */
};

#endif
