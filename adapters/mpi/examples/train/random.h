/* random.h - small random numbers that depend on nothing but their seed.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <stdint.h>

/* splitmix64: every call advances the state. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a number in [0, 1). */
static inline double random_unit(uint64_t *state) {
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

#endif
