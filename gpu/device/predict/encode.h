/* encode.h - values to frames of codec eb, fast mode.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Launches: the extremes of all values, where the bound depends on them; codes, samples of their
 * differences, widths of groups, a team a part of a block; what each block will look like, a team a
 * block; where blocks stand, a team a frame; their bytes, a team a part; checksums, a team a
 * block. */
#ifndef PITHI_GPU_DEVICE_PREDICT_ENCODE_H
#define PITHI_GPU_DEVICE_PREDICT_ENCODE_H

#include "device/group/encode.h"
#include "device/predict/interp.h"

/* ---- Extremes --------------------------------------------------------------------------------*/

/* Numbers that grow with the value, and with its negative; never 0 for finite ones. */
PITHI_DEVICE uint32_t pithi_mark_of(uint32_t u) { return (uint32_t)pithi_order(u) ^ 0x80000000u; }
PITHI_DEVICE double pithi_mark_value(uint32_t mark) {
    return (double)pithi_float((uint32_t)pithi_order(mark ^ 0x80000000u));
}

PITHI_PHASE(pithi_range_open, uint64_t number) {
    t->predict.low = t->predict.high = 0;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->strip.low = s->strip.high = 0;
}

PITHI_LOCAL(pithi_range_take, uint64_t tile) {
    const uint32_t dtype = a->to.plan.dtype;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, s->to.end);
        uint32_t v[PITHI_UNIT];
        pithi_unit_load(s->to.tensor + e * pithi_dtype_bytes(dtype), dtype, n, v);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            if (k >= n || pithi_nonfinite(v[k])) continue;
            const uint32_t mark = pithi_mark_of(v[k]);
            if (mark > t->predict.high) t->predict.high = mark;
            if (~mark > t->predict.low) t->predict.low = ~mark;
        }
    }
}

PITHI_PHASE(pithi_range_join, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP) return;
    pithi_atomic_max32(&s->strip.low, t->predict.low);
    pithi_atomic_max32(&s->strip.high, t->predict.high);
}

PITHI_PHASE(pithi_range_close, uint64_t number) {
    (void)number;
    if (t->tid || !s->strip.high) return;
    pithi_atomic_max32(&pithi_mark(a, s->to.index)->bounded.low, s->strip.low);
    pithi_atomic_max32(&pithi_mark(a, s->to.index)->bounded.high, s->strip.high);
}

PITHI_BODY(pithi_bounded_range) {
    PITHI_RUN(pithi_range_open, number);
    if (s->to.status != PITH_OK) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
        PITHI_STEP(pithi_range_take, tile);
    PITHI_WARP_MAX(predict.low, PITHI_WARP);
    PITHI_WARP_MAX(predict.high, PITHI_WARP);
    PITHI_RUN(pithi_range_join, number);
    PITHI_RUN(pithi_range_close, number);
}

/* Returns the bound of a frame, as the encoder of codec/predict/bounded.c has it. */
PITHI_DEVICE struct pithi_bound pithi_bound_requested(const struct pithi_device_plan *p,
                                                      const struct pithi_gpu_mark *m) {
    const struct pithi_requested *const q = &p->device.requested;
    const double low = m->bounded.high ? pithi_mark_value(~m->bounded.low) : 1;
    const double high = m->bounded.high ? pithi_mark_value(m->bounded.high) : 0;
    if (q->target == PITHI_TARGET_PWREL)
        return pithi_bound_relative(q->request, pithi_largest_of(low, high));
    if (q->target == PITHI_TARGET_ABS) return pithi_bound_absolute(p->dtype, q->request);
    return pithi_bound_share(p->dtype, q->request, q->range, low, high);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_part_clear, uint64_t number) {
    (void)a, (void)number;
    t->predict.total = 0;
    t->predict.low = t->predict.high = 0;
    if (t->tid < PITHI_PACK_MOST) s->strip.counts[t->tid] = 0;
    if (t->tid <= PITHI_TILE_NDIM) s->strip.bits[t->tid] = 0;
    if (t->tid == 0) s->strip.low = s->strip.high = s->strip.misses = 0;
}

PITHI_PHASE(pithi_part_open, uint64_t number) {
    pithi_part_clear(a, s, t, number);
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    pithi_block_open(a, &a->to, &s->to, number, &s->strip.block);
}

PITHI_PHASE(pithi_code_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    pithi_part_open(a, s, t, number);
    if (t->tid || !b->live) return;
    const struct pithi_bound bound = pithi_bound_requested(&a->to.plan, pithi_mark(a, s->to.index));
    pithi_quant_init(&b->quant, a->to.plan.dtype, &bound, a->to.plan.device.requested.signed_zeros);
}

/* v := the n elements of a tile from *p on, which moves behind them; run: they are neighbours in
 * the tensor, and aligned. */
PITHI_DEVICE void pithi_code_values(const struct pithi_gpu_item *it,
                                    const struct pithi_gpu_block *b, uint32_t width, uint32_t n,
                                    bool run, struct pithi_gpu_place *p, uint32_t v[8]) {
    if (run) {
        pithi_unit_get(it->tensor + p->at * width, width, n, v);
        p->at += n;
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        v[k] = 0;
        if (k >= n) continue;
        v[k] = pithi_own_get(it->tensor + p->at * width, width);
        pithi_place_next(&it->slot->tiling, &b->tile, p);
    }
}

/* A group: codes, and bits of what must be stored exactly. */
PITHI_DEVICE uint32_t pithi_code_group(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_item *it,
                                       const struct pithi_gpu_block *b, uint32_t g,
                                       struct pithi_gpu_thread *t) {
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), n = pithi_group_count(b, g);
    uint8_t *const codes = pithi_codes_of(&a->to, b) + 4 * (uint64_t)g * PITHI_GROUP;
    struct pithi_gpu_place p = pithi_place_of(&it->slot->tiling, &b->tile, g * PITHI_GROUP);
    const bool run =
        p.x[3] + n <= b->tile.extent[3] && pithi_is_aligned(it->tensor + p.at * width, 16);
    uint32_t miss = 0;
    int32_t last = 0;
    for (uint32_t done = 0; done < n; done += PITHI_UNIT) {
        const uint32_t some = n - done < PITHI_UNIT ? n - done : (uint32_t)PITHI_UNIT;
        uint32_t v[PITHI_UNIT];
        pithi_code_values(it, b, width, some, run, &p, v);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            int32_t code = 0;
            if (k >= some) continue;
            if (pithi_own_code(&b->quant, v[k], &code))
                last = code;
            else
                miss |= 1u << (done + k);
            v[k] = (uint32_t)last;
            if (v[k] > t->predict.high) t->predict.high = v[k];
            if (~v[k] > t->predict.low) t->predict.low = ~v[k];
        }
        pithi_unit_put(codes + 4 * done, 4, some, v);
    }
    return miss;
}

PITHI_PHASE(pithi_code_make, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    uint8_t *const map = pithi_misses_of(&a->to, b);
    (void)number;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        const uint32_t g = strip * PITHI_TEAM + t->tid;
        if (g >= b->groups) continue;
        const uint32_t miss = pithi_code_group(a, &s->to, b, g, t);
        map[2 * g] = (uint8_t)miss;
        if (pithi_group_count(b, g) > 8) map[2 * g + 1] = (uint8_t)(miss >> 8);
        t->predict.total += pithi_ones32(miss);
    }
}

PITHI_PHASE(pithi_code_join, uint64_t number) {
    (void)a, (void)number;
    if (t->tid % PITHI_WARP) return;
    pithi_atomic_max32(&s->strip.low, t->predict.low);
    pithi_atomic_max32(&s->strip.high, t->predict.high);
    pithi_atomic_add32(&s->strip.misses, (uint32_t)t->predict.total);
}

PITHI_PHASE(pithi_code_hand, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_part *const part = pithi_part_of(&a->to, b, b->part);
    (void)number;
    if (t->tid) return;
    part->low = s->strip.low;
    part->high = s->strip.high;
    part->misses = s->strip.misses;
}

/* What all parts of the block come to; sampled: bits of samples are known. */
PITHI_PHASE(pithi_parts_join, bool sampled) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid >= b->parts) return;
    const struct pithi_gpu_part *const part = pithi_part_of(&a->to, b, t->tid);
    pithi_atomic_max32(&s->strip.low, part->low);
    pithi_atomic_max32(&s->strip.high, part->high);
    pithi_atomic_add32(&s->strip.misses, part->misses);
    PITHI_UNROLL for (uint32_t i = 0; i <= PITHI_TILE_NDIM; i++) {
        if (sampled && part->bits[i]) pithi_atomic_add32(&s->strip.bits[i], part->bits[i]);
    }
}

/* Part of a body, behind that phase: whether one code is all of the block's. */
PITHI_DEVICE bool pithi_parts_constant(const struct pithi_gpu_shared *s) {
    return s->strip.high == ~s->strip.low;
}

/* ---- Differences -----------------------------------------------------------------------------*/

/* Where codes are read: of the tile as it is, or (map not NULL) as if a line had been quantized
 * from element `from` of the tile on, which matters to what is missed. */
struct pithi_gpu_line {
    const uint8_t *codes, *map;
    uint32_t from;
};

PITHI_DEVICE uint32_t pithi_line_code(const struct pithi_gpu_line *l, uint32_t e, uint32_t from) {
    if (!l->map) return pithi_get_aligned32(l->codes + 4 * (uint64_t)e);
    const uint32_t first = from + (e - from) / PITHI_GROUP * PITHI_GROUP;
    for (; l->map[e / 8] >> e % 8 & 1; e--)
        if (e == first) return 0;
    return pithi_get_aligned32(l->codes + 4 * (uint64_t)e);
}

/* The word of element e of the tile, which lies at x. */
PITHI_DEVICE uint32_t pithi_word_of(const struct pithi_tile *tile, const struct pithi_gpu_line *l,
                                    uint32_t order, const uint32_t x[PITHI_TILE_NDIM], uint32_t e) {
    uint32_t sum = 0;
    for (uint32_t mask = 0; mask < 1u << order; mask++) {
        uint32_t back = 0, stride = 1, odd = 0;
        bool inside = true;
        PITHI_UNROLL for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) {
            const uint32_t there = mask >> d & 1;
            inside = inside && x[PITHI_TILE_NDIM - 1 - d] >= there;
            back += there * stride;
            odd ^= there;
            stride *= tile->extent[PITHI_TILE_NDIM - 1 - d];
        }
        if (!inside) continue;
        const uint32_t code = pithi_line_code(l, e - back, l->from - (back - (mask & 1)));
        sum += odd ? 0u - code : code;
    }
    return pithi_zigzag(sum);
}

/* The words of group g, each of which is kept if there is a place for it; returns all or-ed. */
PITHI_DEVICE uint32_t pithi_words_of(const struct pithi_tiling *tiling,
                                     const struct pithi_gpu_block *b, const uint8_t *codes,
                                     uint32_t g, uint32_t (*keep)[PITHI_TEAM], uint32_t tid) {
    const struct pithi_gpu_line l = {codes, NULL, 0};
    const uint32_t first = g * PITHI_GROUP, n = pithi_group_count(b, g);
    const uint32_t row = pithi_tile_extent(&b->tile, 3);
    uint32_t any = 0;
    if (b->order < 2) { /* differences from the element before */
        uint32_t x = first % row;
        uint32_t last = b->order && x ? pithi_get_aligned32(codes + 4 * (uint64_t)first - 4) : 0;
        for (uint32_t done = 0; done < PITHI_GROUP; done += PITHI_UNIT) {
            const uint32_t left = n > done ? n - done : 0;
            uint32_t v[PITHI_UNIT];
            pithi_unit_get(codes + 4 * ((uint64_t)first + done), 4,
                           left < PITHI_UNIT ? left : (uint32_t)PITHI_UNIT, v);
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
                const uint32_t word = k < left ? pithi_zigzag(v[k] - (x ? last : 0)) : 0;
                if (keep) keep[done + k][tid] = word;
                any |= word;
                last = b->order ? v[k] : 0;
                x = x + 1 == row ? 0 : x + 1;
            }
        }
        return any;
    }
    struct pithi_gpu_place p = pithi_place_of(tiling, &b->tile, first);
    for (uint32_t k = 0; k < PITHI_GROUP; k++) {
        const uint32_t word = k < n ? pithi_word_of(&b->tile, &l, b->order, p.x, first + k) : 0;
        if (keep) keep[k][tid] = word;
        any |= word;
        if (k < n) pithi_place_next(tiling, &b->tile, &p);
    }
    return any;
}

/* The samples that pithi_strip_choose takes: at most 64 elements of a row, of one row in every
 * `step`. */
enum { PITHI_SAMPLE_GROUPS = PITHI_PACK_SAMPLE / PITHI_GROUP };
struct pithi_gpu_sample {
    uint32_t row, step, groups;
};
PITHI_DEVICE struct pithi_gpu_sample pithi_sample_of(const struct pithi_gpu_block *b) {
    const uint32_t extent = pithi_tile_extent(&b->tile, 3);
    struct pithi_gpu_sample from;
    from.row = extent < PITHI_PACK_SAMPLE ? extent : (uint32_t)PITHI_PACK_SAMPLE;
    from.step = from.row * pithi_pack_sample_step(b->count);
    from.groups = (b->count + from.step - 1) / from.step * PITHI_SAMPLE_GROUPS;
    return from;
}

/* Clears what all words of a group of samples come to, for each order and as many groups as a team
 * has threads. */
PITHI_PHASE(pithi_sample_clear, uint32_t most) {
    (void)a;
    for (uint32_t order = 0; order <= most; order++) s->strip.word[order][t->tid] = 0;
}

PITHI_PHASE(pithi_sample_take, uint32_t first, uint32_t end, uint32_t most) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_sample from = pithi_sample_of(b);
    const uint32_t extent = pithi_tile_extent(&b->tile, 3);
    const uint32_t n = end - first < PITHI_TEAM ? end - first : (uint32_t)PITHI_TEAM;
    struct pithi_gpu_line l = {pithi_codes_of(&a->to, b), pithi_misses_of(&a->to, b), 0};
    for (uint32_t i = t->tid; i < n * PITHI_GROUP; i += PITHI_TEAM) {
        const uint32_t group = first + i / PITHI_GROUP;
        const uint32_t at = group / PITHI_SAMPLE_GROUPS * from.step, x = at % extent;
        const uint32_t count =
            extent - x < PITHI_PACK_SAMPLE ? extent - x : (uint32_t)PITHI_PACK_SAMPLE;
        const uint32_t in = group % PITHI_SAMPLE_GROUPS * PITHI_GROUP + i % PITHI_GROUP;
        if (in >= count) continue;
        l.from = at - (x < PITHI_GROUP ? x : (uint32_t)PITHI_GROUP);
        const struct pithi_gpu_place p = pithi_place_of(&s->to.slot->tiling, &b->tile, at + in);
        for (uint32_t order = 0; order <= most; order++)
            pithi_atomic_or32(&s->strip.word[order][i / PITHI_GROUP],
                              pithi_word_of(&b->tile, &l, order, p.x, at + in));
    }
}

PITHI_PHASE(pithi_sample_count, uint32_t most) {
    (void)a;
    for (uint32_t order = 0; order <= most; order++)
        pithi_atomic_add32(&s->strip.bits[order],
                           pithi_bitplane_bits(s->strip.word[order][t->tid]));
}

PITHI_PHASE(pithi_sample_hand, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    if (t->tid <= PITHI_TILE_NDIM)
        pithi_part_of(&a->to, b, b->part)->bits[t->tid] = s->strip.bits[t->tid];
}

/* Part of a body: a part's share of the samples. */
PITHI_DEVICE void pithi_part_sample(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_parts_join, false);
    if (pithi_parts_constant(s)) return;
    const uint32_t most = pithi_tile_dimensions(&b->tile);
    const struct pithi_gpu_share share = pithi_share_of(b, pithi_sample_of(b).groups, 1);
    for (uint32_t first = share.from; first < share.to; first += PITHI_TEAM) {
        PITHI_RUN(pithi_sample_clear, most);
        PITHI_RUN(pithi_sample_take, first, share.to, most);
        PITHI_RUN(pithi_sample_count, most);
    }
    PITHI_RUN(pithi_sample_hand, 0);
}

/* A team a part. */
PITHI_BODY(pithi_bounded_sample) {
    PITHI_RUN(pithi_part_open, number);
    if (s->strip.block.live) pithi_part_sample(a, s, t, team);
}

PITHI_PHASE(pithi_order_choose, uint32_t most) {
    (void)a;
    if (t->tid) return;
    uint32_t best = 0;
    for (uint32_t order = 1; order <= most; order++)
        if (s->strip.bits[order] < s->strip.bits[best]) best = order;
    s->strip.block.order = best;
}

PITHI_PHASE(pithi_widths_count, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
    (void)number;
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        const uint32_t g = strip * PITHI_TEAM + t->tid;
        if (g >= b->groups) continue;
        const uint32_t any =
            pithi_words_of(&s->to.slot->tiling, b, pithi_codes_of(&a->to, b), g, NULL, 0);
        pithi_atomic_add32(&s->strip.counts[pithi_bitplane_bits(any)], 1);
    }
}

PITHI_PHASE(pithi_widths_hand, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)number;
    if (t->tid < PITHI_PACK_MOST)
        pithi_part_of(&a->to, b, b->part)->counts[t->tid] = s->strip.counts[t->tid];
}

/* Part of a body: how many of a part's groups have each width. */
PITHI_DEVICE void pithi_part_widths(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number) {
    PITHI_RUN(pithi_parts_join, true);
    if (pithi_parts_constant(s)) return;
    PITHI_RUN(pithi_order_choose, pithi_tile_dimensions(&s->strip.block.tile));
    PITHI_RUN(pithi_widths_count, number);
    PITHI_RUN(pithi_widths_hand, number);
}

/* A team a part. */
PITHI_BODY(pithi_bounded_widths) {
    PITHI_RUN(pithi_part_open, number);
    if (s->strip.block.live) pithi_part_widths(a, s, t, team, number);
}

/* ---- What a block will look like -------------------------------------------------------------*/

PITHI_PHASE(pithi_counts_join, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    for (uint32_t i = t->tid; i < b->parts * PITHI_PACK_MOST; i += PITHI_TEAM) {
        const uint32_t n =
            pithi_part_of(&a->to, b, i / PITHI_PACK_MOST)->counts[i % PITHI_PACK_MOST];
        if (n) pithi_atomic_add32(&s->strip.counts[i % PITHI_PACK_MOST], n);
    }
}

PITHI_PHASE(pithi_device_plan_begin, uint32_t tid) {
    (void)a;
    if (t->tid == tid) pithi_bitplane_begin(&s->strip.choice, s->strip.counts);
}
PITHI_PHASE(pithi_device_plan_extend, uint32_t k) {
    (void)a;
    if (t->tid < s->strip.choice.steps) pithi_bitplane_extend(&s->strip.choice, k, t->tid);
}

/* Part of a body: the four widths of the block's groups, by those of its parts. */
PITHI_DEVICE void pithi_plan_widths(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_RUN(pithi_counts_join, 0);
    PITHI_RUN(pithi_device_plan_begin, 0);
    for (uint32_t k = 1; k < PITHI_PACK_WIDTHS; k++) PITHI_RUN(pithi_device_plan_extend, k);
}

/* By one thread, of packed words: the table, for launches to come and for the team; returns the
 * bytes of all planes. */
PITHI_DEVICE uint64_t pithi_plan_table(struct pithi_gpu_shared *s, struct pithi_gpu_entry *entry) {
    const uint64_t bytes = pithi_bitplane_end(&s->strip.choice, entry->bounded.table);
    for (uint32_t k = 0; k < PITHI_PACK_WIDTHS; k++) s->strip.table[k] = entry->bounded.table[k];
    return bytes;
}

/* Widths and exact values of each part, by a thread each. */
PITHI_LOCAL(pithi_plan_part, bool packed) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    t->predict.total = 0;
    if (!packed || t->tid >= b->parts) return;
    const struct pithi_gpu_part *const part = pithi_part_of(&a->to, b, t->tid);
    for (uint32_t w = 0, name = 0; w < PITHI_PACK_MOST; w++) {
        while (name < PITHI_PACK_WIDTHS - 1 && s->strip.table[name] < w) name++;
        t->predict.total += part->counts[w] * s->strip.table[name];
    }
}
PITHI_LOCAL(pithi_plan_misses, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    t->predict.total = t->tid < b->parts ? pithi_part_of(&a->to, b, t->tid)->misses : 0;
}
PITHI_PHASE(pithi_plan_hand, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    if (t->tid >= b->parts) return;
    struct pithi_gpu_part *const part = pithi_part_of(&a->to, b, t->tid);
    part->widths_before = (uint32_t)pithi_scan_before(s, 0, t->tid);
    part->misses_before = (uint32_t)pithi_scan_before(s, 1, t->tid);
}

/* Part of a body: what stands before each part. */
PITHI_DEVICE void pithi_plan_parts(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   bool packed) {
    PITHI_STEP(pithi_plan_part, packed);
    PITHI_SCAN(0);
    PITHI_STEP(pithi_plan_misses, 0);
    PITHI_SCAN(1);
    PITHI_RUN(pithi_plan_hand, 0);
}

PITHI_PHASE(pithi_code_close, bool constant) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid) return;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), misses = s->strip.misses;
    const uint64_t raw = (uint64_t)b->count * width;
    uint64_t length = pithi_eb_body_at(b, misses, width);
    if (constant)
        length += PITHI_EB_CODE;
    else
        length += PITHI_PACK_WIDTHS + pithi_names_bytes(b) + pithi_plan_table(s, entry);
    entry->bounded.method = constant ? PITHI_EB_CONSTANT : PITHI_EB_PACKED;
    entry->bounded.order = constant ? 0 : (uint8_t)b->order;
    entry->bounded.misses = misses;
    entry->length = length < raw ? (uint32_t)length : (uint32_t)raw | PITHI_INDEX_PLAIN;
}

/* Part of a body: a block by what its parts are. */
PITHI_DEVICE void pithi_parts_plan(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_RUN(pithi_parts_join, true);
    const bool constant = pithi_parts_constant(s);
    if (!constant) {
        PITHI_RUN(pithi_order_choose, pithi_tile_dimensions(&s->strip.block.tile));
        pithi_plan_widths(a, s, t, team);
    }
    PITHI_RUN(pithi_code_close, constant);
    pithi_plan_parts(a, s, t, team, !constant);
}

/* A team a block. */
PITHI_BODY(pithi_bounded_plan) {
    PITHI_RUN(pithi_part_open, number);
    if (s->strip.block.live) pithi_parts_plan(a, s, t, team);
}

/* A team a part. Where a block is one part, and words are not coded, the team goes on with what
 * else are launches. */
PITHI_BODY(pithi_bounded_code) {
    PITHI_RUN(pithi_code_open, number);
    if (!s->strip.block.live) return;
    PITHI_RUN(pithi_code_make, number);
    PITHI_WARP_MAX(predict.low, PITHI_WARP);
    PITHI_WARP_MAX(predict.high, PITHI_WARP);
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_code_join, number);
    PITHI_RUN(pithi_code_hand, number);
    if (s->strip.block.parts > 1 || a->to.plan.device.coded) return;
    PITHI_RUN(pithi_part_clear, number);
    pithi_part_sample(a, s, t, team);
    PITHI_MEET(); /* what the parts came to is about to be cleared */
    PITHI_RUN(pithi_part_clear, number);
    pithi_part_widths(a, s, t, team, number);
    PITHI_MEET(); /* what the parts came to is about to be cleared */
    PITHI_RUN(pithi_part_clear, number);
    pithi_parts_plan(a, s, t, team);
}

/* ---- Places, index and header ----------------------------------------------------------------*/

PITHI_PHASE(pithi_frame_open, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    if (s->to.status == PITH_OK && !s->to.frame) s->to.status = PITH_ERR_ARG;
    if (s->to.status == PITH_OK) s->to.status = pithi_mark(a, s->to.index)->status;
    s->strip.block.workspace = pithi_frame_workspace(a, &a->to, s->to.index);
    s->strip.carry[0] = s->to.form->data;
}

PITHI_PHASE(pithi_place_length, uint64_t first) {
    const uint64_t i = first + t->tid;
    (void)a;
    t->predict.total = 0;
    if (i < s->to.slot->blocks)
        t->predict.total = pithi_entry(s->strip.block.workspace, i)->length & ~PITHI_INDEX_PLAIN;
}

PITHI_PHASE(pithi_place_block, uint64_t first) {
    const uint64_t i = first + t->tid, parity = first / PITHI_TEAM % 2;
    (void)a;
    if (i < s->to.slot->blocks)
        pithi_entry(s->strip.block.workspace, i)->at =
            s->strip.carry[parity] + pithi_scan_before(s, 0, t->tid);
    if (t->tid == 0) s->strip.carry[!parity] = s->strip.carry[parity] + pithi_scan_all(s, 0);
}

PITHI_PHASE(pithi_place_judge, uint64_t strips) {
    struct pithi_gpu_item *const it = &s->to;
    struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    if (t->tid) return;
    if (it->status == PITH_OK) {
        m->bytes = it->form->header_bytes + s->strip.carry[strips % 2];
        if (m->bytes > a->to.items.capacity) it->status = PITH_ERR_SPACE;
    }
    m->status = it->status;
}

PITHI_PHASE(pithi_place_index, uint64_t blocks) {
    const struct pithi_gpu_item *const it = &s->to;
    (void)a;
    for (uint64_t i = t->tid; i < blocks; i += PITHI_TEAM)
        pithi_put32(it->payload + 4 * i, pithi_entry(s->strip.block.workspace, i)->length);
    for (uint64_t i = 4 * blocks + t->tid; i < it->form->checks; i += PITHI_TEAM)
        it->payload[i] = 0;
}

/* Writes what the plan's header does not know, and answers for the item. */
PITHI_PHASE(pithi_place_header, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    const struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    (void)number;
    if (t->tid) return;
    if (it->status == PITH_OK) {
        const struct pithi_bound bound = pithi_bound_requested(&a->to.plan, m);
        const uint64_t fixed = it->slot->fixed_bytes;
        uint8_t *const section = pithi_bound_section(it);
        pithi_put64(it->frame + PITHI_AT_PAYLOAD, m->bytes - it->form->header_bytes);
        pithi_put32(section + PITHI_BOUND_KIND, bound.kind);
        pithi_put64(section + PITHI_BOUND_VALUE, pithi_bits64(bound.value));
        pithi_put64(section + PITHI_BOUND_LARGEST, pithi_bits64(bound.largest));
        pithi_put64(it->frame + fixed - 8,
                    pithi_header_hash(it->frame, fixed, it->form->header_bytes));
    }
    pithi_item_answer(&a->to.items, it, it->status == PITH_OK ? m->bytes : 1);
    if (it->status != PITH_OK) return;
    pithi_atomic_add64(&a->to.stream->frames, 1);
    pithi_step_count(it->slot_state);
}

/* Part of a body: the places of a frame's blocks, its index and its header. */
PITHI_DEVICE void pithi_place_blocks(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t number) {
    uint64_t strips = 0;
    PITHI_RUN(pithi_frame_open, number);
    if (s->to.status == PITH_OK) {
        for (uint64_t first = 0; first < s->to.slot->blocks; first += PITHI_TEAM, strips++) {
            PITHI_STEP(pithi_place_length, first);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_place_block, first);
        }
    }
    PITHI_MEET(); /* all have looked at the status: a slot may have no block */
    PITHI_RUN(pithi_place_judge, strips);
    if (s->to.status != PITH_OK) return;
    PITHI_RUN(pithi_place_index, s->to.slot->blocks);
    PITHI_RUN(pithi_write_header, &s->to);
}

PITHI_BODY(pithi_bounded_place) {
    pithi_place_blocks(a, s, t, team, number);
    PITHI_RUN(pithi_place_header, number);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

/* By the team's first thread: the place of its block, and of its parts up to the body behind a
 * head of so many bytes. Whether there is a head, and it is this team's. */
PITHI_DEVICE bool pithi_write_find(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   uint64_t number, uint32_t head) {
    struct pithi_gpu_block *const b = &s->strip.block;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    pithi_block_open(a, &a->to, &s->to, number, b);
    if (!b->live) return false;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    b->bytes = s->to.payload + entry->at;
    b->length = entry->length & ~PITHI_INDEX_PLAIN;
    b->plain = entry->length & PITHI_INDEX_PLAIN;
    b->method = entry->bounded.method;
    b->order = entry->bounded.order;
    b->misses = entry->bounded.misses;
    b->bitmap = b->misses > (b->count + 7) / 8 / 4;
    b->which = b->bytes + head + PITHI_EXACT_COUNT;
    b->values = b->which + pithi_exact_which_bytes(b, b->misses);
    b->body = b->values + (uint64_t)b->misses * pithi_dtype_bytes(a->to.plan.dtype);
    for (uint32_t k = 0; k < PITHI_PACK_WIDTHS; k++) s->strip.table[k] = entry->bounded.table[k];
    if (!b->plain && b->part == 0) pithi_put32(b->bytes + head, b->misses);
    return !b->plain && b->part == 0;
}

/* By one thread: the weights of classes that have some, the coarse level's first. */
PITHI_DEVICE void pithi_weights_put(const struct pithi_weights *w, const struct pithi_tile *tile,
                                    uint8_t *to) {
    for (uint32_t level = PITHI_WEIGHTED_LEVELS; level-- > 0;) *to++ = w->set[level];
    for (uint32_t level = PITHI_WEIGHTED_LEVELS; level-- > 0;)
        for (uint32_t k = 0; k < PITHI_WEIGHTED_CLASSES; k++) {
            if (!(w->set[level] >> k & 1)) continue;
            const uint32_t terms = pithi_class_terms(tile->extent, k + 1);
            for (uint32_t i = 0; i < terms; i++)
                for (uint32_t byte = 0; byte < PITHI_WEIGHT_BYTES; byte++)
                    *to++ = (uint8_t)((uint32_t)w->of[level][k][i] >> 8 * byte);
        }
}

PITHI_PHASE(pithi_write_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid || !pithi_write_find(a, s, number, PITHI_EB_HEAD)) return;
    b->bytes[0] = (uint8_t)b->method;
    b->bytes[1] = (uint8_t)b->order;
    uint8_t *const body = b->bytes + (b->body - b->bytes);
    if (b->method == PITHI_EB_CONSTANT)
        pithi_put32(body, pithi_get_aligned32(pithi_codes_of(&a->to, b)));
    else if (b->method == PITHI_EB_PACKED)
        for (uint32_t k = 0; k < PITHI_PACK_WIDTHS; k++) body[k] = s->strip.table[k];
    else if (b->method == PITHI_EB_WEIGHTED)
        pithi_weights_put(pithi_weights_of(&a->to, b), &b->tile, body);
}

PITHI_PHASE(pithi_write_plain, uint32_t width) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_tiling *const tiling = &s->to.slot->tiling;
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)a;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM) {
        const struct pithi_gpu_place p = pithi_place_of(tiling, &b->tile, i);
        pithi_own_put(b->bytes + (uint64_t)i * width, width,
                      pithi_own_get(s->to.tensor + p.at * width, width));
    }
}

/* Exact values, a strip of groups at a time: their numbers are sums over the groups before. */
PITHI_PHASE(pithi_misses_count, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    t->predict.total =
        g < b->groups ? pithi_ones32(pithi_map_bits(b, pithi_misses_of(&a->to, b), g)) : 0;
}

PITHI_PHASE(pithi_misses_write, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid, width = pithi_dtype_bytes(a->to.plan.dtype);
    uint64_t rank = pithi_scan_carry(s, t->tid, strip);
    if (g >= b->groups) return;
    const uint32_t bits = pithi_map_bits(b, pithi_misses_of(&a->to, b), g);
    uint8_t *const which = b->bytes + (b->which - b->bytes);
    uint8_t *const values = b->bytes + (b->values - b->bytes);
    for (uint32_t k = 0; b->bitmap && k < (pithi_group_count(b, g) + 7) / 8; k++)
        which[2 * g + k] = (uint8_t)(bits >> 8 * k);
    for (uint32_t k = 0; k < PITHI_GROUP; k++) {
        if (!(bits >> k & 1)) continue;
        const uint32_t i = g * PITHI_GROUP + k;
        const struct pithi_gpu_place p = pithi_place_of(&s->to.slot->tiling, &b->tile, i);
        if (!b->bitmap) pithi_put32(which + 4 * rank, i);
        pithi_own_put(values + rank++ * width, width,
                      pithi_own_get(s->to.tensor + p.at * width, width));
    }
}

/* Width and name of the thread's group, whose words come to `any` when or-ed. */
PITHI_DEVICE void pithi_group_name(struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                   uint32_t any) {
    const uint32_t bits = pithi_bitplane_bits(any);
    uint32_t name = 0;
    while (s->strip.table[name] < bits) name++;
    s->strip.name[t->tid] = (uint8_t)name;
    t->predict.total = s->strip.table[name];
}

/* The words of a strip's groups, their widths and names. */
PITHI_PHASE(pithi_words_make, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    t->predict.total = 0;
    s->strip.name[t->tid] = 0;
    if (g < b->groups)
        pithi_group_name(s, t,
                         pithi_words_of(&s->to.slot->tiling, b, pithi_codes_of(&a->to, b), g,
                                        s->strip.word, t->tid));
}

PITHI_PHASE(pithi_words_write, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint8_t *const body = b->bytes + (b->body - b->bytes);
    const uint64_t before = pithi_scan_carry(s, t->tid, strip);
    (void)a;
    if (g >= b->named) return;
    const uint8_t *const name = s->strip.name + t->tid;
    if (g % 4 == 0)
        body[PITHI_PACK_WIDTHS + g / 4] =
            (uint8_t)(name[0] | name[1] << 2 | name[2] << 4 | name[3] << 6);
    uint8_t *const planes = body + PITHI_PACK_WIDTHS + pithi_names_bytes(b) + 2 * before;
    uint32_t word[PITHI_GROUP];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_GROUP; k++) word[k] = s->strip.word[k][t->tid];
    for (uint32_t i = 0; i < s->strip.table[*name]; i++) {
        uint32_t plane = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_GROUP; k++) plane |= (word[k] >> i & 1) << k;
        pithi_own_put(planes + 2 * i, 2, plane);
    }
}

PITHI_PHASE(pithi_write_sum, uint64_t number) {
    const struct pithi_gpu_item *const it = &s->to;
    (void)a, (void)number;
    if (t->tid == 0)
        pithi_put64(it->payload + it->form->checks + 8 * s->strip.block.number, pithi_block_sum(s));
}

/* What is summed over strips begins, at this strip, with what stands before the part. */
PITHI_PHASE(pithi_carry_misses, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid == 0) s->strip.carry[strip % 2] = pithi_part_of(&a->to, b, b->part)->misses_before;
}
PITHI_PHASE(pithi_carry_widths, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid == 0) s->strip.carry[strip % 2] = pithi_part_of(&a->to, b, b->part)->widths_before;
}

/* What is stored as it is: all of the part, or its exact values. */
PITHI_DEVICE void pithi_write_values(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
    if (b->plain) PITHI_RUN(pithi_write_plain, pithi_dtype_bytes(a->to.plan.dtype));
    if (b->plain || !b->misses) return;
    PITHI_RUN(pithi_carry_misses, strips.from);
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        PITHI_STEP(pithi_misses_count, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_misses_write, strip);
    }
}

/* A team a part. */
PITHI_BODY(pithi_bounded_write) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_write_open, number);
    if (!b->live) return;
    pithi_write_values(a, s, t, team);
    if (b->plain || b->method != PITHI_EB_PACKED) return;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
    PITHI_RUN(pithi_carry_widths, strips.from);
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        PITHI_RUN(pithi_words_make, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_words_write, strip);
    }
}

/* The checksum of what was written. */
PITHI_DEVICE void pithi_write_check(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number) {
    if (!a->to.plan.checksums) return;
    PITHI_STEP(pithi_block_hash, PITHI_TEAM);
    PITHI_SCAN(0);
    PITHI_RUN(pithi_write_sum, number);
}

/* A launch of its own, a team a block. */
PITHI_PHASE(pithi_sum_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    pithi_block_open(a, &a->to, &s->to, number, b);
    if (!b->live) return;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    b->bytes = s->to.payload + entry->at;
    b->length = entry->length & ~PITHI_INDEX_PLAIN;
}

PITHI_BODY(pithi_bounded_sum) {
    PITHI_RUN(pithi_sum_open, number);
    if (s->strip.block.live) pithi_write_check(a, s, t, team, number);
}

#endif
