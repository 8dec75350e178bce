/* packing.h - codes of 2 to 8 bits to packed bytes and back: the reference in scalar C.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Code i has bits i * bits to (i + 1) * bits - 1 of its string, where bit k is bit k % 8 of byte
 * k / 8: codes of 3 bits, say, cross from one byte to the next, and 8 of them are 3 bytes. Strings
 * of 16 codes are whole bytes for every width, so groups begin at whole bytes. What is left of the
 * last byte is 0. packing_<isa>.h do the same 64 codes at a time. */
#ifndef PITHI_GROUP_PACKING_H
#define PITHI_GROUP_PACKING_H

#include "group/group_value.h"

/* Writes one code after another. */
struct pithi_packer {
    uint8_t *to;
    uint32_t pending, filled; /* bits that are not a whole byte yet, and how many */
};

PITHI_INLINE void pithi_pack_code(struct pithi_packer *p, uint32_t code, uint32_t bits) {
    p->pending |= code << p->filled;
    for (p->filled += bits; p->filled >= 8; p->filled -= 8, p->pending >>= 8)
        *p->to++ = (uint8_t)p->pending;
}
PITHI_INLINE void pithi_pack_end(struct pithi_packer *p) {
    if (p->filled) *p->to = (uint8_t)p->pending;
}

/* Puts code i into a string that is 0 where it has no code yet. */
PITHI_INLINE void pithi_pack_at(uint8_t *codes, size_t i, uint32_t code, uint32_t bits) {
    const size_t bit = i * bits;
    const uint32_t word = code << bit % 8;
    codes[bit / 8] |= (uint8_t)word;
    if (word >> 8) codes[bit / 8 + 1] |= (uint8_t)(word >> 8);
}

/* Returns code i of a string of `count` codes. */
PITHI_INLINE uint32_t pithi_unpack_at(const struct pithi_group_setting *s, const uint8_t *codes,
                                      size_t count, size_t i) {
    const uint32_t bits = s->bits, mask = (1u << bits) - 1;
    const size_t bit = i * bits, last = pithi_group_code_bytes(s, count) - 1;
    uint32_t word = codes[bit / 8];
    if (bit / 8 < last) word |= (uint32_t)codes[bit / 8 + 1] << 8;
    return word >> bit % 8 & mask;
}
/* The same as the integer that it stands for: with a sign, unless groups are asymmetric. */
PITHI_INLINE int pithi_unpack_integer(const struct pithi_group_setting *s, const uint8_t *codes,
                                      size_t count, size_t i) {
    const uint32_t code = pithi_unpack_at(s, codes, count, i), sign = 1u << (s->bits - 1);
    return s->asymmetric ? (int)code : (int)(code ^ sign) - (int)sign;
}

#endif
