/* bitplane_avx2.c - packed words, and how wide those of a sample are, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/bitplane_avx2.h"
#include "kernels.h"

static inline __m256i or_words(const uint8_t *p) {
    return _mm256_or_si256(load256(p), load256(p + 32));
}

static inline void measure(const uint32_t *words, uint8_t widths[4]) {
    const uint8_t *const p = (const uint8_t *)words;
    const __m128i all =
        or_four(or_words(p), or_words(p + 64), or_words(p + 128), or_words(p + 192));
    const __m128i low = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    pithi_put32(widths, (uint32_t)_mm_cvtsi128_si32(_mm_shuffle_epi8(bits_of(all), low)));
}

static inline void put_pair(uint8_t *a, uint8_t *b, v16 x, v16 y) {
    /* A lane of 32 bits has a word of each. */
    __m256i p = part_lanes(_mm256_blend_epi16(x.a, _mm256_slli_epi32(y.a, 16), 0xAA));
    __m256i q = part_lanes(_mm256_blend_epi16(x.b, _mm256_slli_epi32(y.b, 16), 0xAA));
    planes_of_two(&p, &q);
    store256(a, p);
    store256(b, q);
}

static inline __m256i low8(__m256i x) { return _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)); }
static inline __m256i high8(__m256i x) {
    return _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
}

static inline void get_pair(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb, v16 *x,
                            v16 *y) {
    __m256i p = load_planes(a, wa), q = load_planes(b, wb);
    words_of_two(&p, &q);
    *x = (v16){low8(p), low8(q)};
    *y = (v16){high8(p), high8(q)};
}

#include "predict/bitplane_tmpl.h"

/* ---- Samples ----------------------------------------------------------------------------------*/

#include "predict/sample_tmpl.h"

static inline __m256i or_halves(v16 x) { return _mm256_or_si256(x.a, x.b); }

static inline void add(uint32_t widths[GROUPS], v16 a, v16 b, v16 c, v16 d) {
    __m128i *const to = (__m128i *)(void *)widths;
    const __m128i all = or_four(or_halves(a), or_halves(b), or_halves(c), or_halves(d));
    _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), bits_of(all)));
}

void pithi_bitplane_bind_avx2(struct pithi_kernels *k);
void pithi_bitplane_bind_avx2(struct pithi_kernels *k) {
    k->widths = widths;
    k->pack = pack;
    k->unpack = unpack;
    k->sample = sample;
}
