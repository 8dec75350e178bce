/* nonzero_avx512.c - codes without zeros, and among them again, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "codec.h"

enum { LANES = 16 };

static size_t split(const int32_t *codes, size_t count, uint8_t *map, int32_t *nonzero) {
    size_t used = 0;
    for (size_t i = 0; i < count; i += LANES) {
        const size_t left = count - i;
        const __mmask16 there = left < LANES ? (__mmask16)((1u << left) - 1) : 0xFFFF;
        const __m512i x = _mm512_maskz_loadu_epi32(there, codes + i);
        const __mmask16 bits = _mm512_test_epi32_mask(x, x);
        /* Stores of whole vectors: those of some lanes only are slow on some machines. */
        _mm512_storeu_si512(nonzero + used, _mm512_maskz_compress_epi32(bits, x));
        used += (size_t)_mm_popcnt_u32(bits);
        map[i / 8] = (uint8_t)bits;
        if (left > 8) map[i / 8 + 1] = (uint8_t)(bits >> 8);
    }
    return used;
}

static void spread(const int32_t *nonzero, const uint8_t *map, size_t count, int32_t *codes) {
    for (size_t i = 0; i < count; i += LANES) {
        const size_t left = count - i;
        const __mmask16 there = left < LANES ? (__mmask16)((1u << left) - 1) : 0xFFFF;
        const unsigned high = left > 8 ? map[i / 8 + 1] : 0;
        const __mmask16 bits = (__mmask16)(map[i / 8] | high << 8);
        const __m512i x = _mm512_maskz_expand_epi32(bits, _mm512_loadu_si512(nonzero));
        _mm512_mask_storeu_epi32(codes + i, there, x);
        nonzero += _mm_popcnt_u32(bits);
    }
}

void pithi_nonzero_bind_avx512(struct pithi_kernels *k);
void pithi_nonzero_bind_avx512(struct pithi_kernels *k) {
    k->split = split;
    k->spread = spread;
}
