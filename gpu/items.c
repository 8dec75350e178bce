/* items.c - the arguments that calls on items share: checked, and as kernels see them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "items.h"

#include "caller.h"

pith_status pithi_cuda_aligned(const char *name, const void *array, size_t bytes,
                               pith_error *error) {
    const struct pithi_words words = {.name = {name}, .number = {bytes}};
    if ((uintptr_t)array % bytes == 0) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_ARG, bytes, "$ is not aligned to # bytes", &words);
}

static pith_status check_arrays(const pith_cuda_items *items, pith_error *error) {
    const struct {
        const char *name;
        const void *array;
        size_t bytes;
    } arrays[] = {
        {"status", items->status, sizeof *items->status},
        {"slots", items->slots, sizeof *items->slots},
        {"lengths", items->lengths, sizeof *items->lengths},
        {"tensors", items->tensors, sizeof *items->tensors},
        {"frames", items->frames, sizeof *items->frames},
    };
    pith_status status = PITH_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && status == PITH_OK; i++)
        status = pithi_cuda_aligned(arrays[i].name, arrays[i].array, arrays[i].bytes, error);
    return status;
}

pith_status pithi_cuda_items_take(const pith_cuda_items *from, pith_cuda_items *to,
                                  pith_error *error) {
    if (!from) return pithi_cuda_null("items", error);
    const pith_status status = pithi_take(to, sizeof *to, from, "the items", error);
    if (status != PITH_OK) return status;
    if (!to->count || to->count > UINT64_MAX / sizeof(struct pithi_gpu_checked))
        return pithi_fail_at(error, PITH_ERR_ARG, "a call needs items", to->count);
    if (!to->status) return pithi_cuda_null("status", error);
    return check_arrays(to, error);
}

pith_status pithi_cuda_items_frames(const pith_cuda_items *items, pith_error *error) {
    if (items->frame || items->frames) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "no frames");
}

pith_status pithi_cuda_check_stream(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                    const char *stream_name, pith_error *error) {
    if (!c) return pithi_cuda_null("cuda", error);
    if (!stream) return pithi_cuda_null(stream_name, error);
    return pithi_cuda_aligned(stream_name, stream, PITHI_CUDA_ALIGNMENT, error);
}

pith_status pithi_cuda_items_once(bool depends, const pith_cuda_items *items, pith_error *error) {
    if (!depends || items->slots || !items->same_slot || items->count == 1) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG,
                      "results depend on the stream, which takes each slot once per call");
}

pith_status pithi_cuda_items_tensor(const pith_cuda_plan *c, const pith_cuda_items *items,
                                    pith_error *error) {
    if (items->tensor || items->tensors || !c->plan.most) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "no tensor");
}

struct pithi_gpu_side pithi_cuda_side(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                      const pith_cuda_items *items) {
    return (struct pithi_gpu_side){
        .plan = c->plan,
        .plan_memory = c->device_memory,
        .stream = (struct pithi_gpu_stream *)(uintptr_t)stream,
        .items = {.count = items->count,
                  .first_slot = items->first_slot,
                  .frame_stride = items->frame_stride,
                  .capacity = items->capacity,
                  .slots = items->slots,
                  .lengths = items->lengths,
                  .tensor = items->tensor,
                  .frame = items->frame,
                  .tensors = (uint8_t *const *)items->tensors,
                  .frames = (uint8_t *const *)items->frames,
                  .status = items->status,
                  .same_slot = items->same_slot,
                  .dtype = items->dtype},
    };
}
