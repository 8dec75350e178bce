/* rows_value.h - the arithmetic of rows that are coded once: the centre of a column, and what a map
 * of rows takes; rows.c, row_map.c and device kernels are made of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_ROWS_VALUE_H
#define PITHI_PREDICT_ROWS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "common/log2.h"
#include "predict/lorenzo.h"

/* ---- Blocks ----------------------------------------------------------------------------------*/

/* A block begins with the kind of its row map and more, and the number of distinct rows less 1. */
enum {
    PITHI_ROWS_MAP = 0x03,
    PITHI_ROWS_CODED = 0x04,
    PITHI_ROWS_CENTRE = 0x30,
    PITHI_ROWS_CENTRE_SHIFT = 4,
    PITHI_ROWS_HEAD = 4
};

/* Returns the head's first byte; a centre has 0, 1, 2 or 4 bytes. */
PITHI_INLINE uint32_t pithi_rows_head(uint32_t kind, bool coded, uint32_t bytes) {
    return kind | (coded ? PITHI_ROWS_CODED : 0u) |
           (bytes == 4 ? 3 : bytes) << PITHI_ROWS_CENTRE_SHIFT;
}
PITHI_INLINE uint32_t pithi_rows_centre_bytes(uint32_t head) {
    const uint32_t code = (head & PITHI_ROWS_CENTRE) >> PITHI_ROWS_CENTRE_SHIFT;
    return code == 3 ? 4 : code;
}
/* Reads a centre of so many bytes, 1, 2 or 4, in two's complement. */
PITHI_INLINE uint32_t pithi_rows_centre_of(uint32_t x, uint32_t bytes) {
    const uint32_t sign = 1u << (8 * bytes - 1);
    return (x ^ sign) - sign;
}

/* ---- Maps of rows ----------------------------------------------------------------------------*/

enum pithi_rowmap_kind {
    PITHI_ROWMAP_NONE,  /* all rows are new, or all but the first are repeats of it */
    PITHI_ROWMAP_PLAIN, /* the map has something to say */
    PITHI_ROWMAP_CODED
};

PITHI_INLINE size_t pithi_rowmap_bytes_of(uint64_t bits) { return (size_t)((bits + 7) / 8); }

/* These return what a PLAIN map takes: bits of a number, and of all numbers. */
PITHI_INLINE unsigned pithi_rowmap_width(size_t distinct) {
    return pithi_bit_length((uint32_t)(distinct - 1));
}
PITHI_INLINE uint64_t pithi_rowmap_bits(size_t rows, size_t distinct) {
    return (uint64_t)(rows - distinct) * pithi_rowmap_width(distinct);
}
PITHI_INLINE size_t pithi_rowmap_plain_bytes(size_t rows, size_t distinct) {
    return pithi_rowmap_bytes_of(rows) + pithi_rowmap_bytes_of(pithi_rowmap_bits(rows, distinct));
}

/* Classes of CODED maps: number + 4 by its length and the two bits after its first. The last is
 * that of the largest numbers below 2^24. Symbol 0, which says that a row is new, counts as
 * class 1. */
enum { PITHI_ROWMAP_CLASSES = 88 };
PITHI_INLINE unsigned pithi_rowmap_class_in(unsigned symbol) { return symbol - (symbol > 0); }
PITHI_INLINE unsigned pithi_rowmap_open(unsigned symbol) {
    return pithi_rowmap_class_in(symbol) / 4;
}
PITHI_INLINE unsigned pithi_rowmap_class(uint32_t number) {
    const unsigned open = pithi_bit_length(number + 4) - 3;
    return 4 * open + ((number + 4) >> open & 3) + 1;
}
/* Returns the first number of a class. */
PITHI_INLINE uint32_t pithi_rowmap_first(unsigned symbol) {
    return ((4 + pithi_rowmap_class_in(symbol) % 4) << pithi_rowmap_open(symbol)) - 4;
}

/* ---- Centres ---------------------------------------------------------------------------------*/

enum { PITHI_ROWS_SAMPLES = 64 };

/* The distinct rows whose mean is taken: the first and each that comes `every` rows later. Rows as
 * far apart, from `other` on, judge it. */
struct pithi_rows_sample {
    size_t every, count, other;
};
PITHI_INLINE struct pithi_rows_sample pithi_rows_sample_of(size_t rows) {
    struct pithi_rows_sample s;
    s.every = (rows + PITHI_ROWS_SAMPLES - 1) / PITHI_ROWS_SAMPLES;
    s.count = (rows + s.every - 1) / s.every;
    s.other = (s.count - 1) * s.every + s.every / 2 < rows ? s.every / 2 : 0;
    return s;
}

/* Returns the mean of `count` codes, from their sum mod 2^32. */
PITHI_INLINE int32_t pithi_rows_mean(uint32_t sum, size_t count) {
    const int32_t n = (int32_t)count, all = (int32_t)sum;
    return (int32_t)(((int64_t)all + (all < 0 ? -(n / 2) : n / 2)) / n);
}

/* Returns the bytes that hold each centre; largest is the largest of their zigzag, or all of those
 * or-ed. */
PITHI_INLINE unsigned pithi_rows_centre_width(uint32_t largest) {
    return largest < 1u << 8 ? 1 : largest < 1u << 16 ? 2 : 4;
}

/* Returns the bits that a sample's code takes. */
PITHI_INLINE uint64_t pithi_rows_cost(uint32_t code) {
    return pithi_bit_length(pithi_zigzag(code));
}

/* Whether centres of so many bytes are worth it, by the bits of the samples without and with
 * them. */
PITHI_INLINE bool pithi_rows_pays(uint64_t without, uint64_t with, size_t every, unsigned bytes,
                                  size_t dim) {
    return without > with && (without - with) * every > 8u * bytes * dim;
}

#endif
