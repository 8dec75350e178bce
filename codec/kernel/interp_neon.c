/* interp_neon.c - runs of interpolation for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_neon.h"
#include "stage/interp.h"

#include "kernel/interp_tmpl.h"

void pithi_interp_bind_neon(struct pithi_kernels *k);
void pithi_interp_bind_neon(struct pithi_kernels *k) {
    k->interp_encode = interp_encode;
    k->interp_decode = interp_decode;
}
