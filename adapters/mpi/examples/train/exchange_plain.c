/* exchange_plain.c - MPI as it is: gradients travel in f32, weights in the replica's type.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "exchange.h"

struct plain {
    struct exchange exchange; /* first: the trainer's pointer is this one */
    const struct world *world;
    struct replica *replica;
    MPI_Datatype type;
};

static int plain_reduce(struct exchange *exchange, const float *grads, float *shard,
                        uint64_t step) {
    (void)step;
    const struct plain *plain = (struct plain *)exchange;
    const struct world *w = plain->world;
    const double start = MPI_Wtime();
    const int failed = MPI_Reduce_scatter(grads, shard, w->counts, MPI_FLOAT, MPI_SUM, w->comm);
    for (size_t i = 0; i < w->count; i++) shard[i] /= (float)w->ranks;
    /* MPI does not tell what it sends. This is the least that sums inside nodes first can. */
    struct traffic *traffic = &exchange->traffic;
    const double values = (double)plain->replica->count;
    traffic->values[GRAD_INTRA] += values / w->per_node * (w->per_node - 1);
    traffic->values[GRAD_INTER] += values / w->ranks * (w->nodes - 1);
    for (int path = GRAD_INTRA; path <= GRAD_INTER; path++)
        traffic->bytes[path] = sizeof(float) * traffic->values[path];
    traffic->total += MPI_Wtime() - start;
    return failed;
}

static int plain_spread(struct exchange *exchange, const float *master) {
    const struct plain *plain = (struct plain *)exchange;
    const struct world *w = plain->world;
    const struct replica *replica = plain->replica;
    const double start = MPI_Wtime();
    replica_round(replica, (char *)replica->live + w->first * replica->width, master, w->count);
    const int failed = MPI_Allgatherv(MPI_IN_PLACE, 0, plain->type, replica->live, w->counts,
                                      w->firsts, plain->type, w->comm);
    struct traffic *traffic = &exchange->traffic;
    traffic->values[WEIGHTS] += (double)w->count * (w->ranks - 1);
    traffic->bytes[WEIGHTS] = (double)replica->width * traffic->values[WEIGHTS];
    traffic->total += MPI_Wtime() - start;
    return failed;
}

static int plain_skip(struct exchange *exchange, uint64_t step) {
    (void)exchange, (void)step; /* sums in f32 leave nothing behind */
    return 0;
}

static void plain_destroy(struct exchange *exchange) { free(exchange); }

struct exchange *exchange_plain(const struct world *world, struct replica *replica) {
    struct plain *plain = calloc(1, sizeof *plain);
    if (!plain) return NULL;
    plain->exchange = (struct exchange){.reduce = plain_reduce,
                                        .spread = plain_spread,
                                        .skip = plain_skip,
                                        .destroy = plain_destroy};
    plain->world = world;
    plain->replica = replica;
    plain->type = replica->width == sizeof(float) ? MPI_FLOAT : MPI_UINT16_T;
    return &plain->exchange;
}
