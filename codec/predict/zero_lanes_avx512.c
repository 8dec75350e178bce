/* zero_lanes_avx512.c - bits of zero maps in 16 lanes, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "kernels.h"

enum { LANES = 16, LOG2_SLOTS = PITHI_RANS_LOG2_SLOTS, SLOTS = PITHI_RANS_SLOTS };
enum { WORDS_BYTES = 2 * LANES };

static inline __m512i all(uint32_t x) { return _mm512_set1_epi32((int)x); }

/* What 16 contexts without their last bit, that to the left, look up: chances where it is 0, and
 * where it is 1. */
struct found {
    __m512i zero, one;
};

static inline struct found look_up(const uint32_t table[PITHI_ZERO_AROUND / 2], __m128i context) {
    const __m512i index = _mm512_cvtepu8_epi32(context);
    __m512i part[4];
    for (unsigned k = 0; k < 4; k++)
        part[k] = _mm512_permutex2var_epi32(_mm512_loadu_si512(table + 32 * k), index,
                                            _mm512_loadu_si512(table + 32 * k + 16));
    const __mmask16 odd = _mm_test_epi8_mask(context, _mm_set1_epi8(32)),
                    upper = _mm_test_epi8_mask(context, _mm_set1_epi8(64));
    const __m512i pair =
        _mm512_mask_blend_epi32(upper, _mm512_mask_blend_epi32(odd, part[0], part[1]),
                                _mm512_mask_blend_epi32(odd, part[2], part[3]));
    return (struct found){_mm512_and_si512(pair, all(0xFFFF)), _mm512_srli_epi32(pair, 16)};
}

/* Returns contexts without their last bit. */
static inline __m128i rest_of(__m128i context) {
    return _mm_and_si128(_mm_srli_epi16(context, 1), _mm_set1_epi8(0x7F));
}

/* The chances for either bit to the left are looked up before that bit is known. */
static const uint8_t *decode(const struct pithi_zero_run *r, uint32_t *state, const uint8_t *words,
                             const uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_decode_c(r, state, words, end);
    const __mmask16 active = (__mmask16)((1u << r->active) - 1);
    const __m128i one = _mm_set1_epi8(1);
    __m128i left = _mm_setzero_si128(), further = left;
    if (r->x > 0) left = _mm_loadu_si128((const __m128i *)(const void *)(r->bits - LANES));
    if (r->x > 1) further = _mm_loadu_si128((const __m128i *)(const void *)(r->bits - 2 * LANES));
    __mmask16 is = _mm_test_epi8_mask(left, one);
    __m512i x = _mm512_loadu_si512(state);
    size_t i = 0;
    for (; i < r->steps && end - words >= WORDS_BYTES; i++) {
        const __m128i around =
            _mm_loadu_si128((const __m128i *)(const void *)(r->around + LANES * i));
        const struct found found =
            look_up((*r->chances)[(r->x + i) & 1],
                    rest_of(_mm_or_si128(around, _mm_slli_epi16(further, 4))));
        const __m512i chance = _mm512_mask_blend_epi32(is, found.zero, found.one);
        const __m512i slot = _mm512_and_si512(x, all(SLOTS - 1));
        is = _mm512_mask_cmplt_epu32_mask(active, slot, chance);
        const __m512i f = _mm512_mask_sub_epi32(chance, _mm512_knot(is), all(SLOTS), chance);
        const __m512i k = _mm512_mask_sub_epi32(slot, _mm512_knot(is), slot, chance);
        const __m512i next =
            _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(x, LOG2_SLOTS)), k);
        const __mmask16 low = _mm512_mask_cmplt_epu32_mask(active, next, all(PITHI_RANS_LOW));
        const __m512i taken = _mm512_maskz_expand_epi32(
            low, _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)words)));
        x = _mm512_mask_or_epi32(next, low, _mm512_slli_epi32(next, 16), taken);
        words += 2 * (size_t)_mm_popcnt_u32(low);
        further = left;
        left = _mm_maskz_mov_epi8(is, one);
        _mm_storeu_si128((__m128i *)(void *)(r->bits + LANES * i), left);
    }
    _mm512_mask_storeu_epi32(state, active, x);
    if (i == r->steps) return words;
    const struct pithi_zero_run rest = pithi_zero_rest(r, i);
    return pithi_zero_decode_c(&rest, state, words, end);
}

/* Returns x / f, or 1 less, for x < 2^20 f: each of three roundings toward 0 takes less than 2^-23
 * of a quotient below 2^20. */
static inline __m512i quotient(__m512i x, __m512i f) {
    enum { DOWN = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
    const __m512 inverse = _mm512_div_round_ps(_mm512_set1_ps(1.0f), _mm512_cvtepu32_ps(f), DOWN);
    return _mm512_cvttps_epu32(
        _mm512_mul_round_ps(_mm512_cvt_roundepu32_ps(x, DOWN), inverse, DOWN));
}

/* Stores the low halves of the lanes of the mask, the last lane's last: turned to the end of a
 * vector, as stores of some lanes only are slow on some machines. */
static inline uint8_t *store_words(__m512i x, __mmask16 mask, uint8_t *end) {
    const unsigned count = (unsigned)_mm_popcnt_u32(mask);
    const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i turned = _mm512_permutexvar_epi32(_mm512_add_epi32(number, all(count)),
                                                    _mm512_maskz_compress_epi32(mask, x));
    _mm256_storeu_si256((__m256i *)(void *)(end - WORDS_BYTES), _mm512_cvtepi32_epi16(turned));
    return end - 2 * (size_t)count;
}

static uint8_t *encode(const struct pithi_zero_run *r, uint32_t *state, uint8_t *begin,
                       uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_encode_c(r, state, begin, end);
    const __mmask16 active = (__mmask16)((1u << r->active) - 1);
    const __m128i one = _mm_set1_epi8(1);
    __m512i x = _mm512_loadu_si512(state);
    size_t i = r->steps;
    for (; i && end - begin >= WORDS_BYTES; i--) {
        const size_t at = LANES * (i - 1);
        const __m128i around = _mm_loadu_si128((const __m128i *)(const void *)(r->around + at));
        const __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)(r->bits + at));
        const __mmask16 left = _mm_test_epi8_mask(around, one), is = _mm_test_epi8_mask(bits, one);
        const struct found found = look_up((*r->chances)[(r->x + i - 1) & 1], rest_of(around));
        const __m512i chance = _mm512_mask_blend_epi32(left, found.zero, found.one);
        const __m512i f = _mm512_mask_sub_epi32(chance, _mm512_knot(is), all(SLOTS), chance);
        const __m512i first = _mm512_maskz_mov_epi32(_mm512_knot(is), chance);
        const __mmask16 high =
            _mm512_mask_cmpge_epu32_mask(active, _mm512_srli_epi32(x, 32 - LOG2_SLOTS), f);
        end = store_words(x, high, end);
        const __m512i shorter = _mm512_mask_srli_epi32(x, high, x, 16);
        const __m512i q = quotient(shorter, f);
        const __m512i over = _mm512_sub_epi32(shorter, _mm512_mullo_epi32(q, f));
        const __m512i next =
            _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(q, LOG2_SLOTS), first), over);
        x = _mm512_mask_add_epi32(next, _mm512_cmpge_epu32_mask(over, f), next,
                                  _mm512_sub_epi32(all(SLOTS), f));
    }
    _mm512_mask_storeu_epi32(state, active, x);
    struct pithi_zero_run rest = *r;
    rest.steps = i;
    return i ? pithi_zero_encode_c(&rest, state, begin, end) : end;
}

void pithi_zero_lanes_bind_avx512(struct pithi_kernels *k);
void pithi_zero_lanes_bind_avx512(struct pithi_kernels *k) {
    k->zero_encode = encode;
    k->zero_decode = decode;
}
