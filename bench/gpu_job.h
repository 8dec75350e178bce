/* gpu_job.h - one row of the CUDA bench at one size: its data, its work, its proof.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The CPU makes the frames and says what must come out. The device has several sets of the same
 * data and takes them in turn, so that together they do not fit its cache. With a base, a set's
 * calls follow each other like the steps of a training, and before they are repeated the base is
 * put back. Pages are those of the tensor, in a pool, all in one call. What fails here ends the
 * program. */
#ifndef PITH_BENCH_GPU_JOB_H
#define PITH_BENCH_GPU_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_clock.h"

enum gpu_what {
    GPU_ENCODE,
    GPU_DECODE,
    GPU_DECODE_ADD,
    GPU_REDUCE,
    GPU_REDUCE_ENCODE,
    GPU_HOLD, /* the set of all frames; gather and scatter are of values at its elements */
    GPU_GATHER,
    GPU_SCATTER,
    GPU_ENCODE_PAGES,
    GPU_DECODE_PAGES
};

struct gpu_row {
    enum gpu_what what;
    const char *spec, *into; /* into: of the frame that reduce_encode makes */
    uint32_t dtype, base;
    uint32_t frames;     /* that a call reads or makes */
    double goal;         /* for large tensors; 0: none stated */
    uint32_t heads, dim; /* tensors are [tokens, heads, dim]; 0: of one dimension */
};

struct gpu_job;
struct gpu_job *gpu_job_open(const struct gpu_row *row, uint64_t count, uint64_t cache);
void gpu_job_close(struct gpu_job *job);

/* How many calls go through all sets and steps, and the bytes that one reads and writes at least:
 * those of its frames, tensors and base, each as often as the contract demands. */
uint32_t gpu_job_calls(const struct gpu_job *job);
uint64_t gpu_job_moved(const struct gpu_job *job);
/* Puts the data back as before the first call; does not wait. */
void gpu_job_restore(struct gpu_job *job);
/* Call number k of gpu_job_calls. */
gpu_work gpu_job_call;
/* After all calls: whether frames, values and base are the CPU's. Prints what is not. */
bool gpu_job_check(struct gpu_job *job);

#endif
