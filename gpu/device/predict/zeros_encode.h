/* zeros_encode.h - values to frames of codec act.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two launches besides those of encode.h for frames as a whole, a team a block: one makes codes,
 * the map, its bytes and the numbers in the workspace; one writes the block. Where the plan's mode
 * codes, launches between and behind them (device/bytes/act_encode.h) make the map's bytes and
 * coded words of it. */
#ifndef PITHI_GPU_DEVICE_PREDICT_ZEROS_ENCODE_H
#define PITHI_GPU_DEVICE_PREDICT_ZEROS_ENCODE_H

#include "device/predict/encode.h"
#include "device/predict/zeros.h"

PITHI_PHASE(pithi_zeros_code_open, uint64_t number) {
    pithi_code_open(a, s, t, number);
    if (t->tid || !s->strip.block.live) return;
    pithi_zeros_open(&a->to, &s->strip.block, &s->strip.zeros);
    s->strip.carry[0] = 0;
}

/* ---- Numbers ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_zeros_form, uint32_t unused) {
    (void)a, (void)unused;
    if (t->tid == 0)
        s->strip.zeros.form = s->strip.high >> 31 ? PITHI_ZEROS_SIGNED : PITHI_ZEROS_POSITIVE;
}

/* The map's bits of a strip's groups. */
PITHI_PHASE(pithi_zeros_map, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint8_t *const codes = pithi_codes_of(&a->to, b);
    uint8_t *const map = s->strip.zeros.map;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint32_t bits = 0;
    t->predict.total = 0;
    if (g >= b->groups) return;
    const uint32_t n = pithi_group_count(b, g);
    for (uint32_t k = 0; k < n; k++)
        bits |= (uint32_t)(pithi_get_aligned32(codes + 4 * ((uint64_t)g * PITHI_GROUP + k)) != 0)
                << k;
    map[2 * g] = (uint8_t)bits;
    if (n > 8) map[2 * g + 1] = (uint8_t)(bits >> 8);
    t->predict.total = pithi_ones32(bits);
}

PITHI_PHASE(pithi_zeros_numbers, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const uint8_t *const codes = pithi_codes_of(&a->to, b);
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint64_t rank = pithi_scan_carry(s, t->tid, strip);
    if (g >= b->groups) return;
    for (uint32_t k = 0; k < pithi_group_count(b, g); k++) {
        const uint32_t u = pithi_get_aligned32(codes + 4 * ((uint64_t)g * PITHI_GROUP + k));
        if (u) z->number[rank++] = pithi_nonzero_number(z->form == PITHI_ZEROS_POSITIVE, u);
    }
}

PITHI_PHASE(pithi_zeros_known, uint32_t strips) {
    (void)a;
    if (t->tid == 0)
        pithi_zeros_used(&s->strip.block, &s->strip.zeros, (uint32_t)s->strip.carry[strips % 2]);
}

/* The words of group g of the numbers, or-ed; each of them is kept if there is a place for it. */
PITHI_DEVICE uint32_t pithi_zeros_words(const struct pithi_gpu_zeros *z, uint32_t g,
                                        uint32_t (*keep)[PITHI_TEAM], uint32_t tid) {
    uint32_t any = 0;
    for (uint32_t k = 0; k < PITHI_GROUP; k++) {
        const uint32_t i = g * PITHI_GROUP + k;
        const uint32_t word = i < z->used ? pithi_zigzag(z->number[i]) : 0;
        if (keep) keep[k][tid] = word;
        any |= word;
    }
    return any;
}

PITHI_PHASE(pithi_zeros_widths, uint32_t named) {
    (void)a;
    for (uint32_t g = t->tid; g < named; g += PITHI_TEAM) {
        const uint32_t any = pithi_zeros_words(&s->strip.zeros, g, NULL, 0);
        pithi_atomic_add32(&s->strip.counts[pithi_bitplane_bits(any)], 1);
    }
}

/* ---- The map's bytes -------------------------------------------------------------------------*/

/* Bytes of bitmap d that are not 0: how many, the least and the largest. */
PITHI_PHASE(pithi_zeros_look, uint32_t d) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    uint32_t ones = 0, least = 255, most = 0;
    (void)a;
    for (uint32_t i = t->tid; i < z->n[d]; i += PITHI_TEAM) {
        const uint32_t byte = z->map[z->at[d] + i];
        if (!byte) continue;
        ones++;
        if (byte < least) least = byte;
        if (byte > most) most = byte;
    }
    if (!ones) return;
    pithi_atomic_add32(&z->ones[d], ones);
    pithi_atomic_min32(&z->least[d], least);
    pithi_atomic_max32(&z->most[d], most);
}

/* Whether a bitmap is coded as a sparse piece, as pithi_piece_put decides it. */
PITHI_DEVICE bool pithi_zeros_sparse(const struct pithi_gpu_zeros *z, uint32_t d) {
    return z->n[d] >= PITHI_PIECE_SPARSE_MIN && z->ones[d] && z->ones[d] <= z->n[d] / 8;
}

/* Bitmap d + 1, of the bytes of bitmap d. */
PITHI_PHASE(pithi_zeros_descend, uint32_t d) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    (void)a;
    for (uint32_t i = t->tid; i < z->n[d + 1]; i += PITHI_TEAM) {
        uint32_t bits = 0;
        for (uint32_t k = 0; k < 8 && 8 * i + k < z->n[d]; k++)
            bits |= (uint32_t)(z->map[z->at[d] + 8 * i + k] != 0) << k;
        z->map[z->at[d + 1] + i] = (uint8_t)bits;
    }
}

/* By the team's first thread: kind, and byte of what is constant; returns what follows. */
PITHI_DEVICE uint32_t pithi_zeros_kind(const struct pithi_gpu_zeros *z, uint32_t at, uint32_t n,
                                       uint32_t byte, bool constant) {
    z->piece[at++] = constant ? PITHI_PIECE_CONSTANT : PITHI_PIECE_PLAIN;
    if (!constant) return at + n;
    z->piece[at] = (uint8_t)byte;
    return at + 1;
}

/* The form; then sparse pieces, and the innermost bitmap. */
PITHI_PHASE(pithi_zeros_put_first, uint32_t d) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const bool constant = !z->ones[d] || (z->ones[d] == z->n[d] && z->least[d] == z->most[d]);
    const uint32_t at = 1 + d;
    (void)a;
    for (uint32_t i = t->tid; !constant && i < z->n[d]; i += PITHI_TEAM)
        z->piece[at + 1 + i] = z->map[z->at[d] + i];
    if (t->tid) return;
    z->piece[0] = PITHI_ZEROS_PIECE;
    for (uint32_t k = 0; k < d; k++) z->piece[1 + k] = PITHI_PIECE_SPARSE;
    z->bytes = pithi_zeros_kind(z, at, z->n[d], z->ones[d] ? z->least[d] : 0, constant);
    s->strip.carry[0] = z->bytes;
}

/* The bytes of bitmap d that bitmap d + 1 says. */
PITHI_DEVICE bool pithi_zeros_alike(const struct pithi_gpu_zeros *z, uint32_t d) {
    return z->least[d] == z->most[d];
}
PITHI_PHASE(pithi_zeros_put_next, uint32_t d) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    (void)a;
    if (t->tid) return;
    s->strip.carry[0] = z->bytes + 1;
    z->bytes = pithi_zeros_kind(z, z->bytes, z->ones[d], z->least[d], pithi_zeros_alike(z, d));
}
PITHI_PHASE(pithi_zeros_gather, uint32_t d, uint32_t strip) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const uint32_t i = strip * PITHI_TEAM + t->tid;
    uint64_t to = pithi_scan_carry(s, t->tid, strip);
    (void)a;
    if (i >= z->n[d + 1]) return;
    const uint32_t bits = z->map[z->at[d + 1] + i];
    for (uint32_t k = 0; k < 8; k++)
        if (bits >> k & 1) z->piece[to++] = z->map[z->at[d] + 8 * i + k];
}

PITHI_PHASE(pithi_zeros_all_ones, uint32_t unused) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    (void)a, (void)unused;
    if (t->tid) return;
    z->piece[0] = PITHI_ZEROS_ONES;
    z->bytes = 1;
}

/* Part of a body: the bytes of the map, in the workspace. */
PITHI_DEVICE void pithi_zeros_piece(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    uint32_t d = 0;
    if (z->used == s->strip.block.count) {
        PITHI_RUN(pithi_zeros_all_ones, 0);
        return;
    }
    for (;; d++) {
        PITHI_RUN(pithi_zeros_look, d);
        if (!pithi_zeros_sparse(z, d)) break;
        PITHI_RUN(pithi_zeros_descend, d);
    }
    PITHI_RUN(pithi_zeros_put_first, d);
    while (d--) {
        PITHI_RUN(pithi_zeros_put_next, d);
        if (pithi_zeros_alike(z, d)) continue;
        for (uint32_t strip = 0; strip < pithi_zeros_strips(z->n[d + 1]); strip++) {
            PITHI_STEP(pithi_zeros_bits, d, strip);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_zeros_gather, d, strip);
        }
    }
}

/* ---- What a block will look like -------------------------------------------------------------*/

PITHI_PHASE(pithi_zeros_close, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    (void)number;
    if (t->tid) return;
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), misses = s->strip.misses;
    const uint64_t raw = (uint64_t)b->count * width;
    uint64_t length = PITHI_ZEROS_HEAD + PITHI_EXACT_COUNT + pithi_exact_which_bytes(b, misses) +
                      (uint64_t)misses * width + z->bytes;
    entry->bounded.packed = 0;
    if (z->used)
        entry->bounded.packed =
            (uint32_t)(PITHI_PACK_WIDTHS + pithi_names_bytes(b) + pithi_plan_table(s, entry));
    length += entry->bounded.packed;
    entry->bounded.method = PITHI_EB_PACKED;
    entry->bounded.order = (uint8_t)(z->used ? z->form : PITHI_ZEROS_SIGNED);
    entry->bounded.misses = misses;
    entry->bounded.distinct = z->used;
    entry->bounded.map = z->bytes;
    entry->length = length < raw ? (uint32_t)length : (uint32_t)raw | PITHI_INDEX_PLAIN;
    pithi_part_of(&a->to, b, 0)->misses_before = 0;
    pithi_part_of(&a->to, b, 0)->widths_before = 0;
}

PITHI_BODY(pithi_zeros_code) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_zeros_code_open, number);
    if (!b->live) return;
    const uint32_t strips = pithi_zeros_strips(b->groups);
    PITHI_RUN(pithi_code_make, number);
    PITHI_WARP_MAX(predict.low, PITHI_WARP);
    PITHI_WARP_MAX(predict.high, PITHI_WARP);
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_code_join, number);
    PITHI_RUN(pithi_zeros_form, 0);
    for (uint32_t strip = 0; strip < strips; strip++) {
        PITHI_RUN(pithi_zeros_map, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_zeros_numbers, strip);
    }
    PITHI_RUN(pithi_zeros_known, strips);
    PITHI_RUN(pithi_zeros_widths, b->named);
    PITHI_RUN(pithi_device_plan_begin, 0);
    for (uint32_t k = 1; k < PITHI_PACK_WIDTHS; k++) PITHI_RUN(pithi_device_plan_extend, k);
    if (!a->to.plan.device.coded) pithi_zeros_piece(a, s, t, team);
    PITHI_RUN(pithi_zeros_close, number);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_zeros_place, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    if (t->tid) return;
    const bool head = pithi_write_find(a, s, number, PITHI_ZEROS_HEAD);
    if (!b->live) return;
    pithi_zeros_open(&a->to, b, z);
    if (!head) return;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    uint8_t *const words = b->bytes + (b->body - b->bytes) + entry->bounded.map;
    pithi_zeros_used(b, z, entry->bounded.distinct);
    if (b->method != PITHI_EB_PACKED) b->named = 0;
    z->bytes = a->to.plan.device.coded ? 0 : entry->bounded.map;
    b->bytes[0] = entry->bounded.order;
    b->body = words;
    for (uint32_t k = 0; b->named && k < PITHI_PACK_WIDTHS; k++) words[k] = s->strip.table[k];
}

PITHI_PHASE(pithi_zeros_map_write, uint32_t bytes) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    uint8_t *const to = b->bytes + (b->body - b->bytes) - bytes;
    (void)a;
    for (uint32_t i = t->tid; i < bytes; i += PITHI_TEAM) to[i] = s->strip.zeros.piece[i];
}

PITHI_PHASE(pithi_zeros_words_make, uint32_t strip) {
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = 0;
    s->strip.name[t->tid] = 0;
    if (g < s->strip.block.named)
        pithi_group_name(s, t, pithi_zeros_words(&s->strip.zeros, g, s->strip.word, t->tid));
}

PITHI_BODY(pithi_zeros_write) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    PITHI_RUN(pithi_zeros_place, number);
    if (!b->live) return;
    pithi_write_values(a, s, t, team);
    if (b->plain) return;
    PITHI_RUN(pithi_zeros_map_write, s->strip.zeros.bytes);
    PITHI_RUN(pithi_zeros_begin, 0);
    for (uint32_t strip = 0; strip < pithi_zeros_strips(b->named); strip++) {
        PITHI_RUN(pithi_zeros_words_make, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_words_write, strip);
    }
}

#endif
