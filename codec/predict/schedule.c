/* schedule.c - decay of a bound over steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/schedule.h"

enum { STAIRS = 8, FRACTION = 24 };

/* Returns log2(x) in units of 2^-24, rounded down: every squaring of x / 2^exponent gives a bit
 * more. */
static uint32_t log2_of(uint64_t x) {
    uint32_t exponent = 0;
    while (x >> exponent > 1) exponent++;
    uint64_t m = exponent > 31 ? x >> (exponent - 31) : x << (31 - exponent);
    uint32_t log = exponent;
    for (int k = 0; k < FRACTION; k++) {
        m = m * m >> 31;
        const uint32_t bit = (uint32_t)(m >> 32);
        m >>= bit;
        log = log << 1 | bit;
    }
    return log;
}

/* Returns how much of the way from start to 1 has been gone. */
static double gone(enum pithi_decay decay, uint32_t steps, uint64_t step) {
    switch (decay) {
    case PITHI_DECAY_STAIRS: return (double)(step * STAIRS / steps) / STAIRS;
    case PITHI_DECAY_LINEAR: return (double)step / steps;
    case PITHI_DECAY_LOG: return (double)log2_of(1 + step) / log2_of(1 + (uint64_t)steps);
    default: return 0;
    }
}

double pithi_schedule_factor(enum pithi_decay decay, double start, uint32_t steps, uint64_t step) {
    if (decay == PITHI_DECAY_NONE || step >= steps) return 1;
    return start - (start - 1) * gone(decay, steps, step);
}
