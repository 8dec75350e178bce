/* predict.c - calls on items of codecs with a bound: several launches each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

/* Marks and rooms, the marks all 0. */
static pith_status open_rooms(pith_cuda_plan *c, struct pithi_gpu_call *a,
                              const pith_cuda_items *items, void *stream) {
    const uint64_t each = PITHI_MARK_BYTES + pithi_room_bytes(&c->table);
    if (items->count > UINT64_MAX / each)
        return pithi_cuda_fail(&c->error, PITH_ERR_ARG, "too many frames", 0);
    const uint64_t bytes = items->count * each;
    if (!items->workspace || (uintptr_t)items->workspace % PITHI_CUDA_ALIGNMENT ||
        items->workspace_bytes < bytes)
        return pithi_cuda_fail(&c->error, PITH_ERR_SPACE, "the workspace does not suffice", bytes);
    a->rooms = items->workspace;
    return pithi_cuda_status(
        pithi_gpu_clear(c->device, a->rooms, (size_t)(items->count * PITHI_MARK_BYTES), stream),
        &c->error);
}

/* A team for every frame, or for every block of the slot that has most. */
static pith_status launch(pith_cuda_plan *c, enum pithi_gpu_kernel kernel, struct pithi_gpu_call *a,
                          uint64_t teams, const pith_cuda_items *items, void *stream) {
    a->span = PITHI_TILE;
    a->chunks = teams ? teams : 1;
    return pithi_cuda_launch(c, kernel, a, items->count, stream);
}

static bool has_rows(const pith_cuda_plan *c) { return c->table.device.kind == PITHI_DEVICE_rows; }

pith_status pithi_cuda_bounded_encode(pith_cuda_plan *c, struct pithi_gpu_call *a,
                                      const pith_cuda_items *items, void *stream) {
    const struct pithi_requested *const requested = &c->table.device.requested;
    const uint64_t blocks = c->table.most_blocks;
    const bool rows = has_rows(c);
    const bool look = requested->target == PITHI_TARGET_PWREL ||
                      (requested->target == PITHI_TARGET_REL && !(requested->range > 0));
    pith_status status = open_rooms(c, a, items, stream);
    if (status == PITH_OK && look) {
        pithi_cuda_divide(a, c, items->count, c->table.most);
        status = pithi_cuda_launch(c, PITHI_GPU_bounded_range, a, items->count, stream);
    }
    if (status == PITH_OK)
        status = launch(c, rows ? PITHI_GPU_rows_code : PITHI_GPU_bounded_code, a, blocks, items,
                        stream);
    if (status == PITH_OK) status = launch(c, PITHI_GPU_bounded_place, a, 1, items, stream);
    return status == PITH_OK ? launch(c, rows ? PITHI_GPU_rows_write : PITHI_GPU_bounded_write, a,
                                      blocks, items, stream)
                             : status;
}

pith_status pithi_cuda_bounded_decode(pith_cuda_plan *c, struct pithi_gpu_call *a, bool verify,
                                      const pith_cuda_items *items, void *stream) {
    const uint64_t blocks = c->table.most_blocks;
    const bool rows = has_rows(c);
    pith_status status = open_rooms(c, a, items, stream);
    if (status == PITH_OK) status = launch(c, PITHI_GPU_bounded_check, a, 1, items, stream);
    if (status == PITH_OK)
        status = launch(c, rows ? PITHI_GPU_rows_judge : PITHI_GPU_bounded_judge, a, blocks, items,
                        stream);
    if (status != PITH_OK) return status;
    if (verify) return launch(c, PITHI_GPU_bounded_answer, a, 1, items, stream);
    return launch(c, rows ? PITHI_GPU_rows_decode : PITHI_GPU_bounded_decode, a, blocks, items,
                  stream);
}
