/* shrink_avx2.h - what searched ranges need of lanes of 16 bits, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_SHRINK_AVX2_H
#define PITHI_GROUP_SHRINK_AVX2_H

#include "common/lanes_avx2.h"

/* Registers hold so many parts of a range beside their sums. */
enum { SPANS = 1 };

static inline v16 v_shl(v16 x, unsigned n) {
    return (v16){_mm256_slli_epi32(x.a, (int)n), _mm256_slli_epi32(x.b, (int)n)};
}
static inline v16 v_srl(v16 x, unsigned n) {
    return (v16){_mm256_srli_epi32(x.a, (int)n), _mm256_srli_epi32(x.b, (int)n)};
}

/* 32 lanes of 16 bits. */
BOTH(v_add16, _mm256_add_epi16)
/* x - y, or 0. */
BOTH(v_above16, _mm256_subs_epu16)
/* floor((x y + 2^14) / 2^15). */
BOTH(v_part16, _mm256_mulhrs_epi16)
/* Sums of the two products in each lane of 32. */
BOTH(v_products16, _mm256_madd_epi16)

#endif
