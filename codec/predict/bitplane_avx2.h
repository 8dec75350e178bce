/* bitplane_avx2.h - widths of words, and squares of 8 by 8 bits, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_BITPLANE_AVX2_H
#define PITHI_PREDICT_BITPLANE_AVX2_H

#include "common/lanes_avx2.h"

/* ---- Widths ----------------------------------------------------------------------------------*/

static inline __m256i or_lanes(__m256i a, __m256i b) {
    return _mm256_or_si256(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

/* All lanes of each together, in a lane each. */
static inline __m128i or_four(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i x = or_lanes(a, b), y = or_lanes(c, d);
    const __m256i z = _mm256_or_si256(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
    return _mm_or_si128(_mm256_castsi256_si128(z), _mm256_extracti128_si256(z, 1));
}

/* How many bits every lane needs. */
static inline __m128i bits_of(__m128i x) {
    /* Without the bit below its highest one no number is rounded up to a power of two. */
    const __m128i number = _mm_andnot_si128(_mm_srli_epi32(x, 1), x);
    const __m128i exponent = _mm_srli_epi32(_mm_castps_si128(_mm_cvtepi32_ps(number)), 23);
    const __m128i bits = _mm_subs_epu16(exponent, _mm_set1_epi32(126));
    return _mm_blendv_epi8(bits, _mm_set1_epi32(32), _mm_srai_epi32(x, 31));
}

/* ---- Planes ----------------------------------------------------------------------------------*/

/* Bits of x and of x moved by so many, exchanged where mask says. */
static inline __m256i swap_bits(__m256i x, int by, uint64_t mask) {
    const __m256i moved = _mm256_xor_si256(x, _mm256_srli_epi64(x, by));
    const __m256i t = _mm256_and_si256(moved, each(mask));
    return _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64(t, by)));
}

/* The 8 by 8 bits of every 64-bit lane, turned over. */
static inline __m256i transpose_bits(__m256i x) {
    x = swap_bits(x, 7, UINT64_C(0x00AA00AA00AA00AA));
    x = swap_bits(x, 14, UINT64_C(0x0000CCCC0000CCCC));
    return swap_bits(x, 28, UINT64_C(0x00000000F0F0F0F0));
}

/* Both halves with the bytes of their 64-bit lanes in turn, and the other way round. */
static inline __m256i mix_lanes(__m256i x) {
    return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)));
}
static inline __m256i part_lanes(__m256i x) {
    return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
}

/* ---- Planes of two vectors -------------------------------------------------------------------*/

/* Bytes of both in turn: those of the low halves of lanes, and those of the high ones. */
static inline void interleave(__m256i *x, __m256i *y) {
    const __m256i low = _mm256_unpacklo_epi8(*x, *y);
    *y = _mm256_unpackhi_epi8(*x, *y);
    *x = low;
}

/* Exchanges the bits of x that `mask`, moved up by so many, has with those of y that it has. */
static inline void swap_between(__m256i *x, __m256i *y, int by, char mask) {
    const __m256i differ = _mm256_xor_si256(_mm256_srli_epi64(*x, by), *y);
    const __m256i t = _mm256_and_si256(differ, _mm256_set1_epi8(mask));
    *y = _mm256_xor_si256(*y, t);
    *x = _mm256_xor_si256(*x, _mm256_slli_epi64(t, by));
}

/* Turns over the two squares in each lane of x and y, whose planes are in order: byte 2k + h is row
 * k of square h. Then x has square 0 of x and that of y behind it, and y has squares 1. Rows to be
 * exchanged lie in different vectors each time, which takes half the instructions. */
static inline void transpose_two(__m256i *x, __m256i *y) {
    interleave(x, y);
    swap_between(x, y, 4, 0x0F);
    interleave(x, y);
    swap_between(x, y, 2, 0x33);
    interleave(x, y);
    swap_between(x, y, 1, 0x55);
    interleave(x, y);
}

/* The 16 planes of two groups, in order, of their first eight words in x and the others in y: of
 * these, each lane has half, first their low bytes and then their high ones, with those of the
 * groups in turn. */
static inline void planes_of_two(__m256i *x, __m256i *y) {
    *x = _mm256_permute4x64_epi64(*x, 0xD8);
    *y = _mm256_permute4x64_epi64(*y, 0xD8);
    transpose_two(x, y);
    *x = mix_lanes(*x);
    *y = mix_lanes(*y);
}

/* The words of the 16 planes of a group in x, and of another in y: the first eight of both in x,
 * and the others in y, with a lane for each group. */
static inline void words_of_two(__m256i *x, __m256i *y) {
    transpose_two(x, y);
    *x = mix_lanes(_mm256_permute4x64_epi64(*x, 0xD8));
    *y = mix_lanes(_mm256_permute4x64_epi64(*y, 0xD8));
}

/* The first `width` planes, 16 at most, of 32 bytes that are read; the others are 0. */
static inline __m256i load_planes(const uint8_t *from, unsigned width) {
    static const uint16_t ones[32] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};
    return _mm256_and_si256(load256(from), load256((const uint8_t *)(ones + 16 - width)));
}

#endif
