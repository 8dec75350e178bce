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

static inline void put_one(uint8_t *to, v16 x) {
    const __m256i mask = _mm256_set1_epi32(0xFFFF);
    store256(to, planes_of(_mm256_packus_epi32(_mm256_and_si256(x.a, mask),
                                               _mm256_and_si256(x.b, mask))));
}

static inline void put_pair(uint8_t *a, uint8_t *b, v16 x, v16 y) {
    put_one(a, x);
    put_one(b, y);
}

static inline v16 get_one(const uint8_t *from, unsigned width) {
    const __m256i z = words_of_planes(load_planes(from, width));
    return (v16){_mm256_cvtepu16_epi32(_mm256_castsi256_si128(z)),
                 _mm256_cvtepu16_epi32(_mm256_extracti128_si256(z, 1))};
}

static inline void get_pair(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb, v16 *x,
                            v16 *y) {
    *x = get_one(a, wa);
    *y = get_one(b, wb);
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
