/* stream_format.h - where the fields of a saved stream lie (doc/FORMAT.md, saved streams), which
 * stream_save.c writes and reads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STREAM_FORMAT_H
#define PITHI_STREAM_FORMAT_H

#include <string.h>

#include "common/endian.h"

/* Offsets and sizes. The slots, the base or residual, and an XXH64 follow the head. A slot has its
 * step, and a word: the hash of its base, or what its codec remembers. */
enum {
    PITHI_STREAM_FORMAT_FINGERPRINT = 8,
    PITHI_STREAM_FORMAT_SLOTS = 16,
    PITHI_STREAM_FORMAT_SEED = 24,
    PITHI_STREAM_FORMAT_STREAM = 32, /* id of the random bits (rng_stream) */
    PITHI_STREAM_FORMAT_SHIFT = 36,  /* rank * 65536 / ranks */
    PITHI_STREAM_FORMAT_STATS = 40,
    PITHI_STREAM_FORMAT_HEAD = 72,
    PITHI_STREAM_FORMAT_SLOT = 16, /* and frame_hooks.saved_bytes of each slot behind all slots */
    PITHI_STREAM_FORMAT_WORD = 8,  /* in a slot */
    PITHI_STREAM_FORMAT_TAIL = 8
};

/* The first eight bytes. */
static const uint8_t pithi_stream_magic[8] = {0xF1, 'P', 'T', 'H', 's', 't', 'a', 1};
/* What follows them. */
struct pithi_stream_head {
    uint64_t fingerprint, slots, seed;
    uint32_t rng_stream, shift;
    uint64_t frames, key_frames, saturated, poisoned;
};
static inline void pithi_stream_head_put(uint8_t *to, const struct pithi_stream_head *head) {
    uint8_t *const stats = to + PITHI_STREAM_FORMAT_STATS;
    memcpy(to, pithi_stream_magic, sizeof pithi_stream_magic);
    pithi_put64(to + PITHI_STREAM_FORMAT_FINGERPRINT, head->fingerprint);
    pithi_put64(to + PITHI_STREAM_FORMAT_SLOTS, head->slots);
    pithi_put64(to + PITHI_STREAM_FORMAT_SEED, head->seed);
    pithi_put32(to + PITHI_STREAM_FORMAT_STREAM, head->rng_stream);
    pithi_put32(to + PITHI_STREAM_FORMAT_SHIFT, head->shift);
    pithi_put64(stats, head->frames);
    pithi_put64(stats + 8, head->key_frames);
    pithi_put64(stats + 16, head->saturated);
    pithi_put64(stats + 24, head->poisoned);
}
static inline struct pithi_stream_head pithi_stream_head_get(const uint8_t *from) {
    const uint8_t *const stats = from + PITHI_STREAM_FORMAT_STATS;
    return (struct pithi_stream_head){
        .fingerprint = pithi_get64(from + PITHI_STREAM_FORMAT_FINGERPRINT),
        .slots = pithi_get64(from + PITHI_STREAM_FORMAT_SLOTS),
        .seed = pithi_get64(from + PITHI_STREAM_FORMAT_SEED),
        .rng_stream = pithi_get32(from + PITHI_STREAM_FORMAT_STREAM),
        .shift = pithi_get32(from + PITHI_STREAM_FORMAT_SHIFT),
        .frames = pithi_get64(stats),
        .key_frames = pithi_get64(stats + 8),
        .saturated = pithi_get64(stats + 16),
        .poisoned = pithi_get64(stats + 24)};
}

#endif
