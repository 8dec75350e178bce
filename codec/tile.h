/* tile.h - how codecs with neighbours in several dimensions cut a tensor into blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tensor of any shape counts as one of PITHI_TILE_NDIM dimensions, leading ones of 1 or leading
 * ones merged. Tiles of one extent stand in a grid, in row-major order, cut at the far edges; the
 * elements of a tile are numbered in row-major order of its own extent (doc/FORMAT.md, Tiles). */
#ifndef PITHI_TILE_H
#define PITHI_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "pith/pith.h"

enum { PITHI_TILE_NDIM = 4 };

struct pithi_tiling {
    uint64_t shape[PITHI_TILE_NDIM];
    uint32_t extent[PITHI_TILE_NDIM]; /* of a tile that is not cut */
    uint64_t grid[PITHI_TILE_NDIM];   /* tiles along each dimension */
    uint64_t tiles;
    bool runs; /* tiles are runs of the tensor, in order, of which one dimension is cut */
};

/* One tile: its first element's place, and its extent. */
struct pithi_tile {
    uint64_t origin[PITHI_TILE_NDIM];
    uint32_t extent[PITHI_TILE_NDIM];
    uint64_t count;
};

/* Cuts into tiles of at most `block` elements, as near to cubes as the shape lets them be.
 * whole_rows: the last dimension is not cut; then block is at least as large. */
void pithi_tiling_init(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim, uint32_t block,
                       bool whole_rows);
/* Cuts into tiles of whole rows of `row` elements, at most `block`, which row is not above. When
 * row is the last dimension, tiles hold rows that differ in the next dimension alone, but for
 * shapes where they would be small; else the tensor counts as one of one dimension, whose last row
 * may be short. */
void pithi_tiling_rows(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim, uint32_t row,
                       uint32_t block);
/* Cuts into tiles of at most `block` elements that are runs of the tensor: whole rows, planes and
 * so on as long as they fit, and, of the first dimension where they do not, parts as equal as can
 * be. */
void pithi_tiling_runs(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim,
                       uint32_t block);
/* Cuts into tiles of `page` rows of `row` elements, none across two of `sequences` of `rows` rows
 * each. */
void pithi_tiling_pages(struct pithi_tiling *t, uint64_t sequences, uint64_t rows, uint64_t row,
                        uint32_t page);
/* Returns the number of the tile that element e of the tensor is in. */
uint64_t pithi_tile_of(const struct pithi_tiling *t, uint64_t e);
PITHI_INLINE struct pithi_tile pithi_tile_at(const struct pithi_tiling *t, uint64_t tile) {
    struct pithi_tile at;
    at.count = 1;
    PITHI_UNROLL for (int d = PITHI_TILE_NDIM - 1; d >= 0; d--) {
        uint64_t origin = 0;
        if (t->grid[d] > 1) { /* divisions take long */
            origin = tile % t->grid[d] * t->extent[d];
            tile /= t->grid[d];
        }
        const uint64_t left = t->shape[d] - origin;
        at.origin[d] = origin;
        at.extent[d] = left < t->extent[d] ? (uint32_t)left : t->extent[d];
        at.count *= at.extent[d];
    }
    return at;
}

/* Takes elements [at, at + count) of a tile, dense, as they are made. */
typedef void pithi_sink_fn(void *arg, size_t at, size_t count, const void *values);
struct pithi_sink {
    pithi_sink_fn *put;
    void *arg;
};

/* Reads elements [first, first + count) of the values that are encoded, at most a block, in the
 * frame's dtype: *values is where they are. */
struct pithi_worker;
typedef pith_status pithi_source_fn(void *from, uint64_t first, uint64_t count,
                                    struct pithi_worker *worker, const void **values);

/* A run of elements that are neighbours in the tensor too: `count` of them, the first being number
 * `at` of the tensor and number `in` of the tile. The next `more` runs lie `stride` elements of the
 * tensor apart. */
struct pithi_tile_run {
    uint64_t at, in, count, more, stride;
};
/* Finds run number `number` of the tile; false past the last. */
bool pithi_tile_run_at(const struct pithi_tiling *t, const struct pithi_tile *tile, uint64_t number,
                       struct pithi_tile_run *run);
/* Moves a run that has more behind it to the next. */
PITHI_INLINE void pithi_tile_run_next(struct pithi_tile_run *run) {
    run->at += run->stride;
    run->in += run->count;
    run->more--;
}

#endif
