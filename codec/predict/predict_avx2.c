/* predict_avx2.c - quantization under a bound, prediction and ranges of values for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx2.h"
#include "kernels.h"

/* ---- Quantization -----------------------------------------------------------------------------*/

struct constants;
static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x);

#include "predict/quant_tmpl.h"

static inline uint32_t kept8(const struct constants *c, __m256i t, __m256i error, __m256i x) {
    const __m256 magnitude = F(c->magnitude.a);
    const __m256 small = _mm256_cmp_ps(_mm256_and_ps(F(t), magnitude), F(c->limit.a), _CMP_LT_OQ);
    const __m256 near =
        _mm256_cmp_ps(_mm256_and_ps(F(error), magnitude), F(c->bound.a), _CMP_LE_OQ);
    const __m256 never = F(_mm256_cmpeq_epi32(x, c->never.a));
    return (uint32_t)_mm256_movemask_ps(_mm256_andnot_ps(never, _mm256_and_ps(small, near)));
}

static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x) {
    return kept8(c, t.a, error.a, x.a) | kept8(c, t.b, error.b, x.b) << 8;
}

/* ---- Differences in a tile --------------------------------------------------------------------*/

static inline __m256i sums8(__m256i x) {
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    return _mm256_add_epi32(x, _mm256_shuffle_epi32(_mm256_permute2x128_si256(x, x, 0x08), 0xFF));
}
static inline v16 sums(v16 x) {
    const __m256i a = sums8(x.a);
    return (v16){a, _mm256_add_epi32(sums8(x.b), last256(a))};
}

#include "predict/lorenzo_tmpl.h"

/* ---- Rows that occurred before ----------------------------------------------------------------*/

#include "predict/rows_tmpl.h"

/* ---- Interpolation ----------------------------------------------------------------------------*/

#include "predict/interp_tmpl.h"

/* ---- Range of values --------------------------------------------------------------------------*/

#include "predict/range_tmpl.h"

#include "predict/predict_hooks.h"

void pithi_predict_bind_avx2(struct pithi_kernels *k);
void pithi_predict_bind_avx2(struct pithi_kernels *k) {
    bind_prediction(k);
    k->rows_number = rows_number;
}
