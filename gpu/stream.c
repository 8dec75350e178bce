/* stream.c - the calls about a stream: check the arguments, launch; and its bytes on the host.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "caller.h"
#include "common/endian.h"
#include "device/sparse/stream.h"
#include "plan.h"
#include "predict.h"
#include "sparse.h"
#include "stream_format.h"

/* ---- Launches --------------------------------------------------------------------------------*/

static pith_status check(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                         pith_error *error) {
    pithi_clear(error);
    return pithi_cuda_check_stream(c, stream, "stream", error);
}

static pith_status check_base(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                              pith_error *error) {
    const pith_status status = check(c, stream, error);
    if (status != PITH_OK || pithi_cuda_has_base(&c->plan)) return status;
    return pithi_fail(error, PITH_ERR_STATE, "the plan has no base");
}

static struct pithi_gpu_call about(const pith_cuda_plan *c, const void *stream) {
    return (struct pithi_gpu_call){
        .to = {.plan = c->plan,
               .plan_memory = c->device_memory,
               .stream = (struct pithi_gpu_stream *)(uintptr_t)stream,
               .items = {.count = c->plan.slots}},
        .count = UINT64_MAX,
        .span = PITHI_TILE,
        .chunks = 1,
    };
}

static pith_status set(const pith_cuda_plan *c, struct pithi_gpu_call *a,
                       enum pithi_gpu_setting what, void *cuda_stream, pith_error *error) {
    a->change.what = what;
    return pithi_cuda_launch(c, PITHI_GPU_stream_set, a, 1, cuda_stream, error);
}

/* Launches a kernel with a thread for every slot. */
static pith_status per_slot(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                            const struct pithi_gpu_call *a, void *cuda_stream, pith_error *error) {
    return pithi_cuda_launch(c, kernel, a, (c->plan.slots + 255) / 256, cuda_stream, error);
}

/* Launches a kernel with teams for the elements of every slot. */
static pith_status over_base(const pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                             struct pithi_gpu_call *a, void *cuda_stream, pith_error *error) {
    pithi_cuda_divide_runs(a, c, c->plan.slots, c->plan.most);
    return pithi_cuda_launch(c, kernel, a, c->plan.slots, cuda_stream, error);
}

/* ---- Beginning and settings ------------------------------------------------------------------*/

static pith_status take_options(const pith_stream_options *from, struct pithi_gpu_change *to,
                                pith_error *error) {
    pith_stream_options o;
    const pith_status status = pithi_options_take(&o, from, error);
    if (status != PITH_OK) return status;
    to->random = (struct pithi_gpu_random){
        .seed = o.seed, .rng_stream = o.rng_stream, .shift = pithi_options_shift(&o)};
    to->step = o.step;
    return PITH_OK;
}

pith_status pith_cuda_stream_init(const pith_cuda_plan *c, void *memory, size_t bytes,
                                  const pith_stream_options *options, void *cuda_stream,
                                  pith_error *error) {
    struct pithi_gpu_change change = {0};
    pithi_clear(error);
    pith_status status = pithi_cuda_check_stream(c, memory, "memory", error);
    if (status == PITH_OK) status = take_options(options, &change, error);
    if (status != PITH_OK) return status;
    const uint64_t needed = pithi_cuda_stream_bytes(&c->plan);
    const struct pithi_words words = {.number = {needed, bytes}};
    if (bytes < needed)
        return pithi_fail_with(error, PITH_ERR_SPACE, needed,
                               "the stream needs # bytes of device memory, # given", &words);
    status = pithi_cuda_clear(c, memory, needed, cuda_stream, error);
    struct pithi_gpu_call a = about(c, memory);
    a.change = change;
    if (status == PITH_OK) status = per_slot(c, PITHI_GPU_stream_init, &a, cuda_stream, error);
    const bool bound = !c->plan.external || !c->plan.count;
    if (status == PITH_OK && pithi_cuda_has_base(&c->plan) && bound)
        status = over_base(c, PITHI_GPU_stream_base, &a, cuda_stream, error);
    return status;
}

pith_status pith_cuda_stream_set_step(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                      uint64_t slot, uint64_t step, void *cuda_stream,
                                      pith_error *error) {
    const pith_status status = check(c, stream, error);
    if (status != PITH_OK) return status;
    if (slot >= c->plan.slots) {
        const struct pithi_words words = {.number = {slot, c->plan.slots}};
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "slot # of a plan with #", &words);
    }
    struct pithi_gpu_call a = about(c, stream);
    a.change.slot = slot;
    a.change.step = step;
    return set(c, &a, PITHI_SET_STEP, cuda_stream, error);
}

pith_status pith_cuda_stream_set_random(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                        const pith_stream_options *options, void *cuda_stream,
                                        pith_error *error) {
    pith_status status = check(c, stream, error);
    if (status != PITH_OK) return status;
    if (!options) return pithi_cuda_null("options", error);
    struct pithi_gpu_call a = about(c, stream);
    status = take_options(options, &a.change, error);
    return status == PITH_OK ? set(c, &a, PITHI_SET_RANDOM, cuda_stream, error) : status;
}

pith_status pith_cuda_stream_rollback(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                      uint64_t step, void *cuda_stream, pith_error *error) {
    const pith_status status = check(c, stream, error);
    if (status != PITH_OK) return status;
    if (pithi_cuda_has_base(&c->plan))
        return pithi_fail(error, PITH_ERR_STATE, "a base cannot take a step back");
    struct pithi_gpu_call a = about(c, stream);
    a.change.step = step;
    return per_slot(c, PITHI_GPU_stream_rollback, &a, cuda_stream, error);
}

/* ---- Base ------------------------------------------------------------------------------------*/

pith_status pith_cuda_stream_set_base(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                      const void *base, uint32_t dtype, uint64_t step,
                                      void *cuda_stream, pith_error *error) {
    const pith_status status = check_base(c, stream, error);
    if (status != PITH_OK) return status;
    if (!base && c->plan.count) return pithi_cuda_null("base", error);
    const uint32_t own = c->plan.base_dtype;
    const bool converts = dtype != PITH_NONE && dtype <= PITH_F16 && own <= PITH_F16;
    if (dtype != own && !converts)
        return pithi_fail(error, PITH_ERR_DTYPE,
                          "the tensor's dtype does not convert to the base's");
    struct pithi_gpu_call a = about(c, stream);
    a.to.items.tensor = (uint8_t *)(uintptr_t)base;
    a.to.items.dtype = dtype;
    a.change.step = step;
    return over_base(c, PITHI_GPU_stream_base, &a, cuda_stream, error);
}

pith_status pith_cuda_stream_bind_base(const pith_cuda_plan *c, pith_cuda_stream *stream,
                                       void *base, uint64_t step, void *cuda_stream,
                                       pith_error *error) {
    pith_status status = check_base(c, stream, error);
    if (status != PITH_OK) return status;
    if (!c->plan.external)
        return pithi_fail(error, PITH_ERR_STATE, "not a stream with an external base");
    if (!base && c->plan.count) return pithi_cuda_null("base", error);
    struct pithi_gpu_call a = about(c, stream);
    a.change.base = base;
    a.change.step = step;
    status = set(c, &a, PITHI_SET_BASE, cuda_stream, error);
    if (status != PITH_OK) return status;
    return over_base(c, PITHI_GPU_stream_base, &a, cuda_stream, error);
}

void *pith_cuda_stream_base(const pith_cuda_plan *c, pith_cuda_stream *stream) {
    if (!c || !stream || !pithi_cuda_has_base(&c->plan) || c->plan.external) return NULL;
    return (uint8_t *)stream + pithi_stream_memory_at(&c->plan);
}

pith_status pith_cuda_stream_verify(const pith_cuda_plan *c, const pith_cuda_stream *stream,
                                    int32_t *status, void *cuda_stream, pith_error *error) {
    const pith_status checked = check_base(c, stream, error);
    if (checked != PITH_OK) return checked;
    if (!status) return pithi_cuda_null("status", error);
    const pith_status aligned = pithi_cuda_aligned("status", status, sizeof *status, error);
    if (aligned != PITH_OK) return aligned;
    if (!c->plan.device.base_hash)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "base_hash=off keeps no hash");
    struct pithi_gpu_call a = about(c, stream);
    a.to.items.status = status;
    return over_base(c, PITHI_GPU_stream_verify, &a, cuda_stream, error);
}

/* ---- Bytes on the host -----------------------------------------------------------------------*/

/* A conversion of a stream between its saved bytes and its bytes on the device. */
struct exchange {
    const struct pithi_device_plan *plan;
    const struct pithi_device_plan_slot *slot;
    uint8_t *saved, *bytes;   /* the stream as the host saves it, and as it lies on the device */
    uint64_t total, elements; /* bytes of saved; where its elements, of base or residual, begin */
    /* Slots have a bound in place of a hash, and counts behind them; or the steps of a controller,
     * and what else it remembers. */
    bool bounded, sparse;
};

static uint64_t element_bytes(const struct pithi_device_plan *t) {
    return pithi_cuda_has_base(t) ? pithi_dtype_bytes(t->base_dtype) : t->device.feedback ? 4 : 0;
}
/* Returns the bytes of a base or residual, and of the momentum behind it. */
static uint64_t memory_bytes(const struct pithi_device_plan *t) {
    return pithi_stream_copy(t) * element_bytes(t);
}

static struct pithi_gpu_slot_state *slot_at(const struct exchange *x, uint64_t i) {
    uint8_t *const slots = x->bytes + sizeof(struct pithi_gpu_stream);
    return (struct pithi_gpu_slot_state *)(void *)(slots + i * sizeof(struct pithi_gpu_slot_state));
}

static pith_status other_plan(pith_error *error) {
    return pithi_fail(error, PITH_ERR_MISMATCH,
                      "the stream is not of the plan that the device plan was made of");
}

static pith_status begin(const pith_cuda_plan *c, const pith_work *work, const pith_stream *host,
                         const void *bytes, uint64_t size, struct exchange *x, pith_error *error) {
    pith_sizes sizes = {.size = sizeof sizes};
    pithi_clear(error);
    if (!c) return pithi_cuda_null("cuda", error);
    if (!work) return pithi_cuda_null("work", error);
    if (!host) return pithi_cuda_null("host", error);
    if (!bytes) return pithi_cuda_null("bytes", error);
    const struct pithi_device_plan *const t = &c->plan;
    const uint64_t needed = pithi_cuda_stream_bytes(t);
    if (size < needed)
        return pithi_fail_with(error, PITH_ERR_SPACE, needed, "the stream has # bytes, not #",
                               &(struct pithi_words){.number = {needed, size}});
    *x = (struct exchange){
        .plan = t, .bounded = pithi_cuda_is_bounded(c), .sparse = pithi_cuda_is_sparse(c)};
    x->slot = (const struct pithi_device_plan_slot *)(const void *)(c->image + t->slots_at);
    const uint64_t slot = PITHI_STREAM_FORMAT_SLOT + t->saved_bytes;
    x->elements = PITHI_STREAM_FORMAT_HEAD + t->slots * slot;
    x->total = x->elements + memory_bytes(t) + PITHI_STREAM_FORMAT_TAIL;
    const pith_status status = pith_plan_sizes(pith_stream_plan(host), &sizes);
    if (status != PITH_OK || sizes.save_bytes != x->total) return other_plan(error);
    x->saved = pithi_env_alloc(&c->env, (size_t)x->total);
    if (x->saved) return PITH_OK;
    return pithi_fail_at(error, PITH_ERR_MEMORY, "no memory for the saved stream", x->total);
}

static pith_status end(const pith_cuda_plan *c, const struct exchange *x, pith_status status) {
    pithi_env_release(&c->env, x->saved, (size_t)x->total);
    return status;
}

/* Returns a status, with the error that a call with the work left. */
static pith_status answered(const pith_work *work, pith_status status, pith_error *error) {
    if (status == PITH_ERR_BUSY)
        return pithi_fail(error, status, "another call is using the work or the stream");
    if (status != PITH_OK) pithi_error_copy(error, pith_work_error(work));
    return status;
}

static pith_status save(pith_work *work, const pith_stream *host, const struct exchange *x,
                        pith_error *error) {
    size_t written;
    const pith_status status = pith_stream_save(work, host, x->saved, (size_t)x->total, &written);
    if (status != PITH_OK) return answered(work, status, error);
    if (pithi_get64(x->saved + PITHI_STREAM_FORMAT_FINGERPRINT) != x->plan->stream_fingerprint)
        return other_plan(error);
    return PITH_OK;
}

/* What a controller remembers of slot i: its steps in the slot's word, and more behind all
 * slots, here. */
static uint8_t *control_at(const struct exchange *x, uint64_t i) {
    return x->saved + PITHI_STREAM_FORMAT_HEAD + x->plan->slots * PITHI_STREAM_FORMAT_SLOT +
           i * x->plan->saved_bytes;
}

/* word: of the saved slot. */
static void take_control(const struct exchange *x, uint64_t i, uint64_t word) {
    struct pithi_gpu_chosen *const to = pithi_stream_chosen(x->plan, x->bytes) + i;
    to->control = pithi_control_load(word, control_at(x, i));
    to->before = to->control;
    to->reported = (word & PITHI_CONTROL_REPORTED) != 0;
}
/* Returns the word of the saved slot. */
static uint64_t put_control(const struct exchange *x, uint64_t i) {
    const struct pithi_gpu_chosen *const from = pithi_stream_chosen(x->plan, x->bytes) + i;
    const uint64_t word = pithi_control_save(&from->control, control_at(x, i));
    return word | (from->reported ? PITHI_CONTROL_REPORTED : 0);
}

static pith_status fill_bytes(const struct exchange *x, pith_error *error) {
    const uint8_t *const from = x->saved;
    const struct pithi_stream_head saved = pithi_stream_head_get(from);
    struct pithi_gpu_stream *const head = (struct pithi_gpu_stream *)(void *)x->bytes;
    *head = (struct pithi_gpu_stream){
        .stream_fingerprint = saved.fingerprint,
        .random = {.seed = saved.seed, .rng_stream = saved.rng_stream, .shift = saved.shift},
        .frames = saved.frames,
        .key_frames = saved.key_frames,
        .saturated = saved.saturated,
        .poisoned = saved.poisoned,
        .slots = sizeof *head,
        .memory = pithi_stream_memory_at(x->plan),
    };
    for (uint64_t i = 0; i < x->plan->slots; i++) {
        const uint8_t *const slot = from + PITHI_STREAM_FORMAT_HEAD + i * PITHI_STREAM_FORMAT_SLOT;
        const uint64_t word = pithi_get64(slot + PITHI_STREAM_FORMAT_WORD);
        if (x->bounded && word)
            return pithi_fail_with(error, PITH_ERR_UNSUPPORTED, i,
                                   "a bound was set for slot #, which devices do not know",
                                   &(struct pithi_words){.number = {i}});
        *slot_at(x, i) = (struct pithi_gpu_slot_state){
            .step = pithi_get64(slot), .base_hash = x->sparse ? 0 : word, .undone = 1};
        if (x->sparse) take_control(x, i, word);
    }
    if (!x->plan->external)
        memcpy(x->bytes + head->memory, from + x->elements, (size_t)memory_bytes(x->plan));
    return PITH_OK;
}

pith_status pith_cuda_stream_pack(const pith_cuda_plan *c, pith_work *work, const pith_stream *host,
                                  void *bytes, size_t size, pith_error *error) {
    struct exchange x = {0};
    pith_status status = begin(c, work, host, bytes, size, &x, error);
    if (status != PITH_OK) return status;
    status = save(work, host, &x, error);
    if (status != PITH_OK) return end(c, &x, status);
    memset(bytes, 0, (size_t)pithi_cuda_stream_bytes(&c->plan));
    x.bytes = bytes;
    return end(c, &x, fill_bytes(&x, error));
}

static void copy_elements(const struct exchange *x) {
    const uint64_t width = element_bytes(x->plan), memory = pithi_stream_memory_at(x->plan);
    uint8_t *const to = x->saved + x->elements;
    for (uint64_t i = 0; i < x->plan->slots && width && !x->plan->external; i++) {
        const uint64_t side = x->plan->device.feedback ? slot_at(x, i)->side & 1 : 0;
        const uint8_t *const from = x->bytes + memory + side * memory_bytes(x->plan);
        const uint64_t all = x->plan->count * width;
        for (uint64_t at = 0; at < memory_bytes(x->plan); at += all) {
            const uint64_t first = at + x->slot[i].first * width;
            memcpy(to + first, from + first, (size_t)(x->slot[i].count * width));
        }
    }
}

static pith_status fill_saved(const struct exchange *x, pith_error *error) {
    const struct pithi_gpu_stream *const head = (const struct pithi_gpu_stream *)(void *)x->bytes;
    uint8_t *const to = x->saved;
    if (head->stream_fingerprint != x->plan->stream_fingerprint)
        return pithi_fail(error, PITH_ERR_MISMATCH, "the bytes are of another plan's stream");
    memset(to, 0, (size_t)(x->plan->external ? PITHI_STREAM_FORMAT_HEAD : x->elements));
    const struct pithi_stream_head saved = {.fingerprint = head->stream_fingerprint,
                                            .slots = x->plan->slots,
                                            .seed = head->random.seed,
                                            .rng_stream = head->random.rng_stream,
                                            .shift = head->random.shift,
                                            .frames = head->frames,
                                            .key_frames = head->key_frames,
                                            .saturated = head->saturated,
                                            .poisoned = head->poisoned};
    pithi_stream_head_put(to, &saved);
    for (uint64_t i = 0; i < x->plan->slots; i++) {
        uint8_t *const slot = to + PITHI_STREAM_FORMAT_HEAD + i * PITHI_STREAM_FORMAT_SLOT;
        if (slot_at(x, i)->invalid)
            return pithi_fail_with(error, PITH_ERR_STATE, i,
                                   "the base of slot # was left half written by a failed call",
                                   &(struct pithi_words){.number = {i}});
        pithi_put64(slot, slot_at(x, i)->step);
        pithi_put64(slot + PITHI_STREAM_FORMAT_WORD,
                    x->sparse ? put_control(x, i) : slot_at(x, i)->base_hash);
    }
    copy_elements(x);
    const size_t hashed = (size_t)(x->total - PITHI_STREAM_FORMAT_TAIL);
    pithi_put64(to + hashed, XXH64(to, hashed, 0));
    return PITH_OK;
}

pith_status pith_cuda_stream_unpack(const pith_cuda_plan *c, pith_work *work, pith_stream *host,
                                    const void *bytes, size_t size, pith_error *error) {
    struct exchange x = {0};
    pith_status status = begin(c, work, host, bytes, size, &x, error);
    if (status != PITH_OK) return status;
    x.bytes = (uint8_t *)(uintptr_t)bytes;
    /* The base of the host's own stream stays where that is external. */
    if (c->plan.external) status = save(work, host, &x, error);
    if (status == PITH_OK) status = fill_saved(&x, error);
    if (status != PITH_OK) return end(c, &x, status);
    status = pith_stream_load(work, host, x.saved, (size_t)x.total);
    if (status == PITH_ERR_CHECKSUM)
        return end(c, &x,
                   pithi_fail(error, PITH_ERR_BASE, "a base is not what the bytes say of it"));
    return end(c, &x, answered(work, status, error));
}
