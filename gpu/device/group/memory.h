/* memory.h - what kernels of groups have besides: registers of a thread, memory of the team.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_MEMORY_H
#define PITHI_GPU_DEVICE_GROUP_MEMORY_H

#include "device/call.h"
#include "device/phase.h"

struct pithi_group_thread {
    uint32_t largest[PITHI_UNITS];
    /* Of whole tiles, see whole.h: where the first unit goes; steps of a unit's group. */
    uint8_t *to_codes, *to_scales;
    float step[2], step_other[2];
    /* Sums over a lane of a group that is searched, see search.h. */
    float vq[PITHI_TRIES], vq_other[PITHI_TRIES];
    int32_t qq[PITHI_TRIES], qq_other[PITHI_TRIES];
};

struct pithi_group_shared {
    uint32_t largest[PITHI_TILE_GROUPS];
    float scale[PITHI_TILE_GROUPS], reciprocal[PITHI_TILE_GROUPS];
    uint32_t warps[2][PITHI_UNITS][PITHI_TEAM / PITHI_WARP]; /* the largest in each; see whole.h */
    float values[PITHI_TILE]; /* in units; absent but for calls that search */
};

#endif
