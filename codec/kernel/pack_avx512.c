/* pack_avx512.c - packed words for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"

/* a's halves, then b's, and so on: of lanes 0..3 of each the two that make one. */
static inline __m512i or_lanes(__m512i a, __m512i b) {
    return _mm512_or_si512(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

static inline void or4(const uint32_t *words, uint32_t all[4]) {
    const uint8_t *const p = (const uint8_t *)words;
    const __m512i x = or_lanes(v_load(p), v_load(p + 64));
    const __m512i y = or_lanes(v_load(p + 128), v_load(p + 192));
    const __m512i z = _mm512_or_si512(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
    const __m256i h = _mm256_or_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));
    _mm_storeu_si128((__m128i *)all,
                     _mm_or_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1)));
}

/* The 8 by 8 bits of every 64-bit lane, turned over, its bytes being in reverse: the product of
 * that matrix and, as columns, of the unit vectors. */
static inline __m512i turn_over(__m512i x) {
    return _mm512_gf2p8affine_epi64_epi8(each(UINT64_C(0x8040201008040201)), x, 0);
}

/* Squares are lanes 4g + 2b + a for group g; `in` reverses their bytes. */

static inline void put_pair(uint8_t *a, uint8_t *b, v16 x, v16 y) {
    /* A 32-bit lane holds a word of each group: byte 4i + 2g + b of the square's row i. */
    static const uint8_t in[64] = {28, 24, 20, 16, 12, 8,  4, 0, 60, 56, 52, 48, 44, 40, 36, 32,
                                   29, 25, 21, 17, 13, 9,  5, 1, 61, 57, 53, 49, 45, 41, 37, 33,
                                   30, 26, 22, 18, 14, 10, 6, 2, 62, 58, 54, 50, 46, 42, 38, 34,
                                   31, 27, 23, 19, 15, 11, 7, 3, 63, 59, 55, 51, 47, 43, 39, 35};
    static const uint8_t out[64] = {0,  8,  1,  9,  2,  10, 3,  11, 4,  12, 5,  13, 6,  14, 7,  15,
                                    16, 24, 17, 25, 18, 26, 19, 27, 20, 28, 21, 29, 22, 30, 23, 31,
                                    32, 40, 33, 41, 34, 42, 35, 43, 36, 44, 37, 45, 38, 46, 39, 47,
                                    48, 56, 49, 57, 50, 58, 51, 59, 52, 60, 53, 61, 54, 62, 55, 63};
    __m512i z = _mm512_mask_mov_epi16(x, 0xAAAAAAAAu, _mm512_slli_epi32(y, 16));
    z = turn_over(_mm512_permutexvar_epi8(_mm512_loadu_si512(in), z));
    z = _mm512_permutexvar_epi8(_mm512_loadu_si512(out), z);
    _mm256_storeu_si256((__m256i *)a, _mm512_castsi512_si256(z));
    _mm256_storeu_si256((__m256i *)b, _mm512_extracti64x4_epi64(z, 1));
}

static inline v16 v_shl16(v16 x) { return _mm512_slli_epi32(x, 16); }

static inline void get_pair(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb, v16 *x,
                            v16 *y) {
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
    z = turn_over(_mm512_permutexvar_epi8(_mm512_loadu_si512(in), z));
    z = _mm512_permutexvar_epi8(_mm512_loadu_si512(out), z);
    *x = v_and(z, v_set(0xFFFF));
    *y = v_shr(z, 16);
}

#include "kernel/pack_tmpl.h"

void pithi_pack_bind_avx512(struct pithi_kernels *k);
void pithi_pack_bind_avx512(struct pithi_kernels *k) {
    k->widths = widths;
    k->pack = pack;
    k->unpack = unpack;
}
