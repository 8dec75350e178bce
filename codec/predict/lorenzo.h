/* lorenzo.h - differences of integers from their neighbours in a tile, and back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Order p differences along the last p dimensions (0: none), elements outside being 0; all mod
 * 2^32, then zigzag: 0, -1, 1, -2 ... become 0, 1, 2, 3 ... (doc/FORMAT.md, Differences). */
#ifndef PITHI_PREDICT_LORENZO_H
#define PITHI_PREDICT_LORENZO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "tile.h"

PITHI_INLINE uint32_t pithi_zigzag(uint32_t d) { return d << 1 ^ (0u - (d >> 31)); }
PITHI_INLINE uint32_t pithi_unzigzag(uint32_t w) { return w >> 1 ^ (0u - (w & 1)); }

/* Moves a place from the end of a row to the first element of the next. */
PITHI_INLINE void pithi_next_row(const uint32_t extent[PITHI_TILE_NDIM],
                                 uint32_t place[PITHI_TILE_NDIM]) {
    place[3] = 0;
    for (int d = 2; d >= 0; d--) {
        if (++place[d] < extent[d]) return;
        place[d] = 0;
    }
}

/* ---- Forward ---------------------------------------------------------------------------------*/

/* Makes elements [at, at + count) of the tile's words. codes points at the code of element `at`;
 * behind it lie those of the next elements, and before it, as in the tile, those that words are
 * differences from. */
typedef void pithi_predict_fn(const int32_t *codes, const uint32_t extent[PITHI_TILE_NDIM],
                              unsigned order, size_t at, size_t count, uint32_t *words);
pithi_predict_fn pithi_predict_c;

/* An element's place, and the rows whose alternating sum is differenced along the row: itself and
 * those before it in the other dimensions of the order. */
struct pithi_lines {
    uint32_t extent[PITHI_TILE_NDIM], place[PITHI_TILE_NDIM];
    unsigned order;
    unsigned count;  /* 1, 2, 4 or 8; a row is subtracted whose number has an odd count of ones */
    size_t back[8];  /* distance from each row to the element's; back[0] is 0 */
    uint8_t line[8]; /* their numbers among 2 x 2 x 2 lines, of which the last is the element's */
};
void pithi_lines_begin(struct pithi_lines *l, const uint32_t extent[PITHI_TILE_NDIM],
                       unsigned order, size_t at);
/* Returns the elements left in the row. */
PITHI_INLINE size_t pithi_lines_left(const struct pithi_lines *l) {
    return l->extent[3] - l->place[3];
}
/* Moves on by at most pithi_lines_left elements. */
void pithi_lines_advance(struct pithi_lines *l, size_t count);
/* Returns the alternating sum at an element of the row. */
PITHI_INLINE uint32_t pithi_lines_sum(const struct pithi_lines *l, const int32_t *code) {
    uint32_t sum = (uint32_t)*code;
    for (unsigned k = 1; k < l->count; k++) {
        const uint32_t other = (uint32_t)code[-(ptrdiff_t)l->back[k]];
        sum += (k ^ k >> 1 ^ k >> 2) & 1 ? 0u - other : other;
    }
    return sum;
}
/* Makes words of count elements of the row from l's place on, whose codes these are. */
void pithi_predict_row(const struct pithi_lines *l, const int32_t *codes, size_t count,
                       uint32_t *words);

/* ---- A whole tile ----------------------------------------------------------------------------*/

/* A tile that is written or read from its beginning on. */
struct pithi_unpredict {
    uint32_t extent[PITHI_TILE_NDIM], place[PITHI_TILE_NDIM];
    unsigned order;
    uint32_t before; /* read: running sum of the row; write: its last code; 0 at its beginning */
    /* For each of dimensions 0..2 a value of the last element before in that dimension: when
     * reading, after adding along it; when writing, before subtracting along it. NULL: the order
     * does without it. */
    uint32_t *sum[3];
};
/* Returns the bytes of memory for tiles of this extent or less; 4 for each element at most. */
size_t pithi_unpredict_bytes(const uint32_t extent[PITHI_TILE_NDIM]);
void pithi_unpredict_init(struct pithi_unpredict *u, const uint32_t extent[PITHI_TILE_NDIM],
                          unsigned order, void *memory);
/* Makes words of the next count codes. */
typedef void pithi_differ_fn(struct pithi_unpredict *u, const int32_t *codes, size_t count,
                             uint32_t *words);
pithi_differ_fn pithi_differ_c;
/* Makes codes of the next count words. They may be the same memory. */
typedef void pithi_unpredict_fn(struct pithi_unpredict *u, const uint32_t *words, size_t count,
                                int32_t *codes);
pithi_unpredict_fn pithi_unpredict_c;

/* Returns how many sums the rest of the row is added to, and which, nearest dimension first; starts
 * says which of them begin anew there. */
PITHI_INLINE unsigned pithi_unpredict_sums(const struct pithi_unpredict *u, uint32_t *sums[3],
                                           bool starts[3]) {
    size_t at = u->place[3], stride = u->extent[3];
    unsigned count = 0;
    for (unsigned d = 3; d--;) {
        if (u->sum[d]) {
            sums[count] = u->sum[d] + at;
            starts[count++] = u->place[d] == 0;
        }
        at += stride * u->place[d];
        stride *= u->extent[d];
    }
    return count;
}
/* Moves on by at most the rest of the row; `before` becomes 0 when the row has ended. */
PITHI_INLINE void pithi_unpredict_advance(struct pithi_unpredict *u, size_t count) {
    u->place[3] += (uint32_t)count;
    if (u->place[3] < u->extent[3]) return;
    pithi_next_row(u->extent, u->place);
    u->before = 0;
}

/* Moves on to the next row with what pithi_unpredict_sums found for the rest of this one, which
 * began at element `at`. */
PITHI_INLINE void pithi_unpredict_next_row(struct pithi_unpredict *u, size_t at, unsigned count,
                                           uint32_t *sums[3], bool starts[3]) {
    u->place[3] = 0;
    u->before = 0;
    if (u->place[2] + 1 >= u->extent[2]) {
        pithi_next_row(u->extent, u->place);
        pithi_unpredict_sums(u, sums, starts);
        return;
    }
    u->place[2]++;
    for (unsigned k = 0; k < count; k++) sums[k] = sums[k] - at + (k ? u->extent[3] : 0);
    starts[0] = false;
}

#endif
