/* clock.c - what time it is, how much of it a thread computed, and how to wait a little.
 * SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <time.h>

#include "channel.h"

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double pithi_collective_now(void) { return seconds_of(CLOCK_MONOTONIC); }

double pithi_collective_cpu(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

/* Waits a little: yielding first keeps latency low; sleeping later leaves the core to a rank that
 * computes. */
void pithi_collective_nap(uint32_t *idle_rounds) {
    const struct timespec nap = {0, 20000};
    if (++*idle_rounds < 500)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

bool pithi_collective_idle(pith_collective_channel *ch, uint32_t *idle_rounds, double until) {
    const double left = until - pithi_collective_now();
    if (ch->t.wait && left > 0) return !ch->t.wait(ch->t.user, left < 0.05 ? left : 0.05);
    pithi_collective_nap(idle_rounds);
    return true;
}
