/* fused_avx2.c - values to packed words of differences and back, in one pass each, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx2.h"

enum { PAIRS = 8, UNPACK_REACH = 66, WHOLE_LINES = 0 };

/* The first eight words of each group, then the others: each lane has half of them. */
struct words {
    __m256i half[2];
};

#include "predict/fused_tmpl.h"

/* ---- Encoding ---------------------------------------------------------------------------------*/

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

static __attribute__((noinline)) uint8_t *pack(const struct words *w, size_t pairs, uint8_t *widths,
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

/* ---- Decoding ---------------------------------------------------------------------------------*/

/* Which planes are there: all from 16 on less the width. */
static const uint16_t ones[48] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                  0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};

/* ---- Decoding: words of up to 9 bits ----------------------------------------------------------*/

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

/* ---- Decoding: words of up to 16 bits ---------------------------------------------------------*/

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

static __attribute__((noinline)) void unpack(const uint8_t *from, const uint8_t *widths,
                                             unsigned widest, size_t pairs, struct words *w) {
    if (widest > 9)
        get_pairs16(from, widths, pairs, w);
    else if (widest > 8)
        get_pairs9(from, widths, pairs, w, true);
    else
        get_pairs9(from, widths, pairs, w, false);
}

/* ---- Decoding: lanes --------------------------------------------------------------------------*/

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

void pithi_fused_bind_avx2(struct pithi_kernels *k);
void pithi_fused_bind_avx2(struct pithi_kernels *k) {
    k->fused_encode = fused_encode;
    k->fused_decode = fused_decode;
}
