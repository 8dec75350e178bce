/* fused_encode_avx2.c - values to packed words of differences in one pass, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx2.h"

enum { PAIRS = 8 };

/* The first eight words of each group, then the others: each lane has half of them. */
struct words {
    __m256i half[2];
};

#include "predict/fused_encode_tmpl.h"

static inline struct words words_of(v16 a, v16 b) {
    return (struct words){{_mm256_packus_epi32(a.a, b.a), _mm256_packus_epi32(a.b, b.b)}};
}

/* Lanes without signs compare as integers with signs. */
static inline bool any_above(v16 error, v16 bound, v16 x) {
    const __m256i off = _mm256_cmpgt_epi32(_mm256_max_epu32(error.a, error.b), bound.a);
    const __m256i wide = _mm256_srli_epi32(_mm256_or_si256(x.a, x.b), 16);
    const __m256i any = _mm256_or_si256(off, wide);
    return !_mm256_testz_si256(any, any);
}

/* Bits of the bytes that are 0 in planes of 2 bytes, the last byte of each half being its lowest
 * bit: the highest plane that is not 0 is found from there, by an instruction of one step. */
static inline uint32_t empty_bytes(__m256i z) {
    const __m256i backward = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m256i empty = _mm256_cmpeq_epi16(z, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_epi8(_mm256_shuffle_epi8(empty, backward));
}

/* Writes the planes of a group. */
static inline uint8_t *put_planes(__m256i z, uint8_t *width, uint8_t *to) {
    const uint32_t empty = empty_bytes(z);
    const uint64_t used = ~(uint64_t)(empty << 16 | empty >> 16);
    const unsigned bytes = 32 - (unsigned)__builtin_ctzll(used);
    store256(to, z);
    *width = (uint8_t)(bytes / 2);
    return to + bytes;
}

/* Writes the planes of words of 8 bits, those of one group in each half. */
static inline uint8_t *put_bytes(const struct words *w, uint8_t *widths, uint8_t *to) {
    const __m256i order = _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7);
    const __m256i halves = _mm256_packus_epi16(w->half[0], w->half[1]);
    const __m256i bytes = _mm256_permutevar8x32_epi32(halves, order);
    const __m256i z = mix_lanes(transpose_bits(bytes));
    const uint32_t empty = empty_bytes(z);
    const unsigned first = 16 - (unsigned)__builtin_ctz(~(empty & 0xFFFF));
    const unsigned second = 16 - (unsigned)__builtin_ctz(~(empty >> 16));
    widths[0] = (uint8_t)(first / 2), widths[1] = (uint8_t)(second / 2);
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(z));
    _mm_storeu_si128((__m128i *)(to + first), _mm256_extracti128_si256(z, 1));
    return to + first + second;
}

/* Writes the planes of words of 16 bits. */
static inline uint8_t *put_words(const struct words *w, uint8_t *widths, uint8_t *to) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15));
    __m256i x = _mm256_shuffle_epi8(w->half[0], order), y = _mm256_shuffle_epi8(w->half[1], order);
    planes_of_two(&x, &y);
    return put_planes(y, widths + 1, put_planes(x, widths, to));
}

static __attribute__((noinline)) uint8_t *put(const struct words *w, size_t pairs, uint8_t *widths,
                                              uint8_t *to) {
    __m256i all = _mm256_setzero_si256();
    for (size_t n = 0; n < pairs; n++)
        all = _mm256_or_si256(all, _mm256_or_si256(w[n].half[0], w[n].half[1]));
    if (_mm256_testz_si256(all, _mm256_set1_epi16((short)0xFF00))) {
        for (size_t n = 0; n < pairs; n++) to = put_bytes(w + n, widths + 2 * n, to);
        return to;
    }
    for (size_t n = 0; n < pairs; n++) to = put_words(w + n, widths + 2 * n, to);
    return to;
}

void pithi_fused_encode_bind_avx2(struct pithi_kernels *k);
void pithi_fused_encode_bind_avx2(struct pithi_kernels *k) { k->fused_encode = fused_encode; }
