/* quant_avx2.c - quantization under an absolute bound for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx2.h"

struct constants;
static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x);

#include "kernel/quant_tmpl.h"

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

void pithi_quant_bind_avx2(struct pithi_kernels *k);
void pithi_quant_bind_avx2(struct pithi_kernels *k) {
    k->quantize = quantize;
    k->dequantize = dequantize;
}
