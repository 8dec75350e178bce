/* nonzero.c - take the zeros out of a tile's codes, and put them back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/nonzero.h"

#include <stdbool.h>
#include <string.h>

#include "common/endian.h"
#include "predict/nonzero_value.h"

/* ---- The map ---------------------------------------------------------------------------------*/

/* Splits up to 8 codes: returns a bit for each that is not 0, and appends these to *to, which has a
 * capacity of one more. */
static uint8_t split8(const int32_t *codes, size_t count, int32_t **to) {
    unsigned bits = 0;
    int32_t *at = *to;
    for (size_t i = 0; i < count; i++) {
        const bool used = codes[i] != 0;
        *at = codes[i];
        at += used;
        bits |= (unsigned)used << i;
    }
    *to = at;
    return (uint8_t)bits;
}

size_t pithi_split_c(const int32_t *codes, size_t count, uint8_t *map, int32_t *nonzero) {
    int32_t *to = nonzero;
    for (size_t i = 0; i < count / 8; i++) map[i] = split8(codes + 8 * i, 8, &to);
    if (count % 8) map[count / 8] = split8(codes + count / 8 * 8, count % 8, &to);
    return (size_t)(to - nonzero);
}

/* Makes up to 8 codes by a byte of the map; returns what follows in `from`. */
static const int32_t *spread8(const int32_t *from, unsigned bits, size_t count, int32_t *codes) {
    for (size_t i = 0; i < count; i++, bits >>= 1) {
        codes[i] = *from & (0 - (int32_t)(bits & 1));
        from += bits & 1;
    }
    return from;
}

/* Bytes of the map that are all zeros or all ones are common: zeros stand together, and so do
 * others. */
void pithi_spread_c(const int32_t *nonzero, const uint8_t *map, size_t count, int32_t *codes) {
    const size_t whole = count / 8;
    for (size_t i = 0; i < whole; i++, codes += 8) {
        if (map[i] == 0) {
            memset(codes, 0, 8 * sizeof *codes);
        } else if (map[i] == 0xFF) {
            memcpy(codes, nonzero, 8 * sizeof *codes);
            nonzero += 8;
        } else {
            nonzero = spread8(nonzero, map[i], 8, codes);
        }
    }
    if (count % 8) spread8(nonzero, map[whole], count % 8, codes);
}

/* ---- Numbers ---------------------------------------------------------------------------------*/

enum pithi_nonzero_form pithi_nonzero_plain(const int32_t *nonzero, size_t count) {
    int32_t all = 0;
    for (size_t i = 0; i < count; i++) all |= nonzero[i];
    return all < 0 ? PITHI_NONZERO_SIGNED : PITHI_NONZERO_POSITIVE;
}

static int32_t number_of(bool positive, int32_t code) {
    return (int32_t)pithi_nonzero_number(positive, (uint32_t)code);
}

void pithi_nonzero_numbers(enum pithi_nonzero_form form, int32_t *nonzero, size_t count) {
    const bool positive = form == PITHI_NONZERO_POSITIVE;
    for (size_t i = 0; i < count; i++) nonzero[i] = number_of(positive, nonzero[i]);
}

void pithi_nonzero_codes(enum pithi_nonzero_form form, int32_t *numbers, size_t count) {
    const bool positive = form == PITHI_NONZERO_POSITIVE;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (int32_t)pithi_nonzero_code(positive, (uint32_t)numbers[i]);
}

/* Codes 1, 2, 3 are words 0, 1, 2 where none is below 0; else an even word is a number that is not
 * below 0, of which the code is one more. */
void pithi_nonzero_from_words(enum pithi_nonzero_form form, const uint32_t *restrict words,
                              size_t count, int32_t *restrict nonzero) {
    if (form == PITHI_NONZERO_POSITIVE)
        for (size_t i = 0; i < count; i++) nonzero[i] = (int32_t)(words[i] + 1);
    else
        for (size_t i = 0; i < count; i++)
            nonzero[i] = (int32_t)(pithi_unzigzag(words[i]) + (~words[i] & 1));
}

/* Returns what a code is expected to be by those of its row and the one above. */
static inline uint32_t expected(const int32_t *codes, size_t i, size_t x, size_t y, size_t width) {
    const int64_t left = x ? codes[i - 1] : 0, up = y ? codes[i - width] : 0;
    return pithi_nonzero_expected(left, up, left && up ? codes[i - width - 1] : 0);
}

static size_t rows_of(const uint32_t extent[PITHI_TILE_NDIM]) {
    return (size_t)extent[0] * extent[1] * extent[2];
}

/* A walk over the ones of a map: where the row of the last one begins, and which row of its plane
 * it is. */
struct walk {
    size_t width, height, row, y;
};

static struct walk walk_from(const uint32_t extent[PITHI_TILE_NDIM], size_t first) {
    const size_t width = extent[3], row = first / width;
    return (struct walk){width, extent[2], row * width, row % extent[2]};
}

static inline uint32_t expect(struct walk *w, const int32_t *codes, size_t i) {
    while (i - w->row >= w->width) {
        w->row += w->width;
        w->y = w->y + 1 == w->height ? 0 : w->y + 1;
    }
    return expected(codes, i, i - w->row, w->y, w->width);
}

/* Returns 64 bits of the map, fewer at its end. */
static uint64_t bits_at(const uint8_t *map, size_t i, size_t count) {
    uint8_t bytes[8] = {0};
    if (count - i >= 64) return pithi_get64(map + i / 8);
    memcpy(bytes, map + i / 8, (count - i + 7) / 8);
    return pithi_get64(bytes);
}

size_t pithi_nonzero_sample(enum pithi_nonzero_form form, const int32_t *codes, const uint8_t *map,
                            const uint32_t extent[PITHI_TILE_NDIM], uint32_t *words) {
    enum { RUN = 256, RUNS = PITHI_NONZERO_SAMPLE / RUN };
    const size_t count = rows_of(extent) * extent[3];
    const size_t step = count > RUN * RUNS ? count / RUNS / 64 * 64 : RUN;
    uint32_t *to = words;
    for (size_t run = 0, first = 0; run < RUNS && first < count; run++, first += step) {
        struct walk w = walk_from(extent, first);
        const size_t end = first + RUN < count ? first + RUN : count;
        for (size_t at = first; at < end; at += 64)
            for (uint64_t bits = bits_at(map, at, count); bits; bits &= bits - 1) {
                const size_t i = at + (size_t)__builtin_ctzll(bits);
                const int32_t number = form == PITHI_NONZERO_MEDIAN
                                           ? (int32_t)((uint32_t)codes[i] - expect(&w, codes, i))
                                           : number_of(form == PITHI_NONZERO_POSITIVE, codes[i]);
                *to++ = pithi_zigzag((uint32_t)number);
            }
    }
    return (size_t)(to - words);
}

void pithi_nonzero_median(const int32_t *codes, const uint8_t *map,
                          const uint32_t extent[PITHI_TILE_NDIM], int32_t *numbers) {
    const size_t count = rows_of(extent) * extent[3];
    struct walk w = walk_from(extent, 0);
    for (size_t at = 0; at < count; at += 64)
        for (uint64_t bits = bits_at(map, at, count); bits; bits &= bits - 1) {
            const size_t i = at + (size_t)__builtin_ctzll(bits);
            *numbers++ = (int32_t)((uint32_t)codes[i] - expect(&w, codes, i));
        }
}

/* ---- Back ------------------------------------------------------------------------------------*/

void pithi_nonzero_from_median(const int32_t *numbers, const uint8_t *map,
                               const uint32_t extent[PITHI_TILE_NDIM], int32_t *codes) {
    const size_t count = rows_of(extent) * extent[3];
    struct walk w = walk_from(extent, 0);
    memset(codes, 0, count * sizeof *codes);
    for (size_t at = 0; at < count; at += 64)
        for (uint64_t bits = bits_at(map, at, count); bits; bits &= bits - 1) {
            const size_t i = at + (size_t)__builtin_ctzll(bits);
            codes[i] = (int32_t)((uint32_t)*numbers++ + expect(&w, codes, i));
        }
}
