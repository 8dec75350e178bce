/* control_value.h - the rules of those controllers that look at nothing but what the last step
 * selected: the host's and a device's.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_SPARSE_CONTROL_VALUE_H
#define PITHI_SPARSE_CONTROL_VALUE_H

#include "sparse/numbers.h"

/* Estimated thresholds are normal numbers: there every factor of a rule moves them. */
enum { PITHI_CONTROL_LOWEST = 0x00800000, PITHI_CONTROL_HIGHEST = PITHI_F32_MAX };

/* Returns the nearest of them; of NaN, which a sample may have, the highest. */
PITHI_INLINE uint32_t pithi_control_nearest(double t) {
    if (t <= 0x1p-126) return PITHI_CONTROL_LOWEST;
    return t < 0x1.fffffep127 ? pithi_bits((float)t) : (uint32_t)PITHI_CONTROL_HIGHEST;
}

/* Returns what the state keeps of a threshold: a rule that came to an end of the range begins
 * anew. */
PITHI_INLINE uint32_t pithi_control_kept(uint32_t t) {
    return t > PITHI_CONTROL_LOWEST && t < PITHI_CONTROL_HIGHEST ? t : 0;
}

/* Returns the share of k that `part` of n elements has, at least 1. */
PITHI_INLINE uint64_t pithi_control_share(uint64_t k, uint64_t part, uint64_t n) {
    const double share = (double)k * ((double)part / (double)n);
    return share < 1 ? 1 : (uint64_t)share;
}

/* In the rules below `ratio` is how many times k elements the last step selected; they return the
 * factor of the threshold. */

/* *trend is the bits of a factor that all steps have of late, 0 for 1, and becomes that of the next
 * one. Far from k a power of the ratio brings the threshold back. Near k a count differs by its
 * root from what the threshold stands for, which a smaller step follows less; and where values
 * become smaller from step to step, a power alone would lag behind. What the trend takes of a step
 * is a twelfth of that, so that a lag is made up for in some dozens of steps; with larger steps
 * the noise of the counts comes back in the threshold. */
PITHI_INLINE double pithi_control_prop(double ratio, uint32_t *trend) {
    double factor, every = *trend ? (double)pithi_float(*trend) : 1;
    if (ratio > 0.85 && ratio < 1.15) {
        factor = 1 + 0.025 * (ratio - 1);
        every *= 1 + 0.002 * (ratio - 1);
    } else {
        if (ratio < 0x1p-20) ratio = 0x1p-20;
        if (ratio > 0x1p20) ratio = 0x1p20;
        factor = pithi_root20(ratio);
    }
    if (every < 0.98) every = 0.98;
    if (every > 1.02) every = 1.02;
    *trend = pithi_bits((float)every);
    return factor * (double)pithi_float(*trend);
}

/* MiCRO and SAGE begin with a number that knows nothing of the values. */
PITHI_INLINE double pithi_control_guess(double k) { return 1 / (2 * pithi_root(k)); }

PITHI_INLINE double pithi_control_micro(bool symmetric, double ratio) {
    if (ratio > 1.1) return 1.005;
    /* As coded the question is whether anything was selected, so that the last factor is never
     * taken; as meant, whether too much was. */
    if (ratio > 0.909) return ratio > (symmetric ? 1 : 0) ? 1.00125 : 0.9987;
    return 0.995;
}

#endif
