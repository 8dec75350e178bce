/* tile_layout.h - where the elements of a tile lie: by themselves, or in a dense tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_TILE_LAYOUT_H
#define PITHI_PREDICT_TILE_LAYOUT_H

#include "predict/tile.h"

struct pithi_tile_layout {
    uint8_t *first; /* of the tensor; or of the tile, when tiling is NULL */
    size_t element; /* bytes */
    const struct pithi_tiling *tiling;
    const struct pithi_tile *tile;
};

PITHI_INLINE struct pithi_tile_layout pithi_tile_layout_dense(const void *first, size_t element) {
    const struct pithi_tile_layout layout = {(uint8_t *)(uintptr_t)first, element, NULL, NULL};
    return layout;
}

/* Element i of the tile. */
uint8_t *pithi_tile_layout_at(const struct pithi_tile_layout *layout, size_t i);

/* The tile's elements in order, run by run. */
struct pithi_tile_layout_walk {
    const struct pithi_tile_layout *layout;
    struct pithi_tile_run run;
    uint64_t number, used; /* of the run; of its elements */
};
void pithi_tile_layout_begin(struct pithi_tile_layout_walk *w,
                             const struct pithi_tile_layout *layout);
/* Where the next elements lie, and how many of them together: at most `most`, 0 behind the last. */
uint8_t *pithi_tile_layout_next(struct pithi_tile_layout_walk *w, size_t most, size_t *count);
/* Where the next element lies, in bytes how far from each other rows of `row` elements do, and how
 * many elements, at most `most`, for which that is so; 0 behind the last. Walks nowhere. */
uint8_t *pithi_tile_layout_rows(struct pithi_tile_layout_walk *w, size_t row, size_t most,
                                size_t *count, size_t *pitch);
void pithi_tile_layout_skip(struct pithi_tile_layout_walk *w, size_t count);
/* Copies of the next ones. */
void pithi_tile_layout_read(struct pithi_tile_layout_walk *w, size_t count, void *to);
/* Has the next ones fetched, if they lie in a tensor; there may be fewer. */
void pithi_tile_layout_prefetch(struct pithi_tile_layout_walk *w, size_t count);

#endif
