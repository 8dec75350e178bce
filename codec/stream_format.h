/* stream_format.h - where the fields of a saved stream lie (doc/FORMAT.md, saved streams).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STREAM_FORMAT_H
#define PITHI_STREAM_FORMAT_H

/* The first eight bytes of a saved stream. */
#define PITHI_STREAM_FORMAT_MAGIC \
    { 0xF1, 'P', 'T', 'H', 's', 't', 'a', 1 }

/* Offsets and sizes. The slots, the base or residual, and an XXH64 follow the head. */
enum {
    PITHI_STREAM_FORMAT_FINGERPRINT = 8,
    PITHI_STREAM_FORMAT_SLOTS = 16,
    PITHI_STREAM_FORMAT_SEED = 24,
    PITHI_STREAM_FORMAT_STREAM = 32, /* id of the random bits (rng_stream) */
    PITHI_STREAM_FORMAT_SHIFT = 36,  /* rank * 65536 / ranks */
    PITHI_STREAM_FORMAT_STATS = 40,
    PITHI_STREAM_FORMAT_HEAD = 72,
    PITHI_STREAM_FORMAT_SLOT = 16, /* and frame_hooks.saved_bytes of each slot behind all slots */
    PITHI_STREAM_FORMAT_TAIL = 8
};

#endif
