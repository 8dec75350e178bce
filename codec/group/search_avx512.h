/* search_avx512.h - what the search for scales needs of 32 lanes of 16 bits, for AVX-512 F and BW.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_SEARCH_AVX512_H
#define PITHI_GROUP_SEARCH_AVX512_H

#include "common/lanes_avx512.h"

enum { SEARCHED = 4 };

static inline v16 v_mini16(v16 a, v16 b) { return _mm512_min_epi16(a, b); }
/* The nearest integer to a * b / 2^15. */
static inline v16 v_scale16(v16 a, v16 b) { return _mm512_mulhrs_epi16(a, b); }
/* Sums of two products, to lanes of 32 bits. */
static inline v16 v_dot16(v16 a, v16 b) { return _mm512_madd_epi16(a, b); }
/* Lanes of 16 bits from lanes of 32, in some order. */
static inline v16 v_pack16(v16 a, v16 b) { return _mm512_packs_epi32(a, b); }

/* Rows and columns of 16 vectors, the columns in some order. */
static inline __attribute__((always_inline)) void v_transpose(v16 x[16]) {
    v16 t[16];
    PITHI_UNROLL for (int k = 0; k < 16; k += 4) {
        const v16 p = _mm512_unpacklo_epi32(x[k], x[k + 1]);
        const v16 q = _mm512_unpackhi_epi32(x[k], x[k + 1]);
        const v16 r = _mm512_unpacklo_epi32(x[k + 2], x[k + 3]);
        const v16 s = _mm512_unpackhi_epi32(x[k + 2], x[k + 3]);
        t[k] = _mm512_unpacklo_epi64(p, r);
        t[k + 1] = _mm512_unpackhi_epi64(p, r);
        t[k + 2] = _mm512_unpacklo_epi64(q, s);
        t[k + 3] = _mm512_unpackhi_epi64(q, s);
    }
    PITHI_UNROLL for (int k = 0; k < 4; k++) {
        const v16 p = _mm512_shuffle_i32x4(t[k], t[k + 4], 0x88);
        const v16 q = _mm512_shuffle_i32x4(t[k], t[k + 4], 0xDD);
        const v16 r = _mm512_shuffle_i32x4(t[k + 8], t[k + 12], 0x88);
        const v16 s = _mm512_shuffle_i32x4(t[k + 8], t[k + 12], 0xDD);
        x[k] = _mm512_shuffle_i32x4(p, r, 0x88);
        x[k + 4] = _mm512_shuffle_i32x4(p, r, 0xDD);
        x[k + 8] = _mm512_shuffle_i32x4(q, s, 0x88);
        x[k + 12] = _mm512_shuffle_i32x4(q, s, 0xDD);
    }
}

#endif
