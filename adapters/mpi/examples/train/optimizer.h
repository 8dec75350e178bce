/* optimizer.h - Adam on one rank's shard: master weights and both moments exist nowhere else.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "world.h"

struct optimizer {
    size_t count;
    float *master, *grad, *mean, *square; /* count each; grad is where the exchange puts the sum */
    uint64_t updates;
};

int optimizer_create(struct optimizer *optimizer, const float *weights, size_t count);
void optimizer_destroy(struct optimizer *optimizer);

/* Collective: the norm of the whole gradient, whose shards lie in grad. */
double optimizer_grad_norm(const struct optimizer *optimizer, const struct world *world);
/* One step with the gradient times `scale`. */
void optimizer_step(struct optimizer *optimizer, double rate, double scale);
/* Warm-up over the first 5 %, then a cosine down to a hundredth of the peak. */
double learning_rate(double peak, uint64_t step, uint64_t steps);

#endif
