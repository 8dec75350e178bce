/* symbols.h - words of 32 bits, most of them small, as byte strings that are coded.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Low bits that are noise stay bits; the rest of every word is a byte symbol, large ones going to
 * a list; symbols that are mostly 0 are coded as gaps between others (doc/FORMAT.md, Coded
 * words). */
#ifndef PITHI_BYTES_SYMBOLS_H
#define PITHI_BYTES_SYMBOLS_H

#include "bytes/piece.h"
#include "predict/bitplane.h"

struct pithi_kernels;

/* Cuts words in their `low` lower bits, 24 at most, and what is above, a symbol: at most ESCAPE,
 * which stands for all that is not below it. `bits` is not written where low is 0. Returns how many
 * symbols are ESCAPE. */
enum { PITHI_SYMBOLS_ESCAPE = 255 };
typedef size_t pithi_symbols_cut_fn(const uint32_t *words, size_t count, unsigned low,
                                    uint8_t *symbols, uint32_t *bits);
/* Puts symbols above the low bits that words hold; with no low bits words are not read. */
typedef void pithi_symbols_join_fn(const uint8_t *symbols, size_t count, unsigned low,
                                   uint32_t *words);
/* Writes the bit length of each word, 0 to 32. */
typedef void pithi_symbols_lengths_fn(const uint32_t *words, size_t count, uint8_t *lengths);
pithi_symbols_cut_fn pithi_symbols_cut_c;
pithi_symbols_join_fn pithi_symbols_join_c;
pithi_symbols_lengths_fn pithi_symbols_lengths_c;

/* Returns the bytes of scratch memory, 64-byte aligned, for at most max_count words. */
size_t pithi_symbols_scratch(size_t max_count);
/* Appends count words, 0 < count <= 2^24. False when they do not fit. */
bool pithi_symbols_put(struct pithi_pen *pen, size_t max_count, const struct pithi_kernels *kernels,
                       const uint32_t *words, size_t count);
/* Words that are made when they are asked for, and may be asked for again: returns words [at, at +
 * n), n <= 1024, in `to` or where they lie. */
struct pithi_word_source {
    const uint32_t *(*make)(const void *arg, size_t at, size_t n, uint32_t *to);
    const void *arg;
};
/* Appends the words of a source, as the call above does. */
bool pithi_symbols_put_from(struct pithi_pen *pen, size_t max_count,
                            const struct pithi_kernels *kernels,
                            const struct pithi_word_source *from, size_t count);
/* Returns about how many bytes `total` words take of which these few, at least one, are a sample.
 */
size_t pithi_symbols_estimate(const struct pithi_kernels *kernels, const uint32_t *words,
                              size_t count, size_t total);
/* Returns the bytes of scratch memory for reading alone, which are less. */
size_t pithi_symbols_take_scratch(size_t max_count);
/* Words that are read in parts: bits, symbols and escapes are those of the next word. */
struct pithi_symbols {
    const struct pithi_kernels *kernels;
    const uint8_t *bits, *symbols, *escapes;
    size_t left; /* bytes from `bits` to the end of what may be read */
    unsigned low;
    bool escaped; /* some symbol stands for a word in escapes */
};
/* Begins to read words. Returns NULL, or what is wrong; any bytes are safe. r's bytes and scratch
 * stay in use. */
const char *pithi_symbols_open(struct pithi_symbols *c, struct pithi_reader *r,
                               const struct pithi_kernels *kernels, size_t count);
/* Reads the next `count` words, whole groups of PITHI_BITPLANE_GROUP unless they are the last.
 * `words` has a capacity of whole groups. */
void pithi_symbols_next(struct pithi_symbols *c, size_t count, uint32_t *words);
/* Reads all words at once. */
const char *pithi_symbols_take(struct pithi_reader *r, const struct pithi_kernels *kernels,
                               uint32_t *words, size_t count);

#endif
