/* lanes_neon.h - 16 lanes of 32 bits, and Philox in lanes, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_LANES_NEON_H
#define PITHI_COMMON_LANES_NEON_H

#include <arm_neon.h>

#include "common/numeric.h"

typedef uint32x4x4_t v16; /* lanes 0..3, 4..7, 8..11, 12..15 */

#define F(x) vreinterpretq_f32_u32(x)
#define I(x) vreinterpretq_u32_f32(x)
#define S(x) vreinterpretq_s32_u32(x)
#define U(x) vreinterpretq_u32_s32(x)
#define TWO(name, expression)                            \
    static inline v16 name(v16 a, v16 b) {               \
        v16 r;                                           \
        for (int q = 0; q < 4; q++) {                    \
            const uint32x4_t x = a.val[q], y = b.val[q]; \
            r.val[q] = (expression);                     \
        }                                                \
        return r;                                        \
    }
#define ONE(name, expression)              \
    static inline v16 name(v16 a) {        \
        v16 r;                             \
        for (int q = 0; q < 4; q++) {      \
            const uint32x4_t x = a.val[q]; \
            r.val[q] = (expression);       \
        }                                  \
        return r;                          \
    }

TWO(v_and, vandq_u32(x, y))
TWO(v_xor, veorq_u32(x, y))
TWO(v_add, vaddq_u32(x, y))
TWO(v_sub, vsubq_u32(x, y))
TWO(v_mul, vmulq_u32(x, y))
TWO(v_maxu, vmaxq_u32(x, y))
TWO(v_maxi, U(vmaxq_s32(S(x), S(y))))
TWO(v_mini, U(vminq_s32(S(x), S(y))))
TWO(v_minu, vminq_u32(x, y))
TWO(v_greater, vcgtq_s32(S(x), S(y)))
TWO(f_add, I(vaddq_f32(F(x), F(y))))
TWO(f_sub, I(vsubq_f32(F(x), F(y))))
TWO(f_mul, I(vmulq_f32(F(x), F(y))))
TWO(f_div, I(vdivq_f32(F(x), F(y))))
/* Divides the first eight lanes; the others are 0. */
static inline v16 f_div8(v16 a, v16 b) {
    v16 r = {{vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)}};
    for (int q = 0; q < 2; q++) r.val[q] = I(vdivq_f32(F(a.val[q]), F(b.val[q])));
    return r;
}
TWO(f_min, I(vminq_f32(F(x), F(y))))
TWO(f_max, I(vmaxq_f32(F(x), F(y))))
ONE(v_sar31, U(vshrq_n_s32(S(x), 31)))
ONE(v_sar16, U(vshrq_n_s32(S(x), 16)))
/* |limit| where a is larger, with the sign of a. */
TWO(f_limit, I(vmaxq_f32(vminq_f32(F(x), F(y)), vnegq_f32(F(y)))))
/* NaN of either kind made canonical. */
static inline v16 f_canonical(v16 x) {
    for (int q = 0; q < 4; q++) {
        const uint32x4_t number = vceqq_f32(F(x.val[q]), F(x.val[q]));
        x.val[q] = vbslq_u32(number, x.val[q], vdupq_n_u32(PITHI_F32_NAN));
    }
    return x;
}
ONE(f_floor_to_i, U(vcvtmq_s32_f32(F(x))))
ONE(f_round_to_i, U(vcvtnq_s32_f32(F(x))))
ONE(f_from_i, I(vcvtq_f32_s32(S(x))))
ONE(f_widen, I(vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x)))))
ONE(f_narrow, vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(F(x)))))
/* Rounds to the nearest f16 and widens it again. */
ONE(f_round16, I(vcvt_f32_f16(vcvt_f16_f32(F(x)))))

static inline v16 all_of(uint32x4_t x) { return (v16){{x, x, x, x}}; }
static inline v16 v_set(uint32_t x) { return all_of(vdupq_n_u32(x)); }
static inline v16 f_fixed(v16 a) { return f_floor_to_i(f_mul(a, v_set(0x47800000u))); } /* 2^16 */
static inline v16 v_spread(const float *p) { return all_of(I(vld1q_dup_f32(p))); }

static inline v16 v_load(const uint8_t *p) {
    v16 r;
    for (int q = 0; q < 4; q++) r.val[q] = vreinterpretq_u32_u8(vld1q_u8(p + 16 * q));
    return r;
}
/* Lanes 0, 2 .. 30 from p on; nothing is read behind them. */
static inline v16 v_load_every_other(const uint8_t *p) {
    v16 r;
    for (int q = 0; q < 4; q++) {
        const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(p + 32 * q));
        const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(p + 32 * q + 12));
        r.val[q] = vcombine_u32(vget_low_u32(vuzp1q_u32(a, a)), vget_low_u32(vuzp2q_u32(b, b)));
    }
    return r;
}
static inline v16 v_load16(const uint8_t *p) {
    const uint16x8_t a = vreinterpretq_u16_u8(vld1q_u8(p));
    const uint16x8_t b = vreinterpretq_u16_u8(vld1q_u8(p + 16));
    return (v16){{vmovl_u16(vget_low_u16(a)), vmovl_high_u16(a), vmovl_u16(vget_low_u16(b)),
                  vmovl_high_u16(b)}};
}
static inline void v_store(uint8_t *p, v16 x) {
    for (int q = 0; q < 4; q++) vst1q_u8(p + 16 * q, vreinterpretq_u8_u32(x.val[q]));
}
/* Lanes hold 16-bit values. */
static inline void v_store16(uint8_t *p, v16 x) {
    vst1q_u8(p, vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(x.val[0]), x.val[1])));
    vst1q_u8(p + 16, vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(x.val[2]), x.val[3])));
}

/* f_widen and f_narrow from memory and to it. */
static inline v16 f_load16(const uint8_t *p) { return f_widen(v_load16(p)); }
static inline void f_store16(uint8_t *p, v16 x) { v_store16(p, f_narrow(x)); }

/* Lanes moved up by one: the first is the last of `last`. */
static inline v16 v_before(v16 x, v16 last) {
    return (v16){{vextq_u32(last.val[3], x.val[0], 3), vextq_u32(x.val[0], x.val[1], 3),
                  vextq_u32(x.val[1], x.val[2], 3), vextq_u32(x.val[2], x.val[3], 3)}};
}
/* The last lane in all. */
static inline v16 v_last(v16 x) { return all_of(vdupq_laneq_u32(x.val[3], 3)); }

/* A line takes several loads. */
static inline void v_pace(void) {}

/* Ordinary stores: these cores see a stream by themselves. */
struct streamer {
    bool unused;
};
static inline bool v_stream_fits(const void *p) {
    (void)p;
    return false;
}
static inline void v_stream_begin(struct streamer *s, const void *p) {
    (void)p;
    s->unused = true;
}
static inline void v_stream(struct streamer *s, uint8_t *p, v16 x) {
    (void)s;
    v_store(p, x);
}
static inline void v_stream_end(struct streamer *s, uint8_t *p) {
    (void)s;
    (void)p;
}
static inline void v_stream_line(uint8_t *p, v16 x) { v_store(p, x); }

static inline v16 v_shr(v16 a, int n) {
    const int32x4_t by = vdupq_n_s32(-n);
    for (int q = 0; q < 4; q++) a.val[q] = vshlq_u32(a.val[q], by);
    return a;
}

/* 16 bits per lane, to and from the high halves of the lanes. */
static inline v16 v_load_high(const uint8_t *p) {
    v16 x = v_load16(p);
    for (int q = 0; q < 4; q++) x.val[q] = vshlq_n_u32(x.val[q], 16);
    return x;
}
static inline void v_store_high(uint8_t *p, v16 x) { v_store16(p, v_shr(x, 16)); }

/* Values to an integer order and back, -0 below +0. */
ONE(v_ordered, veorq_u32(x, vshrq_n_u32(U(vshrq_n_s32(S(x), 31)), 1)))
ONE(v_shl16, vshlq_n_u32(x, 16))

/* 32 lanes of 16 bits, and 16 of them from memory, twice. */
#define H(x) vreinterpretq_u16_u32(x)
#define SH(x) vreinterpretq_s16_u32(x)
#define FROM_H(x) vreinterpretq_u32_u16(x)
#define FROM_SH(x) vreinterpretq_u32_s16(x)
TWO(v_maxi16, FROM_SH(vmaxq_s16(SH(x), SH(y))))
TWO(v_maxu16, FROM_H(vmaxq_u16(H(x), H(y))))
TWO(v_minu16, FROM_H(vminq_u16(H(x), H(y))))
static inline v16 v_load_twice(const uint8_t *p) {
    const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(p));
    const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(p + 16));
    return (v16){{a, b, a, b}};
}

/* The greatest or least lane of 16 vectors, or the sum of its lanes: of every four of them, then of
 * these. Lanes of 16 bits come back in the low halves of lanes of 32. */
typedef uint32x4_t vquad;
#define FOUR(name, lanes, in, out, both, pairs)                                          \
    static inline lanes name##_one(v16 x) {                                              \
        return both(both(in(x.val[0]), in(x.val[1])), both(in(x.val[2]), in(x.val[3]))); \
    }                                                                                    \
    static inline vquad name##_four(const v16 x[4]) {                                    \
        return out(pairs(pairs(name##_one(x[0]), name##_one(x[1])),                      \
                         pairs(name##_one(x[2]), name##_one(x[3]))));                    \
    }
#define MOST(name, lanes, in, out, both, pairs) \
    FOUR(name, lanes, in, out, both, pairs)     \
    static inline v16 name##_all(const vquad x[4]) { return (v16){{x[0], x[1], x[2], x[3]}}; }
#define MOST16(name, lanes, in, out, both, pairs)                                                \
    FOUR(name, lanes, in, out, both, pairs)                                                      \
    static inline v16 name##_all(const vquad x[4]) {                                             \
        const uint16x8_t a = H(out(pairs(in(x[0]), in(x[1]))));                                  \
        const uint16x8_t b = H(out(pairs(in(x[2]), in(x[3]))));                                  \
        return (v16){{vmovl_u16(vget_low_u16(a)), vmovl_high_u16(a), vmovl_u16(vget_low_u16(b)), \
                      vmovl_high_u16(b)}};                                                       \
    }
#define SAME(x) (x)
MOST(v_largest, int32x4_t, S, U, vmaxq_s32, vpmaxq_s32)
MOST(v_highest, uint32x4_t, SAME, SAME, vmaxq_u32, vpmaxq_u32)
MOST(v_lowest, uint32x4_t, SAME, SAME, vminq_u32, vpminq_u32)
MOST(v_total, uint32x4_t, SAME, SAME, vaddq_u32, vpaddq_u32)
MOST16(v_largest16, int16x8_t, SH, FROM_SH, vmaxq_s16, vpmaxq_s16)
MOST16(v_highest16, uint16x8_t, H, FROM_H, vmaxq_u16, vpmaxq_u16)
MOST16(v_lowest16, uint16x8_t, H, FROM_H, vminq_u16, vpminq_u16)
#undef SAME
#undef MOST
#undef MOST16
#undef FOUR

static inline uint32_t v_first(v16 a) { return vgetq_lane_u32(a.val[0], 0); }
static inline uint32_t v_reduce_maxu(v16 a) {
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(a.val[0], a.val[1]), vmaxq_u32(a.val[2], a.val[3])));
}
static inline bool v_any(v16 a) { return v_reduce_maxu(a) != 0; }
/* The sum of all lanes: halves of the lanes are added, down to one, as in the scalar reference. */
static inline float f_sum(v16 x) {
    const float32x4_t a = vaddq_f32(F(x.val[0]), F(x.val[2]));
    const float32x4_t b = vaddq_f32(a, vaddq_f32(F(x.val[1]), F(x.val[3])));
    const float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}
static inline int32_t v_reduce_maxi(v16 a) {
    return vmaxvq_s32(
        vmaxq_s32(vmaxq_s32(S(a.val[0]), S(a.val[1])), vmaxq_s32(S(a.val[2]), S(a.val[3]))));
}
static inline int32_t v_reduce_mini(v16 a) {
    return vminvq_s32(
        vminq_s32(vminq_s32(S(a.val[0]), S(a.val[1])), vminq_s32(S(a.val[2]), S(a.val[3]))));
}

/* All ones where x is finite. */
static inline uint32x4_t finite4(uint32x4_t x) {
    const uint32x4_t infinity = vdupq_n_u32(0x7F800000u);
    return vmvnq_u32(vceqq_u32(vandq_u32(x, infinity), infinity));
}
static inline uint32_t v_nonfinite(v16 a) {
    static const uint32_t weights[4] = {1, 2, 4, 8};
    const uint32x4_t weight = vld1q_u32(weights);
    uint32_t mask = 0;
    for (int q = 0; q < 4; q++) mask |= vaddvq_u32(vbicq_u32(weight, finite4(a.val[q]))) << (4 * q);
    return mask;
}
/* True where a lane is not finite, or the sum of some is not. */
static inline bool v_overflows(v16 x) {
    const float32x4_t a = vaddq_f32(F(x.val[0]), F(x.val[1]));
    const float32x4_t b = vaddq_f32(F(x.val[2]), F(x.val[3]));
    return vminvq_u32(finite4(I(vaddq_f32(a, b)))) == 0;
}
/* Nonfinite lanes become the largest value with their sign. */
static inline v16 v_saturate(v16 a, uint32_t largest) {
    const uint32x4_t sign = vdupq_n_u32(0x80000000u), most = vdupq_n_u32(largest);
    for (int q = 0; q < 4; q++) {
        const uint32x4_t full = vorrq_u32(vandq_u32(a.val[q], sign), most);
        a.val[q] = vbslq_u32(finite4(a.val[q]), a.val[q], full);
    }
    return a;
}

/* Words of four counters at a time, one counter per lane; the store puts them in order. */
struct philox {
    struct pithi_random random;
};

static inline void philox_init(struct philox *p, const struct pithi_random *r, uint64_t counter) {
    (void)counter;
    p->random = *r;
}

static inline uint32x4_t multiply(uint32x4_t c, uint32_t by, uint32x4_t *high) {
    const uint64x2_t low2 = vmull_n_u32(vget_low_u32(c), by);
    const uint64x2_t high2 = vmull_high_n_u32(c, by);
    *high = vuzp2q_u32(vreinterpretq_u32_u64(low2), vreinterpretq_u32_u64(high2));
    return vuzp1q_u32(vreinterpretq_u32_u64(low2), vreinterpretq_u32_u64(high2));
}

static inline void random32(const struct pithi_random *r, uint64_t c, uint16_t *out) {
    uint32_t low[4], high[4], words[16];
    for (unsigned i = 0; i < 4; i++) {
        low[i] = (uint32_t)(c + i);
        high[i] = (uint32_t)((c + i) >> 32);
    }
    uint32x4x4_t w = {{vld1q_u32(low), vld1q_u32(high), vdupq_n_u32((uint32_t)r->step),
                       vdupq_n_u32(r->rng_stream)}};
    uint32_t k0 = (uint32_t)r->seed, k1 = (uint32_t)(r->seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint32x4_t high0, high1;
        const uint32x4_t low0 = multiply(w.val[0], 0xD2511F53u, &high0);
        const uint32x4_t low1 = multiply(w.val[2], 0xCD9E8D57u, &high1);
        w.val[0] = veorq_u32(veorq_u32(high1, w.val[1]), vdupq_n_u32(k0));
        w.val[2] = veorq_u32(veorq_u32(high0, w.val[3]), vdupq_n_u32(k1));
        w.val[1] = low1;
        w.val[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    vst4q_u32(words, w);
    for (unsigned i = 0; i < 4; i++) {
        const uint16x8_t bits = vreinterpretq_u16_u32(vld1q_u32(words + 4 * i));
        vst1q_u16(out + 8 * i, vsubq_u16(vdupq_n_u16((uint16_t)(UINT16_MAX - r->shift)), bits));
    }
}

static inline void random256(const struct philox *p, uint64_t c, uint16_t out[256]) {
    for (unsigned i = 0; i < 8; i++) random32(&p->random, c + 4 * i, out + 32 * i);
}

/* Row and column k of 4 vectors change places. */
static inline __attribute__((always_inline)) void transpose128(uint32x4_t *a, uint32x4_t *b,
                                                               uint32x4_t *c, uint32x4_t *d) {
    const uint64x2_t p = vreinterpretq_u64_u32(vtrn1q_u32(*a, *b));
    const uint64x2_t q = vreinterpretq_u64_u32(vtrn2q_u32(*a, *b));
    const uint64x2_t r = vreinterpretq_u64_u32(vtrn1q_u32(*c, *d));
    const uint64x2_t s = vreinterpretq_u64_u32(vtrn2q_u32(*c, *d));
    *a = vreinterpretq_u32_u64(vtrn1q_u64(p, r));
    *b = vreinterpretq_u32_u64(vtrn1q_u64(q, s));
    *c = vreinterpretq_u32_u64(vtrn2q_u64(p, r));
    *d = vreinterpretq_u32_u64(vtrn2q_u64(q, s));
}
/* Row and column k of 16 vectors change places: those of quarters do, then the quarters. */
static inline __attribute__((always_inline)) void v_transpose(v16 x[16]) {
    for (int k = 0; k < 16; k += 4)
        for (int q = 0; q < 4; q++)
            transpose128(&x[k].val[q], &x[k + 1].val[q], &x[k + 2].val[q], &x[k + 3].val[q]);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
            for (int q = 0; q < i; q++) {
                const uint32x4_t t = x[k + 4 * i].val[q];
                x[k + 4 * i].val[q] = x[k + 4 * q].val[i];
                x[k + 4 * q].val[i] = t;
            }
}

/* ---- 16 lanes of f64 -------------------------------------------------------------------------*/

/* Lanes 0 and 1, 2 and 3, and so on. */
typedef struct {
    float64x2_t q[8];
} d16;

static inline d16 d_zero(void) {
    d16 x;
    for (int k = 0; k < 8; k++) x.q[k] = vdupq_n_f64(0);
    return x;
}
static inline d16 d_widen(v16 x) {
    d16 y;
    for (int q = 0; q < 4; q++) {
        y.q[2 * q] = vcvt_f64_f32(vget_low_f32(F(x.val[q])));
        y.q[2 * q + 1] = vcvt_high_f64_f32(F(x.val[q]));
    }
    return y;
}
#define F64(name, operation)                                            \
    static inline d16 name(d16 x, d16 y) {                              \
        for (int k = 0; k < 8; k++) x.q[k] = operation(x.q[k], y.q[k]); \
        return x;                                                       \
    }
F64(d_add, vaddq_f64)
F64(d_sub, vsubq_f64)
F64(d_mul, vmulq_f64)
F64(d_div, vdivq_f64)
#undef F64
static inline d16 d_magnitude(d16 x) {
    for (int k = 0; k < 8; k++) x.q[k] = vabsq_f64(x.q[k]);
    return x;
}
/* Lanes 0 to 7, then 8 to 15. */
static inline d16 d_set(double x, double y) {
    d16 z;
    for (int k = 0; k < 8; k++) z.q[k] = vdupq_n_f64(k < 4 ? x : y);
    return z;
}
static inline d16 d_load(const double *p, const double *q) {
    d16 x;
    for (int k = 0; k < 8; k++) x.q[k] = vld1q_f64((k < 4 ? p : q) + 2 * (k % 4));
    return x;
}
static inline void d_store(double *p, double *q, d16 x) {
    for (int k = 0; k < 8; k++) vst1q_f64((k < 4 ? p : q) + 2 * (k % 4), x.q[k]);
}
/* Whether all lanes are numbers below the limit. */
static inline bool d_below(d16 x, double limit) {
    const float64x2_t most = vdupq_n_f64(limit);
    uint64x2_t all = vdupq_n_u64(UINT64_MAX);
    for (int k = 0; k < 8; k++) all = vandq_u64(all, vcltq_f64(x.q[k], most));
    return (vgetq_lane_u64(all, 0) & vgetq_lane_u64(all, 1)) == UINT64_MAX;
}

#endif
