/* accuracy.h - what an exchange loses, measured beside the training and outside its times.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_ACCURACY_H
#define TRAIN_ACCURACY_H

#include "world.h"

/* Collective. |shard - exact mean of grads|^2 / |exact mean|^2 over all shards; negative when there
 * is no memory. */
double accuracy_of_grads(const struct world *world, const float *grads, const float *shard);
/* Collective. |weights - master|^2 / |master|^2; weights is the whole replica in f32. */
double accuracy_of_weights(const struct world *world, const float *weights, const float *master);

#endif
