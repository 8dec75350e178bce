/* codebook_avx2.c - groups coded as numbers of levels, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx2.h"
#include "group/look_avx2.h"
#include "kernels.h"

static inline v16 v_up(v16 x, int n) {
    return (v16){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
BOTH(b_add, _mm256_add_epi8)
/* 0 where the index has its highest bit. */
BOTH(b_look, _mm256_shuffle_epi8)
static inline v16 f_cut(v16 x) {
    return (v16){_mm256_cvttps_epi32(F(x.a)), _mm256_cvttps_epi32(F(x.b))};
}
static inline __m256i step8(__m256i code, __m256i v, __m256i threshold) {
    const __m256i above = I(_mm256_cmp_ps(F(v), F(threshold), _CMP_GE_OQ));
    return _mm256_sub_epi32(_mm256_add_epi32(code, code), above);
}
static inline v16 f_step(v16 code, v16 v, v16 threshold) {
    return (v16){step8(code.a, v.a, threshold.a), step8(code.b, v.b, threshold.b)};
}

/* The halves of the lanes added; then those of two vectors, side by side, and so on. */
static inline __m256 fold16(v16 x) { return _mm256_add_ps(F(x.a), F(x.b)); }
static inline __m256 fold8(__m256 x, __m256 y) {
    return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}
static inline __m256 fold4(__m256 a, __m256 b) {
    const __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}
static inline __m256i sum_lanes_eight(const v16 x[8]) {
    __m256 q[4];
    for (int i = 0; i < 4; i++) q[i] = fold8(fold16(x[i]), fold16(x[i + 4]));
    const __m256 a = fold4(q[0], q[1]), b = fold4(q[2], q[3]);
    return I(_mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD)));
}
static inline v16 f_sum_lanes(const v16 x[16]) {
    return (v16){sum_lanes_eight(x), sum_lanes_eight(x + 8)};
}

/* Bytes of elements in their order: within fours of lanes, then these. */
static inline v16 b_order(v16 x) {
    const __m256i fours = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i a = _mm256_shuffle_epi8(x.a, fours), b = _mm256_shuffle_epi8(x.b, fours);
    return (v16){_mm256_permutevar8x32_epi32(_mm256_unpacklo_epi32(a, b), order),
                 _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi32(a, b), order)};
}

/* Joins neighbours, and neighbours of these, in the low bits of lanes of 16, 32 or 64. */
static inline __m256i join_codes(__m256i x, unsigned bits) {
    x = _mm256_maddubs_epi16(x, _mm256_set1_epi16((short)(1 | 256 << bits)));
    if (bits < 4) x = _mm256_madd_epi16(x, _mm256_set1_epi32(1 | 65536 << 2 * bits));
    return bits == 3 ? _mm256_or_si256(x, _mm256_srli_epi64(x, 20)) : x;
}

static const uint8_t squeezes[3][16] = {
    {0, 4, 8, 12, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {0, 1, 2, 8, 9, 10, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {0, 2, 4, 6, 8, 10, 12, 14, 128, 128, 128, 128, 128, 128, 128, 128}};

/* Stores overlap, in ascending order. */
static inline void put64(uint8_t *to, unsigned bits, v16 x) {
    const __m256i squeeze =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)squeezes[bits - 2]));
    x = b_order(x);
    const __m256i a = _mm256_shuffle_epi8(join_codes(x.a, bits), squeeze);
    const __m256i b = _mm256_shuffle_epi8(join_codes(x.b, bits), squeeze);
    const __m128i last = _mm256_extracti128_si256(b, 1);
    _mm_storel_epi64((__m128i *)to, _mm256_castsi256_si128(a));
    _mm_storel_epi64((__m128i *)(to + 2 * bits), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)(to + 4 * bits), _mm256_castsi256_si128(b));
    const uint64_t rest = (uint64_t)_mm_cvtsi128_si64(last);
    if (bits == 4) {
        memcpy(to + 24, &rest, 8);
        return;
    }
    memcpy(to + 6 * bits, &rest, 4);
    const uint16_t end = (uint16_t)(rest >> 32);
    if (bits == 3) memcpy(to + 22, &end, 2);
}

/* Every lane gets the two bytes its code begins in, and how far to shift them. */
struct reading {
    v16 spread, shift;
    unsigned bits;
};
static inline void reading_make(struct reading *r, unsigned bits) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), eight = _mm256_set1_epi32(8);
    const __m256i by = _mm256_set1_epi32((int)bits), twice = _mm256_set1_epi32(0x0101);
    const v16 bit = {_mm256_mullo_epi32(lane, by),
                     _mm256_mullo_epi32(_mm256_add_epi32(lane, eight), by)};
    const v16 byte = v_shr(bit, 3);
    const v16 both = {_mm256_mullo_epi32(byte.a, twice), _mm256_mullo_epi32(byte.b, twice)};
    r->spread = v_add(both, v_set(0x80800100u));
    r->shift = v_and(bit, v_set(7));
    r->bits = bits;
}
static inline v16 take16(const uint8_t *from, const struct reading *r) {
    const __m256i x = _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)from));
    return (v16){_mm256_srlv_epi32(_mm256_shuffle_epi8(x, r->spread.a), r->shift.a),
                 _mm256_srlv_epi32(_mm256_shuffle_epi8(x, r->spread.b), r->shift.b)};
}
/* Codes in the low 4 bits of lanes, above them what comes next. */
static inline void take64(v16 q[4], const uint8_t *from, const struct reading *r) {
    q[0] = take16(from, r);
    q[1] = take16(from + 2 * (size_t)r->bits, r);
    q[2] = take16(from + 4 * (size_t)r->bits, r);
    q[3] = take16(from + 6 * (size_t)r->bits, r);
}

#include "group/codebook_tmpl.h"

#include "group/codebook_channel_tmpl.h"

void pithi_codebook_bind_avx2(struct pithi_kernels *k);
void pithi_codebook_bind_avx2(struct pithi_kernels *k) {
    k->codebook_encode = codebook_encode;
    k->codebook_decode = codebook_decode;
    k->levels_encode = levels_encode;
    k->levels_decode = levels_decode;
}
