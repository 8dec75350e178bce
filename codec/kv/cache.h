/* cache.h - plans as pages see them, and a cache that grows token by token.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KV_CACHE_H
#define PITHI_KV_CACHE_H

#include "kv/page.h"
#include "work.h"

/* What a plan means for pages of its rows. */
struct pithi_paged {
    struct pithi_kv kv;
    uint32_t tokens;   /* tokens of a page */
    uint64_t limit;    /* tokens of the layout, the most of a cache */
    size_t row, bytes; /* elements of a token; bytes of a whole page */
};
/* False for plans of which there are no caches and pages. */
bool pithi_paged_of(const pith_plan *plan, struct pithi_paged *p);
pith_status pithi_paged_require(const pith_plan *plan, struct pithi_paged *p, pith_error *error);
/* Opens a view of tokens with so many heads. */
pith_status pithi_paged_view(const struct pithi_kv *k, const pith_view *view, uint32_t heads,
                             bool output, struct pithi_span *span, pith_error *error);

/* Whether tokens are decoded to where they belong, each being one run of neighbours there. If not,
 * it is faster to decode some and to copy them. */
bool pithi_paged_direct(const struct pithi_kv *k, const pith_view *view, uint32_t heads);
/* Returns how many rows of so many elements to decode at a time, so that they stay in the CPU's
 * cache. Along tokens, where neighbours have scales in common, it is all of a page. */
uint32_t pithi_paged_some(const struct pithi_paged *p, size_t row);

/* A page in a cache. `bytes` has a capacity of a whole one; its tokens end where those of the next
 * page begin, or with those that are finished. */
struct pithi_cache_page {
    uint8_t *bytes;
    uint64_t first; /* its first token, counted in the cache */
};

/* Pages [0, shared) lie in other caches and are complete; the others fill the slots in order, so
 * that the next free slot is number pages - shared. The ring holds the exact tokens; along tokens
 * its size and `start` are whole pages, so that the oldest page of them lies in one piece. */
struct pith_kv {
    const pith_plan *plan;
    const void *busy; /* the work of the call that changes the cache; NULL: none */
    struct pithi_paged paged;
    uint64_t window, ring, start;
    uint64_t finished, held; /* tokens in pages, and in the ring */
    uint64_t pages, shared, slots, entries;
    size_t stride; /* bytes from one slot to the next */
    struct pithi_cache_page *page;
    uint8_t *exact, *slot;
    uint64_t saturated, poisoned;
};

/* Lists of as many values and fewer are coded, or read, sooner than threads are woken. */
enum { PITHI_CACHE_ALONE = 1 << 16 };

/* Marks the cache as used by this work: PITH_ERR_BUSY while a call uses it, this one too. */
pith_status pithi_cache_mark(pith_kv *cache, pith_work *work);
/* Attaches the work to the cache's plan, and marks the cache as used by it. */
pith_status pithi_cache_enter(pith_kv *cache, pith_work *work);
void pithi_cache_leave(pith_kv *cache, pith_work *work);
/* Attaches the work for a call that only reads the cache, of which any number run at once. */
pith_status pithi_cache_read(const pith_kv *cache, pith_work *work);
/* Returns the tokens of a page. */
static inline uint64_t pithi_cache_tokens(const pith_kv *c, uint64_t page) {
    const uint64_t end = page + 1 < c->pages ? c->page[page + 1].first : c->finished;
    return end - c->page[page].first;
}
/* Returns how many tokens the last page still takes; along tokens none, as it is complete or was
 * cut. */
static inline uint64_t pithi_cache_open(const pith_kv *c) {
    if (c->paged.kv.channel || !c->pages) return 0;
    return c->paged.tokens - pithi_cache_tokens(c, c->pages - 1);
}
static inline size_t pithi_row_bytes(const struct pithi_paged *p) { return p->row * p->kv.element; }
/* Returns how many tokens can still be appended. */
uint64_t pithi_cache_remaining(const pith_kv *cache);
/* Adds a page of the cache's own behind the last; there must be a free slot. */
uint8_t *pithi_cache_add(pith_kv *cache, uint64_t first);
/* Returns exact tokens [at, at + *count), with *count cut to what lies in one piece. */
uint8_t *pithi_cache_exact(const pith_kv *cache, uint64_t at, uint64_t *count);
/* Opens a base of these tokens, which must be dense. The plan must be one whose rows are finished
 * at once. */
pith_status pithi_cache_base(pith_work *work, const pith_kv *cache, const pith_view *view,
                             uint64_t tokens, struct pithi_span *span);

#endif
