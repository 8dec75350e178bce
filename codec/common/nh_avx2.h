/* nh_avx2.h - the universal hash, 32 bytes at a time, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_NH_AVX2_H
#define PITHI_COMMON_NH_AVX2_H

#include <immintrin.h>

#include "common/nh.h"

/* Keys of the four 64-bit lanes from `lane` on, and of as many so many lanes later. */
static inline __m256i nh_keys(uint64_t lane) {
    const uint64_t w = PITHI_NH_WEYL, first = (lane + 1) * w;
    return _mm256_setr_epi64x((long long)first, (long long)(first + w), (long long)(first + 2 * w),
                              (long long)(first + 3 * w));
}
static inline __m256i nh_step(uint64_t lanes) {
    return _mm256_set1_epi64x((long long)(lanes * PITHI_NH_WEYL));
}

/* The two parts of a term are summed apart. */
struct nh_sums {
    __m256i product, swapped;
};
static inline void nh_add(struct nh_sums *s, __m256i x, __m256i key) {
    x = _mm256_xor_si256(x, key);
    const __m256i swapped = _mm256_shuffle_epi32(x, 0xB1);
    s->product = _mm256_add_epi64(s->product, _mm256_mul_epu32(x, swapped));
    s->swapped = _mm256_add_epi64(s->swapped, swapped);
}

/* Returns the sum of all lanes of both parts. */
static inline uint64_t nh_total(const struct nh_sums *s) {
    uint64_t w[4];
    _mm256_storeu_si256((__m256i *)w, _mm256_add_epi64(s->product, s->swapped));
    return w[0] + w[1] + w[2] + w[3];
}

#endif
