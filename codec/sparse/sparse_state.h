/* sparse_state.h - what codecs that send sets add to the framework's structs (families.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_SPARSE_STATE_H
#define PITHI_SPARSE_SPARSE_STATE_H

#include "sparse/control.h"
#include "sparse/selection.h"
#include "tile.h"

/* One coding of a frame of chosen elements. An encode chooses a set, but with same_set or held_set
 * takes the one that the slot holds. */
struct pithi_sparse_coding {
    uint64_t *held_map; /* the map of the set that the slot holds; NULL: none to read or write */
    bool keep_set;      /* decode: the frame's set becomes the one that is held */
    bool admitted;      /* decode: the set that is held was found to be the encoder's */
    bool held_set;      /* encode: PITH_HELD_SET, the set that is held, with its indices */
    bool same_set;      /* encode: PITH_SAME_SET, the values of that set, without its indices */
    bool same_blocks;   /* encode: PITH_SAME_BLOCKS, no indices of blocks whose set has stayed */
    bool caller_clears; /* encode: what is sent stays in the residual until the caller clears it */
    pithi_source_fn *sum; /* a sum that is encoded, before momentum and transform; NULL: the view */
    void *sum_from;
    const void *(*read)(const void *coding, uint64_t first, uint64_t count, void *buffer);
    float factor;  /* what the momentum before is multiplied by */
    bool reported; /* control.selected is that of all ranks */
    uint64_t step;
    struct pithi_sparse_request request;
    struct pithi_control_state control;
    struct pithi_selection selection;
    uint64_t found, overflowed; /* results: elements chosen, and of them beyond the hard limit */
};

/* What a block is coded with. */
struct pithi_block_sparse {
    const struct pithi_selection *selection; /* encode: which elements are chosen */
    /* The block's part of the map that the slot holds, or NULL. An encode reads it with same_set or
     * held_set, and else writes it; with same_blocks it does both. A decode reads it when the block
     * has no indices, and writes it with keep_set. */
    uint64_t *held_map;
    bool keep_set;
    bool same_set;    /* no block of the frame has indices: the set is the one that is held */
    bool same_blocks; /* blocks may be without: each block's head says whether it is */
    bool held_set;    /* encode: the set is the one that is held, and its indices are sent */
    bool caller_clears;
    uint32_t dtype; /* encode: of the values, which may be sums or a momentum in f32 */
    /* encode: the momentum of the step before, and where that of this step goes, which the values
     * of the block already are. NULL: the codec has no momentum. */
    const float *momentum;
    float *momentum_next;
    /* encode: reads elements of the slot outside of the block, for rows that it has a part of. The
     * buffer holds PITHI_SPARSE_ROW elements. */
    const void *(*read)(const void *from, uint64_t first, uint64_t count, void *buffer);
    const void *read_from;
    void *read_buffer;
};

/* What a slot remembers of its chosen elements. */
struct pithi_slot_sparse {
    struct pithi_control_state control, before; /* before: until the last encode */
    struct pithi_sparse_request request;
    uint64_t sent, overflowed;      /* of the last encode */
    uint32_t threshold;             /* the same */
    bool reported, reported_before; /* control.selected is that of all ranks, not the slot's own */
    bool holds; /* its words are the map of a set: of the last frame, or what was set */
};

#endif
