/* pith_cuda.h - pith on device memory: the same frames, made on the caller's CUDA stream.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A separate library, libpith_cuda; libpith never links the CUDA runtime. Where pith was built
 * without CUDA the library is a stub with the same symbols, whose calls answer
 * PITH_ERR_UNSUPPORTED. This header includes no CUDA header: a stream is the caller's cudaStream_t
 * passed as void * (NULL, 1 and 2 mean what they mean to CUDA). Read pith.h first; what its text
 * says of plans, slots, states and frames holds here, with these differences:
 *
 * Order. A call puts work on the given stream and returns; nothing is allocated, nothing waits, no
 * other stream is used, and the current device is the caller's again when the call returns. Memory
 * handed in belongs to the call until that work is done.
 *
 * Graphs. Every call that takes a stream, but pith_cuda_plan_create, can be captured. What differs
 * from replay to replay lives in device memory: the values, the frames, their lengths, the state
 * with its step and random key, and the status words. Arguments are baked in, pointers included.
 *
 * Errors. Wrong arguments, and what the CUDA runtime refuses (PITH_ERR_DEVICE), are returned;
 * pith_cuda_plan_error says more. What is wrong with data is written to a status word in device
 * memory, one per frame, which every call demands: PITH_OK or the status that the CPU call would
 * return for this frame. Frames are checked on the device before anything is written; where a
 * status is not PITH_OK nothing was written for that item, except as pith_decode says of key
 * frames. Any bytes are safe.
 *
 * Tensors are dense on the device (pages on their own need not be), of any alignment; 16 bytes are
 * fast. Frames too.
 *
 * Bytes. Frames, decoded values and bases are those of the CPU calls, bit for bit.
 *
 * Frames that are read must have the header the plan's own frames have, but for step, identity,
 * stream id and the keys that decoding does not depend on: a frame with other sections (a source)
 * or with checksums where the plan has none, or the reverse, is PITH_ERR_MISMATCH here.
 *
 * Codecs: raw; wdiff without entropy=zstd and key_every=N (the host does not know the step; see
 * pith_cuda_encode_key); grad; eb with mode=fast and abs, rel or pwrel, and embed with mode=fast
 * and decay=none, both of f32, bf16 and f16, but for sums, and without a state; kv without
 * entropy=zstd, but for sums. pith_cuda_plan_sizes answers PITH_ERR_UNSUPPORTED for others. Frames
 * of eb and embed whose blocks need another mode have the status PITH_ERR_UNSUPPORTED; that of
 * frames whose blocks are damaged as well is PITH_ERR_CORRUPT. What their header says was asked for
 * must be what the plan asks for, the mode excepted.
 *
 * pith_env.max_output_bytes of the plan: calls that read frames answer PITH_ERR_LIMIT, all items
 * together, when the plan's largest slot exceeds it.
 *
 * Threads: as plans. A pith_cuda_plan may be used from one thread at a time; work of several calls
 * may be on different streams at once where it shares no state, no workspace and no output. */
#ifndef PITH_PITH_CUDA_H
#define PITH_PITH_CUDA_H

#include "pith/pith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PITH_OK when this build can run on CUDA device number `device`; PITH_ERR_UNSUPPORTED from a
 * stub, or where the device is older than the oldest the build was made for; PITH_ERR_DEVICE when
 * there is no such device or no driver. error may be NULL. */
PITH_NODISCARD PITH_API pith_status pith_cuda_available(int device, pith_error *error);

/* ---- Plans ----------------------------------------------------------------------------------*/
typedef struct pith_cuda_plan pith_cuda_plan;

typedef struct pith_cuda_sizes {
    uint64_t table_bytes;     /* device memory to give pith_cuda_plan_create */
    uint64_t state_bytes;     /* device memory to give pith_cuda_state_init; 0: no state */
    uint64_t workspace_bytes; /* device memory per frame that a call reads, or, with eb and embed,
                               * makes; 0: none */
    uint64_t alignment;       /* of table, state and workspace */
} pith_cuda_sizes;

/* Of the device side of a plan; a pure host function. error may be NULL. */
PITH_NODISCARD PITH_API pith_status pith_cuda_plan_sizes(const pith_plan *plan,
                                                         pith_cuda_sizes *out, pith_error *error);
/* The device side of a plan, which may be destroyed afterwards. table is device memory of
 * sizes.table_bytes, kept for the life of *cuda, filled by a copy on the stream. Allocates through
 * env (NULL: malloc; nothing else of it matters), loads the kernels, and is not to be captured. On
 * failure *cuda is NULL. */
PITH_NODISCARD PITH_API pith_status pith_cuda_plan_create(pith_cuda_plan **cuda,
                                                          const pith_plan *plan,
                                                          const pith_env *env, int device,
                                                          void *table, size_t bytes, void *stream,
                                                          pith_error *error);
/* NULL is allowed. Work on streams may still be running, but for the copy that fills the table: it
 * reads host memory where env's is page-locked, or the device reads pageable memory itself. */
PITH_API void pith_cuda_plan_destroy(pith_cuda_plan *cuda);
/* Why the last call with this plan failed; for PITH_ERR_DEVICE the offset is CUDA's error. */
PITH_API pith_error pith_cuda_plan_error(const pith_cuda_plan *cuda);

/* ---- State ----------------------------------------------------------------------------------
 * Device memory that holds what pith_state holds: base, residual, steps, identities, random key,
 * counters. A pointer to it is the state; it holds no pointers but that of an external base, so a
 * byte copy of it is a state too. Calls advance it on the device. The calls of this section leave
 * the state of another plan as it is, and so a state without its external base; those on items
 * then answer PITH_ERR_STATE, for every item. */
typedef struct pith_cuda_state pith_cuda_state;

/* As pith_state_init; memory (device, aligned) is the state afterwards. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_init(pith_cuda_plan *cuda, void *memory,
                                                         size_t bytes, void *stream);
/* Key and stream id of the random bits and, for plans without a base, the step of the next
 * encodes (a base has a step per slot). */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_set_random(pith_cuda_plan *cuda,
                                                               pith_cuda_state *state,
                                                               uint64_t seed, uint32_t stream_id,
                                                               uint64_t step, void *stream);
/* As pith_plan_set_ranks. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_set_ranks(pith_cuda_plan *cuda,
                                                              pith_cuda_state *state, uint32_t rank,
                                                              uint32_t ranks, void *stream);
/* Plans without a base: step + 1, once per training step; in a graph, once per replay. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_next_step(pith_cuda_plan *cuda,
                                                              pith_cuda_state *state, void *stream);
/* As pith_state_set_base from a dense device tensor of dtype f32, bf16 or f16. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_set_base(pith_cuda_plan *cuda,
                                                             pith_cuda_state *state,
                                                             const void *base, uint32_t dtype,
                                                             uint64_t step, void *stream);
/* As pith_state_bind_base, with device memory. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_bind_base(pith_cuda_plan *cuda,
                                                              pith_cuda_state *state, void *base,
                                                              uint64_t step, void *stream);
/* The dense base inside the state, for reading; NULL without one or with an external one. */
PITH_API void *pith_cuda_state_base(const pith_cuda_plan *cuda, pith_cuda_state *state);
/* As pith_state_verify: status[i] (device) is for slot i PITH_OK, PITH_ERR_BASE or
 * PITH_ERR_STATE. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_verify(pith_cuda_plan *cuda,
                                                           const pith_cuda_state *state,
                                                           int32_t *status, void *stream);
/* As pith_state_rollback. */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_rollback(pith_cuda_plan *cuda,
                                                             pith_cuda_state *state, uint64_t step,
                                                             void *stream);
/* Between host and device states of one plan, `plan` being its host side, through a host copy of
 * the state's bytes: pack makes the bytes from a host state, unpack sets a host state from bytes
 * copied off the device. Host functions, which allocate through the device plan's env while they
 * run. What pith_state_save writes is carried over; random step and ranks are not: set them. An
 * external base is not part of the bytes: bind it, after pack on the device, before unpack on the
 * host. PITH_ERR_BASE from unpack: a base is not what the bytes say of it. PITH_ERR_UNSUPPORTED
 * where the host keeps no state (wdiff, round=stochastic, no base). */
PITH_NODISCARD PITH_API pith_status pith_cuda_state_pack(pith_cuda_plan *cuda, pith_plan *plan,
                                                         const pith_state *host, void *bytes,
                                                         size_t size);
PITH_NODISCARD PITH_API pith_status pith_cuda_state_unpack(pith_cuda_plan *cuda, pith_plan *plan,
                                                           const void *bytes, size_t size,
                                                           pith_state *host);

/* ---- Items ----------------------------------------------------------------------------------
 * One call works on `count` items, each one tensor piece and its frame, in one launch. Zero every
 * field you do not set, and set size = sizeof(pith_cuda_items); size rule as pith_env. Pointers
 * are device memory. */
typedef struct pith_cuda_items {
    size_t size;
    uint64_t count; /* at least 1 */
    /* Which slot item i is: slots[i]; or, slots NULL, first_slot + i; or, same_slot not 0,
     * first_slot for all (pages, many tensors of one layout). A call that is given a state, but
     * decode_range and verify, takes each slot at most once: same_slot is then PITH_ERR_ARG, and
     * what repeats in slots[] leaves that slot of the state unusable. */
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
     * frames, and of encode with eb and embed; NULL when that is 0. */
    void *workspace;
    uint64_t workspace_bytes;
} pith_cuda_items;

/* ---- Encode and decode ----------------------------------------------------------------------*/

/* As pith_encode. state: mandatory with a base, error feedback or random rounding; else it may be
 * NULL, or counts. Whether others have changed the base is not looked at, whatever the layout's
 * flags say (PITH_LAYOUT_CHECK_BASE): that is of the CPU only. Where it may be, call
 * pith_cuda_state_verify before, on the same stream, and send nothing of a slot whose status is
 * PITH_ERR_BASE; it reads the base once more. */
PITH_NODISCARD PITH_API pith_status pith_cuda_encode(pith_cuda_plan *cuda, pith_cuda_state *state,
                                                     const pith_cuda_items *items, void *stream);
/* As pith_encode_key. */
PITH_NODISCARD PITH_API pith_status pith_cuda_encode_key(pith_cuda_plan *cuda,
                                                         pith_cuda_state *state,
                                                         const pith_cuda_items *items,
                                                         void *stream);
/* As pith_decode; ordinary and key frames alike. With a base items->tensor and ->tensors may both
 * be NULL: only the state moves on. */
PITH_NODISCARD PITH_API pith_status pith_cuda_decode(pith_cuda_plan *cuda, pith_cuda_state *state,
                                                     const pith_cuda_items *items, void *stream);
/* As pith_decode_add. */
PITH_NODISCARD PITH_API pith_status pith_cuda_decode_add(pith_cuda_plan *cuda,
                                                         const pith_cuda_items *items,
                                                         void *stream);
/* Elements [first, first + count) of every item's slot, cut to the slot, written to the beginning
 * of the item's piece (tensors), or at their place in `tensor`. With a base: of the new base; the
 * state is compared as pith_decode does and stays as it is; what a key frame says of its whole
 * content is not compared. */
PITH_NODISCARD PITH_API pith_status pith_cuda_decode_range(pith_cuda_plan *cuda,
                                                           const pith_cuda_state *state,
                                                           const pith_cuda_items *items,
                                                           uint64_t first, uint64_t count,
                                                           void *stream);
/* As pith_reduce, item by item: item i sums frames i * per_item .. (i + 1) * per_item - 1 of
 * `frames` (or, by the stride, as many in `frame`), and has as many lengths and status words. */
PITH_NODISCARD PITH_API pith_status pith_cuda_reduce(pith_cuda_plan *cuda, pith_cuda_state *state,
                                                     const pith_cuda_items *items,
                                                     uint32_t per_item, float scale, void *stream);
/* As pith_reduce_encode: item i of `items` (whose tensors are not used) is summed and encoded as
 * item i of out_items. status of out_items: PITH_OK, or the first that its frames have. The states
 * are two. Nothing looks whether frames of out_items overlap those that are read: they must not. */
PITH_NODISCARD PITH_API pith_status
pith_cuda_reduce_encode(pith_cuda_plan *cuda, pith_cuda_state *state, const pith_cuda_items *items,
                        uint32_t per_item, float scale, pith_cuda_plan *out,
                        pith_cuda_state *out_state, const pith_cuda_items *out_items, void *stream);
/* As pith_kv_encode_pages and pith_kv_decode_pages, of `count` pages in one launch: pairs and what
 * they point to are device memory, the rest of them is as there. status: one word per page, in
 * device memory, PITH_OK or PITH_ERR_ARG for a pair that cannot be, which is left as it is. The
 * elements of a head are neighbours (stride 1); tokens and heads have any strides. */
PITH_NODISCARD PITH_API pith_status pith_cuda_kv_encode_pages(pith_cuda_plan *cuda,
                                                              const pith_view *like,
                                                              const pith_kv_pair *pairs,
                                                              uint64_t count, int32_t *status,
                                                              void *stream);
PITH_NODISCARD PITH_API pith_status pith_cuda_kv_decode_pages(pith_cuda_plan *cuda,
                                                              const pith_view *like,
                                                              const pith_kv_pair *pairs,
                                                              uint64_t count, int32_t *status,
                                                              void *stream);
/* Check every frame's header and checksums, and that key frames hold what they say; with a state
 * also step and identity. */
PITH_NODISCARD PITH_API pith_status pith_cuda_verify(pith_cuda_plan *cuda,
                                                     const pith_cuda_state *state,
                                                     const pith_cuda_items *items, void *stream);

#ifdef __cplusplus
}
#endif
#endif
