/* zero_lanes_avx512.c - bits of zero maps in 16 lanes, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "codec.h"

enum { LANES = 16, LOG2_SLOTS = PITHI_RANS_LOG2_SLOTS, SLOTS = PITHI_RANS_SLOTS };
enum { WORDS_BYTES = 2 * LANES };

static inline __m512i all(uint32_t x) { return _mm512_set1_epi32((int)x); }

/* Returns the chances of 16 contexts of which the last bit is told by the table. */
static inline __m512i look_up(const uint16_t table[PITHI_ZERO_AROUND / 2], __m256i context) {
    const __m512i index = _mm512_castsi256_si512(context);
    const __m512i low =
        _mm512_permutex2var_epi16(_mm512_loadu_si512(table), index, _mm512_loadu_si512(table + 32));
    const __m512i high = _mm512_permutex2var_epi16(_mm512_loadu_si512(table + 64), index,
                                                   _mm512_loadu_si512(table + 96));
    const __mmask16 upper = _mm256_test_epi16_mask(context, _mm256_set1_epi16(64));
    return _mm512_cvtepu16_epi32(
        _mm256_mask_blend_epi16(upper, _mm512_castsi512_si256(low), _mm512_castsi512_si256(high)));
}

/* Returns contexts without their last bit. */
static inline __m256i rest_of(__m128i context) {
    return _mm256_srli_epi16(_mm256_cvtepu8_epi16(context), 1);
}

/* What is left of a run, for scalar C. */
static struct pithi_zero_run rest_from(const struct pithi_zero_run *r, size_t step) {
    struct pithi_zero_run rest = *r;
    rest.around += step * LANES;
    rest.bits += step * LANES;
    rest.steps -= step;
    rest.x += step;
    return rest;
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
        const uint16_t(*const chances)[PITHI_ZERO_AROUND / 2] = (*r->chances)[(r->x + i) & 1];
        const __m128i around =
            _mm_loadu_si128((const __m128i *)(const void *)(r->around + LANES * i));
        const __m256i rest = rest_of(_mm_or_si128(around, _mm_slli_epi16(further, 4)));
        const __m512i chance =
            _mm512_mask_blend_epi32(is, look_up(chances[0], rest), look_up(chances[1], rest));
        const __m512i slot = _mm512_and_si512(x, all(SLOTS - 1));
        is = _mm512_mask_cmplt_epu32_mask(active, slot, chance);
        const __m512i f = _mm512_mask_sub_epi32(chance, _mm512_knot(is), all(SLOTS), chance);
        const __m512i k = _mm512_mask_sub_epi32(slot, _mm512_knot(is), slot, chance);
        const __m512i next =
            _mm512_add_epi32(_mm512_mullo_epi32(f, _mm512_srli_epi32(x, LOG2_SLOTS)), k);
        const __mmask16 low = _mm512_mask_cmplt_epu32_mask(active, next, all(PITHI_RANS_LOW));
        const __m512i taken = _mm512_maskz_expand_epi32(
            low, _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)words)));
        x = _mm512_mask_mov_epi32(x, active, next);
        x = _mm512_mask_or_epi32(x, low, _mm512_slli_epi32(next, 16), taken);
        words += 2 * (size_t)_mm_popcnt_u32(low);
        further = left;
        left = _mm_maskz_mov_epi8(is, one);
        _mm_storeu_si128((__m128i *)(void *)(r->bits + LANES * i), left);
    }
    _mm512_storeu_si512(state, x);
    if (i == r->steps) return words;
    const struct pithi_zero_run rest = rest_from(r, i);
    return pithi_zero_decode_c(&rest, state, words, end);
}

/* Divides x < 2^20 f exactly: the quotient of rounded numbers is off by one at most. */
static inline __m512i divide(__m512i x, __m512i f, __m512i *rest) {
    const __m512 divisor = _mm512_cvtepu32_ps(f);
    const __m512i about = _mm512_cvttps_epu32(_mm512_div_ps(_mm512_cvtepu32_ps(x), divisor));
    const __m512i over = _mm512_sub_epi32(x, _mm512_mullo_epi32(about, f));
    const __mmask16 less = _mm512_movepi32_mask(over);
    const __m512i more = _mm512_mask_add_epi32(over, less, over, f);
    const __mmask16 beyond = _mm512_cmpge_epu32_mask(more, f);
    *rest = _mm512_mask_sub_epi32(more, beyond, more, f);
    const __m512i down = _mm512_mask_sub_epi32(about, less, about, all(1));
    return _mm512_mask_add_epi32(down, beyond, down, all(1));
}

static uint8_t *encode(const struct pithi_zero_run *r, uint32_t *state, uint8_t *begin,
                       uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_encode_c(r, state, begin, end);
    const __mmask16 active = (__mmask16)((1u << r->active) - 1);
    const __m128i one = _mm_set1_epi8(1);
    __m512i x = _mm512_loadu_si512(state);
    size_t i = r->steps;
    for (; i && end - begin >= WORDS_BYTES; i--) {
        const uint16_t(*const chances)[PITHI_ZERO_AROUND / 2] = (*r->chances)[(r->x + i - 1) & 1];
        const size_t at = LANES * (i - 1);
        const __m128i around = _mm_loadu_si128((const __m128i *)(const void *)(r->around + at));
        const __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)(r->bits + at));
        const __mmask16 left = _mm_test_epi8_mask(around, one), is = _mm_test_epi8_mask(bits, one);
        const __m256i rest = rest_of(around);
        const __m512i chance =
            _mm512_mask_blend_epi32(left, look_up(chances[0], rest), look_up(chances[1], rest));
        const __m512i f = _mm512_mask_sub_epi32(chance, _mm512_knot(is), all(SLOTS), chance);
        const __m512i first = _mm512_maskz_mov_epi32(_mm512_knot(is), chance);
        const __mmask16 high =
            _mm512_mask_cmpge_epu32_mask(active, _mm512_srli_epi32(x, 32 - LOG2_SLOTS), f);
        end -= 2 * (size_t)_mm_popcnt_u32(high);
        _mm256_mask_storeu_epi16(end, (__mmask16)((1u << _mm_popcnt_u32(high)) - 1),
                                 _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(high, x)));
        __m512i k;
        const __m512i shorter = _mm512_mask_srli_epi32(x, high, x, 16);
        const __m512i q = divide(shorter, f, &k);
        const __m512i next =
            _mm512_add_epi32(_mm512_slli_epi32(q, LOG2_SLOTS), _mm512_add_epi32(first, k));
        x = _mm512_mask_mov_epi32(x, active, next);
    }
    _mm512_storeu_si512(state, x);
    struct pithi_zero_run rest = *r;
    rest.steps = i;
    return i ? pithi_zero_encode_c(&rest, state, begin, end) : end;
}

void pithi_zero_lanes_bind_avx512(struct pithi_kernels *k);
void pithi_zero_lanes_bind_avx512(struct pithi_kernels *k) {
    k->zero_encode = encode;
    k->zero_decode = decode;
}
