/* lorenzo_neon.c - differences in a tile for NEON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_neon.h"

TWO(minus, vsubq_u32(x, y))

static inline v16 before(v16 x, v16 last) {
    return (v16){{vextq_u32(last.val[3], x.val[0], 3), vextq_u32(x.val[0], x.val[1], 3),
                  vextq_u32(x.val[1], x.val[2], 3), vextq_u32(x.val[2], x.val[3], 3)}};
}

static inline v16 last_of(v16 x) { return all_of(vdupq_laneq_u32(x.val[3], 3)); }

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

#include "kernel/lorenzo_tmpl.h"

void pithi_lorenzo_bind_neon(struct pithi_kernels *k);
void pithi_lorenzo_bind_neon(struct pithi_kernels *k) {
    k->predict = predict;
    k->differ = differ;
    k->unpredict = unpredict;
}
