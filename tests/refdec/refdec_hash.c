/* refdec_hash.c - the two hashes of the format.
 * SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "refdec.h"

uint64_t ref_xxh64(const uint8_t *bytes, size_t length, uint64_t seed) {
    return XXH64(bytes, length, seed);
}

uint64_t ref_nh(const uint8_t *bytes, size_t length, uint64_t tag) {
    const uint64_t w = 0x9E3779B97F4A7C15u, m = 0xD6E8FEB86659FD93u;
    uint64_t sum = 0;
    for (size_t i = 0; i * 8 < length; i++) {
        const size_t rest = length - i * 8;
        const uint64_t x = ref_le(bytes + i * 8, rest < 8 ? (unsigned)rest : 8) ^ ((i + 1) * w);
        const uint64_t lo = x & 0xFFFFFFFFu, hi = x >> 32;
        sum += lo * hi + (lo << 32) + hi;
    }
    uint64_t x = sum + length * w + tag * m;
    x = (x ^ (x >> 32)) * m;
    x = (x ^ (x >> 32)) * m;
    return x ^ (x >> 32);
}
