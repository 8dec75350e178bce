/* trainer.h - one training from the first weights to the last validation.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "data.h"
#include "exchange.h"
#include "options.h"
#include "world.h"

enum { POINTS_MAX = 512 };

struct point {
    uint64_t step;
    double train, valid; /* nats per character: mean since the point before, and validation */
    double grad_error;   /* energy of what this step's sum lost, relative to the exact sum's */
    double weight_error; /* energy of replica minus master weights, relative to the masters' */
};

struct curve {
    struct point point[POINTS_MAX];
    size_t points;
    uint64_t steps, skipped;
    double seconds,
        compute;            /* wall time of all steps; the part of it in the model, mean of ranks */
    struct traffic traffic; /* sums over ranks, but for the imbalance */
};

/* Collective. 0, or -1 on every rank with a message on stderr. */
int trainer_run(const struct world *world, const struct data *data, const struct options *options,
                int with_pith, struct curve *curve);

#endif
