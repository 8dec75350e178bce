/* runs.h - memory and medians of the programs that measure speed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_BENCH_RUNS_H
#define PITH_BENCH_RUNS_H

#include <stddef.h>

/* Aligned to 64 bytes, with pages of its own; free() gives it back. Without memory the program
 * ends. */
void *runs_allocate(size_t bytes);

/* How many tensors of so many bytes no cache holds together: 3 to RUNS_COPIES. */
enum { RUNS_COPIES = 32 };
int runs_copies(size_t bytes);

/* Sorts. */
double runs_median(double *seconds, size_t count);

#endif
