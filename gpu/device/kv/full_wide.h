/* full_wide.h - full tiles of pages along heads whose groups are made of f32: of rotated heads, or
 * of what values add to a base.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A group is of one warp, and so is its head: threads exchange what they have, and no warp waits
 * for another. All threads of a group make the grid of one of its units, each for itself. */
#ifndef PITHI_GPU_DEVICE_KV_FULL_WIDE_H
#define PITHI_GPU_DEVICE_KV_FULL_WIDE_H

#include "device/kv/full.h"
#include "device/kv/full_encode.h"

/* Return the number in the page of the first element of a unit of the thread, and where its base
 * is. */
PITHI_DEVICE uint32_t pithi_wide_element(const struct pithi_gpu_thread *t, uint32_t tile,
                                         uint32_t u) {
    return tile * PITHI_TILE + u * PITHI_ROW + t->tid * PITHI_UNIT;
}
PITHI_DEVICE uint8_t *pithi_wide_base(const struct pithi_gpu_page *g,
                                      const struct pithi_gpu_thread *t, uint32_t tile, uint32_t u) {
    return g->base + 2 * (uint64_t)pithi_wide_element(t, tile, u);
}
/* Number in the page of a unit's group. */
PITHI_DEVICE uint32_t pithi_wide_group(const struct pithi_gpu_page *g,
                                       const struct pithi_gpu_thread *t, uint32_t tile,
                                       uint32_t u) {
    return tile * PITHI_UNITS * g->rows + ((u * PITHI_TEAM + t->tid) >> g->log2);
}

/* t->base keeps the base of a unit as it lies there: there are not so many registers. */
PITHI_DEVICE void pithi_wide_keep(struct pithi_gpu_thread *t, uint32_t u) {
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->base[u][k] =
        k < 4 ? t->kv.raw[PITHI_UNITS + u].word[k % 4] : 0;
}
PITHI_DEVICE void pithi_wide_put(uint8_t *to, const uint32_t raw[8]) {
    const struct pithi_quad q = {{raw[0], raw[1], raw[2], raw[3]}};
    pithi_put_quad(to, q);
}

/* raw := the new base of a unit, from what its codes mean. */
PITHI_DEVICE void pithi_wide_update(const struct pithi_device_plan *p,
                                    const struct pithi_gpu_page *g, struct pithi_gpu_thread *t,
                                    uint32_t tile, uint32_t u, const float x[8], bool update,
                                    struct pithi_gpu_results *count, uint32_t raw[8]) {
    uint32_t base[PITHI_UNIT];
    pithi_unit_read(p->base_dtype, t->base[u], base);
    pithi_unit_update(p->base_dtype, base, x, PITHI_UNIT, &count->saturated, raw);
    if (!update) return;
    pithi_wide_put(pithi_wide_base(g, t, tile, u), raw);
    if (p->device.base_hash)
        count->hash +=
            pithi_unit_hash(2, g->first + pithi_wide_element(t, tile, u), PITHI_UNIT, raw);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Values, and their base behind them. */
PITHI_LOCAL(pithi_wide_load, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        t->kv.raw[u] = pithi_get_quad(pithi_full_values(g, t, tile, u));
        if (a->to.plan.base_dtype != PITH_NONE)
            t->kv.raw[PITHI_UNITS + u] = pithi_get_quad(pithi_wide_base(g, t, tile, u));
    }
}
PITHI_LOCAL(pithi_wide_take, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        pithi_full_spread(p->dtype, &t->kv.raw[u], t->x[u]);
        if (p->base_dtype == PITH_NONE) continue;
        uint32_t base[PITHI_UNIT];
        pithi_wide_keep(t, u);
        pithi_unit_read(p->base_dtype, t->base[u], base);
        pithi_unit_less(base, t->x[u]);
    }
}

/* Finds edges as pithi_full_edges_part and the steps behind it do, of ordered numbers: threads of
 * odd number take the second unit, ... */
PITHI_LOCAL(pithi_wide_edges, uint32_t tile) {
    const bool odd = t->tid & 1;
    uint32_t edge[PITHI_UNITS][2];
    (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_extremes(&a->to.plan.device.groups.set, t->x[u], &edge[u][0], &edge[u][1]);
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) {
        t->kv.high[i] = odd ? edge[1][i] : edge[0][i];
        t->kv.high_given[i] = odd ? edge[0][i] : edge[1][i];
    }
}
/* ... of two of a kind the second takes the least values. */
PITHI_LOCAL(pithi_wide_half, uint32_t tile) {
    const bool below = t->tid & 2;
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) if (t->kv.high_taken[i] > t->kv.high[i])
        t->kv.high[i] = t->kv.high_taken[i];
    t->kv.high_given[0] = below ? t->kv.high[0] : t->kv.high[1];
    t->kv.high[0] = below ? t->kv.high[1] : t->kv.high[0];
}
PITHI_LOCAL(pithi_wide_join, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    if (t->kv.high_taken[0] > t->kv.high[0]) t->kv.high[0] = t->kv.high_taken[0];
    t->kv.high_given[0] = t->kv.high[0];
}

/* The grid of a group of f32 that pithi_grid_find finds at its first try, as it does of most: least
 * and largest value have the first and the last code, and what the last one means is so exact that
 * scale and zero point follow from it again. */
PITHI_DEVICE bool pithi_wide_grid(const struct pithi_group_setting *set, float lo, float hi,
                                  struct pithi_grid *grid) {
    const float levels = 15, limit = 0x1p100f, tiny = 0x1p-100f;
    grid->zero = pithi_round_zero(set, lo);
    const float range = hi - grid->zero;
    grid->scale = pithi_round_step(set->scale_dtype, range / levels);
    grid->reciprocal = 1.0f / grid->scale;
    grid->most = levels;
    const float reach = levels * grid->scale, top = reach + grid->zero;
    return range > tiny && range < limit && pithi_size(grid->zero) < limit && grid->scale > tiny &&
           top - grid->zero == reach &&
           pithi_lift((lo - grid->zero) * grid->reciprocal) == PITHI_LIFT &&
           pithi_lift((hi - grid->zero) * grid->reciprocal) == pithi_lift(levels);
}

/* The largest code, of a group some of whose values may be beyond its codes, or -1. */
PITHI_DEVICE float pithi_wide_most(const struct pithi_grid *grid, float lo, float hi) {
    const float first = pithi_lift((lo - grid->zero) * grid->reciprocal);
    const float last = pithi_lift((hi - grid->zero) * grid->reciprocal);
    return first >= PITHI_LIFT && last <= pithi_lift(grid->most) ? -1 : grid->most;
}

/* t->kv.step := reciprocal, zero point, what pithi_wide_most says, and scale. The first two threads
 * of a group write them. */
PITHI_LOCAL(pithi_wide_scale, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const bool below = t->tid & 2;
    const uint32_t up = below ? t->kv.high_taken[0] : t->kv.high[0];
    const uint32_t down = below ? t->kv.high[0] : t->kv.high_taken[0];
    const struct pithi_ends ends = pithi_ends_of(set, up, down);
    struct pithi_grid grid;
    t->kv.step[2] = -1;
    if (!pithi_wide_grid(set, ends.lo, ends.hi, &grid)) {
        grid = pithi_grid_find(p, &s->paged, up, down);
        t->kv.step[2] = pithi_wide_most(&grid, ends.lo, ends.hi);
    }
    t->kv.step[0] = grid.reciprocal;
    t->kv.step[1] = grid.zero;
    t->kv.step[3] = grid.scale;
    if ((t->tid & (g->lanes - 1)) >= PITHI_UNITS) return;
    const uint32_t scale = pithi_unit_round(set->scale_dtype, pithi_bits(grid.scale));
    const uint32_t zero = pithi_unit_round(set->scale_dtype, pithi_bits(grid.zero));
    pithi_put_aligned32(g->bytes + 4 * pithi_wide_group(g, t, tile, t->tid & 1),
                        scale | zero << 16);
    t->made.poisoned += pithi_nonfinite(pithi_bits(grid.scale));
}

/* Step i of the group of unit u. */
PITHI_DEVICE float pithi_wide_step(const struct pithi_gpu_thread *t, uint32_t u, uint32_t i) {
    return t->tid % PITHI_UNITS == u ? t->kv.step[i] : t->kv.step_other[i];
}

PITHI_DEVICE uint32_t pithi_wide_word(const struct pithi_group_setting *set,
                                      const struct pithi_gpu_thread *t, uint32_t u) {
    const float reciprocal = pithi_wide_step(t, u, 0), zero = pithi_wide_step(t, u, 1);
    const float most = pithi_wide_step(t, u, 2);
    uint32_t word = 0u - PITHI_FULL_LIFTS;
    if (most >= 0) {
        const struct pithi_grid grid = {0, zero, reciprocal, most};
        const struct pithi_grid grids[4] = {grid, grid, grid, grid};
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k += 4) word +=
            pithi_full_limited(set, grids, t->x[u] + k, k);
        return word;
    }
    const float zeros[4] = {zero, zero, zero, zero};
    const float reciprocals[4] = {reciprocal, reciprocal, reciprocal, reciprocal};
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k += 4) word +=
        pithi_full_lifted(t->x[u] + k, zeros, reciprocals, k);
    return word;
}

PITHI_LOCAL(pithi_wide_codes, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t word = pithi_wide_word(&p->device.groups.set, t, u);
        pithi_put_aligned32(pithi_full_codes(g, t, tile, u), word);
        if (p->base_dtype == PITH_NONE) continue;
        float x[PITHI_UNIT];
        uint32_t raw[PITHI_UNIT];
        uint64_t ignored = 0;
        pithi_page_unit_values(&s->paged, &p->device.groups.set, word, pithi_wide_step(t, u, 3),
                               pithi_wide_step(t, u, 1), x, &ignored);
        pithi_wide_update(p, g, t, tile, u, x, true, &t->made, raw);
    }
}

/* Part of a body, as those of full_encode.h. */
PITHI_DEVICE uint32_t pithi_wide_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint32_t tile) {
    const uint32_t end = s->paged.page.fulls, lanes = s->paged.page.lanes;
    const uint32_t steps = a->to.plan.base_dtype == PITH_NONE ? 3 : 4;
    PITHI_STEP(pithi_tile_whole, true);
    PITHI_STEP(pithi_wide_load, tile);
    for (; tile < end; tile += a->kv.parts) {
        PITHI_STEP(pithi_wide_take, tile);
        if (tile + a->kv.parts < end) PITHI_STEP(pithi_wide_load, tile + a->kv.parts);
        PITHI_PAGE_ROTATE(&a->to.plan, tile);
        PITHI_STEP(pithi_wide_edges, tile);
        PITHI_WARP_SWAP(kv.high_given, kv.high_taken, 2, 1);
        PITHI_STEP(pithi_wide_half, tile);
        PITHI_WARP_SWAP(kv.high_given, kv.high_taken, 1, 2);
        PITHI_STEP(pithi_wide_join, tile);
        PITHI_UNROLL for (uint32_t half = 4; half < PITHI_WARP; half *= 2) {
            if (half >= lanes) continue;
            PITHI_WARP_SWAP(kv.high_given, kv.high_taken, 1, half);
            PITHI_STEP(pithi_wide_join, tile);
        }
        PITHI_WARP_SWAP(kv.high_given, kv.high_taken, 1, 2);
        PITHI_STEP(pithi_wide_scale, tile);
        PITHI_WARP_SWAP(kv.step, kv.step_other, steps, 1);
        PITHI_STEP(pithi_wide_codes, tile);
    }
    return tile;
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Codes, scale and zero point of the thread's units, and their base behind them. */
PITHI_LOCAL(pithi_wide_fetch, uint32_t tile) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        t->kv.raw[u].word[0] = pithi_get_aligned32(pithi_full_codes(g, t, tile, u));
        t->kv.raw[u].word[1] = pithi_get_aligned32(g->bytes + 4 * pithi_wide_group(g, t, tile, u));
        if (a->from.plan.base_dtype != PITH_NONE)
            t->kv.raw[PITHI_UNITS + u] = pithi_get_quad(pithi_wide_base(g, t, tile, u));
    }
}

PITHI_LOCAL(pithi_wide_mean, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t both = t->kv.raw[u].word[1];
        const uint32_t scale = pithi_unit_widen(set->scale_dtype, both & 0xFFFFu);
        const uint32_t zero = pithi_unit_widen(set->scale_dtype, both >> 16);
        uint64_t saturated = 0;
        pithi_page_unit_values(&s->paged, set, t->kv.raw[u].word[0], pithi_float(scale),
                               pithi_float(zero), t->x[u], &saturated);
        if (!(t->tid & (s->paged.page.lanes - 1)))
            t->read.poisoned += pithi_nonfinite(scale) || pithi_nonfinite(zero);
        if (p->base_dtype == PITH_NONE)
            t->read.saturated += saturated;
        else
            pithi_wide_keep(t, u);
    }
}

PITHI_LOCAL(pithi_wide_give, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        uint32_t raw[PITHI_UNIT], bits[PITHI_UNIT];
        if (p->base_dtype != PITH_NONE) {
            pithi_wide_update(p, g, t, tile, u, t->x[u], a->update, &t->read, raw);
        } else {
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] = pithi_bits(t->x[u][k]);
            pithi_unit_stored(a->from.items.dtype, bits, raw);
        }
        if (g->values) pithi_wide_put(pithi_full_values(g, t, tile, u), raw);
    }
}

PITHI_DEVICE uint32_t pithi_wide_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint32_t tile) {
    const uint32_t end = s->paged.page.fulls;
    PITHI_STEP(pithi_tile_whole, true);
    PITHI_STEP(pithi_wide_fetch, tile);
    for (; tile < end; tile += a->kv.parts) {
        PITHI_STEP(pithi_wide_mean, tile);
        if (tile + a->kv.parts < end) PITHI_STEP(pithi_wide_fetch, tile + a->kv.parts);
        PITHI_PAGE_UNROTATE(&a->from.plan, tile);
        PITHI_STEP(pithi_wide_give, tile);
    }
    return tile;
}

#endif
