/* hadamard_avx2.c - the rotation for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/transform_avx2.h"

static inline v16 f_flip(v16 x, uint32_t signs) {
    const __m256i word = _mm256_set1_epi32((int)signs), top = _mm256_set1_epi32(INT32_MIN);
    const __m256i a = _mm256_sllv_epi32(word, _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
    const __m256i b = _mm256_sllv_epi32(word, _mm256_setr_epi32(23, 22, 21, 20, 19, 18, 17, 16));
    return (v16){_mm256_xor_si256(x.a, _mm256_and_si256(a, top)),
                 _mm256_xor_si256(x.b, _mm256_and_si256(b, top))};
}
static inline __m256i canonical8(__m256i x) {
    const __m256 nan = _mm256_cmp_ps(F(x), F(x), _CMP_UNORD_Q);
    return I(_mm256_blendv_ps(F(x), F(_mm256_set1_epi32(PITHI_F32_NAN)), nan));
}
static inline v16 f_canonical(v16 x) { return (v16){canonical8(x.a), canonical8(x.b)}; }

static inline __m256i narrow16(uint32_t dtype, v16 x) {
    if (dtype == PITH_BF16) {
        const v16 high = v_shr(x, 16);
        return _mm256_permute4x64_epi64(_mm256_packus_epi32(high.a, high.b), 0xD8);
    }
    return _mm256_set_m128i(_mm256_cvtps_ph(F(x.b), _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(F(x.a), _MM_FROUND_TO_NEAREST_INT));
}
static inline v16 f_narrow_two(uint32_t dtype, v16 a, v16 b) {
    return (v16){narrow16(dtype, a), narrow16(dtype, b)};
}

#include "kernel/hadamard_tmpl.h"

void pithi_hadamard_bind_avx2(struct pithi_kernels *k);
void pithi_hadamard_bind_avx2(struct pithi_kernels *k) {
    k->rotate = rotate;
    k->unrotate = unrotate;
    k->unrotate_stream = unrotate_stream;
}
