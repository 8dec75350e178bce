/* zero_lanes_neon.c - bits of zero maps in 16 lanes, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>
#include <string.h>

#include "common/rans_neon.h"
#include "kernels.h"

enum { LANES = 16, HALF = RANS_LANES, SLOTS = PITHI_RANS_SLOTS, WORDS_BYTES = 2 * LANES };

/* The states of 16 lanes, and which of the lanes have bits. */
struct states {
    uint16_t low[LANES], high[LANES];
    uint16x8_t used[2];
};

static void states_load(struct states *x, const uint32_t *state, unsigned active) {
    static const uint16_t number[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (unsigned j = 0; j < LANES; j++) {
        x->low[j] = (uint16_t)state[j];
        x->high[j] = (uint16_t)(state[j] >> 16);
    }
    for (unsigned h = 0; h < 2; h++)
        x->used[h] = vcltq_u16(vld1q_u16(number + HALF * h), all(active));
}

static void states_store(uint32_t *state, const struct states *x, unsigned active) {
    for (unsigned j = 0; j < active; j++) state[j] = x->low[j] | (uint32_t)x->high[j] << 16;
}

/* Returns half h of bytes of which some bit of `bit` is 1, as lanes of all ones or none. */
static inline uint16x8_t test_half(uint8x16_t x, unsigned bit, unsigned h) {
    const int8x16_t is = vreinterpretq_s8_u8(vtstq_u8(x, vdupq_n_u8((uint8_t)bit)));
    return vreinterpretq_u16_s16(h ? vmovl_high_s8(is) : vmovl_s8(vget_low_s8(is)));
}

/* Returns the chances of eight contexts without the bit to the left, which is a lane of `left`. */
static inline uint16x8_t look_up(const uint32_t *chances, const uint8_t *rest, uint16x8_t left) {
    const uint16x8_t a = halves(pairs_of(chances, rest)), b = halves(pairs_of(chances, rest + 4));
    return vbslq_u16(left, vuzp2q_u16(a, b), vuzp1q_u16(a, b));
}

/* Returns the frequency of a bit. */
static inline uint16x8_t frequency_of(uint16x8_t chance, uint16x8_t is) {
    return vbslq_u16(is, chance, vsubq_u16(all(SLOTS), chance));
}

static const uint8_t *decode(const struct pithi_zero_run *r, uint32_t *state, const uint8_t *words,
                             const uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_decode_c(r, state, words, end);
    struct states x;
    uint16x8_t left[2];
    uint8x16_t before = vdupq_n_u8(0), further = before;
    if (r->x > 0) before = vld1q_u8(r->bits - LANES);
    if (r->x > 1) further = vld1q_u8(r->bits - 2 * LANES);
    states_load(&x, state, r->active);
    for (unsigned h = 0; h < 2; h++) left[h] = test_half(before, 1, h);
    size_t i = 0;
    for (; i < r->steps && end - words >= WORDS_BYTES; i++) {
        uint8_t rest[LANES];
        vst1q_u8(rest,
                 vshrq_n_u8(vorrq_u8(vld1q_u8(r->around + LANES * i), vshlq_n_u8(further, 4)), 1));
        for (unsigned h = 0; h < 2; h++) {
            const uint16x8_t chance =
                look_up((*r->chances)[(r->x + i) & 1], rest + HALF * h, left[h]);
            const uint16x8_t slot = vandq_u16(vld1q_u16(x.low + HALF * h), all(SLOTS - 1));
            left[h] = vandq_u16(x.used[h], vcltq_u16(slot, chance));
            advance(x.low + HALF * h, x.high + HALF * h, frequency_of(chance, left[h]),
                    vsubq_u16(slot, vbicq_u16(chance, left[h])), x.used[h], &words);
        }
        further = before;
        before = vandq_u8(vuzp1q_u8(bytes(left[0]), bytes(left[1])), vdupq_n_u8(1));
        vst1q_u8(r->bits + LANES * i, before);
    }
    states_store(state, &x, r->active);
    if (i == r->steps) return words;
    const struct pithi_zero_run rest = pithi_zero_rest(r, i);
    return pithi_zero_decode_c(&rest, state, words, end);
}

static uint8_t *encode(const struct pithi_zero_run *r, uint32_t *state, uint8_t *begin,
                       uint8_t *end) {
    if (r->lanes != LANES) return pithi_zero_encode_c(r, state, begin, end);
    struct states x;
    states_load(&x, state, r->active);
    size_t i = r->steps;
    for (; i && end - begin >= WORDS_BYTES; i--) {
        const uint8x16_t around = vld1q_u8(r->around + LANES * (i - 1));
        const uint8x16_t bits = vld1q_u8(r->bits + LANES * (i - 1));
        uint8_t rest[LANES];
        vst1q_u8(rest, vshrq_n_u8(around, 1));
        for (unsigned h = 2; h--;) {
            const uint16x8_t is = test_half(bits, 1, h);
            const uint16x8_t chance = look_up((*r->chances)[(r->x + i - 1) & 1], rest + HALF * h,
                                              test_half(around, 1, h));
            const uint16x8_t f = frequency_of(chance, is);
            uint16x8_t low = vld1q_u16(x.low + HALF * h), high = vld1q_u16(x.high + HALF * h);
            end = shift_out(&low, &high, f, x.used[h], end);
            const uint16x8_t k = divide_8(&low, &high, f);
            vst1q_u16(x.low + HALF * h, vaddq_u16(low, vaddq_u16(k, vbicq_u16(chance, is))));
            vst1q_u16(x.high + HALF * h, high);
        }
    }
    states_store(state, &x, r->active);
    struct pithi_zero_run rest = *r;
    rest.steps = i;
    return i ? pithi_zero_encode_c(&rest, state, begin, end) : end;
}

void pithi_zero_lanes_bind_neon(struct pithi_kernels *k);
void pithi_zero_lanes_bind_neon(struct pithi_kernels *k) {
    k->zero_encode = encode;
    k->zero_decode = decode;
}
