/* outliers_value.h - which values of a group are kept exactly: what host and device share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_OUTLIERS_VALUE_H
#define PITHI_GROUP_OUTLIERS_VALUE_H

#include "group/codebook_value.h"

/* The most outliers of a group. */
enum { PITHI_OUTLIERS_MOST = 32 };

/* Values as words in the order in which they are taken: a word has the value's rank in its upper
 * half, its place in the group in the lower one. The first makes an ascending order, -0 before +0
 * and NaN of either sign outermost; what is taken from above are the complements of such words. The
 * second orders by magnitude, the largest first. */
PITHI_INLINE uint64_t pithi_outlier_word(uint32_t u, uint32_t place) {
    return (uint64_t)((uint32_t)pithi_ordered(u) ^ 0x80000000u) << 32 | place;
}
PITHI_INLINE uint64_t pithi_outlier_size_word(uint32_t u, uint32_t place) {
    return (uint64_t)~pithi_magnitude(u) << 32 | place;
}
PITHI_INLINE uint32_t pithi_outlier_place(uint64_t word) { return (uint32_t)(word & 0xFFu); }
/* Returns the value of a word of the ascending order. */
PITHI_INLINE float pithi_outlier_value(uint64_t word) {
    return pithi_from_ordered((int32_t)((uint32_t)(word >> 32) ^ 0x80000000u));
}

/* ---- Groups that encode to themselves --------------------------------------------------------
 * What was taken of a symmetric group, with uniform codes or normal floats, must still be what lies
 * farthest out once the group was decoded. So the others are clamped to a magnitude for which no
 * scale is found whose last code decodes to the least magnitude taken or more: doc/FORMAT.md,
 * appendix B.8, has the proof. */

PITHI_INLINE bool pithi_outliers_limited(const struct pithi_group_setting *s) {
    return !s->asymmetric && s->codebook <= PITHI_CODEBOOK_NF;
}

/* Whether other values of magnitudes up to m may have to be clamped: a scale, and what the last
 * code decodes to, are rounded by less than a 64th, or half of the last places of f16 below its
 * normal numbers. */
PITHI_INLINE bool pithi_outliers_near(float m, float least) {
    return m * 1.015625f + 0x1p-17f >= least;
}

/* Returns the number of a dtype before m > 0, which is one of its numbers. */
PITHI_INLINE float pithi_number_before(uint32_t dtype, float m) {
    const uint32_t u = pithi_bits(m);
    if (dtype == PITH_F16) return pithi_float(pithi_from_f16((uint16_t)(pithi_to_f16(u) - 1)));
    return pithi_float(u - (dtype == PITH_BF16 ? 0x10000u : 1u));
}

PITHI_INLINE float pithi_outliers_top(const struct pithi_group_setting *s, uint32_t dtype,
                                      float scale) {
    const struct pithi_grid grid = {.scale = scale};
    return s->codebook ? pithi_round_to(dtype, scale) : pithi_grid_top(s, dtype, &grid);
}

/* Returns what the other values, up to magnitude bits m, are clamped to. `least` has the bits of
 * the least magnitude taken, which no other exceeds. Returns m itself where the group is
 * poisoned. */
PITHI_INLINE float pithi_outliers_limit(const struct pithi_group_setting *s, uint32_t dtype,
                                        uint32_t m, uint32_t least) {
    const float hi = pithi_float(m);
    if (m == 0 || m >= PITHI_F32_INF || !pithi_outliers_near(hi, pithi_float(least))) return hi;
    const float most = m < least ? hi : pithi_number_before(dtype, hi);
    const float scale = s->codebook ? pithi_codebook_reach(1, s, dtype, pithi_bits(most))
                                    : pithi_grid_of(s, dtype, 0, most).scale;
    if (pithi_nonfinite(pithi_bits(scale))) return hi;
    if (pithi_bits(pithi_outliers_top(s, dtype, scale)) < least) return most;
    return pithi_outliers_top(s, dtype, pithi_inward(s->scale_dtype, scale));
}
PITHI_INLINE float pithi_outliers_clamp(float x, float limit) {
    return pithi_within(x, -limit, limit);
}

/* ---- Asymmetric groups -----------------------------------------------------------------------*/

/* Returns how many of n to take from above, the rest being taken from below, so that the range of
 * what is left is least; below and above have the first n + 1 words of each. */
PITHI_INLINE size_t pithi_outliers_above(const uint64_t *below, const uint64_t *above, size_t n) {
    float best = pithi_float(PITHI_F32_INF);
    size_t chosen = 0;
    for (size_t k = 0; k <= n; k++) {
        const float range = pithi_outlier_value(~above[k]) - pithi_outlier_value(below[n - k]);
        if (!(range < best)) continue; /* skipped also when a value is not finite */
        best = range;
        chosen = k;
    }
    return chosen;
}

#endif
