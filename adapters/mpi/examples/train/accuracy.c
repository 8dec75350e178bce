/* accuracy.c - compares with an uncompressed sum and with the owners' master weights.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "accuracy.h"

#include <stdlib.h>

static double relative(const struct world *world, const float *values, const float *exact,
                       double scale) {
    double lost = 0, whole = 0;
    for (size_t i = 0; i < world->count; i++) {
        const double wanted = scale * exact[i], apart = values[i] - wanted;
        lost += apart * apart;
        whole += wanted * wanted;
    }
    lost = world_sum(world, lost);
    return lost / world_sum(world, whole);
}

double accuracy_of_grads(const struct world *world, const float *grads, const float *shard) {
    float *exact = malloc((world->count + 1) * sizeof *exact);
    if (world_sum(world, !exact) != 0) {
        free(exact);
        return -1;
    }
    MPI_Reduce_scatter(grads, exact, world->counts, MPI_FLOAT, MPI_SUM, world->comm);
    const double result = relative(world, shard, exact, 1.0 / world->ranks);
    free(exact);
    return result;
}

double accuracy_of_weights(const struct world *world, const float *weights, const float *master) {
    return relative(world, weights + world->first, master, 1);
}
