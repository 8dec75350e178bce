/* api.c - the calls on items: check the arguments, fill in a call, launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "coded.h"
#include "device/special.h"
#include "kv.h"
#include "plan.h"
#include "predict.h"
#include "sparse.h"

/* ---- Arguments -------------------------------------------------------------------------------*/

static pith_status take_items(const pith_cuda_items *from, pith_cuda_items *to, pith_error *error) {
    if (!from) return pithi_cuda_null("items", error);
    const pith_status status = pithi_cuda_take(to, sizeof *to, from, "items", error);
    if (status != PITH_OK) return status;
    if (!to->count || to->count > UINT64_MAX / sizeof(struct pithi_gpu_work))
        return pithi_fail_at(error, PITH_ERR_ARG, "a call needs items", to->count);
    if (!to->status) return pithi_cuda_null("status", error);
    return PITH_OK;
}

static pith_status check_frames(const pith_cuda_items *items, pith_error *error) {
    if (items->frame || items->frames) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "no frames");
}

pith_status pithi_cuda_check_stream(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                    const char *stream_name, pith_error *error) {
    const struct pithi_words words = {.name = {stream_name}};
    if (!c) return pithi_cuda_null("cuda", error);
    if (!stream) return pithi_cuda_null(stream_name, error);
    if ((uintptr_t)stream % PITHI_CUDA_ALIGNMENT)
        return pithi_fail_with(error, PITH_ERR_ARG, PITHI_CUDA_ALIGNMENT,
                               "the memory of $ is not aligned", &words);
    return PITH_OK;
}

/* Checks the arguments that every call on items has. */
static pith_status check_call(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                              const pith_cuda_items *from, pith_cuda_items *items,
                              pith_error *error) {
    pithi_clear(error);
    pith_status status = pithi_cuda_check_stream(c, stream, "stream", error);
    if (status == PITH_OK) status = take_items(from, items, error);
    return status == PITH_OK ? check_frames(items, error) : status;
}

static pith_status check_flags(uint32_t flags, uint32_t known, pith_error *error) {
    if (!(flags & ~known)) return PITH_OK;
    return pithi_fail_at(error, PITH_ERR_ARG, "a flag that this call does not know",
                         flags & ~known);
}

/* Checks that items are not all of one slot where results depend on the stream: teams of an item
 * hand over what they have slot by slot, so that items of one slot would mix. Slots that lie on the
 * device are the caller's care. */
static pith_status check_once(bool depends, const pith_cuda_items *items, pith_error *error) {
    if (!depends || items->slots || !items->same_slot || items->count == 1) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG,
                      "results depend on the stream, which takes each slot once per call");
}

static pith_status check_tensor(const pith_cuda_plan *c, const pith_cuda_items *items,
                                pith_error *error) {
    if (items->tensor || items->tensors || !c->plan.most) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "no tensor");
}

/* Checks the tensor's dtype. What is added becomes f32 first, so that every codec adds to every
 * float dtype; with a base the tensor is the base. */
static pith_status check_output(const pith_cuda_plan *c, const pith_cuda_items *items, bool add,
                                pith_error *error) {
    const bool known =
        items->dtype == PITH_F32 || items->dtype == PITH_BF16 || items->dtype == PITH_F16;
    const bool exact = c->plan.device.kind == PITHI_KIND_RAW && !add;
    if (add && pithi_cuda_has_base(&c->plan) && items->dtype != c->plan.base_dtype)
        return pithi_fail(error, PITH_ERR_DTYPE, "the tensor's dtype is not the base's");
    if (add && c->plan.device.kind == PITHI_KIND_RAW && c->plan.dtype > PITH_F16 &&
        !pithi_cuda_has_base(&c->plan))
        return pithi_fail(error, PITH_ERR_DTYPE, "only f32, bf16 and f16 add");
    if (items->dtype != c->plan.dtype && (!known || exact))
        return pithi_fail(error, PITH_ERR_DTYPE, "the codec does not decode to the tensor's dtype");
    return PITH_OK;
}

static pith_status check_limit(const pith_cuda_plan *c, pith_error *error) {
    const uint64_t most = c->env.max_output_bytes;
    if (!most || c->plan.most <= most / pithi_dtype_bytes(c->plan.dtype)) return PITH_OK;
    const struct pithi_words words = {.number = {c->plan.most, most}};
    return pithi_fail_with(error, PITH_ERR_LIMIT, 0,
                           "a slot of # elements is larger than max_output_bytes, #", &words);
}

static struct pithi_gpu_side side_of(const pith_cuda_plan *c, const pith_cuda_stream *stream,
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

/* ---- Teams -----------------------------------------------------------------------------------*/

enum { WAVES = 8, TILES_MOST = 16 };

/* Divides elements among teams: few tiles a team while there are few teams, since each opens its
 * frame for itself, which takes as long as some tiles do; but `whole` elements at least. */
static void divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                   uint64_t elements, uint64_t whole) {
    uint64_t span = PITHI_TILE;
    while (span < TILES_MOST * PITHI_TILE && items * (elements / span) > WAVES * c->processors)
        span *= 2;
    if (span < whole) span = whole;
    a->span = span;
    a->chunks = elements / span + (elements % span != 0);
    if (!a->chunks) a->chunks = 1;
}

void pithi_cuda_divide_tiles(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                             uint64_t elements) {
    divide(a, c, items, elements, PITHI_TILE);
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

/* Whether a launch must look at frames as a whole before another may write. */
static bool needs_check(const pith_cuda_plan *c) {
    return c->plan.checksums || c->plan.longest_header > PITHI_SHORT_HEADER ||
           pithi_cuda_is_coded(c);
}

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

/* Launches the checks of headers, checksums and, where `hash_base` is set, base hashes. Every frame
 * has its own teams. Behind it entropy-coded frames are as those of fixed rate. */
static pith_status check_first(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                               const pith_cuda_items *items, void *cuda_stream, pith_error *error) {
    const bool coded = pithi_cuda_is_coded(c), pages = pithi_cuda_is_paged(c) && !coded;
    const uint64_t work = sizeof(struct pithi_gpu_work);
    uint64_t frames;
    pith_status status =
        pithi_cuda_workspace(a, items, coded ? pithi_cuda_coded_bytes(&c->plan) : work,
                             coded ? PITHI_CUDA_ALIGNMENT : work, &frames, error);
    if (status != PITH_OK) return status;
    a->work = items->workspace;
    status = pithi_cuda_clear(c, items->workspace, frames * work, cuda_stream, error);
    if (status != PITH_OK) return status;
    status = pithi_cuda_launch(c, pages ? PITHI_GPU_paged_check : PITHI_GPU_check, a, frames,
                               cuda_stream, error);
    if (status != PITH_OK || !coded) return status;
    return pithi_cuda_coded_read(c, a, items, cuda_stream, error);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static bool has_paths(const pith_cuda_plan *c) {
    return c->plan.device.groups.set.codebook == PITHI_CODEBOOK_TRELLIS;
}

/* Whether values with a base are coded exactly, those of key frames too. */
static bool is_exact(const pith_cuda_plan *c) {
    return c->plan.device.kind == PITHI_KIND_RAW && pithi_cuda_has_base(&c->plan);
}

static enum pithi_gpu_kernel encoder(const pith_cuda_plan *c, bool key) {
    const uint32_t kind = c->plan.device.kind;
    if (is_exact(c)) return PITHI_GPU_encode_exact;
    if (key) return pithi_cuda_is_paged(c) ? PITHI_GPU_paged_encode_key : PITHI_GPU_encode_key;
    if (kind == PITHI_KIND_PAGES && has_paths(c)) return PITHI_GPU_trellis_paged_encode;
    if (kind == PITHI_KIND_PAGES && pithi_pages_strips(&c->plan))
        return PITHI_GPU_paged_encode_strips;
    if (kind == PITHI_KIND_PAGES)
        return pithi_pages_keep(&c->plan) ? PITHI_GPU_paged_encode_kept : PITHI_GPU_paged_encode;
    if (kind != PITHI_KIND_GROUPS) return PITHI_GPU_encode_raw;
    return has_paths(c) ? PITHI_GPU_trellis_encode : PITHI_GPU_encode;
}

pith_status pith_cuda_encode(const pith_cuda_plan *c, pith_cuda_stream *stream,
                             const pith_cuda_items *from, uint32_t flags, void *cuda_stream,
                             pith_error *error) {
    pith_cuda_items items;
    pith_status status = check_call(c, stream, from, &items, error);
    if (status == PITH_OK)
        status = check_flags(flags, PITH_KEY_FRAME | PITH_SAME_SET | PITH_HELD_SET, error);
    if (status == PITH_OK) status = check_once(pithi_encode_depends(&c->plan), &items, error);
    if (status == PITH_OK) status = check_tensor(c, &items, error);
    if (status != PITH_OK) return status;
    if (items.dtype != c->plan.dtype)
        return pithi_fail(error, PITH_ERR_DTYPE, "the tensor's dtype is not the layout's");
    const bool key = flags & PITH_KEY_FRAME;
    if (key && !pithi_cuda_has_base(&c->plan))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "key frames need a base");
    const bool bare = flags & PITH_SAME_SET, sends = flags & (PITH_SAME_SET | PITH_HELD_SET);
    if (bare && flags & PITH_HELD_SET)
        return pithi_fail(error, PITH_ERR_ARG, "a set goes with its indices or without");
    if (sends && !pithi_cuda_is_sparse(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec sends no sets");
    struct pithi_gpu_call a = {.to = side_of(c, stream, &items),
                               .count = UINT64_MAX,
                               .per_item = 1,
                               .scale = 1,
                               .key = key,
                               .update = true,
                               .sparse = {.sends = sends, .bare = bare}};
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
        return has_paths(c) ? PITHI_GPU_trellis_paged_decode : PITHI_GPU_paged_decode;
    if (has_paths(c)) return PITHI_GPU_trellis_decode;
    return copied ? PITHI_GPU_decode_raw : PITHI_GPU_decode;
}

/* Decodes. The arguments are right but for what decides where values go. */
static pith_status decode(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                          const pith_cuda_items *items, struct pithi_gpu_call *a, void *cuda_stream,
                          pith_error *error) {
    const bool moves = pithi_decode_counts(a) && pithi_cuda_has_base(&c->plan);
    pith_status status = moves ? check_once(true, items, error) : check_tensor(c, items, error);
    if (status == PITH_OK && (items->tensor || items->tensors))
        status = check_output(c, items, a->add, error);
    if (status == PITH_OK) status = check_limit(c, error);
    if (status != PITH_OK) return status;
    a->from = side_of(c, stream, items);
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
    return (struct pithi_gpu_call){.from = side_of(c, stream, items),
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
    if (status == PITH_OK) status = check_tensor(c, &items, error);
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
    return pithi_cuda_launch(c, has_paths(c) ? PITHI_GPU_trellis_reduce : PITHI_GPU_reduce, &a,
                             items.count, cuda_stream, error);
}

static enum pithi_gpu_kernel recoder(const pith_cuda_plan *c, const pith_cuda_plan *out) {
    if (out->plan.device.kind != PITHI_KIND_GROUPS)
        return has_paths(c) ? PITHI_GPU_trellis_recode_raw : PITHI_GPU_recode_raw;
    return has_paths(c) || has_paths(out) ? PITHI_GPU_trellis_recode : PITHI_GPU_recode;
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
    if (status == PITH_OK) status = take_items(to, made, error);
    if (status == PITH_OK) status = check_frames(made, error);
    if (status == PITH_OK) status = check_once(pithi_encode_depends(&out->plan), made, error);
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
    if (pithi_cuda_is_sparse(out) && pithi_control_samples(out->plan.device.sets.control))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "a controller that samples does not choose from a sum");
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
    a.to = side_of(out, out_stream, &made);
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
    struct pithi_gpu_call a = {.from = side_of(c, stream, &items),
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

/* ---- Sets ------------------------------------------------------------------------------------*/

/* Checks the arguments that calls on sets have; changes: what the slots hold, or remember. */
static pith_status open_sets(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                             const pith_cuda_items *from, bool changes, pith_cuda_items *items,
                             pith_error *error) {
    pithi_clear(error);
    const pith_status status = pithi_cuda_check_stream(c, stream, "stream", error);
    if (status != PITH_OK) return status;
    if (!pithi_cuda_is_sparse(c))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec sends no sets");
    const pith_status taken = take_items(from, items, error);
    return taken == PITH_OK ? check_once(changes, items, error) : taken;
}

static pith_status check_values(uint32_t dtype, pith_error *error) {
    if (dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16) return PITH_OK;
    return pithi_fail(error, PITH_ERR_DTYPE, "values are f32, bf16 or f16");
}

static struct pithi_gpu_call sets_call(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                       const pith_cuda_items *items) {
    return (struct pithi_gpu_call){
        .to = side_of(c, stream, items), .count = UINT64_MAX, .per_item = 1, .scale = 1};
}

pith_status pith_cuda_sparse_hold(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                  const pith_cuda_items *from, uint32_t per_item, int how,
                                  void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    pith_status status = open_sets(c, stream, from, true, &items, error);
    if (status == PITH_OK) status = check_frames(&items, error);
    if (status != PITH_OK) return status;
    if (!per_item || per_item > INT32_MAX)
        return pithi_fail_at(error, PITH_ERR_ARG, "no frames whose sets are held, or too many",
                             per_item);
    if (how != PITH_SET_UNION && how != PITH_SET_INTERSECTION)
        return pithi_fail(error, PITH_ERR_ARG, "neither union nor intersection");
    items.tensor = NULL; /* nothing looks at tensors, so they may hold anything */
    items.tensors = NULL;
    struct pithi_gpu_call a = sets_call(c, stream, &items);
    a.from = a.to;
    a.per_item = per_item;
    a.sparse.names = true;
    return pithi_cuda_sparse_hold(c, &a, how == PITH_SET_INTERSECTION && per_item > 1, &items,
                                  cuda_stream, error);
}

pith_status pith_cuda_sparse_hold_elements(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                           const pith_cuda_items *from, uint64_t run,
                                           void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    const pith_status status = open_sets(c, stream, from, true, &items, error);
    if (status != PITH_OK) return status;
    if (!run || (!items.frame && !items.frames))
        return pithi_fail(error, PITH_ERR_ARG, "no elements, or a run has none");
    items.tensor = NULL; /* nothing looks at tensors, so they may hold anything */
    items.tensors = NULL;
    struct pithi_gpu_call a = sets_call(c, stream, &items);
    a.sparse.run = run;
    return pithi_cuda_sparse_hold_elements(c, &a, &items, cuda_stream, error);
}

/* Opens a call that moves values of held sets, in either direction. */
static pith_status open_values(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                               const pith_cuda_items *from, uint32_t dtype, pith_cuda_items *items,
                               pith_error *error) {
    pith_status status = open_sets(c, stream, from, false, items, error);
    if (status == PITH_OK && !items->frame && !items->frames)
        status = pithi_fail(error, PITH_ERR_ARG, "no values");
    if (status == PITH_OK) status = check_values(dtype, error);
    if (status != PITH_OK || !(items->tensor || items->tensors)) return status;
    if (c->plan.device.sets.run > 1)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "the set is one of coefficients of a tensor");
    return check_values(items->dtype, error);
}

pith_status pith_cuda_sparse_gather(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                    const pith_cuda_items *from, uint32_t dtype, void *cuda_stream,
                                    pith_error *error) {
    pith_cuda_items items;
    const pith_status status = open_values(c, stream, from, dtype, &items, error);
    if (status != PITH_OK) return status;
    if (!items.tensor && !items.tensors && !c->plan.device.decay)
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no error feedback");
    struct pithi_gpu_call a = sets_call(c, stream, &items);
    a.sparse.dtype = dtype;
    return pithi_cuda_sparse_move(c, &a, false, &items, cuda_stream, error);
}

pith_status pith_cuda_sparse_scatter(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                     const pith_cuda_items *from, uint32_t dtype, float scale,
                                     void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    pith_status status = open_values(c, stream, from, dtype, &items, error);
    if (status == PITH_OK) status = check_once(!items.tensors, &items, error);
    if (status == PITH_OK) status = check_tensor(c, &items, error);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call a = sets_call(c, stream, &items);
    a.sparse.dtype = dtype;
    a.scale = scale;
    return pithi_cuda_sparse_move(c, &a, true, &items, cuda_stream, error);
}

/* Opens a call that looks at nothing but slots and status. */
static pith_status open_slots(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                              const pith_cuda_items *from, pith_cuda_items *items,
                              struct pithi_gpu_call *a, pith_error *error) {
    const pith_status status = open_sets(c, stream, from, true, items, error);
    if (status != PITH_OK) return status;
    items->tensor = NULL; /* nothing looks at tensors, so they may hold anything */
    items->tensors = NULL;
    *a = sets_call(c, stream, items);
    return PITH_OK;
}

pith_status pith_cuda_sparse_clear(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                   const pith_cuda_items *from, void *cuda_stream,
                                   pith_error *error) {
    pith_cuda_items items;
    struct pithi_gpu_call a;
    const pith_status status = open_slots(c, stream, from, &items, &a, error);
    if (status != PITH_OK) return status;
    if (!c->plan.device.decay)
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no error feedback");
    return pithi_cuda_sparse_clear(c, &a, &items, cuda_stream, error);
}

/* ---- What slots remember of their choice -----------------------------------------------------*/

static pith_status ask(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                       const pith_cuda_items *from, struct pithi_gpu_sparse_call about,
                       void *cuda_stream, pith_error *error) {
    pith_cuda_items items;
    struct pithi_gpu_call a;
    const pith_status status = open_slots(c, stream, from, &items, &a, error);
    if (status != PITH_OK) return status;
    if ((uintptr_t)about.requests % 8 || (uintptr_t)about.chosen % 8 || (uintptr_t)about.states % 8)
        return pithi_fail_at(error, PITH_ERR_ARG, "an array that is not aligned", 8);
    a.sparse = about;
    return pithi_cuda_sparse_slots(c, &a, &items, cuda_stream, error);
}

pith_status pith_cuda_sparse_set_request(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                         const pith_cuda_items *items,
                                         const pith_sparse_request *requests, void *cuda_stream,
                                         pith_error *error) {
    return ask(c, stream, items, (struct pithi_gpu_sparse_call){.requests = requests}, cuda_stream,
               error);
}

pith_status pith_cuda_sparse_report(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                    const pith_cuda_items *items, const uint64_t *chosen,
                                    void *cuda_stream, pith_error *error) {
    pithi_clear(error);
    if (!chosen) return pithi_cuda_null("chosen", error);
    return ask(c, stream, items, (struct pithi_gpu_sparse_call){.chosen = chosen}, cuda_stream,
               error);
}

pith_status pith_cuda_sparse_get_state(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                       const pith_cuda_items *items, pith_sparse_state *states,
                                       void *cuda_stream, pith_error *error) {
    pithi_clear(error);
    if (!states) return pithi_cuda_null("states", error);
    return ask(c, stream, items, (struct pithi_gpu_sparse_call){.states = states}, cuda_stream,
               error);
}
