/* fused_decode_avx2.c - packed words of differences to values in one pass, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx2.h"

enum { PAIRS = 8, REACH = 66, WHOLE_LINES = 0 };

/* The first eight words of each group, then the others. */
struct words {
    __m256i half[2];
};

#include "predict/fused_decode_tmpl.h"

/* ---- Planes ----------------------------------------------------------------------------------*/

static const uint16_t ones[48] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                  0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};

/* ---- Words of up to 9 bits -------------------------------------------------------------------*/

/* The first `width` planes, 8 at most, of 16 bytes that are read; the others are 0. */
static inline __m128i load8(const uint8_t *from, const uint16_t *there) {
    return _mm_and_si128(_mm_loadu_si128((const __m128i *)from),
                         _mm_loadu_si128((const __m128i *)there));
}
/* The planes of two groups from plane `first` on, 8 at most; those that they lack are 0. */
static inline __m256i load_pair8(const uint8_t *from, const uint8_t *widths, unsigned first) {
    const unsigned a = widths[0], b = widths[1];
    const uint8_t *const p = from + 2 * first, *const q = p + 2 * (size_t)a;
    const uint16_t *const there = ones + 16 + first;
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load8(p, there - a)), load8(q, there - b),
                                   1);
}

/* Makes words of their low bytes and signs: half of each of four groups. */
static inline void put_halves(struct words *w, int half, __m256i bytes, __m256i sign) {
    w[0].half[half] = _mm256_unpacklo_epi8(bytes, sign);
    w[1].half[half] = _mm256_unpackhi_epi8(bytes, sign);
}

/* Makes two pairs of groups of up to 8 bits, at `from` and at `next`. */
ALWAYS void get_two8(const uint8_t *from, const uint8_t *next, const uint8_t *widths,
                     const uint8_t *next_widths, struct words *w) {
    const __m256i zero = _mm256_setzero_si256(), sign = _mm256_set1_epi16(1 << 8);
    __m256i x = load_pair8(from, widths, 0), y = load_pair8(next, next_widths, 0);
    x = _mm256_xor_si256(_mm256_srli_si256(x, 2), _mm256_shuffle_epi8(x, sign));
    y = _mm256_xor_si256(_mm256_srli_si256(y, 2), _mm256_shuffle_epi8(y, sign));
    transpose_two(&x, &y);
    put_halves(w, 0, x, _mm256_cmpgt_epi8(zero, x));
    put_halves(w, 1, y, _mm256_cmpgt_epi8(zero, y));
}

/* Bit 0 of the words of a group of this width. */
static inline uint64_t signs_of(const uint8_t *from, unsigned width) {
    return pithi_get16(from) & ones[16 - width];
}

/* All ones in the bytes of half of each of four groups where the bit is set: their bits are those
 * of 16-bit lanes, in order. */
static inline __m256i spread_signs(__m256i signs, int half) {
    const __m256i bit = each(UINT64_C(0x8040201008040201));
    const __m256i even = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2,
                                          2, 2, 2, 2, 2, 6, 6, 6, 6, 6, 6, 6, 6);
    const __m256i places = _mm256_add_epi8(even, _mm256_set1_epi8((char)half));
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(signs, places), bit), bit);
}

/* The same of up to 9 bits. */
ALWAYS void get_two9(const uint8_t *from, const uint8_t *next, const uint8_t *widths,
                     const uint8_t *next_widths, struct words *w) {
    const unsigned a = widths[0], b = widths[1], c = next_widths[0], d = next_widths[1];
    const __m256i signs = each(signs_of(from, a) | signs_of(from + 2 * (size_t)a, b) << 16 |
                               signs_of(next, c) << 32 | signs_of(next + 2 * (size_t)c, d) << 48);
    __m256i x = load_pair8(from, widths, 1), y = load_pair8(next, next_widths, 1);
    transpose_two(&x, &y);
    const __m256i first = spread_signs(signs, 0), second = spread_signs(signs, 1);
    put_halves(w, 0, _mm256_xor_si256(x, first), first);
    put_halves(w, 1, _mm256_xor_si256(y, second), second);
}

/* ---- Words of up to 16 bits ------------------------------------------------------------------*/

/* Planes 1 to 15 of a group of this width, turned over where the sign is set, and the sign on top,
 * of 34 bytes that are read. */
static inline __m256i load16(const uint8_t *from, unsigned width) {
    const uint16_t *const there = ones + 16 - width;
    const __m256i next = _mm256_and_si256(load256(from + 2), load256((const uint8_t *)(there + 1)));
    return _mm256_xor_si256(next, _mm256_set1_epi16((short)signs_of(from, width)));
}

static inline void get_pair16(const uint8_t *from, const uint8_t *widths, struct words *w) {
    const size_t bytes = 2 * (size_t)widths[0];
    __m256i x = load16(from, widths[0]), y = load16(from + bytes, widths[1]);
    words_of_two(&x, &y);
    *w = (struct words){{x, y}};
}

ALWAYS void get_pairs16(const uint8_t *from, const uint8_t *widths, size_t pairs, struct words *w) {
    for (size_t n = 0; n < pairs; n++, widths += 2) {
        get_pair16(from, widths, w + n);
        from += 2 * (size_t)(widths[0] + widths[1]);
    }
}

/* With an odd number of pairs the last one is made twice: there is space. */
ALWAYS void get_pairs9(const uint8_t *from, const uint8_t *widths, size_t pairs, struct words *w,
                       bool nine) {
    for (size_t n = 0; n < pairs; n += 2, w += 2) {
        const size_t more = n + 1 < pairs;
        const uint8_t *const next = from + (more ? 2 * (size_t)(widths[0] + widths[1]) : 0);
        const uint8_t *const next_widths = widths + 2 * more;
        if (nine)
            get_two9(from, next, widths, next_widths, w);
        else
            get_two8(from, next, widths, next_widths, w);
        from = next + 2 * (size_t)(next_widths[0] + next_widths[1]);
        widths = next_widths + 2;
    }
}

static __attribute__((noinline)) void get(const uint8_t *from, const uint8_t *widths,
                                          unsigned widest, size_t pairs, struct words *w) {
    if (widest > 9)
        get_pairs16(from, widths, pairs, w);
    else if (widest > 8)
        get_pairs9(from, widths, pairs, w, true);
    else
        get_pairs9(from, widths, pairs, w, false);
}

/* ---- Lanes -----------------------------------------------------------------------------------*/

static inline __m256i lanes8(const void *p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128(p)); }
static inline void lanes_of(const struct words *w, v16 *x, v16 *y) {
    const uint8_t *const p = (const uint8_t *)w;
    *x = (v16){lanes8(p), lanes8(p + 32)};
    *y = (v16){lanes8(p + 16), lanes8(p + 48)};
}

/* Sums within each lane up to each word. */
static inline __m256i lane_sums(__m256i x) {
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 2));
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 4));
    return _mm256_add_epi16(x, _mm256_slli_si256(x, 8));
}
static inline __m256i low8(__m256i x) { return _mm256_cvtepi16_epi32(_mm256_castsi256_si128(x)); }
static inline __m256i high8(__m256i x) {
    return _mm256_cvtepi16_epi32(_mm256_extracti128_si256(x, 1));
}
static inline void sums_of(const struct words *w, v16 *x, v16 *y) {
    const __m256i last = _mm256_set1_epi16(15 << 8 | 14);
    const __m256i a = lane_sums(w->half[0]);
    const __m256i b = _mm256_add_epi16(lane_sums(w->half[1]), _mm256_shuffle_epi8(a, last));
    *x = (v16){low8(a), low8(b)};
    *y = (v16){high8(a), high8(b)};
}

void pithi_fused_decode_bind_avx2(struct pithi_kernels *k);
void pithi_fused_decode_bind_avx2(struct pithi_kernels *k) { k->fused_decode = fused_decode; }
