/* plan.c - parse, check, size and allocate: everything that can be known before data exists.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/checked.h"
#include "common/convert.h"
#include "common/endian.h"
#include "common/pad.h"
#include "cpu.h"
#include "error.h"
#include "slots.h"
#include "spec.h"
#include "stream.h"

/* ---- Layout ----------------------------------------------------------------------------------*/

static pith_status take_shape(pith_plan *p, const pith_layout *l, pith_error *error) {
    if (l->ndim > PITH_MAX_NDIM)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "at most # dimensions, not #",
                                  PITH_MAX_NDIM, l->ndim);
    p->ndim = l->ndim;
    p->count = 1;
    memcpy(p->shape, l->shape, sizeof p->shape);
    /* Frames demand that every partial product fits, also where a later extent is 0. */
    for (uint32_t d = 0; d < l->ndim; d++)
        if (!pithi_checked_multiply(p->count, l->shape[d], &p->count) || p->count > INT64_MAX / 8)
            return pithi_fail_numbers(error, PITH_ERR_SHAPE,
                                      "at most # elements, more in the first # extents",
                                      INT64_MAX / 8, d + 1);
    return PITH_OK;
}

static pith_status take_dtypes(pith_plan *p, const pith_layout *l, pith_error *error) {
    struct pithi_params *q = &p->params;
    q->dtype = l->dtype;
    q->base_dtype = l->base_dtype;
    if (q->dtype > 31 || !(q->codec->dtypes >> q->dtype & 1))
        return pithi_fail_with(
            error, PITH_ERR_DTYPE, 0, "$ does not take dtype $",
            &(struct pithi_words){.name = {q->codec->name, pith_dtype_name(q->dtype)}});
    if (q->base_dtype != PITH_NONE && !pithi_dtype_bytes(q->base_dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "there is no base dtype #",
                               &(struct pithi_words){.number = {q->base_dtype}});
    if (q->base_dtype != PITH_NONE && !(q->codec->traits & PITH_TRAIT_BASE))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "$ takes no base",
                               &(struct pithi_words){.name = {q->codec->name}});
    const char *detail = "";
    const pith_status status = pithi_params_check(q, &detail);
    return status == PITH_OK ? PITH_OK : pithi_fail(error, status, detail);
}

static pith_exempt exempt_at(const void *from, size_t i) { return ((const pith_exempt *)from)[i]; }

static struct pithi_exempt_source layout_exempt(const pith_layout *l) {
    return (struct pithi_exempt_source){l->exempt, l->exempt_count, exempt_at};
}

/* Fails with what is wrong with range i, the first that is not good. */
static pith_status refuse_exempt(const pith_plan *p, const struct pithi_exempt_source *source,
                                 size_t i, pith_error *error) {
    const pith_exempt r = source->at(source->from, i);
    const pith_exempt before = i ? source->at(source->from, i - 1) : (pith_exempt){0};
    const uint64_t end = before.first + before.count;
    const char *text = "exempt[#] has how #, expected 1 (16) or 2 (exact)";
    struct pithi_words words = {.number = {i, r.how}};
    if (r.first < end) {
        text = "exempt[#] begins at element #, the range before it ends at #";
        words.number[1] = r.first, words.number[2] = end;
    } else if (r.first > p->count) {
        text = "exempt[#] begins at element #, the tensor has #";
        words.number[1] = r.first, words.number[2] = p->count;
    } else if (!r.count) {
        text = "exempt[#] has no elements";
    } else if (r.count > p->count - r.first) {
        text = "exempt[#] has # elements, the tensor # from there on";
        words.number[1] = r.count, words.number[2] = p->count - r.first;
    }
    return pithi_fail_with(error, PITH_ERR_ARG, 0, text, &words);
}

static pith_status check_exempt(const pith_plan *p, const struct pithi_exempt_source *source,
                                pith_error *error) {
    uint64_t bytes;
    if (!source->count) return PITH_OK;
    if (!(p->params.codec->traits & PITH_TRAIT_EXEMPT))
        return pithi_fail_with(error, PITH_ERR_UNSUPPORTED, 0,
                               "codec $ takes no exempt ranges: exempt has to be none",
                               &(struct pithi_words){.name = {p->params.codec->name}});
    if (!source->from)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "exempt is NULL, exempt_count is #",
                               &(struct pithi_words){.number = {source->count}});
    if (source->count > PITH_EXEMPT_MAX)
        return pithi_fail_numbers(error, PITH_ERR_ARG, "at most # exempt ranges, not #",
                                  PITH_EXEMPT_MAX, source->count);
    const size_t good = pithi_exempt_build(NULL, source, p->params.dtype, p->count, &bytes);
    if (good < source->count) return refuse_exempt(p, source, good, error);
    const uint64_t sections = pithi_sections_bytes(false, NULL, source->count, p->source_bytes);
    if (sections > PITHI_SECTIONS_MAX)
        return pithi_fail_numbers(
            error, PITH_ERR_ARG,
            "a header has space for # bytes of exempt ranges and source, not #", PITHI_SECTIONS_MAX,
            sections);
    return PITH_OK;
}

/* Gives block=whole its size: the smallest power of two that holds the largest slot. */
static pith_status take_block(pith_plan *p, pith_error *error) {
    uint32_t block = 1u << PITHI_BLOCK_LOG2_MIN;
    if (p->params.block) return PITH_OK;
    if (p->slot_count > 1u << PITHI_BLOCK_LOG2_MAX)
        return pithi_fail_numbers(error, PITH_ERR_UNSUPPORTED,
                                  "block=whole takes at most # elements, not #",
                                  1u << PITHI_BLOCK_LOG2_MAX, p->slot_count);
    while (block < p->slot_count) block *= 2;
    pithi_params_set_block(&p->params, block);
    return PITH_OK;
}

static pith_status take_tiles(pith_plan *p, uint32_t ndim, const uint64_t *shape,
                              pith_error *error) {
    struct pithi_tiling t;
    struct pithi_params q = p->params;
    const char *const refused = q.codec->cut(&q, ndim, shape, &t);
    if (refused) return pithi_fail(error, PITH_ERR_SHAPE, refused);
    if (t.tiles > p->blocks) p->blocks = t.tiles;
    if (!t.tiles) return PITH_OK;
    const struct pithi_tile first = pithi_tile_at(&t, 0); /* no tile is larger */
    if (first.count <= p->params.most) return PITH_OK;
    p->params = q; /* what the codec found in the shape is that of the largest block */
    p->params.most = (uint32_t)first.count;
    memcpy(p->params.extent, first.extent, sizeof first.extent);
    return PITH_OK;
}

/* Finds the most blocks that a frame has and the largest of them, and whether the codec takes the
 * shape of each slot. */
static pith_status take_blocks(pith_plan *p, const pith_layout *l, pith_error *error) {
    const uint64_t tail = p->slot_count ? p->count % p->slot_count : 0;
    if (!p->params.codec->cut) {
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
    const uint32_t known = PITH_LAYOUT_CHECKSUMS | PITH_LAYOUT_EXTERNAL_BASE |
                           PITH_LAYOUT_CHECK_BASE | PITH_LAYOUT_TRUST_BASE;
    if (l->flags & ~known)
        return pithi_fail_numbers(error, PITH_ERR_UNSUPPORTED,
                                  "layout flags #, of which this pith does not know #", l->flags,
                                  l->flags & ~known);
    if (l->flags & PITH_LAYOUT_CHECK_BASE && l->flags & PITH_LAYOUT_TRUST_BASE)
        return pithi_fail(error, PITH_ERR_ARG, "a base is checked or trusted, not both");
    if (l->flags & PITH_LAYOUT_TRUST_BASE && !(l->flags & PITH_LAYOUT_EXTERNAL_BASE))
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "only an external base is to be trusted");
    if (l->flags & PITH_LAYOUT_CHECK_BASE && l->base_dtype == PITH_NONE)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED, "base_dtype is none: no base to check");
    /* Codecs that take none say so below. */
    if (l->flags & PITH_LAYOUT_CHECK_BASE && p->params.codec->traits & PITH_TRAIT_BASE &&
        !p->params.stream.base_hash)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "base_hash=off keeps no hash to check the base with");
    if (l->source_bytes > PITH_SOURCE_MAX)
        return pithi_fail_numbers(error, PITH_ERR_ARG, "at most # bytes of source, not #",
                                  PITH_SOURCE_MAX, l->source_bytes);
    if (l->source_bytes && !l->source)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "source is NULL, source_bytes is #",
                               &(struct pithi_words){.number = {l->source_bytes}});
    p->flags = l->flags;
    p->source = l->source;
    p->source_bytes = l->source_bytes;
    PITHI_TRY(take_dtypes(p, l, error));
    PITHI_TRY(take_shape(p, l, error));
    PITHI_TRY(pithi_slots_take(p, l, error));
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
    f.has_base_hash = f.has_stream && p->params.stream.base_hash;
    f.ndim = p->one_frame ? p->ndim : 1;
    if (p->one_frame)
        memcpy(f.shape, p->shape, sizeof f.shape);
    else
        f.shape[0] = f.count;
    f.source = p->source;
    f.source_bytes = p->source_bytes;
    if (p->params.codec->cut) p->params.codec->cut(&f.params, f.ndim, f.shape, &f.tiling);
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

/* Whether the frame of the largest slot, with all exempt ranges of the tensor, is one that decoders
 * read; its key frames then are, too. */
static pith_status check_bytes(const pith_plan *p, const struct pithi_exempt_source *exempt,
                               pith_error *error) {
    if (p->count < UINT64_C(1) << 48) return PITH_OK; /* elements have fewer than 2^14 bytes each */
    struct pithi_frame f = make_frame(p, 0, false);
    pithi_exempt_build(NULL, exempt, p->params.dtype, p->count, &f.exempt_bytes);
    if (pithi_payload_of(&f, &f.payload)) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_SHAPE, 0,
                           "a frame of # elements has too many bytes to be read",
                           &(struct pithi_words){.number = {f.count}});
}

static void keep_forms(pith_plan *p) {
    if (p->exempt.count) return;
    for (int key = 0; key < 2; key++) {
        struct pithi_frame_form *const form = &p->form[key];
        form->frame = make_frame(p, 0, key);
        if (p->params.decode_only || form->frame.header_bytes > sizeof form->header) continue;
        pithi_frame_keep(&form->frame, form->header);
    }
    p->has_forms = true;
}

uint64_t pith_plan_frame_bytes(const pith_plan *plan, uint64_t slot, int key) {
    if (slot >= plan->slots || (key && plan->params.base_dtype == PITH_NONE)) return 0;
    struct pithi_frame f;
    pithi_plan_frame(plan, slot, key != 0, &f);
    return pithi_frame_total(&f);
}

/* Returns the bytes of the largest frame: that of the slot with most elements, slot 0, unless slots
 * are ragged or exempt ranges make another one larger. */
static uint64_t largest_frame(const pith_plan *p, int key) {
    uint64_t bytes = pith_plan_frame_bytes(p, 0, key);
    for (uint64_t i = 1; (p->slot_first || p->exempt.count) && i < p->slots; i++) {
        const uint64_t other = pith_plan_frame_bytes(p, i, key);
        if (other > bytes) bytes = other;
    }
    return bytes;
}

bool pithi_has_residual(const pith_plan *p) { return p->params.stream.feedback != 0; }

/* Returns a hash of what makes saved streams of two plans interchangeable: the layout, and the keys
 * that decoding depends on. */
static uint64_t stream_fingerprint(const pith_plan *p) {
    const struct pithi_params *q = &p->params;
    uint64_t words[8 + PITHI_KEYS_MAX] = {
        p->count, p->slots,      p->slot_count, p->flags & PITH_LAYOUT_EXTERNAL_BASE,
        q->dtype, q->base_dtype, q->codec->id};
    words[3] |= (uint64_t)pithi_has_residual(p) << 32 | (uint64_t)q->stream.momentum << 33;
    if (p->slot_first)
        words[7] = XXH64(p->slot_first, (size_t)(p->slots + 1) * sizeof *p->slot_first, 0);
    for (uint32_t i = 0; i < q->codec->key_count; i++)
        if (pithi_key_matters(&q->codec->keys[i])) words[8 + i] = q->value[i];
    const struct pithi_exempt_map *map = &p->exempt;
    return XXH64(words, sizeof words,
                 map->count ? XXH64(map->range, map->count * sizeof *map->range, 0) : 0);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Adds a part to the total of scratch memory, and returns its bytes. */
static uint64_t part(struct pithi_scratch *s, uint64_t bytes) {
    s->total += pithi_pad64(bytes);
    return bytes;
}

static struct pithi_scratch scratch_of(const pith_plan *p) {
    const struct pithi_params *q = &p->params;
    const uint64_t n = q->most, element = pithi_dtype_bytes(q->dtype);
    const bool fixed = q->codec->fixed(q);
    /* Codecs that put values where they go need no copy of a block when they only decode. */
    const bool staged = !(q->decode_only && q->codec->decode_placed);
    const bool sums =
        !q->decode_only && q->base_dtype == PITH_NONE && pithi_is_float16_32(q->dtype);
    const struct pithi_frame_hooks *const hooks = q->codec->frame_hooks;
    const uint64_t again = hooks && !q->decode_only ? hooks->scratch_bytes(q, n) : 0;
    struct pithi_scratch s = {0};
    s.values = part(&s, staged ? n * (element < 4 ? 4 : element) : 0);
    s.base = part(&s, n * pithi_dtype_bytes(q->base_dtype));
    s.floats = part(&s, sums && n * 4 > again ? n * 4 : again);
    s.sums = part(&s, sums ? n * 4 : 0);
    s.coded = part(&s, !q->decode_only && !fixed ? q->codec->block_bytes(q, n) : 0);
    s.scratch = part(&s, q->codec->scratch_bytes(q));
    s.offsets = part(&s, fixed ? 0 : (p->blocks + 1) * 8);
    s.coder = part(&s, q->codec->coder_bytes ? q->codec->coder_bytes(q) : 0);
    s.open_coder = q->codec->open_coder;
    return s;
}

/* The ranges of exempt elements stand behind the plan, and behind them the first elements of ragged
 * slots. */
static uint64_t ranges_bytes(const struct pithi_exempt_source *exempt) {
    return pithi_pad64(exempt->count * sizeof(struct pithi_exempt_range));
}

static void keep_layout(pith_plan *p, const pith_layout *layout,
                        const struct pithi_exempt_source *exempt) {
    uint8_t *const after = (uint8_t *)p + pithi_pad64(sizeof *p);
    struct pithi_exempt_range *const ranges = (struct pithi_exempt_range *)(void *)after;
    uint64_t *const first = (uint64_t *)(void *)(after + ranges_bytes(exempt));
    uint64_t bytes;
    pithi_exempt_build(ranges, exempt, p->params.dtype, p->count, &bytes);
    p->exempt = (struct pithi_exempt_map){ranges, exempt->count};
    pithi_slots_keep(p, layout, first);
}

/* Computes the sizes of a plan, once: ragged slots and exempt ranges need a walk over all slots. */
static pith_sizes sizes_of(const pith_plan *p) {
    pith_sizes s = {
        .frame_bytes = largest_frame(p, 0),
        .key_bytes = largest_frame(p, 1),
        .stream_bytes = pithi_stream_bytes(p),
        .save_bytes = pithi_stream_save_bytes(p),
        .alignment = 64,
        .slots = p->slots,
        .fixed = p->params.codec->fixed(&p->params),
    };
    s.slot_bytes = s.frame_bytes;
    if (p->params.stream.key_every && s.key_bytes > s.slot_bytes) s.slot_bytes = s.key_bytes;
    return s;
}

static pith_status build(pith_plan *p, const pith_layout *layout,
                         const struct pithi_exempt_source *exempt, const pith_plan **out,
                         pith_error *error) {
    const uint64_t bytes =
        pithi_pad64(sizeof *p) + ranges_bytes(exempt) + pithi_slots_bytes(p, layout);
    if (bytes > SIZE_MAX / 2)
        return pithi_fail_numbers(error, PITH_ERR_MEMORY,
                                  "the address space holds plans of # bytes, not of #",
                                  SIZE_MAX / 2, bytes);
    pith_plan *const plan = pithi_env_alloc(&p->env, (size_t)bytes);
    if (!plan)
        return pithi_fail_with(error, PITH_ERR_MEMORY, 0, "no memory for the plan: # bytes",
                               &(struct pithi_words){.number = {bytes}});
    *plan = *p;
    plan->allocated = bytes;
    keep_layout(plan, layout, exempt);
    keep_forms(plan);
    const struct pithi_frame_hooks *const hooks = plan->params.codec->frame_hooks;
    if (hooks && !plan->params.decode_only) hooks->keep(&plan->params, plan->kept);
    plan->scratch = scratch_of(plan);
    plan->stream_fingerprint = stream_fingerprint(plan);
    plan->sizes = sizes_of(plan);
    *out = plan;
    return PITH_OK;
}

/* Makes a plan. With exempt NULL exempt ranges are those of the layout. */
static pith_status create(const pith_plan **out, struct pithi_params *params,
                          const pith_layout *layout, const struct pithi_exempt_source *exempt,
                          const pith_env *env, pith_error *error) {
    pith_plan p = {.params = *params};
    pith_layout l;
    if (!layout) return pithi_fail(error, PITH_ERR_ARG, "layout is NULL");
    PITHI_TRY(pithi_take(&l, sizeof l, layout, "the layout", error));
    PITHI_TRY(take_layout(&p, &l, error));
    const struct pithi_exempt_source source = exempt ? *exempt : layout_exempt(&l);
    PITHI_TRY(check_exempt(&p, &source, error));
    PITHI_TRY(check_bytes(&p, &source, error));
    if (!pithi_stream_bytes(&p))
        return pithi_fail_with(error, PITH_ERR_SHAPE, 0,
                               "a tensor of # elements is too large for a stream's memory",
                               &(struct pithi_words){.number = {p.count}});
    PITHI_TRY(pithi_env_take(&p.env, env, error));
    pithi_kernels_bind(&p.kernels, pithi_cpu_select(p.env.cpu_mask));
    return build(&p, &l, &source, out, error);
}

/* ---- API -------------------------------------------------------------------------------------*/

pith_status pithi_one_frame_bytes(const char *spec, const pith_layout *layout, uint64_t *bytes,
                                  pith_error *error) {
    pith_plan p = {0};
    PITHI_TRY(pithi_spec_parse(spec, &p.params, error));
    PITHI_TRY(take_layout(&p, layout, error));
    const struct pithi_exempt_source source = layout_exempt(layout);
    PITHI_TRY(check_exempt(&p, &source, error));
    PITHI_TRY(check_bytes(&p, &source, error));
    struct pithi_frame f;
    pithi_plan_frame(&p, 0, false, &f);
    f.exempt_ranges = source.count;
    pithi_exempt_build(NULL, &source, p.params.dtype, p.count, &f.exempt_bytes);
    pithi_frame_size(&f);
    *bytes = pithi_frame_total(&f);
    return PITH_OK;
}

pith_status pith_plan_create(const pith_plan **plan, const char *spec, const pith_layout *layout,
                             const pith_env *env, pith_error *error) {
    struct pithi_params params;
    pithi_clear(error);
    if (!plan) return pithi_fail(error, PITH_ERR_ARG, "plan is NULL");
    *plan = NULL;
    PITHI_TRY(pithi_spec_parse(spec, &params, error));
    return create(plan, &params, layout, NULL, env, error);
}

pith_status pithi_plan_for_frame(const pith_plan **plan, const struct pithi_frame *frame,
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

void pith_plan_destroy(const pith_plan *plan) {
    if (!plan) return;
    const pith_env env = plan->env;
    pithi_env_release(&env, (void *)(uintptr_t)plan, (size_t)plan->allocated);
}

pith_status pith_plan_sizes(const pith_plan *plan, pith_sizes *out) {
    return plan ? pithi_give(out, &plan->sizes, sizeof plan->sizes) : PITH_ERR_ARG;
}

int pith_plan_is_key(const pith_plan *plan, uint64_t step) {
    const uint32_t every = plan->params.stream.key_every;
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
    pith_layout l = {.dtype = plan->params.dtype,
                     .base_dtype = plan->params.base_dtype,
                     .ndim = plan->ndim,
                     .flags = plan->flags,
                     .slots = plan->slots,
                     .slot_count = plan->slot_count,
                     .source = plan->source,
                     .source_bytes = plan->source_bytes};
    memcpy(l.shape, plan->shape, sizeof l.shape);
    return pithi_give(out, &l, sizeof l);
}

size_t pith_plan_exempt(const pith_plan *plan, pith_exempt *ranges, size_t capacity) {
    const struct pithi_exempt_map *const map = &plan->exempt;
    for (size_t i = 0; i < map->count && i < capacity; i++) {
        const struct pithi_exempt_range *const r = &map->range[i];
        ranges[i] = (pith_exempt){r->first, r->count, r->how};
    }
    return map->count;
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
                              pithi_frame_revision(q),
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
        if (q->codec->keys[i].wire == PITHI_WIRE_REVISION) continue;
        const bool later = q->codec->later_keys >> i & 1;
        const bool matters = pithi_key_matters(&q->codec->keys[i]);
        if (later && (!matters || q->value[i] == q->codec->keys[i].initial)) continue;
        const uint64_t value = matters ? q->value[i] : 0;
        hash = hash_words(&value, 1, hash);
    }
    for (size_t i = 0; i < p->exempt.count; i++) {
        const struct pithi_exempt_range *r = &p->exempt.range[i];
        const uint64_t range[] = {r->first, r->count, r->dtype};
        hash = hash_words(range, 3, hash);
    }
    return hash;
}
