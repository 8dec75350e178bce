/* top_choice.h - which bits of floats are symbols: what is counted of a block, and what a cut of
 * its words is expected to take.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: top_symbols.c, and the CUDA kernels. */
#ifndef PITHI_BYTES_TOP_CHOICE_H
#define PITHI_BYTES_TOP_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "bytes/top_symbols.h"
#include "common/log2.h"
#include "pith/pith.h"

/* Runs of words that are a sample; the most bits of a top that are tried; the tops that symbols
 * stand for. */
enum { PITHI_TOP_RUN = 64, PITHI_TOP_RUNS = 128, PITHI_TOPS_LOG2 = 12, PITHI_TOP_SYMBOLS = 254 };
/* Fewer words are not cut. */
enum { PITHI_TOP_COUNT_LEAST = 1024 };

PITHI_INLINE unsigned pithi_top_exponent_bits(uint32_t dtype) {
    switch (dtype) {
    case PITH_F16: return 5;
    case PITH_BF16:
    case PITH_F32: return 8;
    case PITH_F64: return 11;
    default: return 0;
    }
}
/* Returns the bits of the tops that are counted, given those of the exponent. */
PITHI_INLINE unsigned pithi_top_most_bits(unsigned exponent) {
    enum { MANTISSA_MOST = 3 };
    return exponent + MANTISSA_MOST < PITHI_TOPS_LOG2 ? exponent + MANTISSA_MOST
                                                      : (unsigned)PITHI_TOPS_LOG2;
}
/* Returns how far apart the runs of a sample begin; the last one may be cut. */
PITHI_INLINE uint64_t pithi_top_step(uint64_t count) {
    return count > PITHI_TOP_RUN * PITHI_TOP_RUNS ? count / PITHI_TOP_RUNS : PITHI_TOP_RUN;
}

/* What costs depend on: log2 of the words of a sample, in 1/256, and the cost of a symbol in a
 * table, for this part of the words. */
struct pithi_top_costs {
    uint32_t total, log, kind;
};
PITHI_INLINE struct pithi_top_costs pithi_top_costs_of(uint32_t total, uint64_t count) {
    enum { KIND_BITS = 5 };
    const struct pithi_top_costs c = {total, pithi_log2_256(total),
                                      (uint32_t)((uint64_t)total * KIND_BITS * 256 / count)};
    return c;
}

/* Returns the cost of n symbols of one kind, in 1/256 bit. */
PITHI_INLINE uint64_t pithi_top_cost_of(uint32_t n, const struct pithi_top_costs *c) {
    return n ? (uint64_t)n * (c->log - pithi_log2_256(n)) + c->kind : 0;
}
/* Returns the cost of the first two bytes of every word, given that of either. */
PITHI_INLINE uint64_t pithi_top_bytes_cost(uint64_t first, uint64_t second,
                                           const struct pithi_top_costs *c) {
    const uint64_t noise = (uint64_t)c->total * 8 << 8;
    return first + (second < noise ? second : noise);
}

/* Returns the base, `last` being the largest top, but for one in 256, that a symbol stands for. */
PITHI_INLINE uint32_t pithi_top_base(uint32_t last) {
    return last > PITHI_TOP_SYMBOLS ? last - PITHI_TOP_SYMBOLS : 0;
}
PITHI_INLINE bool pithi_top_has_symbol(uint32_t top, uint32_t base) {
    return !top || (top > base && top <= base + PITHI_TOP_SYMBOLS);
}
/* Returns the cost of the first 16 bits of every word with tops of `bits` bits, given that of
 * symbols that stand for tops. */
PITHI_INLINE uint64_t pithi_top_cut_cost(uint64_t symbols, uint32_t escapes, unsigned bits,
                                         const struct pithi_top_costs *c) {
    return symbols + pithi_top_cost_of(escapes, c) + ((uint64_t)escapes * 16 << 8) +
           ((uint64_t)c->total * (16 - bits) << 8);
}

/* Returns the least of the costs of `exponent` to `most` bits, which begin at cost[0], and of
 * bytes. */
PITHI_INLINE uint64_t pithi_top_least(const uint64_t *cost, uint64_t bytes, unsigned exponent,
                                      unsigned most) {
    uint64_t least = bytes;
    for (unsigned bits = exponent; bits <= most; bits++)
        if (cost[bits - exponent] < least) least = cost[bits - exponent];
    return least;
}
/* Returns up to what a cost is as good as the least: a 512th of all bits more. */
PITHI_INLINE uint64_t pithi_top_near(uint64_t least, unsigned width,
                                     const struct pithi_top_costs *c) {
    return least + ((uint64_t)c->total * 8 * width << 8) / 512;
}

/* Returns the bits of tops; 0: bytes are expected to take as little. Fewer bits in a symbol are
 * faster, and any are faster than bytes of which two are coded: the fewest that are as good as the
 * least cost. */
PITHI_INLINE unsigned pithi_top_bits(const uint64_t *cost, uint64_t bytes, unsigned exponent,
                                     unsigned most, unsigned width,
                                     const struct pithi_top_costs *c) {
    const uint64_t least = pithi_top_least(cost, bytes, exponent, most);
    const uint64_t near = pithi_top_near(least, width, c);
    for (unsigned bits = exponent; bits <= most; bits++)
        if (cost[bits - exponent] <= near) return bits;
    return 0;
}

/* Returns the bits of tops that have one of the mantissa at least: the fewest that are as good as
 * the least cost, else those that take least. */
PITHI_INLINE unsigned pithi_top_finer(const uint64_t *cost, uint64_t bytes, unsigned exponent,
                                      unsigned most, unsigned width,
                                      const struct pithi_top_costs *c) {
    const uint64_t near = pithi_top_near(pithi_top_least(cost, bytes, exponent, most), width, c);
    unsigned finer = exponent + 1;
    for (unsigned bits = finer; bits <= most; bits++)
        if (cost[bits - exponent] < cost[finer - exponent] && cost[finer - exponent] > near)
            finer = bits;
    return finer;
}
/* Returns what `bits` bits are expected to take more than the shortest way, in 1/256 bit, of
 * `count` words. */
PITHI_INLINE uint64_t pithi_top_loss(const uint64_t *cost, uint64_t bytes, unsigned exponent,
                                     unsigned most, unsigned bits, uint64_t count,
                                     const struct pithi_top_costs *c) {
    return (cost[bits - exponent] - pithi_top_least(cost, bytes, exponent, most)) * count /
           c->total;
}

#endif
