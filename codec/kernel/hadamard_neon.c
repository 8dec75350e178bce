/* hadamard_neon.c - the rotation for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/transform_neon.h"

static inline v16 f_flip(v16 x, uint32_t signs) {
    static const int32_t up[4] = {31, 30, 29, 28};
    const uint32x4_t top = vdupq_n_u32(0x80000000u);
    for (int q = 0; q < 4; q++) {
        const uint32x4_t word = vdupq_n_u32(signs >> 4 * q);
        x.val[q] = veorq_u32(x.val[q], vandq_u32(vshlq_u32(word, vld1q_s32(up)), top));
    }
    return x;
}
static inline v16 f_canonical(v16 x) {
    for (int q = 0; q < 4; q++) {
        const uint32x4_t number = vceqq_f32(F(x.val[q]), F(x.val[q]));
        x.val[q] = vbslq_u32(number, x.val[q], vdupq_n_u32(PITHI_F32_NAN));
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

#include "kernel/hadamard_tmpl.h"

void pithi_hadamard_bind_neon(struct pithi_kernels *k);
void pithi_hadamard_bind_neon(struct pithi_kernels *k) {
    k->rotate = rotate;
    k->unrotate = unrotate;
    k->unrotate_stream = unrotate_stream;
}
