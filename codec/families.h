/* families.h - what families of codecs add to structs of the framework, which looks at none of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each is 0 where the framework makes the struct. Hooks of codec.h and frame_hooks.h read and write
 * it. */
#ifndef PITHI_FAMILIES_H
#define PITHI_FAMILIES_H

#include "kv/page_rows.h"
#include "predict/bound_state.h"
#include "sparse/sparse_state.h"

struct pithi_bounded_codec;
struct pithi_sparse_codec;

/* Of a codec: hooks that its family calls. Codecs of one family have the same frame hooks, which
 * say of a codec which family it is. */
union pithi_codec_own {
    const struct pithi_bounded_codec *bounded; /* predict/bounded.h */
    const struct pithi_sparse_codec *sparse;   /* sparse/sparse_frame.h */
};

/* Of params: what the hook `cut` of a codec found in the shape. All bytes of it count where two are
 * compared, so that no member has padding. */
union pithi_params_own {
    struct pithi_page_rows pages;
};

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
