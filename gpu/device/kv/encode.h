/* encode.h - values to pages of codec kv.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Extremes are found in integers, so that the order of threads does not matter; one thread a group
 * makes its scale, by the source that the CPU runs (group/group_value.h). */
#ifndef PITHI_GPU_DEVICE_KV_ENCODE_H
#define PITHI_GPU_DEVICE_KV_ENCODE_H

#include "device/key.h"
#include "device/kv/full_encode.h"
#include "device/kv/full_wide.h"
#include "device/kv/outliers.h"
#include "device/kv/strips.h"

/* Whether groups are looked at as a whole: none are; all may be; or those of pages that may have
 * strips are, which are not searched. Kernels that know it need fewer registers. */
enum pithi_kept { PITHI_KEPT_NONE, PITHI_KEPT_ANY, PITHI_KEPT_STRIPS };

/* ---- Values in -------------------------------------------------------------------------------*/

/* All that a thread needs of a tile is fetched before any of it is looked at. */
PITHI_DEVICE void pithi_piece_fetch(const struct pithi_device_plan *p,
                                    const struct pithi_gpu_page *g,
                                    const struct pithi_gpu_piece *piece, uint32_t raw[8]) {
    const uint32_t width = pithi_dtype_bytes(p->dtype);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) raw[k] = 0;
    if (!piece->n) return;
    pithi_unit_fetch(g->values + (g->at + piece->at) * width, width, piece->n, raw);
}
PITHI_DEVICE void pithi_piece_read(const struct pithi_device_plan *p, const uint32_t raw[8],
                                   float x[8]) {
    uint32_t v[PITHI_UNIT];
    pithi_unit_read(p->dtype, raw, v);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = pithi_float(v[k]);
}

PITHI_LOCAL(pithi_heads_load, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    uint32_t raw[PITHI_UNITS][PITHI_UNIT];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, pithi_page_unit(t, tile, u));
        pithi_piece_fetch(p, g, &piece, raw[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, pithi_page_unit(t, tile, u));
        pithi_piece_read(p, raw[u], t->x[u]);
        if (!pithi_page_based(p, g)) continue;
        pithi_piece_base(p, g, &piece, t->base[u]);
        pithi_unit_less(t->base[u], t->x[u]);
    }
}
PITHI_LOCAL(pithi_channels_load, uint32_t row) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    uint32_t raw[PITHI_UNITS][PITHI_UNIT];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        pithi_piece_fetch(p, g, &piece, raw[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) pithi_piece_read(p, raw[u], t->x[u]);
}

/* ---- Along heads -----------------------------------------------------------------------------*/

PITHI_LOCAL(pithi_heads_extremes, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t n = pithi_head_piece(p, g, pithi_page_unit(t, tile, u)).n;
        t->kv.up[u] = t->kv.down[u] = 0;
        if (n == PITHI_UNIT) {
            pithi_unit_extremes(&p->device.groups.set, t->x[u], &t->kv.up[u], &t->kv.down[u]);
            continue;
        }
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n)
            pithi_extremes_take(&p->device.groups.set, t->x[u][k], &t->kv.up[u], &t->kv.down[u]);
    }
}

/* A group's number in the tile. */
PITHI_DEVICE uint32_t pithi_heads_group(const struct pithi_gpu_page *g,
                                        const struct pithi_gpu_thread *t, uint32_t u) {
    return (u * PITHI_TEAM + t->tid) >> g->log2;
}

PITHI_PHASE(pithi_heads_publish, uint32_t tile) {
    const uint32_t lanes = s->paged.page.lanes;
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        if (t->tid & (lanes - 1)) continue;
        s->paged.up[pithi_heads_group(&s->paged.page, t, u)] = t->kv.up[u];
        s->paged.down[pithi_heads_group(&s->paged.page, t, u)] = t->kv.down[u];
    }
}

PITHI_PHASE(pithi_heads_finish, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t each = PITHI_UNITS * g->rows;
    for (uint32_t i = t->tid; i < each && tile * each + i < g->groups; i += PITHI_TEAM)
        s->paged.grid[i] =
            pithi_grid_find(&a->to.plan, &s->paged, s->paged.up[i], s->paged.down[i]);
}

PITHI_LOCAL(pithi_heads_scales, uint32_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t each = PITHI_UNITS * g->rows;
    for (uint32_t i = t->tid; i < each && tile * each + i < g->groups; i += PITHI_TEAM) {
        const struct pithi_grid grid = s->paged.grid[i];
        uint8_t *const at = g->bytes + (uint64_t)(tile * each + i) * pithi_entry_bytes(set);
        pithi_store(at, set->scale_dtype, 0, pithi_bits(grid.scale));
        if (set->asymmetric) pithi_store(at, set->scale_dtype, 1, pithi_bits(grid.zero));
        t->made.poisoned += pithi_nonfinite(pithi_bits(grid.scale));
    }
}

/* What decoders make of the base. */
PITHI_DEVICE void pithi_heads_update(const struct pithi_device_plan *p,
                                     const struct pithi_gpu_paged *g,
                                     const struct pithi_gpu_piece *piece, uint64_t word,
                                     const struct pithi_grid *grid, const uint32_t base[8],
                                     struct pithi_gpu_results *count) {
    float x[PITHI_UNIT];
    uint32_t bits[PITHI_UNIT];
    uint64_t ignored = 0;
    pithi_page_unit_values(g, &p->device.groups.set, word, grid->scale, grid->zero, x, &ignored);
    pithi_piece_update(p, &g->page, piece, base, x, true, count, bits);
}

PITHI_LOCAL(pithi_heads_codes, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, pithi_page_unit(t, tile, u));
        const struct pithi_grid grid = s->paged.grid[pithi_heads_group(g, t, u)];
        struct pithi_grid grids[PITHI_UNIT];
        if (!piece.n) continue;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) grids[k] = grid;
        const uint64_t word =
            pithi_page_word(&s->paged, &p->device.groups.set, grids, piece.n, t->x[u]);
        pithi_unit_put_codes(g->codes + piece.codes, p->device.groups.set.bits, piece.n, word);
        if (pithi_page_based(p, g))
            pithi_heads_update(p, &s->paged, &piece, word, &grid, t->base[u], &t->made);
    }
}

PITHI_DEVICE void pithi_heads_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint32_t tile, bool kept) {
    PITHI_STEP(pithi_tile_whole, false);
    PITHI_STEP(pithi_heads_load, tile);
    PITHI_PAGE_ROTATE(&a->to.plan, tile);
    if (kept) PITHI_RUN(pithi_heads_keep, tile);
    if (kept && s->paged.page.outliers) {
        pithi_page_outliers(a, s, t, team, tile);
        PITHI_STEP(pithi_heads_fetch, tile);
    }
    PITHI_STEP(pithi_heads_extremes, tile);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        PITHI_WARP_MAX(kv.up[u], s->paged.page.lanes);
        PITHI_WARP_MAX(kv.down[u], s->paged.page.lanes);
    }
    PITHI_RUN(pithi_heads_publish, tile);
    PITHI_RUN(pithi_heads_finish, tile);
    if (kept && pithi_pages_search(&a->to.plan)) pithi_page_search(a, s, t, team, tile, 0);
    PITHI_STEP(pithi_heads_scales, tile);
    PITHI_STEP(pithi_heads_codes, tile);
}

/* ---- Along tokens ----------------------------------------------------------------------------*/

PITHI_PHASE(pithi_channels_clear, uint32_t tile) {
    (void)a, (void)tile;
    s->paged.up[t->tid] = s->paged.down[t->tid] = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->kv.up[k] = t->kv.down[k] = 0;
}

PITHI_LOCAL(pithi_channels_extremes, uint32_t row) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t n = pithi_channel_piece(&a->to.plan, g, t, row, u).n;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n) pithi_extremes_take(
            &a->to.plan.device.groups.set, t->x[u][k], &t->kv.up[k], &t->kv.down[k]);
    }
}

PITHI_PHASE(pithi_channels_publish, uint32_t tile) {
    const uint32_t at = (t->tid & (s->paged.page.lanes - 1)) * PITHI_UNIT;
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        pithi_atomic_max32(&s->paged.up[at + k], t->kv.up[k]);
        pithi_atomic_max32(&s->paged.down[at + k], t->kv.down[k]);
    }
}

/* Finds column number i of the tile; returns whether the tile has so many. */
PITHI_DEVICE bool pithi_channel_is(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_page *g, uint32_t tile, uint32_t i,
                                   struct pithi_gpu_column *c) {
    *c = pithi_channel_of(p, g, i / PITHI_UNIT, tile);
    return i < g->lanes * PITHI_UNIT && i % PITHI_UNIT < c->n;
}

PITHI_PHASE(pithi_channels_finish, uint32_t tile) {
    struct pithi_gpu_column c;
    const uint32_t i = t->tid;
    if (!pithi_channel_is(&a->to.plan, &s->paged.page, tile, i, &c)) return;
    s->paged.grid[i] = pithi_grid_find(&a->to.plan, &s->paged, s->paged.up[i], s->paged.down[i]);
}

PITHI_LOCAL(pithi_channels_scales, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t i = t->tid, row = g->heads * g->dim, k = i % PITHI_UNIT;
    struct pithi_gpu_column c;
    if (!pithi_channel_is(p, g, tile, i, &c)) return;
    const struct pithi_grid grid = s->paged.grid[i];
    uint8_t *const at = pithi_channel_scales(p, g, tile, c.head * g->dim + c.in_head + k);
    pithi_store(at, set->scale_dtype, 0, pithi_bits(grid.scale));
    if (set->asymmetric) pithi_store(at, set->scale_dtype, row, pithi_bits(grid.zero));
    t->made.poisoned += pithi_nonfinite(pithi_bits(grid.scale));
}

PITHI_LOCAL(pithi_channels_codes, uint32_t row) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    struct pithi_grid grids[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) grids[k] =
        s->paged.grid[(t->tid & (g->lanes - 1)) * PITHI_UNIT + k];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        if (!piece.n) continue;
        const uint64_t word =
            pithi_page_word(&s->paged, &p->device.groups.set, grids, piece.n, t->x[u]);
        pithi_unit_put_codes(g->codes + piece.codes, p->device.groups.set.bits, piece.n, word);
    }
}

/* Loads columns of a tile into the team's memory, from `first` on as many as it holds. */
PITHI_DEVICE void pithi_channels_fill(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      uint32_t tokens, uint32_t first) {
    for (uint32_t row = 0; row < tokens; row += PITHI_UNITS * s->paged.page.rows) {
        PITHI_STEP(pithi_channels_load, row);
        PITHI_PAGE_ROTATE(&a->to.plan, row);
        PITHI_RUN(pithi_channels_keep, row, first);
    }
}

/* Part of a body: t->x := what is coded of tokens of a tile. */
#define PITHI_COLUMNS_TAKE(row, kept)              \
    do {                                           \
        if ((kept) && s->paged.page.outliers) {    \
            PITHI_STEP(pithi_channels_fetch, row); \
        } else {                                   \
            PITHI_STEP(pithi_channels_load, row);  \
            PITHI_PAGE_ROTATE(&a->to.plan, row);   \
        }                                          \
    } while (0)

/* The scales of as many columns at a time as the team's memory holds: of all that there are,
 * but where whole heads are rotated. */
PITHI_DEVICE void pithi_channels_search(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint32_t tile) {
    const uint32_t tokens = pithi_tile_tokens(&a->to.plan, &s->paged.page, tile);
    const uint32_t band = PITHI_TILE / a->to.plan.device.groups.set.group;
    for (uint32_t first = 0; first < s->paged.page.lanes * PITHI_UNIT; first += band) {
        if (!s->paged.page.outliers) pithi_channels_fill(a, s, t, team, tokens, first);
        pithi_page_search(a, s, t, team, tile, first);
    }
}

/* Values are read twice, which caches have the second time. */
PITHI_DEVICE void pithi_channels_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint32_t tile, enum pithi_kept kept) {
    const uint32_t tokens = pithi_tile_tokens(&a->to.plan, &s->paged.page, tile);
    const uint32_t step = PITHI_UNITS * s->paged.page.rows;
    PITHI_STEP(pithi_tile_whole, false);
    PITHI_STEP(pithi_channels_open, &a->to.plan, tile);
    if (kept && s->paged.page.outliers) {
        pithi_channels_fill(a, s, t, team, tokens, 0);
        pithi_page_outliers(a, s, t, team, tile);
    }
    PITHI_RUN(pithi_channels_clear, tile);
    for (uint32_t row = 0; row < tokens; row += step) {
        PITHI_COLUMNS_TAKE(row, kept);
        PITHI_STEP(pithi_channels_extremes, row);
    }
    PITHI_RUN(pithi_channels_publish, tile);
    PITHI_RUN(pithi_channels_finish, tile);
    if (kept == PITHI_KEPT_ANY && pithi_pages_search(&a->to.plan))
        pithi_channels_search(a, s, t, team, tile);
    PITHI_STEP(pithi_channels_scales, tile);
    for (uint32_t row = 0; row < tokens; row += step) {
        PITHI_COLUMNS_TAKE(row, kept);
        PITHI_STEP(pithi_channels_codes, row);
    }
}

/* ---- The kernels -----------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_page_clear(uint8_t *p, uint64_t used, uint64_t end, uint32_t tid,
                                   uint32_t step) {
    for (uint64_t i = used + tid; i < end; i += step) p[i] = 0;
}

/* What is of no part of a page: by the page's first team, at its end. */
PITHI_PHASE(pithi_page_padding, uint32_t step) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint64_t exact = (uint64_t)(g->exact - g->bytes);
    (void)a;
    pithi_page_clear(g->bytes, g->scale_bytes, pithi_pad16(g->scale_bytes), t->tid, step);
    pithi_page_clear(g->codes, g->code_bytes, pithi_pad16(g->code_bytes), t->tid, step);
    pithi_page_clear(g->places, g->place_bytes, pithi_pad16(g->place_bytes), t->tid, step);
    pithi_page_clear(g->bytes, exact + g->exact_bytes, g->whole, t->tid, step);
}

PITHI_DEVICE void pithi_page_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    enum pithi_kept kept) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const bool strips = kept == PITHI_KEPT_STRIPS;
    const bool channel = strips || a->to.plan.device.pages.channel;
    if (strips) pithi_strips_encode(a, s, t, team);
    for (uint32_t tile = g->tile + g->part; tile < g->tiles;) {
        if (strips && pithi_tile_is_full(g, tile)) {
            tile += a->kv.parts;
            continue;
        }
        if (t->special && !kept && pithi_tile_is_full(g, tile)) {
            tile = channel                        ? pithi_full_columns_encode(a, s, t, team, tile)
                   : pithi_full_wide(&a->to.plan) ? pithi_wide_encode(a, s, t, team, tile)
                                                  : pithi_full_heads_encode(a, s, t, team, tile);
            continue;
        }
        if (channel)
            pithi_channels_encode(a, s, t, team, tile, kept);
        else
            pithi_heads_encode(a, s, t, team, tile, kept);
        tile += a->kv.parts;
    }
    if (!g->part) PITHI_RUN(pithi_page_padding, PITHI_TEAM);
}

PITHI_PHASE(pithi_page_write, uint64_t number) {
    pithi_page_book(&a->to, t, &s->paged);
    if (t->tid) return;
    pithi_page_find(a, &a->to, &s->to, number, &s->paged.page);
    s->paged.rough = 0;
}

PITHI_LOCAL(pithi_page_hash_base, uint64_t number) {
    (void)number;
    t->made.hash = pithi_page_rehash(&a->to.plan, &s->paged.page, &s->to, t->tid);
}

/* What follows the page's bytes. */
PITHI_DEVICE void pithi_page_finish(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number) {
    const bool sum = s->paged.page.live && a->to.plan.checksums;
    if (sum) PITHI_STEP(pithi_page_sum, true);
    PITHI_GATHER(number);
    if (sum) PITHI_RUN(pithi_page_seal, &s->to, s->read.hash, NULL);
}

PITHI_DEVICE void pithi_item_pages(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t number, enum pithi_kept kept) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_page_write, number);
    if (s->to.first) PITHI_RUN(pithi_write_header, &s->to);
    if (s->paged.page.live) {
        pithi_page_encode(a, s, t, team, kept);
        /* A team that has all of the page has waited for all of its threads. */
        if (s->paged.page.apart) PITHI_STEP(pithi_page_hash_base, number);
    }
    pithi_page_finish(a, s, t, team, number);
    PITHI_RUN(pithi_encode_close, number);
}

PITHI_BODY(pithi_paged_encode) { pithi_item_pages(a, s, t, team, number, PITHI_KEPT_NONE); }
PITHI_BODY(pithi_paged_encode_kept) { pithi_item_pages(a, s, t, team, number, PITHI_KEPT_ANY); }
PITHI_BODY(pithi_paged_encode_strips) {
    pithi_item_pages(a, s, t, team, number, PITHI_KEPT_STRIPS);
}

/* A key frame. */
PITHI_BODY(pithi_paged_encode_key) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_page_write, number);
    if (s->to.first) PITHI_RUN(pithi_write_header, &s->to);
    if (s->paged.page.live) {
        const uint64_t step = (uint64_t)a->kv.parts * PITHI_TILE;
        uint64_t tile = s->to.begin + (uint64_t)s->paged.page.part * PITHI_TILE;
        for (; tile < s->to.end; tile += step) PITHI_RUN(pithi_key_put, tile);
    }
    pithi_page_finish(a, s, t, team, number);
    PITHI_RUN(pithi_key_close, number);
}

#endif
