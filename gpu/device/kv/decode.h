/* decode.h - pages of codec kv to values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Any scales and codes mean something, so that pages need no look before they are decoded. */
#ifndef PITHI_GPU_DEVICE_KV_DECODE_H
#define PITHI_GPU_DEVICE_KV_DECODE_H

#include "device/check.h"
#include "device/group/decode.h"
#include "device/kv/full_decode.h"
#include "device/kv/full_wide.h"
#include "device/kv/strips.h"

/* ---- Values out ------------------------------------------------------------------------------*/

/* Stores as much of a piece as is wanted. */
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

/* Outlier number i of the page, in a dtype. */
PITHI_DEVICE uint32_t pithi_exact_bits(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_page *g, uint32_t i, uint32_t dtype) {
    const uint8_t *const at = g->exact + (uint64_t)i * pithi_dtype_bytes(p->dtype);
    const uint32_t bits = p->dtype == PITH_F32 ? pithi_get32(at) : pithi_get16(at);
    return dtype == p->dtype ? bits : pithi_unit_round(dtype, pithi_unit_widen(p->dtype, bits));
}

/* bits := those of the outliers among a piece's elements, in the dtype; of two for one element the
 * last counts. */
PITHI_DEVICE void pithi_head_exact(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_page *g,
                                   const struct pithi_gpu_piece *piece, uint32_t dtype,
                                   uint32_t bits[8]) {
    const uint32_t group = p->device.groups.set.group, head = piece->e / g->dim;
    const uint32_t in_head = piece->e - head * g->dim, first = in_head & (group - 1);
    const uint32_t from = (head * g->along + in_head / group) * g->outliers;
    for (uint32_t i = from; i < from + g->outliers; i++) {
        const uint32_t place = g->places[i] - first;
        if (place >= piece->n) continue;
        const uint32_t exact = pithi_exact_bits(p, g, i, dtype);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k == place) bits[k] = exact;
    }
}
PITHI_DEVICE void pithi_channel_exact(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_page *g,
                                      const struct pithi_gpu_piece *piece, uint32_t dtype,
                                      uint32_t bits[8]) {
    const uint32_t group = p->device.groups.set.group, row = g->heads * g->dim,
                   token = piece->e / row;
    const uint32_t first = token / group * row + piece->e - token * row;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t from = (first + k) * g->outliers;
        for (uint32_t i = from; k < piece->n && i < from + g->outliers; i++)
            if (g->places[i] == (token & (group - 1))) bits[k] = pithi_exact_bits(p, g, i, dtype);
    }
}
PITHI_DEVICE void pithi_piece_exact(const struct pithi_device_plan *p,
                                    const struct pithi_gpu_page *g,
                                    const struct pithi_gpu_piece *piece, uint32_t dtype,
                                    uint32_t bits[8]) {
    if (p->device.pages.channel)
        pithi_channel_exact(p, g, piece, dtype, bits);
    else
        pithi_head_exact(p, g, piece, dtype, bits);
}

/* x to the tensor, to what it holds, or to the base. */
PITHI_DEVICE void pithi_piece_store(const struct pithi_gpu_call *a, const struct pithi_gpu_page *g,
                                    struct pithi_gpu_thread *t, const struct pithi_gpu_piece *piece,
                                    const float x[8]) {
    const uint32_t dtype = a->from.items.dtype;
    uint32_t v[PITHI_UNIT], held[PITHI_UNIT];
    if (!piece->n) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_bits(x[k]);
    if (pithi_page_based(&a->from.plan, g)) {
        pithi_piece_base(&a->from.plan, g, piece, held);
        pithi_piece_update(&a->from.plan, g, piece, held, x, a->update, &t->read, v);
        if (!g->values) return;
        pithi_unit_recast(a->from.plan.base_dtype, dtype, v);
        pithi_piece_put(a, g, piece, v);
        return;
    }
    if (a->add) {
        if (a->from.plan.device.pages.outliers)
            pithi_piece_exact(&a->from.plan, g, piece, PITH_F32, v);
        pithi_unit_load(g->values + (g->at + piece->at) * pithi_dtype_bytes(dtype), dtype, piece->n,
                        held);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] =
            pithi_bits(pithi_float(held[k]) + pithi_float(pithi_unit_round(PITH_F32, v[k])));
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_unit_round(dtype, v[k]);
    if (a->from.plan.device.pages.outliers && !a->add)
        pithi_piece_exact(&a->from.plan, g, piece, dtype, v);
    pithi_piece_put(a, g, piece, v);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

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
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t unit = pithi_page_unit(t, tile, u);
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, unit);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        if (!piece.n) continue;
        float scale, zero;
        pithi_head_scale(set, g, unit >> g->log2, &scale, &zero);
        if (!(unit & (g->lanes - 1)))
            t->read.poisoned +=
                pithi_nonfinite(pithi_bits(scale)) || pithi_nonfinite(pithi_bits(zero));
        const uint64_t word = pithi_unit_get_codes(g->codes + piece.codes, set->bits, piece.n);
        uint64_t saturated = 0;
        pithi_page_unit_values(&s->paged, set, word, scale, zero, t->x[u], &saturated);
        if (p->base_dtype == PITH_NONE) t->read.saturated += saturated;
    }
}

PITHI_LOCAL(pithi_heads_put, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece =
            pithi_head_piece(&a->from.plan, g, pithi_page_unit(t, tile, u));
        pithi_piece_store(a, g, t, &piece, t->x[u]);
    }
}

/* t->kv.up, t->kv.down := scales and zero points of the thread's columns. */
PITHI_LOCAL(pithi_channels_scale, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_gpu_column c = t->kv.column;
    const uint32_t dtype = set->scale_dtype, row = g->heads * g->dim;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->kv.up[k] = t->kv.down[k] = 0;
    if (!c.n) return;
    const uint8_t *const at = pithi_channel_scales(p, g, tile, c.head * g->dim + c.in_head);
    pithi_unit_load(at, dtype, c.n, t->kv.up);
    if (set->asymmetric)
        pithi_unit_load(at + row * pithi_scale_width(dtype), dtype, c.n, t->kv.down);
    if (c.token != pithi_tile_token(p, g, tile)) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->read.poisoned +=
        pithi_nonfinite(t->kv.up[k]) || pithi_nonfinite(t->kv.down[k]);
}

/* t->x := values of tokens from `row` on of a tile along tokens. */
PITHI_LOCAL(pithi_channels_take, uint32_t row) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    float scale[PITHI_UNIT], zero[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        scale[k] = pithi_float(t->kv.up[k]);
        zero[k] = pithi_float(t->kv.down[k]);
    }
    const float limit = pithi_float(PITHI_SCALE_LIMIT);
    const bool calm =
        !set->codebook && pithi_unit_size(scale) < limit && pithi_unit_size(zero) < limit;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        if (!piece.n) continue;
        const uint64_t word = pithi_unit_get_codes(g->codes + piece.codes, set->bits, piece.n);
        uint64_t saturated = 0;
        pithi_page_values(&s->paged, set, word, calm, scale, zero, t->x[u], &saturated);
        if (p->base_dtype == PITH_NONE) t->read.saturated += saturated;
    }
}

PITHI_LOCAL(pithi_channels_put, uint32_t row) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(&a->from.plan, g, t, row, u);
        pithi_piece_store(a, g, t, &piece, t->x[u]);
    }
}

/* ---- The kernels -----------------------------------------------------------------------------*/

/* The tokens of a tile that are wanted. */
PITHI_DEVICE uint32_t pithi_rows_from(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_page *g, uint32_t tile) {
    const uint32_t first = pithi_tile_token(p, g, tile), token = g->lo / (g->heads * g->dim);
    return token > first ? token - first : 0;
}
PITHI_DEVICE uint32_t pithi_rows_until(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_page *g, uint32_t tile) {
    const uint32_t first = pithi_tile_token(p, g, tile), tokens = pithi_tile_tokens(p, g, tile);
    const uint32_t last = (g->hi - 1) / (g->heads * g->dim) + 1;
    return last - first < tokens ? last - first : tokens;
}

PITHI_DEVICE void pithi_channels_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t until = pithi_rows_until(&a->from.plan, g, tile);
    uint32_t row = pithi_rows_from(&a->from.plan, g, tile);
    PITHI_STEP(pithi_tile_whole, false);
    PITHI_STEP(pithi_channels_open, &a->from.plan, tile);
    PITHI_STEP(pithi_channels_scale, tile);
    for (; row < until; row += PITHI_UNITS * g->rows) {
        PITHI_STEP(pithi_channels_take, row);
        PITHI_PAGE_UNROTATE(&a->from.plan, row);
        PITHI_STEP(pithi_channels_put, row);
    }
}

PITHI_DEVICE void pithi_heads_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint32_t tile) {
    PITHI_STEP(pithi_tile_whole, false);
    PITHI_STEP(pithi_heads_take, tile);
    PITHI_PAGE_UNROTATE(&a->from.plan, tile);
    PITHI_STEP(pithi_heads_put, tile);
}

PITHI_DEVICE void pithi_page_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const bool channel = a->from.plan.device.pages.channel;
    const bool strips = !a->add && pithi_pages_strips(&a->from.plan);
    if (strips) pithi_strips_decode(a, s, t, team);
    for (uint32_t tile = g->tile + g->part; tile < g->tiles;) {
        if (strips && pithi_tile_is_full(g, tile)) {
            tile += a->kv.parts;
            continue;
        }
        if (t->special && !strips && !a->add && pithi_tile_is_full(g, tile)) {
            tile = channel                          ? pithi_full_columns_decode(a, s, t, team, tile)
                   : pithi_full_wide(&a->from.plan) ? pithi_wide_decode(a, s, t, team, tile)
                                                    : pithi_full_heads_decode(a, s, t, team, tile);
            continue;
        }
        if (channel)
            pithi_channels_decode(a, s, t, team, tile);
        else
            pithi_heads_decode(a, s, t, team, tile);
        tile += a->kv.parts;
    }
}

PITHI_PHASE(pithi_page_read, uint64_t number) {
    pithi_page_book(&a->from, t, &s->paged);
    if (t->tid == 0) pithi_page_find(a, &a->from, &s->from, number, &s->paged.page);
}

PITHI_DEVICE void pithi_page_decode_key(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint64_t step = (uint64_t)a->kv.parts * PITHI_TILE;
    uint64_t tile = s->from.begin + (uint64_t)s->paged.page.part * PITHI_TILE;
    PITHI_STEP(pithi_tile_whole, false);
    for (; tile < s->from.end; tile += step) PITHI_STEP(pithi_decode_key, tile);
}

PITHI_LOCAL(pithi_page_reread, uint64_t number) {
    (void)number;
    t->read.hash = pithi_page_rehash(&a->from.plan, &s->paged.page, &s->from, t->tid);
}

PITHI_BODY(pithi_paged_decode) {
    if (!pithi_decode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_page_read, number);
    if (s->paged.page.live && s->from.kind)
        pithi_page_decode_key(a, s, t, team);
    else if (s->paged.page.live)
        pithi_page_decode(a, s, t, team);
    if (pithi_decode_counts(a)) {
        if (s->paged.page.live && s->paged.page.apart && !s->from.kind) {
            PITHI_MEET(); /* all have written the base */
            PITHI_STEP(pithi_page_reread, number);
        }
        PITHI_GATHER(number);
    }
    PITHI_RUN(pithi_decode_close, number);
}

/* ---- Checks ----------------------------------------------------------------------------------*/

/* Hashes the team's part of the page, as pithi_check_hash does a team's elements. */
PITHI_LOCAL(pithi_page_check_hash, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint8_t *const from = it->kind ? it->payload + it->form->data : it->tensor;
    if (it->kind || a->add)
        t->read.hash =
            pithi_hash_part(from, it->begin * width, it->end * width,
                            s->paged.page.part * PITHI_TEAM + t->tid, a->kv.parts * PITHI_TEAM);
}

/* Checks as pithi_check does, the pages that are wanted. */
PITHI_BODY(pithi_paged_check) {
    PITHI_RUN(pithi_check_open, number);
    if (s->from.status != PITH_OK) return;
    PITHI_RUN(pithi_page_read, number);
    if (!s->paged.page.live || s->paged.page.lo >= s->paged.page.hi) return;
    if (a->from.plan.checksums) PITHI_STEP(pithi_page_sum, false);
    if (a->hash_base) PITHI_STEP(pithi_page_check_hash, pithi_dtype_bytes(a->from.plan.base_dtype));
    PITHI_GATHER(number);
    if (a->from.plan.checksums)
        PITHI_RUN(pithi_page_seal, &s->from, s->made.hash, &a->checked[s->from.index]);
    if (a->hash_base) PITHI_RUN(pithi_check_close, number);
}

#endif
