/* bytes_avx512.h - vectors of 64 bytes, as words of 16, 32 or 64 bits, for AVX-512 F and BW.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BYTES_BYTES_AVX512_H
#define PITHI_BYTES_BYTES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

typedef __m512i vec;

static inline vec v_and(vec a, vec b) { return _mm512_and_si512(a, b); }
static inline vec v_or(vec a, vec b) { return _mm512_or_si512(a, b); }
static inline vec v_xor(vec a, vec b) { return _mm512_xor_si512(a, b); }

/* Loads and stores are at any address. */
#define WORDS(bits, type)                                                                    \
    static inline vec load##bits(const void *p) { return _mm512_loadu_si512(p); }            \
    static inline void store##bits(void *p, vec x) { _mm512_storeu_si512(p, x); }            \
    static inline vec all##bits(uint##bits##_t x) { return _mm512_set1_epi##bits((type)x); } \
    static inline vec add##bits(vec a, vec b) { return _mm512_add_epi##bits(a, b); }         \
    static inline vec sub##bits(vec a, vec b) { return _mm512_sub_epi##bits(a, b); }         \
    static inline vec down##bits(vec x, unsigned n) {                                        \
        return _mm512_srl_epi##bits(x, _mm_cvtsi32_si128((int)n));                           \
    }                                                                                        \
    static inline vec up##bits(vec x, unsigned n) {                                          \
        return _mm512_sll_epi##bits(x, _mm_cvtsi32_si128((int)n));                           \
    }
WORDS(16, short)
WORDS(32, int)
WORDS(64, long long)
#undef WORDS

/* The low byte of each lane. */
static inline void narrow16(uint8_t *to, vec x) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi16_epi8(x));
}
static inline void narrow32(uint8_t *to, vec x) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(x));
}
static inline void narrow64(uint8_t *to, vec x) {
    _mm_storel_epi64((__m128i *)(void *)to, _mm512_cvtepi64_epi8(x));
}
static inline vec widen16(const uint8_t *from) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
static inline vec widen32(const uint8_t *from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
static inline vec widen64(const uint8_t *from) {
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)from));
}

#endif
