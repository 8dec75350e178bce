/* kv_decode.h - pages of codec kv to values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Any scales and codes mean something, so that pages need no look before they are decoded. */
#ifndef PITHI_GPU_KV_DECODE_H
#define PITHI_GPU_KV_DECODE_H

#include "check.h"
#include "decode.h"
#include "kv_page.h"

/* ---- Values out ------------------------------------------------------------------------------*/

/* Of the piece, what is wanted. */
PITHI_DEVICE void pithi_piece_put(const struct pithi_gpu_call *a, const struct pithi_gpu_page *g,
                                  const struct pithi_gpu_piece *piece, const uint32_t bits[8]) {
    const uint32_t width = a->from.items.dtype == PITH_F32 ? 4 : 2;
    uint8_t *const to = g->values + (g->at + piece->at) * width;
    if (piece->e >= g->lo && piece->e + piece->n <= g->hi) {
        pithi_unit_put(to, width, piece->n, bits);
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= piece->n || piece->e + k < g->lo || piece->e + k >= g->hi) continue;
        if (width == 4)
            pithi_put32(to + 4 * k, bits[k]);
        else
            pithi_put16(to + 2 * k, (uint16_t)bits[k]);
    }
}

/* x to the tensor, or to what it holds. */
PITHI_DEVICE void pithi_piece_store(const struct pithi_gpu_call *a, const struct pithi_gpu_page *g,
                                    const struct pithi_gpu_piece *piece, const float x[8]) {
    const uint32_t dtype = a->from.items.dtype;
    uint32_t v[PITHI_UNIT], held[PITHI_UNIT];
    if (!piece->n) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_bits(x[k]);
    if (a->add) {
        pithi_unit_load(g->values + (g->at + piece->at) * pithi_width(dtype), dtype, piece->n,
                        held);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] =
            pithi_bits(pithi_float(held[k]) + pithi_float(pithi_unit_round(PITH_F32, v[k])));
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_unit_round(dtype, v[k]);
    pithi_piece_put(a, g, piece, v);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* What code k of a word means. */
PITHI_DEVICE float pithi_page_value(const struct pithi_gpu_paged *g,
                                    const struct pithi_group_setting *set, uint64_t word,
                                    uint32_t k, float scale, float zero) {
    const uint32_t mask = (1u << set->bits) - 1;
    const int index = (int)((uint32_t)(word >> k * set->bits) & mask);
    const int q = set->asymmetric ? index : pithi_unit_code(word, set->bits, k);
    uint64_t ignored = 0;
    if (pithi_nonfinite(pithi_bits(scale)) || pithi_nonfinite(pithi_bits(zero)))
        return pithi_float(PITHI_F32_NAN);
    if (set->codebook) return pithi_float(pithi_codebook_decoded(&g->book, index, scale, &ignored));
    return pithi_float(pithi_group_decoded(q, scale, zero, set->asymmetric, &ignored));
}

/* Scale and zero point of a group along heads. */
PITHI_DEVICE void pithi_head_scale(const struct pithi_group_setting *set,
                                   const struct pithi_gpu_page *g, uint32_t group, float *scale,
                                   float *zero) {
    const uint8_t *const at = g->bytes + (uint64_t)group * pithi_entry_bytes(set);
    const uint32_t dtype = set->scale_dtype;
    *zero = 0;
    if (set->asymmetric && dtype != PITH_F32 && pithi_is_aligned(at, 4)) {
        const uint32_t both = pithi_get_aligned32(at);
        *scale = pithi_float(pithi_unit_widen(dtype, both & 0xFFFFu));
        *zero = pithi_float(pithi_unit_widen(dtype, both >> 16));
        return;
    }
    *scale = pithi_float(pithi_load(at, dtype, 0));
    if (set->asymmetric) *zero = pithi_float(pithi_load(at, dtype, 1));
}

/* t->x := values of a tile along heads. */
PITHI_LOCAL(pithi_heads_take, uint32_t tile) {
    const struct pithi_table *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t unit = pithi_page_unit(t, tile, u);
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, unit);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        if (!piece.n) continue;
        float scale, zero;
        pithi_head_scale(set, g, unit >> g->log2, &scale, &zero);
        const uint64_t word = pithi_unit_get_codes(g->codes + piece.codes, set->bits, piece.n);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] =
            pithi_page_value(&s->paged, set, word, k, scale, zero);
    }
}

PITHI_LOCAL(pithi_heads_put, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece =
            pithi_head_piece(&a->from.plan, g, pithi_page_unit(t, tile, u));
        pithi_piece_store(a, g, &piece, t->x[u]);
    }
}

/* t->up, t->down := scales and zero points of the thread's columns. */
PITHI_LOCAL(pithi_columns_scale, uint32_t tile) {
    const struct pithi_table *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_gpu_column c = t->column;
    const uint32_t dtype = set->scale_dtype, row = g->heads * g->dim;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->up[k] = t->down[k] = 0;
    if (!c.n) return;
    const uint8_t *const at = pithi_column_scales(p, g, tile, c.head * g->dim + c.in_head);
    pithi_unit_load(at, dtype, c.n, t->up);
    if (set->asymmetric) pithi_unit_load(at + row * pithi_scale_width(dtype), dtype, c.n, t->down);
}

/* t->x := values of tokens from `row` on of a tile along tokens. */
PITHI_LOCAL(pithi_columns_take, uint32_t row) {
    const struct pithi_table *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_column_piece(p, g, t, row, u);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        if (!piece.n) continue;
        const uint64_t word = pithi_unit_get_codes(g->codes + piece.codes, set->bits, piece.n);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = pithi_page_value(
            &s->paged, set, word, k, pithi_float(t->up[k]), pithi_float(t->down[k]));
    }
}

PITHI_LOCAL(pithi_columns_put, uint32_t row) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_column_piece(&a->from.plan, g, t, row, u);
        pithi_piece_store(a, g, &piece, t->x[u]);
    }
}

/* ---- The kernels -----------------------------------------------------------------------------*/

/* The tokens of a tile that are wanted. */
PITHI_DEVICE uint32_t pithi_rows_from(const struct pithi_table *p, const struct pithi_gpu_page *g,
                                      uint32_t tile) {
    const uint32_t first = pithi_tile_token(p, g, tile), token = g->lo / (g->heads * g->dim);
    return token > first ? token - first : 0;
}
PITHI_DEVICE uint32_t pithi_rows_until(const struct pithi_table *p, const struct pithi_gpu_page *g,
                                       uint32_t tile) {
    const uint32_t first = pithi_tile_token(p, g, tile), tokens = pithi_tile_tokens(p, g, tile);
    const uint32_t last = (g->hi - 1) / (g->heads * g->dim) + 1;
    return last - first < tokens ? last - first : tokens;
}

PITHI_DEVICE void pithi_columns_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t until = pithi_rows_until(&a->from.plan, g, tile);
    uint32_t row = pithi_rows_from(&a->from.plan, g, tile);
    PITHI_STEP(pithi_columns_open, &a->from.plan, tile);
    PITHI_STEP(pithi_columns_scale, tile);
    for (; row < until; row += PITHI_UNITS * g->rows) {
        PITHI_STEP(pithi_columns_take, row);
        PITHI_PAGE_UNROTATE(row);
        PITHI_STEP(pithi_columns_put, row);
    }
}

PITHI_DEVICE void pithi_page_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    for (uint32_t tile = g->tile + g->part; tile < g->tiles; tile += a->parts) {
        if (a->from.plan.device.pages.channel) {
            pithi_columns_decode(a, s, t, team, tile);
            continue;
        }
        PITHI_STEP(pithi_heads_take, tile);
        PITHI_PAGE_UNROTATE(tile);
        PITHI_STEP(pithi_heads_put, tile);
    }
}

PITHI_PHASE(pithi_page_read, uint64_t number) {
    pithi_page_book(&a->from.plan, t, &s->paged);
    if (t->tid == 0) pithi_page_find(a, &a->from, &s->from, number, &s->paged.page);
}

PITHI_BODY(pithi_paged_decode) {
    PITHI_RUN(pithi_decode_open, number);
    PITHI_OPEN_FRAMES(false);
    if (s->from.status != PITH_OK) {
        PITHI_RUN(pithi_decode_refuse, number);
        return;
    }
    PITHI_RUN(pithi_page_read, number);
    if (s->paged.page.live) pithi_page_decode(a, s, t, team);
    PITHI_RUN(pithi_decode_close, number);
}

/* ---- Checks ----------------------------------------------------------------------------------*/

/* As pithi_check, of the pages that are wanted. */
PITHI_BODY(pithi_paged_check) {
    PITHI_RUN(pithi_check_open, number);
    if (s->from.status != PITH_OK || !a->from.plan.checksums) return;
    PITHI_RUN(pithi_page_read, number);
    if (!s->paged.page.live || s->paged.page.lo >= s->paged.page.hi) return;
    PITHI_PAGE_HASH(number);
    PITHI_RUN(pithi_page_seal, &s->from, &a->work[s->from.index]);
}

#endif
