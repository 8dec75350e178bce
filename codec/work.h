/* work.h - what a call needs besides its arguments: scratch memory, threads, the last error.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_WORK_H
#define PITHI_WORK_H

#include "plan.h"

/* What one thread of a call has to itself, down to cache lines: first what it reads, then what a
 * run leaves, then the rest. Results are added up after a run, in the order of workers. */
struct pithi_worker {
    /* One block of values, or of output, when the view is not dense. */
    _Alignas(64) uint8_t *values;
    uint8_t *base;    /* one block of a strided base */
    uint8_t *floats;  /* one block of f32, for reductions */
    uint8_t *sums;    /* another block of f32 */
    uint8_t *coded;   /* one encoded block of a variable-rate codec */
    uint8_t *scratch; /* scratch memory of the codec */
    struct pithi_entropy *coder;
    uint64_t *block_offset; /* variable rate: offsets of blocks; a call uses the first worker's */
    _Alignas(64) uint64_t hash;
    uint64_t saturated, poisoned;
    uint64_t exact;   /* values stored exactly; topk: elements chosen */
    uint64_t nonzero; /* values that are not 0; topk: elements sent, and what its passes count */
    uint64_t block;   /* the first block that failed */
    const char *detail;
    pith_status status;
    bool plain;
    bool advanced;              /* a block was written of a base whose hashes are kept */
    _Alignas(64) size_t length; /* bytes of the block in `coded` */
    union pithi_worker_own own; /* of codecs with frame hooks */
    struct pithi_scratch cut;   /* how `memory` is cut now */
    uint8_t *memory;
    pith_error failure; /* the error of the lowest item that failed of those the worker took */
    size_t failed_item; /* the number of that item; SIZE_MAX: none failed */
};

/* worker[i] works for the plan of a call, second[i] for the other plan of calls that have two. */
struct pith_work {
    pith_error error;
    pith_env env; /* runner, threads, limit */
    uint32_t workers;
    struct pithi_worker *worker, *second;
    uint64_t lane_bytes; /* memory of worker[i] and second[i] together */
    const void *busy;    /* not NULL while a call runs */
};

/* Checks that a work may have as many threads as the environment says. */
pith_status pithi_check_threads(const pith_env *env, pith_error *error);
/* Is pith_work_bytes for calls of one plan that need no second one. */
uint64_t pithi_work_bytes_alone(const pith_plan *plan, uint32_t workers);
/* Begins and ends every call with a work; PITH_ERR_BUSY while another call runs. */
pith_status pithi_work_enter(pith_work *work);
void pithi_work_leave(pith_work *work);
/* Makes the workers ready for a call with this plan, and with another one beside it (NULL: none).
 * PITH_ERR_SPACE when the work is too small. */
pith_status pithi_work_attach(pith_work *work, const pith_plan *plan, const pith_plan *second);
/* Makes one worker ready for a plan, inside a call that has attached every plan of its list before,
 * so that the work is large enough. Nothing else uses the worker's memory. */
void pithi_worker_cut(struct pithi_worker *worker, const pith_plan *plan);

#endif
