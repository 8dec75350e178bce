/* rans_neon.h - rANS states in 8 lanes of two halves: words taken and stored, division; for 64-bit
 * ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_RANS_NEON_H
#define PITHI_COMMON_RANS_NEON_H

#include <arm_neon.h>

#include "common/lane_masks.h"
#include "kernels.h"

enum { RANS_LANES = 8 };

static inline uint8x16_t bytes(uint16x8_t x) { return vreinterpretq_u8_u16(x); }
static inline uint16x8_t halves(uint32x4_t x) { return vreinterpretq_u16_u32(x); }
static inline uint16x8_t all(unsigned x) { return vdupq_n_u16((uint16_t)x); }

/* ---- Lanes of a mask -------------------------------------------------------------------------
 * For a mask of eight lanes, two places of bytes for each lane. `spread` has for lane i of the
 * mask those of lane k, k lanes of the mask being below i, and for others places that give 0;
 * `compress` has in the last lanes those of the lanes of the mask, ascending. */

#define COUNT(l7, l6, l5, l4, l3, l2, l1, l0) (l7 + l6 + l5 + l4 + l3 + l2 + l1 + l0)
#define PLACES(i) (uint16_t)(0x0100 + 0x0202 * (i))
#define SPREAD_1(in_mask, rank) (in_mask ? PLACES(rank) : UINT16_MAX)
#define SPREAD(l7, l6, l5, l4, l3, l2, l1, l0)                                                \
    {                                                                                         \
        SPREAD_1(l0, 0), SPREAD_1(l1, l0), SPREAD_1(l2, l0 + l1), SPREAD_1(l3, l0 + l1 + l2), \
            SPREAD_1(l4, l0 + l1 + l2 + l3), SPREAD_1(l5, l0 + l1 + l2 + l3 + l4),            \
            SPREAD_1(l6, l0 + l1 + l2 + l3 + l4 + l5),                                        \
            SPREAD_1(l7, l0 + l1 + l2 + l3 + l4 + l5 + l6)                                    \
    }
/* Half h of the row: lane i has as many lanes behind it as are above it in the mask. */
#define COMPRESS_1(h, i, in_mask, above) \
    (in_mask && (7 - (above)) / 4 == h ? (uint64_t)PLACES(i) << 16 * ((7 - (above)) & 3) : 0)
#define COMPRESS_8(h, l7, l6, l5, l4, l3, l2, l1, l0)                                     \
    (COMPRESS_1(h, 7, l7, 0) | COMPRESS_1(h, 6, l6, l7) | COMPRESS_1(h, 5, l5, l7 + l6) | \
     COMPRESS_1(h, 4, l4, l7 + l6 + l5) | COMPRESS_1(h, 3, l3, l7 + l6 + l5 + l4) |       \
     COMPRESS_1(h, 2, l2, l7 + l6 + l5 + l4 + l3) |                                       \
     COMPRESS_1(h, 1, l1, l7 + l6 + l5 + l4 + l3 + l2) |                                  \
     COMPRESS_1(h, 0, l0, l7 + l6 + l5 + l4 + l3 + l2 + l1))
#define COMPRESS(...) \
    { COMPRESS_8(0, __VA_ARGS__), COMPRESS_8(1, __VA_ARGS__) }

static const uint16_t spread[256][RANS_LANES] = {PITHI_MASKS(SPREAD)};
static const uint64_t compress[256][RANS_LANES / 4] = {PITHI_MASKS(COMPRESS)};
static const uint8_t counts[256] = {PITHI_MASKS(COUNT)};

/* A bit for each lane, of lanes that are all ones or 0. */
static inline unsigned mask_of(uint16x8_t lanes) {
    static const uint16_t bit[RANS_LANES] = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(lanes, vld1q_u16(bit)));
}

/* ---- Decode ----------------------------------------------------------------------------------*/

#define EACH_OF_4(each) each(0) each(1) each(2) each(3)
#define EACH_OF_8(each) EACH_OF_4(each) each(4) each(5) each(6) each(7)

static inline uint32x4_t pairs_of(const uint32_t *pair, const uint8_t *src) {
    uint32x4_t x = vdupq_n_u32(0);
#define ENTRY(i) x = vld1q_lane_u32(pair + src[i], x, i);
    EACH_OF_4(ENTRY)
#undef ENTRY
    return x;
}

/* Makes f floor(x / 2^12) + number of states and takes the next words for those of the lanes `used`
 * that are below 2^16 then. A state x = 2^16 high + low becomes 16 f high + c, where
 * c = f floor(low / 2^12) + number is below 2^16. */
static inline void advance(uint16_t *low, uint16_t *high, uint16x8_t f, uint16x8_t number,
                           uint16x8_t used, const uint8_t **words) {
    const uint16x8_t l = vld1q_u16(low), h = vld1q_u16(high);
    const uint16x8_t c = vmlaq_u16(number, f, vshrq_n_u16(l, PITHI_RANS_LOG2_SLOTS));
    const uint16x8_t factor = vshlq_n_u16(f, 16 - PITHI_RANS_LOG2_SLOTS);
    const uint16x8_t a =
        halves(vmlal_u16(vmovl_u16(vget_low_u16(c)), vget_low_u16(factor), vget_low_u16(h)));
    const uint16x8_t b = halves(vmlal_high_u16(vmovl_high_u16(c), factor, h));
    const uint16x8_t lower = vuzp1q_u16(a, b), upper = vuzp2q_u16(a, b);
    const uint16x8_t below = vandq_u16(used, vceqzq_u16(upper));
    const unsigned mask = mask_of(below);
    const uint8x16_t word = vqtbl1q_u8(vld1q_u8(*words), bytes(vld1q_u16(spread[mask])));
    *words += 2 * (size_t)counts[mask];
    vst1q_u16(low, vbslq_u16(below, vreinterpretq_u16_u8(word), lower));
    vst1q_u16(high, vbslq_u16(below, lower, upper));
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Stores a word of those of the lanes `used` whose next state would not fit, the last lane's last;
 * returns where words begin. */
static inline uint8_t *shift_out(uint16x8_t *low, uint16x8_t *high, uint16x8_t f, uint16x8_t used,
                                 uint8_t *end) {
    const uint16x8_t full =
        vandq_u16(used, vcgeq_u16(*high, vshlq_n_u16(f, 16 - PITHI_RANS_LOG2_SLOTS)));
    const unsigned mask = mask_of(full);
    vst1q_u8(end - 2 * RANS_LANES,
             vqtbl1q_u8(bytes(*low), vreinterpretq_u8_u64(vld1q_u64(compress[mask]))));
    *low = vbslq_u16(full, *high, *low);
    *high = vbicq_u16(*high, full);
    return end - 2 * (size_t)counts[mask];
}

/* Returns x / f, or 1 less, for x < 2^20 f, f < 2^12. The quotient, below 2^20, is made smaller by
 * 2^-21 of itself, more than three roundings add in any mode, by 2^-23 each, and less than 1
 * together with what they take. */
static inline uint32x4_t divide(uint32x4_t x, uint32x4_t f) {
    const float32x4_t less = vmulq_f32(vcvtq_f32_u32(x), vdupq_n_f32(1.0f - 0x1p-21f));
    return vcvtq_u32_f32(vdivq_f32(less, vcvtq_f32_u32(f)));
}

/* Makes 2^12 floor(x / f) of states; returns what is left of them. */
static inline uint16x8_t divide_8(uint16x8_t *low, uint16x8_t *high, uint16x8_t f) {
    const uint32x4_t q[2] = {
        divide(vreinterpretq_u32_u16(vzip1q_u16(*low, *high)), vmovl_u16(vget_low_u16(f))),
        divide(vreinterpretq_u32_u16(vzip2q_u16(*low, *high)), vmovl_high_u16(f))};
    /* What is left of a state is below 2 f; where it is not below f, a quotient lacks 1. */
    const uint16x8_t left = vmlsq_u16(*low, vuzp1q_u16(halves(q[0]), halves(q[1])), f);
    const int16x8_t lacks = vreinterpretq_s16_u16(vcgeq_u16(left, f));
    const uint16x8_t a = halves(vshlq_n_u32(
        vreinterpretq_u32_s32(vsubw_s16(vreinterpretq_s32_u32(q[0]), vget_low_s16(lacks))),
        PITHI_RANS_LOG2_SLOTS));
    const uint16x8_t b = halves(
        vshlq_n_u32(vreinterpretq_u32_s32(vsubw_high_s16(vreinterpretq_s32_u32(q[1]), lacks)),
                    PITHI_RANS_LOG2_SLOTS));
    *low = vuzp1q_u16(a, b);
    *high = vuzp2q_u16(a, b);
    return vminq_u16(left, vsubq_u16(left, f));
}

#endif
