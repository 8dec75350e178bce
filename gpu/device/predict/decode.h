/* decode.h - frames of codec eb to values, a team a block, after bounded_check.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Differences along rows are summed while words are unpacked; along other dimensions in the
 * workspace. What is added to a tensor is made there first, exact values included. */
#ifndef PITHI_GPU_DEVICE_PREDICT_DECODE_H
#define PITHI_GPU_DEVICE_PREDICT_DECODE_H

#include "device/predict/check.h"

/* ---- Values out ------------------------------------------------------------------------------*/

/* Element number `at` of the slot := bits of the frame's dtype, if it is wanted. */
PITHI_DEVICE void pithi_value_put(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                  const struct pithi_gpu_block *b, uint64_t at, uint32_t bits) {
    const uint32_t dtype = a->from.plan.dtype, out = a->from.items.dtype;
    const uint64_t shift = a->from.items.tensors ? a->first : 0;
    if (at < b->lo || at >= b->hi) return;
    uint8_t *const to = it->tensor + (at - shift) * pithi_width(out);
    uint32_t own = bits;
    if (a->add) {
        const uint32_t x = pithi_unit_round(PITH_F32, pithi_unit_widen(dtype, bits));
        const float held = pithi_float(pithi_load(to, out, 0));
        own = pithi_unit_round(out, pithi_bits(held + pithi_float(x)));
    } else if (out != dtype) {
        own = pithi_unit_round(out, pithi_unit_widen(dtype, bits));
    }
    pithi_own_put(to, pithi_width(out), own);
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
    for (uint32_t i = t->tid; i < b->count; i += PITHI_TEAM) {
        const struct pithi_gpu_place p = pithi_place_of(&s->from.slot->tiling, &b->tile, i);
        pithi_value_put(a, &s->from, b, p.at, pithi_own_get(b->bytes + (uint64_t)i * width, width));
    }
}

PITHI_PHASE(pithi_constant_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t bits = pithi_own_value(&b->quant, pithi_get32(b->body));
    (void)number;
    for (uint32_t i = t->tid; i < b->count; i += PITHI_TEAM)
        pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                         bits);
}

/* ---- Packed words ----------------------------------------------------------------------------*/

PITHI_PHASE(pithi_strip_widths, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = g < b->named ? pithi_group_width(b, g) : 0;
    if (strip == 0 && t->tid == 0) s->strip.carry[0] = 0;
}

/* Differences of the strip's groups. carry: widths of the groups before. */
PITHI_PHASE(pithi_strip_unpack, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    const uint64_t before = s->strip.carry[strip % 2] + pithi_scan_before(s, 0, t->tid);
    (void)a;
    if (t->tid == 0)
        s->strip.carry[(strip + 1) % 2] = s->strip.carry[strip % 2] + pithi_scan_all(s, 0);
    if (g >= b->named) return;
    const uint8_t *const planes = b->body + PITHI_PACK_WIDTHS + pithi_names_bytes(b) + 2 * before;
    uint32_t word[PITHI_GROUP] = {0};
    for (uint32_t i = 0; i < pithi_group_width(b, g); i++) {
        const uint32_t plane = pithi_get16(planes + 2 * i);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_GROUP; k++) word[k] |= (plane >> k & 1) << i;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_GROUP; k++) s->strip.word[k][t->tid] =
        pithi_unzigzag(word[k]);
}

/* Sums along rows, as far as the group itself has them. */
PITHI_PHASE(pithi_strip_sum, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid, row = pithi_tile_extent(&b->tile, 3);
    (void)a;
    t->predict.total = 0;
    if (g >= b->groups) return;
    uint32_t x = g * PITHI_GROUP % row, sum = 0;
    bool begins = false;
    for (uint32_t k = 0; k < pithi_group_count(b, g); k++) {
        if (x == 0) sum = 0;
        begins = begins || x == 0;
        sum += s->strip.word[k][t->tid];
        s->strip.word[k][t->tid] = sum;
        x = x + 1 == row ? 0 : x + 1;
    }
    t->predict.total = (uint64_t)begins << 32 | sum;
}

/* Before the total becomes one of several threads. */
PITHI_LOCAL(pithi_strip_keep, uint32_t strip) {
    (void)a, (void)s, (void)strip;
    t->predict.own = t->predict.total;
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
        if (t->tid == PITHI_TEAM - 1)
            s->strip.run[(strip + 1) % 2] = pithi_runs_join(runs, t->predict.own);
    }
    if (g >= b->groups) return;
    struct pithi_gpu_place p = pithi_place_of(tiling, &b->tile, first);
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

/* Sums along dimension d: a thread has lines of its own. */
PITHI_PHASE(pithi_sum_along, uint32_t d) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    uint8_t *const codes = pithi_codes_of(&a->from, b);
    const uint32_t extent = pithi_tile_extent(&b->tile, d);
    uint32_t stride = 1;
    for (uint32_t k = d + 1; k < PITHI_TILE_NDIM; k++) stride *= pithi_tile_extent(&b->tile, k);
    for (uint32_t i = t->tid; i < b->count / extent; i += PITHI_TEAM) {
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
    (void)number;
    for (uint32_t i = t->tid; i < b->count; i += PITHI_TEAM)
        pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                         pithi_own_value(&b->quant, pithi_get_aligned32(codes + 4 * (uint64_t)i)));
}

/* ---- Exact values ----------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_exact_make(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                   uint64_t k, uint32_t i) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t width = pithi_width(a->from.plan.dtype);
    pithi_value_make(a, &s->from, b, i, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                     pithi_own_get(b->values + k * width, width));
}

PITHI_PHASE(pithi_positions_read, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)number;
    for (uint32_t k = t->tid; k < b->misses; k += PITHI_TEAM)
        pithi_exact_make(a, s, k, pithi_get32(b->which + 4 * (uint64_t)k));
}

PITHI_PHASE(pithi_map_count, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = g < b->groups ? pithi_ones32(pithi_map_bits(b, b->which, g)) : 0;
    if (strip == 0 && t->tid == 0) s->strip.carry[0] = 0;
}

PITHI_PHASE(pithi_map_read, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint64_t rank = s->strip.carry[strip % 2] + pithi_scan_before(s, 0, t->tid);
    if (t->tid == 0)
        s->strip.carry[(strip + 1) % 2] = s->strip.carry[strip % 2] + pithi_scan_all(s, 0);
    if (g >= b->groups) return;
    const uint32_t bits = pithi_map_bits(b, b->which, g);
    for (uint32_t k = 0; k < PITHI_GROUP; k++)
        if (bits >> k & 1) pithi_exact_make(a, s, rank++, g * PITHI_GROUP + k);
}

PITHI_PHASE(pithi_sums_put, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint8_t *const values = pithi_codes_of(&a->from, b);
    (void)number;
    for (uint32_t i = t->tid; i < b->count; i += PITHI_TEAM)
        pithi_value_put(a, &s->from, b, pithi_place_of(&s->from.slot->tiling, &b->tile, i).at,
                        pithi_get_aligned32(values + 4 * (uint64_t)i));
}

/* ---- The kernel ------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_block_enter, uint64_t number) {
    const struct pithi_gpu_mark *const m = pithi_mark(a, number / a->chunks);
    if (t->tid) return;
    if (pithi_mark_status(m) != PITH_OK) s->strip.block.live = false;
    s->from.status = pithi_mark_status(m);
    s->strip.run[0] = 0;
    if (!s->from.first) return;
    pithi_item_answer(&a->from.items, &s->from, 0);
    if (s->from.status == PITH_OK && pithi_decode_counts(a))
        pithi_atomic_add64(&a->from.stream->frames, 1);
}

PITHI_DEVICE void pithi_strip_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t strips = (b->groups + PITHI_TEAM - 1) / PITHI_TEAM;
    for (uint32_t strip = 0; strip < strips; strip++) {
        PITHI_RUN(pithi_strip_widths, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_strip_unpack, strip);
        if (b->order) {
            PITHI_RUN(pithi_strip_sum, strip);
            PITHI_STEP(pithi_strip_keep, strip);
            PITHI_WARP_RUNS(predict.total);
            PITHI_RUN(pithi_scan_publish, 1);
        }
        PITHI_RUN(pithi_strip_make, strip, b->order != 0);
    }
    if (b->order < 2) return;
    for (uint32_t k = 1; k < b->order; k++) PITHI_RUN(pithi_sum_along, PITHI_TILE_NDIM - 1 - k);
    PITHI_RUN(pithi_codes_read, strips);
}

/* Over the values that codes mean; then sums go to the tensor. */
PITHI_DEVICE void pithi_exact_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (b->misses && !b->bitmap) PITHI_RUN(pithi_positions_read, number);
    for (uint32_t g = 0; b->bitmap && g < b->groups; g += PITHI_TEAM) {
        PITHI_RUN(pithi_map_count, g / PITHI_TEAM);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_map_read, g / PITHI_TEAM);
    }
    if (a->add) PITHI_RUN(pithi_sums_put, number);
}

PITHI_BODY(pithi_bounded_decode) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_block_locate, number);
    PITHI_RUN(pithi_block_enter, number);
    if (!b->live) return;
    if (!b->whole) PITHI_RUN(pithi_block_touch, pithi_tile_extent(&b->tile, 3));
    if (!s->strip.touched) return; /* and nobody has judged it */
    if (b->plain) {
        PITHI_RUN(pithi_plain_read, pithi_width(a->from.plan.dtype));
        return;
    }
    if (b->method == PITHI_EB_PACKED)
        pithi_strip_read(a, s, t, team);
    else
        PITHI_RUN(pithi_constant_read, number);
    pithi_exact_read(a, s, t, team, number);
}

#endif
