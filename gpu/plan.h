/* plan.h - the host's side of a device plan.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_PLAN_H
#define PITHI_GPU_PLAN_H

#include "backend.h"
#include "pith/pith_cuda.h"

enum { PITHI_CUDA_ALIGNMENT = 256 };

struct pith_cuda_plan {
    struct pithi_device_plan table; /* its beginning; the whole lies on the device */
    const uint8_t *device_table;
    uint8_t *image; /* the whole on the host: the copy to the device reads it */
    int device;
    uint32_t processors;
    pith_env env;
    pith_error error;
};

static inline pith_status pithi_cuda_fail(pith_error *error, pith_status status, const char *text,
                                          uint64_t offset) {
    if (error) *error = (pith_error){text, offset};
    return status;
}
/* What a number of the backend means. */
pith_status pithi_cuda_status(int number, pith_error *error);
/* Memory through the plan's env. */
void *pithi_cuda_take(const pith_env *env, size_t bytes);
void pithi_cuda_give(const pith_env *env, void *p, size_t bytes);
/* Of a device state. */
uint64_t pithi_cuda_state_bytes(const struct pithi_device_plan *table);
/* Sets how many teams do `items` items of at most `elements` elements, and how many each does. */
void pithi_cuda_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                       uint64_t elements);
/* The same, whatever the codec: runs of neighbouring elements. */
void pithi_cuda_divide_runs(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                            uint64_t elements);
pith_status pithi_cuda_launch(pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                              const struct pithi_gpu_call *a, uint64_t items, void *stream);
static inline bool pithi_cuda_has_base(const struct pithi_device_plan *t) {
    return t->base_dtype != PITH_NONE;
}

#endif
