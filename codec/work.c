/* work.c - what a call needs besides its arguments: scratch memory, threads, the last error.
 * SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

#include "common/checked.h"
#include "common/pad.h"
#include "error.h"

/* ---- Sizes -----------------------------------------------------------------------------------*/

static uint64_t head_bytes(uint32_t workers) {
    return pithi_pad64(sizeof(pith_work)) + 2 * (uint64_t)workers * sizeof(struct pithi_worker);
}

/* Whether a call may have the plan as its second. Calls with two plans sum frames of one and encode
 * for the other, or add pages of one to those of the other. */
static bool may_be_second(const pith_plan *p) {
    const struct pithi_params *q = &p->params;
    return q->codec->refuse_pages || pithi_codec_sums(q);
}

static uint64_t bytes_for(uint64_t first, uint64_t second, uint32_t workers) {
    uint64_t lanes;
    if (workers > PITHI_THREADS_MAX || first > UINT64_MAX / 4 || second > UINT64_MAX / 4 ||
        !pithi_checked_multiply(first + second, workers, &lanes) || lanes > UINT64_MAX / 2)
        return UINT64_MAX;
    return 64 + head_bytes(workers) + lanes;
}

uint64_t pithi_work_bytes_alone(const pith_plan *plan, uint32_t workers) {
    return bytes_for(plan->scratch.total, 0, workers);
}

uint64_t pith_work_bytes(const pith_plan *const *plans, size_t count, uint32_t threads) {
    uint64_t first = 0, second = 0;
    if (!plans && count) return UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bytes = plans[i]->scratch.total;
        if (bytes > first) first = bytes;
        if (may_be_second(plans[i]) && bytes > second) second = bytes;
    }
    return bytes_for(first, second, threads ? threads : 1);
}

/* ---- Life ------------------------------------------------------------------------------------*/

pith_status pithi_check_threads(const pith_env *env, pith_error *error) {
    if (env->threads > PITHI_THREADS_MAX)
        return pithi_fail_numbers(error, PITH_ERR_ARG, "threads: at most #, found #",
                                  PITHI_THREADS_MAX, env->threads);
#ifndef PITHI_OPENMP
    if (env->threads > 1 && !env->run)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "this build has no OpenMP");
#endif
    return PITH_OK;
}

pith_status pith_work_init(void *memory, size_t bytes, const pith_env *env, pith_work **work,
                           pith_error *error) {
    pith_env e;
    pithi_clear(error);
    if (!work) return pithi_fail(error, PITH_ERR_ARG, "work is NULL");
    *work = NULL;
    PITHI_TRY(pithi_env_take(&e, env, error));
    PITHI_TRY(pithi_check_threads(&e, error));
    const uint32_t workers = e.threads ? e.threads : 1;
    const uint64_t head = head_bytes(workers);
    if (!memory) return pithi_fail(error, PITH_ERR_ARG, "memory is NULL");
    if (bytes < 64 + head)
        return pithi_fail_numbers(error, PITH_ERR_SPACE,
                                  "memory of the work: # bytes needed at least, # given", 64 + head,
                                  bytes);
    uint8_t *at = memory;
    at += (64 - (uintptr_t)at % 64) % 64;
    pith_work *const w = (pith_work *)(void *)at;
    memset(at, 0, (size_t)head);
    w->error.size = sizeof w->error;
    w->env = e;
    w->workers = workers;
    w->worker = (struct pithi_worker *)(void *)(at + pithi_pad64(sizeof *w));
    w->second = w->worker + workers;
    w->lane_bytes = (bytes - 64 - head) / workers / 64 * 64;
    for (uint32_t i = 0; i < workers; i++) w->worker[i].memory = at + head + i * w->lane_bytes;
    *work = w;
    return PITH_OK;
}

const pith_error *pith_work_error(const pith_work *work) { return &work->error; }

/* ---- Calls -----------------------------------------------------------------------------------*/

pith_status pithi_work_enter(pith_work *w) {
    const void *none = NULL;
    if (!w) return PITH_ERR_ARG;
    if (!__atomic_compare_exchange_n(&w->busy, &none, w, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return PITH_ERR_BUSY;
    pithi_clear(&w->error);
    return PITH_OK;
}

void pithi_work_leave(pith_work *w) { __atomic_store_n(&w->busy, NULL, __ATOMIC_RELEASE); }

/* ---- Memory for a plan -----------------------------------------------------------------------*/

/* Hands out the next 64-byte aligned part of a memory. */
static void *take(uint8_t **at, uint64_t bytes) {
    void *part = *at;
    *at += pithi_pad64(bytes);
    return part;
}

static void cut(struct pithi_worker *w, const struct pithi_scratch *s) {
    uint8_t *at = w->memory;
    w->cut = *s;
    w->values = take(&at, s->values);
    w->base = take(&at, s->base);
    w->floats = take(&at, s->floats);
    w->sums = take(&at, s->sums);
    w->coded = take(&at, s->coded);
    w->scratch = take(&at, s->scratch);
    w->block_offset = take(&at, s->offsets);
    w->coder = take(&at, s->coder);
    if (s->coder) s->open_coder(w->coder, (size_t)s->coder);
}

static bool is_cut(const struct pithi_worker *w, const struct pithi_scratch *s) {
    const struct pithi_scratch *const c = &w->cut;
    return c->values == s->values && c->base == s->base && c->floats == s->floats &&
           c->sums == s->sums && c->coded == s->coded && c->scratch == s->scratch &&
           c->offsets == s->offsets && c->coder == s->coder && c->total == s->total &&
           c->open_coder == s->open_coder;
}

void pithi_worker_cut(struct pithi_worker *w, const pith_plan *plan) {
    if (!is_cut(w, &plan->scratch)) cut(w, &plan->scratch);
}

pith_status pithi_work_attach(pith_work *w, const pith_plan *plan, const pith_plan *second) {
    const uint64_t first = plan->scratch.total, other = second ? second->scratch.total : 0;
    if (first + other > w->lane_bytes)
        return pithi_fail_numbers(
            &w->error, PITH_ERR_SPACE,
            "the work is too small for the plan: # bytes for each thread needed, # there",
            first + other, w->lane_bytes);
    for (uint32_t i = 0; i < w->workers; i++) {
        struct pithi_worker *const a = &w->worker[i], *const b = &w->second[i];
        if (!is_cut(a, &plan->scratch)) {
            cut(a, &plan->scratch);
            b->cut.total = UINT64_MAX; /* its memory moved, or was written over */
        }
        if (!second || is_cut(b, &second->scratch)) continue;
        b->memory = a->memory + first;
        cut(b, &second->scratch);
    }
    return PITH_OK;
}
