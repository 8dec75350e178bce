/* kv_pages.c - calls on pages of codec kv without frames.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kv.h"

static pith_status check_shape(const pith_cuda_plan *c, const pith_view *like, pith_error *error) {
    const struct pithi_device_plan_slot *const slot = pithi_cuda_first_slot(c);
    if (like->ndim < 2 || like->ndim > 3 || (like->ndim == 2 && slot->pages.heads != 1) ||
        (like->ndim == 3 && like->shape[1] != slot->pages.heads) ||
        like->shape[like->ndim - 1] != slot->pages.dim)
        return pithi_fail(error, PITH_ERR_SHAPE, "the view's shape is not [tokens, heads, dim]");
    if (like->shape[0] != c->plan.device.pages.tokens)
        return pithi_fail(error, PITH_ERR_SHAPE, "the view is not of a page of tokens");
    return PITH_OK;
}

static pith_status check_strides(const pith_view *like, bool output, pith_error *error) {
    for (uint32_t d = 0; d < like->ndim; d++) {
        const int64_t stride = like->stride[d];
        if (like->shape[d] < 2) continue;
        if (output && stride == 0)
            return pithi_fail(error, PITH_ERR_SHAPE, "an output view has a zero stride");
        if (stride > INT64_MAX / 16 || stride < -(INT64_MAX / 16))
            return pithi_fail(error, PITH_ERR_SHAPE, "view has a stride out of range");
        if (d == like->ndim - 1 && stride != 1)
            return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                              "on a device a head's elements are neighbours");
    }
    return PITH_OK;
}

static pith_status check_pages(const pith_cuda_plan *c, const pith_view *like, const void *pairs,
                               const int32_t *status, uint64_t count, bool output,
                               pith_error *error) {
    const struct pithi_device_plan_slot *const slot = pithi_cuda_first_slot(c);
    if (!pithi_cuda_is_paged(c) || c->plan.device.coded || pithi_cuda_has_base(&c->plan) ||
        c->plan.slots != 1 || slot->tiling.shape[1] != 1 ||
        slot->tiling.shape[2] < c->plan.device.pages.tokens || !slot->blocks)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "pages are not for this plan");
    if (!like) return pithi_cuda_null("like", error);
    if (!pairs && count) return pithi_cuda_null("pairs", error);
    if (!status && count) return pithi_cuda_null("status", error);
    pith_status checked = pithi_cuda_aligned("pairs", pairs, sizeof(void *), error);
    if (checked == PITH_OK) checked = pithi_cuda_aligned("status", status, sizeof *status, error);
    if (checked == PITH_OK) checked = check_shape(c, like, error);
    if (checked != PITH_OK) return checked;
    if (output && !pithi_is_float16_32(like->dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "pages decode to f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(like->dtype)}});
    if (!output && like->dtype != c->plan.dtype)
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "the view has dtype $, the layout $",
                               &(struct pithi_words){.name = {pith_dtype_name(like->dtype),
                                                              pith_dtype_name(c->plan.dtype)}});
    return check_strides(like, output, error);
}

static pith_status run_pages(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel, bool output,
                             const pith_view *like, const pith_kv_pair *pairs, int32_t *status,
                             uint64_t count, void *cuda_stream, pith_error *error) {
    pithi_clear(error);
    if (!c) return pithi_cuda_null("cuda", error);
    const pith_status checked = check_pages(c, like, pairs, status, count, output, error);
    if (checked != PITH_OK || !count) return checked;
    const struct pithi_gpu_side side = {
        .plan = c->plan,
        .plan_memory = c->device_memory,
        .items = {.count = count, .status = status, .dtype = like->dtype}};
    const uint32_t parts = pithi_cuda_page_parts(c, count);
    const struct pithi_gpu_call a = {
        .from = side,
        .to = side,
        .count = UINT64_MAX,
        .span = 1,
        .chunks = parts,
        .memory = PITHI_MEMORY_PAGES,
        .update = true,
        .kv = {.pairs = pairs,
               .token_stride = like->stride[0],
               .head_stride = like->ndim == 3 ? like->stride[1] : (int64_t)like->shape[1],
               .parts = parts},
    };
    return pithi_cuda_launch(c, kernel, &a, count, cuda_stream, error);
}

pith_status pith_cuda_kv_encode_pages(const pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *cuda_stream, pith_error *error) {
    const bool pages = cuda && pithi_cuda_is_paged(cuda); /* else run_pages fails */
    const bool kept = pages && pithi_pages_keep(&cuda->plan);
    const bool strips = pages && pithi_pages_strips(&cuda->plan);
    const enum pithi_gpu_kernel kernel = strips ? PITHI_GPU_pairs_encode_strips
                                         : kept ? PITHI_GPU_pairs_encode_kept
                                                : PITHI_GPU_pairs_encode;
    const bool paths = pages && pithi_cuda_has_paths(cuda);
    return run_pages(cuda, paths ? PITHI_GPU_trellis_pairs_encode : kernel, false, like, pairs,
                     status, count, cuda_stream, error);
}

pith_status pith_cuda_kv_decode_pages(const pith_cuda_plan *cuda, const pith_view *like,
                                      const pith_kv_pair *pairs, uint64_t count, int32_t *status,
                                      void *cuda_stream, pith_error *error) {
    const bool paths = cuda && pithi_cuda_has_paths(cuda);
    return run_pages(cuda, paths ? PITHI_GPU_trellis_pairs_decode : PITHI_GPU_pairs_decode, true,
                     like, pairs, status, count, cuda_stream, error);
}
