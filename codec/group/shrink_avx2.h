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
BOTH(v_mul, _mm256_mullo_epi32)

/* 32 lanes of 16 bits. */
BOTH(v_add16, _mm256_add_epi16)
/* x - y, or 0. */
BOTH(v_above16, _mm256_subs_epu16)
/* floor((x y + 2^14) / 2^15). */
BOTH(v_part16, _mm256_mulhrs_epi16)
/* Sums of the two products in each lane of 32. */
BOTH(v_products16, _mm256_madd_epi16)

static inline __attribute__((always_inline)) void transpose_eight(__m256i x[8]) {
    __m256i a[8], b[8];
    for (int k = 0; k < 8; k += 2) {
        a[k] = _mm256_unpacklo_epi32(x[k], x[k + 1]);
        a[k + 1] = _mm256_unpackhi_epi32(x[k], x[k + 1]);
    }
    for (int k = 0; k < 8; k += 4) {
        b[k] = _mm256_unpacklo_epi64(a[k], a[k + 2]);
        b[k + 1] = _mm256_unpackhi_epi64(a[k], a[k + 2]);
        b[k + 2] = _mm256_unpacklo_epi64(a[k + 1], a[k + 3]);
        b[k + 3] = _mm256_unpackhi_epi64(a[k + 1], a[k + 3]);
    }
    for (int k = 0; k < 4; k++) {
        x[k] = _mm256_permute2x128_si256(b[k], b[k + 4], 0x20);
        x[k + 4] = _mm256_permute2x128_si256(b[k], b[k + 4], 0x31);
    }
}
/* Row and column k of 16 vectors change places. */
static inline __attribute__((always_inline)) void transpose_lanes(v16 x[16]) {
    __m256i part[2][2][8];
    for (int k = 0; k < 8; k++) {
        part[0][0][k] = x[k].a;
        part[0][1][k] = x[k].b;
        part[1][0][k] = x[k + 8].a;
        part[1][1][k] = x[k + 8].b;
    }
    for (int k = 0; k < 4; k++) transpose_eight(part[k / 2][k % 2]);
    for (int k = 0; k < 8; k++) {
        x[k] = (v16){part[0][0][k], part[1][0][k]};
        x[k + 8] = (v16){part[0][1][k], part[1][1][k]};
    }
}

#endif
