/* predict.c - calls on items of codecs with a bound: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

pith_status pithi_cuda_open_workspace(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error) {
    const uint64_t each = PITHI_MARK_BYTES + pithi_workspace_bytes(&c->table);
    if (items->count > UINT64_MAX / each / a->per_item)
        return pithi_fail(error, PITH_ERR_ARG, "too many frames");
    const uint64_t frames = items->count * a->per_item, bytes = frames * each;
    const struct pithi_words words = {.number = {bytes}};
    if (!items->workspace || (uintptr_t)items->workspace % PITHI_CUDA_ALIGNMENT ||
        items->workspace_bytes < bytes)
        return pithi_fail_with(error, PITH_ERR_SPACE, bytes,
                               "the call needs an aligned workspace of # bytes", &words);
    a->workspace = items->workspace;
    return pithi_cuda_clear(c, a->workspace, frames * PITHI_MARK_BYTES, cuda_stream, error);
}

/* Launches a team for every frame, or for every block of the slot that has most. */
static pith_status launch(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                          struct pithi_gpu_call *a, uint64_t teams, const pith_cuda_items *items,
                          void *cuda_stream, pith_error *error) {
    a->span = PITHI_TILE;
    a->chunks = teams ? teams : 1;
    return pithi_cuda_launch(c, kernel, a, items->count, cuda_stream, error);
}

static bool has_rows(const pith_cuda_plan *c) { return c->table.device.kind == PITHI_DEVICE_rows; }

pith_status pithi_cuda_bounded_encode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error) {
    const struct pithi_requested *const requested = &c->table.device.requested;
    const uint64_t blocks = c->table.most_blocks;
    const bool rows = has_rows(c);
    const bool look = requested->target == PITHI_TARGET_PWREL ||
                      (requested->target == PITHI_TARGET_REL && !(requested->range > 0));
    pith_status status = pithi_cuda_open_workspace(c, a, items, cuda_stream, error);
    if (status == PITH_OK && look) {
        pithi_cuda_divide(a, c, items->count, c->table.most);
        status = pithi_cuda_launch(c, PITHI_GPU_bounded_range, a, items->count, cuda_stream, error);
    }
    if (status == PITH_OK)
        status = launch(c, rows ? PITHI_GPU_rows_code : PITHI_GPU_bounded_code, a, blocks, items,
                        cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, PITHI_GPU_bounded_place, a, 1, items, cuda_stream, error);
    return status == PITH_OK ? launch(c, rows ? PITHI_GPU_rows_write : PITHI_GPU_bounded_write, a,
                                      blocks, items, cuda_stream, error)
                             : status;
}

pith_status pithi_cuda_bounded_decode(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      bool verify, const pith_cuda_items *items, void *cuda_stream,
                                      pith_error *error) {
    const uint64_t blocks = c->table.most_blocks;
    const bool rows = has_rows(c);
    pith_status status = pithi_cuda_open_workspace(c, a, items, cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, PITHI_GPU_bounded_check, a, 1, items, cuda_stream, error);
    if (status == PITH_OK)
        status = launch(c, rows ? PITHI_GPU_rows_judge : PITHI_GPU_bounded_judge, a, blocks, items,
                        cuda_stream, error);
    if (status != PITH_OK) return status;
    if (verify) return launch(c, PITHI_GPU_bounded_answer, a, 1, items, cuda_stream, error);
    return launch(c, rows ? PITHI_GPU_rows_decode : PITHI_GPU_bounded_decode, a, blocks, items,
                  cuda_stream, error);
}
