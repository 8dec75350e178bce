/* parallel.h - for each block: serial, OpenMP, or the caller's runner.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PARALLEL_H
#define PITHI_PARALLEL_H

#include "plan.h"

typedef pith_status pithi_block_fn(void *arg, uint64_t block, struct pithi_worker *worker);

/* Forget the results of the workers. */
void pithi_parallel_begin(pith_plan *plan);
/* Call fn for blocks [first, first + count), each once. Worker i has the i-th of equal contiguous
 * parts, in ascending order, and stops at its first failure; the failure of the lowest block is
 * the result, whatever the number of workers. */
pith_status pithi_parallel_for(pith_plan *plan, uint64_t first, uint64_t count, pithi_block_fn *fn,
                               void *arg);
/* Sums over the workers since pithi_parallel_begin. */
void pithi_parallel_results(const pith_plan *plan, uint64_t *hash, uint64_t *saturated,
                            uint64_t *poisoned);
/* Whether a block of a base of which sums are kept was written since then. */
bool pithi_parallel_advanced(const pith_plan *plan);
void pithi_parallel_counts(const pith_plan *plan, uint64_t *exact, uint64_t *nonzero);

#endif
