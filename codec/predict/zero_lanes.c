/* zero_lanes.c - zero maps in lanes: geometry, contexts, levels, and the reference of the coder.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/zero_lanes.h"

#include <string.h>

#include "codec.h"
#include "common/endian.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "common/popcount.h"
#include "predict/zero_choice.h"

enum { SLOTS = PITHI_RANS_SLOTS, LOG2_SLOTS = PITHI_RANS_LOG2_SLOTS };
enum { CONTEXTS = PITHI_ZERO_CONTEXTS, AROUND = PITHI_ZERO_AROUND, LEVELS = PITHI_ZERO_LEVELS };
enum { CLASS_BIT = PITHI_ZERO_CLASS_BIT, HEAD = PITHI_ZERO_HEAD };
/* In memory the class of a context follows the bits around. */
enum { ROUND_BITS = 6 };

/* ---- Geometry --------------------------------------------------------------------------------*/

/* Returns how many lanes have a bit at this step; they are the first ones. */
static unsigned active_at(const struct pithi_zero_cut *c, size_t step) {
    return step < c->count ? (unsigned)((c->count - 1 - step) / c->steps + 1) : 0;
}

/* ---- Memory: the bits of all lanes, their contexts, the classes of planes --------------------
 * Lanes together have less than twice the bits of the tile, or less than two each more. */

enum { SLACK = 2 * PITHI_ZERO_LANES_MOST };

static size_t lane_bytes(size_t max_count) { return (size_t)pithi_pad64(2 * max_count + SLACK); }

size_t pithi_zero_lanes_scratch(size_t max_count) {
    return 2 * lane_bytes(max_count) + (size_t)pithi_pad64(max_count + SLACK);
}

struct memory {
    uint8_t *bits, *around, *classes;
};

static struct memory memory_of(void *scratch, size_t max_count) {
    const size_t bytes = lane_bytes(max_count);
    uint8_t *const first = scratch;
    return (struct memory){first, first + bytes, first + 2 * bytes};
}

/* ---- Bits of lanes: a byte each, and of the map ----------------------------------------------*/

/* Returns 8 bits of the map from bit i on; those past the end are 0. */
static inline uint8_t eight_bits(const uint8_t *map, size_t bytes, size_t i) {
    const size_t at = i / 8;
    if (at >= bytes) return 0;
    const unsigned next = at + 1 < bytes ? map[at + 1] : 0;
    return (uint8_t)((map[at] | next << 8) >> i % 8);
}

/* Sets byte i * lanes + j to bit i of byte j. */
static void spread_steps(const uint8_t *eight, size_t lanes, size_t steps, uint8_t *bits) {
    const uint64_t lowest = UINT64_C(0x0101010101010101);
    if (lanes % 8) {
        for (size_t i = 0; i < steps; i++)
            for (size_t j = 0; j < lanes; j++) bits[i * lanes + j] = eight[j] >> i & 1;
        return;
    }
    for (size_t j = 0; j < lanes; j += 8)
        for (size_t i = 0; i < steps; i++)
            pithi_put64(bits + i * lanes + j, pithi_get64(eight + j) >> i & lowest);
}

/* Undoes spread_steps: sets bit i of byte j to byte i * lanes + j. */
static void gather_steps(uint8_t *eight, size_t lanes, size_t steps, const uint8_t *bits) {
    memset(eight, 0, PITHI_ZERO_LANES_MOST);
    if (lanes % 8) {
        for (size_t i = 0; i < steps; i++)
            for (size_t j = 0; j < lanes; j++)
                eight[j] = (uint8_t)(eight[j] | (unsigned)bits[i * lanes + j] << i);
        return;
    }
    for (size_t j = 0; j < lanes; j += 8) {
        uint64_t sum = 0;
        for (size_t i = 0; i < steps; i++) sum |= pithi_get64(bits + i * lanes + j) << i;
        pithi_put64(eight + j, sum);
    }
}

/* Returns 57 or more bits of the map from bit i on; those past the end are 0. */
static inline uint64_t bits_from(const uint8_t *map, size_t bytes, size_t i) {
    const size_t at = i / 8;
    uint8_t part[8] = {0};
    if (at + 8 <= bytes) return pithi_get64(map + at) >> i % 8;
    if (at < bytes) memcpy(part, map + at, bytes - at);
    return pithi_get64(part) >> i % 8;
}

static void bits_of_map(const struct pithi_zero_cut *c, const uint8_t *map, uint8_t *bits) {
    enum { AT_ONCE = 56 };
    const size_t bytes = (c->count + 7) / 8;
    for (size_t t = 0; t < c->steps; t += AT_ONCE) {
        const size_t end = pithi_min(t + AT_ONCE, c->steps);
        uint64_t words[PITHI_ZERO_LANES_MOST];
        for (size_t j = 0; j < c->lanes; j++) words[j] = bits_from(map, bytes, j * c->steps + t);
        for (size_t at = t; at < end; at += 8) {
            uint8_t eight[PITHI_ZERO_LANES_MOST];
            for (size_t j = 0; j < c->lanes; j++) eight[j] = (uint8_t)(words[j] >> (at - t));
            spread_steps(eight, c->lanes, pithi_min(8, end - at), bits + at * c->lanes);
        }
    }
}

static void map_of_bits(const struct pithi_zero_cut *c, const uint8_t *bits, uint8_t *map) {
    memset(map, 0, (c->count + 7) / 8);
    for (size_t t = 0; t < c->steps; t += 8) {
        uint8_t eight[PITHI_ZERO_LANES_MOST];
        const size_t active = active_at(c, t);
        gather_steps(eight, c->lanes, pithi_min(8, c->steps - t), bits + t * c->lanes);
        for (size_t j = 0; j < active; j++) {
            const size_t i = j * c->steps + t;
            const unsigned two = (unsigned)eight[j] << i % 8;
            map[i / 8] = (uint8_t)(map[i / 8] | two);
            if (two >> 8) map[i / 8 + 1] = (uint8_t)(map[i / 8 + 1] | two >> 8);
        }
    }
}

enum { USUAL = 16 }; /* lanes of all but small maps */

/* ---- Contexts --------------------------------------------------------------------------------*/

/* The class of the plane that each lane is in, above the bits around. */
static void classes_at(const struct pithi_zero_cut *c, const uint8_t *classes, size_t plane,
                       uint8_t *to) {
    for (size_t j = 0; j < c->lanes; j++) {
        const size_t p = j * c->share + plane;
        to[j] = p < c->planes ? (uint8_t)(classes[p] << ROUND_BITS) : 0;
    }
}

/* Adds bits as bit `shift` of contexts. */
static inline void add_bits(uint8_t *restrict to, const uint8_t *restrict bits, size_t n,
                            unsigned shift) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        pithi_put64(to + i, pithi_get64(to + i) | pithi_get64(bits + i) << shift);
    for (; i < n; i++) to[i] = (uint8_t)(to[i] | bits[i] << shift);
}

/* What rows above say of the contexts of a row, and the class. Bits of the row are at `bits`. */
static void row_above(const uint8_t *bits, size_t lanes, size_t width, size_t y,
                      const uint8_t *class_of, uint8_t *around) {
    const size_t row = width * lanes;
    if (lanes == USUAL)
        for (size_t i = 0; i < row; i += USUAL) memcpy(around + i, class_of, USUAL);
    else
        for (size_t i = 0; i < row; i += lanes) memcpy(around + i, class_of, lanes);
    if (!y) return;
    add_bits(around, bits - row, row, 1);
    add_bits(around, bits - row + lanes, row - lanes, 2);
    add_bits(around + lanes, bits - row, row - lanes, 3);
    if (y > 1) add_bits(around, bits - 2 * row, row, 5);
}

/* What rows above and the bits to the left say of the contexts of a row. */
static void row_around(const uint8_t *bits, size_t lanes, size_t width, size_t y,
                       const uint8_t *class_of, uint8_t *around) {
    row_above(bits, lanes, width, y, class_of, around);
    add_bits(around + lanes, bits, (width - 1) * lanes, 0);
    if (width > 1) add_bits(around + 2 * lanes, bits, (width - 2) * lanes, 4);
}

/* Returns the number of a context in a map's bytes. */
static unsigned number_of(unsigned place, unsigned around) {
    const unsigned bits = around & ((1u << ROUND_BITS) - 1), class = around >> ROUND_BITS;
    return pithi_zero_context(bits, place, place >> 1) | class << CLASS_BIT;
}

/* Makes tables by y mod 2. */
static void chances_of(pithi_zero_chances to[2], const uint8_t level[CONTEXTS], unsigned mask) {
    uint32_t chance[LEVELS];
    for (unsigned l = 0; l < LEVELS; l++) chance[l] = pithi_zero_chance(l);
    for (unsigned place = 0; place < 4; place++)
        for (unsigned rest = 0; rest < AROUND / 2; rest++) {
            const unsigned number = number_of(place, 2 * rest);
            to[place >> 1][place & 1][rest] =
                chance[level[number & mask]] | chance[level[(number | 1) & mask]] << 16;
        }
}

/* ---- Reference of the coder ------------------------------------------------------------------*/

static inline uint32_t chance_in(const struct pithi_zero_run *r, size_t step, unsigned around) {
    return (*r->chances)[(r->x + step) & 1][around >> 1] >> 16 * (around & 1) & 0xFFFF;
}

uint8_t *pithi_zero_encode_c(const struct pithi_zero_run *r, uint32_t *state, uint8_t *begin,
                             uint8_t *end) {
    for (size_t i = r->steps; i--;)
        for (size_t j = r->active; j--;) {
            const uint32_t one = chance_in(r, i, r->around[i * r->lanes + j]);
            const bool bit = r->bits[i * r->lanes + j];
            const uint32_t f = bit ? one : SLOTS - one, first = bit ? 0 : one;
            uint32_t x = state[j];
            if (x >> (32 - LOG2_SLOTS) >= f) {
                if (end - begin < 2) return NULL;
                end -= 2;
                pithi_put16(end, (uint16_t)x);
                x >>= 16;
            }
            state[j] = ((x / f) << LOG2_SLOTS) + first + x % f;
        }
    return end;
}

/* What a state becomes by its next bit; it may have to be renormalised. */
static inline uint32_t advance(uint32_t x, uint32_t one, uint8_t *bit) {
    const uint32_t slot = x & (SLOTS - 1), is = 0 - (uint32_t)(slot < one);
    const uint32_t f = (SLOTS - one) ^ (((SLOTS - one) ^ one) & is);
    *bit = (uint8_t)(is & 1);
    return f * (x >> LOG2_SLOTS) + slot - (one & ~is);
}

const uint8_t *pithi_zero_decode_c(const struct pithi_zero_run *r, uint32_t *state,
                                   const uint8_t *words, const uint8_t *end) {
    uint8_t left[PITHI_ZERO_LANES_MOST] = {0}, further[PITHI_ZERO_LANES_MOST] = {0};
    if (r->x > 0) memcpy(left, r->bits - r->lanes, r->lanes);
    if (r->x > 1) memcpy(further, r->bits - 2 * (size_t)r->lanes, r->lanes);
    for (size_t i = 0; i < r->steps; i++) {
        const uint8_t *const around = r->around + i * r->lanes;
        uint8_t *const bits = r->bits + i * r->lanes;
        const bool plenty = (size_t)(end - words) >= 2 * (size_t)r->active;
        for (size_t j = 0; j < r->active; j++) {
            const unsigned context = around[j] | left[j] | (unsigned)further[j] << 4;
            uint8_t bit;
            const uint32_t x = advance(state[j], chance_in(r, i, context), &bit);
            const uint32_t low = x < PITHI_RANS_LOW;
            if (low && !plenty && end - words < 2) return NULL;
            state[j] = x << 16 * low | (low ? pithi_get16(words) : 0u);
            words += 2 * low;
            further[j] = left[j];
            left[j] = bits[j] = bit;
        }
        memset(bits + r->active, 0, r->lanes - r->active);
    }
    return words;
}

/* ---- Choice: the class of each plane, the bits that contexts are made of ---------------------*/

/* Returns how many of the `count` bits from bit i on are ones. */
static size_t ones_in(const uint8_t *map, size_t bytes, size_t i, size_t count) {
    size_t ones = 0;
    const size_t lead = pithi_min((8 - i % 8) % 8, count);
    if (lead) ones += pithi_ones_of(eight_bits(map, bytes, i) & ((1u << lead) - 1));
    i += lead, count -= lead;
    ones += pithi_ones(map + i / 8, count / 8);
    i += count / 8 * 8, count %= 8;
    return count ? ones + pithi_ones_of(eight_bits(map, bytes, i) & ((1u << count) - 1)) : ones;
}

/* Puts planes into four classes, by their ones, of about as many planes each. */
static void choose_classes(const struct pithi_zero_cut *c, const uint8_t *map, uint8_t *classes) {
    enum { BINS = PITHI_ZERO_BINS };
    uint32_t planes[BINS] = {0};
    uint8_t class_of[BINS];
    const size_t area = c->height * c->width, bytes = (c->count + 7) / 8;
    for (size_t p = 0; p < c->planes; p++) {
        const size_t n = pithi_min(area, c->count - p * area);
        classes[p] = pithi_zero_bin(ones_in(map, bytes, p * area, n), n);
        planes[classes[p]]++;
    }
    for (size_t b = 0, below = 0; b < BINS; below += planes[b++])
        class_of[b] = pithi_zero_class(below, planes[b], c->planes);
    for (size_t p = 0; p < c->planes; p++) classes[p] = class_of[classes[p]];
}

static void costs_of(struct pithi_zero_costs *k) {
    for (unsigned l = 0; l < LEVELS; l++) k->of[l][1] = pithi_zero_one_cost(l);
    for (unsigned l = 0; l < LEVELS; l++) k->of[l][0] = k->of[LEVELS - 1 - l][1];
    for (unsigned l = 0, share = 0; l < LEVELS; l++)
        for (const unsigned end = pithi_zero_share_end(k, l); share <= end; share++)
            k->best[share] = (uint8_t)l;
}

/* How often bits were 0 and 1, by context; of contexts that are made of the bits of a mask, without
 * gaps in their numbers. */
typedef uint32_t counts_of[2];

/* Adds the counts of contexts that differ in one bit of their numbers. */
static void drop_bit(counts_of *to, const counts_of *from, size_t contexts, unsigned bit) {
    const size_t half = (size_t)1 << bit;
    for (size_t i = 0; i < contexts; i += 2 * half, to += half, from += 2 * half)
        for (size_t k = 0; k < half; k++)
            for (unsigned b = 0; b < 2; b++) to[k][b] = from[k][b] + from[half + k][b];
}

static size_t contexts_with(unsigned mask) { return (size_t)1 << pithi_ones_of(mask); }

/* Makes of the counts of a mask those of some of its bits. */
static void merge(counts_of *to, unsigned mask, const counts_of *from, unsigned from_mask) {
    counts_of part[CONTEXTS / 2];
    for (unsigned one = CONTEXTS / 2; one; one /= 2) {
        if (!(from_mask & one) || mask & one) continue;
        drop_bit(part, from, contexts_with(from_mask),
                 (unsigned)pithi_ones_of(from_mask & (one - 1)));
        from_mask ^= one;
        from = part;
    }
    memcpy(to, from, contexts_with(mask) * sizeof *to);
}

/* Returns about how many bits a map takes whose contexts are made of these bits, so many times. */
static uint64_t bits_with(const struct pithi_zero_costs *k, const struct pithi_zero_cut *c,
                          const counts_of *count, unsigned mask) {
    uint64_t sum = (uint64_t)pithi_zero_class_bits(c->planes, mask) << 8;
    for (size_t n = 0; n < contexts_with(mask); n++) sum += pithi_zero_context_cost(k, count[n]);
    return sum >> 8;
}

static const struct {
    uint16_t mask, least, from;
} masks[] = {
#define MASK(mask, least, from) {mask, least, from},
    PITHI_ZERO_MASKS(MASK)
#undef MASK
};
enum { MASKS = sizeof masks / sizeof masks[0] };

static void count_bits(counts_of count[CONTEXTS], const struct pithi_zero_cut *c,
                       const struct memory *m) {
    /* Neighbours are often alike: with one counter for each context it would wait for itself. */
    enum { PARTS = 4 };
    uint32_t part[PARTS][4][2 * AROUND] = {{{0}}};
    const size_t lanes = c->lanes;
    size_t active = active_at(c, 0), end = c->count - (active - 1) * c->steps;
    for (size_t t = 0, x = 0, y = 0; t < c->steps && active; t++) {
        const uint8_t *const around = m->around + t * lanes, *const bits = m->bits + t * lanes;
        uint32_t(*const to)[2 * AROUND] = &part[0][(y & 1) << 1 | (x & 1)];
        size_t j = 0;
        for (; j + PARTS <= active; j += PARTS)
            for (size_t k = 0; k < PARTS; k++)
                to[4 * k][around[j + k] | (unsigned)bits[j + k] << 8]++;
        for (; j < active; j++) to[0][around[j] | (unsigned)bits[j] << 8]++;
        if (++x == c->width) x = 0, y = y + 1 == c->height ? 0 : y + 1;
        if (t + 1 == end) active--, end = c->steps;
    }
    for (unsigned place = 0; place < 4; place++)
        for (unsigned i = 0; i < 2 * AROUND; i++)
            count[number_of(place, i % AROUND)][i / AROUND] =
                part[0][place][i] + part[1][place][i] + part[2][place][i] + part[3][place][i];
}

static void contexts_of(const struct pithi_zero_cut *c, const struct memory *m) {
    uint8_t class_of[PITHI_ZERO_LANES_MOST];
    const size_t row = c->width * c->lanes;
    for (size_t r = 0; r < c->share * c->height; r++) {
        const size_t y = r % c->height;
        if (y == 0) classes_at(c, m->classes, r / c->height, class_of);
        row_around(m->bits + r * row, c->lanes, c->width, y, class_of, m->around + r * row);
    }
}

void pithi_zero_lanes_plan(struct pithi_zero_plan *plan, void *scratch, size_t max_count,
                           const uint8_t *map, const uint32_t extent[PITHI_TILE_NDIM]) {
    const struct pithi_zero_cut c = pithi_zero_cut_of(extent, plan->log2_lanes);
    const struct memory m = memory_of(scratch, max_count);
    struct pithi_zero_costs costs;
    uint64_t fewest = UINT64_MAX, without = UINT64_MAX;
    counts_of count[2 * CONTEXTS + CONTEXTS / 4]; /* masks together have fewer contexts */
    counts_of *of[MASKS] = {NULL};
    size_t chosen = 0;
    bits_of_map(&c, map, m.bits);
    choose_classes(&c, map, m.classes);
    contexts_of(&c, &m);
    count_bits(count, &c, &m);
    costs_of(&costs);
    of[MASKS - 1] = count;
    for (size_t i = MASKS; i--;) {
        const unsigned mask = masks[i].mask, from = masks[i].from;
        if (i < MASKS - 1) merge(of[i], mask, of[from], masks[from].mask);
        if (i) of[i - 1] = of[i] + contexts_with(mask);
        if (masks[i].least > c.count / 64) continue;
        const uint64_t sum = bits_with(&costs, &c, of[i], mask);
        if (sum < without && !(mask & PITHI_ZERO_PLACE)) without = sum;
        if (sum > fewest) continue;
        fewest = sum;
        chosen = i;
    }
    plan->mask = masks[chosen].mask;
    memcpy(plan->count, of[chosen], contexts_with(plan->mask) * sizeof *count);
    plan->places = fewest < without - without / 16;
    plan->bytes = HEAD + 3 * c.lanes + (size_t)(fewest >> 3);
}

/* ---- Write -----------------------------------------------------------------------------------*/

/* Writes classes and levels, and returns what follows; NULL when that would be beyond `end`. */
static uint8_t *put_levels(const struct pithi_zero_plan *plan, const struct pithi_zero_cut *c,
                           const uint8_t *classes, uint8_t level[CONTEXTS], uint8_t *at,
                           const uint8_t *end) {
    const unsigned mask = plan->mask;
    const size_t most = pithi_zero_levels_most(c->planes, mask, contexts_with(mask));
    const counts_of *count = plan->count;
    struct pithi_rans_bits b = {at, 0, 0};
    struct pithi_zero_costs costs;
    if ((size_t)(end - at) < most) return NULL;
    for (size_t p = 0; p < c->planes; p++)
        for (unsigned i = 0; i < 2; i++)
            if (mask >> (CLASS_BIT + i) & 1) pithi_rans_put_bits(&b, classes[p] >> i & 1u, 1);
    costs_of(&costs);
    for (unsigned n = 0; n < CONTEXTS; n++) {
        if (n & ~mask) continue;
        const unsigned from = pithi_zero_told_from(level, n);
        level[n] = (uint8_t)pithi_zero_choose_level(&costs, *count++, from);
        pithi_zero_put_difference(&b, pithi_zero_difference(level[n], from));
    }
    if (b.count) *b.at++ = (uint8_t)b.held;
    return b.at;
}

/* A run of steps in which the same lanes are active, from step t on and in its row. */
static struct pithi_zero_run run_at(const struct pithi_zero_cut *c,
                                    const pithi_zero_chances chances[2], const struct memory *m,
                                    size_t t) {
    const size_t x = t % c->width, y = t / c->width % c->height;
    struct pithi_zero_run r = {.chances = &chances[y & 1],
                               .around = m->around + t * c->lanes,
                               .bits = m->bits + t * c->lanes,
                               .steps = c->width - x,
                               .x = x,
                               .lanes = (unsigned)c->lanes,
                               .active = active_at(c, t)};
    if (r.active) r.steps = pithi_min(r.steps, c->count - (r.active - 1) * c->steps - t);
    return r;
}

size_t pithi_zero_lanes_put(const struct pithi_zero_plan *plan, const struct pithi_kernels *kernels,
                            void *scratch, size_t max_count, const uint32_t extent[PITHI_TILE_NDIM],
                            uint8_t *to, size_t cap) {
    const struct pithi_zero_cut c = pithi_zero_cut_of(extent, plan->log2_lanes);
    const struct memory m = memory_of(scratch, max_count);
    pithi_zero_chances chances[2];
    uint8_t level[CONTEXTS];
    uint32_t state[PITHI_ZERO_LANES_MOST];
    uint8_t *const end = to + cap;
    if (cap < HEAD) return 0;
    to[0] = (uint8_t)plan->log2_lanes;
    pithi_put16(to + 1, (uint16_t)plan->mask);
    uint8_t *const states = put_levels(plan, &c, m.classes, level, to + HEAD, end);
    if (!states || (size_t)(end - states) < 4 * c.lanes) return 0;
    chances_of(chances, level, plan->mask);
    for (size_t j = 0; j < c.lanes; j++) state[j] = PITHI_RANS_LOW;
    uint8_t *words = end;
    /* Rows backward; within the one in which a lane ends two runs. */
    for (size_t t = c.steps; t && words;) {
        const size_t row = (t - 1) / c.width * c.width;
        struct pithi_zero_run r = run_at(&c, chances, &m, row);
        if (row + r.steps < t) r = run_at(&c, chances, &m, row + r.steps);
        t -= r.steps;
        words = kernels->zero_encode(&r, state, states + 4 * c.lanes, words);
    }
    if (!words) return 0;
    for (size_t j = 0; j < c.lanes; j++) pithi_put32(states + 4 * j, state[j]);
    memmove(states + 4 * c.lanes, words, (size_t)(end - words));
    return (size_t)(states + 4 * c.lanes - to) + (size_t)(end - words);
}

/* ---- Read ------------------------------------------------------------------------------------*/

/* Reads classes and levels; returns what follows, NULL when they are damaged. */
static const uint8_t *take_levels(const struct pithi_zero_cut *c, unsigned mask, uint8_t *classes,
                                  uint8_t level[CONTEXTS], const uint8_t *at, const uint8_t *end) {
    struct pithi_rans_bit_reader b = {at, end, 0, 0, false};
    for (size_t p = 0; p < c->planes; p++) {
        classes[p] = 0;
        for (unsigned i = 0; i < 2; i++)
            if (mask >> (CLASS_BIT + i) & 1)
                classes[p] = (uint8_t)(classes[p] | pithi_rans_take_bits(&b, 1) << i);
    }
    for (unsigned n = 0; n < CONTEXTS; n++)
        if (!(n & ~mask) && !pithi_zero_take_level(&b, level, n)) return NULL;
    return b.short_of || b.held ? NULL : b.at;
}

static const uint8_t *take_bits(const struct pithi_kernels *kernels, const struct pithi_zero_cut *c,
                                const pithi_zero_chances chances[2], const struct memory *m,
                                uint32_t *state, const uint8_t *words, const uint8_t *end) {
    uint8_t class_of[PITHI_ZERO_LANES_MOST];
    for (size_t t = 0; t < c->steps && words;) {
        const size_t x = t % c->width, y = t / c->width % c->height;
        struct pithi_zero_run r = run_at(c, chances, m, t);
        r.around = m->around + x * c->lanes;
        if (x == 0) {
            if (y == 0) classes_at(c, m->classes, t / c->width / c->height, class_of);
            row_above(r.bits, c->lanes, c->width, y, class_of, m->around);
        }
        words = kernels->zero_decode(&r, state, words, end);
        t += r.steps;
    }
    return words;
}

bool pithi_zero_lanes_take(const struct pithi_kernels *kernels, void *scratch, size_t max_count,
                           const uint32_t extent[PITHI_TILE_NDIM], const uint8_t *from,
                           size_t length, uint8_t *map) {
    const uint8_t *const end = from + length;
    const struct memory m = memory_of(scratch, max_count);
    pithi_zero_chances chances[2];
    uint8_t level[CONTEXTS];
    uint32_t state[PITHI_ZERO_LANES_MOST];
    if (length < HEAD || from[0] > PITHI_ZERO_LOG2_LANES_MOST) return false;
    const struct pithi_zero_cut c = pithi_zero_cut_of(extent, from[0]);
    const unsigned mask = pithi_get16(from + 1);
    if (mask >= CONTEXTS) return false;
    const uint8_t *at = take_levels(&c, mask, m.classes, level, from + HEAD, end);
    if (!at || (size_t)(end - at) < 4 * c.lanes) return false;
    for (size_t j = 0; j < c.lanes; j++, at += 4) {
        state[j] = pithi_get32(at);
        if (state[j] < PITHI_RANS_LOW) return false;
    }
    chances_of(chances, level, mask);
    if (take_bits(kernels, &c, chances, &m, state, at, end) != end) return false;
    for (size_t j = 0; j < c.lanes; j++)
        if (state[j] != PITHI_RANS_LOW) return false;
    map_of_bits(&c, m.bits, map);
    return true;
}
