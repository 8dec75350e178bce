/* page.h - a page of codec kv: where its parts lie, rows into it and out of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Codec 8, states the bytes. Shared by the codec, which takes whole pages, and by
 * caches (cache.c), which fill and read them token by token. */
#ifndef PITHI_KV_PAGE_H
#define PITHI_KV_PAGE_H

#include "codec.h"

/* The keys of codec kv. */
enum {
    PITHI_KV_PRESET,
    PITHI_KV_AXIS,
    PITHI_KV_ORDER,
    PITHI_KV_BITS,
    PITHI_KV_GROUP,
    PITHI_KV_PAGE,
    PITHI_KV_SYMMETRIC,
    PITHI_KV_SCALE_DTYPE,
    PITHI_KV_SEARCH,
    PITHI_KV_ROTATE_HEADS,
    PITHI_KV_CODEBOOK,
    PITHI_KV_OUTLIERS,
    PITHI_KV_WINDOW,
    PITHI_KV_ENTROPY,
    PITHI_KV_EFFORT,
    PITHI_KV_BLOCK
};

enum { PITHI_KV_NO_ENTROPY, PITHI_KV_ZSTD, PITHI_KV_RANS };

/* What a setting means for rows of one shape. */
struct pithi_kv {
    struct pithi_group_setting set;
    const struct pithi_kernels *kernels;
    uint32_t dtype, base_dtype;
    uint32_t heads, dim; /* a row has heads * dim elements */
    uint32_t rotation;   /* its order: dim, or 0 */
    uint32_t outliers;   /* outliers of a group */
    bool channel;        /* groups run along tokens */
    bool rans;           /* pages are entropy-coded, by rANS alone */
    bool flat;           /* a head's groups are whole, so that those of a page are one run */
    size_t element;      /* bytes of a value */
    size_t head_codes;   /* bytes of a head's codes */
    size_t head_groups, head_scales;
};

/* Where the areas of a page begin, in bytes from its beginning. Each is padded to 16 bytes; without
 * outliers the last two are empty. */
struct pithi_kv_areas {
    size_t scales; /* always 0 */
    size_t codes;
    size_t places; /* of outliers in their groups, a byte each */
    size_t exact;  /* the values of outliers */
    size_t bytes;  /* of the whole page */
};

/* Fills in what a setting means for rows of `heads` * `dim` elements. */
void pithi_kv_init(struct pithi_kv *k, const struct pithi_params *params,
                   const struct pithi_kernels *kernels, uint32_t heads, uint32_t dim);
/* Returns how many groups a page of so many tokens has. */
size_t pithi_kv_groups(const struct pithi_kv *k, uint32_t tokens);
struct pithi_kv_areas pithi_kv_areas(const struct pithi_kv *k, uint32_t tokens);
/* Returns the bytes of scratch memory, 64-byte aligned, for pithi_kv_put and _get. */
size_t pithi_kv_scratch(const struct pithi_kv *k);
/* Clears the last 16 bytes of every area of a page, of which some may be padding. Rows are put into
 * the page after that, since they may reach into these bytes. */
void pithi_kv_clear(const struct pithi_kv *k, uint8_t *page, uint32_t tokens);

/* Rows to be coded into a page: dense tokens [first, first + count) of a page with a capacity of
 * `tokens`. Along tokens they are whole groups, or go to the page's end. A base, dense like the
 * rows, is updated when `update` is set. */
struct pithi_kv_rows {
    uint32_t tokens, first, count;
    const void *value;
    const void *prefetch; /* values that come next and lie elsewhere, as many; or NULL */
    void *base;
    bool update, nontemporal;
    bool more; /* rows that are encoded next lie behind these */
    void *scratch;
    uint64_t saturated, poisoned; /* results, which are added to */
};
void pithi_kv_put(const struct pithi_kv *k, uint8_t *page, struct pithi_kv_rows *rows);

/* Whether rows of so many elements go into pages as runs, of one page or of several in a call. */
bool pithi_kv_takes_runs(const struct pithi_kv *k, size_t count);
/* Returns tokens from `first` on, of a page with a capacity of `tokens`, as a run of groups. */
struct pithi_group_run pithi_kv_run(const struct pithi_kv *k, uint8_t *page, uint32_t tokens,
                                    uint32_t first, const void *value);
/* Codes so many tokens into each of these runs. */
void pithi_kv_put_runs(const struct pithi_kv *k, uint32_t tokens, struct pithi_group_run *run,
                       size_t runs, void *scratch);

/* A part of a page to be decoded: tokens [first, first + count), heads [head, head + heads) of a
 * page with a capacity of `tokens`. Element d of head h of token t goes to out[t * token_stride + h
 * * dim + d], counted from the first of each, in elements of out_dtype. With a base (all heads,
 * dense) out may be NULL. */
struct pithi_kv_part {
    uint32_t tokens, first, count, head, heads;
    void *out;
    uint32_t out_dtype;
    int64_t token_stride;
    void *base;
    bool update, nontemporal;
    void *scratch;
    uint64_t saturated, poisoned; /* results, which are added to */
};
void pithi_kv_get(const struct pithi_kv *k, const uint8_t *page, struct pithi_kv_part *part);

#endif
