/* codebook_neon.c - groups coded as numbers of levels, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "group/look_neon.h"
#include "kernels.h"

static inline v16 v_up(v16 x, int n) {
    for (int q = 0; q < 4; q++) x.val[q] = vshlq_u32(x.val[q], vdupq_n_s32(n));
    return x;
}
static inline v16 w_shr(v16 x, unsigned n) {
    const int64x2_t by = vdupq_n_s64(-(int64_t)n);
    for (int q = 0; q < 4; q++)
        x.val[q] = vreinterpretq_u32_u64(vshlq_u64(vreinterpretq_u64_u32(x.val[q]), by));
    return x;
}
TWO(b_add, FROM_B(vaddq_u8(B(x), B(y))))
/* 0 where the index has its highest bit. */
TWO(b_look, FROM_B(vqtbl1q_u8(B(x), B(y))))

ONE(f_cut, U(vcvtq_s32_f32(F(x))))
TWO(twice_and, vsubq_u32(vaddq_u32(x, x), y))
TWO(f_from, vcgeq_f32(F(x), F(y)))
static inline v16 f_step(v16 code, v16 v, v16 threshold) {
    return twice_and(code, f_from(v, threshold));
}

/* The halves of the lanes added, and of these; then those of two vectors, side by side. */
static inline float32x4_t fold16(v16 x) {
    return vaddq_f32(vaddq_f32(F(x.val[0]), F(x.val[2])), vaddq_f32(F(x.val[1]), F(x.val[3])));
}
static inline float32x4_t fold4(float32x4_t x, float32x4_t y) {
    return vaddq_f32(vcombine_f32(vget_low_f32(x), vget_low_f32(y)),
                     vcombine_f32(vget_high_f32(x), vget_high_f32(y)));
}
static inline v16 f_sum_lanes(const v16 x[16]) {
    v16 r;
    for (int q = 0; q < 4; q++)
        r.val[q] = I(vpaddq_f32(fold4(fold16(x[4 * q]), fold16(x[4 * q + 1])),
                                fold4(fold16(x[4 * q + 2]), fold16(x[4 * q + 3]))));
    return r;
}

/* Bytes of elements in their order. */
static inline v16 b_order(v16 x) {
    static const uint8_t places[16] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
    const uint8x16x4_t t = {{B(x.val[0]), B(x.val[1]), B(x.val[2]), B(x.val[3])}};
    const uint8x16_t place = vld1q_u8(places);
    for (int q = 0; q < 4; q++)
        x.val[q] = FROM_B(vqtbl4q_u8(t, vaddq_u8(place, vdupq_n_u8((uint8_t)q))));
    return x;
}

static const uint8_t squeezes[3][16] = {
    {0, 1, 8, 9, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {0, 1, 2, 8, 9, 10, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {0, 1, 2, 3, 8, 9, 10, 11, 128, 128, 128, 128, 128, 128, 128, 128}};

/* Every 64 bits come to hold 8 codes, in their low `bits` bytes. */
static inline void put64(uint8_t *to, unsigned bits, v16 x) {
    x = b_order(x);
    x = v_and(v_add(x, w_shr(x, 8 - bits)), v_set(0x00FF00FFu));
    x = v_and(v_add(x, w_shr(x, 16 - 2 * bits)), v_set(0x0000FFFFu));
    x = v_add(x, w_shr(x, 32 - 4 * bits));
    const uint8x16_t squeeze = vld1q_u8(squeezes[bits - 2]);
    for (unsigned q = 0; q < 4; q++) {
        const uint8x8_t word = vget_low_u8(vqtbl1q_u8(B(x.val[q]), squeeze));
        if (bits == 4) {
            vst1_u8(to + 8 * q, word);
        } else {
            uint8_t bytes[8];
            vst1_u8(bytes, word);
            memcpy(to + 2 * q * bits, bytes, bits == 3 ? 6 : 4);
        }
    }
}

/* Every lane gets the two bytes its code begins in, and how far to shift them. */
struct reading {
    uint8x16_t spread[4];
    int32x4_t shift[4];
    unsigned bits;
};
static inline void reading_make(struct reading *r, unsigned bits) {
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    for (unsigned q = 0; q < 4; q++) {
        const uint32x4_t lane = vaddq_u32(vld1q_u32(lanes), vdupq_n_u32(4 * q));
        const uint32x4_t bit = vmulq_n_u32(lane, bits);
        const uint32x4_t both = vmulq_n_u32(vshrq_n_u32(bit, 3), 0x0101);
        r->spread[q] = B(vaddq_u32(both, vdupq_n_u32(0x80800100u)));
        r->shift[q] = vnegq_s32(S(vandq_u32(bit, vdupq_n_u32(7))));
    }
    r->bits = bits;
}
/* Codes in the low 4 bits of lanes, above them what comes next. */
static inline void take64(v16 q[4], const uint8_t *from, const struct reading *r) {
    for (unsigned j = 0; j < 4; j++) {
        const uint8x16_t x = vcombine_u8(vld1_u8(from + 2 * j * r->bits), vdup_n_u8(0));
        for (int k = 0; k < 4; k++)
            q[j].val[k] = vshlq_u32(FROM_B(vqtbl1q_u8(x, r->spread[k])), r->shift[k]);
    }
}

#include "group/codebook_tmpl.h"

#include "group/codebook_channel_tmpl.h"

void pithi_codebook_bind_neon(struct pithi_kernels *k);
void pithi_codebook_bind_neon(struct pithi_kernels *k) {
    k->codebook_encode = codebook_encode;
    k->codebook_decode = codebook_decode;
    k->levels_encode = levels_encode;
    k->levels_decode = levels_decode;
}
