/* runner.h - the host runner's own knobs, for tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_RUNNER_H
#define PITHI_GPU_RUNNER_H

#include <stdint.h>

/* The orders in which threads of a phase, and teams of a launch, are taken. */
enum { PITHI_ORDER_FORWARD, PITHI_ORDER_REVERSE, PITHI_ORDER_SHUFFLED, PITHI_ORDERS };
void pithi_runner_order(int order, uint64_t seed);
/* Counts launches since the program began. */
uint64_t pithi_runner_launches(void);

#endif
