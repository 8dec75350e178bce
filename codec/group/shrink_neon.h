/* shrink_neon.h - what searched ranges need of lanes of 16 bits, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_SHRINK_NEON_H
#define PITHI_GROUP_SHRINK_NEON_H

#include "common/lanes_neon.h"

/* Registers hold so many parts of a range beside their sums. */
enum { SPANS = 1 };

static inline v16 v_shl(v16 a, unsigned n) {
    const int32x4_t by = vdupq_n_s32((int)n);
    for (int q = 0; q < 4; q++) a.val[q] = vshlq_u32(a.val[q], by);
    return a;
}
static inline v16 v_srl(v16 a, unsigned n) {
    const int32x4_t by = vdupq_n_s32(-(int)n);
    for (int q = 0; q < 4; q++) a.val[q] = vshlq_u32(a.val[q], by);
    return a;
}

/* 32 lanes of 16 bits. */
TWO(v_add16, FROM_H(vaddq_u16(H(x), H(y))))
/* x - y, or 0. */
TWO(v_above16, FROM_H(vqsubq_u16(H(x), H(y))))
/* floor((x y + 2^14) / 2^15). */
TWO(v_part16, FROM_SH(vqrdmulhq_s16(SH(x), SH(y))))
/* Sums of the two products in each lane of 32. */
TWO(v_products16, U(vpaddq_s32(vmull_s16(vget_low_s16(SH(x)), vget_low_s16(SH(y))),
                               vmull_high_s16(SH(x), SH(y)))))

#endif
