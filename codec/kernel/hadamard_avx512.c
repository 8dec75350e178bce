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

static inline v16 f_narrow_two(uint32_t dtype, v16 a, v16 b) {
    const v16 fours =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
    const v16 odd = v_add(v_add(fours, _mm512_slli_epi32(fours, 16)), v_set(0x00030001));
    if (dtype == PITH_BF16) return _mm512_permutex2var_epi16(a, odd, b);
    const __m256i x = _mm512_cvtps_ph(F(a), _MM_FROUND_TO_NEAREST_INT);
    const __m256i y = _mm512_cvtps_ph(F(b), _MM_FROUND_TO_NEAREST_INT);
    return _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
}

#include "kernel/hadamard_tmpl.h"

void pithi_hadamard_bind_avx512(struct pithi_kernels *k);
void pithi_hadamard_bind_avx512(struct pithi_kernels *k) {
    k->rotate = rotate;
    k->unrotate = unrotate;
    k->unrotate_stream = unrotate_stream;
}
