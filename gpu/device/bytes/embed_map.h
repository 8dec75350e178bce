/* embed_map.h - the map of a block of rows as symbols, and the bits that they leave open: made, and
 * written.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_EMBED_MAP_H
#define PITHI_GPU_DEVICE_BYTES_EMBED_MAP_H

#include "device/bytes/lossless_encode.h"
#include "device/bytes/strings.h"

/* ---- Made ------------------------------------------------------------------------------------*/

/* Symbol of row i, and the number that it leaves open. */
PITHI_DEVICE uint32_t pithi_embed_class(const struct pithi_gpu_rows *r, uint32_t i,
                                        uint32_t *open) {
    const uint32_t number = r->number[i];
    *open = 0;
    if (r->first[number] == i) return 0;
    const uint32_t symbol = pithi_rowmap_class(number);
    *open = number - pithi_rowmap_first(symbol);
    return symbol;
}
/* The thread's rows of a strip: their symbols, and how many bits these leave open. */
PITHI_PHASE(pithi_embed_map, uint32_t first) {
    const struct pithi_gpu_rows *const r = &s->rans.bounded.rows;
    const uint32_t n = pithi_strings_left(t, first, r->rows), at = first + t->tid * PITHI_UNIT;
    uint64_t symbols = 0;
    (void)a;
    t->rans.total = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t open;
        const uint32_t symbol = pithi_embed_class(r, at + k, &open);
        symbols |= (uint64_t)symbol << 8 * k;
        t->rans.total += pithi_rowmap_open(symbol);
    }
    t->rans.own = t->rans.total;
    if (n) pithi_unit_put_codes(pithi_lossless_part(s, PITHI_STRINGS_MAP) + at, 8, n, symbols);
}
/* Open bits, behind the numbers that a plain map has: 21 bits a row at most, in words. */
PITHI_PHASE(pithi_embed_map_open, uint32_t first) {
    const struct pithi_gpu_rows *const r = &s->rans.bounded.rows;
    const uint32_t n = pithi_strings_left(t, first, r->rows), at = first + t->tid * PITHI_UNIT;
    uint32_t *const words = r->place + r->rows;
    uint64_t bit = pithi_strings_before(s, t, first / PITHI_ROW);
    (void)a;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t open;
        const uint32_t count = pithi_rowmap_open(pithi_embed_class(r, at + k, &open));
        const uint64_t shifted = (uint64_t)open << bit % 32;
        if ((uint32_t)shifted) pithi_atomic_or32(&words[bit / 32], (uint32_t)shifted);
        if (shifted >> 32) pithi_atomic_or32(&words[bit / 32 + 1], (uint32_t)(shifted >> 32));
        bit += count;
    }
    if (t->tid == 0) pithi_strings_carry(s, first / PITHI_ROW);
}
PITHI_PHASE(pithi_embed_map_close, uint32_t strips) {
    (void)a;
    if (t->tid == 0)
        s->rans.bounded.coded.open = (uint32_t)pithi_rowmap_bytes_of(s->rans.carry[strips % 2]);
}

PITHI_DEVICE void pithi_embed_cut_map(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team) {
    uint32_t strips = 0;
    for (uint32_t first = 0; first < s->rans.bounded.rows.rows; first += PITHI_ROW, strips++) {
        PITHI_STEP(pithi_embed_map, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_embed_map_open, first);
    }
    PITHI_RUN(pithi_embed_map_close, strips);
}

/* ---- Written ---------------------------------------------------------------------------------*/

/* The coded map: its symbols, and the bits that they leave open. */
PITHI_LOCAL(pithi_embed_map_put, uint64_t block) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    uint8_t *const end = e->block.bytes + e->coded.map_at + e->rows.coded;
    pithi_lossless_copy_strings(a, s, t, block, 0, (uint32_t)a->coding.levels, e->block.bytes);
    pithi_coded_copy(t->tid, PITHI_TEAM, end - e->coded.open,
                     (const uint8_t *)(const void *)(e->rows.place + e->rows.rows), e->coded.open);
}

#endif
