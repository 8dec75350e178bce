/* call.h - what kernels of sets are given besides.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_SPARSE_CALL_H
#define PITHI_GPU_DEVICE_SPARSE_CALL_H

#include <stdbool.h>

#include "pith/sparse.h"

/* The part of a call on codecs that send sets of elements. */
struct pithi_gpu_sparse_call {
    /* Launches that look for a threshold. round: 0 for the step's own, 1 for that of the hard
     * limit; level: of PITHI_SELECT_LEVELS. */
    uint32_t round, level;
    /* Encodes that choose from sums which launches before have made: of so many frames of `from`
     * each, and the marks of these. summands is 0 where they choose from tensors. */
    uint32_t summands;
    const uint8_t *marks;
    /* Sums of frames are formed here as f32, which are rounded then; NULL: in the tensor. */
    uint8_t *sums;

    /* Of codecs that send coefficients: where those of each item lie. Encodes: they lie in the
     * items already. */
    uint8_t *coefficients;
    uint64_t coefficients_stride;
    bool entered;

    /* Calls on sets that slots hold. dtype: of values side by side, which stand in place of frames;
     * run: elements that are listed as one. */
    uint32_t dtype;
    uint64_t run;
    bool names; /* frames are read for their sets: those with values of a held set name none */
    bool sends; /* an encode does not choose, but sends the set that the slot holds */
    bool bare;  /* it sends that without indices */
    bool same_blocks; /* it chooses, and blocks whose set the slot held before have no indices */
    /* Memory of each item: of an intersection for the map of a frame, of an encode that sends a
     * held set for the list of its elements, with same_blocks for the map that was held before. */
    uint8_t *scratch;

    /* Calls on what slots remember of their choice: one of these, a word or a struct for each
     * item. */
    const pith_sparse_request *requests;
    const uint64_t *chosen;
    pith_sparse_state *states;
};

#endif
