/* lossless_encode.h - exact values to symbols and planes, and the blocks that their strings make.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a block, and decides as the CPU does: bytes/top_choice.h, bytes/word_value.h. */
#ifndef PITHI_GPU_DEVICE_BYTES_LOSSLESS_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_LOSSLESS_ENCODE_H

#include "device/bytes/lossless_offsets.h"
#include "device/bytes/page_encode.h"

/* Whether a form can still become the block's: an update that saves half of the bytes is taken. */
PITHI_DEVICE bool pithi_lossless_undecided(const struct pithi_gpu_call *a,
                                           const struct pithi_gpu_item *it, uint64_t block,
                                           uint32_t form) {
    const uint32_t length = pithi_coding_entry(a, it->index, block)->length;
    if (form == PITHI_FORM_UPDATE || !pithi_lossless_based(a)) return true;
    return length & PITHI_BLOCK_PLAIN || length > pithi_coded_most(&a->to.plan, it, block) / 2;
}

PITHI_PHASE(pithi_lossless_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t chunk = (uint32_t)number % (uint32_t)a->chunks;
    const uint64_t block = chunk / a->coding.tried;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    if (it->status == PITH_OK) it->status = a->to.items.status[it->index];
    if (block >= it->slot->blocks) it->status = PITH_ERR_ARG;
    if (it->status != PITH_OK) return;
    pithi_lossless_find_form(a, it, block, a->coding.form + chunk % a->coding.tried, w);
    w->live = w->count && pithi_lossless_undecided(a, it, block, w->form);
    const bool tops = w->form != PITHI_FORM_UPDATE && w->count >= PITHI_TOP_COUNT_LEAST;
    w->exponent = tops ? pithi_top_exponent_bits(a->to.plan.dtype) : 0;
    w->most = pithi_top_most_bits(w->exponent);
    for (uint32_t k = 0; k < 4; k++) w->tally[k] = 0;
}

/* No part has a string yet. */
PITHI_PHASE(pithi_lossless_clear, uint64_t form) {
    for (uint64_t i = t->tid; i < a->coding.strings; i += PITHI_TEAM) {
        struct pithi_rans_piece *const piece =
            pithi_coding_piece(a, s->to.index, form, (uint32_t)i);
        piece->n = piece->length = piece->need = 0;
    }
    if (!s->rans.words.exponent) return;
    for (uint32_t i = t->tid; i < 1u << s->rans.words.most; i += PITHI_TEAM)
        s->rans.sample.top[i] = 0;
    s->rans.sample.second[t->tid] = 0;
}

/* ---- Tops and lower bits ---------------------------------------------------------------------*/

/* Part of a body: whether tops are taken is in the block. */
PITHI_DEVICE void pithi_lossless_tops(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      uint64_t block) {
    PITHI_RUN(pithi_lossless_tops_count, block);
    PITHI_STEP(pithi_lossless_tops_above, block);
    PITHI_WARP_SUM(rans.total);
    PITHI_RUN(pithi_coded_publish, block);
    PITHI_RUN(pithi_lossless_tops_last, block);
    PITHI_RUN(pithi_lossless_tops_bytes, block);
    for (uint32_t bits = s->rans.words.exponent; bits <= s->rans.words.most; bits++) {
        PITHI_RUN(pithi_lossless_tops_cost, bits);
        PITHI_RUN(pithi_lossless_tops_judge, bits);
    }
    PITHI_RUN(pithi_lossless_tops_choose, block);
    if (s->rans.words.row) pithi_lossless_offsets(a, s, t, team, block);
    if (!s->rans.words.block.bits || s->rans.words.block.shifted) return;
    pithi_lossless_tops_all(a, s, t, team);
}

/* ---- Small symbols, or planes ----------------------------------------------------------------*/

PITHI_PHASE(pithi_lossless_tally, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    uint32_t tally[4] = {0, 0, 0, 0};
    (void)a, (void)block;
    for (uint32_t i = t->tid; i < w->count; i += PITHI_TEAM) {
        const uint64_t word = pithi_lossless_word(w, i);
        tally[0] += word >= 1;
        tally[1] += word >= 3;
        tally[2] += word >= 15;
        tally[3] += word >= 255;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) pithi_atomic_add32(&w->tally[k], tally[k]);
}
/* Symbols are bytes, since rANS takes no more for them than what they say. */
PITHI_PHASE(pithi_lossless_choose, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint64_t tally[4] = {w->tally[0], w->tally[1], w->tally[2], w->tally[3]};
    (void)a, (void)block;
    if (t->tid) return;
    s->rans.carry[0] = 0;
    w->block.bits = pithi_symbol_bits(tally, w->width, w->count) && w->width > 1 ? 8 : 0;
    w->block.low = w->block.base = 0;
    w->block.parts = 1 + w->width;
    w->block.escapes = w->block.bits ? w->tally[3] : w->count;
}

PITHI_PHASE(pithi_lossless_symbols, uint32_t first) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_lossless_left(w, t, first), at = first + t->tid * PITHI_UNIT;
    (void)a;
    uint64_t symbols = 0;
    t->rans.total = t->rans.own = 0;
    if (!n) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        const uint64_t word = pithi_lossless_word(w, at + k);
        symbols |= (word < PITHI_LOSSLESS_ESCAPE ? word : PITHI_LOSSLESS_ESCAPE) << 8 * k;
        t->rans.total += word >= PITHI_LOSSLESS_ESCAPE;
    }
    t->rans.own = t->rans.total;
    pithi_unit_put_codes(pithi_lossless_part(s, 0) + at, 8, n, symbols);
}
/* What words are more than an escape says, in planes. */
PITHI_PHASE(pithi_lossless_escapes, uint32_t first) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_lossless_left(w, t, first), at = first + t->tid * PITHI_UNIT;
    const uint32_t parity = first / PITHI_ROW % 2;
    (void)a;
    uint64_t i = s->rans.carry[parity] + pithi_coded_before(s, t);
    for (uint32_t k = 0; t->rans.own && k < n; k++) {
        const uint64_t word = pithi_lossless_word(w, at + k);
        if (word < PITHI_LOSSLESS_ESCAPE) continue;
        for (uint32_t byte = 0; byte < w->width; byte++)
            pithi_lossless_part(s, 1 + byte)[i] =
                (uint8_t)((word - PITHI_LOSSLESS_ESCAPE) >> 8 * byte);
        i++;
    }
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}
PITHI_PHASE(pithi_lossless_planes, uint32_t first) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_lossless_left(w, t, first), at = first + t->tid * PITHI_UNIT;
    (void)a;
    for (uint32_t i = 0; n && i < w->width; i++) {
        uint64_t plane = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n) plane |=
            (pithi_lossless_word(w, at + k) >> 8 * i & 0xFF) << 8 * k;
        pithi_unit_put_codes(pithi_lossless_part(s, 1 + i) + at, 8, n, plane);
    }
}

/* Part of a body. */
PITHI_DEVICE void pithi_lossless_split(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       uint64_t block) {
    PITHI_RUN(pithi_lossless_tally, block);
    PITHI_RUN(pithi_lossless_choose, block);
    const bool symbols = s->rans.words.block.bits;
    for (uint32_t first = 0; first < s->rans.words.count; first += PITHI_ROW) {
        if (symbols) {
            PITHI_STEP(pithi_lossless_symbols, first);
            PITHI_WARP_SUM(rans.total);
            PITHI_RUN(pithi_coded_publish, first);
            PITHI_RUN(pithi_lossless_escapes, first);
        } else {
            PITHI_STEP(pithi_lossless_planes, first);
        }
    }
}

/* ---- Strings ---------------------------------------------------------------------------------*/

/* The bytes of a part: 0 where the block has none. */
PITHI_DEVICE uint32_t pithi_lossless_part_count(const struct pithi_lossless_shared *w,
                                                uint32_t part) {
    const struct pithi_lossless_block *const b = &w->block;
    if (part == pithi_lossless_rows_part(w)) return b->shifted ? pithi_offsets_rows_count(w) : 0;
    if (part == pithi_lossless_rows_part(w) + 1) return b->shifted ? w->row : 0;
    if (part >= b->parts) return 0;
    if (b->bits == PITHI_LOSSLESS_TOPS) return w->count;
    if (part == 0) return b->bits ? w->count : 0;
    return b->escapes;
}

PITHI_PHASE(pithi_lossless_thin, uint32_t part) {
    (void)a;
    if (t->tid) return;
    s->rans.depth = 0;
    s->rans.from[0] = pithi_lossless_part(s, part);
    s->rans.bytes[0] = pithi_lossless_part_count(&s->rans.words, part);
}

/* By one thread: a string of n bytes, with so many kinds before it. */
PITHI_DEVICE void pithi_lossless_describe(const struct pithi_gpu_call *a,
                                          struct pithi_gpu_shared *s, uint64_t form,
                                          uint32_t string, const uint8_t *from, uint32_t n,
                                          uint32_t nested) {
    pithi_piece_describe(a, s, form, string, from, n);
    struct pithi_rans_piece *const piece = pithi_coding_piece(a, s->to.index, form, string);
    piece->nested = nested;
    piece->place = s->rans.words.place;
    s->rans.words.place += pithi_coding_string_bytes(n);
}
/* The strings of a part, as those of a plane (page_encode.h). */
PITHI_PHASE(pithi_lossless_strings, uint64_t form, uint32_t part) {
    const uint32_t depth = s->rans.depth, first = part * (uint32_t)a->coding.levels;
    if (t->tid) return;
    pithi_lossless_describe(a, s, form, first, s->rans.from[depth], s->rans.bytes[depth], depth);
    for (uint32_t i = 1; i <= depth; i++)
        pithi_lossless_describe(a, s, form, first + i, s->rans.others[depth - i],
                                s->rans.used[depth - i], 0);
}
PITHI_PHASE(pithi_lossless_record_block, uint64_t form) {
    if (t->tid == 0) *pithi_lossless_record(a, s->to.index, form) = s->rans.words.block;
}

/* A team a form of a block. */
PITHI_BODY(pithi_lossless_cut) {
    PITHI_RUN(pithi_lossless_open, number);
    if (s->to.status != PITH_OK) return;
    const uint64_t form = s->rans.words.number;
    PITHI_RUN(pithi_lossless_clear, form);
    if (!s->rans.words.live) return;
    if (s->rans.words.exponent) pithi_lossless_tops(a, s, t, team, form);
    if (!s->rans.words.block.bits) pithi_lossless_split(a, s, t, team, form);
    for (uint32_t part = 0; part < pithi_lossless_parts(&a->to.plan); part++) {
        if (!pithi_lossless_part_count(&s->rans.words, part)) continue;
        PITHI_RUN(pithi_lossless_thin, part);
        pithi_spread_cut(a, s, t, team, part);
        PITHI_RUN(pithi_lossless_strings, form, part);
    }
    PITHI_RUN(pithi_lossless_record_block, form);
}

/* ---- What a block comes to -------------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_lossless_head_bytes(const struct pithi_lossless_block *b) {
    return b->bits == PITHI_LOSSLESS_TOPS ? PITHI_LOSSLESS_TOPS_HEAD : PITHI_LOSSLESS_HEAD;
}
PITHI_DEVICE uint32_t pithi_lossless_tail_count(const struct pithi_lossless_shared *w) {
    if (w->block.bits != PITHI_LOSSLESS_TOPS) return 0;
    return pithi_lossless_bits_bytes(&w->block, w->count) + 2 * w->block.escapes;
}

/* By the team's first thread: a form of a block that was cut. */
PITHI_DEVICE void pithi_lossless_reopen(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        uint64_t block, uint32_t form) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    pithi_lossless_find_form(a, &s->to, block, form, w);
    w->block = *pithi_lossless_record(a, s->to.index, w->number);
    w->limit = w->count * w->width;
    s->rans.fault = 0;
}
PITHI_PHASE(pithi_lossless_again, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    if (it->status == PITH_OK) it->status = a->to.items.status[it->index];
    if (block >= it->slot->blocks) it->status = PITH_ERR_ARG;
}

/* Values must be shorter than an update that is known. */
PITHI_PHASE(pithi_lossless_measure_open, uint64_t block, uint32_t form) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t length = pithi_coding_entry(a, s->to.index, block)->length;
    if (t->tid) return;
    pithi_lossless_reopen(a, s, block, form);
    w->live = w->count && pithi_lossless_undecided(a, &s->to, block, form);
    if (form != PITHI_FORM_VALUES || !pithi_lossless_based(a) || length & PITHI_BLOCK_PLAIN) return;
    w->limit = length;
    if (w->count >= PITHI_VALUES_LEAST)
        w->live = w->live && pithi_values_may_pay(w->sampled, w->count, length);
}

/* The string of a thread, in the order of the block: offsets of rows and columns come first. There
 * are fewer strings than threads. */
PITHI_DEVICE struct pithi_rans_piece *pithi_lossless_own(const struct pithi_gpu_call *a,
                                                         const struct pithi_gpu_shared *s,
                                                         uint64_t form, uint32_t tid) {
    const uint32_t others = pithi_lossless_rows_part(&s->rans.words) * (uint32_t)a->coding.levels;
    return pithi_coding_piece(a, s->to.index, form, (uint32_t)((others + tid) % a->coding.strings));
}
PITHI_PHASE(pithi_lossless_length, uint64_t form) {
    t->rans.total = 0;
    if (t->tid < a->coding.strings) t->rans.total = pithi_lossless_own(a, s, form, t->tid)->length;
    t->rans.own = t->rans.total;
}
/* The CPU writes one string after the other while there is space for a block that is shorter than
 * its values; a rANS string it does not begin where there may be too little. */
PITHI_PHASE(pithi_lossless_place, uint64_t form) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    if (t->tid >= a->coding.strings) return;
    struct pithi_rans_piece *const piece = pithi_lossless_own(a, s, form, t->tid);
    piece->at = pithi_lossless_head_bytes(&w->block) + pithi_coded_before(s, t);
    if (piece->length && piece->at + piece->need >= w->limit) pithi_atomic_max32(&s->rans.fault, 1);
}
PITHI_PHASE(pithi_lossless_close, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    struct pithi_rans_entry *const entry = pithi_coding_entry(a, s->to.index, block);
    const uint64_t length =
        pithi_lossless_head_bytes(&w->block) + pithi_coded_all(s) + pithi_lossless_tail_count(w);
    const bool fits = !s->rans.fault && length < w->limit;
    if (t->tid) return;
    if (w->form == PITHI_FORM_SAMPLE) {
        w->sampled = fits ? (uint32_t)length : w->limit;
        return;
    }
    const bool second = w->form == PITHI_FORM_VALUES && pithi_lossless_based(a);
    if (!fits && second) return;
    entry->length = fits ? (uint32_t)length : w->limit | PITHI_BLOCK_PLAIN;
    entry->form = w->form;
}

/* A team a block. Values come behind their sample. */
PITHI_BODY(pithi_lossless_measure) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_lossless_again, number);
    if (s->to.status != PITH_OK) return;
    for (uint32_t i = a->coding.tried; i-- > 0;) {
        PITHI_MEET(); /* all have looked whether the form before was tried */
        PITHI_RUN(pithi_lossless_measure_open, block, a->coding.form + i);
        if (!s->rans.words.live) continue;
        const uint64_t form = s->rans.words.number;
        PITHI_STEP(pithi_lossless_length, form);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, form);
        PITHI_RUN(pithi_lossless_place, form);
        PITHI_RUN(pithi_lossless_close, block);
    }
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_lossless_put_head(uint8_t *to, const struct pithi_lossless_block *b) {
    to[0] = (uint8_t)((b->shifted ? PITHI_LOSSLESS_SHIFTED : b->bits) | b->update);
    if (b->bits != PITHI_LOSSLESS_TOPS) return;
    to[1] = (uint8_t)b->low;
    to[2] = (uint8_t)b->base;
    to[3] = (uint8_t)(b->base >> 8);
}

/* Copies strings of the form to where they lie in its block: so many from number `first` on. */
PITHI_LOCAL(pithi_lossless_copy_strings, uint64_t block, uint32_t first, uint32_t count,
            uint8_t *to) {
    const uint64_t frame = s->to.index;
    for (uint32_t i = first; i < first + count; i++) {
        const struct pithi_rans_piece *const piece =
            pithi_coding_piece(a, frame, s->rans.words.number, i);
        if (!piece->length) continue;
        const uint8_t *const string = pithi_coding_strings(a, frame, block) + piece->place;
        uint8_t *const at = pithi_piece_copy(t->tid, PITHI_TEAM, piece, string, to + piece->at);
        if (piece->plain)
            pithi_coded_copy(t->tid, PITHI_TEAM, at, pithi_coding_of(a, frame) + piece->from,
                             piece->n);
    }
}

PITHI_PHASE(pithi_lossless_copy, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->to;
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, block);
    uint8_t *const to = it->payload + entry->at;
    if (entry->length & PITHI_BLOCK_PLAIN) {
        pithi_coded_copy(t->tid, PITHI_TEAM, to, w->values, (uint64_t)w->count * w->width);
        return;
    }
    const uint32_t tail = pithi_lossless_tail_count(w);
    if (t->tid == 0) pithi_lossless_put_head(to, &w->block);
    pithi_coded_copy(t->tid, PITHI_TEAM, to + entry->length - tail,
                     pithi_lossless_tail(&a->to.plan, s), tail);
    pithi_lossless_copy_strings(a, s, t, block, 0, (uint32_t)a->coding.strings, to);
}

PITHI_PHASE(pithi_lossless_write_open, uint64_t block) {
    if (t->tid == 0)
        pithi_lossless_reopen(a, s, block, pithi_coding_entry(a, s->to.index, block)->form);
}

/* A team a block. */
PITHI_BODY(pithi_lossless_write) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_lossless_again, number);
    if (s->to.status != PITH_OK) return;
    PITHI_RUN(pithi_lossless_write_open, block);
    PITHI_RUN(pithi_lossless_copy, block);
    pithi_coded_seal(a, s, t, team, block);
}

#endif
