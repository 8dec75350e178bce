/* top_shift.c - offsets of rows and columns: when they pay, which they are, and the reference loop.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/top_shift.h"

#include <string.h>

#include "bytes/top_symbols.h"
#include "common/endian.h"
#include "common/log2.h"

enum { SHIFTS = PITHI_TOP_SHIFTS };

/* ---- Shift -----------------------------------------------------------------------------------*/

void pithi_top_shift_c(const struct pithi_top_shift *shift, uint8_t *restrict to,
                       const uint8_t *restrict symbols, size_t count) {
    const uint8_t *row = shift->rows;
    size_t column = shift->first;
    for (size_t at = 0, n; at < count; at += n, row++) {
        const uint8_t *restrict const columns = shift->columns + column;
        const uint8_t of_row = *row % SHIFTS;
        n = shift->width - column < count - at ? shift->width - column : count - at;
        for (size_t k = 0; k < n; k++)
            to[at + k] = pithi_top_shifted(symbols[at + k], of_row, columns[k]);
        column = 0;
    }
}

void pithi_top_shift_invert(uint8_t *offsets, size_t count) {
    for (size_t i = 0; i < count; i++) offsets[i] = pithi_top_shift_inverse(offsets[i]);
}

/* ---- Estimate --------------------------------------------------------------------------------*/

enum { GROUP = PITHI_TOP_SHIFT_GROUP, COLUMNS = PITHI_TOP_SHIFT_COLUMNS };

struct pithi_top_shift_sample pithi_top_shift_sample(void *to, const void *words, size_t bytes,
                                                     size_t count, size_t width, size_t first) {
    const struct pithi_top_shift_sample s = pithi_top_shift_sampled(count, width, first);
    uint8_t *at = to;
    for (size_t r = 0; r < s.taken; r++) {
        const uint8_t *const row =
            (const uint8_t *)words + pithi_top_shift_row(&s, r, width) * bytes;
        for (size_t g = 0; g < s.columns / s.group; g++, at += s.group * bytes)
            memcpy(at, row + g * s.gap * bytes, s.group * bytes);
    }
    return s;
}

/* Adds neighbours of a row to its sums and to those of their columns. */
static inline void take_group(const uint8_t *symbols, size_t count, struct pithi_top_sums *row,
                              uint16_t *n, uint16_t *sum, uint32_t *square) {
    for (size_t k = 0; k < count; k++) {
        const unsigned s = symbols[k], one = s - 1 < SHIFTS, value = one ? s : 0;
        n[k] = (uint16_t)(n[k] + one);
        sum[k] = (uint16_t)(sum[k] + value);
        row->n += one;
        row->sum += value;
        *square += value * value;
    }
}

static struct pithi_top_variance variance_of(const struct pithi_top_shift_sample *sample,
                                             const uint8_t *symbols) {
    struct pithi_top_variance v = {0};
    uint16_t n[COLUMNS] = {0}, sum[COLUMNS] = {0};
    struct pithi_top_sums all = {0};
    uint32_t square = 0;
    for (size_t r = 0; r < sample->taken; r++) {
        struct pithi_top_sums s = {0};
        size_t k = 0;
        for (; k + GROUP <= sample->columns; k += GROUP, symbols += GROUP)
            take_group(symbols, GROUP, &s, n + k, sum + k, &square);
        take_group(symbols, sample->columns - k, &s, n + k, sum + k, &square);
        symbols += sample->columns - k;
        v.rows += pithi_top_square(s);
        v.row_sums += s.n > 0;
        all.n += s.n;
        all.sum += s.sum;
    }
    for (size_t k = 0; k < sample->columns; k++) {
        v.columns += pithi_top_square((struct pithi_top_sums){n[k], sum[k]});
        v.column_sums += n[k] > 0;
    }
    pithi_top_center(&v, all, square);
    return v;
}

struct pithi_top_shift_verdict pithi_top_shift_estimate(const struct pithi_top_shift_sample *sample,
                                                        const uint8_t *symbols, size_t width,
                                                        uint64_t least) {
    return pithi_top_shift_worth(variance_of(sample, symbols), sample, width, least);
}

/* ---- Offsets ---------------------------------------------------------------------------------*/

enum { MEAN_COLUMNS = PITHI_TOP_MEAN_COLUMNS, MEAN_ROWS = PITHI_TOP_MEAN_ROWS };

/* Adds up the symbols that are shifted, of MEAN_COLUMNS at most, eight at a time: bytes that are 0
 * in x or in ~x are not. Sums of bytes, and of 16-bit lanes, do not run over. */
static inline void add_run(struct pithi_top_sums *s, const uint8_t *symbols, size_t count) {
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F), even = UINT64_C(0x00FF00FF00FF00FF);
    uint64_t n = 0, sum = 0;
    for (; count >= 8; symbols += 8, count -= 8) {
        const uint64_t x = pithi_get64(symbols);
        const uint64_t nonzero = ((x & low) + low) | x, others = ((~x & low) + low) | ~x;
        const uint64_t ones = (nonzero & others & ~low) >> 7, y = x & ones * 255;
        n += ones;
        sum += (y & even) + (y >> 8 & even);
    }
    s->n += (uint32_t)(n * UINT64_C(0x0101010101010101) >> 56);
    s->sum += (uint32_t)(sum * UINT64_C(0x0001000100010001) >> 48);
    for (size_t i = 0; i < count; i++) {
        const bool one = (uint8_t)(symbols[i] - 1) < SHIFTS;
        s->n += one;
        s->sum += one ? symbols[i] : 0u;
    }
}

/* Most rows have as many symbols as the one before, and a product with an inverse takes less time
 * than a division: inverse * 2 n is more than 2^24 by 2 n <= 2^8 at most, and what is divided is
 * below 2^16, so that quotients are exact. */
struct divider {
    uint32_t n, inverse;
};

/* Returns the rounded mean of n symbols, 0 < n <= MEAN_COLUMNS. */
static inline int32_t mean_of(struct divider *d, struct pithi_top_sums s) {
    if (s.n != d->n) *d = (struct divider){s.n, (1u << 24) / (2 * s.n) + 1};
    return (int32_t)((uint64_t)(2 * s.sum + s.n) * d->inverse >> 24);
}

/* The means of rows less that of all: numbers, one for each row that is whole or not. */
static void row_offsets(const uint8_t *symbols, size_t count, size_t width, size_t first,
                        uint8_t *offsets, int32_t mean) {
    struct divider d = {0};
    size_t row = 0;
    for (size_t at = 0, n; at < count; at += n, row++) {
        const size_t left = width - (at ? 0 : first);
        n = left < count - at ? left : count - at;
        struct pithi_top_sums s = {0};
        if (n <= MEAN_COLUMNS) {
            add_run(&s, symbols + at, n);
        } else {
            enum { RUN = PITHI_TOP_MEAN_RUN, RUNS = PITHI_TOP_MEAN_RUNS };
            for (size_t k = 0; k < RUNS; k++)
                add_run(&s, symbols + at + (n - RUN) / (RUNS - 1) * k, RUN);
        }
        offsets[row] = pithi_top_offset_of(s.n ? mean - mean_of(&d, s) : 0);
    }
}

/* Adds neighbours of a row, and `add` to each, to the sums of their columns. Mostly all of them are
 * shifted. */
static inline void add_row(const uint8_t *from, size_t n, int16_t add, int16_t *sum,
                           uint8_t *there) {
    uint8_t others = 0;
    for (size_t k = 0; k < n; k++) others |= (uint8_t)(from[k] - 1) >= SHIFTS;
    if (!others) {
        for (size_t k = 0; k < n; k++) sum[k] = (int16_t)(sum[k] + from[k] + add);
        for (size_t k = 0; k < n; k++) there[k]++;
        return;
    }
    for (size_t k = 0; k < n; k++) {
        const uint8_t one = (uint8_t)(from[k] - 1) < SHIFTS;
        there[k] = (uint8_t)(there[k] + one);
        sum[k] = (int16_t)(sum[k] + (one ? from[k] + add : 0));
    }
}

/* The means of columns of whole rows, their offsets added, less that of all. */
static void column_offsets(const uint8_t *symbols, size_t rows, size_t width,
                           const uint8_t *row_offset, uint8_t *offsets, int32_t mean) {
    const size_t taken = rows < MEAN_ROWS ? rows : MEAN_ROWS;
    for (size_t at = 0, n; at < width; at += n) {
        int16_t sum[COLUMNS] = {0};
        uint8_t there[COLUMNS] = {0};
        n = width - at < COLUMNS ? width - at : COLUMNS;
        for (size_t r = 0; r < taken; r++) {
            const size_t row = r * rows / taken;
            const uint8_t *const from = symbols + row * width + at;
            add_row(from, n, (int16_t)(pithi_top_number_of(row_offset[row]) - mean), sum, there);
        }
        for (size_t k = 0; k < n; k++)
            offsets[at + k] = pithi_top_offset_of(-pithi_top_rounded(sum[k], there[k]));
    }
}

void pithi_top_shift_find(const uint8_t *symbols, size_t count, size_t width, size_t first,
                          struct pithi_top_shift_verdict worth, uint8_t *rows, uint8_t *columns) {
    const struct pithi_top_shift_sample sample = pithi_top_shift_sampled(count, width, first);
    const size_t whole = sample.rows, begin = sample.begin;
    struct pithi_top_sums all = {0};
    const size_t run = width < MEAN_COLUMNS ? width : MEAN_COLUMNS;
    for (size_t r = 0; r < whole; r += whole / MEAN_ROWS + 1)
        add_run(&all, symbols + begin + r * width, run);
    const int32_t mean = pithi_top_rounded((int32_t)all.sum, (int32_t)all.n);
    memset(rows, 0, pithi_top_shift_rows(width, first, count));
    memset(columns, 0, width);
    if (worth.rows) row_offsets(symbols, count, width, first, rows, mean);
    if (worth.columns)
        column_offsets(symbols + begin, whole, width, rows + (first > 0), columns, mean);
}

/* ---- Proof -----------------------------------------------------------------------------------*/

/* Returns the expected entropy of symbols, in 1/256 bit, with what a table says of each kind. */
static uint64_t cost_of(const uint8_t *symbols, size_t count) {
    uint32_t n[256] = {0}, total = 0, kinds = 0;
    const size_t step = pithi_top_proof_step(count);
    for (size_t at = 0; at < count; at += step)
        for (size_t i = at; i < at + PITHI_TOP_PROOF_RUN && i < count; i++, total++)
            n[symbols[i]]++;
    uint64_t cost = 0;
    const uint32_t log = pithi_log2_256(total);
    for (unsigned s = 0; s < 256; s++) {
        cost += pithi_top_proof_cost(n[s], log);
        kinds += n[s] > 0;
    }
    return pithi_top_proof_all(cost, total, kinds, count);
}

bool pithi_top_shift_pays(const struct pithi_top_shift *shift, const uint8_t *symbols,
                          const uint8_t *to, size_t count, uint64_t least) {
    const size_t rows = pithi_top_shift_rows(shift->width, shift->first, count);
    const uint64_t offsets = cost_of(shift->rows, rows) + cost_of(shift->columns, shift->width);
    return pithi_top_shift_saves(cost_of(symbols, count), cost_of(to, count), offsets, least);
}
