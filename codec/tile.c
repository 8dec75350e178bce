/* tile.c - how codecs with neighbours in several dimensions cut a tensor into blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tile.h"
#include "common/minmax.h"

static void take_shape(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim) {
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) t->shape[d] = 1;
    for (uint32_t d = 0; d < ndim; d++) {
        const uint32_t after = ndim - 1 - d; /* dimensions after this one */
        t->shape[after < PITHI_TILE_NDIM ? PITHI_TILE_NDIM - 1 - after : 0] *= shape[d];
    }
}

static bool is_empty(const struct pithi_tiling *t) {
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++)
        if (t->shape[d] == 0) return true;
    return false;
}

static uint64_t elements(const struct pithi_tiling *t) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) n *= pithi_min(t->extent[d], t->shape[d]);
    return n;
}

/* Returns the dimension that is cut shortest, of equals the last; PITHI_TILE_NDIM: none is cut. */
static uint32_t shortest(const struct pithi_tiling *t) {
    uint32_t best = PITHI_TILE_NDIM;
    for (uint32_t d = PITHI_TILE_NDIM; d-- > 0;)
        if (t->extent[d] < t->shape[d] &&
            (best == PITHI_TILE_NDIM || t->extent[d] < t->extent[best]))
            best = d;
    return best;
}

/* Sets the grid of tiles of these extents. */
static void set_grid(struct pithi_tiling *t) {
    t->tiles = 1;
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) {
        t->extent[d] = (uint32_t)pithi_min(t->extent[d], t->shape[d]);
        t->grid[d] = t->shape[d] / t->extent[d] + (t->shape[d] % t->extent[d] != 0);
        t->tiles *= t->grid[d];
    }
}

void pithi_tiling_init(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim, uint32_t block,
                       bool whole_rows) {
    *t = (struct pithi_tiling){.extent = {1, 1, 1, 1}};
    take_shape(t, shape, ndim);
    if (is_empty(t)) return;
    if (whole_rows)
        t->extent[PITHI_TILE_NDIM - 1] = (uint32_t)pithi_min(t->shape[PITHI_TILE_NDIM - 1], block);
    for (uint32_t d; (d = shortest(t)) < PITHI_TILE_NDIM;) {
        t->extent[d] *= 2;
        if (elements(t) <= block) continue;
        t->extent[d] /= 2;
        break;
    }
    set_grid(t);
}

void pithi_tiling_rows(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim, uint32_t row,
                       uint32_t block) {
    enum { SMALL = 16384 };
    *t = (struct pithi_tiling){.extent = {1, 1, 1, 1}};
    take_shape(t, shape, ndim);
    if (is_empty(t)) return;
    if (t->shape[PITHI_TILE_NDIM - 1] == row) {
        uint64_t most = block, n = 1;
        for (uint32_t d = PITHI_TILE_NDIM; d-- > 0; n *= t->extent[d]) {
            t->extent[d] = (uint32_t)pithi_min(t->shape[d], most > n ? most / n : 1);
            if (t->extent[d] < t->shape[d]) break;
            if (d == PITHI_TILE_NDIM - 2) most = pithi_min(most, SMALL);
        }
    } else {
        const uint64_t count = t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
        t->shape[0] = t->shape[1] = t->shape[2] = 1;
        t->shape[PITHI_TILE_NDIM - 1] = count;
        t->extent[PITHI_TILE_NDIM - 1] = (uint32_t)pithi_min(count, block / row * row);
    }
    set_grid(t);
}

void pithi_tiling_runs(struct pithi_tiling *t, const uint64_t *shape, uint32_t ndim,
                       uint32_t block) {
    *t = (struct pithi_tiling){.extent = {1, 1, 1, 1}};
    take_shape(t, shape, ndim);
    if (is_empty(t)) return;
    uint64_t most = block;
    for (uint32_t d = PITHI_TILE_NDIM; d-- > 0; most /= t->extent[d]) {
        const uint64_t n = t->shape[d], parts = n / most + (n % most != 0);
        t->extent[d] = (uint32_t)(n / parts + (n % parts != 0));
        if (parts > 1) break;
    }
    set_grid(t);
}

void pithi_tiling_pages(struct pithi_tiling *t, uint64_t sequences, uint64_t rows, uint64_t row,
                        uint32_t page) {
    *t = (struct pithi_tiling){
        .shape = {1, sequences, rows, row}, .extent = {1, 1, page, 1}, .runs = true};
    if (is_empty(t)) return;
    t->extent[PITHI_TILE_NDIM - 1] = (uint32_t)row;
    set_grid(t);
}

uint64_t pithi_tile_of(const struct pithi_tiling *t, uint64_t e) {
    uint64_t at[PITHI_TILE_NDIM], tile = 0;
    for (uint32_t d = PITHI_TILE_NDIM; d-- > 0; e /= t->shape[d]) at[d] = e % t->shape[d];
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) tile = tile * t->grid[d] + at[d] / t->extent[d];
    return tile;
}

/* Returns the dimension from which on the tile lies dense in the tensor: none behind it is cut. */
static uint32_t dense_from(const struct pithi_tiling *t, const struct pithi_tile *tile) {
    uint32_t d = PITHI_TILE_NDIM - 1;
    while (d > 0 && tile->extent[d] == t->shape[d]) d--;
    return d;
}

bool pithi_tile_run_at(const struct pithi_tiling *t, const struct pithi_tile *tile, uint64_t number,
                       struct pithi_tile_run *run) {
    const uint32_t dense = dense_from(t, tile);
    uint64_t index[PITHI_TILE_NDIM] = {0};
    *run = (struct pithi_tile_run){.count = 1, .stride = 1};
    for (uint32_t d = dense; d < PITHI_TILE_NDIM; d++) {
        run->count *= tile->extent[d];
        run->stride *= t->shape[d];
    }
    run->in = number * run->count;
    if (run->in >= tile->count) return false;
    for (uint32_t d = dense; d-- > 0; number /= tile->extent[d])
        index[d] = number % tile->extent[d];
    if (dense) run->more = tile->extent[dense - 1] - 1 - index[dense - 1];
    for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++)
        run->at = run->at * t->shape[d] + tile->origin[d] + index[d];
    return true;
}
