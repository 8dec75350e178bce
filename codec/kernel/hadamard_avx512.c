/* hadamard_avx512.c - the rotation for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/transform_avx512.h"

static inline v16 f_flip(v16 x, uint32_t signs) {
    return _mm512_mask_xor_epi32(x, (__mmask16)signs, x, v_set(0x80000000u));
}
/* NaN of either kind (the two lowest digits of the table) from the first operand, others as is. */
static inline v16 f_canonical(v16 x) {
    return I(_mm512_fixupimm_ps(F(v_set(PITHI_F32_NAN)), F(x), v_set(0x11111100u), 0));
}

#include "kernel/hadamard_tmpl.h"

void pithi_hadamard_bind_avx512(struct pithi_kernels *k);
void pithi_hadamard_bind_avx512(struct pithi_kernels *k) {
    k->rotate = rotate;
    k->unrotate = unrotate;
    k->unrotate_stream = unrotate_stream;
}
