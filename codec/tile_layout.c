/* tile_layout.c - where the elements of a tile lie: by themselves, or in a dense tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tile_layout.h"

#include <string.h>

enum { LINE = 64 };

uint8_t *pithi_tile_layout_at(const struct pithi_tile_layout *layout, size_t i) {
    uint64_t at = 0, step = 1;
    if (!layout->tiling) return layout->first + i * layout->element;
    for (unsigned d = PITHI_TILE_NDIM; d--; i /= layout->tile->extent[d]) {
        at += (layout->tile->origin[d] + i % layout->tile->extent[d]) * step;
        step *= layout->tiling->shape[d];
    }
    return layout->first + at * layout->element;
}

void pithi_tile_layout_begin(struct pithi_tile_layout_walk *w,
                             const struct pithi_tile_layout *layout) {
    *w = (struct pithi_tile_layout_walk){.layout = layout, .run.count = UINT64_MAX};
    if (layout->tiling) pithi_tile_run_at(layout->tiling, layout->tile, 0, &w->run);
}

static void next_run(struct pithi_tile_layout_walk *w) {
    w->number++;
    w->used = 0;
    if (w->run.more)
        pithi_tile_run_next(&w->run);
    else if (!pithi_tile_run_at(w->layout->tiling, w->layout->tile, w->number, &w->run))
        w->run.count = 0;
}

static uint8_t *here(struct pithi_tile_layout_walk *w, uint64_t *left) {
    if (w->used == w->run.count) next_run(w);
    *left = w->run.count - w->used;
    return w->layout->first + (w->run.at + w->used) * w->layout->element;
}

uint8_t *pithi_tile_layout_next(struct pithi_tile_layout_walk *w, size_t most, size_t *count) {
    uint64_t left;
    uint8_t *const p = here(w, &left);
    *count = left < most ? (size_t)left : most;
    w->used += *count;
    return p;
}

uint8_t *pithi_tile_layout_rows(struct pithi_tile_layout_walk *w, size_t row, size_t most,
                                size_t *count, size_t *pitch) {
    uint64_t left, apart = row;
    uint8_t *const p = here(w, &left);
    if (w->run.count == row && w->run.more) {
        apart = w->run.stride;
        left += w->run.more * row;
    }
    *pitch = (size_t)apart * w->layout->element;
    *count = left < most ? (size_t)left : most;
    return p;
}

void pithi_tile_layout_skip(struct pithi_tile_layout_walk *w, size_t count) {
    while (count && w->run.count) {
        const uint64_t at = w->used + count, runs = (at - 1) / w->run.count;
        const uint64_t full = runs < w->run.more ? runs : w->run.more;
        w->run.at += full * w->run.stride;
        w->run.more -= full;
        w->number += full;
        const uint64_t left = at - full * w->run.count;
        w->used = left < w->run.count ? left : w->run.count;
        count = (size_t)(left - w->used);
        if (count) next_run(w);
    }
}

void pithi_tile_layout_read(struct pithi_tile_layout_walk *w, size_t count, void *to) {
    uint8_t *p = to;
    while (count) {
        size_t n;
        const uint8_t *const from = pithi_tile_layout_next(w, count, &n);
        memcpy(p, from, n * w->layout->element);
        p += n * w->layout->element;
        count -= n;
    }
}

void pithi_tile_layout_prefetch(struct pithi_tile_layout_walk *w, size_t count) {
    while (count && w->layout->tiling) {
        size_t n;
        const uint8_t *const p = pithi_tile_layout_next(w, count, &n);
        for (size_t i = 0; i < n * w->layout->element; i += LINE) __builtin_prefetch(p + i, 0, 2);
        if (!n) return;
        count -= n;
    }
}
