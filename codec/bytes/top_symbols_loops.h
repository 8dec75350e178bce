/* top_symbols_loops.h - the hooks of top symbols over vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The includer defines what top_symbols_tmpl.h takes of words of 16, 32 and 64 bits, with these
 * numbers as suffixes, and:
 *   NARROW_MOST, NARROW_ROWS   whole rows of 8, 16 or NARROW_MOST symbols are shifted together
 *                 where there are at least NARROW_ROWS of them
 *   size_t shift_narrow(const struct pithi_top_shift *, uint8_t *to, const uint8_t *symbols,
 *                       const uint8_t *row, size_t rows): shifts such rows; returns how many
 *   void shift_run(uint8_t *to, const uint8_t *symbols, size_t n, unsigned row,
 *                  const uint8_t *columns): shifts n > 0 neighbours of a row; its offset is below
 *                 PITHI_TOP_SHIFTS */

enum { CHUNK = 2048, LANES_16 = sizeof(vec) / 2 };

#define WORD uint16_t
#define NAME(name) name##16
#define WHOLE 1
#include "bytes/top_symbols_tmpl.h"
#define WORD uint32_t
#define NAME(name) name##32
#define WHOLE 3
#include "bytes/top_symbols_tmpl.h"
#define WORD uint64_t
#define NAME(name) name##64
#define WHOLE 7
#include "bytes/top_symbols_tmpl.h"

/* Fewer words than are in a vector are left to scalar C. */
static size_t cut(const struct pithi_top *top, const void *words, size_t count, uint8_t *symbols,
                  uint8_t *planes, uint8_t *bits, uint16_t *escapes) {
    if (count < LANES_16) return pithi_top_cut_c(top, words, count, symbols, planes, bits, escapes);
    switch (top->width) {
    case 2: return cut_all16(top, words, count, symbols, planes, bits, escapes);
    case 4: return cut_all32(top, words, count, symbols, planes, bits, escapes);
    default: return cut_all64(top, words, count, symbols, planes, bits, escapes);
    }
}

static void join(const struct pithi_top *top, void *values, size_t count, const uint8_t *symbols,
                 const uint8_t *const *planes, const uint8_t *string, const uint8_t *escapes) {
    if (count < LANES_16) {
        pithi_top_join_c(top, values, count, symbols, planes, string, escapes);
        return;
    }
    switch (top->width) {
    case 2: join_all16(top, values, count, symbols, planes, string, escapes); break;
    case 4: join_all32(top, values, count, symbols, planes, string, escapes); break;
    default: join_all64(top, values, count, symbols, planes, string, escapes); break;
    }
}

static void shift(const struct pithi_top_shift *shift, uint8_t *to, const uint8_t *symbols,
                  size_t count) {
    const size_t width = shift->width;
    const bool narrow = width == 8 || width == 16 || width == NARROW_MOST;
    const uint8_t *row = shift->rows;
    size_t column = shift->first;
    for (size_t at = 0, n; at < count; at += n, row++) {
        if (column == 0 && narrow && count - at >= NARROW_ROWS * width) {
            const size_t rows =
                shift_narrow(shift, to + at, symbols + at, row, (count - at) / width);
            at += rows * width;
            row += rows;
            if (at == count) break;
        }
        n = width - column < count - at ? width - column : count - at;
        shift_run(to + at, symbols + at, n, *row % PITHI_TOP_SHIFTS, shift->columns + column);
        column = 0;
    }
}
