/* plan.c - parse, check, size and allocate: everything that can be known before data exists.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bytes/entropy.h"
#include "common/convert.h"
#include "common/decimal.h"
#include "common/endian.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "frame_bound.h"
#include "kv/cache.h"
#include "spec.h"
#include "state.h"

/* ---- Caller's structs ------------------------------------------------------------------------*/

pith_status pithi_take(void *dst, size_t size, const void *src, pith_error *error) {
    memset(dst, 0, size);
    if (!src) return PITH_OK;
    size_t given;
    memcpy(&given, src, sizeof given);
    if (given < sizeof given || given > 4096)
        return pithi_fail(error, PITH_ERR_ARG, "a struct's size field is not set");
    for (size_t i = size; i < given; i++)
        if (((const uint8_t *)src)[i])
            return pithi_fail(error, PITH_ERR_UNSUPPORTED, "a struct has fields of a newer pith");
    memcpy(dst, src, given < size ? given : size);
    return PITH_OK;
}

void *pithi_env_alloc(const pith_env *env, size_t bytes) {
    if (env->alloc) return env->alloc(env->alloc_user, bytes, 64);
    return aligned_alloc(64, (size_t)pithi_pad64(bytes));
}

void pithi_env_release(const pith_env *env, void *memory, size_t bytes) {
    if (env->alloc)
        env->release(env->alloc_user, memory, bytes);
    else
        free(memory);
}

pith_status pithi_env_take(pith_env *dst, const pith_env *src, pith_error *error) {
    PITHI_TRY(pithi_take(dst, sizeof *dst, src, error));
    if (!dst->alloc == !dst->release) return PITH_OK;
    return pithi_fail(error, PITH_ERR_ARG, "alloc and release come together");
}

static pith_status take_env(pith_plan *p, const pith_env *env, pith_error *error) {
    PITHI_TRY(pithi_env_take(&p->env, env, error));
    if (p->env.threads > PITHI_THREADS_MAX)
        return pithi_fail(error, PITH_ERR_ARG, "threads is above 1024");
#ifndef PITHI_OPENMP
    if (p->env.threads > 1 && !p->env.run)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "this build has no OpenMP");
#endif
    p->workers = p->env.threads ? p->env.threads : 1;
    pithi_kernels_bind(&p->kernels, pithi_cpu_select(p->env.cpu_mask));
    return PITH_OK;
}

/* ---- Layout ----------------------------------------------------------------------------------*/

static pith_status take_shape(pith_plan *p, const pith_layout *l, pith_error *error) {
    if (l->ndim > PITH_MAX_NDIM) return pithi_fail(error, PITH_ERR_SHAPE, "too many dimensions");
    p->ndim = l->ndim;
    p->count = 1;
    memcpy(p->shape, l->shape, sizeof p->shape);
    /* Every partial product, as frames demand, also where a later extent is 0. */
    for (uint32_t d = 0; d < l->ndim; d++)
        if (!pithi_multiply(p->count, l->shape[d], &p->count) || p->count > INT64_MAX / 8)
            return pithi_fail(error, PITH_ERR_SHAPE, "the tensor is too large");
    return PITH_OK;
}

static pith_status take_slots(pith_plan *p, const pith_layout *l, pith_error *error) {
    p->slots = l->slots ? l->slots : 1;
    p->one_frame = p->slots == 1 && !l->slot_counts;
    if (p->slots > (UINT64_C(1) << 32)) return pithi_fail(error, PITH_ERR_ARG, "too many slots");
    if (l->slot_counts) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < p->slots; i++) {
            if (l->slot_counts[i] > p->count - sum)
                return pithi_fail(error, PITH_ERR_SHAPE, "the slots hold more than the tensor");
            sum += l->slot_counts[i];
            if (l->slot_counts[i] > p->slot_count) p->slot_count = l->slot_counts[i];
        }
        if (sum == p->count) return PITH_OK;
        return pithi_fail(error, PITH_ERR_SHAPE, "the slots hold less than the tensor");
    }
    p->slot_count =
        l->slot_count ? l->slot_count : p->count / p->slots + (p->count % p->slots != 0);
    if (p->slot_count > p->count) p->slot_count = p->count;
    uint64_t room;
    if (pithi_multiply(p->slot_count, p->slots, &room) && room < p->count)
        return pithi_fail(error, PITH_ERR_SHAPE, "the slots hold less than the tensor");
    return PITH_OK;
}

static pith_status take_dtypes(pith_plan *p, const pith_layout *l, pith_error *error) {
    struct pithi_params *q = &p->params;
    q->dtype = l->dtype;
    q->base_dtype = l->base_dtype;
    if (q->dtype > 31 || !(q->codec->dtypes >> q->dtype & 1))
        return pithi_fail(error, PITH_ERR_DTYPE, "the codec does not take this dtype");
    if (q->base_dtype != PITH_NONE && !pith_dtype_bytes(q->base_dtype))
        return pithi_fail(error, PITH_ERR_DTYPE, "unknown base dtype");
    const char *detail = "";
    const pith_status status = q->codec->check(q, &detail);
    return status == PITH_OK ? PITH_OK : pithi_fail(error, status, detail);
}

static pith_exempt exempt_at(const void *from, size_t i) { return ((const pith_exempt *)from)[i]; }

static struct pithi_exempt_source layout_exempt(const pith_layout *l) {
    return (struct pithi_exempt_source){l->exempt, l->exempt_count, exempt_at};
}

static pith_status check_exempt(const pith_plan *p, const struct pithi_exempt_source *source,
                                pith_error *error) {
    uint64_t bytes;
    if (!source->count) return PITH_OK;
    if (!(p->params.codec->traits & PITH_TRAIT_EXEMPT))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "the codec has no exempt elements");
    if (!source->from || source->count > PITH_EXEMPT_MAX ||
        !pithi_exempt_build(NULL, source, p->params.dtype, p->count, &bytes))
        return pithi_fail(error, PITH_ERR_ARG, "bad exempt ranges");
    if (pithi_sections_bytes(false, false, source->count, p->source_bytes) > PITHI_SECTIONS_MAX)
        return pithi_fail(error, PITH_ERR_ARG, "exempt ranges and source are too long together");
    return PITH_OK;
}

/* block=whole: the smallest power of two that holds the largest slot. */
static pith_status take_block(pith_plan *p, pith_error *error) {
    uint32_t block = 1u << PITHI_BLOCK_LOG2_MIN;
    if (p->params.block) return PITH_OK;
    if (p->slot_count > 1u << PITHI_BLOCK_LOG2_MAX)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "block=whole takes at most 16777216 elements");
    while (block < p->slot_count) block *= 2;
    pithi_params_set_block(&p->params, block);
    return PITH_OK;
}

static pith_status take_tiles(pith_plan *p, uint32_t ndim, const uint64_t *shape,
                              pith_error *error) {
    struct pithi_tiling t;
    struct pithi_params q = p->params;
    if (q.codec->pages) q.codec->resolve(&q, ndim, shape);
    const char *const refused = q.codec->tile(&q, ndim, shape, &t);
    if (refused) return pithi_fail(error, PITH_ERR_SHAPE, refused);
    if (t.tiles > p->blocks) p->blocks = t.tiles;
    if (!t.tiles) return PITH_OK;
    const struct pithi_tile first = pithi_tile_at(&t, 0); /* none is larger */
    if (first.count <= p->params.most) return PITH_OK;
    p->params = q; /* the rows of the largest block */
    p->params.most = (uint32_t)first.count;
    memcpy(p->params.extent, first.extent, sizeof first.extent);
    return PITH_OK;
}

/* The most blocks of a frame, the largest of them, and whether the codec takes the shape of
 * each. */
static pith_status take_blocks(pith_plan *p, const pith_layout *l, pith_error *error) {
    const uint64_t tail = p->slot_count ? p->count % p->slot_count : 0;
    if (!p->params.codec->tile) {
        p->blocks = p->slot_count / p->params.block + 1;
        if (p->slot_count < p->params.block) p->params.most = (uint32_t)p->slot_count;
        return PITH_OK;
    }
    p->params.most = 0;
    if (p->one_frame) return take_tiles(p, p->ndim, p->shape, error);
    for (uint64_t i = 0; l->slot_counts && i < p->slots; i++)
        PITHI_TRY(take_tiles(p, 1, &l->slot_counts[i], error));
    if (l->slot_counts) return PITH_OK;
    PITHI_TRY(take_tiles(p, 1, &p->slot_count, error));
    return take_tiles(p, 1, &tail, error);
}

static pith_status take_layout(pith_plan *p, const pith_layout *l, pith_error *error) {
    if (l->flags & ~(uint32_t)(PITH_LAYOUT_CHECKSUMS | PITH_LAYOUT_EXTERNAL_BASE |
                               PITH_LAYOUT_CHECK_BASE | PITH_LAYOUT_TRUST_BASE))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "unknown layout flags");
    if (l->flags & PITH_LAYOUT_CHECK_BASE && l->flags & PITH_LAYOUT_TRUST_BASE)
        return pithi_fail(error, PITH_ERR_ARG, "a base is checked or trusted, not both");
    if (l->flags & PITH_LAYOUT_TRUST_BASE && !(l->flags & PITH_LAYOUT_EXTERNAL_BASE))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "only an external base is to be trusted");
    if (l->flags & PITH_LAYOUT_CHECK_BASE &&
        (l->base_dtype == PITH_NONE || !p->params.memory.base_hash))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "no base with an identity to check");
    if (l->source_bytes > PITH_SOURCE_MAX || (l->source_bytes && !l->source))
        return pithi_fail(error, PITH_ERR_ARG, "bad source");
    p->flags = l->flags;
    p->source = l->source;
    p->source_bytes = l->source_bytes;
    PITHI_TRY(take_dtypes(p, l, error));
    PITHI_TRY(take_shape(p, l, error));
    PITHI_TRY(take_slots(p, l, error));
    PITHI_TRY(take_block(p, error));
    if (p->params.codec->resolve) p->params.codec->resolve(&p->params, p->ndim, p->shape);
    return take_blocks(p, l, error);
}

/* ---- Frames of a plan ------------------------------------------------------------------------*/

static struct pithi_frame make_frame(const pith_plan *p, uint64_t slot, bool key) {
    struct pithi_frame f = {.params = p->params, .count = pithi_slot_count(p, slot)};
    f.params.key_frame = key;
    f.checksums = p->flags & PITH_LAYOUT_CHECKSUMS;
    f.has_stream = p->params.base_dtype != PITH_NONE;
    f.has_base_hash = f.has_stream && p->params.memory.base_hash;
    f.ndim = p->one_frame ? p->ndim : 1;
    if (p->one_frame)
        memcpy(f.shape, p->shape, sizeof f.shape);
    else
        f.shape[0] = f.count;
    f.source = p->source;
    f.source_bytes = p->source_bytes;
    if (p->params.codec->pages) p->params.codec->resolve(&f.params, f.ndim, f.shape);
    if (p->params.codec->tile) p->params.codec->tile(&f.params, f.ndim, f.shape, &f.tiling);
    if (p->exempt.count) pithi_frame_set_exempt(&f, &p->exempt, pithi_slot_first(p, slot));
    pithi_frame_size(&f);
    return f;
}

void pithi_plan_frame(const pith_plan *p, uint64_t slot, bool key, struct pithi_frame *f) {
    if (p->has_forms && pithi_slot_count(p, slot) == p->form[key].frame.count)
        memcpy(f, &p->form[key].frame, sizeof *f);
    else
        *f = make_frame(p, slot, key);
}

static void keep_forms(pith_plan *p) {
    if (p->exempt.count) return;
    for (int key = 0; key < 2; key++) {
        struct pithi_frame_form *const form = &p->form[key];
        form->frame = make_frame(p, 0, key);
        if (p->params.decode_only || form->frame.header_bytes > sizeof form->header) continue;
        pithi_frame_write(&form->frame, form->header);
        form->frame.written = form->header;
    }
    p->has_forms = true;
}

/* Decimals are turned into doubles once, exactly, which takes a while. */
static void keep_bound(pith_plan *p) {
    if (!p->params.codec->bound_setting || p->params.decode_only) return;
    const struct pithi_bound_setting s = pithi_bound_setting_of(&p->params);
    p->bound_value = pithi_bound_setting_value(&s);
    p->bound_range = s.range ? pithi_decimal_floor(s.range) : 0;
    p->bound_start = s.decay ? pithi_decimal_floor(s.start) : 1;
}

uint64_t pithi_frame_total(struct pithi_frame *f) {
    struct pithi_payload payload;
    pithi_payload_of(f, &payload);
    return f->header_bytes + payload.data + payload.data_bytes;
}

uint64_t pith_plan_frame_bytes(const pith_plan *plan, uint64_t slot, int key) {
    if (slot >= plan->slots || (key && plan->params.base_dtype == PITH_NONE)) return 0;
    struct pithi_frame f;
    pithi_plan_frame(plan, slot, key != 0, &f);
    return pithi_frame_total(&f);
}

/* The slot with most elements has the largest frame; exempt ranges may favour another. */
static uint64_t largest_frame(const pith_plan *p, int key) {
    uint64_t bytes = pith_plan_frame_bytes(p, 0, key);
    for (uint64_t i = 1; (p->slot_first || p->exempt.count) && i < p->slots; i++) {
        const uint64_t other = pith_plan_frame_bytes(p, i, key);
        if (other > bytes) bytes = other;
    }
    return bytes;
}

bool pithi_has_residual(const pith_plan *p) { return p->params.memory.feedback != 0; }

/* What makes the states of two plans interchangeable: layout, and the keys that decoding needs. */
static uint64_t fingerprint(const pith_plan *p) {
    const struct pithi_params *q = &p->params;
    uint64_t words[8 + PITHI_KEYS_MAX] = {
        p->count, p->slots,      p->slot_count, p->flags & PITH_LAYOUT_EXTERNAL_BASE,
        q->dtype, q->base_dtype, q->codec->id};
    words[3] |= (uint64_t)pithi_has_residual(p) << 32;
    if (p->slot_first)
        words[7] = XXH64(p->slot_first, (size_t)(p->slots + 1) * sizeof *p->slot_first, 0);
    for (uint32_t i = 0; i < q->codec->key_count; i++)
        if (pithi_key_matters(&q->codec->keys[i])) words[8 + i] = q->value[i];
    const struct pithi_exempt_map *map = &p->exempt;
    return XXH64(words, sizeof words,
                 map->count ? XXH64(map->range, map->count * sizeof *map->range, 0) : 0);
}

/* ---- Workspace -------------------------------------------------------------------------------*/

/* Hands out 64-byte aligned parts; without memory it only adds up. */
struct carve {
    uint8_t *memory;
    uint64_t used;
};

static void *take(struct carve *c, uint64_t bytes) {
    void *part = c->memory ? c->memory + c->used : NULL;
    c->used += pithi_pad64(bytes);
    return part;
}

static void carve_worker(const pith_plan *p, struct pithi_worker *w, struct carve *c) {
    const struct pithi_params *q = &p->params;
    const uint64_t n = q->most;
    const uint64_t element = pith_dtype_bytes(q->dtype);
    const bool staged =
        !(q->decode_only && q->codec->lays); /* all others put values where they go */
    w->values = take(c, staged ? n * (element < 4 ? 4 : element) : 0);
    w->base = take(c, n * pith_dtype_bytes(q->base_dtype));
    const bool sums =
        !q->decode_only && q->base_dtype == PITH_NONE && pithi_is_float16_32(q->dtype);
    const uint64_t again = q->codec->bound_setting && !q->decode_only ? n * element : 0;
    w->floats = take(c, sums && n * 4 > again ? n * 4 : again);
    w->sums = take(c, sums ? n * 4 : 0);
    const bool coded = !q->decode_only && !q->codec->fixed(q);
    w->coded = take(c, coded ? q->codec->block_bytes(q, n) : 0);
    w->scratch = take(c, q->codec->scratch_bytes(q));
    const size_t coder = q->codec->coder_bytes ? q->codec->coder_bytes(q) : 0;
    w->coder = take(c, coder);
    if (c->memory && coder) pithi_entropy_open(w->coder, coder);
}

/* Everything behind the plan itself, in the order of struct pith_plan. */
static void carve_all(pith_plan *p, const pith_layout *layout,
                      const struct pithi_exempt_source *exempt, struct carve *c) {
    const bool ragged = layout && layout->slot_counts;
    struct pithi_exempt_range *ranges = take(c, exempt->count * sizeof *ranges);
    uint64_t *first = take(c, ragged ? (p->slots + 1) * sizeof *first : 0);
    struct pithi_worker *workers = take(c, p->workers * sizeof *workers);
    uint64_t *offsets = take(c, p->params.codec->fixed(&p->params) ? 0 : (p->blocks + 1) * 8);
    struct pithi_worker none;
    for (uint32_t i = 0; i < p->workers; i++) carve_worker(p, workers ? &workers[i] : &none, c);
    if (!c->memory) return;
    for (uint64_t i = 0, sum = 0; ragged && i <= p->slots; i++) {
        first[i] = sum;
        if (i < p->slots) sum += layout->slot_counts[i];
    }
    uint64_t bytes;
    pithi_exempt_build(ranges, exempt, p->params.dtype, p->count, &bytes);
    p->exempt = (struct pithi_exempt_map){ranges, exempt->count};
    p->slot_first = ragged ? first : NULL;
    p->worker = workers;
    p->block_offset = offsets;
}

/* Ragged slots and exempt ranges make this a walk over all slots: once per plan. */
static pith_sizes sizes_of(const pith_plan *p) {
    pith_sizes s = {
        .slot_bytes = largest_frame(p, 0),
        .key_bytes = largest_frame(p, 1),
        .workspace_bytes = p->workspace_bytes,
        .state_bytes = pithi_state_bytes(p),
        .save_bytes = pithi_state_save_bytes(p),
        .alignment = 64,
        .slots = p->slots,
        .fixed = p->params.codec->fixed(&p->params),
    };
    if (p->params.memory.key_every && s.key_bytes > s.slot_bytes) s.slot_bytes = s.key_bytes;
    return s;
}

static pith_status build(pith_plan *p, const pith_layout *layout,
                         const struct pithi_exempt_source *exempt, pith_plan **out,
                         pith_error *error) {
    struct carve sum = {0};
    take(&sum, sizeof *p);
    carve_all(p, layout, exempt, &sum);
    if (sum.used > SIZE_MAX / 2)
        return pithi_fail(error, PITH_ERR_MEMORY, "the workspace exceeds the address space");
    uint8_t *memory = pithi_env_alloc(&p->env, (size_t)sum.used);
    if (!memory) return pithi_fail(error, PITH_ERR_MEMORY, "no memory for the plan");
    pith_plan *plan = (pith_plan *)(void *)memory;
    *plan = *p;
    plan->allocated = sum.used;
    plan->workspace_bytes = sum.used - sizeof *plan;
    struct carve parts = {memory, 0};
    take(&parts, sizeof *plan);
    carve_all(plan, layout, exempt, &parts);
    keep_forms(plan);
    keep_bound(plan);
    plan->fingerprint = fingerprint(plan);
    plan->paged_fingerprint = pithi_paged_fingerprint(plan);
    plan->sizes = sizes_of(plan);
    plan->error = (pith_error){"", 0};
    *out = plan;
    return PITH_OK;
}

/* No slot has more blocks; more workers than that would only hold memory. Batches of pages may
 * have any number. */
static void limit_workers(pith_plan *p) {
    if (p->params.codec->pages) return;
    const uint64_t blocks = p->blocks ? p->blocks : 1;
    if (p->workers > blocks) p->workers = (uint32_t)blocks;
}

/* exempt NULL: as the layout says. */
static pith_status create(pith_plan **out, struct pithi_params *params, const pith_layout *layout,
                          const struct pithi_exempt_source *exempt, const pith_env *env,
                          pith_error *error) {
    pith_plan p = {.params = *params};
    pith_layout l;
    if (!layout) return pithi_fail(error, PITH_ERR_ARG, "layout is NULL");
    PITHI_TRY(pithi_take(&l, sizeof l, layout, error));
    PITHI_TRY(take_layout(&p, &l, error));
    const struct pithi_exempt_source source = exempt ? *exempt : layout_exempt(&l);
    PITHI_TRY(check_exempt(&p, &source, error));
    PITHI_TRY(take_env(&p, env, error));
    limit_workers(&p);
    return build(&p, &l, &source, out, error);
}

/* ---- API -------------------------------------------------------------------------------------*/

pith_status pith_compress_bound(const char *spec, const pith_layout *layout, uint64_t *bytes,
                                pith_error *error) {
    pith_plan p = {0};
    pith_layout l;
    pithi_fail(error, PITH_OK, "");
    if (!bytes || !layout) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    *bytes = 0;
    PITHI_TRY(pithi_spec_parse(spec, &p.params, error));
    PITHI_TRY(pithi_take(&l, sizeof l, layout, error));
    l.slots = l.slot_count = 0; /* a one-shot call makes one frame */
    l.slot_counts = NULL;
    PITHI_TRY(take_layout(&p, &l, error));
    const struct pithi_exempt_source source = layout_exempt(&l);
    PITHI_TRY(check_exempt(&p, &source, error));
    struct pithi_frame f;
    pithi_plan_frame(&p, 0, false, &f);
    f.exempt_ranges = source.count;
    pithi_exempt_build(NULL, &source, p.params.dtype, p.count, &f.exempt_bytes);
    pithi_frame_size(&f);
    *bytes = pithi_frame_total(&f);
    return PITH_OK;
}

pith_status pith_plan_create(pith_plan **plan, const char *spec, const pith_layout *layout,
                             const pith_env *env, pith_error *error) {
    struct pithi_params params;
    pithi_fail(error, PITH_OK, "");
    if (!plan) return pithi_fail(error, PITH_ERR_ARG, "plan is NULL");
    *plan = NULL;
    PITHI_TRY(pithi_spec_parse(spec, &params, error));
    return create(plan, &params, layout, NULL, env, error);
}

pith_status pithi_plan_for_frame(pith_plan **plan, const struct pithi_frame *frame,
                                 const pith_env *env, pith_error *error) {
    struct pithi_params params = frame->params;
    pith_layout layout = {.size = sizeof layout,
                          .dtype = params.dtype,
                          .base_dtype = params.base_dtype,
                          .ndim = frame->ndim};
    layout.flags = frame->checksums ? PITH_LAYOUT_CHECKSUMS : 0;
    memcpy(layout.shape, frame->shape, sizeof layout.shape);
    params.key_frame = false;
    params.decode_only = true;
    *plan = NULL;
    const struct pithi_exempt_source exempt = pithi_frame_exempt(frame);
    return create(plan, &params, &layout, &exempt, env, error);
}

void pith_plan_destroy(pith_plan *plan) {
    if (!plan) return;
    const pith_env env = plan->env;
    pithi_env_release(&env, plan, (size_t)plan->allocated);
}

pith_error pith_plan_error(const pith_plan *plan) { return plan->error; }

void pith_plan_sizes(const pith_plan *plan, pith_sizes *out) { *out = plan->sizes; }

pith_status pith_plan_slot(const pith_plan *plan, uint64_t slot, uint64_t *first, uint64_t *count) {
    if (!plan || !first || !count || slot >= plan->slots) return PITH_ERR_ARG;
    *first = pithi_slot_first(plan, slot);
    *count = pithi_slot_count(plan, slot);
    return PITH_OK;
}

void pith_plan_set_random(pith_plan *plan, uint64_t seed, uint32_t stream, uint64_t step) {
    plan->random.seed = seed;
    plan->random.stream = stream;
    plan->random.step = step;
}

pith_status pith_plan_set_ranks(pith_plan *plan, uint32_t rank, uint32_t ranks) {
    if (!plan || rank >= ranks || ranks > 65536) return PITH_ERR_ARG;
    plan->random.shift = (uint16_t)((uint64_t)rank * 65536 / ranks);
    return PITH_OK;
}

void pith_slot_order(uint64_t nodes, uint64_t per_node, uint64_t *slots) {
    for (uint64_t j = 0; j < per_node; j++)
        for (uint64_t m = 0; m < nodes; m++) slots[j * nodes + m] = m * per_node + j;
}

int pith_plan_is_key(const pith_plan *plan, uint64_t step) {
    const uint32_t every = plan->params.memory.key_every;
    return plan->params.base_dtype != PITH_NONE && every && step % every == 0;
}

pith_status pith_plan_spec(const pith_plan *plan, char *text, size_t cap) {
    char all[PITH_SPEC_MAX];
    if (!plan || !text) return PITH_ERR_ARG;
    pithi_spec_print(&plan->params, all, sizeof all);
    if (strlen(all) >= cap) return PITH_ERR_SPACE;
    memcpy(text, all, strlen(all) + 1);
    return PITH_OK;
}

pith_status pith_plan_layout(const pith_plan *plan, pith_layout *out) {
    if (!plan || !out) return PITH_ERR_ARG;
    pith_layout l = {.size = out->size,
                     .dtype = plan->params.dtype,
                     .base_dtype = plan->params.base_dtype,
                     .ndim = plan->ndim,
                     .flags = plan->flags,
                     .slots = plan->slots,
                     .slot_count = plan->slot_count,
                     .source = plan->source,
                     .source_bytes = plan->source_bytes};
    memcpy(l.shape, plan->shape, sizeof l.shape);
    if (out->size < offsetof(pith_layout, source)) return PITH_ERR_ARG;
    memcpy(out, &l, out->size < sizeof l ? out->size : sizeof l);
    return PITH_OK;
}

/* Words are hashed as little-endian bytes. */
static uint64_t hash_words(const uint64_t *words, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[8];
        pithi_put64(bytes, words[i]);
        seed = XXH64(bytes, sizeof bytes, seed);
    }
    return seed;
}

uint64_t pith_plan_fingerprint(const pith_plan *p) {
    if (!p) return 0;
    const struct pithi_params *q = &p->params;
    const uint64_t words[] = {q->codec->id,
                              q->codec->revision,
                              q->dtype,
                              q->base_dtype,
                              q->block,
                              p->flags & PITH_LAYOUT_CHECKSUMS,
                              p->one_frame ? p->ndim : 0,
                              p->count,
                              p->slots};
    uint64_t hash = hash_words(words, sizeof words / sizeof *words, 0);
    if (p->one_frame) hash = hash_words(p->shape, p->ndim, hash);
    for (uint64_t i = 0; i < p->slots; i++) {
        const uint64_t first = pithi_slot_first(p, i);
        hash = hash_words(&first, 1, hash);
    }
    for (uint32_t i = 0; i < q->codec->key_count; i++) {
        const uint64_t value = pithi_key_matters(&q->codec->keys[i]) ? q->value[i] : 0;
        hash = hash_words(&value, 1, hash);
    }
    for (size_t i = 0; i < p->exempt.count; i++) {
        const struct pithi_exempt_range *r = &p->exempt.range[i];
        const uint64_t range[] = {r->first, r->count, r->dtype};
        hash = hash_words(range, 3, hash);
    }
    return hash;
}
