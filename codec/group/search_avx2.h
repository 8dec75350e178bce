/* search_avx2.h - what the search for scales needs of 32 lanes of 16 bits, for AVX2.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The search is in group_encode_tmpl.h, and in scalar C in group.c. */
#ifndef PITHI_GROUP_SEARCH_AVX2_H
#define PITHI_GROUP_SEARCH_AVX2_H

#include "common/lanes_avx2.h"

enum { SEARCHED = 2 };

static inline v16 v_mini16(v16 x, v16 y) {
    return (v16){_mm256_min_epi16(x.a, y.a), _mm256_min_epi16(x.b, y.b)};
}
/* The nearest integer to x * y / 2^15. */
static inline v16 v_scale16(v16 x, v16 y) {
    return (v16){_mm256_mulhrs_epi16(x.a, y.a), _mm256_mulhrs_epi16(x.b, y.b)};
}
/* Sums of two products, to lanes of 32 bits. */
static inline v16 v_dot16(v16 x, v16 y) {
    return (v16){_mm256_madd_epi16(x.a, y.a), _mm256_madd_epi16(x.b, y.b)};
}
/* Lanes of 16 bits from lanes of 32, in some order. */
static inline v16 v_pack16(v16 x, v16 y) {
    return (v16){_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b)};
}

#endif
