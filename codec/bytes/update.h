/* update.h - exact differences of ordered values as small unsigned words, and their symbols.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A word is an unsigned integer of the dtype's width, small where the value is near its base (or,
 * without a base, where a signed integer is near 0). doc/FORMAT.md, codec lossless, defines the
 * maps; every one is a bijection on bit patterns, so NaN payloads and -0 survive. */
#ifndef PITHI_BYTES_UPDATE_H
#define PITHI_BYTES_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a dtype has sign and magnitude: every float has, no integer. */
bool pithi_is_ordered(uint32_t dtype);
/* Makes words from count values and their base, or (base NULL) from the values alone. Words
 * are aligned to their type, the others lie at any address. */
void pithi_words_from(void *words, const void *values, const void *base, uint32_t dtype,
                      size_t count);
/* Makes values from words: the inverse. values and base may be the same memory. */
void pithi_words_to(void *values, const void *words, const void *base, uint32_t dtype,
                    size_t count);

/* A symbol of 1, 2, 4 or 8 bits stands for a word below its escape, 2^bits - 1, or is the escape;
 * then the word less the escape follows in the array of escapes. With 0 bits there are no symbols,
 * and every word is an escape. Symbol i is at bits [i*bits, (i+1)*bits) of a little-endian bit
 * string. */
static inline size_t pithi_symbol_bytes(size_t count, unsigned bits) {
    return (count * bits + 7) / 8;
}
/* Returns the bits to use for these words. */
unsigned pithi_symbol_choose(const void *words, size_t width, size_t count);
/* Makes symbols of words; returns the number of escapes. work has count rounded up to 8 bytes.
 * words and escapes may be the same memory, of count words. */
size_t pithi_symbols_from(uint8_t *symbols, void *escapes, const void *words, size_t width,
                          unsigned bits, size_t count, uint8_t *work);
/* Writes symbols one to a byte to work (count rounded up to 8 bytes) and returns the escapes among
 * them. The last byte's unused bits must be 0, else the result is SIZE_MAX. */
size_t pithi_symbols_spread(uint8_t *work, const uint8_t *symbols, unsigned bits, size_t count);
/* Makes words of spread symbols. escapes has a capacity of count words, whatever the symbols ask
 * for. */
void pithi_symbols_to(void *words, const uint8_t *work, const void *escapes, size_t width,
                      unsigned bits, size_t count);

/* An update of `count` values of `width` bytes, from `base`, as blocks code it whose symbols have
 * 8 bits. Arrays of values lie at any address, escapes at one that words may have; values and base
 * may be the same memory. */
struct pithi_update {
    const void *base;
    size_t count;
    unsigned width;
    bool ordered; /* pithi_is_ordered of the dtype */
};
/* Makes symbols and escapes of the words that pithi_words_from makes. Returns the number of
 * escapes, or stops and returns some number above `most`. `escapes` has a capacity of count words
 * and 64 bytes, all of which may be written to. */
typedef size_t pithi_update_cut_fn(const struct pithi_update *u, const void *values, size_t most,
                                   uint8_t *symbols, void *escapes);
/* Makes values again. `escapes` has as many words as there are symbols 255, and 64 bytes more that
 * may be read. */
typedef void pithi_update_join_fn(const struct pithi_update *u, void *values,
                                  const uint8_t *symbols, const void *escapes);
/* Write the words as byte planes, the least significant first, and make values of these. */
typedef void pithi_update_split_fn(const struct pithi_update *u, const void *values,
                                   uint8_t *const *planes);
typedef void pithi_update_merge_fn(const struct pithi_update *u, void *values,
                                   const uint8_t *const *planes);
pithi_update_cut_fn pithi_update_cut_c;
pithi_update_join_fn pithi_update_join_c;
pithi_update_split_fn pithi_update_split_c;
pithi_update_merge_fn pithi_update_merge_c;

#endif
