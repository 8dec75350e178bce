/* fused_decode_avx2.c - packed words of differences to values in one pass, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx2.h"

enum { PAIRS = 8, REACH = 66, WHOLE_LINES = 0 };

struct words {
    __m256i a, b;
};

#include "predict/fused_decode_tmpl.h"

/* The 16 bits of a difference have the sign on top, and below it planes 1 to 15, which are turned
 * over where it is set. All planes take the place of the one before them. */

/* Differences of words of 8 bits: each half has the planes of a group. */
static inline __m256i differences8(__m256i planes) {
    const __m256i signs =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
    const __m256i next = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(2, 4, 6, 8, 10, 12, 14, -1, 3, 5, 7, 9, 11, 13, 15, -1));
    return transpose_bits(
        _mm256_xor_si256(_mm256_shuffle_epi8(planes, next), _mm256_shuffle_epi8(planes, signs)));
}

static const uint16_t ones[48] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                  0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};

/* The first `width` planes, 8 at most, of 16 bytes that are read; the others are 0. */
static inline __m128i load8(const uint8_t *from, unsigned width) {
    return _mm_and_si128(_mm_loadu_si128((const __m128i *)from),
                         _mm_loadu_si128((const __m128i *)(ones + 16 - width)));
}

/* Differences of words of `width` bits, of 34 bytes that are read. */
static inline __m256i differences16(const uint8_t *from, unsigned width) {
    const uint16_t *const there = ones + 16 - width;
    const __m256i next = _mm256_and_si256(load256(from + 2), load256((const uint8_t *)(there + 1)));
    const __m256i sign = _mm256_set1_epi16((short)(pithi_get16(from) & there[0]));
    return words_of_planes(_mm256_xor_si256(next, sign));
}

static __attribute__((noinline)) void get(const uint8_t *from, const uint8_t *widths,
                                          unsigned widest, size_t pairs, struct words *w) {
    if (widest <= 8) {
        for (size_t n = 0; n < pairs; n++) {
            const unsigned a = widths[2 * n], b = widths[2 * n + 1];
            const __m128i first = load8(from, a), second = load8(from + 2 * (size_t)a, b);
            const __m256i x =
                differences8(_mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1));
            w[n] = (struct words){_mm256_cvtepi8_epi16(_mm256_castsi256_si128(x)),
                                  _mm256_cvtepi8_epi16(_mm256_extracti128_si256(x, 1))};
            from += 2 * (size_t)(a + b);
        }
        return;
    }
    for (size_t n = 0; n < pairs; n++) {
        const unsigned a = widths[2 * n], b = widths[2 * n + 1];
        w[n] = (struct words){differences16(from, a), differences16(from + 2 * (size_t)a, b)};
        from += 2 * (size_t)(a + b);
    }
}

static inline __m256i lanes8(const void *p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128(p)); }
static inline void lanes_of(const struct words *w, v16 *x, v16 *y) {
    const uint8_t *const p = (const uint8_t *)w;
    *x = (v16){lanes8(p), lanes8(p + 16)};
    *y = (v16){lanes8(p + 32), lanes8(p + 48)};
}

static inline v16 sums16(__m256i x) {
    const __m256i last = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15));
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 2));
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 8));
    x = _mm256_add_epi16(x, _mm256_shuffle_epi8(_mm256_permute2x128_si256(x, x, 0x08), last));
    return (v16){_mm256_cvtepi16_epi32(_mm256_castsi256_si128(x)),
                 _mm256_cvtepi16_epi32(_mm256_extracti128_si256(x, 1))};
}
static inline void sums_of(const struct words *w, v16 *x, v16 *y) {
    *x = sums16(w->a);
    *y = sums16(w->b);
}

void pithi_fused_decode_bind_avx2(struct pithi_kernels *k);
void pithi_fused_decode_bind_avx2(struct pithi_kernels *k) { k->fused_decode = fused_decode; }
