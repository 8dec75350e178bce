/* api.c - the calls on items: check the arguments, fill in a call, launch.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "device/special.h"
#include "kv.h"
#include "plan.h"
#include "predict.h"

static pith_status fail(pith_cuda_plan *c, pith_status status, const char *text) {
    return pithi_cuda_fail(&c->error, status, text, 0);
}

/* ---- Arguments -------------------------------------------------------------------------------*/

/* The caller's struct, whatever its age; see pith_env.size. */
static pith_status take_items(pith_cuda_plan *c, const pith_cuda_items *from, pith_cuda_items *to) {
    memset(to, 0, sizeof *to);
    if (!from || from->size < sizeof from->size || from->size > 4096)
        return fail(c, PITH_ERR_ARG, "items are NULL, or their size is not set");
    const uint8_t *const bytes = (const uint8_t *)from;
    for (size_t i = sizeof *to; i < from->size; i++)
        if (bytes[i]) return fail(c, PITH_ERR_UNSUPPORTED, "items of a newer pith");
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    if (!to->count || to->count > UINT64_MAX / sizeof(struct pithi_gpu_work))
        return fail(c, PITH_ERR_ARG, "a call needs items");
    if (!to->status) return fail(c, PITH_ERR_ARG, "status is NULL");
    if (!to->frame && !to->frames) return fail(c, PITH_ERR_ARG, "no frames");
    return PITH_OK;
}

static pith_status check_state(pith_cuda_plan *c, const pith_cuda_state *state, bool needed) {
    if (state && !pithi_cuda_state_bytes(&c->table))
        return fail(c, PITH_ERR_STATE, "this plan takes no state");
    if (!state && needed) return fail(c, PITH_ERR_STATE, "this call needs a state");
    if ((uintptr_t)state % PITHI_CUDA_ALIGNMENT)
        return fail(c, PITH_ERR_ARG, "the state's memory is not aligned");
    return PITH_OK;
}

/* For calls that advance it: what teams hand over is settled slot by slot, so that items of one
 * slot would mix. Slots that lie on the device are the caller's care. */
static pith_status check_advance(pith_cuda_plan *c, const pith_cuda_state *state, bool needed,
                                 const pith_cuda_items *items) {
    const pith_status status = check_state(c, state, needed);
    if (status == PITH_OK && state && !items->slots && items->same_slot && items->count > 1)
        return fail(c, PITH_ERR_ARG, "a state takes each slot once per call");
    return status;
}

/* What is added becomes f32 first, so that every codec adds to every float dtype. */
static pith_status check_output(pith_cuda_plan *c, const pith_cuda_items *items, bool add) {
    const bool known =
        items->dtype == PITH_F32 || items->dtype == PITH_BF16 || items->dtype == PITH_F16;
    const bool exact = c->table.device.kind == PITHI_DEVICE_raw && !add;
    if (items->dtype != c->table.dtype && (!known || exact))
        return fail(c, PITH_ERR_DTYPE, "the codec does not decode to the tensor's dtype");
    return PITH_OK;
}

static pith_status check_limit(pith_cuda_plan *c) {
    const uint64_t most = c->table.max_output_bytes;
    if (most && c->table.most > most / pithi_width(c->table.dtype))
        return fail(c, PITH_ERR_LIMIT, "a slot is larger than max_output_bytes");
    return PITH_OK;
}

static struct pithi_gpu_side side_of(const pith_cuda_plan *c, const pith_cuda_state *state,
                                     const pith_cuda_items *items) {
    return (struct pithi_gpu_side){
        .plan = c->table,
        .table = c->device_table,
        .state = (struct pithi_gpu_state *)(uintptr_t)state,
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

enum { WAVES = 32, TILES_MOST = 4 };

/* Few tiles a team while there are few teams; whole groups always, and whole blocks where those
 * have checksums. */
void pithi_cuda_divide_runs(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                            uint64_t elements) {
    const struct pithi_device_plan *t = &c->table;
    const uint64_t group = t->device.set.group;
    uint64_t span = group > PITHI_TILE ? group : PITHI_TILE;
    while (span < TILES_MOST * PITHI_TILE && items * (elements / span) > WAVES * c->processors)
        span *= 2;
    const uint64_t block = (uint64_t)1 << t->block_log2;
    if (t->checksums && span < block) span = block;
    a->span = span;
    a->chunks = elements / span + (elements % span != 0);
    if (!a->chunks) a->chunks = 1;
}

void pithi_cuda_divide(struct pithi_gpu_call *a, const pith_cuda_plan *c, uint64_t items,
                       uint64_t elements) {
    if (pithi_cuda_is_paged(c))
        pithi_cuda_paged_divide(a, c, items, elements);
    else
        pithi_cuda_divide_runs(a, c, items, elements);
}

/* The kernel that knows most of this call. */
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

pith_status pithi_cuda_launch(pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                              const struct pithi_gpu_call *a, uint64_t items, void *stream) {
    if (items > INT32_MAX / a->chunks)
        return fail(c, PITH_ERR_ARG, "too many items for one launch");
    return pithi_cuda_status(
        pithi_gpu_launch(c->device, special(kernel, a), a, items * a->chunks, stream), &c->error);
}

/* Whether a launch must look at frames as a whole before another may write. */
static bool needs_check(const pith_cuda_plan *c) {
    return c->table.checksums || c->table.longest_header > PITHI_SHORT_HEADER;
}

/* Headers, checksums and, where `identify` is set, identities. Every frame has teams of its own. */
static pith_status check_first(pith_cuda_plan *c, struct pithi_gpu_call *a,
                               const pith_cuda_items *items, void *stream) {
    if (items->count > UINT64_MAX / sizeof(struct pithi_gpu_work) / a->per_item)
        return fail(c, PITH_ERR_ARG, "too many frames");
    const uint64_t frames = items->count * a->per_item;
    const uint64_t bytes = frames * sizeof(struct pithi_gpu_work);
    if (!items->workspace || (uintptr_t)items->workspace % sizeof(struct pithi_gpu_work) ||
        items->workspace_bytes < bytes)
        return pithi_cuda_fail(&c->error, PITH_ERR_SPACE, "the workspace does not suffice", bytes);
    a->work = items->workspace;
    const pith_status cleared = pithi_cuda_status(
        pithi_gpu_clear(c->device, items->workspace, (size_t)bytes, stream), &c->error);
    if (cleared != PITH_OK) return cleared;
    return pithi_cuda_launch(c, pithi_cuda_is_paged(c) ? PITHI_GPU_paged_check : PITHI_GPU_check, a,
                             frames, stream);
}

/* ---- Encode ----------------------------------------------------------------------------------*/

static pith_status check_tensor(pith_cuda_plan *c, const pith_cuda_items *items) {
    if (!items->tensor && !items->tensors && c->table.most)
        return fail(c, PITH_ERR_ARG, "no tensor");
    return PITH_OK;
}

static bool draws(const pith_cuda_plan *c) { return c->table.device.set.stochastic; }

static enum pithi_gpu_kernel encoder(const pith_cuda_plan *c, bool key) {
    const uint32_t kind = c->table.device.kind;
    if (key) return pithi_cuda_is_paged(c) ? PITHI_GPU_paged_encode_key : PITHI_GPU_encode_key;
    if (kind == PITHI_DEVICE_pages)
        return pithi_pages_keep(&c->table) ? PITHI_GPU_paged_encode_kept : PITHI_GPU_paged_encode;
    return kind == PITHI_DEVICE_groups ? PITHI_GPU_encode : PITHI_GPU_encode_raw;
}

static pith_status encode(pith_cuda_plan *c, pith_cuda_state *state, const pith_cuda_items *from,
                          bool key, void *stream) {
    pith_cuda_items items;
    if (!c) return PITH_ERR_ARG;
    pith_status status = take_items(c, from, &items);
    const bool base = pithi_cuda_has_base(&c->table);
    if (status == PITH_OK)
        status = check_advance(c, state, base || c->table.device.decay || draws(c), &items);
    if (status == PITH_OK) status = check_tensor(c, &items);
    if (status == PITH_OK && items.dtype != c->table.dtype)
        status = fail(c, PITH_ERR_DTYPE, "the tensor's dtype is not the layout's");
    if (status == PITH_OK && key && !base)
        status = fail(c, PITH_ERR_UNSUPPORTED, "key frames need a base");
    if (status != PITH_OK) return status;
    struct pithi_gpu_call a = {.to = side_of(c, state, &items),
                               .count = UINT64_MAX,
                               .per_item = 1,
                               .scale = 1,
                               .key = key,
                               .update = true};
    if (pithi_cuda_is_bounded(c)) return pithi_cuda_bounded_encode(c, &a, &items, stream);
    pithi_cuda_divide(&a, c, items.count, c->table.most);
    return pithi_cuda_launch(c, encoder(c, key), &a, items.count, stream);
}

pith_status pith_cuda_encode(pith_cuda_plan *c, pith_cuda_state *state,
                             const pith_cuda_items *items, void *stream) {
    return encode(c, state, items, false, stream);
}

pith_status pith_cuda_encode_key(pith_cuda_plan *c, pith_cuda_state *state,
                                 const pith_cuda_items *items, void *stream) {
    return encode(c, state, items, true, stream);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

static enum pithi_gpu_kernel decoder(const pith_cuda_plan *c, const struct pithi_gpu_call *a) {
    const bool copied = c->table.device.kind == PITHI_DEVICE_raw && !a->add;
    if (pithi_cuda_is_paged(c)) return PITHI_GPU_paged_decode;
    return copied ? PITHI_GPU_decode_raw : PITHI_GPU_decode;
}

static pith_status decode(pith_cuda_plan *c, const pith_cuda_state *state,
                          const pith_cuda_items *from, struct pithi_gpu_call *a, void *stream) {
    pith_cuda_items items;
    pith_status status = take_items(c, from, &items);
    const bool base = pithi_cuda_has_base(&c->table);
    if (status == PITH_OK && !a->add)
        status = a->update ? check_advance(c, state, base, &items) : check_state(c, state, base);
    if (status == PITH_OK && !(base && a->update && !a->add)) status = check_tensor(c, &items);
    if (status == PITH_OK && (items.tensor || items.tensors))
        status = check_output(c, &items, a->add);
    if (status == PITH_OK) status = check_limit(c);
    if (status != PITH_OK) return status;
    a->from = side_of(c, state, &items);
    a->per_item = 1;
    a->scale = 1;
    if (pithi_cuda_is_bounded(c)) return pithi_cuda_bounded_decode(c, a, false, &items, stream);
    pithi_cuda_divide(a, c, items.count, a->count < c->table.most ? a->count : c->table.most);
    a->chunks += a->first % a->span != 0; /* a range may begin inside a team's elements */
    a->identify = a->add && c->table.device.base_hash;
    if (needs_check(c) || a->identify) status = check_first(c, a, &items, stream);
    return status == PITH_OK ? pithi_cuda_launch(c, decoder(c, a), a, items.count, stream) : status;
}

pith_status pith_cuda_decode(pith_cuda_plan *c, pith_cuda_state *state,
                             const pith_cuda_items *items, void *stream) {
    struct pithi_gpu_call a = {.count = UINT64_MAX, .update = true};
    return c ? decode(c, state, items, &a, stream) : PITH_ERR_ARG;
}

/* The tensor is the base, where there is one. */
pith_status pith_cuda_decode_add(pith_cuda_plan *c, const pith_cuda_items *items, void *stream) {
    struct pithi_gpu_call a = {.count = UINT64_MAX, .add = true, .update = true};
    if (!c) return PITH_ERR_ARG;
    if (items && pithi_cuda_has_base(&c->table) && items->dtype != c->table.base_dtype)
        return fail(c, PITH_ERR_DTYPE, "the tensor's dtype is not the base's");
    if (c->table.device.kind == PITHI_DEVICE_raw && c->table.dtype > PITH_F16)
        return fail(c, PITH_ERR_DTYPE, "only f32, bf16 and f16 add");
    return decode(c, NULL, items, &a, stream);
}

pith_status pith_cuda_decode_range(pith_cuda_plan *c, const pith_cuda_state *state,
                                   const pith_cuda_items *items, uint64_t first, uint64_t count,
                                   void *stream) {
    struct pithi_gpu_call a = {.first = first, .count = count};
    return c ? decode(c, state, items, &a, stream) : PITH_ERR_ARG;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static pith_status open_sum(pith_cuda_plan *c, pith_cuda_state *state, const pith_cuda_items *from,
                            pith_cuda_items *items, uint32_t per_item) {
    const pith_status status = take_items(c, from, items);
    if (status != PITH_OK) return status;
    if (!per_item || per_item > INT32_MAX)
        return fail(c, PITH_ERR_ARG, "no frames to reduce, or too many");
    if (pithi_cuda_has_base(&c->table) || c->table.dtype > PITH_F16)
        return fail(c, PITH_ERR_UNSUPPORTED, "reduce takes float frames without a base");
    if (pithi_cuda_is_bounded(c))
        return fail(c, PITH_ERR_UNSUPPORTED, "codecs with a bound are not reduced on a device");
    if (pithi_cuda_is_paged(c))
        return fail(c, PITH_ERR_UNSUPPORTED, "pages are not reduced on a device");
    return check_advance(c, state, false, items);
}

pith_status pith_cuda_reduce(pith_cuda_plan *c, pith_cuda_state *state, const pith_cuda_items *from,
                             uint32_t per_item, float scale, void *stream) {
    pith_cuda_items items;
    if (!c) return PITH_ERR_ARG;
    pith_status status = open_sum(c, state, from, &items, per_item);
    if (status == PITH_OK) status = check_tensor(c, &items);
    if (status == PITH_OK && (items.dtype == PITH_NONE || items.dtype > PITH_F16))
        status = fail(c, PITH_ERR_DTYPE, "reduce writes f32, bf16 or f16");
    if (status == PITH_OK) status = check_limit(c);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call a = {.from = side_of(c, state, &items),
                               .count = UINT64_MAX,
                               .per_item = per_item,
                               .scale = scale,
                               .update = true};
    pithi_cuda_divide(&a, c, items.count, c->table.most);
    if (needs_check(c)) status = check_first(c, &a, &items, stream);
    return status == PITH_OK ? pithi_cuda_launch(c, PITHI_GPU_reduce, &a, items.count, stream)
                             : status;
}

/* Whether item i of one plan can become item i of the other: kernels check the slots' counts. */
static pith_status check_pair(pith_cuda_plan *c, const pith_cuda_items *items,
                              const pith_cuda_plan *out, const pith_cuda_items *made) {
    if (pithi_cuda_has_base(&out->table) || out->table.dtype != PITH_F32 ||
        pithi_cuda_is_bounded(out) || pithi_cuda_is_paged(out))
        return fail(c, PITH_ERR_UNSUPPORTED, "the sum is encoded by a plan of dtype f32, no base");
    if (items->count != made->count || out->device != c->device)
        return fail(c, PITH_ERR_ARG, "the sides differ in items or device");
    return PITH_OK;
}

pith_status pith_cuda_reduce_encode(pith_cuda_plan *c, pith_cuda_state *state,
                                    const pith_cuda_items *from, uint32_t per_item, float scale,
                                    pith_cuda_plan *out, pith_cuda_state *out_state,
                                    const pith_cuda_items *to, void *stream) {
    pith_cuda_items items, made;
    if (!c || !out || c == out) return PITH_ERR_ARG;
    pith_status status = open_sum(c, state, from, &items, per_item);
    if (status != PITH_OK) return status;
    status = take_items(out, to, &made);
    if (status == PITH_OK)
        status = check_advance(out, out_state, out->table.device.decay || draws(out), &made);
    if (status != PITH_OK) return fail(c, status, out->error.text);
    status = check_pair(c, &items, out, &made);
    if (status == PITH_OK && state && state == out_state)
        status = fail(c, PITH_ERR_ARG, "one state for both sides");
    if (status == PITH_OK) status = check_limit(c);
    if (status != PITH_OK) return status;
    items.tensors = made.tensors = NULL; /* not looked at, so they may hold anything */
    struct pithi_gpu_call a = {.from = side_of(c, state, &items),
                               .to = side_of(out, out_state, &made),
                               .count = UINT64_MAX,
                               .per_item = per_item,
                               .scale = scale,
                               .update = true};
    pithi_cuda_divide(&a, c, items.count, c->table.most);
    const bool check = needs_check(c);
    if (check) status = check_first(c, &a, &items, stream);
    if (status != PITH_OK) return status;
    pithi_cuda_divide(&a, out, items.count, c->table.most);
    const bool groups = out->table.device.kind == PITHI_DEVICE_groups;
    return pithi_cuda_launch(c, groups ? PITHI_GPU_recode : PITHI_GPU_recode_raw, &a, items.count,
                             stream);
}

/* ---- Verify ----------------------------------------------------------------------------------*/

pith_status pith_cuda_verify(pith_cuda_plan *c, const pith_cuda_state *state,
                             const pith_cuda_items *from, void *stream) {
    pith_cuda_items items;
    if (!c) return PITH_ERR_ARG;
    pith_status status = take_items(c, from, &items);
    if (status == PITH_OK) status = check_state(c, state, false);
    if (status != PITH_OK) return status;
    items.tensors = NULL; /* not looked at, so it may hold anything */
    struct pithi_gpu_call a = {.from = side_of(c, state, &items),
                               .count = UINT64_MAX,
                               .per_item = 1,
                               .scale = 1,
                               .identify = c->table.device.base_hash};
    if (pithi_cuda_is_bounded(c)) return pithi_cuda_bounded_decode(c, &a, true, &items, stream);
    pithi_cuda_divide(&a, c, items.count, c->table.most);
    if (needs_check(c) || a.identify) status = check_first(c, &a, &items, stream);
    a.span = c->table.most > PITHI_TILE ? c->table.most : PITHI_TILE;
    a.chunks = 1;
    return status == PITH_OK ? pithi_cuda_launch(c, PITHI_GPU_answer, &a, items.count, stream)
                             : status;
}
