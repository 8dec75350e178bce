/* call.h - what kernels whose blocks lie in a workspace are given besides: those of codecs with a
 * bound, and of sets.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PREDICT_CALL_H
#define PITHI_GPU_DEVICE_PREDICT_CALL_H

#include <stdint.h>

/* The part of a call that says where launches leave what the next ones need. */
struct pithi_gpu_predict_call {
    uint8_t *workspace; /* marks, then a part for each frame; see predict/workspace.h */
    uint32_t parts;     /* teams that share a block; 0 is 1 */
    uint32_t dimension; /* of bounded_along: the one that sums run along, counted from the last */
};

#endif
