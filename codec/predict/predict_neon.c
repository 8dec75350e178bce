/* predict_neon.c - quantization under a bound, prediction and ranges of values for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "kernels.h"

/* ---- Quantization -----------------------------------------------------------------------------*/

struct constants;
static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x);

#include "predict/quant_tmpl.h"

static inline uint32_t kept16(const struct constants *c, v16 t, v16 error, v16 x) {
    static const uint16_t weights[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    uint16x4_t kept[4];
    for (int q = 0; q < 4; q++) {
        const uint32x4_t small = vcaltq_f32(F(t.val[q]), F(c->limit.val[q]));
        const uint32x4_t near = vcaleq_f32(F(error.val[q]), F(c->bound.val[q]));
        const uint32x4_t never = vceqq_u32(x.val[q], c->never.val[q]);
        kept[q] = vmovn_u32(vbicq_u32(vandq_u32(small, near), never));
    }
    const uint16x8_t weight = vld1q_u16(weights);
    const uint32_t low = vaddvq_u16(vandq_u16(vcombine_u16(kept[0], kept[1]), weight));
    const uint32_t high = vaddvq_u16(vandq_u16(vcombine_u16(kept[2], kept[3]), weight));
    return low | high << 8;
}

/* ---- Differences in a tile --------------------------------------------------------------------*/

static inline uint32x4_t sums4(uint32x4_t x) {
    const uint32x4_t zero = vdupq_n_u32(0);
    x = vaddq_u32(x, vextq_u32(zero, x, 3));
    return vaddq_u32(x, vextq_u32(zero, x, 2));
}
static inline v16 sums(v16 x) {
    x.val[0] = sums4(x.val[0]);
    for (int q = 1; q < 4; q++)
        x.val[q] = vaddq_u32(sums4(x.val[q]), vdupq_laneq_u32(x.val[q - 1], 3));
    return x;
}

#include "predict/lorenzo_tmpl.h"

/* ---- Rows that occurred before ----------------------------------------------------------------*/

#include "predict/rows_tmpl.h"

/* ---- Interpolation ----------------------------------------------------------------------------*/

#include "predict/interp_tmpl.h"

/* ---- Range of values --------------------------------------------------------------------------*/

#include "predict/range_tmpl.h"

#include "predict/predict_hooks.h"

void pithi_predict_bind_neon(struct pithi_kernels *k);
void pithi_predict_bind_neon(struct pithi_kernels *k) {
    bind_prediction(k);
    k->rows_number = rows_number;
}
