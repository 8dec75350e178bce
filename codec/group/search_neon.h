/* search_neon.h - what the search for scales needs of 32 lanes of 16 bits, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The search is in group_encode_tmpl.h, and in scalar C in group.c. */
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

#endif
