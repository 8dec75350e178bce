/* train.c - trains a small language model on MPI twice from one seed: plain, and through pith.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel with sharded optimizer states (ZeRO): each rank computes gradients of its own
 * batches, owns one shard of Adam's state and of the f32 master weights, and holds a replica of all
 * weights. The communication of a step is a reduce-scatter of gradients and an all-gather of
 * weights; exchange_plain.c and exchange_pith.c are the two ways to do it, and the rest of the
 * example does not know which of them it has. To use pith in a trainer, read exchange_pith.c.
 */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "report.h"

struct runs {
    struct curve plain, pith;
    const struct curve *have_plain, *have_pith;
};

static int run_all(struct runs *runs, const struct world *world, const struct data *data,
                   const struct options *options) {
    if (strcmp(options->exchange, "pith")) {
        if (trainer_run(world, data, options, 0, &runs->plain)) return -1;
        runs->have_plain = &runs->plain;
    }
    if (strcmp(options->exchange, "plain")) {
        if (trainer_run(world, data, options, 1, &runs->pith)) return -1;
        runs->have_pith = &runs->pith;
    }
    return 0;
}

static int tell(const struct runs *runs, const struct world *world, const struct options *options) {
    int bad = 0;
    report_print(world, runs->have_plain, runs->have_pith);
    if (*options->log && runs->have_plain)
        bad |= report_log(world, options, "plain", runs->have_plain);
    if (*options->log && runs->have_pith)
        bad |= report_log(world, options, "pith", runs->have_pith);
    return bad | report_judge(options, runs->have_plain, runs->have_pith);
}

static int train(const struct world *world, const struct options *options) {
    static struct runs runs;
    struct data data;
    const int missing = data_load(&data, options->data);
    if (world_sum(world, missing) != 0) return -1;
    int bad = run_all(&runs, world, &data, options);
    if (!bad && world->rank == 0) bad = tell(&runs, world, options);
    data_free(&data);
    return bad;
}

int main(int argc, char **argv) {
    struct options options;
    struct world world;
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int bad = options_read(&options, argc, argv, rank == 0);
    if (!bad && world_init(&world, MPI_COMM_WORLD, (int)options.nodes, PARAMS)) {
        if (rank == 0) fprintf(stderr, "train: the ranks are not a multiple of --nodes\n");
        bad = -1;
    }
    if (!bad) bad = train(&world, &options);
    MPI_Finalize();
    return bad ? 1 : 0;
}
