/* bytes_avx2.h - vectors of 32 bytes, as words of 16, 32 or 64 bits, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BYTES_BYTES_AVX2_H
#define PITHI_BYTES_BYTES_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "common/endian.h"

typedef __m256i vec;

static inline vec v_and(vec a, vec b) { return _mm256_and_si256(a, b); }
static inline vec v_or(vec a, vec b) { return _mm256_or_si256(a, b); }
static inline vec v_xor(vec a, vec b) { return _mm256_xor_si256(a, b); }

/* Loads and stores are at any address. */
#define WORDS(bits, all_of, type)                                                    \
    static inline vec load##bits(const void *p) { return _mm256_loadu_si256(p); }    \
    static inline void store##bits(void *p, vec x) { _mm256_storeu_si256(p, x); }    \
    static inline vec all##bits(uint##bits##_t x) { return all_of((type)x); }        \
    static inline vec add##bits(vec a, vec b) { return _mm256_add_epi##bits(a, b); } \
    static inline vec sub##bits(vec a, vec b) { return _mm256_sub_epi##bits(a, b); } \
    static inline vec down##bits(vec x, unsigned n) {                                \
        return _mm256_srl_epi##bits(x, _mm_cvtsi32_si128((int)n));                   \
    }                                                                                \
    static inline vec up##bits(vec x, unsigned n) {                                  \
        return _mm256_sll_epi##bits(x, _mm_cvtsi32_si128((int)n));                   \
    }
WORDS(16, _mm256_set1_epi16, short)
WORDS(32, _mm256_set1_epi32, int)
WORDS(64, _mm256_set1_epi64x, long long)
#undef WORDS

/* The low byte of each lane. */
static inline void narrow16(uint8_t *to, vec x) {
    x = v_and(x, all16(0xFF));
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
static inline void narrow32(uint8_t *to, vec x) {
    x = _mm256_shuffle_epi8(x, _mm256_set1_epi32(0x0C080400));
    _mm_storel_epi64((__m128i *)(void *)to,
                     _mm_unpacklo_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
static inline void narrow64(uint8_t *to, vec x) {
    x = _mm256_shuffle_epi8(x, _mm256_set1_epi16(0x0800));
    pithi_put32(to, (uint32_t)_mm_cvtsi128_si32(_mm_unpacklo_epi16(
                        _mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1))));
}
static inline vec widen16(const uint8_t *from) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}
static inline vec widen32(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
static inline vec widen64(const uint8_t *from) {
    return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)pithi_get32(from)));
}

#endif
