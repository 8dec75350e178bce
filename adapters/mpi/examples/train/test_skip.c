/* test_skip.c - a step that is skipped leaves nothing behind in the sums of later ones.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two exchanges are given the same gradients; one of them, in between, those of a step that is
 * skipped, since one is infinite. The argument is pith-train's: --sparse=SPEC or --inter=SPEC. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exchange.h"
#include "model.h"
#include "options.h"

enum { BEFORE = 3, STEPS = 8 };

static float grads[PARAMS], shard[2][PARAMS];

/* Larger where elements are higher, so that parts move. */
static void make_grads(uint32_t rank, uint32_t step) {
    uint32_t x = 977 * rank + 31 * step + 1;
    for (size_t i = 0; i < PARAMS; i++) {
        x = x * 1664525u + 1013904223u;
        grads[i] = (float)((int32_t)x >> 8) * 1e-9f * (1 + 4 * (float)i / (float)PARAMS);
    }
}

static int skip_one(const struct world *world, struct exchange *exchange) {
    make_grads((uint32_t)world->rank, STEPS);
    if (world->rank == 0) grads[PARAMS / 3] = INFINITY;
    if (exchange->reduce(exchange, grads, shard[0], BEFORE)) return -1;
    int finite = 1;
    for (size_t i = 0; i < world->count; i++) finite = finite && isfinite(shard[0][i]);
    if (world_sum(world, finite) == world->ranks) {
        fprintf(stderr, "test_skip: the infinity was not seen\n");
        return -1;
    }
    return exchange->skip(exchange, BEFORE);
}

static int compare(const struct world *world, struct exchange *const exchange[2]) {
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == BEFORE && skip_one(world, exchange[0])) return -1;
        make_grads((uint32_t)world->rank, step);
        for (int i = 0; i < 2; i++)
            if (exchange[i]->reduce(exchange[i], grads, shard[i], step)) return -1;
        if (world_sum(world, memcmp(shard[0], shard[1], world->count * sizeof(float)) != 0) == 0)
            continue;
        fprintf(stderr, "test_skip: step %u differs\n", (unsigned)step);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct options options;
    struct world world;
    struct replica replica[2];
    MPI_Init(&argc, &argv);
    int bad = options_read(&options, argc, argv, 1) ||
              world_init(&world, MPI_COMM_WORLD, (int)options.nodes, PARAMS) ||
              replica_create(&replica[0], PARAMS, 4) || replica_create(&replica[1], PARAMS, 4);
    if (bad) MPI_Abort(MPI_COMM_WORLD, 1);
    struct exchange *exchange[2];
    for (int i = 0; i < 2; i++) exchange[i] = exchange_pith(&world, &replica[i], &options);
    bad = !exchange[0] || !exchange[1] || compare(&world, exchange);
    for (int i = 0; i < 2; i++) {
        if (exchange[i]) exchange[i]->destroy(exchange[i]);
        replica_destroy(&replica[i]);
    }
    MPI_Finalize();
    return bad;
}
