/* budget.h - the bound on activations that a budget for their weights' gradient leaves.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PREDICT_BUDGET_H
#define PITHI_PREDICT_BUDGET_H

#include <float.h>

#include "common/roots.h"

/* Returns the bound with which a sum of `terms` products of an arriving gradient and the error of
 * an activation has deviation sigma = factor * gradient * sqrt(terms) * bound. factor 0 stands for
 * sqrt(positions / 3): errors spread evenly within +-bound have the variance bound^2 / 3. Arguments
 * are finite and not negative; DBL_MAX where no bound is too large. */
static inline double pithi_budget_bound(double sigma, double factor, double positions,
                                        double gradient, double terms) {
    const double a = factor > 0 ? factor : pithi_root(positions / 3);
    const double slope = a * gradient * pithi_root(terms);
    const double bound = sigma / slope;
    return slope > 0 && bound < DBL_MAX ? bound : DBL_MAX;
}

#endif
