/* search_avx2.h - what the search for scales needs of 32 lanes of 16 bits, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
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

/* Rows and columns of 8 vectors; the columns' halves are of the first and the last four rows. */
static inline __attribute__((always_inline)) void transpose8(const __m256i x[8], __m256i y[8]) {
    __m256i t[8];
    PITHI_UNROLL for (int k = 0; k < 8; k += 4) {
        const __m256i p = _mm256_unpacklo_epi32(x[k], x[k + 1]);
        const __m256i q = _mm256_unpackhi_epi32(x[k], x[k + 1]);
        const __m256i r = _mm256_unpacklo_epi32(x[k + 2], x[k + 3]);
        const __m256i s = _mm256_unpackhi_epi32(x[k + 2], x[k + 3]);
        t[k] = _mm256_unpacklo_epi64(p, r);
        t[k + 1] = _mm256_unpackhi_epi64(p, r);
        t[k + 2] = _mm256_unpacklo_epi64(q, s);
        t[k + 3] = _mm256_unpackhi_epi64(q, s);
    }
    PITHI_UNROLL for (int k = 0; k < 4; k++) {
        y[k] = _mm256_permute2x128_si256(t[k], t[k + 4], 0x20);
        y[k + 4] = _mm256_permute2x128_si256(t[k], t[k + 4], 0x31);
    }
}
/* Rows and columns of 16 vectors. */
static inline __attribute__((always_inline)) void v_transpose(v16 x[16]) {
    PITHI_UNROLL for (int half = 0; half < 2; half++) {
        __m256i low[8], high[8], first[8], last[8];
        PITHI_UNROLL for (int k = 0; k < 8; k++) {
            low[k] = half ? x[k].b : x[k].a;
            high[k] = half ? x[k + 8].b : x[k + 8].a;
        }
        transpose8(low, first);
        transpose8(high, last);
        /* Columns of this half take the places that its vectors had. */
        PITHI_UNROLL for (int k = 0; k < 8; k++) {
            if (half) {
                x[k].b = first[k];
                x[k + 8].b = last[k];
            } else {
                x[k].a = first[k];
                x[k + 8].a = last[k];
            }
        }
    }
    /* A vector has a column of rows 0 to 7 in each half, then rows 0 to 15 of one column. */
    PITHI_UNROLL for (int k = 0; k < 8; k++) {
        const v16 y = {x[k].b, x[k + 8].b};
        x[k] = (v16){x[k].a, x[k + 8].a};
        x[k + 8] = y;
    }
}

#endif
