/* symbols_neon.c - words cut in symbols and low bits, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

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

static void lengths(const uint32_t *words, size_t count, uint8_t *to) {
    const size_t whole = count / BATCH * BATCH;
    for (size_t i = 0; i < whole; i += BATCH) {
        uint16x8_t zeros[2];
        for (unsigned h = 0; h < 2; h++)
            zeros[h] = vmovn_high_u32(vmovn_u32(vclzq_u32(vld1q_u32(words + i + 8 * h))),
                                      vclzq_u32(vld1q_u32(words + i + 8 * h + 4)));
        vst1q_u8(to + i, vsubq_u8(vdupq_n_u8(32), vmovn_high_u16(vmovn_u16(zeros[0]), zeros[1])));
    }
    pithi_symbols_lengths_c(words + whole, count - whole, to + whole);
}

void pithi_symbols_bind_neon(struct pithi_kernels *k);
/* Joining is scalar C, which compilers make as short. */
void pithi_symbols_bind_neon(struct pithi_kernels *k) {
    k->symbols_cut = cut;
    k->symbols_lengths = lengths;
}
