/* sample_avx512.c - how wide the words of a sample are, by the order of differences, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx512.h"
#include "kernels.h"
#include "predict/sample_tmpl.h"

/* Of lanes 0..3 of the halves of each the two that make one. */
ALWAYS v16 or_lanes(v16 a, v16 b) {
    return _mm512_or_si512(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* Returns the widths of four groups of words. */
ALWAYS __m128i widths_of(v16 a, v16 b, v16 c, v16 d) {
    const v16 x = or_lanes(a, b), y = or_lanes(c, d);
    const v16 z = _mm512_or_si512(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
    const __m256i h = _mm256_or_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));
    const __m128i all = _mm_or_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    /* Without the bit below its highest one no number is rounded up to a power of two. */
    const __m128i number = _mm_andnot_si128(_mm_srli_epi32(all, 1), all);
    const __m128i exponent = _mm_srli_epi32(_mm_castps_si128(_mm_cvtepu32_ps(number)), 23);
    return _mm_subs_epu16(exponent, _mm_set1_epi32(126));
}

static inline void add(uint32_t widths[GROUPS], v16 a, v16 b, v16 c, v16 d) {
    __m128i *const to = (__m128i *)(void *)widths;
    _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), widths_of(a, b, c, d)));
}

void pithi_sample_bind_avx512(struct pithi_kernels *k);
void pithi_sample_bind_avx512(struct pithi_kernels *k) { k->sample = sample; }
