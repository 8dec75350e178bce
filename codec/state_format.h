/* state_format.h - where the fields of a saved state lie (doc/FORMAT.md, saved states).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_STATE_FORMAT_H
#define PITHI_STATE_FORMAT_H

/* Its first eight bytes. */
#define PITHI_SAVED_MAGIC \
    { 0xF1, 'P', 'T', 'H', 's', 't', 'a', 1 }

/* Offsets and sizes; the slots, the base or residual, and an XXH64 follow the head. */
enum {
    PITHI_SAVED_FINGERPRINT = 8,
    PITHI_SAVED_SLOTS = 16,
    PITHI_SAVED_SEED = 24,
    PITHI_SAVED_STREAM = 32,
    PITHI_SAVED_STATS = 40,
    PITHI_SAVED_HEAD = 72,
    PITHI_SAVED_STATS_BYTES = 32,
    PITHI_SAVED_SLOT = 16,
    PITHI_SAVED_BOUNDED = 16, /* more of each, behind them all: codecs with a bound */
    PITHI_SAVED_TAIL = 8
};

#endif
