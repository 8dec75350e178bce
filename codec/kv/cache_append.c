/* cache_append.c - tokens into caches: into one, into a batch of them, as differences.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu.h"
#include "error.h"
#include "kv/cache.h"
#include "parallel.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* kv is the cache's own: to read from a copy waits until all codes of the call before are stored,
 * where pieces of other sizes were written. */
struct append {
    struct pithi_worker *worker;
    const struct pithi_kv *kv;
    struct pithi_span view;
    const void *ahead; /* what another cache takes next, or NULL */
    uint8_t *base;     /* of the token that comes next, or NULL */
    uint64_t at;       /* that token */
};

/* Dense rows into pages. */
static void finish(pith_kv *c, struct append *a, const uint8_t *rows, uint64_t count) {
    const uint32_t page = c->paged.tokens;
    while (count) {
        uint64_t room = pithi_cache_open(c);
        if (!room) {
            pithi_cache_add(c, c->finished);
            room = page;
        }
        const uint32_t n = (uint32_t)least(count, room);
        struct pithi_kv_rows r = {.tokens = page,
                                  .first = page - (uint32_t)room,
                                  .count = n,
                                  .value = rows,
                                  .ahead = a->ahead,
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

/* Of so many tokens behind those that are finished. */
static uint64_t due(const pith_kv *c, uint64_t tokens) {
    if (tokens <= c->window) return 0;
    const uint64_t old = tokens - c->window;
    return c->paged.kv.channel ? old - old % c->paged.tokens : old;
}

static void append(pith_kv *c, struct append *a, uint64_t tokens) {
    const uint64_t page = c->paged.tokens;
    for (uint64_t left = due(c, c->held + tokens), n; left; left -= n) {
        n = least(left, page);
        if (c->held == 0) {
            finish_view(c, a, n);
            continue;
        }
        if (c->paged.kv.channel && c->held < page) hold(c, a, page - c->held);
        n = least(n, c->held);
        finish_exact(c, a, n);
    }
    if (tokens > a->at) hold(c, a, tokens - a->at);
}

static pith_status fits(pith_plan *p, const pith_kv *c, uint64_t tokens) {
    if (tokens <= pithi_cache_room(c)) return PITH_OK;
    return pithi_fail_at(&p->error, PITH_ERR_SPACE, "the cache is full", pithi_cache_room(c));
}

static pith_status take_view(pith_plan *p, const struct pithi_kv *k, const pith_view *view,
                             struct pithi_span *span) {
    PITHI_TRY(pithi_paged_view(p, k, view, k->heads, false, span));
    if (view->dtype == k->dtype) return PITH_OK;
    return pithi_fail(&p->error, PITH_ERR_DTYPE, "the view's dtype is not the layout's");
}

/* All but the view; field by field, since most of it is that. */
static void open_append(struct append *a, pith_kv *c, const pith_plan *p, struct pithi_worker *w) {
    c->paged.kv.kernels = &p->kernels;
    a->worker = w;
    a->kv = &c->paged.kv;
    a->ahead = NULL;
    a->base = NULL;
    a->at = 0;
}

static pith_status take_tokens(pith_plan *p, pith_kv *c, const pith_view *view, struct append *a) {
    PITHI_TRY(pithi_cache_check(p, c));
    PITHI_TRY(take_view(p, &c->paged.kv, view, &a->view));
    PITHI_TRY(fits(p, c, view->shape[0]));
    open_append(a, c, p, &p->worker[0]);
    return PITH_OK;
}

/* ---- Straight into a page --------------------------------------------------------------------*/

static bool lies_straight(const struct pithi_kv *k, const struct pithi_span *tokens) {
    return tokens->dense && tokens->count && pithi_kv_plain(k);
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

static void append_run(pith_kv *c, const void *values, uint64_t tokens) {
    struct pithi_group_run run = run_of(c, values);
    pithi_kv_put_runs(&c->paged.kv, (uint32_t)tokens, &run, 1);
    took_run(c, tokens, &run);
}

pith_status pith_kv_append(pith_plan *p, pith_kv *c, const pith_view *view) {
    struct append a;
    PITHI_TRY(take_tokens(p, c, view, &a));
    const uint64_t tokens = view->shape[0], before = pithi_fp_enter();
    if (lies_straight(a.kv, &a.view) && takes_run(c, tokens))
        append_run(c, pithi_span_at(&a.view, 0), tokens);
    else
        append(c, &a, tokens);
    pithi_fp_restore(before);
    return PITH_OK;
}

/* ---- Batches ---------------------------------------------------------------------------------*/

/* Most runs of a call. */
enum { RUNS = 32 };

struct batch {
    const pith_plan *plan;
    const pith_kv_tokens *to;
    size_t count, share;    /* caches; of them, those of one job */
    uint64_t tokens;        /* for each */
    struct pithi_span span; /* of any one's: its data is another's */
    bool straight;          /* tokens as they lie may go into a page */
};

/* What goes straight into open pages is coded in one call. */
struct straight {
    struct pithi_group_run run[RUNS];
    pith_kv *cache[RUNS];
    size_t count;
};

static void put_straight(const struct batch *b, struct straight *s) {
    if (s->count == 0) return;
    pithi_kv_put_runs(&s->cache[0]->paged.kv, (uint32_t)b->tokens, s->run, s->count);
    for (size_t i = 0; i < s->count; i++) took_run(s->cache[i], b->tokens, &s->run[i]);
    s->count = 0;
}

static void append_one(const struct batch *b, size_t i, size_t end, struct pithi_worker *w) {
    struct append a;
    open_append(&a, b->to[i].cache, b->plan, w);
    a.view = b->span;
    a.view.data = (uint8_t *)(uintptr_t)b->to[i].values;
    /* What the very next one takes would come too late, with as few lines under way at a time. */
    if (b->span.dense && i + 2 < end) a.ahead = b->to[i + 2].values;
    append(b->to[i].cache, &a, b->tokens);
}

/* Caches [first, end). */
static void append_some(const struct batch *b, size_t first, size_t end, struct pithi_worker *w) {
    struct straight s;
    s.count = 0;
    for (size_t i = first; i < end; i++) {
        pith_kv *const c = b->to[i].cache;
        if (!b->straight || !takes_run(c, b->tokens)) {
            append_one(b, i, end, w);
            continue;
        }
        c->paged.kv.kernels = &b->plan->kernels;
        s.run[s.count] = run_of(c, b->to[i].values);
        s.cache[s.count++] = c;
        if (s.count == RUNS) put_straight(b, &s);
    }
    put_straight(b, &s);
}

static pith_status batch_job(void *arg, uint64_t i, struct pithi_worker *w) {
    const struct batch *b = arg;
    const size_t first = (size_t)i * b->share;
    append_some(b, first, (size_t)least(first + b->share, b->count), w);
    return PITH_OK;
}

static pith_status take_one(pith_plan *p, const struct batch *b, size_t i) {
    pith_kv *const c = b->to[i].cache;
    PITHI_TRY(pithi_cache_check(p, c));
    PITHI_TRY(fits(p, c, b->tokens));
    if (!b->to[i].values && b->span.count)
        return pithi_fail(&p->error, PITH_ERR_ARG, "tokens are NULL");
    if (c->taken) return pithi_fail(&p->error, PITH_ERR_ARG, "a cache comes twice");
    c->taken = true;
    return PITH_OK;
}

/* Of all caches before one is changed. */
static pith_status take_caches(pith_plan *p, const struct batch *b) {
    pith_status status = PITH_OK;
    size_t n = 0;
    while (n < b->count && (status = take_one(p, b, n)) == PITH_OK) n++;
    if (status != PITH_OK) p->error.offset = n;
    while (n > 0) b->to[--n].cache->taken = false;
    return status;
}

static pith_status take_batch(pith_plan *p, const pith_view *like, struct batch *b) {
    struct pithi_paged paged;
    PITHI_TRY(pithi_paged_require(p, &paged));
    if (!like || (!b->to && b->count))
        return pithi_fail(&p->error, PITH_ERR_ARG, "an argument is NULL");
    pith_view any = *like;
    any.data = p; /* of which only the shape is looked at */
    PITHI_TRY(take_view(p, &paged.kv, &any, &b->span));
    b->tokens = like->shape[0];
    b->straight = lies_straight(&paged.kv, &b->span);
    return take_caches(p, b);
}

/* Few values are sooner coded than threads are woken. */
static pith_status run_batch(pith_plan *p, struct batch *b) {
    enum { ALONE = 1 << 16 };
    if (b->span.count && b->count > ALONE / b->span.count) {
        pithi_parallel_begin(p);
        b->share = (b->count - 1) / p->workers + 1;
        return pithi_parallel_for(p, 0, (b->count - 1) / b->share + 1, batch_job, b);
    }
    const uint64_t before = pithi_fp_enter();
    append_some(b, 0, b->count, &p->worker[0]);
    pithi_fp_restore(before);
    return PITH_OK;
}

pith_status pith_kv_append_batch(pith_plan *p, const pith_view *like, const pith_kv_tokens *to,
                                 size_t count) {
    if (!p) return PITH_ERR_ARG;
    struct batch b = {.plan = p, .to = to, .count = count};
    PITHI_TRY(take_batch(p, like, &b));
    return run_batch(p, &b);
}

/* ---- Differences -----------------------------------------------------------------------------*/

pith_status pith_kv_append_delta(pith_plan *p, pith_kv *c, const pith_view *view,
                                 const pith_view *base) {
    struct append a;
    struct pithi_span span;
    PITHI_TRY(take_tokens(p, c, view, &a));
    PITHI_TRY(pithi_cache_base(p, c, base, view->shape[0], &span));
    struct pithi_kv kv = c->paged.kv;
    kv.base_dtype = base->dtype;
    a.kv = &kv;
    a.base = span.data;
    const uint64_t before = pithi_fp_enter();
    append(c, &a, view->shape[0]);
    pithi_fp_restore(before);
    return PITH_OK;
}
