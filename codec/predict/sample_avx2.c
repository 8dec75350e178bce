/* sample_avx2.c - how wide the words of a sample are, by the order of differences, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx2.h"
#include "predict/sample_tmpl.h"

static inline __m256i or_halves(v16 x) { return _mm256_or_si256(x.a, x.b); }

static inline void add(uint32_t widths[GROUPS], v16 a, v16 b, v16 c, v16 d) {
    __m128i *const to = (__m128i *)(void *)widths;
    const __m128i all = or_four(or_halves(a), or_halves(b), or_halves(c), or_halves(d));
    _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), bits_of(all)));
}

void pithi_sample_bind_avx2(struct pithi_kernels *k);
void pithi_sample_bind_avx2(struct pithi_kernels *k) { k->sample = sample; }
