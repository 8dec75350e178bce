/* pith_cuda.h - pith on device memory: the same frames, made on the caller's CUDA stream.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A separate library, libpith_cuda; libpith never links the CUDA runtime. Where pith was built
 * without CUDA the library is a stub with the same symbols, whose calls answer
 * PITH_ERR_UNSUPPORTED. This header includes no CUDA header: `cuda_stream` is the caller's
 * cudaStream_t passed as void * (NULL, 1 and 2 mean what they mean to CUDA); a stream without that
 * prefix is pith's. Read pith.h first; what its text says of plans, slots, streams, steps and
 * frames holds here, with these differences:
 *
 * Order. A call puts work on the given CUDA stream and returns; nothing is allocated, nothing
 * waits, no other CUDA stream is used, and the current device is the caller's again when the call
 * returns. Memory handed in belongs to the call until that work is done.
 *
 * Graphs. Every call that takes a CUDA stream, but pith_cuda_plan_create, can be captured. What
 * differs from replay to replay lives in device memory: the values, the frames, their lengths, the
 * streams with their steps and random seeds, and the status words. Each slot's step moves on with
 * every encode, so that a replay draws other random bits than the one before. Arguments are baked
 * in, pointers included.
 *
 * Errors. Wrong arguments, and what the CUDA runtime refuses (PITH_ERR_DEVICE, CUDA's error being
 * the offset), are returned; the pith_error says more, and may be NULL. What is wrong with data is
 * written to a status word in device memory, one per frame, which every call demands: PITH_OK or
 * the status that the CPU call would return for this frame. Frames are checked on the device before
 * anything is written; where a status is not PITH_OK nothing was written for that item, except as
 * pith_decode says of key frames. Any bytes are safe.
 *
 * Tensors are dense on the device (pages on their own need not be), of any alignment; 16 bytes are
 * fast. Frames too. Arrays (status words, lengths, slots, pointers, pairs) are aligned as their
 * types are, else PITH_ERR_ARG.
 *
 * Bytes. Frames, decoded values and bases are those of the CPU calls, bit for bit.
 *
 * Frames that are read must have the header the plan's own frames have, but for step, base hash,
 * rng_stream and the keys that decoding does not depend on: a frame with other sections (a source)
 * or with checksums where the plan has none, or the reverse, is PITH_ERR_MISMATCH here.
 *
 * Codecs and settings: the table of doc/CUDA.md, Limits. pith_cuda_plan_sizes answers
 * PITH_ERR_UNSUPPORTED for others, with a text that says what devices take; calls that sum do where
 * the table has no sums. Frames of eb, embed and act whose
 * blocks need another mode, and those of lossless, eb, embed and act that have strings of zstd, or
 * maps bit by bit, have the status PITH_ERR_UNSUPPORTED; that of frames whose blocks are damaged as
 * well is PITH_ERR_CORRUPT, where devices have looked. What the header of eb, embed and act says
 * was asked for must be what the plan asks for, the mode excepted.
 *
 * topk finds the threshold of every step on the device: what a controller remembers is in the
 * stream, and no call waits for a count. Frames have their lengths in items->lengths; a capacity of
 * pith_sizes.slot_bytes holds any of them, and one that is less and is exceeded is PITH_ERR_SPACE:
 * nothing of the frame is written then, and the slot stays at its step, but its last step can no
 * longer be taken back.
 *
 * Frames of entropy=rans have any length as well: the same holds of them, but that with a base the
 * capacity must be pith_sizes.slot_bytes, or key_bytes, since the base changes with the codes.
 *
 * Threads. A pith_cuda_plan is immutable: any number of threads use it at once. Work of several
 * calls may be on different CUDA streams at once where it shares no stream, no workspace and no
 * output. */
#ifndef PITH_PITH_CUDA_H
#define PITH_PITH_CUDA_H

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PITH_OK when this build can run on CUDA device number `device`; PITH_ERR_UNSUPPORTED from a
 * stub, or where the device is older than the oldest the build was made for; PITH_ERR_DEVICE when
 * there is no such device or no driver. */
PITH_NODISCARD PITH_API pith_status pith_cuda_available(int device, pith_error *error);

/* ---- Plans ----------------------------------------------------------------------------------*/
typedef struct pith_cuda_plan pith_cuda_plan;

typedef struct pith_cuda_sizes {
    size_t size;
    uint64_t plan_bytes;      /* device memory to give pith_cuda_plan_create */
    uint64_t stream_bytes;    /* device memory to give pith_cuda_stream_init */
    uint64_t workspace_bytes; /* device memory per frame that a call reads, or, with eb, embed,
                               * act, topk and entropy=rans, makes; 0: none */
    uint64_t alignment;       /* of all of them */
    uint64_t sum_bytes;       /* topk: device memory per item, behind the workspace of its frames,
                               * that pith_cuda_reduce needs where it writes bf16 or f16,
                               * pith_cuda_reduce_encode, and pith_cuda_encode where it sends a
                               * held set; else 0 */
    uint64_t set_bytes;       /* topk: device memory per item, behind the workspace of its frames,
                               * that pith_cuda_sparse_hold needs for an intersection, and
                               * pith_cuda_encode with PITH_SAME_BLOCKS; else 0 */
} pith_cuda_sizes;

/* Of the device side of a plan; a pure host function. PITH_ERR_UNSUPPORTED: a codec or a setting
 * that devices do not take, or a stub; PITH_ERR_ARG: out has no size. */
PITH_NODISCARD PITH_API pith_status pith_cuda_plan_sizes(const pith_plan *plan,
                                                         pith_cuda_sizes *out, pith_error *error);
/* The device side of a plan, which may be destroyed afterwards. memory is device memory of
 * sizes.plan_bytes, kept for the life of *cuda, filled by a copy on the CUDA stream. env (NULL:
 * defaults): the allocator, which must outlive the plan, and max_output_bytes, beyond which calls
 * that read frames answer PITH_ERR_LIMIT, all items together, when the plan's largest slot exceeds
 * it. Loads the kernels, and is not to be captured. On failure *cuda is NULL. PITH_ERR_SPACE: bytes
 * are less than sizes.plan_bytes; PITH_ERR_ARG: an argument is NULL, or memory is not aligned;
 * PITH_ERR_MEMORY: the env has none; PITH_ERR_DEVICE; PITH_ERR_UNSUPPORTED: as
 * pith_cuda_plan_sizes. */
PITH_NODISCARD PITH_API pith_status pith_cuda_plan_create(const pith_cuda_plan **cuda,
                                                          const pith_plan *plan,
                                                          const pith_env *env, int device,
                                                          void *memory, size_t bytes,
                                                          void *cuda_stream, pith_error *error);
/* NULL is allowed. Work of its calls may still be running, but for the copy that fills its memory:
 * that reads host memory where env's is page-locked, or the device reads pageable memory itself. */
PITH_API void pith_cuda_plan_destroy(const pith_cuda_plan *cuda);

/* ---- Streams --------------------------------------------------------------------------------
 * Device memory that holds what pith_stream holds: base, residual, steps, base hashes, random seed,
 * counters. Every call on items takes one, whatever the codec. A pointer to it is the stream; it
 * holds no pointers but that of an external base, so a byte copy of it is a stream too. Calls
 * advance it on the device, as pith.h says of steps. The calls of this section leave the stream of
 * another plan as it is, and so a stream without its external base; those on items then answer
 * PITH_ERR_STATE, for every item. */
typedef struct pith_cuda_stream pith_cuda_stream;

/* As pith_stream_init; memory (device, aligned) is the stream afterwards. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_init(const pith_cuda_plan *cuda, void *memory,
                                                          size_t bytes,
                                                          const pith_stream_options *options,
                                                          void *cuda_stream, pith_error *error);
/* As pith_stream_set_step. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_set_step(const pith_cuda_plan *cuda,
                                                              pith_cuda_stream *stream,
                                                              uint64_t slot, uint64_t step,
                                                              void *cuda_stream, pith_error *error);
/* As pith_stream_set_random. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_set_random(const pith_cuda_plan *cuda,
                                                                pith_cuda_stream *stream,
                                                                const pith_stream_options *options,
                                                                void *cuda_stream,
                                                                pith_error *error);
/* As pith_stream_set_base from a dense device tensor, of dtype f32, bf16 or f16 where the base is
 * one of these, else of the base's. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_set_base(const pith_cuda_plan *cuda,
                                                              pith_cuda_stream *stream,
                                                              const void *base, uint32_t dtype,
                                                              uint64_t step, void *cuda_stream,
                                                              pith_error *error);
/* As pith_stream_bind_base, with device memory. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_bind_base(const pith_cuda_plan *cuda,
                                                               pith_cuda_stream *stream, void *base,
                                                               uint64_t step, void *cuda_stream,
                                                               pith_error *error);
/* The dense base inside the stream, for reading; NULL without one or with an external one. */
PITH_API void *pith_cuda_stream_base(const pith_cuda_plan *cuda, pith_cuda_stream *stream);
/* As pith_stream_verify: status[i] (device) is for slot i PITH_OK, PITH_ERR_BASE or
 * PITH_ERR_STATE. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_verify(const pith_cuda_plan *cuda,
                                                            const pith_cuda_stream *stream,
                                                            int32_t *status, void *cuda_stream,
                                                            pith_error *error);
/* As pith_stream_rollback. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_rollback(const pith_cuda_plan *cuda,
                                                              pith_cuda_stream *stream,
                                                              uint64_t step, void *cuda_stream,
                                                              pith_error *error);
/* From a host stream to a device stream of one spec and layout, through a host copy of the device
 * stream's bytes, which this makes. A host function, which allocates through the device plan's env
 * while it runs. All that pith_stream_save writes is carried over, and with it seed, rng_stream,
 * rank, ranks and steps; a residual without its older copy, as by pith_stream_load. An external
 * base is not part of the bytes: bind it afterwards on the device. PITH_ERR_UNSUPPORTED: a bound
 * was set in the stream; PITH_ERR_MISMATCH: the streams are of two plans; PITH_ERR_SPACE: `size` is
 * less than sizes.stream_bytes; PITH_ERR_MEMORY: the env has none. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_pack(const pith_cuda_plan *cuda,
                                                          pith_work *work, const pith_stream *host,
                                                          void *bytes, size_t size,
                                                          pith_error *error);
/* The other way, from bytes copied off the device; an external base is bound to the host stream
 * before. Errors as pith_cuda_stream_pack, and PITH_ERR_BASE: a base is not what the bytes say of
 * it. */
PITH_NODISCARD PITH_API pith_status pith_cuda_stream_unpack(const pith_cuda_plan *cuda,
                                                            pith_work *work, pith_stream *host,
                                                            const void *bytes, size_t size,
                                                            pith_error *error);

/* ---- Items ----------------------------------------------------------------------------------
 * One call works on `count` items, each one tensor piece and its frame, in one launch. Zero every
 * field you do not set, and set size = sizeof(pith_cuda_items). Pointers are device memory. */
typedef struct pith_cuda_items {
    size_t size;
    uint64_t count; /* at least 1 */
    /* Which slot item i is: slots[i]; or, slots NULL, first_slot + i; or, same_slot not 0,
     * first_slot for all (pages, many tensors of one layout). Where results depend on the slot's
     * place in its stream, a call takes each slot at most once: encode (and what reduce_encode
     * makes) with a base, error feedback, random rounding or topk, and decode with a base. There
     * same_slot is PITH_ERR_ARG for more than one item, and what repeats in slots[] leaves that
     * slot of the stream unusable. Elsewhere a slot may come any number of times; its step grows by
     * one for each of its items that is encoded. */
    const uint64_t *slots;
    uint64_t first_slot;
    uint32_t same_slot;
    /* The tensor's dtype: encode, the layout's; else f32, bf16 or f16 where the codec is lossy. */
    uint32_t dtype;
    /* Item i's piece: at tensors[i]; or, tensors NULL, in `tensor`, the whole tensor of the
     * layout, at its slot's place. */
    void *tensor;
    void *const *tensors;
    /* Item i's frame: at frames[i]; or, frames NULL, at frame + i * frame_stride. */
    void *frame;
    uint64_t frame_stride;
    void *const *frames;
    /* Bytes of every frame that may be read or written. */
    uint64_t capacity;
    /* Reading: bytes of each frame, at most capacity; NULL: capacity. Writing: set to the frame's
     * bytes, 0 where the status is not PITH_OK; may be NULL. */
    uint64_t *lengths;
    int32_t *status; /* one per frame; never NULL */
    /* sizes.workspace_bytes for every frame (sums: count * per_item of them) of calls that read
     * frames, and of encode with eb, embed, act, topk and entropy=rans; NULL when that is 0. Behind
     * it sizes.sum_bytes for every item of pith_cuda_reduce to bf16 or f16, of what is read by
     * pith_cuda_reduce_encode of topk, and of pith_cuda_encode with PITH_SAME_SET or
     * PITH_HELD_SET; with PITH_SAME_BLOCKS sizes.set_bytes for every item. */
    void *workspace;
    uint64_t workspace_bytes;
} pith_cuda_items;

/* ---- Encode and decode ----------------------------------------------------------------------*/

/* As pith_encode: flags are PITH_KEY_FRAME, PITH_SAME_SET, PITH_HELD_SET, PITH_SAME_BLOCKS or 0. A
 * slot that holds no set to send has the status PITH_ERR_STATE. pith_sizes.slot_bytes need not have
 * space for the frame of a set that the spec did not choose: where capacity has none, the slot goes
 * on holding it. Whether others have changed the base is not looked at, whatever the layout's flags
 * say (PITH_LAYOUT_CHECK_BASE): that is of the CPU only. Where it may be, call
 * pith_cuda_stream_verify before, on the same CUDA stream, and send nothing of a slot whose status
 * is PITH_ERR_BASE; it reads the base once more. */
PITH_NODISCARD PITH_API pith_status pith_cuda_encode(const pith_cuda_plan *cuda,
                                                     pith_cuda_stream *stream,
                                                     const pith_cuda_items *items, uint32_t flags,
                                                     void *cuda_stream, pith_error *error);
/* As pith_decode: flags are PITH_ADD or 0; ordinary and key frames alike. With a base and without
 * PITH_ADD items->tensor and ->tensors may both be NULL: only the stream moves on. */
PITH_NODISCARD PITH_API pith_status pith_cuda_decode(const pith_cuda_plan *cuda,
                                                     pith_cuda_stream *stream,
                                                     const pith_cuda_items *items, uint32_t flags,
                                                     void *cuda_stream, pith_error *error);
/* Elements [first, first + count) of every item's slot, cut to the slot, written to the beginning
 * of the item's piece (tensors), or at their place in `tensor`. Unlike pith_decode_range it knows
 * the set that the slot holds, and so reads frames of PITH_SAME_SET and PITH_SAME_BLOCKS. With a
 * base: of the new base; the stream is compared as pith_decode does and stays as it is; what a key
 * frame says of its whole content is not compared. Errors as pith_cuda_decode. */
PITH_NODISCARD PITH_API pith_status pith_cuda_decode_range(const pith_cuda_plan *cuda,
                                                           const pith_cuda_stream *stream,
                                                           const pith_cuda_items *items,
                                                           uint64_t first, uint64_t count,
                                                           void *cuda_stream, pith_error *error);
/* As pith_reduce, item by item: item i sums frames i * per_item .. (i + 1) * per_item - 1 of
 * `frames` (or, by the stride, as many in `frame`), and has as many lengths and status words.
 * scale 0 stands for 1. */
PITH_NODISCARD PITH_API pith_status pith_cuda_reduce(const pith_cuda_plan *cuda,
                                                     pith_cuda_stream *stream,
                                                     const pith_cuda_items *items,
                                                     uint32_t per_item, float scale,
                                                     void *cuda_stream, pith_error *error);
/* As pith_reduce_encode: item i of `items` (whose tensors are not used) is summed and encoded as
 * item i of out_items. status of out_items: PITH_OK, or the first that its frames have. The streams
 * are two. Nothing looks whether frames of out_items overlap those that are read: they must not.
 * Frames of topk become such that are chosen from the sums (without momentum and scope=row): behind
 * the workspace of the frames that are read stand sizes.sum_bytes for every item, and out_items has
 * the workspace of an encode. */
PITH_NODISCARD PITH_API pith_status pith_cuda_reduce_encode(
    const pith_cuda_plan *cuda, pith_cuda_stream *stream, const pith_cuda_items *items,
    uint32_t per_item, float scale, const pith_cuda_plan *out, pith_cuda_stream *out_stream,
    const pith_cuda_items *out_items, void *cuda_stream, pith_error *error);
/* Check what pith_cuda_decode checks of every frame (header, checksums, step, base hash, the set
 * that the slot holds), and that key frames hold what they say. Nothing but status words is
 * written. Errors as pith_cuda_decode. */
PITH_NODISCARD PITH_API pith_status pith_cuda_verify(const pith_cuda_plan *cuda,
                                                     const pith_cuda_stream *stream,
                                                     const pith_cuda_items *items,
                                                     void *cuda_stream, pith_error *error);

/* ---- Sets ------------------------------------------------------------------------------------
 * Of codec topk (sparse.h; PITH_ERR_UNSUPPORTED for others): the sets that slots of a stream hold,
 * and values at their elements. A slot holds the set that its last encode chose, or what
 * pith_cuda_sparse_hold or _hold_elements made; unlike the CPU's, a decode leaves what it holds as
 * it is: hold the frame's set before frames that follow it with PITH_SAME_SET or PITH_SAME_BLOCKS
 * are decoded. Of these the status is PITH_ERR_STATE where the slot holds no set, PITH_ERR_BASE
 * where it holds another. After pith_cuda_stream_init, _rollback and _pack it holds none.
 *
 * Gather and scatter take compact values in place of frames: those of item i, of dtype `values`
 * (f32, bf16 or f16), in ascending order of their elements, are at frames[i], or at frame + i *
 * frame_stride; capacity and lengths are bytes of them, whatever their alignment. There is one
 * status word per item. A slot that holds no set has PITH_ERR_STATE. */

/* As pith_sparse_hold, item by item: item i's slot holds the union or the intersection (PITH_SET_*)
 * of the sets of frames i * per_item .. (i + 1) * per_item - 1, which have as many lengths and
 * status words. Frames have the plan's own kind of header; with the values of a set that is held
 * they are PITH_ERR_UNSUPPORTED. Unlike the CPU, with per_item 1 it takes frames of
 * PITH_SAME_BLOCKS, whose blocks without indices have the set that the slot holds there: decode
 * such a frame, then hold it. Where a status is not PITH_OK the slot holds what it held. Needs
 * sizes.workspace_bytes for every frame, and for the intersection of several sizes.set_bytes for
 * every item behind them. Takes each slot once; tensors are not looked at. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_hold(const pith_cuda_plan *cuda,
                                                          pith_cuda_stream *stream,
                                                          const pith_cuda_items *items,
                                                          uint32_t per_item, int how,
                                                          void *cuda_stream, pith_error *error);
/* As pith_sparse_hold_elements, item by item: item i's list of u64, in any order and of any
 * alignment, is at frames[i], or at frame + i * frame_stride; lengths[i] are its bytes (NULL:
 * capacity), PITH_ERR_SHAPE unless they are a multiple of 8. PITH_ERR_ARG: a run begins outside the
 * slot. Where a status is not PITH_OK the slot holds what it held. There is one status word per
 * item. Needs sizes.workspace_bytes for every item. Takes each slot once; tensors are not looked
 * at. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_hold_elements(const pith_cuda_plan *cuda,
                                                                   pith_cuda_stream *stream,
                                                                   const pith_cuda_items *items,
                                                                   uint64_t run, void *cuda_stream,
                                                                   pith_error *error);
/* As pith_sparse_gather: values of the tensor (f32, bf16 or f16) at the set's elements; without
 * tensor and tensors, of the residual. lengths[i] is set to their bytes, 0 where the status is not
 * PITH_OK; what is behind them stays as it is. PITH_ERR_SPACE: they are more than capacity.
 * PITH_ERR_STATE, returned: no error feedback. Needs sizes.workspace_bytes for every item. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_gather(const pith_cuda_plan *cuda,
                                                            const pith_cuda_stream *stream,
                                                            const pith_cuda_items *items,
                                                            uint32_t values, void *cuda_stream,
                                                            pith_error *error);
/* As pith_sparse_scatter: the tensor += scale * values at the set's elements. PITH_ERR_SHAPE:
 * lengths say that there are more or fewer values than elements, or capacity has less space.
 * Workspace as for gather. Takes each slot once, but for pieces (tensors). */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_scatter(const pith_cuda_plan *cuda,
                                                             const pith_cuda_stream *stream,
                                                             const pith_cuda_items *items,
                                                             uint32_t values, float scale,
                                                             void *cuda_stream, pith_error *error);
/* As pith_sparse_clear: the residual becomes +0 at the set's elements. Of items, slots and status
 * are looked at alone. PITH_ERR_STATE, returned: no error feedback. Takes each slot once. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_clear(const pith_cuda_plan *cuda,
                                                           pith_cuda_stream *stream,
                                                           const pith_cuda_items *items,
                                                           void *cuda_stream, pith_error *error);

/* What slots remember of their choice, item by item: of items, slots and status are looked at
 * alone; each slot is taken once. Where a status is not PITH_OK nothing of the item changes.
 *
 * As pith_sparse_set_request: of slot i's encodes from now on requests[i] is asked, in device
 * memory, so that a graph may ask otherwise in each replay; requests NULL: nothing. Behind the call
 * requests are not looked at any more. PITH_ERR_ARG also where a size is not that of the struct
 * here. As on the CPU requests are not saved, nor carried over by pack and unpack. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_set_request(
    const pith_cuda_plan *cuda, pith_cuda_stream *stream, const pith_cuda_items *items,
    const pith_sparse_request *requests, void *cuda_stream, pith_error *error);
/* As pith_sparse_report: all ranks chose chosen[i] elements, in device memory, in the last step of
 * slot i. PITH_ERR_STATE: the slot has chosen nothing yet. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_report(const pith_cuda_plan *cuda,
                                                            pith_cuda_stream *stream,
                                                            const pith_cuda_items *items,
                                                            const uint64_t *chosen,
                                                            void *cuda_stream, pith_error *error);
/* As pith_sparse_get_state: states[i], in device memory, becomes that of slot i, its size included.
 * sent is of the last encode, since a decode leaves the slot as it is. */
PITH_NODISCARD PITH_API pith_status pith_cuda_sparse_get_state(
    const pith_cuda_plan *cuda, const pith_cuda_stream *stream, const pith_cuda_items *items,
    pith_sparse_state *states, void *cuda_stream, pith_error *error);

/* ---- Pages ----------------------------------------------------------------------------------*/

/* As pith_kv_encode_pages, of `count` pages in one launch: pairs and
 * what they point to are device memory, the rest of them is as there. status: one word per page, in
 * device memory, PITH_OK or PITH_ERR_ARG for a pair that cannot be, which is left as it is. The
 * elements of a head are neighbours (stride 1), else PITH_ERR_UNSUPPORTED; tokens and heads have
 * any strides. */
PITH_NODISCARD PITH_API pith_status pith_cuda_kv_encode_pages(const pith_cuda_plan *cuda,
                                                              const pith_view *like,
                                                              const pith_kv_pair *pairs,
                                                              uint64_t count, int32_t *status,
                                                              void *cuda_stream, pith_error *error);
/* As pith_kv_decode_pages, and otherwise as pith_cuda_kv_encode_pages. */
PITH_NODISCARD PITH_API pith_status pith_cuda_kv_decode_pages(const pith_cuda_plan *cuda,
                                                              const pith_view *like,
                                                              const pith_kv_pair *pairs,
                                                              uint64_t count, int32_t *status,
                                                              void *cuda_stream, pith_error *error);

#ifdef __cplusplus
}
#endif
#endif
