/* quant_avx512.c - quantization under an absolute bound for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"

struct constants;
static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x);

#include "kernel/quant_tmpl.h"

static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x) {
    const __mmask16 small = _mm512_cmp_ps_mask(F(v_and(t, c->magnitude)), F(c->limit), _CMP_LT_OQ);
    const __mmask16 near =
        _mm512_mask_cmp_ps_mask(small, F(v_and(error, c->magnitude)), F(c->bound), _CMP_LE_OQ);
    return _mm512_mask_cmpneq_epi32_mask(near, x, c->never);
}

void pithi_quant_bind_avx512(struct pithi_kernels *k);
void pithi_quant_bind_avx512(struct pithi_kernels *k) {
    k->quantize = quantize;
    k->dequantize = dequantize;
}
