/* symbol_count_avx2.c - count symbols, most of them of few kinds, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx2.h"
#include "kernels.h"

static inline vec load(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline void store(uint64_t *p, vec x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }
static inline vec all(uint8_t x) { return _mm256_set1_epi8((char)x); }
static inline vec add8(vec a, vec b) { return _mm256_add_epi8(a, b); }
static inline vec sub8(vec a, vec b) { return _mm256_sub_epi8(a, b); }
static inline vec add_most(vec a, vec b) { return _mm256_adds_epu8(a, b); }
static inline vec look_up(const uint8_t table[16], vec at) {
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table)), at);
}
static inline vec odd(vec a, vec b, vec c) { return v_xor(v_xor(a, b), c); }
static inline vec majority(vec a, vec b, vec c) { return v_or(v_and(a, b), v_and(v_xor(a, b), c)); }
static inline vec min8(vec a, vec b) { return _mm256_min_epu8(a, b); }
static inline vec sum(vec x) { return _mm256_sad_epu8(x, _mm256_setzero_si256()); }
static inline uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at) {
    for (uint32_t found = (uint32_t)_mm256_movemask_epi8(at); found; found &= found - 1)
        *to++ = from[__builtin_ctz(found)];
    return to;
}

#define BYTES 32
#define WINDOWS 1
#include "bytes/symbol_count_tmpl.h"

void pithi_symbol_count_bind_avx2(struct pithi_kernels *k);
void pithi_symbol_count_bind_avx2(struct pithi_kernels *k) { k->symbol_count = count_symbols; }
