/* kv.h - the part of pith's interface for caches that grow token by token, and for their pages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * pith.h includes this file; include that one.
 *
 * Threads. As in pith.h: a work serves one call at a time, a cache one that changes it, or reads
 * side by side (PITH_ERR_BUSY); a plan, and pages, which no call marks, are shared by any threads.
 */
#ifndef PITH_KV_H
#define PITH_KV_H

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Plans and views ------------------------------------------------------------------------
 * These calls take a plan of codec kv with order=tokens, entropy=none, one slot, no base, and a
 * layout [tokens, heads, dim] or [tokens, dim] (one head) of at least one page of tokens; for
 * others they answer PITH_ERR_UNSUPPORTED, or 0 where they return a size, and pith_kv_check says
 * which of these it is. A plan serves any number of caches: usually one for the keys of all layers
 * and one for the values; so does a work.
 * A view of n tokens is [n, heads, dim], or [n, dim] of one head; of a tensor [heads, tokens, dim]
 * it has the strides {dim, tokens * dim, 1} (doc/CACHES.md has an example).
 * Elsewhere codec kv takes any shape: further dimensions in front are sequences, and a tensor of
 * one dimension is one token of one head, so that flat data should be given the shape [tokens, dim]
 * first. */

/* PITH_OK when the plan has caches and pages of their own, else PITH_ERR_UNSUPPORTED and why; error
 * may be NULL. */
PITH_NODISCARD PITH_API pith_status pith_kv_check(const pith_plan *plan, pith_error *error);

/* ---- Caches ---------------------------------------------------------------------------------
 * A cache holds one sequence. The newest `window` tokens (a key of the spec) are kept exactly, in
 * the layout's dtype. Older ones are finished: coded, and from then on left as they are. With
 * axis=token that happens token by token; with axis=channel page by page, and what is older than
 * the window but no whole page is exact as well. So n tokens that were appended have finished
 *     axis=token    n - window
 *     axis=channel  (n - window) / page * page, rounded down
 * of them, with the same bytes whether they came one at a time or in bulk.
 *
 * A cache lies in the caller's memory, points into it and to its plan, which must outlive it, and
 * is not to be moved (save it and load it elsewhere). It serves one call at a time that changes it,
 * and reads (pith_kv_read, _read_add, _fork from it, _save) side by side; a call that finds another
 * one changing the cache answers PITH_ERR_BUSY. Nothing is allocated. On failure a cache is as
 * before. */
typedef struct pith_kv pith_kv;

/* Memory for a cache to which `tokens` tokens can be appended in all (0: as many as the layout
 * has). With axis=channel, truncation below what is finished leaves a page with places that stay
 * empty: add `page` tokens for every time that this is to happen. 0 when the plan has no caches
 * (pith_kv_check says why) or the size does not fit. */
PITH_API uint64_t pith_kv_bytes(const pith_plan *plan, uint64_t tokens);
/* Build an empty cache, any alignment. More memory than pith_kv_bytes(plan, 0) is more pages, but
 * no more than the layout's tokens are held at a time. Nothing needs to be freed. PITH_ERR_SPACE:
 * not even a cache without pages fits; PITH_ERR_UNSUPPORTED: as pith_kv_check; PITH_ERR_ARG: an
 * argument is NULL. */
PITH_NODISCARD PITH_API pith_status pith_kv_init(const pith_plan *plan, void *memory, size_t bytes,
                                                 pith_kv **cache, pith_error *error);
/* As pith_stream_unlock: a cache whose call never returned may have part of its tokens. Where it
 * has exact ones, these may be read at the places of later tokens: what pith_kv_truncate to
 * pith_kv_finished leaves is sure. */
PITH_API void pith_kv_unlock(pith_kv *cache);
/* Append the tokens of views[i], of the layout's dtype, to caches[i]: a list, as everywhere. No
 * cache may come twice (PITH_ERR_ARG). PITH_ERR_SPACE: tokens are more than pith_kv_remaining, or
 * the work is for other plans; PITH_ERR_DTYPE, PITH_ERR_SHAPE: a view; PITH_ERR_BUSY: another call
 * uses a cache. On failure all caches are as before, and the error's item is the number of the one
 * that it is about; but where the caller's runner failed (PITH_ERR_RUNNER) some have their
 * tokens. */
PITH_NODISCARD PITH_API pith_status pith_kv_append(pith_work *work, pith_kv *const *caches,
                                                   const pith_view *views, size_t count);

typedef struct pith_kv_tokens {
    pith_kv *cache;
    const void *values; /* the first element of its tokens */
} pith_kv_tokens;
/* The same for caches of one plan whose tokens lie alike, as when every sequence of a batch, or
 * every layer, gets a token: the same bytes at less cost, since what the next caches take is
 * fetched meanwhile. `like` says where each one's tokens lie: the layout's dtype, shape
 * [n, heads, dim] and strides; its data is not used. Errors as pith_kv_append; PITH_ERR_DTYPE,
 * PITH_ERR_SHAPE: those of like. */
PITH_NODISCARD PITH_API pith_status pith_kv_append_batch(pith_work *work, const pith_view *like,
                                                         const pith_kv_tokens *to, size_t count);
/* Tokens held. */
PITH_API uint64_t pith_kv_count(const pith_kv *cache);
/* Tokens held that are finished: coded, and not to change any more. */
PITH_API uint64_t pith_kv_finished(const pith_kv *cache);
/* Tokens that can still be appended in the memory that the cache was given. */
PITH_API uint64_t pith_kv_remaining(const pith_kv *cache);
/* What is read of a cache: tokens [first, first + count), heads [head, head + heads). */
typedef struct pith_kv_range {
    const pith_kv *cache;
    uint64_t first, count;
    uint32_t head, heads;
    pith_view view; /* [count, heads, dim] of dtype f32, bf16 or f16 */
} pith_kv_range;
/* Into the views of a list of ranges, of one cache or of several, also of several plans, with all
 * threads of the work: decoded tokens, or exact ones rounded to the view's dtype. Work is in
 * proportion to what is read, after a search for the first page. Views must not overlap each other
 * nor a cache. All ranges are checked before the first one is read; of an error, `item` says which.
 * PITH_ERR_ARG: tokens or heads that the cache has not; PITH_ERR_DTYPE, PITH_ERR_SHAPE: the view;
 * PITH_ERR_SPACE: the work is for other plans; PITH_ERR_BUSY: another call changes the cache. */
PITH_NODISCARD PITH_API pith_status pith_kv_read(pith_work *work, const pith_kv_range *ranges,
                                                 size_t count);
/* Keep the first `tokens`, at most pith_kv_count. Tokens that were finished stay as they are coded;
 * none becomes exact again. What is appended next is coded apart from them: with axis=channel it
 * begins a page of its own. PITH_ERR_SPACE: a cache without memory for a page cannot cut one that
 * it shares with its parent; PITH_ERR_ARG: the cache has fewer tokens; PITH_ERR_BUSY: another call
 * uses it. */
PITH_NODISCARD PITH_API pith_status pith_kv_truncate(pith_work *work, pith_kv *cache,
                                                     uint64_t tokens);
/* A second cache of the same plan with the first `tokens` of parent, in memory of its own, which
 * needs space for what is copied and for what is appended later. Complete pages are read where
 * parent has them (its own, or those of its parent): that memory must stay, and parent must not be
 * truncated below `tokens`, loaded or built again, as long as the child is used. Parent may go on
 * appending, also on another thread. With PITH_KV_COPY everything is copied, and nothing of parent
 * is needed afterwards. Memory that suffices for a child which gets n tokens appended:
 * pith_kv_bytes(plan, window + n + page), the keys of the spec; with PITH_KV_COPY,
 * pith_kv_bytes(plan, window + tokens + n + page) when parent was never truncated. PITH_ERR_SPACE:
 * it does not suffice for what is copied; PITH_ERR_ARG: parent has fewer tokens;
 * PITH_ERR_UNSUPPORTED: other flags; PITH_ERR_BUSY: another call uses parent. */
enum { PITH_KV_COPY = 0x1 };
PITH_NODISCARD PITH_API pith_status pith_kv_fork(pith_work *work, const pith_kv *parent,
                                                 uint64_t tokens, uint32_t flags, void *memory,
                                                 size_t bytes, pith_kv **child);
/* What appending met since the cache was built: groups that decode to NaN (poisoned), and, with
 * pith_kv_append_delta, results that overflowed (saturated). The other counters are 0.
 * PITH_ERR_ARG: an argument is NULL, or out has no size. Not while another call appends. */
PITH_API pith_status pith_kv_stats(const pith_kv *cache, pith_stats *out);

/* Bytes that pith_kv_save writes of the cache as it is. */
PITH_API uint64_t pith_kv_save_bytes(const pith_kv *cache);
/* Serialise: frames of codec kv with what is finished (one ends with the last page, or with a page
 * that truncation cut), then a frame of codec raw with the exact tokens. Each is an ordinary frame,
 * with checksums where the layout asks for them. Caches with one history save the same bytes.
 * PITH_ERR_SPACE: cap is less than pith_kv_save_bytes; PITH_ERR_BUSY: another call changes the
 * cache. */
PITH_NODISCARD PITH_API pith_status pith_kv_save(pith_work *work, const pith_kv *cache, void *dst,
                                                 size_t cap, size_t *written);
/* Inverse of save, into a cache that was built and whose tokens are dropped; its window may be
 * another than the saver's as long as it holds the exact tokens. Any bytes are safe. The bytes must
 * end with the last frame. PITH_ERR_MISMATCH: frames of another setting, or an order that no cache
 * saves; PITH_ERR_SPACE: they do not fit; PITH_ERR_BUSY: another call uses the cache; of bytes that
 * are no such frames, errors as pith_verify. */
PITH_NODISCARD PITH_API pith_status pith_kv_load(pith_work *work, pith_kv *cache, const void *src,
                                                 size_t bytes);

/* ---- Differences along layers ---------------------------------------------------------------
 * XQuant-CL (arXiv 2508.10395, section 3.2) caches the inputs of layers: of the first ones the
 * values, then the difference of each layer's to an accumulator that holds what readers have of the
 * layer before, so that errors do not add up. Plans: axis=token, window=0, codebook=uniform,
 * rotate_heads=off, outliers=none; for others PITH_ERR_UNSUPPORTED. */

/* Append what the tokens of view differ from those of base by, and set base := round(base +
 * decoded), which is what readers get: both in one pass. base: like view in shape, dense, f32, bf16
 * or f16; it must not overlap the view (PITH_ERR_ARG). PITH_ERR_DTYPE, PITH_ERR_SHAPE: those of
 * view or base; PITH_ERR_UNSUPPORTED: the plan; PITH_ERR_SPACE: more tokens than pith_kv_remaining;
 * PITH_ERR_BUSY: another call uses the cache. */
PITH_NODISCARD PITH_API pith_status pith_kv_append_delta(pith_work *work, pith_kv *cache,
                                                         const pith_view *view,
                                                         const pith_view *base);
/* The reader's side: base := round(base + decoded) for tokens [first, first + count), all heads;
 * base as there. PITH_ERR_ARG: tokens that the cache has not; PITH_ERR_DTYPE, PITH_ERR_SHAPE: the
 * base; PITH_ERR_UNSUPPORTED: the plan; PITH_ERR_BUSY: another call changes the cache. */
PITH_NODISCARD PITH_API pith_status pith_kv_read_add(pith_work *work, const pith_kv *cache,
                                                     uint64_t first, uint64_t count,
                                                     const pith_view *base);
/* An accumulator that is itself kept coded, at bits of its own, as a frame of `plan`: it is decoded
 * to the layout's dtype, the delta added and rounded once (the sequence of pith_decode with
 * PITH_ADD), the sum written to view unless that is NULL, and encoded in place of the frame, page
 * by page in the work. delta_plan: codec kv, the same shape, order and page; without a base, or
 * with one of plan's dtype, whose hash in the delta is compared with the decoded accumulator's
 * before anything is written (one more pass over it). Of a delta with entropy, which may be
 * damaged inside, all is decoded before that. On failure the frame is as before, but where the
 * caller's runner failed (PITH_ERR_RUNNER). PITH_ERR_UNSUPPORTED: plans of other codecs, or an
 * accumulator with a base or entropy; PITH_ERR_MISMATCH: frames of other plans, shapes or pages;
 * PITH_ERR_BASE: the hashes differ; PITH_ERR_SHAPE, PITH_ERR_DTYPE: the view; PITH_ERR_ARG: it, the
 * frame and the delta overlap; and as pith_decode of damaged bytes. */
PITH_NODISCARD PITH_API pith_status pith_kv_accumulate(pith_work *work, const pith_plan *plan,
                                                       void *frame, size_t bytes,
                                                       const pith_plan *delta_plan,
                                                       const void *delta, size_t delta_bytes,
                                                       const pith_view *view);

/* ---- Pages ----------------------------------------------------------------------------------
 * For stacks that keep pages in pools of their own: a page is the block that a frame would hold,
 * without a header or checksum, so that all pages have one size and each stands alone. Which plan
 * made it, and how many tokens it has, is for the caller to know. */

/* Tokens of a page: the key `page`. */
PITH_API uint32_t pith_kv_page_tokens(const pith_plan *plan);
/* Bytes of a page of so many tokens, 1 to pith_kv_page_tokens; more tokens never take fewer. */
PITH_API uint64_t pith_kv_page_bytes(const pith_plan *plan, uint32_t tokens);

/* The bound of what a page of so many tokens decodes to, as pith_error_bound has it for frames: NaN
 * when a group of the page decodes to NaN, as those do that have a value that is not finite or that
 * the scale's dtype does not reach (with scale_dtype=f16, beyond 65504: layer inputs in bf16 or f32
 * may want scale_dtype=bf16). Nothing else tells of these. -1 when an argument is NULL or out of
 * range. */
PITH_API double pith_kv_page_bound(const pith_plan *plan, const void *page, uint32_t tokens);

/* Whether pages are idempotent: decoding a page to the layout's dtype and encoding that again gives
 * the same page, as often as it is done. The answer is about the plan's setting:
 *   0         every page is;
 *   2^-14     every page is whose scales are 0 or at least this (codebooks), and, with
 *             codebook=lloyd, below 2^117: sums over groups of larger values may overflow;
 *   2^-20     the same (symmetric=off with scale_dtype=f16, the default);
 *   infinity  not promised: rotate_heads=on, asymmetric outliers, codebook=trellis, and
 *             codebook=lloyd in a layout of 16 bits or with outliers; also a plan without pages.
 * Of rotated pages those in f32 nearly always are, and those in bf16 with scale_dtype=bf16 and an
 * asymmetric range (preset quarot4) mostly; with 8 bits, or scale_dtype=f16, most in 16 bits are
 * not, and what every trip loses adds up. Of the presets, quarot4 and trellis2 to trellis4, which
 * rotate, have no promise; all others have one. Of groups with codebook=trellis in f32, without
 * rotation and outliers and with scales of 2^-14 or more, all but about one in 10^4 come back.
 * A group that decodes to NaN where outliers are kept is no part of the promise: the outliers of
 * such a group are exact after one trip and NaN after the next. doc/FORMAT.md, appendix B.8,
 * has the proof. */
PITH_API double pith_kv_idempotent_from(const pith_plan *plan);

typedef struct pith_kv_pair {
    void *values;    /* the first element of the page's tokens; encode reads, decode writes */
    void *page;      /* pith_kv_page_bytes(plan, page tokens), any alignment; the other way round */
    uint32_t tokens; /* 0: all of a page. Encode writes zeros behind a shorter page; decode leaves
                      * the values of further tokens as they were */
} pith_kv_pair;
/* Encode `count` pages, with the work's threads. `like` says where the tokens of every page lie:
 * the layout's dtype, shape [page tokens, heads, dim] and strides; its data is not used. Neither
 * the pages nor the values may overlap. Whether decoding a page and encoding it again gives the
 * same page: pith_kv_idempotent_from. PITH_ERR_UNSUPPORTED: the plan has no pages of their own
 * (pith_kv_check); PITH_ERR_DTYPE, PITH_ERR_SHAPE: those of like; PITH_ERR_ARG: an argument or a
 * pointer of a pair is NULL, or a pair has more tokens than a page (the error's offset is its
 * number), or its values, dense ones, overlap its page; PITH_ERR_SPACE: the work is too small. */
PITH_NODISCARD PITH_API pith_status pith_kv_encode_pages(pith_work *work, const pith_plan *plan,
                                                         const pith_view *like,
                                                         const pith_kv_pair *pairs, size_t count);
/* Decode `count` pages, as pith_kv_encode_pages, to the dtype of like: f32, bf16 or f16. Any bytes
 * decode to something. */
PITH_NODISCARD PITH_API pith_status pith_kv_decode_pages(pith_work *work, const pith_plan *plan,
                                                         const pith_view *like,
                                                         const pith_kv_pair *pairs, size_t count);

#ifdef __cplusplus
}
#endif
#endif
