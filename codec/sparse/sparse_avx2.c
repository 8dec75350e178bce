/* sparse_avx2.c - selection, histograms, moments, lists and indices of sets for AVX2 and BMI2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx2.h"
#include "kernels.h"
#include "sparse/index_x86.h"

static inline __m256i reached256(__m256i x, __m256i least) {
    return _mm256_cmpeq_epi32(_mm256_max_epu32(x, least), x);
}
static inline uint32_t reached8(__m256i x, __m256i least) {
    return (uint32_t)_mm256_movemask_ps(F(reached256(x, least)));
}
static inline uint32_t reached16(v16 x, v16 least) {
    return reached8(x.a, least.a) | reached8(x.b, least.b) << 8;
}
static inline v16 finite_pick(v16 x, v16 then, v16 other) {
    return (v16){_mm256_blendv_epi8(other.a, then.a, finite256(x.a)),
                 _mm256_blendv_epi8(other.b, then.b, finite256(x.b))};
}
static inline v16 below16(v16 x, v16 y, v16 least) {
    return (v16){_mm256_andnot_si256(reached256(y.a, least.a), x.a),
                 _mm256_andnot_si256(reached256(y.b, least.b), x.b)};
}
static inline double d_sum(d16 x) {
    const __m256d low = _mm256_add_pd(x.q[0], x.q[2]), high = _mm256_add_pd(x.q[1], x.q[3]);
    const __m256d b = _mm256_add_pd(low, high);
    const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
    return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

#include "sparse/select_tmpl.h"

/* ---- Lists ------------------------------------------------------------------------------------*/

/* The numbers of 16 bits within them are half a byte each. */
ALWAYS void list16(uint32_t bits, uint32_t first, uint32_t *to) {
    const uint64_t ones = _pdep_u64(bits, UINT64_C(0x1111111111111111));
    const uint64_t halves = _pext_u64(UINT64_C(0xFEDCBA9876543210), (ones << 4) - ones);
    const __m128i half = _mm_set1_epi8(15), x = _mm_cvtsi64_si128((long long)halves);
    const __m128i bytes =
        _mm_unpacklo_epi8(_mm_and_si128(x, half), _mm_and_si128(_mm_srli_epi16(x, 4), half));
    const __m256i base = _mm256_set1_epi32((int)first);
    const __m128i upper = _mm_unpackhi_epi64(bytes, bytes);
    store256((uint8_t *)to, _mm256_add_epi32(base, _mm256_cvtepu8_epi32(bytes)));
    store256((uint8_t *)(to + 8), _mm256_add_epi32(base, _mm256_cvtepu8_epi32(upper)));
}

ALWAYS uint32_t zeros4(const uint64_t *words) {
    const __m256i none = _mm256_setzero_si256(), x = load256((const uint8_t *)words);
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(x, none)));
}
ALWAYS size_t used_words(const uint64_t *words, uint32_t first, uint32_t *to) {
    const uint32_t zeros =
        zeros4(words) | zeros4(words + 4) << 4 | zeros4(words + 8) << 8 | zeros4(words + 12) << 12;
    list16(~zeros & 0xFFFF, first, to);
    return (size_t)_mm_popcnt_u32(~zeros & 0xFFFF);
}

ALWAYS uint32_t *list_word(uint64_t word, uint32_t first, uint32_t *to) {
    for (unsigned k = 0; k < WORD; k += UNIT) {
        const uint32_t bits = (uint16_t)(word >> k);
        list16(bits, first + k, to);
        to += _mm_popcnt_u32(bits);
    }
    return to;
}

#include "sparse/set_list_tmpl.h"

/* ---- Indices ----------------------------------------------------------------------------------*/

#include "sparse/index_tmpl.h"

void pithi_sparse_bind_avx2(struct pithi_kernels *k);
void pithi_sparse_bind_avx2(struct pithi_kernels *k) {
    k->select = select_set;
    k->histogram = histogram;
    k->moments = moments;
    k->set_list = set_list;
    BIND(k);
    k->packed_take = packed_take;
}
