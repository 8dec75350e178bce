/* predict.h - calls on items of codecs with a bound: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_PREDICT_H
#define PITHI_GPU_PREDICT_H

#include "device/predict/workspace.h"
#include "plan.h"

static inline bool pithi_cuda_is_bounded(const pith_cuda_plan *c) {
    return c->plan.device.kind == PITHI_KIND_BOUNDED || c->plan.device.kind == PITHI_KIND_ROWS ||
           c->plan.device.kind == PITHI_KIND_ZEROS;
}
/* Encodes with a bound. a: filled in but for what says how teams share the work. */
pith_status pithi_cuda_bounded_encode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error);
/* Decodes with a bound; verify: does the checks alone. */
pith_status pithi_cuda_bounded_decode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      bool verify, const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error);

#endif
