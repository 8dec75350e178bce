/* nh.h - the universal hash behind base hashes and block checksums (FORMAT.md, Base hash).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_NH_H
#define PITHI_COMMON_NH_H

#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"

/* Returns the partial sum over the 64-bit little-endian lanes of p[0..bytes); the first lane has
 * number `lane`; a last short lane is padded with zero bytes. Partial sums over parts cut at
 * multiples of 8 bytes add up, mod 2^64, to the sum over the whole, in any order. */
typedef uint64_t pithi_nh_fn(const void *p, size_t bytes, uint64_t lane);

/* The key of lane i is (i + 1) * PITHI_NH_WEYL mod 2^64. */
#define PITHI_NH_WEYL UINT64_C(0x9E3779B97F4A7C15)

pithi_nh_fn pithi_nh_c;
/* Returns a sum over the first 64 bytes of every 12352: whether somebody wrote over a tensor shows
 * there, for one to three hundredths of what coding takes. */
pithi_nh_fn pithi_nh_sample;
/* Prefetches what pithi_nh_sample will read. */
void pithi_nh_sample_prefetch(const void *p, size_t bytes);

/* The term of one lane. With a = low and b = high half of (lane xor key) it is a*b + (a << 32) + b.
 * Changing only a by d changes it by d * (b + 2^32), changing only b by e by e * (a + 1); neither
 * product can hold 64 factors of two, so an error within one 32-bit word is never missed. */
PITHI_INLINE uint64_t pithi_nh_key(uint64_t number) { return (number + 1) * PITHI_NH_WEYL; }
PITHI_INLINE uint64_t pithi_nh_halves(uint32_t a, uint32_t b) {
    return (uint64_t)a * b + ((uint64_t)a << 32 | b);
}
PITHI_INLINE uint64_t pithi_nh_term(uint64_t lane, uint64_t number) {
    const uint64_t x = lane ^ pithi_nh_key(number);
    return pithi_nh_halves((uint32_t)x, (uint32_t)(x >> 32));
}

/* The tag of the checksum of block 0; block i has i more. The tag of a base hash is its dtype. */
#define PITHI_CHECK_TAG UINT64_C(0x100000000)

/* Makes the 64-bit hash from a complete sum over `bytes` bytes; tag separates uses. For fixed bytes
 * and tag this is a bijection of sum: what the sum distinguishes stays distinguished. */
PITHI_INLINE uint64_t pithi_nh_finish(uint64_t sum, uint64_t bytes, uint64_t tag) {
    uint64_t x = sum + bytes * PITHI_NH_WEYL + tag * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}

#endif
