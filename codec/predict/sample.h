/* sample.h - how wide the words of a sample are, by the order of differences, in one pass.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel does what quantize, predict and widths do one after the other, with no memory in
 * between. */
#ifndef PITHI_PREDICT_SAMPLE_H
#define PITHI_PREDICT_SAMPLE_H

#include "predict/bitplane_choice.h"
#include "predict/quant.h"
#include "tile.h"

enum { PITHI_SAMPLE_LINES = 8, PITHI_SAMPLE_GROUPS = PITHI_PACK_SAMPLE / PITHI_BITPLANE_GROUP };

/* `count` elements of a row, 1 to PITHI_PACK_SAMPLE, whose words count, behind `lead` of at most a
 * group, 0 only where the row begins. */
struct pithi_sample {
    const struct pithi_quant *quant;
    /* The lead and the elements themselves, and the same of lines before them: bit 0 of the number
     * is set one element before in the third dimension, bit 1 in the second and bit 2 in the first.
     * Outside the tile they are 0. */
    const uint8_t *line[PITHI_SAMPLE_LINES];
    size_t lead, count;
};

/* Sums of widths, by the order of differences and the number of the group in its sample. */
typedef uint32_t pithi_sample_widths[PITHI_TILE_NDIM + 1][PITHI_SAMPLE_GROUPS];

/* Adds the widths of a sample's words for orders 0 to `most`, at least 1. Order p reads the first
 * 2^(p - 1) lines. Returns false, and adds nothing, where the kernel has no loop. */
typedef bool pithi_sample_fn(const struct pithi_sample *s, unsigned most, pithi_sample_widths sums);
pithi_sample_fn pithi_sample_c; /* returns false */

#endif
