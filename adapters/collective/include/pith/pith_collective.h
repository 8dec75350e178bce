/* pith_collective.h - collectives over any transport, whose messages are pith frames.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A channel carries one tensor, or one list of tensors (a bucket of gradients, a shard of weights),
 * through one kind of collective, step after step: made once, with every size, plan, stream and
 * buffer, and a work of its own; used every step. It knows nothing of networks: a transport of the
 * caller's sends and receives bytes (pith_transport). pith_mpi.h makes channels on MPI, and
 * pith_collective_sockets a transport on connected sockets.
 *
 * Collective calls. Every rank of the transport makes the calls marked "collective" on its channel
 * of the same pith_collective_create, in the same order, with the same scale, step and flags. Views
 * and their dtypes belong to each rank alone. Collective calls on different channels may be in
 * flight at once and may be started and tested in any order; but a rank that waits for one channel
 * does not work on the others, so ranks wait for channels in the same order, or for all at once
 * (pith_collective_wait_all).
 *
 * One status. A collective call ends with the same status on every rank: the lowest one (-99 before
 * -1) that any rank met, be it a wrong argument or a frame that arrived damaged (every frame and
 * message carries checksums). What a rank cannot tell the others ends in PITH_ERR_TIMEOUT: a rank
 * that died, hangs or did not call; or in PITH_ERR_TRANSPORT on those ranks whose transport sees
 * it and fails. No call waits longer than its timeout.
 * After PITH_OK all values are right; after anything else the output views hold nothing usable
 * (whole or in part the old values, the new ones, or a mixture).
 *
 * After a failure other than PITH_ERR_TIMEOUT or PITH_ERR_TRANSPORT the channel is as good as
 * before: all messages of the call have been received, and what the call did to steps and error
 * feedback is taken back (pith_stream_rollback). Only an all-gather with a base needs the next call
 * to bring key frames (PITH_ERR_STATE until then). After one of these two the channel is broken:
 * every later collective call answers PITH_ERR_BROKEN at once, and pith_collective_destroy keeps
 * those buffers allocated that the transport may still write to. Other channels are not touched.
 * One case is left to the caller: when a timeout, a damaged message or a failing transport strikes
 * during the very last exchange, the one that agrees on the status, some ranks may have ended with
 * PITH_OK already; their next call then times out.
 *
 * Steps. Every call says its step, and every message compares it (PITH_ERR_STEP). Without a base
 * it is set in each stream before it encodes, so that ranks which must draw alike
 * (round=antithetic) do so in any call, whatever failed before and on whichever ranks: the caller
 * repairs nothing, and may use the step of a failed call again.
 *
 * Whose frames they are. Frames do not say which slot they are of (pith.h), so messages do: each
 * names its call, step, hop and slice, the rank that encoded it, and the rank it is meant for, or
 * that it is for all, from which follow the shards it holds. A whole message that another rank
 * encoded, or that is meant for another rank, is PITH_ERR_CORRUPT.
 *
 * Progress. Encoding, sending and decoding happen inside start, test and wait, on the calling
 * thread (and the threads of pith_collective_options.env). A channel has at most one call in
 * flight. Views, and the memory they describe, stay valid and unchanged until the call has ended.
 *
 * Threads. One thread at a time is inside a call on a channel, its requests or its last error, any
 * thread, and the caller sees to that: PITH_ERR_BUSY is the answer while a call is in flight, not
 * while another thread is inside one. Different channels serve different threads at once. A
 * transport's functions are called by the thread that is inside create, start, test, a wait, run,
 * destroy or break_even, and by no other.
 *
 * Memory. pith_collective_create allocates everything; the collective calls allocate nothing
 * themselves (the transport may). All buffers are host memory. Nothing is printed, and no
 * environment variable is read.
 *
 * Structs. Their size is set before the call, in those that calls fill in too, and works as in
 * pith.h; in a report whose size is not set nothing is written.
 *
 * NULL. Only arguments whose text says so may be NULL. A channel must be valid on every rank: a
 * call with channel NULL answers PITH_ERR_ARG on that rank at once and takes no part.
 */
#ifndef PITH_PITH_COLLECTIVE_H
#define PITH_PITH_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Transports -----------------------------------------------------------------------------
 * What a channel asks of a network: messages of bytes between ranks, each with a tag, without
 * waiting. A transport serves one channel, which has it to itself: where several channels share a
 * network, it keeps their messages apart (a communicator each, or tags of its own).
 *
 * Messages between two ranks with one tag arrive in the order in which they were sent, and match
 * receives in the order in which these were started. A message may be sent before its receive was
 * started: either the transport keeps it, or the send goes on until then. There are no messages of
 * 0 bytes, and none from a rank to itself. Many requests are open at once: for each slice and hop
 * one send and one receive for each other rank, more where a node is larger than others and
 * forwards to its ranks, and a few besides.
 *
 * Buffers are the channel's. One that was given to isend or irecv stays where it is and, but for
 * what the transport writes there, as it is until the request is gone. Several sends may read one
 * buffer at once, which may have been received into before. From call to call a channel uses the
 * same buffers for the same messages, so that a transport may prepare them once, by address.
 *
 * The functions return 0, or anything else when the transport failed: the channel is then broken
 * (PITH_ERR_TRANSPORT), and uses the transport to cancel requests and to release it only. They may
 * be slow, but must not wait for other ranks. user is handed to each of them. A transport that
 * knows that a rank is gone fails in test of the requests which that rank was to serve; one that
 * does not know lets them be until the channel's timeout. */
enum { PITH_TRANSPORT_TAGS = 5 }; /* tags are 0 .. 4 */

/* A flag: a receive takes messages of exactly its own size. Messages then travel at their largest
 * size, which the plans tell; codecs of variable rate save nothing, and ranks that call with
 * different flags break the channel instead of hearing of it. Else a message may be shorter than
 * the receive that it matches, never longer. */
enum { PITH_TRANSPORT_EXACT = 0x1 };

typedef struct pith_transport {
    size_t size;
    void *user;
    uint32_t rank, ranks;
    /* Which ranks share a node: equal numbers do. ranks entries, borrowed for the creating call
     * only and the same on every rank. NULL: one node. */
    const uint32_t *node_of;
    uint32_t flags;   /* PITH_TRANSPORT_EXACT */
    uint64_t largest; /* bytes of the largest message that it can send; 0: of any size */
    /* Start to send bytes to rank peer. *request: any number by which test and cancel know it. */
    int (*isend)(void *user, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                 uint64_t *request);
    /* Start to receive up to bytes from rank peer. */
    int (*irecv)(void *user, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                 uint64_t *request);
    /* *done: 1 when the request has ended, after which it is gone and its buffer the channel's
     * again; else 0. Moves on whatever else the transport has to do. *bytes comes with the size
     * given to isend or irecv; of a message that was shorter a transport that knows it says how
     * many bytes arrived, others leave it. */
    int (*test)(void *user, uint64_t request, int *done, uint64_t *bytes);
    /* Called for requests that are still open when a channel is broken. 0: the request is gone,
     * and its buffer is not touched any more. Anything else: it may be, and stays allocated for
     * ever. NULL stands for that. */
    int (*cancel)(void *user, uint64_t request);
    /* Wait until a request may have moved on, at most so many seconds: called by waits that have
     * nothing to do. It may return early, and does so at once where a request has ended since the
     * last wait. NULL: the waiting thread yields, then sleeps 20 us at a time. */
    int (*wait)(void *user, double seconds);
    /* The last call: by pith_collective_destroy, or by pith_collective_create when it fails, once
     * no other function of the transport will be called again. broken: 1 where ranks may be gone
     * and requests open. Also called for invalid options, but not where pith_collective_create
     * says that the transport itself is invalid. NULL: nothing. */
    void (*release)(void *user, int broken);
} pith_transport;

/* A transport on sockets that are connected already, by whatever launched the ranks: socket[r] is
 * a stream socket (TCP, or of socketpair) to rank r, of this channel alone; that of the own rank is
 * not looked at. They belong to the transport from here on: its release closes them. Ranks are of
 * one byte order. All ranks are one node; set transport->node_of to say otherwise. A socket whose
 * other end was closed, by the death of that rank for instance, fails its requests at once.
 * PITH_ERR_ARG: something is NULL, or rank is not below ranks; PITH_ERR_MEMORY. Then the sockets
 * stay the caller's. */
PITH_NODISCARD PITH_API pith_status pith_collective_sockets(pith_transport *transport,
                                                            uint32_t rank, uint32_t ranks,
                                                            const int *sockets);

/* ---- Nodes ----------------------------------------------------------------------------------
 * Ranks that share a node exchange with the first of two specs, nodes with the second. Nodes are
 * numbered by their lowest rank, and the ranks of a node ("local ranks") in rank order. Nodes may
 * differ in size. The counterpart of rank d on a node of R ranks is its local rank
 * (local rank of d) mod R: with nodes of equal size, the one with d's own local rank. */
typedef struct pith_collective_place {
    size_t size;
    uint32_t rank, ranks; /* of the transport */
    uint32_t node, nodes; /* this rank's node */
    uint32_t local, locals;
} pith_collective_place;

/* ---- Options --------------------------------------------------------------------------------
 * All of it is the same on every rank, except env, send_counts and recv_counts. A difference is an
 * error on every rank, with the rank that differs in the error's text: PITH_ERR_MISMATCH in specs,
 * of which the plans that come of them are compared (pith_plan_fingerprint, pith_plan_spec);
 * PITH_ERR_ARG in anything else. Everything pointed to is borrowed for the creating call only,
 * except env's functions. */
enum {
    PITH_COLLECTIVE_REDUCE_SCATTER = 1,
    PITH_COLLECTIVE_ALLREDUCE = 2,
    PITH_COLLECTIVE_ALLGATHER = 3,
    PITH_COLLECTIVE_ALLTOALLV = 4,
    /* All-reduce of the elements of largest magnitude; see Sparse all-reduce below. */
    PITH_COLLECTIVE_SPARSE_GATHER = 5,
    PITH_COLLECTIVE_SPARSE_UNION = 6,
    PITH_COLLECTIVE_SPARSE_OKTOPK = 7
};

/* Flags. EXTERNAL_BASE: the base lies in the caller's memory, pith_collective_bind_base before the
 * first call. MEASURE_THRESHOLD: pith_collective_break_even decides the threshold. */
enum { PITH_COLLECTIVE_EXTERNAL_BASE = 0x1, PITH_COLLECTIVE_MEASURE_THRESHOLD = 0x2 };

typedef struct pith_collective_options {
    size_t size;
    uint32_t kind;       /* PITH_COLLECTIVE_* */
    uint32_t dtype;      /* f32, bf16 or f16; all-gather and all-to-all: what the spec takes */
    uint32_t base_dtype; /* PITH_NONE, or all-gather of differences: dtype of the base */
    uint32_t flags;      /* PITH_COLLECTIVE_EXTERNAL_BASE, ..._MEASURE_THRESHOLD */
    /* Elements of the whole tensor, cut into one shard per rank: rank r owns elements
     * [min(n, rL), min(n, (r+1)L)) with L = ceil(n / ranks); or counts[r] elements each, in rank
     * order, whose sum is count. Shards may be empty. Not for all-to-all. */
    uint64_t count;
    const uint64_t *counts;
    /* All-to-all: elements that this rank sends to, and gets from, each rank. */
    const uint64_t *send_counts, *recv_counts;
    /* Specs of pith.h. spec: the only one, or the one inside nodes when inter is not NULL.
     * inter: across nodes; reduce-scatter and all-reduce only. gather: the second half of
     * all-reduce; NULL: the spec of the last hop before it. All but all-gather and all-to-all
     * need specs of fixed rate without a base. */
    const char *spec, *inter, *gather;
    /* 0: the nodes of the transport. R: ranks 0..R-1 are node 0, the next R node 1, ...; the last
     * node may be smaller. */
    uint32_t ranks_per_node;
    /* Random bits: the seed, and the first of 3 * ranks ids of random bits that this channel uses
     * (see below). */
    uint32_t rng_stream;
    uint64_t seed;
    /* Elements of one shard in one slice: while a slice travels, the next is encoded. Any number;
     * 0: 131072. It is part of the result, since groups do not cross slices. */
    uint64_t slice;
    /* Tensors of fewer elements travel uncompressed, in codec raw, and are summed at one level. 0:
     * all are compressed. Not with a base, nor for sparse all-reduce. Reports say which way was
     * taken. */
    uint64_t threshold;
    double timeout; /* seconds from the start of a call to its end; 0: 300 */
    /* As in pith_layout, in elements of the whole tensor. Reduce-scatter and all-reduce. */
    const pith_exempt *exempt;
    size_t exempt_count;
    const pith_env *env; /* of plans and work; its allocator also for the buffers; may be NULL */
    /* Sparse all-reduce. The tensor's pieces (layers), in order, whose sum is count: elements are
     * chosen from each by itself. NULL: one piece. Not for Ok-Topk. */
    const uint64_t *pieces;
    uint64_t piece_count;
    /* Ok-Topk: calls from one exact global threshold, and one new cut into regions, to the next; 0:
     * 32. */
    uint32_t refresh;
} pith_collective_options;

/* ---- Channels -------------------------------------------------------------------------------*/
typedef struct pith_collective_channel pith_collective_channel;

/* Collective. The transport's struct is copied. On failure, which but for PITH_ERR_TIMEOUT and
 * PITH_ERR_TRANSPORT is the same on every rank, *channel is NULL. PITH_ERR_MISMATCH: ranks would
 * refuse each other's frames, since their specs or their versions of pith differ. error may be
 * NULL; it says why where this rank itself failed, else which rank did or differs from rank 0, and
 * in which option, or what this rank's spec is there. Each message of the others is waited for up
 * to options->timeout. Answered on this rank alone, at once: PITH_ERR_ARG when channel is NULL or
 * the transport is not valid (NULL, without isend, irecv or test, rank not below ranks, unknown
 * flags, a size that is not set), and PITH_ERR_UNSUPPORTED when it is a newer pith_collective's:
 * its release is then not called; and PITH_ERR_MEMORY when there is no memory for a message to the
 * others. */
PITH_NODISCARD PITH_API pith_status pith_collective_create(pith_collective_channel **channel,
                                                           const pith_transport *transport,
                                                           const pith_collective_options *options,
                                                           pith_error *error);
/* With no call in flight. Waits for nobody, but the transport's release may. NULL is allowed. */
PITH_API void pith_collective_destroy(pith_collective_channel *channel);
/* Where this rank is among nodes. PITH_ERR_ARG: an argument is NULL, or out->size is not set. */
PITH_API pith_status pith_collective_get_place(const pith_collective_channel *channel,
                                               pith_collective_place *out);
/* First element and element count of rank's shard in the whole tensor. PITH_ERR_ARG past the last
 * rank and for all-to-all. */
PITH_API pith_status pith_collective_shard(const pith_collective_channel *channel, uint32_t rank,
                                           uint64_t *first, uint64_t *count);
/* Why this rank's part of the last call failed, be it collective or local (PITH_ERR_BUSY says no
 * more); an empty text when another rank failed, and after PITH_OK. Kept in the channel until its
 * next call. */
PITH_API const pith_error *pith_collective_last_error(const pith_collective_channel *channel);

/* ---- Calls ----------------------------------------------------------------------------------
 * What one call of the channel's collective is given. inputs and outputs are lists of tensors, each
 * of which stands for one tensor: their elements in row-major order, one after the other. Lists are
 * of any length, the same from call to call or not, and of any cut: only the sum of their counts is
 * the channel's. All of a list have one dtype. The list itself is borrowed until the call has
 * ended, as the views' memory is. What shards, exempt ranges and slices count are elements of the
 * one tensor. A tensor that is dense is read and written where it lies; where a slice crosses from
 * one tensor of a list to the next, it is copied once.
 *
 * scale (sums): 1 for the sum, 1 / ranks for the mean (AVG), any other for what frameworks call a
 * pre-multiplied sum; 0 stands for 1. It is applied in f32 after the sum, which therefore overflows
 * no later than f32 does. step: of the random bits and of error feedback, for which it differs from
 * call to call. flags: 0, or for all-gathers with a base PITH_KEY_FRAME. */
typedef struct pith_collective_call {
    size_t size;
    const pith_view *inputs, *outputs; /* outputs may be NULL where the collective says so */
    size_t input_count, output_count;
    float scale;
    uint32_t flags;
    uint64_t step;
    /* SPARSE_GATHER and SPARSE_UNION: what is asked of this rank's choice, one request for each
     * piece, all of one size, or NULL. Borrowed until the call has ended. */
    const pith_sparse_request *requests;
} pith_collective_call;

/* Of the call that ended, as this rank saw it. Bytes are those of the messages, headers included,
 * without those that agree on the status; [0]: to ranks of the same node, [1]: to other nodes. What
 * a rank forwards is in, and what it keeps for itself is not. */
typedef struct pith_collective_report {
    size_t size;
    pith_status status;
    int32_t failed_rank; /* the lowest rank that met the status, where known; else -1 */
    uint32_t compressed; /* 0: the tensor was below the threshold */
    uint32_t levels;     /* of the sums: 1 or 2; without sums 1 */
    uint64_t slices;
    uint64_t sent_messages[2];
    uint64_t sent_bytes[2];
    uint64_t sent_values[2]; /* elements in these bytes */
    double encode_seconds;   /* values to frames */
    double recode_seconds;   /* sums of frames to frames */
    double decode_seconds;   /* frames, or sums of them, to values */
    double cpu_seconds;      /* of these three: CPU time of the calling thread */
    double wait_seconds;     /* in pith_collective_wait, with nothing else to do */
    double total_seconds;    /* from start to end */
    uint64_t chosen;         /* sparse: elements that the ranks chose, each as often as it was */
    uint64_t summed;         /* sparse, not SPARSE_GATHER: elements whose sums came back */
} pith_collective_report;

/* A started call is finished by pith_collective_wait or by a pith_collective_test that sets *done;
 * then the request is gone. */
typedef struct pith_collective_request pith_collective_request;

/* Collective. Starts receives and sends nothing yet: what is sent is encoded in test and wait. It
 * answers locally: PITH_OK and a request; or NULL with PITH_ERR_ARG (channel or call is NULL, or
 * the call's size is not set), PITH_ERR_UNSUPPORTED (a call of a newer pith_collective),
 * PITH_ERR_BUSY or PITH_ERR_BROKEN. Wrong views, steps and so on do not fail the start but the
 * call, on every rank. */
PITH_NODISCARD PITH_API pith_status pith_collective_start(pith_collective_channel *channel,
                                                          const pith_collective_call *call,
                                                          pith_collective_request **request);
/* Does what can be done without waiting, at most about one slice of encoding or decoding. *done: 1
 * when the call has ended, whose status is then returned (One status, at the top); else 0, and
 * PITH_OK. report may be NULL, here and below. PITH_ERR_ARG: request or done is NULL, or the
 * request has ended. */
PITH_NODISCARD PITH_API pith_status pith_collective_test(pith_collective_request *request,
                                                         int *done, pith_collective_report *report);
/* Waits for the end of the call, and returns its status. PITH_ERR_ARG: request is NULL, or has
 * ended. */
PITH_NODISCARD PITH_API pith_status pith_collective_wait(pith_collective_request *request,
                                                         pith_collective_report *report);
/* Waits for the calls of several channels, working on all of them in turn. Requests that are NULL
 * are passed over, one may be there twice, and all are NULL in the end. reports has count entries,
 * of one size, or is NULL. The lowest status of all; PITH_ERR_ARG, and nothing is waited for, where
 * requests is NULL or one has ended. */
PITH_NODISCARD PITH_API pith_status pith_collective_wait_all(size_t count,
                                                             pith_collective_request **requests,
                                                             pith_collective_report *reports);
/* Collective. Start and wait. Errors: as pith_collective_start, then those of the call. */
PITH_NODISCARD PITH_API pith_status pith_collective_run(pith_collective_channel *channel,
                                                        const pith_collective_call *call,
                                                        pith_collective_report *report);

/* ---- Reduce-scatter, all-reduce -------------------------------------------------------------
 * Input: the whole tensor, in the channel's dtype. Output of reduce-scatter: this rank's shard; of
 * all-reduce: the whole tensor; f32, bf16 or f16 each. The output may be the same memory as the
 * input (all-reduce), or as this rank's shard in it (reduce-scatter), by the same strides and cut
 * alike into tensors; else they must not overlap.
 *
 * What is computed, per slice, for the shard of rank d. E and D are encoding and decoding.
 *   One level (no inter spec, or below the threshold, or one node, or one rank on every node):
 *     out = round(scale * (D(E(x of rank 0)) + D(E(x of rank 1)) + ...)), in f32, in rank order,
 *     rounded once, as pith_reduce. The spec is `spec`; `inter` with one rank on every node.
 *   Two levels: on each node m the counterpart of d collects
 *     S(m) = D(E(x of local rank 0)) + D(E(x of local rank 1)) + ... with `spec`, and sends
 *     E(S(m)) with `inter`, in f32 (pith_reduce_encode); rank d, its own node included:
 *     out = round(scale * (D(E(S(0))) + D(E(S(1))) + ...)).
 *   With nodes of equal size every value crosses nodes once per node and each rank sends to one
 *   rank per other node: the exchange of SDP4Bit. With unequal nodes the sums are as stated, and a
 *   rank of a small node sends more.
 *   All-reduce: the scaled sum in f32 is not rounded to the output but encoded with `gather`, and
 *     reaches all others as the frames of all-gather do; every rank, the owner included, decodes
 *     the same bytes: the result is bit-identical on ranks with the same output dtype. Below the
 *     threshold `gather` is raw too.
 * Random bits: stochastic rounding takes rng_stream + rank in the first hop, rng_stream + ranks +
 * rank in the second, rng_stream + 2 * ranks + rank in the gathering half. With round=antithetic
 * the ranks whose frames are summed share one: rng_stream + node (inside nodes, as rank local of
 * locals), rng_stream (one level, rank of ranks), rng_stream + ranks (across nodes, node of
 * nodes). */

/* ---- All-gather -----------------------------------------------------------------------------
 * Every rank gives its shard, every rank gets the whole tensor. Input: this rank's shard (or the
 * whole tensor, of which the shard is taken), in the channel's dtype. Output: the whole tensor, of
 * a dtype that pith_decode takes; outputs NULL: only the base is wanted.
 * Without a base all ranks, the owner included, decode the same bytes. With one (wdiff) the channel
 * holds the base of the whole tensor; each rank encodes its shard against it, every rank applies
 * every frame to it: bases stay bit-identical, and the output is the new base. step is the base's
 * next step, 0 after creation, PITH_ERR_STEP otherwise.
 * With a base, PITH_KEY_FRAME: all shards travel exactly, and every rank's base is then what they
 * bring, at step `step` + 1, whatever base or step it had: for ranks that join late or have lost
 * their base, and after a failed call. Random bits: rng_stream + rank.
 * Input and output must not overlap each other or an external base, but without a base the input
 * may be this rank's shard in the output.
 *
 * How frames travel, here and in the second half of all-reduce, at any number of levels and below
 * the threshold too: rank d sends its frame to the ranks of its own node and to its counterpart on
 * each other node, which forwards it to the other ranks of that node, slice by slice. So a frame
 * crosses to each node once, and with nodes of equal size every rank sends and forwards as much as
 * any other. What is forwarded is not decoded before nor encoded again: values, steps, statistics
 * and what a channel remembers are those of frames that were sent to every rank directly, as they
 * are where there is one node, or one rank on each. A rank whose call has failed forwards no
 * frames but its status. */

/* ---- All-to-all -----------------------------------------------------------------------------
 * Input: the pieces for rank 0, 1, ..., send_counts[r] elements each, as one tensor; output: the
 * pieces from rank 0, 1, ..., likewise. Frames may vary in size. What a rank sends to itself is
 * encoded and decoded like the rest. Input and output must not overlap. Random bits: rng_stream +
 * rank. */

/* ---- Sparse all-reduce ----------------------------------------------------------------------
 * Input and output: the whole tensor, as of all-reduce; the output may be the input. Every rank
 * adds its residual to its input, which makes its accumulator, and chooses elements of it by a spec
 * of codec topk (sparse.h). Others stay in the residual. Outputs are bit-identical on ranks with
 * the same output dtype, 0 where nothing was chosen, and with ef=full nothing is lost: what the
 * outputs had so far, divided by scale, and all residuals add up to all inputs, but for rounding.
 * The whole tensor is one slice: what was chosen is short. Messages have the fixed capacity that
 * the spec's hard limit (cap) gives them and travel at their own length, so that no lengths go
 * ahead of them.
 *
 * SPARSE_GATHER (Top-k, DGC, GaussianK, DCT): every rank sends its frame to all, and
 *     out = round(scale * (D(frame of rank 0) + D(frame of rank 1) + ...)), as pith_reduce.
 *   Any spec of topk but values=none and clear=call. Each rank gets about ranks * k elements.
 * SPARSE_UNION (Top-k with union, CLT-k, DEFT, MiCRO, ExDyna): the spec has ef=full, no transform,
 *   and values=f32 if it says so; values=none,clear=call are the channel's own. Every rank sends
 *   the set that it chose to all; in the union of all sets every rank's accumulator counts. These
 *   values, U of them in ascending order, are summed in f32 in rank order by owners, rank r that of
 *   [min(U, rL), min(U, (r+1)L)) with L = ceil(U / ranks), and go back to all:
 *     out = round(0 + scale * sum), as pith_sparse_scatter,
 *   and every rank's residual becomes 0 at the union. Each rank chooses k elements, unless requests
 *   give it a part: ranges that are disjoint (MiCRO: the ranks' parts, which rotate; ExDyna: parts
 *   that also move, by what pith_collective_chosen says), or a leader's that holds all, where
 *   others choose from {first = n} nothing (CLT-k), or pieces each of which one rank chooses from,
 *   with its k (DEFT). Then all ranks give requests, and the number that all chose together is
 *   reported to the controller (pith_sparse_report), which compares it with the spec's k.
 * SPARSE_OKTOPK (Ok-Topk): specs as of SPARSE_UNION. The tensor is cut into a region for each rank.
 *   Every rank sends what it chose of a region to its owner: the elements of its accumulator that
 *   reach its threshold, all of one magnitude or none but where the hard limit cuts. The owner sums
 *   in rank order, chooses again from the sums, and sends what it chose to all, which add up, have
 *   the same elements then, and out = round(scale * sum). The residual becomes 0 where an element
 *   was both sent and came back. In the first call and every refresh-th after it an owner sends its
 *   k largest sums, of which all keep the k largest of all regions, exactly; their threshold serves
 *   until the next, times 1.012 after calls that brought more than 5k/4 elements, divided by it
 *   after fewer than 2k/3. In the same calls regions are cut anew, for the next call: where each
 *   rank's elements would be halved, thirded, ..., and at the mean of these places over all ranks.
 *   Each rank sends and gets about 2k elements, whatever the number of ranks.
 * An input of any rank that is not finite makes all elements of out NaN on every rank.
 * Random bits: rng_stream + rank. */

/* How many elements each rank chose, of all pieces, in the last call that ended with PITH_OK: ranks
 * numbers. PITH_ERR_ARG for other kinds. Local, and not while a call is in flight. */
PITH_NODISCARD PITH_API pith_status pith_collective_chosen(pith_collective_channel *channel,
                                                           uint64_t *counts);
/* What this rank's choice from a piece came to, as pith_sparse_get_state; before the first call its
 * k and most are there. Likewise. */
PITH_NODISCARD PITH_API pith_status pith_collective_sparse_state(pith_collective_channel *channel,
                                                                 uint64_t piece,
                                                                 pith_sparse_state *out);

/* ---- What a channel remembers ---------------------------------------------------------------
 * The base of an all-gather, and error feedback of every hop. These calls are local, and not
 * allowed while a call is in flight (PITH_ERR_BUSY). */

/* Base of all shards, from a view of the whole tensor, as pith_stream_set_base. For bases to be
 * equal every rank gives the same values and step. */
PITH_NODISCARD PITH_API pith_status pith_collective_set_base(pith_collective_channel *channel,
                                                             const pith_view *view, uint64_t step);
/* PITH_COLLECTIVE_EXTERNAL_BASE: as pith_stream_bind_base. Each rank encodes its own shard, and
 * looks at a sample of that part of this memory, as pith_encode does: the next call after others
 * have changed it ends with PITH_ERR_BASE, on every rank. What they changed in shards of other
 * ranks alone is found by the call after the next; the next may end with PITH_OK, and wrong values
 * on this rank. pith_collective_verify_base looks at all. This memory is set to +0 by
 * pith_collective_reset, and by a call with key frames that finds the base invalid or at another
 * step: where that call fails its values are lost. */
PITH_NODISCARD PITH_API pith_status pith_collective_bind_base(pith_collective_channel *channel,
                                                              void *base, uint64_t step);
/* Copy the whole base out, as pith_stream_get_base. */
PITH_NODISCARD PITH_API pith_status pith_collective_get_base(pith_collective_channel *channel,
                                                             const pith_view *view);
/* One number of all shards' base hashes and steps: equal on ranks with equal bases. 0 without. */
PITH_API uint64_t pith_collective_base_hash(const pith_collective_channel *channel);
/* Re-read the base, as pith_stream_verify. */
PITH_NODISCARD PITH_API pith_status pith_collective_verify_base(pith_collective_channel *channel);

/* Take back step `step` in every hop, as pith_stream_rollback: steps and error feedback. All ranks
 * do so, or none. PITH_ERR_STATE with a base. */
PITH_NODISCARD PITH_API pith_status pith_collective_rollback(pith_collective_channel *channel,
                                                             uint64_t step);
/* As after creation: residuals, bases, counters. PITH_ERR_ARG: channel is NULL; PITH_ERR_BUSY: a
 * call is in flight. */
PITH_NODISCARD PITH_API pith_status pith_collective_reset(pith_collective_channel *channel);
/* What encoding has lost so far of elements [first, first + count) of the tensor, in this rank's
 * calls of reduce-scatter or all-reduce, as if the first hop had lost it all: to its residual is
 * added that of the second hop, and that of the gathering half divided by scale (of the calls; 0
 * stands for 1), where this rank encodes there. Added up over all ranks that is all that the sums
 * still lack; momentum, through which gradients go first (topk), only pith_collective_save keeps.
 * For frameworks that cut their buckets anew: each rank reads the residual of the old channel and
 * writes it to the new one, wherever shards and nodes now lie. get writes count values to out.
 * PITH_ERR_STATE: no hop has error feedback; PITH_ERR_ARG: the range does not lie in the tensor,
 * out is NULL and count not 0, or scale is not finite; PITH_ERR_BUSY. */
PITH_NODISCARD PITH_API pith_status pith_collective_get_residual(pith_collective_channel *channel,
                                                                 uint64_t first, uint64_t count,
                                                                 float scale, float *out);
/* The other way: `count` values become the first hop's residual, and +0 that of the others, as
 * pith_stream_set_residual does. PITH_ERR_STATE: the first hop has no error feedback; PITH_ERR_ARG:
 * the range does not lie in the tensor, values is NULL and count not 0, or a value is not finite;
 * PITH_ERR_BUSY. Then nothing has changed. */
PITH_NODISCARD PITH_API pith_status pith_collective_set_residual(pith_collective_channel *channel,
                                                                 uint64_t first, uint64_t count,
                                                                 const float *values);
/* Bytes that pith_collective_save writes: always the same of a channel. */
PITH_API uint64_t pith_collective_save_bytes(const pith_collective_channel *channel);
/* Everything remembered, for a checkpoint of this rank among so many ranks in this placement.
 * PITH_ERR_SPACE: cap is less than save_bytes; PITH_ERR_STATE: a failed call left the base invalid;
 * PITH_ERR_ARG: dst or written is NULL; PITH_ERR_BUSY. */
PITH_NODISCARD PITH_API pith_status pith_collective_save(pith_collective_channel *channel,
                                                         void *dst, size_t cap, size_t *written);
/* The other way: the channel goes on as the saved one would have; seed and rng_stream are its own
 * options'. Any bytes are safe. PITH_ERR_MISMATCH: they were saved by another rank, among other
 * ranks or with another shard, or for other specs; PITH_ERR_TRUNCATED, PITH_ERR_CORRUPT: they end
 * early, or others follow; errors of pith_stream_load; PITH_ERR_ARG: src is NULL; PITH_ERR_BUSY. On
 * failure a channel with a base is as before, values included; any other is as after
 * pith_collective_reset. */
PITH_NODISCARD PITH_API pith_status pith_collective_load(pith_collective_channel *channel,
                                                         const void *src, size_t bytes);
/* Counters of what this rank encoded in one hop, and, in all-gather, decoded: 0 the first encoding,
 * 1 the second level's, 2 the gathering half's. All zero for hops that the channel does not have;
 * PITH_ERR_ARG past 2. */
PITH_API pith_status pith_collective_stats(const pith_collective_channel *channel, uint32_t hop,
                                           pith_stats *out);

/* ---- Break-even -----------------------------------------------------------------------------*/
typedef struct pith_collective_measure {
    size_t size;
    uint64_t elements;          /* compressed is faster from here on; UINT64_MAX: nowhere tried */
    double codec_ns;            /* per element of the tensor: encode, recode and decode */
    double plain_ns, packed_ns; /* per element at the largest size tried: a whole call */
    double link_bytes_per_s;    /* of the uncompressed call, per rank, at that size */
} pith_collective_measure;

/* Collective: run the collective of the options (count, counts and exempt are ignored; not
 * all-to-all, no base) with synthetic values, compressed and uncompressed, on tensors of 2^10,
 * 2^12, ... up to 2^20 elements, and find the size from which compressed is faster. The slowest
 * rank's times count, and the result is the same on every rank. The transport, whose release is not
 * called, must serve no channel meanwhile, and may be given to one afterwards if this was PITH_OK.
 * error may be NULL. PITH_ERR_ARG: an argument is NULL, out->size is not set, or the options have
 * a base or another kind. Else as pith_collective_create, and what the calls that are measured end
 * with. */
PITH_NODISCARD PITH_API pith_status
pith_collective_break_even(const pith_transport *transport, const pith_collective_options *options,
                           pith_collective_measure *out, pith_error *error);

#ifdef __cplusplus
}
#endif
#endif
