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

/* Returns the share of k that `part` of n elements has, rounded down, at least 1; k and part are at
 * most n, n at most 2^56. What doubles find is at most some 40 off, so that what is left of the
 * product then is below 2^62, and right modulo 2^64, though the product may need more bits. */
PITHI_INLINE uint64_t pithi_control_share(uint64_t k, uint64_t part, uint64_t n) {
    uint64_t share = (uint64_t)((double)k * ((double)part / (double)n));
    int64_t left = (int64_t)(k * part - share * n);
    for (; left < 0; left += (int64_t)n) share--;
    for (; left >= (int64_t)n; left -= (int64_t)n) share++;
    return share > 0 ? share : 1;
}

/* In the rules below `ratio` is how many times k elements the last step selected; they return the
 * factor of the threshold. */

/* What PROP remembers is one word: the bits of its trend, less 2^20 for each mark. The trend is a
 * factor that all steps have of late; its bits are within 2^20 of each other, so that the marks can
 * be told. No mark: no count has been far from k yet. Else there is one, one more where the last
 * such count was below k, and two for each degree that steps are damped by. The word 0 is a trend
 * of 1. */
#define PITHI_PROP_LOWEST 0.98
#define PITHI_PROP_HIGHEST 1.02
enum { PITHI_PROP_MARK = 1 << 20, PITHI_PROP_DEGREES = 40 };

PITHI_INLINE uint32_t pithi_prop_marks(uint32_t word) {
    const uint32_t highest = pithi_bits((float)PITHI_PROP_HIGHEST);
    const uint32_t most = 2 + 2 * (uint32_t)PITHI_PROP_DEGREES;
    const uint32_t marks = word && word < highest ? (highest - word) / PITHI_PROP_MARK : 0;
    return marks < most ? marks : most;
}
PITHI_INLINE double pithi_prop_trend(uint32_t word) {
    if (!word) return 1;
    const double trend = (double)pithi_float(word + pithi_prop_marks(word) * PITHI_PROP_MARK);
    if (trend < PITHI_PROP_LOWEST) return (float)PITHI_PROP_LOWEST;
    return trend > PITHI_PROP_HIGHEST ? (float)PITHI_PROP_HIGHEST : trend;
}

/* Returns the marks after a step that selected `ratio` times k elements. Counts that are now above,
 * now below k say that a step changes the next count by more than it should, or that counts are
 * noise: steps are damped. Two counts on one side undo two such, since they say that the threshold
 * lags: where counts of three steps take turns, as with ranges that rotate among three ranks, steps
 * keep their length. A count within 5 % of k, half of the band, says nothing. */
PITHI_INLINE uint32_t pithi_prop_mark(double ratio, uint32_t marks) {
    if (ratio >= 0.95 && ratio <= 1.05) return marks;
    const uint32_t below = ratio < 1;
    uint32_t degree = marks ? (marks - 1) / 2 : 0;
    if (marks && (marks - 1) % 2 != below)
        degree += degree < PITHI_PROP_DEGREES;
    else
        degree -= degree < 2 ? degree : 2;
    return 1 + 2 * degree + below;
}

PITHI_INLINE double pithi_prop_share(uint32_t marks) {
    double share = 1;
    for (uint32_t degree = marks ? (marks - 1) / 2 : 0; degree > 0; degree--) share *= 0.9;
    return share;
}

/* Far from k a power of the ratio brings the threshold back. Near k a count differs by its root
 * from what the threshold stands for, which a smaller step follows less; and where values become
 * smaller from step to step, a power alone would lag behind. What the trend takes of a step is a
 * twelfth of that, so that a lag is made up for in some dozens of steps; with larger steps the
 * noise of the counts comes back in the threshold.
 *
 * With error feedback values gather below the threshold: where they come near it by little from
 * step to step, a threshold that is 1 % lower selects what would have come in many steps, and even
 * the small steps would swing. So a tenth of each step is left out for each degree, twice of the
 * trend's, which keeps its proportion to how fast the threshold moves. */
PITHI_INLINE double pithi_control_prop(double ratio, uint32_t *word) {
    const uint32_t marks = pithi_prop_mark(ratio, pithi_prop_marks(*word));
    const double share = pithi_prop_share(marks);
    double step, trend = pithi_prop_trend(*word);
    if (ratio > 0.85 && ratio < 1.15) {
        step = 0.025 * (ratio - 1);
        trend *= 1 + 0.002 * share * share * (ratio - 1);
    } else {
        if (ratio < 0x1p-20) ratio = 0x1p-20;
        if (ratio > 0x1p20) ratio = 0x1p20;
        step = pithi_root20(ratio) - 1;
    }
    if (trend < PITHI_PROP_LOWEST) trend = PITHI_PROP_LOWEST;
    if (trend > PITHI_PROP_HIGHEST) trend = PITHI_PROP_HIGHEST;
    *word = pithi_bits((float)trend) - marks * PITHI_PROP_MARK;
    return (1 + share * step) * (double)(float)trend;
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
