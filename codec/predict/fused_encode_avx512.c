/* fused_encode_avx512.c - values to packed words of differences in one pass, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx512.h"

enum { PAIRS = 1 };

/* A word of each group in a lane. */
struct words {
    v16 both;
};

#include "predict/fused_encode_tmpl.h"

static inline struct words words_of(v16 a, v16 b) { return (struct words){v_xor(a, v_shl16(b))}; }

static inline bool any_above(v16 error, v16 bound, v16 x) {
    const __mmask16 off = _mm512_cmpgt_epu32_mask(error, bound);
    return !_mm512_kortestz(off, _mm512_cmpgt_epu32_mask(x, v_set(0xFFFF)));
}

static inline uint8_t *put(const struct words *w, size_t pairs, uint8_t *widths, uint8_t *to) {
    for (size_t n = 0; n < pairs; n++, widths += 2) {
        const v16 z = put_planes(w[n].both);
        const uint64_t used = _mm512_test_epi16_mask(z, z);
        const unsigned wide = 63 - (unsigned)__builtin_clzll((used & 0xFFFF) << 1 | 1);
        const unsigned other = 63 - (unsigned)__builtin_clzll(used >> 16 << 1 | 1);
        widths[0] = (uint8_t)wide, widths[1] = (uint8_t)other;
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(z));
        to += 2 * (size_t)wide;
        _mm256_storeu_si256((__m256i *)to, _mm512_extracti64x4_epi64(z, 1));
        to += 2 * (size_t)other;
    }
    return to;
}

void pithi_fused_encode_bind_avx512(struct pithi_kernels *k);
void pithi_fused_encode_bind_avx512(struct pithi_kernels *k) { k->fused_encode = fused_encode; }
