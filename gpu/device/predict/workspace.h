/* workspace.h - the workspace of codecs with a bound, for kernels and who launches them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PREDICT_WORKSPACE_H
#define PITHI_GPU_DEVICE_PREDICT_WORKSPACE_H

#include "device/sparse/state.h"
#include "predict/interp_value.h"

/* What launches of one call tell each other lies in the workspace: a mark per frame, all 0 before,
 * then a part for each frame. */

/* A frame of a codec with a bound. low, high: encode: pithi_mark_of the extremes; 0: there is
 * none. */
struct pithi_bounded_mark {
    uint32_t low, high;
    struct pithi_bound bound;
};
struct pithi_gpu_mark {
    int32_t status; /* of the frame as a whole; then whether a block is worse */
    int32_t stream; /* decode: whether the slot's stream goes on with the frame */
    uint32_t differs, corrupt, unsupported;
    uint64_t bytes; /* encode: of the frame */
    union {
        struct pithi_bounded_mark bounded;
        struct pithi_set_mark set;
    };
};
enum { PITHI_MARK_BYTES = 256 };

/* A block of a codec with a bound. */
struct pithi_bounded_entry {
    uint32_t misses;
    /* embed: rows; `order` is then the bytes of a centre. act: ones of the map; `order` is then the
     * form of numbers, and `map` has the bytes of the map. */
    uint32_t distinct;
    uint8_t method, order, table[4];
    /* embed, coded: the kind of the map, and its bytes where it is coded; encode: bytes of packed
     * words. act and eb, decode: `kind` is whether the map, or coded words, are known. eb, encode:
     * `packed` is what differences are said to take, in 1/256 bit a word. */
    uint8_t kind, unused;
    uint32_t map, packed;
};
/* A block in the part of a frame. plain: the high bit of length. */
struct pithi_gpu_entry {
    uint64_t at; /* in the payload */
    uint32_t length;
    union {
        struct pithi_bounded_entry bounded;
        struct pithi_set_entry set;
    };
};

/* Teams share a block: each has a part of it, of some 16384 elements while there are no more parts
 * than a team has threads. What launches tell each other of a part. */
enum { PITHI_PART = 4 * PITHI_TEAM * PITHI_BITPLANE_GROUP };
struct pithi_gpu_part {
    uint32_t low, high;     /* encode: ~ of the least code, the largest code; 0 without codes */
    uint32_t misses, fresh; /* exact values; embed: rows that are the first of their equals */
    uint32_t bits[PITHI_TILE_NDIM + 1];    /* of samples, by the order of differences */
    uint32_t counts[PITHI_PACK_MOST];      /* groups of each width */
    uint32_t misses_before, widths_before; /* in the parts before; widths of all groups, added up */
    uint64_t run; /* decode: sums of differences along rows, see PITHI_WARP_RUNS */
};
/* Parts of every block. */
PITHI_INLINE uint32_t pithi_workspace_parts(const struct pithi_device_plan *t) {
    const uint64_t block = (uint64_t)1 << t->block_log2, most = t->most < block ? t->most : block;
    const uint64_t parts = most / PITHI_PART + (most % PITHI_PART != 0);
    return parts < 1 ? 1 : parts < PITHI_TEAM ? (uint32_t)parts : (uint32_t)PITHI_TEAM;
}

/* The part of a frame: entries, parts of blocks, bits of exact values, codes (4 bytes an element,
 * in the order of tiles; a last short row is whole); embed, and coded words of eb: as many codes
 * again; embed: what is known of rows (rows.h). */
PITHI_INLINE uint64_t pithi_workspace_pad(uint64_t bytes) {
    return (bytes + PITHI_MARK_BYTES - 1) / PITHI_MARK_BYTES * PITHI_MARK_BYTES;
}
PITHI_INLINE uint64_t pithi_workspace_records(const struct pithi_device_plan *t) {
    return pithi_workspace_pad(t->most_blocks * sizeof(struct pithi_gpu_entry));
}
PITHI_INLINE uint64_t pithi_workspace_misses(const struct pithi_device_plan *t) {
    return pithi_workspace_records(t) +
           pithi_workspace_pad(t->most_blocks * pithi_workspace_parts(t) *
                               sizeof(struct pithi_gpu_part));
}
PITHI_INLINE uint64_t pithi_workspace_codes(const struct pithi_device_plan *t) {
    return pithi_workspace_misses(t) + pithi_workspace_pad(t->most / 8 + t->most_blocks);
}
PITHI_INLINE uint64_t pithi_workspace_scratch(const struct pithi_device_plan *t) {
    return pithi_workspace_codes(t) + pithi_workspace_pad(4 * (t->most + t->device.row));
}
PITHI_INLINE uint64_t pithi_workspace_numbers(const struct pithi_device_plan *t) {
    return pithi_workspace_scratch(t) + pithi_workspace_pad(4 * (t->most + t->device.row));
}
/* Blocks that may be interpolated: reconstructions of every element, bits of those that no
 * interpolation keeps, 4 bytes at a time, weights of every block. */
PITHI_INLINE uint64_t pithi_workspace_rebuilt(const struct pithi_device_plan *t) {
    return pithi_workspace_numbers(t);
}
PITHI_INLINE uint64_t pithi_workspace_missed(const struct pithi_device_plan *t) {
    return pithi_workspace_rebuilt(t) + pithi_workspace_pad(4 * t->most);
}
PITHI_INLINE uint64_t pithi_workspace_weights(const struct pithi_device_plan *t) {
    return pithi_workspace_missed(t) + pithi_workspace_pad(t->most / 8 + 4 * t->most_blocks);
}
/* act: bitmaps of every block, and the bytes of its map; less than two bits an element each. */
enum { PITHI_ZEROS_SLACK = 64 };
PITHI_INLINE uint64_t pithi_workspace_maps(const struct pithi_device_plan *t) {
    return pithi_workspace_numbers(t);
}
PITHI_INLINE uint64_t pithi_workspace_pieces(const struct pithi_device_plan *t) {
    return pithi_workspace_maps(t) +
           pithi_workspace_pad(t->most / 4 + PITHI_ZEROS_SLACK * t->most_blocks);
}
PITHI_INLINE uint64_t pithi_workspace_rows(const struct pithi_device_plan *t) {
    return t->most / t->device.row + (t->most % t->device.row != 0);
}
/* The part of a frame of topk: entries, what is found of the values as a whole, ties of every run
 * of tiles, moments of the chunks of all blocks, elements of all sets, coefficients. */
PITHI_INLINE uint64_t pithi_workspace_search(const struct pithi_device_plan *t) {
    return pithi_workspace_records(t);
}
PITHI_INLINE uint64_t pithi_workspace_ties(const struct pithi_device_plan *t) {
    return pithi_workspace_search(t) + pithi_workspace_pad(sizeof(struct pithi_gpu_search));
}
PITHI_INLINE uint64_t pithi_workspace_moments(const struct pithi_device_plan *t) {
    return pithi_workspace_ties(t) + pithi_workspace_pad(4 * (t->most / PITHI_TILE + 1));
}
/* A chunk has so many threads, each of which adds up a lane of pithi_moments_c; a team, so many
 * chunks. */
enum { PITHI_MOMENT_LANES = 16, PITHI_MOMENT_CHUNKS = PITHI_TEAM / PITHI_MOMENT_LANES };
/* Chunks of every block, of PITHI_MOMENTS_CHUNK elements, that have moments; 0: nobody asks. */
PITHI_INLINE uint64_t pithi_workspace_chunks(const struct pithi_device_plan *t) {
    const uint64_t block = (uint64_t)1 << t->block_log2, most = t->most < block ? t->most : block;
    const uint32_t kind = t->device.sets.control;
    if (kind != PITHI_CONTROL_GAUSS && kind != PITHI_CONTROL_REDSYNC) return 0;
    return (most + PITHI_MOMENTS_CHUNK - 1) / PITHI_MOMENTS_CHUNK;
}
PITHI_INLINE uint64_t pithi_workspace_list(const struct pithi_device_plan *t) {
    const uint64_t chunks = t->most_blocks * pithi_workspace_chunks(t);
    return pithi_workspace_moments(t) + pithi_workspace_pad(chunks * sizeof(struct pithi_moments));
}
/* Returns the bytes of a word for each element of the largest slot. */
PITHI_INLINE uint64_t pithi_workspace_whole(const struct pithi_device_plan *t) {
    return pithi_workspace_pad(4 * t->most);
}
/* Returns where the coefficients of a slot begin, where these are chosen from. */
PITHI_INLINE uint64_t pithi_workspace_coefficients(const struct pithi_device_plan *t) {
    return pithi_workspace_list(t) + pithi_workspace_pad(4 * t->device.sets.most_chosen);
}
/* Returns the bytes of a map of the largest slot. */
PITHI_INLINE uint64_t pithi_workspace_map(const struct pithi_device_plan *t) {
    return pithi_workspace_pad(t->most / 8 + 8);
}
PITHI_INLINE uint64_t pithi_workspace_bytes(const struct pithi_device_plan *t) {
    if (t->device.kind == PITHI_KIND_SETS)
        return pithi_workspace_coefficients(t) +
               (t->device.sets.run > 1 ? pithi_workspace_whole(t) : 0);
    if (t->device.kind == PITHI_KIND_ZEROS)
        return 2 * pithi_workspace_pieces(t) - pithi_workspace_maps(t);
    if (pithi_interpolates(t))
        return pithi_workspace_weights(t) +
               pithi_workspace_pad(t->most_blocks * sizeof(struct pithi_weights));
    if (t->device.kind == PITHI_KIND_BOUNDED)
        return t->device.coded ? pithi_workspace_numbers(t) : pithi_workspace_scratch(t);
    return pithi_workspace_numbers(t) + pithi_workspace_pad(16 * pithi_workspace_rows(t));
}

#endif
