/* plan.h - the host's side of a device plan.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_PLAN_H
#define PITHI_GPU_PLAN_H

#include "backend.h"
#include "error.h"
#include "pith/pith_cuda.h"

/* What memory of the caller's is aligned to; and for each processor of a device, teams that keep it
 * busy. */
enum { PITHI_CUDA_ALIGNMENT = 256, PITHI_CUDA_WAVES = 8 };

/* A device plan; nothing in it changes once it is made. */
struct pith_cuda_plan {
    struct pithi_device_plan plan; /* what the memory of the plan begins with */
    const uint8_t *device_memory;  /* the whole plan on the device */
    uint8_t *image;                /* the same on the host: the copy to the device reads it */
    int device;
    uint32_t processors;
    pith_env env; /* the allocator and the limit */
};

/* Returns what a number of the backend means. */
pith_status pithi_cuda_status(int number, pith_error *error);
/* Fails with PITH_ERR_ARG and says which argument is NULL. */
pith_status pithi_cuda_null(const char *name, pith_error *error);
/* Fails with PITH_ERR_ARG, and says so, where an array is not aligned to so many bytes. */
pith_status pithi_cuda_aligned(const char *name, const void *array, size_t bytes,
                               pith_error *error);
/* Returns the bytes of a device stream. */
uint64_t pithi_cuda_stream_bytes(const struct pithi_device_plan *plan);
/* Returns the bytes of the sums of an item that is reduced to f32, which is rounded then. */
uint64_t pithi_cuda_sum_bytes(const struct pithi_device_plan *plan);
/* Returns the bytes of a map of an item's set, where sets are intersected. */
uint64_t pithi_cuda_set_bytes(const struct pithi_device_plan *plan);
/* Whether plan and stream can be what a call is given; stream_name: for the error. */
pith_status pithi_cuda_check_stream(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                    const char *stream_name, pith_error *error);
/* Sets how many teams do `items` items of at most `elements` elements, and how many each does. */
void pithi_cuda_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                       uint64_t elements);
/* Sets the same two numbers of a call on runs of neighbouring elements, whatever the codec. */
void pithi_cuda_divide_runs(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                            uint64_t elements);
pith_status pithi_cuda_launch(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                              const struct pithi_gpu_call *a, uint64_t items, void *cuda_stream,
                              pith_error *error);
/* Clears memory on the device. */
pith_status pithi_cuda_clear(const pith_cuda_plan *c, void *p, uint64_t bytes, void *cuda_stream,
                             pith_error *error);
/* Whether a call on items was given its workspace: `each` bytes for a frame, of which an item has
 * a->per_item, aligned so. Sets how many frames there are. */
pith_status pithi_cuda_workspace(const struct pithi_gpu_call *a, const pith_cuda_items *items,
                                 uint64_t each, uint64_t alignment, uint64_t *frames,
                                 pith_error *error);
/* Whether codes are those of paths through a trellis. */
static inline bool pithi_cuda_has_paths(const pith_cuda_plan *c) {
    return c->plan.device.groups.set.codebook == PITHI_CODEBOOK_TRELLIS;
}
static inline bool pithi_cuda_has_base(const struct pithi_device_plan *t) {
    return t->base_dtype != PITH_NONE;
}

#endif
