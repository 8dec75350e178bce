/* sparse_neon.c - selection, histograms, moments and indices of sets for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "kernels.h"

static inline uint32_t reached16(v16 x, v16 least) {
    static const uint16_t weights[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t weight = vld1q_u16(weights);
    uint16x4_t reached[4];
    for (int q = 0; q < 4; q++) reached[q] = vmovn_u32(vcgeq_u32(x.val[q], least.val[q]));
    const uint32_t low = vaddvq_u16(vandq_u16(vcombine_u16(reached[0], reached[1]), weight));
    const uint32_t high = vaddvq_u16(vandq_u16(vcombine_u16(reached[2], reached[3]), weight));
    return low | high << 8;
}
static inline v16 finite_pick(v16 x, v16 then, v16 other) {
    for (int q = 0; q < 4; q++)
        then.val[q] = vbslq_u32(finite4(x.val[q]), then.val[q], other.val[q]);
    return then;
}
static inline v16 below16(v16 x, v16 y, v16 least) {
    for (int q = 0; q < 4; q++) x.val[q] = vbicq_u32(x.val[q], vcgeq_u32(y.val[q], least.val[q]));
    return x;
}
static inline double d_sum(d16 x) {
    for (int half = 4; half; half /= 2)
        for (int k = 0; k < half; k++) x.q[k] = vaddq_f64(x.q[k], x.q[k + half]);
    return vgetq_lane_f64(x.q[0], 0) + vgetq_lane_f64(x.q[0], 1);
}

#include "sparse/select_tmpl.h"

/* ---- Indices ----------------------------------------------------------------------------------*/

typedef uint32x4_t v4;

static inline v4 v4_load(const uint32_t *p) {
    return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p));
}
static inline void v4_store(uint32_t *p, v4 x) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_u32(x)); }
static inline v4 v4_set(uint32_t x) { return vdupq_n_u32(x); }
static inline v4 v4_add(v4 x, v4 y) { return vaddq_u32(x, y); }
static inline v4 v4_sub(v4 x, v4 y) { return vsubq_u32(x, y); }
static inline v4 v4_or(v4 x, v4 y) { return vorrq_u32(x, y); }
static inline v4 v4_and(v4 x, v4 y) { return vandq_u32(x, y); }
static inline v4 v4_ramp(uint32_t first) {
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    return vaddq_u32(vdupq_n_u32(first), vld1q_u32(lanes));
}
static inline v4 v4_shl(v4 x, unsigned n) { return vshlq_u32(x, vdupq_n_s32((int32_t)n)); }
static inline v4 v4_shr(v4 x, unsigned n) { return vshlq_u32(x, vdupq_n_s32(-(int32_t)n)); }
static inline v4 v4_shr_each(v4 x, v4 n) {
    return vshlq_u32(x, vnegq_s32(vreinterpretq_s32_u32(n)));
}
static inline v4 v4_after(v4 last, v4 x) { return vextq_u32(last, x, 3); }
static inline v4 v4_last(v4 x) { return vdupq_laneq_u32(x, 3); }
static inline v4 v4_sums(v4 x) {
    const v4 none = vdupq_n_u32(0);
    x = vaddq_u32(x, vextq_u32(none, x, 3));
    return vaddq_u32(x, vextq_u32(none, x, 2));
}
static inline v4 v4_pick(const uint8_t *bytes, v4 pick) {
    return vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(bytes), vreinterpretq_u8_u32(pick)));
}
static inline v4 v4_above(v4 x, v4 y) {
    return vcgtq_s32(vreinterpretq_s32_u32(x), vreinterpretq_s32_u32(y));
}
static inline bool v4_ascends(v4 x, v4 y) { return vminvq_u32(v4_above(y, x)) != 0; }

typedef v4 wide;

static inline wide w_load(const uint32_t *p) { return v4_load(p); }
static inline void w_store(uint32_t *p, wide x) { v4_store(p, x); }
static inline wide w_set(uint32_t x) { return v4_set(x); }
static inline wide w_sub(wide x, wide y) { return v4_sub(x, y); }
static inline wide w_and(wide x, wide y) { return v4_and(x, y); }
static inline wide w_shr(wide x, unsigned n) { return v4_shr(x, n); }
static inline wide w_after(uint32_t last, wide x) { return v4_after(v4_set(last), x); }
static inline wide of_bytes(uint8x16_t x) { return vreinterpretq_u32_u8(x); }
static inline uint8x16_t bytes_of(wide x) { return vreinterpretq_u8_u32(x); }
static inline wide w_narrow(const wide *x) {
    const uint16x8_t low = vcombine_u16(vqmovn_u32(x[0]), vqmovn_u32(x[1]));
    const uint16x8_t high = vcombine_u16(vqmovn_u32(x[2]), vqmovn_u32(x[3]));
    return of_bytes(vcombine_u8(vqmovn_u16(low), vqmovn_u16(high)));
}
enum { LENGTH_0 = 0, LOOK_0 = 0 };
static inline wide w_length(wide x) { return vsubq_u32(vdupq_n_u32(32), vclzq_u32(x)); }
static inline wide b_set(unsigned x) { return of_bytes(vdupq_n_u8((uint8_t)x)); }
static inline wide b_add(wide x, wide y) { return of_bytes(vaddq_u8(bytes_of(x), bytes_of(y))); }
static inline wide b_sub(wide x, wide y) { return of_bytes(vsubq_u8(bytes_of(x), bytes_of(y))); }
static inline wide b_max(wide x, wide y) { return of_bytes(vmaxq_u8(bytes_of(x), bytes_of(y))); }
static inline wide b_equal(wide x, wide y) { return of_bytes(vceqq_u8(bytes_of(x), bytes_of(y))); }
static inline wide b_least(wide x, wide y) { return of_bytes(vcgeq_u8(bytes_of(x), bytes_of(y))); }
static inline wide b_look(const uint8_t table[16], wide x) {
    return of_bytes(vqtbl1q_u8(vld1q_u8(table), bytes_of(x)));
}
static inline uint32_t b_sum(wide x) { return vaddlvq_u8(bytes_of(x)); }
static inline uint32_t b_sums(wide x, wide y) {
    const uint8x16_t half = vdupq_n_u8(15), a = bytes_of(x), b = bytes_of(y);
    return (uint32_t)vaddvq_u8(vandq_u8(a, half)) | (uint32_t)vaddvq_u8(vshrq_n_u8(a, 4)) << 8 |
           (uint32_t)vaddvq_u8(vandq_u8(b, half)) << 16 |
           (uint32_t)vaddvq_u8(vshrq_n_u8(b, 4)) << 24;
}
static inline uint32_t b_bits(wide x) {
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t set = vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(bytes_of(x)), 7));
    const uint8x16_t bits = vandq_u8(set, vld1q_u8(weights));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}
static inline unsigned b_same(const uint8_t bytes[16], unsigned x) {
    return b_bits(of_bytes(vceqq_u8(vld1q_u8(bytes), vdupq_n_u8((uint8_t)x))));
}
static inline unsigned b_largest(wide x) { return vmaxvq_u8(bytes_of(x)); }

#include "sparse/index_tmpl.h"

void pithi_sparse_bind_neon(struct pithi_kernels *k);
void pithi_sparse_bind_neon(struct pithi_kernels *k) {
    k->select = select_set;
    k->histogram = histogram;
    k->moments = moments;
    BIND(k);
    k->packed_take = packed_take;
}
