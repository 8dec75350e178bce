/* symbols_choice.h - how words are cut in low bits and symbols: what is counted of them, and which
 * cut is expected to take least.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: symbols.c, and the CUDA kernels. */
#ifndef PITHI_BYTES_SYMBOLS_CHOICE_H
#define PITHI_BYTES_SYMBOLS_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log2.h"

/* The most low bits; forms of symbols; bytes of the head, and of what the sparse form has
 * besides. */
enum { PITHI_SYMBOLS_LOW_MOST = 24, PITHI_SYMBOLS_DENSE = 0, PITHI_SYMBOLS_SPARSE = 1 };
enum { PITHI_SYMBOLS_HEAD = 8, PITHI_SYMBOLS_SPARSE_HEAD = 8 };
/* Words of a run, and about how many runs of them are counted. */
enum { PITHI_SYMBOLS_RUN = 64, PITHI_SYMBOLS_RUNS = 256 };

/* Returns how far apart the runs begin; the last one may be cut. */
PITHI_INLINE uint64_t pithi_symbols_step(uint64_t count) {
    return count > PITHI_SYMBOLS_RUN * PITHI_SYMBOLS_RUNS ? count / PITHI_SYMBOLS_RUNS
                                                          : PITHI_SYMBOLS_RUN;
}

/* How many words have each bit length, the logarithm of how many there are, and what it costs that
 * words have a length. */
struct pithi_symbol_lengths {
    uint32_t total, whole, of[33];
    uint64_t cost[33];
};

/* Returns the cost of n symbols of one kind among all, of which `whole` is the logarithm, in 1/256
 * bit. */
PITHI_INLINE uint64_t pithi_symbols_cost_of(uint32_t n, uint32_t whole) {
    return n ? (uint64_t)n * (whole - pithi_log2_256(n)) : 0;
}

/* Returns the cost of words of which `low` bits stay bits, as if all words of one length were
 * equally likely. */
PITHI_INLINE uint64_t pithi_symbols_cost(const struct pithi_symbol_lengths *s, unsigned low) {
    uint32_t zeros = 0, escapes = 0;
    uint64_t sum = (uint64_t)s->total * low << 8;
    for (unsigned b = 0; b < 33; b++) {
        if (b <= low)
            zeros += s->of[b];
        else if (b > low + 8)
            escapes += s->of[b];
        else
            sum += s->cost[b] + ((uint64_t)s->of[b] * (b - low - 1) << 8);
    }
    sum += ((uint64_t)escapes * 32 << 8) + pithi_symbols_cost_of(escapes, s->whole);
    return sum + pithi_symbols_cost_of(zeros, s->whole);
}

/* Returns the fewest low bits within 1/64 of the least cost: zstd does worse with fewer kinds of
 * symbols. */
PITHI_INLINE unsigned pithi_symbols_low(const uint64_t cost[PITHI_SYMBOLS_LOW_MOST + 1]) {
    uint64_t least = cost[0];
    unsigned low = 0;
    for (unsigned k = 1; k <= PITHI_SYMBOLS_LOW_MOST; k++)
        if (cost[k] < least) least = cost[k];
    while (cost[low] > least + least / 64) low++;
    return low;
}

/* Whether gaps take less: a symbol takes a bit at least, which is too much where three in five are
 * 0. */
PITHI_INLINE bool pithi_symbols_thin(const struct pithi_symbol_lengths *s, unsigned low) {
    uint32_t zeros = 0;
    for (unsigned b = 0; b <= low; b++) zeros += s->of[b];
    return zeros > s->total / 5 * 3;
}

#endif
