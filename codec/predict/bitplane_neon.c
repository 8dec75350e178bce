/* bitplane_neon.c - packed words for NEON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "kernels.h"

static inline uint32x4_t or_words(const uint32_t *p) {
    return vorrq_u32(vorrq_u32(vld1q_u32(p), vld1q_u32(p + 4)),
                     vorrq_u32(vld1q_u32(p + 8), vld1q_u32(p + 12)));
}
static inline uint32x4_t or_pairs(uint32x4_t a, uint32x4_t b) {
    return vorrq_u32(vuzp1q_u32(a, b), vuzp2q_u32(a, b));
}

static inline void measure(const uint32_t *words, uint8_t widths[4]) {
    uint32_t bits[4];
    const uint32x4_t x = or_pairs(or_words(words), or_words(words + 16));
    const uint32x4_t y = or_pairs(or_words(words + 32), or_words(words + 48));
    vst1q_u32(bits, vsubq_u32(vdupq_n_u32(32), vclzq_u32(or_pairs(x, y))));
    for (int g = 0; g < 4; g++) widths[g] = (uint8_t)bits[g];
}

/* Bits of x and of x moved by so many, exchanged where mask says. */
#define SWAP_BITS(x, by, mask)                                                                \
    do {                                                                                      \
        const uint64x2_t t_ = vandq_u64(veorq_u64(x, vshrq_n_u64(x, by)), vdupq_n_u64(mask)); \
        x = veorq_u64(x, veorq_u64(t_, vshlq_n_u64(t_, by)));                                 \
    } while (0)

/* The 8 by 8 bits of both halves, turned over. */
static inline uint8x16_t transpose_bits(uint8x16_t bytes) {
    uint64x2_t x = vreinterpretq_u64_u8(bytes);
    SWAP_BITS(x, 7, UINT64_C(0x00AA00AA00AA00AA));
    SWAP_BITS(x, 14, UINT64_C(0x0000CCCC0000CCCC));
    SWAP_BITS(x, 28, UINT64_C(0x00000000F0F0F0F0));
    return vreinterpretq_u8_u64(x);
}

/* Bytes of the halves in turn, and apart. */
static inline uint8x16_t mixed(uint8x16_t x) { return vzip1q_u8(x, vextq_u8(x, x, 8)); }
static inline uint8x16_t parted(uint8x16_t x) {
    return vcombine_u8(vget_low_u8(vuzp1q_u8(x, x)), vget_low_u8(vuzp2q_u8(x, x)));
}

static inline void put_one(uint8_t *to, v16 x) {
    const uint8x16_t a = vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(x.val[0]), x.val[1]));
    const uint8x16_t b = vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(x.val[2]), x.val[3]));
    vst1q_u8(to, mixed(transpose_bits(vuzp1q_u8(a, b))));
    vst1q_u8(to + 16, mixed(transpose_bits(vuzp2q_u8(a, b))));
}

static inline void put_pair(uint8_t *a, uint8_t *b, v16 x, v16 y) {
    put_one(a, x);
    put_one(b, y);
}

static inline v16 get_one(const uint8_t *from, unsigned width) {
    static const uint16_t ones[32] = {0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF,
                                      0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF};
    const uint8_t *const there = (const uint8_t *)(ones + 16 - width);
    const uint8x16_t low = vandq_u8(vld1q_u8(from), vld1q_u8(there));
    const uint8x16_t high = vandq_u8(vld1q_u8(from + 16), vld1q_u8(there + 16));
    const uint8x16_t first = transpose_bits(parted(low)), second = transpose_bits(parted(high));
    const uint16x8_t a = vreinterpretq_u16_u8(vzip1q_u8(first, second));
    const uint16x8_t b = vreinterpretq_u16_u8(vzip2q_u8(first, second));
    return (v16){{vmovl_u16(vget_low_u16(a)), vmovl_high_u16(a), vmovl_u16(vget_low_u16(b)),
                  vmovl_high_u16(b)}};
}

static inline void get_pair(const uint8_t *a, const uint8_t *b, unsigned wa, unsigned wb, v16 *x,
                            v16 *y) {
    *x = get_one(a, wa);
    *y = get_one(b, wb);
}

#include "predict/bitplane_tmpl.h"

void pithi_bitplane_bind_neon(struct pithi_kernels *k);
void pithi_bitplane_bind_neon(struct pithi_kernels *k) {
    k->widths = widths;
    k->pack = pack;
    k->unpack = unpack;
}
