/* look_avx2.h - floats of a table in one vector, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_LOOK_AVX2_H
#define PITHI_GROUP_LOOK_AVX2_H

#include "common/lanes_avx2.h"

/* The low three bits of the index count. */
static inline v16 look8(v16 table, v16 index) {
    return (v16){_mm256_permutevar8x32_epi32(table.a, index.a),
                 _mm256_permutevar8x32_epi32(table.a, index.b)};
}
static inline __m256i one_of(v16 table, __m256i index) {
    const __m256 low = F(_mm256_permutevar8x32_epi32(table.a, index));
    const __m256 high = F(_mm256_permutevar8x32_epi32(table.b, index));
    return I(_mm256_blendv_ps(low, high, F(_mm256_slli_epi32(index, 28))));
}
/* The low bits of the index count. */
static inline v16 look16(v16 table, v16 index) {
    return (v16){one_of(table, index.a), one_of(table, index.b)};
}

#endif
