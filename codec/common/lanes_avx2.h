/* lanes_avx2.h - 16 lanes of 32 bits, and Philox in lanes, for AVX2 and F16C.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_LANES_AVX2_H
#define PITHI_COMMON_LANES_AVX2_H

#include <immintrin.h>

#include "common/inline.h"
#include "common/numeric.h"
#include "common/philox_keys.h"

/* Lanes 0..7 and 8..15. */
typedef struct {
    __m256i a, b;
} v16;

#define F(x) _mm256_castsi256_ps(x)
#define I(x) _mm256_castps_si256(x)
#define BOTH(name, operation) \
    static inline v16 name(v16 x, v16 y) { return (v16){operation(x.a, y.a), operation(x.b, y.b)}; }
#define BOTH_FLOAT(name, operation)                                               \
    static inline v16 name(v16 x, v16 y) {                                        \
        return (v16){I(operation(F(x.a), F(y.a))), I(operation(F(x.b), F(y.b)))}; \
    }

BOTH(v_and, _mm256_and_si256)
BOTH(v_xor, _mm256_xor_si256)
BOTH(v_add, _mm256_add_epi32)
BOTH(v_sub, _mm256_sub_epi32)
BOTH(v_mul, _mm256_mullo_epi32)
BOTH(v_maxu, _mm256_max_epu32)
BOTH(v_maxi, _mm256_max_epi32)
BOTH(v_mini, _mm256_min_epi32)
BOTH(v_minu, _mm256_min_epu32)
BOTH(v_greater, _mm256_cmpgt_epi32)
BOTH_FLOAT(f_add, _mm256_add_ps)
BOTH_FLOAT(f_sub, _mm256_sub_ps)
BOTH_FLOAT(f_mul, _mm256_mul_ps)
BOTH_FLOAT(f_div, _mm256_div_ps)
BOTH_FLOAT(f_min, _mm256_min_ps)
BOTH_FLOAT(f_max, _mm256_max_ps)
/* Divides the first eight lanes; the others are 0. */
static inline v16 f_div8(v16 x, v16 y) {
    return (v16){I(_mm256_div_ps(F(x.a), F(y.a))), _mm256_setzero_si256()};
}

static inline v16 v_set(uint32_t x) {
    const __m256i a = _mm256_set1_epi32((int)x);
    return (v16){a, a};
}
static inline v16 v_spread(const float *p) {
    const __m256i a = I(_mm256_broadcast_ss(p));
    return (v16){a, a};
}
static inline __m256i load256(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline v16 v_load(const uint8_t *p) { return (v16){load256(p), load256(p + 32)}; }
/* Lanes 0, 2 .. 30 from p on; nothing is read behind them. */
static inline __m256i every_other256(const uint8_t *p) {
    const __m256 x = _mm256_shuffle_ps(F(load256(p)), F(load256(p + 28)), 0xD8);
    return _mm256_permute4x64_epi64(I(x), 0xD8);
}
static inline v16 v_load_every_other(const uint8_t *p) {
    return (v16){every_other256(p), every_other256(p + 64)};
}
static inline v16 v_load16(const uint8_t *p) {
    return (v16){_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p + 1))};
}

static inline void store256(uint8_t *p, __m256i x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline void v_store(uint8_t *p, v16 x) {
    store256(p, x.a);
    store256(p + 32, x.b);
}
/* Lanes hold 16-bit values. */
static inline void v_store16(uint8_t *p, v16 x) {
    store256(p, _mm256_permute4x64_epi64(_mm256_packus_epi32(x.a, x.b), 0xD8));
}

/* Lanes moved up by one: the first is the last of `last`. */
static inline __m256i before256(__m256i x, __m256i last) {
    return _mm256_alignr_epi8(x, _mm256_permute2x128_si256(last, x, 0x21), 12);
}
static inline v16 v_before(v16 x, v16 last) {
    return (v16){before256(x.a, last.b), before256(x.b, x.a)};
}
/* The last lane in all. */
static inline __m256i last256(__m256i x) {
    return _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(7));
}
static inline v16 v_last(v16 x) {
    const __m256i last = last256(x.b);
    return (v16){last, last};
}

static inline v16 v_shr(v16 x, int n) {
    return (v16){_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
/* 16 bits per lane, to and from the high halves of the lanes. */
static inline __m256i high256(const uint8_t *p) {
    const __m256i order =
        _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1,
                         -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(x), order);
}
static inline v16 v_load_high(const uint8_t *p) { return (v16){high256(p), high256(p + 16)}; }
static inline void v_store_high(uint8_t *p, v16 x) { v_store16(p, v_shr(x, 16)); }

/* A line takes several loads. */
static inline void v_pace(void) {}

/* Non-temporal stores of aligned vectors although the output may begin 16 bytes off, as large
 * allocations do: then every one takes the end of the last vector and the beginning of this. */
struct streamer {
    __m256i last;
    bool off, begun;
};
static inline bool v_stream_fits(const void *p) { return (uintptr_t)p % 16 == 0; }
static inline void v_stream_begin(struct streamer *s, const void *p) {
    s->last = _mm256_setzero_si256();
    s->off = (uintptr_t)p % 32 != 0;
    s->begun = false;
}
static inline void stream256(struct streamer *s, uint8_t *p, __m256i x) {
    if (s->begun)
        _mm256_stream_si256((__m256i *)(p - 16), _mm256_permute2x128_si256(s->last, x, 0x21));
    else
        _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(x));
    s->begun = true;
    s->last = x;
}
static inline void v_stream(struct streamer *s, uint8_t *p, v16 x) {
    if (s->off) {
        stream256(s, p, x.a);
        stream256(s, p + 32, x.b);
    } else {
        _mm256_stream_si256((__m256i *)p, x.a);
        _mm256_stream_si256((__m256i *)(p + 32), x.b);
    }
}
/* p: past the last vector, whose end is still to be stored. */
static inline void v_stream_end(struct streamer *s, uint8_t *p) {
    if (s->begun) _mm_storeu_si128((__m128i *)(p - 16), _mm256_extracti128_si256(s->last, 1));
    s->begun = false;
}
/* p: a line. */
static inline void v_stream_line(uint8_t *p, v16 x) {
    _mm256_stream_si256((__m256i *)p, x.a);
    _mm256_stream_si256((__m256i *)(p + 32), x.b);
}

static inline v16 v_sar31(v16 x) {
    return (v16){_mm256_srai_epi32(x.a, 31), _mm256_srai_epi32(x.b, 31)};
}

static inline v16 v_sar16(v16 x) {
    return (v16){_mm256_srai_epi32(x.a, 16), _mm256_srai_epi32(x.b, 16)};
}

/* Values to an integer order and back, -0 below +0. */
static inline v16 v_ordered(v16 x) {
    const v16 sign = v_sar31(x);
    return v_xor(x, v_and(sign, v_set(0x7FFFFFFFu)));
}
static inline v16 v_shl16(v16 x) {
    return (v16){_mm256_slli_epi32(x.a, 16), _mm256_slli_epi32(x.b, 16)};
}

/* 32 lanes of 16 bits, and 16 of them from memory, twice. */
BOTH(v_maxi16, _mm256_max_epi16)
BOTH(v_maxu16, _mm256_max_epu16)
BOTH(v_minu16, _mm256_min_epu16)
static inline v16 v_load_twice(const uint8_t *p) { return (v16){load256(p), load256(p)}; }

/* The greatest or least lane of 16 vectors, or the sum of its lanes: of every four of them, then of
 * these. Lanes of 16 bits come back in the low halves of lanes of 32. */
typedef __m256i vquad;
#define OF_UNPACKED(operation, bits, x, y) \
    operation(_mm256_unpacklo_epi##bits(x, y), _mm256_unpackhi_epi##bits(x, y))
#define OF_HALVES(operation, x, y) \
    operation(_mm256_permute2x128_si256(x, y, 0x20), _mm256_permute2x128_si256(x, y, 0x31))
#define FOUR(name, operation, bits, twice)                                          \
    static inline vquad name##_four(const v16 x[4]) {                               \
        const __m256i p = operation(x[0].a, x[0].b), q = operation(x[1].a, x[1].b); \
        const __m256i r = operation(x[2].a, x[2].b), s = operation(x[3].a, x[3].b); \
        const __m256i a = OF_UNPACKED(operation, bits, p, q);                       \
        const __m256i b = OF_UNPACKED(operation, bits, r, s);                       \
        return OF_UNPACKED(operation, twice, a, b);                                 \
    }
#define MOST(name, operation)                                                             \
    FOUR(name, operation, 32, 64)                                                         \
    static inline v16 name##_all(const vquad x[4]) {                                      \
        return (v16){OF_HALVES(operation, x[0], x[1]), OF_HALVES(operation, x[2], x[3])}; \
    }
#define MOST16(name, operation)                                              \
    FOUR(name, operation, 16, 32)                                            \
    static inline v16 name##_all(const vquad x[4]) {                         \
        const __m256i a = OF_UNPACKED(operation, 64, x[0], x[1]);            \
        const __m256i b = OF_UNPACKED(operation, 64, x[2], x[3]);            \
        const __m256i c = OF_HALVES(operation, a, b);                        \
        return (v16){_mm256_cvtepu16_epi32(_mm256_castsi256_si128(c)),       \
                     _mm256_cvtepu16_epi32(_mm256_extracti128_si256(c, 1))}; \
    }
MOST(v_largest, _mm256_max_epi32)
MOST(v_highest, _mm256_max_epu32)
MOST(v_lowest, _mm256_min_epu32)
MOST(v_total, _mm256_add_epi32)
MOST16(v_largest16, _mm256_max_epi16)
MOST16(v_highest16, _mm256_max_epu16)
MOST16(v_lowest16, _mm256_min_epu16)
#undef MOST
#undef MOST16
#undef FOUR
#undef OF_UNPACKED
#undef OF_HALVES

static inline bool v_any(v16 x) {
    const __m256i any = _mm256_or_si256(x.a, x.b);
    return !_mm256_testz_si256(any, any);
}
static inline uint32_t v_first(v16 x) {
    return (uint32_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(x.a));
}
#define REDUCE(name, type, operation)                                                           \
    static inline type name(v16 v) {                                                            \
        const __m256i x = _mm256_##operation(v.a, v.b);                                         \
        __m128i y = _mm_##operation(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)); \
        y = _mm_##operation(y, _mm_shuffle_epi32(y, 0x4E));                                     \
        y = _mm_##operation(y, _mm_shuffle_epi32(y, 0xB1));                                     \
        return (type)_mm_cvtsi128_si32(y);                                                      \
    }
REDUCE(v_reduce_maxu, uint32_t, max_epu32)
REDUCE(v_reduce_maxi, int32_t, max_epi32)
REDUCE(v_reduce_mini, int32_t, min_epi32)

/* |limit| where a is larger, with the sign of a. */
static inline __m256 limit256(__m256 a, __m256 limit) {
    return _mm256_max_ps(_mm256_min_ps(a, limit), _mm256_sub_ps(_mm256_setzero_ps(), limit));
}
static inline v16 f_limit(v16 a, v16 limit) {
    return (v16){I(limit256(F(a.a), F(limit.a))), I(limit256(F(a.b), F(limit.b)))};
}
/* NaN of either kind made canonical. */
static inline __m256i canonical8(__m256i x) {
    const __m256 nan = _mm256_cmp_ps(F(x), F(x), _CMP_UNORD_Q);
    return I(_mm256_blendv_ps(F(x), F(_mm256_set1_epi32(PITHI_F32_NAN)), nan));
}
static inline v16 f_canonical(v16 x) { return (v16){canonical8(x.a), canonical8(x.b)}; }
static inline v16 f_floor_to_i(v16 x) {
    return (v16){_mm256_cvttps_epi32(_mm256_floor_ps(F(x.a))),
                 _mm256_cvttps_epi32(_mm256_floor_ps(F(x.b)))};
}
static inline v16 f_round_to_i(v16 x) {
    return (v16){_mm256_cvtps_epi32(F(x.a)), _mm256_cvtps_epi32(F(x.b))};
}
static inline v16 f_from_i(v16 x) {
    return (v16){I(_mm256_cvtepi32_ps(x.a)), I(_mm256_cvtepi32_ps(x.b))};
}
/* The sum of all lanes: halves of the lanes are added, down to one, as in the scalar reference. */
static inline float f_sum(v16 x) {
    const __m256 a = _mm256_add_ps(F(x.a), F(x.b));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
static inline v16 f_widen(v16 x) {
    const __m256i h = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.a, x.b), 0xD8);
    return (v16){I(_mm256_cvtph_ps(_mm256_castsi256_si128(h))),
                 I(_mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)))};
}
static inline v16 f_narrow(v16 x) {
    return (v16){_mm256_cvtepu16_epi32(_mm256_cvtps_ph(F(x.a), _MM_FROUND_TO_NEAREST_INT)),
                 _mm256_cvtepu16_epi32(_mm256_cvtps_ph(F(x.b), _MM_FROUND_TO_NEAREST_INT))};
}
/* The same from memory and to it, without 16-bit values in lanes between. */
static inline v16 f_load16(const uint8_t *p) {
    return (v16){I(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p))),
                 I(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1)))};
}
static inline void f_store16(uint8_t *p, v16 x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(F(x.a), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)p + 1, _mm256_cvtps_ph(F(x.b), _MM_FROUND_TO_NEAREST_INT));
}
/* Rounds to the nearest f16 and widens it again. */
static inline __m256i round16(__m256i x) {
    return I(_mm256_cvtph_ps(_mm256_cvtps_ph(F(x), _MM_FROUND_TO_NEAREST_INT)));
}
static inline v16 f_round16(v16 x) { return (v16){round16(x.a), round16(x.b)}; }

/* All ones where x is finite. */
static inline __m256i finite256(__m256i x) {
    const __m256i infinity = _mm256_set1_epi32(0x7F800000);
    return _mm256_cmpgt_epi32(infinity, _mm256_and_si256(x, infinity));
}
static inline uint32_t v_nonfinite(v16 x) {
    const __m256i a = finite256(x.a), b = finite256(x.b);
    return 0xFFFF & ~((uint32_t)_mm256_movemask_ps(F(a)) | (uint32_t)_mm256_movemask_ps(F(b)) << 8);
}
/* True where a lane is not finite, or the sum of two is not. */
static inline bool v_overflows(v16 x) {
    const __m256 sum = _mm256_add_ps(F(x.a), F(x.b));
    return _mm256_movemask_ps(F(finite256(I(sum)))) != 0xFF;
}
/* Nonfinite lanes become the largest value with their sign. */
static inline __m256i saturate256(__m256i x, __m256i largest) {
    const __m256i sign = _mm256_set1_epi32((int)0x80000000u);
    const __m256i full = _mm256_or_si256(_mm256_and_si256(x, sign), largest);
    return _mm256_blendv_epi8(full, x, finite256(x));
}
static inline v16 v_saturate(v16 x, uint32_t largest) {
    const __m256i l = _mm256_set1_epi32((int)largest);
    return (v16){saturate256(x.a, l), saturate256(x.b, l)};
}

static inline v16 f_fixed(v16 x) { return f_floor_to_i(f_mul(x, v_set(0x47800000u))); } /* 2^16 */

static inline __m256i each(uint64_t x) { return _mm256_set1_epi64x((long long)x); }

/* high(p) ^ x ^ key, and the low half of p above it. */
static inline __m256i last_words(__m256i p, __m256i x, uint64_t key) {
    const __m256i low = _mm256_blend_epi32(_mm256_xor_si256(x, each(key)), each(0), 0xAA);
    return _mm256_xor_si256(_mm256_shuffle_epi32(p, 0xB1), low);
}

/* 16 bits for each of the 128 elements of the counters from c on, in their order. Four times four
 * counters: rounds side by side hide each other's latency, though registers do not hold them all.
 * Lanes hold counters c, c+2, c+1, c+3, so that unpacking gives the order of the elements. */
static inline void random128(const struct philox *r, uint64_t c, uint16_t *out) {
    const __m256i m0 = each(0xD2511F53u), m1 = each(0xCD9E8D57u);
    const __m256i order = _mm256_setr_epi64x(0, 2, 1, 3);
    const __m256i most = _mm256_set1_epi16((short)r->most);
    __m256i c0[4], c1[4], c2[4], c3[4];
    for (unsigned i = 0; i < 4; i++) {
        const __m256i p = _mm256_mul_epu32(_mm256_add_epi64(each(c + 4 * i), order), m0);
        const __m256i word = _mm256_xor_si256(_mm256_srli_epi64(p, 32), each(r->begin[0]));
        c1[i] = _mm256_mul_epu32(word, m1);
        c0[i] = _mm256_xor_si256(_mm256_srli_epi64(c1[i], 32), each(r->begin[1]));
        c2[i] = _mm256_xor_si256(p, each(r->begin[2]));
        c3[i] = each(r->begin[3]);
    }
    for (int round = 2; round < 9; round++) {
        const __m256i k0 = each(r->key[round][0]), k1 = each(r->key[round][1]);
        for (int i = 0; i < 4; i++) {
            const __m256i p0 = _mm256_mul_epu32(c0[i], m0), p1 = _mm256_mul_epu32(c2[i], m1);
            c0[i] = _mm256_xor_si256(_mm256_xor_si256(c1[i], k0), _mm256_srli_epi64(p1, 32));
            c2[i] = _mm256_xor_si256(_mm256_xor_si256(c3[i], k1), _mm256_srli_epi64(p0, 32));
            c1[i] = p1;
            c3[i] = p0;
        }
    }
    for (int i = 0; i < 4; i++) {
        const __m256i p0 = _mm256_mul_epu32(c0[i], m0), p1 = _mm256_mul_epu32(c2[i], m1);
        const __m256i a = last_words(p1, c1[i], r->key[9][0]);
        const __m256i b = last_words(p0, c3[i], r->key[9][1]);
        const __m256i low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
        store256((uint8_t *)(out + 32 * i), _mm256_sub_epi16(most, low));
        store256((uint8_t *)(out + 32 * i + 16), _mm256_sub_epi16(most, high));
    }
}

static inline void random256(const struct philox *r, uint64_t c, uint16_t out[256]) {
    for (unsigned i = 0; i < 2; i++) random128(r, c + 16 * i, out + 128 * i);
}

/* Row and column k of 8 vectors change places. */
static inline __attribute__((always_inline)) void transpose256(__m256i x[8]) {
    __m256i a[8], b[8];
    PITHI_UNROLL for (int k = 0; k < 8; k += 2) {
        a[k] = _mm256_unpacklo_epi32(x[k], x[k + 1]);
        a[k + 1] = _mm256_unpackhi_epi32(x[k], x[k + 1]);
    }
    PITHI_UNROLL for (int k = 0; k < 8; k += 4) {
        b[k] = _mm256_unpacklo_epi64(a[k], a[k + 2]);
        b[k + 1] = _mm256_unpackhi_epi64(a[k], a[k + 2]);
        b[k + 2] = _mm256_unpacklo_epi64(a[k + 1], a[k + 3]);
        b[k + 3] = _mm256_unpackhi_epi64(a[k + 1], a[k + 3]);
    }
    PITHI_UNROLL for (int k = 0; k < 4; k++) {
        x[k] = _mm256_permute2x128_si256(b[k], b[k + 4], 0x20);
        x[k + 4] = _mm256_permute2x128_si256(b[k], b[k + 4], 0x31);
    }
}
/* Row and column k of 16 vectors change places. */
static inline __attribute__((always_inline)) void v_transpose(v16 x[16]) {
    __m256i part[2][2][8];
    PITHI_UNROLL for (int k = 0; k < 8; k++) {
        part[0][0][k] = x[k].a;
        part[0][1][k] = x[k].b;
        part[1][0][k] = x[k + 8].a;
        part[1][1][k] = x[k + 8].b;
    }
    PITHI_UNROLL for (int k = 0; k < 4; k++) transpose256(part[k / 2][k % 2]);
    PITHI_UNROLL for (int k = 0; k < 8; k++) {
        x[k] = (v16){part[0][0][k], part[1][0][k]};
        x[k + 8] = (v16){part[0][1][k], part[1][1][k]};
    }
}

/* ---- 16 lanes of f64 -------------------------------------------------------------------------*/

/* Lanes 0..3, 4..7, 8..11, 12..15. */
typedef struct {
    __m256d q[4];
} d16;

static inline d16 d_zero(void) {
    const __m256d zero = _mm256_setzero_pd();
    return (d16){{zero, zero, zero, zero}};
}
static inline d16 d_widen(v16 x) {
    return (d16){{_mm256_cvtps_pd(_mm256_castps256_ps128(F(x.a))),
                  _mm256_cvtps_pd(_mm256_extractf128_ps(F(x.a), 1)),
                  _mm256_cvtps_pd(_mm256_castps256_ps128(F(x.b))),
                  _mm256_cvtps_pd(_mm256_extractf128_ps(F(x.b), 1))}};
}
#define F64(name, operation)                                            \
    static inline d16 name(d16 x, d16 y) {                              \
        for (int k = 0; k < 4; k++) x.q[k] = operation(x.q[k], y.q[k]); \
        return x;                                                       \
    }
F64(d_add, _mm256_add_pd)
F64(d_sub, _mm256_sub_pd)
F64(d_mul, _mm256_mul_pd)
F64(d_div, _mm256_div_pd)
#undef F64
static inline d16 d_magnitude(d16 x) {
    for (int k = 0; k < 4; k++) x.q[k] = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x.q[k]);
    return x;
}
/* Lanes 0 to 7, then 8 to 15. */
static inline d16 d_set(double x, double y) {
    const __m256d a = _mm256_set1_pd(x), b = _mm256_set1_pd(y);
    return (d16){{a, a, b, b}};
}
static inline d16 d_load(const double *p, const double *q) {
    return (d16){
        {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4), _mm256_loadu_pd(q), _mm256_loadu_pd(q + 4)}};
}
static inline void d_store(double *p, double *q, d16 x) {
    for (int k = 0; k < 4; k++) _mm256_storeu_pd((k < 2 ? p : q) + 4 * (k % 2), x.q[k]);
}
/* Whether all lanes are numbers below the limit. */
static inline bool d_below(d16 x, double limit) {
    const __m256d most = _mm256_set1_pd(limit);
    int all = 15;
    for (int k = 0; k < 4; k++) all &= _mm256_movemask_pd(_mm256_cmp_pd(x.q[k], most, _CMP_LT_OQ));
    return all == 15;
}

#endif
