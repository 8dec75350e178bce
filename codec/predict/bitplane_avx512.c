/* bitplane_avx512.c - packed words, and how wide those of a sample are, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/bitplane_avx512.h"
#include "kernels.h"

/* a's halves, then b's, and so on: of lanes 0..3 of each the two that make one. */
static inline __m512i or_lanes(__m512i a, __m512i b) {
    return _mm512_or_si512(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* The words of each group, ORed. */
static inline __m128i or_groups(v16 a, v16 b, v16 c, v16 d) {
    const v16 x = or_lanes(a, b), y = or_lanes(c, d);
    const v16 z = _mm512_or_si512(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
    const __m256i h = _mm256_or_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));
    return _mm_or_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

static inline void measure(const uint32_t *words, uint8_t widths[4]) {
    const uint8_t *const p = (const uint8_t *)words;
    uint32_t all[4];
    _mm_storeu_si128((__m128i *)all,
                     or_groups(v_load(p), v_load(p + 64), v_load(p + 128), v_load(p + 192)));
    for (int g = 0; g < 4; g++)
        widths[g] = (uint8_t)(63 - __builtin_clzll((unsigned long long)all[g] << 1 | 1));
}

static inline void put_pair(uint8_t *a, uint8_t *b, v16 x, v16 y) {
    const v16 z = put_planes(_mm512_mask_mov_epi16(x, 0xAAAAAAAAu, _mm512_slli_epi32(y, 16)));
    _mm256_storeu_si256((__m256i *)a, _mm512_castsi512_si256(z));
    _mm256_storeu_si256((__m256i *)b, _mm512_extracti64x4_epi64(z, 1));
}

static inline void get_pair(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb, v16 *x,
                            v16 *y) {
    const v16 z = get_planes(a, b, wa, wb);
    *x = v_and(z, v_set(0xFFFF));
    *y = v_shr(z, 16);
}

#include "predict/bitplane_tmpl.h"

/* ---- Samples ----------------------------------------------------------------------------------*/

#include "predict/sample_tmpl.h"

/* Returns the widths of four groups of words. */
ALWAYS __m128i widths_of(v16 a, v16 b, v16 c, v16 d) {
    const __m128i all = or_groups(a, b, c, d);
    /* Without the bit below its highest one no number is rounded up to a power of two. */
    const __m128i number = _mm_andnot_si128(_mm_srli_epi32(all, 1), all);
    const __m128i exponent = _mm_srli_epi32(_mm_castps_si128(_mm_cvtepu32_ps(number)), 23);
    return _mm_subs_epu16(exponent, _mm_set1_epi32(126));
}

static inline void add(uint32_t widths[GROUPS], v16 a, v16 b, v16 c, v16 d) {
    __m128i *const to = (__m128i *)(void *)widths;
    _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), widths_of(a, b, c, d)));
}

void pithi_bitplane_bind_avx512(struct pithi_kernels *k);
void pithi_bitplane_bind_avx512(struct pithi_kernels *k) {
    k->widths = widths;
    k->pack = pack;
    k->unpack = unpack;
    k->sample = sample;
}
