/* lorenzo.c - the reference of differences in a tile.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/lorenzo.h"

#include <string.h>

/* ---- Forward ---------------------------------------------------------------------------------*/

static void find_lines(struct pithi_lines *l) {
    size_t stride = l->extent[3];
    l->count = 1;
    for (unsigned d = 2; d + l->order > 3 && d < 3; d--) {
        if (l->place[d]) {
            for (unsigned k = 0; k < l->count; k++) {
                l->back[l->count + k] = l->back[k] + stride;
                l->line[l->count + k] = (uint8_t)(l->line[k] & ~(4u >> d));
            }
            l->count *= 2;
        }
        stride *= l->extent[d];
    }
}

void pithi_lines_begin(struct pithi_lines *l, const uint32_t extent[PITHI_TILE_NDIM],
                       unsigned order, size_t at) {
    memcpy(l->extent, extent, sizeof l->extent);
    l->order = order;
    l->back[0] = 0;
    l->line[0] = 7;
    memset(l->place, 0, sizeof l->place);
    for (unsigned d = PITHI_TILE_NDIM; d-- && at; at /= extent[d])
        l->place[d] = (uint32_t)(at % extent[d]);
    find_lines(l);
}

void pithi_lines_advance(struct pithi_lines *l, size_t count) {
    l->place[3] += (uint32_t)count;
    if (l->place[3] < l->extent[3]) return;
    pithi_next_row(l->extent, l->place);
    find_lines(l);
}

void pithi_predict_row(const struct pithi_lines *l, const int32_t *codes, size_t count,
                       uint32_t *words) {
    uint32_t before = l->order && l->place[3] ? pithi_lines_sum(l, codes - 1) : 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t sum = pithi_lines_sum(l, codes + i);
        words[i] = pithi_zigzag(sum - before);
        if (l->order) before = sum;
    }
}

void pithi_predict_c(const int32_t *codes, const uint32_t extent[PITHI_TILE_NDIM], unsigned order,
                     size_t at, size_t count, uint32_t *words) {
    struct pithi_lines l;
    pithi_lines_begin(&l, extent, order, at);
    while (count) {
        const size_t left = pithi_lines_left(&l), n = count < left ? count : left;
        pithi_predict_row(&l, codes, n, words);
        codes += n, words += n, count -= n;
        pithi_lines_advance(&l, n);
    }
}

/* ---- A whole tile ----------------------------------------------------------------------------*/

size_t pithi_unpredict_bytes(const uint32_t extent[PITHI_TILE_NDIM]) {
    size_t below = extent[3], sums = 0;
    for (unsigned d = 3; d--; below *= extent[d])
        if (extent[d] > 1) sums += below;
    return sums * sizeof(uint32_t);
}

/* Begins a tile. Dimensions of extent 1 have nothing before them. The sums of the others are of a
 * half, a quarter and an eighth of the tile at most. */
void pithi_unpredict_init(struct pithi_unpredict *u, const uint32_t extent[PITHI_TILE_NDIM],
                          unsigned order, void *memory) {
    uint32_t *buffer = memory;
    size_t below = extent[3];
    *u = (struct pithi_unpredict){.order = order};
    memcpy(u->extent, extent, sizeof u->extent);
    for (unsigned d = 2; d + order > 3 && d < 3; d--) {
        if (extent[d] > 1) {
            u->sum[d] = buffer;
            buffer += below;
        }
        below *= extent[d];
    }
}

void pithi_differ_c(struct pithi_unpredict *u, const int32_t *codes, size_t count,
                    uint32_t *words) {
    while (count) {
        uint32_t *sums[3];
        bool starts[3];
        const unsigned dims = pithi_unpredict_sums(u, sums, starts);
        const size_t left = u->extent[3] - u->place[3], n = count < left ? count : left;
        for (size_t i = 0; i < n; i++) {
            uint32_t x = (uint32_t)codes[i] - (u->order ? u->before : 0);
            u->before = (uint32_t)codes[i];
            for (unsigned k = 0; k < dims; k++) {
                const uint32_t before = starts[k] ? 0 : sums[k][i];
                sums[k][i] = x;
                x -= before;
            }
            words[i] = pithi_zigzag(x);
        }
        words += n, codes += n, count -= n;
        pithi_unpredict_advance(u, n);
    }
}

void pithi_unpredict_c(struct pithi_unpredict *u, const uint32_t *words, size_t count,
                       int32_t *codes) {
    while (count) {
        uint32_t *sums[3];
        bool starts[3];
        const unsigned dims = pithi_unpredict_sums(u, sums, starts);
        const size_t left = u->extent[3] - u->place[3], n = count < left ? count : left;
        for (size_t i = 0; i < n; i++) {
            uint32_t x = pithi_unzigzag(words[i]);
            if (u->order) x = u->before += x;
            for (unsigned k = 0; k < dims; k++) sums[k][i] = x += starts[k] ? 0 : sums[k][i];
            codes[i] = (int32_t)x;
        }
        words += n, codes += n, count -= n;
        pithi_unpredict_advance(u, n);
    }
}
