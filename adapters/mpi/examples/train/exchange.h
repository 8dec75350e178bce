/* exchange.h - what the trainer needs from communication, with and without pith.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_EXCHANGE_H
#define TRAIN_EXCHANGE_H

#include <stdint.h>

#include "replica.h"
#include "world.h"

/* Which messages: gradients to ranks of the same node, to other nodes, and weights to all. */
enum { GRAD_INTRA, GRAD_INTER, WEIGHTS, PATHS };

/* What this rank sent, and where its time went, summed over all steps. */
struct traffic {
    double bytes[PATHS], values[PATHS];
    double encode, decode, wait, total; /* seconds; plain MPI shows its total only */
    /* Sparse gradients alone: elements that this rank chose; how many times the mean the rank that
     * chose most did, the same on all ranks. */
    double chosen, imbalance;
};

struct exchange {
    /* shard := the mean over ranks of their grads. Both are 0 when all went well, on all ranks. */
    int (*reduce)(struct exchange *exchange, const float *grads, float *shard, uint64_t step);
    /* Bring all replicas to the owners' master weights. */
    int (*spread)(struct exchange *exchange, const float *master);
    /* The step is thrown away: forget what reduce remembered of it. */
    int (*skip)(struct exchange *exchange, uint64_t step);
    void (*destroy)(struct exchange *exchange);
    struct traffic traffic;
};

struct options;

/* NULL with a message on stderr. Both keep pointers to world and replica. */
struct exchange *exchange_plain(const struct world *world, struct replica *replica);
struct exchange *exchange_pith(const struct world *world, struct replica *replica,
                               const struct options *options);

#endif
