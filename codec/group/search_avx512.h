/* search_avx512.h - what the search for scales needs of lanes of 16 and 8 bits, for AVX-512 F, BW
 * and VBMI.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The search is in group_encode_tmpl.h, and in scalar C in group.c. */
#ifndef PITHI_GROUP_SEARCH_AVX512_H
#define PITHI_GROUP_SEARCH_AVX512_H

#include "common/lanes_avx512.h"

enum { SEARCHED = 4 };

static inline v16 v_mini16(v16 a, v16 b) { return _mm512_min_epi16(a, b); }
/* The nearest integer to a * b / 2^15. */
static inline v16 v_scale16(v16 a, v16 b) { return _mm512_mulhrs_epi16(a, b); }
/* Sums of two products, to lanes of 32 bits. */
static inline v16 v_dot16(v16 a, v16 b) { return _mm512_madd_epi16(a, b); }
/* Lanes of 16 bits from lanes of 32, in some order. */
static inline v16 v_pack16(v16 a, v16 b) { return _mm512_packs_epi32(a, b); }

/* ---- Integers of a byte ----------------------------------------------------------------------*/

#define OWN_SEARCH_BYTES

/* Lanes of 8 bits from lanes of 16, in some order. */
static inline v16 v_pack8(v16 a, v16 b) { return _mm512_packs_epi16(a, b); }

/* Magnitudes of integers, 64 at a time, and the largest codes for these: where factors are
 * positive, and where they turn the integers. */
enum { BYTE_ROWS = 32 };
struct search_bytes {
    v16 magnitude[BYTE_ROWS], limit[2][BYTE_ROWS];
};
static inline void search_split(struct search_bytes *to, size_t i, v16 y, int reach) {
    const v16 most = _mm512_set1_epi8((char)(reach - 1)), least = _mm512_set1_epi8((char)reach);
    const __mmask64 negative = _mm512_movepi8_mask(y);
    to->magnitude[i] = _mm512_abs_epi8(y);
    to->limit[0][i] = _mm512_mask_blend_epi8(negative, most, least);
    to->limit[1][i] = _mm512_mask_blend_epi8(negative, least, most);
}

/* The codes of all magnitudes. */
struct search_look {
    v16 low, high;
};
static inline __m256i look_codes(int first, v16 factor, v16 reach) {
    static const int16_t number[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                       11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                       22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    const v16 y = _mm512_add_epi16(_mm512_loadu_si512(number), _mm512_set1_epi16((short)first));
    return _mm512_cvtepi16_epi8(v_mini16(v_scale16(y, factor), reach));
}
static inline struct search_look look_make(int16_t factor, int reach) {
    const v16 f = _mm512_set1_epi16((short)(factor < 0 ? -factor : factor));
    const v16 r = _mm512_set1_epi16((short)reach);
    const v16 low = _mm512_castsi256_si512(look_codes(0, f, r));
    const v16 high = _mm512_castsi256_si512(look_codes(64, f, r));
    return (struct search_look){_mm512_inserti64x4(low, look_codes(32, f, r), 1),
                                _mm512_inserti64x4(high, look_codes(96, f, r), 1)};
}

/* Sums of SEARCHED candidates over some rows, each of which fetches a line of what comes later.
 * Pairs of products with codes are below 2^12, so that 8 rows of them fit 16 bits; those of codes
 * are at most 2^9, and all rows fit. */
static inline __attribute__((always_inline)) void search_rows(const struct search_bytes *s,
                                                              size_t rows, const int16_t *factor,
                                                              int reach, const uint8_t *prefetch,
                                                              v16 yq[SEARCHED], v16 qq[SEARCHED]) {
    const v16 zero = _mm512_setzero_si512(), ones = _mm512_set1_epi16(1);
    struct search_look look[SEARCHED];
    const v16 *limit[SEARCHED];
    v16 sum[SEARCHED];
    PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) {
        look[n] = look_make(factor[n], reach);
        limit[n] = s->limit[factor[n] < 0];
        yq[n] = qq[n] = zero;
    }
    for (size_t i = 0; i < rows; i += 8) {
        PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) sum[n] = zero;
        for (size_t j = i; j < i + 8; j++) {
            const v16 y = s->magnitude[j];
            __builtin_prefetch(prefetch + 64 * j);
            PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) {
                const v16 code = _mm512_permutex2var_epi8(look[n].low, y, look[n].high);
                const v16 q = _mm512_min_epu8(code, limit[n][j]);
                sum[n] = _mm512_add_epi16(sum[n], _mm512_maddubs_epi16(y, q));
                qq[n] = _mm512_add_epi16(qq[n], _mm512_maddubs_epi16(q, q));
            }
        }
        PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) yq[n] = v_add(yq[n], v_dot16(sum[n], ones));
    }
    PITHI_UNROLL for (int n = 0; n < SEARCHED; n++) {
        qq[n] = v_dot16(qq[n], ones);
        if (factor[n] < 0) yq[n] = v_sub(zero, yq[n]);
    }
}

#endif
