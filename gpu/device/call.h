/* call.h - what a kernel is given: plan, stream and items as they lie on the device; what those of
 * one family are given besides is in its own call.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_CALL_H
#define PITHI_GPU_DEVICE_CALL_H

#include <assert.h>

#include "common/dtype.h"
#include "device/bytes/call.h"
#include "device/kv/call.h"
#include "device/predict/call.h"
#include "device/sparse/call.h"
#include "device_plan.h"

/* Elements: what one thread codes at a time (8 codes of b bits are b bytes, and one draw of random
 * bits serves 8), how many such units it holds, and what a team holds of them. */
enum { PITHI_UNIT = 8, PITHI_UNITS = 2, PITHI_ROW = 256 * PITHI_UNIT };
enum { PITHI_TILE = PITHI_UNITS * PITHI_ROW };
/* The most groups in a tile. */
enum { PITHI_TILE_GROUPS = PITHI_TILE / 16 };
/* Threads of a group that is looked at as a whole, and what one of them tries at a time. */
enum { PITHI_LANES = 16, PITHI_TRIES = 8 };
/* The longest header that every team of a launch checks by itself. */
enum { PITHI_SHORT_HEADER = 192 };

/* What a stream keeps of a slot. side: the copy of the residual that counts; undone: the other copy
 * is not the residual before the last encode, or there was none. */
struct pithi_gpu_slot_state {
    uint64_t step, base_hash;
    uint32_t invalid, side, undone;
    /* What teams of the launch under way have handed over; 0 between launches. The last team to
     * arrive closes the slot. */
    uint32_t arrived;
    uint64_t hash, saturated, poisoned;
};

/* What random bits depend on besides step and element. shift: rank * 65536 / ranks (antithetic). */
struct pithi_gpu_random {
    uint64_t seed;
    uint32_t rng_stream, shift;
};

/* Followed by the slots, then, at `memory`, the base or two copies of the residual. */
struct pithi_gpu_stream {
    uint64_t stream_fingerprint;
    struct pithi_gpu_random random;
    uint64_t frames, key_frames, saturated, poisoned;
    uint64_t slots, memory; /* offsets */
    void *external;
};
/* Where the base or the residual begins. */
PITHI_INLINE uint64_t pithi_stream_memory_at(const struct pithi_device_plan *t) {
    const uint64_t slots = t->slots * sizeof(struct pithi_gpu_slot_state);
    return (sizeof(struct pithi_gpu_stream) + slots + 255) / 256 * 256;
}

/* Elements of a copy of the residual, and of the momentum behind it. */
PITHI_INLINE uint64_t pithi_stream_copy(const struct pithi_device_plan *t) {
    const bool momentum = t->device.kind == PITHI_KIND_SETS && t->device.sets.momentum != 0;
    return momentum ? 2 * t->count : t->count;
}

/* Whether what an encode makes depends on the slot's place in its stream. Teams of an item then
 * hand over what they have, the last of them closes the slot, and the slot comes once in a call.
 * Else teams count straight into the stream, and a slot may come any number of times. Decodes
 * depend on the slot where there is a base. */
PITHI_INLINE bool pithi_encode_depends(const struct pithi_device_plan *p) {
    return p->base_dtype != PITH_NONE || p->device.feedback || p->device.groups.set.stochastic ||
           p->device.kind == PITHI_KIND_SETS;
}

/* What a call about a stream sets. */
enum pithi_gpu_setting { PITHI_SET_RANDOM, PITHI_SET_STEP, PITHI_SET_BASE };

/* pith_cuda_items as kernels see it. */
struct pithi_gpu_items {
    uint64_t count, first_slot, frame_stride, capacity;
    const uint64_t *slots;
    uint64_t *lengths;
    uint64_t tensor_stride; /* not 0: item i's piece is at tensor + i * tensor_stride */
    uint8_t *tensor, *frame;
    uint8_t *const *tensors;
    uint8_t *const *frames;
    int32_t *status;
    uint32_t same_slot, dtype;
};

/* Frames and what goes with them: those that are read, or those that are made. */
struct pithi_gpu_side {
    struct pithi_device_plan plan;
    const uint8_t *plan_memory; /* the whole plan on the device: slots, ranges and headers follow */
    struct pithi_gpu_items items;
    struct pithi_gpu_stream *stream; /* NULL: pages without frames */
};

/* What a call about a stream sets it to. */
struct pithi_gpu_change {
    uint32_t what; /* enum pithi_gpu_setting */
    struct pithi_gpu_random random;
    uint64_t slot, step;
    void *base;
};

/* Which part of the team's memory kernels of a launch use, of the union that stands last in it
 * (device/team.h): launches are given no more than it has. */
enum pithi_gpu_memory {
    PITHI_MEMORY_GROUPS, /* or trellises, by the plan */
    PITHI_MEMORY_PAGES,
    PITHI_MEMORY_BLOCKS, /* in a workspace */
    PITHI_MEMORY_STRINGS /* entropy-coded ones, read or written */
};

/* What every kernel sees, then the parts of families. The first two are there beside each other and
 * beside one of the union: sets are found in blocks, and blocks, pages or values are entropy-coded.
 * sparse is the longest of the union, so that initializers clear all of them. */
struct pithi_gpu_call {
    struct pithi_gpu_side from, to;    /* encode has only `to`, decode and reduce only `from` */
    struct pithi_gpu_checked *checked; /* one per frame, of an earlier launch's checks; or NULL */
    uint64_t first, count;             /* the elements of every slot that are wanted */
    uint64_t span, chunks;             /* elements per team; teams per item */
    uint32_t per_item;                 /* frames that are summed */
    uint32_t memory;                   /* enum pithi_gpu_memory */
    float scale;
    bool key;       /* make key frames */
    bool add;       /* to what the tensor holds */
    bool update;    /* of the base */
    bool hash_base; /* checks hash what the frame has a hash of: the tensor, or a key frame */
    struct pithi_gpu_predict_call predict;
    struct pithi_gpu_coding coding;
    union {
        struct pithi_gpu_sparse_call sparse;
        struct pithi_gpu_kv_call kv;
        struct pithi_gpu_change change; /* calls about a stream */
    };
};
static_assert(sizeof(struct pithi_gpu_call) <= 4096, "what a kernel may be given");
static_assert(sizeof(struct pithi_gpu_sparse_call) >= sizeof(struct pithi_gpu_kv_call) &&
                  sizeof(struct pithi_gpu_sparse_call) >= sizeof(struct pithi_gpu_change),
              "sparse is the longest");

/* Whether the stream counts what is read, and moves on where there is a base. */
PITHI_INLINE bool pithi_decode_counts(const struct pithi_gpu_call *a) {
    return a->update && !a->add;
}

/* What a check leaves of a frame for the launch after it. Zero before. */
struct pithi_gpu_checked {
    uint64_t hash;   /* of what `hash_base` means */
    int32_t status;  /* of the header */
    uint32_t failed; /* what is worst of its blocks */
};
enum { PITHI_FAILED_UNSUPPORTED = 1, PITHI_FAILED_CORRUPT = 2, PITHI_FAILED_CHECKSUM = 3 };

#endif
