/* tile_layout.h - where the elements of a tile lie: by themselves, or in a dense tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_TILE_LAYOUT_H
#define PITHI_TILE_LAYOUT_H

#include "tile.h"

struct pithi_tile_layout {
    uint8_t *first; /* first element of the tensor; of the tile, when tiling is NULL */
    size_t element; /* bytes of an element */
    const struct pithi_tiling *tiling;
    const struct pithi_tile *tile;
};

PITHI_INLINE struct pithi_tile_layout pithi_tile_layout_dense(const void *first, size_t element) {
    const struct pithi_tile_layout layout = {(uint8_t *)(uintptr_t)first, element, NULL, NULL};
    return layout;
}

/* Returns where element i of the tile lies. */
uint8_t *pithi_tile_layout_at(const struct pithi_tile_layout *layout, size_t i);

/* A walk over the tile's elements in order, run by run. */
struct pithi_tile_layout_walk {
    const struct pithi_tile_layout *layout;
    struct pithi_tile_run run;
    uint64_t number, used; /* number of the run, and its elements that were used */
};
void pithi_tile_layout_begin(struct pithi_tile_layout_walk *w,
                             const struct pithi_tile_layout *layout);
/* Returns where the next elements lie, and moves on; *count is how many of them lie together, at
 * most `most`, 0 behind the last. */
uint8_t *pithi_tile_layout_next(struct pithi_tile_layout_walk *w, size_t most, size_t *count);
/* Returns where the next element lies, without moving on. *pitch is how many bytes apart rows of
 * `row` elements are, and *count for how many elements, at most `most`, that is so; 0 behind the
 * last. */
uint8_t *pithi_tile_layout_rows(struct pithi_tile_layout_walk *w, size_t row, size_t most,
                                size_t *count, size_t *pitch);
void pithi_tile_layout_skip(struct pithi_tile_layout_walk *w, size_t count);
/* Copies the next elements, and moves on. */
void pithi_tile_layout_read(struct pithi_tile_layout_walk *w, size_t count, void *to);
/* Prefetches the next elements, if they lie in a tensor, and moves on; there may be fewer. */
void pithi_tile_layout_prefetch(struct pithi_tile_layout_walk *w, size_t count);

#endif
