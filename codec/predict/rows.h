/* rows.h - the distinct rows of a block of codes, and one code per column that they lie around.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rows are numbered in the order of their first use, whatever the hash: numbers depend on nothing
 * but the codes. Rows of one hash are compared in full. */
#ifndef PITHI_PREDICT_ROWS_H
#define PITHI_PREDICT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nontemporal.h"

struct pithi_rows {
    size_t dim;      /* codes in a row */
    size_t distinct; /* rows found */
    int32_t *codes;  /* codes of the distinct rows, one after the other */
    uint32_t *table; /* open addressing: 1 + number of a row, below bits of its hash */
    size_t mask;     /* places in the table, a power of two, less one */
    /* Rows numbered, and other rows that searches for them have passed: few, unless somebody chose
     * rows whose hashes agree. Then rows get hashes from a seed that nobody can foresee; 0: not
     * yet. */
    uint64_t numbered, passed, seed;
};

/* Returns the bytes of a table for so many rows. */
size_t pithi_rows_table_bytes(size_t rows);
/* Begins with no rows; at most `most` will come, for which codes has the capacity, and table that
 * of pithi_rows_table_bytes. */
void pithi_rows_begin(struct pithi_rows *r, size_t dim, size_t most, int32_t *codes,
                      uint32_t *table);
/* Sets which[i] to the number of row i of `codes`, which is added if it is new. The codes may lie
 * right behind those of the distinct rows, in the same memory. Behind the distinct rows, memory for
 * as many as were numbered may be written over. All rows from pithi_rows_begin on are numbered by
 * the same function, since each has a hash of its own. */
typedef void pithi_rows_number_fn(struct pithi_rows *r, const int32_t *codes, size_t count,
                                  uint32_t *which);
pithi_rows_number_fn pithi_rows_number_c;

/* A place of the table has the number of a row, 1 to 2^24, and above it some bits of a hash; 0:
 * nobody's. A row is looked for from place (hash >> 32) & mask on. */
enum { PITHI_ROWS_NUMBER_BITS = 25 };
static inline uint32_t pithi_rows_tag(uint64_t hash) {
    return (uint32_t)(hash >> 32) & ~((1u << PITHI_ROWS_NUMBER_BITS) - 1);
}
/* Returns the number of one row, which is added if it is new. */
uint32_t pithi_rows_find(struct pithi_rows *r, const int32_t *row, uint64_t hash);
/* Whether searches have become long: then pithi_rows_seed gives all rows other hashes, after which
 * pithi_rows_number_c numbers those to come. */
static inline bool pithi_rows_crowded(const struct pithi_rows *r) {
    return !r->seed && r->passed > 4 * r->numbered + 1024;
}
void pithi_rows_seed(struct pithi_rows *r);

/* Finds a code per column near the mean of some of the rows. False when storing them, `bytes` each
 * in two's complement, would not pay. Any centres are right, these are good. */
bool pithi_rows_centre(const int32_t *codes, size_t rows, size_t dim, int32_t *centre,
                       unsigned *bytes);
/* Subtract the centres from the codes of every row, and add them; mod 2^32. */
void pithi_rows_sink(int32_t *restrict codes, size_t rows, size_t dim,
                     const int32_t *restrict centre);
void pithi_rows_lift(int32_t *restrict codes, size_t rows, size_t dim,
                     const int32_t *restrict centre);

/* Sets row i of `to` to row which[i] of `from`; rows have so many bytes. move: writes what will not
 * be read soon; NULL: it will be. */
void pithi_rows_place(uint8_t *to, const uint8_t *from, const uint32_t *which, size_t rows,
                      size_t bytes, pithi_move_fn *move);

#endif
