/* philox_keys.h - what the x86 kernels prepare once to draw random bits.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_PHILOX_KEYS_H
#define PITHI_COMMON_PHILOX_KEYS_H

#include "common/numeric.h"

/* Step, rng_stream and the counter's high word are the same for all counters of a job, and so is
 * half of what the first two rounds make of them: words 0 and 2 before round 1 and after it are
 * hi(p) ^ begin[0..2], word 3 is begin[3]. High halves may hold garbage, which multiplications of
 * low halves do not see. */
struct philox {
    uint64_t key[10][2], begin[4];
    uint16_t most; /* handed out is this minus 16 random bits */
};

/* Prepares a job. `counter` is any one of those to come. */
static inline void philox_init(struct philox *p, const struct pithi_random *r, uint64_t counter) {
    for (uint32_t i = 0; i < 10; i++) {
        p->key[i][0] = (uint32_t)r->seed + i * 0x9E3779B9u;
        p->key[i][1] = (uint32_t)(r->seed >> 32) + i * 0xBB67AE85u;
    }
    const uint64_t second = (uint64_t)(uint32_t)r->step * 0xCD9E8D57u;
    const uint32_t word = (uint32_t)((second >> 32) ^ (counter >> 32) ^ p->key[0][0]);
    const uint64_t first = (uint64_t)word * 0xD2511F53u;
    p->begin[0] = r->rng_stream ^ p->key[0][1];
    p->begin[1] = second ^ p->key[1][0];
    p->begin[2] = (first >> 32) ^ p->key[1][1];
    p->begin[3] = first;
    p->most = (uint16_t)(UINT16_MAX - r->shift);
}

#endif
