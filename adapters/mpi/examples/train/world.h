/* world.h - who this rank is, which part of the parameters it owns, sums over all ranks.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_WORLD_H
#define TRAIN_WORLD_H

#include <mpi.h>
#include <stddef.h>

enum { RANKS_MAX = 64 };

struct world {
    MPI_Comm comm;
    int rank, ranks, nodes, per_node; /* ranks 0 .. per_node - 1 are node 0, and so on */
    size_t first, count;              /* this rank's shard of the flat parameters */
    int firsts[RANKS_MAX], counts[RANKS_MAX];
};

/* 0, or -1 when the ranks cannot be cut into that many nodes. */
int world_init(struct world *world, MPI_Comm comm, int nodes, size_t parameters);
/* The sum in rank order: the same number on every rank. */
double world_sum(const struct world *world, double mine);

#endif
