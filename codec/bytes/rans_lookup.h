/* rans_lookup.h - what loops look up of rANS symbols: bytes, and words by slot or by symbol.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In tables of bytes, numbers have their low bytes in the first row and their high ones in the
 * second. */
#ifndef PITHI_BYTES_RANS_LOOKUP_H
#define PITHI_BYTES_RANS_LOOKUP_H

#include <string.h>

#include "bytes/rans.h"

/* ---- Decode ----------------------------------------------------------------------------------*/

enum { BUCKETS = 32, LOG2_WIDTH = 7 };

/* The buckets of at most 32 symbols, as bytes: `split` has one for each bucket, the others have one
 * for the first symbol of each, then one for the second of each. */
struct bucket_bytes {
    uint8_t split[BUCKETS], symbol[2 * BUCKETS];
    uint8_t frequency[2][2 * BUCKETS], bias[2][2 * BUCKETS];
};

static inline void bucket_bytes_of(struct bucket_bytes *to, const struct pithi_rans_decoder *t) {
    for (unsigned j = 0; j < BUCKETS; j++) {
        const struct pithi_rans_bucket *const from = &t->bucket[j];
        to->split[j] = (uint8_t)from->split;
        for (unsigned k = 0; k < 2; k++) {
            to->symbol[j + k * BUCKETS] = from->symbol[k];
            to->frequency[0][j + k * BUCKETS] = (uint8_t)from->frequency[k];
            to->frequency[1][j + k * BUCKETS] = (uint8_t)(from->frequency[k] >> 8);
            to->bias[0][j + k * BUCKETS] = (uint8_t)from->bias[k];
            to->bias[1][j + k * BUCKETS] = (uint8_t)(from->bias[k] >> 8);
        }
    }
}

/* Makes a word of each slot: 8 bits of symbol, 12 of frequency, 12 of its place in the symbol. */
static inline void slots_of(uint32_t slot[PITHI_RANS_SLOTS], const struct pithi_rans_decoder *t) {
    const unsigned width = 1u << t->log2_width;
    for (unsigned at = 0; at < PITHI_RANS_SLOTS; at += width) {
        const struct pithi_rans_bucket *const b = &t->bucket[at >> t->log2_width];
        for (unsigned k = 0, i = 0; k < 2; k++) {
            const uint32_t of_first = b->symbol[k] | (uint32_t)b->frequency[k] << 8 |
                                      (uint32_t)(uint16_t)(at + b->bias[k]) << 20;
            for (const unsigned end = k ? width : b->split; i < end; i++)
                slot[at + i] = of_first + ((uint32_t)i << 20);
        }
    }
}

/* ---- Encode ----------------------------------------------------------------------------------*/

enum { FEW = 64 };

/* Frequencies and starts of the symbols from `first` to `last`. Tables of bytes are of fewer than
 * FEW of them, 0 behind the last. */
struct symbol_bytes {
    unsigned first, last;
    uint8_t frequency[2][FEW], start[2][FEW];
};

/* Returns whether there are tables of bytes. */
static inline bool symbol_bytes_of(struct symbol_bytes *to, const struct pithi_rans_encoder *t) {
    memset(to, 0, sizeof *to);
    to->last = 255;
    while (!t->frequency[to->first]) to->first++;
    while (!t->frequency[to->last]) to->last--;
    if (to->last - to->first >= FEW) return false;
    for (unsigned s = to->first; s <= to->last; s++) {
        const unsigned i = s - to->first;
        to->frequency[0][i] = (uint8_t)t->frequency[s];
        to->frequency[1][i] = (uint8_t)(t->frequency[s] >> 8);
        to->start[0][i] = (uint8_t)t->start[s];
        to->start[1][i] = (uint8_t)(t->start[s] >> 8);
    }
    return true;
}

/* Makes a word for each symbol: its frequency in the low half, its start in the high one. */
static inline void symbol_pairs_of(uint32_t pair[256], const struct pithi_rans_encoder *t) {
    for (unsigned s = 0; s < 256; s++) pair[s] = t->frequency[s] | (uint32_t)t->start[s] << 16;
}

#endif
