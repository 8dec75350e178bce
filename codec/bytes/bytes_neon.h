/* bytes_neon.h - vectors of 64 bytes, as words of 16, 32 or 64 bits, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_BYTES_BYTES_NEON_H
#define PITHI_BYTES_BYTES_NEON_H

#include <arm_neon.h>

typedef uint8x16x4_t vec;

/* Functions of one vector, of two, and of one and a number, by what they do in 128 bits. */
#define ONE(name, expression)              \
    static inline vec name(vec a) {        \
        vec r;                             \
        for (int q = 0; q < 4; q++) {      \
            const uint8x16_t x = a.val[q]; \
            r.val[q] = (expression);       \
        }                                  \
        return r;                          \
    }
#define TWO(name, expression)                            \
    static inline vec name(vec a, vec b) {               \
        vec r;                                           \
        for (int q = 0; q < 4; q++) {                    \
            const uint8x16_t x = a.val[q], y = b.val[q]; \
            r.val[q] = (expression);                     \
        }                                                \
        return r;                                        \
    }
#define SHIFT(name, expression)                 \
    static inline vec name(vec a, unsigned n) { \
        vec r;                                  \
        for (int q = 0; q < 4; q++) {           \
            const uint8x16_t x = a.val[q];      \
            r.val[q] = (expression);            \
        }                                       \
        return r;                               \
    }

#define W16(x) vreinterpretq_u16_u8(x)
#define W32(x) vreinterpretq_u32_u8(x)
#define W64(x) vreinterpretq_u64_u8(x)
#define B16(x) vreinterpretq_u8_u16(x)
#define B32(x) vreinterpretq_u8_u32(x)
#define B64(x) vreinterpretq_u8_u64(x)

/* Loads and stores are at any address. */
#define WORDS(bits)                                                        \
    static inline vec load##bits(const void *p) { return vld1q_u8_x4(p); } \
    static inline void store##bits(void *p, vec x) { vst1q_u8_x4(p, x); }
WORDS(16)
WORDS(32)
WORDS(64)
#undef WORDS

static inline vec all_of(uint8x16_t x) { return (vec){{x, x, x, x}}; }
static inline vec all16(uint16_t x) { return all_of(B16(vdupq_n_u16(x))); }
static inline vec all32(uint32_t x) { return all_of(B32(vdupq_n_u32(x))); }
static inline vec all64(uint64_t x) { return all_of(B64(vdupq_n_u64(x))); }

TWO(v_and, vandq_u8(x, y))
TWO(v_or, vorrq_u8(x, y))
TWO(v_xor, veorq_u8(x, y))
TWO(add16, B16(vaddq_u16(W16(x), W16(y))))
TWO(add32, B32(vaddq_u32(W32(x), W32(y))))
TWO(add64, B64(vaddq_u64(W64(x), W64(y))))
TWO(sub16, B16(vsubq_u16(W16(x), W16(y))))
TWO(sub32, B32(vsubq_u32(W32(x), W32(y))))
TWO(sub64, B64(vsubq_u64(W64(x), W64(y))))
SHIFT(up16, B16(vshlq_u16(W16(x), vdupq_n_s16((int16_t)n))))
SHIFT(up32, B32(vshlq_u32(W32(x), vdupq_n_s32((int)n))))
SHIFT(up64, B64(vshlq_u64(W64(x), vdupq_n_s64((int)n))))
SHIFT(down16, B16(vshlq_u16(W16(x), vdupq_n_s16((int16_t)(0 - (int)n)))))
SHIFT(down32, B32(vshlq_u32(W32(x), vdupq_n_s32(-(int)n))))
SHIFT(down64, B64(vshlq_u64(W64(x), vdupq_n_s64(-(int)n))))

static inline uint8x16_t low_bytes32(vec x) {
    const uint16x8_t a = vuzp1q_u16(W16(x.val[0]), W16(x.val[1])),
                     b = vuzp1q_u16(W16(x.val[2]), W16(x.val[3]));
    return vuzp1q_u8(B16(a), B16(b));
}
static inline void narrow16(uint8_t *to, vec x) {
    vst1q_u8(to, vuzp1q_u8(x.val[0], x.val[1]));
    vst1q_u8(to + 16, vuzp1q_u8(x.val[2], x.val[3]));
}
static inline void narrow32(uint8_t *to, vec x) { vst1q_u8(to, low_bytes32(x)); }
static inline void narrow64(uint8_t *to, vec x) {
    const uint32x4_t a = vuzp1q_u32(W32(x.val[0]), W32(x.val[1])),
                     b = vuzp1q_u32(W32(x.val[2]), W32(x.val[3]));
    vst1_u8(to, vmovn_u16(vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b))));
}

/* Places that are none give 0. */
static inline vec widen16(const uint8_t *from) {
    const uint8x16_t a = vld1q_u8(from), b = vld1q_u8(from + 16), zero = vdupq_n_u8(0);
    return (vec){{vzip1q_u8(a, zero), vzip2q_u8(a, zero), vzip1q_u8(b, zero), vzip2q_u8(b, zero)}};
}
static inline vec widen32(const uint8_t *from) {
    static const uint32_t lanes[] = {0, 1, 2, 3};
    const uint8x16_t x = vld1q_u8(from), place = B32(vld1q_u32(lanes)),
                     none = B32(vdupq_n_u32(0xFFFFFF00));
    vec r;
    for (int q = 0; q < 4; q++)
        r.val[q] = vqtbl1q_u8(x, vorrq_u8(vaddq_u8(place, vdupq_n_u8((uint8_t)(4 * q))), none));
    return r;
}
static inline vec widen64(const uint8_t *from) {
    static const uint64_t lanes[] = {0, 1};
    const uint8x16_t x = vcombine_u8(vld1_u8(from), vdup_n_u8(0)), place = B64(vld1q_u64(lanes)),
                     none = B64(vdupq_n_u64(~UINT64_C(0xFF)));
    vec r;
    for (int q = 0; q < 4; q++)
        r.val[q] = vqtbl1q_u8(x, vorrq_u8(vaddq_u8(place, vdupq_n_u8((uint8_t)(2 * q))), none));
    return r;
}

/* Four bits for each byte, of bytes that are all ones or 0. */
static inline uint64_t nibbles_of(uint8x16_t bytes) {
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(W16(bytes), 4)), 0);
}

#endif
