/* tile_layout.h - where the elements of a tile lie: by themselves, or in a dense tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_TILE_LAYOUT_H
#define PITHI_PREDICT_TILE_LAYOUT_H

#include "predict/tile.h"

struct pithi_lay {
    uint8_t *first; /* of the tensor; or of the tile, when tiling is NULL */
    size_t element; /* bytes */
    const struct pithi_tiling *tiling;
    const struct pithi_tile *tile;
};

PITHI_INLINE struct pithi_lay pithi_lay_dense(const void *first, size_t element) {
    const struct pithi_lay lay = {(uint8_t *)(uintptr_t)first, element, NULL, NULL};
    return lay;
}

/* Element i of the tile. */
uint8_t *pithi_lay_at(const struct pithi_lay *lay, size_t i);

/* The tile's elements in order, run by run. */
struct pithi_lay_walk {
    const struct pithi_lay *lay;
    struct pithi_tile_run run;
    uint64_t number, used; /* of the run; of its elements */
};
void pithi_lay_begin(struct pithi_lay_walk *w, const struct pithi_lay *lay);
/* Where the next elements lie, and how many of them together: at most `most`, 0 behind the last. */
uint8_t *pithi_lay_next(struct pithi_lay_walk *w, size_t most, size_t *count);
/* Where the next element lies, in bytes how far from each other rows of `row` elements do, and how
 * many elements, at most `most`, for which that is so; 0 behind the last. Walks nowhere. */
uint8_t *pithi_lay_rows(struct pithi_lay_walk *w, size_t row, size_t most, size_t *count,
                        size_t *pitch);
void pithi_lay_skip(struct pithi_lay_walk *w, size_t count);
/* Copies of the next ones. */
void pithi_lay_read(struct pithi_lay_walk *w, size_t count, void *to);
/* Has the next ones fetched, if they lie in a tensor; there may be fewer. */
void pithi_lay_prefetch(struct pithi_lay_walk *w, size_t count);

#endif
