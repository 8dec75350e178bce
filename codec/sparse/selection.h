/* selection.h - what a frame of chosen elements says of its choice, and how one is made.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_SELECTION_H
#define PITHI_SPARSE_SELECTION_H

#include <stdbool.h>
#include <stdint.h>

/* The elements in [first, end) of a slot whose magnitude (f32 bits of |x|) exceeds the threshold,
 * and those that equal it up to element tie_end. */
struct pithi_selection {
    uint64_t first, end, tie_end;
    uint32_t threshold;
    uint64_t row, row_k; /* row above 0: in place of all that, the row_k largest of every row */
};

/* The revision of frames of which some blocks have no indices. */
enum { PITHI_CHOSEN_REVISION = 3 };

/* What the section CHOSEN of a frame says (FORMAT.md, 3.2). */
struct pithi_chosen {
    uint64_t count;     /* elements that have values, of all blocks */
    uint64_t set_hash;  /* of the map of the set that the receiver holds; 0 where it need not */
    uint32_t threshold; /* no element that was left out had a larger |x|; only when `bounded` */
    bool held;          /* blocks have no indices: the set is the one that the receiver holds */
    bool same_blocks;   /* some blocks have none: their sets are those that it holds of them */
    bool bounded;
};

/* What the caller asks of the encodes of a slot (pith_sparse_request). */
struct pithi_sparse_request {
    uint64_t first, end; /* the elements that may be chosen; end 0: all */
    uint64_t k;          /* 0: as the spec says */
    uint32_t threshold;  /* bits, in place of the controller's; 0: none */
};

#endif
