/* decode.h - frames of codec eb to values, a team a part of a block, after check.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Differences along rows are summed while words are unpacked; along other dimensions in the
 * workspace, a launch for each, and the values are then made in one more. What is added to a tensor
 * is made there first, exact values included. */
#ifndef PITHI_GPU_DEVICE_PREDICT_DECODE_H
#define PITHI_GPU_DEVICE_PREDICT_DECODE_H

#include "device/predict/interp.h"

/* ---- Values out ------------------------------------------------------------------------------*/

/* Element number `at` of the slot := bits of the frame's dtype, if it is wanted. */
PITHI_DEVICE void pithi_value_put(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                  const struct pithi_gpu_block *b, uint64_t at, uint32_t bits) {
    const uint32_t dtype = a->from.plan.dtype, out = a->from.items.dtype;
    const uint64_t shift = a->from.items.tensors ? a->first : 0;
    if (at < b->lo || at >= b->hi) return;
    uint8_t *const to = it->tensor + (at - shift) * pithi_dtype_bytes(out);
    uint32_t own = bits;
    if (a->add) {
        const uint32_t x = pithi_unit_round(PITH_F32, pithi_unit_widen(dtype, bits));
        const float held = pithi_float(pithi_load(to, out, 0));
        own = pithi_unit_round(out, pithi_bits(held + pithi_float(x)));
    } else if (out != dtype) {
        own = pithi_unit_round(out, pithi_unit_widen(dtype, bits));
    }
    pithi_own_put(to, pithi_dtype_bytes(out), own);
}

/* Element i of the tile, which lies at `at`: to the tensor, or to where sums are prepared. */
PITHI_DEVICE void pithi_value_make(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   const struct pithi_gpu_block *b, uint32_t i, uint64_t at,
                                   uint32_t bits) {
    if (a->add)
        pithi_put_aligned32(pithi_codes_of(&a->from, b) + 4 * (uint64_t)i, bits);
    else
        pithi_value_put(a, it, b, at, bits);
}

PITHI_PHASE(pithi_plain_read, uint32_t width) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share share = pithi_share_elements(b);
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM) {
        const struct pithi_gpu_place p = pithi_place_of(&s->from.slot->tiling, &b->tile, i);
        pithi_value_put(a, &s->from, b, p.at, pithi_own_get(b->bytes + (uint64_t)i * width, width));
    }
}

PITHI_PHASE(pithi_constant_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t bits = pithi_own_value(&b->quant, pithi_get32(b->body));
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)number;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM)
        pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                         bits);
}

/* ---- Packed words ----------------------------------------------------------------------------*/

/* The run of each part before the team's, by a thread each. */
PITHI_LOCAL(pithi_run_fetch, bool sums) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    t->predict.total = sums && t->tid < b->part ? pithi_part_of(&a->from, b, t->tid)->run : 0;
}

/* What stands before the part: widths, which are in scan 1 where words are packed, and runs, in
 * scan 0. */
PITHI_PHASE(pithi_strip_begin, uint32_t first) {
    (void)a;
    if (t->tid) return;
    s->strip.carry[first % 2] = s->strip.block.joined ? 0 : pithi_scan_all(s, 1) >> 32;
    s->strip.run[first % 2] = pithi_runs_before(s, 0, s->strip.block.part, 0);
}

/* Part of a body. */
PITHI_DEVICE void pithi_strips_begin(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint32_t first, bool sums) {
    if (!s->strip.block.joined) {
        PITHI_STEP(pithi_names_add, first);
        PITHI_SCAN(1);
    }
    PITHI_STEP(pithi_run_fetch, sums);
    PITHI_WARP_RUNS(predict.total);
    PITHI_RUN(pithi_scan_publish, 0);
    PITHI_RUN(pithi_strip_begin, first);
}

/* What rows have before the group; then values, or codes whose sums go on. */
PITHI_PHASE(pithi_strip_make, uint32_t strip, bool sums) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_tiling *const tiling = &s->from.slot->tiling;
    const uint32_t g = strip * PITHI_TEAM + t->tid, first = g * PITHI_GROUP;
    uint32_t before = 0;
    if (sums) {
        const uint64_t runs = pithi_runs_before(s, 1, t->tid, s->strip.run[strip % 2]);
        before = (uint32_t)runs;
        pithi_run_carry(s, t, strip, runs);
    }
    if (g >= b->groups) return;
    struct pithi_gpu_place p = pithi_place_of(tiling, &b->tile, first);
    const uint32_t width = pithi_dtype_bytes(a->from.plan.dtype);
    if (b->order < 2 && b->whole && !a->add && a->from.items.dtype == a->from.plan.dtype &&
        pithi_group_count(b, g) == PITHI_GROUP && p.x[3] + PITHI_GROUP <= b->tile.extent[3]) {
        if (p.x[3] == 0) before = 0;
        for (uint32_t done = 0; done < PITHI_GROUP; done += PITHI_UNIT) {
            uint32_t v[PITHI_UNIT];
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] =
                pithi_own_value(&b->quant, s->strip.word[done + k][t->tid] + before);
            pithi_unit_put(s->from.tensor + (p.at + done) * width, width, PITHI_UNIT, v);
        }
        return;
    }
    for (uint32_t k = 0; k < pithi_group_count(b, g); k++) {
        if (p.x[3] == 0) before = 0;
        const uint32_t code = s->strip.word[k][t->tid] + before;
        if (b->order > 1)
            pithi_put_aligned32(pithi_codes_of(&a->from, b) + 4 * (uint64_t)(first + k), code);
        else
            pithi_value_make(a, &s->from, b, first + k, p.at, pithi_own_value(&b->quant, code));
        pithi_place_next(tiling, &b->tile, &p);
    }
}

/* Sums along dimension d: a thread has lines of its own, a part some of them. */
PITHI_PHASE(pithi_sum_along, uint32_t d) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    uint8_t *const codes = pithi_codes_of(&a->from, b);
    const uint32_t extent = pithi_tile_extent(&b->tile, d);
    uint32_t stride = 1;
    for (uint32_t k = d + 1; k < PITHI_TILE_NDIM; k++) stride *= pithi_tile_extent(&b->tile, k);
    const struct pithi_gpu_share share = pithi_share_of(b, b->count / extent, PITHI_WARP);
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM) {
        const uint32_t at = i / stride * stride * extent + i % stride;
        uint32_t sum = 0;
        for (uint32_t k = 0; k < extent; k++) {
            uint8_t *const code = codes + 4 * ((uint64_t)at + (uint64_t)k * stride);
            sum += pithi_get_aligned32(code);
            pithi_put_aligned32(code, sum);
        }
    }
}

PITHI_PHASE(pithi_codes_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint8_t *const codes = pithi_codes_of(&a->from, b);
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)number;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM)
        pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                         pithi_own_value(&b->quant, pithi_get_aligned32(codes + 4 * (uint64_t)i)));
}

/* Values that were predicted, which a launch before has left in the workspace. */
PITHI_PHASE(pithi_rebuilt_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const float *const rebuilt = pithi_rebuilt_of(&a->from, b);
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)number;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM)
        pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                         pithi_own_bits(a->from.plan.dtype, pithi_bits(rebuilt[i])));
}

/* ---- Exact values ----------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_exact_make(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                   uint64_t k, uint32_t i) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t width = pithi_dtype_bytes(a->from.plan.dtype);
    pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                     pithi_own_get(b->values + k * width, width));
}

/* Reads the positions of the part's elements, wherever they stand in the list. */
PITHI_PHASE(pithi_positions_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)number;
    for (uint32_t k = t->tid; k < b->misses; k += PITHI_TEAM) {
        const uint32_t i = pithi_get32(b->which + 4 * (uint64_t)k);
        if (i >= share.from && i < share.to) pithi_exact_make(a, s, k, i);
    }
}

/* Exact values of the groups before the part, by their map. */
PITHI_LOCAL(pithi_map_before, uint32_t first) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)a;
    t->predict.total = 0;
    for (uint32_t g = t->tid; g < first * PITHI_TEAM && g < b->groups; g += PITHI_TEAM)
        t->predict.total += pithi_ones32(pithi_map_bits(b, b->which, g));
}
PITHI_PHASE(pithi_map_begin, uint32_t first) {
    (void)a;
    if (t->tid == 0) s->strip.carry[first % 2] = pithi_scan_all(s, 0);
}

PITHI_LOCAL(pithi_map_count, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = g < b->groups ? pithi_ones32(pithi_map_bits(b, b->which, g)) : 0;
}

PITHI_PHASE(pithi_map_read, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint64_t rank = pithi_scan_carry(s, t->tid, strip);
    if (g >= b->groups) return;
    const uint32_t bits = pithi_map_bits(b, b->which, g);
    for (uint32_t k = 0; k < PITHI_GROUP; k++)
        if (bits >> k & 1) pithi_exact_make(a, s, rank++, g * PITHI_GROUP + k);
}

PITHI_PHASE(pithi_sums_put, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint8_t *const values = pithi_codes_of(&a->from, b);
    const struct pithi_gpu_share share = pithi_share_elements(b);
    (void)number;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM)
        pithi_value_put(a, &s->from, b, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                        pithi_get_aligned32(values + 4 * (uint64_t)i));
}

/* ---- The kernels -----------------------------------------------------------------------------*/

/* answers: of the launches that write values, the first says what became of the frame. */
PITHI_PHASE(pithi_block_enter, uint64_t number, bool answers) {
    const struct pithi_gpu_mark *const m = pithi_mark(a, number / a->chunks);
    if (t->tid) return;
    if (pithi_mark_status(m) != PITH_OK) s->strip.block.live = false;
    s->from.status = pithi_mark_status(m);
    if (!s->from.first || !answers) return;
    pithi_item_answer(&a->from.items, &s->from, 0);
    if (s->from.status == PITH_OK && pithi_decode_counts(a))
        pithi_atomic_add64(&a->from.stream->frames, 1);
}

/* Part of a body, of a block that is located: whether there is anything to be read. Nobody has
 * judged a block of which nothing is wanted. */
PITHI_DEVICE bool pithi_block_wanted(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t number, bool answers) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_block_enter, number, answers);
    if (!b->live) return false;
    if (!b->whole) PITHI_RUN(pithi_block_touch, pithi_tile_extent(&b->tile, 3));
    return s->strip.touched;
}

PITHI_DEVICE void pithi_strip_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
    const bool sums = b->order != 0;
    pithi_strips_begin(a, s, t, team, strips.from, sums);
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        pithi_strip_open(a, s, t, team, strip, sums);
        PITHI_RUN(pithi_strip_make, strip, sums);
    }
}

/* Over the values that codes mean; then sums go to the tensor. */
PITHI_DEVICE void pithi_exact_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (b->misses && !b->bitmap) PITHI_RUN(pithi_positions_read, number);
    if (b->bitmap) {
        const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
        PITHI_STEP(pithi_map_before, strips.from);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_map_begin, strips.from);
        for (uint32_t strip = strips.from; strip < strips.to; strip++) {
            PITHI_STEP(pithi_map_count, strip);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_map_read, strip);
        }
    }
    if (a->add) PITHI_RUN(pithi_sums_put, number);
}

PITHI_BODY(pithi_bounded_decode) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_block_locate, number);
    if (!pithi_block_wanted(a, s, t, team, number, true)) return;
    if (b->plain) {
        PITHI_RUN(pithi_plain_read, pithi_dtype_bytes(a->from.plan.dtype));
        return;
    }
    if (b->interpolated)
        PITHI_RUN(pithi_rebuilt_read, number);
    else if (pithi_block_words(b))
        pithi_strip_read(a, s, t, team);
    else
        PITHI_RUN(pithi_constant_read, number);
    if (b->order > 1 && !b->interpolated) {
        if (b->parts > 1) return; /* sums are other launches' */
        for (uint32_t k = 1; k < b->order; k++) PITHI_RUN(pithi_sum_along, PITHI_TILE_NDIM - 1 - k);
        PITHI_RUN(pithi_codes_read, number);
    }
    pithi_exact_read(a, s, t, team, number);
}

/* Whether the block has differences of a higher order than this, of which codes are left. */
PITHI_DEVICE bool pithi_block_sums(const struct pithi_gpu_block *b, uint32_t order) {
    return !b->plain && pithi_block_words(b) && b->order > order;
}

/* Sums along the dimension that a->predict.dimension says, counted from the last. */
PITHI_BODY(pithi_bounded_along) {
    PITHI_RUN(pithi_block_locate, number);
    if (!pithi_block_wanted(a, s, t, team, number, false)) return;
    if (!pithi_block_sums(&s->strip.block, a->predict.dimension)) return;
    PITHI_RUN(pithi_sum_along, PITHI_TILE_NDIM - 1 - a->predict.dimension);
}

PITHI_BODY(pithi_bounded_values) {
    PITHI_RUN(pithi_block_locate, number);
    if (!pithi_block_wanted(a, s, t, team, number, false)) return;
    if (!pithi_block_sums(&s->strip.block, 1)) return;
    PITHI_RUN(pithi_codes_read, number);
    pithi_exact_read(a, s, t, team, number);
}

#endif
