/* block_io.h - the elements of a block, in a view and out of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BLOCK_IO_H
#define PITHI_BLOCK_IO_H

#include "frame.h"
#include "view.h"

/* Returns the block's elements of a view of the whole slot, one after the other: where they lie, if
 * they lie so, else copied to buffer. */
void *pithi_block_load(const struct pithi_frame *frame, uint64_t block,
                       const struct pithi_span *view, void *buffer);
/* Writes those of the block's elements that are among [first, first + count) of the frame to a view
 * of just these. A dense view is written with `move`, unless that is NULL. */
void pithi_block_store(const struct pithi_frame *frame, uint64_t block, uint64_t first,
                       uint64_t count, const struct pithi_span *view, const void *elements,
                       pithi_move_fn *move);
/* Returns where the block's elements lie in a view of [first, first + count) of the frame; NULL
 * unless the view holds all of them, one after the other. */
void *pithi_place(const struct pithi_frame *frame, uint64_t block, uint64_t first, uint64_t count,
                  const struct pithi_span *view);
/* Where pithi_block_put puts the elements of a tile: those among [first, first + count) of the
 * frame go to a view of just these. A dense view is written with `move`, unless that is NULL. */
struct pithi_output {
    const struct pithi_frame *frame;
    const struct pithi_span *view;
    uint64_t first, count;
    pithi_move_fn *move;
    struct pithi_tile_run run; /* the last run that was written to */
};

/* Finds where the elements of a tile lie in a view of the whole slot. False unless the view is
 * dense, and also when the tile is a single run of it. */
bool pithi_find_tile_layout(const struct pithi_frame *frame, const struct pithi_tile *tile,
                            const struct pithi_span *view, struct pithi_tile_layout *layout);
/* Whether the block holds any of [first, first + count). */
bool pithi_touches(const struct pithi_frame *frame, uint64_t block, uint64_t first, uint64_t count);

#endif
