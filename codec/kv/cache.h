/* cache.h - plans as pages see them, and a cache that grows token by token.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KV_CACHE_H
#define PITHI_KV_CACHE_H

#include "kv/page.h"
#include "work.h"

/* What a plan means for pages of its rows. */
struct pithi_paged {
    struct pithi_kv kv;
    uint32_t tokens;   /* of a page */
    uint64_t limit;    /* tokens of the layout */
    size_t row, bytes; /* elements of a token; bytes of a whole page */
};
/* False for plans that these calls do not take. */
bool pithi_paged_of(const pith_plan *plan, struct pithi_paged *p);
pith_status pithi_paged_require(const pith_plan *plan, struct pithi_paged *p, pith_error *error);
/* A view of tokens with so many heads. */
pith_status pithi_paged_view(const struct pithi_kv *k, const pith_view *view, uint32_t heads,
                             bool output, struct pithi_span *span, pith_error *error);

/* Whether tokens are decoded to where they belong: each in one run of neighbours. Otherwise it goes
 * faster to decode some, and to copy them. */
bool pithi_paged_direct(const struct pithi_kv *k, const pith_view *view, uint32_t heads);
/* How many of rows of so many elements at a time: such that they stay in the cache, but along
 * tokens, where neighbours have scales in common, all of a page. */
uint32_t pithi_paged_some(const struct pithi_paged *p, size_t row);

/* A page in a cache: `bytes` has room for a whole one. It ends where the next begins, or with what
 * is finished. */
struct pithi_cache_page {
    uint8_t *bytes;
    uint64_t first; /* its first token */
};

/* Pages [0, shared) lie in other caches and are complete; the others fill the slots in order, so
 * that the next free one is number pages - shared. The ring holds the exact tokens; along tokens
 * its size and `start` are whole pages, so that the oldest page of them lies in one piece. */
struct pith_kv {
    const pith_plan *plan;
    const void *busy; /* the work of the call that changes the cache; NULL: none */
    struct pithi_paged paged;
    uint64_t window, ring, start;
    uint64_t finished, held; /* tokens in pages and in the ring */
    uint64_t pages, shared, slots, entries;
    size_t stride; /* of slots */
    struct pithi_cache_page *page;
    uint8_t *exact, *slot;
    uint64_t saturated, poisoned;
};

/* Mark the cache as this work's: PITH_ERR_BUSY while another call uses it, PITH_ERR_ARG where this
 * one has it already. */
pith_status pithi_cache_mark(pith_kv *cache, pith_work *work);
/* The same, after the work was attached to the cache's plan. */
pith_status pithi_cache_enter(pith_kv *cache, pith_work *work);
void pithi_cache_leave(pith_kv *cache, pith_work *work);
/* Attach the work for a call that only reads the cache: any number of them run at once. */
pith_status pithi_cache_read(const pith_kv *cache, pith_work *work);
/* Tokens of a page. */
static inline uint64_t pithi_cache_tokens(const pith_kv *c, uint64_t page) {
    const uint64_t end = page + 1 < c->pages ? c->page[page + 1].first : c->finished;
    return end - c->page[page].first;
}
/* Tokens that the last page still takes: along tokens it is complete or was cut. */
static inline uint64_t pithi_cache_open(const pith_kv *c) {
    if (c->paged.kv.channel || !c->pages) return 0;
    return c->paged.tokens - pithi_cache_tokens(c, c->pages - 1);
}
static inline size_t pithi_row_bytes(const struct pithi_paged *p) { return p->row * p->kv.element; }
/* Tokens that can still be appended. */
uint64_t pithi_cache_room(const pith_kv *cache);
/* Number of the page that has a finished token. */
uint64_t pithi_cache_find(const pith_kv *cache, uint64_t token);
/* A page of its own behind the last; there must be room. */
uint8_t *pithi_cache_add(pith_kv *cache, uint64_t first);
/* Exact tokens [at, at + *count), *count cut to what lies in one piece. */
uint8_t *pithi_cache_exact(const pith_kv *cache, uint64_t at, uint64_t *count);
/* A base of these tokens: dense, and the plan one whose rows are finished at once. */
pith_status pithi_cache_base(pith_work *work, const pith_kv *cache, const pith_view *view,
                             uint64_t tokens, struct pithi_span *span);

#endif
