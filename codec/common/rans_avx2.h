/* rans_avx2.h - rANS states in 8 lanes of 32 bits: words taken and stored, division; for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_RANS_AVX2_H
#define PITHI_COMMON_RANS_AVX2_H

#include <immintrin.h>

#include "common/lane_masks.h"
#include "kernels.h"

/* For a mask of eight lanes, a byte for each lane i: its rank, the number of lanes below it that
 * are in the mask; and the numbers of the lanes in the mask, ascending, in the last bytes. */

#define RANKS(l7, l6, l5, l4, l3, l2, l1, l0)                                \
    (l0 * UINT64_C(0x0101010101010100) + l1 * UINT64_C(0x0101010101010000) + \
     l2 * UINT64_C(0x0101010101000000) + l3 * UINT64_C(0x0101010100000000) + \
     l4 * UINT64_C(0x0101010000000000) + l5 * UINT64_C(0x0101000000000000) + \
     l6 * UINT64_C(0x0100000000000000))
/* Lane i has as many lanes behind it as are above it in the mask. */
#define NUMBER(i, in_mask, above) ((uint64_t)(i * in_mask) << 8 * (7 - (above)))
#define NUMBERS(l7, l6, l5, l4, l3, l2, l1, l0)                                                    \
    (NUMBER(7, l7, 0) | NUMBER(6, l6, l7) | NUMBER(5, l5, l7 + l6) | NUMBER(4, l4, l7 + l6 + l5) | \
     NUMBER(3, l3, l7 + l6 + l5 + l4) | NUMBER(2, l2, l7 + l6 + l5 + l4 + l3) |                    \
     NUMBER(1, l1, l7 + l6 + l5 + l4 + l3 + l2))

static const uint64_t ranks[256] = {PITHI_MASKS(RANKS)}, numbers[256] = {PITHI_MASKS(NUMBERS)};

static inline __m256i lanes(uint64_t bytes) {
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

/* Takes the next words for those of the lanes `used` whose state is below 2^16. */
static inline __m256i renormalise(__m256i x, __m256i used, const uint8_t **words) {
    const __m256i low = _mm256_and_si256(
        used, _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256()));
    const unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(low));
    const __m256i next =
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)*words));
    const __m256i word = _mm256_permutevar8x32_epi32(next, lanes(ranks[mask]));
    *words += 2 * (size_t)_mm_popcnt_u32(mask);
    return _mm256_blendv_epi8(x, _mm256_or_si256(_mm256_slli_epi32(x, 16), word), low);
}

/* Stores the low halves of those lanes whose bit is in the mask, the last lane's last. */
static inline uint8_t *store_words(__m256i x, unsigned mask, uint8_t *end) {
    x = _mm256_permutevar8x32_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0xFFFF)),
                                    lanes(numbers[mask]));
    _mm_storeu_si128((__m128i *)(void *)(end - 16),
                     _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
    return end - 2 * (size_t)_mm_popcnt_u32(mask);
}

/* Returns x / f and sets *rest to x % f, for x < 2^20 f, f < 2^12. The quotient of x without its
 * lowest bit, rounded twice, is off by at most 1. */
static inline __m256i divide(__m256i x, __m256i f, __m256i *rest) {
    const __m256 half = _mm256_mul_ps(_mm256_cvtepi32_ps(f), _mm256_set1_ps(0.5f));
    __m256i q =
        _mm256_cvttps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(x, 1)), half));
    __m256i r = _mm256_sub_epi32(x, _mm256_mullo_epi32(q, f));
    const __m256i above = _mm256_srai_epi32(r, 31);
    q = _mm256_add_epi32(q, above);
    r = _mm256_add_epi32(r, _mm256_and_si256(above, f));
    const __m256i below = _mm256_cmpgt_epi32(f, r); /* q is right, not one too small */
    q = _mm256_add_epi32(q, _mm256_andnot_si256(below, _mm256_set1_epi32(1)));
    *rest = _mm256_sub_epi32(r, _mm256_andnot_si256(below, f));
    return q;
}

#endif
