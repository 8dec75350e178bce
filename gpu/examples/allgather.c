/* allgather.c - compressed weights and gradients over NCCL: an example to copy from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One process drives every GPU it sees, one rank each; with one GPU it is one rank. Where ranks are
 * processes of their own, only communicators are made differently (ncclCommInitRank), and the loops
 * over ranks go away: a rank touches nothing but its struct rank.
 *
 * Weights. Every rank owns a shard of the f32 master weights and holds a bf16 replica of all of
 * them, which is the base of codec wdiff. After an optimizer step it encodes the difference between
 * its shard and its part of the replica, 4 bits a weight; the frames are gathered as bytes; and
 * every rank decodes the others'. Then all replicas are the same to the last bit. An observer, such
 * as a server of the model, follows by decoding all the frames.
 *
 * Gradients. A sum over ranks in two hops: every rank encodes its gradient with 8 bits, in as many
 * slots as there are ranks, and sends each to the rank that owns it; the owner sums the frames and
 * encodes the sum with 4 bits in one kernel; the sums are gathered and decoded everywhere.
 *
 * All of it goes on one CUDA stream per rank. Nothing is allocated or waited for between the first
 * call and the last, so that a step can be captured into a graph. At the end everything is compared
 * with what the CPU makes of the same numbers. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pith/pith.h"
#include "pith/pith_cuda.h"

enum { RANKS_MOST = 64, STEPS = 3, COUNT = 5000011, NO_DEVICE = 77 };

static void stop(const char *what, const char *why) {
    fprintf(stderr, "allgather: %s: %s\n", what, why);
    exit(1);
}
#define CUDA(call)                                                            \
    do {                                                                      \
        const cudaError_t status_ = (call);                                   \
        if (status_ != cudaSuccess) stop(#call, cudaGetErrorString(status_)); \
    } while (0)
#define NCCL(call)                                                            \
    do {                                                                      \
        const ncclResult_t status_ = (call);                                  \
        if (status_ != ncclSuccess) stop(#call, ncclGetErrorString(status_)); \
    } while (0)
#define PITH(call)                                                      \
    do {                                                                \
        const pith_status status_ = (call);                             \
        if (status_ != PITH_OK) stop(#call, pith_status_name(status_)); \
    } while (0)

static void *allocate(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p) stop("allocate", "no memory");
    return p;
}

/* ---- Plans and streams -----------------------------------------------------------------------*/

/* A plan on the host and on one device, and the stream of its frames there. The device's side needs
 * the host's only while it is made, but the checks at the end use both. */
struct coder {
    const pith_plan *host;
    const pith_cuda_plan *cuda;
    pith_cuda_sizes sizes;
    pith_sizes host_sizes;
    void *plan_memory; /* the plan's memory on the device */
    pith_cuda_stream *stream;
};

static pith_cuda_stream *stream_open(const struct coder *c, cudaStream_t cuda_stream) {
    void *memory;
    CUDA(cudaMalloc(&memory, c->sizes.stream_bytes));
    PITH(pith_cuda_stream_init(c->cuda, memory, c->sizes.stream_bytes, NULL, cuda_stream, NULL));
    return memory;
}

static void coder_open(struct coder *c, const char *spec, const pith_layout *layout, int device,
                       cudaStream_t cuda_stream) {
    pith_error error = {.size = sizeof error};
    c->sizes.size = sizeof c->sizes;
    c->host_sizes.size = sizeof c->host_sizes;
    if (pith_plan_create(&c->host, spec, layout, NULL, &error) != PITH_OK) stop(spec, error.text);
    PITH(pith_plan_sizes(c->host, &c->host_sizes));
    PITH(pith_cuda_plan_sizes(c->host, &c->sizes, &error));
    CUDA(cudaMalloc(&c->plan_memory, c->sizes.plan_bytes));
    if (pith_cuda_plan_create(&c->cuda, c->host, NULL, device, c->plan_memory, c->sizes.plan_bytes,
                              cuda_stream, &error) != PITH_OK)
        stop(spec, error.text);
    c->stream = stream_open(c, cuda_stream);
}

static void coder_close(struct coder *c) {
    pith_cuda_plan_destroy(c->cuda);
    pith_plan_destroy(c->host);
    CUDA(cudaFree(c->plan_memory));
    CUDA(cudaFree(c->stream));
}

/* ---- Ranks -----------------------------------------------------------------------------------*/

struct rank {
    int device;
    cudaStream_t cuda_stream;
    ncclComm_t comm;
    /* Weights have one codec, whose stream holds the replica, and frames of all slots. */
    struct coder weights;
    float *master; /* the rank's shard of the weights */
    uint8_t *weight_frames;
    uint64_t *others; /* slots of other ranks */
    void **others_at; /* where the frames of those slots lie */
    /* Gradients have a codec for each hop, and frames that leave, arrive, and are gathered. */
    struct coder inner, outer;
    float *gradient, *sum;
    uint8_t *leaving, *arriving, *sums;
    /* Every frame of every call has a status word, which the call leaves there. */
    int32_t *status;
};
/* Where the status words of each call begin, in units of the number of ranks. */
enum { OF_ENCODE, OF_DECODE, OF_LEAVING, OF_ARRIVING, OF_SUM, OF_SUMS, STATUS_ROWS };

struct world {
    int ranks;
    struct rank rank[RANKS_MOST];
    /* The observer is one more replica, on the first device; it owns no shard. */
    pith_cuda_stream *observer;
    int32_t *observer_status;
};

/* The layout has W slots of ceil(COUNT / W) elements; the last is shorter. */
static pith_layout layout_of(uint32_t dtype, uint32_t base, int ranks) {
    return (pith_layout){.size = sizeof(pith_layout),
                         .dtype = dtype,
                         .base_dtype = base,
                         .ndim = 1,
                         .shape = {COUNT},
                         .slots = (uint64_t)ranks};
}

static int32_t *status_of(const struct world *w, int r, int call) {
    return w->rank[r].status + call * w->ranks;
}

/* Copies in order with the rank's other work: a CUDA stream that does not wait for the default one
 * must not be fed by cudaMemcpy, which may return before its bytes have arrived. */
static void put(const struct rank *k, void *to, const void *from, size_t bytes) {
    CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, k->cuda_stream));
}

/* Lists other ranks' slots, and the places of their frames, as device arrays. */
static void list_others(const struct world *w, int r) {
    const struct rank *const k = &w->rank[r];
    uint64_t slots[RANKS_MOST];
    void *places[RANKS_MOST];
    size_t n = 0;
    for (int other = 0; other < w->ranks; other++) {
        if (other == r) continue;
        slots[n] = (uint64_t)other;
        places[n++] = k->weight_frames + (size_t)other * k->weights.host_sizes.slot_bytes;
    }
    put(k, k->others, slots, n * sizeof *slots);
    put(k, (void *)k->others_at, (void *)places, n * sizeof *places);
}

static void rank_open(struct world *w, int r) {
    struct rank *const k = &w->rank[r];
    const size_t ranks = (size_t)w->ranks;
    const pith_layout weights = layout_of(PITH_F32, PITH_BF16, w->ranks);
    const pith_layout gradients = layout_of(PITH_F32, PITH_NONE, w->ranks);
    k->device = r;
    CUDA(cudaSetDevice(r));
    CUDA(cudaStreamCreateWithFlags(&k->cuda_stream, cudaStreamNonBlocking));
    coder_open(&k->weights, "wdiff:bits=4,group=2048", &weights, r, k->cuda_stream);
    coder_open(&k->inner, "grad:preset=intra", &gradients, r, k->cuda_stream);
    coder_open(&k->outer, "grad:preset=inter", &gradients, r, k->cuda_stream);
    CUDA(cudaMalloc((void **)&k->master, COUNT * sizeof(float)));
    CUDA(cudaMalloc((void **)&k->gradient, COUNT * sizeof(float)));
    CUDA(cudaMalloc((void **)&k->sum, COUNT * sizeof(float)));
    CUDA(cudaMalloc((void **)&k->weight_frames, ranks * k->weights.host_sizes.slot_bytes));
    CUDA(cudaMalloc((void **)&k->leaving, ranks * k->inner.host_sizes.slot_bytes));
    CUDA(cudaMalloc((void **)&k->arriving, ranks * k->inner.host_sizes.slot_bytes));
    CUDA(cudaMalloc((void **)&k->sums, ranks * k->outer.host_sizes.slot_bytes));
    CUDA(cudaMalloc((void **)&k->others, ranks * sizeof *k->others));
    CUDA(cudaMalloc((void **)&k->others_at, ranks * sizeof *k->others_at));
    CUDA(cudaMalloc((void **)&k->status, STATUS_ROWS * ranks * sizeof *k->status));
    CUDA(cudaMemsetAsync(k->status, 0, STATUS_ROWS * ranks * sizeof *k->status, k->cuda_stream));
    list_others(w, r);
}

static void rank_close(struct rank *k) {
    void *const memory[] = {k->master,  k->gradient,         k->sum,  k->weight_frames,
                            k->leaving, k->arriving,         k->sums, k->others,
                            k->status,  (void *)k->others_at};
    CUDA(cudaSetDevice(k->device));
    CUDA(cudaStreamSynchronize(k->cuda_stream));
    NCCL(ncclCommDestroy(k->comm));
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) CUDA(cudaFree(memory[i]));
    coder_close(&k->weights);
    coder_close(&k->inner);
    coder_close(&k->outer);
    CUDA(cudaStreamDestroy(k->cuda_stream));
}

/* ---- Weights ---------------------------------------------------------------------------------*/

/* Encodes the rank's slot into its place among all frames. The replica's part moves on as it will
 * on every other rank; `tensor` being the whole tensor's place, a rank that keeps only its shard
 * hands in `tensors` instead. */
static void send_weights(const struct world *w, int r) {
    const struct rank *const k = &w->rank[r];
    const uint64_t slot_bytes = k->weights.host_sizes.slot_bytes;
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = 1,
                                   .first_slot = (uint64_t)r,
                                   .dtype = PITH_F32,
                                   .tensor = k->master,
                                   .frame = k->weight_frames + (uint64_t)r * slot_bytes,
                                   .capacity = slot_bytes,
                                   .status = status_of(w, r, OF_ENCODE)};
    PITH(pith_cuda_encode(k->weights.cuda, k->weights.stream, &items, 0, k->cuda_stream, NULL));
}

/* Gathers all frames. A slot of the gathered buffer is as long as the longest frame; the bytes
 * behind a shorter one do not matter. NCCL gathers in place where the rank's own part lies at its
 * own place. */
static void gather_weights(const struct world *w) {
    NCCL(ncclGroupStart());
    for (int r = 0; r < w->ranks; r++) {
        const struct rank *const k = &w->rank[r];
        const size_t slot_bytes = k->weights.host_sizes.slot_bytes;
        NCCL(ncclAllGather(k->weight_frames + (size_t)r * slot_bytes, k->weight_frames, slot_bytes,
                           ncclUint8, k->comm, k->cuda_stream));
    }
    NCCL(ncclGroupEnd());
}

/* Decodes, in one launch, all frames but the rank's own, which its replica has already. There is no
 * tensor: the base inside the stream is the replica, and a model can use it in its place
 * (pith_cuda_stream_base). */
static void receive_weights(const struct world *w, int r) {
    const struct rank *const k = &w->rank[r];
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = (uint64_t)w->ranks - 1,
                                   .slots = k->others,
                                   .frames = k->others_at,
                                   .capacity = k->weights.host_sizes.slot_bytes,
                                   .status = status_of(w, r, OF_DECODE)};
    if (w->ranks > 1)
        PITH(pith_cuda_decode(k->weights.cuda, k->weights.stream, &items, 0, k->cuda_stream, NULL));
}

/* The observer takes all frames, in order of their slots. */
static void observe_weights(const struct world *w) {
    const struct rank *const k = &w->rank[0];
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = (uint64_t)w->ranks,
                                   .frame = k->weight_frames,
                                   .frame_stride = k->weights.host_sizes.slot_bytes,
                                   .capacity = k->weights.host_sizes.slot_bytes,
                                   .status = w->observer_status};
    PITH(pith_cuda_decode(k->weights.cuda, w->observer, &items, 0, k->cuda_stream, NULL));
}

static void weights_step(const struct world *w) {
    for (int r = 0; r < w->ranks; r++) send_weights(w, r);
    gather_weights(w);
    for (int r = 0; r < w->ranks; r++) receive_weights(w, r);
    observe_weights(w);
}

/* ---- Gradients -------------------------------------------------------------------------------*/

/* Encodes all slots of the rank's gradient in one launch. */
static void send_gradient(const struct world *w, int r) {
    const struct rank *const k = &w->rank[r];
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = (uint64_t)w->ranks,
                                   .dtype = PITH_F32,
                                   .tensor = k->gradient,
                                   .frame = k->leaving,
                                   .frame_stride = k->inner.host_sizes.slot_bytes,
                                   .capacity = k->inner.host_sizes.slot_bytes,
                                   .status = status_of(w, r, OF_LEAVING)};
    PITH(pith_cuda_encode(k->inner.cuda, k->inner.stream, &items, 0, k->cuda_stream, NULL));
}

/* Exchanges frames all-to-all: slot j of every rank goes to rank j, which puts it in order of the
 * senders. */
static void exchange_gradients(const struct world *w) {
    NCCL(ncclGroupStart());
    for (int r = 0; r < w->ranks; r++) {
        const struct rank *const k = &w->rank[r];
        const size_t slot_bytes = k->inner.host_sizes.slot_bytes;
        for (int peer = 0; peer < w->ranks; peer++) {
            const size_t at = (size_t)peer * slot_bytes;
            NCCL(ncclSend(k->leaving + at, slot_bytes, ncclUint8, peer, k->comm, k->cuda_stream));
            NCCL(ncclRecv(k->arriving + at, slot_bytes, ncclUint8, peer, k->comm, k->cuda_stream));
        }
    }
    NCCL(ncclGroupEnd());
}

/* Encodes, for the second hop, the mean of what has arrived, which is slot r of every rank. The sum
 * is never written as a tensor. */
static void sum_gradients(const struct world *w, int r) {
    const struct rank *const k = &w->rank[r];
    const uint64_t out_bytes = k->outer.host_sizes.slot_bytes;
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = 1,
                                   .first_slot = (uint64_t)r,
                                   .dtype = PITH_F32,
                                   .frame = k->arriving,
                                   .frame_stride = k->inner.host_sizes.slot_bytes,
                                   .capacity = k->inner.host_sizes.slot_bytes,
                                   .status = status_of(w, r, OF_ARRIVING)};
    const pith_cuda_items made = {.size = sizeof made,
                                  .count = 1,
                                  .first_slot = (uint64_t)r,
                                  .dtype = PITH_F32,
                                  .frame = k->sums + (uint64_t)r * out_bytes,
                                  .capacity = out_bytes,
                                  .status = status_of(w, r, OF_SUM)};
    PITH(pith_cuda_reduce_encode(k->inner.cuda, k->inner.stream, &items, (uint32_t)w->ranks,
                                 1.0f / (float)w->ranks, k->outer.cuda, k->outer.stream, &made,
                                 k->cuda_stream, NULL));
}

static void gather_sums(const struct world *w) {
    NCCL(ncclGroupStart());
    for (int r = 0; r < w->ranks; r++) {
        const struct rank *const k = &w->rank[r];
        const size_t slot_bytes = k->outer.host_sizes.slot_bytes;
        NCCL(ncclAllGather(k->sums + (size_t)r * slot_bytes, k->sums, slot_bytes, ncclUint8,
                           k->comm, k->cuda_stream));
    }
    NCCL(ncclGroupEnd());
}

static void receive_sums(const struct world *w, int r) {
    const struct rank *const k = &w->rank[r];
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = (uint64_t)w->ranks,
                                   .dtype = PITH_F32,
                                   .tensor = k->sum,
                                   .frame = k->sums,
                                   .frame_stride = k->outer.host_sizes.slot_bytes,
                                   .capacity = k->outer.host_sizes.slot_bytes,
                                   .status = status_of(w, r, OF_SUMS)};
    PITH(pith_cuda_decode(k->outer.cuda, k->outer.stream, &items, 0, k->cuda_stream, NULL));
}

static void gradients_step(const struct world *w) {
    for (int r = 0; r < w->ranks; r++) send_gradient(w, r);
    exchange_gradients(w);
    for (int r = 0; r < w->ranks; r++) sum_gradients(w, r);
    gather_sums(w);
    for (int r = 0; r < w->ranks; r++) receive_sums(w, r);
}

/* ---- What the CPU makes of the same numbers --------------------------------------------------*/

/* Returns a number that anybody can make again: of weights after step `step`, or of a rank's
 * gradients. */
static float number(uint64_t i, uint64_t which) {
    uint64_t x =
        (i + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ (which + 1) * UINT64_C(0xD1B54A32D192ED03);
    x = (x ^ x >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}
static void fill_weights(float *to, int step) {
    for (uint64_t i = 0; i < COUNT; i++)
        to[i] = 0.05f * number(i, 0) + (step ? 1e-4f * number(i, (uint64_t)step) : 0);
}
static void fill_gradient(float *to, int rank, int step) {
    for (uint64_t i = 0; i < COUNT; i++)
        to[i] = 0.01f * number(i, (uint64_t)(1000 * (rank + 1) + step));
}

/* The CPU's side of a rank: a stream of frames of each of its plans. */
struct reference {
    pith_work *work;
    pith_stream *weights_stream, *inner_stream, *outer_stream;
    void *memory[4];
    uint16_t *base;
    float *weights, *gradient, *sum;
    uint8_t *frames, *inner, *outer;
};

static pith_stream *host_stream(const struct coder *c, void **memory) {
    pith_stream *stream;
    *memory = allocate(c->host_sizes.stream_bytes);
    PITH(pith_stream_init(c->host, *memory, c->host_sizes.stream_bytes, NULL, &stream, NULL));
    return stream;
}

static void reference_open(struct reference *f, const struct rank *k, int ranks) {
    const pith_plan *const plans[] = {k->weights.host, k->inner.host, k->outer.host};
    const pith_view view =
        pith_view_flat(f->weights = allocate(COUNT * sizeof(float)), PITH_F32, COUNT);
    const size_t work_bytes = pith_work_bytes(plans, 3, 1), W = (size_t)ranks;
    f->weights_stream = host_stream(&k->weights, &f->memory[0]);
    f->inner_stream = host_stream(&k->inner, &f->memory[1]);
    f->outer_stream = host_stream(&k->outer, &f->memory[2]);
    f->memory[3] = allocate(work_bytes);
    PITH(pith_work_init(f->memory[3], work_bytes, NULL, &f->work, NULL));
    f->base = allocate(COUNT * sizeof *f->base);
    f->gradient = allocate(COUNT * sizeof(float));
    f->sum = allocate(COUNT * sizeof(float));
    f->frames = allocate(W * k->weights.host_sizes.slot_bytes);
    f->inner = allocate(W * W * k->inner.host_sizes.slot_bytes);
    f->outer = allocate(W * k->outer.host_sizes.slot_bytes);
    fill_weights(f->weights, 0);
    PITH(pith_stream_set_base(f->work, f->weights_stream, &view, 0));
}

static void reference_close(struct reference *f) {
    void *const memory[] = {f->memory[0], f->memory[1], f->memory[2], f->memory[3],
                            f->base,      f->weights,   f->gradient,  f->sum,
                            f->frames,    f->inner,     f->outer};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
}

/* Lists an item for every slot of the stream; frames lie `stride` bytes apart. */
static void list_slots(pith_item items[RANKS_MOST], pith_stream *stream, size_t slots,
                       const pith_view *view, uint8_t *frames, size_t stride, size_t capacity) {
    for (size_t i = 0; i < slots; i++)
        items[i] = (pith_item){.size = sizeof *items,
                               .stream = stream,
                               .slot = i,
                               .view = *view,
                               .frame = frames + i * stride,
                               .capacity = capacity};
}

static void reference_weights(struct reference *f, const struct rank *k, int ranks) {
    const pith_view view = pith_view_flat(f->weights, PITH_F32, COUNT);
    const pith_view base = pith_view_flat(f->base, PITH_BF16, COUNT);
    const size_t slot_bytes = k->weights.host_sizes.slot_bytes;
    pith_item items[RANKS_MOST];
    list_slots(items, f->weights_stream, (size_t)ranks, &view, f->frames, slot_bytes, slot_bytes);
    PITH(pith_encode(f->work, items, (size_t)ranks, 0));
    PITH(pith_stream_get_base(f->work, f->weights_stream, 0, &base));
}

static void reference_gradients(struct reference *f, const struct rank *k, int ranks, int step) {
    const pith_view view = pith_view_flat(f->gradient, PITH_F32, COUNT);
    const pith_view sum = pith_view_flat(f->sum, PITH_F32, COUNT);
    const size_t slot_bytes = k->inner.host_sizes.slot_bytes, W = (size_t)ranks;
    const size_t out_bytes = k->outer.host_sizes.slot_bytes;
    const void *frames[RANKS_MOST];
    size_t lengths[RANKS_MOST];
    pith_item items[RANKS_MOST];
    for (size_t from = 0; from < W; from++) {
        fill_gradient(f->gradient, (int)from, step);
        list_slots(items, f->inner_stream, W, &view, f->inner + from * slot_bytes, W * slot_bytes,
                   slot_bytes);
        PITH(pith_encode(f->work, items, W, 0));
    }
    list_slots(items, f->outer_stream, W, &sum, f->outer, out_bytes, out_bytes);
    for (size_t slot = 0; slot < W; slot++) {
        for (size_t from = 0; from < W; from++) {
            frames[from] = f->inner + (slot * W + from) * slot_bytes;
            lengths[from] = slot_bytes;
        }
        const pith_sum of_slot = {.size = sizeof of_slot,
                                  .stream = f->inner_stream,
                                  .slot = slot,
                                  .frames = frames,
                                  .lengths = lengths,
                                  .count = W,
                                  .scale = 1.0f / (float)W};
        PITH(pith_reduce_encode(f->work, &of_slot, &items[slot], 1));
    }
    PITH(pith_decode(f->work, items, W, 0));
}

/* ---- Checks ----------------------------------------------------------------------------------*/

static void check_status(const int32_t *status, size_t count, const char *what) {
    int32_t got[STATUS_ROWS * RANKS_MOST];
    CUDA(cudaMemcpy(got, status, count * sizeof *got, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        if (got[i] != PITH_OK) stop(what, pith_status_name((pith_status)got[i]));
}

static void check_same(const void *device, const void *host, size_t bytes, const char *what) {
    void *const got = allocate(bytes);
    CUDA(cudaMemcpy(got, device, bytes, cudaMemcpyDeviceToHost));
    if (memcmp(got, host, bytes) != 0) stop(what, "not what the CPU makes");
    free(got);
}

static void check(const struct world *w, const struct reference *f) {
    for (int r = 0; r < w->ranks; r++) {
        const struct rank *const k = &w->rank[r];
        CUDA(cudaSetDevice(k->device));
        CUDA(cudaStreamSynchronize(k->cuda_stream));
        check_status(k->status, STATUS_ROWS * (size_t)w->ranks, "a frame");
        check_same(pith_cuda_stream_base(k->weights.cuda, k->weights.stream), f->base,
                   COUNT * sizeof *f->base, "a replica of the weights");
        check_same(k->sum, f->sum, COUNT * sizeof *f->sum, "the mean of the gradients");
    }
    CUDA(cudaSetDevice(0));
    check_status(w->observer_status, (size_t)w->ranks, "a frame at the observer");
    check_same(pith_cuda_stream_base(w->rank[0].weights.cuda, w->observer), f->base,
               COUNT * sizeof *f->base, "the observer's weights");
}

/* ---- The program -----------------------------------------------------------------------------*/

static void world_open(struct world *w) {
    ncclComm_t comms[RANKS_MOST];
    for (int r = 0; r < w->ranks; r++) rank_open(w, r);
    NCCL(ncclCommInitAll(comms, w->ranks, NULL));
    for (int r = 0; r < w->ranks; r++) w->rank[r].comm = comms[r];
    CUDA(cudaSetDevice(0));
    w->observer = stream_open(&w->rank[0].weights, w->rank[0].cuda_stream);
    CUDA(cudaMalloc((void **)&w->observer_status, (size_t)w->ranks * sizeof(int32_t)));
}

static void world_close(struct world *w) {
    CUDA(cudaSetDevice(0));
    CUDA(cudaStreamSynchronize(w->rank[0].cuda_stream));
    CUDA(cudaFree(w->observer));
    CUDA(cudaFree(w->observer_status));
    for (int r = 0; r < w->ranks; r++) rank_close(&w->rank[r]);
}

/* Gives all replicas the same weights to begin with. */
static void begin(const struct world *w, const struct reference *f) {
    for (int r = 0; r < w->ranks; r++) {
        const struct rank *const k = &w->rank[r];
        put(k, k->master, f->weights, COUNT * sizeof(float));
        PITH(pith_cuda_stream_set_base(k->weights.cuda, k->weights.stream, k->master, PITH_F32, 0,
                                       k->cuda_stream, NULL));
        if (r == 0)
            PITH(pith_cuda_stream_set_base(k->weights.cuda, w->observer, k->master, PITH_F32, 0,
                                           k->cuda_stream, NULL));
    }
}

static void one_step(struct world *w, struct reference *f, int step) {
    const size_t bytes = COUNT * sizeof(float);
    fill_weights(f->weights, step);
    for (int r = 0; r < w->ranks; r++) {
        const struct rank *const k = &w->rank[r];
        fill_gradient(f->gradient, r, step);
        put(k, k->master, f->weights, bytes);
        put(k, k->gradient, f->gradient, bytes);
        CUDA(cudaStreamSynchronize(k->cuda_stream)); /* the next rank overwrites f->gradient */
    }
    weights_step(w);
    gradients_step(w);
    reference_weights(f, &w->rank[0], w->ranks);
    reference_gradients(f, &w->rank[0], w->ranks, step);
    check(w, f);
    printf("step %d: %d replica%s, the observer and the mean gradient%s are the CPU's\n", step,
           w->ranks, w->ranks == 1 ? "" : "s", w->ranks == 1 ? "" : "s of all ranks");
}

int main(void) {
    static struct world w;
    struct reference f;
    if (cudaGetDeviceCount(&w.ranks) != cudaSuccess || w.ranks < 1) {
        fputs("allgather: no CUDA device\n", stderr);
        return NO_DEVICE;
    }
    if (w.ranks > RANKS_MOST) w.ranks = RANKS_MOST;
    world_open(&w);
    reference_open(&f, &w.rank[0], w.ranks);
    printf(
        "%d rank%s, %d weights; frames of a slot: weights %llu bytes, gradients %llu and %llu, "
        "f32 %llu\n",
        w.ranks, w.ranks == 1 ? "" : "s", COUNT,
        (unsigned long long)w.rank[0].weights.host_sizes.slot_bytes,
        (unsigned long long)w.rank[0].inner.host_sizes.slot_bytes,
        (unsigned long long)w.rank[0].outer.host_sizes.slot_bytes,
        (unsigned long long)((COUNT + (uint64_t)w.ranks - 1) / (uint64_t)w.ranks * 4));
    begin(&w, &f);
    for (int step = 1; step <= STEPS; step++) one_step(&w, &f, step);
    reference_close(&f);
    world_close(&w);
    return 0;
}
