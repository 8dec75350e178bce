/* runner.h - the host runner's own knobs, for tests, and what it runs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_RUNNER_H
#define PITHI_GPU_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

/* The orders in which threads of a phase, and teams of a launch, are taken. Or the warps of a team
 * run at once, each a thread of the host, and meet behind a phase: slow, but ThreadSanitizer sees
 * then what a barrier is missing for. */
enum {
    PITHI_ORDER_FORWARD,
    PITHI_ORDER_REVERSE,
    PITHI_ORDER_SHUFFLED,
    PITHI_ORDERS,
    PITHI_ORDER_AT_ONCE = PITHI_ORDERS
};
void pithi_runner_order(int order, uint64_t seed);
/* Counts launches since the program began. */
uint64_t pithi_runner_launches(void);
/* Returns whether ThreadSanitizer looks for races of single threads, in all orders but AT_ONCE. */
bool pithi_runner_watches(void);

struct pithi_gpu_call;
struct pithi_gpu_shared;
struct pithi_gpu_thread;
struct pithi_team;
/* What a team does with its memory and the registers of its threads. */
typedef void pithi_runner_body(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                               struct pithi_gpu_thread *t, struct pithi_team *team,
                               uint64_t number);
/* By the numbers of the kernels. A file of their own: compilers take long for them. */
extern pithi_runner_body *const pithi_runner_bodies[];

#endif
