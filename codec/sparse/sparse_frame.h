/* sparse_frame.h - the threshold of a frame of chosen elements, and what its header says of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_SPARSE_FRAME_H
#define PITHI_SPARSE_SPARSE_FRAME_H

#include "codec.h"
#include "families.h"
#include "frame.h"
#include "frame_hooks.h"
#include "sparse/control.h"
#include "sparse/selection.h"

/* What a setting of a sparse codec says of a frame. */
struct pithi_sparse_setting {
    struct pithi_control_setting control;
    uint64_t most; /* no frame has more values than this, unless its set is held */
    /* Above 0: elements of a row. Of every row by itself row_k are chosen, or what a request says,
     * but no more than row_most; control.k is the sum of row_k. */
    uint64_t row, row_k, row_most;
    bool clears;         /* an encode takes what it sends out of the residual */
    float momentum;      /* what is kept of it from step to step; 0: there is none */
    uint32_t value_bits; /* of a value, without the scales of int8 */
};

/* What codecs that send sets provide for this family, behind pithi_codec.own. */
struct pithi_sparse_codec {
    /* Returns what is requested of a frame's slot. */
    struct pithi_sparse_setting (*setting)(const struct pithi_frame *frame);
    /* Returns the elements of the set of a block as its head says, and whether that set is the one
     * that the receiver holds. */
    uint64_t (*set_elements)(const uint8_t *bytes, size_t length);
    bool (*set_is_held)(const uint8_t *bytes, size_t length);
};

static inline struct pithi_sparse_setting pithi_sparse_setting_of(const struct pithi_frame *frame) {
    return frame->params.codec->own.sparse->setting(frame);
}

/* The frame hooks of these codecs: `encode` chooses a threshold and encodes all blocks. */
extern const struct pithi_frame_hooks pithi_sparse_frame_hooks;

/* The hooks describe_slot and refuse_device of codecs that send sets. */
void pithi_sets_describe(const struct pithi_frame *f, struct pithi_device_plan_slot *slot,
                         struct pithi_device *device);
const char *pithi_sets_refuse(const struct pithi_device_plan *plan);

/* Returns the bytes of scratch memory that finding a threshold takes from every worker. */
size_t pithi_sparse_scratch_bytes(void);
/* Returns PITH_ERR_STATE unless the slot holds a set, PITH_ERR_UNSUPPORTED where none can. */
pith_status pithi_sparse_check_set(const pith_stream *stream, uint64_t slot, pith_error *error);

/* The most elements of a row from which elements are chosen by row. */
enum { PITHI_SPARSE_ROW = 65536 };
enum { PITHI_CHOSEN_SECTION = 4, PITHI_CHOSEN_BYTES = 24 };

#endif
