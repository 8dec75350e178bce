/* strings_decode.h - coded words of rows, of act and of eb to numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team finds the strings of its block. Symbols of words are left to a launch that has a warp for
 * each string; the next makes words of them. What is wrong it leaves in the frame's mark, before
 * any value is written. */
#ifndef PITHI_GPU_DEVICE_BYTES_STRINGS_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_STRINGS_DECODE_H

#include "device/bytes/lossless_decode.h"
#include "device/bytes/strings.h"

/* ---- A block ---------------------------------------------------------------------------------*/

/* By the team's first thread: a block that is wanted, and not plain. */
PITHI_DEVICE bool pithi_strings_wanted(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       uint64_t number) {
    struct pithi_gpu_block *const b = &s->rans.bounded.block;
    pithi_item_locate(a, &a->from, number, &s->from);
    s->from.status = pithi_mark(a, s->from.index)->status;
    if (!pithi_strings_find(a, &a->from, &s->from, number, s)) return false;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    b->bytes = s->from.payload + entry->at;
    b->length = entry->length & ~PITHI_INDEX_PLAIN;
    b->plain = entry->length & PITHI_INDEX_PLAIN;
    if (pithi_coded_tiles(&a->from.plan)) return !b->plain; /* its elements are not neighbours */
    return !b->plain && b->lo < b->hi && b->before < b->hi && b->before + b->count > b->lo;
}

/* By the team's first thread: head and exact values, which others look at, up to the map; whether
 * they can be so. */
PITHI_DEVICE bool pithi_strings_parse(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    struct pithi_gpu_rows *const r = &e->rows;
    if (pithi_coded_zeros(&a->from.plan)) {
        const uint32_t width = pithi_dtype_bytes(a->from.plan.dtype);
        if (pithi_zeros_parse(&e->block, &e->zeros, width) != PITHI_SOUND) return false;
        s->rans.at = e->block.body;
        s->rans.left = e->block.body_bytes;
        return true;
    }
    if (!pithi_rows_parse_head(&e->block, r, pithi_dtype_bytes(a->from.plan.dtype))) return false;
    const uint32_t kind = e->block.bytes[0] & PITHI_ROWS_MAP;
    s->rans.at = e->block.body;
    s->rans.left = e->block.body_bytes;
    e->coded.map_at = (uint32_t)(e->block.body - e->block.bytes);
    if (kind == PITHI_ROWMAP_CODED && r->kind == PITHI_ROWMAP_PLAIN) r->kind = kind;
    if (kind != r->kind) return false;
    return kind != PITHI_ROWMAP_PLAIN ||
           pithi_planes_take(s, (uint32_t)pithi_rowmap_plain_bytes(r->rows, r->distinct));
}

/* By the team's first thread: the block, of which nothing is known; whether there is one. */
PITHI_DEVICE bool pithi_strings_read_begin(const struct pithi_gpu_call *a,
                                           struct pithi_gpu_shared *s, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    s->rans.live = pithi_strings_wanted(a, s, number);
    if (!e->block.live) return false;
    const uint64_t forms = a->coding.forms, parts = pithi_lossless_parts(&a->from.plan);
    for (uint64_t i = 0; i < forms; i++) {
        const uint64_t words = e->block.number * forms + i;
        for (uint32_t part = 0; part < parts; part++)
            pithi_coding_piece(a, s->from.index, words, part * (uint32_t)a->coding.levels)->length =
                0;
        pithi_strings_record(a, s->from.index, words)->sound = 0;
    }
    pithi_entry(e->block.workspace, e->block.number)->bounded.kind =
        0; /* act, eb: nothing is known */
    s->rans.plain = s->rans.foreign = false;
    s->rans.exact = true;
    s->rans.former = s->from.frame[PITHI_AT_REVISION] < 2;
    s->rans.fault = 0;
    s->rans.waits = false;
    e->coded.low = e->coded.form = e->coded.escapes = e->coded.symbols = e->coded.others = 0;
    e->coded.words_at = e->coded.escapes_at = e->coded.open = e->coded.sound = 0;
    for (uint32_t i = 0; i < PITHI_RANS_READERS; i++) s->rans.string[i].live = false;
    return true;
}
PITHI_PHASE(pithi_strings_read_open, uint64_t number) {
    if (t->tid || !pithi_strings_read_begin(a, s, number)) return;
    if (!s->rans.live || pithi_strings_parse(a, s)) return;
    pithi_reader_damaged(a, s);
    s->rans.live = false;
}

/* Part of a body: a part that was begun is read, unless it waits. */
PITHI_DEVICE void pithi_strings_levels(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team) {
    if (s->rans.fault || s->rans.waits) return;
    for (uint32_t level = s->rans.depth + 1; level-- > 0 && !s->rans.fault;)
        pithi_plane_level(a, s, t, team, level);
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* By the team's first thread: coded words up to their symbols; whether they can be so. */
PITHI_DEVICE bool pithi_strings_words_parse(struct pithi_gpu_shared *s) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t words = pithi_strings_words(e);
    const uint8_t *const head = pithi_planes_take(s, PITHI_SYMBOLS_HEAD);
    if (!head || head[0] > PITHI_SYMBOLS_LOW_MOST || head[1] > PITHI_SYMBOLS_SPARSE || head[2] ||
        head[3])
        return false;
    e->coded.low = head[0];
    e->coded.form = head[1];
    e->coded.others = 0;
    e->coded.escapes = pithi_get32(head + 4);
    e->coded.words_at = (uint32_t)(s->rans.at - e->block.bytes);
    e->coded.symbols = words;
    if (e->coded.escapes > words || !pithi_planes_take(s, (uint32_t)pithi_strings_low_bytes(e)))
        return false;
    if (e->coded.form == PITHI_SYMBOLS_DENSE) return true;
    const uint8_t *const sparse = pithi_planes_take(s, PITHI_SYMBOLS_SPARSE_HEAD);
    if (!sparse) return false;
    e->coded.symbols = pithi_get32(sparse);
    e->coded.others = pithi_get32(sparse + 4);
    return e->coded.symbols <= words && e->coded.others <= words;
}

/* A part of words; nothing depends on the last one. */
PITHI_PHASE(pithi_strings_part_begin, uint64_t block, uint32_t part) {
    const struct pithi_bounded_strings *const c = &s->rans.bounded.coded;
    const bool last = part == PITHI_STRINGS_OTHERS || c->form == PITHI_SYMBOLS_DENSE;
    if (t->tid == 0)
        pithi_lossless_read_whole(a, s, block, part,
                                  part == PITHI_STRINGS_OTHERS ? c->others : c->symbols, last);
}
PITHI_PHASE(pithi_strings_words_end, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid || s->rans.fault) return;
    e->coded.escapes_at = (uint32_t)(s->rans.at - e->block.bytes);
    s->rans.fault = s->rans.left / 4 < e->coded.escapes ||
                    !pithi_planes_take(s, 4 * e->coded.escapes) ||
                    (s->rans.left && !pithi_coded_tiles(&a->from.plan));
    e->coded.sound = !s->rans.fault;
    *pithi_strings_record(a, s->from.index, number) = e->coded;
}

/* Part of a body: coded words whose head is sound; those of a block are its last bytes, but for
 * sequences of eb. */
PITHI_DEVICE void pithi_strings_read_parts(const struct pithi_gpu_call *a,
                                           struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                           struct pithi_team *team, uint64_t block) {
    const struct pithi_bounded_strings *const c = &s->rans.bounded.coded;
    for (uint32_t part = PITHI_STRINGS_SYMBOLS; part < PITHI_STRINGS_PARTS; part++) {
        if (!(part == PITHI_STRINGS_OTHERS ? c->others : c->symbols)) continue;
        PITHI_MEET(); /* all have looked */
        PITHI_RUN(pithi_strings_part_begin, block, part);
        pithi_strings_levels(a, s, t, team);
        if (s->rans.fault) return;
    }
    PITHI_MEET();
    PITHI_RUN(pithi_strings_words_end, s->rans.words.number);
}

PITHI_LOCAL(pithi_strings_read_close, uint64_t block) {
    struct pithi_gpu_mark *const m = pithi_mark(a, s->from.index);
    (void)block;
    if (t->tid || !s->rans.fault) return;
    pithi_atomic_max32(s->rans.foreign ? &m->unsupported : &m->corrupt, 1);
}

/* ---- Symbols to codes ------------------------------------------------------------------------*/

PITHI_PHASE(pithi_strings_join_open, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid) return;
    s->rans.live = pithi_strings_wanted(a, s, number);
    if (!s->rans.live) return;
    e->coded =
        *pithi_strings_record(a, s->from.index, e->block.number * a->coding.forms + e->block.part);
    s->rans.live = e->coded.sound;
    s->rans.carry[0] = 0;
    s->rans.fault = 0;
    if (!s->rans.live) return;
    if (pithi_coded_tiles(&a->from.plan)) {
        pithi_eb_sequence(a, &a->from, s->from.index, e->block.bytes[0], e->block.part, s);
        return;
    }
    if (pithi_coded_zeros(&a->from.plan)) {
        e->rows.distinct = pithi_entry(e->block.workspace, e->block.number)->bounded.distinct;
        return;
    }
    pithi_rows_parse_head(&e->block, &e->rows, pithi_dtype_bytes(a->from.plan.dtype));
    e->rows.kind = e->block.bytes[0] & PITHI_ROWS_MAP;
    e->rows.coded = pithi_entry(e->block.workspace, e->block.number)->bounded.map;
    pithi_rows_place(&e->rows, e->block.bytes + e->coded.map_at);
}

/* The symbols of words: as they were read, or put in their places, where the launches of values
 * make sums later. */
PITHI_DEVICE uint8_t *pithi_strings_symbols(const struct pithi_gpu_shared *s) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (e->coded.form == PITHI_SYMBOLS_SPARSE) return (uint8_t *)(void *)e->rows.code;
    return pithi_lossless_part(s, PITHI_STRINGS_SYMBOLS);
}

PITHI_PHASE(pithi_strings_join_clear, uint32_t n) {
    uint8_t *const symbols = pithi_strings_symbols(s);
    (void)a;
    for (uint32_t i = t->tid; i < n; i += PITHI_TEAM) symbols[i] = 0;
}
/* Places up to the end of the thread's gaps of a strip, and, 32 bits up, how many of them end. */
PITHI_LOCAL(pithi_strings_join_gaps, uint32_t first) {
    const uint32_t n = pithi_strings_left(t, first, s->rans.bounded.coded.symbols);
    const uint8_t *const gaps =
        pithi_lossless_part(s, PITHI_STRINGS_SYMBOLS) + first + t->tid * PITHI_UNIT;
    (void)a;
    t->rans.total = 0;
    for (uint32_t k = 0; k < n; k++)
        t->rans.total +=
            gaps[k] == PITHI_LOSSLESS_ESCAPE ? gaps[k] : (UINT64_C(1) << 32) + gaps[k] + 1;
    t->rans.own = t->rans.total;
}
PITHI_PHASE(pithi_strings_join_others, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t n = pithi_strings_left(t, first, e->coded.symbols),
                   words = pithi_strings_words(e);
    const uint8_t *const gaps =
        pithi_lossless_part(s, PITHI_STRINGS_SYMBOLS) + first + t->tid * PITHI_UNIT;
    const uint8_t *const others = pithi_lossless_part(s, PITHI_STRINGS_OTHERS);
    uint8_t *const symbols = pithi_strings_symbols(s);
    const uint64_t before = pithi_strings_before(s, t, first / PITHI_ROW);
    uint64_t at = before & 0xFFFFFFFFu, i = before >> 32;
    (void)a;
    for (uint32_t k = 0; k < n; k++) {
        at += gaps[k];
        if (gaps[k] == PITHI_LOSSLESS_ESCAPE) continue;
        if (at < words && i < e->coded.others) symbols[at] = others[i];
        at++, i++;
    }
    if (t->tid == 0) pithi_strings_carry(s, first / PITHI_ROW);
}
/* Judges gaps: as many end as there are symbols, the last of them too, and none behind the last
 * word. */
PITHI_PHASE(pithi_strings_join_judge, uint32_t strips) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint64_t sum = s->rans.carry[strips % 2];
    const uint32_t gaps = e->coded.symbols;
    (void)a;
    if (t->tid) return;
    if (sum >> 32 != e->coded.others || (sum & 0xFFFFFFFFu) > pithi_strings_words(e) ||
        (gaps && pithi_lossless_part(s, PITHI_STRINGS_SYMBOLS)[gaps - 1] == PITHI_LOSSLESS_ESCAPE))
        s->rans.fault = 1;
    s->rans.carry[0] = 0;
}

PITHI_LOCAL(pithi_strings_join_escapes, uint32_t first) {
    const uint32_t n = pithi_strings_left(t, first, pithi_strings_words(&s->rans.bounded));
    (void)a;
    t->rans.next = 0;
    if (n)
        t->rans.next =
            pithi_unit_get_codes(pithi_strings_symbols(s) + first + t->tid * PITHI_UNIT, 8, n);
    t->rans.total = t->rans.own = pithi_lossless_read_escaped(t->rans.next, 8, n);
}
/* Low bits of words [at, at + 8), half a group. */
PITHI_DEVICE void pithi_strings_low(const struct pithi_bounded_shared *e, uint32_t at,
                                    uint32_t word[PITHI_UNIT]) {
    const uint32_t low = e->coded.low, g = at / PITHI_GROUP, half = at / PITHI_UNIT % 2;
    const uint8_t *const planes = e->block.bytes + e->coded.words_at + 2 * (uint64_t)g * low;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] = 0;
    for (uint32_t i = 0; i < low; i++) {
        const uint32_t plane = planes[2 * i + half];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] |= (plane >> k & 1) << i;
    }
}
PITHI_PHASE(pithi_strings_join_words, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const struct pithi_gpu_rows *const r = &e->rows;
    const uint32_t n = pithi_strings_left(t, first, pithi_strings_words(e));
    const uint32_t at = first + t->tid * PITHI_UNIT;
    const uint8_t *const escapes = e->block.bytes + e->coded.escapes_at;
    uint64_t i = pithi_strings_before(s, t, first / PITHI_ROW);
    (void)a;
    if (t->tid == 0) pithi_strings_carry(s, first / PITHI_ROW);
    if (!n) return;
    uint32_t word[PITHI_UNIT], j = at % r->row;
    pithi_strings_low(e, at, word);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        uint32_t high = (uint32_t)(t->rans.next >> 8 * k) & 255;
        if (k >= n) continue;
        if (high == PITHI_LOSSLESS_ESCAPE && i++ < e->coded.escapes)
            high += pithi_get32(escapes + 4 * (i - 1));
        r->scratch[at + k] =
            (uint32_t)pithi_unzigzag(word[k] | high << e->coded.low) + pithi_centre_get(r, j);
        j = j + 1 == r->row ? 0 : j + 1;
    }
}
PITHI_LOCAL(pithi_strings_join_close, uint32_t strips) {
    if (t->tid == 0 &&
        (s->rans.fault || s->rans.carry[strips % 2] != s->rans.bounded.coded.escapes))
        pithi_reader_damaged(a, s);
}

/* Part of a body: symbols that are not 0 to their places. */
PITHI_DEVICE void pithi_strings_join_spread(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team) {
    const uint32_t gaps = s->rans.bounded.coded.symbols;
    uint32_t strips = 0;
    PITHI_RUN(pithi_strings_join_clear, pithi_strings_words(&s->rans.bounded));
    for (uint32_t first = 0; first < gaps; first += PITHI_ROW, strips++) {
        PITHI_STEP(pithi_strings_join_gaps, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_strings_join_others, first);
    }
    PITHI_RUN(pithi_strings_join_judge, strips);
}

/* A team a block, or a sequence of one. */
PITHI_BODY(pithi_strings_join) {
    uint32_t strips = 0;
    PITHI_RUN(pithi_strings_join_open, number);
    if (!s->rans.live) return;
    const uint32_t words = pithi_strings_words(&s->rans.bounded);
    if (s->rans.bounded.coded.form == PITHI_SYMBOLS_SPARSE)
        pithi_strings_join_spread(a, s, t, team);
    for (uint32_t first = 0; first < words; first += PITHI_ROW, strips++) {
        PITHI_STEP(pithi_strings_join_escapes, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_strings_join_words, first);
    }
    PITHI_STEP(pithi_strings_join_close, strips);
}

#endif
