/* search_neon.h - what the search for scales needs of 32 lanes of 16 bits, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_SEARCH_NEON_H
#define PITHI_GROUP_SEARCH_NEON_H

#include "common/lanes_neon.h"

enum { SEARCHED = 2 };

TWO(v_mini16, FROM_SH(vminq_s16(SH(x), SH(y))))
/* The nearest integer to a * b / 2^15. */
TWO(v_scale16, FROM_SH(vqrdmulhq_s16(SH(x), SH(y))))
/* Sums of two products, to lanes of 32 bits. */
TWO(v_dot16, U(vpaddq_s32(vmull_s16(vget_low_s16(SH(x)), vget_low_s16(SH(y))),
                          vmull_high_s16(SH(x), SH(y)))))
/* Lanes of 16 bits from lanes of 32, in some order. */
static inline v16 v_pack16(v16 a, v16 b) {
    v16 r;
    for (int q = 0; q < 2; q++) {
        r.val[q] = FROM_SH(vmovn_high_s32(vmovn_s32(S(a.val[2 * q])), S(a.val[2 * q + 1])));
        r.val[q + 2] = FROM_SH(vmovn_high_s32(vmovn_s32(S(b.val[2 * q])), S(b.val[2 * q + 1])));
    }
    return r;
}

/* Rows and columns of four vectors. */
static inline __attribute__((always_inline)) void transpose4(uint32x4_t *a, uint32x4_t *b,
                                                             uint32x4_t *c, uint32x4_t *d) {
    const uint64x2_t p = vreinterpretq_u64_u32(vtrn1q_u32(*a, *b));
    const uint64x2_t q = vreinterpretq_u64_u32(vtrn2q_u32(*a, *b));
    const uint64x2_t r = vreinterpretq_u64_u32(vtrn1q_u32(*c, *d));
    const uint64x2_t s = vreinterpretq_u64_u32(vtrn2q_u32(*c, *d));
    *a = vreinterpretq_u32_u64(vtrn1q_u64(p, r));
    *b = vreinterpretq_u32_u64(vtrn1q_u64(q, s));
    *c = vreinterpretq_u32_u64(vtrn2q_u64(p, r));
    *d = vreinterpretq_u32_u64(vtrn2q_u64(q, s));
}
/* Rows and columns of 16 vectors: quarters are transposed, then they
 * change places. */
static inline __attribute__((always_inline)) void v_transpose(v16 x[16]) {
    for (int k = 0; k < 16; k += 4)
        for (int q = 0; q < 4; q++)
            transpose4(&x[k].val[q], &x[k + 1].val[q], &x[k + 2].val[q], &x[k + 3].val[q]);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
            for (int q = 0; q < i; q++) {
                const uint32x4_t t = x[k + 4 * i].val[q];
                x[k + 4 * i].val[q] = x[k + 4 * q].val[i];
                x[k + 4 * q].val[i] = t;
            }
}

#endif
