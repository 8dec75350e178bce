/* parallel.h - for each block: serial, OpenMP, or the caller's runner.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_PARALLEL_H
#define PITHI_PARALLEL_H

#include "work.h"

typedef pith_status pithi_block_fn(void *arg, uint64_t block, struct pithi_worker *worker);

/* Clears the results of the workers, also of those of the second plan. */
void pithi_parallel_begin(pith_work *work);
/* Calls fn once for each of the blocks [first, first + count). Worker i has the i-th of equal
 * contiguous parts, in ascending order, and stops at its first failure; the failure of the lowest
 * block is the result, whatever the number of workers. The calling thread has the library's
 * floating-point control word (pithi_fp_enter); others get it for their parts. */
pith_status pithi_parallel_for(pith_work *work, uint64_t first, uint64_t count, pithi_block_fn *fn,
                               void *arg);
/* These add up what work->worker or work->second counted since pithi_parallel_begin (work.h says
 * what the counts are of). */
void pithi_parallel_results(const pith_work *work, const struct pithi_worker *worker,
                            uint64_t *hash, uint64_t *saturated, uint64_t *poisoned);
void pithi_parallel_counts(const pith_work *work, uint64_t *exact, uint64_t *nonzero);
/* Whether, since pithi_parallel_begin, a block was written of a base whose hashes are kept. */
bool pithi_parallel_advanced(const pith_work *work);

#endif
