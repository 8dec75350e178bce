/* call.h - what a kernel is given: plan, table, stream and items as they lie on the device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_CALL_H
#define PITHI_GPU_DEVICE_CALL_H

#include "device_plan.h"
#include "sparse/control.h"
#include "sparse/selection.h"

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

PITHI_INLINE uint32_t pithi_width(uint32_t dtype) {
    switch (dtype) {
    case PITH_NONE: return 0;
    case PITH_F32:
    case PITH_U32:
    case PITH_I32: return 4;
    case PITH_F64:
    case PITH_U64:
    case PITH_I64: return 8;
    case PITH_BF16:
    case PITH_F16:
    case PITH_U16:
    case PITH_I16: return 2;
    default: return 1;
    }
}

/* What a stream keeps of a slot. side: the copy of the residual that counts; undone: the other copy
 * is not the residual before the last encode, or there was none. */
struct pithi_gpu_slot_state {
    uint64_t step, base_hash;
    uint32_t invalid, side, undone;
    /* Of the launch under way; 0 in between. The last team to arrive closes the slot. */
    uint32_t arrived;
    uint64_t hash, saturated, poisoned;
};

/* What a stream of a codec that sends sets keeps of a slot besides, as struct pithi_slot_sparse of
 * the CPU. before: until the last encode. */
struct pithi_gpu_chosen {
    struct pithi_control_state control, before;
    struct pithi_sparse_request request;
    uint64_t sent, overflowed; /* of the last encode */
    uint32_t threshold;        /* the same */
    uint32_t reported, reported_before;
    uint32_t holds; /* the slot's map is that of a set */
};

/* What random bits depend on besides step and element. shift: rank * 65536 / ranks (antithetic). */
struct pithi_gpu_random {
    uint64_t seed;
    uint32_t rng_stream, shift;
};

/* Followed by the slots, then, at `memory`, the base or two copies of the residual. */
struct pithi_gpu_stream {
    uint64_t fingerprint;
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
    const bool momentum = t->device.kind == PITHI_DEVICE_sets && t->device.sets.momentum != 0;
    return momentum ? 2 * t->count : t->count;
}

/* Codecs that send sets: where what is remembered of slots begins, behind the residuals, and where
 * the maps of the sets that slots hold, of whole words each. */
PITHI_INLINE uint64_t pithi_stream_chosen_at(const struct pithi_device_plan *t) {
    const uint64_t residuals = t->device.decay ? 2 * sizeof(float) * pithi_stream_copy(t) : 0;
    return (pithi_stream_memory_at(t) + residuals + 255) / 256 * 256;
}
PITHI_INLINE struct pithi_gpu_chosen *pithi_stream_chosen(const struct pithi_device_plan *t,
                                                          void *stream) {
    return (struct pithi_gpu_chosen *)(void *)((uint8_t *)stream + pithi_stream_chosen_at(t));
}
PITHI_INLINE uint64_t pithi_stream_maps_at(const struct pithi_device_plan *t) {
    const uint64_t slots = t->slots * sizeof(struct pithi_gpu_chosen);
    return (pithi_stream_chosen_at(t) + slots + 255) / 256 * 256;
}
PITHI_INLINE uint64_t pithi_stream_maps_bytes(const struct pithi_device_plan *t) {
    return 8 * (t->count / 64 + t->slots);
}

/* Whether what an encode makes depends on the slot's place in its stream. Teams of an item then
 * hand over what they have, the last of them closes the slot, and the slot comes once in a call.
 * Else teams count straight into the stream, and a slot may come any number of times. Decodes
 * depend on the slot where there is a base. */
PITHI_INLINE bool pithi_encode_depends(const struct pithi_device_plan *p) {
    return p->base_dtype != PITH_NONE || p->device.decay || p->device.groups.set.stochastic ||
           p->device.kind == PITHI_DEVICE_sets;
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
    struct pithi_device_plan plan; /* the beginning of the table */
    const uint8_t *table;
    struct pithi_gpu_items items;
    struct pithi_gpu_stream *stream; /* NULL: pages without frames */
};

/* Of calls on codecs in pages. pairs: pages without frames; where rows and heads of each lie. */
struct pithi_gpu_paging {
    const struct pith_kv_pair *pairs;
    int64_t token_stride, head_stride;
    uint32_t parts; /* teams per page; 0: the codec has none */
};

/* Of launches that look for a threshold. round: 0 for the step's own, 1 for that of the hard limit;
 * level: of PITHI_SELECT_LEVELS. Where what is chosen from are sums that launches before have made:
 * of so many frames of `from` each, and the marks of these. */
struct pithi_gpu_sieve {
    uint32_t round, level;
    uint32_t summands; /* else 0 */
    const uint8_t *marks;
};

/* Of calls on sets that slots hold. dtype: of values side by side, which stand in place of frames;
 * names: frames are read for their sets, which those with values of a held set do not name; sends:
 * encodes do not choose, but send the set that the slot holds; bare: without indices; run: elements
 * that are listed as one; spare: room for each item, of an intersection for the map of a frame, of
 * an encode for the list of a set. */
struct pithi_gpu_holding {
    uint32_t dtype;
    bool names, sends, bare;
    uint64_t run;
    uint8_t *spare;
};

/* Of calls on what slots remember of their choice; a word or a struct for each item. */
struct pithi_gpu_asking {
    const pith_sparse_request *requests;
    const uint64_t *chosen;
    pith_sparse_state *states;
};

/* Of calls on frames of coded codes. Groups, pages and exact values are coded in frames of fixed
 * rate, as if all blocks were plain. These lie in the workspace, `staged` behind the beginning of
 * each frame's part, of which the first begins at `memory` and the next `each` bytes after it;
 * `spare` is where an encode puts strings before their places are known. frames: for each frame,
 * which one kernels of groups take. live: the launch is one of those that translate between the
 * two. */
struct pithi_gpu_coding {
    uint8_t *memory;
    uint8_t **frames;
    uint64_t each, staged, spare;
    /* Of codecs whose blocks have several strings: how many, where what is known of them lies,
     * their symbols, and the bytes of these and of the room for strings that a block has. Of exact
     * values: strings of a part of a block; where what is known of blocks lies, and the values that
     * the base had before; how many forms of a block are tried, and of these, how many by the
     * launch, from which on. */
    uint64_t strings, pieces, symbols, symbols_each, spare_each;
    uint64_t levels, blocks, before;
    uint32_t forms, tried, form;
    bool live;
};

/* What a call about a stream sets it to. */
struct pithi_gpu_change {
    uint32_t what; /* enum pithi_gpu_setting */
    struct pithi_gpu_random random;
    uint64_t slot, step;
    void *base;
};

struct pithi_gpu_call {
    struct pithi_gpu_side from, to; /* encode has only `to`, decode and reduce only `from` */
    struct pithi_gpu_work *work;    /* one per frame, of an earlier launch's checks; or NULL */
    uint64_t first, count;          /* the elements of every slot that are wanted */
    uint64_t span, chunks;          /* elements per team; teams per item */
    uint32_t per_item;              /* frames that are summed */
    float scale;
    bool key;       /* make key frames */
    bool add;       /* to what the tensor holds */
    bool update;    /* of the base */
    bool hash_base; /* checks hash what the frame has a hash of: the tensor, or a key frame */
    /* of codecs with a bound: marks, then a part for each frame; see predict/workspace.h */
    uint8_t *workspace;
    uint32_t parts; /* of the same: teams that share a block; 0 is 1 */
    struct pithi_gpu_paging paging;
    struct pithi_gpu_sieve sieve;
    struct pithi_gpu_holding holding;
    struct pithi_gpu_asking asking;
    uint8_t *sums; /* topk: f32 that a sum of frames is formed in; NULL: in the tensor */
    struct pithi_gpu_coding coding;
    struct pithi_gpu_change change;
};

/* Whether the stream counts what is read, and moves on where there is a base. */
PITHI_INLINE bool pithi_decode_counts(const struct pithi_gpu_call *a) {
    return a->update && !a->add;
}

/* What a check leaves of a frame for the launch after it. Zero before. */
struct pithi_gpu_work {
    uint64_t hash;   /* of what `hash_base` means */
    int32_t status;  /* of the header */
    uint32_t failed; /* what is worst of its blocks */
};
enum { PITHI_FAILED_UNSUPPORTED = 1, PITHI_FAILED_CORRUPT = 2, PITHI_FAILED_CHECKSUM = 3 };

#endif
