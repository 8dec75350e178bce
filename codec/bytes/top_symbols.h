/* top_symbols.h - words of floats cut in two: the upper bits as a symbol, the lower ones as bits.
 * SPDX-License-Identifier: Apache-2.0  The exponent and the first bits of the mantissa are worth
 * an entropy coder, the others are noise. Words are those of bytes/update.h without a base: the
 * exponent on top, the sign in bit 0. */
#ifndef PITHI_BYTES_TOP_SYMBOLS_H
#define PITHI_BYTES_TOP_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words of `width` bytes have `low` lower bits. The rest of a word, its top, has 16 bits at most.
 * A top of 0 has the symbol 0; one from base + 1 to base + 254 the symbol top - base; every other
 * one has the symbol ESCAPE and stands beside. */
enum { PITHI_TOP_ESCAPE = 255 };
struct pithi_top {
    unsigned width, low;
    uint32_t base;
};

/* A choice of a cut: `top`, where `pays` says that whole bytes are expected to take more, and
 * `finer`, whose tops have a bit of the mantissa at least. finer_loss is what this one is expected
 * to take more than the shortest way, in 1/256 bit. */
struct pithi_top_choice {
    struct pithi_top top, finer;
    bool pays;
    uint64_t finer_loss;
};
/* Chooses cuts for words of this dtype from a sample of them. False where they are too few, or the
 * dtype has no exponent. */
bool pithi_top_choose(struct pithi_top_choice *choice, const void *words, uint32_t dtype,
                      size_t count);
/* Cuts words: `symbols` gets a byte for each; `planes` low / 8 strings of count bytes, the lower
 * bits, least significant first; `bits` the other low % 8 bits, one number to a byte, filled up
 * with 0 to a multiple of 8; `escapes` the tops of symbols ESCAPE. Returns how many these are. */
typedef size_t pithi_top_cut_fn(const struct pithi_top *top, const void *words, size_t count,
                                uint8_t *symbols, uint8_t *planes, uint8_t *bits,
                                uint16_t *escapes);
pithi_top_cut_fn pithi_top_cut_c;
/* Returns how many symbols are ESCAPE. */
size_t pithi_top_escapes(const uint8_t *symbols, size_t count);
/* Whether each of `count` little-endian tops has no more bits than a top of these words. */
bool pithi_top_fit(const struct pithi_top *top, const uint8_t *tops, size_t count);
/* Makes the values whose words these are: each rotated right by a bit. `planes` may lie anywhere,
 * `string` has the low % 8 bits of each word, as pithi_top_pack packs them, and `escapes` as many
 * tops that fit as there are symbols ESCAPE, little-endian. */
typedef void pithi_top_join_fn(const struct pithi_top *top, void *values, size_t count,
                               const uint8_t *symbols, const uint8_t *const *planes,
                               const uint8_t *string, const uint8_t *escapes);
pithi_top_join_fn pithi_top_join_c;

/* Returns the bytes of a string of the low % 8 bits. */
static inline size_t pithi_top_bits_bytes(const struct pithi_top *top, size_t count) {
    return (count + 7) / 8 * (top->low % 8);
}
/* Pack numbers of `width` bits, 1..7, one to a byte, to a code string, and back, eight at a time;
 * those after the last one are 0, and ignored. pack writes 7 bytes more than the string has. */
void pithi_top_pack(uint8_t *string, const uint8_t *bits, unsigned width, size_t count);
void pithi_top_unpack(uint8_t *bits, const uint8_t *string, unsigned width, size_t count);

#endif
