/* sparse_state.h - what codecs that send sets add to the framework's structs (families.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_SPARSE_STATE_H
#define PITHI_SPARSE_SPARSE_STATE_H

#include "sparse/control.h"
#include "sparse/selection.h"
#include "tile.h"

/* One coding of a frame of chosen elements. */
struct pithi_sparse_coding {
    uint64_t *held;       /* the map of the set that the slot holds; NULL: none to read or write */
    bool keep;            /* decode: the frame's set becomes the one that is held */
    bool admitted;        /* decode: the set that is held was found to be the encoder's */
    bool given;           /* encode: the set that is held, with its indices */
    bool same;            /* encode: the values of the set that is held */
    bool same_blocks;     /* encode: without indices of blocks whose set is the one that is held */
    bool call;            /* encode: what is sent stays in the residual */
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

/* What a block has. */
struct pithi_block_sparse {
    const struct pithi_selection *selection; /* encode: which elements are chosen */
    /* The map of the block's set that a stream holds: read when `same`; else written by encode, and
     * by decode with `keep`, with `same_blocks` after it was read. NULL: the call has none. */
    uint64_t *held;
    bool keep;
    bool same;        /* the block's set is the one that is held; its bytes have no indices */
    bool same_blocks; /* that may be so; what the head says of it goes */
    bool given;       /* encode: the set is the one that is held, and its indices are sent */
    bool call;        /* encode: what is sent stays in the residual until the caller clears it */
    uint32_t dtype;   /* encode: of the values, which may be sums or a momentum in f32 */
    /* encode: the momentum before; and where it goes, which the values are. NULL: none. */
    const float *momentum;
    float *momentum_next;
    /* encode: reads elements of the slot that other blocks have, `read_buffer` being for as many as
     * a row may have. */
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
