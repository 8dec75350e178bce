/* update.c - words of values and updates, and their small symbols.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/update.h"

#include <string.h>

#include "bytes/byte_planes.h"
#include "bytes/word_value.h"
#include "common/endian.h"

/* The escape of symbols of 8 bits: so few are that it is better to look for them. */
enum { FEW = 255 };

enum { CHUNK = 1024 };

#define WORD uint8_t
#define BITS 8
#define NAME(name) name##8
#include "bytes/update_word.h"
#define WORD uint16_t
#define BITS 16
#define NAME(name) name##16
#include "bytes/update_word.h"
#define WORD uint32_t
#define BITS 32
#define NAME(name) name##32
#include "bytes/update_word.h"
#define WORD uint64_t
#define BITS 64
#define NAME(name) name##64
#include "bytes/update_word.h"

static const struct {
    void (*from)(void *words, const void *values, const void *base, enum pithi_word_kind kind,
                 size_t count);
    void (*to)(void *values, const void *words, const void *base, enum pithi_word_kind kind,
               size_t count);
} maps[] = {{from8, to8}, {from16, to16}, {from32, to32}, {from64, to64}};

bool pithi_is_ordered(uint32_t dtype) { return pithi_word_kind_of(dtype) == PITHI_WORD_FLOATS; }

static size_t log2_of(size_t width) { return width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3; }

void pithi_words_from(void *words, const void *values, const void *base, uint32_t dtype,
                      size_t count) {
    maps[log2_of(pith_dtype_bytes(dtype))].from(words, values, base, pithi_word_kind_of(dtype),
                                                count);
}

void pithi_words_to(void *values, const void *words, const void *base, uint32_t dtype,
                    size_t count) {
    maps[log2_of(pith_dtype_bytes(dtype))].to(values, words, base, pithi_word_kind_of(dtype),
                                              count);
}

/* ---- Symbols ---------------------------------------------------------------------------------*/

unsigned pithi_symbol_choose(const void *words, size_t width, size_t count) {
    uint64_t escapes[4] = {0};
    switch (width) {
    case 1: tally8(escapes, words, count); break;
    case 2: tally16(escapes, words, count); break;
    case 4: tally32(escapes, words, count); break;
    default: tally64(escapes, words, count); break;
    }
    return pithi_symbol_bits(escapes, (unsigned)width, count);
}

/* Symbols lie one to a byte in a word; copies of the word shifted by 8 - bits per symbol bring them
 * together in its low byte, or back apart. No two meet in the bits that are kept. */
static void pack1(uint8_t *symbols, const uint8_t *work, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        uint64_t x = pithi_get64(work + 8 * i);
        x |= x >> 7;
        x |= x >> 14;
        symbols[i] = (uint8_t)(x | x >> 28);
    }
}

static void pack2(uint8_t *symbols, const uint8_t *work, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        uint32_t x = pithi_get32(work + 4 * i);
        x |= x >> 6;
        symbols[i] = (uint8_t)(x | x >> 12);
    }
}

static void pack4(uint8_t *symbols, const uint8_t *work, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const uint16_t x = pithi_get16(work + 2 * i);
        symbols[i] = (uint8_t)(x | x >> 4);
    }
}

static void spread1(uint8_t *work, const uint8_t *symbols, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        uint64_t x = symbols[i];
        x |= x << 28;
        x |= x << 14;
        pithi_put64(work + 8 * i, (x | x << 7) & UINT64_C(0x0101010101010101));
    }
}

static void spread2(uint8_t *work, const uint8_t *symbols, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        uint32_t x = symbols[i];
        x |= x << 12;
        pithi_put32(work + 4 * i, (x | x << 6) & 0x03030303u);
    }
}

static void spread4(uint8_t *work, const uint8_t *symbols, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const unsigned x = symbols[i];
        pithi_put16(work + 2 * i, (uint16_t)((x | x << 4) & 0x0F0Fu));
    }
}

size_t pithi_symbols_from(uint8_t *symbols, void *escapes, const void *words, size_t width,
                          unsigned bits, size_t count, uint8_t *work) {
    const uint8_t escape = (uint8_t)((1u << bits) - 1);
    const size_t bytes = pithi_symbol_bytes(count, bits);
    size_t used;
    switch (width) {
    case 1: used = split8(work, escapes, words, escape, count); break;
    case 2: used = split16(work, escapes, words, escape, count); break;
    case 4: used = split32(work, escapes, words, escape, count); break;
    default: used = split64(work, escapes, words, escape, count); break;
    }
    memset(work + count, 0, (8 - count % 8) % 8);
    switch (bits) {
    case 1: pack1(symbols, work, bytes); break;
    case 2: pack2(symbols, work, bytes); break;
    case 4: pack4(symbols, work, bytes); break;
    default: memcpy(symbols, work, bytes); break;
    }
    return used;
}

size_t pithi_symbols_spread(uint8_t *work, const uint8_t *symbols, unsigned bits, size_t count) {
    const uint8_t escape = (uint8_t)((1u << bits) - 1);
    const size_t bytes = pithi_symbol_bytes(count, bits);
    switch (bits) {
    case 1: spread1(work, symbols, bytes); break;
    case 2: spread2(work, symbols, bytes); break;
    case 4: spread4(work, symbols, bytes); break;
    default: memcpy(work, symbols, bytes); break;
    }
    for (size_t i = count; i < bytes * 8 / bits; i++)
        if (work[i]) return SIZE_MAX;
    size_t escapes = 0;
    for (size_t i = 0; i < count; i++) escapes += work[i] == escape;
    return escapes;
}

void pithi_symbols_to(void *words, const uint8_t *work, const void *escapes, size_t width,
                      unsigned bits, size_t count) {
    const uint8_t escape = (uint8_t)((1u << bits) - 1);
    switch (width) {
    case 1: join8(words, work, escapes, escape, count); break;
    case 2: join16(words, work, escapes, escape, count); break;
    case 4: join32(words, work, escapes, escape, count); break;
    default: join64(words, work, escapes, escape, count); break;
    }
}

/* ---- Updates ---------------------------------------------------------------------------------*/

size_t pithi_update_cut_c(const struct pithi_update *u, const void *values, size_t most,
                          uint8_t *symbols, void *escapes) {
    switch (u->width) {
    case 1: return cut8(u, values, most, symbols, escapes);
    case 2: return cut16(u, values, most, symbols, escapes);
    case 4: return cut32(u, values, most, symbols, escapes);
    default: return cut64(u, values, most, symbols, escapes);
    }
}

void pithi_update_join_c(const struct pithi_update *u, void *values, const uint8_t *symbols,
                         const void *escapes) {
    switch (u->width) {
    case 1: join_update8(u, values, symbols, escapes); break;
    case 2: join_update16(u, values, symbols, escapes); break;
    case 4: join_update32(u, values, symbols, escapes); break;
    default: join_update64(u, values, symbols, escapes); break;
    }
}

void pithi_update_split_c(const struct pithi_update *u, const void *values,
                          uint8_t *const *planes) {
    switch (u->width) {
    case 1: split_update8(u, values, planes); break;
    case 2: split_update16(u, values, planes); break;
    case 4: split_update32(u, values, planes); break;
    default: split_update64(u, values, planes); break;
    }
}

void pithi_update_merge_c(const struct pithi_update *u, void *values,
                          const uint8_t *const *planes) {
    switch (u->width) {
    case 1: merge_update8(u, values, planes); break;
    case 2: merge_update16(u, values, planes); break;
    case 4: merge_update32(u, values, planes); break;
    default: merge_update64(u, values, planes); break;
    }
}
