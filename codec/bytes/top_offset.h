/* top_offset.h - offsets of rows and columns: where they may pay, what they are expected to save,
 * and which they are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: top_shift.c, and the CUDA kernels. */
#ifndef PITHI_BYTES_TOP_OFFSET_H
#define PITHI_BYTES_TOP_OFFSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "common/log2.h"

/* A symbol from 1 to 254 is shifted by the offset of its row and that of its column, mod 254. */
enum { PITHI_TOP_SHIFTS = 254 };

/* Returns the rows that `count` elements from column `first` are in. */
PITHI_INLINE size_t pithi_top_shift_rows(size_t width, size_t first, size_t count) {
    return (first + count - 1) / width + 1;
}

/* Adds numbers below 254 mod 254. */
PITHI_INLINE uint8_t pithi_top_shift_add(uint8_t a, uint8_t b) {
    const uint8_t missing = (uint8_t)(PITHI_TOP_SHIFTS - b), x = (uint8_t)(a - missing);
    return (uint8_t)(a < missing ? x + PITHI_TOP_SHIFTS : x);
}
/* Returns the symbol that s becomes; of_row is below 254, of_column any byte. */
PITHI_INLINE uint8_t pithi_top_shifted(uint8_t s, uint8_t of_row, uint8_t of_column) {
    const uint8_t below = (uint8_t)(s - 1);
    const uint8_t column =
        (uint8_t)(of_column < PITHI_TOP_SHIFTS ? of_column : of_column - PITHI_TOP_SHIFTS);
    const uint8_t x =
        (uint8_t)(pithi_top_shift_add(below, pithi_top_shift_add(column, of_row)) + 1);
    return below < PITHI_TOP_SHIFTS ? x : s;
}
/* Returns the offset that shifts back. */
PITHI_INLINE uint8_t pithi_top_shift_inverse(uint8_t offset) {
    return (uint8_t)((2 * PITHI_TOP_SHIFTS - offset) % PITHI_TOP_SHIFTS);
}

/* ---- Sample ----------------------------------------------------------------------------------*/

/* A sample of a matrix: of `taken` of its `rows` whole ones, of which the first one begins at
 * element `begin`, `columns` elements each, in groups of neighbours that lie `gap` apart. */
enum { PITHI_TOP_SHIFT_SAMPLE = 2048, PITHI_TOP_SHIFT_GROUP = 16, PITHI_TOP_SHIFT_GROUPS = 4 };
enum { PITHI_TOP_SHIFT_COLUMNS = PITHI_TOP_SHIFT_GROUP * PITHI_TOP_SHIFT_GROUPS };
struct pithi_top_shift_sample {
    size_t begin, rows, taken, columns, group, gap;
};
/* Returns what to take of `count` elements in rows of `width` from column `first`: none where
 * offsets never pay. */
PITHI_INLINE struct pithi_top_shift_sample pithi_top_shift_sampled(size_t count, size_t width,
                                                                   size_t first) {
    enum { WIDTH_LEAST = 8, ROWS_LEAST = 4 };
    struct pithi_top_shift_sample s = {first ? width - first : 0, 0, 0, 0, 0, 0};
    if (s.begin < count) s.rows = (count - s.begin) / width;
    if (width < WIDTH_LEAST || s.rows < ROWS_LEAST) return s;
    s.group = width < PITHI_TOP_SHIFT_GROUP ? width : (size_t)PITHI_TOP_SHIFT_GROUP;
    const size_t whole = width / s.group;
    const size_t groups = whole < PITHI_TOP_SHIFT_GROUPS ? whole : (size_t)PITHI_TOP_SHIFT_GROUPS;
    s.gap = groups > 1 ? (width - s.group) / (groups - 1) : 0;
    s.columns = s.group * groups;
    const size_t most = PITHI_TOP_SHIFT_SAMPLE / s.columns;
    s.taken = s.rows < most ? s.rows : most;
    return s;
}
/* Returns where row r of a sample begins, in rows of `width`. */
PITHI_INLINE size_t pithi_top_shift_row(const struct pithi_top_shift_sample *s, size_t r,
                                        size_t width) {
    return s->begin + r * s->rows / s->taken * width;
}

/* ---- Estimate ----------------------------------------------------------------------------------
 * Logarithms of values are spread like a bell, so that a variance that is f times as small saves
 * log2(f) / 2 bits a symbol. The variance between rows, and that between columns, of a sample of
 * whole rows says how much of it offsets would take away. */

/* Symbols that are shifted, counted and added up. */
struct pithi_top_sums {
    uint32_t n, sum;
};
/* Sums of squares about the mean, in quarters, and how many symbols and sums of them there are. */
struct pithi_top_variance {
    uint32_t n, all, rows, columns;
    uint32_t row_sums, column_sums;
};
/* Which offsets are worth it. */
struct pithi_top_shift_verdict {
    bool rows, columns;
};

PITHI_INLINE uint32_t pithi_top_square(struct pithi_top_sums s) {
    return s.n ? (uint32_t)(((uint64_t)s.sum * s.sum * 4 + s.n / 2) / s.n) : 0;
}
/* Makes sums of squares about the mean of those about 0: `square`, of all symbols, not in
 * quarters, and those of the means of rows and columns. */
PITHI_INLINE void pithi_top_center(struct pithi_top_variance *v, struct pithi_top_sums all,
                                   uint32_t square) {
    const uint32_t mean = pithi_top_square(all);
    v->n = all.n;
    v->all = 4 * square - mean;
    v->rows = v->rows > mean ? v->rows - mean : 0;
    v->columns = v->columns > mean ? v->columns - mean : 0;
}

/* Returns what is saved, in 1/256 bit a symbol, by offsets that take `between` of a sum of squares
 * `all`, where `sums` means of n symbols that are alike would seem to take a share of it too. */
PITHI_INLINE int32_t pithi_top_gain(uint32_t all, uint32_t between, uint32_t n, uint32_t sums) {
    const uint32_t within = all > between ? all - between : 1;
    if (n <= sums || !all) return 0;
    return ((int32_t)pithi_log2_256(all) - (int32_t)pithi_log2_256(within) +
            (int32_t)pithi_log2_256(n - sums) - (int32_t)pithi_log2_256(n)) /
           2;
}
/* Returns what an offset takes, in 1/256 bit, the variance of means being between / (4 n): the
 * entropy of rounded numbers from a bell of that variance, and at least half a bit. */
PITHI_INLINE int32_t pithi_top_offset_cost(uint32_t between, uint32_t n) {
    enum { UNIT = 524, LEAST = 128 }; /* log2(2 pi e) / 2 */
    const uint64_t variance = ((uint64_t)between << 8) / (4 * (uint64_t)n) + 1; /* in 1/256 */
    const int32_t log = (int32_t)pithi_log2_256((uint32_t)variance) - 8 * 256;
    return log / 2 + UNIT > LEAST ? log / 2 + UNIT : (int32_t)LEAST;
}
/* Returns which offsets save more than they take, and together more than `least`, in 1/256 bit a
 * symbol. */
PITHI_INLINE struct pithi_top_shift_verdict pithi_top_shift_worth(
    struct pithi_top_variance v, const struct pithi_top_shift_sample *sample, size_t width,
    uint64_t least) {
    enum { NOISE = 4 };
    const struct pithi_top_shift_verdict none = {false, false};
    struct pithi_top_shift_verdict worth = none;
    if (v.n < PITHI_TOP_SHIFT_SAMPLE / 8) return none;
    int32_t saved = 0;
    const int32_t by_rows = pithi_top_gain(v.all, v.rows, v.n, v.row_sums) -
                            pithi_top_offset_cost(v.rows, v.n) / (int32_t)width;
    if (by_rows > NOISE) {
        worth.rows = true;
        saved = by_rows;
        v.all = v.all > v.rows ? v.all - v.rows : 1;
        v.n -= v.row_sums;
    }
    const int32_t by_columns = pithi_top_gain(v.all, v.columns, v.n, v.column_sums) -
                               pithi_top_offset_cost(v.columns, v.n) / (int32_t)sample->rows;
    if (by_columns > NOISE) {
        worth.columns = true;
        saved += by_columns;
    }
    return (uint64_t)saved > least ? worth : none;
}

/* Returns the least that offsets must save, in 1/256 bit a symbol, of values of so many bytes: less
 * than one byte in 1024 is not worth the time. */
PITHI_INLINE uint64_t pithi_top_shift_least(size_t bytes) { return bytes * 8 * 256 / 1024; }

/* ---- Offsets ---------------------------------------------------------------------------------*/

/* More symbols make a mean no better than offsets are, which are whole numbers: of a row that is
 * longer, RUNS runs; and how many rows count. */
enum { PITHI_TOP_MEAN_COLUMNS = 128, PITHI_TOP_MEAN_ROWS = 64 };
enum { PITHI_TOP_MEAN_RUN = 32, PITHI_TOP_MEAN_RUNS = PITHI_TOP_MEAN_COLUMNS / PITHI_TOP_MEAN_RUN };

PITHI_INLINE int32_t pithi_top_rounded(int32_t sum, int32_t n) {
    if (!n) return 0;
    return (2 * sum + (sum < 0 ? -n : n)) / (2 * n);
}
PITHI_INLINE uint8_t pithi_top_offset_of(int32_t number) {
    return (uint8_t)(number < 0 ? number % PITHI_TOP_SHIFTS + PITHI_TOP_SHIFTS
                                : number % PITHI_TOP_SHIFTS);
}
/* Returns the number that an offset of a row stands for; those of a row never go around. */
PITHI_INLINE int16_t pithi_top_number_of(uint8_t offset) {
    return (int16_t)(offset < PITHI_TOP_SHIFTS / 2 ? offset : offset - PITHI_TOP_SHIFTS);
}
/* Returns the offset of a row, `mean` being that of all. */
PITHI_INLINE uint8_t pithi_top_row_offset(struct pithi_top_sums s, int32_t mean) {
    return pithi_top_offset_of(s.n ? mean - pithi_top_rounded((int32_t)s.sum, (int32_t)s.n) : 0);
}

/* ---- Proof -----------------------------------------------------------------------------------*/

/* Runs of a string that are a sample of it, and how far apart they begin. */
enum { PITHI_TOP_PROOF_RUN = 64, PITHI_TOP_PROOF_RUNS = 64 };
PITHI_INLINE size_t pithi_top_proof_step(size_t count) {
    return count > PITHI_TOP_PROOF_RUN * PITHI_TOP_PROOF_RUNS ? count / PITHI_TOP_PROOF_RUNS
                                                              : (size_t)PITHI_TOP_PROOF_RUN;
}
/* Returns the cost of n of `total` symbols of a sample, in 1/256 bit, log being that of total. */
PITHI_INLINE uint64_t pithi_top_proof_cost(uint32_t n, uint32_t log) {
    return n ? n * (uint64_t)(log - pithi_log2_256(n)) : 0;
}
/* Returns that of all `count` symbols, with what a table says of each kind. */
PITHI_INLINE uint64_t pithi_top_proof_all(uint64_t cost, uint32_t total, uint32_t kinds,
                                          size_t count) {
    enum { KIND_BITS = 5 };
    return cost * count / total + kinds * KIND_BITS * 256;
}
/* Whether shifted symbols and their offsets, two short strings, take less than symbols as they are,
 * by more than `least`. */
PITHI_INLINE bool pithi_top_shift_saves(uint64_t plain, uint64_t shifted, uint64_t offsets,
                                        uint64_t least) {
    enum { STRINGS = 48 * 8 * 256 }; /* what they take besides their symbols */
    return shifted + offsets + STRINGS + least < plain;
}

#endif
