/* embed_decode.h - coded maps of blocks of rows to the numbers of rows; coded words of these.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_EMBED_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_EMBED_DECODE_H

#include "device/bytes/strings_decode.h"

/* ---- The map ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_embed_map_begin, uint64_t block) {
    if (t->tid == 0)
        pithi_lossless_read_whole(a, s, block, PITHI_STRINGS_MAP, s->rans.bounded.rows.rows, false);
}
PITHI_DEVICE const uint8_t *pithi_embed_map_symbols(const struct pithi_gpu_shared *s) {
    return pithi_lossless_part(s, PITHI_STRINGS_MAP);
}

/* Bits that symbols leave open; those that there are not count far more. */
PITHI_LOCAL(pithi_embed_map_look, uint32_t rows) {
    const uint8_t *const symbols = pithi_embed_map_symbols(s);
    (void)a;
    t->rans.total = 0;
    for (uint32_t i = t->tid; i < rows; i += PITHI_TEAM)
        t->rans.total +=
            symbols[i] <= PITHI_ROWMAP_CLASSES ? pithi_rowmap_open(symbols[i]) : UINT64_C(1) << 32;
}
PITHI_PHASE(pithi_embed_map_bits, uint32_t rows) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint64_t bits = pithi_coded_all(s);
    (void)a, (void)rows;
    if (t->tid) return;
    s->rans.carry[0] = 0;
    e->coded.open = (uint32_t)pithi_rowmap_bytes_of(bits);
    e->open = bits >> 32 ? NULL : pithi_planes_take(s, e->coded.open);
    if (!e->open || (bits % 8 && e->open[bits / 8] >> bits % 8)) s->rans.fault = 1;
}

/* So many bits of the open ones, from number `at` on. */
PITHI_DEVICE uint32_t pithi_embed_open_bits(const struct pithi_bounded_shared *e, uint64_t at,
                                            uint32_t count) {
    uint32_t word = 0;
    for (uint32_t k = 0; k < 4 && at / 8 + k < e->coded.open; k++)
        word |= (uint32_t)e->open[at / 8 + k] << 8 * k;
    return word >> at % 8 & ((1u << count) - 1);
}
/* Open bits of the thread's rows of a strip, 32 bits up, and how many of the rows are new. */
PITHI_LOCAL(pithi_embed_rows_count, uint32_t first) {
    const uint32_t n = pithi_strings_left(t, first, s->rans.bounded.rows.rows);
    const uint8_t *const symbols = pithi_embed_map_symbols(s) + first + t->tid * PITHI_UNIT;
    (void)a;
    t->rans.total = 0;
    for (uint32_t k = 0; k < n; k++)
        t->rans.total += (uint64_t)pithi_rowmap_open(symbols[k]) << 32 | (symbols[k] == 0);
    t->rans.own = t->rans.total;
}
/* The rows' numbers; a fault where one is not before its row. */
PITHI_PHASE(pithi_embed_rows_number, uint32_t first) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint32_t n = pithi_strings_left(t, first, e->rows.rows), at = first + t->tid * PITHI_UNIT;
    const uint8_t *const symbols = pithi_embed_map_symbols(s) + at;
    const uint64_t before = pithi_strings_before(s, t, first / PITHI_ROW);
    uint64_t bit = before >> 32;
    uint32_t known = (uint32_t)before;
    (void)a;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t symbol = symbols[k], count = pithi_rowmap_open(symbol);
        uint32_t row = known;
        if (symbol) {
            row = pithi_rowmap_first(symbol) + pithi_embed_open_bits(e, bit, count);
            if (row >= known) pithi_atomic_max32(&s->rans.fault, 1);
        }
        e->rows.number[at + k] = row;
        known += symbol == 0;
        bit += count;
    }
    if (t->tid == 0) pithi_strings_carry(s, first / PITHI_ROW);
}
PITHI_PHASE(pithi_embed_map_end, uint32_t strips) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    (void)a;
    if (t->tid == 0 && (uint32_t)s->rans.carry[strips % 2] != e->rows.distinct) s->rans.fault = 1;
}

/* Part of a body: the number of every row. */
PITHI_DEVICE void pithi_embed_read_map(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       uint64_t block) {
    const uint32_t rows = s->rans.bounded.rows.rows;
    uint32_t strips = 0;
    PITHI_RUN(pithi_embed_map_begin, block);
    pithi_strings_levels(a, s, t, team);
    if (s->rans.fault) return;
    PITHI_STEP(pithi_embed_map_look, rows);
    PITHI_WARP_ADD(rans.total);
    PITHI_RUN(pithi_coded_publish, rows);
    PITHI_RUN(pithi_embed_map_bits, rows);
    if (s->rans.fault) return;
    for (uint32_t first = 0; first < rows; first += PITHI_ROW, strips++) {
        PITHI_STEP(pithi_embed_rows_count, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_embed_rows_number, first);
    }
    PITHI_RUN(pithi_embed_map_end, strips);
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* Opens what follows the map: centres, which others read, and words, where these are
 * entropy-coded. A coded map has the bytes that those find there. */
PITHI_PHASE(pithi_embed_words_open, uint64_t block) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid) return;
    if (e->rows.kind == PITHI_ROWMAP_CODED)
        pithi_entry(e->block.workspace, block)->bounded.map =
            (uint32_t)(s->rans.at - e->block.bytes) - e->coded.map_at;
    (void)a;
    s->rans.fault = (uint64_t)e->rows.wide * e->rows.row > s->rans.left;
    if (s->rans.fault || !(e->block.bytes[0] & PITHI_ROWS_CODED)) return;
    pithi_planes_take(s, e->rows.wide * e->rows.row);
    s->rans.fault = !pithi_strings_words_parse(s);
}
/* Reads words of a block whose map is sound. */
PITHI_DEVICE void pithi_embed_read_words(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                         struct pithi_gpu_thread *t, struct pithi_team *team,
                                         uint64_t block) {
    PITHI_RUN(pithi_embed_words_open, block);
    if (s->rans.fault || !(s->rans.bounded.block.bytes[0] & PITHI_ROWS_CODED)) return;
    pithi_strings_read_parts(a, s, t, team, block);
}

/* A team a block. */
PITHI_BODY(pithi_embed_read) {
    PITHI_RUN(pithi_strings_read_open, number);
    if (!s->rans.live) return;
    const uint64_t block = s->rans.bounded.block.number;
    if (s->rans.bounded.rows.kind == PITHI_ROWMAP_CODED) pithi_embed_read_map(a, s, t, team, block);
    const bool sound = !s->rans.fault;
    PITHI_MEET(); /* all have looked */
    if (sound) pithi_embed_read_words(a, s, t, team, block);
    PITHI_STEP(pithi_strings_read_close, block);
}

#endif
