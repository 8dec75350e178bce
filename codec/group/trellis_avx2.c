/* trellis_avx2.c - trellis-coded groups for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx2.h"
#include "group/trellis_value.h"
#include "kernels.h"

typedef __m256i wide;

static inline wide w_set(uint16_t x) { return _mm256_set1_epi16((short)x); }
static inline wide w_load(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void w_store(uint16_t *p, wide x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline wide w_and(wide x, wide y) { return _mm256_and_si256(x, y); }
static inline wide w_xor(wide x, wide y) { return _mm256_xor_si256(x, y); }
static inline wide w_add(wide x, wide y) { return _mm256_add_epi16(x, y); }
static inline wide w_sub(wide x, wide y) { return _mm256_sub_epi16(x, y); }
static inline wide w_adds(wide x, wide y) { return _mm256_adds_epu16(x, y); }
static inline wide w_mul(wide x, wide y) { return _mm256_mullo_epi16(x, y); }
static inline wide w_min(wide x, wide y) { return _mm256_min_epu16(x, y); }
static inline wide w_equal(wide x, wide y) { return _mm256_cmpeq_epi16(x, y); }
static inline wide w_choose(wide m, wide a, wide b) { return _mm256_blendv_epi8(b, a, m); }
static inline wide w_shr(wide x, int n) { return _mm256_srli_epi16(x, n); }
static inline wide w_shl(wide x, int n) { return _mm256_slli_epi16(x, n); }
static inline wide w_abs(wide x) { return _mm256_abs_epi16(x); }
static inline wide w_sign(wide x) { return _mm256_srai_epi16(x, 15); }
static inline wide w_table(const uint8_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
/* An upper byte with its highest bit gives 0. */
static inline wide w_index(wide x) { return _mm256_or_si256(x, w_set(0x8000)); }
static inline wide w_look(wide table, wide index) { return _mm256_shuffle_epi8(table, index); }

typedef __m128i eight;
static inline eight e_load(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void e_store(uint16_t *p, eight x) { _mm_storeu_si128((__m128i *)p, x); }
static inline eight e_low(eight x, eight y) { return _mm_unpacklo_epi16(x, y); }
static inline eight e_high(eight x, eight y) { return _mm_unpackhi_epi16(x, y); }

/* Joins neighbours three times; codes of 3 bits are then 24 bits of each half. */
static inline void put_codes(uint8_t *to, const uint16_t *row, uint16_t flip, unsigned bits) {
    const __m128i four = _mm_set1_epi16(15), flips = _mm_set1_epi16((short)flip);
    const __m128i a = _mm_and_si128(_mm_loadu_si128((const __m128i *)row), four);
    const __m128i b = _mm_and_si128(_mm_loadu_si128((const __m128i *)(row + 8)), four);
    const __m128i codes = _mm_packus_epi16(_mm_xor_si128(a, flips), _mm_xor_si128(b, flips));
    const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16((short)(1 | 1 << bits << 8)));
    const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(1 | 1 << 2 * bits << 16));
    if (bits == 4) {
        _mm_storel_epi64((__m128i *)to, _mm_packus_epi32(fours, fours));
    } else if (bits == 2) {
        const int all = _mm_cvtsi128_si32(_mm_shuffle_epi8(fours, _mm_set1_epi32(0x0C080400)));
        memcpy(to, &all, 4);
    } else {
        const __m128i eights = _mm_or_si128(fours, _mm_srli_epi64(fours, 20));
        const uint64_t all = (uint64_t)_mm_cvtsi128_si64(_mm_shuffle_epi8(
            eights, _mm_setr_epi8(0, 1, 2, 8, 9, 10, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)));
        const uint16_t rest = (uint16_t)(all >> 32);
        memcpy(to, &all, 4);
        memcpy(to + 4, &rest, 2);
    }
}

/* Codes become bytes, since the levels of 32 of these take as many steps as those of 8 windows. */
#define OWN_LEVELS

struct decoder {
    __m256i low, high; /* bytes of the levels by their numbers; with 4 bits of the upper ones */
    /* Of 32 codes all ones where a first, second, third one before them is of their sequence: of
     * the first 16 begin[0] where these begin one, begin[1] where the others do, too. */
    __m256i begin[2][3];
    __m256i last; /* the 32 codes before those that come next; any where these begin a sequence */
};

static void decoder_make(struct decoder *d, uint32_t bits) {
    struct pithi_trellis t;
    uint8_t low[16], high[16], begin[32];
    pithi_trellis_init(&t, bits);
    for (int i = 0; i < 16; i++) {
        const uint16_t level = (uint16_t)t.level[bits == 4 ? 16 + i : i % t.levels];
        low[i] = (uint8_t)level;
        high[i] = (uint8_t)(level >> 8);
    }
    d->low = w_table(low);
    d->high = w_table(high);
    for (int both = 0; both < 2; both++)
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < 32; i++) begin[i] = (both ? i % 16 : i) > k ? 0xFF : 0;
            d->begin[both][k] = load256(begin);
        }
    d->last = _mm256_setzero_si256();
}

/* 32 codes as a byte each: lanes of two codes of 4 bits are parted once, of four others twice. */
static inline __m256i spread_codes(const uint8_t *from, unsigned bits) {
    const __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)from);
    if (bits == 4) {
        const __m256i x = _mm256_cvtepu8_epi16(codes);
        return w_and(_mm256_or_si256(x, w_shl(x, 4)), w_set(0x0F0F));
    }
    __m256i x, part;
    if (bits == 2) {
        x = _mm256_cvtepu8_epi32(codes);
        part = _mm256_set1_epi32(0x000F000F);
    } else {
        const __m256i pick =
            _mm256_setr_epi8(0, 1, -1, -1, 1, 2, -1, -1, 3, 4, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1,
                             7, 8, -1, -1, 9, 10, -1, -1, 10, 11, -1, -1);
        x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(codes), pick);
        x = _mm256_srlv_epi32(x, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
        part = _mm256_set1_epi32(0x003F003F);
    }
    x = w_and(_mm256_or_si256(x, _mm256_slli_epi32(x, 16 - 2 * (int)bits)), part);
    x = _mm256_or_si256(x, _mm256_slli_epi32(x, 8 - (int)bits));
    return w_and(x, _mm256_set1_epi8((char)((1 << bits) - 1)));
}

/* No level is 0, so that a 64th of it is another exponent. */
static inline __m256i floats_of(__m128i levels) {
    const __m256i x = I(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(levels)));
    return _mm256_sub_epi32(x, _mm256_set1_epi32(6 << 23));
}
static inline __m128i half_of(__m256i x, int i) {
    return i ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x);
}
/* `begin`: masks, where codes begin a sequence; else NULL. */
static inline void levels_of_32(v16 levels[2], struct decoder *d, const uint8_t *codes,
                                const __m256i *begin, unsigned bits) {
    const __m256i one = _mm256_set1_epi8(1), own = spread_codes(codes, bits);
    const __m256i before = _mm256_permute2x128_si256(d->last, own, 0x21);
    __m256i first = _mm256_alignr_epi8(own, before, 15);
    __m256i second = _mm256_alignr_epi8(own, before, 14);
    __m256i third = _mm256_alignr_epi8(own, before, 13);
    d->last = own;
    if (begin) {
        first = w_and(first, begin[0]);
        second = w_and(second, begin[1]);
        third = w_and(third, begin[2]);
    }
    const __m256i upper = w_xor(own, w_and(w_xor(first, third), one));
    const __m256i number = _mm256_add_epi8(_mm256_add_epi8(upper, upper), w_and(second, one));
    __m256i low, high;
    if (bits < 4) {
        low = _mm256_shuffle_epi8(d->low, number);
        high = _mm256_shuffle_epi8(d->high, number);
    } else { /* lower levels are the negative ones of the upper */
        high = _mm256_cmpgt_epi8(_mm256_set1_epi8(16), number);
        const __m256i index = w_and(w_xor(number, high), _mm256_set1_epi8(15));
        low = _mm256_sub_epi8(w_xor(_mm256_shuffle_epi8(d->low, index), high), high);
    }
    const __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
    for (int i = 0; i < 2; i++)
        levels[i] = (v16){floats_of(half_of(a, i)), floats_of(half_of(b, i))};
}
static inline void unit_levels(v16 levels[4], struct decoder *d, const uint8_t *codes, size_t k,
                               size_t sequence, unsigned bits) {
    const __m256i *const begin = d->begin[sequence == 16];
    for (size_t j = 0; j < 4; j += 2)
        levels_of_32(levels + j, d, codes + 2 * bits * j,
                     (k + 16 * j) & (sequence - 1) ? NULL : begin, bits);
}

#include "group/trellis_tmpl.h"

void pithi_trellis_bind_avx2(struct pithi_kernels *k);
void pithi_trellis_bind_avx2(struct pithi_kernels *k) {
    k->trellis_encode = trellis_encode;
    k->trellis_decode = trellis_decode;
}
