/* hadamard.h - the Walsh-Hadamard transform that smooths groups before they are quantized.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, section Rotation, states the arithmetic; hadamard.c is the scalar reference; the
 * kernels reproduce it byte for byte (NaNs inside the transform: only that they are NaN). */
#ifndef PITHI_GROUP_HADAMARD_H
#define PITHI_GROUP_HADAMARD_H

#include <stddef.h>

#include "common/numeric.h"

struct pithi_rotation {
    /* 0 (none), 32, 64, 128 or 256 values; fewer values at the end are cut into powers of 2 */
    uint32_t order;
    uint32_t signs; /* key of the random signs; 0: none */
};

/* Both take `count` elements beginning at element `first` of the slot, a multiple of the order. */

/* Writes the transform of f32(from) to `to`, which may be from when that is f32. */
typedef void pithi_rotate_fn(const struct pithi_rotation *r, float *to, const void *from,
                             uint32_t dtype, size_t count, uint64_t first);
/* Writes the inverse of x times scale (1: left as it is), rounded to dtype with NaN canonical, to
 * `to`, which may be x when dtype is f32. The contents of x are lost. */
typedef void pithi_unrotate_fn(const struct pithi_rotation *r, void *to, uint32_t dtype, float *x,
                               size_t count, uint64_t first, float scale);
pithi_rotate_fn pithi_rotate_c;
pithi_unrotate_fn pithi_unrotate_c;

/* Draw the signs of elements 32 * word .. 32 * word + 31: a bit that is set means minus. */
PITHI_INLINE struct pithi_random pithi_sign_random(uint32_t key) {
    return (struct pithi_random){.seed = (uint64_t)0x5349474Eu << 32 | key};
}
PITHI_INLINE uint32_t pithi_sign_word(uint32_t key, uint64_t word) {
    const struct pithi_random r = pithi_sign_random(key);
    uint32_t words[4];
    pithi_philox(&r, word / 4, words);
    /* An index that varies would, on a device, put the words into memory. */
    const uint32_t even = word & 2 ? words[2] : words[0], odd = word & 2 ? words[3] : words[1];
    return word & 1 ? odd : even;
}

#endif
