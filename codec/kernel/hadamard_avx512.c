/* hadamard_avx512.c - the rotation for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"

/* Strides 1 to 8: the other of the pair plus the value, negated where it is the upper one. */
static inline v16 transform16(v16 x) {
    const int s = INT32_MIN;
    const v16 one = _mm512_setr_epi32(0, s, 0, s, 0, s, 0, s, 0, s, 0, s, 0, s, 0, s);
    const v16 two = _mm512_setr_epi32(0, 0, s, s, 0, 0, s, s, 0, 0, s, s, 0, 0, s, s);
    const v16 four = _mm512_setr_epi32(0, 0, 0, 0, s, s, s, s, 0, 0, 0, 0, s, s, s, s);
    const v16 eight = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, s, s, s, s, s, s, s, s);
    x = f_add(_mm512_shuffle_epi32(x, 0xB1), v_xor(x, one));
    x = f_add(_mm512_shuffle_epi32(x, 0x4E), v_xor(x, two));
    x = f_add(_mm512_shuffle_i32x4(x, x, 0xB1), v_xor(x, four));
    return f_add(_mm512_shuffle_i32x4(x, x, 0x4E), v_xor(x, eight));
}
static inline __attribute__((always_inline)) void f_transform32(v16 v[2]) {
    const v16 a = transform16(v[0]), b = transform16(v[1]);
    v[0] = f_add(a, b);
    v[1] = f_sub(a, b);
}

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
