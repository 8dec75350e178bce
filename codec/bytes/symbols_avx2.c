/* symbols_avx2.c - words cut in symbols and low bits, and joined, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "kernels.h"

enum { LANES = 8, BATCH = 4 * LANES };

static inline __m256i load(const void *from) { return _mm256_loadu_si256(from); }
static inline void store(void *to, __m256i x) { _mm256_storeu_si256(to, x); }

/* Makes bytes of the numbers in four vectors. Packing takes halves of 128 bits: of vectors a, b, c,
 * d it makes a0 b0 c0 d0 a1 b1 c1 d1. */
static inline __m256i in_order(const __m256i s[4]) {
    return _mm256_permutevar8x32_epi32(
        _mm256_packus_epi16(_mm256_packus_epi32(s[0], s[1]), _mm256_packus_epi32(s[2], s[3])),
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static size_t cut(const uint32_t *words, size_t count, unsigned low, uint8_t *symbols,
                  uint32_t *bits) {
    const size_t whole = count / BATCH * BATCH;
    const __m128i shift = _mm_cvtsi32_si128((int)low);
    const __m256i mask = _mm256_set1_epi32((int)((1u << low) - 1));
    const __m256i escape = _mm256_set1_epi32(PITHI_SYMBOLS_ESCAPE);
    size_t escapes = 0;
    for (size_t i = 0; i < whole; i += BATCH) {
        __m256i s[4];
        for (unsigned k = 0; k < 4; k++) {
            const __m256i word = load(words + i + LANES * k);
            s[k] = _mm256_min_epu32(_mm256_srl_epi32(word, shift), escape);
            if (low) store(bits + i + LANES * k, _mm256_and_si256(word, mask));
        }
        const __m256i bytes = in_order(s);
        const __m256i found = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(-1));
        escapes += (size_t)_mm_popcnt_u32((unsigned)_mm256_movemask_epi8(found));
        store(symbols + i, bytes);
    }
    return escapes +
           pithi_symbols_cut_c(words + whole, count - whole, low, symbols + whole, bits + whole);
}

static void join(const uint8_t *symbols, size_t count, unsigned low, uint32_t *words) {
    const size_t whole = count / LANES * LANES;
    const __m128i shift = _mm_cvtsi32_si128((int)low);
    for (size_t i = 0; i < whole; i += LANES) {
        const __m128i s = _mm_loadl_epi64((const __m128i *)(const void *)(symbols + i));
        __m256i word = _mm256_cvtepu8_epi32(s);
        if (low) word = _mm256_or_si256(_mm256_sll_epi32(word, shift), load(words + i));
        store(words + i, word);
    }
    pithi_symbols_join_c(symbols + whole, count - whole, low, words + whole);
}

/* As scalar C: the exponent of a float tells, which is negative where a word has 32 bits. */
static __m256i lengths_of(__m256i words) {
    const __m256i top = _mm256_andnot_si256(_mm256_srli_epi32(words, 1), words);
    const __m256i bits = _mm256_castps_si256(_mm256_cvtepi32_ps(top));
    const __m256i length = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(126));
    return _mm256_min_epu32(_mm256_max_epi32(length, _mm256_setzero_si256()),
                            _mm256_set1_epi32(32));
}

static void lengths(const uint32_t *words, size_t count, uint8_t *to) {
    const size_t whole = count / BATCH * BATCH;
    for (size_t i = 0; i < whole; i += BATCH) {
        __m256i s[4];
        for (unsigned k = 0; k < 4; k++) s[k] = lengths_of(load(words + i + LANES * k));
        store(to + i, in_order(s));
    }
    pithi_symbols_lengths_c(words + whole, count - whole, to + whole);
}

void pithi_symbols_bind_avx2(struct pithi_kernels *k);
void pithi_symbols_bind_avx2(struct pithi_kernels *k) {
    k->symbols_cut = cut;
    k->symbols_join = join;
    k->symbols_lengths = lengths;
}
