/* rowmap.c - maps of rows, plain and coded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "rowmap.h"

#include <string.h>

#include "stage/endian.h"
#include "stage/log2.h"
#include "stage/pad.h"

/* ---- Strings of bits, least significant first ------------------------------------------------*/

/* Appends; the room ends 8 bytes after the string. */
struct bits {
    uint8_t *to;
    uint64_t at;
};

static void put_bits(struct bits *b, uint32_t value, unsigned count) {
    uint8_t *const byte = b->to + b->at / 8;
    const uint64_t kept = *byte & ((1u << b->at % 8) - 1);
    pithi_put64(byte, kept | (uint64_t)value << b->at % 8);
    b->at += count;
}

/* Bits [at, at + count) of a string; count <= 32, bits past its bytes are 0. */
static uint32_t get_bits(const uint8_t *from, size_t bytes, uint64_t at, unsigned count) {
    const size_t byte = (size_t)(at / 8);
    uint64_t window = 0;
    if (byte + 8 <= bytes)
        window = pithi_get64(from + byte);
    else if (byte < bytes)
        memcpy(&window, from + byte, bytes - byte);
    return (uint32_t)(window >> at % 8) & (uint32_t)((UINT64_C(1) << count) - 1);
}

static bool zero_rest(const uint8_t *from, uint64_t bits) {
    return bits % 8 == 0 || from[bits / 8] >> bits % 8 == 0;
}

/* ---- Classes: number + 4 by its length and the two bits after its first ----------------------*/

enum { CLASS_LARGEST = 88 }; /* of numbers below 2^24 */

/* Symbol 0, a new row, leaves none open. */
static unsigned open_bits(unsigned symbol) { return (symbol + 3) / 4 - (symbol > 0); }

static unsigned class_of(uint32_t number) {
    const unsigned open = pithi_bit_length(number + 4) - 3;
    return 4 * open + ((number + 4) >> open & 3) + 1;
}

/* The first number of a class. */
static uint32_t number_of(unsigned symbol) {
    return ((4 + (symbol - 1) % 4) << open_bits(symbol)) - 4;
}

/* ---- Room ------------------------------------------------------------------------------------*/

/* Symbols, and an open string of at most 21 bits for every row. */
size_t pithi_rowmap_room(size_t rows) { return pithi_pad64(rows) + pithi_pad64(3 * rows + 8); }

static uint8_t *open_room(uint8_t *room, size_t rows) { return room + pithi_pad64(rows); }

/* ---- Write -----------------------------------------------------------------------------------*/

static bool put_plain(struct pithi_pen *pen, const uint32_t *which, size_t rows, size_t distinct,
                      uint8_t *room) {
    const unsigned width = pithi_rowmap_width(distinct);
    struct bits map = {room, 0}, numbers = {open_room(room, rows), 0};
    uint32_t known = 0;
    memset(room, 0, pithi_rowmap_bytes_of(rows));
    numbers.to[0] = 0;
    for (size_t i = 0; i < rows; i++) {
        if (which[i] == known) {
            map.to[i / 8] = (uint8_t)(map.to[i / 8] | 1u << i % 8);
            known++;
        } else {
            put_bits(&numbers, which[i], width);
        }
    }
    return pithi_pen_put(pen, map.to, pithi_rowmap_bytes_of(rows)) &&
           pithi_pen_put(pen, numbers.to, pithi_rowmap_bytes_of(numbers.at));
}

static bool put_coded(struct pithi_pen *pen, size_t max_rows, const uint32_t *which, size_t rows,
                      uint8_t *room) {
    struct bits open = {open_room(room, rows), 0};
    uint32_t known = 0;
    open.to[0] = 0;
    for (size_t i = 0; i < rows; i++) { /* new rows come by chance: no branches */
        const uint32_t is_new = which[i] == known;
        const unsigned symbol = is_new ? 0 : class_of(which[i]);
        room[i] = (uint8_t)symbol;
        put_bits(&open, is_new ? 0 : which[i] - number_of(symbol), open_bits(symbol));
        known += is_new;
    }
    return pithi_piece_put(pen, max_rows, room, rows) &&
           pithi_pen_put(pen, open.to, pithi_rowmap_bytes_of(open.at));
}

bool pithi_rowmap_put(struct pithi_pen *pen, size_t max_rows, const uint32_t *which, size_t rows,
                      size_t distinct, bool coded, uint8_t *room, unsigned *kind) {
    *kind = PITHI_ROWMAP_NONE;
    if (distinct == 1 || distinct == rows) return true;
    struct pithi_pen trial = *pen;
    const size_t plain = pithi_rowmap_plain_bytes(rows, distinct);
    if (trial.room >= plain) trial.room = plain - 1;
    if (coded && put_coded(&trial, max_rows, which, rows, room)) {
        *kind = PITHI_ROWMAP_CODED;
        pen->room -= (size_t)(trial.at - pen->at);
        pen->at = trial.at;
        return true;
    }
    *kind = PITHI_ROWMAP_PLAIN;
    return put_plain(pen, which, rows, distinct, room);
}

/* ---- Read ------------------------------------------------------------------------------------*/

static const char *const wrong_number = "a row repeats one that is not before it";
static const char *const wrong_count = "new rows are not as many as the block says";
static const char *const wrong_rest = "bits after the end of a row map are not 0";
static const char *const too_short = "the row map is damaged";

static void number_plainly(size_t rows, size_t distinct, uint32_t *which) {
    for (size_t i = 0; i < rows; i++) which[i] = distinct == 1 ? 0 : (uint32_t)i;
}

static const char *take_plain(struct pithi_reader *r, size_t rows, size_t distinct,
                              uint32_t *which) {
    const unsigned width = pithi_rowmap_width(distinct);
    const uint64_t bits = pithi_rowmap_bits(rows, distinct);
    const uint8_t *const map = pithi_reader_take(r, pithi_rowmap_bytes_of(rows));
    const uint8_t *const numbers = map ? pithi_reader_take(r, pithi_rowmap_bytes_of(bits)) : NULL;
    if (!numbers) return too_short;
    if (!zero_rest(map, rows) || !zero_rest(numbers, bits)) return wrong_rest;
    uint64_t at = 0;
    uint32_t known = 0;
    for (size_t i = 0; i < rows; i++) {
        if (map[i / 8] >> i % 8 & 1) {
            which[i] = known++;
        } else {
            which[i] = get_bits(numbers, pithi_rowmap_bytes_of(bits), at, width);
            at += width;
            if (which[i] >= known) return wrong_number;
        }
    }
    return known == distinct ? NULL : wrong_count;
}

/* Bits that the symbols leave open; UINT64_MAX when one of them is no class. */
static uint64_t open_total(const uint8_t *symbols, size_t rows) {
    uint64_t bits = 0;
    unsigned largest = 0;
    for (size_t i = 0; i < rows; i++) {
        bits += open_bits(symbols[i]);
        if (symbols[i] > largest) largest = symbols[i];
    }
    return largest > CLASS_LARGEST ? UINT64_MAX : bits;
}

static const char *take_coded(struct pithi_reader *r, size_t max_rows, size_t rows, size_t distinct,
                              uint32_t *which, uint8_t *room) {
    const uint8_t *const symbols = pithi_piece_take(r, max_rows, rows, room);
    const uint64_t bits = symbols ? open_total(symbols, rows) : UINT64_MAX;
    const uint8_t *const open =
        bits < UINT64_MAX ? pithi_reader_take(r, pithi_rowmap_bytes_of(bits)) : NULL;
    if (!open) return too_short;
    if (!zero_rest(open, bits)) return wrong_rest;
    uint64_t at = 0;
    uint32_t known = 0, wrong = 0;
    for (size_t i = 0; i < rows; i++) { /* as above */
        const unsigned symbol = symbols[i], count = open_bits(symbol);
        const uint32_t is_new = symbol == 0;
        const uint32_t earlier =
            number_of(symbol) + get_bits(open, pithi_rowmap_bytes_of(bits), at, count);
        which[i] = is_new ? known : earlier;
        wrong |= (earlier >= known) & !is_new;
        known += is_new;
        at += count;
    }
    if (wrong) return wrong_number;
    return known == distinct ? NULL : wrong_count;
}

const char *pithi_rowmap_take(struct pithi_reader *r, size_t max_rows, unsigned kind, size_t rows,
                              size_t distinct, uint32_t *which, uint8_t *room) {
    const bool none = distinct == 1 || distinct == rows;
    if (kind == PITHI_ROWMAP_NONE && none) {
        number_plainly(rows, distinct, which);
        return NULL;
    }
    if (none || kind == PITHI_ROWMAP_NONE || kind > PITHI_ROWMAP_CODED)
        return "a row map of a wrong kind";
    if (kind == PITHI_ROWMAP_PLAIN) return take_plain(r, rows, distinct, which);
    return take_coded(r, max_rows, rows, distinct, which, room);
}
