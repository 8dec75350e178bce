/* call.h - what a kernel is given: plan, table, state and items as they lie on the device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_CALL_H
#define PITHI_GPU_DEVICE_CALL_H

#include "device_plan.h"

/* Elements: what one thread codes at a time (8 codes of b bits are b bytes, and one draw of random
 * bits serves 8), how many such units it holds, and what a team holds of them. */
enum { PITHI_UNIT = 8, PITHI_UNITS = 2, PITHI_ROW = 256 * PITHI_UNIT };
enum { PITHI_TILE = PITHI_UNITS * PITHI_ROW };
/* The most groups in a tile. */
enum { PITHI_TILE_GROUPS = PITHI_TILE / 16 };
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

struct pithi_gpu_slot_state {
    uint64_t step, base_hash;
    uint32_t invalid, side, undone;
    /* Of the launch under way; 0 in between. The last team to arrive settles them. */
    uint32_t arrived;
    uint64_t hash, saturated, poisoned;
};

/* Followed by the slots, then, at `memory`, the base or two copies of the residual. */
struct pithi_gpu_state {
    uint64_t fingerprint;
    uint64_t seed, step;
    uint32_t stream, shift; /* shift: of antithetic rounding */
    uint64_t frames, key_frames, saturated, poisoned;
    uint64_t slots, memory; /* offsets */
    void *external;
};
/* Where the base or the residual begins. */
PITHI_INLINE uint64_t pithi_state_memory_at(const struct pithi_device_plan *t) {
    const uint64_t slots = t->slots * sizeof(struct pithi_gpu_slot_state);
    return (sizeof(struct pithi_gpu_state) + slots + 255) / 256 * 256;
}

/* Whether an encode in pages searches for scales; whether it looks at groups as a whole. */
PITHI_INLINE bool pithi_pages_search(const struct pithi_device_plan *p) {
    return p->device.set.shrink || p->device.set.codebook == PITHI_CODEBOOK_LLOYD;
}
PITHI_INLINE bool pithi_pages_keep(const struct pithi_device_plan *p) {
    return pithi_pages_search(p) || p->device.pages.outliers;
}

/* The most threads that share a page's columns, or a group: those whose tile the team's memory has
 * room for, where groups are searched, but whole heads where they are rotated. */
PITHI_INLINE uint32_t pithi_pages_lanes(const struct pithi_device_plan *p) {
    const uint32_t lanes = PITHI_TILE / PITHI_UNIT / p->device.set.group;
    const bool all = !pithi_pages_keep(p) || !p->device.pages.channel || p->device.pages.rotated;
    return all || lanes > 32 ? 32 : lanes;
}

/* What a call about the state sets. */
enum pithi_gpu_setting { PITHI_SET_RANDOM, PITHI_SET_RANKS, PITHI_SET_NEXT, PITHI_SET_BASE };

/* pith_cuda_items as kernels see it. */
struct pithi_gpu_items {
    uint64_t count, first_slot, frame_stride, capacity;
    const uint64_t *slots;
    uint64_t *lengths;
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
    struct pithi_gpu_state *state; /* or NULL */
};

/* Codecs with a bound keep what launches of one call tell each other in the workspace: a mark per
 * frame, all 0 before, then a room per frame. */
struct pithi_gpu_mark {
    uint32_t low, high; /* encode: pithi_mark_of the extremes; 0: there is none */
    int32_t status;     /* of the frame as a whole; then whether a block is worse */
    uint32_t differs, corrupt, unsupported;
    struct pithi_bound bound;
    uint64_t bytes; /* encode: of the frame */
};
enum { PITHI_MARK_BYTES = 256 };
/* A block in a room. plain: the high bit of length. */
struct pithi_gpu_entry {
    uint64_t at; /* in the payload */
    uint32_t length, misses;
    uint32_t distinct; /* embed: rows; `order` is then the bytes of a centre */
    uint8_t method, order, table[4], unused[6];
};

/* A room: entries, bits of exact values, codes (4 bytes an element, in the order of tiles; a last
 * short row is whole); embed: as many codes again, and what is known of rows (rows.h). */
PITHI_INLINE uint64_t pithi_room_pad(uint64_t bytes) {
    return (bytes + PITHI_MARK_BYTES - 1) / PITHI_MARK_BYTES * PITHI_MARK_BYTES;
}
PITHI_INLINE uint64_t pithi_room_misses(const struct pithi_device_plan *t) {
    return pithi_room_pad(t->most_blocks * sizeof(struct pithi_gpu_entry));
}
PITHI_INLINE uint64_t pithi_room_codes(const struct pithi_device_plan *t) {
    return pithi_room_misses(t) + pithi_room_pad(t->most / 8 + t->most_blocks);
}
PITHI_INLINE uint64_t pithi_room_spare(const struct pithi_device_plan *t) {
    return pithi_room_codes(t) + pithi_room_pad(4 * (t->most + t->device.row));
}
PITHI_INLINE uint64_t pithi_room_numbers(const struct pithi_device_plan *t) {
    return pithi_room_spare(t) + pithi_room_pad(4 * (t->most + t->device.row));
}
PITHI_INLINE uint64_t pithi_room_rows(const struct pithi_device_plan *t) {
    return t->most / t->device.row + (t->most % t->device.row != 0);
}
PITHI_INLINE uint64_t pithi_room_bytes(const struct pithi_device_plan *t) {
    if (t->device.kind != PITHI_DEVICE_rows) return pithi_room_spare(t);
    return pithi_room_numbers(t) + pithi_room_pad(16 * pithi_room_rows(t));
}

struct pithi_gpu_call {
    struct pithi_gpu_side from, to;   /* encode has only `to`, decode and reduce only `from` */
    struct pithi_gpu_work *work;      /* one per frame, of an earlier launch's checks; or NULL */
    uint8_t *rooms;                   /* of codecs with a bound: marks and rooms */
    const struct pith_kv_pair *pairs; /* pages without frames; where rows and heads of each lie */
    int64_t token_stride, head_stride;
    struct pithi_random random; /* of calls about the state */
    uint64_t first, count;      /* the elements of every slot that are wanted */
    uint64_t span, chunks;      /* elements per team; teams per item */
    uint64_t step;              /* of calls about the state, as are: */
    void *base;
    uint32_t parts;    /* codecs in pages: teams per page */
    uint32_t what;     /* enum pithi_gpu_setting */
    uint32_t per_item; /* frames that are summed */
    float scale;
    bool key;      /* make key frames */
    bool add;      /* to what the tensor holds */
    bool update;   /* of the base */
    bool identify; /* checks hash what a frame's identity is of: the tensor, or a key frame */
};

/* What a check leaves of a frame for the launch after it. Zero before. */
struct pithi_gpu_work {
    uint64_t hash;   /* of what `identify` means */
    int32_t status;  /* of the header */
    uint32_t failed; /* whether a block's checksum differs */
};

#endif
