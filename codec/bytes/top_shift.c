/* top_shift.c - offsets of rows and columns: when they pay, which they are, and the reference loop.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/top_shift.h"

#include <string.h>

#include "bytes/top_symbols.h"
#include "common/endian.h"
#include "common/log2.h"

enum { SHIFTS = PITHI_TOP_SHIFTS };

/* ---- Shift -----------------------------------------------------------------------------------*/

/* Adds numbers below 254 mod 254. */
static inline uint8_t add(uint8_t a, uint8_t b) {
    const uint8_t missing = (uint8_t)(SHIFTS - b), x = (uint8_t)(a - missing);
    return (uint8_t)(a < missing ? x + SHIFTS : x);
}

void pithi_top_shift_c(const struct pithi_top_shift *shift, uint8_t *restrict to,
                       const uint8_t *restrict symbols, size_t count) {
    const uint8_t *row = shift->rows;
    size_t column = shift->first;
    for (size_t at = 0, n; at < count; at += n, row++) {
        const uint8_t *restrict const columns = shift->columns + column;
        const uint8_t of_row = *row % SHIFTS;
        n = shift->width - column < count - at ? shift->width - column : count - at;
        for (size_t k = 0; k < n; k++) {
            const uint8_t s = symbols[at + k], below = (uint8_t)(s - 1), c = columns[k];
            const uint8_t of_column = (uint8_t)(c < SHIFTS ? c : c - SHIFTS);
            const uint8_t x = (uint8_t)(add(below, add(of_column, of_row)) + 1);
            to[at + k] = below < SHIFTS ? x : s;
        }
        column = 0;
    }
}

void pithi_top_shift_invert(uint8_t *offsets, size_t count) {
    for (size_t i = 0; i < count; i++) offsets[i] = (uint8_t)((2 * SHIFTS - offsets[i]) % SHIFTS);
}

/* ---- Estimate ----------------------------------------------------------------------------------
 * Logarithms of values are spread like a bell, so that a variance that is f times as small saves
 * log2(f) / 2 bits a symbol. The variance between rows, and that between columns, of a sample of
 * whole rows says how much of it offsets would take away. */

enum { SAMPLE = PITHI_TOP_SHIFT_SAMPLE, GROUP = 16, GROUPS = 4, COLUMNS = GROUP * GROUPS };
enum { WIDTH_LEAST = 8, ROWS_LEAST = 4 };

/* Symbols that are shifted, counted and added up. */
struct sums {
    uint32_t n, sum;
};

/* Sums of squares about the mean, in quarters, and how many symbols and sums of them there are. */
struct variance {
    uint32_t n, all, rows, columns;
    uint32_t row_sums, column_sums;
};

/* Returns the first whole row, and in *rows how many there are. */
static size_t whole_rows(size_t count, size_t width, size_t first, size_t *rows) {
    const size_t begin = first ? width - first : 0;
    *rows = begin < count ? (count - begin) / width : 0;
    return begin;
}

struct pithi_top_shift_sample pithi_top_shift_sample(void *to, const void *words, size_t bytes,
                                                     size_t count, size_t width, size_t first) {
    struct pithi_top_shift_sample s = {0};
    const uint8_t *const from =
        (const uint8_t *)words + whole_rows(count, width, first, &s.rows) * bytes;
    if (width < WIDTH_LEAST || s.rows < ROWS_LEAST) return s;
    const size_t group = width < GROUP ? width : GROUP;
    const size_t groups = width / group < GROUPS ? width / group : GROUPS;
    const size_t gap = groups > 1 ? (width - group) / (groups - 1) : 0;
    const size_t most = SAMPLE / (group * groups);
    s.columns = group * groups;
    s.taken = s.rows < most ? s.rows : most;
    uint8_t *at = to;
    for (size_t r = 0; r < s.taken; r++) {
        const uint8_t *const row = from + r * s.rows / s.taken * width * bytes;
        for (size_t g = 0; g < groups; g++, at += group * bytes)
            memcpy(at, row + g * gap * bytes, group * bytes);
    }
    return s;
}

static uint32_t square_of(struct sums s) {
    return s.n ? (uint32_t)(((uint64_t)s.sum * s.sum * 4 + s.n / 2) / s.n) : 0;
}

/* Adds neighbours of a row to its sums and to those of their columns. */
static inline void take_group(const uint8_t *symbols, size_t count, struct sums *row, uint16_t *n,
                              uint16_t *sum, uint32_t *square) {
    for (size_t k = 0; k < count; k++) {
        const unsigned s = symbols[k], one = s - 1 < SHIFTS, value = one ? s : 0;
        n[k] = (uint16_t)(n[k] + one);
        sum[k] = (uint16_t)(sum[k] + value);
        row->n += one;
        row->sum += value;
        *square += value * value;
    }
}

static struct variance variance_of(const struct pithi_top_shift_sample *sample,
                                   const uint8_t *symbols) {
    struct variance v = {0};
    uint16_t n[COLUMNS] = {0}, sum[COLUMNS] = {0};
    struct sums all = {0};
    uint32_t square = 0;
    for (size_t r = 0; r < sample->taken; r++) {
        struct sums s = {0};
        size_t k = 0;
        for (; k + GROUP <= sample->columns; k += GROUP, symbols += GROUP)
            take_group(symbols, GROUP, &s, n + k, sum + k, &square);
        take_group(symbols, sample->columns - k, &s, n + k, sum + k, &square);
        symbols += sample->columns - k;
        v.rows += square_of(s);
        v.row_sums += s.n > 0;
        all.n += s.n;
        all.sum += s.sum;
    }
    for (size_t k = 0; k < sample->columns; k++) {
        v.columns += square_of((struct sums){n[k], sum[k]});
        v.column_sums += n[k] > 0;
    }
    const uint32_t mean = square_of(all);
    v.n = all.n;
    v.all = 4 * square - mean;
    v.rows = v.rows > mean ? v.rows - mean : 0;
    v.columns = v.columns > mean ? v.columns - mean : 0;
    return v;
}

/* Returns what is saved, in 1/256 bit a symbol, by offsets that take `between` of a sum of squares
 * `all`, where `sums` means of n symbols that are alike would seem to take a share of it too. */
static int32_t gain_of(uint32_t all, uint32_t between, uint32_t n, uint32_t sums) {
    const uint32_t within = all > between ? all - between : 1;
    if (n <= sums || !all) return 0;
    return ((int32_t)pithi_log2_256(all) - (int32_t)pithi_log2_256(within) +
            (int32_t)pithi_log2_256(n - sums) - (int32_t)pithi_log2_256(n)) /
           2;
}

/* Returns what an offset takes, in 1/256 bit, the variance of means being between / (4 n): the
 * entropy of rounded numbers from a bell of that variance, and at least half a bit. */
static int32_t offset_cost(uint32_t between, uint32_t n) {
    enum { UNIT = 524, LEAST = 128 }; /* log2(2 pi e) / 2 */
    const uint64_t variance = ((uint64_t)between << 8) / (4 * (uint64_t)n) + 1; /* in 1/256 */
    const int32_t log = (int32_t)pithi_log2_256((uint32_t)variance) - 8 * 256;
    return log / 2 + UNIT > LEAST ? log / 2 + UNIT : LEAST;
}

struct pithi_top_shift_verdict pithi_top_shift_estimate(const struct pithi_top_shift_sample *sample,
                                                        const uint8_t *symbols, size_t width,
                                                        uint64_t least) {
    enum { NOISE = 4 };
    const struct pithi_top_shift_verdict none = {0};
    struct pithi_top_shift_verdict worth = {0};
    struct variance v = variance_of(sample, symbols);
    if (v.n < SAMPLE / 8) return none;
    int32_t saved = 0;
    const int32_t by_rows =
        gain_of(v.all, v.rows, v.n, v.row_sums) - offset_cost(v.rows, v.n) / (int32_t)width;
    if (by_rows > NOISE) {
        worth.rows = true;
        saved = by_rows;
        v.all = v.all > v.rows ? v.all - v.rows : 1;
        v.n -= v.row_sums;
    }
    const int32_t by_columns = gain_of(v.all, v.columns, v.n, v.column_sums) -
                               offset_cost(v.columns, v.n) / (int32_t)sample->rows;
    if (by_columns > NOISE) {
        worth.columns = true;
        saved += by_columns;
    }
    return (uint64_t)saved > least ? worth : none;
}

/* ---- Offsets ---------------------------------------------------------------------------------*/

/* More symbols make a mean no better than offsets are, which are whole numbers. */
enum { MEAN_COLUMNS = 128, MEAN_ROWS = 64 };

/* Adds up the symbols that are shifted, eight at a time: bytes that are 0 in x or in ~x are not. */
static void add_run(struct sums *s, const uint8_t *symbols, size_t count) {
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F), even = UINT64_C(0x00FF00FF00FF00FF);
    for (; count >= 8; symbols += 8, count -= 8) {
        const uint64_t x = pithi_get64(symbols);
        const uint64_t nonzero = ((x & low) + low) | x, others = ((~x & low) + low) | ~x;
        const uint64_t ones = (nonzero & others & ~low) >> 7, y = x & ones * 255;
        s->n += (uint32_t)(ones * UINT64_C(0x0101010101010101) >> 56);
        s->sum += (uint32_t)(((y & even) + (y >> 8 & even)) * UINT64_C(0x0001000100010001) >> 48);
    }
    for (size_t i = 0; i < count; i++) {
        const bool one = (uint8_t)(symbols[i] - 1) < SHIFTS;
        s->n += one;
        s->sum += one ? symbols[i] : 0u;
    }
}

static int32_t rounded(int32_t sum, int32_t n) {
    if (!n) return 0;
    return (2 * sum + (sum < 0 ? -n : n)) / (2 * n);
}

static uint8_t offset_of(int32_t number) {
    return (uint8_t)(number < 0 ? number % SHIFTS + SHIFTS : number % SHIFTS);
}

/* The means of rows less that of all: numbers, one for each row that is whole or not. */
static void row_offsets(const uint8_t *symbols, size_t count, size_t width, size_t first,
                        uint8_t *offsets, int32_t mean) {
    size_t row = 0;
    for (size_t at = 0, n; at < count; at += n, row++) {
        const size_t left = width - (at ? 0 : first);
        n = left < count - at ? left : count - at;
        struct sums s = {0};
        if (n <= MEAN_COLUMNS) {
            add_run(&s, symbols + at, n);
        } else {
            enum { RUN = 32, RUNS = MEAN_COLUMNS / RUN };
            for (size_t k = 0; k < RUNS; k++)
                add_run(&s, symbols + at + (n - RUN) / (RUNS - 1) * k, RUN);
        }
        offsets[row] = offset_of(s.n ? mean - rounded((int32_t)s.sum, (int32_t)s.n) : 0);
    }
}

/* Returns the number that an offset of a row stands for; those of a row never go around. */
static int16_t number_of(uint8_t offset) {
    return (int16_t)(offset < SHIFTS / 2 ? offset : offset - SHIFTS);
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
            const int16_t add = (int16_t)(number_of(row_offset[row]) - mean);
            for (size_t k = 0; k < n; k++) {
                const uint8_t one = (uint8_t)(from[k] - 1) < SHIFTS;
                there[k] = (uint8_t)(there[k] + one);
                sum[k] = (int16_t)(sum[k] + (one ? from[k] + add : 0));
            }
        }
        for (size_t k = 0; k < n; k++) offsets[at + k] = offset_of(-rounded(sum[k], there[k]));
    }
}

void pithi_top_shift_find(const uint8_t *symbols, size_t count, size_t width, size_t first,
                          struct pithi_top_shift_verdict worth, uint8_t *rows, uint8_t *columns) {
    size_t whole;
    const size_t begin = whole_rows(count, width, first, &whole);
    struct sums all = {0};
    const size_t run = width < MEAN_COLUMNS ? width : MEAN_COLUMNS;
    for (size_t r = 0; r < whole; r += whole / MEAN_ROWS + 1)
        add_run(&all, symbols + begin + r * width, run);
    const int32_t mean = rounded((int32_t)all.sum, (int32_t)all.n);
    memset(rows, 0, pithi_top_shift_rows(width, first, count));
    memset(columns, 0, width);
    if (worth.rows) row_offsets(symbols, count, width, first, rows, mean);
    if (worth.columns)
        column_offsets(symbols + begin, whole, width, rows + (first > 0), columns, mean);
}

/* ---- Proof -----------------------------------------------------------------------------------*/

/* Returns the expected entropy of symbols, in 1/256 bit, with what a table says of each kind. */
static uint64_t cost_of(const uint8_t *symbols, size_t count) {
    enum { RUN = 64, RUNS = 64, KIND_BITS = 5 };
    uint32_t n[256] = {0}, total = 0, kinds = 0;
    const size_t step = count > RUN * RUNS ? count / RUNS : RUN;
    for (size_t at = 0; at < count; at += step)
        for (size_t i = at; i < at + RUN && i < count; i++, total++) n[symbols[i]]++;
    uint64_t cost = 0;
    const uint32_t log = pithi_log2_256(total);
    for (unsigned s = 0; s < 256; s++) {
        if (!n[s]) continue;
        cost += n[s] * (uint64_t)(log - pithi_log2_256(n[s]));
        kinds++;
    }
    return cost * count / total + kinds * KIND_BITS * 256;
}

bool pithi_top_shift_pays(const struct pithi_top_shift *shift, const uint8_t *symbols,
                          const uint8_t *to, size_t count, uint64_t least) {
    enum { STRINGS = 48 * 8 * 256 }; /* what two short strings take besides their symbols */
    const size_t rows = pithi_top_shift_rows(shift->width, shift->first, count);
    const uint64_t offsets = cost_of(shift->rows, rows) + cost_of(shift->columns, shift->width);
    return cost_of(to, count) + offsets + STRINGS + least < cost_of(symbols, count);
}
