/* immintrin.h - what the AVX-512 kernels need of AVX-512, in plain C, for processors without it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Found before the compiler's header of this name, which is what it includes without the parts for
 * AVX-512 (gcc's: clang has other parts). What an instruction leaves undefined is filled with 0xA5.
 * As in the manuals of the instructions: `a` and `b` are operands, `src` is what lanes keep whose
 * bit of a mask is 0. */
#ifndef PITH_TESTS_EMULATED_IMMINTRIN_H
#define PITH_TESTS_EMULATED_IMMINTRIN_H

/* In the order of that header. */
/* clang-format off */
#define _IMMINTRIN_H_INCLUDED
#include <x86gprintrin.h>
#include <mmintrin.h>
#include <xmmintrin.h>
#include <emmintrin.h>
#include <pmmintrin.h>
#include <tmmintrin.h>
#include <smmintrin.h>
#include <wmmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
/* clang-format on */

#include <fenv.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef double __m512d __attribute__((vector_size(64), may_alias));
typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

enum { _MM_PERM_CDAB = 0xB1 };

/* A vector as its lanes. */
typedef union {
    __m512i v;
    __m512 ps;
    __m512d pd;
    __m256i half[2];
    __m128i part[4];
    int8_t epi8[64];
    int16_t epi16[32];
    int32_t epi32[16];
    int64_t epi64[8];
    uint8_t epu8[64];
    uint16_t epu16[32];
    uint32_t epu32[16];
    uint64_t epu64[8];
    float f32[16];
    double f64[8];
} lanes;

#define EMULATED static inline __attribute__((always_inline, unused))
#define EACH_LANE(n) for (int i = 0; i < (n); i++)

/* ---- Move ------------------------------------------------------------------------------------*/

EMULATED __m512i undefined_512(void) {
    lanes r;
    memset(&r, 0xA5, sizeof r);
    return r.v;
}

#define SET1(name, field, type, n)                \
    EMULATED __m512i _mm512_set1_##name(type x) { \
        lanes r;                                  \
        EACH_LANE(n) r.field[i] = x;              \
        return r.v;                               \
    }
SET1(epi8, epi8, char, 64)
SET1(epi16, epi16, short, 32)
SET1(epi32, epi32, int, 16)
SET1(epi64, epi64, long long, 8)
EMULATED __m512 _mm512_set1_ps(float x) {
    lanes r;
    EACH_LANE(16) r.f32[i] = x;
    return r.ps;
}
EMULATED __m512d _mm512_set1_pd(double x) {
    lanes r;
    EACH_LANE(8) r.f64[i] = x;
    return r.pd;
}
EMULATED __m512i _mm512_setzero_si512(void) { return _mm512_set1_epi32(0); }
EMULATED __m512d _mm512_setzero_pd(void) { return _mm512_set1_pd(0); }

EMULATED __m512i loaded_512(const void *from) {
    lanes r;
    memcpy(&r, from, sizeof r);
    return r.v;
}
EMULATED __m512i reversed_512(const void *from, size_t width) {
    lanes r;
    for (size_t i = 0; i < sizeof r; i += width)
        memcpy(r.epu8 + i, (const uint8_t *)from + sizeof r - width - i, width);
    return r.v;
}
#define _mm512_setr_epi32(...) loaded_512((const int32_t[16]){__VA_ARGS__})
#define _mm512_setr_epi64(...) loaded_512((const int64_t[8]){__VA_ARGS__})
#define _mm512_set_epi16(...) reversed_512((const int16_t[32]){__VA_ARGS__}, 2)
#define _mm512_set_epi8(...) reversed_512((const int8_t[64]){__VA_ARGS__}, 1)

EMULATED __m512i _mm512_loadu_si512(const void *p) { return loaded_512(p); }
EMULATED __m512i _mm512_load_si512(const void *p) { return loaded_512(p); }
EMULATED __m512d _mm512_loadu_pd(const void *p) { return (__m512d)loaded_512(p); }
EMULATED void _mm512_storeu_si512(void *p, __m512i a) { memcpy(p, &a, sizeof a); }
EMULATED void _mm512_storeu_pd(void *p, __m512d a) { memcpy(p, &a, sizeof a); }
EMULATED void _mm512_stream_si512(void *p, __m512i a) {
    if ((uintptr_t)p % 64) __builtin_trap();
    memcpy(p, &a, sizeof a);
}

/* Memory of lanes that a mask leaves out is not touched. */
#define MASKED_MEMORY(name, field, type, mask, n)                                      \
    EMULATED __m512i _mm512_maskz_loadu_##name(mask k, const void *p) {                \
        lanes r = {.v = _mm512_setzero_si512()};                                       \
        EACH_LANE(n) if (k >> i & 1) r.field[i] = ((const type *)p)[i];                \
        return r.v;                                                                    \
    }                                                                                  \
    EMULATED void _mm512_mask_storeu_##name(void *p, mask k, __m512i a) {              \
        const lanes x = {.v = a};                                                      \
        EACH_LANE(n) if (k >> i & 1) memcpy((type *)p + i, x.field + i, sizeof(type)); \
    }
typedef uint8_t any8;
typedef uint32_t any32 __attribute__((aligned(1), may_alias));
MASKED_MEMORY(epi8, epu8, any8, __mmask64, 64)
MASKED_MEMORY(epi32, epu32, any32, __mmask16, 16)
EMULATED __m256i _mm256_maskz_loadu_epi8(__mmask32 k, const void *p) {
    lanes r = {.v = _mm512_maskz_loadu_epi8(k, p)};
    return r.half[0];
}
EMULATED void _mm_mask_storeu_epi16(void *p, __mmask8 k, __m128i a) {
    EACH_LANE(8) if (k >> i & 1) memcpy((uint8_t *)p + 2 * i, (const uint8_t *)&a + 2 * i, 2);
}

EMULATED __m512 _mm512_castpd_ps(__m512d a) { return (__m512)a; }
EMULATED __m512d _mm512_castps_pd(__m512 a) { return (__m512d)a; }
EMULATED __m512i _mm512_castps_si512(__m512 a) { return (__m512i)a; }
EMULATED __m512 _mm512_castsi512_ps(__m512i a) { return (__m512)a; }
EMULATED __m128i _mm512_extracti32x4_epi32(__m512i a, int which) {
    const lanes x = {.v = a};
    return x.part[which & 3];
}
EMULATED __m256i _mm512_extracti64x4_epi64(__m512i a, int which) {
    const lanes x = {.v = a};
    return x.half[which & 1];
}
EMULATED __m256 _mm512_extractf32x8_ps(__m512 a, int which) {
    return _mm256_castsi256_ps(_mm512_extracti64x4_epi64((__m512i)a, which));
}
EMULATED __m256d _mm512_extractf64x4_pd(__m512d a, int which) {
    return _mm256_castsi256_pd(_mm512_extracti64x4_epi64((__m512i)a, which));
}
EMULATED __m128i _mm512_castsi512_si128(__m512i a) { return _mm512_extracti32x4_epi32(a, 0); }
EMULATED __m256i _mm512_castsi512_si256(__m512i a) { return _mm512_extracti64x4_epi64(a, 0); }
EMULATED __m256 _mm512_castps512_ps256(__m512 a) { return _mm512_extractf32x8_ps(a, 0); }
EMULATED __m256d _mm512_castpd512_pd256(__m512d a) { return _mm512_extractf64x4_pd(a, 0); }
EMULATED __m512i _mm512_inserti64x4(__m512i a, __m256i b, int which) {
    lanes r = {.v = a};
    r.half[which & 1] = b;
    return r.v;
}
EMULATED __m512i _mm512_zextsi256_si512(__m256i a) {
    return _mm512_inserti64x4(_mm512_setzero_si512(), a, 0);
}
EMULATED __m512 _mm512_zextps256_ps512(__m256 a) {
    return (__m512)_mm512_zextsi256_si512(_mm256_castps_si256(a));
}
EMULATED __m512i _mm512_castsi256_si512(__m256i a) {
    return _mm512_inserti64x4(undefined_512(), a, 0);
}
EMULATED __m512i _mm512_castsi128_si512(__m128i a) {
    lanes r = {.v = undefined_512()};
    r.part[0] = a;
    return r.v;
}
EMULATED __m512i _mm512_broadcast_i32x4(__m128i a) {
    lanes r;
    EACH_LANE(4) r.part[i] = a;
    return r.v;
}
EMULATED __m512i _mm512_broadcast_i64x4(__m256i a) {
    lanes r;
    EACH_LANE(2) r.half[i] = a;
    return r.v;
}

/* ---- Lanes chosen by masks -------------------------------------------------------------------*/

#define CHOOSE(name, field, mask, n)                                             \
    EMULATED __m512i chosen_##name(mask k, __m512i a, __m512i src) {             \
        const lanes x = {.v = a};                                                \
        lanes r = {.v = src};                                                    \
        EACH_LANE(n) r.field[i] = k >> i & 1 ? x.field[i] : r.field[i];          \
        return r.v;                                                              \
    }                                                                            \
    EMULATED __m512i _mm512_mask_mov_##name(__m512i src, mask k, __m512i a) {    \
        return chosen_##name(k, a, src);                                         \
    }                                                                            \
    EMULATED __m512i _mm512_maskz_mov_##name(mask k, __m512i a) {                \
        return chosen_##name(k, a, _mm512_setzero_si512());                      \
    }                                                                            \
    EMULATED __m512i _mm512_mask_blend_##name(mask k, __m512i a, __m512i b) {    \
        return chosen_##name(k, b, a);                                           \
    }                                                                            \
    EMULATED __m512i _mm512_maskz_compress_##name(mask k, __m512i a) {           \
        const lanes x = {.v = a};                                                \
        lanes r = {.v = _mm512_setzero_si512()};                                 \
        int to = 0;                                                              \
        EACH_LANE(n) if (k >> i & 1) r.field[to++] = x.field[i];                 \
        return r.v;                                                              \
    }                                                                            \
    EMULATED __m512i _mm512_mask_expand_##name(__m512i src, mask k, __m512i a) { \
        const lanes x = {.v = a};                                                \
        lanes r = {.v = src};                                                    \
        int from = 0;                                                            \
        EACH_LANE(n) if (k >> i & 1) r.field[i] = x.field[from++];               \
        return r.v;                                                              \
    }                                                                            \
    EMULATED __m512i _mm512_maskz_expand_##name(mask k, __m512i a) {             \
        return _mm512_mask_expand_##name(_mm512_setzero_si512(), k, a);          \
    }
CHOOSE(epi8, epu8, __mmask64, 64)
CHOOSE(epi16, epu16, __mmask32, 32)
CHOOSE(epi32, epu32, __mmask16, 16)
CHOOSE(epi64, epu64, __mmask8, 8)
EMULATED __m512i _mm512_mask_broadcast_i64x2(__m512i src, __mmask8 k, __m128i a) {
    return chosen_epi64(k, _mm512_broadcast_i32x4(a), src);
}
EMULATED __m512i _mm512_maskz_set1_epi8(__mmask64 k, char x) {
    return _mm512_maskz_mov_epi8(k, _mm512_set1_epi8(x));
}
EMULATED __m256i _mm256_maskz_expand_epi32(__mmask8 k, __m256i a) {
    return _mm512_castsi512_si256(_mm512_maskz_expand_epi32(k, _mm512_zextsi256_si512(a)));
}
EMULATED __m128i _mm_maskz_mov_epi8(__mmask16 k, __m128i a) {
    return _mm512_castsi512_si128(_mm512_maskz_mov_epi8(k, _mm512_castsi128_si512(a)));
}
EMULATED __m512i _mm512_movm_epi32(__mmask16 k) {
    return _mm512_maskz_mov_epi32(k, _mm512_set1_epi32(-1));
}
EMULATED __mmask64 _mm512_movepi8_mask(__m512i a) {
    const lanes x = {.v = a};
    __mmask64 k = 0;
    EACH_LANE(64) k |= (__mmask64)(x.epi8[i] < 0) << i;
    return k;
}
EMULATED void _store_mask32(__mmask32 *p, __mmask32 k) { memcpy(p, &k, sizeof k); }
EMULATED __mmask16 _mm512_knot(__mmask16 k) { return (__mmask16)~k; }
EMULATED int _mm512_kortestz(__mmask16 a, __mmask16 b) { return !(a | b); }
EMULATED __mmask32 _mm512_kunpackw(__mmask32 a, __mmask32 b) { return a << 16 | (b & 0xFFFF); }
EMULATED __mmask64 _mm512_kunpackd(__mmask64 a, __mmask64 b) { return a << 32 | (uint32_t)b; }

/* ---- Arithmetic ------------------------------------------------------------------------------*/

#define UNARY(name, to, n, expression)           \
    EMULATED __m512i _mm512_##name(__m512i va) { \
        const lanes a = {.v = va};               \
        lanes r;                                 \
        EACH_LANE(n) r.to[i] = (expression);     \
        return r.v;                              \
    }
#define BINARY(name, to, n, expression)                      \
    EMULATED __m512i _mm512_##name(__m512i va, __m512i vb) { \
        const lanes a = {.v = va}, b = {.v = vb};            \
        lanes r;                                             \
        EACH_LANE(n) r.to[i] = (expression);                 \
        return r.v;                                          \
    }
/* With the variant that keeps lanes. */
#define MASKED_BINARY(name, lane, mask, to, n, expression)                                    \
    BINARY(name##_##lane, to, n, expression)                                                  \
    EMULATED __m512i _mm512_mask_##name##_##lane(__m512i src, mask k, __m512i a, __m512i b) { \
        return chosen_##lane(k, _mm512_##name##_##lane(a, b), src);                           \
    }
#define LARGER(x, y) ((x) > (y) ? (x) : (y))
#define SMALLER(x, y) ((x) < (y) ? (x) : (y))
#define CLAMPED(x, least, most) ((x) < (least) ? (least) : (x) > (most) ? (most) : (x))

EMULATED __m512i _mm512_and_si512(__m512i a, __m512i b) { return a & b; }
EMULATED __m512i _mm512_andnot_si512(__m512i a, __m512i b) { return ~a & b; }
EMULATED __m512i _mm512_or_si512(__m512i a, __m512i b) { return a | b; }
EMULATED __m512i _mm512_xor_si512(__m512i a, __m512i b) { return a ^ b; }
MASKED_BINARY(or, epi32, __mmask16, epu32, 16, a.epu32[i] | b.epu32[i])
MASKED_BINARY(xor, epi32, __mmask16, epu32, 16, a.epu32[i] ^ b.epu32[i])
EMULATED __m512i _mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
    __m512i r = a ^ a;
    EACH_LANE(8)
    if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
#define _mm512_ternarylogic_epi32 _mm512_ternarylogic_epi64
EMULATED __m512i _mm512_mask_ternarylogic_epi32(__m512i a, __mmask16 k, __m512i b, __m512i c,
                                                int table) {
    return chosen_epi32(k, _mm512_ternarylogic_epi32(a, b, c, table), a);
}
EMULATED __m128i _mm_ternarylogic_epi32(__m128i a, __m128i b, __m128i c, int table) {
    return _mm512_castsi512_si128(_mm512_ternarylogic_epi32(
        _mm512_castsi128_si512(a), _mm512_castsi128_si512(b), _mm512_castsi128_si512(c), table));
}

MASKED_BINARY(add, epi8, __mmask64, epu8, 64, (uint8_t)(a.epu8[i] + b.epu8[i]))
MASKED_BINARY(add, epi16, __mmask32, epu16, 32, (uint16_t)(a.epu16[i] + b.epu16[i]))
MASKED_BINARY(add, epi32, __mmask16, epu32, 16, a.epu32[i] + b.epu32[i])
MASKED_BINARY(add, epi64, __mmask8, epu64, 8, a.epu64[i] + b.epu64[i])
MASKED_BINARY(sub, epi8, __mmask64, epu8, 64, (uint8_t)(a.epu8[i] - b.epu8[i]))
MASKED_BINARY(sub, epi16, __mmask32, epu16, 32, (uint16_t)(a.epu16[i] - b.epu16[i]))
MASKED_BINARY(sub, epi32, __mmask16, epu32, 16, a.epu32[i] - b.epu32[i])
MASKED_BINARY(sub, epi64, __mmask8, epu64, 8, a.epu64[i] - b.epu64[i])
BINARY(adds_epu8, epu8, 64, (uint8_t)SMALLER(a.epu8[i] + b.epu8[i], 0xFF))
BINARY(adds_epu16, epu16, 32, (uint16_t)SMALLER(a.epu16[i] + b.epu16[i], 0xFFFF))
BINARY(subs_epu16, epu16, 32, (uint16_t)LARGER(a.epu16[i] - b.epu16[i], 0))
BINARY(max_epi16, epi16, 32, LARGER(a.epi16[i], b.epi16[i]))
BINARY(min_epi16, epi16, 32, SMALLER(a.epi16[i], b.epi16[i]))
MASKED_BINARY(max, epi32, __mmask16, epi32, 16, LARGER(a.epi32[i], b.epi32[i]))
MASKED_BINARY(min, epi32, __mmask16, epi32, 16, SMALLER(a.epi32[i], b.epi32[i]))
BINARY(max_epu8, epu8, 64, LARGER(a.epu8[i], b.epu8[i]))
BINARY(min_epu8, epu8, 64, SMALLER(a.epu8[i], b.epu8[i]))
BINARY(max_epu16, epu16, 32, LARGER(a.epu16[i], b.epu16[i]))
BINARY(min_epu16, epu16, 32, SMALLER(a.epu16[i], b.epu16[i]))
BINARY(max_epu32, epu32, 16, LARGER(a.epu32[i], b.epu32[i]))
BINARY(min_epu32, epu32, 16, SMALLER(a.epu32[i], b.epu32[i]))
UNARY(abs_epi8, epu8, 64, (uint8_t)(a.epi8[i] < 0 ? -a.epi8[i] : a.epi8[i]))
UNARY(abs_epi32, epu32, 16, a.epi32[i] < 0 ? 0 - a.epu32[i] : a.epu32[i])
BINARY(mullo_epi16, epu16, 32, (uint16_t)((uint32_t)a.epu16[i] * b.epu16[i]))
BINARY(mullo_epi32, epu32, 16, a.epu32[i] * b.epu32[i])
BINARY(mullo_epi64, epu64, 8, a.epu64[i] * b.epu64[i])
BINARY(mulhi_epu16, epu16, 32, (uint16_t)((uint32_t)a.epu16[i] * b.epu16[i] >> 16))
BINARY(mulhrs_epi16, epi16, 32, (int16_t)((a.epi16[i] * b.epi16[i] + 0x4000) >> 15))
BINARY(mul_epu32, epu64, 8, (uint64_t)a.epu32[2 * i] * b.epu32[2 * i])
BINARY(madd_epi16, epi32, 16,
       (int32_t)((uint32_t)(a.epi16[2 * i] * b.epi16[2 * i]) +
                 (uint32_t)(a.epi16[2 * i + 1] * b.epi16[2 * i + 1])))
BINARY(maddubs_epi16, epi16, 32,
       (int16_t)CLAMPED(a.epu8[2 * i] * b.epi8[2 * i] + a.epu8[2 * i + 1] * b.epi8[2 * i + 1],
                        INT16_MIN, INT16_MAX))
EMULATED __m512i _mm512_sad_epu8(__m512i va, __m512i vb) {
    const lanes a = {.v = va}, b = {.v = vb};
    lanes r = {.v = _mm512_setzero_si512()};
    EACH_LANE(64) {
        const int d = a.epu8[i] - b.epu8[i];
        r.epu64[i / 8] += (uint64_t)(d < 0 ? -d : d);
    }
    return r.v;
}
UNARY(popcnt_epi8, epu8, 64, (uint8_t)__builtin_popcount(a.epu8[i]))

#define REDUCE(name, type, field, n, expression)          \
    EMULATED type _mm512_reduce_##name(__m512i va) {      \
        const lanes a = {.v = va};                        \
        type r = (type)a.field[0];                        \
        EACH_LANE(n) r = expression(r, (type)a.field[i]); \
        return r;                                         \
    }
#define EITHER(x, y) ((x) | (y))
REDUCE(max_epi32, int, epi32, 16, LARGER)
REDUCE(min_epi32, int, epi32, 16, SMALLER)
REDUCE(max_epu32, unsigned, epu32, 16, LARGER)
REDUCE(or_epi32, int, epi32, 16, EITHER)
REDUCE(or_epi64, long long, epi64, 8, EITHER)

/* Counts of shifts that are too far give 0. */
#define SHIFTED(type, x, op, by) ((by) < 8 * sizeof(type) ? (type)((type)(x)op(by)) : 0)
#define SHIFT(name, type, field, n, op)                              \
    EMULATED __m512i _mm512_##name(__m512i va, __m128i count) {      \
        const lanes a = {.v = va};                                   \
        const uint64_t by = (uint64_t)_mm_cvtsi128_si64(count);      \
        lanes r;                                                     \
        EACH_LANE(n) r.field[i] = SHIFTED(type, a.field[i], op, by); \
        return r.v;                                                  \
    }
#define SHIFT_BY(name, type, field, n, op)                           \
    EMULATED __m512i _mm512_##name(__m512i va, unsigned by) {        \
        const lanes a = {.v = va};                                   \
        lanes r;                                                     \
        EACH_LANE(n) r.field[i] = SHIFTED(type, a.field[i], op, by); \
        return r.v;                                                  \
    }
SHIFT(sll_epi16, uint16_t, epu16, 32, <<)
SHIFT(sll_epi32, uint32_t, epu32, 16, <<)
SHIFT(sll_epi64, uint64_t, epu64, 8, <<)
SHIFT(srl_epi16, uint16_t, epu16, 32, >>)
SHIFT(srl_epi32, uint32_t, epu32, 16, >>)
SHIFT(srl_epi64, uint64_t, epu64, 8, >>)
SHIFT_BY(slli_epi16, uint16_t, epu16, 32, <<)
SHIFT_BY(slli_epi32, uint32_t, epu32, 16, <<)
SHIFT_BY(slli_epi64, uint64_t, epu64, 8, <<)
SHIFT_BY(srli_epi16, uint16_t, epu16, 32, >>)
SHIFT_BY(srli_epi32, uint32_t, epu32, 16, >>)
SHIFT_BY(srli_epi64, uint64_t, epu64, 8, >>)
EMULATED __m512i _mm512_srai_epi16(__m512i va, unsigned by) {
    const lanes a = {.v = va};
    lanes r;
    EACH_LANE(32) r.epi16[i] = (int16_t)(a.epi16[i] >> SMALLER(by, 15));
    return r.v;
}
EMULATED __m512i _mm512_srai_epi32(__m512i va, unsigned by) {
    const lanes a = {.v = va};
    lanes r;
    EACH_LANE(16) r.epi32[i] = a.epi32[i] >> SMALLER(by, 31);
    return r.v;
}
EMULATED __m512i _mm512_mask_srli_epi32(__m512i src, __mmask16 k, __m512i a, unsigned by) {
    return chosen_epi32(k, _mm512_srli_epi32(a, by), src);
}
BINARY(sllv_epi64, epu64, 8, SHIFTED(uint64_t, a.epu64[i], <<, b.epu64[i]))
BINARY(srlv_epi16, epu16, 32, SHIFTED(uint16_t, a.epu16[i], >>, b.epu16[i]))
BINARY(srlv_epi32, epu32, 16, SHIFTED(uint32_t, a.epu32[i], >>, b.epu32[i]))
EMULATED __m512i _mm512_ror_epi64(__m512i va, int by) {
    const lanes a = {.v = va};
    lanes r;
    EACH_LANE(8) r.epu64[i] = a.epu64[i] >> (by & 63) | a.epu64[i] << (-by & 63);
    return r.v;
}

/* ---- Order of lanes --------------------------------------------------------------------------*/

BINARY(shuffle_epi8, epu8, 64, b.epi8[i] < 0 ? 0 : a.epu8[(i & 48) | (b.epu8[i] & 15)])
EMULATED __m512i _mm512_shuffle_epi32(__m512i va, int order) {
    const lanes a = {.v = va};
    lanes r;
    EACH_LANE(16) r.epu32[i] = a.epu32[(i & 12) | (order >> 2 * (i & 3) & 3)];
    return r.v;
}
EMULATED __m512 _mm512_shuffle_ps(__m512 va, __m512 vb, int order) {
    const lanes a = {.ps = va}, b = {.ps = vb};
    lanes r;
    EACH_LANE(16) r.epu32[i] = (i & 2 ? b : a).epu32[(i & 12) | (order >> 2 * (i & 3) & 3)];
    return r.ps;
}
EMULATED __m512i _mm512_shuffle_i32x4(__m512i va, __m512i vb, int order) {
    const lanes a = {.v = va}, b = {.v = vb};
    lanes r;
    EACH_LANE(4) r.part[i] = (i & 2 ? b : a).part[order >> 2 * i & 3];
    return r.v;
}
#define _mm512_shuffle_i64x2 _mm512_shuffle_i32x4
EMULATED __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int order) {
    return (__m512)_mm512_shuffle_i32x4((__m512i)a, (__m512i)b, order);
}
/* `each` lanes are in 16 bytes. */
#define UNPACK(name, field, n, each)                                                         \
    BINARY(unpacklo_##name, field, n, (i & 1 ? b : a).field[i / each * each + i % each / 2]) \
    BINARY(unpackhi_##name, field, n,                                                        \
           (i & 1 ? b : a).field[i / each * each + each / 2 + i % each / 2])
UNPACK(epi8, epu8, 64, 16)
UNPACK(epi16, epu16, 32, 8)
UNPACK(epi32, epu32, 16, 4)
UNPACK(epi64, epu64, 8, 2)
EMULATED __m512d _mm512_unpacklo_pd(__m512d a, __m512d b) {
    return (__m512d)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}
EMULATED __m512d _mm512_unpackhi_pd(__m512d a, __m512d b) {
    return (__m512d)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}
BINARY(packs_epi16, epi8, 64,
       (int8_t)CLAMPED((i & 8 ? b : a).epi16[i / 16 * 8 + i % 8], INT8_MIN, INT8_MAX))
BINARY(packus_epi16, epu8, 64,
       (uint8_t)CLAMPED((i & 8 ? b : a).epi16[i / 16 * 8 + i % 8], 0, UINT8_MAX))
BINARY(packs_epi32, epi16, 32,
       (int16_t)CLAMPED((i & 4 ? b : a).epi32[i / 8 * 4 + i % 4], INT16_MIN, INT16_MAX))
EMULATED __m512i _mm512_alignr_epi32(__m512i va, __m512i vb, int by) {
    const lanes a = {.v = va}, b = {.v = vb};
    lanes r;
    EACH_LANE(16) {
        const int from = i + (by & 15);
        r.epu32[i] = from < 16 ? b.epu32[from] : a.epu32[from - 16];
    }
    return r.v;
}
#define PERMUTE(name, field, n)                                                          \
    EMULATED __m512i _mm512_permutexvar_##name(__m512i order, __m512i va) {              \
        const lanes a = {.v = va}, o = {.v = order};                                     \
        lanes r;                                                                         \
        EACH_LANE(n) r.field[i] = a.field[o.field[i] & (n - 1)];                         \
        return r.v;                                                                      \
    }                                                                                    \
    EMULATED __m512i _mm512_permutex2var_##name(__m512i va, __m512i order, __m512i vb) { \
        const lanes a = {.v = va}, b = {.v = vb}, o = {.v = order};                      \
        lanes r;                                                                         \
        EACH_LANE(n) r.field[i] = (o.field[i] & n ? b : a).field[o.field[i] & (n - 1)];  \
        return r.v;                                                                      \
    }
PERMUTE(epi8, epu8, 64)
PERMUTE(epi16, epu16, 32)
PERMUTE(epi32, epu32, 16)
PERMUTE(epi64, epu64, 8)
EMULATED __m512 _mm512_permutex2var_ps(__m512 a, __m512i order, __m512 b) {
    return (__m512)_mm512_permutex2var_epi32((__m512i)a, order, (__m512i)b);
}
EMULATED __m512i _mm512_maskz_permutexvar_epi8(__mmask64 k, __m512i order, __m512i a) {
    return _mm512_maskz_mov_epi8(k, _mm512_permutexvar_epi8(order, a));
}
EMULATED __m512i _mm512_maskz_permutexvar_epi16(__mmask32 k, __m512i order, __m512i a) {
    return _mm512_maskz_mov_epi16(k, _mm512_permutexvar_epi16(order, a));
}
/* Eight bits from a place in the word of 64, which goes round. */
EMULATED __m512i _mm512_multishift_epi64_epi8(__m512i places, __m512i va) {
    const lanes a = {.v = va}, at = {.v = places};
    lanes r;
    EACH_LANE(64) {
        const uint64_t x = a.epu64[i / 8];
        const unsigned by = at.epu8[i] & 63;
        r.epu8[i] = (uint8_t)(x >> by | x << (-by & 63));
    }
    return r.v;
}
/* Row 7 - k of a matrix of 8 x 8 bits makes bit k. */
EMULATED __m512i _mm512_gf2p8affine_epi64_epi8(__m512i va, __m512i matrix, int constant) {
    const lanes a = {.v = va}, m = {.v = matrix};
    lanes r;
    EACH_LANE(64) {
        unsigned x = (unsigned)constant & 0xFF;
        for (int k = 0; k < 8; k++)
            x ^= (unsigned)__builtin_parity(a.epu8[i] & m.epu8[i / 8 * 8 + 7 - k]) << k;
        r.epu8[i] = (uint8_t)x;
    }
    return r.v;
}

/* ---- Compare ---------------------------------------------------------------------------------*/

#define COMPARE(name, mask, n, expression)                                     \
    EMULATED mask _mm512_##name##_mask(__m512i va, __m512i vb) {               \
        const lanes a = {.v = va}, b = {.v = vb};                              \
        mask k = 0;                                                            \
        EACH_LANE(n) k |= (mask)((mask)(expression) << i);                     \
        return k;                                                              \
    }                                                                          \
    EMULATED mask _mm512_mask_##name##_mask(mask some, __m512i a, __m512i b) { \
        return some & _mm512_##name##_mask(a, b);                              \
    }
#define COMPARE_UNSIGNED(name, mask, n)                                      \
    COMPARE(cmpeq_epi##name, mask, n, a.epu##name[i] == b.epu##name[i])      \
    COMPARE(cmpneq_epi##name, mask, n, a.epu##name[i] != b.epu##name[i])     \
    COMPARE(cmpge_epu##name, mask, n, a.epu##name[i] >= b.epu##name[i])      \
    COMPARE(cmpgt_epu##name, mask, n, a.epu##name[i] > b.epu##name[i])       \
    COMPARE(cmple_epu##name, mask, n, a.epu##name[i] <= b.epu##name[i])      \
    COMPARE(cmplt_epu##name, mask, n, a.epu##name[i] < b.epu##name[i])       \
    COMPARE(test_epi##name, mask, n, (a.epu##name[i] & b.epu##name[i]) != 0) \
    COMPARE(testn_epi##name, mask, n, (a.epu##name[i] & b.epu##name[i]) == 0)
COMPARE_UNSIGNED(8, __mmask64, 64)
COMPARE_UNSIGNED(16, __mmask32, 32)
COMPARE_UNSIGNED(32, __mmask16, 16)
COMPARE_UNSIGNED(64, __mmask8, 8)
COMPARE(cmpgt_epi32, __mmask16, 16, a.epi32[i] > b.epi32[i])
COMPARE(cmple_epi32, __mmask16, 16, a.epi32[i] <= b.epi32[i])
EMULATED __mmask8 _mm256_cmple_epu32_mask(__m256i a, __m256i b) {
    return (__mmask8)_mm512_cmple_epu32_mask(_mm512_zextsi256_si512(a), _mm512_zextsi256_si512(b));
}
EMULATED __m256i _mm256_mask_or_epi32(__m256i src, __mmask8 k, __m256i a, __m256i b) {
    return _mm512_castsi512_si256(_mm512_mask_or_epi32(
        _mm512_zextsi256_si512(src), k, _mm512_zextsi256_si512(a), _mm512_zextsi256_si512(b)));
}
EMULATED __mmask16 _mm_test_epi8_mask(__m128i a, __m128i b) {
    return (__mmask16)_mm512_test_epi8_mask(_mm512_castsi128_si512(a), _mm512_castsi128_si512(b));
}

EMULATED bool compared(double x, double y, int how) {
    switch (how) {
    case _CMP_LT_OQ: return x < y;
    case _CMP_LE_OQ: return x <= y;
    case _CMP_GT_OQ: return x > y;
    case _CMP_GE_OQ: return x >= y;
    case _CMP_EQ_OQ: return x == y;
    case _CMP_UNORD_Q: return x != x || y != y;
    default: __builtin_trap();
    }
}
EMULATED __mmask16 _mm512_cmp_ps_mask(__m512 va, __m512 vb, int how) {
    const lanes a = {.ps = va}, b = {.ps = vb};
    __mmask16 k = 0;
    EACH_LANE(16) k |= (__mmask16)(compared(a.f32[i], b.f32[i], how) << i);
    return k;
}
EMULATED __mmask16 _mm512_mask_cmp_ps_mask(__mmask16 some, __m512 a, __m512 b, int how) {
    return some & _mm512_cmp_ps_mask(a, b, how);
}
EMULATED __mmask8 _mm512_cmp_pd_mask(__m512d va, __m512d vb, int how) {
    const lanes a = {.pd = va}, b = {.pd = vb};
    __mmask8 k = 0;
    EACH_LANE(8) k |= (__mmask8)(compared(a.f64[i], b.f64[i], how) << i);
    return k;
}

/* ---- Floats ----------------------------------------------------------------------------------*/

EMULATED __m512 _mm512_add_ps(__m512 a, __m512 b) { return a + b; }
EMULATED __m512 _mm512_sub_ps(__m512 a, __m512 b) { return a - b; }
EMULATED __m512 _mm512_mul_ps(__m512 a, __m512 b) { return a * b; }
EMULATED __m512 _mm512_div_ps(__m512 a, __m512 b) { return a / b; }
EMULATED __m512d _mm512_add_pd(__m512d a, __m512d b) { return a + b; }
EMULATED __m512d _mm512_sub_pd(__m512d a, __m512d b) { return a - b; }
EMULATED __m512d _mm512_mul_pd(__m512d a, __m512d b) { return a * b; }
EMULATED __m512d _mm512_div_pd(__m512d a, __m512d b) { return a / b; }
EMULATED __m512d _mm512_abs_pd(__m512d va) {
    lanes a = {.pd = va};
    EACH_LANE(8) a.epu64[i] &= INT64_MAX;
    return a.pd;
}
/* Of what is not a number, and of equal ones, the second. */
EMULATED __m512 _mm512_max_ps(__m512 va, __m512 vb) {
    const lanes a = {.ps = va}, b = {.ps = vb};
    lanes r;
    EACH_LANE(16) r.epu32[i] = a.f32[i] > b.f32[i] ? a.epu32[i] : b.epu32[i];
    return r.ps;
}
EMULATED __m512 _mm512_min_ps(__m512 va, __m512 vb) {
    const lanes a = {.ps = va}, b = {.ps = vb};
    lanes r;
    EACH_LANE(16) r.epu32[i] = a.f32[i] < b.f32[i] ? a.epu32[i] : b.epu32[i];
    return r.ps;
}

/* Calls that round in another direction than to the nearest. */
EMULATED int direction(int how) {
    switch (how & 3) {
    case _MM_FROUND_TO_NEG_INF: return FE_DOWNWARD;
    case _MM_FROUND_TO_POS_INF: return FE_UPWARD;
    case _MM_FROUND_TO_ZERO: return FE_TOWARDZERO;
    default: return FE_TONEAREST;
    }
}
#define ROUNDED(name, op)                                                     \
    EMULATED __m512 _mm512_##name##_round_ps(__m512 va, __m512 vb, int how) { \
        const lanes a = {.ps = va}, b = {.ps = vb};                           \
        const int before = fegetround();                                      \
        lanes r;                                                              \
        fesetround(direction(how));                                           \
        EACH_LANE(16) {                                                       \
            const volatile float x = a.f32[i], y = b.f32[i];                  \
            const volatile float z = x op y;                                  \
            r.f32[i] = z;                                                     \
        }                                                                     \
        fesetround(before);                                                   \
        return r.ps;                                                          \
    }
ROUNDED(add, +)
ROUNDED(mul, *)
ROUNDED(div, /)
EMULATED __m128 _mm_div_round_ss(__m128 a, __m128 b, int how) {
    const __m512 x = _mm512_set1_ps(_mm_cvtss_f32(a)), y = _mm512_set1_ps(_mm_cvtss_f32(b));
    const lanes r = {.ps = _mm512_div_round_ps(x, y, how)};
    return _mm_move_ss(a, _mm_set_ss(r.f32[0]));
}
EMULATED __m512 _mm512_cvt_roundepu32_ps(__m512i va, int how) {
    const lanes a = {.v = va};
    const int before = fegetround();
    lanes r;
    fesetround(direction(how));
    EACH_LANE(16) {
        const volatile double x = a.epu32[i];
        const volatile float y = (float)x;
        r.f32[i] = y;
    }
    fesetround(before);
    return r.ps;
}
EMULATED __m512 _mm512_cvtepu32_ps(__m512i va) {
    const lanes a = {.v = va};
    lanes r;
    EACH_LANE(16) r.f32[i] = (float)a.epu32[i];
    return r.ps;
}
EMULATED __m128 _mm_cvtepu32_ps(__m128i a) {
    const lanes r = {.ps = _mm512_cvtepu32_ps(_mm512_castsi128_si512(a))};
    return _mm_castsi128_ps(r.part[0]);
}
EMULATED __m512 _mm512_cvtepi32_ps(__m512i va) {
    const lanes a = {.v = va};
    lanes r;
    EACH_LANE(16) r.f32[i] = (float)a.epi32[i];
    return r.ps;
}
/* What does not fit is the least integer. */
EMULATED __m512i _mm512_cvt_roundps_epi32(__m512 va, int how) {
    const lanes a = {.ps = va};
    const int before = fegetround();
    lanes r;
    fesetround(direction(how));
    EACH_LANE(16) {
        const volatile double x = a.f32[i];
        const double whole = nearbyint(x);
        r.epi32[i] = whole >= -0x1p31 && whole < 0x1p31 ? (int32_t)whole : INT32_MIN;
    }
    fesetround(before);
    return r.v;
}
EMULATED __m512i _mm512_cvtps_epi32(__m512 va) {
    const lanes a = {.ps = va};
    lanes r;
    EACH_LANE(2) r.half[i] = _mm256_cvtps_epi32(_mm256_castsi256_ps(a.half[i]));
    return r.v;
}
EMULATED __m512i _mm512_cvttps_epi32(__m512 va) {
    const lanes a = {.ps = va};
    lanes r;
    EACH_LANE(2) r.half[i] = _mm256_cvttps_epi32(_mm256_castsi256_ps(a.half[i]));
    return r.v;
}
EMULATED __m512i _mm512_cvttps_epu32(__m512 va) {
    const lanes a = {.ps = va};
    lanes r;
    EACH_LANE(16) {
        const bool fits = a.f32[i] > -1.0f && a.f32[i] < 0x1p32f;
        r.epu32[i] = fits ? (uint32_t)(int64_t)a.f32[i] : UINT32_MAX;
    }
    return r.v;
}
EMULATED __m512d _mm512_cvtps_pd(__m256 a) {
    lanes r;
    float x[8];
    _mm256_storeu_ps(x, a);
    EACH_LANE(8) r.f64[i] = x[i];
    return r.pd;
}
EMULATED __m512 _mm512_cvtph_ps(__m256i a) {
    const __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
    const __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
    const lanes r = {.half = {_mm256_castps_si256(low), _mm256_castps_si256(high)}};
    return r.ps;
}
EMULATED __m256i _mm512_cvtps_ph(__m512 va, int how) {
    const lanes a = {.ps = va};
    if (how != _MM_FROUND_TO_NEAREST_INT) __builtin_trap();
    const __m128i low = _mm256_cvtps_ph(_mm256_castsi256_ps(a.half[0]), _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(_mm256_castsi256_ps(a.half[1]), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
/* How 2: of what is not a number neither, the smaller magnitude with the sign of a; where one is
 * not a number, the other. */
EMULATED __m512 _mm512_range_ps(__m512 va, __m512 vb, int how) {
    const lanes a = {.ps = va}, b = {.ps = vb};
    lanes r;
    if (how != 2) __builtin_trap();
    EACH_LANE(16) {
        const uint32_t x = a.epu32[i] & INT32_MAX, y = b.epu32[i] & INT32_MAX;
        const bool first = y > 0x7F800000 || (x <= y && x <= 0x7F800000);
        r.epu32[i] = (first ? x : y) | (a.epu32[i] & ~(uint32_t)INT32_MAX);
    }
    return r.ps;
}
/* A table of four bits for each kind of b: 1, b itself; 0, a. */
EMULATED __m512 _mm512_fixupimm_ps(__m512 va, __m512 vb, __m512i table, int flags) {
    const lanes a = {.ps = va}, b = {.ps = vb}, t = {.v = table};
    lanes r;
    if (flags) __builtin_trap();
    EACH_LANE(16) {
        const uint32_t x = b.epu32[i], size = x & INT32_MAX;
        const bool negative = x >> 31;
        const int kind = size > 0x7F800000    ? (size & 0x00400000 ? 0 : 1)
                         : size == 0          ? 2
                         : x == 0x3F800000    ? 3
                         : size == 0x7F800000 ? (negative ? 4 : 5)
                                              : (negative ? 6 : 7);
        const unsigned how = t.epu32[i] >> 4 * kind & 15;
        if (how > 1) __builtin_trap();
        r.epu32[i] = how ? x : a.epu32[i];
    }
    return r.ps;
}
/* Of these kinds: 0x01 quiet and 0x80 signalling NaNs, 0x08 and 0x10 infinities. */
EMULATED __mmask16 _mm512_fpclass_ps_mask(__m512 va, int kinds) {
    const lanes a = {.ps = va};
    __mmask16 k = 0;
    if (kinds & ~0x99) __builtin_trap();
    EACH_LANE(16) {
        const uint32_t x = a.epu32[i], size = x & INT32_MAX;
        const int kind = size > 0x7F800000    ? (size & 0x00400000 ? 0x01 : 0x80)
                         : size == 0x7F800000 ? (x >> 31 ? 0x10 : 0x08)
                                              : 0;
        k |= (__mmask16)((kind & kinds ? 1 : 0) << i);
    }
    return k;
}

/* ---- Width of lanes --------------------------------------------------------------------------*/

#define WIDEN(name, vector, from, count, to)      \
    EMULATED __m512i _mm512_cvt##name(vector x) { \
        from a[sizeof x / sizeof(from)];          \
        lanes r;                                  \
        memcpy(a, &x, sizeof x);                  \
        EACH_LANE(count) r.to[i] = a[i];          \
        return r.v;                               \
    }
WIDEN(epi8_epi16, __m256i, int8_t, 32, epi16)
WIDEN(epi8_epi32, __m128i, int8_t, 16, epi32)
WIDEN(epu8_epi16, __m256i, uint8_t, 32, epu16)
WIDEN(epu8_epi32, __m128i, uint8_t, 16, epu32)
WIDEN(epu8_epi64, __m128i, uint8_t, 8, epu64)
WIDEN(epu16_epi32, __m256i, uint16_t, 16, epu32)
WIDEN(epu32_epi64, __m256i, uint32_t, 8, epu64)

/* Bytes that no lane fills are 0. */
#define NARROW(name, vector, from, count, to, expression) \
    EMULATED vector _mm512_cvt##name(__m512i va) {        \
        const lanes a = {.v = va};                        \
        lanes r = {.v = _mm512_setzero_si512()};          \
        vector narrow;                                    \
        EACH_LANE(count) r.to[i] = expression(a.from[i]); \
        memcpy(&narrow, &r, sizeof narrow);               \
        return narrow;                                    \
    }
#define LEAST_255(x) (uint8_t) SMALLER(x, 255)
NARROW(epi16_epi8, __m256i, epu16, 32, epu8, (uint8_t))
NARROW(epi32_epi16, __m256i, epu32, 16, epu16, (uint16_t))
NARROW(epi32_epi8, __m128i, epu32, 16, epu8, (uint8_t))
NARROW(epi64_epi8, __m128i, epu64, 8, epu8, (uint8_t))
NARROW(usepi16_epi8, __m256i, epu16, 32, epu8, LEAST_255)
NARROW(usepi32_epi8, __m128i, epu32, 16, epu8, LEAST_255)
EMULATED __m128i _mm256_cvtepi32_epi8(__m256i a) {
    return _mm512_cvtepi32_epi8(_mm512_zextsi256_si512(a));
}

#endif
