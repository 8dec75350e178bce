/* code_symbols.h - codes of the group quantizer as symbols of a byte each, for entropy coding.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_CODE_SYMBOLS_H
#define PITHI_GROUP_CODE_SYMBOLS_H

#include "bytes/piece.h"

/* Whether codes are entropy-coded one to a byte: by rANS all are, by zstd only those of widths that
 * straddle bytes. zstd is slow, and sees the others well enough where they lie. */
static inline bool pithi_codes_take_bytes(bool rans, uint32_t bits) { return rans || 8 % bits; }
/* Turn codes into symbols and back. The second returns the bits of all symbols, which are codes
 * where none has a bit above `bits`. */
void pithi_codes_to_symbols(unsigned bits, const uint8_t *codes, size_t count, uint8_t *symbols);
uint32_t pithi_symbols_to_codes(unsigned bits, const uint8_t *symbols, size_t count,
                                uint8_t *codes);

/* `count` strings of `codes` codes each, of which the next begins `stride` bytes after the one
 * before. */
struct pithi_code_strings {
    uint8_t *at;
    size_t count, codes, stride;
    unsigned bits;
};

/* Writes the codes as entropy-coded codes (doc/FORMAT.md), in at most pen->capacity bytes. False
 * when they do not fit; `symbols` has a capacity of a byte for each code. */
bool pithi_codes_put(struct pithi_pen *pen, const struct pithi_code_strings *s, uint8_t *symbols);
/* Reads entropy-coded codes into their strings. Returns NULL, or what is wrong; any bytes are
 * safe. */
const char *pithi_codes_take(struct pithi_reader *r, const struct pithi_code_strings *s,
                             uint8_t *symbols);

#endif
