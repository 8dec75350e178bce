/* group_value.h - the group quantizer's arithmetic on one value and on one scale.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text that every backend shares: the scalar loops of group.c, the rare paths of the CPU
 * kernels, and the CUDA kernels. */
#ifndef PITHI_GROUP_VALUE_H
#define PITHI_GROUP_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/numeric.h"
#include "stage/pad.h"

/* A scale of 8 bits: 2^(byte - 127); 255 is NaN. */
#define PITHI_E8M0 32

struct pithi_group_setting {
    uint32_t group;      /* elements, a power of two 16..16384; the last group may be short */
    uint8_t bits;        /* 1..8; symmetric: 2..8 */
    uint8_t scale_dtype; /* PITH_F32, PITH_BF16 or, symmetric without a base, PITHI_E8M0 */
    bool asymmetric;     /* scale and zero point per group instead of a scale */
    bool stochastic;
    bool search; /* encode, symmetric, nearest, no base: the scale of least error, any sign */
};

PITHI_INLINE size_t pithi_scale_width(uint32_t scale_dtype) {
    return scale_dtype == PITHI_E8M0 ? 1 : scale_dtype == PITH_F32 ? 4 : 2;
}
/* f32 bits of a stored scale, and back (a value of the scale dtype, or NaN). */
PITHI_INLINE uint32_t pithi_scale_load(const void *p, uint32_t dtype, size_t i) {
    if (dtype != PITHI_E8M0) return pithi_load(p, dtype, i);
    const uint32_t e = ((const uint8_t *)p)[i];
    return e == 255 ? PITHI_F32_NAN : e ? e << 23 : 0x00400000u; /* 2^-127 is subnormal */
}
PITHI_INLINE void pithi_scale_store(void *p, uint32_t dtype, size_t i, uint32_t u) {
    if (dtype == PITHI_E8M0)
        ((uint8_t *)p)[i] = (uint8_t)(u >> 23); /* +0 becomes 2^-127 */
    else
        pithi_store(p, dtype, i, u);
}

PITHI_INLINE size_t pithi_group_code_bytes(const struct pithi_group_setting *s, uint64_t count) {
    return (size_t)((count * s->bits + 7) / 8);
}
PITHI_INLINE size_t pithi_group_scale_bytes(const struct pithi_group_setting *s, uint64_t count) {
    const uint64_t groups = (count + s->group - 1) / s->group;
    return (size_t)groups * pithi_scale_width(s->scale_dtype) * (s->asymmetric ? 2u : 1u);
}
/* A block of groups: scales, codes, each padded. Where its codes begin, and its bytes. */
PITHI_INLINE size_t pithi_group_codes_at(const struct pithi_group_setting *s, uint64_t count) {
    return (size_t)pithi_pad16(pithi_group_scale_bytes(s, count));
}
PITHI_INLINE size_t pithi_group_block_bytes(const struct pithi_group_setting *s, uint64_t count) {
    return pithi_group_codes_at(s, count) + (size_t)pithi_pad16(pithi_group_code_bytes(s, count));
}

/* ---- Scale of a group ------------------------------------------------------------------------*/

#define PITHI_GROUP_TINY 0x04800000u /* bits of 2^-118: smaller groups are all zero */

PITHI_INLINE uint32_t pithi_magnitude(uint32_t u) { return u & 0x7FFFFFFFu; }

/* The smallest power of two not below s; NaN from above 2^127 on. */
PITHI_INLINE float pithi_power_above(float s) {
    const uint32_t up = (pithi_bits(s) + 0x007FFFFFu) & 0xFF800000u;
    return pithi_float(up < PITHI_F32_INF ? up : PITHI_F32_NAN);
}

/* In the scale dtype: nearest even, finite values staying finite; e8m0: up, or NaN. */
PITHI_INLINE float pithi_round_scale(uint32_t dtype, float s) {
    if (dtype == PITH_F32) return s;
    if (dtype == PITHI_E8M0) return pithi_power_above(s);
    uint16_t h = pithi_to_bf16(pithi_bits(s));
    if (pithi_magnitude(pithi_from_bf16(h)) == PITHI_F32_INF)
        h = (uint16_t)((h & 0x8000u) | PITHI_BF16_MAX);
    return pithi_float(pithi_from_bf16(h));
}

/* Up, so that no value of an asymmetric group lies beyond the last code. */
PITHI_INLINE float pithi_ceil_scale(uint32_t dtype, float s) {
    if (dtype == PITH_F32) return s;
    const uint32_t up = (pithi_bits(s) + 0xFFFFu) & 0xFFFF0000u, most = pithi_largest(PITH_BF16);
    return pithi_float(up < most ? up : most);
}

/* The largest value of the dtype that is not above z. */
PITHI_INLINE float pithi_floor_zero(uint32_t dtype, float z) {
    if (dtype == PITH_F32) return z;
    const uint32_t u = pithi_bits(z);
    return pithi_float((u >> 31 ? u + 0xFFFFu : u) & 0xFFFF0000u);
}

PITHI_INLINE bool pithi_group_scale(const struct pithi_group_setting *s, uint32_t m, float *scale,
                                    float *reciprocal) {
    *reciprocal = 0;
    *scale = m >= PITHI_F32_INF ? pithi_float(PITHI_F32_NAN) : 0;
    if (m >= PITHI_F32_INF || m < PITHI_GROUP_TINY) return false;
    const float levels = (float)((1 << (s->bits - 1)) - 1);
    *scale = pithi_round_scale(s->scale_dtype, pithi_float(m) / levels);
    *reciprocal = 1.0f / *scale;
    return !pithi_nonfinite(pithi_bits(*scale));
}

PITHI_INLINE bool pithi_group_range(const struct pithi_group_setting *s, float lo, float hi,
                                    float *scale, float *zero, float *reciprocal) {
    *reciprocal = 0;
    *zero = pithi_floor_zero(s->scale_dtype, lo);
    const float range = hi - *zero;
    const float levels = (float)((1 << s->bits) - 1);
    *scale =
        pithi_bits(range) < PITHI_GROUP_TINY ? 0 : pithi_ceil_scale(s->scale_dtype, range / levels);
    /* Also when the last code would overflow before the zero point is added. */
    if (pithi_nonfinite(pithi_bits(range)) || pithi_nonfinite(pithi_bits(levels * *scale))) {
        *scale = *zero = pithi_float(PITHI_F32_NAN);
        return false;
    }
    if (*scale == 0) return false;
    *reciprocal = 1.0f / *scale;
    return true;
}

/* ---- Search for a scale ----------------------------------------------------------------------*/

/* The search for a scale. Set: what the scale of the largest value is, that value's magnitude bits
 * and whether one is positive. _begin sets the other parts: values v are (turned, when turn is the
 * sign bit) d * reciprocal; a candidate's codes q are v * factor rounded to nearest and clamped to
 * [least, most]; vq and qq are to be the sums of v q and q q. _end chooses. The arrays have room
 * for steps of 3 and of 4. */
enum { PITHI_SEARCH_MOST = 15, PITHI_SEARCH_ROOM = 16 };
struct pithi_search {
    const struct pithi_group_setting *set;
    float scale;
    uint32_t largest;
    bool above;
    uint32_t turn;
    float unit, reciprocal;
    int least, most, candidates;
    float factor[PITHI_SEARCH_ROOM], vq[PITHI_SEARCH_ROOM], qq[PITHI_SEARCH_ROOM];
};
/* Candidates and codes, which are the same for all groups of a setting. */
PITHI_INLINE void pithi_search_steps(struct pithi_search *s) {
    const int reach = 1 << (s->set->bits - 1);
    const bool power = s->set->scale_dtype == PITHI_E8M0;
    s->least = -reach;
    s->most = reach - 1;
    s->candidates = power ? 2 : PITHI_SEARCH_MOST;
    PITHI_UNROLL for (int k = 0; k < PITHI_SEARCH_ROOM; k++) s->factor[k] =
        power ? (float)(k + 1) : 1.0f + (float)(k - 1) * 0.0625f;
    if (!power) s->factor[0] = ((float)reach - 1) / (float)reach;
}
/* The group in units of `unit`, turned so that its largest value is negative, where the codes reach
 * one further; candidates are factors on it. The first reaches the largest value with the codes of
 * the short side, the others with those of the long one, or fall short of it by up to 13/16. */
PITHI_INLINE void pithi_search_begin(struct pithi_search *s) {
    const bool power = s->set->scale_dtype == PITHI_E8M0;
    s->unit = power ? s->scale : pithi_float(s->largest) / (float)(1 << (s->set->bits - 1));
    s->reciprocal = 1.0f / s->unit;
    s->turn = !power && s->above ? 0x80000000u : 0;
    pithi_search_steps(s);
}

/* The scale of each candidate is that of least squares for its codes; the best explains most. */
PITHI_INLINE float pithi_search_free(const struct pithi_search *s) {
    float best = 0, scale = s->unit;
    PITHI_UNROLL for (int k = 0; k < PITHI_SEARCH_MOST; k++) {
        const float explained = s->vq[k] * s->vq[k] / s->qq[k];
        if (!(explained > best)) continue; /* also when all codes are 0 */
        best = explained;
        const float t = s->vq[k] / s->qq[k];
        scale = s->unit * (t < 0.5f ? 1.0f / s->factor[k] : t);
    }
    const uint32_t u = pithi_bits(scale);
    return pithi_float((u < PITHI_F32_INF ? u : PITHI_F32_MAX) ^ s->turn);
}

/* Powers of two: the one that reaches the largest value, or its half. */
PITHI_INLINE float pithi_search_power(const struct pithi_search *s) {
    const float whole = 2 * s->vq[0] - s->qq[0], half = s->vq[1] - s->qq[1] * 0.25f;
    return half > whole ? s->unit * 0.5f : s->unit;
}

PITHI_INLINE float pithi_search_end(const struct pithi_search *s) {
    const uint32_t dtype = s->set->scale_dtype;
    return pithi_round_scale(dtype,
                             dtype == PITHI_E8M0 ? pithi_search_power(s) : pithi_search_free(s));
}

/* ---- One value -------------------------------------------------------------------------------*/

/* Float bits to integers in the order of the values; -0 is below +0. */
PITHI_INLINE int32_t pithi_ordered(uint32_t u) { return (int32_t)(u >> 31 ? u ^ 0x7FFFFFFFu : u); }
PITHI_INLINE float pithi_from_ordered(int32_t o) {
    return pithi_float(o < 0 ? (uint32_t)o ^ 0x7FFFFFFFu : (uint32_t)o);
}

/* |v| < 2^22: adding and subtracting 1.5 * 2^23 rounds to nearest even. */
PITHI_INLINE int pithi_round_even(float v) { return (int)((v + 0x1.8p23f) - 0x1.8p23f); }

/* floor(v), plus one when the 16 random bits are below the fraction: v with 16 bits after the
 * point, rounded down, and a carry out of them. |v| < 2^9. */
PITHI_INLINE int pithi_round_stochastic(float v, uint32_t random16) {
    const float scaled = v * 65536.0f;
    int t = (int)scaled;
    t -= (float)t > scaled;
    return ((t + (1 << 25) + 65535 - (int)random16) >> 16) - (1 << 9);
}

PITHI_INLINE int pithi_clamp(int q, int lo, int hi) { return q < lo ? lo : q > hi ? hi : q; }

/* The code of d: value, or value - base. */
PITHI_INLINE int pithi_group_quantize(const struct pithi_group_setting *s, float d, float zero,
                                      float reciprocal, uint32_t random16) {
    if (s->asymmetric) d = d - zero;
    const float v = d * reciprocal;
    const int q = s->stochastic ? pithi_round_stochastic(v, random16) : pithi_round_even(v);
    const int levels = (1 << (s->asymmetric ? s->bits : s->bits - 1)) - 1;
    return pithi_clamp(q, s->asymmetric ? 0 : s->search ? -levels - 1 : -levels, levels);
}

/* x' of one code; scale and zero are finite. Overflow gives the largest finite value. */
PITHI_INLINE uint32_t pithi_group_decoded(int q, float scale, float zero, bool asymmetric,
                                          uint64_t *saturated) {
    float x = (float)q * scale;
    if (asymmetric) x = x + zero;
    const uint32_t u = pithi_bits(x);
    if (pithi_magnitude(u) != PITHI_F32_INF) return u;
    ++*saturated;
    return (u & 0x80000000u) | PITHI_F32_MAX;
}

PITHI_INLINE uint32_t pithi_group_update(uint32_t base, uint32_t x, uint32_t base_dtype,
                                         uint64_t *saturated) {
    if (pithi_nonfinite(base)) base = 0;
    const uint32_t sum = pithi_bits(pithi_float(base) + pithi_float(x));
    if (pithi_magnitude(x) > PITHI_F32_INF) return PITHI_F32_NAN;
    uint32_t rounded = sum;
    if (base_dtype == PITH_BF16) rounded = pithi_from_bf16(pithi_to_bf16(sum));
    if (base_dtype == PITH_F16) rounded = pithi_from_f16(pithi_to_f16(sum));
    if (pithi_magnitude(rounded) != PITHI_F32_INF) return rounded;
    ++*saturated;
    return (rounded & 0x80000000u) | pithi_largest(base_dtype);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

PITHI_INLINE int pithi_group_code(const struct pithi_group_setting *s, const uint8_t *codes,
                                  size_t count, size_t i) {
    const uint32_t bits = s->bits, mask = (1u << bits) - 1;
    const size_t bit = i * bits, last = pithi_group_code_bytes(s, count) - 1;
    uint32_t word = codes[bit / 8];
    if (bit / 8 < last) word |= (uint32_t)codes[bit / 8 + 1] << 8;
    const uint32_t code = word >> bit % 8 & mask;
    if (s->asymmetric) return (int)code;
    return (int)(code ^ (mask + 1) / 2) - (int)((mask + 1) / 2);
}

#endif
