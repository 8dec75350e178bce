/* nh.h - the universal hash behind base identities and block checksums (FORMAT.md, Identity).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_NH_H
#define PITHI_NH_H

#include <stddef.h>
#include <stdint.h>

/* Partial sum over the 64-bit little-endian lanes of p[0..bytes); the first lane has number
 * `lane`; a last short lane is padded with zero bytes. Partial sums over pieces cut at multiples
 * of 8 bytes add up, mod 2^64, to the sum over the whole, in any order. */
typedef uint64_t pithi_nh_fn(const void *p, size_t bytes, uint64_t lane);

/* Key of lane i is (i + 1) * PITHI_NH_WEYL mod 2^64. */
#define PITHI_NH_WEYL UINT64_C(0x9E3779B97F4A7C15)

pithi_nh_fn pithi_nh_c;
/* From a complete sum over `bytes` bytes to the 64-bit hash; tag separates uses. */
uint64_t pithi_nh_finish(uint64_t sum, uint64_t bytes, uint64_t tag);

#endif
