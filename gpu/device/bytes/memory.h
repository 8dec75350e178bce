/* memory.h - what kernels of coded codes have besides: registers of a thread, memory of the team,
 * and the workspace of a frame.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_MEMORY_H
#define PITHI_GPU_DEVICE_BYTES_MEMORY_H

#include "bytes/rans.h"
#include "device/call.h"
#include "device/phase.h"

/* A warp has a string. Warps that write need more memory than those that read, so that the others
 * of their team rest. */
enum { PITHI_RANS_READERS = PITHI_TEAM / PITHI_WARP, PITHI_RANS_WRITERS = 4 };
/* Symbols that a warp takes at once, a unit each thread; and how many states one has at most. */
enum { PITHI_RANS_BATCH = PITHI_WARP * PITHI_UNIT, PITHI_RANS_TURNS = 4 };
/* Symbols whose frequencies a thread has. */
enum { PITHI_RANS_OWN = 256 / PITHI_WARP };

struct pithi_rans_thread {
    /* States that take turns: the next one first. */
    uint32_t x[PITHI_RANS_TURNS];
    uint32_t symbol, vote, votes; /* votes: of the warp, bit i that of its thread i */
    uint32_t words;               /* of the string, so far; the same for the warp */
    uint32_t largest, most, sum;
    uint32_t count[PITHI_RANS_OWN], frequency[PITHI_RANS_OWN];
    uint32_t kinds, rest, precision;
    uint64_t total, own; /* total: what is added up over the warp; own: what it was before */
    bool fault;
};

/* A string that a warp reads or writes. */
struct pithi_rans_string {
    uint8_t *codes;       /* packed, `row` codes to a code string, of which the next begins */
    uint64_t row, stride; /* `stride` bytes later */
    uint8_t *coded;       /* the string */
    uint32_t length;      /* of it; writing: what it may have */
    uint32_t n, bits;     /* of codes */
    uint32_t packed;      /* bytes of all code strings */
    uint32_t log2_states, log2_width;
    uint32_t head, words; /* bytes before the words; words that follow */
    bool live, runs;      /* live: there is a string; runs: it has states */
};

/* Slots below `split` of a bucket are of its first symbol, the others of its second. */
struct pithi_rans_writer {
    union {
        uint32_t counts[PITHI_RANS_SLOTS / 2]; /* several of each symbol */
        uint16_t slot[PITHI_RANS_SLOTS];       /* see bytes/rans.h */
    };
    uint16_t frequency[256], start[256];
    union {
        uint32_t bucket[256]; /* split, first symbol, second symbol: a byte each */
        uint32_t reciprocal[256];
    };
    union {
        uint16_t used[256]; /* slots of the first symbol before its bucket */
        uint64_t ring[PITHI_WARP];
    };
};
struct pithi_rans_reader {
    uint32_t bucket[256]; /* as above */
    uint32_t first[256];  /* frequency, then what makes a slot, mod 2^16, its number among those */
    uint32_t second[256]; /* of its symbol */
    uint16_t frequency[256];
    uint64_t ring[PITHI_WARP];
};

struct pithi_rans_shared {
    struct pithi_rans_string string[PITHI_RANS_READERS];
    uint64_t carry[2];       /* of the strips before; the strip that is summed, and the next */
    uint32_t batches, steps; /* the most of a string of the team, and of a batch */
    uint32_t fault, taking;
    union {
        struct pithi_rans_writer writer[PITHI_RANS_WRITERS];
        struct pithi_rans_reader reader[PITHI_RANS_READERS];
    };
};

/* A block in the workspace. length: with the flag PLAIN. Encode, of its string: head: bytes before
 * the words; skipped: words for which there is room before those that there are. */
struct pithi_rans_entry {
    uint64_t at; /* in the payload */
    uint32_t length, head, words, skipped;
};

/* ---- The part of a frame in the workspace ----------------------------------------------------*/

/* What a string may take besides packed codes while it is made: its kind, table and states, 64 at
 * most. */
enum { PITHI_RANS_ROOM = 1024 };
static_assert(4 + PITHI_RANS_TABLE_MOST + 4 * 64 <= PITHI_RANS_ROOM, "heads fit");

PITHI_INLINE uint64_t pithi_coding_pad(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
/* The most bytes of a block at a fixed rate. */
PITHI_INLINE uint64_t pithi_coding_block(const struct pithi_device_plan *t) {
    const uint64_t block = (uint64_t)1 << t->block_log2;
    return pithi_group_block_bytes(&t->device.set, t->most < block ? t->most : block);
}
PITHI_INLINE uint64_t pithi_coding_staged(const struct pithi_device_plan *t) {
    return pithi_coding_pad(t->most_blocks * sizeof(struct pithi_rans_entry));
}
PITHI_INLINE uint64_t pithi_coding_spare(const struct pithi_device_plan *t) {
    const uint64_t tables = t->longest_header + 16 * (t->most_blocks + 2);
    return pithi_coding_staged(t) +
           pithi_coding_pad(tables + t->most_blocks * pithi_coding_block(t));
}
/* From one string that is made to the next. */
PITHI_INLINE uint64_t pithi_coding_room(const struct pithi_device_plan *t) {
    return pithi_coding_pad(pithi_coding_block(t) + PITHI_RANS_ROOM);
}
PITHI_INLINE uint64_t pithi_coding_bytes(const struct pithi_device_plan *t) {
    return pithi_coding_spare(t) + t->most_blocks * pithi_coding_room(t);
}

#endif
