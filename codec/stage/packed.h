/* packed.h - a tile's codes as packed words of their differences, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Packed words: the table of widths, the groups' widths, the groups. Codes are read
 * twice and written never; values are made strip by strip, in the cache. */
#ifndef PITHI_PACKED_H
#define PITHI_PACKED_H

#include "stage/pack.h"
#include "stage/piece.h"
#include "stage/quant.h"
#include "stage/tile.h"

struct pithi_kernels;

/* What a tile's codes are read or written by. It has 1 to 2^24 elements, all extents multiplied. */
struct pithi_packed {
    const struct pithi_kernels *kernels;
    uint32_t extent[PITHI_TILE_NDIM];
    unsigned order; /* of the differences, 0..4 */
};

/* Bytes of scratch, 64-byte aligned, for tiles of at most count elements. */
size_t pithi_packed_scratch(size_t count);
/* The order up to `most` whose words would be shortest, judged by some of the rows; the least of
 * several. p->order is not read. */
unsigned pithi_packed_choose(const struct pithi_packed *p, const int32_t *codes, unsigned most);
/* False when there is no room. Uses pen->scratch. */
bool pithi_packed_put(const struct pithi_packed *p, const int32_t *codes, struct pithi_pen *pen);
/* NULL, or what is wrong; any bytes are safe. The values that the codes mean under `quant`, dense,
 * of its dtype; without it the codes themselves, int32_t. stream: they will not be read soon. Uses
 * r->scratch. */
const char *pithi_packed_take(const struct pithi_packed *p, struct pithi_reader *r,
                              const struct pithi_quant *quant, void *values, bool stream);

#endif
