/* bitplane_avx2.h - squares of 8 by 8 bits, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_BITPLANE_AVX2_H
#define PITHI_PREDICT_BITPLANE_AVX2_H

#include "common/lanes_avx2.h"

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

/* The 16 planes of 16 words of 16 bits, of which 0..3 and 8..11 lie in the low half, the others in
 * the high half, as they come of packing. Squares are lanes 2b + a. */
static inline __m256i planes_of(__m256i words) {
    const __m256i squares = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i z = _mm256_permutevar8x32_epi32(part_lanes(words), squares);
    return mix_lanes(transpose_bits(z));
}

/* 16 words of 16 bits, in order, of as many planes. */
static inline __m256i words_of_planes(__m256i planes) {
    return mix_lanes(_mm256_permute4x64_epi64(transpose_bits(part_lanes(planes)), 0xD8));
}

/* The first `width` planes, 16 at most, of 32 bytes that are read; the others are 0. */
static inline __m256i load_planes(const uint8_t *from, unsigned width) {
    static const uint16_t ones[32] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};
    return _mm256_and_si256(load256(from), load256((const uint8_t *)(ones + 16 - width)));
}

#endif
