/* word_value.h - what words of lossless are made of: the kinds of dtypes, and one word.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: update.c, and the CUDA kernels. */
#ifndef PITHI_BYTES_WORD_VALUE_H
#define PITHI_BYTES_WORD_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/inline.h"
#include "pith/pith.h"

/* FLOATS have a sign and a magnitude. */
enum pithi_word_kind { PITHI_WORD_UNSIGNED, PITHI_WORD_SIGNED, PITHI_WORD_FLOATS };

PITHI_INLINE enum pithi_word_kind pithi_word_kind_of(uint32_t dtype) {
    switch (dtype) {
    case PITH_U8:
    case PITH_U16:
    case PITH_U32:
    case PITH_U64:
    case PITH_BOOL: return PITHI_WORD_UNSIGNED;
    case PITH_I8:
    case PITH_I16:
    case PITH_I32:
    case PITH_I64: return PITHI_WORD_SIGNED;
    default: return PITHI_WORD_FLOATS;
    }
}

/* Return the word of a value of so many bits without a base, and the value of a word; neither has
 * bits above. */
PITHI_INLINE uint64_t pithi_word_from_value(uint64_t value, enum pithi_word_kind kind,
                                            unsigned bits) {
    const uint64_t all = ~UINT64_C(0) >> (64 - bits), top = value >> (bits - 1);
    if (kind == PITHI_WORD_UNSIGNED) return value;
    if (kind == PITHI_WORD_SIGNED) return (value << 1 ^ (0 - top)) & all;
    return (value << 1 | top) & all;
}
PITHI_INLINE uint64_t pithi_word_to_value(uint64_t word, enum pithi_word_kind kind, unsigned bits) {
    const uint64_t all = ~UINT64_C(0) >> (64 - bits), low = word & 1;
    if (kind == PITHI_WORD_UNSIGNED) return word;
    if (kind == PITHI_WORD_SIGNED) return (word >> 1 ^ (0 - low)) & all;
    return word >> 1 | low << (bits - 1);
}

/* A number of so many bits that grows with the value of a float, whose bits are given; and back. */
PITHI_INLINE uint64_t pithi_word_order(uint64_t u, unsigned bits) {
    const uint64_t top = UINT64_C(1) << (bits - 1), all = top | (top - 1);
    return u & top ? u ^ all : u | top;
}
PITHI_INLINE uint64_t pithi_word_unorder(uint64_t o, unsigned bits) {
    const uint64_t top = UINT64_C(1) << (bits - 1), all = top | (top - 1);
    return o & top ? o ^ top : o ^ all;
}
/* Return the word of a value with a base, and the value. */
PITHI_INLINE uint64_t pithi_word_from_update(uint64_t value, uint64_t base,
                                             enum pithi_word_kind kind, unsigned bits) {
    const uint64_t all = ~UINT64_C(0) >> (64 - bits);
    uint64_t d = value - base;
    if (kind == PITHI_WORD_FLOATS) d = pithi_word_order(value, bits) - pithi_word_order(base, bits);
    return (d << 1 ^ (0 - (d >> (bits - 1) & 1))) & all;
}
PITHI_INLINE uint64_t pithi_word_to_update(uint64_t word, uint64_t base, enum pithi_word_kind kind,
                                           unsigned bits) {
    const uint64_t all = ~UINT64_C(0) >> (64 - bits), d = word >> 1 ^ (0 - (word & 1));
    if (kind != PITHI_WORD_FLOATS) return (base + d) & all;
    return pithi_word_unorder((pithi_word_order(base, bits) + d) & all, bits);
}

/* Runs of the values of a block that are a sample of them, and the fewest of a block that has one:
 * whether its values may take less than an update of `length` bytes. Where the sample takes 1/32
 * more than its share of that, they do not. */
enum { PITHI_VALUES_RUN = 512, PITHI_VALUES_RUNS = 8 };
enum { PITHI_VALUES_SAMPLE = PITHI_VALUES_RUN * PITHI_VALUES_RUNS };
enum { PITHI_VALUES_LEAST = 8 * PITHI_VALUES_SAMPLE };
PITHI_INLINE bool pithi_values_may_pay(uint64_t taken, uint64_t count, uint64_t length) {
    return taken * (count / PITHI_VALUES_SAMPLE) <= length + length / 32;
}

/* Which symbols words have: the bits of one, as measured sizes of neighbouring choices cross on
 * weights at many step sizes; 0: none. escapes: of `count` words those that are escapes with
 * symbols of 1, 2, 4 and 8 bits. */
PITHI_INLINE unsigned pithi_symbol_bits(const uint64_t escapes[4], unsigned width, uint64_t count) {
    if (escapes[0] <= count / 8) return 1;
    if (escapes[1] <= count / 4) return 2;
    if (escapes[2] <= count / 8) return 4;
    return width > 1 && escapes[3] <= count / 4 ? 8 : 0;
}

#endif
