/* interp_avx512.c - runs of interpolation for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"
#include "stage/interp.h"

#include "kernel/interp_tmpl.h"

void pithi_interp_bind_avx512(struct pithi_kernels *k);
void pithi_interp_bind_avx512(struct pithi_kernels *k) {
    k->interp_encode = interp_encode;
    k->interp_decode = interp_decode;
}
