/* page.h - pages of codec kv: where they lie, and how a team's threads share one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A page is cut into tiles, which a team takes one after the other. Along heads a tile is as many
 * groups as its threads have units for: `lanes` neighbouring threads a group, whose units beyond
 * the group or the head are empty. Along tokens a tile is a group of tokens of `lanes` units of
 * columns; a thread has one unit of columns, in every `rows`-th token. */
#ifndef PITHI_GPU_DEVICE_KV_PAGE_H
#define PITHI_GPU_DEVICE_KV_PAGE_H

#include "device/group/encode.h"
#include "device/open.h"

/* ---- Places ----------------------------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_parts(uint32_t n, uint32_t part) { return (n + part - 1) / part; }

PITHI_DEVICE uint32_t pithi_entry_bytes(const struct pithi_group_setting *set) {
    return (uint32_t)pithi_scale_width(set->scale_dtype) * (set->asymmetric ? 2u : 1u);
}

/* The page's sizes, from its rows. */
PITHI_DEVICE void pithi_page_measure(const struct pithi_device_plan *p, struct pithi_gpu_page *g) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const uint32_t string = (uint32_t)pithi_group_code_bytes(set, g->dim);
    g->along = pithi_parts(g->dim, set->group);
    g->groups = p->device.pages.channel ? pithi_parts(g->tokens, set->group) * g->heads * g->dim
                                        : g->tokens * g->heads * g->along;
    g->string = string;
    g->scale_bytes = (uint64_t)g->groups * pithi_entry_bytes(set);
    g->code_bytes = (uint64_t)g->tokens * g->heads * string;
    g->place_bytes = (uint64_t)g->groups * g->outliers;
    g->exact_bytes = g->place_bytes * pithi_dtype_bytes(p->dtype);
    g->codes = g->bytes + pithi_pad16(g->scale_bytes);
    g->places = g->codes + pithi_pad16(g->code_bytes);
    g->exact = g->places + pithi_pad16(g->place_bytes);
    g->length = (uint64_t)(g->exact - g->bytes) + pithi_pad16(g->exact_bytes);
    g->rotation.order = p->device.pages.rotated ? g->dim : 0;
}

/* How threads share it, and the tiles that hold elements [lo, hi). */
PITHI_DEVICE void pithi_page_share(const struct pithi_device_plan *p, struct pithi_gpu_page *g) {
    const uint32_t group = p->device.groups.set.group, row = g->heads * g->dim;
    const uint32_t wide = g->dim < group ? g->dim : group;
    const uint32_t units = g->heads * pithi_parts(g->dim, PITHI_UNIT);
    const bool channel = p->device.pages.channel;
    const uint32_t wanted = channel ? units : pithi_parts(wide, PITHI_UNIT);
    g->lanes = 1;
    g->log2 = 0;
    while (g->lanes < wanted && g->lanes < pithi_pages_lanes(p)) {
        g->lanes *= 2;
        g->log2++;
    }
    g->rows = PITHI_TEAM / g->lanes;
    g->chunks = pithi_parts(units, g->lanes);
    g->plain = g->dim == g->along * g->lanes * PITHI_UNIT && g->head_stride == g->dim &&
               g->token_stride == row;
    g->tile = g->tiles = 0;
    if (g->lo >= g->hi) return;
    if (channel) {
        g->tile = g->lo / row / group * g->chunks;
        g->tiles = ((g->hi - 1) / row / group + 1) * g->chunks;
    } else {
        const uint64_t each = (uint64_t)g->along * g->lanes, team = PITHI_UNITS * PITHI_TEAM;
        g->tile = (uint32_t)(g->lo / g->dim * each / team);
        g->tiles = (uint32_t)((((g->hi - 1) / g->dim + 1) * each + team - 1) / team);
    }
}

/* Whether pages are added to a base. Kernels that know of plans without one leave that out. */
PITHI_DEVICE bool pithi_page_based(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_page *g) {
    return p->base_dtype != PITH_NONE && g->base;
}

/* Whether what groups are made of is f32 whatever the values: of rotated heads, or what values add
 * to a base. Full tiles of such groups are those of full_wide.h. */
PITHI_DEVICE bool pithi_full_wide(const struct pithi_device_plan *p) {
    return p->device.pages.rotated || p->base_dtype != PITH_NONE;
}

/* Whether tiles of pages may be full: of 16-bit values, codes of 4 bits, scales and zero points of
 * as many. */
PITHI_DEVICE bool pithi_full_plan(const struct pithi_device_plan *p, uint32_t dtype) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    if ((dtype != PITH_BF16 && dtype != PITH_F16) || set->bits != 4 || !set->asymmetric ||
        set->codebook || p->device.pages.outliers)
        return false;
    if (!pithi_full_wide(p)) return set->scale_dtype == PITH_F16 && !set->short_zero;
    return set->scale_dtype != PITH_F32 && !p->device.pages.channel &&
           (p->base_dtype == PITH_NONE || p->base_dtype == dtype);
}

/* Tiles of so many elements in a row, `each` per row: those that are wanted as a whole. */
PITHI_DEVICE void pithi_full_rows(struct pithi_gpu_page *g, uint32_t row, uint32_t each) {
    g->full = pithi_parts(g->lo, row) * each;
    g->fulls = g->hi / row * each;
}

/* Whether those of groups with an outlier are in strips. */
PITHI_DEVICE bool pithi_strips_fit(const struct pithi_device_plan *p, uint32_t dtype,
                                   const struct pithi_gpu_page *g) {
    return pithi_pages_strips(p) && dtype == PITH_BF16 && g->outliers == 1 && g->values &&
           g->dim % PITHI_UNIT == 0 && g->heads * g->dim % PITHI_STRIP_COLUMNS == 0 &&
           g->token_stride % PITHI_UNIT == 0 && g->head_stride % PITHI_UNIT == 0 &&
           pithi_is_aligned(g->bytes, 16) && pithi_is_aligned(g->values + 2 * g->at, 16);
}

/* Whether those of codebook=trellis are full as others are: of 16-bit values, codes of 2 or 4 bits,
 * scales of f16, 16 threads a group. */
PITHI_DEVICE bool pithi_paths_fit(const struct pithi_device_plan *p, uint32_t dtype,
                                  const struct pithi_gpu_page *g) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    return set->codebook == PITHI_CODEBOOK_TRELLIS && (dtype == PITH_BF16 || dtype == PITH_F16) &&
           (set->bits == 2 || set->bits == 4) && set->scale_dtype == PITH_F16 &&
           p->base_dtype == PITH_NONE && !p->device.pages.channel && !p->device.pages.rotated &&
           !p->device.pages.outliers && g->values && g->plain && g->lanes == PITHI_LANES &&
           pithi_is_aligned(g->bytes, 16) && pithi_is_aligned(g->values + 2 * g->at, 16);
}

/* Finds the tiles of a page of which nothing is missing, nor unaligned; called by one thread. */
PITHI_DEVICE void pithi_full_find(const struct pithi_device_plan *p, uint32_t dtype,
                                  struct pithi_gpu_page *g) {
    const bool channel = p->device.pages.channel;
    g->full = g->fulls = 0;
    if (pithi_strips_fit(p, dtype, g))
        pithi_full_rows(g, PITHI_STRIP_TOKENS * g->heads * g->dim, g->chunks);
    if (pithi_paths_fit(p, dtype, g)) pithi_full_rows(g, PITHI_TILE, 1);
    if (!pithi_full_plan(p, dtype) || g->dim % PITHI_UNIT || !pithi_is_aligned(g->bytes, 16))
        return;
    if (g->values ? !pithi_is_aligned(g->values + 2 * g->at, 16) : !pithi_page_based(p, g)) return;
    if (p->base_dtype != PITH_NONE && (!g->base || !pithi_is_aligned(g->base, 16))) return;
    if (!channel && g->plain && g->lanes >= 4) pithi_full_rows(g, PITHI_TILE, 1);
    if (channel && g->lanes == PITHI_WARP && g->heads * g->dim == g->chunks * PITHI_TEAM &&
        p->device.groups.set.group == PITHI_DEEP * g->rows && g->token_stride % PITHI_UNIT == 0 &&
        g->head_stride % PITHI_UNIT == 0)
        pithi_full_rows(g, p->device.groups.set.group * g->heads * g->dim, g->chunks);
}

PITHI_DEVICE bool pithi_tile_is_full(const struct pithi_gpu_page *g, uint32_t tile) {
    return tile >= g->full && tile < g->fulls;
}

/* Returns which element of the page element e of the slot is, cut to the page. */
PITHI_DEVICE uint32_t pithi_page_cut(const struct pithi_gpu_page *g, uint64_t e, uint32_t count) {
    if (e <= g->first) return 0;
    return e - g->first < count ? (uint32_t)(e - g->first) : count;
}

/* The first page that holds what is wanted of a slot that has pages. */
PITHI_DEVICE uint64_t pithi_page_wanted(const struct pithi_tiling *t, uint64_t first) {
    const uint64_t page = t->extent[2] * t->shape[3], run = t->shape[2] * t->shape[3];
    return first / run * t->grid[2] + first % run / page;
}

/* Copies the codebook to the team's memory, where a setting has one; called by every thread. */
PITHI_DEVICE void pithi_page_book(const struct pithi_gpu_side *side,
                                  const struct pithi_gpu_thread *t, struct pithi_gpu_paged *to) {
    const uint8_t *const book =
        side->plan_memory + offsetof(struct pithi_device_plan, device.pages.book);
    if (side->plan.device.groups.set.codebook && t->tid < sizeof to->book)
        ((uint8_t *)&to->book)[t->tid] = book[t->tid];
}

/* Whether pieces do not begin at whole lanes of the base's hash: then it is hashed page by page. */
PITHI_DEVICE bool pithi_page_apart(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_item *it) {
    return p->device.base_hash && it->slot->pages.dim % PITHI_UNIT &&
           it->slot->pages.dim != it->slot->count;
}

/* Returns the dtype of a side's values: tensors that are written need not have the plan's. */
PITHI_DEVICE uint32_t pithi_side_dtype(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_side *side) {
    return side == &a->from ? side->items.dtype : side->plan.dtype;
}

/* Finds the team's page of the item; those of its elements that are wanted are then the team's of
 * the slot. Called by one thread. */
PITHI_DEVICE void pithi_page_find(const struct pithi_gpu_call *a, const struct pithi_gpu_side *side,
                                  struct pithi_gpu_item *it, uint64_t team,
                                  struct pithi_gpu_page *g) {
    const struct pithi_tiling *const t = &it->slot->tiling;
    const uint64_t chunk = team % a->chunks, end = it->slot->count;
    const uint64_t shift = side == &a->from && side->items.tensors ? a->first : 0;
    g->live = it->status == PITH_OK && it->slot->blocks;
    if (!g->live) return;
    g->part = (uint32_t)(chunk % a->kv.parts);
    g->number = pithi_page_wanted(t, a->first) + chunk / a->kv.parts;
    g->live = g->number < it->slot->blocks;
    if (!g->live) return;
    const uint64_t run = g->number / t->grid[2], page = g->number % t->grid[2];
    const uint64_t left = t->shape[2] - page * t->extent[2];
    g->tokens = left < t->extent[2] ? (uint32_t)left : t->extent[2];
    g->heads = it->slot->pages.heads;
    g->dim = it->slot->pages.dim;
    g->outliers = it->slot->pages.outliers;
    g->first = (run * t->shape[2] + page * t->extent[2]) * t->shape[3];
    g->bytes =
        it->payload + it->form->data + run * it->form->run_bytes + page * it->form->block_bytes;
    g->values = it->tensor == it->base ? NULL : it->tensor;
    g->base = it->base ? it->base + g->first * pithi_dtype_bytes(side->plan.base_dtype) : NULL;
    g->at = (int64_t)(g->first - shift);
    g->token_stride = (int64_t)t->shape[3];
    g->head_stride = g->dim;
    const uint32_t count = g->tokens * g->heads * g->dim;
    const uint64_t rest = a->first < end ? end - a->first : 0;
    g->lo = pithi_page_cut(g, a->first, count);
    g->hi = pithi_page_cut(g, a->count < rest ? a->first + a->count : end, count);
    pithi_page_measure(&side->plan, g);
    pithi_page_share(&side->plan, g);
    pithi_full_find(&side->plan, pithi_side_dtype(a, side), g);
    g->apart = pithi_page_apart(&side->plan, it);
    if (it->kind) g->length = (uint64_t)count * pithi_dtype_bytes(side->plan.base_dtype);
    g->whole = g->length;
    it->begin = g->first + (g->lo & ~(PITHI_UNIT - 1u));
    it->end = g->first + g->hi;
}

/* ---- Units -----------------------------------------------------------------------------------*/

/* Eight elements of a head, or fewer: e is the first's number in the page, `at` its place in the
 * tensor, counted from the page's first, `codes` its byte in the area of codes. */
struct pithi_gpu_piece {
    int64_t at;
    uint32_t e, n, codes;
};

PITHI_DEVICE struct pithi_gpu_piece pithi_piece_at(const struct pithi_device_plan *p,
                                                   const struct pithi_gpu_page *g, uint32_t token,
                                                   uint32_t head, uint32_t in_head, uint32_t n) {
    const uint32_t before = token * g->heads + head;
    struct pithi_gpu_piece piece;
    piece.n = n < PITHI_UNIT ? n : PITHI_UNIT;
    piece.e = before * g->dim + in_head;
    piece.codes = before * g->string + in_head * p->device.groups.set.bits / 8;
    piece.at = (int64_t)token * g->token_stride + (int64_t)head * g->head_stride + in_head;
    return piece;
}

/* Number of a thread's unit u of a tile along heads; its group is that over the lanes. */
PITHI_DEVICE uint32_t pithi_page_unit(const struct pithi_gpu_thread *t, uint32_t tile, uint32_t u) {
    return (tile * PITHI_UNITS + u) * PITHI_TEAM + t->tid;
}

/* n: 0 where the unit is empty. */
PITHI_DEVICE struct pithi_gpu_piece pithi_head_piece(const struct pithi_device_plan *p,
                                                     const struct pithi_gpu_page *g,
                                                     uint32_t unit) {
    const uint32_t group = unit >> g->log2;
    if (g->plain) {
        struct pithi_gpu_piece piece;
        piece.n = group < g->groups ? PITHI_UNIT : 0;
        piece.e = unit * PITHI_UNIT;
        piece.codes = unit * p->device.groups.set.bits;
        piece.at = piece.e;
        return piece;
    }
    const uint32_t head = group / g->along, token = head / g->heads;
    const uint32_t in_head = (group - head * g->along) * p->device.groups.set.group +
                             (unit & (g->lanes - 1)) * PITHI_UNIT;
    const bool empty = in_head >= g->dim || group >= g->groups;
    return pithi_piece_at(p, g, token, head - token * g->heads, in_head,
                          empty ? 0 : g->dim - in_head);
}

/* A tile along tokens: its first token, and their number. */
PITHI_DEVICE uint32_t pithi_tile_token(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_page *g, uint32_t tile) {
    return tile / g->chunks * p->device.groups.set.group;
}
PITHI_DEVICE uint32_t pithi_tile_tokens(const struct pithi_device_plan *p,
                                        const struct pithi_gpu_page *g, uint32_t tile) {
    const uint32_t left = g->tokens - pithi_tile_token(p, g, tile);
    return left < p->device.groups.set.group ? left : p->device.groups.set.group;
}

/* The columns that thread number tid has of a tile. */
PITHI_DEVICE struct pithi_gpu_column pithi_channel_of(const struct pithi_device_plan *p,
                                                      const struct pithi_gpu_page *g, uint32_t tid,
                                                      uint32_t tile) {
    const uint32_t each = pithi_parts(g->dim, PITHI_UNIT);
    const uint32_t unit = tile % g->chunks * g->lanes + (tid & (g->lanes - 1));
    const uint32_t first = pithi_tile_token(p, g, tile);
    struct pithi_gpu_column c;
    c.head = unit / each;
    c.in_head = (unit - c.head * each) * PITHI_UNIT;
    c.n = c.head < g->heads ? g->dim - c.in_head : 0;
    if (c.n > PITHI_UNIT) c.n = PITHI_UNIT;
    c.token = first + (tid >> g->log2);
    c.end = first + pithi_tile_tokens(p, g, tile);
    return c;
}

PITHI_LOCAL(pithi_channels_open, const struct pithi_device_plan *p, uint32_t tile) {
    (void)a;
    t->kv.column = pithi_channel_of(p, &s->paged.page, t->tid, tile);
}

/* Returns the piece of the thread's columns that lies in its token u, counted from the tile's token
 * number `row`; n is 0 behind the tile's last. */
PITHI_DEVICE struct pithi_gpu_piece pithi_channel_piece(const struct pithi_device_plan *p,
                                                        const struct pithi_gpu_page *g,
                                                        const struct pithi_gpu_thread *t,
                                                        uint32_t row, uint32_t u) {
    const uint32_t token = t->kv.column.token + row + u * g->rows;
    return pithi_piece_at(p, g, token, t->kv.column.head, t->kv.column.in_head,
                          token < t->kv.column.end ? t->kv.column.n : 0);
}

/* Scales of a tile's columns; the zero points lie a row behind. */
PITHI_DEVICE uint8_t *pithi_channel_scales(const struct pithi_device_plan *p,
                                           const struct pithi_gpu_page *g, uint32_t tile,
                                           uint32_t column) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    return g->bytes + (uint64_t)(tile / g->chunks) * g->heads * g->dim * pithi_entry_bytes(set) +
           column * pithi_scale_width(set->scale_dtype);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* What code k of a word means; *saturated: results that overflowed are counted there. */
PITHI_DEVICE float pithi_page_value(const struct pithi_gpu_paged *g,
                                    const struct pithi_group_setting *set, uint64_t word,
                                    uint32_t k, float scale, float zero, uint64_t *saturated) {
    const uint32_t mask = (1u << set->bits) - 1;
    const int index = (int)((uint32_t)(word >> k * set->bits) & mask);
    const int q = (int)pithi_unit_code(word, set->bits, pithi_unit_half(set), k);
    if (pithi_nonfinite(pithi_bits(scale)) || pithi_nonfinite(pithi_bits(zero)))
        return pithi_float(PITHI_F32_NAN);
    if (set->codebook)
        return pithi_float(pithi_codebook_decoded(&g->book, index, scale, saturated));
    return pithi_float(pithi_group_decoded(q, scale, zero, set->asymmetric, saturated));
}

/* Whether what a scale and a zero point mean is finite, whatever the code. */
PITHI_DEVICE bool pithi_page_calm(const struct pithi_group_setting *set, float scale, float zero) {
    return !set->codebook && pithi_magnitude(pithi_bits(scale)) < PITHI_SCALE_LIMIT &&
           pithi_magnitude(pithi_bits(zero)) < PITHI_SCALE_LIMIT;
}
/* x := what the codes of a unit mean; calm: of all its scales and zero points. */
PITHI_DEVICE void pithi_page_values(const struct pithi_gpu_paged *g,
                                    const struct pithi_group_setting *set, uint64_t word, bool calm,
                                    const float scale[8], const float zero[8], float x[8],
                                    uint64_t *saturated) {
    const uint32_t half = pithi_unit_half(set);
    if (!calm) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
            pithi_page_value(g, set, word, k, scale[k], zero[k], saturated);
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const float v = pithi_unit_code(word, set->bits, half, k) * scale[k];
        x[k] = set->asymmetric ? v + zero[k] : v;
    }
}
/* Makes the values of a unit as pithi_page_values, where all share one scale and zero point. */
PITHI_DEVICE void pithi_page_unit_values(const struct pithi_gpu_paged *g,
                                         const struct pithi_group_setting *set, uint64_t word,
                                         float scale, float zero, float x[8], uint64_t *saturated) {
    float scales[PITHI_UNIT], zeros[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        scales[k] = scale;
        zeros[k] = zero;
    }
    pithi_page_values(g, set, word, pithi_page_calm(set, scale, zero), scales, zeros, x, saturated);
}

/* ---- Rotation --------------------------------------------------------------------------------*/

/* Threads that are neighbours have units that are, whole heads of them: transforms are of whole
 * heads whatever the page, and an element counts by its place among the threads. */
PITHI_DEVICE uint64_t pithi_page_lane(const struct pithi_gpu_thread *t) {
    return (uint64_t)t->tid * PITHI_UNIT;
}
enum { PITHI_ANY_HEADS = PITHI_TEAM * PITHI_UNIT };

PITHI_LOCAL(pithi_page_across, uint32_t tile, uint32_t half) {
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_across(t, s->paged.page.rotation.order, PITHI_ANY_HEADS, pithi_page_lane(t),
                          half, t->x[u], t->y[u]);
}
PITHI_LOCAL(pithi_page_inner, uint32_t tile) {
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) pithi_unit_inner(
        t, s->paged.page.rotation.order, PITHI_ANY_HEADS, pithi_page_lane(t), t->x[u]);
}
PITHI_LOCAL(pithi_page_shrink, uint32_t tile) {
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) pithi_unit_shrink(
        t, s->paged.page.rotation.order, PITHI_ANY_HEADS, pithi_page_lane(t), t->x[u]);
}

/* Part of a body: the transform of what the threads hold, and its inverse. */
#define PITHI_PAGE_ROTATE(p, tile)                                                   \
    do {                                                                             \
        if ((p)->device.pages.rotated) {                                             \
            PITHI_STEP(pithi_page_inner, tile);                                      \
            PITHI_ROTATE_ACROSS(&s->paged.page.rotation, pithi_page_across, (tile)); \
        }                                                                            \
    } while (0)
#define PITHI_PAGE_UNROTATE(p, tile)                                        \
    do {                                                                    \
        if ((p)->device.pages.rotated) PITHI_STEP(pithi_page_shrink, tile); \
        PITHI_PAGE_ROTATE(p, tile);                                         \
    } while (0)

/* ---- Base ------------------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_piece_base(const struct pithi_device_plan *p,
                                   const struct pithi_gpu_page *g,
                                   const struct pithi_gpu_piece *piece, uint32_t base[8]) {
    pithi_unit_load(g->base + (uint64_t)piece->e * pithi_dtype_bytes(p->base_dtype), p->base_dtype,
                    piece->n, base);
}

/* bits := of the base's dtype, a piece's base and x, what its codes mean; the base itself becomes
 * that where `update` is set. */
PITHI_DEVICE void pithi_piece_update(const struct pithi_device_plan *p,
                                     const struct pithi_gpu_page *g,
                                     const struct pithi_gpu_piece *piece, const uint32_t base[8],
                                     const float x[8], bool update, struct pithi_gpu_results *count,
                                     uint32_t bits[8]) {
    const uint32_t width = pithi_dtype_bytes(p->base_dtype);
    uint32_t raw[PITHI_UNIT];
    pithi_unit_update(p->base_dtype, base, x, piece->n, &count->saturated, raw);
    pithi_unit_spread(width, raw, bits);
    if (!update) return;
    pithi_unit_put_raw(g->base + (uint64_t)piece->e * width, width, piece->n, raw);
    if (p->device.base_hash && !g->apart)
        count->hash += pithi_unit_hash(width, g->first + piece->e, piece->n, raw);
}

/* Returns the hash of the page's part of the base, for a team that has all of the page. */
PITHI_DEVICE uint64_t pithi_page_rehash(const struct pithi_device_plan *p,
                                        const struct pithi_gpu_page *g,
                                        const struct pithi_gpu_item *it, uint32_t tid) {
    const uint64_t width = pithi_dtype_bytes(p->base_dtype), first = g->first * width;
    return pithi_hash_part(it->base, first, first + g->hi * width, tid, PITHI_TEAM);
}

/* ---- Checksums -------------------------------------------------------------------------------*/

/* Hashes the bytes of the page, for a team that has all of it. The hash is kept among the results
 * of the side that the call does not have. */
PITHI_LOCAL(pithi_page_sum, bool encode) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint64_t sum = pithi_hash_part(g->bytes, 0, g->length, t->tid, PITHI_TEAM);
    (void)a;
    if (encode)
        t->read.hash = sum;
    else
        t->made.hash = sum;
}

/* hash: that, of the team. */
PITHI_PHASE(pithi_page_seal, const struct pithi_gpu_item *it, uint64_t hash,
            struct pithi_gpu_checked *checked) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    uint8_t *const entry = it->payload + it->form->checks + 8 * g->number;
    const uint64_t sum = pithi_nh_finish(hash, g->length, PITHI_CHECK_TAG + g->number);
    (void)a;
    if (t->tid) return;
    if (!checked)
        pithi_put64(entry, sum);
    else if (pithi_get64(entry) != sum)
        pithi_atomic_max32(&checked->failed, PITHI_FAILED_CHECKSUM);
}

#endif
