/* codebook_avx512.c - groups coded as numbers of levels, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"
#include "common/lanes_avx512.h"
#include "group/look_avx512.h"

static inline v16 v_up(v16 x, unsigned n) { return _mm512_slli_epi32(x, n); }
static inline v16 w_shr(v16 x, unsigned n) {
    return _mm512_srlv_epi64(x, _mm512_set1_epi64((long long)n));
}
static inline v16 b_add(v16 a, v16 b) { return _mm512_add_epi8(a, b); }
/* 0 where the index has its highest bit. */
static inline v16 b_look(v16 table, v16 index) { return _mm512_shuffle_epi8(table, index); }
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

#define TWO(x) x, x + 1
#define THREE(x) x, x + 1, x + 2
#define FOUR(x) x, x + 1, x + 2, x + 3
#define ALL(of) \
    { of(0), of(8), of(16), of(24), of(32), of(40), of(48), of(56) }
static const uint8_t squeezes[3][64] = {ALL(TWO), ALL(THREE), ALL(FOUR)};

/* The low `bits` bytes of the 64-bit lanes. */
static inline void put_words(uint8_t *to, unsigned bits, v16 x) {
    x = _mm512_permutexvar_epi8(_mm512_loadu_si512(squeezes[bits - 2]), x);
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
