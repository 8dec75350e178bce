/* coded.h - calls on entropy-coded items: launches around those of groups.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_CODED_H
#define PITHI_GPU_CODED_H

#include "plan.h"

static inline bool pithi_cuda_is_coded(const pith_cuda_plan *c) { return c->plan.device.coded; }

/* Encodes by a kernel that makes frames of fixed rate. a: filled in, also how teams share the work
 * of that. */
pith_status pithi_cuda_coded_encode(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                                    struct pithi_gpu_call *a, const pith_cuda_items *items,
                                    void *cuda_stream, pith_error *error);
/* Reads frames of which headers were checked: behind it a is a call on frames of fixed rate. */
pith_status pithi_cuda_coded_read(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                  const pith_cuda_items *items, void *cuda_stream,
                                  pith_error *error);
/* Returns the bytes of the workspace that a frame has. */
uint64_t pithi_cuda_coded_bytes(const struct pithi_device_plan *plan);

#endif
