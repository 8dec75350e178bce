/* select_avx512.c - selection, histograms, moments and lists of sets for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx512.h"
#include "kernels.h"

/* Lanes 0..7 and 8..15. */
typedef struct {
    __m512d a, b;
} d16;

static inline uint32_t reached16(v16 x, v16 least) { return _mm512_cmpge_epu32_mask(x, least); }
static inline v16 finite_pick(v16 x, v16 then, v16 other) {
    return _mm512_mask_mov_epi32(then, (__mmask16)v_nonfinite(x), other);
}
static inline v16 below16(v16 x, v16 y, v16 least) {
    return _mm512_maskz_mov_epi32(_mm512_cmplt_epu32_mask(y, least), x);
}
static inline d16 d_zero(void) { return (d16){_mm512_setzero_pd(), _mm512_setzero_pd()}; }
static inline d16 d_widen(v16 x) {
    return (d16){_mm512_cvtps_pd(_mm512_castps512_ps256(F(x))),
                 _mm512_cvtps_pd(_mm512_extractf32x8_ps(F(x), 1))};
}
static inline d16 d_add(d16 x, d16 y) {
    return (d16){_mm512_add_pd(x.a, y.a), _mm512_add_pd(x.b, y.b)};
}
static inline d16 d_mul(d16 x, d16 y) {
    return (d16){_mm512_mul_pd(x.a, y.a), _mm512_mul_pd(x.b, y.b)};
}
static inline d16 d_magnitude(d16 x) { return (d16){_mm512_abs_pd(x.a), _mm512_abs_pd(x.b)}; }
static inline double d_sum(d16 x) {
    const __m512d a = _mm512_add_pd(x.a, x.b);
    const __m256d b = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
    return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

#include "sparse/select_tmpl.h"

/* ---- Lists ------------------------------------------------------------------------------------*/

static inline v16 numbers_from(uint32_t first) {
    return v_add(v_set(first),
                 _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
ALWAYS size_t used_words(const uint64_t *words, uint32_t first, uint32_t *to) {
    const __m512i a = _mm512_loadu_si512(words), b = _mm512_loadu_si512(words + 8);
    const uint32_t used = _mm512_test_epi64_mask(a, a) | (uint32_t)_mm512_test_epi64_mask(b, b)
                                                             << 8;
    v_store((uint8_t *)to, _mm512_maskz_compress_epi32((__mmask16)used, numbers_from(first)));
    return (size_t)_mm_popcnt_u32(used);
}
ALWAYS uint32_t *list_word(uint64_t word, uint32_t first, uint32_t *to) {
    for (unsigned k = 0; k < WORD; k += UNIT) {
        const __mmask16 bits = (__mmask16)(word >> k);
        /* Stores of whole vectors: those of some lanes only are slow on some machines. */
        v_store((uint8_t *)to, _mm512_maskz_compress_epi32(bits, numbers_from(first + k)));
        to += _mm_popcnt_u32(bits);
    }
    return to;
}

#include "sparse/set_list_tmpl.h"

void pithi_select_bind_avx512(struct pithi_kernels *k);
void pithi_select_bind_avx512(struct pithi_kernels *k) {
    k->select = select_set;
    k->histogram = histogram;
    k->moments = moments;
    k->set_list = set_list;
}
