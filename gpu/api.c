/* api.c - the calls on items: check the arguments, fill in a call, launch. Those on sets are in
 * sets.c, those on pages in kv_pages.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "coded.h"
#include "items.h"
#include "kv.h"
#include "predict.h"
#include "sparse.h"

/* ---- Arguments -------------------------------------------------------------------------------*/

/* Checks the arguments that every call on items has. */
static pith_status check_call(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                              const pith_cuda_items *from, pith_cuda_items *items,
                              pith_error *error) {
    pithi_clear(error);
    pith_status status = pithi_cuda_check_stream(c, stream, "stream", error);
    if (status == PITH_OK) status = pithi_cuda_items_take(from, items, error);
    return status == PITH_OK ? pithi_cuda_items_frames(items, error) : status;
}

static pith_status check_flags(uint32_t flags, uint32_t known, pith_error *error) {
    if (!(flags & ~known)) return PITH_OK;
    return pithi_fail_at(error, PITH_ERR_ARG, "a flag that this call does not know",
                         flags & ~known);
}

/* Checks the tensor's dtype. What is added becomes f32 first, so that every codec adds to every
 * float dtype; with a base the tensor is the base. */
static pith_status check_output(const pith_cuda_plan *c, const pith_cuda_items *items, bool add,
                                pith_error *error) {
    const bool exact = c->plan.device.kind == PITHI_KIND_RAW && !add;
    if (add && pithi_cuda_has_base(&c->plan) && items->dtype != c->plan.base_dtype)
        return pithi_fail_with(
            error, PITH_ERR_DTYPE, 0, "the tensor has dtype $, the base $",
            &(struct pithi_words){
                .name = {pith_dtype_name(items->dtype), pith_dtype_name(c->plan.base_dtype)}});
    if (add && c->plan.device.kind == PITHI_KIND_RAW && c->plan.dtype > PITH_F16 &&
        !pithi_cuda_has_base(&c->plan))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "only f32, bf16 and f16 add, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(c->plan.dtype)}});
    if (items->dtype != c->plan.dtype && (!pithi_is_float16_32(items->dtype) || exact))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "the codec does not decode from $ to $",
                               &(struct pithi_words){.name = {pith_dtype_name(c->plan.dtype),
                                                              pith_dtype_name(items->dtype)}});
    return PITH_OK;
}

static pith_status check_limit(const pith_cuda_plan *c, pith_error *error) {
    const uint64_t most = c->env.max_output_bytes;
    if (!most || c->plan.most <= most / pithi_dtype_bytes(c->plan.dtype)) return PITH_OK;
    const struct pithi_words words = {.number = {c->plan.most, most}};
    return pithi_fail_with(error, PITH_ERR_LIMIT, 0,
                           "a slot of # elements is larger than max_output_bytes, #", &words);
}

/* Whether a launch must look at frames as a whole before another may write. */
static bool needs_check(const pith_cuda_plan *c) {
    return c->plan.checksums || c->plan.longest_header > PITHI_SHORT_HEADER ||
           pithi_cuda_is_coded(c);
}

/* Launches the checks of headers, checksums and, where `hash_base` is set, base hashes. Every frame
 * has its own teams. Behind it entropy-coded frames are as those of fixed rate. */
static pith_status check_first(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                               const pith_cuda_items *items, void *cuda_stream, pith_error *error) {
    const bool coded = pithi_cuda_is_coded(c), pages = pithi_cuda_is_paged(c) && !coded;
    const uint64_t work = sizeof(struct pithi_gpu_checked);
    uint64_t frames;
    pith_status status =
        pithi_cuda_workspace(a, items, coded ? pithi_cuda_coded_bytes(&c->plan) : work,
                             coded ? PITHI_CUDA_ALIGNMENT : work, &frames, error);
    if (status != PITH_OK) return status;
    a->checked = items->workspace;
    status = pithi_cuda_clear(c, items->workspace, frames * work, cuda_stream, error);
    if (status != PITH_OK) return status;
    status = pithi_cuda_launch(c, pages ? PITHI_GPU_paged_check : PITHI_GPU_check, a, frames,
                               cuda_stream, error);
    if (status != PITH_OK || !coded) return status;
    return pithi_cuda_coded_read(c, a, items, cuda_stream, error);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Whether values with a base are coded exactly, those of key frames too. */
static bool is_exact(const pith_cuda_plan *c) {
    return c->plan.device.kind == PITHI_KIND_RAW && pithi_cuda_has_base(&c->plan);
}

static enum pithi_gpu_kernel encoder(const pith_cuda_plan *c, bool key) {
    const uint32_t kind = c->plan.device.kind;
    if (is_exact(c)) return PITHI_GPU_encode_exact;
    if (key) return pithi_cuda_is_paged(c) ? PITHI_GPU_paged_encode_key : PITHI_GPU_encode_key;
    if (kind == PITHI_KIND_PAGES && pithi_cuda_has_paths(c)) return PITHI_GPU_trellis_paged_encode;
    if (kind == PITHI_KIND_PAGES && pithi_pages_strips(&c->plan))
        return PITHI_GPU_paged_encode_strips;
    if (kind == PITHI_KIND_PAGES)
        return pithi_pages_keep(&c->plan) ? PITHI_GPU_paged_encode_kept : PITHI_GPU_paged_encode;
    if (kind != PITHI_KIND_GROUPS) return PITHI_GPU_encode_raw;
    return pithi_cuda_has_paths(c) ? PITHI_GPU_trellis_encode : PITHI_GPU_encode;
}

pith_status pith_cuda_encode(const pith_cuda_plan *c, pith_cuda_stream *stream,
                             const pith_cuda_items *from, uint32_t flags, void *cuda_stream,
                             pith_error *error) {
    pith_cuda_items items;
    pith_status status = check_call(c, stream, from, &items, error);
    if (status == PITH_OK)
        status = check_flags(
            flags, PITH_KEY_FRAME | PITH_SAME_SET | PITH_HELD_SET | PITH_SAME_BLOCKS, error);
    if (status == PITH_OK)
        status = pithi_cuda_items_once(pithi_encode_depends(&c->plan), &items, error);
    if (status == PITH_OK) status = pithi_cuda_items_tensor(c, &items, error);
    if (status != PITH_OK) return status;
    if (items.dtype != c->plan.dtype)
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "the tensor has dtype $, the layout $",
                               &(struct pithi_words){.name = {pith_dtype_name(items.dtype),
                                                              pith_dtype_name(c->plan.dtype)}});
    const bool key = flags & PITH_KEY_FRAME;
    if (key && !pithi_cuda_has_base(&c->plan))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "key frames need a base");
    const uint32_t about = flags & (PITH_SAME_SET | PITH_HELD_SET | PITH_SAME_BLOCKS);
    const bool bare = flags & PITH_SAME_SET, same_blocks = flags & PITH_SAME_BLOCKS;
    if (about & (about - 1))
        return pithi_fail(error, PITH_ERR_ARG,
                          "a set goes with its indices, without, or with those of some blocks");
    if (about && !pithi_cuda_is_sparse(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec sends no sets");
    struct pithi_gpu_call a = {
        .to = pithi_cuda_side(c, stream, &items),
        .count = UINT64_MAX,
        .per_item = 1,
        .scale = 1,
        .key = key,
        .update = true,
        .sparse = {.sends = about && !same_blocks, .bare = bare, .same_blocks = same_blocks}};
    if (pithi_cuda_is_bounded(c))
        return pithi_cuda_bounded_encode(c, &a, &items, cuda_stream, error);
    if (pithi_cuda_is_sparse(c)) return pithi_cuda_sparse_encode(c, &a, &items, cuda_stream, error);
    pithi_cuda_divide(&a, c, items.count, c->plan.most);
    if (pithi_cuda_is_coded(c) && (!key || is_exact(c)))
        return pithi_cuda_coded_encode(c, encoder(c, key), &a, &items, cuda_stream, error);
    return pithi_cuda_launch(c, encoder(c, key), &a, items.count, cuda_stream, error);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static enum pithi_gpu_kernel decoder(const pith_cuda_plan *c, const struct pithi_gpu_call *a) {
    const bool copied = c->plan.device.kind == PITHI_KIND_RAW && !a->add;
    if (is_exact(c)) return PITHI_GPU_decode_exact;
    if (pithi_cuda_is_paged(c))
        return pithi_cuda_has_paths(c) ? PITHI_GPU_trellis_paged_decode : PITHI_GPU_paged_decode;
    if (pithi_cuda_has_paths(c)) return PITHI_GPU_trellis_decode;
    return copied ? PITHI_GPU_decode_raw : PITHI_GPU_decode;
}

/* Decodes. The arguments are right but for what decides where values go. */
static pith_status decode(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                          const pith_cuda_items *items, struct pithi_gpu_call *a, void *cuda_stream,
                          pith_error *error) {
    const bool moves = pithi_decode_counts(a) && pithi_cuda_has_base(&c->plan);
    pith_status status = moves ? pithi_cuda_items_once(true, items, error)
                               : pithi_cuda_items_tensor(c, items, error);
    if (status == PITH_OK && (items->tensor || items->tensors))
        status = check_output(c, items, a->add, error);
    if (status == PITH_OK) status = check_limit(c, error);
    if (status != PITH_OK) return status;
    a->from = pithi_cuda_side(c, stream, items);
    a->per_item = 1;
    a->scale = 1;
    if (pithi_cuda_is_bounded(c))
        return pithi_cuda_bounded_decode(c, a, false, items, cuda_stream, error);
    if (pithi_cuda_is_sparse(c))
        return pithi_cuda_sparse_decode(c, a, false, items, cuda_stream, error);
    pithi_cuda_divide(a, c, items->count, a->count < c->plan.most ? a->count : c->plan.most);
    a->chunks += a->first % a->span != 0; /* a range may begin inside a team's elements */
    a->hash_base = a->add && c->plan.device.base_hash;
    if (needs_check(c) || a->hash_base) status = check_first(c, a, items, cuda_stream, error);
    if (status != PITH_OK) return status;
    return pithi_cuda_launch(c, decoder(c, a), a, items->count, cuda_stream, error);
}

pith_status pith_cuda_decode(const pith_cuda_plan *c, pith_cuda_stream *stream,
                             const pith_cuda_items *from, uint32_t flags, void *cuda_stream,
                             pith_error *error) {
    pith_cuda_items items;
    struct pithi_gpu_call a = {.count = UINT64_MAX, .add = flags & PITH_ADD, .update = true};
    pith_status status = check_call(c, stream, from, &items, error);
    if (status == PITH_OK) status = check_flags(flags, PITH_ADD, error);
    return status == PITH_OK ? decode(c, stream, &items, &a, cuda_stream, error) : status;
}

pith_status pith_cuda_decode_range(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                   const pith_cuda_items *from, uint64_t first, uint64_t count,
                                   void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    struct pithi_gpu_call a = {.first = first, .count = count};
    const pith_status status = check_call(c, stream, from, &items, error);
    return status == PITH_OK ? decode(c, stream, &items, &a, cuda_stream, error) : status;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static pith_status open_sum(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                            const pith_cuda_items *from, pith_cuda_items *items, uint32_t per_item,
                            pith_error *error) {
    const pith_status status = check_call(c, stream, from, items, error);
    if (status != PITH_OK) return status;
    if (!per_item || per_item > INT32_MAX)
        return pithi_fail_at(error, PITH_ERR_ARG, "no frames to reduce, or too many", per_item);
    if (pithi_cuda_has_base(&c->plan) || c->plan.dtype > PITH_F16)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "reduce takes float frames without a base");
    if (pithi_cuda_is_coded(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "reduce takes frames of fixed rate, or of sets");
    if (pithi_cuda_is_bounded(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "codecs with a bound are not reduced on a device");
    if (pithi_cuda_is_paged(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "pages are not reduced on a device");
    return PITH_OK;
}

static struct pithi_gpu_call sum_call(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                      const pith_cuda_items *items, uint32_t per_item,
                                      float scale) {
    return (struct pithi_gpu_call){.from = pithi_cuda_side(c, stream, items),
                                   .count = UINT64_MAX,
                                   .per_item = per_item,
                                   .scale = scale == 0 ? 1 : scale,
                                   .update = true};
}

pith_status pith_cuda_reduce(const pith_cuda_plan *c, pith_cuda_stream *stream,
                             const pith_cuda_items *from, uint32_t per_item, float scale,
                             void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    pith_status status = open_sum(c, stream, from, &items, per_item, error);
    if (status == PITH_OK) status = pithi_cuda_items_tensor(c, &items, error);
    if (status != PITH_OK) return status;
    if (items.dtype == PITH_NONE || items.dtype > PITH_F16)
        return pithi_fail(error, PITH_ERR_DTYPE, "reduce writes f32, bf16 or f16");
    status = check_limit(c, error);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call a = sum_call(c, stream, &items, per_item, scale);
    if (pithi_cuda_is_sparse(c)) return pithi_cuda_sparse_reduce(c, &a, &items, cuda_stream, error);
    pithi_cuda_divide(&a, c, items.count, c->plan.most);
    if (needs_check(c)) status = check_first(c, &a, &items, cuda_stream, error);
    if (status != PITH_OK) return status;
    return pithi_cuda_launch(c,
                             pithi_cuda_has_paths(c) ? PITHI_GPU_trellis_reduce : PITHI_GPU_reduce,
                             &a, items.count, cuda_stream, error);
}

static enum pithi_gpu_kernel recoder(const pith_cuda_plan *c, const pith_cuda_plan *out) {
    if (out->plan.device.kind != PITHI_KIND_GROUPS)
        return pithi_cuda_has_paths(c) ? PITHI_GPU_trellis_recode_raw : PITHI_GPU_recode_raw;
    return pithi_cuda_has_paths(c) || pithi_cuda_has_paths(out) ? PITHI_GPU_trellis_recode
                                                                : PITHI_GPU_recode;
}

/* Opens what the sums are encoded to, and checks that item i of one plan can become item i of the
 * other: kernels check the slots' counts. */
static pith_status open_made(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                             const pith_cuda_items *items, const pith_cuda_plan *out,
                             const pith_cuda_stream *out_stream, const pith_cuda_items *to,
                             pith_cuda_items *made, pith_error *error) {
    if (!out) return pithi_cuda_null("out", error);
    pith_status status = pithi_cuda_check_stream(out, out_stream, "out_stream", error);
    if (status == PITH_OK && !to) status = pithi_cuda_null("out_items", error);
    if (status == PITH_OK) status = pithi_cuda_items_take(to, made, error);
    if (status == PITH_OK) status = pithi_cuda_items_frames(made, error);
    if (status == PITH_OK)
        status = pithi_cuda_items_once(pithi_encode_depends(&out->plan), made, error);
    if (status != PITH_OK) return status;
    if (pithi_cuda_is_coded(out))
        return pithi_fail(
            error, PITH_ERR_UNSUPPORTED,
            "sums are not recoded to entropy-coded frames on a device: reduce, then encode");
    if (pithi_cuda_has_base(&out->plan) || out->plan.dtype != PITH_F32 ||
        pithi_cuda_is_bounded(out) || pithi_cuda_is_paged(out))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "the sum is encoded by a plan of dtype f32, no base");
    const struct pithi_sets *const sets = &out->plan.device.sets;
    if (pithi_cuda_is_sparse(out) && (sets->momentum != 0 || sets->rows))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "a sum has no momentum, nor is it chosen by row");
    if (items->count != made->count || out->device != c->device)
        return pithi_fail(error, PITH_ERR_ARG, "the sides differ in items or device");
    if (stream == out_stream) return pithi_fail(error, PITH_ERR_ARG, "one stream for both sides");
    return PITH_OK;
}

pith_status pith_cuda_reduce_encode(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                    const pith_cuda_items *from, uint32_t per_item, float scale,
                                    const pith_cuda_plan *out, pith_cuda_stream *out_stream,
                                    const pith_cuda_items *to, void *cuda_stream,
                                    pith_error *error) {
    pith_cuda_items items, made;
    pith_status status = open_sum(c, stream, from, &items, per_item, error);
    if (status == PITH_OK) status = open_made(c, stream, &items, out, out_stream, to, &made, error);
    if (status == PITH_OK && pithi_cuda_is_sparse(c) != pithi_cuda_is_sparse(out))
        return pithi_fail(
            error, PITH_ERR_UNSUPPORTED,
            "on a device sums of sets are recoded to sets, and no others are: reduce, "
            "then encode");
    if (status == PITH_OK) status = check_limit(c, error);
    if (status != PITH_OK) return status;
    items.tensors = made.tensors = NULL; /* nothing looks at tensors, so they may hold anything */
    struct pithi_gpu_call a = sum_call(c, stream, &items, per_item, scale);
    a.to = pithi_cuda_side(out, out_stream, &made);
    if (pithi_cuda_is_sparse(c))
        return pithi_cuda_sparse_recode(c, &a, &items, out, &made, cuda_stream, error);
    pithi_cuda_divide(&a, c, items.count, c->plan.most);
    if (needs_check(c)) status = check_first(c, &a, &items, cuda_stream, error);
    if (status != PITH_OK) return status;
    pithi_cuda_divide(&a, out, items.count, c->plan.most);
    return pithi_cuda_launch(c, recoder(c, out), &a, items.count, cuda_stream, error);
}

/* ---- Verify ----------------------------------------------------------------------------------*/

pith_status pith_cuda_verify(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                             const pith_cuda_items *from, void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    pith_status status = check_call(c, stream, from, &items, error);
    if (status != PITH_OK) return status;
    items.tensors = NULL; /* nothing looks at tensors, so they may hold anything */
    struct pithi_gpu_call a = {.from = pithi_cuda_side(c, stream, &items),
                               .count = UINT64_MAX,
                               .per_item = 1,
                               .scale = 1,
                               .hash_base = c->plan.device.base_hash};
    if (pithi_cuda_is_bounded(c))
        return pithi_cuda_bounded_decode(c, &a, true, &items, cuda_stream, error);
    if (pithi_cuda_is_sparse(c))
        return pithi_cuda_sparse_decode(c, &a, true, &items, cuda_stream, error);
    pithi_cuda_divide(&a, c, items.count, c->plan.most);
    if (needs_check(c) || a.hash_base) status = check_first(c, &a, &items, cuda_stream, error);
    if (status != PITH_OK) return status;
    a.span = c->plan.most > PITHI_TILE ? c->plan.most : PITHI_TILE;
    a.chunks = 1;
    return pithi_cuda_launch(c, PITHI_GPU_answer, &a, items.count, cuda_stream, error);
}
