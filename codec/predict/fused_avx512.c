/* fused_avx512.c - values to packed words of differences and back, in one pass each, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx512.h"

enum { PAIRS = 1, UNPACK_REACH = 64, WHOLE_LINES = 1 };

/* A word of each group in a lane. */
struct words {
    v16 both;
};

#include "predict/fused_tmpl.h"

/* ---- Encoding ---------------------------------------------------------------------------------*/

static inline struct words words_of(v16 a, v16 b) { return (struct words){v_xor(a, v_shl16(b))}; }

static inline bool any_above(v16 error, v16 bound, v16 x) {
    const __mmask16 off = _mm512_cmpgt_epu32_mask(error, bound);
    return !_mm512_kortestz(off, _mm512_cmpgt_epu32_mask(x, v_set(0xFFFF)));
}

static inline uint8_t *pack(const struct words *w, size_t pairs, uint8_t *widths, uint8_t *to) {
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

/* ---- Decoding ---------------------------------------------------------------------------------*/

static inline void unpack(const uint8_t *from, const uint8_t *widths, unsigned widest, size_t pairs,
                          struct words *w) {
    (void)widest;
    for (size_t n = 0; n < pairs; n++) {
        const unsigned a = widths[2 * n], b = widths[2 * n + 1];
        const v16 words = get_planes(from, from + 2 * a, a, b);
        const v16 odd = v_and(words, _mm512_set1_epi16(1));
        w[n].both =
            v_xor(_mm512_srli_epi16(words, 1), _mm512_sub_epi16(_mm512_setzero_si512(), odd));
        from += 2 * (a + b);
    }
}

static inline void lanes_of(const struct words *w, v16 *x, v16 *y) {
    *x = v_sar16(v_shl16(w->both));
    *y = v_sar16(w->both);
}

static inline void sums_of(const struct words *w, v16 *x, v16 *y) {
    const v16 zero = _mm512_setzero_si512();
    struct words s = *w;
    s.both = _mm512_add_epi16(s.both, _mm512_alignr_epi32(s.both, zero, 15));
    s.both = _mm512_add_epi16(s.both, _mm512_alignr_epi32(s.both, zero, 14));
    s.both = _mm512_add_epi16(s.both, _mm512_alignr_epi32(s.both, zero, 12));
    s.both = _mm512_add_epi16(s.both, _mm512_alignr_epi32(s.both, zero, 8));
    lanes_of(&s, x, y);
}

void pithi_fused_bind_avx512(struct pithi_kernels *k);
void pithi_fused_bind_avx512(struct pithi_kernels *k) {
    k->fused_encode = fused_encode;
    k->fused_decode = fused_decode;
}
