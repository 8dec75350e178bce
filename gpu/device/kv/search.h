/* search.h - groups of codec kv that are looked at as a whole: for the part of their range that
 * loses least, and for the scale of Lloyd-Max codes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * With a codebook a group has 16 threads, which are the 16 lanes that its sums run over
 * (group/codebook_value.h). Sums of the search for a part of the range are of integers, in any
 * order. All of a group's threads make each part, so that none waits for one of them. */
#ifndef PITHI_GPU_DEVICE_KV_SEARCH_H
#define PITHI_GPU_DEVICE_KV_SEARCH_H

#include "device/kv/page.h"

/* ---- Extremes --------------------------------------------------------------------------------*/

/* Extremes as numbers of which the largest counts, 0 where there is nothing: of the largest value,
 * or magnitude; and of the least. */
PITHI_DEVICE uint32_t pithi_up_of(const struct pithi_group_setting *set, float x) {
    const uint32_t u = pithi_bits(x);
    return set->asymmetric ? (uint32_t)pithi_ordered(u) ^ 0x80000000u : pithi_magnitude(u);
}
PITHI_DEVICE uint32_t pithi_down_of(float x) {
    return (uint32_t)pithi_ordered(pithi_bits(x)) ^ 0x7FFFFFFFu;
}

/* Takes account of a value in the extremes, which are numbers in the order of `up`: the least is
 * the largest of their complements. */
PITHI_DEVICE void pithi_extremes_take(const struct pithi_group_setting *set, float x, uint32_t *up,
                                      uint32_t *down) {
    const uint32_t high = pithi_up_of(set, x);
    if (high > *up) *up = high;
    if (set->asymmetric && ~high > *down) *down = ~high;
}

/* Finds the extremes of a whole unit. Most units have numbers that need no order of their own. */
PITHI_DEVICE void pithi_unit_extremes(const struct pithi_group_setting *set, const float x[8],
                                      uint32_t *up, uint32_t *down) {
    float low = x[0], high = set->asymmetric ? x[0] : 0;
    *up = *down = 0;
    if (!(pithi_unit_size(x) < pithi_calm(PITH_F32))) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            pithi_extremes_take(set, x[k], up, down);
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const float v = set->asymmetric ? x[k] : pithi_float(pithi_magnitude(pithi_bits(x[k])));
        high = pithi_larger(high, v);
        low = pithi_smaller(low, v);
    }
    *up = pithi_up_of(set, high);
    if (set->asymmetric) *down = pithi_down_of(low);
}

/* Least and largest value of a group; symmetric: 0 and the largest magnitude. */
struct pithi_ends {
    float lo, hi;
};
PITHI_DEVICE struct pithi_ends pithi_ends_of(const struct pithi_group_setting *set, uint32_t up,
                                             uint32_t down) {
    struct pithi_ends e = {0, pithi_float(up)};
    if (!set->asymmetric) return e;
    e.lo = pithi_from_ordered((int32_t)(down ^ 0x7FFFFFFFu));
    e.hi = pithi_from_ordered((int32_t)(up ^ 0x80000000u));
    if (pithi_nonfinite(pithi_bits(e.lo)) || pithi_nonfinite(pithi_bits(e.hi)))
        e.lo = e.hi = pithi_float(PITHI_F32_NAN);
    return e;
}

/* Returns the dtype of what groups are made of. */
PITHI_DEVICE uint32_t pithi_page_dtype(const struct pithi_device_plan *p) {
    const bool floats = p->device.pages.rotated || p->base_dtype != PITH_NONE;
    return floats ? (uint32_t)PITH_F32 : p->dtype;
}

/* The grid of a group with these extremes; with a codebook its scale reaches the largest. */
PITHI_DEVICE struct pithi_grid pithi_grid_find(const struct pithi_device_plan *p,
                                               const struct pithi_gpu_paged *g, uint32_t up,
                                               uint32_t down) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const uint32_t dtype = pithi_page_dtype(p);
    const struct pithi_ends ends = pithi_ends_of(set, up, down);
    struct pithi_grid grid = {0, 0, 0, 0};
    if (set->codebook) {
        grid.scale = pithi_codebook_reach(g->book.level[g->book.levels - 1], set, dtype, up);
        if (grid.scale != 0 && !pithi_nonfinite(pithi_bits(grid.scale)))
            grid.reciprocal = pithi_codebook_cells(set, grid.scale);
        return grid;
    }
    grid = pithi_grid_of(set, dtype, ends.lo, ends.hi);
    pithi_idempotent_scale(set, dtype, ends.lo, ends.hi, &grid);
    return grid;
}

PITHI_DEVICE uint32_t pithi_page_code(const struct pithi_gpu_paged *g,
                                      const struct pithi_group_setting *set,
                                      const struct pithi_grid *grid, float x) {
    const uint32_t mask = (1u << set->bits) - 1;
    if (grid->reciprocal == 0) return 0;
    if (set->codebook) return (uint32_t)pithi_codebook_code(&g->book, set, x * grid->reciprocal);
    return pithi_bits(pithi_grid_lifted(set, grid, grid->most, x)) & mask;
}

/* The codes of a unit's n elements, each by a grid of its own. */
PITHI_DEVICE uint64_t pithi_page_word(const struct pithi_gpu_paged *g,
                                      const struct pithi_group_setting *set,
                                      const struct pithi_grid grid[8], uint32_t n,
                                      const float x[8]) {
    float lifted[PITHI_UNIT];
    if (set->codebook) {
        uint64_t word = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n) word |=
            (uint64_t)pithi_page_code(g, set, &grid[k], x[k]) << k * set->bits;
        return word;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const bool none = k >= n || grid[k].reciprocal == 0;
        lifted[k] = none ? PITHI_LIFT : pithi_grid_lifted(set, &grid[k], grid[k].most, x[k]);
    }
    return pithi_unit_pack(lifted, set->bits, pithi_unit_half(set));
}

/* ---- Groups in the team's memory -------------------------------------------------------------*/

PITHI_PHASE(pithi_heads_keep, uint32_t tile) {
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            s->paged.values[(u * PITHI_TEAM + t->tid) * PITHI_UNIT + k] = t->x[u][k];
}

/* t->x := them, after some changed. */
PITHI_LOCAL(pithi_heads_fetch, uint32_t tile) {
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            t->x[u][k] = s->paged.values[(u * PITHI_TEAM + t->tid) * PITHI_UNIT + k];
}

/* Keeps columns of the tile in the team's memory, from `first` on as many as it holds. */
PITHI_PHASE(pithi_channels_keep, uint32_t row, uint32_t first) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t group = p->device.groups.set.group;
    const uint32_t column = (t->tid & (g->lanes - 1)) * PITHI_UNIT - first;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        const uint32_t token = row + (t->tid >> g->log2) + u * g->rows;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT;
                          k++) if (k < piece.n && column < PITHI_TILE / group)
            s->paged.values[(column + k) * group + token] = t->x[u][k];
    }
}

/* t->x := them, of a tile that the team's memory has space for. */
PITHI_LOCAL(pithi_channels_fetch, uint32_t row) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t group = p->device.groups.set.group,
                   column = (t->tid & (g->lanes - 1)) * PITHI_UNIT;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const struct pithi_gpu_piece piece = pithi_channel_piece(p, g, t, row, u);
        const uint32_t token = row + (t->tid >> g->log2) + u * g->rows;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] =
            k < piece.n ? s->paged.values[(column + k) * group + token] : 0;
    }
}

/* Groups that the team's memory holds at once, from `first` of the tile on. */
PITHI_DEVICE uint32_t pithi_sought_groups(const struct pithi_device_plan *p,
                                          const struct pithi_gpu_page *g) {
    const uint32_t columns = g->lanes * PITHI_UNIT, band = PITHI_TILE / p->device.groups.set.group;
    if (!p->device.pages.channel) return PITHI_UNITS * g->rows;
    return columns < band ? columns : band;
}

/* Elements of group i of a tile; 0 behind the tile's last. */
PITHI_DEVICE uint32_t pithi_sought_count(const struct pithi_device_plan *p,
                                         const struct pithi_gpu_page *g, uint32_t tile,
                                         uint32_t i) {
    const uint32_t group = p->device.groups.set.group;
    if (p->device.pages.channel) {
        const struct pithi_gpu_column c = pithi_channel_of(p, g, i / PITHI_UNIT, tile);
        return i % PITHI_UNIT < c.n ? pithi_tile_tokens(p, g, tile) : 0;
    }
    const uint32_t number = tile * PITHI_UNITS * g->rows + i;
    const uint32_t left = g->dim - number % g->along * group;
    if (number >= g->groups) return 0;
    return left < group ? left : group;
}

/* t->kv.sought := the thread's group, of those from number `from` of the tile on, which is number
 * from - first of those in memory. */
PITHI_LOCAL(pithi_sought_open, uint32_t tile, uint32_t first, uint32_t from) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t i = from + t->tid / PITHI_LANES;
    const uint32_t each =
        p->device.pages.channel ? p->device.groups.set.group : g->lanes * PITHI_UNIT;
    t->kv.sought.index = i;
    t->kv.sought.at = (i - first) * each;
    t->kv.sought.count =
        i - first < pithi_sought_groups(p, g) ? pithi_sought_count(p, g, tile, i) : 0;
}

/* Groups without codes are not searched. */
PITHI_LOCAL(pithi_sought_coded, uint32_t tile) {
    (void)a, (void)tile;
    if (t->kv.sought.count && s->paged.grid[t->kv.sought.index].reciprocal == 0)
        t->kv.sought.count = 0;
}

/* Part of a body: the first n of t->kv.vq := sums over the group, of what its lanes have. */
PITHI_LOCAL(pithi_sought_halve, uint32_t n) {
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRIES; k++) if (k < n) t->kv.vq[k] +=
        t->kv.vq_other[k];
}
#define PITHI_SOUGHT_SUM(n)                                            \
    do {                                                               \
        for (uint32_t lanes_ = PITHI_LANES / 2; lanes_; lanes_ /= 2) { \
            PITHI_WARP_SWAP(kv.vq, kv.vq_other, n, lanes_);            \
            PITHI_STEP(pithi_sought_halve, n);                         \
        }                                                              \
    } while (0)

/* ---- The part of the range that loses least --------------------------------------------------*/

/* A group has a thread for each 32 of its elements, whose integers the thread keeps, four a word:
 * all parts of the range are tried without a look at memory. Their order in the thread does not
 * matter. */
PITHI_DEVICE uint32_t pithi_shrink_each(const struct pithi_device_plan *p,
                                        const struct pithi_gpu_page *g) {
    return p->device.pages.channel ? p->device.groups.set.group : g->lanes * PITHI_UNIT;
}
PITHI_DEVICE uint32_t pithi_shrink_threads(const struct pithi_device_plan *p,
                                           const struct pithi_gpu_page *g) {
    const uint32_t each = pithi_shrink_each(p, g);
    if (p->device.groups.set.group <= PITHI_PLACED || each <= PITHI_PLACED) return 1;
    return each / PITHI_PLACED;
}

/* t->kv.sought := the thread's group, as pithi_sought_open has it. */
PITHI_LOCAL(pithi_shrink_open, uint32_t tile, uint32_t first, uint32_t from) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const uint32_t i = from + t->tid / pithi_shrink_threads(p, g);
    const bool held = i - first < pithi_sought_groups(p, g);
    t->kv.sought.index = i;
    t->kv.sought.at = (i - first) * pithi_shrink_each(p, g);
    t->kv.sought.count = held ? pithi_sought_count(p, g, tile, i) : 0;
    t->kv.sought.more = t->kv.sought.count != 0 && s->paged.grid[i].reciprocal != 0;
    struct pithi_ends ends = {0, 1};
    if (t->kv.sought.more) ends = pithi_ends_of(set, s->paged.up[i], s->paged.down[i]);
    t->kv.sought.more = t->kv.sought.more && pithi_shrink_fits(set, ends.lo, ends.hi);
    t->kv.shrink = pithi_shrink_begin(set, ends.lo, ends.hi, (int)t->kv.sought.count);
}

/* Number k of the thread's fours of elements, of its group's. Neighbours begin at different banks
 * of memory. */
PITHI_DEVICE uint32_t pithi_shrink_four(const struct pithi_gpu_thread *t, uint32_t threads,
                                        uint32_t k) {
    const uint32_t fours = PITHI_PLACED / 4;
    return t->tid % threads * PITHI_PLACED + (k + t->tid) % fours * 4;
}

/* How many of these four values of the thread's group coding changes. */
PITHI_DEVICE int32_t pithi_shrink_changed(const struct pithi_gpu_call *a,
                                          const struct pithi_gpu_shared *s,
                                          const struct pithi_gpu_thread *t, uint32_t e) {
    const uint32_t dtype = pithi_page_dtype(&a->to.plan);
    const struct pithi_grid grid = s->paged.grid[t->kv.sought.index];
    int32_t changed = 0;
    for (uint32_t i = e; i < e + 4 && i < t->kv.sought.count; i++)
        changed += !pithi_grid_keeps(&a->to.plan.device.groups.set, dtype, &grid,
                                     s->paged.values[t->kv.sought.at + i]);
    return changed;
}

/* t->kv.placed := the thread's integers, 0 where there are none; t->kv.qq := their sum, and whether
 * coding changes a value: most change one of the first. */
PITHI_LOCAL(pithi_shrink_place_all, uint32_t tile) {
    const uint32_t threads = pithi_shrink_threads(&a->to.plan, &s->paged.page);
    uint32_t sum = 0;
    (void)tile;
    t->kv.qq[0] = t->kv.qq[1] = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_PLACED / 4; k++) t->kv.placed[k] = 0;
    if (!t->kv.sought.more) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_PLACED / 4; k++) {
        const uint32_t e = pithi_shrink_four(t, threads, k);
        uint32_t at[4];
        if (e >= t->kv.sought.count) continue;
        const struct pithi_quad x =
            pithi_get_quad((const uint8_t *)&s->paged.values[t->kv.sought.at + e]);
        PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) {
            const float place = pithi_shrink_lifted(&t->kv.shrink, pithi_float(x.word[i]));
            at[i] = e + i < t->kv.sought.count ? pithi_bits(place) : 0;
        }
        t->kv.placed[k] = pithi_words_bytes(at);
        sum = pithi_byte_products(t->kv.placed[k], 0x01010101u, sum);
    }
    t->kv.qq[0] = (int32_t)sum;
    for (uint32_t k = 0; k < PITHI_PLACED / 4 && !t->kv.qq[1]; k++)
        t->kv.qq[1] = pithi_shrink_changed(a, s, t, pithi_shrink_four(t, threads, k));
}

/* Part of a body: the first n of t->kv.qq := sums over the group, of what its threads have; those
 * of a group that is not searched are any numbers, and nobody looks at their sum. */
PITHI_LOCAL(pithi_shrink_halve, uint32_t n) {
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRIES; k++) if (k < n) t->kv.qq[k] =
        (int32_t)((uint32_t)t->kv.qq[k] + (uint32_t)t->kv.qq_other[k]);
}
#define PITHI_SHRINK_SUM(n, threads)                           \
    do {                                                       \
        for (uint32_t far_ = (threads) / 2; far_; far_ /= 2) { \
            PITHI_WARP_SWAP(kv.qq, kv.qq_other, n, far_);      \
            PITHI_STEP(pithi_shrink_halve, n);                 \
        }                                                      \
    } while (0)

PITHI_LOCAL(pithi_shrink_sum, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    t->kv.shrink.sum = t->kv.qq[0];
    t->kv.sought.more = t->kv.sought.more && t->kv.qq[1] != 0;
}

/* Parts: a cut of both sides, or the ends of the best line of the rounds before. */
PITHI_LOCAL(pithi_shrink_cut_both, int k) {
    (void)a, (void)s;
    t->kv.part = pithi_shrink_cut(&t->kv.shrink, k);
}
PITHI_LOCAL(pithi_shrink_end_round, int round) {
    (void)a, (void)s, (void)round;
    pithi_shrink_line(&t->kv.shrink);
}
PITHI_LOCAL(pithi_shrink_move_both, int by) {
    (void)a, (void)s;
    t->kv.part = pithi_shrink_moved(&t->kv.shrink, by);
}

/* Codes of four integers, in bytes, times 2^(shift - 8): in lanes of 16 bits, where no product
 * reaches the next lane. */
PITHI_DEVICE uint32_t pithi_part_codes(uint32_t placed, uint32_t less, uint32_t length,
                                       uint32_t reciprocal, uint32_t half, uint32_t mask) {
    const uint32_t even = pithi_lanes_within(pithi_even_bytes(placed), less, length);
    const uint32_t odd = pithi_lanes_within(pithi_odd_bytes(placed), less, length);
    return pithi_high_bytes(even * reciprocal + half, odd * reciprocal + half) & mask;
}

/* t->kv.qq := sums over the thread's codes: of them, of their squares, and of them times
 * integers. */
PITHI_LOCAL(pithi_shrink_tally, uint32_t tile) {
    const struct pithi_part part = t->kv.part;
    const uint32_t shift = (uint32_t)t->kv.shrink.shift, lift = shift - 8;
    const uint32_t less = ((uint32_t)-part.low & 0xFFFFu) * 0x00010001u;
    const uint32_t length = (uint32_t)(part.high - part.low) * 0x00010001u;
    const uint32_t half = (1u << (shift - 1)) * 0x00010001u;
    const uint32_t mask = (0xFFu << lift & 0xFFu) * 0x01010101u;
    uint32_t codes = 0, squares = 0, products = 0;
    (void)a, (void)s, (void)tile;
    if (!t->kv.sought.more) return; /* as of all threads behind the last group */
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_PLACED / 4; k++) {
        const uint32_t q =
            pithi_part_codes(t->kv.placed[k], less, length, (uint32_t)part.reciprocal, half, mask);
        codes = pithi_byte_products(q, 0x01010101u, codes);
        squares = pithi_byte_products(q, q, squares);
        products = pithi_byte_products(q, t->kv.placed[k], products);
    }
    t->kv.qq[0] = (int32_t)(codes >> lift);
    t->kv.qq[1] = (int32_t)(squares >> 2 * lift);
    t->kv.qq[2] = (int32_t)(products >> lift);
}

PITHI_LOCAL(pithi_shrink_compare, uint32_t tile) {
    const struct pithi_shrink_sums sums = {t->kv.qq[0], t->kv.qq[1], t->kv.qq[2]};
    (void)a, (void)s, (void)tile;
    if (t->kv.sought.more && t->kv.part.reciprocal) pithi_shrink_judge(&t->kv.shrink, &sums);
}

/* What coding the thread's group with a grid loses. */
PITHI_DEVICE int32_t pithi_shrink_losses(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s,
                                         const struct pithi_gpu_thread *t,
                                         const struct pithi_grid *grid) {
    const uint32_t dtype = pithi_page_dtype(&a->to.plan);
    int32_t sum = 0;
    for (uint32_t i = 0; i < t->kv.sought.count; i++) {
        const int loss = pithi_shrink_loss(&a->to.plan.device.groups.set, &t->kv.shrink, dtype,
                                           grid, s->paged.values[t->kv.sought.at + i]);
        sum += loss * loss;
    }
    return sum;
}

PITHI_PHASE(pithi_shrink_close, uint32_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t i = t->kv.sought.index, dtype = pithi_page_dtype(&a->to.plan);
    float low, high;
    (void)tile;
    if (!t->kv.sought.more || t->tid % pithi_shrink_threads(&a->to.plan, &s->paged.page)) return;
    const struct pithi_ends ends = pithi_ends_of(set, s->paged.up[i], s->paged.down[i]);
    if (!pithi_shrink_ends(&t->kv.shrink, dtype, ends.hi, &low, &high)) return;
    struct pithi_grid grid = pithi_grid_of(set, dtype, low, high);
    pithi_idempotent_scale(set, dtype, ends.lo, ends.hi, &grid);
    if (grid.reciprocal == 0) return;
    if (set->asymmetric && pithi_shrink_is_coarse(&grid, low)) {
        const struct pithi_grid whole = s->paged.grid[i];
        if (pithi_shrink_losses(a, s, t, &grid) >= pithi_shrink_losses(a, s, t, &whole)) return;
    }
    s->paged.grid[i] = grid;
}

/* ---- Lloyd-Max codes -------------------------------------------------------------------------*/

/* What a group's values are by a scale, or by a guess, of so many cells a unit. */
PITHI_DEVICE int pithi_lloyd_code(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                  const struct pithi_gpu_thread *t, float cells, uint32_t i) {
    return pithi_codebook_code(&s->paged.book, &a->to.plan.device.groups.set,
                               s->paged.values[t->kv.sought.at + i] * cells);
}

/* Sums the magnitudes of values and of levels, by the scale that reaches the largest value, and
 * counts the values that the codes do not reproduce. */
PITHI_LOCAL(pithi_lloyd_open, uint32_t tile) {
    const uint32_t dtype = pithi_page_dtype(&a->to.plan);
    const struct pithi_codebook *const book = &s->paged.book;
    (void)tile;
    t->kv.vq[0] = t->kv.vq[1] = t->kv.vq[2] = 0;
    if (!t->kv.sought.count) return;
    const struct pithi_grid grid = s->paged.grid[t->kv.sought.index];
    for (uint32_t i = t->tid % PITHI_LANES; i < t->kv.sought.count; i += PITHI_LANES) {
        const float x = s->paged.values[t->kv.sought.at + i];
        const int code = pithi_lloyd_code(a, s, t, grid.reciprocal, i);
        t->kv.vq[0] += pithi_size(x);
        t->kv.vq[1] += pithi_size(book->level[code]);
        t->kv.vq[2] += pithi_round_to(dtype, pithi_codebook_value(book, code, grid.scale)) != x;
    }
}

/* Groups that such a scale coded before keep it. Others by a guess: the sums of least squares, of
 * magnitudes of levels, and how many values are not of the first one's magnitude. */
PITHI_LOCAL(pithi_lloyd_guess, uint32_t tile) {
    const struct pithi_codebook *const book = &s->paged.book;
    const uint32_t count = t->kv.sought.count;
    (void)tile;
    if (t->kv.vq[2] == 0 && count && !pithi_codebook_steady(book, t->kv.vq[1], count))
        t->kv.sought.count = 0;
    t->kv.cells = count ? pithi_codebook_guess(t->kv.vq[0], count) : 0;
    t->kv.vq[0] = t->kv.vq[1] = t->kv.vq[2] = t->kv.vq[3] = 0;
    if (!t->kv.sought.count) return;
    const int first = pithi_lloyd_code(a, s, t, t->kv.cells, 0);
    for (uint32_t i = t->tid % PITHI_LANES; i < count; i += PITHI_LANES) {
        const int code = pithi_lloyd_code(a, s, t, t->kv.cells, i);
        const float level = book->level[code];
        t->kv.vq[0] += s->paged.values[t->kv.sought.at + i] * level;
        t->kv.vq[1] += level * level;
        t->kv.vq[2] += pithi_size(level);
        t->kv.vq[3] += code != first && code != book->levels - 1 - first;
    }
}

PITHI_PHASE(pithi_lloyd_choose, uint32_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t i = t->kv.sought.index;
    const float cells = t->kv.cells;
    (void)tile;
    if (!t->kv.sought.count || t->tid % PITHI_LANES || t->kv.vq[3] == 0) return;
    const float scale = pithi_codebook_fit(set, t->kv.vq[0], t->kv.vq[1]);
    if (!pithi_codebook_is_idempotent(&s->paged.book, pithi_page_dtype(&a->to.plan),
                                      pithi_float(s->paged.up[i]), cells, scale, t->kv.vq[2],
                                      t->kv.sought.count))
        return;
    s->paged.grid[i].scale = scale;
    s->paged.grid[i].reciprocal = cells;
}

/* ---- The search ------------------------------------------------------------------------------*/

#define PITHI_SHRINK_TRY(threads)               \
    do {                                        \
        PITHI_STEP(pithi_shrink_tally, tile);   \
        PITHI_SHRINK_SUM(3, threads);           \
        PITHI_STEP(pithi_shrink_compare, tile); \
    } while (0)

/* The part of the range of the threads' groups that loses least. */
PITHI_DEVICE void pithi_page_shrink_range(const struct pithi_gpu_call *a,
                                          struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                          struct pithi_team *team, uint32_t tile) {
    const uint32_t threads = pithi_shrink_threads(&a->to.plan, &s->paged.page);
    PITHI_STEP(pithi_shrink_place_all, tile);
    PITHI_SHRINK_SUM(2, threads);
    PITHI_STEP(pithi_shrink_sum, tile);
    for (int k = 0; k < PITHI_SHRINK_CUTS; k++) {
        PITHI_STEP(pithi_shrink_cut_both, k);
        PITHI_SHRINK_TRY(threads);
    }
    PITHI_STEP(pithi_shrink_end_round, 0);
    for (int round = 1, by = 1; by; round++) {
        by = pithi_shrink_move(a->to.plan.device.groups.set.asymmetric, round);
        PITHI_STEP(pithi_shrink_move_both, -by);
        PITHI_SHRINK_TRY(threads);
        if (by) {
            PITHI_STEP(pithi_shrink_move_both, by);
            PITHI_SHRINK_TRY(threads);
        }
        PITHI_STEP(pithi_shrink_end_round, round);
    }
    PITHI_WARP_SYNC();
    PITHI_RUN(pithi_shrink_close, tile);
}

/* Part of a body: the grids of those groups of a tile from `first` on whose values are kept. */
PITHI_DEVICE void pithi_page_search(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint32_t tile, uint32_t first) {
    const uint32_t end = first + pithi_sought_groups(&a->to.plan, &s->paged.page);
    const bool book = a->to.plan.device.groups.set.codebook;
    const uint32_t threads = book ? PITHI_LANES : pithi_shrink_threads(&a->to.plan, &s->paged.page);
    for (uint32_t from = first; from < end; from += PITHI_TEAM / threads) {
        if (!book) {
            PITHI_STEP(pithi_shrink_open, tile, first, from);
            pithi_page_shrink_range(a, s, t, team, tile);
            continue;
        }
        PITHI_STEP(pithi_sought_open, tile, first, from);
        PITHI_STEP(pithi_sought_coded, tile);
        PITHI_STEP(pithi_lloyd_open, tile);
        PITHI_SOUGHT_SUM(3);
        PITHI_STEP(pithi_lloyd_guess, tile);
        PITHI_SOUGHT_SUM(4);
        PITHI_WARP_SYNC();
        PITHI_RUN(pithi_lloyd_choose, tile);
    }
}

#endif
