/* schedule.h - bounds that begin loose and end at their base after a number of steps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_SCHEDULE_H
#define PITHI_PREDICT_SCHEDULE_H

#include <stdint.h>

/* How the factor falls from start to 1, with t = step / steps; it is 1 from step `steps` on. */
enum pithi_decay {
    PITHI_DECAY_NONE,   /* always 1 */
    PITHI_DECAY_STEP,   /* start until the end */
    PITHI_DECAY_STAIRS, /* eight equal falls: start - (start - 1) * floor(8 t) / 8 */
    PITHI_DECAY_LINEAR, /* start - (start - 1) * t */
    PITHI_DECAY_LOG     /* start - (start - 1) * log2(1 + step) / log2(1 + steps) */
};

/* Returns what a bound is multiplied by at a step, the same double on every machine. start >= 1. */
double pithi_schedule_factor(enum pithi_decay decay, double start, uint32_t steps, uint64_t step);

#endif
