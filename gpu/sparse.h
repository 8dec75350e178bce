/* sparse.h - calls on items of codecs that send sets of elements: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_SPARSE_H
#define PITHI_GPU_SPARSE_H

#include "plan.h"

static inline bool pithi_cuda_is_sparse(const pith_cuda_plan *c) {
    return c->table.device.kind == PITHI_DEVICE_sets;
}
/* a: filled in but for what says how teams share the work. verify: does the checks alone. */
pith_status pithi_cuda_sparse_encode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error);
pith_status pithi_cuda_sparse_decode(const pith_cuda_plan *c, struct pithi_gpu_call *a, bool verify,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error);
pith_status pithi_cuda_sparse_reduce(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, void *cuda_stream,
                                     pith_error *error);

#endif
