/* code_symbols.c - packed codes to symbols of a byte each and back; entropy-coded codes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/code_symbols.h"

#include <string.h>

#include "bytes/entropy.h"
#include "common/endian.h"
#include "common/inline.h"

/* ---- Symbols ---------------------------------------------------------------------------------*/

/* Eight codes are as many bytes as a code has bits. They part in three steps, each of which moves
 * the upper half of every lane to the middle of the lane; they join by the same steps backwards. */
struct steps {
    uint64_t low[3]; /* the lower half of every lane */
    unsigned half[3], moved[3];
};

PITHI_INLINE struct steps steps_of(unsigned bits) {
    const uint64_t one = 1;
    return (struct steps){{(one << 4 * bits) - 1, ((one << 2 * bits) - 1) * 0x0000000100000001u,
                           ((one << bits) - 1) * 0x0001000100010001u},
                          {4 * bits, 2 * bits, bits},
                          {32 - 4 * bits, 16 - 2 * bits, 8 - bits}};
}

PITHI_INLINE uint64_t part(const struct steps *s, uint64_t x) {
    for (unsigned k = 0; k < 3; k++)
        x = (x & s->low[k]) | (x & s->low[k] << s->half[k]) << s->moved[k];
    return x;
}

PITHI_INLINE uint64_t join(const struct steps *s, uint64_t x) {
    for (unsigned k = 3; k-- > 0;)
        x = (x & s->low[k]) | (x >> s->moved[k] & s->low[k] << s->half[k]);
    return x;
}

static inline __attribute__((always_inline)) void to_symbols(unsigned bits, const uint8_t *codes,
                                                             size_t count, uint8_t *symbols) {
    const struct steps s = steps_of(bits);
    for (; count >= 8; count -= 8, codes += bits, symbols += 8) {
        uint64_t x = 0;
        memcpy(&x, codes, bits);
        pithi_put64(symbols, part(&s, x));
    }
    if (count) {
        uint8_t rest[8];
        uint64_t x = 0;
        memcpy(&x, codes, (count * bits + 7) / 8);
        pithi_put64(rest, part(&s, x));
        memcpy(symbols, rest, count);
    }
}

void pithi_codes_to_symbols(unsigned bits, const uint8_t *codes, size_t count, uint8_t *symbols) {
    switch (bits) {
    case 2: to_symbols(2, codes, count, symbols); break;
    case 3: to_symbols(3, codes, count, symbols); break;
    case 4: to_symbols(4, codes, count, symbols); break;
    case 5: to_symbols(5, codes, count, symbols); break;
    case 6: to_symbols(6, codes, count, symbols); break;
    default: memcpy(symbols, codes, count);
    }
}

/* Returns the symbols that stand at the same place in any of the eights, one over the other. */
static inline __attribute__((always_inline)) uint64_t to_codes(unsigned bits,
                                                               const uint8_t *symbols, size_t count,
                                                               uint8_t *codes) {
    const struct steps s = steps_of(bits);
    uint64_t all = 0;
    for (; count >= 8; count -= 8, symbols += 8, codes += bits) {
        const uint64_t y = pithi_get64(symbols), x = join(&s, y);
        memcpy(codes, &x, bits);
        all |= y;
    }
    if (count) {
        uint64_t y = 0;
        memcpy(&y, symbols, count);
        const uint64_t x = join(&s, y);
        memcpy(codes, &x, (count * bits + 7) / 8);
        all |= y;
    }
    return all;
}

static uint64_t to_codes_of(unsigned bits, const uint8_t *symbols, size_t count, uint8_t *codes) {
    switch (bits) {
    case 2: return to_codes(2, symbols, count, codes);
    case 3: return to_codes(3, symbols, count, codes);
    case 4: return to_codes(4, symbols, count, codes);
    case 5: return to_codes(5, symbols, count, codes);
    case 6: return to_codes(6, symbols, count, codes);
    default: memcpy(codes, symbols, count); return 0; /* every byte is a code */
    }
}

uint32_t pithi_symbols_to_codes(unsigned bits, const uint8_t *symbols, size_t count,
                                uint8_t *codes) {
    uint64_t all = to_codes_of(bits, symbols, count, codes);
    all |= all >> 32;
    all |= all >> 16;
    return (all | all >> 8) & 0xFF;
}

/* ---- Entropy-coded codes: the kinds of pieces, but that plain codes stay packed --------------*/

enum { PACKED = 0, CONSTANT = 1, RANS = 4 };
enum { RANS_HEAD = 4 };

static size_t string_bytes(const struct pithi_code_strings *s) {
    return (s->codes * s->bits + 7) / 8;
}

/* Writes a rANS string where one is expected to take at least 1/64 less than packed codes, and does
 * take less: what saves less is not worth its time. */
static bool put_rans(struct pithi_pen *pen, const uint8_t *symbols, size_t n, size_t packed) {
    struct pithi_rans *const rans = pithi_entropy_rans(pen->coder);
    const size_t most = packed < pen->capacity ? packed : pen->capacity;
    if (most <= RANS_HEAD ||
        pithi_rans_plan(rans, pen->count, pen->quick, symbols, n) > packed - packed / 64)
        return false;
    const size_t length =
        pithi_rans_pack(rans, pen->rans, symbols, n, pen->at + RANS_HEAD, most - RANS_HEAD);
    if (!length) return false;
    pithi_put32(pen->at, (uint32_t)length << 8 | RANS);
    pen->at += RANS_HEAD + length;
    pen->capacity -= RANS_HEAD + length;
    return true;
}

bool pithi_codes_put(struct pithi_pen *pen, const struct pithi_code_strings *s, uint8_t *symbols) {
    const size_t n = s->count * s->codes, bytes = string_bytes(s);
    for (size_t i = 0; i < s->count; i++)
        pithi_codes_to_symbols(s->bits, s->at + i * s->stride, s->codes, symbols + i * s->codes);
    if (memcmp(symbols, symbols + 1, n - 1) == 0)
        return pithi_pen_put(pen, (const uint8_t[]){CONSTANT, symbols[0]}, 2);
    if (put_rans(pen, symbols, n, s->count * bytes)) return true;
    if (pen->capacity <= s->count * bytes) return false;
    pithi_pen_put(pen, (const uint8_t[]){PACKED}, 1);
    for (size_t i = 0; i < s->count; i++) pithi_pen_put(pen, s->at + i * s->stride, bytes);
    return true;
}

static const char *take_packed(struct pithi_reader *r, const struct pithi_code_strings *s) {
    const size_t bytes = string_bytes(s);
    const uint8_t *const from = pithi_reader_take(r, s->count * bytes);
    if (!from) return "packed codes are cut";
    for (size_t i = 0; i < s->count; i++) memcpy(s->at + i * s->stride, from + i * bytes, bytes);
    return NULL;
}

const char *pithi_codes_take(struct pithi_reader *r, const struct pithi_code_strings *s,
                             uint8_t *symbols) {
    if (!r->left) return "entropy-coded codes are cut";
    if (*r->at == PACKED) {
        pithi_reader_take(r, 1);
        return take_packed(r, s);
    }
    const bool piece = *r->at == CONSTANT || *r->at == RANS;
    const uint8_t *const from = piece ? pithi_piece_take(r, s->count * s->codes, symbols) : NULL;
    if (!from) return "entropy-coded codes are damaged";
    uint32_t all = 0;
    for (size_t i = 0; i < s->count; i++)
        all |=
            pithi_symbols_to_codes(s->bits, from + i * s->codes, s->codes, s->at + i * s->stride);
    return all >> s->bits ? "a code is out of range" : NULL;
}
