/* zero_choice.h - zero maps in lanes: how a map is cut, the chances of levels, and what is expected
 * to take least.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: zero_lanes.c, and the CUDA kernels. */
#ifndef PITHI_PREDICT_ZERO_CHOICE_H
#define PITHI_PREDICT_ZERO_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes/rans_table.h"
#include "tile.h"

/* Bytes of the form and the length before a map that is coded; of the map's head. */
enum { PITHI_ZERO_FORM = 4, PITHI_ZERO_HEAD = 3 };
enum { PITHI_ZERO_LOG2_LANES_MOST = 5, PITHI_ZERO_CONTEXTS = 1024, PITHI_ZERO_LEVELS = 32 };
/* Bits of a context in a map's bytes: six bits around, the place, the class. */
enum { PITHI_ZERO_PLACE_BIT = 6, PITHI_ZERO_CLASS_BIT = 8 };

/* Vectors are for 16 lanes; each lane takes three bytes more than what it carries. */
PITHI_INLINE unsigned pithi_zero_log2_lanes(size_t count) {
    return count < 1024 ? 0 : count < 8192 ? 2 : 4;
}

/* ---- Geometry --------------------------------------------------------------------------------*/

/* Planes of height * width bits, `planes` in all; a lane has `share` of them one after the other,
 * `steps` bits. Planes other than the tile's stand for them where it has too few. */
struct pithi_zero_cut {
    size_t count, width, height, planes, share, steps, lanes;
};

PITHI_INLINE size_t pithi_zero_ceil(size_t a, size_t b) { return a / b + (a % b != 0); }

PITHI_INLINE struct pithi_zero_cut pithi_zero_cut_of(const uint32_t extent[PITHI_TILE_NDIM],
                                                     unsigned log2_lanes) {
    struct pithi_zero_cut c;
    const size_t planes = (size_t)extent[0] * extent[1], rows = planes * extent[2];
    c.lanes = (size_t)1 << log2_lanes;
    c.width = extent[3];
    c.height = extent[2];
    c.count = rows * c.width;
    if (planes < c.lanes && rows >= 2 * c.lanes) {
        c.height = 2 * pithi_zero_ceil(rows, 2 * c.lanes);
    } else if (planes < c.lanes) {
        c.width = 2 * pithi_zero_ceil(c.count, 2 * c.lanes);
        c.height = 1;
    }
    c.planes = pithi_zero_ceil(c.count, c.height * c.width);
    c.share = pithi_zero_ceil(c.planes, c.lanes);
    c.steps = c.share * c.height * c.width;
    return c;
}

/* Returns the number of a context in a map's bytes, without the class of its plane. */
PITHI_INLINE unsigned pithi_zero_context(unsigned around, size_t x, size_t y) {
    return around | (unsigned)((x & 1) | (y & 1) << 1) << PITHI_ZERO_PLACE_BIT;
}

/* ---- Levels ----------------------------------------------------------------------------------
 * The level of a context is told from that of the context without its highest bit: a bit 0 where
 * they are equal, else a 1 and their difference, in more bits the larger it is. */

enum { PITHI_ZERO_FIRST_LEVEL = PITHI_ZERO_LEVELS / 2, PITHI_ZERO_LENGTH_MOST = 5 };

/* Returns the chance of a one, in 4096ths: chances are close together where they make much of a
 * difference, at both ends. */
PITHI_INLINE uint32_t pithi_zero_chance(unsigned level) {
    const bool high = level >= PITHI_ZERO_FIRST_LEVEL;
    const unsigned l = high ? PITHI_ZERO_LEVELS - 1 - level : level;
    const uint64_t four = l < 4    ? UINT64_C(0x0018000C00050002)  /* 2, 5, 12, 24 */
                          : l < 8  ? UINT64_C(0x00C5007F004E002D)  /* 45, 78, 127, 197 */
                          : l < 12 ? UINT64_C(0x030A024401A30125)  /* 293, 419, 580, 778 */
                                   : UINT64_C(0x07610628050103F5); /* 1013, 1281, 1576, 1889 */
    const uint32_t chance = (uint32_t)(four >> 16 * (l % 4)) & 0xFFFF;
    return high ? PITHI_RANS_SLOTS - chance : chance;
}

PITHI_INLINE unsigned pithi_zero_told_from(const uint8_t *level, unsigned context) {
    if (!context) return PITHI_ZERO_FIRST_LEVEL;
    return level[context ^ 1u << (pithi_bit_length(context) - 1)];
}

/* Returns the difference of two levels as an unsigned number: 0, -1, 1, -2 .. are 0, 1, 2, 3 .. */
PITHI_INLINE unsigned pithi_zero_difference(unsigned level, unsigned from) {
    return level < from ? 2 * (from - level) - 1 : 2 * (level - from);
}

/* Bits of a difference but for the first, and the unary part: 0 for 0. */
PITHI_INLINE unsigned pithi_zero_code_length(unsigned d) {
    return d ? pithi_bit_length(d + 1) - 1 : 0;
}

PITHI_INLINE void pithi_zero_put_difference(struct pithi_rans_bits *b, unsigned d) {
    const unsigned length = pithi_zero_code_length(d);
    if (!length) {
        pithi_rans_put_bits(b, 0, 1);
    } else {
        pithi_rans_put_bits(b, (1u << length) - 1, length + 1);
        pithi_rans_put_bits(b, (d + 1) & ((1u << length) - 1), length);
    }
}

/* Returns the difference; LEVELS * 2 where there is no such code. */
PITHI_INLINE unsigned pithi_zero_take_difference(struct pithi_rans_bit_reader *b) {
    unsigned length = 0;
    while (pithi_rans_take_bits(b, 1))
        if (++length > PITHI_ZERO_LENGTH_MOST) return 2 * PITHI_ZERO_LEVELS;
    return length ? ((1u << length) | pithi_rans_take_bits(b, length)) - 1 : 0;
}

/* Reads the level of a context, those before being known; whether it is one. */
PITHI_INLINE bool pithi_zero_take_level(struct pithi_rans_bit_reader *b, uint8_t *level,
                                        unsigned context) {
    const unsigned from = pithi_zero_told_from(level, context), d = pithi_zero_take_difference(b);
    const unsigned found = d & 1 ? from - (d + 1) / 2 : from + d / 2;
    level[context] = (uint8_t)found;
    return found < PITHI_ZERO_LEVELS;
}

/* ---- Choice ----------------------------------------------------------------------------------*/

enum { PITHI_ZERO_CLASSES = 4, PITHI_ZERO_BINS = 256 };
/* Returns the bin of a plane with so many ones of its n bits. */
PITHI_INLINE uint8_t pithi_zero_bin(size_t ones, size_t n) {
    return (uint8_t)(ones * (PITHI_ZERO_BINS - 1) / n);
}
/* Returns the class of a bin of `in` planes, `below` being those of lower bins: four classes have
 * about as many planes each. */
PITHI_INLINE uint8_t pithi_zero_class(size_t below, size_t in, size_t planes) {
    const size_t middle = (2 * below + in) * PITHI_ZERO_CLASSES / (2 * planes);
    return (uint8_t)(middle < PITHI_ZERO_CLASSES ? middle : PITHI_ZERO_CLASSES - 1);
}

/* Costs of a bit at each level, in 1/256 bit, and the best level for each share of ones, in
 * 4096ths. */
struct pithi_zero_costs {
    uint32_t of[PITHI_ZERO_LEVELS][2];
    uint8_t best[PITHI_RANS_SLOTS + 1];
};
PITHI_INLINE uint32_t pithi_zero_one_cost(unsigned level) {
    return 256 * PITHI_RANS_LOG2_SLOTS - pithi_log2_256(pithi_zero_chance(level));
}
/* Returns the share of ones up to which no higher level is better. */
PITHI_INLINE uint32_t pithi_zero_share_end(const struct pithi_zero_costs *k, unsigned level) {
    if (level + 1 == PITHI_ZERO_LEVELS) return PITHI_RANS_SLOTS;
    const uint32_t zeros = k->of[level + 1][0] - k->of[level][0];
    const uint32_t ones = k->of[level][1] - k->of[level + 1][1];
    return PITHI_RANS_SLOTS * zeros / (zeros + ones);
}

PITHI_INLINE uint64_t pithi_zero_cost_at(const struct pithi_zero_costs *k, const uint32_t count[2],
                                         unsigned level) {
    return (uint64_t)count[0] * k->of[level][0] + (uint64_t)count[1] * k->of[level][1];
}

PITHI_INLINE unsigned pithi_zero_level_for(const struct pithi_zero_costs *k,
                                           const uint32_t count[2]) {
    const uint32_t all = count[0] + count[1]; /* a block has no more than 2^24 elements */
    return k->best[all >> (32 - PITHI_RANS_LOG2_SLOTS) ? (uint64_t)count[1] * PITHI_RANS_SLOTS / all
                                                       : count[1] * PITHI_RANS_SLOTS / all];
}

/* Returns about what a context that was counted so often takes, in 1/256 bit. */
PITHI_INLINE uint64_t pithi_zero_context_cost(const struct pithi_zero_costs *k,
                                              const uint32_t count[2]) {
    enum { LEVEL_BITS = 3 * 256, SAME_BITS = 256 };
    if (!(count[0] | count[1])) return SAME_BITS;
    return pithi_zero_cost_at(k, count, pithi_zero_level_for(k, count)) + LEVEL_BITS;
}

/* Returns the level for which its bits and the bits that tell it are fewest together. */
PITHI_INLINE unsigned pithi_zero_choose_level(const struct pithi_zero_costs *k,
                                              const uint32_t count[2], unsigned from) {
    if (!(count[0] | count[1])) return from;
    const unsigned best = pithi_zero_level_for(k, count),
                   toward = best < from ? best + 1 : best - (best > from);
    uint64_t fewest = UINT64_MAX;
    unsigned level = best;
    PITHI_UNROLL for (unsigned i = 0; i < 3; i++) {
        const unsigned tried = i == 0 ? best : i == 1 ? toward : from;
        const unsigned length = pithi_zero_code_length(pithi_zero_difference(tried, from));
        const uint64_t sum = pithi_zero_cost_at(k, count, tried) + 256 * (2 * (uint64_t)length + 1);
        if (sum >= fewest) continue;
        fewest = sum;
        level = tried;
    }
    return level;
}

/* Bits that tell the classes of planes. */
PITHI_INLINE size_t pithi_zero_class_bits(size_t planes, unsigned mask) {
    return planes * ((mask >> PITHI_ZERO_CLASS_BIT & 1) + (mask >> (PITHI_ZERO_CLASS_BIT + 1) & 1));
}
/* Bytes that classes and levels may take, of so many contexts. */
PITHI_INLINE size_t pithi_zero_levels_most(size_t planes, unsigned mask, size_t contexts) {
    const size_t code_most = 2 * PITHI_ZERO_LENGTH_MOST + 1;
    return (pithi_zero_class_bits(planes, mask) + contexts * code_most) / 8 + 1;
}

enum {
    PITHI_ZERO_LEFT = 1,
    PITHI_ZERO_UP = 2,
    PITHI_ZERO_UP_RIGHT = 4,
    PITHI_ZERO_UP_LEFT = 8,
    PITHI_ZERO_FURTHER = 16,
    PITHI_ZERO_ABOVE = 32,
    PITHI_ZERO_PLACE = 0xC0,
    PITHI_ZERO_HALVES = 0x200,
    PITHI_ZERO_QUARTERS = 0x300,
    PITHI_ZERO_NEAR = PITHI_ZERO_LEFT | PITHI_ZERO_UP | PITHI_ZERO_UP_RIGHT | PITHI_ZERO_UP_LEFT,
    PITHI_ZERO_ALL = PITHI_ZERO_NEAR | PITHI_ZERO_FURTHER | PITHI_ZERO_ABOVE
};

/* MASK(mask, least, from) for the bits that contexts may be made of. Small maps first: those that
 * need many levels are for maps of many bits. least: 1/64 of the bits of the least map that it is
 * tried for. The counts of a mask are merged from those of another one, behind it, which has its
 * bits; from: the number of that; the last has all bits. */
#define PITHI_ZERO_MASKS(MASK)                                              \
    MASK(PITHI_ZERO_LEFT | PITHI_ZERO_FURTHER, 0, 3)                        \
    MASK(PITHI_ZERO_NEAR, 0, 2)                                             \
    MASK(PITHI_ZERO_NEAR | PITHI_ZERO_PLACE, 16, 8)                         \
    MASK(PITHI_ZERO_ALL, 32, 5)                                             \
    MASK(PITHI_ZERO_NEAR | PITHI_ZERO_HALVES, 32, 7)                        \
    MASK(PITHI_ZERO_ALL | PITHI_ZERO_HALVES, 128, 9)                        \
    MASK(PITHI_ZERO_ALL | PITHI_ZERO_PLACE, 128, 10)                        \
    MASK(PITHI_ZERO_NEAR | PITHI_ZERO_QUARTERS, 128, 8)                     \
    MASK(PITHI_ZERO_NEAR | PITHI_ZERO_PLACE | PITHI_ZERO_QUARTERS, 128, 10) \
    MASK(PITHI_ZERO_ALL | PITHI_ZERO_QUARTERS, 256, 10)                     \
    MASK(PITHI_ZERO_ALL | PITHI_ZERO_PLACE | PITHI_ZERO_QUARTERS, 256, 0)

#endif
