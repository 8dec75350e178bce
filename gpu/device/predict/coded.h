/* coded.h - blocks of codec eb whose words are coded: which differences are taken, and these.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two launches behind that of codes: a team a block decides as the CPU does (predict/estimate.c),
 * then a team a part leaves differences in the workspace; between them blocks may become
 * interpolated ones (interp_encode.h). Launches behind (device/bytes) make coded words of these. */
#ifndef PITHI_GPU_DEVICE_PREDICT_CODED_H
#define PITHI_GPU_DEVICE_PREDICT_CODED_H

#include "device/predict/encode.h"

/* ---- Blocks of one code ----------------------------------------------------------------------*/

/* Values that are stored exactly have any code. Where none of them is finite, the codes of the
 * others count alone. */
PITHI_PHASE(pithi_kept_clear, uint32_t unused) {
    (void)a, (void)unused;
    t->predict.low = t->predict.high = 0;
    if (t->tid == 0) s->strip.low = s->strip.high = s->strip.fault = 0;
}
PITHI_PHASE(pithi_kept_look, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint8_t *const map = pithi_misses_of(&a->to, b), *const codes = pithi_codes_of(&a->to, b);
    const uint32_t dtype = a->to.plan.dtype, width = pithi_dtype_bytes(dtype);
    (void)unused;
    for (uint32_t i = t->tid; i < b->count; i += PITHI_TEAM) {
        if (map[i / 8] >> i % 8 & 1) {
            const uint64_t at = pithi_place_of(&s->to.slot->tiling, &b->tile, i).at;
            const uint32_t own = pithi_own_get(s->to.tensor + at * width, width);
            if (!pithi_nonfinite(pithi_unit_widen(dtype, own)))
                pithi_atomic_max32(&s->strip.fault, 1);
            continue;
        }
        const uint32_t code = pithi_get_aligned32(codes + 4 * (uint64_t)i);
        if (code > t->predict.high) t->predict.high = code;
        if (~code > t->predict.low) t->predict.low = ~code;
    }
    pithi_atomic_max32(&s->strip.low, t->predict.low);
    pithi_atomic_max32(&s->strip.high, t->predict.high);
}

/* Part of a body: whether one code, which is then in s->strip.high, stands for all values. */
PITHI_DEVICE bool pithi_one_code(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                 struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_RUN(pithi_parts_join, false);
    const bool all = pithi_parts_constant(s), look = !all && s->strip.misses;
    PITHI_MEET(); /* all have looked */
    if (!look) return all;
    PITHI_RUN(pithi_kept_clear, 0);
    PITHI_RUN(pithi_kept_look, 0);
    return !s->strip.fault && pithi_parts_constant(s);
}

/* ---- The order of differences ----------------------------------------------------------------*/

PITHI_PHASE(pithi_kinds_clear, uint32_t most) {
    (void)a;
    for (uint32_t order = 0; order <= most; order++)
        for (uint32_t k = t->tid; k < PITHI_KINDS; k += PITHI_TEAM) s->strip.kinds[order].of[k] = 0;
}
/* As pithi_estimate_tile. */
PITHI_PHASE(pithi_kinds_count, uint32_t most) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_line l = {pithi_codes_of(&a->to, b), NULL, 0};
    const uint32_t row = pithi_tile_extent(&b->tile, 3);
    const uint32_t words = pithi_estimate_runs(b->count) * PITHI_ESTIMATE_RUN;
    for (uint32_t i = t->tid; i < words; i += PITHI_TEAM) {
        const uint32_t at = (uint32_t)pithi_estimate_at(b->count, i / PITHI_ESTIMATE_RUN);
        const uint32_t in = i % PITHI_ESTIMATE_RUN;
        if (in >= row - at % row) continue;
        const struct pithi_gpu_place p = pithi_place_of(&s->to.slot->tiling, &b->tile, at + in);
        for (uint32_t order = 0; order <= most; order++) {
            const uint32_t word = pithi_word_of(&b->tile, &l, order, p.x, at + in);
            pithi_atomic_add32(&s->strip.kinds[order].of[pithi_kind_of(word)], 1);
        }
    }
}
PITHI_PHASE(pithi_kinds_weigh, uint32_t most) {
    (void)a;
    if (t->tid > most) return;
    struct pithi_kinds *const kinds = &s->strip.kinds[t->tid];
    kinds->total = 0;
    for (uint32_t k = 0; k < PITHI_KINDS; k++) kinds->total += kinds->of[k];
    s->strip.bits[t->tid] = (uint32_t)(pithi_kinds_entropy(kinds) / kinds->total);
}

/* Where words are coded their length is known when there are strings. */
PITHI_PHASE(pithi_coded_close, bool constant) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), misses = s->strip.misses;
    const uint64_t raw = (uint64_t)b->count * width;
    const uint64_t length = pithi_eb_body_at(b, misses, width) + PITHI_EB_CODE;
    if (t->tid) return;
    entry->bounded.method = constant ? PITHI_EB_CONSTANT : PITHI_EB_CODED;
    entry->bounded.order = constant ? 0 : (uint8_t)b->order;
    entry->bounded.misses = misses;
    entry->bounded.kind = 0;
    entry->bounded.map = 0;
    entry->bounded.packed = constant ? 0 : s->strip.bits[b->order];
    entry->length = constant && length < raw ? (uint32_t)length : (uint32_t)raw | PITHI_INDEX_PLAIN;
    if (constant) pithi_put_aligned32(pithi_codes_of(&a->to, b), s->strip.high);
}

/* A team a block. */
PITHI_BODY(pithi_coded_plan) {
    PITHI_RUN(pithi_part_open, number);
    if (!s->strip.block.live) return;
    const bool constant = pithi_one_code(a, s, t, team);
    const uint32_t most = pithi_tile_dimensions(&s->strip.block.tile);
    if (!constant) {
        PITHI_RUN(pithi_kinds_clear, most);
        PITHI_RUN(pithi_kinds_count, most);
        PITHI_RUN(pithi_kinds_weigh, most);
        PITHI_RUN(pithi_order_choose, most);
    }
    PITHI_RUN(pithi_coded_close, constant);
    pithi_plan_parts(a, s, t, team, false);
}

/* ---- Differences -----------------------------------------------------------------------------*/

PITHI_PHASE(pithi_coded_words_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    pithi_block_open(a, &a->to, &s->to, number, b);
    if (!b->live) return;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    b->live = entry->bounded.method == PITHI_EB_CODED;
    b->order = entry->bounded.order;
}
/* The thread's group of a strip. */
PITHI_PHASE(pithi_coded_group, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint8_t *const to = pithi_scratch_of(&a->to, b) + 4 * (uint64_t)g * PITHI_GROUP;
    if (g >= b->groups) return;
    const uint32_t n = pithi_group_count(b, g);
    pithi_words_of(&s->to.slot->tiling, b, pithi_codes_of(&a->to, b), g, s->strip.word, t->tid);
    for (uint32_t k = 0; k < n; k++)
        pithi_put_aligned32(to + 4 * k, pithi_unzigzag(s->strip.word[k][t->tid]));
}

/* A team a part. */
PITHI_BODY(pithi_coded_words) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_coded_words_open, number);
    if (!b->live) return;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->groups);
    for (uint32_t strip = strips.from; strip < strips.to; strip++)
        PITHI_RUN(pithi_coded_group, strip);
}

#endif
