/* sparse.h - the part of pith's interface for sparse sums: sets of elements, and their values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * pith.h includes this file; include that one.
 *
 * Codec topk sends the elements of largest magnitude. Its frames are encoded, decoded, added and
 * reduced as those of other codecs; the calls here are for what published reducers do in two phases
 * (Top-k with union, CLT-k, DEFT, MiCRO, ExDyna, DCT): every rank chooses, all learn the union of
 * the sets, every rank gives its own accumulator's values there, the sums go back into the tensor,
 * and the residual is cleared wherever a value was sent.
 *
 *   choose   pith_encode with values=none,ef=full,clear=call: acc = residual + view, whose elements
 *            of largest magnitude are the set; the frame holds the set, the residual becomes acc
 *   hold     pith_sparse_hold: the slot holds the union of the sets of all ranks' frames
 *   gather   pith_sparse_gather: acc at the set's elements, in their order; these values are summed
 *            over the ranks by any all-reduce
 *   scatter  pith_sparse_scatter: the sums times a scale are added to a dense tensor
 *   clear    pith_sparse_clear: the residual becomes 0 at the set's elements
 *
 * The set that a slot holds is that of the last frame that was encoded or decoded with the stream
 * (PITH_ADD aside), or what pith_sparse_hold made. It is a bit for each element, in the stream's
 * memory; it is not saved, and after pith_stream_load, _reset and _rollback, and pith_stream_unlock
 * where a call was working on it, the slot holds none.
 *
 * With PITH_SAME_SET a frame has the values of the held set and no indices: of forward activations
 * whose gradients come back at the same places, of a leader's choice (CLT-k). A decoder that holds
 * another set answers PITH_ERR_BASE, and one that holds none PITH_ERR_STATE; before anything is
 * written. Calls without a stream (pith_decompress, pith_decode_range) answer PITH_ERR_STATE;
 * pith_verify looks at lengths alone. With PITH_HELD_SET the frame has the indices too: of a set
 * that the caller chose by its own rule (pith_sparse_hold_elements). The hard limit is not asked of
 * either: each element of the set beyond it takes up to 12 bytes more than pith_plan_sizes says,
 * and all of them together 4. Neither chooses: the rule of the threshold goes on from the last
 * choice, and every=L counts choices alone.
 *
 * With PITH_SAME_BLOCKS a set is chosen as without flags, and blocks whose set is what the slot
 * held of them before have no indices: of masks that change in few places (SpaFL's filters, a model
 * that is pruned now and then). A slot that holds no set sends all indices, as does one that passed
 * its hard limit in this call. Where a block goes without, the receiver must hold what the sender
 * held (PITH_ERR_BASE, PITH_ERR_STATE, as above), and holds the new set afterwards. A frame that
 * was refused is lost; the sender's next encode with flags 0 brings the receiver up to date.
 *
 * At most one of the three flags may be given (PITH_ERR_ARG). A slot is left without a set by an
 * encode that chooses and has too little space for its blocks (PITH_ERR_SPACE, see pith_encode), by
 * a frame to decode whose blocks or their counts are damaged, and by either where the runner fails;
 * other failures leave what it held.
 *
 * With the key transform, elements are coefficients, in sets, residuals and requests alike: gather
 * without a view gives coefficients of the residual, and views, which have values, are neither
 * gathered from nor scattered to (PITH_ERR_UNSUPPORTED). pith_stream_get_residual gives values.
 *
 * Threads. As in pith.h: a work and a stream serve one call at a time (PITH_ERR_BUSY). The calls of
 * planning take neither, and may run on any threads at once. */
#ifndef PITH_SPARSE_H
#define PITH_SPARSE_H

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sets of elements -----------------------------------------------------------------------
 * All these calls answer PITH_ERR_UNSUPPORTED for streams of codecs that send no sets, PITH_ERR_ARG
 * for a slot that is not there, and take streams as pith_encode does: one call at a time. Values
 * are f32, bf16 or f16 in views of any strides. */

/* What is asked of the encodes of a slot from now on, beside the spec. Zero every field you do not
 * set, and set size = sizeof(pith_sparse_request). */
typedef struct pith_sparse_request {
    size_t size;
    /* The elements of the slot that may be chosen: [first, first + count), where count 0 stands for
     * all from first on. Others only add to the residual. Ranks that choose from disjoint ranges
     * (MiCRO, ExDyna) never choose the same element. */
    uint64_t first, count;
    /* Elements to choose, in place of the spec's density or k; with scope=row of every row. 0: as
     * the spec says, of a range the share that it has of the slot's elements. More than the hard
     * limit is that limit. Not looked at with control=nonzero. */
    uint64_t k;
    float threshold; /* in place of the controller's: elements with |x| >= threshold, no more than
                        the hard limit; 0: none. Not looked at with scope=row */
} pith_sparse_request;

/* Set it for one slot. request NULL: as after pith_stream_init. PITH_ERR_ARG: a range that is not
 * inside the slot, a threshold that is negative or not finite. The request is not saved, and after
 * pith_stream_load and _reset there is none. */
PITH_NODISCARD PITH_API pith_status pith_sparse_set_request(pith_work *work, pith_stream *stream,
                                                            uint64_t slot,
                                                            const pith_sparse_request *request);
/* How many elements all ranks chose together in the slot's last step: controllers that steer the
 * number of a whole group (micro, prop) go on from this instead of the slot's own number,
 * which is then compared with the spec's k. PITH_ERR_STATE: the slot has chosen nothing yet;
 * PITH_ERR_ARG: there is no such slot. */
PITH_NODISCARD PITH_API pith_status pith_sparse_report(pith_work *work, pith_stream *stream,
                                                       uint64_t slot, uint64_t chosen);

/* What a slot's last encode did, and what it holds. */
typedef struct pith_sparse_state {
    size_t size;
    uint64_t k, most;    /* elements that the spec asks for, and its hard limit: with scope=row
                            those of all rows together */
    uint64_t sent;       /* elements of the last frame that was encoded or decoded; more than `most`
                            where a block is sent whole, since that is shorter */
    uint64_t overflowed; /* elements of the last encode that reached the threshold and were not
                            chosen, since with them more than the limit would be (of equal ones the
                            first are chosen): they stay in the residual, if there is one, else
                            they are lost */
    uint64_t held;       /* elements of the set that the slot holds */
    float threshold;     /* of the last encode; 0: none yet, or by row; infinite or NaN where enough
                            elements are */
    uint32_t holds;      /* 1: it holds a set */
} pith_sparse_state;
/* PITH_ERR_ARG: there is no such slot, an argument is NULL, or out->size is not set. */
PITH_API pith_status pith_sparse_get_state(const pith_stream *stream, uint64_t slot,
                                           pith_sparse_state *out);

/* How several sets become one. */
enum { PITH_SET_UNION = 0, PITH_SET_INTERSECTION = 1 };
/* Make the slot hold the union or the intersection of the sets of `count` frames of codec topk, in
 * any order: with or without values, of any setting, but with the slot's element count, block size
 * and transform (PITH_ERR_MISMATCH). Damage that is found inside a block leaves the slot without a
 * set; other errors leave what it held. PITH_ERR_UNSUPPORTED: a frame that was made with
 * PITH_SAME_SET, or with PITH_SAME_BLOCKS and lacks indices of a block, names no set. */
PITH_NODISCARD PITH_API pith_status pith_sparse_hold(pith_work *work, pith_stream *stream,
                                                     uint64_t slot, const void *const *frames,
                                                     const size_t *lengths, size_t count, int how);
/* Make the slot hold a set of the caller's: for every i the `run` elements from elements[i] * run
 * on, as far as the slot goes. run 1: single elements, by any rule of choice; the length of a row:
 * rows or filters (SpaFL). In any order. PITH_ERR_ARG: a run that begins outside the slot, run 0;
 * then the slot holds what it held. */
PITH_NODISCARD PITH_API pith_status pith_sparse_hold_elements(pith_work *work, pith_stream *stream,
                                                              uint64_t slot,
                                                              const uint64_t *elements,
                                                              size_t count, uint64_t run);
/* Copy values at the held set's elements, in ascending order, to `values`, which has as many
 * elements as the set (PITH_ERR_SHAPE). They come from a view of the slot or the whole tensor, or,
 * with from NULL, from the residual (PITH_ERR_STATE without error feedback), which after a choice
 * with clear=call is the accumulator. Rounded once to the dtype of `values`. PITH_ERR_STATE: the
 * slot holds no set; PITH_ERR_SHAPE, PITH_ERR_DTYPE: a view. */
PITH_NODISCARD PITH_API pith_status pith_sparse_gather(pith_work *work, const pith_stream *stream,
                                                       uint64_t slot, const pith_view *from,
                                                       const pith_view *values);
/* to := to + scale * values at the held set's elements, in f32: the product is rounded, then the
 * sum, then to the view's dtype. `to` is a view of the slot or of the whole tensor; its other
 * elements are neither read nor written. PITH_ERR_STATE: the slot holds no set; PITH_ERR_SHAPE,
 * PITH_ERR_DTYPE: a view; PITH_ERR_UNSUPPORTED: the set is one of coefficients. */
PITH_NODISCARD PITH_API pith_status pith_sparse_scatter(pith_work *work, const pith_stream *stream,
                                                        uint64_t slot, const pith_view *values,
                                                        float scale, const pith_view *to);
/* The residual, and with momentum the momentum (DGC's factor masking), becomes +0 at the held set's
 * elements: at the union, or, after PITH_SET_INTERSECTION of the own frame and that of the chosen
 * sums, where both agree (Ok-Topk).
 * pith_stream_rollback takes it back together with the encode before it. PITH_ERR_STATE: the slot
 * holds no set, or the stream has no error feedback. */
PITH_NODISCARD PITH_API pith_status pith_sparse_clear(pith_work *work, pith_stream *stream,
                                                      uint64_t slot);

/* ---- Planning -------------------------------------------------------------------------------
 * Which rank chooses from which elements, and how many. All of it is computed from what every rank
 * knows, in integers or in doubles with one order of operations, so that every rank finds the same
 * without a message. Nothing is allocated; results are written on success alone. error may be NULL.
 * doc/SPARSE.md, Planning, names the sources. */

/* The part that a rank takes at a step when parts go round: (step + rank) mod ranks. 0 when ranks
 * is. */
PITH_API uint32_t pith_sparse_part(uint32_t ranks, uint32_t rank, uint64_t step);
/* MiCRO: that part of n elements, which is [*first, *first + *count); the first n mod ranks parts
 * have one element more than the others. PITH_ERR_ARG: rank is not below ranks, or an argument is
 * NULL. */
PITH_NODISCARD PITH_API pith_status pith_sparse_partition(uint64_t n, uint32_t ranks, uint32_t rank,
                                                          uint64_t step, uint64_t *first,
                                                          uint64_t *count, pith_error *error);
/* How much more the rank with the most elements has than the mean: max * ranks / sum - 1, which is
 * what messages of one length waste. 0 when all counts are. The sum may have more than 64 bits. */
PITH_API double pith_sparse_imbalance(const uint64_t *counts, uint32_t ranks);

/* ExDyna: partitions of whole blocks that move with the counts of the last step, so that ranks
 * choose alike many. A plain struct: copy it, save it, send it. What it holds is for these calls to
 * read. */
enum { PITH_EXDYNA_BLOCKS = 1024, PITH_EXDYNA_RANKS_MAX = 256 };
typedef struct pith_exdyna {
    size_t size;
    uint64_t n, step;
    uint32_t ranks;
    uint32_t block; /* elements of a block; 0: n is below 32768, and partitions are MiCRO's */
    uint32_t blocks[PITH_EXDYNA_RANKS_MAX]; /* of each partition */
} pith_exdyna;
/* Begin at step 0, with blocks as even as they can be. PITH_ERR_ARG: no ranks, or too many; plan is
 * NULL, or its size is not set. */
PITH_NODISCARD PITH_API pith_status pith_exdyna_init(pith_exdyna *plan, uint64_t n, uint32_t ranks,
                                                     pith_error *error);
/* Go on to the next step: counts[r] elements were chosen by rank r in this one. PITH_ERR_ARG: they
 * are more than n together, or an argument is NULL; PITH_ERR_STATE, of this call and the next: the
 * struct is none that these calls make. */
PITH_NODISCARD PITH_API pith_status pith_exdyna_update(pith_exdyna *plan, const uint64_t *counts,
                                                       pith_error *error);
/* The elements [*first, *first + *count) from which a rank chooses at the plan's step.
 * PITH_ERR_ARG: rank is not below the plan's ranks, or an argument is NULL; PITH_ERR_STATE: as said
 * above. */
PITH_NODISCARD PITH_API pith_status pith_exdyna_range(const pith_exdyna *plan, uint32_t rank,
                                                      uint64_t *first, uint64_t *count,
                                                      pith_error *error);

/* DEFT: tensors in pieces, each with a k from the norms of its own values, and pieces packed into
 * bins of like cost. At a step rank r chooses from bin pith_sparse_part(ranks, r, step), from each
 * piece its own k. Number of pieces of `tensors` tensors of so many elements: a tensor of more than
 * all elements / ranks is cut into `ranks` pieces, of which the first ones have one element more;
 * pieces that would be empty are left out. Pieces lie one behind the other, as tensors do, so that
 * each is known by its elements: those of the first `capacity` pieces are written to pieces, which
 * may be NULL when that is 0. 0 when ranks is or the elements do not fit 64 bits. */
PITH_API uint64_t pith_deft_pieces(const uint64_t *sizes, uint64_t tensors, uint32_t ranks,
                                   uint64_t *pieces, uint64_t capacity);
/* The 2-norm of the finite values of a view (f32, bf16 or f16; PITH_ERR_DTYPE): squares are summed
 * in doubles, the same on every machine. */
PITH_NODISCARD PITH_API pith_status pith_sparse_norm(const pith_view *view, double *norm,
                                                     pith_error *error);
/* Memory, of any alignment, for the next two calls. */
PITH_API uint64_t pith_deft_bytes(uint32_t pieces, uint32_t ranks);
/* k of every piece: from the largest norm to the smallest, the share of its norm in what is left of
 * the sum, of what is left of k; at least 1, at most the piece. So the sum of all is about k, and
 * never below the number of pieces. PITH_ERR_ARG: a norm that is negative or not finite, a piece
 * without elements; PITH_ERR_SPACE: bytes are less than pith_deft_bytes(count, 0). */
PITH_NODISCARD PITH_API pith_status pith_deft_counts(const uint64_t *pieces, const double *norms,
                                                     uint32_t count, uint64_t k, void *memory,
                                                     size_t bytes, uint64_t *ks, pith_error *error);
/* The bin of every piece: the costliest first, into the bin with the least load. A piece costs
 * size * log2(k), or its size with k = 1. Of a piece with k = size every element is sent by every
 * rank: it is in no bin. PITH_ERR_ARG: no ranks, or a k that is not 1 to the piece's size;
 * PITH_ERR_SPACE: bytes are less than pith_deft_bytes(count, ranks). */
enum { PITH_DEFT_COMMON = 0x7FFFFFFF };
PITH_NODISCARD PITH_API pith_status pith_deft_pack(const uint64_t *pieces, const uint64_t *ks,
                                                   uint32_t count, uint32_t ranks, void *memory,
                                                   size_t bytes, uint32_t *bins, pith_error *error);

/* Bytes of a frame of codec topk of n elements with k values: in a stream or not, of up to four
 * dimensions below 2^32, without checksums and exempt ranges. value_bits: 32, 16, 8 (values=int8)
 * or 0 (values=none). block: elements of a block, a power of two from 64 to 2^24, or 0: what the
 * spec takes for density k / n. Both calls answer 0 for other arguments. */
enum { PITH_SPARSE_SMALL = 0, PITH_SPARSE_FAST = 1 }; /* the key index */
/* About as many as k elements at random places take: their entropy and 0.55 bits an element
 * (SMALL) or 0.97 (FAST), no more than a bit for each of n. Clustered ones take less. */
PITH_API uint64_t pith_sparse_expected_bytes(uint64_t n, uint64_t k, uint32_t value_bits,
                                             uint32_t index, uint64_t block);
/* No frame with at most k values has more. */
PITH_API uint64_t pith_sparse_largest_bytes(uint64_t n, uint64_t k, uint32_t value_bits,
                                            uint64_t block);

/* AdaTopK: links that wait for each other, each with a k that keeps it from being the last. */
typedef struct pith_sparse_link {
    uint64_t n;              /* elements of the tensor that goes over the link */
    double bytes_per_second; /* above 0 */
} pith_sparse_link;
/* The time in which the slowest link sends its tensor compressed `ratio` times, ratio above 0; NaN
 * for other arguments. */
PITH_API double pith_sparse_link_seconds(const pith_sparse_link *links, uint32_t count,
                                         uint32_t value_bits, double ratio);
/* The largest k of every link whose expected bytes take no longer than `seconds`, at least 1 (0 for
 * n = 0), and n where the whole tensor does. PITH_ERR_ARG: seconds, or a link's speed, is not
 * finite and above 0, or no frame has such value_bits or index. */
PITH_NODISCARD PITH_API pith_status pith_sparse_link_counts(const pith_sparse_link *links,
                                                            uint32_t count, uint32_t value_bits,
                                                            uint32_t index, double seconds,
                                                            uint64_t *ks, pith_error *error);

#ifdef __cplusplus
}
#endif

#endif
