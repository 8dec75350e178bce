/* rows_encode.h - values to frames of codec embed: all of mode fast, and of those that are coded
 * what is not (device/bytes/embed_encode.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The launches are those of encode.h, but for samples, and four that find equal rows: these meet at
 * one place of a table, which keeps the lowest of them, whoever comes first; the lowest of all are
 * counted, then numbered; then every row has the number of its lowest. */
#ifndef PITHI_GPU_DEVICE_PREDICT_ROWS_ENCODE_H
#define PITHI_GPU_DEVICE_PREDICT_ROWS_ENCODE_H

#include "device/predict/encode.h"
#include "device/predict/rows.h"

/* ---- The dictionary --------------------------------------------------------------------------*/

#define PITHI_NO_ROW 0xFFFFFFFFu

/* Opens the team's part of a block; every launch on parts begins so. */
PITHI_PHASE(pithi_rows_begin, uint64_t number) {
    struct pithi_gpu_rows *const r = &s->strip.rows;
    pithi_part_open(a, s, t, number);
    if (t->tid || !s->strip.block.live) return;
    pithi_rows_open(&a->to, &s->strip.block, r);
    r->largest = 0;
    r->without = r->with = 0;
    s->strip.carry[0] = 0;
}

PITHI_PHASE(pithi_rows_code_open, uint64_t number) {
    pithi_code_open(a, s, t, number);
    if (t->tid == 0 && s->strip.block.live)
        pithi_rows_open(&a->to, &s->strip.block, &s->strip.rows);
}

/* An empty table, and the last row made whole. */
PITHI_PHASE(pithi_rows_clear, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(b, r);
    (void)a, (void)unused;
    for (uint32_t i = 2 * share.from + t->tid; i < 2 * share.to; i += PITHI_TEAM)
        r->place[i] = PITHI_NO_ROW;
    if (b->part) return;
    for (uint32_t i = b->count + t->tid; i < r->rows * r->row; i += PITHI_TEAM) r->code[i] = 0;
}

PITHI_BODY(pithi_rows_code) {
    PITHI_RUN(pithi_rows_code_open, number);
    if (!s->strip.block.live) return;
    PITHI_RUN(pithi_code_make, number);
    PITHI_WARP_ADD(predict.total);
    PITHI_RUN(pithi_code_join, number);
    PITHI_RUN(pithi_code_hand, number);
    PITHI_RUN(pithi_rows_clear, 0);
}

/* Which place a row is first sought at, by so many of its codes at most. */
enum { PITHI_ROW_CLUES = 256 };
PITHI_DEVICE uint32_t pithi_row_hash(const uint32_t *row, uint32_t n, uint32_t places) {
    const uint32_t step = (n + PITHI_ROW_CLUES - 1) / PITHI_ROW_CLUES;
    uint64_t h = n;
    for (uint32_t j = 0; j < n; j += step) h = (h ^ h >> 32 ^ row[j]) * PITHI_NH_WEYL;
    return (uint32_t)((h >> 32) * places >> 32);
}

PITHI_DEVICE bool pithi_row_same(const uint32_t *x, const uint32_t *y, uint32_t n) {
    for (uint32_t j = 0; j < n; j++)
        if (x[j] != y[j]) return false;
    return true;
}

/* The place where row i meets its equals. There are twice as many as rows, so one is found. */
PITHI_DEVICE uint32_t pithi_row_meet(const struct pithi_gpu_rows *r, uint32_t i) {
    const uint32_t places = 2 * r->rows, *const row = r->code + i * r->row;
    uint32_t at = pithi_row_hash(row, r->row, places);
    for (uint32_t tried = 0; tried < places; tried++) {
        const uint32_t held = pithi_atomic_swap32(r->place + at, PITHI_NO_ROW, i);
        if (held == PITHI_NO_ROW) break;
        if (pithi_row_same(row, r->code + held * r->row, r->row)) {
            if (i < held) pithi_atomic_min32(r->place + at, i);
            break;
        }
        at = at + 1 == places ? 0 : at + 1;
    }
    return at;
}

PITHI_PHASE(pithi_rows_sought, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    (void)a, (void)unused;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM)
        r->number[i] = pithi_row_meet(r, i);
}

PITHI_BODY(pithi_rows_meet) {
    PITHI_RUN(pithi_rows_begin, number);
    if (s->strip.block.live) PITHI_RUN(pithi_rows_sought, 0);
}

/* For every row what stands at the place that it has found: the first of its equals. New rows are
 * those that this is. */
PITHI_LOCAL(pithi_rows_fetch, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    (void)a, (void)unused;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM) {
        const uint32_t first = r->place[r->number[i]];
        r->number[i] = first;
        t->predict.total += first == i;
    }
}

PITHI_PHASE(pithi_fresh_hand, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    if (t->tid == 0) pithi_part_of(&a->to, b, b->part)->fresh = (uint32_t)pithi_scan_all(s, 0);
}

PITHI_BODY(pithi_rows_first) {
    PITHI_RUN(pithi_rows_begin, number);
    if (!s->strip.block.live) return;
    PITHI_STEP(pithi_rows_fetch, 0);
    PITHI_SCAN(0);
    PITHI_RUN(pithi_fresh_hand, 0);
}

/* New rows of every part, a thread each; then how many there are, and how many come before the
 * team's part. */
PITHI_LOCAL(pithi_fresh_fetch, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)unused;
    t->predict.total = t->tid < b->parts ? pithi_part_of(&a->to, b, t->tid)->fresh : 0;
}
PITHI_PHASE(pithi_fresh_join, uint32_t unused) {
    struct pithi_gpu_block *const b = &s->strip.block;
    (void)a, (void)unused;
    if (t->tid) return;
    s->strip.carry[0] = pithi_scan_before(s, 0, b->part);
    pithi_rows_distinct(b, &s->strip.rows, (uint32_t)pithi_scan_all(s, 0));
}

/* Part of the bodies from here on. */
PITHI_DEVICE void pithi_rows_known(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_STEP(pithi_fresh_fetch, 0);
    PITHI_SCAN(0);
    PITHI_RUN(pithi_fresh_join, 0);
}

PITHI_LOCAL(pithi_rows_count, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    const uint32_t i = pithi_rows_at(&share, strip, t->tid);
    (void)a;
    t->predict.total = i < share.to && r->number[i] == i;
}

/* Numbers the new rows. The table by which they were found is no longer needed: place i becomes the
 * number of new row i. */
PITHI_PHASE(pithi_rows_give, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    const uint32_t i = pithi_rows_at(&share, strip, t->tid);
    const uint32_t known = (uint32_t)(pithi_scan_carry(s, t->tid, strip));
    (void)a;
    if (i >= share.to || r->number[i] != i) return;
    r->first[known] = i;
    r->place[i] = known;
}

PITHI_BODY(pithi_rows_name) {
    PITHI_RUN(pithi_rows_begin, number);
    if (!s->strip.block.live) return;
    pithi_rows_known(a, s, t, team);
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, &s->strip.rows);
    for (uint32_t strip = 0; strip < pithi_rows_strips(&share); strip++) {
        PITHI_STEP(pithi_rows_count, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_rows_give, strip);
    }
}

/* ---- Centres ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_centre_make, uint32_t unused) {
    struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_rows_sample from = pithi_rows_sample_of(r->distinct);
    uint32_t largest = 0;
    (void)a, (void)unused;
    for (uint32_t j = t->tid; j < r->row; j += PITHI_TEAM) {
        uint32_t sum = 0;
        for (size_t i = 0; i < from.count; i++) sum += pithi_distinct_code(r, i * from.every, j);
        r->scratch[j] = (uint32_t)pithi_rows_mean(sum, from.count);
        const uint32_t size = pithi_zigzag(r->scratch[j]);
        largest = size > largest ? size : largest;
    }
    pithi_atomic_max32(&r->largest, largest);
}

PITHI_PHASE(pithi_centre_judge, uint32_t unused) {
    struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_rows_sample from = pithi_rows_sample_of(r->distinct);
    const uint32_t codes = (uint32_t)from.count * r->row;
    uint64_t without = 0, with = 0;
    (void)a, (void)unused;
    for (uint32_t k = t->tid; k < codes; k += PITHI_TEAM) {
        const uint32_t i = k / r->row, j = k - i * r->row;
        const uint32_t code = pithi_distinct_code(r, from.other + i * from.every, j);
        without += pithi_rows_cost(code);
        with += pithi_rows_cost(code - r->scratch[j]);
    }
    pithi_atomic_add64(&r->without, without);
    pithi_atomic_add64(&r->with, with);
}

PITHI_PHASE(pithi_centre_choose, uint32_t unused) {
    struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_rows_sample from = pithi_rows_sample_of(r->distinct);
    const uint32_t bytes = pithi_rows_centre_width(r->largest);
    (void)a, (void)unused;
    if (t->tid) return;
    pithi_entry(s->strip.block.workspace, s->strip.block.number)->bounded.order =
        pithi_rows_pays(r->without, r->with, from.every, bytes, r->row) ? (uint8_t)bytes : 0;
}

/* The number of every row; and centres, which are the first part's. */
PITHI_PHASE(pithi_rows_take, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    (void)a, (void)unused;
    for (uint32_t i = share.from + t->tid; i < share.to; i += PITHI_TEAM)
        r->number[i] = r->place[r->number[i]];
}

PITHI_BODY(pithi_rows_numbers) {
    PITHI_RUN(pithi_rows_begin, number);
    if (!s->strip.block.live) return;
    pithi_rows_known(a, s, t, team);
    PITHI_RUN(pithi_rows_take, 0);
    if (s->strip.block.part) return;
    PITHI_RUN(pithi_centre_make, 0);
    PITHI_RUN(pithi_centre_judge, 0);
    PITHI_RUN(pithi_centre_choose, 0);
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* Returns the words of group g of the distinct rows, or-ed; each is kept if there is a place for
 * it. */
PITHI_DEVICE uint32_t pithi_rows_words(const struct pithi_gpu_rows *r, uint32_t g,
                                       uint32_t (*keep)[PITHI_TEAM], uint32_t tid) {
    const uint32_t first = g * PITHI_GROUP, end = r->distinct * r->row;
    uint32_t d = first / r->row, j = first - d * r->row, any = 0;
    for (uint32_t k = 0; k < PITHI_GROUP; k++) {
        uint32_t word = 0;
        if (first + k < end)
            word = pithi_zigzag(pithi_distinct_code(r, d, j) - (r->wide ? r->scratch[j] : 0));
        if (keep) keep[k][tid] = word;
        any |= word;
        j = j + 1 == r->row ? 0 : j + 1;
        d += j == 0;
    }
    return any;
}

PITHI_PHASE(pithi_rows_wide, uint32_t tid) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid == tid) s->strip.rows.wide = pithi_entry(b->workspace, b->number)->bounded.order;
    (void)a;
}

PITHI_PHASE(pithi_distinct_widths, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->named);
    (void)a, (void)unused;
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        const uint32_t g = strip * PITHI_TEAM + t->tid;
        if (g >= b->named) continue;
        const uint32_t any = pithi_rows_words(&s->strip.rows, g, NULL, 0);
        pithi_atomic_add32(&s->strip.counts[pithi_bitplane_bits(any)], 1);
    }
}

/* Rows that are not new; their numbers in a row, at the table's places. carry: new rows before. */
PITHI_LOCAL(pithi_repeats_count, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    const uint32_t i = pithi_rows_at(&share, strip, t->tid);
    (void)a;
    t->predict.total = i < share.to && r->first[r->number[i]] == i;
}
PITHI_PHASE(pithi_repeats_take, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    const uint32_t i = pithi_rows_at(&share, strip, t->tid);
    const uint32_t known = (uint32_t)(pithi_scan_carry(s, t->tid, strip));
    (void)a;
    if (i < share.to && r->first[r->number[i]] != i) r->place[i - known] = r->number[i];
}

PITHI_BODY(pithi_rows_widths) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    PITHI_RUN(pithi_rows_begin, number);
    if (!s->strip.block.live) return;
    PITHI_RUN(pithi_rows_wide, 0);
    pithi_rows_known(a, s, t, team);
    PITHI_RUN(pithi_distinct_widths, 0);
    PITHI_RUN(pithi_widths_hand, number);
    if (r->kind != PITHI_ROWMAP_PLAIN) return;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    for (uint32_t strip = 0; strip < pithi_rows_strips(&share); strip++) {
        PITHI_STEP(pithi_repeats_count, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_repeats_take, strip);
    }
}

PITHI_PHASE(pithi_rows_close, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    (void)unused;
    if (t->tid) return;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), misses = s->strip.misses;
    const uint64_t raw = (uint64_t)b->count * width;
    const uint64_t packed = PITHI_PACK_WIDTHS + pithi_names_bytes(b) + pithi_plan_table(s, entry);
    uint64_t length = PITHI_ROWS_HEAD + PITHI_EXACT_COUNT + pithi_exact_which_bytes(b, misses) +
                      (uint64_t)misses * width + (uint64_t)r->wide * r->row + packed;
    if (r->kind == PITHI_ROWMAP_PLAIN) length += pithi_rowmap_plain_bytes(r->rows, r->distinct);
    entry->bounded.method = PITHI_EB_PACKED;
    entry->bounded.misses = misses;
    entry->bounded.distinct = r->distinct;
    entry->bounded.kind = (uint8_t)r->kind;
    entry->bounded.map = 0;
    entry->bounded.packed = (uint32_t)packed;
    entry->length = length < raw ? (uint32_t)length : (uint32_t)raw | PITHI_INDEX_PLAIN;
}

/* A team a block. */
PITHI_BODY(pithi_rows_plan) {
    PITHI_RUN(pithi_rows_begin, number);
    if (!s->strip.block.live) return;
    PITHI_RUN(pithi_parts_join, false);
    PITHI_RUN(pithi_rows_wide, 0);
    pithi_rows_known(a, s, t, team);
    pithi_plan_widths(a, s, t, team);
    PITHI_RUN(pithi_rows_close, 0);
    pithi_plan_parts(a, s, t, team, true);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_rows_place_parts, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_rows *const r = &s->strip.rows;
    if (t->tid) return;
    const bool head = pithi_write_find(a, s, number, PITHI_ROWS_HEAD);
    if (!b->live || b->plain) return;
    pithi_rows_open(&a->to, b, r);
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    const bool coded = b->method == PITHI_EB_CODED;
    pithi_rows_distinct(b, r, entry->bounded.distinct);
    r->kind = entry->bounded.kind;
    r->coded = entry->bounded.map;
    r->wide = b->order;
    uint8_t *const words = pithi_rows_place(r, b->bytes + (b->body - b->bytes));
    b->body = words;
    if (!head) return;
    pithi_put32(b->bytes, pithi_rows_head(r->kind, coded, r->wide) | (r->distinct - 1) << 8);
    for (uint32_t k = 0; !coded && k < PITHI_PACK_WIDTHS; k++) words[k] = s->strip.table[k];
}

/* The map's bits, a byte a thread. */
PITHI_PHASE(pithi_rows_map_write, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    (void)a, (void)unused;
    for (uint32_t i = share.from + 8 * t->tid; i < share.to; i += 8 * PITHI_TEAM) {
        uint32_t bits = 0;
        for (uint32_t k = 0; k < 8 && i + k < share.to; k++)
            bits |= (uint32_t)(r->first[r->number[i + k]] == i + k) << k;
        r->map[i / 8] = (uint8_t)bits;
    }
}

/* The numbers' bytes, each of which has bits of one or more of them. */
PITHI_PHASE(pithi_numbers_write, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share =
        pithi_share_of(&s->strip.block, (uint32_t)(r->centre - r->numbers), 1);
    const uint32_t repeats = r->rows - r->distinct;
    (void)a, (void)unused;
    for (uint32_t k = share.from + t->tid; k < share.to; k += PITHI_TEAM) {
        const uint64_t bit = 8 * (uint64_t)k;
        uint32_t q = (uint32_t)(bit / r->width), skipped = (uint32_t)(bit % r->width);
        uint32_t byte = r->place[q] >> skipped;
        for (uint32_t bits = r->width - skipped; bits < 8 && ++q < repeats; bits += r->width)
            byte |= r->place[q] << bits;
        r->numbers[k] = (uint8_t)byte;
    }
}

PITHI_PHASE(pithi_centre_write, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    (void)a, (void)unused;
    for (uint32_t j = t->tid; j < r->row; j += PITHI_TEAM)
        for (uint32_t k = 0; k < r->wide; k++)
            r->centre[(uint64_t)j * r->wide + k] = (uint8_t)(r->scratch[j] >> 8 * k);
}

PITHI_PHASE(pithi_rows_words_make, uint32_t strip) {
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = 0;
    s->strip.name[t->tid] = 0;
    if (g < s->strip.block.named)
        pithi_group_name(s, t, pithi_rows_words(&s->strip.rows, g, s->strip.word, t->tid));
}

PITHI_DEVICE void pithi_rows_put(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                 struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share strips = pithi_share_strips(b, b->named);
    if (s->strip.rows.kind == PITHI_ROWMAP_PLAIN) {
        PITHI_RUN(pithi_rows_map_write, 0);
        PITHI_RUN(pithi_numbers_write, 0);
    }
    if (b->part == 0) PITHI_RUN(pithi_centre_write, 0);
    if (b->method != PITHI_EB_PACKED) return;
    PITHI_RUN(pithi_carry_widths, strips.from);
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        PITHI_RUN(pithi_rows_words_make, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_words_write, strip);
    }
}

/* A team a part. */
PITHI_BODY(pithi_rows_write) {
    PITHI_RUN(pithi_rows_place_parts, number);
    if (!s->strip.block.live) return;
    pithi_write_values(a, s, t, team);
    if (!s->strip.block.plain) pithi_rows_put(a, s, t, team);
}

#endif
