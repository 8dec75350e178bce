/* parallel.h - for each block: serial, OpenMP, or the caller's runner.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PARALLEL_H
#define PITHI_PARALLEL_H

#include "work.h"

typedef pith_status pithi_block_fn(void *arg, uint64_t block, struct pithi_worker *worker);

/* Forget the results of the workers, of the second plan's too. */
void pithi_parallel_begin(pith_work *work);
/* Call fn for blocks [first, first + count), each once. Worker i has the i-th of equal contiguous
 * parts, in ascending order, and stops at its first failure; the failure of the lowest block is
 * the result, whatever the number of workers. The calling thread has the library's floating-point
 * control word (pithi_fp_enter); others get it for their parts. */
pith_status pithi_parallel_for(pith_work *work, uint64_t first, uint64_t count, pithi_block_fn *fn,
                               void *arg);
/* Sums since pithi_parallel_begin over work->worker or work->second. */
void pithi_parallel_results(const pith_work *work, const struct pithi_worker *worker,
                            uint64_t *hash, uint64_t *saturated, uint64_t *poisoned);
void pithi_parallel_counts(const pith_work *work, uint64_t *exact, uint64_t *nonzero);
/* Whether a block of a base of which sums are kept was written since then. */
bool pithi_parallel_advanced(const pith_work *work);

#endif
