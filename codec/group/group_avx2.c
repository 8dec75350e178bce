/* group_avx2.c - rotation, group quantizer and outliers for AVX2 and F16C.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx2.h"
#include "common/lanes_tmpl.h"
#include "group/hadamard.h"
#include "kernels.h"

/* ---- Rotation ---------------------------------------------------------------------------------*/

#define FLIPPED(x, ...) \
    F(_mm256_xor_si256(I(x), _mm256_slli_epi32(_mm256_setr_epi32(__VA_ARGS__), 31)))

/* Strides 1, 2 and 4: the other of the pair plus the value, negated where it is the upper one. */
static inline __m256i transform8(__m256i x) {
    __m256 f = F(x);
    f = _mm256_add_ps(_mm256_permute_ps(f, 0xB1), FLIPPED(f, 0, 1, 0, 1, 0, 1, 0, 1));
    f = _mm256_add_ps(_mm256_permute_ps(f, 0x4E), FLIPPED(f, 0, 0, 1, 1, 0, 0, 1, 1));
    f = _mm256_add_ps(_mm256_permute2f128_ps(f, f, 1), FLIPPED(f, 0, 0, 0, 0, 1, 1, 1, 1));
    return I(f);
}
static inline v16 transform16(v16 x) {
    const __m256 a = F(transform8(x.a)), b = F(transform8(x.b));
    return (v16){I(_mm256_add_ps(a, b)), I(_mm256_sub_ps(a, b))};
}

static inline v16 f_flip(v16 x, uint32_t signs) {
    const __m256i word = _mm256_set1_epi32((int)signs), top = _mm256_set1_epi32(INT32_MIN);
    const __m256i a = _mm256_sllv_epi32(word, _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
    const __m256i b = _mm256_sllv_epi32(word, _mm256_setr_epi32(23, 22, 21, 20, 19, 18, 17, 16));
    return (v16){_mm256_xor_si256(x.a, _mm256_and_si256(a, top)),
                 _mm256_xor_si256(x.b, _mm256_and_si256(b, top))};
}

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

#include "group/hadamard_tmpl.h"

#include "group/packing_avx2.h"
#include "group/search_avx2.h"
#include "group/shrink_avx2.h"

#include "group/group_encode_tmpl.h"

#include "group/hashing_avx2.h"

#include "group/group_base_tmpl.h"

#include "group/group_hooks.h"

#include "group/outliers_tmpl.h"

void pithi_group_bind_avx2(struct pithi_kernels *k);
void pithi_group_bind_avx2(struct pithi_kernels *k) {
    bind_groups(k);
    k->encode_hashed = encode_hashed;
    k->outliers_take = outliers_take;
}
