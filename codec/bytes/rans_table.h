/* rans_table.h - frequencies of rANS strings from counts, and the table that says them in a string.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: rans.c, and the CUDA kernels. */
#ifndef PITHI_BYTES_RANS_TABLE_H
#define PITHI_BYTES_RANS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes/rans.h"
#include "common/log2.h"

enum { PITHI_RANS_SYMBOLS = 256 };
/* Bytes before the table of frequencies: the number of states and the precision, the first symbol,
 * the last. */
enum { PITHI_RANS_HEAD = 3 };

/* ---- Table of frequencies --------------------------------------------------------------------
 * A bit string, least significant bit first: for each symbol from the first to the last the bit
 * length of its frequency, told from the one before, and as many bits below its highest as the
 * precision says. Bits of a frequency below these are 0, but for one symbol that has what is left
 * of the slots: `rest`. */

enum { PITHI_RANS_LENGTH_BEFORE = 0, PITHI_RANS_LENGTH_REST = 15, PITHI_RANS_PRECISION_ALL = 11 };

PITHI_INLINE unsigned pithi_rans_kept_bits(unsigned length, unsigned precision) {
    return length > precision + 1 ? precision : length ? length - 1 : 0;
}

/* Returns the slots of a symbol that occurs and has `exact` of them before rounding: of at most
 * 1 + precision significant bits, and at least 1. */
PITHI_INLINE unsigned pithi_rans_rounded(uint32_t exact, unsigned precision) {
    const unsigned length = pithi_bit_length(exact);
    const unsigned dropped = length > precision + 1 ? length - 1 - precision : 0;
    return ((exact + ((1u << dropped) >> 1)) >> dropped << dropped) + (exact == 0);
}

/* Returns the slots of a symbol that was counted so often of n, to the nearest. */
PITHI_INLINE uint32_t pithi_rans_exact(uint32_t counted, uint64_t n) {
    return (uint32_t)(((uint64_t)counted * PITHI_RANS_SLOTS + n / 2) / n);
}

/* What of a frequency table follows from the counts; the most frequent symbol gets the rest. */
struct pithi_rans_rounding {
    unsigned kinds, rest, precision;
};

/* Few symbols do not pay for a fine table. */
PITHI_INLINE unsigned pithi_rans_precision(uint64_t n) {
    return n < 1 << 12 ? 1 : n < 1 << 15 ? 2 : 3;
}
/* How many precisions are tried, from that on, before all bits are kept. */
enum { PITHI_RANS_PRECISIONS = 3 };

/* Whether what the most frequent symbol gets differs from its share by no more than 1/16 of
 * that. */
PITHI_INLINE bool pithi_rans_fair(int left, int share) {
    return left > 0 && left <= share + share / 16 + 1 && left >= share - share / 16 - 1;
}

/* More states are faster, and each takes three bytes more than what it carries: the second 64 at
 * most one in a hundred of a string of n symbols that takes `bytes`. quick: shorter strings have 8
 * or 32 where these take at most one in 32. */
PITHI_INLINE unsigned pithi_rans_log2_states(uint64_t n, uint64_t bytes, bool quick) {
    if (n >= 1 << 16) return bytes >= 100 * 3 * (PITHI_RANS_STATES_MOST / 2) ? 7 : 6;
    if (n >= 1 << 14 || (quick && n >= 1 << 13 && bytes >= 32 * 3 * 32)) return 5;
    return n >= 1 << 13 || (quick && n >= 1 << 11 && bytes >= 32 * 3 * 8) ? 3 : 1;
}

struct pithi_rans_bits {
    uint8_t *at;
    uint32_t held;
    unsigned count;
};

PITHI_INLINE void pithi_rans_put_bits(struct pithi_rans_bits *b, uint32_t value, unsigned count) {
    b->held |= value << b->count;
    for (b->count += count; b->count >= 8; b->count -= 8, b->held >>= 8)
        *b->at++ = (uint8_t)b->held;
}

PITHI_INLINE unsigned pithi_rans_first(const uint16_t *frequency) {
    unsigned s = 0;
    while (!frequency[s]) s++;
    return s;
}

PITHI_INLINE unsigned pithi_rans_last(const uint16_t *frequency, unsigned end) {
    unsigned s = end - 1;
    while (!frequency[s]) s--;
    return s;
}

/* Writes the head of a string and the table; returns what follows them. No symbol from `end` on
 * occurs. */
PITHI_INLINE uint8_t *pithi_rans_put_table(uint8_t *at, const struct pithi_rans_rounding *r,
                                           unsigned log2_states, const uint16_t *frequency,
                                           unsigned end) {
    const unsigned first = pithi_rans_first(frequency), last = pithi_rans_last(frequency, end);
    struct pithi_rans_bits b = {at + PITHI_RANS_HEAD, 0, 0};
    unsigned before = PITHI_RANS_LENGTH_BEFORE;
    at[0] = (uint8_t)(log2_states | r->precision << 4);
    at[1] = (uint8_t)first;
    at[2] = (uint8_t)last;
    for (unsigned s = first; s <= last; s++) {
        if (s == r->rest) {
            pithi_rans_put_bits(&b, 3 | PITHI_RANS_LENGTH_REST << 2, 6);
            continue;
        }
        const unsigned f = frequency[s], length = pithi_bit_length(f);
        if (length == before)
            pithi_rans_put_bits(&b, 0, 1);
        else if (length + 1 == before || length == before + 1)
            pithi_rans_put_bits(&b, 1 | (length > before ? 4u : 0u), 3);
        else
            pithi_rans_put_bits(&b, 3 | length << 2, 6);
        before = length;
        const unsigned kept = pithi_rans_kept_bits(length, r->precision);
        if (kept) pithi_rans_put_bits(&b, f >> (length - 1 - kept) & ((1u << kept) - 1), kept);
    }
    if (b.count) *b.at++ = (uint8_t)b.held;
    return b.at;
}

struct pithi_rans_bit_reader {
    const uint8_t *at, *end;
    uint32_t held;
    unsigned count;
    bool short_of;
};

PITHI_INLINE uint32_t pithi_rans_take_bits(struct pithi_rans_bit_reader *b, unsigned count) {
    for (; b->count < count; b->count += 8) {
        if (b->at == b->end)
            b->short_of = true;
        else
            b->held |= (uint32_t)*b->at++ << b->count;
    }
    const uint32_t value = b->held & ((1u << count) - 1);
    b->held >>= count;
    b->count -= count;
    return value;
}

PITHI_INLINE unsigned pithi_rans_take_length(struct pithi_rans_bit_reader *b, unsigned before) {
    if (!pithi_rans_take_bits(b, 1)) return before;
    if (pithi_rans_take_bits(b, 1)) return pithi_rans_take_bits(b, 4);
    return pithi_rans_take_bits(b, 1) ? before + 1 : before - 1;
}

/* Reads the table behind a head and returns what follows it; NULL when it is damaged. All
 * frequencies are 0 before. */
PITHI_INLINE const uint8_t *pithi_rans_take_table(const uint8_t *head, const uint8_t *end,
                                                  uint16_t *frequency) {
    struct pithi_rans_bit_reader b = {head + PITHI_RANS_HEAD, end, 0, 0, false};
    const unsigned precision = head[0] >> 4, first = head[1], last = head[2];
    unsigned before = PITHI_RANS_LENGTH_BEFORE, sum = 0, rest = PITHI_RANS_SYMBOLS;
    if (first >= last || precision > PITHI_RANS_PRECISION_ALL) return NULL;
    for (unsigned s = first; s <= last; s++) {
        const unsigned length = pithi_rans_take_length(&b, before);
        if (length == PITHI_RANS_LENGTH_REST) {
            if (rest < PITHI_RANS_SYMBOLS) return NULL;
            rest = s;
            continue;
        }
        if (length > PITHI_RANS_LOG2_SLOTS) return NULL;
        before = length;
        if (!length) continue;
        const unsigned kept = pithi_rans_kept_bits(length, precision);
        frequency[s] =
            (uint16_t)((1u << kept | pithi_rans_take_bits(&b, kept)) << (length - 1 - kept));
        sum += frequency[s];
    }
    if (b.short_of || b.held || rest == PITHI_RANS_SYMBOLS || sum >= PITHI_RANS_SLOTS || !sum)
        return NULL;
    frequency[rest] = (uint16_t)(PITHI_RANS_SLOTS - sum);
    return frequency[first] && frequency[last] ? b.at : NULL;
}

#endif
