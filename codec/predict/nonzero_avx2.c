/* nonzero_avx2.c - codes without zeros, and among them again, for AVX2 and BMI2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "kernels.h"

enum { LANES = 8 };

#define LANE_NUMBERS UINT64_C(0x0706050403020100)

/* A byte of ones for every bit. */
static inline uint64_t widen(unsigned bits) {
    return _pdep_u64(bits, UINT64_C(0x0101010101010101)) * 0xFF;
}

static inline __m256i lanes_of(uint64_t bytes) {
    return _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

static size_t split(const int32_t *codes, size_t count, uint8_t *map, int32_t *nonzero) {
    const size_t whole = count / LANES * LANES;
    size_t used = 0;
    for (size_t i = 0; i < whole; i += LANES) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(codes + i));
        const __m256i zero = _mm256_cmpeq_epi32(x, _mm256_setzero_si256());
        const unsigned bits = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(zero)) & 0xFFu;
        const __m256i from = lanes_of(_pext_u64(LANE_NUMBERS, widen(bits)));
        _mm256_storeu_si256((__m256i *)(nonzero + used), _mm256_permutevar8x32_epi32(x, from));
        used += (size_t)_mm_popcnt_u32(bits);
        map[i / 8] = (uint8_t)bits;
    }
    return used + pithi_split_c(codes + whole, count - whole, map + whole / 8, nonzero + used);
}

static void spread(const int32_t *nonzero, const uint8_t *map, size_t count, int32_t *codes) {
    const size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        const uint64_t bytes = widen(map[i / 8]);
        const __m256i x = _mm256_loadu_si256((const __m256i *)nonzero);
        const __m256i from = lanes_of(_pdep_u64(LANE_NUMBERS, bytes));
        _mm256_storeu_si256(
            (__m256i *)(codes + i),
            _mm256_and_si256(_mm256_permutevar8x32_epi32(x, from), lanes_of(bytes)));
        nonzero += _mm_popcnt_u32(map[i / 8]);
    }
    pithi_spread_c(nonzero, map + whole / 8, count - whole, codes + whole);
}

void pithi_nonzero_bind_avx2(struct pithi_kernels *k);
void pithi_nonzero_bind_avx2(struct pithi_kernels *k) {
    k->split = split;
    k->spread = spread;
}
