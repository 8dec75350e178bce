/* parallel.c - for each block: serial, OpenMP, or the caller's runner.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parallel.h"

#ifdef PITHI_OPENMP
#include <omp.h>
#ifndef _WIN32
#include <pthread.h>
#include <stdatomic.h>
#endif
#endif

#include "cpu.h"
#include "error.h"

/* ---- After a fork ----------------------------------------------------------------------------
 * A child has the memory of its parent's OpenMP runtime, but not the threads: where the parent used
 * OpenMP, even without pith, the first parallel region of the child may wait for ever. No runtime
 * tells whether it may, so children are serial. The handler is registered when the library is
 * loaded, not by the first call: that may come in the child. It belongs to the library, whose
 * unloading takes it away. */
#if defined(PITHI_OPENMP) && !defined(_WIN32)
static _Atomic int forked;

static void note_fork(void) { atomic_store_explicit(&forked, 1, memory_order_relaxed); }

__attribute__((constructor)) static void watch_forks(void) {
    /* Without memory for the handler nothing is known of forks, which is taken as a fork. */
    if (pthread_atfork(NULL, NULL, note_fork)) note_fork();
}

static bool is_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed) != 0; }
#elif defined(PITHI_OPENMP)
static bool is_forked(void) { return false; } /* Windows has no fork */
#endif

/* ---- Parts -----------------------------------------------------------------------------------*/

struct loop {
    pith_work *work;
    uint64_t first, count;
    uint64_t parts;
    pithi_block_fn *fn;
    void *arg;
};

/* Returns the first block of a part; parts differ by at most one block. */
static uint64_t part_begin(const struct loop *r, uint64_t part) {
    const uint64_t each = r->count / r->parts, rest = r->count % r->parts;
    return r->first + part * each + (part < rest ? part : rest);
}

static void run_blocks(const struct loop *r, uint64_t first, uint64_t end, struct pithi_worker *w) {
    w->status = PITH_OK;
    for (uint64_t block = first; block < end && w->status == PITH_OK; block++) {
        w->block = block;
        w->status = r->fn(r->arg, block, w);
    }
}

/* Runs a part on any thread, in the library's floating-point environment. */
static void run_part(void *arg, size_t part) {
    const struct loop *r = arg;
    const uint64_t before = pithi_fp_enter();
    run_blocks(r, part_begin(r, part), part_begin(r, part + 1), &r->work->worker[part]);
    pithi_fp_leave(before);
}

static bool run_openmp(struct loop *r) {
#ifdef PITHI_OPENMP
    if (is_forked() || omp_in_parallel()) return false;
    const int parts = (int)r->parts;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int i = 0; i < parts; i++) run_part(r, (size_t)i);
    return true;
#else
    (void)r;
    return false;
#endif
}

/* Runs all parts; true when they have run. */
static bool spread(struct loop *r) {
    const pith_env *env = &r->work->env;
    for (uint64_t i = 0; i < r->parts; i++) {
        r->work->worker[i].status = PITH_ERR_RUNNER; /* it stays so when the runner skips a part */
        r->work->worker[i].block = r->first;
    }
    if (env->run) return env->run(env->run_user, run_part, r, (size_t)r->parts) == 0;
    if (run_openmp(r)) return true;
    for (size_t i = 0; i < r->parts; i++)
        run_blocks(r, part_begin(r, i), part_begin(r, i + 1), &r->work->worker[i]);
    return true;
}

static const char *detail_of(const struct pithi_worker *w) {
    if (w->status == PITH_ERR_RUNNER) return "the caller's runner left out a job";
    return w->detail ? w->detail : "";
}

pith_status pithi_parallel_for(pith_work *work, uint64_t first, uint64_t count, pithi_block_fn *fn,
                               void *arg) {
    struct loop r = {work, first, count, work->workers, fn, arg};
    if (r.parts > count) r.parts = count;
    if (count == 0) return PITH_OK;
    if (r.parts == 1 && !work->env.run) /* a single part needs no divisions */
        run_blocks(&r, first, first + count, &work->worker[0]);
    else if (!spread(&r))
        return pithi_fail(&work->error, PITH_ERR_RUNNER, "the caller's runner reported failure");
    for (uint64_t i = 0; i < r.parts; i++) {
        const struct pithi_worker *w = &work->worker[i];
        if (w->status != PITH_OK)
            return pithi_fail_at(&work->error, w->status, detail_of(w), w->block);
    }
    return PITH_OK;
}

static void forget(struct pithi_worker *w) {
    w->hash = w->saturated = w->poisoned = w->exact = w->nonzero = 0;
    w->detail = NULL;
    w->advanced = false;
}

void pithi_parallel_begin(pith_work *work) {
    for (uint32_t i = 0; i < work->workers; i++) {
        forget(&work->worker[i]);
        forget(&work->second[i]);
    }
}

bool pithi_parallel_advanced(const pith_work *work) {
    bool any = false;
    for (uint32_t i = 0; i < work->workers; i++) any |= work->worker[i].advanced;
    return any;
}

void pithi_parallel_results(const pith_work *work, const struct pithi_worker *worker,
                            uint64_t *hash, uint64_t *saturated, uint64_t *poisoned) {
    *hash = *saturated = *poisoned = 0;
    for (uint32_t i = 0; i < work->workers; i++) {
        *hash += worker[i].hash;
        *saturated += worker[i].saturated;
        *poisoned += worker[i].poisoned;
    }
}

void pithi_parallel_counts(const pith_work *work, uint64_t *exact, uint64_t *nonzero) {
    *exact = *nonzero = 0;
    for (uint32_t i = 0; i < work->workers; i++) {
        *exact += work->worker[i].exact;
        *nonzero += work->worker[i].nonzero;
    }
}
