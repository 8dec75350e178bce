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
/* Sums to frames of sets; a has both sides. */
pith_status pithi_cuda_sparse_recode(const pith_cuda_plan *c, const struct pithi_gpu_call *a,
                                     const pith_cuda_items *items, const pith_cuda_plan *out,
                                     const pith_cuda_items *made, void *cuda_stream,
                                     pith_error *error);
/* Of calls on the sets that slots hold. adds: values at their elements to tensors, or else out of
 * them, or of residuals. */
pith_status pithi_cuda_sparse_hold(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                   bool intersection, const pith_cuda_items *items,
                                   void *cuda_stream, pith_error *error);
pith_status pithi_cuda_sparse_hold_elements(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                            const pith_cuda_items *items, void *cuda_stream,
                                            pith_error *error);
pith_status pithi_cuda_sparse_move(const pith_cuda_plan *c, struct pithi_gpu_call *a, bool adds,
                                   const pith_cuda_items *items, void *cuda_stream,
                                   pith_error *error);
pith_status pithi_cuda_sparse_clear(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    const pith_cuda_items *items, void *cuda_stream,
                                    pith_error *error);
/* Of calls that ask what slots remember, or say something of it: a->sparse. */
pith_status pithi_cuda_sparse_ask(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                  const pith_cuda_items *items, void *cuda_stream,
                                  pith_error *error);

#endif
