/* look_neon.h - floats of a table in one vector, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_LOOK_NEON_H
#define PITHI_GROUP_LOOK_NEON_H

#include "common/lanes_neon.h"

#define B(x) vreinterpretq_u8_u32(x)
#define FROM_B(x) vreinterpretq_u32_u8(x)

/* The four bytes of floats of these numbers. */
static inline uint8x16_t float_bytes(uint32x4_t number) {
    return B(vaddq_u32(vmulq_n_u32(number, 0x04040404u), vdupq_n_u32(0x03020100u)));
}
/* The low bits of the index count. */
static inline v16 look8(v16 table, v16 index) {
    const uint8x16x2_t t = {{B(table.val[0]), B(table.val[1])}};
    for (int q = 0; q < 4; q++) {
        const uint32x4_t number = vandq_u32(index.val[q], vdupq_n_u32(7));
        index.val[q] = FROM_B(vqtbl2q_u8(t, float_bytes(number)));
    }
    return index;
}
static inline v16 look16(v16 table, v16 index) {
    const uint8x16x4_t t = {{B(table.val[0]), B(table.val[1]), B(table.val[2]), B(table.val[3])}};
    for (int q = 0; q < 4; q++) {
        const uint32x4_t number = vandq_u32(index.val[q], vdupq_n_u32(15));
        index.val[q] = FROM_B(vqtbl4q_u8(t, float_bytes(number)));
    }
    return index;
}

#endif
