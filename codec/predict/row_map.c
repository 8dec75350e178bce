/* row_map.c - maps of rows, plain and coded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/row_map.h"

#include <string.h>

#include "common/endian.h"
#include "common/pad.h"
#include "common/popcount.h"

/* ---- Strings of bits, least significant first ------------------------------------------------*/

/* A string of bits that is written; its buffer ends 8 bytes behind it. */
struct bits {
    uint8_t *to;
    uint64_t last; /* bits of a byte that is not full */
    unsigned count;
};

static void put_bits(struct bits *b, uint32_t value, unsigned count) {
    b->last |= (uint64_t)value << b->count;
    pithi_put64(b->to, b->last);
    b->count += count;
    b->to += b->count / 8;
    b->last >>= b->count / 8 * 8;
    b->count %= 8;
}

static bool put_string(struct pithi_pen *pen, const uint8_t *from, const struct bits *b) {
    return pithi_pen_put(pen, from, (size_t)(b->to - from) + (b->count > 0));
}

/* Returns a copy that get_bits can read: its buffer ends 8 bytes behind it. */
static const uint8_t *readable(uint8_t *buffer, const uint8_t *from, size_t bytes) {
    memcpy(buffer, from, bytes);
    memset(buffer + bytes, 0, 8);
    return buffer;
}

/* Returns bits [at, at + count) of a string; count <= 32. */
static uint32_t get_bits(const uint8_t *from, uint64_t at, unsigned count) {
    const uint64_t window = pithi_get64(from + at / 8) >> at % 8;
    return (uint32_t)window & (uint32_t)((UINT64_C(1) << count) - 1);
}

static bool zero_rest(const uint8_t *from, uint64_t bits) {
    return bits % 8 == 0 || from[bits / 8] >> bits % 8 == 0;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Returns the bytes for the symbols, and for a string of at most 21 open bits for every row. */
size_t pithi_rowmap_scratch(size_t rows) { return pithi_pad64(rows) + pithi_pad64(3 * rows + 8); }

static uint8_t *open_buffer(uint8_t *buffer, size_t rows) { return buffer + pithi_pad64(rows); }

/* ---- Write -----------------------------------------------------------------------------------*/

/* Writes a PLAIN map. The loop has no branches, since new rows come by chance. */
static bool put_plain(struct pithi_pen *pen, const struct pithi_rowmap *m) {
    const uint32_t *const which = m->which;
    const unsigned width = pithi_rowmap_width(m->distinct);
    uint8_t *const numbers_buffer = open_buffer(m->buffer, m->rows);
    struct bits map = {.to = m->buffer}, numbers = {.to = numbers_buffer};
    uint32_t known = 0;
    for (size_t i = 0, rows = m->rows; i < rows; i++) {
        const uint32_t is_new = which[i] == known, old = is_new - 1;
        put_bits(&map, is_new, 1);
        put_bits(&numbers, which[i] & old, width & old);
        known += is_new;
    }
    return put_string(pen, m->buffer, &map) && put_string(pen, numbers_buffer, &numbers);
}

static bool put_coded(struct pithi_pen *pen, const struct pithi_rowmap *m, size_t max_rows) {
    const uint32_t *const which = m->which;
    const size_t rows = m->rows;
    uint8_t *const buffer = m->buffer;
    struct bits open = {.to = open_buffer(buffer, rows)};
    uint32_t known = 0;
    for (size_t i = 0; i < rows; i++) {
        const uint32_t is_new = which[i] == known, old = is_new - 1, number = which[i] & old;
        const unsigned symbol = pithi_rowmap_class(number);
        buffer[i] = (uint8_t)(symbol & old);
        put_bits(&open, number - pithi_rowmap_first(symbol), pithi_rowmap_open(symbol));
        known += is_new;
    }
    return pithi_piece_put(pen, max_rows, buffer, rows) &&
           put_string(pen, open_buffer(buffer, rows), &open);
}

bool pithi_rowmap_put(struct pithi_pen *pen, const struct pithi_rowmap *m, size_t max_rows,
                      bool coded, unsigned *kind) {
    *kind = PITHI_ROWMAP_NONE;
    if (m->distinct == 1 || m->distinct == m->rows) return true;
    struct pithi_pen trial = *pen;
    const size_t plain = pithi_rowmap_plain_bytes(m->rows, m->distinct);
    if (trial.capacity >= plain) trial.capacity = plain - 1;
    if (coded && put_coded(&trial, m, max_rows)) {
        *kind = PITHI_ROWMAP_CODED;
        pen->capacity -= (size_t)(trial.at - pen->at);
        pen->at = trial.at;
        return true;
    }
    *kind = PITHI_ROWMAP_PLAIN;
    return put_plain(pen, m);
}

/* ---- Read ------------------------------------------------------------------------------------*/

static const char *const wrong_number = "a row repeats one that is not before it";
static const char *const wrong_count = "new rows are not as many as the block says";
static const char *const wrong_rest = "bits after the end of a row map are not 0";
static const char *const too_short = "the row map is damaged";

static void number_plainly(const struct pithi_rowmap *m) {
    for (size_t i = 0; i < m->rows; i++) m->which[i] = m->distinct == 1 ? 0 : (uint32_t)i;
}

static const char *take_plain(struct pithi_reader *r, const struct pithi_rowmap *m) {
    const size_t rows = m->rows, distinct = m->distinct;
    uint32_t *const which = m->which;
    const unsigned width = pithi_rowmap_width(distinct);
    const uint64_t bits = pithi_rowmap_bits(rows, distinct);
    const uint8_t *const map = pithi_reader_take(r, pithi_rowmap_bytes_of(rows));
    const uint8_t *numbers = map ? pithi_reader_take(r, pithi_rowmap_bytes_of(bits)) : NULL;
    if (!numbers) return too_short;
    if (!zero_rest(map, rows) || !zero_rest(numbers, bits)) return wrong_rest;
    if (pithi_ones(map, pithi_rowmap_bytes_of(rows)) != distinct) return wrong_count;
    numbers = readable(open_buffer(m->buffer, rows), numbers, pithi_rowmap_bytes_of(bits));
    uint64_t at = 0;
    uint32_t known = 0, wrong = 0;
    for (size_t i = 0; i < rows; i++) { /* has no branches, like put_plain */
        const uint32_t is_new = map[i / 8] >> i % 8 & 1, old = is_new - 1;
        const uint32_t earlier = get_bits(numbers, at, width & old);
        which[i] = known ^ ((known ^ earlier) & old);
        wrong |= (earlier >= known) & old;
        known += is_new;
        at += width & old;
    }
    return wrong ? wrong_number : NULL;
}

/* Returns how many bits the symbols leave open; UINT64_MAX when one of them is no class. */
static uint64_t open_total(const uint8_t *symbols, size_t rows) {
    uint64_t bits = 0;
    unsigned largest = 0;
    for (size_t i = 0; i < rows; i++) {
        bits += pithi_rowmap_open(symbols[i]);
        if (symbols[i] > largest) largest = symbols[i];
    }
    return largest > PITHI_ROWMAP_CLASSES ? UINT64_MAX : bits;
}

static const char *take_coded(struct pithi_reader *r, const struct pithi_rowmap *m) {
    const size_t rows = m->rows;
    uint32_t *const which = m->which;
    const uint8_t *const symbols = pithi_piece_take(r, rows, m->buffer);
    const uint64_t bits = symbols ? open_total(symbols, rows) : UINT64_MAX;
    const uint8_t *open =
        bits < UINT64_MAX ? pithi_reader_take(r, pithi_rowmap_bytes_of(bits)) : NULL;
    if (!open) return too_short;
    if (!zero_rest(open, bits)) return wrong_rest;
    open = readable(open_buffer(m->buffer, rows), open, pithi_rowmap_bytes_of(bits));
    /* A new row has a number that is above all. */
    struct {
        uint32_t first, open;
    } class[PITHI_ROWMAP_CLASSES + 1] = {{UINT32_C(1) << 31, 0}};
    for (unsigned k = 1; k <= PITHI_ROWMAP_CLASSES; k++) {
        class[k].first = pithi_rowmap_first(k);
        class[k].open = pithi_rowmap_open(k);
    }
    uint64_t at = 0;
    uint32_t known = 0, above = 0;      /* above: how many numbers are not below `known` */
    for (size_t i = 0; i < rows; i++) { /* has no branches, like put_plain */
        const unsigned symbol = symbols[i], count = class[symbol].open;
        const uint32_t number = class[symbol].first + get_bits(open, at, count);
        which[i] = number < known ? number : known;
        above += number >= known;
        known += symbol == 0;
        at += count;
    }
    if (above != known) return wrong_number;
    return known == m->distinct ? NULL : wrong_count;
}

const char *pithi_rowmap_take(struct pithi_reader *r, const struct pithi_rowmap *m, unsigned kind) {
    const bool none = m->distinct == 1 || m->distinct == m->rows;
    if (kind == PITHI_ROWMAP_NONE && none) {
        number_plainly(m);
        return NULL;
    }
    if (none || kind == PITHI_ROWMAP_NONE || kind > PITHI_ROWMAP_CODED)
        return "a row map of a wrong kind";
    return kind == PITHI_ROWMAP_PLAIN ? take_plain(r, m) : take_coded(r, m);
}
