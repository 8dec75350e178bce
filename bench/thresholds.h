/* thresholds.h - how often thresholds of codec topk keep the number of values that is wanted, on
 * real gradients.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_BENCH_THRESHOLDS_H
#define PITH_BENCH_THRESHOLDS_H

#include "gradients.h"

/* The tensor of a step is a row of the gradients, but each run of so many values is of a row drawn
 * at random. The first `warm` steps fill the residual, where there is one, and half as many let
 * thresholds that stay settle; `steps` more are counted. In the first step the threshold is so many
 * times the one that takes k values. */
struct thresholds_series {
    const char *keys; /* of the codec, but for k */
    size_t k, run, warm, steps;
    double times;
};

/* In the band is a step that reaches 0.909 to 1.1 times k values with its threshold. */
struct thresholds_found {
    double held;   /* share of the counted steps in the band, by the codec's controller */
    double frozen; /* and by the best of some thresholds that stay */
    double mean;   /* of the controller's counts, of k */
    size_t first;  /* step in the band while the residual fills; `warm`: none */
};
/* Returns 0 on success. */
int thresholds_run(const struct gradients *g, const struct thresholds_series *series,
                   struct thresholds_found *found);

/* The share of Poisson's distribution with a mean near k, the best one, that is in the band: what
 * independent values allow whose share is small. */
double thresholds_poisson(double k);

#endif
