/* kv_pages.c - calls on pages of codec kv without frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kv.h"

static pith_status fail(pith_cuda_plan *c, pith_status status, const char *text) {
    return pithi_cuda_fail(&c->error, status, text, 0);
}

static pith_status check_shape(pith_cuda_plan *c, const pith_view *like) {
    const struct pithi_device_plan_slot *const slot = pithi_cuda_first_slot(c);
    if (like->ndim < 2 || like->ndim > 3 || (like->ndim == 2 && slot->heads != 1) ||
        (like->ndim == 3 && like->shape[1] != slot->heads) ||
        like->shape[like->ndim - 1] != slot->dim)
        return fail(c, PITH_ERR_SHAPE, "the view's shape is not [tokens, heads, dim]");
    if (like->shape[0] != c->table.device.pages.tokens)
        return fail(c, PITH_ERR_SHAPE, "the view is not of a page of tokens");
    return PITH_OK;
}

static pith_status check_strides(pith_cuda_plan *c, const pith_view *like, bool output) {
    for (uint32_t d = 0; d < like->ndim; d++) {
        const int64_t stride = like->stride[d];
        if (like->shape[d] < 2) continue;
        if (output && stride == 0)
            return fail(c, PITH_ERR_SHAPE, "an output view has a zero stride");
        if (stride > INT64_MAX / 16 || stride < -(INT64_MAX / 16))
            return fail(c, PITH_ERR_SHAPE, "view has a stride out of range");
        if (d == like->ndim - 1 && stride != 1)
            return fail(c, PITH_ERR_UNSUPPORTED, "on a device a head's elements are neighbours");
    }
    return PITH_OK;
}

static pith_status check_pages(pith_cuda_plan *c, const pith_view *like, const void *pairs,
                               const int32_t *status, uint64_t count, bool output) {
    const struct pithi_device_plan_slot *const slot = pithi_cuda_first_slot(c);
    if (!pithi_cuda_is_paged(c) || pithi_cuda_has_base(&c->table) || c->table.slots != 1 ||
        slot->tiling.shape[1] != 1 || slot->tiling.shape[2] < c->table.device.pages.tokens ||
        !slot->blocks)
        return fail(c, PITH_ERR_UNSUPPORTED, "pages are not for this plan");
    if (!like || ((!pairs || !status) && count))
        return fail(c, PITH_ERR_ARG, "an argument is NULL");
    const bool known =
        like->dtype == PITH_F32 || like->dtype == PITH_BF16 || like->dtype == PITH_F16;
    const pith_status shape = check_shape(c, like);
    if (shape != PITH_OK) return shape;
    if (output && !known) return fail(c, PITH_ERR_DTYPE, "pages decode to f32, bf16 or f16");
    if (!output && like->dtype != c->table.dtype)
        return fail(c, PITH_ERR_DTYPE, "the view's dtype is not the layout's");
    return check_strides(c, like, output);
}

static pith_status run_pages(pith_cuda_plan *c, enum pithi_gpu_kernel kernel, const pith_view *like,
                             const pith_kv_pair *pairs, int32_t *status, uint64_t count,
                             void *stream) {
    if (!c) return PITH_ERR_ARG;
    const pith_status checked =
        check_pages(c, like, pairs, status, count, kernel == PITHI_GPU_pairs_decode);
    if (checked != PITH_OK || !count) return checked;
    const struct pithi_gpu_side side = {
        .plan = c->table,
        .table = c->device_table,
        .items = {.count = count, .status = status, .dtype = like->dtype}};
    struct pithi_gpu_call a = {
        .from = side, .to = side, .count = UINT64_MAX, .update = true, .pairs = pairs};
    a.token_stride = like->stride[0];
    a.head_stride = like->ndim == 3 ? like->stride[1] : (int64_t)like->shape[1];
    a.parts = pithi_cuda_page_parts(c, count);
    a.span = 1;
    a.chunks = a.parts;
    return pithi_cuda_launch(c, kernel, &a, count, stream);
}

pith_status pith_cuda_kv_encode_pages(pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *stream) {
    const bool kept = cuda && pithi_pages_keep(&cuda->table);
    return run_pages(cuda, kept ? PITHI_GPU_pairs_encode_kept : PITHI_GPU_pairs_encode, like, pairs,
                     status, count, stream);
}

pith_status pith_cuda_kv_decode_pages(pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *stream) {
    return run_pages(cuda, PITHI_GPU_pairs_decode, like, pairs, status, count, stream);
}
