/* replica.h - the weights that every rank computes with, in bf16 or f32, and proof that they agree.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_REPLICA_H
#define TRAIN_REPLICA_H

#include <stddef.h>
#include <stdint.h>

#include "world.h"

struct replica {
    size_t count, width; /* elements, and bytes of one: 2 (bf16) or 4 (f32) */
    void *live;          /* what the model uses; no exchange keeps another copy */
};

int replica_create(struct replica *replica, size_t count, size_t width);
void replica_destroy(struct replica *replica);

/* Round f32 values to the replica's type, into any memory; and the whole replica back to f32. */
void replica_round(const struct replica *replica, void *to, const float *from, size_t count);
void replica_read(const struct replica *replica, float *to);
/* Collective: 1 when the live bits are the same on every rank. */
int replica_agrees(const struct replica *replica, const struct world *world);

#endif
