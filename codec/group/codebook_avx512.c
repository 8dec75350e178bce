/* codebook_avx512.c - groups coded as numbers of levels, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx512.h"
#include "group/look_avx512.h"
#include "kernels.h"

static inline v16 v_up(v16 x, unsigned n) { return _mm512_slli_epi32(x, n); }
static inline v16 b_add(v16 a, v16 b) { return _mm512_add_epi8(a, b); }
/* 0 where the index has its highest bit. */
static inline v16 b_look(v16 table, v16 index) { return _mm512_shuffle_epi8(table, index); }
#define OWN_SIGNS
static inline v16 join_signs(const v16 x[4]) {
    const v16 low = v_set(0xFF), third = v_set(0xFF0000), half = v_set(0xFFFF);
    const v16 a = _mm512_ternarylogic_epi32(low, v_shr(x[0], 24), v_shr(x[1], 16), 0xCA);
    const v16 b = _mm512_ternarylogic_epi32(third, v_shr(x[2], 8), x[3], 0xCA);
    return _mm512_ternarylogic_epi32(half, a, b, 0xCA);
}
static inline v16 f_cut(v16 x) { return _mm512_cvttps_epi32(F(x)); }
#define OWN_NEAREST
static inline v16 look32(v16 low, v16 high, v16 index) {
    return _mm512_permutex2var_epi32(low, index, high);
}
static inline v16 f_above(v16 code, v16 v, v16 threshold) {
    const __mmask16 above = _mm512_cmp_ps_mask(F(v), F(threshold), _CMP_GE_OQ);
    return _mm512_mask_sub_epi32(code, above, code, _mm512_set1_epi32(-1));
}

/* Halves of the lanes of two vectors added, side by side; the same for quarters, and so on. */
static inline __m512 fold16(v16 a, v16 b) {
    const __m512 x = F(a), y = F(b);
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
}
static inline __m512 fold8(__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xDD));
}
static inline __m512 fold4(__m512 a, __m512 b) {
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
static inline v16 f_sum_lanes(const v16 x[16]) {
    __m512 q[4];
    for (int i = 0; i < 4; i++) q[i] = fold8(fold16(x[i], x[i + 4]), fold16(x[i + 8], x[i + 12]));
    const __m512 a = fold4(q[0], q[1]), b = fold4(q[2], q[3]);
    return I(_mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD)));
}

#define ROW(x) x, x + 4, x + 8, x + 12, x + 16, x + 20, x + 24, x + 28
static const uint8_t places[64] = {ROW(0), ROW(32), ROW(1), ROW(33),
                                   ROW(2), ROW(34), ROW(3), ROW(35)};
#undef ROW
/* Bytes of elements in their order. */
static inline v16 b_order(v16 x) { return _mm512_permutexvar_epi8(_mm512_loadu_si512(places), x); }

#define FOUR(x) x, x + 4, x + 8, x + 12
#define THREE(x) x, x + 1, x + 2
#define TWO(x) x, x + 8, x + 16, x + 24, x + 32, x + 40, x + 48, x + 56
static const uint8_t squeezes[3][32] = {
    {FOUR(0), FOUR(16), FOUR(32), FOUR(48)},
    {THREE(0), THREE(8), THREE(16), THREE(24), THREE(32), THREE(40), THREE(48), THREE(56)},
    {TWO(0), TWO(1), TWO(2), TWO(3)}};
#undef FOUR
#undef THREE
#undef TWO

/* Joins neighbours, and neighbours of these. Those of 4 bits are in order already: in each 64 bits
 * bytes of the upper lane go above those of the lower one. */
static inline void put64(uint8_t *to, unsigned bits, v16 x) {
    if (bits == 4) {
        x = _mm512_or_si512(x, _mm512_srli_epi64(x, 28));
    } else {
        x = _mm512_maddubs_epi16(b_order(x), _mm512_set1_epi16((short)(1 | 256 << bits)));
        x = _mm512_madd_epi16(x, _mm512_set1_epi32(1 | 65536 << 2 * bits));
        if (bits == 3) x = _mm512_or_si512(x, _mm512_srli_epi64(x, 20));
    }
    const __m256i squeeze = _mm256_loadu_si256((const __m256i *)squeezes[bits - 2]);
    x = _mm512_permutexvar_epi8(_mm512_castsi256_si512(squeeze), x);
    if (bits == 4) {
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(x));
        return;
    }
    _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(x));
    if (bits == 3) _mm_storel_epi64((__m128i *)(to + 16), _mm512_extracti32x4_epi32(x, 1));
}

/* Every lane gets the two bytes its code begins in, and how far to shift them. */
struct reading {
    v16 spread[4], shift;
};
static inline void reading_make(struct reading *r, unsigned bits) {
    const v16 lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const v16 bit = _mm512_mullo_epi32(lane, v_set(bits));
    const v16 both = _mm512_mullo_epi32(v_shr(bit, 3), v_set(0x0101));
    r->shift = v_and(bit, v_set(7));
    for (unsigned j = 0; j < 4; j++)
        r->spread[j] = v_add(both, v_set(0x0100 + 0x0101 * 2 * bits * j));
}
/* Codes in the low 4 bits of lanes, above them what comes next. */
static inline void take64(v16 q[4], const uint8_t *from, const struct reading *r) {
    const v16 x = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)from));
    q[0] = _mm512_srlv_epi32(_mm512_permutexvar_epi8(r->spread[0], x), r->shift);
    q[1] = _mm512_srlv_epi32(_mm512_permutexvar_epi8(r->spread[1], x), r->shift);
    q[2] = _mm512_srlv_epi32(_mm512_permutexvar_epi8(r->spread[2], x), r->shift);
    q[3] = _mm512_srlv_epi32(_mm512_permutexvar_epi8(r->spread[3], x), r->shift);
}

#include "group/codebook_tmpl.h"

#include "group/codebook_channel_tmpl.h"

void pithi_codebook_bind_avx512(struct pithi_kernels *k);
void pithi_codebook_bind_avx512(struct pithi_kernels *k) {
    k->codebook_encode = codebook_encode;
    k->codebook_decode = codebook_decode;
    k->levels_encode = levels_encode;
    k->levels_decode = levels_decode;
}
