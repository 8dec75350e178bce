/* call.h - what kernels of pages are given besides.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_KV_CALL_H
#define PITHI_GPU_DEVICE_KV_CALL_H

#include "pith/kv.h"

/* The part of a call on codecs in pages. pairs: not NULL in calls on pages without frames, of which
 * rows and heads of each lie where the strides say. */
struct pithi_gpu_kv_call {
    const struct pith_kv_pair *pairs;
    int64_t token_stride, head_stride;
    uint32_t parts; /* teams per page */
};

#endif
