/* trellis.h - kernels of codec kv with codebook=trellis.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team holds a tile's groups in its memory, one behind the other, whether they run along heads or
 * tokens, and codes them there. No group is longer than a sequence. */
#ifndef PITHI_GPU_DEVICE_KV_TRELLIS_H
#define PITHI_GPU_DEVICE_KV_TRELLIS_H

#include "device/group/trellis.h"
#include "device/kv/decode.h"
#include "device/kv/encode.h"
#include "device/kv/pairs.h"
#include "device/kv/segments.h"

/* ---- Groups ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_paths_open, uint32_t number) {
    (void)number;
    pithi_trellis_table(pithi_trellis_of(&a->to), t->tid, &s->paged.paths.tables);
}

/* Logarithm of the elements from one group to the next in the team's memory. */
PITHI_DEVICE uint32_t pithi_paths_log2(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_page *g) {
    return p->device.pages.channel ? pithi_trellis_log2(p->device.groups.set.group) : g->log2 + 3;
}

/* Space for groups. */
PITHI_DEVICE uint32_t pithi_paths_most(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_page *g) {
    return (uint32_t)PITHI_TILE >> pithi_paths_log2(p, g);
}

/* Elements of the groups in memory, of which the first is number `first` of the tile. */
PITHI_PHASE(pithi_paths_count, uint32_t tile, uint32_t first) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t groups = pithi_sought_groups(p, g);
    for (uint32_t i = t->tid; i < pithi_paths_most(p, g); i += PITHI_TEAM)
        s->paged.paths.count[i] =
            (uint16_t)(i < groups ? pithi_sought_count(p, g, tile, first + i) : 0);
}

/* A thread's unit of the groups in memory: number of the group there; of the unit in the group;
 * elements. */
struct pithi_path_unit {
    uint32_t group, j, n;
};
PITHI_DEVICE struct pithi_path_unit pithi_paths_unit(const struct pithi_device_plan *p,
                                                     const struct pithi_gpu_paged *g,
                                                     const struct pithi_gpu_thread *t, uint32_t u) {
    const uint32_t unit = u * PITHI_TEAM + t->tid, log2 = pithi_paths_log2(p, &g->page) - 3;
    struct pithi_path_unit w;
    w.group = unit >> log2;
    w.j = unit & ((1u << log2) - 1);
    w.n = pithi_unit_left(w.j * PITHI_UNIT, g->paths.count[w.group]);
    return w;
}

PITHI_DEVICE float *pithi_paths_values(struct pithi_gpu_paged *g, const struct pithi_gpu_thread *t,
                                       uint32_t u) {
    return g->values + (u * PITHI_TEAM + t->tid) * PITHI_UNIT;
}

/* t->x := values in the team's memory, 0 behind a group's last. */
PITHI_LOCAL(pithi_paths_load, uint32_t tile) {
    (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t n = pithi_paths_unit(&a->to.plan, &s->paged, t, u).n;
        const float *const from = s->paged.values + (u * PITHI_TEAM + t->tid) * PITHI_UNIT;
        const struct pithi_quad q[2] = {pithi_get_quad(from), pithi_get_quad(from + 4)};
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] =
            k < n ? pithi_float(q[k / 4].word[k % 4]) : 0;
    }
}

PITHI_LOCAL(pithi_paths_largest, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        uint32_t m = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const uint32_t size = pithi_magnitude(pithi_bits(t->x[u][k]));
            if (size > m) m = size;
        }
        t->kv.up[u] = m;
    }
}
PITHI_PHASE(pithi_paths_publish, uint32_t tile) {
    const uint32_t log2 = pithi_paths_log2(&a->to.plan, &s->paged.page) - 3;
    (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        if (t->tid & ((1u << log2) - 1)) continue;
        s->paged.up[(u * PITHI_TEAM + t->tid) >> log2] = t->kv.up[u];
    }
}

/* s->paged.down := units, as pithi_trellis_shared has them. */
PITHI_PHASE(pithi_paths_scales, uint32_t tile) {
    (void)tile;
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t groups = pithi_sought_groups(p, &s->paged.page);
    const int top = pithi_trellis_of(&a->to)->top;
    for (uint32_t i = t->tid; i < groups; i += PITHI_TEAM)
        pithi_trellis_units(&p->device.groups.set, top, pithi_page_dtype(p), s->paged.up[i],
                            s->paged.paths.count[i], &s->paged.down[i], &s->paged.paths.other[i]);
}

PITHI_PHASE(pithi_paths_look, uint32_t tile) {
    (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_path_unit w = pithi_paths_unit(&a->to.plan, &s->paged, t, u);
        if (!w.n || w.j * PITHI_UNIT >= PITHI_TRELLIS_LOOK || !s->paged.down[w.group]) continue;
        const float unit = pithi_float(s->paged.down[w.group]);
        bool levels = true;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) levels =
            levels && (k >= w.n || pithi_trellis_marked(&s->paged.paths.tables, t->x[u][k] * unit));
        if (!levels) pithi_atomic_or32(&s->paged.paths.other[w.group], 0x80000000u);
    }
}

/* ---- Paths -----------------------------------------------------------------------------------*/

PITHI_DEVICE float pithi_paths_by(const struct pithi_gpu_paged *g,
                                  const struct pithi_path_unit *w) {
    return w->n ? pithi_trellis_unit(g->down[w->group], g->paths.other[w->group]) : 0;
}
PITHI_PHASE(pithi_paths_put_words, uint32_t tile) {
    (void)tile;
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t paths = pithi_paths_most(p, &s->paged.page);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_path_unit w = pithi_paths_unit(p, &s->paged, t, u);
        const float unit = pithi_paths_by(&s->paged, &w);
        if (unit == 0) continue;
        pithi_put_quad(pithi_trellis_slot(s->paged.slot, paths, w.group, w.j),
                       pithi_trellis_words(s->paged.paths.tables.most, t->x[u], unit));
    }
}

PITHI_PHASE(pithi_paths_find, uint32_t tile) {
    (void)tile;
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t groups = pithi_sought_groups(p, g), log2 = pithi_paths_log2(p, g) - 3;
    struct pithi_trellis_path path;
    path.slot = s->paged.slot;
    path.paths = pithi_paths_most(p, g);
    path.mirrored = true;
    path.limits = false;
    for (path.path = t->tid; path.path < groups; path.path += PITHI_TEAM) {
        path.count = s->paged.paths.count[path.path];
        if (!path.count || !s->paged.down[path.path]) continue;
        const uint32_t last = pithi_trellis_forward(&s->paged.paths.tables, &path);
        s->paged.paths.begin[path.path] = (uint8_t)pithi_trellis_backward(
            &path, last, s->paged.paths.chosen + (path.path << log2));
    }
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Replaces values by what sums are formed of, and makes levels beside them, and codes below
 * these. */
PITHI_PHASE(pithi_paths_code, uint32_t tile) {
    (void)tile;
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t mask = (1u << p->device.groups.set.bits) - 1;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_path_unit w = pithi_paths_unit(p, &s->paged, t, u);
        const float unit = pithi_paths_by(&s->paged, &w);
        struct pithi_quad product[2] = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}}, both = {{0, 0, 0, 0}};
        if (unit != 0) {
            const uint32_t begin = s->paged.paths.begin[w.group];
            const uint32_t lows =
                pithi_trellis_lows(s->paged.paths.chosen, u * PITHI_TEAM + t->tid, begin, w.j == 0);
            uint32_t code[PITHI_UNIT];
            float level[PITHI_UNIT];
            pithi_trellis_codes(&s->paged.paths.tables,
                                pithi_trellis_words(s->paged.paths.tables.most, t->x[u], unit),
                                lows, code, level);
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
                const float l = level[k] * PITHI_TRELLIS_UNIT;
                const uint32_t low = begin ? ~code[k] & mask : code[k];
                product[k / 4].word[k % 4] = pithi_bits(t->x[u][k] * unit * l);
                both.word[k / 2] |= (((uint32_t)(int32_t)l * 16 | low) & 0xFFFFu) << k % 2 * 16;
            }
        }
        float *const to = pithi_paths_values(&s->paged, t, u);
        pithi_put_quad(to, product[0]);
        pithi_put_quad(to + 4, product[1]);
        pithi_put_quad(s->paged.both + (u * PITHI_TEAM + t->tid) * PITHI_UNIT, both);
    }
}

/* ---- Scales ----------------------------------------------------------------------------------*/

/* Sums of the thread's group, t->kv.sought. */
PITHI_LOCAL(pithi_paths_add, uint32_t tile) {
    float with_value = 0, with_itself = 0;
    (void)a, (void)tile;
    for (uint32_t i = t->tid % PITHI_LANES; i < t->kv.sought.count; i += PITHI_LANES) {
        const float l = (float)(s->paged.both[t->kv.sought.at + i] >> 4);
        with_value += s->paged.values[t->kv.sought.at + i];
        with_itself += l * l;
    }
    t->trellis.sum[0] = with_value;
    t->trellis.sum[1] = with_itself;
}

PITHI_PHASE(pithi_paths_note, uint32_t first) {
    (void)a;
    if (t->tid % PITHI_LANES || !t->kv.sought.count) return;
    PITHI_UNROLL for (uint32_t k = 0; k < 2; k++) s->paged.sum[k][t->kv.sought.index - first] =
        t->trellis.sum[k];
}

/* A group to each thread: what a scale takes is many operations, which a warp does once. */
PITHI_LOCAL(pithi_paths_finish, uint32_t tile, uint32_t first) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t groups = pithi_sought_groups(p, g), dtype = pithi_page_dtype(p);
    for (uint32_t i = t->tid; i < groups; i += PITHI_TEAM) {
        const uint32_t index = first + i, largest = s->paged.up[i], count = s->paged.paths.count[i];
        if (!count) continue;
        float scale = pithi_trellis_utmost(set, of->top, dtype, largest);
        if (s->paged.down[i]) {
            const float sum[2] = {s->paged.sum[0][i], s->paged.sum[1][i]};
            scale =
                pithi_trellis_fitted(set, of, dtype, largest, count, s->paged.paths.other[i], sum);
            if (s->paged.paths.begin[i]) scale = -scale;
        }
        uint8_t *at =
            g->bytes + (uint64_t)(tile * PITHI_UNITS * g->rows + index) * pithi_entry_bytes(set);
        if (p->device.pages.channel) {
            const struct pithi_gpu_column c = pithi_channel_of(p, g, index / PITHI_UNIT, tile);
            at = pithi_channel_scales(p, g, tile, c.head * g->dim + c.in_head + index % PITHI_UNIT);
        }
        pithi_store(at, set->scale_dtype, 0, pithi_bits(scale));
        t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
    }
}

/* ---- Codes to the page -----------------------------------------------------------------------*/

PITHI_LOCAL(pithi_heads_path_codes, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t bits = p->device.groups.set.bits;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, pithi_page_unit(t, tile, u));
        uint32_t word = 0;
        if (!piece.n) continue;
        const struct pithi_quad both =
            pithi_get_quad(s->paged.both + (u * PITHI_TEAM + t->tid) * PITHI_UNIT);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word |=
            (both.word[k / 2] >> k % 2 * 16 & 15) << k * bits;
        word &= 0xFFFFFFFFu >> (32 - piece.n * bits);
        pithi_trellis_put(g->codes + piece.codes, bits, piece.n, word);
    }
}

/* Makes codes of the columns in the team's memory, which are those from `first` of the tile on. */
PITHI_LOCAL(pithi_channels_path_codes, uint32_t row, uint32_t first) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t bits = p->device.groups.set.bits, group = p->device.groups.set.group;
    const uint32_t column = (t->tid & (g->lanes - 1)) * PITHI_UNIT - first;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        const uint32_t token = row + (t->tid >> g->log2) + u * g->rows;
        uint32_t word = 0;
        if (!piece.n || column >= PITHI_TILE / group) continue;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < piece.n) word |=
            ((uint32_t)s->paged.both[(column + k) * group + token] & 15) << k * bits;
        pithi_trellis_put(g->codes + piece.codes, bits, piece.n, word);
    }
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Part of a body: the groups in memory, from number `first` of the tile on: their scales; what
 * becomes of their codes follows. */
PITHI_DEVICE void pithi_paths_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint32_t tile, uint32_t first) {
    const uint32_t end = first + pithi_sought_groups(&a->to.plan, &s->paged.page);
    PITHI_STEP(pithi_paths_load, tile);
    PITHI_STEP(pithi_paths_largest, tile);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_WARP_MAX(kv.up[u], 1u << (pithi_paths_log2(&a->to.plan, &s->paged.page) - 3));
    PITHI_RUN(pithi_paths_publish, tile);
    PITHI_RUN(pithi_paths_scales, tile);
    PITHI_RUN(pithi_paths_look, tile);
    PITHI_RUN(pithi_paths_put_words, tile);
    PITHI_RUN(pithi_paths_find, tile);
    PITHI_RUN(pithi_paths_code, tile);
    for (uint32_t from = first; from < end; from += PITHI_TEAM / PITHI_LANES) {
        PITHI_STEP(pithi_sought_open, tile, first, from);
        PITHI_STEP(pithi_paths_add, tile);
        for (uint32_t lanes = PITHI_LANES / 2; lanes; lanes /= 2) {
            PITHI_WARP_SWAP(trellis.sum, trellis.sum_other, 2, lanes);
            PITHI_STEP(pithi_trellis_halve, lanes);
        }
        PITHI_STEP(pithi_paths_note, first);
    }
    PITHI_MEET(); /* scales are there, and nobody looks at what sums were formed of */
    PITHI_STEP(pithi_paths_finish, tile, first);
}

PITHI_DEVICE void pithi_heads_paths(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint32_t tile) {
    PITHI_STEP(pithi_heads_load, tile);
    PITHI_PAGE_ROTATE(&a->to.plan, tile);
    PITHI_STEP(pithi_paths_count, tile, 0);
    PITHI_RUN(pithi_heads_keep, tile);
    if (s->paged.page.outliers) pithi_page_outliers(a, s, t, team, tile);
    pithi_paths_encode(a, s, t, team, tile, 0);
    PITHI_RUN(pithi_heads_path_codes, tile);
}

PITHI_DEVICE void pithi_channels_paths(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       uint32_t tile) {
    const uint32_t tokens = pithi_tile_tokens(&a->to.plan, &s->paged.page, tile);
    const uint32_t band = PITHI_TILE >> pithi_trellis_log2(a->to.plan.device.groups.set.group);
    const uint32_t step = PITHI_UNITS * s->paged.page.rows;
    PITHI_STEP(pithi_channels_open, &a->to.plan, tile);
    for (uint32_t first = 0; first < s->paged.page.lanes * PITHI_UNIT; first += band) {
        PITHI_STEP(pithi_paths_count, tile, first);
        pithi_channels_fill(a, s, t, team, tokens, first);
        if (s->paged.page.outliers) pithi_page_outliers(a, s, t, team, tile);
        pithi_paths_encode(a, s, t, team, tile, first);
        for (uint32_t row = 0; row < tokens; row += step)
            PITHI_STEP(pithi_channels_path_codes, row, first);
        PITHI_MEET(); /* scales are there, and nobody looks at what sums were formed of */
    }
}

PITHI_DEVICE void pithi_page_paths(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const bool channel = a->to.plan.device.pages.channel;
    PITHI_RUN(pithi_trellis_levels, &a->to, 1);
    PITHI_RUN(pithi_paths_open, 0);
    PITHI_STEP(pithi_tile_whole, false);
    const uint32_t segments = pithi_segments_encode(a, s, t, team);
    for (uint32_t tile = g->tile + g->part; tile < g->tiles; tile += a->kv.parts) {
        if (tile >= g->full && tile - g->full < segments) continue;
        if (channel)
            pithi_channels_paths(a, s, t, team, tile);
        else
            pithi_heads_paths(a, s, t, team, tile);
    }
    if (!g->part) PITHI_RUN(pithi_page_padding, PITHI_TEAM);
}

PITHI_BODY(pithi_trellis_paged_encode) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_page_write, number);
    if (s->to.first) PITHI_RUN(pithi_write_header, &s->to);
    if (s->paged.page.live) pithi_page_paths(a, s, t, team);
    pithi_page_finish(a, s, t, team, number);
    PITHI_RUN(pithi_encode_close, number);
}

PITHI_BODY(pithi_trellis_pairs_encode) {
    PITHI_RUN(pithi_page_pair, &a->to, number);
    if (s->paged.page.live) pithi_page_paths(a, s, t, team);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* t->x := values of a tile along heads. */
PITHI_LOCAL(pithi_heads_path_take, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    uint32_t scale[PITHI_UNITS], word[PITHI_UNITS], before[PITHI_UNITS];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t unit = pithi_page_unit(t, tile, u);
        const struct pithi_gpu_piece piece = pithi_head_piece(p, g, unit);
        const uint8_t *const codes = g->codes + piece.codes;
        scale[u] = word[u] = before[u] = 0;
        if (!piece.n) continue;
        scale[u] = pithi_load(g->bytes + (uint64_t)(unit >> g->log2) * pithi_entry_bytes(set),
                              set->scale_dtype, 0);
        word[u] = pithi_trellis_get(codes, set->bits, piece.n);
        before[u] = pithi_trellis_before(codes, !(unit & (g->lanes - 1)));
        t->read.poisoned += !(unit & (g->lanes - 1)) && pithi_nonfinite(scale[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t n = pithi_head_piece(p, g, pithi_page_unit(t, tile, u)).n;
        pithi_trellis_means(s->level[0], word[u], before[u], set->bits, t->x[u]);
        pithi_trellis_scaled(scale[u], n, t->x[u], &t->read.saturated);
    }
}

/* t->x := values of tokens from `row` on of a tile along tokens: the codes before each are those of
 * the tokens before. */
PITHI_LOCAL(pithi_channels_path_take, uint32_t row) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t string = g->heads * g->string, high = (1u << set->bits) - 2;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        const uint32_t token = row + (t->tid >> g->log2) + u * g->rows;
        const uint8_t *const codes = g->codes + piece.codes;
        uint32_t word[4] = {0, 0, 0, 0};
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        if (!piece.n) continue;
        PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) if (i <= token) word[i] =
            pithi_trellis_get(codes - i * string, set->bits, piece.n);
        const uint32_t parity = word[0] ^ word[1] ^ word[3];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const uint32_t at = k * set->bits;
            const uint32_t subset = (parity >> at & 1) << 1 | (word[2] >> at & 1);
            const float level = s->level[0][(word[0] >> at & high) << 1 | subset];
            const float x = level * pithi_float(t->kv.up[k]) + 0.0f;
            const bool far = k < piece.n && pithi_magnitude(t->kv.up[k]) >= PITHI_SCALE_LIMIT;
            t->x[u][k] = far ? pithi_trellis_far(t->kv.up[k], x, &t->read.saturated) : x;
        }
    }
}

PITHI_DEVICE void pithi_channels_path_decode(const struct pithi_gpu_call *a,
                                             struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                             struct pithi_team *team, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t until = pithi_rows_until(&a->from.plan, g, tile);
    uint32_t row = pithi_rows_from(&a->from.plan, g, tile);
    PITHI_STEP(pithi_channels_open, &a->from.plan, tile);
    PITHI_STEP(pithi_channels_scale, tile);
    for (; row < until; row += PITHI_UNITS * g->rows) {
        PITHI_STEP(pithi_channels_path_take, row);
        PITHI_PAGE_UNROTATE(&a->from.plan, row);
        PITHI_STEP(pithi_channels_put, row);
    }
}

/* Fetches, for a full tile, codes of the thread's units, what comes before them in the group, and
 * scales. */
PITHI_LOCAL(pithi_full_paths_fetch, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t bits = a->from.plan.device.groups.set.bits;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t unit = pithi_page_unit(t, tile, u);
        const uint8_t *const codes = g->codes + unit * bits;
        t->kv.raw[u].word[0] = bits == 2 ? pithi_get_aligned16(codes) : pithi_get_aligned32(codes);
        t->kv.raw[u].word[1] = unit % PITHI_LANES ? pithi_get_aligned16(codes - 2) : 0;
        t->kv.raw[u].word[2] = pithi_get_aligned16(g->bytes + 2 * (unit / PITHI_LANES));
    }
}
PITHI_LOCAL(pithi_full_paths_put, uint32_t tile, uint32_t next) {
    const struct pithi_group_setting *const set = &a->from.plan.device.groups.set;
    struct pithi_quad of[PITHI_UNITS];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) of[u] = t->kv.raw[u];
    if (next < s->paged.page.fulls) pithi_full_paths_fetch(a, s, t, next);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t scale = pithi_from_f16((uint16_t)of[u].word[2]);
        /* No product with one of f16 overflows. */
        const float by = pithi_float(pithi_nonfinite(scale) ? PITHI_F32_NAN : scale);
        uint32_t bits[PITHI_UNIT], raw[PITHI_UNIT];
        float x[PITHI_UNIT];
        if (set->bits == 2)
            pithi_trellis_means(s->level[0], of[u].word[0], of[u].word[1], 2, x);
        else
            pithi_trellis_means(s->level[0], of[u].word[0], of[u].word[1], 4, x);
        t->read.poisoned += t->tid % PITHI_LANES == 0 && pithi_nonfinite(scale);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] =
            pithi_bits(x[k] * by + 0.0f);
        /* One branch, not one for each value. */
        if (a->from.items.dtype == PITH_BF16)
            pithi_unit_stored(PITH_BF16, bits, raw);
        else
            pithi_unit_stored(PITH_F16, bits, raw);
        const struct pithi_quad out = {{raw[0], raw[1], raw[2], raw[3]}};
        pithi_put_quad(pithi_full_values(&s->paged.page, t, tile, u), out);
    }
}

PITHI_DEVICE uint32_t pithi_full_paths_decode(const struct pithi_gpu_call *a,
                                              struct pithi_gpu_shared *s,
                                              struct pithi_gpu_thread *t, struct pithi_team *team,
                                              uint32_t tile) {
    PITHI_STEP(pithi_full_paths_fetch, tile);
    for (; tile < s->paged.page.fulls; tile += a->kv.parts)
        PITHI_STEP(pithi_full_paths_put, tile, tile + a->kv.parts);
    return tile;
}

PITHI_DEVICE void pithi_page_path_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                         struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const bool channel = a->from.plan.device.pages.channel;
    PITHI_RUN(pithi_trellis_levels, &a->from, 0);
    PITHI_STEP(pithi_tile_whole, false);
    for (uint32_t tile = g->tile + g->part; tile < g->tiles;) {
        if (!a->add && pithi_tile_is_full(g, tile)) {
            tile = pithi_full_paths_decode(a, s, t, team, tile);
            continue;
        }
        if (channel) {
            pithi_channels_path_decode(a, s, t, team, tile);
        } else {
            PITHI_STEP(pithi_heads_path_take, tile);
            PITHI_PAGE_UNROTATE(&a->from.plan, tile);
            PITHI_STEP(pithi_heads_put, tile);
        }
        tile += a->kv.parts;
    }
}

PITHI_BODY(pithi_trellis_paged_decode) {
    if (!pithi_decode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_page_read, number);
    if (s->paged.page.live) pithi_page_path_decode(a, s, t, team);
    if (pithi_decode_counts(a)) PITHI_GATHER_HASHED(false, false, number);
    PITHI_RUN(pithi_decode_close, number);
}

PITHI_BODY(pithi_trellis_pairs_decode) {
    PITHI_RUN(pithi_page_pair, &a->from, number);
    if (s->paged.page.live) pithi_page_path_decode(a, s, t, team);
}

#endif
