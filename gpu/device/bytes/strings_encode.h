/* strings_encode.h - words of rows, of act and of eb to symbols, those of maps of rows too, and
 * what strings of these take in a block.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a block, and decides as the CPU does: bytes/symbols_choice.h. */
#ifndef PITHI_GPU_DEVICE_BYTES_STRINGS_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_STRINGS_ENCODE_H

#include "device/bytes/embed_map.h"

/* By the team's first thread: a block of which launches before know rows and centres. */
PITHI_DEVICE const struct pithi_gpu_entry *pithi_strings_made(const struct pithi_gpu_call *a,
                                                              struct pithi_gpu_shared *s,
                                                              uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (!pithi_strings_find(a, &a->to, &s->to, number, s)) return NULL;
    const struct pithi_gpu_entry *const entry = pithi_entry(e->block.workspace, e->block.number);
    if (pithi_coded_tiles(&a->to.plan)) {
        pithi_eb_sequence(a, &a->to, s->to.index, entry->bounded.method, e->block.part, s);
        return entry;
    }
    pithi_rows_distinct(&e->block, &e->rows, entry->bounded.distinct);
    e->rows.wide = entry->bounded.order;
    return entry;
}

/* Words [at, at + n) of the distinct rows. */
PITHI_DEVICE void pithi_strings_unit(const struct pithi_gpu_rows *r, uint32_t at, uint32_t n,
                                     uint32_t word[PITHI_UNIT]) {
    uint32_t d = at / r->row, j = at - d * r->row;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        word[k] = 0;
        if (k >= n) continue;
        word[k] = pithi_zigzag(pithi_distinct_code(r, d, j) - (r->wide ? r->scratch[j] : 0));
        j = j + 1 == r->row ? 0 : j + 1;
        d += j == 0;
    }
}
PITHI_DEVICE uint32_t pithi_strings_symbol(uint32_t word, uint32_t low) {
    const uint32_t high = word >> low;
    return high < PITHI_LOSSLESS_ESCAPE ? high : (uint32_t)PITHI_LOSSLESS_ESCAPE;
}

/* ---- How words are cut -----------------------------------------------------------------------*/

PITHI_PHASE(pithi_strings_open, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    pithi_strings_made(a, s, number);
}
PITHI_PHASE(pithi_strings_words_clear, uint32_t unused) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    (void)a, (void)unused;
    if (t->tid < 33) e->lengths.of[t->tid] = 0;
    if (t->tid) return;
    e->coded.map_at = e->coded.words_at = e->coded.open = 0;
    e->coded.symbols = e->coded.others = 0;
    e->escapes = e->next[0] = 0;
    s->rans.carry[0] = 0;
}

/* No part has a string yet; no open bits are set. */
PITHI_PHASE(pithi_strings_clear, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->rans.bounded.rows;
    (void)unused;
    for (uint64_t i = t->tid; i < a->coding.strings; i += PITHI_TEAM) {
        struct pithi_rans_piece *const piece =
            pithi_coding_piece(a, s->to.index, s->rans.words.number, (uint32_t)i);
        piece->n = piece->length = piece->need = 0;
    }
    for (uint32_t i = t->tid; i < r->rows; i += PITHI_TEAM) r->place[r->rows + i] = 0;
}

PITHI_PHASE(pithi_strings_count, uint32_t unused) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t n = pithi_strings_words(e), step = (uint32_t)pithi_symbols_step(n);
    const uint32_t runs = (n + step - 1) / step, last = n - (runs - 1) * step;
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < runs * PITHI_SYMBOLS_RUN; i += PITHI_TEAM) {
        const uint32_t at = i / PITHI_SYMBOLS_RUN * step + i % PITHI_SYMBOLS_RUN;
        uint32_t word[PITHI_UNIT];
        if (at >= n) continue;
        pithi_strings_unit(&e->rows, at, 1, word);
        pithi_atomic_add32(&e->lengths.of[pithi_bit_length(word[0])], 1);
    }
    if (t->tid) return;
    e->lengths.total = (runs - 1) * PITHI_SYMBOLS_RUN +
                       (last < PITHI_SYMBOLS_RUN ? last : (uint32_t)PITHI_SYMBOLS_RUN);
}
PITHI_PHASE(pithi_strings_lengths, uint32_t unused) {
    struct pithi_symbol_lengths *const l = &s->rans.bounded.lengths;
    const uint32_t whole = l->total ? pithi_log2_256(l->total) : 0;
    (void)a, (void)unused;
    if (t->tid < 33) l->cost[t->tid] = pithi_symbols_cost_of(l->of[t->tid], whole);
    if (t->tid == 0) l->whole = whole;
}
PITHI_PHASE(pithi_strings_cost, uint32_t unused) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    (void)a, (void)unused;
    if (t->tid <= PITHI_SYMBOLS_LOW_MOST) e->cost[t->tid] = pithi_symbols_cost(&e->lengths, t->tid);
}
PITHI_PHASE(pithi_strings_choose, uint32_t unused) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    (void)a, (void)unused;
    if (t->tid) return;
    e->coded.low = pithi_symbols_low(e->cost);
    e->coded.form =
        pithi_symbols_thin(&e->lengths, e->coded.low) ? PITHI_SYMBOLS_SPARSE : PITHI_SYMBOLS_DENSE;
}

/* ---- Symbols ---------------------------------------------------------------------------------*/

/* Keeps the symbols of the thread's words of a strip in t->rans.next, and counts escapes. Returns
 * the place behind the last that is not 0, or 0. */
PITHI_DEVICE uint32_t pithi_strings_look(struct pithi_bounded_shared *e, struct pithi_gpu_thread *t,
                                         uint32_t first) {
    const uint32_t n = pithi_strings_left(t, first, pithi_strings_words(e));
    const uint32_t at = first + t->tid * PITHI_UNIT;
    uint32_t word[PITHI_UNIT], escapes = 0, last = 0;
    t->rans.next = 0;
    if (!n) return 0;
    pithi_strings_unit(&e->rows, at, n, word);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t symbol = pithi_strings_symbol(word[k], e->coded.low);
        if (k >= n) continue;
        t->rans.next |= (uint64_t)symbol << 8 * k;
        escapes += symbol == PITHI_LOSSLESS_ESCAPE;
        if (symbol) last = at + k + 1;
    }
    if (escapes) pithi_atomic_add32(&e->escapes, escapes);
    return last;
}

PITHI_PHASE(pithi_strings_dense, uint32_t first) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t n = pithi_strings_left(t, first, pithi_strings_words(e));
    uint8_t *const to = pithi_lossless_part(s, PITHI_STRINGS_SYMBOLS);
    (void)a;
    pithi_strings_look(e, t, first);
    if (n) pithi_unit_put_codes(to + first + t->tid * PITHI_UNIT, 8, n, t->rans.next);
}

/* Gaps are bytes of 255 zeros each, and one of the rest. */
PITHI_PHASE(pithi_strings_thin, uint32_t first) {
    (void)a;
    s->rans.bounded.last[t->tid] = pithi_strings_look(&s->rans.bounded, t, first);
}
/* Bytes of the thread's gaps, 32 bits up, and how many symbols are not 0. */
PITHI_LOCAL(pithi_strings_gaps, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    uint32_t next = e->next[first / PITHI_ROW % 2], bytes = 0, others = 0;
    (void)a;
    t->rans.total = t->rans.own = 0;
    if (!t->rans.next) return;
    for (uint32_t i = t->tid; i-- > 0;) {
        if (!e->last[i]) continue;
        next = e->last[i];
        break;
    }
    t->rans.symbol = next;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t at = first + t->tid * PITHI_UNIT + k;
        if (!(t->rans.next >> 8 * k & 255)) continue;
        bytes += (at - next) / PITHI_LOSSLESS_ESCAPE + 1;
        others++;
        next = at + 1;
    }
    t->rans.total = t->rans.own = (uint64_t)bytes << 32 | others;
}
PITHI_PHASE(pithi_strings_gaps_put, uint32_t first) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t strip = first / PITHI_ROW;
    const uint64_t before = pithi_strings_before(s, t, strip);
    uint8_t *gap = pithi_lossless_part(s, PITHI_STRINGS_SYMBOLS) + (before >> 32);
    uint8_t *other = pithi_lossless_part(s, PITHI_STRINGS_OTHERS) + (before & 0xFFFFFFFFu);
    uint32_t next = t->rans.symbol;
    (void)a;
    for (uint32_t k = 0; t->rans.next && k < PITHI_UNIT; k++) {
        const uint32_t at = first + t->tid * PITHI_UNIT + k;
        const uint8_t symbol = (uint8_t)(t->rans.next >> 8 * k);
        if (!symbol) continue;
        uint32_t zeros = at - next;
        for (; zeros >= PITHI_LOSSLESS_ESCAPE; zeros -= PITHI_LOSSLESS_ESCAPE)
            *gap++ = PITHI_LOSSLESS_ESCAPE;
        *gap++ = (uint8_t)zeros;
        *other++ = symbol;
        next = at + 1;
    }
    if (t->tid) return;
    pithi_strings_carry(s, strip);
    e->next[(strip + 1) % 2] = e->next[strip % 2];
    for (uint32_t i = 0; i < PITHI_TEAM; i++)
        if (e->last[i]) e->next[(strip + 1) % 2] = e->last[i];
}

PITHI_PHASE(pithi_strings_words_close, uint32_t strips) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const bool thin = e->coded.form == PITHI_SYMBOLS_SPARSE;
    (void)a;
    if (t->tid) return;
    e->coded.escapes = e->escapes;
    e->coded.symbols = thin ? (uint32_t)(s->rans.carry[strips % 2] >> 32) : pithi_strings_words(e);
    e->coded.others = thin ? (uint32_t)s->rans.carry[strips % 2] : 0;
    s->rans.carry[0] = 0; /* of the map */
}

/* Part of a body. */
PITHI_DEVICE void pithi_strings_cut_words(const struct pithi_gpu_call *a,
                                          struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                          struct pithi_team *team) {
    uint32_t strips = 0;
    PITHI_RUN(pithi_strings_words_clear, 0);
    PITHI_RUN(pithi_strings_count, 0);
    PITHI_RUN(pithi_strings_lengths, 0);
    PITHI_RUN(pithi_strings_cost, 0);
    PITHI_RUN(pithi_strings_choose, 0);
    const uint32_t n = pithi_strings_words(&s->rans.bounded);
    const bool thin = s->rans.bounded.coded.form == PITHI_SYMBOLS_SPARSE;
    for (uint32_t first = 0; first < n; first += PITHI_ROW, strips++) {
        if (!thin) {
            PITHI_RUN(pithi_strings_dense, first);
            continue;
        }
        PITHI_RUN(pithi_strings_thin, first);
        PITHI_STEP(pithi_strings_gaps, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_strings_gaps_put, first);
    }
    PITHI_RUN(pithi_strings_words_close, strips);
}

/* ---- Strings ---------------------------------------------------------------------------------*/

/* The bytes of a part: 0 where the block has none. */
PITHI_DEVICE uint32_t pithi_strings_part_count(const struct pithi_bounded_shared *e,
                                               uint32_t part) {
    if (part == PITHI_STRINGS_MAP) return e->rows.kind == PITHI_ROWMAP_PLAIN ? e->rows.rows : 0;
    return part == PITHI_STRINGS_SYMBOLS ? e->coded.symbols : e->coded.others;
}
PITHI_PHASE(pithi_strings_part, uint32_t part) {
    (void)a;
    if (t->tid) return;
    s->rans.depth = 0;
    s->rans.from[0] = pithi_lossless_part(s, part);
    s->rans.bytes[0] = pithi_strings_part_count(&s->rans.bounded, part);
}
PITHI_PHASE(pithi_strings_record_words, uint64_t number) {
    if (t->tid == 0) *pithi_strings_record(a, s->to.index, number) = s->rans.bounded.coded;
}

/* A team a block, or a sequence of one. */
PITHI_BODY(pithi_strings_cut) {
    PITHI_RUN(pithi_strings_open, number);
    if (!s->rans.bounded.block.live) return;
    const uint64_t words = s->rans.words.number;
    PITHI_RUN(pithi_strings_clear, 0);
    if (!pithi_strings_words(&s->rans.bounded)) return;
    pithi_strings_cut_words(a, s, t, team);
    if (s->rans.bounded.rows.kind == PITHI_ROWMAP_PLAIN) pithi_embed_cut_map(a, s, t, team);
    for (uint32_t part = 0; part < PITHI_STRINGS_PARTS; part++) {
        if (!pithi_strings_part_count(&s->rans.bounded, part)) continue;
        PITHI_RUN(pithi_strings_part, part);
        pithi_spread_cut(a, s, t, team, part);
        PITHI_RUN(pithi_lossless_strings, words, part);
    }
    PITHI_RUN(pithi_strings_record_words, words);
}

/* ---- What words come to ----------------------------------------------------------------------*/

/* The length of a block in which the CPU finds too little space. */
#define PITHI_STRINGS_FULL (UINT64_MAX / 2)

/* Places the strings of a part of a block or a sequence, from byte `at` of the block on; they end
 * before byte `end`. Returns where they do. The CPU does not begin a string that may need more than
 * there is. */
PITHI_DEVICE uint64_t pithi_strings_place(const struct pithi_gpu_call *a, uint64_t frame,
                                          uint64_t number, uint32_t part, uint64_t at,
                                          uint64_t end) {
    const uint32_t levels = (uint32_t)a->coding.levels;
    for (uint32_t i = 0; i < levels; i++) {
        struct pithi_rans_piece *const piece =
            pithi_coding_piece(a, frame, number, part * levels + i);
        if (!piece->length) continue;
        if (at + piece->need > end) return PITHI_STRINGS_FULL;
        piece->at = at;
        at += piece->length;
    }
    return at;
}

/* Where coded words end, of which byte `at` is the first and that end before byte `end`: where more
 * than that is needed beyond it. coded: what they are made of, their strings from part `part`
 * on. */
PITHI_DEVICE uint64_t pithi_strings_words_length(const struct pithi_gpu_call *a,
                                                 const struct pithi_gpu_shared *s, uint32_t part,
                                                 struct pithi_bounded_strings *coded, uint64_t at,
                                                 uint64_t end) {
    const uint64_t frame = s->to.index, number = s->rans.words.number;
    const bool thin = coded->form == PITHI_SYMBOLS_SPARSE;
    coded->words_at = (uint32_t)at;
    at += PITHI_SYMBOLS_HEAD + 2 * (uint64_t)coded->low * pithi_strings_groups(&s->rans.bounded) +
          (thin ? PITHI_SYMBOLS_SPARSE_HEAD : 0);
    at = pithi_strings_place(a, frame, number, part, at, end);
    at = pithi_strings_place(a, frame, number, part + 1, at, end);
    coded->escapes_at = (uint32_t)at;
    return at + 4 * (uint64_t)coded->escapes;
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_strings_write_open, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    const struct pithi_gpu_entry *const entry = pithi_strings_made(a, s, number);
    if (!entry) return;
    e->coded = *pithi_strings_record(a, s->to.index, s->rans.words.number);
    e->block.bytes = s->to.payload + entry->at;
    e->block.plain = entry->length & PITHI_INDEX_PLAIN;
    e->block.method = entry->bounded.method;
    e->rows.kind = entry->bounded.kind;
    e->rows.coded = entry->bounded.map;
    s->rans.carry[0] = 0;
}

/* What coded words have besides symbols and escapes: heads, and low bits in planes. */
PITHI_PHASE(pithi_strings_low_put, uint64_t block) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t low = e->coded.low, n = pithi_strings_words(e);
    uint8_t *const head = e->block.bytes + e->coded.words_at, *const planes =
                                                                  head + PITHI_SYMBOLS_HEAD;
    (void)a, (void)block;
    for (uint32_t g = t->tid; low && g < pithi_strings_groups(e); g += PITHI_TEAM) {
        uint32_t word[2][PITHI_UNIT];
        PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) {
            const uint32_t at = g * PITHI_GROUP + i * PITHI_UNIT;
            pithi_strings_unit(&e->rows, at, pithi_unit_left(at, n), word[i]);
        }
        for (uint32_t k = 0; k < low; k++) {
            uint32_t plane = 0;
            PITHI_UNROLL for (uint32_t i = 0; i < PITHI_GROUP; i++) plane |=
                (word[i / PITHI_UNIT][i % PITHI_UNIT] >> k & 1) << i;
            pithi_own_put(planes + 2 * ((uint64_t)g * low + k), 2, plane);
        }
    }
    if (t->tid) return;
    pithi_put32(head, low | e->coded.form << 8);
    pithi_put32(head + 4, e->coded.escapes);
    if (e->coded.form != PITHI_SYMBOLS_SPARSE) return;
    pithi_put32(planes + pithi_strings_low_bytes(e), e->coded.symbols);
    pithi_put32(planes + pithi_strings_low_bytes(e) + 4, e->coded.others);
}
PITHI_LOCAL(pithi_strings_put, uint64_t block) {
    const uint32_t levels = (uint32_t)a->coding.levels;
    pithi_lossless_copy_strings(a, s, t, block, s->rans.bounded.part * levels, 2 * levels,
                                s->rans.bounded.block.bytes);
}

PITHI_LOCAL(pithi_strings_escapes, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t n = pithi_strings_left(t, first, pithi_strings_words(e));
    uint32_t word[PITHI_UNIT];
    (void)a;
    t->rans.total = 0;
    pithi_strings_unit(&e->rows, first + t->tid * PITHI_UNIT, n, word);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->rans.total +=
        word[k] >> e->coded.low >= PITHI_LOSSLESS_ESCAPE;
    t->rans.own = t->rans.total;
}
PITHI_PHASE(pithi_strings_escapes_put, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t n = pithi_strings_left(t, first, pithi_strings_words(e));
    const uint64_t before = pithi_strings_before(s, t, first / PITHI_ROW);
    uint8_t *to = e->block.bytes + e->coded.escapes_at + 4 * before;
    uint32_t word[PITHI_UNIT];
    (void)a;
    if (t->tid == 0) pithi_strings_carry(s, first / PITHI_ROW);
    if (!t->rans.own) return;
    pithi_strings_unit(&e->rows, first + t->tid * PITHI_UNIT, n, word);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        const uint32_t high = word[k] >> e->coded.low;
        if (high < PITHI_LOSSLESS_ESCAPE) continue;
        pithi_put32(to, high - PITHI_LOSSLESS_ESCAPE);
        to += 4;
    }
}

/* Part of a body: coded words, of which e->coded is known. */
PITHI_DEVICE void pithi_strings_words_write(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t block) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    PITHI_RUN(pithi_strings_low_put, block);
    PITHI_STEP(pithi_strings_put, block);
    for (uint32_t first = 0; e->coded.escapes && first < pithi_strings_words(e);
         first += PITHI_ROW) {
        PITHI_STEP(pithi_strings_escapes, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_strings_escapes_put, first);
    }
}

/* A team a block, or a sequence of one. */
PITHI_BODY(pithi_strings_write) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    PITHI_RUN(pithi_strings_write_open, number);
    if (!e->block.live || e->block.plain) return;
    const uint64_t block = e->block.number;
    if (e->rows.kind == PITHI_ROWMAP_CODED) PITHI_STEP(pithi_embed_map_put, block);
    if (e->block.method >= PITHI_EB_CODED && pithi_strings_words(e))
        pithi_strings_words_write(a, s, t, team, block);
}

#endif
