/* full_encode.h - values to full tiles of pages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Extremes are found in f32, what is below 0 as what is above it with the sign turned. */
#ifndef PITHI_GPU_DEVICE_KV_FULL_ENCODE_H
#define PITHI_GPU_DEVICE_KV_FULL_ENCODE_H

#include "device/kv/full.h"
#include "device/kv/search.h"

/* ---- Grids -----------------------------------------------------------------------------------*/

/* The largest of some values, or infinity where one of them is infinite or NaN. Where only their
 * sum is, no scale of f16 reaches them: it is the same. */
PITHI_DEVICE float pithi_full_high(float high, float sum) {
    return sum - sum == 0 ? high : pithi_float(PITHI_F32_INF);
}

/* Whether a number is a normal one in f16 too, and not among the largest. */
PITHI_DEVICE bool pithi_half_normal(uint32_t u) { return u - 0x38800000u < 0x0E800000u; }

/* The grid of a group that is found at once, as most are: its first and its last code mean its
 * least and its largest value, which are of 16 bits. No code is then beyond them. */
PITHI_DEVICE bool pithi_grid_calm(uint32_t dtype, float lo, float hi, struct pithi_grid *grid) {
    const float levels = 15;
    const uint32_t least = pithi_magnitude(pithi_bits(lo)), u = pithi_bits((hi - lo) / levels);
    grid->zero = lo + 0.0f;
    grid->scale = pithi_float((u + 0xFFFu + (u >> 13 & 1u)) & 0xFFFFE000u);
    grid->reciprocal = 1.0f / grid->scale;
    grid->most = levels;
    const float top = levels * grid->scale + grid->zero;
    const float last = (hi - grid->zero) * grid->reciprocal;
    return (least == 0 || pithi_half_normal(least)) && pithi_half_normal(u) &&
           pithi_unit_widen(dtype, pithi_unit_narrow(dtype, pithi_bits(top))) == pithi_bits(hi) &&
           pithi_lift(last) == pithi_lift(levels);
}

/* The grid of a group of a full tile, whose scale and zero point it returns as they are stored. */
PITHI_DEVICE uint32_t pithi_full_grid(const struct pithi_device_plan *p, struct pithi_gpu_paged *g,
                                      uint32_t tile, float lo, float hi, struct pithi_grid *grid) {
    if (pithi_grid_calm(p->dtype, lo, hi, grid))
        return pithi_half_bits(grid->scale) | pithi_half_bits(grid->zero) << 16;
    *grid = pithi_grid_find(p, g, pithi_up_of(&p->device.groups.set, hi), pithi_down_of(lo));
    const float first = pithi_lift((lo - grid->zero) * grid->reciprocal);
    const float last = pithi_lift((hi - grid->zero) * grid->reciprocal);
    if (!(first >= PITHI_LIFT && last <= pithi_lift(grid->most)))
        pithi_atomic_max32(&g->rough, tile + 1);
    return pithi_to_f16(pithi_bits(grid->scale)) | (uint32_t)pithi_to_f16(pithi_bits(grid->zero))
                                                       << 16;
}

/* The codes of four values, none of which is beyond a code: from code number k of a word on, each
 * lifted. Less PITHI_FULL_LIFTS, two of these are a word. */
#define PITHI_FULL_LIFTS (pithi_bits(PITHI_LIFT) * 0x11111111u)
PITHI_DEVICE uint32_t pithi_full_lifted(const float x[4], const float zero[4],
                                        const float reciprocal[4], uint32_t k) {
    uint32_t word = 0;
    PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) {
        const float v = (x[i] - zero[i]) * reciprocal[i];
        word += pithi_bits(pithi_lift(v)) << 4 * (k + i);
    }
    return word;
}

/* Makes codes as pithi_full_lifted, of values that may be beyond the grid, or whose group has no
 * codes. */
PITHI_DEVICE uint32_t pithi_full_limited(const struct pithi_group_setting *set,
                                         const struct pithi_grid grid[4], const float x[4],
                                         uint32_t k) {
    uint32_t word = 0;
    PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) {
        const float lifted = grid[i].reciprocal == 0
                                 ? PITHI_LIFT
                                 : pithi_grid_lifted(set, &grid[i], grid[i].most, x[i]);
        word += pithi_bits(lifted) << 4 * (k + i);
    }
    return word;
}

/* ---- Along heads -----------------------------------------------------------------------------*/

PITHI_LOCAL(pithi_full_heads_load, uint32_t tile) {
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) t->kv.raw[u] =
        pithi_get_quad(pithi_full_values(&s->paged.page, t, tile, u));
}

PITHI_LOCAL(pithi_full_heads_edges, uint32_t tile) {
    (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        float *const x = t->kv.deep[u];
        pithi_full_spread(a->to.plan.dtype, &t->kv.raw[u], x);
        float high = x[0], low = x[0], sum[2] = {x[0], x[1]};
        PITHI_UNROLL for (uint32_t k = 1; k < PITHI_UNIT; k++) {
            high = pithi_larger(high, x[k]);
            low = pithi_smaller(low, x[k]);
            if (k > 1) sum[k % 2] += x[k];
        }
        t->kv.edge[0][u] = pithi_full_high(high, sum[0] + sum[1]);
        t->kv.edge[1][u] = -low;
    }
}

/* Threads of a group halve what they have: those of odd number take the second unit, ... */
PITHI_LOCAL(pithi_full_edges_part, uint32_t tile) {
    const bool odd = t->tid & 1;
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) {
        t->kv.kept[i] = odd ? t->kv.edge[i][1] : t->kv.edge[i][0];
        t->kv.given[i] = odd ? t->kv.edge[i][0] : t->kv.edge[i][1];
    }
}
/* ... of two neighbours of one kind the second takes what is below 0, ... */
PITHI_LOCAL(pithi_full_edges_half, uint32_t tile) {
    const bool below = t->tid & 2;
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) t->kv.kept[i] =
        pithi_larger(t->kv.kept[i], t->kv.taken[i]);
    t->kv.given[0] = below ? t->kv.kept[0] : t->kv.kept[1];
    t->kv.kept[0] = below ? t->kv.kept[1] : t->kv.kept[0];
}
/* ... and then all have one number. */
PITHI_LOCAL(pithi_full_edges_join, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    t->kv.given[0] = t->kv.kept[0] = pithi_larger(t->kv.kept[0], t->kv.taken[0]);
}

PITHI_PHASE(pithi_full_heads_publish, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t group = ((t->tid & 1) * PITHI_TEAM + t->tid) >> g->log2;
    (void)a, (void)tile;
    if ((t->tid & (g->lanes - 1)) >= 4) return;
    if (t->tid & 2)
        s->paged.down[group] = pithi_bits(t->kv.kept[0]);
    else
        s->paged.up[group] = pithi_bits(t->kv.kept[0]);
}

PITHI_PHASE(pithi_full_heads_finish, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t each = PITHI_UNITS * g->rows, i = t->tid;
    struct pithi_grid grid;
    if (i >= each) return;
    const uint32_t stored =
        pithi_full_grid(&a->to.plan, &s->paged, tile, -pithi_float(s->paged.down[i]),
                        pithi_float(s->paged.up[i]), &grid);
    s->paged.grid[i] = grid;
    pithi_put_aligned32(g->bytes + 4 * (tile * each + i), stored);
    t->made.poisoned += pithi_nonfinite(pithi_bits(grid.scale));
}

/* rough: of the tile's codes some need limits. */
PITHI_LOCAL(pithi_full_heads_codes, uint32_t tile, bool rough) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_grid grid = s->paged.grid[(u * PITHI_TEAM + t->tid) >> g->log2];
        const struct pithi_grid grids[4] = {grid, grid, grid, grid};
        const float zero[4] = {grid.zero, grid.zero, grid.zero, grid.zero};
        const float reciprocal[4] = {grid.reciprocal, grid.reciprocal, grid.reciprocal,
                                     grid.reciprocal};
        uint32_t word = 0u - PITHI_FULL_LIFTS;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k += 4) word +=
            rough ? pithi_full_limited(&a->to.plan.device.groups.set, grids, t->kv.deep[u] + k, k)
                  : pithi_full_lifted(t->kv.deep[u] + k, zero, reciprocal, k);
        pithi_put_aligned32(pithi_full_codes(g, t, tile, u), word);
    }
}

/* Part of a body, as those that follow: the full tiles from `tile` on that are the team's. Returns
 * the one behind them. */
PITHI_DEVICE uint32_t pithi_full_heads_encode(const struct pithi_gpu_call *a,
                                              struct pithi_gpu_shared *s,
                                              struct pithi_gpu_thread *t, struct pithi_team *team,
                                              uint32_t tile) {
    const uint32_t end = s->paged.page.fulls, lanes = s->paged.page.lanes;
    PITHI_STEP(pithi_full_heads_load, tile);
    for (; tile < end; tile += a->kv.parts) {
        PITHI_STEP(pithi_full_heads_edges, tile);
        if (tile + a->kv.parts < end) PITHI_STEP(pithi_full_heads_load, tile + a->kv.parts);
        PITHI_STEP(pithi_full_edges_part, tile);
        PITHI_WARP_SWAP(kv.given, kv.taken, 2, 1);
        PITHI_STEP(pithi_full_edges_half, tile);
        PITHI_WARP_SWAP(kv.given, kv.taken, 1, 2);
        PITHI_STEP(pithi_full_edges_join, tile);
        PITHI_UNROLL for (uint32_t half = 4; half < PITHI_WARP; half *= 2) {
            if (half >= lanes) continue;
            PITHI_WARP_SWAP(kv.given, kv.taken, 1, half);
            PITHI_STEP(pithi_full_edges_join, tile);
        }
        PITHI_RUN(pithi_full_heads_publish, tile);
        PITHI_RUN(pithi_full_heads_finish, tile);
        PITHI_STEP(pithi_full_heads_codes, tile, s->paged.rough == tile + 1);
    }
    return tile;
}

/* ---- Along tokens ----------------------------------------------------------------------------*/

PITHI_LOCAL(pithi_full_columns_load, uint32_t band, uint32_t chunk) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint8_t *at = pithi_full_place(&a->to.plan, g, t, band, chunk);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++) {
        t->kv.raw[u] = pithi_get_quad(at);
        at += 2 * (g->token_stride * g->rows);
    }
}

/* t->kv.up, t->kv.down := as the edges of units, bits of those of the thread's columns. */
PITHI_LOCAL(pithi_full_columns_edges, uint32_t band) {
    (void)s, (void)band;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++)
        pithi_full_spread(a->to.plan.dtype, &t->kv.raw[u], t->kv.deep[u]);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        float high = t->kv.deep[0][k], low = high, sum = high;
        PITHI_UNROLL for (uint32_t u = 1; u < PITHI_DEEP; u++) {
            high = pithi_larger(high, t->kv.deep[u][k]);
            low = pithi_smaller(low, t->kv.deep[u][k]);
            sum += t->kv.deep[u][k];
        }
        t->kv.up[k] = pithi_bits(pithi_full_high(high, sum));
        t->kv.down[k] = pithi_bits(-low);
    }
}

/* A column to each thread. */
PITHI_PHASE(pithi_full_columns_finish, uint32_t tile, uint32_t band, uint32_t chunk) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const float *const from = s->paged.values + t->tid;
    const uint32_t i = t->tid, row = g->heads * g->dim;
    float edge[2];
    PITHI_UNROLL for (uint32_t k = 0; k < 2; k++) {
        edge[k] = pithi_float(pithi_get_aligned32(from + k * PITHI_ROW));
        PITHI_UNROLL for (uint32_t r = 1; r < PITHI_TEAM / PITHI_WARP; r++) edge[k] = pithi_larger(
            edge[k], pithi_float(pithi_get_aligned32(from + k * PITHI_ROW + r * PITHI_TEAM)));
    }
    struct pithi_grid grid;
    const uint32_t stored = pithi_full_grid(&a->to.plan, &s->paged, tile, -edge[1], edge[0], &grid);
    s->paged.grid[i] = grid;
    s->paged.up[i] = pithi_bits(grid.zero);
    s->paged.down[i] = pithi_bits(grid.reciprocal);
    uint8_t *const at = g->bytes + 2 * (band * 2 * row + chunk * PITHI_TEAM + i);
    pithi_put_aligned16(at, (uint16_t)stored);
    pithi_put_aligned16(at + 2 * row, (uint16_t)(stored >> 16));
    t->made.poisoned += pithi_nonfinite(pithi_bits(grid.scale));
}

/* Four neighbours of the team's memory. */
PITHI_DEVICE void pithi_full_four(const uint32_t *from, float x[4]) {
    const struct pithi_quad q = pithi_get_quad(from);
    PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) x[i] = pithi_float(q.word[i]);
}

/* Four columns after the other: there are not so many registers. */
PITHI_LOCAL(pithi_full_columns_codes, uint32_t band, uint32_t chunk, bool rough) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    uint8_t *const at = pithi_full_string(&a->to.plan, g, t, band, chunk);
    uint32_t word[PITHI_DEEP];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++) word[u] = 0u - PITHI_FULL_LIFTS;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k += 4) {
        const uint32_t first = t->tid % PITHI_WARP * PITHI_UNIT + k;
        float zero[4], reciprocal[4];
        pithi_full_four(s->paged.up + first, zero);
        pithi_full_four(s->paged.down + first, reciprocal);
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++) word[u] +=
            rough ? pithi_full_limited(&a->to.plan.device.groups.set, s->paged.grid + first,
                                       t->kv.deep[u] + k, k)
                  : pithi_full_lifted(t->kv.deep[u] + k, zero, reciprocal, k);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_DEEP; u++)
        pithi_put_aligned32(at + u * (g->heads * g->string * g->rows), word[u]);
}

PITHI_DEVICE uint32_t pithi_full_columns_encode(const struct pithi_gpu_call *a,
                                                struct pithi_gpu_shared *s,
                                                struct pithi_gpu_thread *t, struct pithi_team *team,
                                                uint32_t tile) {
    const uint32_t end = s->paged.page.fulls, chunks = s->paged.page.chunks;
    uint32_t band = tile / chunks, chunk = tile % chunks;
    PITHI_STEP(pithi_full_columns_load, band, chunk);
    while (tile < end) {
        const uint32_t next = tile + a->kv.parts, next_band = next / chunks;
        PITHI_STEP(pithi_full_columns_edges, band);
        PITHI_RUN(pithi_columns_publish, band);
        PITHI_RUN(pithi_full_columns_finish, tile, band, chunk);
        /* Not before: the iterations of idempotent scales need the registers. */
        if (next < end) PITHI_STEP(pithi_full_columns_load, next_band, next - next_band * chunks);
        PITHI_STEP(pithi_full_columns_codes, band, chunk, s->paged.rough == tile + 1);
        tile = next;
        band = next_band;
        chunk = next - next_band * chunks;
    }
    PITHI_MEET(); /* what follows may use the team's memory for something else */
    return tile;
}

#endif
