/* symbols_neon.c - words cut in symbols and low bits; symbols counted; for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>
#include <string.h>

#include "kernels.h"

enum { BATCH = 16 };

static size_t cut(const uint32_t *words, size_t count, unsigned low, uint8_t *symbols,
                  uint32_t *bits) {
    const size_t whole = count / BATCH * BATCH;
    const int32x4_t down = vdupq_n_s32(-(int)low);
    const uint32x4_t mask = vdupq_n_u32((1u << low) - 1);
    uint32x4_t escapes = vdupq_n_u32(0); /* at most four a batch, of fewer than 2^28 */
    for (size_t i = 0; i < whole; i += BATCH) {
        uint16x8_t half[2];
        for (unsigned h = 0; h < 2; h++) {
            const uint32x4_t a = vld1q_u32(words + i + 8 * h), b = vld1q_u32(words + i + 8 * h + 4);
            /* Saturating, words that are not below ESCAPE become it. */
            half[h] = vqmovn_high_u32(vqmovn_u32(vshlq_u32(a, down)), vshlq_u32(b, down));
            if (!low) continue;
            vst1q_u32(bits + i + 8 * h, vandq_u32(a, mask));
            vst1q_u32(bits + i + 8 * h + 4, vandq_u32(b, mask));
        }
        const uint8x16_t s = vqmovn_high_u16(vqmovn_u16(half[0]), half[1]);
        const uint8x16_t found = vshrq_n_u8(vceqq_u8(s, vdupq_n_u8(PITHI_SYMBOLS_ESCAPE)), 7);
        escapes = vpadalq_u16(escapes, vpaddlq_u8(found));
        vst1q_u8(symbols + i, s);
    }
    return (size_t)vaddlvq_u32(escapes) +
           pithi_symbols_cut_c(words + whole, count - whole, low, symbols + whole, bits + whole);
}

/* ---- Counts -----------------------------------------------------------------------------------*/

typedef uint8x16_t vec;

static inline vec load(const uint8_t *p) { return vld1q_u8(p); }
static inline void store(uint64_t *p, vec x) { vst1q_u64(p, vreinterpretq_u64_u8(x)); }
static inline vec all(uint8_t x) { return vdupq_n_u8(x); }
static inline vec v_and(vec a, vec b) { return vandq_u8(a, b); }
static inline vec add8(vec a, vec b) { return vaddq_u8(a, b); }
static inline vec sub8(vec a, vec b) { return vsubq_u8(a, b); }
static inline vec add64(vec a, vec b) {
    return vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
static inline vec add_most(vec a, vec b) { return vqaddq_u8(a, b); }
/* A place that is not in the table gives 0; those that are not below 0x80 are 0x70 and more. */
static inline vec look_up(const uint8_t table[16], vec at) {
    return vqtbl1q_u8(vld1q_u8(table), veorq_u8(at, vdupq_n_u8(0x70)));
}
static inline vec odd(vec a, vec b, vec c) { return veorq_u8(veorq_u8(a, b), c); }
static inline vec majority(vec a, vec b, vec c) { return vbslq_u8(veorq_u8(a, b), c, a); }
static inline vec min8(vec a, vec b) { return vminq_u8(a, b); }
static inline vec sum(vec x) {
    return vreinterpretq_u8_u64(vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(x))));
}
static inline uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at) {
    const uint8x16_t is_there = vcltzq_s8(vreinterpretq_s8_u8(at));
    const uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(is_there), 4);
    uint64_t found = vget_lane_u64(vreinterpret_u64_u8(nibbles), 0) & UINT64_C(0x8888888888888888);
    for (; found; found &= found - 1) *to++ = from[__builtin_ctzll(found) / 4];
    return to;
}

#define BYTES 16
#define WINDOWS 1
#include "bytes/symbol_count_tmpl.h"

void pithi_symbols_bind_neon(struct pithi_kernels *k);
/* Joining is scalar C, which compilers make as short. */
void pithi_symbols_bind_neon(struct pithi_kernels *k) {
    k->symbols_cut = cut;
    k->symbol_count = count_symbols;
}
