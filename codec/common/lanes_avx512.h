/* lanes_avx512.h - 16 lanes of 32 bits, and Philox in lanes, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_LANES_AVX512_H
#define PITHI_COMMON_LANES_AVX512_H

#include <immintrin.h>

#include "common/inline.h"
#include "common/numeric.h"
#include "common/philox_keys.h"

typedef __m512i v16;

#define F(x) _mm512_castsi512_ps(x)
#define I(x) _mm512_castps_si512(x)

static inline v16 v_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline v16 v_spread(const float *p) { return I(_mm512_set1_ps(*p)); }
static inline v16 v_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
/* Lanes 0, 2 .. 30 from p on; nothing is read behind them. */
static inline v16 v_load_every_other(const uint8_t *p) {
    const __m512i lane =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_epi32(v_load(p), lane, v_load(p + 60));
}
static inline v16 v_load16(const uint8_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

static inline void v_store(uint8_t *p, v16 x) { _mm512_storeu_si512(p, x); }
/* Lanes hold 16-bit values. */
static inline void v_store16(uint8_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(x));
}

/* 16 bits per lane, to and from the high halves of the lanes. */
static inline v16 v_load_high(const uint8_t *p) {
    const __m256i h = _mm256_loadu_si256((const __m256i *)p);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, _mm512_slli_epi32(lane, 16),
                                          _mm512_castsi256_si512(h));
}
static inline void v_store_high(uint8_t *p, v16 x) {
    const __m512i odd =
        _mm512_setr_epi32(0x00030001, 0x00070005, 0x000B0009, 0x000F000D, 0x00130011, 0x00170015,
                          0x001B0019, 0x001F001D, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_si256((__m256i *)p, _mm512_castsi512_si256(_mm512_permutexvar_epi16(odd, x)));
}

/* Lanes moved up by one: the first is the last of `last`. */
static inline v16 v_before(v16 x, v16 last) { return _mm512_alignr_epi32(x, last, 15); }
/* The last lane in all. */
static inline v16 v_last(v16 x) { return _mm512_permutexvar_epi32(v_set(15), x); }

/* In a loop of one load from each line, where little else is done: it must not begin two iterations
 * in one cycle, of six instructions. Out of cache that reads 7 % slower. */
static inline void v_pace(void) { __asm__ volatile("nop\n\tnop"); }

/* Non-temporal stores of whole lines although the output may begin within one, as large
 * allocations do: `lead` elements go before the first line, and every line takes the end of the
 * last vector and the beginning of this one. */
struct streamer {
    v16 last, rotate;
    unsigned lead;
    bool begun;
};
static inline bool v_stream_fits(const void *p) { return (uintptr_t)p % 4 == 0; }
static inline void v_stream_begin(struct streamer *s, const void *p) {
    s->lead = (unsigned)(-(uintptr_t)p / 4 % 16);
    s->rotate =
        _mm512_add_epi32(_mm512_set1_epi32((int)s->lead),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    s->last = _mm512_setzero_si512();
    s->begun = false;
}
static inline void v_stream(struct streamer *s, uint8_t *p, v16 x) {
    if (__builtin_expect(s->begun, 1)) {
        uint8_t *line = p + 4 * (size_t)s->lead - 64;
        _mm512_stream_si512((void *)line, _mm512_permutex2var_epi32(s->last, s->rotate, x));
    } else {
        uint8_t bytes[64];
        _mm512_storeu_si512(bytes, x);
        memcpy(p, bytes, 4 * (size_t)s->lead);
        s->begun = true;
    }
    s->last = x;
}
/* p: past the last vector, of which the elements from `lead` on are still to be stored. */
static inline void v_stream_end(struct streamer *s, uint8_t *p) {
    uint8_t bytes[64];
    if (!s->begun) return;
    s->begun = false;
    if (!s->lead) {
        _mm512_stream_si512((void *)(p - 64), s->last);
        return;
    }
    _mm512_storeu_si512(bytes, s->last);
    memcpy(p - 64 + 4 * (size_t)s->lead, bytes + 4 * (size_t)s->lead, 64 - 4 * (size_t)s->lead);
}

/* p: a line. */
static inline void v_stream_line(uint8_t *p, v16 x) { _mm512_stream_si512((void *)p, x); }

static inline v16 v_and(v16 a, v16 b) { return _mm512_and_si512(a, b); }
static inline v16 v_xor(v16 a, v16 b) { return _mm512_xor_si512(a, b); }
static inline v16 v_add(v16 a, v16 b) { return _mm512_add_epi32(a, b); }
static inline v16 v_sub(v16 a, v16 b) { return _mm512_sub_epi32(a, b); }
static inline v16 v_mul(v16 a, v16 b) { return _mm512_mullo_epi32(a, b); }
static inline v16 v_maxu(v16 a, v16 b) { return _mm512_max_epu32(a, b); }
static inline v16 v_maxi(v16 a, v16 b) { return _mm512_max_epi32(a, b); }
static inline v16 v_mini(v16 a, v16 b) { return _mm512_min_epi32(a, b); }
static inline v16 v_minu(v16 a, v16 b) { return _mm512_min_epu32(a, b); }
static inline v16 v_shr(v16 a, unsigned n) { return _mm512_srli_epi32(a, n); }
static inline v16 v_sar31(v16 a) { return _mm512_srai_epi32(a, 31); }
static inline v16 v_sar16(v16 a) { return _mm512_srai_epi32(a, 16); }
/* All ones where a > b as signed integers. */
static inline v16 v_greater(v16 a, v16 b) {
    return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(a, b));
}
/* Values to an integer order and back, -0 below +0. */
static inline v16 v_ordered(v16 a) {
    return _mm512_ternarylogic_epi32(a, v_sar31(a), v_set(0x7FFFFFFFu), 0x78);
}
static inline v16 v_shl16(v16 a) { return _mm512_slli_epi32(a, 16); }

/* 32 lanes of 16 bits, and 16 of them from memory, twice. */
static inline v16 v_maxi16(v16 a, v16 b) { return _mm512_max_epi16(a, b); }
static inline v16 v_maxu16(v16 a, v16 b) { return _mm512_max_epu16(a, b); }
static inline v16 v_minu16(v16 a, v16 b) { return _mm512_min_epu16(a, b); }
static inline v16 v_load_twice(const uint8_t *p) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}

/* The greatest or least lane of 16 vectors: of every four of them, then of these. Lanes of 16 bits
 * come back in the low halves of lanes of 32. */
typedef __m512i vquad;
#define OF_UNPACKED(operation, bits, x, y) \
    operation(_mm512_unpacklo_epi##bits(x, y), _mm512_unpackhi_epi##bits(x, y))
#define OF_QUARTERS(operation, x, y) \
    operation(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xDD))
#define MOST(name, operation)                                 \
    static inline vquad name##_four(const v16 x[4]) {         \
        const v16 a = OF_UNPACKED(operation, 32, x[0], x[1]); \
        const v16 b = OF_UNPACKED(operation, 32, x[2], x[3]); \
        return OF_UNPACKED(operation, 64, a, b);              \
    }                                                         \
    static inline v16 name##_all(const vquad x[4]) {          \
        const v16 a = OF_QUARTERS(operation, x[0], x[1]);     \
        const v16 b = OF_QUARTERS(operation, x[2], x[3]);     \
        return OF_QUARTERS(operation, a, b);                  \
    }
#define MOST16(name, operation)                                  \
    static inline vquad name##_four(const v16 x[4]) {            \
        const v16 a = OF_UNPACKED(operation, 16, x[0], x[1]);    \
        const v16 b = OF_UNPACKED(operation, 16, x[2], x[3]);    \
        return OF_UNPACKED(operation, 32, a, b);                 \
    }                                                            \
    static inline v16 name##_all(const vquad x[4]) {             \
        const v16 a = OF_UNPACKED(operation, 64, x[0], x[1]);    \
        const v16 b = OF_UNPACKED(operation, 64, x[2], x[3]);    \
        const v16 c = OF_QUARTERS(operation, a, b);              \
        const v16 d = OF_QUARTERS(operation, c, c);              \
        return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(d)); \
    }
MOST(v_largest, _mm512_max_epi32)
MOST(v_highest, _mm512_max_epu32)
MOST(v_lowest, _mm512_min_epu32)
MOST16(v_largest16, _mm512_max_epi16)
MOST16(v_highest16, _mm512_max_epu16)
MOST16(v_lowest16, _mm512_min_epu16)
#undef MOST
#undef MOST16
#undef OF_UNPACKED
#undef OF_QUARTERS

static inline bool v_any(v16 a) { return _mm512_test_epi32_mask(a, a) != 0; }
static inline uint32_t v_first(v16 a) {
    return (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(a));
}
static inline uint32_t v_reduce_maxu(v16 a) { return _mm512_reduce_max_epu32(a); }
static inline int32_t v_reduce_maxi(v16 a) { return _mm512_reduce_max_epi32(a); }
static inline int32_t v_reduce_mini(v16 a) { return _mm512_reduce_min_epi32(a); }

static inline v16 f_add(v16 a, v16 b) { return I(_mm512_add_ps(F(a), F(b))); }
static inline v16 f_sub(v16 a, v16 b) { return I(_mm512_sub_ps(F(a), F(b))); }
static inline v16 f_mul(v16 a, v16 b) { return I(_mm512_mul_ps(F(a), F(b))); }
static inline v16 f_div(v16 a, v16 b) { return I(_mm512_div_ps(F(a), F(b))); }
/* Divides the first eight lanes; the others are 0. */
static inline v16 f_div8(v16 a, v16 b) {
    const __m256 q = _mm256_div_ps(_mm512_castps512_ps256(F(a)), _mm512_castps512_ps256(F(b)));
    return I(_mm512_zextps256_ps512(q));
}
static inline v16 f_min(v16 a, v16 b) { return I(_mm512_min_ps(F(a), F(b))); }
static inline v16 f_max(v16 a, v16 b) { return I(_mm512_max_ps(F(a), F(b))); }
/* |limit| where a is larger, with the sign of a. */
static inline v16 f_limit(v16 a, v16 limit) { return I(_mm512_range_ps(F(a), F(limit), 0x02)); }
/* NaN made canonical: either kind (the two lowest digits of the table) from the first operand. */
static inline v16 f_canonical(v16 x) {
    return I(_mm512_fixupimm_ps(F(v_set(PITHI_F32_NAN)), F(x), v_set(0x11111100u), 0));
}
static inline v16 f_floor_to_i(v16 a) {
    return _mm512_cvt_roundps_epi32(F(a), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline v16 f_round_to_i(v16 a) { return _mm512_cvtps_epi32(F(a)); }
static inline v16 f_from_i(v16 a) { return I(_mm512_cvtepi32_ps(a)); }
static inline v16 f_widen(v16 a) { return I(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a))); }
static inline v16 f_narrow(v16 a) {
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(F(a), _MM_FROUND_TO_NEAREST_INT));
}
/* The same from memory and to it, without 16-bit values in lanes between. */
static inline v16 f_load16(const uint8_t *p) {
    return I(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)));
}
static inline void f_store16(uint8_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(F(x), _MM_FROUND_TO_NEAREST_INT));
}
/* Rounds to the nearest f16 and widens it again. */
static inline v16 f_round16(v16 a) {
    return I(_mm512_cvtph_ps(_mm512_cvtps_ph(F(a), _MM_FROUND_TO_NEAREST_INT)));
}

/* The sum of all lanes: halves of the lanes are added, down to one, as in the scalar reference. */
static inline float f_sum(v16 x) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(F(x)), _mm512_extractf32x8_ps(F(x), 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

enum { NONFINITE = 0x99 }; /* classes: quiet and signalling NaN, both infinities */
static inline uint32_t v_nonfinite(v16 a) { return _mm512_fpclass_ps_mask(F(a), NONFINITE); }
/* True where a lane is not finite. */
static inline bool v_overflows(v16 x) { return v_nonfinite(x) != 0; }
/* Nonfinite lanes become the largest value with their sign. */
static inline v16 v_saturate(v16 a, uint32_t largest) {
    const v16 full = _mm512_or_si512(v_and(a, v_set(0x80000000u)), v_set(largest));
    return _mm512_mask_mov_epi32(a, _mm512_fpclass_ps_mask(F(a), NONFINITE), full);
}

/* The low 22 bits of floor(a * 2^16), for |a| < 32: a sum from 128 up and less than 256, where a
 * unit in the last place is 2^-16. */
static inline v16 f_fixed(v16 a) {
    return I(_mm512_add_round_ps(F(a), _mm512_set1_ps(192.0f),
                                 _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
}

static inline __m512i each(uint64_t x) { return _mm512_set1_epi64((long long)x); }

/* high(p) ^ x ^ key, and the low half of p above it. */
static inline __m512i last_words(__m512i p, __m512i x, uint64_t key) {
    return _mm512_mask_ternarylogic_epi32(_mm512_ror_epi64(p, 32), 0x5555, x, each(key), 0x96);
}

/* 16 bits for each of the 256 elements of the counters from c on, in their order. Four times eight
 * counters: rounds side by side hide each other's latency. Lane 2i holds counter i, lane 2i + 1
 * counter 4 + i, so that unpacking gives the order of the elements. */
static inline void random256(const struct philox *r, uint64_t c, uint16_t out[256]) {
    const __m512i m0 = each(0xD2511F53u), m1 = each(0xCD9E8D57u);
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i most = _mm512_set1_epi16((short)r->most);
    __m512i c0[4], c1[4], c2[4], c3[4];
    for (unsigned i = 0; i < 4; i++) {
        const __m512i p = _mm512_mul_epu32(_mm512_add_epi64(each(c + 8 * i), order), m0);
        c1[i] = _mm512_mul_epu32(v_xor(_mm512_srli_epi64(p, 32), each(r->begin[0])), m1);
        c0[i] = v_xor(_mm512_srli_epi64(c1[i], 32), each(r->begin[1]));
        c2[i] = v_xor(p, each(r->begin[2]));
        c3[i] = each(r->begin[3]);
    }
    for (int round = 2; round < 9; round++) {
        const __m512i k0 = each(r->key[round][0]), k1 = each(r->key[round][1]);
        for (int i = 0; i < 4; i++) {
            const __m512i p0 = _mm512_mul_epu32(c0[i], m0), p1 = _mm512_mul_epu32(c2[i], m1);
            c0[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[i], k0, 0x96);
            c2[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[i], k1, 0x96);
            c1[i] = p1;
            c3[i] = p0;
        }
    }
    for (int i = 0; i < 4; i++) {
        const __m512i p0 = _mm512_mul_epu32(c0[i], m0), p1 = _mm512_mul_epu32(c2[i], m1);
        const __m512i a = last_words(p1, c1[i], r->key[9][0]);
        const __m512i b = last_words(p0, c3[i], r->key[9][1]);
        const __m512i low = _mm512_unpacklo_epi64(a, b), high = _mm512_unpackhi_epi64(a, b);
        _mm512_storeu_si512(out + 64 * i, _mm512_sub_epi16(most, low));
        _mm512_storeu_si512(out + 64 * i + 32, _mm512_sub_epi16(most, high));
    }
}

/* Row and column k of 16 vectors change places. */
static inline __attribute__((always_inline)) void v_transpose(v16 x[16]) {
    v16 t[16];
    PITHI_UNROLL for (int k = 0; k < 16; k += 4) {
        const v16 p = _mm512_unpacklo_epi32(x[k], x[k + 1]);
        const v16 q = _mm512_unpackhi_epi32(x[k], x[k + 1]);
        const v16 r = _mm512_unpacklo_epi32(x[k + 2], x[k + 3]);
        const v16 s = _mm512_unpackhi_epi32(x[k + 2], x[k + 3]);
        t[k] = _mm512_unpacklo_epi64(p, r);
        t[k + 1] = _mm512_unpackhi_epi64(p, r);
        t[k + 2] = _mm512_unpacklo_epi64(q, s);
        t[k + 3] = _mm512_unpackhi_epi64(q, s);
    }
    PITHI_UNROLL for (int k = 0; k < 4; k++) {
        const v16 p = _mm512_shuffle_i32x4(t[k], t[k + 4], 0x88);
        const v16 q = _mm512_shuffle_i32x4(t[k], t[k + 4], 0xDD);
        const v16 r = _mm512_shuffle_i32x4(t[k + 8], t[k + 12], 0x88);
        const v16 s = _mm512_shuffle_i32x4(t[k + 8], t[k + 12], 0xDD);
        x[k] = _mm512_shuffle_i32x4(p, r, 0x88);
        x[k + 4] = _mm512_shuffle_i32x4(q, s, 0x88);
        x[k + 8] = _mm512_shuffle_i32x4(p, r, 0xDD);
        x[k + 12] = _mm512_shuffle_i32x4(q, s, 0xDD);
    }
}

/* ---- 16 lanes of f64 -------------------------------------------------------------------------*/

/* Lanes 0..7 and 8..15. */
typedef struct {
    __m512d a, b;
} d16;

static inline d16 d_zero(void) { return (d16){_mm512_setzero_pd(), _mm512_setzero_pd()}; }
static inline d16 d_widen(v16 x) {
    return (d16){_mm512_cvtps_pd(_mm512_castps512_ps256(F(x))),
                 _mm512_cvtps_pd(_mm512_extractf32x8_ps(F(x), 1))};
}
static inline d16 d_add(d16 x, d16 y) {
    return (d16){_mm512_add_pd(x.a, y.a), _mm512_add_pd(x.b, y.b)};
}
static inline d16 d_mul(d16 x, d16 y) {
    return (d16){_mm512_mul_pd(x.a, y.a), _mm512_mul_pd(x.b, y.b)};
}
static inline d16 d_magnitude(d16 x) { return (d16){_mm512_abs_pd(x.a), _mm512_abs_pd(x.b)}; }
/* Lanes 0 to 7, then 8 to 15. */
static inline d16 d_set(double x, double y) { return (d16){_mm512_set1_pd(x), _mm512_set1_pd(y)}; }
static inline d16 d_load(const double *p, const double *q) {
    return (d16){_mm512_loadu_pd(p), _mm512_loadu_pd(q)};
}
static inline void d_store(double *p, double *q, d16 x) {
    _mm512_storeu_pd(p, x.a);
    _mm512_storeu_pd(q, x.b);
}
static inline d16 d_sub(d16 x, d16 y) {
    return (d16){_mm512_sub_pd(x.a, y.a), _mm512_sub_pd(x.b, y.b)};
}
static inline d16 d_div(d16 x, d16 y) {
    return (d16){_mm512_div_pd(x.a, y.a), _mm512_div_pd(x.b, y.b)};
}
/* Whether all lanes are numbers below the limit. */
static inline bool d_below(d16 x, double limit) {
    const __m512d most = _mm512_set1_pd(limit);
    return (_mm512_cmp_pd_mask(x.a, most, _CMP_LT_OQ) &
            _mm512_cmp_pd_mask(x.b, most, _CMP_LT_OQ)) == 0xFF;
}

#endif
