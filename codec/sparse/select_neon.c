/* select_neon.c - selection, histograms and moments for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "kernels.h"

/* Lanes 0 and 1, 2 and 3, and so on. */
typedef struct {
    float64x2_t q[8];
} d16;

static inline uint32_t reached16(v16 x, v16 least) {
    static const uint16_t weights[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t weight = vld1q_u16(weights);
    uint16x4_t reached[4];
    for (int q = 0; q < 4; q++) reached[q] = vmovn_u32(vcgeq_u32(x.val[q], least.val[q]));
    const uint32_t low = vaddvq_u16(vandq_u16(vcombine_u16(reached[0], reached[1]), weight));
    const uint32_t high = vaddvq_u16(vandq_u16(vcombine_u16(reached[2], reached[3]), weight));
    return low | high << 8;
}
static inline v16 finite_pick(v16 x, v16 then, v16 other) {
    for (int q = 0; q < 4; q++)
        then.val[q] = vbslq_u32(finite4(x.val[q]), then.val[q], other.val[q]);
    return then;
}
static inline v16 below16(v16 x, v16 y, v16 least) {
    for (int q = 0; q < 4; q++) x.val[q] = vbicq_u32(x.val[q], vcgeq_u32(y.val[q], least.val[q]));
    return x;
}
static inline d16 d_zero(void) {
    d16 x;
    for (int k = 0; k < 8; k++) x.q[k] = vdupq_n_f64(0);
    return x;
}
static inline d16 d_widen(v16 x) {
    d16 y;
    for (int q = 0; q < 4; q++) {
        y.q[2 * q] = vcvt_f64_f32(vget_low_f32(F(x.val[q])));
        y.q[2 * q + 1] = vcvt_high_f64_f32(F(x.val[q]));
    }
    return y;
}
static inline d16 d_add(d16 x, d16 y) {
    for (int k = 0; k < 8; k++) x.q[k] = vaddq_f64(x.q[k], y.q[k]);
    return x;
}
static inline d16 d_mul(d16 x, d16 y) {
    for (int k = 0; k < 8; k++) x.q[k] = vmulq_f64(x.q[k], y.q[k]);
    return x;
}
static inline d16 d_magnitude(d16 x) {
    for (int k = 0; k < 8; k++) x.q[k] = vabsq_f64(x.q[k]);
    return x;
}
static inline double d_sum(d16 x) {
    for (int half = 4; half; half /= 2)
        for (int k = 0; k < half; k++) x.q[k] = vaddq_f64(x.q[k], x.q[k + half]);
    return vgetq_lane_f64(x.q[0], 0) + vgetq_lane_f64(x.q[0], 1);
}

#include "sparse/select_tmpl.h"

void pithi_select_bind_neon(struct pithi_kernels *k);
void pithi_select_bind_neon(struct pithi_kernels *k) {
    k->select = select_set;
    k->histogram = histogram;
    k->moments = moments;
}
