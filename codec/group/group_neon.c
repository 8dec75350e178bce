/* group_neon.c - rotation, group quantizer and outliers for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "common/lanes_tmpl.h"
#include "group/hadamard.h"
#include "kernels.h"

/* ---- Rotation ---------------------------------------------------------------------------------*/

/* Sums of neighbours in one half of each pair's place, differences in the other. */
static inline float32x4_t transform4(float32x4_t x) {
    const float32x4_t a = vtrn1q_f32(x, x), b = vtrn2q_f32(x, x);
    x = vtrn1q_f32(vaddq_f32(a, b), vsubq_f32(a, b));
    const float32x2_t low = vget_low_f32(x), high = vget_high_f32(x);
    return vcombine_f32(vadd_f32(low, high), vsub_f32(low, high));
}
static inline v16 transform16(v16 x) {
    const float32x4_t a = transform4(F(x.val[0])), b = transform4(F(x.val[1]));
    const float32x4_t c = transform4(F(x.val[2])), d = transform4(F(x.val[3]));
    const float32x4_t ab = vaddq_f32(a, b), a_b = vsubq_f32(a, b);
    const float32x4_t cd = vaddq_f32(c, d), c_d = vsubq_f32(c, d);
    return (v16){{I(vaddq_f32(ab, cd)), I(vaddq_f32(a_b, c_d)), I(vsubq_f32(ab, cd)),
                  I(vsubq_f32(a_b, c_d))}};
}

static inline v16 f_flip(v16 x, uint32_t signs) {
    static const int32_t up[4] = {31, 30, 29, 28};
    const uint32x4_t top = vdupq_n_u32(0x80000000u);
    for (int q = 0; q < 4; q++) {
        const uint32x4_t word = vdupq_n_u32(signs >> 4 * q);
        x.val[q] = veorq_u32(x.val[q], vandq_u32(vshlq_u32(word, vld1q_s32(up)), top));
    }
    return x;
}

static inline uint32x4_t narrow8(uint32_t dtype, uint32x4_t a, uint32x4_t b) {
    if (dtype == PITH_BF16)
        return vreinterpretq_u32_u16(vshrn_high_n_u32(vshrn_n_u32(a, 16), b, 16));
    return vreinterpretq_u32_f16(vcvt_high_f16_f32(vcvt_f16_f32(F(a)), F(b)));
}
static inline v16 f_narrow_two(uint32_t dtype, v16 a, v16 b) {
    return (v16){{narrow8(dtype, a.val[0], a.val[1]), narrow8(dtype, a.val[2], a.val[3]),
                  narrow8(dtype, b.val[0], b.val[1]), narrow8(dtype, b.val[2], b.val[3])}};
}

#include "group/hadamard_tmpl.h"

#include "group/packing_neon.h"
#include "group/search_neon.h"
#include "group/shrink_neon.h"

#include "group/group_encode_tmpl.h"

#include "group/group_hooks.h"

#include "group/outliers_tmpl.h"

void pithi_group_bind_neon(struct pithi_kernels *k);
void pithi_group_bind_neon(struct pithi_kernels *k) {
    bind_groups(k);
    k->outliers_take = outliers_take;
}
