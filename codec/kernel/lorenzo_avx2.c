/* lorenzo_avx2.c - differences in a tile for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "kernel/lanes_avx2.h"

static inline v16 minus(v16 a, v16 b) { return v_sub(a, b); }

/* x moved up one lane; `below` has its high half before x. */
static inline __m256i before8(__m256i x, __m256i below) {
    return _mm256_alignr_epi8(x, _mm256_permute2x128_si256(below, x, 0x21), 12);
}
static inline v16 before(v16 x, v16 last) { return (v16){before8(x.a, last.b), before8(x.b, x.a)}; }

static inline __m256i last8(__m256i x) {
    return _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(7));
}
static inline v16 last_of(v16 x) {
    const __m256i last = last8(x.b);
    return (v16){last, last};
}

static inline __m256i sums8(__m256i x) {
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    return _mm256_add_epi32(x, _mm256_shuffle_epi32(_mm256_permute2x128_si256(x, x, 0x08), 0xFF));
}
static inline v16 sums(v16 x) {
    const __m256i a = sums8(x.a);
    return (v16){a, _mm256_add_epi32(sums8(x.b), last8(a))};
}

#include "kernel/lorenzo_tmpl.h"

void pithi_lorenzo_bind_avx2(struct pithi_kernels *k);
void pithi_lorenzo_bind_avx2(struct pithi_kernels *k) {
    k->predict = predict;
    k->differ = differ;
    k->unpredict = unpredict;
}
