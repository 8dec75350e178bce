/* nonzero_avx512.c - codes without zeros, and among them again, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "kernels.h"

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

/* The place before a row's first is outside. */
static int32_t *row_numbers(const int32_t *codes, const int32_t *up, size_t width, int32_t *to) {
    for (size_t x = 0; x < width; x += LANES) {
        const size_t n = width - x;
        const __mmask16 there = n < LANES ? (__mmask16)((1u << n) - 1) : 0xFFFF;
        const __mmask16 before = x ? there : (__mmask16)(there & 0xFFFE);
        const __m512i c = _mm512_maskz_loadu_epi32(there, codes + x);
        const __m512i left = _mm512_maskz_loadu_epi32(before, codes + x - 1);
        __m512i b = _mm512_setzero_si512(), d = b;
        if (up) {
            b = _mm512_maskz_loadu_epi32(there, up + x);
            d = _mm512_maskz_loadu_epi32(before, up + x - 1);
        }
        const __m512i low = _mm512_min_epi32(left, b), high = _mm512_max_epi32(left, b);
        const __m512i kept = _mm512_min_epi32(_mm512_max_epi32(d, low), high);
        const __mmask16 both =
            _mm512_mask_test_epi32_mask(_mm512_test_epi32_mask(b, b), left, left);
        const __m512i sum = _mm512_add_epi32(left, b);
        const __m512i expected = _mm512_mask_sub_epi32(sum, both, sum, kept);
        const __mmask16 used = _mm512_test_epi32_mask(c, c);
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(used, _mm512_sub_epi32(c, expected)));
        to += _mm_popcnt_u32(used);
    }
    return to;
}

static void median(const int32_t *codes, const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM],
                   int32_t *numbers) {
    (void)map; /* what is not 0 shows in the codes */
    const size_t planes = (size_t)extent[0] * extent[1], width = extent[3];
    for (size_t p = 0; p < planes; p++)
        for (size_t y = 0; y < extent[2]; y++, codes += width)
            numbers = row_numbers(codes, y ? codes - width : NULL, width, numbers);
}

void pithi_nonzero_bind_avx512(struct pithi_kernels *k);
void pithi_nonzero_bind_avx512(struct pithi_kernels *k) {
    k->split = split;
    k->spread = spread;
    k->median = median;
}
