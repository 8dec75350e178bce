/* sparse.h - calls on items of codecs that send sets of elements: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_SPARSE_H
#define PITHI_GPU_SPARSE_H

#include "plan.h"

static inline bool pithi_cuda_is_sparse(const pith_cuda_plan *c) {
    return c->plan.device.kind == PITHI_KIND_SETS;
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
/* The calls on sets that slots hold. adds: values are added to tensors at the elements of the sets,
 * or else taken out of tensors, or residuals. */
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
/* The calls on what slots remember of their choice: requests, counts or states, as a->sparse
 * says. */
pith_status pithi_cuda_sparse_slots(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                    const pith_cuda_items *items, void *cuda_stream,
                                    pith_error *error);

#endif
