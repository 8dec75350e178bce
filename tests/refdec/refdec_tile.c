/* refdec_tile.c - how codecs 5 to 7 cut a tensor into tiles.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "refdec.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

bool ref_is_bounded(const struct ref_frame *f) { return f->codec >= EB && f->codec <= ACT; }
bool ref_is_tiled(const struct ref_frame *f) { return f->codec >= EB; }

static void four_dimensions(struct ref_frame *f) {
    for (int d = 0; d < 4; d++) f->shape[d] = 1;
    for (unsigned i = 0; i < f->ndim; i++) {
        const unsigned behind = f->ndim - 1 - i;
        f->shape[behind < 4 ? 3 - behind : 0] *= f->dim[i];
    }
}

/* Extents are doubled as long as the tile stays small enough. */
static void cubes(struct ref_frame *f) {
    for (;;) {
        int best = -1;
        uint64_t n = 1;
        for (int d = 3; d >= 0; d--)
            if (f->extent[d] < f->shape[d] && (best < 0 || f->extent[d] < f->extent[best]))
                best = d;
        if (best < 0) return;
        f->extent[best] *= 2;
        for (int d = 0; d < 4; d++) n *= least(f->extent[d], f->shape[d]);
        if (n <= f->block) continue;
        f->extent[best] /= 2;
        return;
    }
}

uint64_t ref_row(const struct ref_frame *f) { return least(ref_le(f->parameter + 8, 4), f->block); }

static void rows(struct ref_frame *f) {
    const uint64_t r = ref_row(f);
    if (f->shape[3] != r) {
        for (int d = 0; d < 3; d++) f->shape[d] = 1;
        f->shape[3] = f->n;
        f->extent[3] = least(f->n, f->block / r * r);
        return;
    }
    f->extent[3] = r;
    f->extent[2] = least(f->shape[2], f->block / r);
    uint64_t n = r * f->extent[2];
    for (int d = 1; d >= 0 && f->extent[d + 1] == f->shape[d + 1]; d--) {
        const uint64_t most = least(f->block, 16384) / n;
        f->extent[d] = least(f->shape[d], most ? most : 1);
        n *= f->extent[d];
    }
}

static void runs(struct ref_frame *f) {
    uint64_t m = f->block;
    for (int d = 3; d >= 0; d--) {
        const uint64_t k = ceil_div(f->shape[d], m);
        f->extent[d] = ceil_div(f->shape[d], k);
        m /= f->extent[d];
        if (k > 1) return;
    }
}

void ref_cut_tiles(struct ref_frame *f) {
    f->tiles = 0;
    if (f->n == 0) return;
    four_dimensions(f);
    for (int d = 0; d < 4; d++) f->extent[d] = 1;
    if (f->codec == EB) cubes(f);
    if (f->codec == EMBED) rows(f);
    if (f->codec == ACT) runs(f);
    f->tiles = 1;
    for (int d = 0; d < 4; d++) {
        f->extent[d] = least(f->extent[d], f->shape[d]);
        f->grid[d] = ceil_div(f->shape[d], f->extent[d]);
        f->tiles *= f->grid[d];
    }
}

struct ref_tile ref_tile(const struct ref_frame *f, uint64_t number) {
    struct ref_tile t = {.count = 1};
    for (int d = 3; d >= 0; d--) {
        t.origin[d] = number % f->grid[d] * f->extent[d];
        t.extent[d] = least(f->extent[d], f->shape[d] - t.origin[d]);
        t.count *= t.extent[d];
        number /= f->grid[d];
    }
    return t;
}

void ref_place_tile(const struct ref_frame *f, const struct ref_tile *t, const uint8_t *values,
                    uint8_t *out) {
    const unsigned bytes = ref_dtype_bytes(f->dtype);
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t rest = i, place[4], at = 0;
        for (int d = 3; d >= 0; d--) {
            place[d] = t->origin[d] + rest % t->extent[d];
            rest /= t->extent[d];
        }
        for (int d = 0; d < 4; d++) at = at * f->shape[d] + place[d];
        memcpy(out + at * bytes, values + i * bytes, bytes);
    }
}
