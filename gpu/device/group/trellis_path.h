/* trellis_path.h - the best path through a trellis, by one thread.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A value in units of levels, y, is a word of 16 bits: 128 y, and 4 times the number of its cell,
 * which tables are looked up by. A state's metric is a number whose low byte is the way to it: bit
 * k says whether step k of a unit came from the upper one of two states. So the least of two is
 * found with one comparison, equal ones by the newest bit, and a unit's last metrics say how every
 * state was reached in eight steps. A bit of it is the lowest one of the code three steps before:
 * the way is all that codes need besides their values.
 *
 * Metrics stay comparable when the same is taken off all: here the distance from the level of
 * subset 0 in each step, so that they need not be lowered. Only where a metric may get to the limit
 * of doc/FORMAT.md, A.4, must all be as there. */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_PATH_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_PATH_H

#include "device/group/trellis_sum.h"

/* ---- Tables ----------------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_trellis_cell(const struct pithi_trellis *of, uint32_t cell,
                                     struct pithi_trellis_tables *to) {
    const bool negative = cell >= PITHI_TRELLIS_CELLS;
    const int below = of->first[negative ? PITHI_TRELLIS_ALL_CELLS - 1 - cell : cell];
    const int first = negative ? of->levels - 4 - below : below;
    const int origin = of->level[pithi_trellis_of_subset(first, 0)];
    PITHI_UNROLL for (int k = 0; k < 4; k++) {
        const int number = pithi_trellis_of_subset(first, k), level = of->level[number];
        to->near[4 * cell + (uint32_t)k] = pithi_bits((float)level) | (uint32_t)number >> 2 << 1;
    }
    PITHI_UNROLL for (int k = 1; k < 4; k++) {
        const int level = of->level[pithi_trellis_of_subset(first, k)], step = level - origin;
        to->lean[k - 1][cell] = 256 * (level * level - origin * origin);
        to->slope[k - 1][cell] = -512 * step;
    }
}

PITHI_DEVICE void pithi_trellis_table(const struct pithi_trellis *of, uint32_t tid,
                                      struct pithi_trellis_tables *to) {
    if (tid < PITHI_TRELLIS_ALL_CELLS) pithi_trellis_cell(of, tid, to);
    if (tid == 0) to->most = of->most;
    if (tid >= 8) return;
    uint32_t marks = 0;
    for (int k = 0; k < of->levels; k++)
        if (of->level[k] > 0 && (uint32_t)of->level[k] / 32 == tid)
            marks |= 1u << of->level[k] % 32;
    to->marks[tid] = marks;
}

/* What is near a value, see the tables, by the bits of its cell where pithi_trellis_celled has them
 * and 4 times the subset. */
PITHI_DEVICE uint32_t pithi_trellis_near(const struct pithi_trellis_tables *g, uint32_t celled,
                                         uint32_t subset) {
    return pithi_get_aligned32((const uint8_t *)g->near + (celled & 0x1F0) + subset);
}
PITHI_DEVICE float pithi_trellis_near_level(uint32_t near) { return pithi_float(near & ~0xFFFFu); }

/* Whether a value in units of levels is one, when rounded. */
PITHI_DEVICE bool pithi_trellis_marked(const struct pithi_trellis_tables *g, float v) {
    const float y = pithi_lower(pithi_lift(pithi_within(v, -(float)g->most, (float)g->most)));
    const uint32_t size = (uint32_t)pithi_size(y);
    return g->marks[size / 32] >> size % 32 & 1;
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* An integer in bits 4 to 8 of which is the number of its cell: y, and of what is negative one
 * less. */
PITHI_DEVICE uint32_t pithi_trellis_celled(int32_t y) { return (uint32_t)(y - (y < 0)); }
PITHI_DEVICE int32_t pithi_trellis_whole_number(float v) {
    return (int32_t)(pithi_bits(pithi_lift(v)) - pithi_bits(PITHI_LIFT));
}
PITHI_DEVICE uint32_t pithi_trellis_worded(float v) {
    const int32_t y = pithi_trellis_whole_number(v);
    return (uint32_t)y << 7 | (pithi_trellis_celled(y) >> 2 & 124);
}
PITHI_DEVICE struct pithi_quad pithi_trellis_paired(const uint32_t word[8]) {
    struct pithi_quad q;
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
#ifdef __CUDACC__
        q.word[k] = __byte_perm(word[2 * k], word[2 * k + 1], 0x5410);
#else
        q.word[k] = (word[2 * k] & 0xFFFFu) | word[2 * k + 1] << 16;
#endif
    }
    return q;
}

/* The words of a unit's values times `unit`, in pairs. */
PITHI_DEVICE struct pithi_quad pithi_trellis_words(int32_t most, const float x[8], float unit) {
    uint32_t word[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] =
        pithi_trellis_worded(pithi_within(x[k] * unit, -(float)most, (float)most));
    return pithi_trellis_paired(word);
}
PITHI_DEVICE int32_t pithi_trellis_word(struct pithi_quad q, uint32_t k) {
    return (int16_t)(q.word[k / 2] >> k % 2 * 16);
}

/* Where unit j of sequence number `path` is, `paths` of them, a power of two. Threads that write
 * have neighbouring units, those that find paths neighbouring sequences: both are in different
 * banks. */
PITHI_DEVICE struct pithi_quad *pithi_trellis_slot(struct pithi_quad *slot, uint32_t paths,
                                                   uint32_t path, uint32_t j) {
    return slot + j * paths + (path ^ (j & (paths - 1)));
}

/* ---- Steps -----------------------------------------------------------------------------------*/

PITHI_DEVICE int32_t pithi_lesser(int32_t x, int32_t y) { return x < y ? x : y; }

/* A step, whose bit is `bit`; d1 to d3: distances from the levels of these subsets less that of
 * subset 0. */
PITHI_DEVICE void pithi_trellis_forth(int32_t d1, int32_t d2, int32_t d3, int32_t bit,
                                      int32_t m[8]) {
    const int32_t m0 = m[0], m1 = m[1], m2 = m[2], m3 = m[3], crossed = d2 + bit;
    m[0] = pithi_lesser(m0, m[4] + crossed);
    m[1] = pithi_lesser(m0 + d2, m[4] + bit);
    m[2] = pithi_lesser(m1 + d2, m[5] + bit);
    m[3] = pithi_lesser(m1, m[5] + crossed);
    m[4] = pithi_lesser(m2 + d1, m[6] + d3 + bit);
    m[5] = pithi_lesser(m2 + d3, m[6] + d1 + bit);
    m[6] = pithi_lesser(m3 + d3, m[7] + d1 + bit);
    m[7] = pithi_lesser(m3 + d1, m[7] + d3 + bit);
}
PITHI_DEVICE void pithi_trellis_step(const struct pithi_trellis_tables *g, int32_t word,
                                     int32_t bit, int32_t m[8]) {
    const uint32_t cell = (uint32_t)word >> 2 & (PITHI_TRELLIS_ALL_CELLS - 1);
    const int32_t y = word >> 7;
    const int32_t d1 = g->lean[0][cell] + g->slope[0][cell] * y;
    const int32_t d2 = g->lean[1][cell] + g->slope[1][cell] * y;
    const int32_t d3 = g->lean[2][cell] + g->slope[2][cell] * y;
    pithi_trellis_forth(d1, d2, d3, bit, m);
}

/* Limits a metric to the worst that there is; the way in its lowest byte stays. */
PITHI_DEVICE int32_t pithi_trellis_limited(int32_t metric) {
    return metric >> 8 < PITHI_TRELLIS_WORST ? metric : PITHI_TRELLIS_WORST << 8 | (metric & 255);
}
PITHI_DEVICE int32_t pithi_least_metric(const int32_t m[8]) {
    return pithi_lesser(pithi_lesser(pithi_lesser(m[0], m[1]), pithi_lesser(m[2], m[3])),
                        pithi_lesser(pithi_lesser(m[4], m[5]), pithi_lesser(m[6], m[7])));
}

/* Goes a step as pithi_trellis_step, with metrics that are limited; lower: then the least of them
 * becomes 0. */
PITHI_DEVICE void pithi_trellis_limited_step(const struct pithi_trellis_tables *g, int32_t word,
                                             int32_t bit, bool lower, int32_t m[8]) {
    const uint32_t cell = (uint32_t)word >> 2 & (PITHI_TRELLIS_ALL_CELLS - 1);
    const int32_t v = word >> 7, off = v - (int32_t)pithi_trellis_near_level(g->near[4 * cell]);
    const int32_t origin = off * off * 256;
    int32_t d[4] = {origin, origin, origin, origin}, to[PITHI_TRELLIS_STATES];
    PITHI_UNROLL for (int k = 1; k < 4; k++) d[k] +=
        g->lean[k - 1][cell] + g->slope[k - 1][cell] * v;
    PITHI_UNROLL for (int z = 0; z < PITHI_TRELLIS_STATES; z++) {
        const int32_t x = pithi_trellis_limited(m[z >> 1] + d[pithi_trellis_subset(z, 0)]);
        const int32_t y = pithi_trellis_limited(m[z >> 1 | 4] + d[pithi_trellis_subset(z, 1)]);
        to[z] = pithi_lesser(x, y + bit);
    }
    const int32_t least = lower ? pithi_least_metric(to) & ~255 : 0;
    PITHI_UNROLL for (int z = 0; z < PITHI_TRELLIS_STATES; z++) m[z] = to[z] - least;
}

/* The lowest bytes of four numbers. */
PITHI_DEVICE uint32_t pithi_bytes_of(int32_t x0, int32_t x1, int32_t x2, int32_t x3) {
#ifdef __CUDACC__
    return __byte_perm(__byte_perm((uint32_t)x0, (uint32_t)x1, 0x40),
                       __byte_perm((uint32_t)x2, (uint32_t)x3, 0x40), 0x5410);
#else
    return ((uint32_t)x0 & 255) | ((uint32_t)x1 & 255) << 8 | ((uint32_t)x2 & 255) << 16 |
           (uint32_t)x3 << 24;
#endif
}

/* ways := by states whose bits are turned round, lower ones and upper ones; metrics lose them. */
PITHI_DEVICE void pithi_trellis_keep(int32_t m[8], uint32_t ways[2]) {
    ways[0] = pithi_bytes_of(m[0], m[4], m[2], m[6]);
    ways[1] = pithi_bytes_of(m[1], m[5], m[3], m[7]);
    PITHI_UNROLL for (int z = 0; z < PITHI_TRELLIS_STATES; z++) m[z] &= ~255;
}

/* ---- Paths -----------------------------------------------------------------------------------*/

/* Whether metrics may get to their limit in groups of this setting. A state is reached from the
 * best one of three steps before by three distances at most, and the least metric was 0 then, or
 * what one step can add to it. With values of R or less, what the largest magnitude becomes, and
 * levels l and k for the first and the third of its four, that is 3 (R - l)^2 + (R - k)^2: above
 * the limit from R = 144 (2 bits) and 204 (3 bits) on, never with 4 bits. */
PITHI_DEVICE bool pithi_trellis_limits(const struct pithi_group_setting *set) {
    const int reach = pithi_trellis_reach(set->bits, set->group);
    return (set->bits == 2 && reach >= 144) || (set->bits == 3 && reach >= 204);
}

/* A sequence of `count` values. */
struct pithi_trellis_path {
    struct pithi_quad *slot;
    uint32_t paths, path, count;
    bool mirrored, limits;
};

/* The state of the least metric, of equals the least one, its bits turned round. */
PITHI_DEVICE uint32_t pithi_trellis_last(int32_t m[8]) {
    PITHI_UNROLL for (int z = 0; z < PITHI_TRELLIS_STATES; z++) m[z] |= z;
    const uint32_t state = (uint32_t)pithi_least_metric(m) & 7;
    return state >> 2 | (state & 2) | (state & 1) << 2;
}
PITHI_DEVICE void pithi_trellis_begin(bool mirrored, int32_t m[8]) {
    PITHI_UNROLL for (int z = 0; z < PITHI_TRELLIS_STATES; z++) m[z] = PITHI_TRELLIS_WORST << 8;
    m[0] = 0;
    if (mirrored) m[PITHI_TRELLIS_STATES - 1] = 0;
}

/* Forwards; returns the last state, its bits turned round. */
PITHI_DEVICE uint32_t pithi_trellis_forward(const struct pithi_trellis_tables *g,
                                            const struct pithi_trellis_path *p) {
    int32_t m[PITHI_TRELLIS_STATES];
    pithi_trellis_begin(p->mirrored, m);
    const uint32_t units = p->count / PITHI_UNIT, rest = p->count % PITHI_UNIT;
    for (uint32_t j = 0; j < units; j++) {
        struct pithi_quad *const at = pithi_trellis_slot(p->slot, p->paths, p->path, j);
        const struct pithi_quad q = pithi_get_quad(at);
        if (p->limits) {
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
                pithi_trellis_limited_step(g, pithi_trellis_word(q, k), 1 << k, k % 4 == 3, m);
        } else {
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
                pithi_trellis_step(g, pithi_trellis_word(q, k), 1 << k, m);
        }
        pithi_trellis_keep(m, at->word);
    }
    if (rest) {
        struct pithi_quad *const at = pithi_trellis_slot(p->slot, p->paths, p->path, units);
        const uint16_t *const word = (const uint16_t *)(const void *)at;
        for (uint32_t k = 0; k < rest; k++) {
            const int32_t w = (int16_t)pithi_get_aligned16(word + k);
            if (p->limits)
                pithi_trellis_limited_step(g, w, 1 << k, k % 4 == 3, m);
            else
                pithi_trellis_step(g, w, 1 << k, m);
        }
        pithi_trellis_keep(m, at->word);
    }
    return pithi_trellis_last(m);
}

/* A unit of so many steps backwards from a state, by its ways: the state before it in bits 0 to 2,
 * then the lowest bits of its codes. */
PITHI_DEVICE uint32_t pithi_trellis_back(uint32_t lower, uint32_t upper, uint32_t state,
                                         uint32_t steps) {
    const uint32_t ways = state & 4 ? upper : lower;
    return (ways >> (state & 3) * 8 & 255) | state << steps;
}

/* Backwards from a state: the lowest bits of codes. Returns the state that the path begins in. */
PITHI_DEVICE uint32_t pithi_trellis_backward(const struct pithi_trellis_path *p, uint32_t state,
                                             uint8_t *chosen) {
    const uint32_t units = (p->count + PITHI_UNIT - 1) / PITHI_UNIT;
    uint32_t steps = p->count - (units - 1) * PITHI_UNIT;
    for (uint32_t j = units; j-- > 0;) {
        const struct pithi_quad *const at = pithi_trellis_slot(p->slot, p->paths, p->path, j);
        const uint32_t bits = pithi_trellis_back(at->word[0], at->word[1], state, steps);
        chosen[j] = (uint8_t)(bits >> 3);
        state = bits & 7;
        steps = PITHI_UNIT;
    }
    return state;
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* A unit's lowest bits of codes, from bit 3 on, and those of the three codes before it. */
PITHI_DEVICE uint32_t pithi_trellis_lows(const uint8_t *chosen, uint32_t unit, uint32_t begin,
                                         bool begins) {
    return (uint32_t)chosen[unit] << 3 | (begins ? begin : (uint32_t)chosen[unit - 1] >> 5);
}

/* code, x := codes of a unit with the words q, and their levels, in scales. */
PITHI_DEVICE void pithi_trellis_codes(const struct pithi_trellis_tables *g, struct pithi_quad q,
                                      uint32_t lows, uint32_t code[8], float x[8]) {
    const uint32_t parity = lows ^ lows >> 2 ^ lows >> 3;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t word = q.word[k / 2] >> k % 2 * 16;
        const uint32_t subset = (parity >> k & 1) << 3 | (lows >> (k + 1) & 1) << 2;
        const uint32_t near = pithi_trellis_near(g, word << 2, subset);
        x[k] = pithi_trellis_near_level(near) / PITHI_TRELLIS_UNIT;
        code[k] = (near & 14) | (lows >> (k + 3) & 1);
    }
}

/* The scale with which the last level reaches the largest value. */
PITHI_DEVICE float pithi_trellis_utmost(const struct pithi_group_setting *set, int top,
                                        uint32_t dtype, uint32_t largest) {
    return pithi_codebook_reach((float)top / PITHI_TRELLIS_UNIT, set,
                                pithi_trellis_dtype(set, dtype), largest);
}

/* unit, other := as in the team's memory, of a group with this largest value. */
PITHI_DEVICE void pithi_trellis_units(const struct pithi_group_setting *set, int top,
                                      uint32_t dtype, uint32_t largest, uint32_t count,
                                      uint32_t *unit, uint32_t *other) {
    const float m = pithi_float(largest), utmost = pithi_trellis_utmost(set, top, dtype, largest);
    const bool coded = count && !pithi_nonfinite(pithi_bits(utmost)) && utmost != 0;
    *unit = coded ? pithi_bits((float)top / m) : 0;
    *other = coded ? pithi_bits((float)pithi_trellis_reach(set->bits, count) / m) : 0;
}
PITHI_DEVICE float pithi_trellis_unit(uint32_t unit, uint32_t other) {
    return pithi_float(other >> 31 ? pithi_magnitude(other) : unit);
}

/* The scale of a group, from its sums. */
PITHI_DEVICE float pithi_trellis_fitted(const struct pithi_group_setting *set,
                                        const struct pithi_trellis *of, uint32_t dtype,
                                        uint32_t largest, uint32_t count, uint32_t other,
                                        const float sum[2]) {
    const int reach = other >> 31 ? pithi_trellis_reach(set->bits, count) : of->top;
    return pithi_trellis_scale(set, of, pithi_trellis_dtype(set, dtype), reach,
                               pithi_float(largest),
                               pithi_trellis_utmost(set, of->top, dtype, largest), sum[0], sum[1]);
}

#endif
