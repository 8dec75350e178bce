/* cache_append.c - tokens into caches: into one, into a batch of them, as differences.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/minmax.h"
#include "cpu.h"
#include "error.h"
#include "kv/cache.h"
#include "overlap.h"
#include "parallel.h"

/* An append to one cache. kv points at the cache's own: to read from a copy waits until all codes
 * of the call before are stored, where parts of other sizes were written. */
struct append {
    struct pithi_worker *worker;
    const struct pithi_kv *kv;
    struct pithi_span view;
    const void *prefetch; /* what another cache takes next, or NULL */
    uint8_t *base;        /* base of the token that comes next, or NULL */
    uint64_t at;          /* the number of that token */
};

/* Codes dense rows into pages. */
static void finish(pith_kv *c, struct append *a, const uint8_t *rows, uint64_t count) {
    const uint32_t page = c->paged.tokens;
    while (count) {
        uint64_t capacity = pithi_cache_open(c);
        if (!capacity) {
            pithi_cache_add(c, c->finished);
            capacity = page;
        }
        const uint32_t n = (uint32_t)pithi_min(count, capacity);
        struct pithi_kv_rows r = {.tokens = page,
                                  .first = page - (uint32_t)capacity,
                                  .count = n,
                                  .value = rows,
                                  .prefetch = a->prefetch,
                                  .base = a->base,
                                  .update = a->base != NULL,
                                  .scratch = a->worker->scratch};
        pithi_kv_put(a->kv, c->page[c->pages - 1].bytes, &r);
        if (r.saturated) c->saturated += r.saturated;
        if (r.poisoned) c->poisoned += r.poisoned;
        c->finished += n;
        count -= n;
        rows += n * pithi_row_bytes(&c->paged);
        if (a->base) a->base += n * c->paged.row * pith_dtype_bytes(a->kv->base_dtype);
    }
}

static void finish_exact(pith_kv *c, struct append *a, uint64_t count) {
    while (count) {
        uint64_t n = count;
        const uint8_t *rows = pithi_cache_exact(c, 0, &n);
        finish(c, a, rows, n);
        c->start = c->start + n == c->ring ? 0 : c->start + n;
        c->held -= n;
        count -= n;
    }
}

static void finish_view(pith_kv *c, struct append *a, uint64_t count) {
    const size_t row = c->paged.row;
    const void *rows = pithi_span_read(&a->view, a->at * row, count * row, a->worker->values);
    a->at += count;
    finish(c, a, rows, count);
}

static void hold(pith_kv *c, struct append *a, uint64_t count) {
    const size_t row = c->paged.row;
    while (count) {
        uint64_t n = count;
        uint8_t *to = pithi_cache_exact(c, c->held, &n);
        const void *from = pithi_span_read(&a->view, a->at * row, n * row, to);
        if (from != to) memcpy(to, from, (size_t)n * pithi_row_bytes(&c->paged));
        c->held += n;
        a->at += n;
        count -= n;
    }
}

/* Returns how many of so many tokens behind the finished ones are to be finished. */
static uint64_t due(const pith_kv *c, uint64_t tokens) {
    if (tokens <= c->window) return 0;
    const uint64_t old = tokens - c->window;
    return c->paged.kv.channel ? old - old % c->paged.tokens : old;
}

static void append(pith_kv *c, struct append *a, uint64_t tokens) {
    const uint64_t page = c->paged.tokens;
    for (uint64_t left = due(c, c->held + tokens), n; left; left -= n) {
        n = pithi_min(left, page);
        if (c->held == 0) {
            finish_view(c, a, n);
            continue;
        }
        if (c->paged.kv.channel && c->held < page) hold(c, a, page - c->held);
        n = pithi_min(n, c->held);
        finish_exact(c, a, n);
    }
    if (tokens > a->at) hold(c, a, tokens - a->at);
}

static pith_status fits(const pith_kv *c, uint64_t tokens, pith_error *error) {
    if (tokens <= pithi_cache_remaining(c)) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_SPACE, pithi_cache_remaining(c),
                           "# tokens to append, the cache has memory for # more",
                           &(struct pithi_words){.number = {tokens, pithi_cache_remaining(c)}});
}

static pith_status take_view(const struct pithi_kv *k, const pith_view *view,
                             struct pithi_span *span, pith_error *error) {
    PITHI_TRY(pithi_paged_view(k, view, k->heads, false, span, error));
    if (view->dtype == k->dtype) return PITH_OK;
    return pithi_fail_with(
        error, PITH_ERR_DTYPE, 0, "the view has dtype $, the layout $",
        &(struct pithi_words){.name = {pith_dtype_name(view->dtype), pith_dtype_name(k->dtype)}});
}

/* Sets all but the view. Fields are set one by one, since most of the struct is the view. */
static void open_append(struct append *a, const pith_kv *c, struct pithi_worker *w) {
    a->worker = w;
    a->kv = &c->paged.kv;
    a->prefetch = NULL;
    a->base = NULL;
    a->at = 0;
}

static pith_status take_tokens(pith_work *w, const pith_kv *c, const pith_view *view,
                               struct append *a) {
    PITHI_TRY(take_view(&c->paged.kv, view, &a->view, &w->error));
    PITHI_TRY(fits(c, view->shape[0], &w->error));
    open_append(a, c, &w->worker[0]);
    return PITH_OK;
}

/* ---- Straight into a page --------------------------------------------------------------------*/

static bool lies_straight(const struct pithi_kv *k, const struct pithi_span *tokens) {
    return tokens->dense && tokens->count && pithi_kv_takes_runs(k, (size_t)tokens->count);
}

/* Opens a page where the last one is complete, for which there is memory. False where tokens are
 * held exact, or do not fit in the open page. */
static bool takes_run(pith_kv *c, uint64_t tokens) {
    if (c->held || c->window || tokens > c->paged.tokens) return false;
    if (pithi_cache_open(c) == 0) pithi_cache_add(c, c->finished);
    return tokens <= pithi_cache_open(c);
}

static struct pithi_group_run run_of(const pith_kv *c, const void *values) {
    const struct pithi_cache_page *const page = &c->page[c->pages - 1];
    const uint32_t first = (uint32_t)(c->finished - page->first);
    return pithi_kv_run(&c->paged.kv, page->bytes, c->paged.tokens, first, values);
}

static void took_run(pith_kv *c, uint64_t tokens, const struct pithi_group_run *run) {
    c->finished += tokens;
    c->poisoned += run->poisoned;
}

static void append_run(pith_kv *c, const void *values, uint64_t tokens, void *scratch) {
    struct pithi_group_run run = run_of(c, values);
    pithi_kv_put_runs(&c->paged.kv, (uint32_t)tokens, &run, 1, scratch);
    took_run(c, tokens, &run);
}

static void append_tokens(pith_kv *c, struct append *a, uint64_t tokens) {
    if (lies_straight(a->kv, &a->view) && takes_run(c, tokens))
        append_run(c, pithi_span_at(&a->view, 0), tokens, a->worker->scratch);
    else
        append(c, a, tokens);
}

/* ---- Lists -----------------------------------------------------------------------------------*/

/* Releases caches that a call has marked. */
static void leave_caches(pith_work *w, pith_kv *const *caches, size_t count) {
    for (size_t i = 0; i < count; i++) pithi_cache_leave(caches[i], w);
}

/* Fails a list whose items k and i have one cache. */
static pith_status refuse_same(pith_work *w, size_t k, size_t i) {
    return pithi_fail_numbers(&w->error, PITH_ERR_ARG, "a cache comes twice, in items # and #", k,
                              i);
}

static pith_status check_append(pith_work *w, pith_kv *const *caches, const pith_view *view,
                                size_t i) {
    pith_kv *const c = caches[i];
    struct append a;
    const pith_status entered = pithi_cache_enter(c, w);
    for (size_t k = 0; entered == PITH_ERR_BUSY && k < i; k++)
        if (caches[k] == c) return refuse_same(w, k, i);
    PITHI_TRY(entered);
    const pith_status status = take_tokens(w, c, view, &a);
    if (status != PITH_OK) pithi_cache_leave(c, w);
    return status;
}

struct appends {
    pith_work *work;
    pith_kv *const *caches;
    const pith_view *views;
    size_t count;
};

/* Appends to one cache, on a worker whose memory is cut for its plan. */
static pith_status append_job(void *arg, uint64_t i, struct pithi_worker *worker) {
    const struct appends *const l = arg;
    pith_kv *const c = l->caches[i];
    struct append a;
    pithi_worker_cut(worker, c->plan);
    PITHI_TRY(take_view(&c->paged.kv, &l->views[i], &a.view, NULL)); /* was checked before */
    open_append(&a, c, worker);
    append_tokens(c, &a, l->views[i].shape[0]);
    return PITH_OK;
}

static pith_status run_appends(pith_work *w, struct appends *l) {
    uint64_t values = 0;
    for (size_t i = 0; w->workers > 1 && i < l->count; i++)
        values += l->views[i].shape[0] * l->caches[i]->paged.row;
    pith_status status = PITH_OK;
    const uint64_t before = pithi_fp_enter();
    if (values > PITHI_CACHE_ALONE) {
        pithi_parallel_begin(w);
        status = pithi_parallel_for(w, 0, l->count, append_job, l);
    } else {
        for (size_t i = 0; i < l->count; i++) (void)append_job(l, i, &w->worker[0]);
    }
    pithi_fp_restore(before);
    return status;
}

/* Appends a list of one, whose view is looked at once. */
static pith_status append_alone(pith_work *w, pith_kv *c, const pith_view *view) {
    struct append a;
    PITHI_TRY(pithi_cache_enter(c, w));
    const pith_status status = take_tokens(w, c, view, &a);
    if (status == PITH_OK) {
        const uint64_t before = pithi_fp_enter();
        append_tokens(c, &a, view->shape[0]);
        pithi_fp_restore(before);
    }
    pithi_cache_leave(c, w);
    return status;
}

static pith_status append_list(pith_work *w, pith_kv *const *caches, const pith_view *views,
                               size_t count) {
    if (count && (!caches || !views))
        return pithi_fail(&w->error, PITH_ERR_ARG, "an argument is NULL");
    if (count == 1) return append_alone(w, caches[0], &views[0]);
    for (size_t i = 0; i < count; i++) {
        const pith_status status = check_append(w, caches, &views[i], i);
        if (status == PITH_OK) continue;
        w->error.item = i;
        leave_caches(w, caches, i);
        return status;
    }
    const pith_status status = run_appends(w, &(struct appends){w, caches, views, count});
    leave_caches(w, caches, count);
    return status;
}

pith_status pith_kv_append(pith_work *w, pith_kv *const *caches, const pith_view *views,
                           size_t count) {
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = append_list(w, caches, views, count);
    pithi_work_leave(w);
    return status;
}

/* ---- Batches ---------------------------------------------------------------------------------*/

/* The most runs of one call of a kernel. */
enum { RUNS = 32 };

struct batch {
    const pith_kv_tokens *to;
    size_t count, share;    /* caches; caches of one job */
    uint64_t tokens;        /* tokens for each cache */
    struct pithi_span span; /* the span of one cache's tokens; others differ in their data */
    bool straight;          /* tokens may go into a page as they lie */
};

/* Runs that go straight into open pages and are coded in one call. */
struct straight {
    struct pithi_group_run run[RUNS];
    pith_kv *cache[RUNS];
    size_t count;
};

static void put_straight(const struct batch *b, struct straight *s, struct pithi_worker *w) {
    if (s->count == 0) return;
    pithi_kv_put_runs(&s->cache[0]->paged.kv, (uint32_t)b->tokens, s->run, s->count, w->scratch);
    for (size_t i = 0; i < s->count; i++) took_run(s->cache[i], b->tokens, &s->run[i]);
    s->count = 0;
}

/* The most bytes to fetch for a cache: of long rows, prefetchers in hardware find the rest. */
enum { FETCHED = 4096 };

/* Fetches what a cache is going to hold exact, and the place where that goes. */
static void fetch_held(const struct batch *b, const pith_kv_tokens *to) {
    const pith_kv *const c = to->cache;
    uint64_t n = b->tokens;
    const uint8_t *const held = pithi_cache_exact(c, c->held, &n), *const values = to->values;
    const uint64_t bytes = pithi_min(n * pithi_row_bytes(&c->paged), FETCHED);
    for (size_t k = 0; k < bytes; k += 64) {
        __builtin_prefetch(values + k, 0, 2);
        __builtin_prefetch(held + k, 1, 2);
    }
}

static void append_one(const struct batch *b, size_t i, size_t end, struct pithi_worker *w) {
    struct append a;
    open_append(&a, b->to[i].cache, w);
    a.view = b->span;
    a.view.data = (uint8_t *)(uintptr_t)b->to[i].values;
    /* What the very next cache takes would come too late, with as few lines under way at a time. */
    if (b->span.dense && i + 2 < end) {
        a.prefetch = b->to[i + 2].values;
        if (b->to[i + 2].cache->ring) fetch_held(b, &b->to[i + 2]);
    }
    append(b->to[i].cache, &a, b->tokens);
}

/* Appends to caches [first, end). */
static void append_some(const struct batch *b, size_t first, size_t end, struct pithi_worker *w) {
    struct straight s;
    s.count = 0;
    for (size_t i = first; i < end; i++) {
        pith_kv *const c = b->to[i].cache;
        if (!b->straight || !takes_run(c, b->tokens)) {
            append_one(b, i, end, w);
            continue;
        }
        s.run[s.count] = run_of(c, b->to[i].values);
        s.cache[s.count++] = c;
        if (s.count == RUNS) put_straight(b, &s, w);
    }
    put_straight(b, &s, w);
}

static pith_status batch_job(void *arg, uint64_t i, struct pithi_worker *w) {
    const struct batch *b = arg;
    const size_t first = (size_t)i * b->share;
    append_some(b, first, (size_t)pithi_min(first + b->share, b->count), w);
    return PITH_OK;
}

static pith_status take_one(pith_work *w, const struct batch *b, size_t i) {
    pith_kv *const c = b->to[i].cache;
    const pith_status marked = pithi_cache_mark(c, w);
    for (size_t k = 0; marked == PITH_ERR_BUSY && k < i; k++)
        if (b->to[k].cache == c) return refuse_same(w, k, i);
    PITHI_TRY(marked);
    pith_status status = PITH_OK;
    if (c->plan != b->to[0].cache->plan)
        status = pithi_fail(&w->error, PITH_ERR_ARG, "a cache of the batch is of another plan");
    else if (!b->to[i].values && b->span.count)
        status = pithi_fail(&w->error, PITH_ERR_ARG, "tokens are NULL");
    else
        status = fits(c, b->tokens, &w->error);
    if (status != PITH_OK) pithi_cache_leave(c, w);
    return status;
}

static void leave_batch(pith_work *w, const struct batch *b, size_t count) {
    for (size_t i = 0; i < count; i++) pithi_cache_leave(b->to[i].cache, w);
}

/* Marks all caches before one is changed, and attaches the work once, to the plan of all. */
static pith_status take_batch(pith_work *w, const pith_view *like, struct batch *b) {
    const pith_kv *const first = b->to[0].cache;
    if (!like || !first) return pithi_fail(&w->error, PITH_ERR_ARG, "an argument is NULL");
    pith_view any = *like;
    any.data = w; /* only its shape is looked at */
    PITHI_TRY(take_view(&first->paged.kv, &any, &b->span, &w->error));
    PITHI_TRY(pithi_work_attach(w, first->plan, NULL));
    b->tokens = like->shape[0];
    b->straight = lies_straight(&first->paged.kv, &b->span);
    for (size_t i = 0; i < b->count; i++) {
        const pith_status status = take_one(w, b, i);
        if (status == PITH_OK) continue;
        w->error.item = i;
        leave_batch(w, b, i);
        return status;
    }
    return PITH_OK;
}

static pith_status run_batch(pith_work *w, struct batch *b) {
    pith_status status = PITH_OK;
    const uint64_t before = pithi_fp_enter();
    if (w->workers > 1 && b->span.count && b->count > PITHI_CACHE_ALONE / b->span.count) {
        pithi_parallel_begin(w);
        b->share = (b->count - 1) / w->workers + 1;
        status = pithi_parallel_for(w, 0, (b->count - 1) / b->share + 1, batch_job, b);
    } else {
        append_some(b, 0, b->count, &w->worker[0]);
    }
    pithi_fp_restore(before);
    return status;
}

static pith_status append_batch(pith_work *w, const pith_view *like, struct batch *b) {
    if (!b->count) return PITH_OK;
    if (!b->to) return pithi_fail(&w->error, PITH_ERR_ARG, "an argument is NULL");
    PITHI_TRY(take_batch(w, like, b));
    const pith_status status = run_batch(w, b);
    leave_batch(w, b, b->count);
    return status;
}

pith_status pith_kv_append_batch(pith_work *w, const pith_view *like, const pith_kv_tokens *to,
                                 size_t count) {
    struct batch b = {.to = to, .count = count};
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = append_batch(w, like, &b);
    pithi_work_leave(w);
    return status;
}

/* ---- Differences -----------------------------------------------------------------------------*/

static pith_status append_delta(pith_work *w, pith_kv *c, const pith_view *view,
                                const pith_view *base) {
    struct append a;
    struct pithi_span span;
    PITHI_TRY(take_tokens(w, c, view, &a));
    PITHI_TRY(pithi_cache_base(w, c, base, view->shape[0], &span));
    if (pithi_span_overlaps_base(&a.view, a.view.count, &span, 0))
        return pithi_fail(&w->error, PITH_ERR_ARG, "the view overlaps the base, not in its place");
    struct pithi_kv kv = c->paged.kv;
    kv.base_dtype = base->dtype;
    a.kv = &kv;
    a.base = span.data;
    const uint64_t before = pithi_fp_enter();
    append(c, &a, view->shape[0]);
    pithi_fp_restore(before);
    return PITH_OK;
}

pith_status pith_kv_append_delta(pith_work *w, pith_kv *c, const pith_view *view,
                                 const pith_view *base) {
    PITHI_TRY(pithi_work_enter(w));
    pith_status status = pithi_cache_enter(c, w);
    if (status == PITH_OK) {
        status = append_delta(w, c, view, base);
        pithi_cache_leave(c, w);
    }
    pithi_work_leave(w);
    return status;
}
