/* world.c - cuts the flat parameters into one shard per rank; small exact reductions.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world.h"

int world_init(struct world *world, MPI_Comm comm, int nodes, size_t parameters) {
    world->comm = comm;
    world->nodes = nodes;
    MPI_Comm_rank(comm, &world->rank);
    MPI_Comm_size(comm, &world->ranks);
    if (world->ranks > RANKS_MAX || nodes < 1 || world->ranks % nodes) return -1;
    world->per_node = world->ranks / nodes;
    const size_t share = (parameters + (size_t)world->ranks - 1) / (size_t)world->ranks;
    for (size_t r = 0; r < (size_t)world->ranks; r++) {
        const size_t first = r * share < parameters ? r * share : parameters;
        const size_t left = parameters - first;
        world->firsts[r] = (int)first;
        world->counts[r] = (int)(left < share ? left : share);
    }
    world->first = (size_t)world->firsts[world->rank];
    world->count = (size_t)world->counts[world->rank];
    return 0;
}

double world_sum(const struct world *world, double mine) {
    double all[RANKS_MAX], sum = 0;
    MPI_Allgather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, world->comm);
    for (int r = 0; r < world->ranks; r++) sum += all[r];
    return sum;
}
