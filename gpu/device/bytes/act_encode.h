/* act_encode.h - maps and numbers of act to strings, and what these make of a block.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a block, and decides as the CPU does: codecs/act.c, predict/zero_map.c. Numbers are
 * words of both forms, the one that launches before have made, and less what neighbours let
 * expect. */
#ifndef PITHI_GPU_DEVICE_BYTES_ACT_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_ACT_ENCODE_H

#include "device/bytes/act_lanes.h"
#include "device/bytes/strings_encode.h"

/* By the team's first thread: a block of which launches before know map and numbers. */
PITHI_DEVICE struct pithi_gpu_entry *pithi_act_made(const struct pithi_gpu_call *a,
                                                    struct pithi_gpu_shared *s, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (!pithi_strings_find(a, &a->to, &s->to, number, s)) return NULL;
    struct pithi_gpu_entry *const entry = pithi_entry(e->block.workspace, e->block.number);
    e->rows.distinct = e->zeros.used = entry->bounded.distinct;
    return entry;
}
/* By the team's first thread: words are those of form number `form` from now on. */
PITHI_DEVICE void pithi_act_words(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                  uint32_t form) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    uint32_t *const expected = (uint32_t *)(void *)pithi_act_tail(&a->to.plan, s);
    e->rows.code = form ? expected : e->zeros.number;
    s->rans.words.parts = pithi_lossless_part(s, 2 * form);
    e->part = PITHI_STRINGS_SYMBOLS + 2 * form;
}
PITHI_DEVICE struct pithi_bounded_strings *pithi_act_record(const struct pithi_gpu_call *a,
                                                            const struct pithi_gpu_shared *s,
                                                            uint32_t form) {
    return pithi_strings_record(a, s->to.index, s->rans.bounded.block.number) + form;
}

/* ---- Strings ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_act_open_block, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->rans.live = pithi_act_made(a, s, number);
}
PITHI_PHASE(pithi_act_map_part, uint32_t bytes) {
    uint8_t *const to = pithi_lossless_part(s, PITHI_STRINGS_MAP);
    (void)a;
    for (uint32_t i = t->tid; i < bytes; i += PITHI_TEAM) to[i] = s->rans.bounded.zeros.map[i];
    if (t->tid) return;
    s->rans.depth = 0;
    s->rans.from[0] = to;
    s->rans.bytes[0] = bytes;
}

PITHI_PHASE(pithi_act_words_open, uint32_t form) {
    if (t->tid) return;
    pithi_act_words(a, s, form);
    s->rans.carry[0] = 0;
}
/* Eight elements a thread: numbers of them by what is expected. */
PITHI_LOCAL(pithi_act_ones, uint32_t first) {
    const struct pithi_gpu_zeros *const z = &s->rans.bounded.zeros;
    const uint32_t i = first / 8 + t->tid;
    (void)a;
    t->rans.total = t->rans.own = i < z->n[0] ? pithi_ones32(z->map[i]) : 0;
}
PITHI_PHASE(pithi_act_expect, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const struct pithi_gpu_block *const b = &e->block;
    const uint32_t *const codes = (const uint32_t *)(void *)pithi_codes_of(&a->to, b);
    const uint32_t width = pithi_tile_extent(&b->tile, 3), height = pithi_tile_extent(&b->tile, 2);
    uint32_t *to = e->rows.code + pithi_strings_before(s, t, first / PITHI_ROW);
    if (t->tid == 0) pithi_strings_carry(s, first / PITHI_ROW);
    if (!t->rans.own) return;
    const uint32_t byte = e->zeros.map[first / 8 + t->tid];
    for (uint32_t k = 0; k < 8; k++) {
        const uint32_t i = first + 8 * t->tid + k;
        if (!(byte >> k & 1)) continue;
        const bool side = i % width != 0, above = i / width % height != 0;
        const uint32_t left = side ? codes[i - 1] : 0, up = above ? codes[i - width] : 0;
        const uint32_t corner = side && above ? codes[i - width - 1] : 0;
        *to++ = codes[i] - pithi_nonzero_expected((int32_t)left, (int32_t)up, (int32_t)corner);
    }
}
PITHI_PHASE(pithi_act_record_words, uint32_t form) {
    if (t->tid == 0) *pithi_act_record(a, s, form) = s->rans.bounded.coded;
}

/* Part of a body: the words of a form. */
PITHI_DEVICE void pithi_act_cut_words(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      uint64_t block, uint32_t form) {
    PITHI_RUN(pithi_act_words_open, form);
    for (uint32_t first = 0; form && first < s->rans.bounded.block.count; first += PITHI_ROW) {
        PITHI_STEP(pithi_act_ones, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_act_expect, first);
    }
    pithi_strings_cut_words(a, s, t, team);
    for (uint32_t part = PITHI_STRINGS_SYMBOLS; part < PITHI_STRINGS_PARTS; part++) {
        if (!pithi_strings_part_count(&s->rans.bounded, part)) continue;
        PITHI_RUN(pithi_strings_part, part);
        pithi_spread_cut(a, s, t, team, part);
        PITHI_RUN(pithi_lossless_strings, block, part + 2 * form);
    }
    PITHI_RUN(pithi_act_record_words, form);
}

/* A team a block. */
PITHI_BODY(pithi_act_cut) {
    PITHI_RUN(pithi_act_open_block, number);
    if (!s->rans.live) return;
    const uint64_t block = s->rans.bounded.block.number;
    const uint32_t used = s->rans.bounded.zeros.used;
    PITHI_RUN(pithi_strings_clear, 0);
    if (used != s->rans.bounded.block.count) {
        PITHI_RUN(pithi_act_map_part, s->rans.bounded.zeros.n[0]);
        pithi_spread_cut(a, s, t, team, 0);
        PITHI_RUN(pithi_lossless_strings, block, PITHI_STRINGS_MAP);
    }
    for (uint32_t form = 0; used && form < PITHI_ACT_FORMS; form++)
        pithi_act_cut_words(a, s, t, team, block, form);
}

/* ---- What a block comes to -------------------------------------------------------------------*/

/* The most bytes of a block that is not plain. */
PITHI_DEVICE uint64_t pithi_act_most(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_shared *s) {
    return (uint64_t)s->rans.bounded.block.count * pithi_dtype_bytes(a->to.plan.dtype) - 1;
}
/* The map as a piece, and what it must take less than in lanes. plain: the block is. */
PITHI_PHASE(pithi_act_weigh_map, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    struct pithi_gpu_lanes *const l = &s->rans.lanes;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    const struct pithi_gpu_entry *const entry = pithi_act_made(a, s, number);
    s->rans.live = entry;
    if (!entry) return;
    const uint64_t most = pithi_act_most(a, s);
    const uint64_t at = PITHI_ZEROS_HEAD + PITHI_EXACT_COUNT +
                        pithi_exact_which_bytes(&e->block, entry->bounded.misses) +
                        (uint64_t)entry->bounded.misses * pithi_dtype_bytes(a->to.plan.dtype);
    s->rans.plain = at >= most;
    e->coded.map_at = (uint32_t)at;
    e->coded.open = 0;
    l->length = 0;
    l->piece = 1;
    if (s->rans.plain || e->zeros.used == e->block.count) return;
    const uint64_t end =
        pithi_strings_place(a, s->to.index, e->block.number, PITHI_STRINGS_MAP, at + 1, most);
    l->piece = end < PITHI_STRINGS_FULL ? (uint32_t)(end - at) : 0;
    l->limit = l->piece ? l->piece : (uint32_t)(most - at + 1);
    l->cut = pithi_zero_cut_of(e->block.tile.extent, pithi_zero_log2_lanes(e->block.count));
}

/* By the team's first thread: where the shortest words end, 0 where none fit; entry says which they
 * are. */
PITHI_DEVICE uint64_t pithi_act_shortest(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s,
                                         struct pithi_gpu_entry *entry, uint64_t at) {
    const uint64_t most = pithi_act_most(a, s);
    const uint32_t plain = entry->bounded.order;
    uint64_t best = at + entry->bounded.packed <= most ? at + entry->bounded.packed : 0;
    for (uint32_t form = 0; form < PITHI_ACT_FORMS; form++) {
        struct pithi_bounded_strings *const coded = pithi_act_record(a, s, form);
        const uint64_t end = best ? best - 1 : most;
        const uint64_t length =
            pithi_strings_words_length(a, s, PITHI_STRINGS_SYMBOLS + 2 * form, coded, at, end);
        if (length > end) continue;
        best = length;
        entry->bounded.method = PITHI_EB_CODED;
        entry->bounded.order =
            (uint8_t)(PITHI_ZEROS_CODED | (form ? (uint32_t)PITHI_ZEROS_MEDIAN : plain));
    }
    return best;
}
PITHI_PHASE(pithi_act_weigh, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const struct pithi_gpu_lanes *const l = &s->rans.lanes;
    (void)number;
    if (t->tid) return;
    struct pithi_gpu_entry *const entry = pithi_entry(e->block.workspace, e->block.number);
    const uint32_t raw = e->block.count * pithi_dtype_bytes(a->to.plan.dtype);
    entry->bounded.map = l->length ? l->length : l->piece;
    entry->bounded.kind = (uint8_t)(l->length                         ? PITHI_ZEROS_LANES
                                    : e->zeros.used == e->block.count ? PITHI_ZEROS_ONES
                                                                      : PITHI_ZEROS_PIECE);
    uint64_t end =
        s->rans.plain || !entry->bounded.map ? 0 : e->coded.map_at + (uint64_t)entry->bounded.map;
    if (end > pithi_act_most(a, s)) end = 0;
    if (end && e->zeros.used) end = pithi_act_shortest(a, s, entry, end);
    entry->length = end ? (uint32_t)end : raw | PITHI_INDEX_PLAIN;
    pithi_act_record(a, s, 0)->map_at = e->coded.map_at;
    pithi_act_record(a, s, 0)->open = l->length ? l->head : 0;
}

/* A team a block. */
PITHI_BODY(pithi_act_measure) {
    PITHI_RUN(pithi_act_weigh_map, number);
    if (!s->rans.live) return;
    if (!s->rans.plain && s->rans.bounded.zeros.used != s->rans.bounded.block.count) {
        const uint32_t limit = s->rans.lanes.limit;
        pithi_lanes_plan(a, s, t, team);
        const uint64_t about =
            PITHI_ZERO_HEAD + 3 * s->rans.lanes.cut.lanes + (s->rans.lanes.fewest >> 3);
        if (about < limit && limit > PITHI_ZERO_FORM + PITHI_ZERO_HEAD)
            pithi_lanes_write(a, s, t, team, limit - 1 - PITHI_ZERO_FORM);
    }
    PITHI_RUN(pithi_act_weigh, number);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_act_write_open, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    const struct pithi_gpu_entry *const entry = pithi_act_made(a, s, number);
    s->rans.live = entry && !(entry->length & PITHI_INDEX_PLAIN);
    if (!s->rans.live) return;
    const bool expected = (entry->bounded.order & PITHI_ZEROS_FORM) == PITHI_ZEROS_MEDIAN;
    pithi_act_words(a, s, expected);
    e->zeros.form = entry->bounded.kind;
    e->block.bytes = s->to.payload + entry->at;
    e->block.method = entry->bounded.method;
    e->coded = *pithi_act_record(a, s, expected);
    e->coded.map_at = pithi_act_record(a, s, 0)->map_at;
    e->coded.open = pithi_act_record(a, s, 0)->open;
    s->rans.carry[0] = 0;
}
PITHI_PHASE(pithi_act_map_write, uint64_t block) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t bytes = pithi_entry(e->block.workspace, block)->bounded.map;
    uint8_t *const to = e->block.bytes + e->coded.map_at;
    if (t->tid == 0) to[0] = (uint8_t)e->zeros.form;
    if (e->zeros.form == PITHI_ZEROS_PIECE)
        pithi_lossless_copy_strings(a, s, t, block, 0, (uint32_t)a->coding.levels, e->block.bytes);
    if (e->zeros.form != PITHI_ZEROS_LANES) return;
    const uint32_t length = bytes - PITHI_ZERO_FORM, words = length - e->coded.open;
    if (t->tid && t->tid < PITHI_ZERO_FORM) to[t->tid] = (uint8_t)(length >> 8 * (t->tid - 1));
    pithi_coded_copy(t->tid, PITHI_TEAM, to + PITHI_ZERO_FORM, e->zeros.piece, e->coded.open);
    pithi_coded_copy(t->tid, PITHI_TEAM, to + PITHI_ZERO_FORM + e->coded.open,
                     e->zeros.piece + pithi_lanes_capacity(s) - words, words);
}

/* A team a block. */
PITHI_BODY(pithi_act_write) {
    PITHI_RUN(pithi_act_write_open, number);
    if (!s->rans.live) return;
    const uint64_t block = s->rans.bounded.block.number;
    PITHI_RUN(pithi_act_map_write, block);
    if (s->rans.bounded.zeros.used && s->rans.bounded.block.method == PITHI_EB_CODED)
        pithi_strings_words_write(a, s, t, team, block);
}

#endif
