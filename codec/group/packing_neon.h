/* packing_neon.h - codes of 2 to 8 bits to packed bytes and back, for NEON.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of group_neon.c: what group_encode_tmpl.h and group_decode_tmpl.h ask of an instruction
 * set's packing, 64 codes at a time. The scalar reference is packing.h. */
#ifndef PITHI_PACKING_NEON_H
#define PITHI_PACKING_NEON_H

#include "group/packing.h"

/* 16 codes are 2 * bits bytes. Making them, 8 codes are one 64-bit lane; reading them, every
 * 32-bit lane gets the two bytes its code begins in, and is shifted up by `up`, so that the code's
 * highest bit is the lane's, and down again by `down`, with the sign or without. */
struct packing {
    uint8x16_t squeeze, mask8, spread[4];
    int32x4_t up[4], down;
    const float *levels; /* what codes of 2 or 4 bits stand for */
    unsigned bits;
    bool symmetric;
};

static inline __attribute__((always_inline)) void packing_make(struct packing *p, unsigned bits,
                                                               bool symmetric) {
    uint8_t squeeze[16], spread[64];
    int32_t up[16];
    for (unsigned i = 0; i < 16; i++) {
        const unsigned byte = i * bits / 8, next = byte + 1 < 2 * bits ? byte + 1 : byte;
        const uint8_t from[4] = {(uint8_t)byte, (uint8_t)next, 0x80, 0x80};
        memcpy(spread + 4 * i, from, 4);
        up[i] = (int32_t)(32 - bits - i * bits % 8);
        squeeze[i] = (uint8_t)(i < bits ? i : i < 2 * bits ? i - bits + 8 : 0x80);
    }
    p->squeeze = vld1q_u8(squeeze);
    for (int q = 0; q < 4; q++) {
        p->spread[q] = vld1q_u8(spread + 16 * q);
        p->up[q] = vld1q_s32(up + 4 * q);
    }
    p->mask8 = vdupq_n_u8((uint8_t)((1u << bits) - 1));
    p->down = vdupq_n_s32((int32_t)bits - 32);
    p->levels = (bits == 2 ? pithi_levels2 : pithi_levels4)[symmetric];
    p->bits = bits;
    p->symmetric = symmetric;
}
static __attribute__((noinline)) void packing_init(struct packing *p, unsigned bits,
                                                   bool symmetric) {
    packing_make(p, bits, symmetric);
}

/* Halves of every lane brought together: the low one stays, the high one follows `bits` later. */
static inline uint8x16_t pack16(const struct packing *p, v16 x) {
    const uint16x8_t a = vmovn_high_u32(vmovn_u32(x.val[0]), x.val[1]);
    const uint16x8_t b = vmovn_high_u32(vmovn_u32(x.val[2]), x.val[3]);
    const uint8x16_t bytes = vandq_u8(vmovn_high_u16(vmovn_u16(a), b), p->mask8);
    if (p->bits == 8) return bytes;
    const int bits = (int)p->bits;
    const uint16x8_t h = vreinterpretq_u16_u8(bytes);
    const uint32x4_t w = vreinterpretq_u32_u16(vorrq_u16(
        vandq_u16(h, vdupq_n_u16(0xFF)), vshlq_u16(vshrq_n_u16(h, 8), vdupq_n_s16((int16_t)bits))));
    const uint64x2_t d = vreinterpretq_u64_u32(vorrq_u32(
        vandq_u32(w, vdupq_n_u32(0xFFFF)), vshlq_u32(vshrq_n_u32(w, 16), vdupq_n_s32(2 * bits))));
    const uint64x2_t all = vorrq_u64(vandq_u64(d, vdupq_n_u64(0xFFFFFFFFu)),
                                     vshlq_u64(vshrq_n_u64(d, 32), vdupq_n_s64(4 * bits)));
    return vqtbl1q_u8(vreinterpretq_u8_u64(all), p->squeeze);
}

static inline bool v_streams_codes(unsigned bits) { return bits > 8; } /* as struct streamer */
static inline bool v_stream16_fits(const void *p) { return (uintptr_t)p % 16 == 0; }
static inline void v_stream16(uint8_t *to, const void *from) { memcpy(to, from, 16); }

/* Stores of 16 bytes overlap: each one's end is written again by the next, in ascending order. */
static inline void pack64(uint8_t *to, size_t capacity, const struct packing *p, const v16 q[4],
                          bool nontemporal) {
    (void)nontemporal;
    uint8_t bytes[64];
    uint8_t *const at = capacity >= 64 ? to : bytes;
    for (size_t k = 0; k < 4; k++) vst1q_u8(at + 2 * k * p->bits, pack16(p, q[k]));
    if (capacity < 64) memcpy(to, bytes, 8 * (size_t)p->bits);
}

static inline uint32x4_t unpack4(uint8x16_t codes, const struct packing *p, int q) {
    uint32x4_t x = vreinterpretq_u32_u8(vqtbl1q_u8(codes, p->spread[q]));
    x = vshlq_u32(x, p->up[q]);
    return p->symmetric ? vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(x), p->down))
                        : vshlq_u32(x, p->down);
}

static inline void unpack64(v16 q[4], const uint8_t *from, size_t capacity,
                            const struct packing *p) {
    uint8_t bytes[64];
    if (capacity < 64) from = memcpy(bytes, from, 8 * (size_t)p->bits);
    for (size_t k = 0; k < 4; k++) {
        const uint8x16_t codes = vld1q_u8(from + 2 * k * p->bits);
        for (int j = 0; j < 4; j++) q[k].val[j] = unpack4(codes, p, j);
    }
}

/* What each code stands for in 16 bits: the low bytes of the words, then the high ones. */
static inline uint8x16x2_t bytes_of_levels(const struct packing *p, uint32_t dtype,
                                           const float *scale, const float *zero) {
    v16 x = f_mul(v_load((const uint8_t *)p->levels), v_spread(scale));
    if (zero) x = f_add(x, v_spread(zero));
    x = dtype == PITH_F16 ? f_narrow(x) : v_shr(round_loosely(PITH_BF16, x), 16);
    const uint8x16_t a = vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(x.val[0]), x.val[1]));
    const uint8x16_t b = vreinterpretq_u8_u16(vmovn_high_u32(vmovn_u32(x.val[2]), x.val[3]));
    return (uint8x16x2_t){{vuzp1q_u8(a, b), vuzp2q_u8(a, b)}};
}

/* Writes 16 values. */
static inline void look_up16(uint32x4_t *to, const uint8x16x2_t *table, uint8x16_t codes) {
    const uint8x16_t low = vqtbl1q_u8(table->val[0], codes);
    const uint8x16_t high = vqtbl1q_u8(table->val[1], codes);
    to[0] = vreinterpretq_u32_u8(vzip1q_u8(low, high));
    to[1] = vreinterpretq_u32_u8(vzip2q_u8(low, high));
}

/* Writes the codes of twice their bits that are in bytes one by one. */
static inline void split_codes(uint8x16_t to[2], uint8x16_t codes, unsigned bits) {
    const uint8x16_t low = vandq_u8(codes, vdupq_n_u8((uint8_t)((1u << bits) - 1)));
    const uint8x16_t high = vshlq_u8(codes, vdupq_n_s8((int8_t) - (int)bits));
    to[0] = vzip1q_u8(low, high);
    to[1] = vzip2q_u8(low, high);
}

/* 64 codes of 2 or 4 bits, every 32 of one group. */
#define OWN_HALVES
static inline bool has_halves(unsigned bits, size_t group) {
    return (bits == 2 || bits == 4) && group >= 32;
}
static inline __attribute__((always_inline)) void halves(v16 x[2], uint32_t dtype,
                                                         const uint8_t *from, size_t capacity,
                                                         const struct packing *p,
                                                         const float *const scale[2],
                                                         const float *const zero[2]) {
    uint8x16x2_t table[2];
    table[0] = bytes_of_levels(p, dtype, scale[0], zero[0]);
    table[1] = scale[0] == scale[1] ? table[0] : bytes_of_levels(p, dtype, scale[1], zero[1]);
    uint8x16_t codes[4], pairs[2];
    (void)capacity;
    if (p->bits == 4) {
        split_codes(codes, vld1q_u8(from), 4);
        split_codes(codes + 2, vld1q_u8(from + 16), 4);
    } else {
        split_codes(pairs, vld1q_u8(from), 4);
        split_codes(codes, pairs[0], 2);
        split_codes(codes + 2, pairs[1], 2);
    }
    for (int k = 0; k < 4; k++) look_up16(x[k / 2].val + 2 * (k % 2), &table[k / 2], codes[k]);
}

#endif
