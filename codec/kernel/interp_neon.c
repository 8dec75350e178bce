/* interp_neon.c - runs of interpolation for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_neon.h"
#include "stage/interp.h"

static inline bool v_any(v16 x) {
    const uint32x4_t a = vorrq_u32(x.val[0], x.val[1]), b = vorrq_u32(x.val[2], x.val[3]);
    return vmaxvq_u32(vorrq_u32(a, b)) != 0;
}

#include "kernel/interp_tmpl.h"

void pithi_interp_bind_neon(struct pithi_kernels *k);
void pithi_interp_bind_neon(struct pithi_kernels *k) {
    k->interp_encode = interp_encode;
    k->interp_decode = interp_decode;
}
