/* trellis_memory.h - the team's memory of encodes with codebook=trellis.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_MEMORY_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_MEMORY_H

#include <stdalign.h>

#include "device/call.h"
#include "device/phase.h"

/* Values have two lists of cells: of those that are not negative, then backwards of the others, so
 * that a shift makes a value's cell of it. A team takes segments, of up to SEGMENT elements and
 * PATHS sequences: a thread finds the path of one, so that many are wanted at once. */
enum {
    PITHI_TRELLIS_ALL_CELLS = 2 * PITHI_TRELLIS_CELLS,
    PITHI_TRELLIS_SEGMENT = 4 * PITHI_TILE,
    PITHI_TRELLIS_PATHS = 512,
    /* A whole segment (trellis_whole.h) has so many elements, and at most so many groups. */
    PITHI_TRELLIS_WHOLE = PITHI_TRELLIS_SEGMENT,
    PITHI_TRELLIS_GROUPS = 128
};

struct pithi_trellis_thread {
    float sum[2], sum_other[2]; /* over a lane of a group: with its values, and with itself */
    /* Used for whole segments: units of a group, as the team's memory has them; what goes to
     * another thread, and comes from one; the number of one that a value is taken from. */
    uint32_t unit, other, sent[1], got[1], from[1];
};

/* What is looked up by a cell: distances from the levels of subsets 1 to 3 less that of subset 0,
 * as `lean` + `slope` times the value, which is an integer. */
struct pithi_trellis_tables {
    int32_t lean[3][PITHI_TRELLIS_ALL_CELLS], slope[3][PITHI_TRELLIS_ALL_CELLS];
    /* What is looked up by a cell, then by a subset: the level as a float, which ends with 16
     * zeros, and in place of the last of these its code without the lowest bit. */
    uint32_t near[4 * PITHI_TRELLIS_ALL_CELLS];
    uint32_t marks[8]; /* a bit for each magnitude of a level */
    int32_t most;      /* values are clamped to it */
};

struct pithi_trellis_segment {
    /* What is known of groups, as bits of f32. largest: in the end the scale. unit: what values are
     * multiplied by if the group was decoded before; where it was not, `other` is negative, and its
     * magnitude that. Both are 0 where all codes are. */
    uint32_t largest[PITHI_TRELLIS_PATHS], unit[PITHI_TRELLIS_PATHS], other[PITHI_TRELLIS_PATHS];
    uint8_t begin[PITHI_TRELLIS_PATHS];   /* of sequences: the state that the path begins in */
    float total[2][PITHI_TRELLIS_GROUPS]; /* of groups of whole segments, as the threads' sums */
    /* The lowest bits of codes before any is turned, a byte a unit. */
    uint8_t chosen[PITHI_TRELLIS_SEGMENT / PITHI_UNIT];
    /* A unit's words, then how each state is reached best at its end; in the end, of a tile, what
     * sums are formed of. */
    union {
        alignas(16) struct pithi_quad slot[PITHI_TRELLIS_SEGMENT / PITHI_UNIT];
        struct {
            alignas(16) float product[PITHI_TILE];
            alignas(16) int16_t level[PITHI_TILE];
        };
        alignas(16) float products[2][PITHI_TILE]; /* of whole tiles, by turns */
    };
};

struct pithi_trellis_shared {
    struct pithi_trellis_tables tables;
    struct pithi_trellis_segment any;
};

#endif
