/* trellis_neon.c - trellis-coded groups for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_neon.h"
#include "group/look_neon.h"
#include "kernels.h"

/* Lanes 0..7 and 8..15. */
typedef struct {
    uint16x8_t a, b;
} wide;

#define OF_TWO(name, operation)                                  \
    static inline wide name(wide x, wide y) {                    \
        return (wide){operation(x.a, y.a), operation(x.b, y.b)}; \
    }
OF_TWO(w_and, vandq_u16)
OF_TWO(w_xor, veorq_u16)
OF_TWO(w_add, vaddq_u16)
OF_TWO(w_sub, vsubq_u16)
OF_TWO(w_adds, vqaddq_u16)
OF_TWO(w_mul, vmulq_u16)
OF_TWO(w_min, vminq_u16)
OF_TWO(w_equal, vceqq_u16)

static inline wide w_set(uint16_t x) { return (wide){vdupq_n_u16(x), vdupq_n_u16(x)}; }
static inline wide w_load(const uint16_t *p) { return (wide){vld1q_u16(p), vld1q_u16(p + 8)}; }
static inline void w_store(uint16_t *p, wide x) {
    vst1q_u16(p, x.a);
    vst1q_u16(p + 8, x.b);
}
static inline wide w_choose(wide m, wide a, wide b) {
    return (wide){vbslq_u16(m.a, a.a, b.a), vbslq_u16(m.b, a.b, b.b)};
}
static inline wide w_shl(wide x, int n) {
    const int16x8_t by = vdupq_n_s16((int16_t)n);
    return (wide){vshlq_u16(x.a, by), vshlq_u16(x.b, by)};
}
static inline wide w_shr(wide x, int n) { return w_shl(x, -n); }

#define SIGNED(x) vreinterpretq_s16_u16(x)
#define UNSIGNED(x) vreinterpretq_u16_s16(x)
static inline wide w_abs(wide x) {
    return (wide){UNSIGNED(vabsq_s16(SIGNED(x.a))), UNSIGNED(vabsq_s16(SIGNED(x.b)))};
}
static inline wide w_sign(wide x) {
    return (wide){UNSIGNED(vshrq_n_s16(SIGNED(x.a), 15)), UNSIGNED(vshrq_n_s16(SIGNED(x.b), 15))};
}
static inline wide w_table(const uint8_t *p) {
    const uint16x8_t x = vreinterpretq_u16_u8(vld1q_u8(p));
    return (wide){x, x};
}
/* An upper byte beyond the table gives 0. */
static inline wide w_index(wide x) {
    const uint16x8_t beyond = vdupq_n_u16(0xFF00);
    return (wide){vorrq_u16(x.a, beyond), vorrq_u16(x.b, beyond)};
}
static inline uint16x8_t look_bytes(uint16x8_t table, uint16x8_t index) {
    return vreinterpretq_u16_u8(
        vqtbl1q_u8(vreinterpretq_u8_u16(table), vreinterpretq_u8_u16(index)));
}
static inline wide w_look(wide table, wide index) {
    return (wide){look_bytes(table.a, index.a), look_bytes(table.a, index.b)};
}

typedef uint16x8_t eight;
static inline eight e_load(const uint16_t *p) { return vld1q_u16(p); }
static inline void e_store(uint16_t *p, eight x) { vst1q_u16(p, x); }
static inline eight e_low(eight x, eight y) { return vzip1q_u16(x, y); }
static inline eight e_high(eight x, eight y) { return vzip2q_u16(x, y); }

/* Joins eight codes, a byte each. */
static inline uint64_t join8(uint64_t x, unsigned bits) {
    x = (x | x >> (8 - bits)) & UINT64_C(0x00FF00FF00FF00FF);
    x = (x | x >> (16 - 2 * bits)) & UINT64_C(0x0000FFFF0000FFFF);
    return (x | x >> (32 - 4 * bits)) & ((UINT64_C(1) << 8 * bits) - 1);
}
static inline void put_codes(uint8_t *to, const uint16_t *row, uint16_t flip, unsigned bits) {
    const uint8x16_t low = vmovn_high_u16(vmovn_u16(vld1q_u16(row)), vld1q_u16(row + 8));
    const uint64x2_t codes =
        vreinterpretq_u64_u8(veorq_u8(vandq_u8(low, vdupq_n_u8(15)), vdupq_n_u8((uint8_t)flip)));
    const uint64_t all =
        join8(vgetq_lane_u64(codes, 0), bits) | join8(vgetq_lane_u64(codes, 1), bits) << 8 * bits;
    const uint16_t rest = (uint16_t)(all >> 32);
    memcpy(to, &all, bits == 4 ? 8 : 4);
    if (bits == 3) memcpy(to + 4, &rest, 2);
}

static inline v16 v_down(v16 x, unsigned n) { return v_shr(x, (int)n); }

struct window {
    uint8x16_t spread[4];
    int32x4_t shift[4];
};
static inline struct window window_of(const uint8_t place[64], const uint32_t shift[16]) {
    struct window w;
    for (unsigned q = 0; q < 4; q++) {
        w.spread[q] = vld1q_u8(place + 16 * q);
        w.shift[q] = vnegq_s32(vreinterpretq_s32_u32(vld1q_u32(shift + 4 * q)));
    }
    return w;
}
static inline v16 window_take(const struct window *w, const uint8_t *from) {
    const uint8x16_t x = vld1q_u8(from);
    v16 r;
    for (int q = 0; q < 4; q++)
        r.val[q] = vshlq_u32(FROM_B(vqtbl1q_u8(x, w->spread[q])), w->shift[q]);
    return r;
}

#include "group/trellis_tmpl.h"

void pithi_trellis_bind_neon(struct pithi_kernels *k);
void pithi_trellis_bind_neon(struct pithi_kernels *k) {
    k->trellis_encode = trellis_encode;
    k->trellis_decode = trellis_decode;
}
