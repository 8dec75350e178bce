/* nh_avx512.h - the universal hash, 64 bytes at a time, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_NH_AVX512_H
#define PITHI_COMMON_NH_AVX512_H

#include <immintrin.h>

#include "common/nh.h"

/* Keys of the eight 64-bit lanes from `lane` on, and of as many so many lanes later. */
static inline __m512i nh_keys(uint64_t lane) {
    const __m512i weyl = _mm512_set1_epi64((long long)PITHI_NH_WEYL);
    return _mm512_add_epi64(_mm512_set1_epi64((long long)(lane * PITHI_NH_WEYL)),
                            _mm512_mullo_epi64(weyl, _mm512_setr_epi64(1, 2, 3, 4, 5, 6, 7, 8)));
}
static inline __m512i nh_step(uint64_t lanes) {
    return _mm512_set1_epi64((long long)(lanes * PITHI_NH_WEYL));
}

/* The two parts of a term are summed apart. */
struct nh_sums {
    __m512i product, swapped;
};
static inline void nh_add(struct nh_sums *s, __m512i x, __m512i key) {
    x = _mm512_xor_si512(x, key);
    const __m512i swapped = _mm512_shuffle_epi32(x, _MM_PERM_CDAB);
    s->product = _mm512_add_epi64(s->product, _mm512_mul_epu32(x, swapped));
    s->swapped = _mm512_add_epi64(s->swapped, swapped);
}

/* Returns the sum of all lanes of both parts. */
static inline uint64_t nh_total(const struct nh_sums *s) {
    uint64_t lanes[8], sum = 0; /* the reduction intrinsic adds as signed integers */
    _mm512_storeu_si512(lanes, _mm512_add_epi64(s->product, s->swapped));
    for (int k = 0; k < 8; k++) sum += lanes[k];
    return sum;
}

#endif
