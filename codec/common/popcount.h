/* popcount.h - the ones of a bit string, where counting them is no instruction of every machine.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_POPCOUNT_H
#define PITHI_COMMON_POPCOUNT_H

#include <stddef.h>

#include "common/endian.h"

PITHI_INLINE size_t pithi_ones_of(uint64_t x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (size_t)(x * UINT64_C(0x0101010101010101) >> 56);
}

PITHI_INLINE size_t pithi_ones(const uint8_t *bits, size_t bytes) {
    const size_t whole = bytes / 8 * 8;
    size_t ones = 0;
    for (size_t i = 0; i < whole; i += 8) ones += pithi_ones_of(pithi_get64(bits + i));
    for (size_t i = whole; i < bytes; i++) ones += pithi_ones_of(bits[i]);
    return ones;
}

#endif
