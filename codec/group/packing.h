/* packing.h - codes of 2 to 8 bits to packed bytes and back: the reference in scalar C.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A code string is codes of one width, one behind the other: code i is bits i * bits to (i + 1) *
 * bits - 1, where bit k is bit k % 8 of byte k / 8. So codes of 3 bits cross from one byte to the
 * next, and 8 of them are 3 bytes. 16 codes of any width are whole bytes, and groups have 16
 * elements or a multiple, so that each begins at a byte. What is left of the last byte is 0.
 * packing_<isa>.h do the same 64 codes at a time. */
#ifndef PITHI_GROUP_PACKING_H
#define PITHI_GROUP_PACKING_H

#include "group/group_value.h"

/* Writes one code after another, each below 2^bits, and at the end the last byte. */
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

/* Writes code i of a string whose bytes the caller has set to 0 before the first. */
PITHI_INLINE void pithi_pack_at(uint8_t *codes, size_t i, uint32_t code, uint32_t bits) {
    const size_t bit = i * bits;
    const uint32_t word = code << bit % 8;
    codes[bit / 8] |= (uint8_t)word;
    if (word >> 8) codes[bit / 8 + 1] |= (uint8_t)(word >> 8);
}

/* Returns code i of a string of `count` codes, beyond whose last byte nothing is read. */
PITHI_INLINE uint32_t pithi_unpack_at(const struct pithi_group_setting *s, const uint8_t *codes,
                                      size_t count, size_t i) {
    const uint32_t bits = s->bits, mask = (1u << bits) - 1;
    const size_t bit = i * bits, end = pithi_group_code_bytes(s, count);
    uint32_t word = codes[bit / 8];
    if (bit / 8 + 1 < end) word |= (uint32_t)codes[bit / 8 + 1] << 8;
    return word >> bit % 8 & mask;
}
/* Returns the integer that code i stands for: in two's complement, but without a sign where groups
 * are asymmetric. */
PITHI_INLINE int pithi_unpack_integer(const struct pithi_group_setting *s, const uint8_t *codes,
                                      size_t count, size_t i) {
    const uint32_t code = pithi_unpack_at(s, codes, count, i), sign = 1u << (s->bits - 1);
    return s->asymmetric ? (int)code : (int)(code ^ sign) - (int)sign;
}

/* What codes of 2 bits, four times, and of 4 bits stand for; the second of each where groups are
 * symmetric. */
static const float pithi_levels2[2][16] = {
    {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
    {0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1}};
static const float pithi_levels4[2][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1}};

#endif
