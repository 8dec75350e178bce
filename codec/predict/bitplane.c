/* bitplane.c - the reference of packed words, and the choice of widths.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/bitplane.h"

#include "common/endian.h"
#include "predict/bitplane_choice.h"

/* ---- Widths ----------------------------------------------------------------------------------*/

void pithi_widths_c(const uint32_t *words, size_t count, uint8_t *widths) {
    for (size_t g = 0; g * PITHI_BITPLANE_GROUP < count; g++) {
        const size_t first = g * PITHI_BITPLANE_GROUP;
        uint32_t all = 0;
        for (size_t i = first; i < count && i < first + PITHI_BITPLANE_GROUP; i++) all |= words[i];
        widths[g] = (uint8_t)pithi_bitplane_bits(all);
    }
}

/* Makes the table of no more widths than it has space for; returns the bytes of all planes. */
static uint64_t every_width(const struct pithi_bitplane_scratch *r,
                            uint8_t table[PITHI_PACK_WIDTHS]) {
    uint64_t bytes = 0, before = 0;
    for (uint32_t k = 0; k < PITHI_PACK_WIDTHS; k++) {
        const uint32_t j = k < r->steps ? k : r->steps - 1;
        bytes += 2 * r->width[j] * (r->groups[j] - before);
        before = r->groups[j];
        table[k] = r->width[j];
    }
    return bytes;
}

uint64_t pithi_bitplane_choose(const uint32_t counts[PITHI_PACK_WIDEST + 1],
                               uint8_t table[PITHI_PACK_WIDTHS]) {
    struct pithi_bitplane_scratch r;
    pithi_bitplane_begin(&r, counts);
    if (r.steps && r.steps <= PITHI_PACK_WIDTHS) return every_width(&r, table);
    for (uint32_t k = 1; k < PITHI_PACK_WIDTHS; k++)
        for (uint32_t j = 0; j < r.steps; j++) pithi_bitplane_extend(&r, k, j);
    return pithi_bitplane_end(&r, table);
}

/* ---- Planes ----------------------------------------------------------------------------------*/

uint8_t *pithi_bitplane_pack_c(const uint32_t *words, size_t groups, const uint8_t *widths,
                               uint8_t *to, size_t capacity) {
    (void)capacity;
    for (size_t g = 0; g < groups; g++, words += PITHI_BITPLANE_GROUP) {
        for (unsigned k = 0; k < widths[g]; k++, to += 2) {
            uint32_t plane = 0;
            for (unsigned i = 0; i < PITHI_BITPLANE_GROUP; i++) plane |= (words[i] >> k & 1) << i;
            pithi_put16(to, (uint16_t)plane);
        }
    }
    return to;
}

const uint8_t *pithi_bitplane_unpack_c(const uint8_t *from, size_t left, size_t groups,
                                       const uint8_t *widths, uint32_t *words) {
    (void)left;
    for (size_t g = 0; g < groups; g++, words += PITHI_BITPLANE_GROUP) {
        for (unsigned i = 0; i < PITHI_BITPLANE_GROUP; i++) words[i] = 0;
        for (unsigned k = 0; k < widths[g]; k++, from += 2) {
            const uint32_t plane = pithi_get16(from);
            for (unsigned i = 0; i < PITHI_BITPLANE_GROUP; i++) words[i] |= (plane >> i & 1) << k;
        }
    }
    return from;
}
