/* bounded_keys.h - rows that the tables of keys of codecs with a bound have alike.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Their tables differ in keys and in the order of them, so that a table places these rows by
 * designators of its own, [ABS] = PITHI_BOUNDED_ABS; arguments are the summaries that differ. */
#ifndef PITHI_PREDICT_BOUNDED_KEYS_H
#define PITHI_PREDICT_BOUNDED_KEYS_H

#include "bytes/entropy.h"
#include "codec.h"

/* Where the parameters of frames have these keys (doc/FORMAT.md, 6). */
enum {
    PITHI_BOUNDED_AT_EFFORT = 0,
    PITHI_BOUNDED_AT_MODE = 1,
    PITHI_BOUNDED_AT_ZEROS = 2,
    PITHI_BOUNDED_AT_TARGET = 4
};

#define PITHI_BOUNDED_ABS                                                               \
    {                                                                                   \
        "abs", PITHI_KEY_REAL, 0, 1, 0, 0, PITHI_BOUNDED_AT_TARGET, "a number above 0", \
            "bound on |x - x'|", true                                                   \
    }
#define PITHI_BOUNDED_REL(otherwise)                                                    \
    {                                                                                   \
        "rel", PITHI_KEY_REAL, 0, 2, 0, 0, PITHI_BOUNDED_AT_TARGET, "a number above 0", \
            "the same, relative to the range of the finite values; " otherwise, true    \
    }
#define PITHI_BOUNDED_PWREL                                                                        \
    {                                                                                              \
        "pwrel", PITHI_KEY_REAL, 0, 3, 0, 0, PITHI_BOUNDED_AT_TARGET, "a number above 0, below 1", \
            "bound on |x - x'| / |x|", true                                                        \
    }
#define PITHI_BOUNDED_RANGE(summary) \
    { "range", PITHI_KEY_REAL, 0, 0, 0, 0, PITHI_WIRE_NONE, "a number or none", summary, true }
#define PITHI_BOUNDED_ZEROS                                                        \
    {                                                                              \
        "zeros", PITHI_KEY_WORD, 0, 0, 1, 0, PITHI_BOUNDED_AT_ZEROS, "any|signed", \
            "signed: keep -0", true                                                \
    }
#define PITHI_BOUNDED_EFFORT                                                  \
    {                                                                         \
        "effort", PITHI_KEY_NUMBER, 1, PITHI_EFFORT_MIN, PITHI_EFFORT_MAX, 0, \
            PITHI_BOUNDED_AT_EFFORT, "1..22", "effort of zstd", true          \
    }
#define PITHI_BOUNDED_BLOCK                                                                    \
    {                                                                                          \
        "block", PITHI_KEY_BLOCK, 262144, 16, 1u << PITHI_BLOCK_LOG2_MAX, 0, PITHI_WIRE_BLOCK, \
            "16..16777216, a power of two, or whole", "most elements per block", false         \
    }
#define PITHI_BOUNDED_ENTROPY                                                \
    {                                                                        \
        "entropy", PITHI_KEY_WORD, 0, 0, 1, 0, PITHI_WIRE_NONE, "auto|rans", \
            "entropy coding; auto: rANS, and zstd for what repeats", true    \
    }

/* A row of a table of former keys. */
#define PITHI_BOUNDED_FORMER \
    { "level", "effort", "" }

/* Rows of a table of needs, with the includer's EFFORT, ENTROPY, MODE and REVISION. */
#define PITHI_BOUNDED_NEEDS                                                      \
    {EFFORT, MODE, 0, "has no effect with mode=fast"},                           \
        {REVISION, MODE, 0, "has no effect with mode=fast"},                     \
        {EFFORT, ENTROPY, PITHI_NEED_ZERO, "has no effect with entropy=rans"}, { \
        ENTROPY, MODE, 0, "has no effect with mode=fast"                         \
    }

#endif
