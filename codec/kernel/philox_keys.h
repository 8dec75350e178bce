/* philox_keys.h - what the x86 kernels prepare once to draw random bits: the keys of all rounds.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PHILOX_KEYS_H
#define PITHI_PHILOX_KEYS_H

#include "stage/numeric.h"

struct philox {
    uint64_t key[10][2], step, stream;
    uint16_t most; /* minus 16 random bits: what is handed out */
};

static inline void philox_init(struct philox *p, const struct pithi_random *r) {
    p->step = (uint32_t)r->step;
    p->stream = r->stream;
    p->most = (uint16_t)(UINT16_MAX - r->shift);
    for (uint32_t i = 0; i < 10; i++) {
        p->key[i][0] = (uint32_t)r->seed + i * 0x9E3779B9u;
        p->key[i][1] = (uint32_t)(r->seed >> 32) + i * 0xBB67AE85u;
    }
}

#endif
