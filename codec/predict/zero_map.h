/* zero_map.h - which elements of a tile are not 0: a map of one bit each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A map is a piece, or coded bit by bit, each with the share that ones have had so far where the
 * bits around it and its place were alike. doc/FORMAT.md, Zero maps. */
#ifndef PITHI_PREDICT_ZERO_MAP_H
#define PITHI_PREDICT_ZERO_MAP_H

#include "bytes/piece.h"
#include "tile.h"

struct pithi_kernels;

/* Returns the bytes of scratch memory, 64-byte aligned, for maps of at most max_count bits. */
size_t pithi_zeros_scratch(size_t max_count);
/* Appends the map of a tile: bit i % 8 of byte i / 8 says that element i is not 0; the rest of the
 * last byte is 0. A pen whose level is NONE takes no map bit by bit. False when the map does not
 * fit. */
bool pithi_zeros_put(struct pithi_pen *pen, const struct pithi_kernels *lanes, size_t max_count,
                     const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM]);
/* Reads the map, into buffer (a byte per 8 elements) or where it lies; NULL when it is damaged. Any
 * bytes are safe. */
const uint8_t *pithi_zeros_take(struct pithi_reader *r, const struct pithi_kernels *lanes,
                                size_t max_count, uint8_t *buffer,
                                const uint32_t extent[PITHI_TILE_NDIM]);
/* Counts the ones of a map. */
size_t pithi_zeros_count(const uint8_t *map, size_t count);

#endif
