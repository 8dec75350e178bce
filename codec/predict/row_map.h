/* row_map.h - which of the distinct rows each row of a block is, as bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rows are numbered in the order of first use, so a row is new - the next number - or an earlier
 * one. PLAIN: a bitmap of new rows, then numbers of equal width. CODED: a byte symbol for every
 * row, a class of numbers, and the bits that the classes leave open. doc/FORMAT.md, Row map. */
#ifndef PITHI_PREDICT_ROW_MAP_H
#define PITHI_PREDICT_ROW_MAP_H

#include "bytes/piece.h"
#include "predict/rows_value.h"

/* Returns the bytes of a map's buffer for so many rows. */
size_t pithi_rowmap_scratch(size_t rows);

/* The map of a block: row i is the distinct row number which[i]. */
struct pithi_rowmap {
    uint32_t *which;
    size_t rows, distinct;
    uint8_t *buffer;
};

/* Appends a map; *kind becomes its form (PITHI_ROWMAP_*), for the head of the block. With `coded`
 * it may be CODED, where that is shorter than PLAIN; max_rows is the most rows of any block, for
 * which pen->scratch was made. Where all rows are equal, or all differ, nothing is appended. False
 * when the map does not fit. */
bool pithi_rowmap_put(struct pithi_pen *pen, const struct pithi_rowmap *m, size_t max_rows,
                      bool coded, unsigned *kind);
/* Reads a map of so many rows: which[i] < distinct for every row; every number occurs, first uses
 * ascending. Returns NULL, or what is wrong. Any bytes are safe. */
const char *pithi_rowmap_take(struct pithi_reader *r, const struct pithi_rowmap *m, unsigned kind);

#endif
