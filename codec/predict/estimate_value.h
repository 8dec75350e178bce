/* estimate_value.h - how words of a tile are sampled and told apart, and what they are expected to
 * take.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source that every backend shares: estimate.c, and the CUDA kernels. */
#ifndef PITHI_PREDICT_ESTIMATE_VALUE_H
#define PITHI_PREDICT_ESTIMATE_VALUE_H

#include <stdint.h>

#include "common/log2.h"

/* The most words of a run; how many runs there are, and one for how many of that length. */
enum { PITHI_ESTIMATE_RUN = 32, PITHI_ESTIMATE_SHARE = 64 };
enum { PITHI_ESTIMATE_RUNS_MIN = 16, PITHI_ESTIMATE_RUNS_MAX = 1024 };

PITHI_INLINE uint32_t pithi_estimate_runs(uint64_t count) {
    const uint64_t runs =
        count / (PITHI_ESTIMATE_RUN * PITHI_ESTIMATE_SHARE) + PITHI_ESTIMATE_RUNS_MIN;
    return runs < PITHI_ESTIMATE_RUNS_MAX ? (uint32_t)runs : (uint32_t)PITHI_ESTIMATE_RUNS_MAX;
}
/* Returns the element where a run begins, which ends with its row. A step by the golden section
 * spreads runs evenly, and an odd one meets even and odd places. */
PITHI_INLINE uint64_t pithi_estimate_at(uint64_t count, uint64_t run) {
    const uint64_t step = count * 40503 >> 16 | 1;
    return run * step % count;
}

/* Small words are kinds of their own, others have a kind for each bit length. */
enum { PITHI_KINDS_SMALL = 16, PITHI_KINDS = PITHI_KINDS_SMALL + 28 };
struct pithi_kinds {
    uint32_t total, of[PITHI_KINDS];
};

PITHI_INLINE uint32_t pithi_kind_of(uint32_t word) {
    return word < PITHI_KINDS_SMALL ? word : PITHI_KINDS_SMALL - 5 + pithi_bit_length(word);
}
/* Returns, in 1/256 bit, what kinds take and the bits below the highest of long words. */
PITHI_INLINE uint64_t pithi_kinds_entropy(const struct pithi_kinds *s) {
    const uint32_t whole = s->total ? pithi_log2_256(s->total) : 0;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < PITHI_KINDS; k++) {
        const uint32_t below = k < PITHI_KINDS_SMALL ? 0 : k + 4 - PITHI_KINDS_SMALL;
        if (s->of[k]) sum += (uint64_t)s->of[k] * (whole - pithi_log2_256(s->of[k]) + below * 256);
    }
    return sum;
}

#endif
