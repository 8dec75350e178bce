/* state_format.h - where the fields of a saved state lie (doc/FORMAT.md, saved states).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STATE_FORMAT_H
#define PITHI_STATE_FORMAT_H

/* Its first eight bytes. */
#define PITHI_STATE_FORMAT_MAGIC \
    { 0xF1, 'P', 'T', 'H', 's', 't', 'a', 1 }

/* Offsets and sizes; the slots, the base or residual, and an XXH64 follow the head. */
enum {
    PITHI_STATE_FORMAT_FINGERPRINT = 8,
    PITHI_STATE_FORMAT_SLOTS = 16,
    PITHI_STATE_FORMAT_SEED = 24,
    PITHI_STATE_FORMAT_STREAM = 32,
    PITHI_STATE_FORMAT_STATS = 40,
    PITHI_STATE_FORMAT_HEAD = 72,
    PITHI_STATE_FORMAT_STATS_BYTES = 32,
    PITHI_STATE_FORMAT_SLOT = 16,
    PITHI_STATE_FORMAT_BOUNDED = 16, /* more of each, behind them all: codecs with a bound */
    PITHI_STATE_FORMAT_TAIL = 8
};

#endif
