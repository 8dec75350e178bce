/* block_io.h - the elements of a block, in a view and out of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BLOCK_IO_H
#define PITHI_BLOCK_IO_H

#include "frame.h"
#include "view.h"

/* The block's elements of a view of the whole slot, dense: where they lie, or in buffer. */
void *pithi_block_load(const struct pithi_frame *frame, uint64_t block,
                       const struct pithi_span *view, void *buffer);
/* Those of the block's dense elements that are among [first, first + count) of the frame go to a
 * view of just these; where it is dense, by `move` unless that is NULL. */
void pithi_block_store(const struct pithi_frame *frame, uint64_t block, uint64_t first,
                       uint64_t count, const struct pithi_span *view, const void *elements,
                       pithi_move_fn *move);
/* Where the block's elements lie in a view of [first, first + count), when all of them do, dense
 * and in order; else NULL. */
void *pithi_place(const struct pithi_frame *frame, uint64_t block, uint64_t first, uint64_t count,
                  const struct pithi_span *view);
/* Where pithi_block_put puts a tile's elements: those among [first, first + count) of the frame, in
 * a view of just these; where it is dense, by `move` unless that is NULL. */
struct pithi_output {
    const struct pithi_frame *frame;
    const struct pithi_span *view;
    uint64_t first, count;
    pithi_move_fn *move;
    struct pithi_tile_run run; /* the last one that was written to */
};

/* Where the elements of a tile lie in a view of the whole slot, when it is dense but they are not;
 * else false. */
bool pithi_find_tile_layout(const struct pithi_frame *frame, const struct pithi_tile *tile,
                            const struct pithi_span *view, struct pithi_tile_layout *layout);
/* Whether the block holds any of [first, first + count). */
bool pithi_touches(const struct pithi_frame *frame, uint64_t block, uint64_t first, uint64_t count);

#endif
