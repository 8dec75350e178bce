/* bitplane_choice.h - which four widths packed words have, step by step.
 * bitplane.c and device kernels are made of it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_BITPLANE_CHOICE_H
#define PITHI_PREDICT_BITPLANE_CHOICE_H

#include "common/inline.h"
#include "predict/bitplane.h"

enum { PITHI_PACK_MOST = PITHI_PACK_WIDEST + 1 };

/* An order of differences is chosen from samples: PITHI_PACK_SAMPLE is the most elements of one,
 * and PITHI_PACK_SAMPLES about the most of them in a tile, which is not a power of two, or those
 * of a cube of powers of two would lie on one diagonal. */
enum { PITHI_PACK_SAMPLE = 64, PITHI_PACK_SAMPLES = 28 };

/* The steps are the widths that occur, in ascending order; groups[j] counts the groups that have at
 * most width[j]. cost[k][j] is the least cost of the groups up to step j with k + 1 widths, of
 * which width[j] is the last, and before[k][j] the step of the width before it. */
struct pithi_bitplane_scratch {
    uint32_t steps;
    uint8_t width[PITHI_PACK_MOST];
    uint8_t before[PITHI_PACK_WIDTHS][PITHI_PACK_MOST];
    uint64_t groups[PITHI_PACK_MOST];
    uint64_t cost[PITHI_PACK_WIDTHS][PITHI_PACK_MOST];
};

PITHI_INLINE uint32_t pithi_bitplane_bits(uint32_t x) {
    uint32_t bits = 0;
    for (; x; x >>= 1) bits++;
    return bits;
}

/* Returns how many samples lie from one that is looked at to the next, in a tile of `count`: small
 * tiles, which pay most for each, look at about twice the root of their number. It is odd, so that
 * no row or column of a tile of powers of two is left out. */
PITHI_INLINE uint32_t pithi_pack_sample_step(uint64_t count) {
    const uint32_t samples = (uint32_t)(count / PITHI_PACK_SAMPLE);
    const uint32_t twice_root = 2u << pithi_bitplane_bits(samples) / 2;
    return samples / (twice_root < PITHI_PACK_SAMPLES ? twice_root : PITHI_PACK_SAMPLES) | 1;
}

PITHI_INLINE void pithi_bitplane_begin(struct pithi_bitplane_scratch *r,
                                       const uint32_t counts[PITHI_PACK_MOST]) {
    uint64_t groups = 0;
    r->steps = 0;
    for (uint32_t w = 0; w < PITHI_PACK_MOST; w++) {
        if (!counts[w]) continue;
        groups += counts[w];
        r->width[r->steps] = (uint8_t)w;
        r->cost[0][r->steps] = groups * w;
        r->groups[r->steps++] = groups;
    }
}

/* Computes step j with one width more: k from 1 on, every j of a k before the next k. */
PITHI_INLINE void pithi_bitplane_extend(struct pithi_bitplane_scratch *r, uint32_t k, uint32_t j) {
    uint64_t cost = r->cost[k - 1][j];
    uint32_t before = j;
    for (uint32_t i = 0; i < j; i++) {
        const uint64_t c = r->cost[k - 1][i] + (r->groups[j] - r->groups[i]) * r->width[j];
        if (c >= cost) continue;
        cost = c;
        before = i;
    }
    r->cost[k][j] = cost;
    r->before[k][j] = (uint8_t)before;
}

/* Makes the table; returns the bytes of all planes. */
PITHI_INLINE uint64_t pithi_bitplane_end(const struct pithi_bitplane_scratch *r,
                                         uint8_t table[PITHI_PACK_WIDTHS]) {
    uint32_t j = r->steps - 1;
    if (!r->steps) return table[0] = table[1] = table[2] = table[3] = 0;
    for (uint32_t k = PITHI_PACK_WIDTHS - 1; k; k--) {
        table[k] = r->width[j];
        j = r->before[k][j];
    }
    table[0] = r->width[j];
    return 2 * r->cost[PITHI_PACK_WIDTHS - 1][r->steps - 1];
}

#endif
