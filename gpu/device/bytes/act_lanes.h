/* act_lanes.h - zero maps of act in lanes, read and made.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A lane takes one bit after the other, so that a warp has a map, a thread of it a lane; all lanes
 * are at the same place of a plane at the same time. predict/zero_choice.h decides as for the
 * CPU. */
#ifndef PITHI_GPU_DEVICE_BYTES_ACT_LANES_H
#define PITHI_GPU_DEVICE_BYTES_ACT_LANES_H

#include "device/bytes/strings_decode.h"

/* Returns where the memory of pithi_act_tail_bytes begins, behind the parts of a block. */
PITHI_DEVICE uint8_t *pithi_act_tail(const struct pithi_device_plan *p,
                                     const struct pithi_gpu_shared *s) {
    return pithi_lossless_part(
        s, pithi_lossless_parts(p) + PITHI_STRINGS_SYMBOLS - s->rans.bounded.part);
}

/* The element that the thread's lane is at, `step` bits from its first; whether it has one. */
PITHI_DEVICE bool pithi_lanes_at(const struct pithi_zero_cut *c, uint32_t lane, uint64_t step,
                                 uint64_t *at) {
    *at = lane * (uint64_t)c->steps + step;
    return lane < c->lanes && *at < c->count;
}
/* The next word of the lanes that vote, in their order: how many come before the thread's. */
PITHI_DEVICE uint32_t pithi_lanes_before(const struct pithi_gpu_thread *t) {
    return pithi_ones32(t->rans.votes & ((1u << t->tid % PITHI_WARP) - 1));
}

/* ---- Read ------------------------------------------------------------------------------------*/

/* By the team's first thread: levels and states behind a head; whether they can be so. */
PITHI_DEVICE bool pithi_lanes_parse(struct pithi_gpu_lanes *l, const uint8_t *at,
                                    const uint8_t *end) {
    const uint64_t bits = pithi_zero_class_bits(l->cut.planes, l->mask);
    if (bits / 8 > (uint64_t)(end - at)) return false;
    struct pithi_rans_bit_reader b = {at + bits / 8, end, 0, 0, false};
    pithi_rans_take_bits(&b, bits % 8);
    for (uint32_t n = 0; n < PITHI_ZERO_CONTEXTS; n++) {
        if (n & ~l->mask) continue;
        if (!pithi_zero_take_level(&b, l->level, n)) return false;
        l->chance[n] = (uint16_t)pithi_zero_chance(l->level[n]);
    }
    if (b.short_of || b.held || (uint64_t)(end - b.at) < 4 * l->cut.lanes) return false;
    l->classes = at;
    l->states = (uint8_t *)(uintptr_t)b.at;
    l->words = (uint32_t)((uint64_t)(end - b.at) - 4 * l->cut.lanes) / 2;
    return ((uint64_t)(end - b.at) - 4 * l->cut.lanes) % 2 == 0;
}
PITHI_PHASE(pithi_lanes_open, uint64_t block) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a, (void)block;
    if (t->tid) return;
    const uint8_t *const size = pithi_planes_take(s, PITHI_ZERO_FORM - 1);
    const uint32_t length = size ? size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16 : 0;
    const uint8_t *const head = size ? pithi_planes_take(s, length) : NULL;
    s->rans.fault = 1;
    if (!head || length < PITHI_ZERO_HEAD || head[0] > PITHI_ZERO_LOG2_LANES_MOST) return;
    l->cut = pithi_zero_cut_of(s->rans.bounded.block.tile.extent, head[0]);
    l->mask = head[1] | (uint32_t)head[2] << 8;
    if (l->mask >= PITHI_ZERO_CONTEXTS) return;
    s->rans.fault = !pithi_lanes_parse(l, head + PITHI_ZERO_HEAD, head + length);
}

/* rest: the class of the lane's plane; symbol: the bits to the left. */
PITHI_PHASE(pithi_lanes_begin, uint32_t unused) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a, (void)unused;
    t->rans.words = t->rans.rest = t->rans.symbol = t->rans.vote = 0;
    t->rans.x[0] = PITHI_RANS_LOW;
    if (t->tid < l->cut.lanes) t->rans.x[0] = pithi_get32(l->states + 4 * t->tid);
    /* The team's fault is still being read: other warps may be behind. */
    t->rans.fault = t->rans.x[0] < PITHI_RANS_LOW;
}
PITHI_LOCAL(pithi_lanes_plane, uint64_t plane) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint32_t low = l->mask >> PITHI_ZERO_CLASS_BIT & 1;
    const uint32_t high = l->mask >> (PITHI_ZERO_CLASS_BIT + 1) & 1;
    const uint64_t p = t->tid * (uint64_t)l->cut.share + plane;
    (void)a;
    t->rans.rest = 0;
    if (t->tid >= l->cut.lanes || p >= l->cut.planes) return;
    uint64_t bit = p * (low + high);
    if (low) t->rans.rest = l->classes[bit / 8] >> bit % 8 & 1;
    bit += low;
    if (high) t->rans.rest |= (l->classes[bit / 8] >> bit % 8 & 1u) << 1;
}
/* A bit of each lane, a byte in the workspace: where it is in the lane, and in its plane. */
PITHI_LOCAL(pithi_lanes_bit, uint64_t step, uint64_t x, uint64_t y) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint64_t width = l->cut.width;
    uint64_t at;
    t->rans.vote = 0;
    if (!pithi_lanes_at(&l->cut, t->tid, step, &at)) return;
    uint8_t *const bit = pithi_act_tail(&a->from.plan, s) + at;
    if (x == 0) t->rans.symbol = 0;
    uint32_t around = (t->rans.symbol & 1) | (t->rans.symbol & 2) << 3;
    if (y) around |= (uint32_t) * (bit - width) << 1;
    if (y && x + 1 < width) around |= (uint32_t) * (bit - width + 1) << 2;
    if (y && x) around |= (uint32_t) * (bit - width - 1) << 3;
    if (y > 1) around |= (uint32_t) * (bit - 2 * width) << 5;
    const uint32_t context = pithi_zero_context(around, x, y) | t->rans.rest
                                                                    << PITHI_ZERO_CLASS_BIT;
    const uint32_t one = l->chance[context & l->mask], slot = t->rans.x[0] % PITHI_RANS_SLOTS;
    const bool is = slot < one;
    t->rans.x[0] = (is ? one : PITHI_RANS_SLOTS - one) * (t->rans.x[0] >> PITHI_RANS_LOG2_SLOTS) +
                   slot - (is ? 0 : one);
    *bit = is;
    t->rans.symbol = t->rans.symbol << 1 | is;
    t->rans.vote = t->rans.x[0] < PITHI_RANS_LOW;
}
PITHI_LOCAL(pithi_lanes_word, uint64_t step) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint32_t word = t->rans.words + pithi_lanes_before(t);
    (void)a, (void)step;
    t->rans.words += pithi_ones32(t->rans.votes);
    if (!t->rans.vote) return;
    t->rans.x[0] <<= 16;
    if (word < l->words)
        t->rans.x[0] |= pithi_get16(l->states + 4 * l->cut.lanes + 2 * (uint64_t)word);
}
PITHI_PHASE(pithi_lanes_end, uint32_t unused) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a, (void)unused;
    if (t->tid >= PITHI_WARP) return;
    const bool left = t->tid < l->cut.lanes && t->rans.x[0] != PITHI_RANS_LOW;
    if (t->rans.fault || left || t->rans.words != l->words) pithi_atomic_max32(&s->rans.fault, 1);
}
PITHI_PHASE(pithi_lanes_map, uint32_t bytes) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint8_t *const bits = pithi_act_tail(&a->from.plan, s);
    for (uint32_t i = t->tid; i < bytes; i += PITHI_TEAM) {
        uint32_t byte = 0;
        for (uint32_t k = 0; k < 8 && 8 * i + k < e->block.count; k++)
            byte |= (uint32_t)bits[8 * i + k] << k;
        e->zeros.map[i] = (uint8_t)byte;
    }
}

/* Part of a body: the map of a block, a fault where it is damaged. */
PITHI_DEVICE void pithi_lanes_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t block) {
    const struct pithi_zero_cut *const c = &s->rans.lanes.cut;
    uint64_t step = 0;
    PITHI_RUN(pithi_lanes_open, block);
    if (s->rans.fault) return;
    PITHI_RUN(pithi_lanes_begin, 0);
    for (uint64_t row = 0, y = 0; row < c->share * c->height; row++) {
        if (y == 0) PITHI_STEP(pithi_lanes_plane, row / c->height);
        for (uint64_t x = 0; x < c->width; x++, step++) {
            PITHI_STEP(pithi_lanes_bit, step, x, y);
            PITHI_WARP_VOTE(rans.vote, rans.votes);
            PITHI_STEP(pithi_lanes_word, step);
        }
        y = y + 1 == c->height ? 0 : y + 1;
    }
    PITHI_RUN(pithi_lanes_end, 0);
    PITHI_RUN(pithi_lanes_map, s->rans.bounded.zeros.n[0]);
}

/* ---- Choice ----------------------------------------------------------------------------------*/

/* Bytes of the classes of planes, and of the map in lanes, whose words end there. */
PITHI_DEVICE uint8_t *pithi_lanes_classes(const struct pithi_device_plan *p,
                                          const struct pithi_gpu_shared *s) {
    return pithi_act_tail(p, s) + 4 * s->rans.words.run;
}
PITHI_DEVICE uint32_t pithi_lanes_capacity(const struct pithi_gpu_shared *s) {
    return s->rans.bounded.block.count / 4 + PITHI_ZEROS_SLACK;
}
PITHI_DEVICE uint32_t pithi_lanes_map_bit(const uint8_t *map, uint32_t at) {
    return map[at / 8] >> at % 8 & 1;
}
/* The context of element `at` of the map, which is in a plane of this class. */
PITHI_DEVICE uint32_t pithi_lanes_context(const struct pithi_zero_cut *c, const uint8_t *map,
                                          const uint8_t *classes, uint32_t at) {
    const uint32_t width = (uint32_t)c->width, area = width * (uint32_t)c->height;
    const uint32_t x = at % area % width, y = at % area / width;
    uint32_t around = 0;
    if (x) around |= pithi_lanes_map_bit(map, at - 1);
    if (x > 1) around |= pithi_lanes_map_bit(map, at - 2) << 4;
    if (y) around |= pithi_lanes_map_bit(map, at - width) << 1;
    if (y && x + 1 < width) around |= pithi_lanes_map_bit(map, at - width + 1) << 2;
    if (y && x) around |= pithi_lanes_map_bit(map, at - width - 1) << 3;
    if (y > 1) around |= pithi_lanes_map_bit(map, at - 2 * width) << 5;
    return pithi_zero_context(around, x, y) | (uint32_t)classes[at / area] << PITHI_ZERO_CLASS_BIT;
}

PITHI_PHASE(pithi_lanes_clear, uint32_t unused) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < PITHI_ZERO_CONTEXTS; i += PITHI_TEAM)
        l->count[i][0] = l->count[i][1] = 0;
    for (uint32_t i = t->tid; i < PITHI_ZERO_BINS; i += PITHI_TEAM) l->planes[i] = 0;
    if (t->tid < PITHI_ZERO_LEVELS) {
        l->costs.of[t->tid][0] = pithi_zero_one_cost(PITHI_ZERO_LEVELS - 1 - t->tid);
        l->costs.of[t->tid][1] = pithi_zero_one_cost(t->tid);
    }
    if (t->tid) return;
    l->fewest = UINT64_MAX;
    l->cost = 0;
    l->mask = 0;
}
PITHI_PHASE(pithi_lanes_best, uint32_t unused) {
    struct pithi_zero_costs *const k = &s->rans.lanes.costs;
    (void)a, (void)unused;
    for (uint32_t share = t->tid; share <= PITHI_RANS_SLOTS; share += PITHI_TEAM) {
        uint32_t level = 0;
        while (pithi_zero_share_end(k, level) < share) level++;
        k->best[share] = (uint8_t)level;
    }
}

/* Planes by their ones, a thread each. */
PITHI_PHASE(pithi_lanes_bins, uint32_t planes) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint8_t *const map = s->rans.bounded.zeros.map;
    const uint32_t area = (uint32_t)(l->cut.width * l->cut.height);
    uint8_t *const classes = pithi_lanes_classes(&a->to.plan, s);
    for (uint32_t p = t->tid; p < planes; p += PITHI_TEAM) {
        const uint32_t first = p * area, left = (uint32_t)l->cut.count - first;
        const uint32_t end = first + (left < area ? left : area);
        uint32_t ones = 0;
        for (uint32_t i = first / 8; 8 * i < end; i++) {
            uint32_t byte = map[i];
            if (8 * i < first) byte &= 255u << first % 8;
            if (end - 8 * i < 8) byte &= (1u << end % 8) - 1;
            ones += pithi_ones32(byte);
        }
        classes[p] = pithi_zero_bin(ones, end - first);
        pithi_atomic_add32(&l->planes[classes[p]], 1);
    }
}
/* The class of each bin, for now where levels are. */
PITHI_PHASE(pithi_lanes_class_of, uint32_t planes) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    uint32_t below = 0;
    (void)a;
    if (t->tid >= PITHI_ZERO_BINS) return;
    for (uint32_t b = 0; b < t->tid; b++) below += l->planes[b];
    l->level[t->tid] = pithi_zero_class(below, l->planes[t->tid], planes);
}
PITHI_PHASE(pithi_lanes_classify, uint32_t planes) {
    uint8_t *const classes = pithi_lanes_classes(&a->to.plan, s);
    for (uint32_t p = t->tid; p < planes; p += PITHI_TEAM)
        classes[p] = s->rans.lanes.level[classes[p]];
}
PITHI_PHASE(pithi_lanes_count, uint32_t count) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint8_t *const map = s->rans.bounded.zeros.map;
    const uint8_t *const classes = pithi_lanes_classes(&a->to.plan, s);
    for (uint32_t i = t->tid; i < count; i += PITHI_TEAM)
        pithi_atomic_add32(
            &l->count[pithi_lanes_context(&l->cut, map, classes, i)][pithi_lanes_map_bit(map, i)],
            1);
}

/* The counts of contexts that are made of the bits of a mask. */
PITHI_PHASE(pithi_lanes_merge_clear, uint32_t unused) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < PITHI_ZERO_CONTEXTS; i += PITHI_TEAM)
        l->merged[i][0] = l->merged[i][1] = 0;
}
PITHI_PHASE(pithi_lanes_merge_add, uint32_t mask) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a;
    for (uint32_t i = t->tid; i < PITHI_ZERO_CONTEXTS; i += PITHI_TEAM)
        for (uint32_t bit = 0; bit < 2; bit++)
            if (l->count[i][bit]) pithi_atomic_add32(&l->merged[i & mask][bit], l->count[i][bit]);
}
PITHI_PHASE(pithi_lanes_cost, uint32_t mask) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    uint64_t cost = 0;
    (void)a;
    for (uint32_t i = t->tid; i < PITHI_ZERO_CONTEXTS; i += PITHI_TEAM)
        if (!(i & ~mask)) cost += pithi_zero_context_cost(&l->costs, l->merged[i]);
    pithi_atomic_add64(&l->cost, cost);
}
PITHI_PHASE(pithi_lanes_judge, uint32_t mask) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a;
    if (t->tid) return;
    const uint64_t bits = ((uint64_t)pithi_zero_class_bits(l->cut.planes, mask) << 8) + l->cost;
    l->cost = 0;
    if (bits >> 8 > l->fewest) return;
    l->fewest = bits >> 8;
    l->mask = mask;
}

/* Mask i of those that are tried, and the least map, 16 bits up. */
#define ONE(mask, least, from) +1
enum { PITHI_LANES_MASKS = 0 PITHI_ZERO_MASKS(ONE) };
#undef ONE
PITHI_DEVICE uint32_t pithi_lanes_mask(uint32_t i) {
    uint32_t number = 0;
#define MASK(mask, least, from) \
    if (number++ == i) return (mask) | (least) << 16;
    PITHI_ZERO_MASKS(MASK)
#undef MASK
    return 0;
}

PITHI_DEVICE void pithi_lanes_merge(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint32_t mask) {
    PITHI_RUN(pithi_lanes_merge_clear, 0);
    PITHI_RUN(pithi_lanes_merge_add, mask);
}
/* Part of a body: the mask, and about how many bits the map takes. */
PITHI_DEVICE void pithi_lanes_plan(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint32_t count = s->rans.bounded.block.count;
    const uint32_t planes = (uint32_t)s->rans.lanes.cut.planes;
    PITHI_RUN(pithi_lanes_clear, 0);
    PITHI_RUN(pithi_lanes_best, 0);
    PITHI_RUN(pithi_lanes_bins, planes);
    PITHI_RUN(pithi_lanes_class_of, planes);
    PITHI_RUN(pithi_lanes_classify, planes);
    PITHI_RUN(pithi_lanes_count, count);
    for (uint32_t i = PITHI_LANES_MASKS; i-- > 0;) {
        const uint32_t mask = pithi_lanes_mask(i) & 0xFFFF;
        if (pithi_lanes_mask(i) >> 16 > count / 64) continue;
        pithi_lanes_merge(a, s, t, team, mask);
        PITHI_RUN(pithi_lanes_cost, mask);
        PITHI_RUN(pithi_lanes_judge, mask);
    }
    const uint32_t chosen = s->rans.lanes.mask;
    pithi_lanes_merge(a, s, t, team, chosen);
}

/* ---- Write -----------------------------------------------------------------------------------*/

/* Classes and levels, where a map may take so many bytes; capacity 0: it takes more. */
PITHI_PHASE(pithi_lanes_levels, uint32_t limit) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const struct pithi_zero_cut *const c = &l->cut;
    const uint8_t *const classes = pithi_lanes_classes(&a->to.plan, s);
    if (t->tid) return;
    uint8_t *const to = s->rans.bounded.zeros.piece;
    const uint64_t contexts = UINT64_C(1) << pithi_ones32(l->mask);
    const uint64_t most = PITHI_ZERO_HEAD + pithi_zero_levels_most(c->planes, l->mask, contexts);
    struct pithi_rans_bits b = {to + PITHI_ZERO_HEAD, 0, 0};
    l->capacity = 0;
    if (limit < most) return;
    to[0] = (uint8_t)pithi_zero_log2_lanes(c->count);
    to[1] = (uint8_t)l->mask;
    to[2] = (uint8_t)(l->mask >> 8);
    for (uint32_t p = 0; p < c->planes; p++)
        for (uint32_t i = 0; i < 2; i++)
            if (l->mask >> (PITHI_ZERO_CLASS_BIT + i) & 1)
                pithi_rans_put_bits(&b, classes[p] >> i & 1u, 1);
    for (uint32_t n = 0; n < PITHI_ZERO_CONTEXTS; n++) {
        if (n & ~l->mask) continue;
        const uint32_t from = pithi_zero_told_from(l->level, n);
        l->level[n] = (uint8_t)pithi_zero_choose_level(&l->costs, l->merged[n], from);
        l->chance[n] = (uint16_t)pithi_zero_chance(l->level[n]);
        pithi_zero_put_difference(&b, pithi_zero_difference(l->level[n], from));
    }
    if (b.count) *b.at++ = (uint8_t)b.held;
    l->states = b.at;
    const uint64_t head = (uint64_t)(b.at - to) + 4 * c->lanes;
    if (head > limit) return;
    l->capacity = limit;
    l->head = (uint32_t)head;
    l->words = (limit - l->head) / 2;
}

PITHI_LOCAL(pithi_lanes_start, uint32_t unused) {
    (void)a, (void)s, (void)unused;
    t->rans.words = 0;
    t->rans.x[0] = PITHI_RANS_LOW;
}
/* The last bit of each lane that is not written yet: its frequency, 0 where there is none, and
 * where that begins. */
PITHI_LOCAL(pithi_lanes_look, uint64_t step) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint8_t *const map = s->rans.bounded.zeros.map;
    uint64_t at;
    t->rans.of[0] = t->rans.vote = 0;
    if (!pithi_lanes_at(&l->cut, t->tid, step, &at)) return;
    const uint32_t context =
        pithi_lanes_context(&l->cut, map, pithi_lanes_classes(&a->to.plan, s), (uint32_t)at);
    const uint32_t one = l->chance[context & l->mask];
    const bool bit = pithi_lanes_map_bit(map, (uint32_t)at);
    t->rans.of[0] = bit ? one : PITHI_RANS_SLOTS - one;
    t->rans.symbol = bit ? 0 : one;
    t->rans.vote = t->rans.x[0] >> (32 - PITHI_RANS_LOG2_SLOTS) >= t->rans.of[0];
}
PITHI_LOCAL(pithi_lanes_give, uint64_t step) {
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    const uint32_t f = t->rans.of[0];
    (void)a, (void)step;
    t->rans.words += pithi_ones32(t->rans.votes);
    if (t->rans.vote) {
        const uint32_t back = t->rans.words - pithi_lanes_before(t);
        uint8_t *const end = s->rans.bounded.zeros.piece + pithi_lanes_capacity(s);
        if (back <= l->words) pithi_put16(end - 2 * (uint64_t)back, (uint16_t)t->rans.x[0]);
        t->rans.x[0] >>= 16;
    }
    if (f)
        t->rans.x[0] =
            (t->rans.x[0] / f << PITHI_RANS_LOG2_SLOTS) + t->rans.symbol + t->rans.x[0] % f;
}
PITHI_PHASE(pithi_lanes_close, uint32_t unused) {
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)a, (void)unused;
    if (t->tid < l->cut.lanes) pithi_put32(l->states + 4 * t->tid, t->rans.x[0]);
    if (t->tid == 0 && t->rans.words <= l->words)
        l->length = PITHI_ZERO_FORM + l->head + 2 * t->rans.words;
}

/* Part of a body: a map that was planned, where it takes at most so many bytes. */
PITHI_DEVICE void pithi_lanes_write(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint32_t limit) {
    PITHI_RUN(pithi_lanes_levels, limit);
    if (!s->rans.lanes.capacity) return;
    PITHI_STEP(pithi_lanes_start, 0);
    for (uint64_t step = s->rans.lanes.cut.steps; step-- > 0;) {
        PITHI_STEP(pithi_lanes_look, step);
        PITHI_WARP_VOTE(rans.vote, rans.votes);
        PITHI_STEP(pithi_lanes_give, step);
    }
    PITHI_RUN(pithi_lanes_close, 0);
}

#endif
