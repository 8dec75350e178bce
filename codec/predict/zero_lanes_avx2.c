/* zero_lanes_avx2.c - bits of zero maps in 16 lanes, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "common/rans_avx2.h"
#include "kernels.h"

enum { LANES = 16, LOG2_SLOTS = PITHI_RANS_LOG2_SLOTS, SLOTS = PITHI_RANS_SLOTS };
enum { WORDS_BYTES = 2 * LANES };

static inline __m128i load16(const uint8_t *from) {
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

/* Returns half h of 16 bytes in lanes of their own. */
static inline __m256i half_of(__m128i bytes, unsigned h) {
    return _mm256_cvtepu8_epi32(h ? _mm_srli_si128(bytes, 8) : bytes);
}

/* Returns 0 and 1 as lanes of no and of all ones. */
static inline __m256i mask_of(__m256i bits) {
    return _mm256_sub_epi32(_mm256_setzero_si256(), bits);
}

static void used_lanes(__m256i used[2], unsigned active) {
    const __m256i all = _mm256_set1_epi32((int)active);
    used[0] = _mm256_cmpgt_epi32(all, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    used[1] = _mm256_cmpgt_epi32(all, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
}

static void states_load(__m256i x[2], const uint32_t *state) {
    for (unsigned h = 0; h < 2; h++)
        x[h] = _mm256_loadu_si256((const __m256i *)(const void *)(state + 8 * h));
}

static void states_store(uint32_t *state, const __m256i used[2], const __m256i x[2]) {
    for (unsigned h = 0; h < 2; h++)
        _mm256_maskstore_epi32((int *)(void *)(state + 8 * h), used[h], x[h]);
}

/* Returns the chances of 8 contexts without the bit to the left, which is a lane of all ones or
 * none in `left`. */
static inline __m256i look_up(const uint32_t *chances, __m256i rest, __m256i left) {
    const __m256i pair = _mm256_i32gather_epi32((const int *)(const void *)chances, rest, 4);
    return _mm256_blendv_epi8(_mm256_and_si256(pair, _mm256_set1_epi32(0xFFFF)),
                              _mm256_srli_epi32(pair, 16), left);
}

/* Returns the frequency of a bit. */
static inline __m256i frequency_of(__m256i chance, __m256i is) {
    return _mm256_blendv_epi8(_mm256_sub_epi32(_mm256_set1_epi32(SLOTS), chance), chance, is);
}

static const uint8_t *decode(const struct pithi_zero_run *r, uint32_t *state, const uint8_t *words,
                             const uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_decode_c(r, state, words, end);
    __m256i x[2], used[2], left[2];
    __m128i before = _mm_setzero_si128(), further = before;
    if (r->x > 0) before = load16(r->bits - LANES);
    if (r->x > 1) further = load16(r->bits - 2 * LANES);
    used_lanes(used, r->active);
    states_load(x, state);
    for (unsigned h = 0; h < 2; h++) left[h] = mask_of(half_of(before, h));
    size_t i = 0;
    for (; i < r->steps && end - words >= WORDS_BYTES; i++) {
        const uint32_t *const chances = (*r->chances)[(r->x + i) & 1];
        const __m128i rest = _mm_srli_epi16(
            _mm_or_si128(load16(r->around + LANES * i), _mm_slli_epi16(further, 4)), 1);
        for (unsigned h = 0; h < 2; h++) {
            const __m256i chance = look_up(chances, half_of(rest, h), left[h]);
            const __m256i slot = _mm256_and_si256(x[h], _mm256_set1_epi32(SLOTS - 1));
            const __m256i is = _mm256_and_si256(used[h], _mm256_cmpgt_epi32(chance, slot));
            const __m256i k = _mm256_sub_epi32(slot, _mm256_andnot_si256(is, chance));
            const __m256i next =
                _mm256_mullo_epi32(frequency_of(chance, is), _mm256_srli_epi32(x[h], LOG2_SLOTS));
            x[h] = renormalise(_mm256_add_epi32(next, k), used[h], &words);
            left[h] = is;
        }
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(left[0], left[1]), 0xD8);
        further = before;
        before = _mm_and_si128(
            _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)),
            _mm_set1_epi8(1));
        _mm_storeu_si128((__m128i *)(void *)(r->bits + LANES * i), before);
    }
    states_store(state, used, x);
    if (i == r->steps) return words;
    const struct pithi_zero_run rest = pithi_zero_rest(r, i);
    return pithi_zero_decode_c(&rest, state, words, end);
}

static uint8_t *encode(const struct pithi_zero_run *r, uint32_t *state, uint8_t *begin,
                       uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_encode_c(r, state, begin, end);
    __m256i x[2], used[2];
    used_lanes(used, r->active);
    states_load(x, state);
    size_t i = r->steps;
    for (; i && end - begin >= WORDS_BYTES; i--) {
        const uint32_t *const chances = (*r->chances)[(r->x + i - 1) & 1];
        const __m128i around = load16(r->around + LANES * (i - 1));
        const __m128i bits = load16(r->bits + LANES * (i - 1));
        for (unsigned h = 2; h--;) {
            const __m256i context = half_of(around, h), is = mask_of(half_of(bits, h));
            const __m256i left = mask_of(_mm256_and_si256(context, _mm256_set1_epi32(1)));
            const __m256i chance = look_up(chances, _mm256_srli_epi32(context, 1), left);
            const __m256i f = frequency_of(chance, is);
            const __m256i full = _mm256_andnot_si256(
                _mm256_cmpgt_epi32(f, _mm256_srli_epi32(x[h], 32 - LOG2_SLOTS)), used[h]);
            end = store_words(x[h], (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(full)), end);
            __m256i k;
            const __m256i q =
                divide(_mm256_blendv_epi8(x[h], _mm256_srli_epi32(x[h], 16), full), f, &k);
            x[h] = _mm256_add_epi32(_mm256_slli_epi32(q, LOG2_SLOTS),
                                    _mm256_add_epi32(_mm256_andnot_si256(is, chance), k));
        }
    }
    states_store(state, used, x);
    struct pithi_zero_run rest = *r;
    rest.steps = i;
    return i ? pithi_zero_encode_c(&rest, state, begin, end) : end;
}

void pithi_zero_lanes_bind_avx2(struct pithi_kernels *k);
void pithi_zero_lanes_bind_avx2(struct pithi_kernels *k) {
    k->zero_encode = encode;
    k->zero_decode = decode;
}
