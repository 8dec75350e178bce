/* transform_neon.h - the Walsh-Hadamard transform of 32 values in lanes, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_TRANSFORM_NEON_H
#define PITHI_TRANSFORM_NEON_H

#include "kernel/lanes_neon.h"

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
#include "kernel/transform_tmpl.h"

#endif
