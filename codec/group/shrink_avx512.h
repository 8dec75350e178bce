/* shrink_avx512.h - what searched ranges need of lanes of 16 bits, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_SHRINK_AVX512_H
#define PITHI_GROUP_SHRINK_AVX512_H

#include "common/lanes_avx512.h"

/* Registers hold so many parts of a range beside their sums. */
enum { SPANS = 3 };

static inline v16 v_shl(v16 a, unsigned n) { return _mm512_slli_epi32(a, n); }
static inline v16 v_srl(v16 a, unsigned n) { return _mm512_srli_epi32(a, n); }
static inline v16 v_mul(v16 a, v16 b) { return _mm512_mullo_epi32(a, b); }

/* 32 lanes of 16 bits. */
static inline v16 v_add16(v16 a, v16 b) { return _mm512_add_epi16(a, b); }
/* a - b, or 0. */
static inline v16 v_above16(v16 a, v16 b) { return _mm512_subs_epu16(a, b); }
/* floor((a b + 2^14) / 2^15). */
static inline v16 v_part16(v16 a, v16 b) { return _mm512_mulhrs_epi16(a, b); }
/* Sums of the two products in each lane of 32. */
static inline v16 v_products16(v16 a, v16 b) { return _mm512_madd_epi16(a, b); }

/* Row and column k of 16 vectors change places. */
static inline __attribute__((always_inline)) void transpose_lanes(v16 x[16]) {
    v16 a[16], b[16];
    for (int k = 0; k < 16; k += 2) {
        a[k] = _mm512_unpacklo_epi32(x[k], x[k + 1]);
        a[k + 1] = _mm512_unpackhi_epi32(x[k], x[k + 1]);
    }
    for (int k = 0; k < 16; k += 4) {
        b[k] = _mm512_unpacklo_epi64(a[k], a[k + 2]);
        b[k + 1] = _mm512_unpackhi_epi64(a[k], a[k + 2]);
        b[k + 2] = _mm512_unpacklo_epi64(a[k + 1], a[k + 3]);
        b[k + 3] = _mm512_unpackhi_epi64(a[k + 1], a[k + 3]);
    }
    for (int k = 0; k < 4; k++) {
        a[k] = _mm512_shuffle_i32x4(b[k], b[k + 4], 0x88);
        a[k + 4] = _mm512_shuffle_i32x4(b[k], b[k + 4], 0xDD);
        a[k + 8] = _mm512_shuffle_i32x4(b[k + 8], b[k + 12], 0x88);
        a[k + 12] = _mm512_shuffle_i32x4(b[k + 8], b[k + 12], 0xDD);
    }
    for (int k = 0; k < 4; k++) {
        x[k] = _mm512_shuffle_i32x4(a[k], a[k + 8], 0x88);
        x[k + 8] = _mm512_shuffle_i32x4(a[k], a[k + 8], 0xDD);
        x[k + 4] = _mm512_shuffle_i32x4(a[k + 4], a[k + 12], 0x88);
        x[k + 12] = _mm512_shuffle_i32x4(a[k + 4], a[k + 12], 0xDD);
    }
}

#endif
