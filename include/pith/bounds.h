/* bounds.h - the part of pith's interface that changes error bounds while a model trains.
 * SPDX-License-Identifier: Apache-2.0
 *
 * pith.h includes this file; include that one.
 *
 * Threads. As in pith.h: a stream and a work serve one call at a time (PITH_ERR_BUSY); calls that
 * take neither may run on any threads at once, each with a struct of its own.
 */
#ifndef PITH_BOUNDS_H
#define PITH_BOUNDS_H

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Bounds that adapt ----------------------------------------------------------------------
 * In streams of codecs with PITH_TRAIT_BOUND every slot (a layer, an embedding table) can have a
 * bound of its own that changes from step to step; only encoders look at it, since frames carry
 * their bound: a decoder whose stream has another, or none, decodes right. What is asked for is the
 * spec's number, or the slot's (below), times the schedule of the spec (keys decay, start and steps
 * of embed) at the slot's step. */

/* A bound on |x - x'| for the slot, instead of what the spec asks for; 0: as the spec says.
 * PITH_ERR_ARG: it is negative or not finite, or there is no such slot. PITH_ERR_UNSUPPORTED, of
 * all these calls: the stream is of another codec. */
PITH_NODISCARD PITH_API pith_status pith_stream_set_bound(pith_work *work, pith_stream *stream,
                                                          uint64_t slot, double bound);
/* The spec's bound times this factor, for the slot. PITH_ERR_ARG: the factor is not finite and
 * above 0, or there is no such slot. */
PITH_NODISCARD PITH_API pith_status pith_stream_scale_bound(pith_work *work, pith_stream *stream,
                                                            uint64_t slot, double factor);
/* Factors for classes of embedding tables: small bounds where rows that become equal cost accuracy,
 * large ones where they do not. With embed:rel=0.03 these are the published 0.01, 0.03 and 0.05
 * (dual-level adaptive compression, SC 2024). */
enum { PITH_BOUND_SMALL, PITH_BOUND_MEDIUM, PITH_BOUND_LARGE };
/* 1/3, 1 and 5/3, to be given to pith_stream_scale_bound; NaN for other numbers. */
PITH_API double pith_bound_factor(uint32_t bound_class);
/* The slot's |x - x'| by pith_stream_set_bound or pith_stream_adapt, else 0. */
PITH_API double pith_stream_bound(const pith_stream *stream, uint64_t slot);
/* Share of the slot's values that were nonzero (pith_stats) in its last encode; 1 before one. */
PITH_API double pith_stream_nonzero(const pith_stream *stream, uint64_t slot);

/* How much error saved activations (act) may take, in terms of what the gradient of the layer's
 * weights may. Zero every field you do not set, and set size = sizeof(pith_budget)
 * (pith.h, Structs).
 *
 * A weight's gradient is a sum over samples and positions of arriving gradient times activation.
 * Errors of the nonzero activations, spread evenly within +-bound and independent of that gradient,
 * give it an error that is near normal with
 *     sigma = factor * gradient * sqrt(samples * nonzero) * bound.
 * factor 0 stands for sqrt(positions / 3), and gradient is then the root mean square: what follows
 * from the sum; doc/RESULTS.md has it measured. With factor 0.32 and the mean magnitude it is the
 * published model (COMET, VLDB 2022), whose constant belongs to its own networks.
 * The bound is chosen so that sigma = share * momentum. */
typedef struct pith_budget {
    size_t size;
    double momentum;  /* mean magnitude of the optimizer's momentum over the layer's weights */
    double share;     /* of it that sigma may be; 0: 0.01 */
    double gradient;  /* of the loss with respect to the layer's output, per element */
    double samples;   /* batch size */
    double positions; /* output elements per sample and channel, 1 for a linear layer; 0: 1 */
    double factor;    /* 0: sqrt(positions / 3) */
    double nonzero;   /* share of activations not 0; 0: pith_stream_nonzero, or 1 where that is 0 */
    double largest;   /* the bound is at most this; 0: no limit */
} pith_budget;
/* Set the slot's bound from a budget. It is left as it is when momentum is 0, or when gradient
 * or samples are 0 and largest is too. *bound, which may be NULL, is pith_stream_bound after a
 * call that succeeds. PITH_ERR_ARG for a field that is negative or not finite, or nonzero above 1:
 * nothing changes. */
PITH_NODISCARD PITH_API pith_status pith_stream_adapt(pith_work *work, pith_stream *stream,
                                                      uint64_t slot, const pith_budget *budget,
                                                      double *bound);

/* ---- Classes of bounds for embedding tables --------------------------------------------------
 * Codec embed takes a bound per frame, so a model gives every table its own. A bound that makes
 * many different rows of a table equal harms what the model has learnt there; the share of rows
 * that it makes equal is the table's homogenization index for that bound. These calls measure it
 * on sampled batches and propose the loosest bound that a table bears. */
enum { PITH_ROW_STATISTICS_MAX = 8 };

/* What batches of one table have shown. Zero it before the first sample, and set size =
 * sizeof(pith_row_statistics). Counts may be added up over ranks, field by field. */
typedef struct pith_row_statistics {
    size_t size;
    uint64_t batches;
    uint64_t rows;     /* of all batches */
    uint64_t distinct; /* rows of a batch that differ in their bits, summed */
    /* Rows of a batch that differ in their codes under specs[k]. */
    uint64_t coded[PITH_ROW_STATISTICS_MAX];
} pith_row_statistics;

/* Add a batch of looked-up rows of one table. specs: `count` specs (1..PITH_ROW_STATISTICS_MAX) of
 * codec embed from the smallest bound to the largest, such as "embed:rel=0.01", "embed:rel=0.03",
 * "embed:rel=0.05", with rows of one length; the same for every batch. What they say of
 * schedules, modes and blocks has no influence. On failure *statistics is as before. Allocates
 * through env for its own duration. error may be NULL. PITH_ERR_ARG: an argument is NULL, count is
 * not 1 to PITH_ROW_STATISTICS_MAX, or specs are of another codec or differ in the length of rows;
 * PITH_ERR_SPEC: one does not parse; PITH_ERR_DTYPE: embed does not take the batch's;
 * PITH_ERR_SHAPE: it has more than 2^24 elements; PITH_ERR_MEMORY. */
PITH_NODISCARD PITH_API pith_status pith_row_statistics_sample(
    pith_row_statistics *statistics, const char *const *specs, uint32_t count,
    const pith_view *batch, const pith_env *env, pith_error *error);
/* The homogenization index under specs[k]: 1 - coded[k] / distinct; 0 without samples, NaN for k
 * past PITH_ROW_STATISTICS_MAX and where size is not set. */
PITH_API double pith_row_statistics_index(const pith_row_statistics *statistics, uint32_t k);
/* The class of the table: the last k below count whose index is not above limit (0.25 suits the
 * published tables), or 0, the smallest bound, when there is none, or size is not set. */
PITH_API uint32_t pith_row_statistics_class(const pith_row_statistics *statistics, uint32_t count,
                                            double limit);

#ifdef __cplusplus
}
#endif
#endif
