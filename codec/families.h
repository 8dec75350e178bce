/* families.h - what families of codecs add to structs of the framework, which looks at none of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each is 0 where the framework makes the struct. The hooks of frame_hooks.h read and write it. */
#ifndef PITHI_FAMILIES_H
#define PITHI_FAMILIES_H

#include "predict/bound_state.h"
#include "sparse/sparse_state.h"

/* Of a frame: what the section of its codec says. */
union pithi_frame_own {
    struct pithi_bound bound;
    struct pithi_chosen chosen;
};

/* Of one encoding or decoding of a frame. */
union pithi_coding_own {
    struct pithi_request request;
    struct pithi_sparse_coding sparse;
};

/* Of a worker: what the block has that it works on, or what it found out. */
union pithi_worker_own {
    struct pithi_range range;
    struct pithi_block_sparse sparse;
};

/* Of a slot of a stream: what it remembers. */
union pithi_slot_own {
    struct pithi_slot_bounded bounded;
    struct pithi_slot_sparse sparse;
};

#endif
