/* rans_neon.c - rANS strings, and their symbols counted, for 64-bit ARM: tables in registers where
 * symbols are few.
 * SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>
#include <string.h>

#include "bytes/rans_lookup.h"
#include "common/rans_neon.h"
#include "kernels.h"

/* Eight states are two vectors, their low and their high halves; they are coded two by two of
 * these, so that strings with fewer states are left to scalar C. */
enum { LANES = RANS_LANES, PAIR = 2 * LANES };

struct states {
    size_t count;
    uint16_t low[PITHI_RANS_STATES_MOST], high[PITHI_RANS_STATES_MOST];
};

static void states_load(struct states *x, const struct pithi_rans_states *from) {
    x->count = (size_t)1 << from->log2;
    for (size_t j = 0; j < x->count; j++) {
        x->low[j] = (uint16_t)from->x[j];
        x->high[j] = (uint16_t)(from->x[j] >> 16);
    }
}

static void states_store(const struct states *x, struct pithi_rans_states *to) {
    for (size_t j = 0; j < x->count; j++) to->x[j] = x->low[j] | (uint32_t)x->high[j] << 16;
}

/* ---- Decode ----------------------------------------------------------------------------------
 * A state x = 2^16 high + low becomes f floor(x / 2^12) + k = 16 f high + c, where
 * c = f floor(low / 2^12) + k is below 2^16. */

/* What sixteen states look up: frequencies, and numbers k of slots. */
struct found {
    uint16x8_t frequency[2], number[2];
};

struct buckets {
    uint8x16x2_t split;
    uint8x16x4_t symbol, frequency[2], bias[2];
};

static void buckets_of(struct buckets *b, const struct pithi_rans_decoder *t) {
    struct bucket_bytes table;
    bucket_bytes_of(&table, t);
    b->split = vld1q_u8_x2(table.split);
    b->symbol = vld1q_u8_x4(table.symbol);
    for (unsigned k = 0; k < 2; k++) {
        b->frequency[k] = vld1q_u8_x4(table.frequency[k]);
        b->bias[k] = vld1q_u8_x4(table.bias[k]);
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

/* Where symbols are looked up: in one of the two. */
struct lookup {
    struct buckets buckets;
    uint32_t slot[PITHI_RANS_SLOTS];
};

/* Rows of symbols, one of each state, while there are words for all. Returns how many symbols. */
static inline size_t decode_rows(const struct lookup *l, bool bucketed, struct states *x,
                                 struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    const size_t row = x->count;
    const uint8_t *at = from->at;
    size_t i = 0;
    for (; n - i >= row && (size_t)(from->end - at) >= 2 * row; i += row)
        for (size_t j = 0; j < row; j += PAIR) {
            const struct found found = bucketed
                                           ? find_in_buckets(&l->buckets, x->low + j, dst + i + j)
                                           : find_in_slots(l->slot, x->low + j, dst + i + j);
            for (size_t h = 0; h < 2; h++)
                advance(x->low + j + LANES * h, x->high + j + LANES * h, found.frequency[h],
                        found.number[h], all(UINT16_MAX), &at);
        }
    from->at = at;
    return i;
}

static bool decode(const struct pithi_rans_decoder *t, struct pithi_rans_states *states,
                   struct pithi_rans_words *from, uint8_t *dst, size_t n) {
    size_t done = 0;
    if (pithi_rans_by_vectors(states) && n >= PITHI_RANS_SLOTS) { /* else making tables is longer */
        struct states x;
        struct lookup l;
        states_load(&x, states);
        if (t->log2_width == LOG2_WIDTH) {
            buckets_of(&l.buckets, t);
            done = decode_rows(&l, true, &x, from, dst, n);
        } else {
            slots_of(l.slot, t);
            done = decode_rows(&l, false, &x, from, dst, n);
        }
        states_store(&x, states);
    }
    return pithi_rans_decode_c(t, states, from, dst + done, n - done);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Frequencies and starts by symbol: tables of bytes for symbols from `first` on, when these are
 * few, else pairs. */
struct symbols {
    bool few;
    uint8x16_t first;
    uint8x16x4_t frequency[2], start[2];
    uint32_t pair[256];
    const uint16_t *slot;
};

static void symbols_of(struct symbols *t, const struct pithi_rans_encoder *from) {
    struct symbol_bytes table;
    t->slot = from->slot;
    t->few = symbol_bytes_of(&table, from);
    if (!t->few) {
        symbol_pairs_of(t->pair, from);
        return;
    }
    for (unsigned k = 0; k < 2; k++) {
        t->frequency[k] = vld1q_u8_x4(table.frequency[k]);
        t->start[k] = vld1q_u8_x4(table.start[k]);
    }
    t->first = vdupq_n_u8((uint8_t)table.first);
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
    end = shift_out(&l, &h, f, all(UINT16_MAX), end);
    const uint16x8_t rest = divide_8(&l, &h, f);
    vst1q_u16(low, vorrq_u16(l, slots_at(slot, vaddq_u16(start, rest))));
    vst1q_u16(high, h);
    return end;
}

/* Rows of symbols, the last first, while there is space for a word of each. Returns how many
 * symbols are left. */
static inline size_t encode_rows(const struct symbols *t, bool few, struct states *x,
                                 const uint8_t *src, size_t n, struct pithi_rans_space *to) {
    const size_t row = x->count;
    uint8_t *end = to->end;
    for (; n >= row && (size_t)(end - to->begin) >= 2 * row; n -= row)
        for (size_t j = row; j;) {
            uint16x8_t f[2], start[2];
            j -= PAIR;
            look_up(t, few, src + n - row + j, f, start);
            for (size_t h = 2; h--;)
                end = encode_8(t->slot, x->low + j + LANES * h, x->high + j + LANES * h, f[h],
                               start[h], end);
        }
    to->end = end;
    return n;
}

static bool encode(const struct pithi_rans_encoder *from, const uint8_t *src, size_t n,
                   struct pithi_rans_states *states, struct pithi_rans_space *to) {
    if (pithi_rans_by_vectors(states)) {
        struct symbols t;
        struct states x;
        const size_t last = n & (((size_t)1 << states->log2) - 1);
        if (!pithi_rans_encode_c(from, src + n - last, last, states, to)) return false;
        n -= last;
        symbols_of(&t, from);
        states_load(&x, states);
        n = t.few ? encode_rows(&t, true, &x, src, n, to) : encode_rows(&t, false, &x, src, n, to);
        states_store(&x, states);
    }
    return pithi_rans_encode_c(from, src, n, states, to);
}

/* ---- Counts -----------------------------------------------------------------------------------*/

typedef uint8x16_t vec;

static inline vec load(const uint8_t *p) { return vld1q_u8(p); }
static inline void store(uint64_t *p, vec x) { vst1q_u64(p, vreinterpretq_u64_u8(x)); }
static inline vec all8(uint8_t x) { return vdupq_n_u8(x); }
static inline vec v_and(vec a, vec b) { return vandq_u8(a, b); }
static inline vec add8(vec a, vec b) { return vaddq_u8(a, b); }
static inline vec sub8(vec a, vec b) { return vsubq_u8(a, b); }
static inline vec add64(vec a, vec b) {
    return vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
static inline vec add_most(vec a, vec b) { return vqaddq_u8(a, b); }
/* A place that is not in the table gives 0; those that are not below 0x80 are 0x70 and more. */
static inline vec look_up_16(const uint8_t table[16], vec at) {
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

void pithi_rans_bind_neon(struct pithi_kernels *k);
void pithi_rans_bind_neon(struct pithi_kernels *k) {
    k->rans_encode = encode;
    k->rans_decode = decode;
    k->symbol_count = count_symbols;
}
