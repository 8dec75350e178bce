/* exact_values.h - values that a codec with a bound stores as they are, beside its codes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A u32 count E; then, unless E is 0, which elements they are - E ascending u32 when that is not
 * longer, else a bitmap - and their E values. doc/FORMAT.md, Exact values. */
#ifndef PITHI_PREDICT_EXACT_VALUES_H
#define PITHI_PREDICT_EXACT_VALUES_H

#include "bytes/piece.h"
#include "tile_layout.h"

/* Writes the exact values. Bit i of `miss` (bits past count are 0) says that element i of `values`
 * is stored. False when they do not fit. */
bool pithi_exact_put(struct pithi_pen *pen, const uint8_t *miss, size_t misses,
                     const struct pithi_tile_layout *values, size_t count);

/* The exact values of a block that is being read. */
struct pithi_exact {
    const uint8_t *which, *values;
    size_t misses, count, element;
    size_t number, next; /* number and element of the first value that is not yet merged */
    bool bitmap;
};
/* Opens the exact values of a block. Returns NULL, or what is wrong; any bytes are safe. */
const char *pithi_exact_take(struct pithi_reader *r, struct pithi_exact *e, size_t element,
                             size_t count);
/* Puts exact values over elements [at, at + count), dense and of the same dtype, behind all those
 * of the calls before. */
void pithi_exact_merge(struct pithi_exact *e, size_t at, size_t count, void *values);
/* Puts exact values to where the decoded ones are, one by one. */
void pithi_exact_patch(const struct pithi_exact *e, const struct pithi_sink *to);

#endif
