/* hadamard_avx512.c - the rotation for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx512.h"

/* Sums and differences of neighbours; sums go to the first vector, differences to the second. Five
 * times, and every stride had its turn and every value is back in its place. */
static inline __attribute__((always_inline)) void f_neighbours(v16 v[2]) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const v16 a = _mm512_permutex2var_epi32(v[0], even, v[1]);
    const v16 b = _mm512_permutex2var_epi32(v[0], odd, v[1]);
    v[0] = f_add(a, b);
    v[1] = f_sub(a, b);
}
static inline __attribute__((always_inline)) void f_transform32(v16 v[2]) {
    f_neighbours(v);
    f_neighbours(v);
    f_neighbours(v);
    f_neighbours(v);
    f_neighbours(v);
}

static inline v16 f_flip(v16 x, uint32_t signs) {
    return _mm512_mask_xor_epi32(x, (__mmask16)signs, x, v_set(0x80000000u));
}
static inline v16 f_canonical(v16 x) {
    const __mmask16 nan = _mm512_cmp_ps_mask(F(x), F(x), _CMP_UNORD_Q);
    return _mm512_mask_mov_epi32(x, nan, v_set(PITHI_F32_NAN));
}

#include "kernel/hadamard_tmpl.h"

void pithi_hadamard_bind_avx512(struct pithi_kernels *k);
void pithi_hadamard_bind_avx512(struct pithi_kernels *k) {
    k->rotate = rotate;
    k->unrotate = unrotate;
    k->unrotate_stream = unrotate_stream;
}
