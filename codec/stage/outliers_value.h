/* outliers_value.h - which values of a group are kept exactly: what host and device share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_OUTLIERS_VALUE_H
#define PITHI_OUTLIERS_VALUE_H

#include "stage/group_value.h"

/* Of a group. */
enum { PITHI_OUTLIERS_MOST = 32 };

/* Values in an order in which those that come first are taken: a word has the value's rank in its
 * upper half, the place in the lower one. Ascending: -0 before +0, NaN of either sign outermost;
 * what is taken from above are the complements of such words. By magnitude: the largest first. */
PITHI_INLINE uint64_t pithi_outlier_word(uint32_t u, uint32_t place) {
    return (uint64_t)((uint32_t)pithi_ordered(u) ^ 0x80000000u) << 32 | place;
}
PITHI_INLINE uint64_t pithi_outlier_size_word(uint32_t u, uint32_t place) {
    return (uint64_t)~pithi_magnitude(u) << 32 | place;
}
PITHI_INLINE uint32_t pithi_outlier_place(uint64_t word) { return (uint32_t)(word & 0xFFu); }
/* Of a word of the ascending order. */
PITHI_INLINE float pithi_outlier_value(uint64_t word) {
    return pithi_from_ordered((int32_t)((uint32_t)(word >> 32) ^ 0x80000000u));
}

/* Whether what is left of a symmetric group, up to a magnitude m, may decode to that of the least
 * that was taken. Rounding adds less than a 64th, or half of the last places of f16 below its
 * normal numbers. */
PITHI_INLINE bool pithi_outliers_near(float m, float least) {
    return m * 1.015625f + 0x1p-17f >= least;
}
enum { PITHI_OUTLIERS_TURNS = 4 };

/* How many of n to take from above, the others being taken from below, so that the range of what
 * is left is least; below, above: the first n + 1 words of each. */
PITHI_INLINE size_t pithi_outliers_above(const uint64_t *below, const uint64_t *above, size_t n) {
    float best = pithi_float(PITHI_F32_INF);
    size_t chosen = 0;
    for (size_t k = 0; k <= n; k++) {
        const float range = pithi_outlier_value(~above[k]) - pithi_outlier_value(below[n - k]);
        if (!(range < best)) continue; /* also when a value is not finite */
        best = range;
        chosen = k;
    }
    return chosen;
}

#endif
