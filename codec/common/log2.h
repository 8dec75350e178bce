/* log2.h - logarithms in integers, for estimates that are the same on every machine.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_LOG2_H
#define PITHI_COMMON_LOG2_H

#include <stdint.h>

#include "common/inline.h"

/* Returns how many bits x needs, 0 for 0, without a branch. */
PITHI_INLINE unsigned pithi_bit_length(uint32_t x) {
    return 63 - (unsigned)__builtin_clzll((uint64_t)x << 1 | 1);
}

/* Returns floor(256 log2 x), off by one at most, for 0 < x. */
PITHI_INLINE uint32_t pithi_log2_256(uint32_t x) {
    const unsigned whole = pithi_bit_length(x) - 1;
    uint32_t log = whole;
    uint64_t m = (uint64_t)x << (31 - whole); /* in [1, 2) with 31 fraction bits */
    for (int bit = 0; bit < 8; bit++) {
        m = m * m >> 31;
        log = log << 1 | (uint32_t)(m >> 32);
        m >>= m >> 32;
    }
    return log;
}

#endif
