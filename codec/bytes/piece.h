/* piece.h - byte strings of known length, each stored in one of five forms, as is short.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plain, one repeated byte, a coded string (bytes/entropy.h), a rANS string (bytes/rans.h), or the
 * bytes that are not 0 behind a bitmap, itself a piece. doc/FORMAT.md, Piece, has the layout. */
#ifndef PITHI_BYTES_PIECE_H
#define PITHI_BYTES_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes/rans.h"

struct pithi_entropy;

/* Where pieces are written to and read from, and the memory that this takes. */
struct pithi_pen {
    uint8_t *at;
    size_t capacity;
    int effort;
    void *scratch;
    struct pithi_entropy *coder;  /* for strings as long as pieces, at this effort: at effort RANS
                                  * no piece is a coded string */
    pithi_rans_encode_fn *rans;   /* NULL: no piece may be a rANS string */
    pithi_symbol_count_fn *count; /* NULL: the reference */
    bool quick;                   /* rANS strings are, see pithi_rans_plan */
};
struct pithi_reader {
    const uint8_t *at;
    size_t left;
    void *scratch;
    struct pithi_entropy *coder;
    pithi_rans_decode_fn *rans; /* NULL: no piece may be a rANS string */
};

/* Return the bytes of scratch memory, 64-byte aligned, for pieces of at most max_bytes: to write
 * and read them, and, less, to read only. */
size_t pithi_piece_scratch(size_t max_bytes);
size_t pithi_piece_take_scratch(size_t max_bytes);
/* Writes a piece of n bytes, 0 < n < 2^24+1. False when it does not fit; then bytes up to
 * pen->capacity may have been written. */
bool pithi_piece_put(struct pithi_pen *pen, size_t max_bytes, const uint8_t *src, size_t n);
/* Whether a piece that was written is a coded string, so that zstd found what repeats. */
bool pithi_piece_repeats(const uint8_t *piece);
/* Reads the n bytes of a piece, in buffer (n bytes) or where they lie; NULL when it is damaged. */
const uint8_t *pithi_piece_take(struct pithi_reader *r, size_t n, uint8_t *buffer);
/* Writes n places: the next of the bytes where the bitmap has a one, else 0. The bytes may be the
 * last ones of these places. */
void pithi_piece_scatter(uint8_t *to, const uint8_t *bitmap, size_t n, const uint8_t *bytes);

/* Write and read bytes as they are; false or NULL when there are not so many. */
bool pithi_pen_put(struct pithi_pen *pen, const uint8_t *src, size_t bytes);
const uint8_t *pithi_reader_take(struct pithi_reader *r, size_t bytes);

#endif
