/* bitplane_avx2.c - packed words for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "common/lanes_avx2.h"

static inline __m256i or_words(const uint8_t *p) {
    return _mm256_or_si256(load256(p), load256(p + 32));
}
static inline __m256i or_lanes(__m256i a, __m256i b) {
    return _mm256_or_si256(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

static inline void or4(const uint32_t *words, uint32_t all[4]) {
    const uint8_t *const p = (const uint8_t *)words;
    const __m256i x = or_lanes(or_words(p), or_words(p + 64));
    const __m256i y = or_lanes(or_words(p + 128), or_words(p + 192));
    const __m256i z = _mm256_or_si256(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
    _mm_storeu_si128((__m128i *)all,
                     _mm_or_si128(_mm256_castsi256_si128(z), _mm256_extracti128_si256(z, 1)));
}

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

/* Squares are lanes 2b + a. */

static inline void put_one(uint8_t *to, v16 x) {
    /* Words 0..3 and 8..11 lie in the low half, the others in the high half. */
    const __m256i by_byte = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const __m256i squares = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i planes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    const __m256i mask = _mm256_set1_epi32(0xFFFF);
    __m256i z = _mm256_packus_epi32(_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask));
    z = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(z, by_byte), squares);
    store256(to, _mm256_shuffle_epi8(transpose_bits(z), planes));
}

static inline void put_pair(uint8_t *a, uint8_t *b, v16 x, v16 y) {
    put_one(a, x);
    put_one(b, y);
}

static inline v16 get_one(const uint8_t *from, unsigned width) {
    static const uint16_t ones[32] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};
    const __m256i there = load256((const uint8_t *)(ones + 16 - width));
    const __m256i squares = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const __m256i words = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    __m256i z = _mm256_shuffle_epi8(_mm256_and_si256(load256(from), there), squares);
    z = _mm256_permute4x64_epi64(transpose_bits(z), 0xD8);
    z = _mm256_shuffle_epi8(z, words);
    return (v16){_mm256_cvtepu16_epi32(_mm256_castsi256_si128(z)),
                 _mm256_cvtepu16_epi32(_mm256_extracti128_si256(z, 1))};
}

static inline void get_pair(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb, v16 *x,
                            v16 *y) {
    *x = get_one(a, wa);
    *y = get_one(b, wb);
}

#include "predict/bitplane_tmpl.h"

void pithi_bitplane_bind_avx2(struct pithi_kernels *k);
void pithi_bitplane_bind_avx2(struct pithi_kernels *k) {
    k->widths = widths;
    k->pack = pack;
    k->unpack = unpack;
}
