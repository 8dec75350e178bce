/* bitplane_avx512.h - bit planes of two groups of 16 words, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Squares of 8 by 8 bits are lanes 4g + 2b + a for group g; `in` reverses their bytes. */
#ifndef PITHI_PREDICT_BITPLANE_AVX512_H
#define PITHI_PREDICT_BITPLANE_AVX512_H

#include "common/lanes_avx512.h"

/* The 8 by 8 bits of every 64-bit lane, turned over, its bytes being in reverse: the product of
 * that matrix and, as columns, of the unit vectors. */
static inline __m512i transpose_bits(__m512i x) {
    return _mm512_gf2p8affine_epi64_epi8(each(UINT64_C(0x8040201008040201)), x, 0);
}

/* 16 planes of the words in the low halves of the lanes, then as many of those in the high ones. */
static inline v16 put_planes(v16 x) {
    /* A lane holds a word of each group: byte 4i + 2g + b of the square's row i. */
    static const uint8_t in[64] = {28, 24, 20, 16, 12, 8,  4, 0, 60, 56, 52, 48, 44, 40, 36, 32,
                                   29, 25, 21, 17, 13, 9,  5, 1, 61, 57, 53, 49, 45, 41, 37, 33,
                                   30, 26, 22, 18, 14, 10, 6, 2, 62, 58, 54, 50, 46, 42, 38, 34,
                                   31, 27, 23, 19, 15, 11, 7, 3, 63, 59, 55, 51, 47, 43, 39, 35};
    static const uint8_t out[64] = {0,  8,  1,  9,  2,  10, 3,  11, 4,  12, 5,  13, 6,  14, 7,  15,
                                    16, 24, 17, 25, 18, 26, 19, 27, 20, 28, 21, 29, 22, 30, 23, 31,
                                    32, 40, 33, 41, 34, 42, 35, 43, 36, 44, 37, 45, 38, 46, 39, 47,
                                    48, 56, 49, 57, 50, 58, 51, 59, 52, 60, 53, 61, 54, 62, 55, 63};
    const v16 z = transpose_bits(_mm512_permutexvar_epi8(_mm512_loadu_si512(in), x));
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(out), z);
}

/* The first wa planes at `a` and wb at `b`, 16 at most of 32 bytes that are read at each, to words
 * of 16 bits: those of `a` in the low halves of lanes, those of `b` in the high ones. */
static inline v16 get_planes(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb) {
    static const uint8_t in[64] = {14, 12, 10, 8,  6,  4,  2,  0,  15, 13, 11, 9,  7,  5,  3,  1,
                                   30, 28, 26, 24, 22, 20, 18, 16, 31, 29, 27, 25, 23, 21, 19, 17,
                                   46, 44, 42, 40, 38, 36, 34, 32, 47, 45, 43, 41, 39, 37, 35, 33,
                                   62, 60, 58, 56, 54, 52, 50, 48, 63, 61, 59, 57, 55, 53, 51, 49};
    static const uint8_t out[64] = {0,  16, 32, 48, 1,  17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51,
                                    4,  20, 36, 52, 5,  21, 37, 53, 6,  22, 38, 54, 7,  23, 39, 55,
                                    8,  24, 40, 56, 9,  25, 41, 57, 10, 26, 42, 58, 11, 27, 43, 59,
                                    12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};
    const __m256i low = _mm256_loadu_si256((const __m256i *)a);
    const __m256i high = _mm256_loadu_si256((const __m256i *)b);
    const __mmask32 there = ((UINT32_C(1) << wa) - 1) | ((UINT32_C(1) << wb) - 1) << 16;
    __m512i z = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    z = _mm512_maskz_mov_epi16(there, z);
    z = transpose_bits(_mm512_permutexvar_epi8(_mm512_loadu_si512(in), z));
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(out), z);
}

#endif
