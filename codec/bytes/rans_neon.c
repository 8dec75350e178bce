/* rans_neon.c - rANS strings for 64-bit ARM: tables in registers where symbols are few.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>
#include <string.h>

#include "codec.h"

/* Eight states are two vectors, their low and their high halves; they are coded two by two of
 * these, so that strings with fewer states are left to scalar C. */
enum { LANES = 8, PAIR = 2 * LANES, LOG2_STATES_LEAST = 4 };

struct states {
    uint16_t low[PITHI_RANS_STATES_MOST], high[PITHI_RANS_STATES_MOST];
};

static void states_load(struct states *x, const uint32_t *state, size_t count) {
    for (size_t j = 0; j < count; j++) {
        x->low[j] = (uint16_t)state[j];
        x->high[j] = (uint16_t)(state[j] >> 16);
    }
}

static void states_store(const struct states *x, uint32_t *state, size_t count) {
    for (size_t j = 0; j < count; j++) state[j] = x->low[j] | (uint32_t)x->high[j] << 16;
}

static inline uint8x16_t bytes(uint16x8_t x) { return vreinterpretq_u8_u16(x); }
static inline uint16x8_t halves(uint32x4_t x) { return vreinterpretq_u16_u32(x); }
static inline uint16x8_t all(unsigned x) { return vdupq_n_u16((uint16_t)x); }

/* ---- Lanes of a mask -------------------------------------------------------------------------
 * For a mask m of eight lanes, two places of bytes for each lane. `spread` has for lane i of the
 * mask those of lane k, k lanes of the mask being below i, and for others places that give 0;
 * `packed` has in the last lanes those of the lanes of the mask, ascending. */

#define COUNT4(m) (((m)&1) + ((m) >> 1 & 1) + ((m) >> 2 & 1) + ((m) >> 3 & 1))
#define COUNT(m) (COUNT4(m) + COUNT4((m) >> 4))
#define RANK(m, i) COUNT((m) & ((1 << (i)) - 1))
#define PLACES(i) (uint16_t)(0x0100 + 0x0202 * (i))
#define SPREAD_1(m, i) ((m) >> (i)&1 ? PLACES(RANK(m, i)) : UINT16_MAX)
#define SPREAD(m)                                                                       \
    {                                                                                   \
        SPREAD_1(m, 0), SPREAD_1(m, 1), SPREAD_1(m, 2), SPREAD_1(m, 3), SPREAD_1(m, 4), \
            SPREAD_1(m, 5), SPREAD_1(m, 6), SPREAD_1(m, 7)                              \
    }
/* Half h of the row: lane i of the mask comes to lane 8 - COUNT + RANK. */
#define LANE(m, i) (8 - COUNT(m) + RANK(m, i))
#define PACKED_1(m, i, h) \
    ((m) >> (i)&1 && LANE(m, i) / 4 == (h) ? (uint64_t)PLACES(i) << 16 * (LANE(m, i) & 3) : 0)
#define PACKED_4(m, i, h) \
    (PACKED_1(m, i, h) | PACKED_1(m, i + 1, h) | PACKED_1(m, i + 2, h) | PACKED_1(m, i + 3, h))
#define PACKED(m) \
    { PACKED_4(m, 0, 0) | PACKED_4(m, 4, 0), PACKED_4(m, 0, 1) | PACKED_4(m, 4, 1) }
#define ROW_4(of, m) of(m), of(m + 1), of(m + 2), of(m + 3)
#define ROW_16(of, m) ROW_4(of, m), ROW_4(of, m + 4), ROW_4(of, m + 8), ROW_4(of, m + 12)
#define ROW_64(of, m) ROW_16(of, m), ROW_16(of, m + 16), ROW_16(of, m + 32), ROW_16(of, m + 48)
#define MASKS(of) ROW_64(of, 0), ROW_64(of, 64), ROW_64(of, 128), ROW_64(of, 192)

static const uint16_t spread[256][LANES] = {MASKS(SPREAD)};
static const uint64_t packed[256][LANES / 4] = {MASKS(PACKED)};
static const uint8_t counts[256] = {MASKS(COUNT)};

/* A bit for each lane, of lanes that are all ones or 0. */
static inline unsigned mask_of(uint16x8_t lanes) {
    static const uint16_t bit[LANES] = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(lanes, vld1q_u16(bit)));
}

/* ---- Decode ----------------------------------------------------------------------------------
 * A state x = 2^16 high + low becomes f floor(x / 2^12) + k = 16 f high + c, where
 * c = f floor(low / 2^12) + k is below 2^16. */

enum { BUCKETS = 32, LOG2_WIDTH = 7 };

/* What sixteen states look up: frequencies, and numbers k of slots. */
struct found {
    uint16x8_t frequency[2], number[2];
};

/* Tables of as many buckets as 32 symbols have: `split` for each, the others for its first symbol,
 * then for its second; a vector has the low or the high bytes of numbers. */
struct buckets {
    uint8x16x2_t split;
    uint8x16x4_t symbol, frequency[2], bias[2];
};

static void buckets_of(struct buckets *b, const struct pithi_rans_decoder *t) {
    uint8_t split[BUCKETS], table[5][2 * BUCKETS];
    for (unsigned j = 0; j < BUCKETS; j++) {
        const struct pithi_rans_bucket *const from = &t->bucket[j];
        split[j] = (uint8_t)from->split;
        for (unsigned k = 0; k < 2; k++) {
            table[0][j + k * BUCKETS] = from->symbol[k];
            table[1][j + k * BUCKETS] = (uint8_t)from->frequency[k];
            table[2][j + k * BUCKETS] = (uint8_t)(from->frequency[k] >> 8);
            table[3][j + k * BUCKETS] = (uint8_t)from->bias[k];
            table[4][j + k * BUCKETS] = (uint8_t)(from->bias[k] >> 8);
        }
    }
    b->split = vld1q_u8_x2(split);
    b->symbol = vld1q_u8_x4(table[0]);
    for (unsigned k = 0; k < 2; k++) {
        b->frequency[k] = vld1q_u8_x4(table[1 + k]);
        b->bias[k] = vld1q_u8_x4(table[3 + k]);
    }
}

/* Looks up sixteen states, of which only the low halves matter, and stores their symbols. */
static inline struct found find_in_buckets(const struct buckets *b, const uint16_t *low,
                                           uint8_t *dst) {
    const uint16x8_t slot[2] = {vandq_u16(vld1q_u16(low), all(PITHI_RANS_SLOTS - 1)),
                                vandq_u16(vld1q_u16(low + LANES), all(PITHI_RANS_SLOTS - 1))};
    const uint8x16_t bucket =
        vshrn_high_n_u16(vshrn_n_u16(slot[0], LOG2_WIDTH), slot[1], LOG2_WIDTH);
    const uint8x16_t inside =
        vandq_u8(vuzp1q_u8(bytes(slot[0]), bytes(slot[1])), vdupq_n_u8((1 << LOG2_WIDTH) - 1));
    const uint8x16_t second = vcgeq_u8(inside, vqtbl2q_u8(b->split, bucket));
    const uint8x16_t index = vorrq_u8(bucket, vandq_u8(second, vdupq_n_u8(BUCKETS)));
    vst1q_u8(dst, vqtbl4q_u8(b->symbol, index));
    const uint8x16_t f[2] = {vqtbl4q_u8(b->frequency[0], index),
                             vqtbl4q_u8(b->frequency[1], index)};
    const uint8x16_t k[2] = {vqtbl4q_u8(b->bias[0], index), vqtbl4q_u8(b->bias[1], index)};
    return (struct found){
        {vreinterpretq_u16_u8(vzip1q_u8(f[0], f[1])), vreinterpretq_u16_u8(vzip2q_u8(f[0], f[1]))},
        {vaddq_u16(slot[0], vreinterpretq_u16_u8(vzip1q_u8(k[0], k[1]))),
         vaddq_u16(slot[1], vreinterpretq_u16_u8(vzip2q_u8(k[0], k[1])))}};
}

/* Of each slot: its symbol in the low 8 bits, then 12 bits of the frequency, 12 of its number. */
static void slots_of(uint32_t slot[PITHI_RANS_SLOTS], const struct pithi_rans_decoder *t) {
    const unsigned width = 1u << t->log2_width;
    for (unsigned at = 0; at < PITHI_RANS_SLOTS; at += width) {
        const struct pithi_rans_bucket *const b = &t->bucket[at >> t->log2_width];
        for (unsigned k = 0, i = 0; k < 2; k++) {
            const uint32_t of_first = b->symbol[k] | (uint32_t)b->frequency[k] << 8 |
                                      (uint32_t)(uint16_t)(at + b->bias[k]) << 20;
            for (const unsigned end = k ? width : b->split; i < end; i++)
                slot[at + i] = of_first + ((uint32_t)i << 20);
        }
    }
}

#define EACH_OF_4(each) each(0) each(1) each(2) each(3)
#define EACH_OF_8(each) EACH_OF_4(each) each(4) each(5) each(6) each(7)

static inline uint32x4_t entries_of(const uint32_t *slot, const uint16_t *low) {
    uint32x4_t x = vdupq_n_u32(0);
#define ENTRY(i) x = vld1q_lane_u32(slot + (low[i] & (PITHI_RANS_SLOTS - 1)), x, i);
    EACH_OF_4(ENTRY)
#undef ENTRY
    return x;
}

static inline struct found find_in_slots(const uint32_t *slot, const uint16_t *low, uint8_t *dst) {
    struct found found;
    for (unsigned h = 0; h < 2; h++) {
        const uint16x8_t a = halves(entries_of(slot, low + LANES * h)),
                         b = halves(entries_of(slot, low + LANES * h + 4));
        const uint16x8_t lower = vuzp1q_u16(a, b), upper = vuzp2q_u16(a, b);
        vst1_u8(dst + LANES * h, vmovn_u16(lower));
        found.frequency[h] =
            vandq_u16(vsliq_n_u16(vshrq_n_u16(lower, 8), upper, 8), all(PITHI_RANS_SLOTS - 1));
        found.number[h] = vshrq_n_u16(upper, 4);
    }
    return found;
}

/* Takes the next words for those lanes whose state is below 2^16. */
static inline void advance(uint16_t *low, uint16_t *high, uint16x8_t f, uint16x8_t number,
                           const uint8_t **words) {
    const uint16x8_t l = vld1q_u16(low), h = vld1q_u16(high);
    const uint16x8_t c = vmlaq_u16(number, f, vshrq_n_u16(l, PITHI_RANS_LOG2_SLOTS));
    const uint16x8_t factor = vshlq_n_u16(f, 16 - PITHI_RANS_LOG2_SLOTS);
    const uint16x8_t a =
        halves(vmlal_u16(vmovl_u16(vget_low_u16(c)), vget_low_u16(factor), vget_low_u16(h)));
    const uint16x8_t b = halves(vmlal_high_u16(vmovl_high_u16(c), factor, h));
    const uint16x8_t lower = vuzp1q_u16(a, b), upper = vuzp2q_u16(a, b);
    const uint16x8_t below = vceqzq_u16(upper);
    const unsigned mask = mask_of(below);
    const uint8x16_t word = vqtbl1q_u8(vld1q_u8(*words), bytes(vld1q_u16(spread[mask])));
    *words += 2 * (size_t)counts[mask];
    vst1q_u16(low, vbslq_u16(below, vreinterpretq_u16_u8(word), lower));
    vst1q_u16(high, vbslq_u16(below, lower, upper));
}

/* Where symbols are looked up: in one of the two. */
struct lookup {
    struct buckets buckets;
    uint32_t slot[PITHI_RANS_SLOTS];
};

/* Rows of symbols, one of each state, while there are words for all. Returns how many symbols. */
static inline size_t decode_rows(const struct lookup *l, bool bucketed, size_t row,
                                 struct states *x, const uint8_t **words, const uint8_t *end,
                                 uint8_t *dst, size_t n) {
    const uint8_t *at = *words;
    size_t i = 0;
    for (; n - i >= row && (size_t)(end - at) >= 2 * row; i += row)
        for (size_t j = 0; j < row; j += PAIR) {
            const struct found found = bucketed
                                           ? find_in_buckets(&l->buckets, x->low + j, dst + i + j)
                                           : find_in_slots(l->slot, x->low + j, dst + i + j);
            for (size_t h = 0; h < 2; h++)
                advance(x->low + j + LANES * h, x->high + j + LANES * h, found.frequency[h],
                        found.number[h], &at);
        }
    *words = at;
    return i;
}

static const uint8_t *decode(const struct pithi_rans_decoder *t, uint32_t *state,
                             unsigned log2_states, const uint8_t *words, const uint8_t *end,
                             uint8_t *dst, size_t n) {
    size_t done = 0;
    if (log2_states >= LOG2_STATES_LEAST && n >= PITHI_RANS_SLOTS) { /* else tables cost more */
        const size_t row = (size_t)1 << log2_states;
        struct states x;
        struct lookup l;
        states_load(&x, state, row);
        if (t->log2_width == LOG2_WIDTH) {
            buckets_of(&l.buckets, t);
            done = decode_rows(&l, true, row, &x, &words, end, dst, n);
        } else {
            slots_of(l.slot, t);
            done = decode_rows(&l, false, row, &x, &words, end, dst, n);
        }
        states_store(&x, state, row);
    }
    return pithi_rans_decode_c(t, state, log2_states, words, end, dst + done, n - done);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Frequencies and starts by symbol: tables of bytes for symbols from `first` on, when these are
 * few, else a frequency in the low and a start in the high half for each symbol. */
struct symbols {
    bool few;
    uint8x16_t first;
    uint8x16x4_t frequency[2], start[2];
    uint32_t pair[256];
    const uint16_t *slot;
};

static void symbols_of(struct symbols *t, const struct pithi_rans_encoder *from) {
    enum { FEW = 64 };
    uint8_t table[4][FEW] = {{0}};
    unsigned first = 0, last = 255;
    while (!from->frequency[first]) first++;
    while (!from->frequency[last]) last--;
    t->slot = from->slot;
    t->few = last - first < FEW;
    if (!t->few) {
        for (unsigned s = 0; s < 256; s++)
            t->pair[s] = from->frequency[s] | (uint32_t)from->start[s] << 16;
        return;
    }
    for (unsigned s = first; s <= last; s++) {
        table[0][s - first] = (uint8_t)from->frequency[s];
        table[1][s - first] = (uint8_t)(from->frequency[s] >> 8);
        table[2][s - first] = (uint8_t)from->start[s];
        table[3][s - first] = (uint8_t)(from->start[s] >> 8);
    }
    for (unsigned k = 0; k < 2; k++) {
        t->frequency[k] = vld1q_u8_x4(table[k]);
        t->start[k] = vld1q_u8_x4(table[2 + k]);
    }
    t->first = vdupq_n_u8((uint8_t)first);
}

static inline uint32x4_t pairs_of(const uint32_t *pair, const uint8_t *src) {
    uint32x4_t x = vdupq_n_u32(0);
#define ENTRY(i) x = vld1q_lane_u32(pair + src[i], x, i);
    EACH_OF_4(ENTRY)
#undef ENTRY
    return x;
}

/* Looks up the frequencies and starts of sixteen symbols. */
static inline void look_up(const struct symbols *t, bool few, const uint8_t *src, uint16x8_t f[2],
                           uint16x8_t start[2]) {
    if (few) {
        const uint8x16_t index = vsubq_u8(vld1q_u8(src), t->first);
        const uint8x16_t f0 = vqtbl4q_u8(t->frequency[0], index),
                         f1 = vqtbl4q_u8(t->frequency[1], index),
                         s0 = vqtbl4q_u8(t->start[0], index), s1 = vqtbl4q_u8(t->start[1], index);
        f[0] = vreinterpretq_u16_u8(vzip1q_u8(f0, f1));
        f[1] = vreinterpretq_u16_u8(vzip2q_u8(f0, f1));
        start[0] = vreinterpretq_u16_u8(vzip1q_u8(s0, s1));
        start[1] = vreinterpretq_u16_u8(vzip2q_u8(s0, s1));
        return;
    }
    for (unsigned h = 0; h < 2; h++) {
        const uint16x8_t a = halves(pairs_of(t->pair, src + LANES * h)),
                         b = halves(pairs_of(t->pair, src + LANES * h + 4));
        f[h] = vuzp1q_u16(a, b);
        start[h] = vuzp2q_u16(a, b);
    }
}

/* Returns x / f, or 1 less, for x < 2^20 f, f < 2^12. The quotient, below 2^20, is made smaller by
 * 2^-21 of itself, more than three roundings add in any mode, by 2^-23 each, and less than 1
 * together with what they take. */
static inline uint32x4_t divide(uint32x4_t x, uint32x4_t f) {
    const float32x4_t less = vmulq_f32(vcvtq_f32_u32(x), vdupq_n_f32(1.0f - 0x1p-21f));
    return vcvtq_u32_f32(vdivq_f32(less, vcvtq_f32_u32(f)));
}

static inline uint16x8_t slots_at(const uint16_t *slot, uint16x8_t at) {
    uint16x8_t x = all(0);
#define ENTRY(i) x = vld1q_lane_u16(slot + vgetq_lane_u16(at, i), x, i);
    EACH_OF_8(ENTRY)
#undef ENTRY
    return x;
}

/* Encodes a symbol of each of eight states. */
static inline uint8_t *encode_8(const uint16_t *slot, uint16_t *low, uint16_t *high, uint16x8_t f,
                                uint16x8_t start, uint8_t *end) {
    uint16x8_t l = vld1q_u16(low), h = vld1q_u16(high);
    const uint16x8_t full = vcgeq_u16(h, vshlq_n_u16(f, 16 - PITHI_RANS_LOG2_SLOTS));
    const unsigned mask = mask_of(full);
    vst1q_u8(end - 2 * LANES, vqtbl1q_u8(bytes(l), vreinterpretq_u8_u64(vld1q_u64(packed[mask]))));
    l = vbslq_u16(full, h, l);
    h = vbicq_u16(h, full);
    const uint32x4_t q[2] = {
        divide(vreinterpretq_u32_u16(vzip1q_u16(l, h)), vmovl_u16(vget_low_u16(f))),
        divide(vreinterpretq_u32_u16(vzip2q_u16(l, h)), vmovl_high_u16(f))};
    /* What is left of a state is below 2 f; where it is not below f, a quotient lacks 1. */
    const uint16x8_t left = vmlsq_u16(l, vuzp1q_u16(halves(q[0]), halves(q[1])), f);
    const int16x8_t lacks = vreinterpretq_s16_u16(vcgeq_u16(left, f));
    const uint16x8_t at = vaddq_u16(start, vminq_u16(left, vsubq_u16(left, f)));
    const uint16x8_t a = halves(vshlq_n_u32(
        vreinterpretq_u32_s32(vsubw_s16(vreinterpretq_s32_u32(q[0]), vget_low_s16(lacks))),
        PITHI_RANS_LOG2_SLOTS));
    const uint16x8_t b = halves(
        vshlq_n_u32(vreinterpretq_u32_s32(vsubw_high_s16(vreinterpretq_s32_u32(q[1]), lacks)),
                    PITHI_RANS_LOG2_SLOTS));
    vst1q_u16(low, vorrq_u16(vuzp1q_u16(a, b), slots_at(slot, at)));
    vst1q_u16(high, vuzp2q_u16(a, b));
    return end - 2 * (size_t)counts[mask];
}

/* Rows of symbols, the last first, while there is space for a word of each. Returns how many
 * symbols are left. */
static inline size_t encode_rows(const struct symbols *t, bool few, size_t row, struct states *x,
                                 const uint8_t *src, size_t n, uint8_t *begin, uint8_t **end) {
    uint8_t *to = *end;
    for (; n >= row && (size_t)(to - begin) >= 2 * row; n -= row)
        for (size_t j = row; j;) {
            uint16x8_t f[2], start[2];
            j -= PAIR;
            look_up(t, few, src + n - row + j, f, start);
            for (size_t h = 2; h--;)
                to = encode_8(t->slot, x->low + j + LANES * h, x->high + j + LANES * h, f[h],
                              start[h], to);
        }
    *end = to;
    return n;
}

static uint8_t *encode(const struct pithi_rans_encoder *from, const uint8_t *src, size_t n,
                       unsigned log2_states, uint32_t *state, uint8_t *begin, uint8_t *end) {
    if (log2_states >= LOG2_STATES_LEAST) {
        struct symbols t;
        struct states x;
        const size_t row = (size_t)1 << log2_states, last = n & (row - 1);
        end = pithi_rans_encode_c(from, src + n - last, last, log2_states, state, begin, end);
        if (!end) return NULL;
        n -= last;
        symbols_of(&t, from);
        states_load(&x, state, row);
        n = t.few ? encode_rows(&t, true, row, &x, src, n, begin, &end)
                  : encode_rows(&t, false, row, &x, src, n, begin, &end);
        states_store(&x, state, row);
    }
    return pithi_rans_encode_c(from, src, n, log2_states, state, begin, end);
}

void pithi_rans_bind_neon(struct pithi_kernels *k);
void pithi_rans_bind_neon(struct pithi_kernels *k) {
    k->rans_encode = encode;
    k->rans_decode = decode;
}
