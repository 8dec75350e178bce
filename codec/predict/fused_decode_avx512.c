/* fused_decode_avx512.c - packed words of differences to values in one pass, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "predict/bitplane_avx512.h"

enum { PAIRS = 1, REACH = 64, WHOLE_LINES = 1 };

/* A word of each group in a lane. */
struct words {
    v16 both;
};

#include "predict/fused_decode_tmpl.h"

static inline void get(const uint8_t *from, const uint8_t *widths, unsigned widest, size_t pairs,
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

void pithi_fused_decode_bind_avx512(struct pithi_kernels *k);
void pithi_fused_decode_bind_avx512(struct pithi_kernels *k) { k->fused_decode = fused_decode; }
