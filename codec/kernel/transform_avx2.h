/* transform_avx2.h - the Walsh-Hadamard transform of 32 values in lanes, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_TRANSFORM_AVX2_H
#define PITHI_TRANSFORM_AVX2_H

#include "kernel/lanes_avx2.h"

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
#include "kernel/transform_tmpl.h"

#endif
