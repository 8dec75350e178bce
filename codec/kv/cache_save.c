/* cache_save.c - caches as frames: pages, then the exact tokens.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "error.h"
#include "frame_codec.h"
#include "kv/cache.h"
#include "spec.h"

/* ---- Pages of other sizes --------------------------------------------------------------------*/

/* Copies the first `tokens` of a page into one of another capacity: every area begins with them. */
static void copy_tokens(const struct pithi_kv *k, uint8_t *to, uint32_t to_capacity,
                        const uint8_t *from, uint32_t from_capacity, uint32_t tokens) {
    const struct pithi_kv_areas a = pithi_kv_areas(k, to_capacity);
    const struct pithi_kv_areas b = pithi_kv_areas(k, from_capacity);
    const struct pithi_group_setting *s = &k->set;
    const size_t groups = pithi_kv_groups(k, tokens), outliers = groups * k->outliers;
    const size_t entry = pithi_scale_width(s->scale_dtype) * (s->asymmetric ? 2u : 1u);
    const size_t codes = (size_t)tokens * k->heads * pithi_group_code_bytes(s, k->dim);
    pithi_kv_clear(k, to, to_capacity);
    memcpy(to + a.scales, from + b.scales, groups * entry);
    memcpy(to + a.codes, from + b.codes, codes);
    memcpy(to + a.places, from + b.places, outliers);
    memcpy(to + a.exact, from + b.exact, outliers * pith_dtype_bytes(k->dtype));
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* Returns a frame of so many tokens, of the plan's setting or (exact) of codec raw. */
static struct pithi_frame frame_of(const pith_plan *p, uint64_t tokens, bool exact) {
    struct pithi_frame f;
    pithi_plan_frame(p, 0, false, &f);
    f.written = NULL;
    f.shape[0] = tokens;
    f.count = tokens * (p->count / p->shape[0]);
    f.source_bytes = 0;
    if (exact) {
        pithi_params_default(&f.params, pithi_codec_by_name("raw", 3));
        f.tiling = (struct pithi_tiling){0};
        f.params.dtype = p->params.dtype;
    } else {
        f.params.codec->cut(&f.params, f.ndim, f.shape, &f.tiling);
    }
    pithi_frame_size(&f);
    return f;
}

/* Finds the pages from *page on that make a frame, and moves *page behind them. Returns their
 * tokens. */
static uint64_t next_run(const pith_kv *c, uint64_t *page) {
    uint64_t tokens = 0, n = c->paged.tokens;
    while (*page < c->pages && n == c->paged.tokens) {
        n = pithi_cache_tokens(c, (*page)++);
        tokens += n;
    }
    return tokens;
}

uint64_t pith_kv_save_bytes(const pith_kv *c) {
    const pith_plan *const p = c->plan;
    struct pithi_frame f = frame_of(p, c->held, true);
    uint64_t bytes = pithi_frame_total(&f);
    for (uint64_t page = 0; page < c->pages;) {
        f = frame_of(p, next_run(c, &page), false);
        bytes += pithi_frame_total(&f);
    }
    return bytes;
}

/* ---- Save ------------------------------------------------------------------------------------*/

/* Closes a frame whose blocks are written; returns its end. */
static uint8_t *close_frame(struct pithi_coding *c, uint8_t *dst) {
    for (uint64_t i = 0; i < c->frame.payload.blocks; i++) {
        size_t length;
        bool plain;
        const uint8_t *bytes = pithi_block_at(c, i, &length, &plain);
        pithi_encode_check(c, i, bytes, length);
    }
    pithi_encode_close(c, dst, pithi_payload_most(&c->frame.payload));
    return c->bytes + c->frame.payload_bytes;
}

static uint8_t *save_pages(pith_work *w, const pith_kv *c, uint64_t *page, uint8_t *dst) {
    const uint64_t first = *page;
    struct pithi_coding f = {
        .plan = c->plan, .work = w, .frame = frame_of(c->plan, next_run(c, page), false)};
    pithi_encode_open(&f, dst);
    for (uint64_t i = 0; first + i < *page; i++) {
        const uint32_t tokens = (uint32_t)pithi_cache_tokens(c, first + i);
        copy_tokens(&c->paged.kv, f.bytes + pithi_block_offset(&f.frame.payload, i), tokens,
                    c->page[first + i].bytes, c->paged.tokens, tokens);
    }
    return close_frame(&f, dst);
}

static uint8_t *save_exact(pith_work *w, const pith_kv *c, uint8_t *dst) {
    struct pithi_coding f = {.plan = c->plan, .work = w, .frame = frame_of(c->plan, c->held, true)};
    const size_t row = c->paged.row * pith_dtype_bytes(c->paged.kv.dtype);
    pithi_encode_open(&f, dst);
    for (uint64_t at = 0, n; at < c->held; at += n) {
        n = c->held - at;
        const uint8_t *rows = pithi_cache_exact(c, at, &n);
        memcpy(f.bytes + f.frame.payload.data + at * row, rows, (size_t)n * row);
    }
    return close_frame(&f, dst);
}

static pith_status save(pith_work *w, const pith_kv *c, void *dst, size_t cap, size_t *written) {
    PITHI_TRY(pithi_cache_read(c, w));
    if (!dst || !written) return pithi_fail(&w->error, PITH_ERR_ARG, "an argument is NULL");
    const uint64_t bytes = pith_kv_save_bytes(c);
    if (cap < bytes)
        return pithi_fail_with(&w->error, PITH_ERR_SPACE, bytes,
                               "the saved cache has # bytes, the capacity is #",
                               &(struct pithi_words){.number = {bytes, cap}});
    uint8_t *at = dst;
    for (uint64_t page = 0; page < c->pages;) at = save_pages(w, c, &page, at);
    at = save_exact(w, c, at);
    *written = (size_t)(at - (uint8_t *)dst);
    return PITH_OK;
}

pith_status pith_kv_save(pith_work *w, const pith_kv *c, void *dst, size_t cap, size_t *written) {
    if (written) *written = 0;
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = save(w, c, dst, cap, written);
    pithi_work_leave(w);
    return status;
}

/* ---- Load ------------------------------------------------------------------------------------*/

/* What the frames that were read so far hold. */
struct saved {
    const uint8_t *bytes;
    size_t length, at; /* at: where the next frame begins */
    uint64_t pages, finished, held;
    bool last;  /* no more pages may come */
    bool whole; /* the exact tokens were read */
};

static bool same_rows(const struct pithi_frame *f, const pith_plan *p) {
    if (f->ndim != p->ndim) return false;
    for (uint32_t d = 1; d < f->ndim; d++)
        if (f->shape[d] != p->shape[d]) return false;
    return f->params.dtype == p->params.dtype && f->params.base_dtype == PITH_NONE;
}

/* Opens a frame of pages of this setting or of exact tokens, and checks its checksums. */
static pith_status check_frame(pith_work *w, const pith_plan *p, const struct saved *s,
                               struct pithi_coding *c) {
    const uint8_t *bytes = s->bytes + s->at;
    const size_t length = s->length - s->at;
    pith_error *const error = &w->error;
    struct pithi_frame f;
    PITHI_TRY(pithi_frame_read(bytes, length, &f, error));
    const bool exact = f.params.codec == pithi_codec_by_name("raw", 3);
    if (!same_rows(&f, p)) return pithi_fail(error, PITH_ERR_MISMATCH, "a frame of other rows");
    if (!exact && (s->last || f.shape[0] == 0))
        return pithi_fail(error, PITH_ERR_MISMATCH, "an order of frames that no cache saves");
    const struct pithi_frame made = frame_of(p, f.shape[0], exact);
    if (!exact && !pithi_params_same(&f.params, &made.params))
        return pithi_fail(error, PITH_ERR_MISMATCH, "a frame of another setting");
    PITHI_TRY(pithi_decode_open(c, w, p, bytes, length));
    return pithi_check_blocks(c);
}

/* Adds up what a frame holds. More pages may follow only those along tokens that truncation cut. */
static void count_frame(struct saved *s, const struct pithi_coding *c) {
    s->at += (size_t)(c->frame.header_bytes + c->frame.payload_bytes);
    s->whole = !c->frame.params.codec->refuse_pages;
    if (s->whole) {
        s->held = c->frame.shape[0];
    } else {
        s->pages += c->frame.payload.blocks;
        s->finished += c->frame.shape[0];
        const struct pithi_params *p = &c->frame.params;
        s->last = !p->value[PITHI_KV_AXIS] || c->frame.shape[0] % p->value[PITHI_KV_PAGE] == 0;
    }
}

static pith_status check_saved(pith_work *w, const pith_kv *k, struct saved s) {
    struct pithi_coding c = {.plan = k->plan, .work = w};
    while (!s.whole) {
        const pith_status status = check_frame(w, k->plan, &s, &c);
        if (status != PITH_OK) {
            w->error.offset += s.at;
            return status;
        }
        count_frame(&s, &c);
        if (s.held > k->paged.limit || s.finished > k->paged.limit - s.held)
            return pithi_fail_numbers(&w->error, PITH_ERR_SPACE,
                                      "the cache holds at most # tokens, # or more were saved",
                                      k->paged.limit, s.finished + s.held);
        if (s.pages > k->slots)
            return pithi_fail_numbers(&w->error, PITH_ERR_SPACE,
                                      "the cache has memory for # pages, # or more were saved",
                                      k->slots, s.pages);
    }
    if (s.at != s.length)
        return pithi_fail_at(&w->error, PITH_ERR_CORRUPT, "bytes after the last frame", s.at);
    if (s.held <= k->window + (k->paged.kv.channel ? k->paged.tokens - 1 : 0)) return PITH_OK;
    return pithi_fail(&w->error, PITH_ERR_MISMATCH, "more exact tokens than the window's");
}

static void take_pages(pith_kv *k, const struct pithi_coding *c, uint64_t first) {
    const uint32_t page = k->paged.tokens;
    const uint64_t tokens = c->frame.shape[0];
    for (uint64_t i = 0; i < c->frame.payload.blocks; i++) {
        const uint64_t left = tokens - i * page;
        const uint32_t n = left < page ? (uint32_t)left : page;
        copy_tokens(&k->paged.kv, pithi_cache_add(k, first + i * page), page,
                    c->bytes + pithi_block_offset(&c->frame.payload, i), n, n);
    }
}

static pith_status load(pith_work *w, pith_kv *k, const void *src, size_t bytes) {
    if (!src) return pithi_fail(&w->error, PITH_ERR_ARG, "nothing to load");
    struct saved s = {.bytes = src, .length = bytes};
    struct pithi_coding c = {.plan = k->plan, .work = w};
    PITHI_TRY(check_saved(w, k, s));
    k->pages = k->shared = k->start = 0;
    while (!s.whole) { /* the frames are read again, now that nothing can fail */
        if (pithi_decode_open(&c, w, k->plan, s.bytes + s.at, s.length - s.at) != PITH_OK)
            return PITH_ERR_INTERNAL;
        if (c.frame.params.codec->refuse_pages) take_pages(k, &c, s.finished);
        count_frame(&s, &c);
    }
    k->finished = s.finished;
    k->held = s.held;
    memcpy(k->exact, c.bytes + c.frame.payload.data, (size_t)c.frame.payload.data_bytes);
    return PITH_OK;
}

pith_status pith_kv_load(pith_work *w, pith_kv *k, const void *src, size_t bytes) {
    PITHI_TRY(pithi_work_enter(w));
    pith_status status = pithi_cache_enter(k, w);
    if (status == PITH_OK) {
        status = load(w, k, src, bytes);
        pithi_cache_leave(k, w);
    }
    pithi_work_leave(w);
    return status;
}
