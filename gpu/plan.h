/* plan.h - the host's side of a device plan.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_PLAN_H
#define PITHI_GPU_PLAN_H

#include "backend.h"
#include "pith/pith_cuda.h"

struct pith_cuda_plan {
    struct pithi_table table; /* its beginning; the whole lies on the device */
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
/* Bytes of a device state, and offsets in it. */
uint64_t pithi_cuda_state_bytes(const struct pithi_table *table);
uint64_t pithi_cuda_state_memory(const struct pithi_table *table);
static inline bool pithi_cuda_has_base(const struct pithi_table *t) {
    return t->base_dtype != PITH_NONE;
}

#endif
