/* index.h - a set of elements of a block as bytes: the shortest of several forms.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, section 5.9, defines the forms. A block has n elements, 1..2^24, of which count
 * belong to the set; both are known before the bytes are read. */
#ifndef PITHI_SPARSE_INDEX_H
#define PITHI_SPARSE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "sparse/select.h"

enum pithi_index_form {
    PITHI_INDEX_EMPTY,      /* no element; no bytes */
    PITHI_INDEX_ALL,        /* every element; no bytes */
    PITHI_INDEX_BITMAP,     /* a bit for each element */
    PITHI_INDEX_ELIAS_FANO, /* low bits as they are, high bits in unary */
    PITHI_INDEX_PACKED,     /* differences in groups of 128, each with its width */
    PITHI_INDEX_RUNS,       /* lengths of gaps and runs */
    PITHI_INDEX_HELD,       /* the set that both ends hold; no bytes */
    PITHI_INDEX_PATCHED,    /* PACKED, with few differences wider than their group */
    PITHI_INDEX_FORMS
};

/* A set: the map, of ceil(n / 64) words, and where the form has one (pithi_index_is_listed), the
 * list of its elements in ascending order. */
struct pithi_index_set {
    uint64_t *map;
    uint32_t *list; /* capacity: pithi_index_list_most(n) + PITHI_INDEX_SLACK */
    size_t n, count;
};

/* Forms that list elements hold no more than this many: with more, a map is not longer. */
static inline size_t pithi_index_list_most(size_t n) { return n / 4 + 1; }
static inline bool pithi_index_is_listed(enum pithi_index_form form) {
    return form == PITHI_INDEX_ELIAS_FANO || form == PITHI_INDEX_PACKED ||
           form == PITHI_INDEX_PATCHED;
}

struct pithi_index_choice {
    enum pithi_index_form form;
    uint32_t low_bits; /* ELIAS_FANO: bits of each number that are stored as they are; else 0 */
    size_t bytes;
    bool written; /* by the choice */
};

struct pithi_kernels;
/* What a setting lets the choice take. */
struct pithi_index_setting {
    bool elias_fano, patched;
};
/* Returns the most bytes that a choice for n elements can have. */
static inline size_t pithi_index_most(size_t n) { return (n + 7) / 8; }
/* Finds the shortest form, of several the first: EMPTY, ALL, BITMAP, ELIAS_FANO (of several
 * low_bits the least), PACKED or, where that is shorter, PATCHED, and RUNS. The set has a map and,
 * where count is at most pithi_index_list_most(n), a list. May write pithi_index_most(n) bytes at
 * `to`: a form that is written while it is measured. */
struct pithi_index_choice pithi_index_choose(const struct pithi_kernels *kernels,
                                             const struct pithi_index_set *set,
                                             struct pithi_index_setting setting, uint8_t *to);
/* Writes the chosen form of the set that it was chosen for, to where the choice may have written:
 * choice->bytes bytes, and none behind them. */
void pithi_index_put(const struct pithi_kernels *kernels, const struct pithi_index_choice *choice,
                     const struct pithi_index_set *set, uint8_t *to);
/* Reads a form other than HELD with n and count (0..n) given in the set: fills the list of forms
 * that have one, else the map, and sets *used to the bytes read. Returns NULL, or what is wrong
 * with the bytes: any are safe, also with any low_bits. What was filled in then means nothing. */
const char *pithi_index_take(const struct pithi_kernels *kernels, enum pithi_index_form form,
                             uint32_t low_bits, const uint8_t *bytes, size_t length,
                             struct pithi_index_set *set, size_t *used);

/* ---- Kernels, each with its reference in index.c --------------------------------------------- */

enum {
    PITHI_INDEX_BITS_MAX = 24, /* of a number below 2^24: no difference is wider */
    PITHI_PACKED_GROUP = 128,
    /* A group's byte: its width and, from this bit on, how many of its differences are exceptions,
     * of which there are two bytes each. */
    PITHI_PATCHED_SHIFT = 5,
    PITHI_PATCHED_BITS_MAX =
        16,                 /* of a group that has exceptions: 8 bits more are no more than 24 */
    PITHI_PATCHED_MOST = 7, /* exceptions of a group */
    PITHI_PATCHED_LESS = 4, /* by how many bits at most the choice narrows a group */
    /* A group whose largest difference has so many bits is not narrowed for less than so many bytes
     * of its 256 and more: exceptions take time. */
    PITHI_PATCHED_WIDE = 16,
    PITHI_PATCHED_WIDE_SAVES = 12
};

static inline size_t pithi_elias_fano_low_bytes(size_t count, unsigned low_bits) {
    return (count * low_bits + 7) / 8;
}
static inline size_t pithi_elias_fano_high_bits(size_t n, size_t count, unsigned low_bits) {
    return count + ((n - 1) >> low_bits);
}
static inline size_t pithi_elias_fano_bytes(size_t n, size_t count, unsigned low_bits) {
    return pithi_elias_fano_low_bytes(count, low_bits) +
           (pithi_elias_fano_high_bits(n, count, low_bits) + 7) / 8;
}

/* Writes a list of 1 <= count numbers, which ascend and are below n, as ELIAS_FANO with low_bits
 * below PITHI_INDEX_BITS_MAX: pithi_elias_fano_bytes, and none behind them. */
typedef void pithi_elias_fano_put_fn(const uint32_t *list, size_t count, size_t n,
                                     unsigned low_bits, uint8_t *to);
/* Reads as many bytes; writes up to PITHI_INDEX_SLACK numbers behind the count of the list. Returns
 * false for bytes that are no such list, what is in the list then being of no meaning. */
typedef bool pithi_elias_fano_take_fn(const uint8_t *bytes, size_t count, size_t n,
                                      unsigned low_bits, uint32_t *list);

/* Writes the low `bits` bits of each number, at most 24, as a code string; returns its end. */
uint8_t *pithi_code_string_put_c(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to);

static inline size_t pithi_packed_groups(size_t count) {
    return (count + PITHI_PACKED_GROUP - 1) / PITHI_PACKED_GROUP;
}
PITHI_INLINE unsigned pithi_packed_width(unsigned byte) {
    return byte & ((1u << PITHI_PATCHED_SHIFT) - 1);
}
PITHI_INLINE unsigned pithi_packed_exceptions(unsigned byte) { return byte >> PITHI_PATCHED_SHIFT; }
/* Returns the bytes of a group's differences: also those of a whole group, which are laid out as
 * four lanes. */
PITHI_INLINE size_t pithi_packed_string(size_t count, unsigned byte) {
    return (count * pithi_packed_width(byte) + 7) / 8;
}
/* Returns the same with the exceptions behind them. */
PITHI_INLINE size_t pithi_packed_bytes(size_t count, unsigned byte) {
    return pithi_packed_string(count, byte) + 2 * pithi_packed_exceptions(byte);
}
/* Returns the byte that the choice gives a whole group whose largest difference has `bits` bits.
 * Byte k of `wider` is how many differences have bits - k or more, k < PITHI_PATCHED_LESS. */
PITHI_INLINE unsigned pithi_patched_byte(unsigned bits, uint32_t wider) {
    /* Bit 7 of bytes up to 7, of differences that may be exceptions: a bit less saves 16 bytes, and
     * exceptions take 14 at most. No sum leaves its byte. */
    const uint32_t few = ~(wider + 0x78787878u) & 0x80808080u;
    const unsigned less = (few >> 7) * 0x01010101u >> 24, width = bits - less;
    const unsigned exceptions = (unsigned)((uint64_t)wider << 8 >> 8 * less & 0xFF);
    const bool saves =
        bits < PITHI_PATCHED_WIDE || 16 * less >= 2 * exceptions + PITHI_PATCHED_WIDE_SAVES;
    return !saves || width > PITHI_PATCHED_BITS_MAX ? bits
                                                    : width | exceptions << PITHI_PATCHED_SHIFT;
}

struct pithi_list_measure {
    size_t packed; /* bytes as PACKED or, where a group has exceptions, as PATCHED */
    size_t runs, exceptions;
    size_t far; /* differences of 256 and more: gaps before runs, for which RUNS takes two bytes */
};
/* Writes a list of 1 <= count numbers, which ascend and are below 2^24, as PACKED or, where the
 * form may be PATCHED, with exceptions in whole groups; measures it. Of a list that takes more
 * bytes than the capacity, what is written within it means nothing. */
typedef struct pithi_list_measure pithi_packed_put_fn(const uint32_t *list, size_t count,
                                                      bool patched, uint8_t *to, size_t capacity);
/* Reads the bytes of all groups, of which pithi_index_take has checked each by itself, and the
 * groups that follow them, all within `length` bytes; writes up to PITHI_INDEX_SLACK numbers behind
 * the count of the list. Returns false for bytes that are no such list of numbers below n. */
typedef bool pithi_packed_take_fn(const uint8_t *bytes, size_t length, size_t count, size_t n,
                                  uint32_t *list);

pithi_elias_fano_put_fn pithi_elias_fano_put_c;
pithi_elias_fano_take_fn pithi_elias_fano_take_c;
pithi_packed_put_fn pithi_packed_put_c;
pithi_packed_take_fn pithi_packed_take_c;

#endif
