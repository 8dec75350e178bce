/* group_avx512.c - rotation, group quantizer and outliers for AVX-512 F, BW, VL, DQ and VBMI.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx512.h"
#include "common/lanes_tmpl.h"
#include "group/hadamard.h"
#include "kernels.h"

/* ---- Rotation ---------------------------------------------------------------------------------*/

#define OWN_TRANSFORM32
/* For every stride the lower values of its pairs come into one vector, the upper ones into the
 * other. That rotates the bits of an element's number; stride 16 meets them rotated all the way,
 * and takes even and odd places in their order. */
static inline __attribute__((always_inline)) void stride(v16 v[2], __m512 low, __m512 high) {
    v[0] = I(_mm512_add_ps(low, high));
    v[1] = I(_mm512_sub_ps(low, high));
}
static inline __attribute__((always_inline)) void near_stride(v16 v[2]) {
    const __m512 a = F(v[0]), b = F(v[1]);
    stride(v, _mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
}
static inline __attribute__((always_inline)) void far_stride(v16 v[2]) {
    const __m512 a = F(v[0]), b = F(v[1]);
    stride(v, _mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}
static inline __attribute__((always_inline)) void last_stride(v16 v[2]) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const __m512 a = F(v[0]), b = F(v[1]);
    stride(v, _mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b));
}

static inline __attribute__((always_inline)) void f_transform32(v16 v[2]) {
    near_stride(v);
    near_stride(v);
    far_stride(v);
    far_stride(v);
    last_stride(v);
}

/* Four of them, side by side so that they hide each other's latency. */
#define EACH(stride) stride(v), stride(v + 2), stride(v + 4), stride(v + 6)
static inline __attribute__((always_inline)) void f_transform32x4(v16 v[8]) {
    EACH(near_stride);
    EACH(near_stride);
    EACH(far_stride);
    EACH(far_stride);
    EACH(last_stride);
}
#undef EACH

static inline __attribute__((always_inline)) void butterfly4(v16 *a, v16 *b, v16 *c, v16 *d) {
    const v16 w = *a, x = *b, y = *c, z = *d;
    *a = f_add(w, x);
    *b = f_sub(w, x);
    *c = f_add(y, z);
    *d = f_sub(y, z);
}
/* Rows and columns of four vectors: of values in each quarter, or of the quarters. */
static inline __attribute__((always_inline)) void transpose_values(v16 *a, v16 *b, v16 *c, v16 *d) {
    const v16 p = _mm512_unpacklo_epi32(*a, *b), q = _mm512_unpackhi_epi32(*a, *b);
    const v16 r = _mm512_unpacklo_epi32(*c, *d), s = _mm512_unpackhi_epi32(*c, *d);
    *a = _mm512_unpacklo_epi64(p, r);
    *b = _mm512_unpackhi_epi64(p, r);
    *c = _mm512_unpacklo_epi64(q, s);
    *d = _mm512_unpackhi_epi64(q, s);
}
static inline __attribute__((always_inline)) void transpose_quarters(v16 *a, v16 *b, v16 *c,
                                                                     v16 *d) {
    const v16 p = _mm512_shuffle_i32x4(*a, *b, 0x88), q = _mm512_shuffle_i32x4(*a, *b, 0xDD);
    const v16 r = _mm512_shuffle_i32x4(*c, *d, 0x88), s = _mm512_shuffle_i32x4(*c, *d, 0xDD);
    *a = _mm512_shuffle_i32x4(p, r, 0x88);
    *b = _mm512_shuffle_i32x4(q, s, 0x88);
    *c = _mm512_shuffle_i32x4(p, r, 0xDD);
    *d = _mm512_shuffle_i32x4(q, s, 0xDD);
}
static inline __attribute__((always_inline)) void two_strides(v16 v[8]) {
    butterfly4(v, v + 2, v + 4, v + 6);
    butterfly4(v + 1, v + 3, v + 5, v + 7);
    butterfly4(v, v + 4, v + 2, v + 6);
    butterfly4(v + 1, v + 5, v + 3, v + 7);
}
/* Transforms four runs of 32 across each other, with few shuffles, and leaves value i
 * of run r in quarter i % 4, place r, of vector i / 4 % 4 * 2 + i / 16. */
static inline __attribute__((always_inline)) void f_transform32x4_transposed(v16 v[8]) {
    transpose_values(v, v + 2, v + 4, v + 6);
    transpose_values(v + 1, v + 3, v + 5, v + 7);
    two_strides(v);
    transpose_quarters(v, v + 2, v + 4, v + 6);
    transpose_quarters(v + 1, v + 3, v + 5, v + 7);
    two_strides(v);
    butterfly4(v, v + 1, v + 2, v + 3);
    butterfly4(v + 4, v + 5, v + 6, v + 7);
}

static inline v16 f_flip(v16 x, uint32_t signs) {
    return _mm512_mask_xor_epi32(x, (__mmask16)signs, x, v_set(0x80000000u));
}

static inline v16 f_narrow_two(uint32_t dtype, v16 a, v16 b) {
    const v16 fours =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
    const v16 odd = v_add(v_add(fours, _mm512_slli_epi32(fours, 16)), v_set(0x00030001));
    if (dtype == PITH_BF16) return _mm512_permutex2var_epi16(a, odd, b);
    const __m256i x = _mm512_cvtps_ph(F(a), _MM_FROUND_TO_NEAREST_INT);
    const __m256i y = _mm512_cvtps_ph(F(b), _MM_FROUND_TO_NEAREST_INT);
    return _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
}

#include "group/hadamard_tmpl.h"

#include "group/packing_avx512.h"
#include "group/search_avx512.h"
#include "group/shrink_avx512.h"

#include "group/group_encode_tmpl.h"

#include "group/hashing_avx512.h"

#include "group/group_base_tmpl.h"

#include "group/group_hooks.h"

#include "group/outliers_tmpl.h"

void pithi_group_bind_avx512(struct pithi_kernels *k);
void pithi_group_bind_avx512(struct pithi_kernels *k) {
    bind_groups(k);
    k->encode_hashed = encode_hashed;
    k->outliers_take = outliers_take;
}
