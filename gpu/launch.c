/* launch.c - launches: how teams share them, which kernel it is, and calls that take several.
 * SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include "device/bytes/memory.h"
#include "device/predict/workspace.h"
#include "device/special.h"
#include "kv.h"

/* ---- Teams -----------------------------------------------------------------------------------*/

enum { TILES_MOST = 16 };

/* Divides elements among teams: few tiles a team while there are few teams, since each opens its
 * frame for itself, which takes as long as some tiles do; but `whole` elements at least. */
static void divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                   uint64_t elements, uint64_t whole) {
    uint64_t span = PITHI_TILE;
    while (span < TILES_MOST * PITHI_TILE &&
           items * (elements / span) > PITHI_CUDA_WAVES * c->processors)
        span *= 2;
    if (span < whole) span = whole;
    a->span = span;
    a->chunks = elements / span + (elements % span != 0);
    if (!a->chunks) a->chunks = 1;
}

/* Whole groups always, and whole blocks where those have checksums. */
void pithi_cuda_divide_runs(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                            uint64_t elements) {
    const struct pithi_device_plan *t = &c->plan;
    const uint64_t group = t->device.groups.set.group, block = (uint64_t)1 << t->block_log2;
    divide(a, c, items, elements, t->checksums && block > group ? block : group);
}

void pithi_cuda_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                       uint64_t elements) {
    if (pithi_cuda_is_paged(c))
        pithi_cuda_paged_divide(a, c, items, elements);
    else
        pithi_cuda_divide_runs(a, c, items, elements);
}

/* Returns the kernel that knows most of this call. */
static enum pithi_gpu_kernel special(enum pithi_gpu_kernel kernel, const struct pithi_gpu_call *a) {
    if (!pithi_known_plain(a)) return kernel;
#define PITH_GPU_SPECIAL(family, body, reads, makes)                                         \
    if (kernel == PITHI_GPU_##body) {                                                        \
        const struct pithi_known read = pithi_known_##reads(), made = pithi_known_##makes(); \
        if (pithi_known_fits(&read, a, &a->from) && pithi_known_fits(&made, a, &a->to))      \
            return PITHI_GPU_##body##_##reads##_##makes;                                     \
    }
#include "device/special.def"
#undef PITH_GPU_SPECIAL
    return kernel;
}

pith_status pithi_cuda_launch(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                              const struct pithi_gpu_call *a, uint64_t items, void *cuda_stream,
                              pith_error *error) {
    if (items > INT32_MAX / a->chunks)
        return pithi_fail_at(error, PITH_ERR_ARG, "too many items for one launch",
                             INT32_MAX / a->chunks);
    return pithi_cuda_status(
        pithi_gpu_launch(c->device, special(kernel, a), a, items * a->chunks, cuda_stream), error);
}

pith_status pithi_cuda_clear(const pith_cuda_plan *c, void *p, uint64_t bytes, void *cuda_stream,
                             pith_error *error) {
    return pithi_cuda_status(pithi_gpu_clear(c->device, p, (size_t)bytes, cuda_stream), error);
}

/* ---- Several launches ------------------------------------------------------------------------*/

void pithi_launch_teams(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel,
                        uint64_t teams) {
    if (l->status != PITH_OK) return;
    l->call->span = PITHI_TILE;
    l->call->chunks = teams ? teams : 1;
    l->status = pithi_cuda_launch(l->cuda, kernel, l->call, l->items, l->cuda_stream, l->error);
}

void pithi_launch_blocks(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel) {
    pithi_launch_teams(l, kernel, l->cuda->plan.most_blocks);
}

void pithi_launch_parts(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel) {
    l->call->predict.parts = pithi_workspace_parts(&l->cuda->plan);
    pithi_launch_teams(l, kernel, l->cuda->plan.most_blocks * l->call->predict.parts);
    l->call->predict.parts = 1;
}

void pithi_launch_tiles(struct pithi_cuda_launches *l, enum pithi_gpu_kernel kernel) {
    if (l->status != PITH_OK) return;
    divide(l->call, l->cuda, l->items, l->cuda->plan.most, PITHI_TILE);
    l->status = pithi_cuda_launch(l->cuda, kernel, l->call, l->items, l->cuda_stream, l->error);
}

/* ---- The workspace ---------------------------------------------------------------------------*/

pith_status pithi_cuda_workspace(const struct pithi_gpu_call *a, const pith_cuda_items *items,
                                 uint64_t each, uint64_t alignment, uint64_t *frames,
                                 pith_error *error) {
    *frames = items->count * a->per_item;
    if (items->count > UINT64_MAX / each / a->per_item)
        return pithi_fail(error, PITH_ERR_ARG, "too many frames");
    const uint64_t bytes = *frames * each;
    const struct pithi_words words = {.number = {bytes}};
    if (!items->workspace || (uintptr_t)items->workspace % alignment ||
        items->workspace_bytes < bytes)
        return pithi_fail_with(error, PITH_ERR_SPACE, bytes,
                               "the call needs an aligned workspace of # bytes", &words);
    return PITH_OK;
}

/* Returns the bytes of a frame's part of the workspace that kernels of predict/ and sparse/ use;
 * those of bytes/ have theirs behind all of these. */
static uint64_t frame_bytes(const struct pithi_device_plan *t) {
    return PITHI_MARK_BYTES + pithi_workspace_bytes(t);
}
uint64_t pithi_cuda_blocks_bytes(const struct pithi_device_plan *t) {
    return frame_bytes(t) + (t->device.coded ? pithi_coding_layout(t).each : 0);
}

struct pithi_cuda_launches pithi_cuda_blocks_open(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                                  const pith_cuda_items *items, void *cuda_stream,
                                                  pith_error *error) {
    struct pithi_cuda_launches l = {c, a, items->count, cuda_stream, error, PITH_OK};
    uint64_t frames;
    l.status = pithi_cuda_workspace(a, items, pithi_cuda_blocks_bytes(&c->plan),
                                    PITHI_CUDA_ALIGNMENT, &frames, error);
    if (l.status != PITH_OK) return l;
    a->memory = PITHI_MEMORY_BLOCKS;
    a->predict.workspace = items->workspace;
    a->predict.parts = 1;
    if (c->plan.device.coded) {
        a->coding = pithi_coding_layout(&c->plan);
        a->coding.memory = a->predict.workspace + frames * frame_bytes(&c->plan);
    }
    l.status =
        pithi_cuda_clear(c, a->predict.workspace, frames * PITHI_MARK_BYTES, cuda_stream, error);
    return l;
}
