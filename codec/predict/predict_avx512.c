/* predict_avx512.c - quantization under a bound, prediction and ranges of values for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx512.h"
#include "kernels.h"

/* ---- Quantization -----------------------------------------------------------------------------*/

struct constants;
static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x);

#include "predict/quant_tmpl.h"

static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x) {
    const __mmask16 small = _mm512_cmp_ps_mask(F(v_and(t, c->magnitude)), F(c->limit), _CMP_LT_OQ);
    const __mmask16 near =
        _mm512_mask_cmp_ps_mask(small, F(v_and(error, c->magnitude)), F(c->bound), _CMP_LE_OQ);
    return _mm512_mask_cmpneq_epi32_mask(near, x, c->never);
}

/* ---- Differences in a tile --------------------------------------------------------------------*/

static inline v16 sums(v16 x) {
    const v16 zero = _mm512_setzero_si512();
    x = v_add(x, _mm512_alignr_epi32(x, zero, 15));
    x = v_add(x, _mm512_alignr_epi32(x, zero, 14));
    x = v_add(x, _mm512_alignr_epi32(x, zero, 12));
    return v_add(x, _mm512_alignr_epi32(x, zero, 8));
}

#include "predict/lorenzo_tmpl.h"

/* ---- Interpolation ----------------------------------------------------------------------------*/

#include "predict/interp_tmpl.h"

/* ---- Range of values --------------------------------------------------------------------------*/

/* Elements at once, in accumulators of their own; the prefetch distance in bytes, to the
 * second-level cache: prefetchers in hardware end with a page. */
enum { STEP = 32, PREFETCH = 8192 };

struct range {
    v16 low, high;
};

static inline void look(struct range *r, const uint8_t *p) {
    const v16 u = v_load(p), order = v_ordered(u), inf = v_set(PITHI_F32_INF);
    const __mmask16 finite = _mm512_cmpneq_epi32_mask(v_and(u, inf), inf);
    __builtin_prefetch(p + PREFETCH, 0, 2);
    r->low = _mm512_mask_min_epi32(r->low, finite, r->low, order);
    r->high = _mm512_mask_max_epi32(r->high, finite, r->high, order);
}

static void extremes32(const void *values, size_t count, struct pithi_extremes *e) {
    const uint8_t *const from = values;
    const struct range given = {v_set((uint32_t)e->low), v_set((uint32_t)e->high)};
    struct range a = given, b = given;
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        look(&a, from + 4 * i);
        look(&b, from + 4 * i + 64);
    }
    e->low = _mm512_reduce_min_epi32(v_mini(a.low, b.low));
    e->high = _mm512_reduce_max_epi32(v_maxi(a.high, b.high));
    pithi_extremes_c(from + 4 * i, PITH_F32, count - i, e);
}

#define EXTREMES extremes16
#define WORD int16_t
#include "predict/range_word_tmpl.h"

static void extremes(const void *values, uint32_t dtype, size_t count, struct pithi_extremes *e) {
    if (dtype == PITH_F32)
        extremes32(values, count, e);
    else
        extremes16(values, count, pithi_infinity16(dtype), e);
}

#include "predict/predict_hooks.h"

void pithi_predict_bind_avx512(struct pithi_kernels *k);
void pithi_predict_bind_avx512(struct pithi_kernels *k) { bind_prediction(k); }
