/* rotate.h - the Walsh-Hadamard transform on the registers of a warp (FORMAT.md, Rotation).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Strides 1, 2 and 4 are inside a unit, 8 to 128 between the threads of a warp. What is left at the
 * end of a slot, r elements, is transformed in ever smaller powers of two. Their transforms are
 * parts of the whole one: element i of the rest belongs to the one whose order is the highest bit
 * of i xor r, and takes part in the strides below it. */
#ifndef PITHI_GPU_ROTATE_H
#define PITHI_GPU_ROTATE_H

#include "team.h"

PITHI_DEVICE uint32_t pithi_highest_bit(uint32_t x) {
    uint32_t bit = 0x80000000u;
    while (!(x & bit)) bit >>= 1;
    return bit;
}

/* Order of the transform that element e of a slot of `count` belongs to; 1 behind the slot. */
PITHI_DEVICE uint32_t pithi_rotation_order(uint32_t order, uint64_t count, uint64_t e) {
    const uint32_t rest = (uint32_t)(count & (order - 1));
    if (e < count - rest) return order;
    return e < count ? pithi_highest_bit((uint32_t)(e - (count - rest)) ^ rest) : 1;
}

/* Whether all of the unit at e is in whole transforms. */
PITHI_DEVICE bool pithi_unit_whole(uint32_t order, uint64_t count, uint64_t e) {
    return e + PITHI_UNIT <= count - (count & (order - 1));
}

PITHI_DEVICE void pithi_unit_signs(uint32_t key, uint64_t e, float x[8]) {
    const uint32_t word = pithi_sign_word(key, e / 32) >> (e % 32);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
        pithi_float(pithi_bits(x[k]) ^ (word >> k & 1) << 31);
}

/* One stride inside the unit at e. */
PITHI_DEVICE void pithi_unit_stride(uint32_t order, uint64_t count, uint64_t e, uint32_t half,
                                    float x[8]) {
    const bool whole = pithi_unit_whole(order, count, e);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k & half) continue;
        if (!whole && pithi_rotation_order(order, count, e + k) <= half) continue;
        const float a = x[k], b = x[(k + half) & 7];
        x[k] = a + b;
        x[(k + half) & 7] = a - b;
    }
}

/* One stride between threads: y is the unit `half` elements away. */
PITHI_DEVICE void pithi_unit_across(uint32_t order, uint64_t count, uint64_t e, uint32_t half,
                                    float x[8], const float y[8]) {
    const bool whole = pithi_unit_whole(order, count, e), upper = e & half;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (!whole && pithi_rotation_order(order, count, e + k) <= half) continue;
        x[k] = upper ? y[k] - x[k] : x[k] + y[k];
    }
}

PITHI_DEVICE void pithi_unit_shrink(uint32_t order, uint64_t count, uint64_t e, float x[8]) {
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] *=
        1.0f / (float)pithi_rotation_order(order, count, e + k);
}

PITHI_DEVICE void pithi_unit_inner(uint32_t order, uint64_t count, uint64_t e, float x[8]) {
    pithi_unit_stride(order, count, e, 1, x);
    pithi_unit_stride(order, count, e, 2, x);
    pithi_unit_stride(order, count, e, 4, x);
}

/* The strides between threads, of t->x; a body's text, for a rotation r. phase(tile, half) takes
 * one. */
#define PITHI_ROTATE_ACROSS(r, phase, tile)                                        \
    do {                                                                           \
        for (uint32_t lanes_ = 1; lanes_ * PITHI_UNIT < (r)->order; lanes_ *= 2) { \
            PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)             \
                PITHI_WARP_SWAP(x[u_], y[u_], PITHI_UNIT, lanes_);                 \
            PITHI_STEP(phase, (tile), lanes_ *PITHI_UNIT);                         \
        }                                                                          \
    } while (0)

#endif
