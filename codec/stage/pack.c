/* pack.c - the normative text of packed words, and the choice of widths.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include "stage/endian.h"

/* ---- Widths ----------------------------------------------------------------------------------*/

static uint8_t bits_of(uint32_t x) {
    uint8_t bits = 0;
    for (; x; x >>= 1) bits++;
    return bits;
}

void pithi_widths_c(const uint32_t *words, size_t count, uint8_t *widths) {
    for (size_t g = 0; g * PITHI_PACK_GROUP < count; g++) {
        const size_t first = g * PITHI_PACK_GROUP;
        uint32_t all = 0;
        for (size_t i = first; i < count && i < first + PITHI_PACK_GROUP; i++) all |= words[i];
        widths[g] = bits_of(all);
    }
}

enum { TABLES = PITHI_PACK_WIDTHS, MOST = PITHI_PACK_WIDEST + 1 };

/* The widths that occur, ascending, and how many groups have at most each. */
struct steps {
    size_t count;
    uint8_t width[MOST];
    uint64_t groups[MOST];
};

static void find_steps(struct steps *s, const uint32_t counts[MOST]) {
    uint64_t groups = 0;
    s->count = 0;
    for (unsigned w = 0; w < MOST; w++) {
        if (!counts[w]) continue;
        groups += counts[w];
        s->width[s->count] = (uint8_t)w;
        s->groups[s->count++] = groups;
    }
}

uint64_t pithi_pack_choose(const uint32_t counts[PITHI_PACK_WIDEST + 1],
                           uint8_t table[PITHI_PACK_WIDTHS]) {
    struct steps s;
    /* Least cost of the groups up to step j with k + 1 widths, of which j's is the last, and the
     * step of the width before it. */
    uint64_t cost[TABLES][MOST];
    size_t before[TABLES][MOST];
    find_steps(&s, counts);
    for (size_t j = 0; j < s.count; j++) cost[0][j] = s.groups[j] * s.width[j];
    for (size_t k = 1; k < TABLES; k++) {
        for (size_t j = 0; j < s.count; j++) {
            cost[k][j] = cost[k - 1][j];
            before[k][j] = j;
            for (size_t i = 0; i < j; i++) {
                const uint64_t c = cost[k - 1][i] + (s.groups[j] - s.groups[i]) * s.width[j];
                if (c >= cost[k][j]) continue;
                cost[k][j] = c;
                before[k][j] = i;
            }
        }
    }
    if (!s.count) return table[0] = table[1] = table[2] = table[3] = 0;
    size_t j = s.count - 1;
    for (size_t k = TABLES - 1; k; j = before[k--][j]) table[k] = s.width[j];
    table[0] = s.width[j];
    return 2 * cost[TABLES - 1][s.count - 1];
}

/* ---- Planes ----------------------------------------------------------------------------------*/

uint8_t *pithi_pack_c(const uint32_t *words, size_t groups, const uint8_t *widths, uint8_t *to,
                      size_t room) {
    (void)room;
    for (size_t g = 0; g < groups; g++, words += PITHI_PACK_GROUP) {
        for (unsigned k = 0; k < widths[g]; k++, to += 2) {
            uint32_t plane = 0;
            for (unsigned i = 0; i < PITHI_PACK_GROUP; i++) plane |= (words[i] >> k & 1) << i;
            pithi_put16(to, (uint16_t)plane);
        }
    }
    return to;
}

const uint8_t *pithi_unpack_c(const uint8_t *from, size_t left, size_t groups,
                              const uint8_t *widths, uint32_t *words) {
    (void)left;
    for (size_t g = 0; g < groups; g++, words += PITHI_PACK_GROUP) {
        for (unsigned i = 0; i < PITHI_PACK_GROUP; i++) words[i] = 0;
        for (unsigned k = 0; k < widths[g]; k++, from += 2) {
            const uint32_t plane = pithi_get16(from);
            for (unsigned i = 0; i < PITHI_PACK_GROUP; i++) words[i] |= (plane >> i & 1) << k;
        }
    }
    return from;
}
