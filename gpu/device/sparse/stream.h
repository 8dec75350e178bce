/* stream.h - what a stream of a codec that sends sets keeps of a slot besides, and where.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_SPARSE_STREAM_H
#define PITHI_GPU_DEVICE_SPARSE_STREAM_H

#include "device/call.h"
#include "sparse/control.h"
#include "sparse/selection.h"

/* The counterpart of the CPU's struct pithi_slot_sparse. before: until the last encode. */
struct pithi_gpu_chosen {
    struct pithi_control_state control, before;
    struct pithi_sparse_request request;
    uint64_t sent, overflowed; /* of the last encode */
    uint32_t threshold;        /* the same */
    uint32_t reported, reported_before;
    uint32_t holds; /* the slot's map is that of a set */
};

/* Where what is remembered of slots begins, behind the residuals. */
PITHI_INLINE uint64_t pithi_stream_chosen_at(const struct pithi_device_plan *t) {
    const uint64_t residuals = t->device.feedback ? 2 * sizeof(float) * pithi_stream_copy(t) : 0;
    return (pithi_stream_memory_at(t) + residuals + 255) / 256 * 256;
}
PITHI_INLINE struct pithi_gpu_chosen *pithi_stream_chosen(const struct pithi_device_plan *t,
                                                          void *stream) {
    return (struct pithi_gpu_chosen *)(void *)((uint8_t *)stream + pithi_stream_chosen_at(t));
}

/* Where the maps of the sets that slots hold begin, of whole words each, and their bytes. */
PITHI_INLINE uint64_t pithi_stream_maps_at(const struct pithi_device_plan *t) {
    const uint64_t slots = t->slots * sizeof(struct pithi_gpu_chosen);
    return (pithi_stream_chosen_at(t) + slots + 255) / 256 * 256;
}
PITHI_INLINE uint64_t pithi_stream_maps_bytes(const struct pithi_device_plan *t) {
    return 8 * (t->count / 64 + t->slots);
}

#endif
