/* index_x86.h - four lanes of 32 bits for index_tmpl.h, for AVX2 and what is above it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_INDEX_X86_H
#define PITHI_SPARSE_INDEX_X86_H

#include <immintrin.h>
#include <stdint.h>

typedef __m128i v4;

static inline v4 v4_load(const uint32_t *p) { return _mm_loadu_si128((const v4 *)(const void *)p); }
static inline void v4_store(uint32_t *p, v4 x) { _mm_storeu_si128((v4 *)(void *)p, x); }
static inline v4 v4_set(uint32_t x) { return _mm_set1_epi32((int)x); }
static inline v4 v4_add(v4 x, v4 y) { return _mm_add_epi32(x, y); }
static inline v4 v4_or(v4 x, v4 y) { return _mm_or_si128(x, y); }
static inline v4 v4_and(v4 x, v4 y) { return _mm_and_si128(x, y); }
static inline v4 v4_ramp(uint32_t first) {
    return v4_add(v4_set(first), _mm_setr_epi32(0, 1, 2, 3));
}
static inline v4 v4_shl(v4 x, unsigned n) { return _mm_sll_epi32(x, _mm_cvtsi32_si128((int)n)); }
static inline v4 v4_shr(v4 x, unsigned n) { return _mm_srl_epi32(x, _mm_cvtsi32_si128((int)n)); }
static inline v4 v4_last(v4 x) { return _mm_shuffle_epi32(x, 0xFF); }
static inline v4 v4_sums(v4 x) {
    x = v4_add(x, _mm_slli_si128(x, 4));
    return v4_add(x, _mm_slli_si128(x, 8));
}
static inline unsigned largest_of_16(v4 bytes) {
    const v4 x = _mm_max_epu8(bytes, _mm_srli_epi16(bytes, 8)); /* in the low byte of every two */
    const v4 rest = _mm_andnot_si128(x, _mm_set1_epi16(0xFF));
    return 255 - ((unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(rest)) & 0xFF);
}

#endif
