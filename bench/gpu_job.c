/* gpu_job.c - one row of the CUDA bench at one size: its data, its work, its proof.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gpu_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pith/kv.h"
#include "pith/pith_cuda.h"
#include "pith/sparse.h"

enum { STEPS = 4, CACHES = 4, SETS_MOST = 64, FRAMES_MOST = 16 };
/* Both sides have these options, so that they draw the same random bits. */
static const pith_stream_options options = {.size = sizeof options, .seed = 11, .rng_stream = 3};

/* One side of a call: frames of one plan. */
struct side {
    const pith_plan *plan;
    const pith_cuda_plan *cuda;
    pith_cuda_sizes sizes;
    void *plan_memory;
    pith_stream *host; /* the CPU's */
    void *host_memory;
    uint64_t frame_bytes, stride; /* frame_bytes: the most that a frame can have */
};

/* Pages of a call, and where tokens lie in each; count 0: the call is on frames. */
struct pages {
    uint64_t count, bytes;
    pith_view like;
};

/* What one set of data has on the device. */
struct set {
    uint8_t *values[2], *tensor, *frames, *made, *workspace;
    uint8_t *compact;                /* values at the elements of the held set */
    uint64_t *lengths;               /* of frames that are read, where they differ; else NULL */
    pith_cuda_stream *stream, *into; /* into: of reduce_encode */
    pith_kv_pair *pairs;
    int32_t *status; /* per frame read, then of the one made; or per page */
};

struct gpu_job {
    const struct gpu_row *row;
    uint64_t count, tensor_bytes;
    uint64_t frame_bytes; /* of the frames that are made: all have as many, but for sparse ones */
    uint64_t lengths[FRAMES_MOST]; /* of these */
    uint64_t chosen;               /* elements that any of them has */
    uint32_t sets, steps;
    bool encodes, based, sparse;
    struct pages pages;
    struct side from, into; /* into: of reduce_encode */
    pith_work *work;        /* of both */
    void *work_memory;
    struct set set[SETS_MOST];
    uint8_t *pristine; /* what a set's stream, or its tensor, is before the first call */
    /* The CPU's: values, frames (all steps), and what the last call leaves. */
    uint8_t *values[2], *frames, *made, *tensor, *compact;
};

static void fail(const char *what, const char *why) {
    fprintf(stderr, "gpu: %s: %s\n", what, why);
    exit(1);
}

static void must(pith_status status, const struct gpu_job *j) {
    if (status != PITH_OK) fail(pith_status_name(status), pith_work_error(j->work)->text);
}

/* The last call on the device, and before there is a work. */
static pith_error the_error = {.size = sizeof the_error};
static void must_cuda(pith_status status) {
    if (status != PITH_OK) fail(pith_status_name(status), the_error.text);
}

static void *allocate(uint64_t bytes) {
    void *p = aligned_alloc(64, (size_t)((bytes + 64) & ~UINT64_C(63)));
    if (!p) fail("allocate", "no memory");
    return p;
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* Noise with deviation 1 around 0, made once: sums of four uniform numbers. */
static const float *noise(uint64_t count) {
    static float *pool;
    static uint64_t made;
    if (made >= count) return pool;
    free(pool);
    pool = allocate(count * sizeof *pool);
    made = count;
    uint64_t x = 88172645463325252u;
    for (uint64_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        const uint64_t sum = (x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48);
        pool[i] = ((float)sum - 131070.0f) * (1.0f / 37837.0f);
    }
    return pool;
}

static void store(void *to, uint32_t dtype, uint64_t i, float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (dtype == PITH_F32) {
        ((float *)to)[i] = x;
    } else {
        ((uint16_t *)to)[i] = (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
    }
}

/* With a base: weights, and the same a training step later; else gradient number `which`. */
static void fill(const struct gpu_job *j, void *to, uint32_t which) {
    enum { APART = 4096 };
    const float *const pool = noise(j->count + APART * FRAMES_MOST);
    for (uint64_t i = 0; i < j->count; i++) {
        const float x = j->based ? 0.05f * pool[i] + (which ? 1e-3f * pool[i + APART] : 0)
                                 : 0.01f * pool[i + APART * which];
        store(to, j->row->dtype, i, x);
    }
}

/* ---- Plans -----------------------------------------------------------------------------------*/

static pith_layout layout_of(const struct gpu_row *row, uint64_t count) {
    pith_layout layout = {.size = sizeof layout,
                          .dtype = row->dtype,
                          .base_dtype = row->base,
                          .ndim = 1,
                          .shape = {count}};
    if (!row->dim) return layout;
    layout.ndim = 3;
    layout.shape[0] = count / row->heads / row->dim;
    layout.shape[1] = row->heads;
    layout.shape[2] = row->dim;
    return layout;
}

enum { THREADS = 8 };

static void side_open(struct side *s, const char *spec, const pith_layout *layout) {
    pith_sizes sizes = {.size = sizeof sizes};
    s->sizes.size = sizeof s->sizes;
    must_cuda(pith_plan_create(&s->plan, spec, layout, NULL, &the_error));
    if (pith_plan_sizes(s->plan, &sizes) != PITH_OK) fail(spec, "no sizes");
    must_cuda(pith_cuda_plan_sizes(s->plan, &s->sizes, &the_error));
    s->frame_bytes = pith_plan_frame_bytes(s->plan, 0, 0);
    s->stride = (s->frame_bytes + 255) & ~UINT64_C(255);
    s->plan_memory = gpu_allocate((size_t)s->sizes.plan_bytes);
    must_cuda(pith_cuda_plan_create(&s->cuda, s->plan, NULL, 0, s->plan_memory,
                                    (size_t)s->sizes.plan_bytes, gpu_stream(), &the_error));
    s->host_memory = allocate(sizes.stream_bytes);
    must_cuda(pith_stream_init(s->plan, s->host_memory, (size_t)sizes.stream_bytes, &options,
                               &s->host, &the_error));
}

/* With OpenMP's threads where there are some. */
static void work_open(struct gpu_job *j) {
    const pith_plan *const plans[] = {j->from.plan, j->into.plan};
    const uint64_t bytes = pith_work_bytes(plans, j->into.plan ? 2 : 1, THREADS);
    pith_env env = {.size = sizeof env, .threads = THREADS};
    j->work_memory = allocate(bytes);
    pith_status status = pith_work_init(j->work_memory, (size_t)bytes, &env, &j->work, &the_error);
    if (status == PITH_ERR_UNSUPPORTED)
        status = pith_work_init(j->work_memory, (size_t)bytes, NULL, &j->work, &the_error);
    must_cuda(status);
}

static void pages_open(struct gpu_job *j) {
    const uint64_t tokens = pith_kv_page_tokens(j->from.plan);
    const uint64_t shape[3] = {tokens, j->row->heads, j->row->dim};
    j->pages.count = j->count / (tokens * shape[1] * shape[2]);
    j->pages.bytes = pith_kv_page_bytes(j->from.plan, (uint32_t)tokens);
    j->pages.like = pith_view_dense(NULL, j->row->dtype, 3, shape);
    j->frame_bytes = j->pages.count * j->pages.bytes;
}

/* Tokens and pages one after the other. To be freed. */
static pith_kv_pair *pairs_of(const struct gpu_job *j, uint8_t *values, uint8_t *pages) {
    const uint64_t each = j->pages.count ? j->tensor_bytes / j->pages.count : 0;
    pith_kv_pair *const pairs = allocate(j->pages.count * sizeof *pairs);
    for (uint64_t i = 0; i < j->pages.count; i++)
        pairs[i] = (pith_kv_pair){values + i * each, pages + i * j->pages.bytes, 0};
    return pairs;
}

static void side_close(struct side *s) {
    if (!s->plan) return;
    gpu_wait();
    pith_cuda_plan_destroy(s->cuda);
    pith_plan_destroy(s->plan);
    GPU(cudaFree(s->plan_memory));
    free(s->host_memory);
}

/* ---- What the CPU makes ----------------------------------------------------------------------*/

static void make_pages(struct gpu_job *j) {
    pith_kv_pair *pairs = pairs_of(j, j->values[1], j->frames);
    must(pith_kv_encode_pages(j->work, j->from.plan, &j->pages.like, pairs, j->pages.count), j);
    free(pairs);
    pairs = pairs_of(j, j->tensor, j->frames);
    must(pith_kv_decode_pages(j->work, j->from.plan, &j->pages.like, pairs, j->pages.count), j);
    free(pairs);
    memcpy(j->made, j->frames, (size_t)j->frame_bytes);
}

/* An item of the CPU's stream of frames that are read or made. */
static pith_item host_item(const struct side *s, const void *values, uint32_t dtype, uint64_t count,
                           void *frame) {
    return (pith_item){.size = sizeof(pith_item),
                       .stream = s->host,
                       .view = pith_view_flat(values, dtype, count),
                       .frame = frame,
                       .capacity = (size_t)s->frame_bytes,
                       .length = (size_t)s->frame_bytes};
}

static void set_step(struct gpu_job *j, uint64_t step) {
    must(pith_stream_set_step(j->work, j->from.host, 0, step), j);
}

/* Whether calls are on the set that a slot holds. */
static bool holds(const struct gpu_job *j) {
    return j->row->what >= GPU_HOLD && j->row->what <= GPU_SCATTER;
}

/* The frame of the last of the steps that the device makes, which add to one residual; or frames of
 * ranks, and how many elements they have together. */
static void make_sparse(struct gpu_job *j) {
    const uint32_t frames = j->encodes ? STEPS : j->row->frames;
    uint8_t *const any = allocate(j->count);
    memset(any, 0, (size_t)j->count);
    for (uint32_t i = 0; i < frames; i++) {
        const uint32_t at = j->encodes ? 0 : i;
        uint8_t *const frame = j->frames + at * j->from.stride;
        if (!j->encodes) fill(j, j->values[1], i);
        const void *const values = j->values[j->encodes ? (i + 1) & 1 : 1];
        pith_item item = host_item(&j->from, values, j->row->dtype, j->count, frame);
        must(pith_encode(j->work, &item, 1, 0), j);
        j->frame_bytes = j->lengths[at] = item.length;
    }
    for (uint32_t i = 0; !j->encodes && i < frames; i++) {
        pith_item item =
            host_item(&j->from, j->tensor, j->row->dtype, j->count, j->frames + i * j->from.stride);
        item.length = (size_t)j->lengths[i];
        must(pith_decode(j->work, &item, 1, 0), j);
        for (uint64_t e = 0; e < j->count; e++) any[e] |= ((const float *)j->tensor)[e] != 0;
    }
    for (uint64_t e = 0; e < j->count; e++) j->chosen += any[e];
    free(any);
}

/* What calls on the held set leave behind: its values, and a tensor that they were added to. */
static void make_held(struct gpu_job *j) {
    const void *frames[FRAMES_MOST];
    size_t lengths[FRAMES_MOST];
    const pith_view from = pith_view_flat(j->values[0], j->row->dtype, j->count);
    const pith_view to = pith_view_flat(j->tensor, j->row->dtype, j->count);
    for (uint32_t i = 0; i < j->row->frames; i++) {
        frames[i] = j->frames + i * j->from.stride;
        lengths[i] = (size_t)j->lengths[i];
    }
    j->compact = allocate(j->chosen * pith_dtype_bytes(j->row->dtype));
    const pith_view compact = pith_view_flat(j->compact, j->row->dtype, j->chosen);
    must(
        pith_sparse_hold(j->work, j->from.host, 0, frames, lengths, j->row->frames, PITH_SET_UNION),
        j);
    must(pith_sparse_gather(j->work, j->from.host, 0, &from, &compact), j);
    memcpy(j->tensor, j->values[0], (size_t)j->tensor_bytes);
    for (uint32_t i = 0; i < STEPS; i++)
        must(pith_sparse_scatter(j->work, j->from.host, 0, &compact, 1, &to), j);
}

/* Frames of all steps, and the base after them. Gradients are those of ranks at the step that the
 * last call has, which starts from the first after gpu_job_restore. */
static void make_frames(struct gpu_job *j) {
    const uint32_t frames = j->steps * j->row->frames;
    void *const gradient = j->based ? NULL : allocate(j->tensor_bytes);
    const pith_view first = pith_view_flat(j->values[0], j->row->dtype, j->count);
    if (j->based) must(pith_stream_set_base(j->work, j->from.host, &first, 0), j);
    for (uint32_t i = 0; i < frames; i++) {
        const void *const value = gradient ? gradient : j->values[(i + 1) & 1];
        pith_item item =
            host_item(&j->from, value, j->row->dtype, j->count, j->frames + i * j->from.stride);
        if (gradient) fill(j, gradient, i);
        if (gradient) set_step(j, STEPS - 1);
        must(pith_encode(j->work, &item, 1, 0), j);
        j->frame_bytes = item.length;
    }
    if (j->based) {
        const pith_view base = pith_view_flat(j->tensor, j->row->base, j->count);
        must(pith_stream_get_base(j->work, j->from.host, 0, &base), j);
    }
    free(gradient);
}

static void make_sum(struct gpu_job *j) {
    const void *frames[FRAMES_MOST];
    size_t lengths[FRAMES_MOST];
    for (uint32_t i = 0; i < j->row->frames; i++) {
        frames[i] = j->frames + i * j->from.stride;
        lengths[i] = (size_t)(j->sparse ? j->lengths[i] : j->from.frame_bytes);
    }
    pith_sum sum = {.size = sizeof sum,
                    .stream = j->from.host,
                    .frames = frames,
                    .lengths = lengths,
                    .count = j->row->frames,
                    .view = pith_view_flat(j->tensor, j->row->dtype, j->count)};
    if (j->row->what == GPU_REDUCE) {
        must(pith_reduce(j->work, &sum, 1), j);
        return;
    }
    pith_item item = host_item(&j->into, NULL, PITH_F32, j->count, j->made);
    must(pith_reduce_encode(j->work, &sum, &item, 1), j);
}

/* What the calls must leave behind, where make_frames has not made it. */
static void make_results(struct gpu_job *j) {
    const bool add = j->row->what == GPU_DECODE_ADD;
    pith_item item = host_item(&j->from, j->tensor, j->row->dtype, j->count, j->frames);
    item.length = (size_t)j->frame_bytes;
    if (j->row->what == GPU_ENCODE)
        memcpy(j->made, j->frames + (j->steps * j->row->frames - 1) * j->from.stride, item.length);
    if (j->row->what == GPU_REDUCE || j->row->what == GPU_REDUCE_ENCODE) make_sum(j);
    if (j->row->what == GPU_DECODE && !j->based) must(pith_decode(j->work, &item, 1, 0), j);
    if (holds(j)) make_held(j);
    if (!add || j->based) return;
    memcpy(j->tensor, j->values[0], (size_t)j->tensor_bytes);
    for (uint32_t i = 0; i < STEPS; i++) must(pith_decode(j->work, &item, 1, PITH_ADD), j);
}

/* ---- What the device has ---------------------------------------------------------------------*/

static pith_cuda_stream *new_stream(const struct side *side) {
    const size_t bytes = (size_t)side->sizes.stream_bytes;
    pith_cuda_stream *const stream = gpu_allocate(bytes);
    must_cuda(pith_cuda_stream_init(side->cuda, stream, bytes, &options, gpu_stream(), &the_error));
    return stream;
}

static void set_base(struct gpu_job *j, struct set *s) {
    must_cuda(pith_cuda_stream_set_base(j->from.cuda, s->stream, s->values[0], j->row->dtype, 0,
                                        gpu_stream(), &the_error));
}

static uint64_t statuses(const struct gpu_job *j) {
    return j->pages.count ? j->pages.count : j->row->frames + (j->row->into != NULL);
}

static void set_pairs(struct gpu_job *j, struct set *s) {
    const size_t bytes = (size_t)j->pages.count * sizeof *s->pairs;
    pith_kv_pair *const pairs =
        j->encodes ? pairs_of(j, s->values[1], s->made) : pairs_of(j, s->tensor, s->frames);
    s->pairs = gpu_allocate(bytes);
    gpu_put(s->pairs, pairs, bytes);
    gpu_wait();
    free(pairs);
}

static pith_status held_call(const struct gpu_job *j, const struct set *s, enum gpu_what what);

static void set_open(struct gpu_job *j, struct set *s) {
    const uint32_t frames = j->row->frames;
    const uint64_t all = j->steps * frames * j->from.stride;
    for (int i = 0; i < 2; i++) {
        if (!(j->encodes || j->based || holds(j))) continue;
        s->values[i] = gpu_allocate((size_t)j->tensor_bytes);
        gpu_put(s->values[i], j->values[i], (size_t)j->tensor_bytes);
    }
    s->tensor = gpu_allocate((size_t)j->tensor_bytes);
    s->made = gpu_allocate((size_t)(j->into.plan ? j->into.frame_bytes : j->from.frame_bytes));
    s->status = gpu_allocate((size_t)statuses(j) * sizeof *s->status);
    s->workspace = gpu_allocate((size_t)(frames * j->from.sizes.workspace_bytes));
    if (!j->encodes) {
        s->frames = gpu_allocate((size_t)all);
        gpu_put(s->frames, j->frames, (size_t)all);
    }
    if (j->sparse && !j->encodes) {
        s->lengths = gpu_allocate(sizeof j->lengths);
        gpu_put(s->lengths, j->lengths, sizeof j->lengths);
    }
    if (j->pages.count) {
        set_pairs(j, s);
        return;
    }
    s->stream = new_stream(&j->from);
    if (holds(j)) {
        const size_t bytes = (size_t)(j->chosen * pith_dtype_bytes(j->row->dtype));
        s->compact = gpu_allocate(bytes);
        if (j->row->what == GPU_SCATTER) gpu_put(s->compact, j->compact, bytes);
        if (j->row->what != GPU_HOLD) must_cuda(held_call(j, s, GPU_HOLD));
    }
    if (j->into.plan) s->into = new_stream(&j->into);
    if (j->based) set_base(j, s);
}

static void set_close(const struct set *s) {
    uint8_t *const all[] = {s->values[0], s->values[1], s->tensor, s->frames,
                            s->made,      s->workspace, s->compact};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) GPU(cudaFree(all[i]));
    GPU(cudaFree(s->stream));
    GPU(cudaFree(s->into));
    GPU(cudaFree(s->pairs));
    GPU(cudaFree(s->lengths));
    GPU(cudaFree(s->status));
}

/* ---- Life ------------------------------------------------------------------------------------*/

/* Whether the calls' tensor is what they change, not their stream. */
static bool adds(const struct gpu_job *j) {
    return j->row->what == GPU_DECODE_ADD || j->row->what == GPU_SCATTER;
}

static uint64_t pristine_bytes(const struct gpu_job *j) {
    if (j->pages.count) return 0;
    return adds(j) ? j->tensor_bytes : j->from.sizes.stream_bytes;
}

static void *pristine_place(const struct gpu_job *j, uint32_t k) {
    return adds(j) ? (void *)j->set[k].tensor : (void *)j->set[k].stream;
}

static void make_host(struct gpu_job *j) {
    const uint64_t made = j->into.plan ? j->into.frame_bytes : j->from.frame_bytes;
    for (uint32_t i = 0; i < 2; i++) fill(j, j->values[i] = allocate(j->tensor_bytes), i);
    j->frames = allocate(j->steps * j->row->frames * j->from.stride);
    j->made = allocate(made);
    j->tensor = allocate(j->tensor_bytes);
    if (j->pages.count) {
        make_pages(j);
        return;
    }
    if (j->sparse)
        make_sparse(j);
    else
        make_frames(j);
    make_results(j);
}

static void make_device(struct gpu_job *j) {
    for (uint32_t i = 0; i < j->sets; i++) set_open(j, &j->set[i]);
    const size_t bytes = (size_t)pristine_bytes(j);
    if (!bytes) return;
    j->pristine = gpu_allocate(bytes);
    if (adds(j))
        gpu_put(j->pristine, j->values[0], bytes);
    else
        gpu_copy(j->pristine, j->set[0].stream, bytes);
}

struct gpu_job *gpu_job_open(const struct gpu_row *row, uint64_t count, uint64_t cache) {
    struct gpu_job *j = calloc(1, sizeof *j);
    if (!j) fail("job", "no memory");
    j->row = row;
    j->count = count;
    j->based = row->base != PITH_NONE;
    j->sparse = strncmp(row->spec, "topk", 4) == 0;
    j->encodes = row->what == GPU_ENCODE || row->what == GPU_ENCODE_PAGES;
    j->tensor_bytes = count * pith_dtype_bytes(row->dtype);
    j->steps = j->based ? STEPS : 1;
    const struct gpu_row sums = {.dtype = PITH_F32, .base = PITH_NONE};
    const pith_layout layout = layout_of(row, count), sum = layout_of(&sums, count);
    side_open(&j->from, row->spec, &layout);
    if (row->into) side_open(&j->into, row->into, &sum);
    work_open(j);
    j->frame_bytes = j->from.frame_bytes;
    if (row->what >= GPU_ENCODE_PAGES) pages_open(j);
    const uint64_t sets = 1 + CACHES * cache / gpu_job_moved(j);
    j->sets = sets < SETS_MOST ? (uint32_t)sets : SETS_MOST;
    make_host(j);
    make_device(j);
    gpu_job_restore(j);
    gpu_wait();
    return j;
}

void gpu_job_close(struct gpu_job *j) {
    gpu_wait();
    for (uint32_t i = 0; i < j->sets; i++) set_close(&j->set[i]);
    GPU(cudaFree(j->pristine));
    side_close(&j->from);
    side_close(&j->into);
    for (int i = 0; i < 2; i++) free(j->values[i]);
    free(j->work_memory);
    free(j->frames);
    free(j->made);
    free(j->tensor);
    free(j->compact);
    free(j);
}

/* ---- Work ------------------------------------------------------------------------------------*/

uint32_t gpu_job_calls(const struct gpu_job *j) { return STEPS * j->sets; }

/* Bytes of the frames of a call; before there are any, of as many of the largest. */
static uint64_t frames_bytes(const struct gpu_job *j) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < j->row->frames; i++)
        bytes += j->lengths[i] ? j->lengths[i] : j->frame_bytes;
    return bytes;
}

/* Bytes that calls of codec topk move: encodes read and write the residual, those that add look at
 * chosen elements alone, and the map of a held set has a bit for each element. */
static uint64_t sparse_moved(const struct gpu_job *j) {
    const uint64_t frames = frames_bytes(j), map = j->count / 8;
    const uint64_t values = j->chosen * pith_dtype_bytes(j->row->dtype);
    switch (j->row->what) {
    case GPU_ENCODE: return 3 * j->tensor_bytes + frames;
    case GPU_DECODE_ADD: return frames + 2 * values;
    case GPU_HOLD: return frames + map;
    case GPU_GATHER: return map + 2 * values;
    case GPU_SCATTER: return map + 3 * values;
    default: return frames + j->tensor_bytes;
    }
}

uint64_t gpu_job_moved(const struct gpu_job *j) {
    if (j->sparse) return sparse_moved(j);
    const uint64_t frames = frames_bytes(j);
    const uint64_t base = j->count * pith_dtype_bytes(j->row->base);
    switch (j->row->what) {
    case GPU_ENCODE:
    case GPU_ENCODE_PAGES:
    case GPU_DECODE_PAGES: return j->tensor_bytes + 2 * base + frames;
    case GPU_DECODE: return j->based ? 2 * base + frames : frames + j->tensor_bytes;
    case GPU_DECODE_ADD: /* a base is read once more, for its hash */
        return frames + 2 * j->tensor_bytes + (j->from.sizes.workspace_bytes ? base : 0);
    case GPU_REDUCE: return frames + j->tensor_bytes;
    default: return frames + j->into.frame_bytes;
    }
}

void gpu_job_restore(struct gpu_job *j) {
    const size_t bytes = (size_t)pristine_bytes(j);
    for (uint32_t i = 0; bytes && i < j->sets; i++)
        gpu_copy(pristine_place(j, i), j->pristine, bytes);
}

static pith_cuda_items items_of(const struct gpu_job *j, const struct set *s, uint32_t step) {
    const uint32_t frames = j->row->frames, at = step % j->steps * frames;
    pith_cuda_items items = {.size = sizeof items,
                             .count = 1,
                             .dtype = j->row->dtype,
                             .tensor = s->tensor,
                             .frame = s->frames + at * j->from.stride,
                             .frame_stride = j->from.stride,
                             .capacity = j->from.frame_bytes,
                             .status = s->status,
                             .workspace = j->from.sizes.workspace_bytes ? s->workspace : NULL,
                             .workspace_bytes = frames * j->from.sizes.workspace_bytes};
    if (s->lengths) items.lengths = s->lengths;
    if (j->encodes) {
        items.tensor = s->values[(step + 1) & 1];
        items.frame = s->made;
    } else if (j->row->what == GPU_DECODE && j->based) {
        items.tensor = NULL; /* the base moves on where it lies */
    }
    return items;
}

static pith_status sum_call(const struct gpu_job *j, const struct set *s,
                            const pith_cuda_items *items) {
    const uint32_t frames = j->row->frames;
    const pith_cuda_items made = {.size = sizeof made,
                                  .count = 1,
                                  .dtype = PITH_F32,
                                  .frame = s->made,
                                  .capacity = j->into.frame_bytes,
                                  .status = s->status + frames};
    if (j->row->what == GPU_REDUCE)
        return pith_cuda_reduce(j->from.cuda, s->stream, items, frames, 1, gpu_stream(),
                                &the_error);
    return pith_cuda_reduce_encode(j->from.cuda, s->stream, items, frames, 1, j->into.cuda, s->into,
                                   &made, gpu_stream(), &the_error);
}

static pith_status held_call(const struct gpu_job *j, const struct set *s, enum gpu_what what) {
    const pith_cuda_plan *const c = j->from.cuda;
    pith_cuda_items items = items_of(j, s, 0);
    if (what == GPU_HOLD)
        return pith_cuda_sparse_hold(c, s->stream, &items, j->row->frames, PITH_SET_UNION,
                                     gpu_stream(), &the_error);
    items.frame = s->compact;
    items.lengths = NULL;
    items.capacity = j->chosen * pith_dtype_bytes(j->row->dtype);
    if (what == GPU_SCATTER)
        return pith_cuda_sparse_scatter(c, s->stream, &items, j->row->dtype, 1, gpu_stream(),
                                        &the_error);
    items.tensor = s->values[0];
    return pith_cuda_sparse_gather(c, s->stream, &items, j->row->dtype, gpu_stream(), &the_error);
}

static pith_status pages_call(const struct gpu_job *j, const struct set *s) {
    const struct pages *const p = &j->pages;
    if (j->encodes)
        return pith_cuda_kv_encode_pages(j->from.cuda, &p->like, s->pairs, p->count, s->status,
                                         gpu_stream(), &the_error);
    return pith_cuda_kv_decode_pages(j->from.cuda, &p->like, s->pairs, p->count, s->status,
                                     gpu_stream(), &the_error);
}

void gpu_job_call(void *of, uint32_t k) {
    struct gpu_job *const j = of;
    const struct set *const s = &j->set[k % j->sets];
    const pith_cuda_items items = items_of(j, s, k / j->sets);
    const pith_cuda_plan *const c = j->from.cuda;
    void *const on = gpu_stream();
    switch (j->row->what) {
    case GPU_ENCODE: must_cuda(pith_cuda_encode(c, s->stream, &items, 0, on, &the_error)); break;
    case GPU_DECODE: must_cuda(pith_cuda_decode(c, s->stream, &items, 0, on, &the_error)); break;
    case GPU_DECODE_ADD:
        must_cuda(pith_cuda_decode(c, s->stream, &items, PITH_ADD, on, &the_error));
        break;
    case GPU_ENCODE_PAGES:
    case GPU_DECODE_PAGES: must_cuda(pages_call(j, s)); break;
    case GPU_HOLD:
    case GPU_GATHER:
    case GPU_SCATTER: must_cuda(held_call(j, s, j->row->what)); break;
    default: must_cuda(sum_call(j, s, &items));
    }
}

/* ---- Proof -----------------------------------------------------------------------------------*/

static bool same(const struct gpu_job *j, const char *what, const void *device, const void *host,
                 uint64_t bytes) {
    uint8_t *const got = allocate(bytes);
    gpu_get(got, device, (size_t)bytes);
    uint64_t i = 0;
    if (memcmp(got, host, (size_t)bytes) != 0) {
        while (got[i] == ((const uint8_t *)host)[i]) i++;
        fprintf(stderr, "gpu: %s: %s: byte %llu of %llu is not the CPU's\n", j->row->spec, what,
                (unsigned long long)i, (unsigned long long)bytes);
    } else {
        i = bytes;
    }
    free(got);
    return i == bytes;
}

static bool check_status(const struct gpu_job *j, const struct set *s) {
    const uint64_t count = statuses(j);
    int32_t *const status = allocate(count * sizeof *status);
    uint64_t i = 0;
    gpu_get(status, s->status, (size_t)count * sizeof *status);
    while (i < count && status[i] == PITH_OK) i++;
    if (i < count)
        fprintf(stderr, "gpu: %s: frame %llu: %s\n", j->row->spec, (unsigned long long)i,
                pith_status_name((pith_status)status[i]));
    free(status);
    return i == count;
}

static bool check_set(struct gpu_job *j, struct set *s) {
    const bool frame = j->encodes || j->row->what == GPU_REDUCE_ENCODE;
    const uint64_t made = j->into.plan ? j->into.frame_bytes : j->frame_bytes;
    const uint64_t base = j->count * pith_dtype_bytes(j->row->base);
    bool good = check_status(j, s);
    if (holds(j) && j->row->what != GPU_SCATTER) { /* what is held shows in what is gathered */
        must_cuda(held_call(j, s, GPU_GATHER));
        return same(j, "values of the set", s->compact, j->compact,
                    j->chosen * pith_dtype_bytes(j->row->dtype)) &&
               good && check_status(j, s);
    }
    if (frame) good &= same(j, "frame", s->made, j->made, made);
    if (j->based && !adds(j))
        good &= same(j, "base", pith_cuda_stream_base(j->from.cuda, s->stream), j->tensor, base);
    if (!frame && !(j->based && !adds(j)))
        good &= same(j, "values", s->tensor, j->tensor, j->tensor_bytes);
    return good;
}

bool gpu_job_check(struct gpu_job *j) {
    bool good = check_set(j, &j->set[0]);
    if (j->sets > 1) good &= check_set(j, &j->set[j->sets - 1]);
    return good;
}
