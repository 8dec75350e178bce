/* cache.c - caches that grow token by token: memory, read, truncate, fork.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kv/cache.h"

#include <string.h>

#include "common/checked.h"
#include "common/convert.h"
#include "common/minmax.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "frame_codec.h"

/* ---- Plans -----------------------------------------------------------------------------------*/

/* Returns why there are no caches and pages of this plan; NULL when there are. */
static const char *why_not(const pith_plan *plan) {
    const struct pithi_params *q = &plan->params;
    const uint32_t last = plan->ndim ? plan->ndim - 1 : 0;
    if (!q->codec->refuse_pages) return "caches and pages are those of codec kv";
    const char *const refused = q->codec->refuse_pages(q);
    if (refused) return refused;
    if (!plan->one_frame) return "caches and pages need a layout of one slot";
    if (plan->ndim < 2 || plan->ndim > 3)
        return "caches and pages need a layout [tokens, heads, dim] or [tokens, dim]";
    if (plan->shape[0] < q->value[PITHI_KV_PAGE]) /* a work has memory for whole pages */
        return "caches and pages need a layout of at least one page of tokens (key page)";
    if (plan->shape[last] == 0 || plan->shape[1] == 0)
        return "caches and pages need tokens that have elements";
    return NULL;
}

bool pithi_paged_of(const pith_plan *plan, struct pithi_paged *p) {
    const struct pithi_params *q = &plan->params;
    if (why_not(plan)) return false;
    const uint32_t last = plan->ndim - 1;
    const uint64_t heads = last == 2 ? plan->shape[1] : 1, dim = plan->shape[last];
    p->tokens = q->value[PITHI_KV_PAGE];
    p->limit = plan->shape[0];
    p->row = (size_t)(heads * dim);
    pithi_kv_init(&p->kv, q, &plan->kernels, (uint32_t)heads, (uint32_t)dim);
    p->bytes = pithi_kv_areas(&p->kv, p->tokens).bytes;
    return true;
}

pith_status pithi_paged_require(const pith_plan *plan, struct pithi_paged *p, pith_error *error) {
    if (!plan) return pithi_fail(error, PITH_ERR_ARG, "plan is NULL");
    if (pithi_paged_of(plan, p)) return PITH_OK;
    return pithi_fail(error, PITH_ERR_UNSUPPORTED, why_not(plan));
}

pith_status pith_kv_check(const pith_plan *plan, pith_error *error) {
    struct pithi_paged p;
    pithi_clear(error);
    return pithi_paged_require(plan, &p, error);
}

/* ---- Calls -----------------------------------------------------------------------------------*/

pith_status pithi_cache_mark(pith_kv *c, pith_work *w) {
    const void *none = NULL;
    if (!c) return pithi_fail(&w->error, PITH_ERR_ARG, "the cache is NULL");
    if (__atomic_compare_exchange_n(&c->busy, &none, w, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return PITH_OK;
    return pithi_fail(&w->error, PITH_ERR_BUSY, "another call is using the cache");
}

pith_status pithi_cache_enter(pith_kv *c, pith_work *w) {
    if (c) PITHI_TRY(pithi_work_attach(w, c->plan, NULL));
    return pithi_cache_mark(c, w);
}

void pithi_cache_leave(pith_kv *c, pith_work *w) {
    if (__atomic_load_n(&c->busy, __ATOMIC_RELAXED) == w)
        __atomic_store_n(&c->busy, NULL, __ATOMIC_RELEASE);
}

pith_status pithi_cache_read(const pith_kv *c, pith_work *w) {
    if (!c) return pithi_fail(&w->error, PITH_ERR_ARG, "the cache is NULL");
    if (__atomic_load_n(&c->busy, __ATOMIC_RELAXED))
        return pithi_fail(&w->error, PITH_ERR_BUSY, "another call is using the cache");
    return pithi_work_attach(w, c->plan, NULL);
}

void pith_kv_unlock(pith_kv *c) {
    /* The lost call may have begun a page, which has no token until its rows are coded. */
    if (c->pages > c->shared && !pithi_cache_tokens(c, c->pages - 1)) c->pages--;
    __atomic_store_n(&c->busy, NULL, __ATOMIC_RELEASE);
}

pith_status pithi_paged_view(const struct pithi_kv *k, const pith_view *view, uint32_t heads,
                             bool output, struct pithi_span *span, pith_error *error) {
    PITHI_TRY(pithi_span_init(span, view, output, error));
    const uint32_t last = view->ndim - 1;
    if ((last == 2 && view->shape[1] == heads && view->shape[2] == k->dim) ||
        (last == 1 && heads == 1 && view->shape[1] == k->dim))
        return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_SHAPE, 0,
                           "the view's shape is not [tokens, # heads, # elements]",
                           &(struct pithi_words){.number = {heads, k->dim}});
}

bool pithi_paged_direct(const struct pithi_kv *k, const pith_view *view, uint32_t heads) {
    const uint32_t last = view->ndim - 1;
    if (view->stride[last] != 1 && k->dim > 1) return false;
    return heads == 1 || view->stride[1] == (int64_t)k->dim;
}

uint32_t pithi_paged_some(const struct pithi_paged *p, size_t row) {
    enum { ELEMENTS = 1 << 14 };
    const size_t tokens = ELEMENTS / (row ? row : 1);
    return p->kv.channel || tokens >= p->tokens ? p->tokens : tokens ? (uint32_t)tokens : 1;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Returns how many pages are begun when so many tokens were appended. */
static uint64_t pages_for(const struct pithi_paged *p, uint64_t window, uint64_t tokens) {
    if (tokens < window) return 0;
    const uint64_t done = (tokens - window) / p->tokens;
    return done + (!p->kv.channel && (tokens - window) % p->tokens);
}

static uint64_t ring_of(const struct pithi_paged *p, uint64_t window) {
    if (!p->kv.channel) return window;
    return (window + p->tokens - 1) / p->tokens * p->tokens + p->tokens;
}

static uint64_t stride_of(const struct pithi_paged *p) { return pithi_pad64(p->bytes); }

/* Returns the entries of the page table that come without slots, for pages of other caches. */
static uint64_t entries_of(const struct pithi_paged *p) { return p->limit / p->tokens + 1; }

/* Returns the bytes that do not depend on the number of slots, 64 of them for alignment. */
static uint64_t fixed_bytes(const struct pithi_paged *p, uint64_t window) {
    return 64 + pithi_pad64(sizeof(pith_kv)) +
           pithi_pad64(ring_of(p, window) * pithi_row_bytes(p)) +
           entries_of(p) * sizeof(struct pithi_cache_page);
}

static uint64_t slot_bytes(const struct pithi_paged *p) {
    return stride_of(p) + sizeof(struct pithi_cache_page);
}

uint64_t pith_kv_bytes(const pith_plan *plan, uint64_t tokens) {
    struct pithi_paged p;
    uint64_t slots;
    if (!plan || !pithi_paged_of(plan, &p)) return 0;
    const uint64_t window = plan->params.value[PITHI_KV_WINDOW];
    const uint64_t fixed = fixed_bytes(&p, window);
    const uint64_t pages = pages_for(&p, window, tokens ? tokens : p.limit);
    if (!pithi_checked_multiply(pages, slot_bytes(&p), &slots) || slots > SIZE_MAX / 2) return 0;
    return fixed + slots;
}

pith_status pith_kv_init(const pith_plan *plan, void *memory, size_t bytes, pith_kv **cache,
                         pith_error *error) {
    struct pithi_paged p;
    pithi_clear(error);
    if (!cache) return pithi_fail(error, PITH_ERR_ARG, "cache is NULL");
    *cache = NULL;
    PITHI_TRY(pithi_paged_require(plan, &p, error));
    if (!memory) return pithi_fail(error, PITH_ERR_ARG, "memory is NULL");
    const uint64_t window = plan->params.value[PITHI_KV_WINDOW];
    const uint64_t fixed = fixed_bytes(&p, window);
    if (bytes < fixed)
        return pithi_fail_numbers(error, PITH_ERR_SPACE,
                                  "memory of the cache: # bytes needed at least, # given", fixed,
                                  bytes);
    uint8_t *at = memory;
    at += (64 - (uintptr_t)at % 64) % 64;
    pith_kv *c = (pith_kv *)(void *)at;
    *c = (pith_kv){.plan = plan, .paged = p, .window = window, .ring = ring_of(&p, window)};
    c->stride = (size_t)stride_of(&p);
    c->slots = (bytes - fixed) / slot_bytes(&p);
    c->entries = entries_of(&p) + c->slots;
    c->exact = at + pithi_pad64(sizeof *c);
    c->slot = c->exact + pithi_pad64(c->ring * pithi_row_bytes(&p));
    c->page = (struct pithi_cache_page *)(void *)(c->slot + c->slots * c->stride);
    *cache = c;
    return PITH_OK;
}

/* ---- Pages and exact tokens ------------------------------------------------------------------*/

/* Returns the number of the page that has a finished token. */
static uint64_t page_of(const pith_kv *c, uint64_t token) {
    uint64_t low = 0, high = c->pages; /* finds the last page that does not begin behind it */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (c->page[middle].first > token)
            high = middle;
        else
            low = middle;
    }
    return low;
}

uint8_t *pithi_cache_add(pith_kv *c, uint64_t first) {
    uint8_t *const bytes = c->slot + (c->pages - c->shared) * c->stride;
    c->page[c->pages++] = (struct pithi_cache_page){bytes, first};
    pithi_kv_clear(&c->paged.kv, bytes, c->paged.tokens);
    return bytes;
}

uint8_t *pithi_cache_exact(const pith_kv *c, uint64_t at, uint64_t *count) {
    uint64_t place = c->start + at;
    if (place >= c->ring) place -= c->ring;
    *count = pithi_min(*count, c->ring - place);
    return c->exact + place * pithi_row_bytes(&c->paged);
}

uint64_t pithi_cache_remaining(const pith_kv *c) {
    const uint64_t pages = pithi_min(c->slots - (c->pages - c->shared), c->entries - c->pages);
    const uint64_t step = c->paged.kv.channel ? c->paged.tokens - 1 : 0; /* of a page not due */
    const uint64_t more = pithi_cache_open(c) + pages * c->paged.tokens + step + c->window;
    const uint64_t memory = more > c->held ? more - c->held : 0;
    return pithi_min(memory, c->paged.limit - (c->finished + c->held));
}

uint64_t pith_kv_count(const pith_kv *c) { return c->finished + c->held; }

uint64_t pith_kv_finished(const pith_kv *c) { return c->finished; }

uint64_t pith_kv_remaining(const pith_kv *c) { return pithi_cache_remaining(c); }

pith_status pith_kv_stats(const pith_kv *c, pith_stats *out) {
    if (!c) return PITH_ERR_ARG;
    const pith_stats stats = {.saturated = c->saturated, .poisoned = c->poisoned};
    return pithi_give(out, &stats, sizeof stats);
}

/* ---- Read ------------------------------------------------------------------------------------*/

/* What is read of one cache. */
struct reading {
    struct pithi_worker *worker;
    const pith_kv *cache;
    struct pithi_kv kv;
    struct pithi_span span;
    uint32_t head, heads, dtype;
    bool direct, nontemporal;
    int64_t token_stride; /* in elements */
    size_t element;
};

/* Where heads of tokens go, with the heads of a token one after the other. */
struct place {
    uint8_t *out;
    int64_t token_stride;
};

static void convert_exact(const struct reading *r, const uint8_t *rows, uint64_t count,
                          const struct place *to) {
    const size_t dim = r->kv.dim, from = pith_dtype_bytes(r->kv.dtype);
    for (uint64_t t = 0; t < count; t++) {
        const uint8_t *row = rows + (t * r->kv.heads + r->head) * dim * from;
        uint8_t *out = to->out + (int64_t)t * to->token_stride * (int64_t)r->element;
        pithi_convert(out, r->dtype, row, r->kv.dtype, dim * r->heads);
    }
}

/* Reads tokens from `token` on, as many of them as lie together; returns how many. */
static uint64_t read_some(const struct reading *r, uint64_t token, uint64_t count,
                          const struct place *to) {
    const pith_kv *c = r->cache;
    if (token >= c->finished) {
        const uint8_t *rows = pithi_cache_exact(c, token - c->finished, &count);
        convert_exact(r, rows, count, to);
        return count;
    }
    const uint64_t page = page_of(c, token), at = token - c->page[page].first;
    count = pithi_min(count, pithi_cache_tokens(c, page) - at);
    struct pithi_kv_part part = {.tokens = c->paged.tokens,
                                 .first = (uint32_t)at,
                                 .count = (uint32_t)count,
                                 .head = r->head,
                                 .heads = r->heads,
                                 .out = to->out,
                                 .out_dtype = r->dtype,
                                 .token_stride = to->token_stride,
                                 .nontemporal = r->nontemporal,
                                 .scratch = r->worker->scratch};
    pithi_kv_get(&r->kv, c->page[page].bytes, &part);
    return count;
}

/* Reads tokens [from, until) of a view whose first one is token `first` of the cache. */
static void read_tokens(const struct reading *r, uint64_t first, uint64_t from, uint64_t until) {
    const size_t row = (size_t)r->heads * r->kv.dim;
    const uint32_t page = r->cache->paged.tokens;
    const uint32_t most = r->direct ? page : pithi_paged_some(&r->cache->paged, row);
    uint8_t *const buffer = r->worker->values;
    for (uint64_t t = from, n; t < until; t += n) {
        struct place to = {buffer, (int64_t)row};
        if (r->direct)
            to = (struct place){r->span.data + (int64_t)t * r->token_stride * (int64_t)r->element,
                                r->token_stride};
        n = read_some(r, first + t, pithi_min(until - t, most), &to);
        if (!r->direct) pithi_span_write(&r->span, t * row, n * row, buffer);
    }
}

static pith_status check_tokens(const pith_kv *c, uint64_t first, uint64_t count,
                                const pith_view *view, pith_error *error) {
    if (first > pith_kv_count(c) || count > pith_kv_count(c) - first)
        return pithi_fail_with(error, PITH_ERR_ARG, pith_kv_count(c),
                               "the cache has # tokens: not # from # on",
                               &(struct pithi_words){.number = {pith_kv_count(c), count, first}});
    if (!pithi_is_float16_32(view->dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0,
                               "tokens are read as f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(view->dtype)}});
    if (view->ndim == 0 || view->shape[0] != count)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "# tokens to read, the view has #", count,
                                  view->ndim ? view->shape[0] : 0);
    return PITH_OK;
}

/* Sets all but the worker, and whether the output is large. */
static pith_status open_range(struct reading *r, const pith_kv_range *range, pith_error *error) {
    const pith_kv *const c = range->cache;
    const pith_view *const view = &range->view;
    PITHI_TRY(check_tokens(c, range->first, range->count, view, error));
    r->cache = c;
    r->kv = c->paged.kv;
    r->head = range->head;
    r->heads = range->heads;
    if (r->head > r->kv.heads || r->heads > r->kv.heads - r->head)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "a token has # heads: not # from # on",
                               &(struct pithi_words){.number = {r->kv.heads, r->heads, r->head}});
    PITHI_TRY(pithi_paged_view(&r->kv, view, r->heads, true, &r->span, error));
    r->dtype = view->dtype;
    r->element = r->span.element;
    r->direct = pithi_paged_direct(&r->kv, view, r->heads);
    /* A single token never uses its stride, which may be any number. */
    r->token_stride = view->shape[0] > 1 ? view->stride[0] : (int64_t)r->kv.dim * r->heads;
    return PITH_OK;
}

/* A list of ranges that have been checked. */
struct readings {
    const pith_kv_range *ranges;
    size_t count;
    uint64_t values, part; /* of all ranges; of one worker */
    bool nontemporal;
};

static uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* Reads the tokens whose first values are among [from, until) of those of all ranges. */
static void read_part(const struct readings *l, uint64_t from, uint64_t until,
                      struct pithi_worker *worker) {
    uint64_t at = 0;
    for (size_t i = 0; i < l->count && at < until; i++) {
        const pith_kv_range *const range = &l->ranges[i];
        const uint64_t row = (uint64_t)range->heads * range->cache->paged.kv.dim;
        const uint64_t first = at, end = at + row * range->count;
        struct reading r;
        at = end;
        if (end <= from || first == end) continue;
        pithi_worker_cut(worker, range->cache->plan);
        if (open_range(&r, range, NULL) != PITH_OK) continue; /* was checked before */
        r.worker = worker;
        r.nontemporal = l->nontemporal;
        read_tokens(&r, range->first, from > first ? divide_up(from - first, row) : 0,
                    divide_up(pithi_min(until, end) - first, row));
    }
}

static pith_status read_job(void *arg, uint64_t i, struct pithi_worker *worker) {
    const struct readings *const l = arg;
    const uint64_t from = pithi_min(i * l->part, l->values);
    read_part(l, from, pithi_min(from + l->part, l->values), worker);
    return PITH_OK;
}

/* Reads the list, of which the last range is open. */
static pith_status run_readings(pith_work *w, struct readings *l, struct reading *last) {
    const bool alone = w->workers == 1 || l->values <= PITHI_CACHE_ALONE;
    if (alone && l->count == 1) {
        last->worker = &w->worker[0];
        last->nontemporal = l->nontemporal;
        read_tokens(last, l->ranges[0].first, 0, l->ranges[0].count);
        return PITH_OK;
    }
    if (alone) {
        read_part(l, 0, l->values, &w->worker[0]);
        return PITH_OK;
    }
    l->part = divide_up(l->values, w->workers);
    pithi_parallel_begin(w);
    return pithi_parallel_for(w, 0, w->workers, read_job, l);
}

static pith_status check_range(pith_work *w, const pith_kv_range *range, struct reading *r) {
    PITHI_TRY(pithi_cache_read(range->cache, w));
    return open_range(r, range, &w->error);
}

static pith_status read_list(pith_work *w, const pith_kv_range *ranges, size_t count) {
    struct readings l = {.ranges = ranges, .count = count};
    struct reading r;
    uint64_t bytes = 0;
    if (count && !ranges) return pithi_fail(&w->error, PITH_ERR_ARG, "ranges are NULL");
    for (size_t i = 0; i < count; i++) {
        const pith_status status = check_range(w, &ranges[i], &r);
        if (status != PITH_OK) {
            w->error.item = i;
            return status;
        }
        l.values += r.span.count;
        bytes += r.span.count * r.element;
    }
    if (!l.values) return PITH_OK;
    l.nontemporal = bytes >= PITHI_LARGE_OUTPUT;
    const uint64_t before = pithi_fp_enter();
    const pith_status status = run_readings(w, &l, &r);
    pithi_fp_leave(before);
    return status;
}

pith_status pith_kv_read(pith_work *w, const pith_kv_range *ranges, size_t count) {
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = read_list(w, ranges, count);
    pithi_work_leave(w);
    return status;
}

/* ---- Differences along layers ----------------------------------------------------------------*/

pith_status pithi_cache_base(pith_work *w, const pith_kv *c, const pith_view *view, uint64_t tokens,
                             struct pithi_span *span) {
    const struct pithi_kv *k = &c->paged.kv;
    if (k->channel || c->window || k->rotation || k->outliers || k->set.codebook)
        return pithi_fail(&w->error, PITH_ERR_UNSUPPORTED,
                          "deltas of layers need axis=token, window=0, codebook=uniform, "
                          "rotate_heads=off and outliers=none");
    PITHI_TRY(pithi_paged_view(k, view, k->heads, true, span, &w->error));
    if (!pithi_is_float16_32(view->dtype))
        return pithi_fail_with(&w->error, PITH_ERR_DTYPE, 0, "a base is f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(view->dtype)}});
    if (view->shape[0] != tokens)
        return pithi_fail_numbers(&w->error, PITH_ERR_SHAPE, "the base needs # tokens, it has #",
                                  tokens, view->shape[0]);
    if (!span->dense) return pithi_fail(&w->error, PITH_ERR_SHAPE, "the base is not dense");
    return PITH_OK;
}

static pith_status read_add(pith_work *w, const pith_kv *c, uint64_t first, uint64_t count,
                            const pith_view *base) {
    struct pithi_span span;
    PITHI_TRY(pithi_cache_read(c, w));
    if (!base) return pithi_fail(&w->error, PITH_ERR_ARG, "the base is NULL");
    PITHI_TRY(check_tokens(c, first, count, base, &w->error));
    PITHI_TRY(pithi_cache_base(w, c, base, count, &span));
    struct pithi_kv k = c->paged.kv;
    k.base_dtype = base->dtype;
    const uint64_t before = pithi_fp_enter();
    for (uint64_t t = first, end = first + count, n; t < end; t += n) {
        const uint64_t page = page_of(c, t), at = t - c->page[page].first;
        n = pithi_min(end - t, pithi_cache_tokens(c, page) - at);
        struct pithi_kv_part part = {.tokens = c->paged.tokens,
                                     .first = (uint32_t)at,
                                     .count = (uint32_t)n,
                                     .heads = k.heads,
                                     .out_dtype = base->dtype,
                                     .base = pithi_span_at(&span, (t - first) * c->paged.row),
                                     .update = true,
                                     .scratch = w->worker[0].scratch};
        pithi_kv_get(&k, c->page[page].bytes, &part);
    }
    pithi_fp_leave(before);
    return PITH_OK;
}

pith_status pith_kv_read_add(pith_work *w, const pith_kv *c, uint64_t first, uint64_t count,
                             const pith_view *base) {
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = read_add(w, c, first, count, base);
    pithi_work_leave(w);
    return status;
}

/* ---- Truncate and fork -----------------------------------------------------------------------*/

/* Whether appending would write into the last of the pages that hold the first `tokens`. */
static bool is_open(const pith_kv *c, uint64_t pages, uint64_t tokens) {
    return !c->paged.kv.channel && pages && tokens - c->page[pages - 1].first < c->paged.tokens;
}

static uint64_t pages_of(const pith_kv *c, uint64_t tokens) {
    return tokens ? page_of(c, tokens - 1) + 1 : 0;
}

static pith_status truncate(pith_kv *c, uint64_t tokens, pith_error *error) {
    if (tokens > pith_kv_count(c))
        return pithi_fail_with(error, PITH_ERR_ARG, pith_kv_count(c),
                               "the cache has # tokens: not #",
                               &(struct pithi_words){.number = {pith_kv_count(c), tokens}});
    if (tokens >= c->finished) {
        c->held = tokens - c->finished;
        return PITH_OK;
    }
    const uint64_t pages = pages_of(c, tokens);
    const bool copy = pages <= c->shared && is_open(c, pages, tokens);
    if (copy && !c->slots)
        return pithi_fail(error, PITH_ERR_SPACE, "no memory for a page of its own");
    const struct pithi_cache_page last = copy ? c->page[pages - 1] : (struct pithi_cache_page){0};
    c->pages = copy ? pages - 1 : pages;
    c->shared = pithi_min(c->shared, c->pages);
    if (copy) memcpy(pithi_cache_add(c, last.first), last.bytes, c->paged.bytes);
    c->finished = tokens;
    c->held = c->start = 0;
    return PITH_OK;
}

pith_status pith_kv_truncate(pith_work *w, pith_kv *c, uint64_t tokens) {
    PITHI_TRY(pithi_work_enter(w));
    pith_status status = pithi_cache_enter(c, w);
    if (status == PITH_OK) {
        status = truncate(c, tokens, &w->error);
        pithi_cache_leave(c, w);
    }
    pithi_work_leave(w);
    return status;
}

static void copy_exact(pith_kv *to, const pith_kv *from, uint64_t count) {
    for (uint64_t at = 0, n; at < count; at += n) {
        n = count - at;
        const uint8_t *rows = pithi_cache_exact(from, at, &n);
        memcpy(to->exact + at * pithi_row_bytes(&to->paged), rows,
               (size_t)n * pithi_row_bytes(&to->paged));
    }
    to->held = count;
}

static pith_status fork_cache(const pith_kv *parent, uint64_t tokens, uint32_t flags, void *memory,
                              size_t bytes, pith_kv **child, pith_error *error) {
    pith_kv *c;
    if (flags & ~(uint32_t)PITH_KV_COPY)
        return pithi_fail_with(error, PITH_ERR_UNSUPPORTED, 0, "unknown flags of a fork: #",
                               &(struct pithi_words){.number = {flags & ~(uint32_t)PITH_KV_COPY}});
    if (tokens > pith_kv_count(parent))
        return pithi_fail_with(error, PITH_ERR_ARG, pith_kv_count(parent),
                               "the cache has # tokens: not #",
                               &(struct pithi_words){.number = {pith_kv_count(parent), tokens}});
    const uint64_t finished = pithi_min(tokens, parent->finished),
                   pages = pages_of(parent, finished);
    const uint64_t shared = flags & PITH_KV_COPY ? 0 : pages - is_open(parent, pages, finished);
    PITHI_TRY(pith_kv_init(parent->plan, memory, bytes, &c, error));
    if (pages > c->entries || pages - shared > c->slots)
        return pithi_fail_numbers(error, PITH_ERR_SPACE, "# pages to copy, the memory is for #",
                                  pages - shared, c->slots);
    for (; c->pages < shared; c->pages++) c->page[c->pages] = parent->page[c->pages];
    c->shared = shared;
    for (uint64_t i = shared; i < pages; i++)
        memcpy(pithi_cache_add(c, parent->page[i].first), parent->page[i].bytes, c->paged.bytes);
    c->finished = finished;
    copy_exact(c, parent, tokens - finished);
    *child = c;
    return PITH_OK;
}

pith_status pith_kv_fork(pith_work *w, const pith_kv *parent, uint64_t tokens, uint32_t flags,
                         void *memory, size_t bytes, pith_kv **child) {
    if (child) *child = NULL;
    PITHI_TRY(pithi_work_enter(w));
    pith_status status = pithi_cache_read(parent, w);
    if (status == PITH_OK && !child) status = pithi_fail(&w->error, PITH_ERR_ARG, "child is NULL");
    if (status == PITH_OK)
        status = fork_cache(parent, tokens, flags, memory, bytes, child, &w->error);
    pithi_work_leave(w);
    return status;
}
