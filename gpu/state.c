/* state.c - the calls about a state: check the arguments, launch; and its bytes on the host.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/endian.h"
#include "plan.h"
#include "state_format.h"

static pith_status fail(pith_cuda_plan *c, pith_status status, const char *text) {
    return pithi_cuda_fail(&c->error, status, text, 0);
}

/* ---- Launches --------------------------------------------------------------------------------*/

static pith_status require(pith_cuda_plan *c, const pith_cuda_state *state) {
    if (!c) return PITH_ERR_ARG;
    if (!state) return fail(c, PITH_ERR_STATE, "the state is NULL");
    if (!pithi_cuda_state_bytes(&c->table))
        return fail(c, PITH_ERR_STATE, "this plan takes no state");
    if ((uintptr_t)state % PITHI_CUDA_ALIGNMENT)
        return fail(c, PITH_ERR_ARG, "the state's memory is not aligned");
    return PITH_OK;
}

static pith_status require_base(pith_cuda_plan *c, const pith_cuda_state *state) {
    const pith_status status = require(c, state);
    if (status != PITH_OK || pithi_cuda_has_base(&c->table)) return status;
    return fail(c, PITH_ERR_STATE, "the plan has no base");
}

static struct pithi_gpu_call about(const pith_cuda_plan *c, const void *state) {
    return (struct pithi_gpu_call){
        .to = {.plan = c->table,
               .table = c->device_table,
               .state = (struct pithi_gpu_state *)(uintptr_t)state,
               .items = {.count = c->table.slots}},
        .count = UINT64_MAX,
        .span = PITHI_TILE,
        .chunks = 1,
    };
}

static pith_status set(pith_cuda_plan *c, struct pithi_gpu_call *a, enum pithi_gpu_setting what,
                       void *stream) {
    a->what = what;
    return pithi_cuda_launch(c, PITHI_GPU_state_set, a, 1, stream);
}

/* A thread a slot. */
static pith_status per_slot(pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                            const struct pithi_gpu_call *a, void *stream) {
    return pithi_cuda_launch(c, kernel, a, (c->table.slots + 255) / 256, stream);
}

/* Teams for every slot. */
static pith_status over_base(pith_cuda_plan *c, enum pithi_gpu_kernel kernel,
                             struct pithi_gpu_call *a, void *stream) {
    pithi_cuda_divide_runs(a, c, c->table.slots, c->table.most);
    return pithi_cuda_launch(c, kernel, a, c->table.slots, stream);
}

/* ---- Beginning and settings ------------------------------------------------------------------*/

pith_status pith_cuda_state_init(pith_cuda_plan *c, void *memory, size_t bytes, void *stream) {
    if (!c) return PITH_ERR_ARG;
    const uint64_t needed = pithi_cuda_state_bytes(&c->table);
    if (!needed) return fail(c, PITH_ERR_UNSUPPORTED, "this plan keeps no state");
    if (!memory || bytes < needed)
        return pithi_cuda_fail(&c->error, PITH_ERR_SPACE, "too little memory for the state",
                               needed);
    if ((uintptr_t)memory % PITHI_CUDA_ALIGNMENT)
        return fail(c, PITH_ERR_ARG, "the state's memory is not aligned");
    pith_status status =
        pithi_cuda_status(pithi_gpu_clear(c->device, memory, (size_t)needed, stream), &c->error);
    struct pithi_gpu_call a = about(c, memory);
    if (status == PITH_OK) status = per_slot(c, PITHI_GPU_state_init, &a, stream);
    const bool bound = !c->table.external || !c->table.count;
    if (status == PITH_OK && pithi_cuda_has_base(&c->table) && bound)
        status = over_base(c, PITHI_GPU_state_base, &a, stream);
    return status;
}

pith_status pith_cuda_state_set_random(pith_cuda_plan *c, pith_cuda_state *state, uint64_t seed,
                                       uint32_t stream_id, uint64_t step, void *stream) {
    const pith_status status = require(c, state);
    if (status != PITH_OK) return status;
    struct pithi_gpu_call a = about(c, state);
    a.random = (struct pithi_random){.seed = seed, .step = step, .stream = stream_id};
    return set(c, &a, PITHI_SET_RANDOM, stream);
}

pith_status pith_cuda_state_set_ranks(pith_cuda_plan *c, pith_cuda_state *state, uint32_t rank,
                                      uint32_t ranks, void *stream) {
    const pith_status status = require(c, state);
    if (status != PITH_OK) return status;
    if (rank >= ranks || ranks > 65536)
        return fail(c, PITH_ERR_ARG, "rank is not below ranks, or there are more than 65536");
    struct pithi_gpu_call a = about(c, state);
    a.random.shift = (uint16_t)((uint64_t)rank * 65536 / ranks);
    return set(c, &a, PITHI_SET_RANKS, stream);
}

pith_status pith_cuda_state_next_step(pith_cuda_plan *c, pith_cuda_state *state, void *stream) {
    const pith_status status = require(c, state);
    if (status != PITH_OK) return status;
    if (pithi_cuda_has_base(&c->table))
        return fail(c, PITH_ERR_STATE, "a base has a step per slot");
    struct pithi_gpu_call a = about(c, state);
    return set(c, &a, PITHI_SET_NEXT, stream);
}

pith_status pith_cuda_state_rollback(pith_cuda_plan *c, pith_cuda_state *state, uint64_t step,
                                     void *stream) {
    const pith_status status = require(c, state);
    if (status != PITH_OK) return status;
    if (pithi_cuda_has_base(&c->table))
        return fail(c, PITH_ERR_STATE, "a base cannot take a step back");
    struct pithi_gpu_call a = about(c, state);
    a.step = step;
    if (!c->table.device.decay) return PITH_OK;
    return per_slot(c, PITHI_GPU_state_skip, &a, stream);
}

/* ---- Base ------------------------------------------------------------------------------------*/

pith_status pith_cuda_state_set_base(pith_cuda_plan *c, pith_cuda_state *state, const void *base,
                                     uint32_t dtype, uint64_t step, void *stream) {
    const pith_status status = require_base(c, state);
    if (status != PITH_OK) return status;
    if (!base && c->table.count) return fail(c, PITH_ERR_ARG, "base is NULL");
    if (dtype != PITH_F32 && dtype != PITH_BF16 && dtype != PITH_F16)
        return fail(c, PITH_ERR_DTYPE, "the tensor's dtype does not convert to the base's");
    struct pithi_gpu_call a = about(c, state);
    a.to.items.tensor = (uint8_t *)(uintptr_t)base;
    a.to.items.dtype = dtype;
    a.step = step;
    return over_base(c, PITHI_GPU_state_base, &a, stream);
}

pith_status pith_cuda_state_bind_base(pith_cuda_plan *c, pith_cuda_state *state, void *base,
                                      uint64_t step, void *stream) {
    pith_status status = require_base(c, state);
    if (status != PITH_OK) return status;
    if (!c->table.external) return fail(c, PITH_ERR_STATE, "not a state with an external base");
    if (!base && c->table.count) return fail(c, PITH_ERR_ARG, "base is NULL");
    struct pithi_gpu_call a = about(c, state);
    a.base = base;
    a.step = step;
    status = set(c, &a, PITHI_SET_BASE, stream);
    return status == PITH_OK ? over_base(c, PITHI_GPU_state_base, &a, stream) : status;
}

void *pith_cuda_state_base(const pith_cuda_plan *c, pith_cuda_state *state) {
    if (!c || !state || !pithi_cuda_has_base(&c->table) || c->table.external) return NULL;
    return (uint8_t *)state + pithi_state_memory_at(&c->table);
}

pith_status pith_cuda_state_verify(pith_cuda_plan *c, const pith_cuda_state *state, int32_t *status,
                                   void *stream) {
    const pith_status required = require_base(c, state);
    if (required != PITH_OK) return required;
    if (!status) return fail(c, PITH_ERR_ARG, "status is NULL");
    if (!c->table.device.base_hash)
        return fail(c, PITH_ERR_UNSUPPORTED, "base_hash=off keeps no identity");
    struct pithi_gpu_call a = about(c, state);
    a.to.items.status = status;
    return over_base(c, PITHI_GPU_state_verify, &a, stream);
}

/* ---- Bytes on the host -----------------------------------------------------------------------*/

static const uint8_t magic[8] = PITHI_STATE_FORMAT_MAGIC;

/* A conversion under way. */
struct exchange {
    const struct pithi_device_plan *table;
    const struct pithi_device_plan_slot *slot;
    uint8_t *saved, *bytes;   /* as the host saves it, and as it lies on the device */
    uint64_t total, elements; /* bytes of saved; where its base or residual begins */
};

static uint64_t element_bytes(const struct pithi_device_plan *t) {
    return pithi_cuda_has_base(t) ? pithi_width(t->base_dtype) : t->device.decay ? 4 : 0;
}

static struct pithi_gpu_slot_state *slot_at(const struct exchange *x, uint64_t i) {
    uint8_t *const slots = x->bytes + sizeof(struct pithi_gpu_state);
    return (struct pithi_gpu_slot_state *)(void *)(slots + i * sizeof(struct pithi_gpu_slot_state));
}

static pith_status begin(pith_cuda_plan *c, pith_plan *plan, uint64_t size, struct exchange *x) {
    pith_sizes sizes;
    const struct pithi_device_plan *const t = &c->table;
    if (!pithi_cuda_has_base(t) && !t->device.counts)
        return fail(c, PITH_ERR_UNSUPPORTED, "the host keeps no state for this plan");
    if (size < pithi_cuda_state_bytes(t))
        return pithi_cuda_fail(&c->error, PITH_ERR_SPACE, "fewer bytes than the state has",
                               pithi_cuda_state_bytes(t));
    pith_plan_sizes(plan, &sizes);
    x->table = t;
    x->slot = (const struct pithi_device_plan_slot *)(const void *)(c->image + t->slots_at);
    x->elements = PITHI_STATE_FORMAT_HEAD + t->slots * PITHI_STATE_FORMAT_SLOT;
    x->total = x->elements + t->count * element_bytes(t) + PITHI_STATE_FORMAT_TAIL;
    if (sizes.save_bytes != x->total)
        return fail(c, PITH_ERR_MISMATCH, "the plan is not the one the device plan was made of");
    x->saved = pithi_cuda_take(&c->env, (size_t)x->total);
    return x->saved ? PITH_OK : pithi_cuda_fail(&c->error, PITH_ERR_MEMORY, "no memory", x->total);
}

static pith_status save(pith_cuda_plan *c, pith_plan *plan, const pith_state *host,
                        const struct exchange *x) {
    size_t written;
    const pith_status status = pith_state_save(plan, host, x->saved, (size_t)x->total, &written);
    if (status != PITH_OK) return fail(c, status, pith_plan_error(plan).text);
    if (pithi_get64(x->saved + PITHI_STATE_FORMAT_FINGERPRINT) != x->table->fingerprint)
        return fail(c, PITH_ERR_MISMATCH, "the plan is not the one the device plan was made of");
    return PITH_OK;
}

static void fill_bytes(const struct exchange *x) {
    const uint8_t *const from = x->saved;
    struct pithi_gpu_state *const head = (struct pithi_gpu_state *)(void *)x->bytes;
    *head = (struct pithi_gpu_state){
        .fingerprint = x->table->fingerprint,
        .seed = pithi_get64(from + PITHI_STATE_FORMAT_SEED),
        .stream = (uint32_t)pithi_get64(from + PITHI_STATE_FORMAT_STREAM),
        .frames = pithi_get64(from + PITHI_STATE_FORMAT_STATS),
        .key_frames = pithi_get64(from + PITHI_STATE_FORMAT_STATS + 8),
        .saturated = pithi_get64(from + PITHI_STATE_FORMAT_STATS + 16),
        .poisoned = pithi_get64(from + PITHI_STATE_FORMAT_STATS + 24),
        .slots = sizeof *head,
        .memory = pithi_state_memory_at(x->table),
    };
    for (uint64_t i = 0; i < x->table->slots; i++) {
        const uint8_t *const slot = from + PITHI_STATE_FORMAT_HEAD + i * PITHI_STATE_FORMAT_SLOT;
        *slot_at(x, i) = (struct pithi_gpu_slot_state){
            .step = pithi_get64(slot), .base_hash = pithi_get64(slot + 8), .undone = 1};
    }
    const uint64_t elements = x->table->count * element_bytes(x->table);
    if (!x->table->external) memcpy(x->bytes + head->memory, from + x->elements, (size_t)elements);
}

pith_status pith_cuda_state_pack(pith_cuda_plan *c, pith_plan *plan, const pith_state *host,
                                 void *bytes, size_t size) {
    struct exchange x = {0};
    if (!c || !plan || !bytes) return PITH_ERR_ARG;
    pith_status status = begin(c, plan, size, &x);
    if (status == PITH_OK) status = save(c, plan, host, &x);
    const size_t needed = (size_t)pithi_cuda_state_bytes(&c->table);
    if (status == PITH_OK) {
        memset(bytes, 0, needed);
        x.bytes = bytes;
        fill_bytes(&x);
    }
    pithi_cuda_give(&c->env, x.saved, (size_t)x.total);
    return status;
}

static void copy_elements(const struct exchange *x) {
    const uint64_t width = element_bytes(x->table), memory = pithi_state_memory_at(x->table);
    uint8_t *const to = x->saved + x->elements;
    for (uint64_t i = 0; i < x->table->slots && width && !x->table->external; i++) {
        const uint64_t side = x->table->device.decay ? slot_at(x, i)->side & 1 : 0;
        const uint64_t first = x->slot[i].first * width;
        memcpy(to + first, x->bytes + memory + side * x->table->count * width + first,
               (size_t)(x->slot[i].count * width));
    }
}

static pith_status fill_saved(pith_cuda_plan *c, const struct exchange *x) {
    const struct pithi_gpu_state *const head = (const struct pithi_gpu_state *)(void *)x->bytes;
    uint8_t *const to = x->saved;
    if (head->fingerprint != x->table->fingerprint)
        return fail(c, PITH_ERR_MISMATCH, "the bytes are of another plan's state");
    memset(to, 0, PITHI_STATE_FORMAT_HEAD);
    memcpy(to, magic, sizeof magic);
    pithi_put64(to + PITHI_STATE_FORMAT_FINGERPRINT, head->fingerprint);
    pithi_put64(to + PITHI_STATE_FORMAT_SLOTS, x->table->slots);
    pithi_put64(to + PITHI_STATE_FORMAT_SEED, head->seed);
    pithi_put64(to + PITHI_STATE_FORMAT_STREAM, head->stream);
    pithi_put64(to + PITHI_STATE_FORMAT_STATS, head->frames);
    pithi_put64(to + PITHI_STATE_FORMAT_STATS + 8, head->key_frames);
    pithi_put64(to + PITHI_STATE_FORMAT_STATS + 16, head->saturated);
    pithi_put64(to + PITHI_STATE_FORMAT_STATS + 24, head->poisoned);
    for (uint64_t i = 0; i < x->table->slots; i++) {
        uint8_t *const slot = to + PITHI_STATE_FORMAT_HEAD + i * PITHI_STATE_FORMAT_SLOT;
        if (slot_at(x, i)->invalid)
            return fail(c, PITH_ERR_STATE, "the base was left half written by a failed call");
        pithi_put64(slot, slot_at(x, i)->step);
        pithi_put64(slot + 8, slot_at(x, i)->base_hash);
    }
    copy_elements(x);
    const size_t hashed = (size_t)(x->total - PITHI_STATE_FORMAT_TAIL);
    pithi_put64(to + hashed, XXH64(to, hashed, 0));
    return PITH_OK;
}

pith_status pith_cuda_state_unpack(pith_cuda_plan *c, pith_plan *plan, const void *bytes,
                                   size_t size, pith_state *host) {
    struct exchange x = {0};
    if (!c || !plan || !bytes) return PITH_ERR_ARG;
    pith_status status = begin(c, plan, size, &x);
    x.bytes = (uint8_t *)(uintptr_t)bytes;
    /* The base of the host's own state stays where that is external. */
    if (status == PITH_OK && c->table.external) status = save(c, plan, host, &x);
    if (status == PITH_OK) status = fill_saved(c, &x);
    if (status == PITH_OK) {
        status = pith_state_load(plan, host, x.saved, (size_t)x.total);
        if (status == PITH_ERR_CHECKSUM) status = PITH_ERR_BASE;
        if (status != PITH_OK) status = fail(c, status, pith_plan_error(plan).text);
    }
    pithi_cuda_give(&c->env, x.saved, (size_t)x.total);
    return status;
}
