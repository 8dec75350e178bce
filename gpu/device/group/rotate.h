/* rotate.h - the Walsh-Hadamard transform on the registers of a warp (FORMAT.md, Rotation).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Strides 1, 2 and 4 are inside a unit, 8 to 128 between the threads of a warp. What is left at the
 * end of a slot, r elements, is transformed in ever smaller powers of two. Their transforms are
 * parts of the whole one: element i of the rest belongs to the one whose order is the highest bit
 * of i xor r, and takes part in the strides below it. */
#ifndef PITHI_GPU_DEVICE_GROUP_ROTATE_H
#define PITHI_GPU_DEVICE_GROUP_ROTATE_H

#include "common/log2.h"
#include "device/team.h"

/* Order of the transform that element i of a rest of so many belongs to; 1 behind it. */
PITHI_DEVICE uint32_t pithi_rotation_order(uint32_t rest, uint32_t i) {
    return i < rest ? 1u << (pithi_bit_length(i ^ rest) - 1) : 1;
}

/* The unit at e of a slot of `count`: it is in a whole transform, or behind the last of these,
 * where it begins with element `first` of the rest. */
struct pithi_rotated {
    bool whole;
    uint32_t rest, first;
};
PITHI_DEVICE struct pithi_rotated pithi_unit_rotated(const struct pithi_gpu_thread *t,
                                                     uint32_t order, uint64_t count, uint64_t e) {
    struct pithi_rotated r;
    r.rest = (uint32_t)(count & (order - 1));
    r.whole = t->whole || e < count - r.rest;
    r.first = r.whole ? 0 : (uint32_t)(e - (count - r.rest));
    return r;
}

PITHI_DEVICE void pithi_unit_signs(uint32_t key, uint64_t e, float x[8]) {
    const uint32_t word = pithi_sign_word(key, e / 32) >> (e % 32);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
        pithi_float(pithi_bits(x[k]) ^ (word >> k & 1) << 31);
}

/* One stride inside a unit. */
PITHI_DEVICE void pithi_unit_stride(struct pithi_rotated r, uint32_t half, float x[8]) {
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k & half) continue;
        if (!r.whole && pithi_rotation_order(r.rest, r.first + k) <= half) continue;
        const float a = x[k], b = x[(k + half) & 7];
        x[k] = a + b;
        x[(k + half) & 7] = a - b;
    }
}

/* One stride between threads: y is the unit `half` elements away. */
PITHI_DEVICE void pithi_unit_across(const struct pithi_gpu_thread *t, uint32_t order,
                                    uint64_t count, uint64_t e, uint32_t half, float x[8],
                                    const float y[8]) {
    const struct pithi_rotated r = pithi_unit_rotated(t, order, count, e);
    const uint32_t sign = e & half ? 0x80000000u : 0;
    if (r.whole) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
            y[k] + pithi_float(pithi_bits(x[k]) ^ sign);
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (pithi_rotation_order(r.rest, r.first + k) <= half) continue;
        x[k] = y[k] + pithi_float(pithi_bits(x[k]) ^ sign);
    }
}

PITHI_DEVICE void pithi_unit_shrink(const struct pithi_gpu_thread *t, uint32_t order,
                                    uint64_t count, uint64_t e, float x[8]) {
    const struct pithi_rotated r = pithi_unit_rotated(t, order, count, e);
    if (r.whole) {
        const float factor = 1.0f / (float)order;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] *= factor;
        return;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] *=
        1.0f / (float)pithi_rotation_order(r.rest, r.first + k);
}

PITHI_DEVICE void pithi_unit_inner(const struct pithi_gpu_thread *t, uint32_t order, uint64_t count,
                                   uint64_t e, float x[8]) {
    const struct pithi_rotated r = pithi_unit_rotated(t, order, count, e), whole = {true, 0, 0};
    if (r.whole) {
        /* Asked once, not for every pair. */
        pithi_unit_stride(whole, 1, x);
        pithi_unit_stride(whole, 2, x);
        pithi_unit_stride(whole, 4, x);
        return;
    }
    pithi_unit_stride(r, 1, x);
    pithi_unit_stride(r, 2, x);
    pithi_unit_stride(r, 4, x);
}

/* The strides between threads, of t->x; part of a body, for a rotation r. phase(tile, half) takes
 * one. */
#define PITHI_ROTATE_ACROSS(r, phase, tile)                                        \
    do {                                                                           \
        PITHI_UNROLL for (uint32_t lanes_ = 1; lanes_ < PITHI_WARP; lanes_ *= 2) { \
            if (lanes_ * PITHI_UNIT >= (r)->order) continue;                       \
            PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)             \
                PITHI_WARP_SWAP(x[u_], y[u_], PITHI_UNIT, lanes_);                 \
            PITHI_STEP(phase, (tile), lanes_ *PITHI_UNIT);                         \
        }                                                                          \
    } while (0)

#endif
