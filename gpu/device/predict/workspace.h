/* workspace.h - the workspace of codecs with a bound, for kernels and who launches them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PREDICT_WORKSPACE_H
#define PITHI_GPU_DEVICE_PREDICT_WORKSPACE_H

#include "device/sparse/state.h"

/* What launches of one call tell each other lies in the workspace: a mark per frame, all 0 before,
 * then a part for each frame. */
struct pithi_gpu_mark {
    uint32_t low, high; /* encode: pithi_mark_of the extremes; 0: there is none */
    int32_t status;     /* of the frame as a whole; then whether a block is worse */
    uint32_t differs, corrupt, unsupported;
    struct pithi_bound bound;
    uint64_t bytes;   /* encode: of the frame */
    uint64_t counted; /* topk: values of all blocks */
    int32_t held;     /* topk: whether the slot holds the set that the frame has values of */
};
enum { PITHI_MARK_BYTES = 256 };
/* A block in the part of a frame. plain: the high bit of length. */
struct pithi_gpu_entry {
    uint64_t at;             /* in the payload */
    uint32_t length, misses; /* topk: elements of the set in place of misses */
    /* embed: rows; `order` is then the bytes of a centre. topk: where the block's elements stand in
     * the frame's list; `method` and `order` are then the form of the set and its low bits. */
    uint32_t distinct;
    uint8_t method, order, table[4], unused[6];
};

/* The part of a frame: entries, bits of exact values, codes (4 bytes an element, in the order of
 * tiles; a last short row is whole); embed: as many codes again, and what is known of rows
 * (rows.h). */
PITHI_INLINE uint64_t pithi_workspace_pad(uint64_t bytes) {
    return (bytes + PITHI_MARK_BYTES - 1) / PITHI_MARK_BYTES * PITHI_MARK_BYTES;
}
PITHI_INLINE uint64_t pithi_workspace_misses(const struct pithi_device_plan *t) {
    return pithi_workspace_pad(t->most_blocks * sizeof(struct pithi_gpu_entry));
}
PITHI_INLINE uint64_t pithi_workspace_codes(const struct pithi_device_plan *t) {
    return pithi_workspace_misses(t) + pithi_workspace_pad(t->most / 8 + t->most_blocks);
}
PITHI_INLINE uint64_t pithi_workspace_spare(const struct pithi_device_plan *t) {
    return pithi_workspace_codes(t) + pithi_workspace_pad(4 * (t->most + t->device.row));
}
PITHI_INLINE uint64_t pithi_workspace_numbers(const struct pithi_device_plan *t) {
    return pithi_workspace_spare(t) + pithi_workspace_pad(4 * (t->most + t->device.row));
}
PITHI_INLINE uint64_t pithi_workspace_rows(const struct pithi_device_plan *t) {
    return t->most / t->device.row + (t->most % t->device.row != 0);
}
/* The part of a frame of topk: entries, what is found of the values as a whole, ties of every run
 * of tiles, elements of all sets. */
PITHI_INLINE uint64_t pithi_workspace_search(const struct pithi_device_plan *t) {
    return pithi_workspace_misses(t);
}
PITHI_INLINE uint64_t pithi_workspace_ties(const struct pithi_device_plan *t) {
    return pithi_workspace_search(t) + pithi_workspace_pad(sizeof(struct pithi_gpu_search));
}
PITHI_INLINE uint64_t pithi_workspace_list(const struct pithi_device_plan *t) {
    return pithi_workspace_ties(t) + pithi_workspace_pad(4 * (t->most / PITHI_TILE + 1));
}
/* Of an element of every set that the largest slot may hold. */
PITHI_INLINE uint64_t pithi_workspace_whole(const struct pithi_device_plan *t) {
    return pithi_workspace_pad(4 * t->most);
}
/* Of a map of the largest slot. */
PITHI_INLINE uint64_t pithi_workspace_map(const struct pithi_device_plan *t) {
    return pithi_workspace_pad(t->most / 8 + 8);
}
PITHI_INLINE uint64_t pithi_workspace_bytes(const struct pithi_device_plan *t) {
    if (t->device.kind == PITHI_DEVICE_sets)
        return pithi_workspace_list(t) + pithi_workspace_pad(4 * t->most_chosen);
    if (t->device.kind != PITHI_DEVICE_rows) return pithi_workspace_spare(t);
    return pithi_workspace_numbers(t) + pithi_workspace_pad(16 * pithi_workspace_rows(t));
}

#endif
