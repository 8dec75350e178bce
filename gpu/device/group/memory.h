/* memory.h - what kernels of groups have besides: registers of a thread, memory of the team.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_MEMORY_H
#define PITHI_GPU_DEVICE_GROUP_MEMORY_H

#include <stdalign.h>

#include "device/call.h"
#include "device/phase.h"

struct pithi_group_thread {
    uint32_t largest[PITHI_UNITS];
    /* Used for whole tiles (whole.h): where the first unit goes; steps of a unit's group. */
    uint8_t *to_codes, *to_scales;
    float step[2], step_other[2];
};

struct pithi_group_shared {
    uint32_t largest[PITHI_TILE_GROUPS];
    float scale[PITHI_TILE_GROUPS], reciprocal[PITHI_TILE_GROUPS];
    uint32_t warps[2][PITHI_UNITS][PITHI_TEAM / PITHI_WARP]; /* the largest in each; see whole.h */
    /* Absent but for calls that search: values as integers, and the two sums of candidates. */
    alignas(16) float values[PITHI_TILE];
    uint32_t sums[2][PITHI_SEARCH_CANDIDATES][PITHI_TILE / 32];
    float factors[PITHI_SEARCH_CANDIDATES];
};

#endif
