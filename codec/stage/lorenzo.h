/* lorenzo.h - differences of integers from their neighbours in a tile, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Order p differences along the last p dimensions (0: none), elements outside being 0; all mod
 * 2^32, then zigzag: 0, -1, 1, -2 ... become 0, 1, 2, 3 ... */
#ifndef PITHI_LORENZO_H
#define PITHI_LORENZO_H

#include <stddef.h>
#include <stdint.h>

#include "stage/tile.h"

/* Elements [at, at + count) of the tile's words, of the whole tile's codes. */
typedef void pithi_predict_fn(const int32_t *codes, const uint32_t extent[PITHI_TILE_NDIM],
                              unsigned order, size_t at, size_t count, uint32_t *words);
/* All of a tile: codes := of words. They may be the same memory. */
typedef void pithi_unpredict_fn(const uint32_t *words, const uint32_t extent[PITHI_TILE_NDIM],
                                unsigned order, int32_t *codes);
pithi_predict_fn pithi_predict_c;
pithi_unpredict_fn pithi_unpredict_c;

#endif
