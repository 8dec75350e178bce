/* oneshot.c - calls that take a frame or a view and no plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oneshot.h"

#include "common/convert.h"
#include "cpu.h"
#include "error.h"
#include "items.h"
#include "overlap.h"
#include "parallel.h"
#include "spec.h"

/* ---- Inspect ---------------------------------------------------------------------------------*/

static void fill_info(const struct pithi_frame *f, pith_info *info) {
    const struct pithi_params *q = &f->params;
    info->frame_bytes = f->header_bytes + f->payload_bytes;
    info->count = f->count;
    info->raw_bytes = f->count * pithi_dtype_bytes(q->dtype);
    info->base_hash = f->base_hash;
    info->step = f->step;
    memcpy(info->shape, f->shape, sizeof info->shape);
    info->ndim = f->ndim;
    info->dtype = q->dtype;
    info->base_dtype = q->base_dtype;
    info->codec = q->codec->id;
    info->revision = pithi_frame_revision(q);
    while (info->block_log2 < 31 && 1u << info->block_log2 < q->block) info->block_log2++;
    info->rng_stream = f->rng_stream;
    info->is_key = q->key_frame;
    info->has_step = f->has_stream;
    info->has_base_hash = f->has_base_hash;
    info->has_checksums = f->checksums;
    info->codec_name = q->codec->name;
    pithi_spec_print(q, info->spec, sizeof info->spec);
    info->source = f->source;
    info->source_bytes = f->source_bytes;
    info->exempt = f->exempt_count;
    if (q->codec->frame_hooks) q->codec->frame_hooks->inspect(f, info);
}

pith_status pith_inspect(const void *bytes, size_t length, pith_info *info, pith_error *error) {
    struct pithi_frame frame;
    pith_info known = {.codec_name = ""};
    pithi_clear(error);
    if (!info || (!bytes && length)) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    const pith_status status = pithi_frame_read(bytes, length, &frame, error);
    known.header_bytes = frame.header_bytes;
    if (status == PITH_OK) fill_info(&frame, &known);
    if (pithi_give(info, &known, sizeof known) != PITH_OK)
        return pithi_fail(error, PITH_ERR_ARG, "a struct's size field is not set");
    return status;
}

/* ---- Bound -----------------------------------------------------------------------------------*/

/* Finds the block at *at, and moves *at past it. */
static pith_status next_block(const struct pithi_frame *f, const uint8_t *payload, uint64_t index,
                              uint64_t *at, struct pithi_block *b, pith_error *error) {
    *b = (struct pithi_block){.params = &f->params, .first = pithi_block_first(f, index)};
    b->count = (size_t)pithi_block_count(f, index);
    b->length = (size_t)f->params.codec->block_bytes(&f->params, b->count);
    if (!f->payload.fixed) {
        const uint32_t entry = pithi_get32(payload + 4 * index);
        b->length = entry & ~PITHI_PLAIN;
        b->plain = entry & PITHI_PLAIN;
    }
    if (b->length > f->payload_bytes - *at)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "a block is too long", f->header_bytes + *at);
    b->bytes = (uint8_t *)(uintptr_t)payload + *at;
    *at += b->length;
    return PITH_OK;
}

/* Returns the bound of exempt values that are stored at 16 bits and have more: half the distance of
 * neighbours at 16 bits. */
static double exempt_bound(const struct pithi_frame *f, const uint8_t *values) {
    const struct pithi_exempt_source source = pithi_frame_exempt(f);
    double bound = 0;
    for (size_t i = 0; i < source.count; i++) {
        const pith_exempt e = source.at(source.from, i);
        const uint32_t stored = pithi_exempt_dtype((uint32_t)e.how, f->params.dtype);
        for (uint64_t k = 0; stored != f->params.dtype && k < e.count; k++) {
            const uint32_t u = pithi_load(values, stored, (size_t)k) & 0x7FFFFFFFu;
            if (u == PITHI_F32_INF) return (double)pithi_float(PITHI_F32_NAN);
            const double half = (double)pithi_float(u) * 0x1p-8 + 0x1p-134;
            if (u < PITHI_F32_INF && half > bound) bound = half;
        }
        values += e.count * pithi_dtype_bytes(stored);
    }
    return bound;
}

static pith_status largest_bound(const void *frame, size_t length, double *bound,
                                 pith_error *error) {
    struct pithi_frame f;
    PITHI_TRY(pithi_frame_read(frame, length, &f, error));
    if (f.payload_bytes > length - f.header_bytes)
        return pithi_fail_with(
            error, PITH_ERR_TRUNCATED, length, "the frame has # bytes, found #",
            &(struct pithi_words){.number = {f.header_bytes + f.payload_bytes, length}});
    const struct pithi_frame_hooks *const hooks = f.params.codec->frame_hooks;
    *bound = hooks && hooks->bound ? hooks->bound(&f) : 0;
    if (!f.params.codec->bound || f.params.key_frame) return PITH_OK;
    const uint8_t *payload = (const uint8_t *)frame + f.header_bytes;
    uint64_t at = f.payload.data;
    *bound = exempt_bound(&f, payload + f.payload.exempt_values);
    const double left_out = hooks && hooks->left_out ? hooks->left_out(&f) : 0;
    if (left_out > *bound) *bound = left_out;
    /* All blocks are looked at: a damaged one may follow one that is poisoned. */
    for (uint64_t i = 0; i < f.payload.blocks; i++) {
        struct pithi_block b;
        PITHI_TRY(next_block(&f, payload, i, &at, &b, error));
        b.left_out = left_out;
        const double one = f.params.codec->bound(&b);
        if (one != one || one > *bound) *bound = one;
        if (one < 0) return pithi_fail(error, PITH_ERR_CORRUPT, "a block's bound is damaged");
    }
    return PITH_OK;
}

pith_status pith_error_bound(const void *frame, size_t length, double *bound, pith_error *error) {
    pithi_clear(error);
    if (!frame || !bound) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    *bound = 0;
    const uint64_t before = pithi_fp_enter();
    const pith_status status = largest_bound(frame, length, bound, error);
    pithi_fp_leave(before);
    return status;
}

/* ---- Base hash -------------------------------------------------------------------------------*/

static pith_status base_hash_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    const uint64_t first = pithi_block_first(&c->frame, block);
    const uint64_t n = pithi_block_count(&c->frame, block);
    const void *base = pithi_span_read(c->base, first, n, w->base);
    w->hash +=
        c->plan->kernels.nh(base, (size_t)n * c->base->element, first * c->base->element / 8);
    return PITH_OK;
}

pith_status pithi_check_base_hash(struct pithi_coding *c) {
    pith_work *const work = c->work;
    uint64_t hash, saturated, poisoned;
    if (!c->frame.has_base_hash) return PITH_OK;
    pithi_parallel_begin(work);
    PITHI_TRY(pithi_parallel_for(work, 0, c->frame.payload.blocks, base_hash_job, c));
    pithi_parallel_results(work, work->worker, &hash, &saturated, &poisoned);
    hash = pithi_nh_finish(hash, c->frame.count * c->base->element, c->base->dtype);
    if (hash == c->frame.base_hash) return PITH_OK;
    return pithi_fail_numbers(&work->error, PITH_ERR_BASE,
                              "the base is not the encoder's: hash #, the frame's #", hash,
                              c->frame.base_hash);
}

pith_status pithi_check_key(const struct pithi_coding *c) {
    const struct pithi_frame *f = &c->frame;
    const uint32_t dtype = f->params.base_dtype;
    if (!f->params.key_frame || !f->has_base_hash) return PITH_OK;
    if (pithi_nh_finish(c->hash, f->count * pithi_dtype_bytes(dtype), dtype) == f->base_hash)
        return PITH_OK;
    return pithi_fail(&c->work->error, PITH_ERR_CHECKSUM, "the key frame is not what it says");
}

static pith_status take_base(struct pithi_coding *c, const pith_view *view,
                             struct pithi_span *span) {
    pith_error *error = &c->work->error;
    if (c->frame.params.base_dtype == PITH_NONE || c->frame.params.key_frame) return PITH_OK;
    if (!view)
        return pithi_fail_with(
            error, PITH_ERR_BASE, 0, "the frame needs a base, of $",
            &(struct pithi_words){.name = {pith_dtype_name(c->frame.params.base_dtype)}});
    PITHI_TRY(pithi_span_init(span, view, false, error));
    if (span->dtype != c->frame.params.base_dtype)
        return pithi_fail_with(
            error, PITH_ERR_BASE, 0, "the base has dtype $, the encoder's $",
            &(struct pithi_words){.name = {pith_dtype_name(span->dtype),
                                           pith_dtype_name(c->frame.params.base_dtype)}});
    if (span->count != c->frame.count)
        return pithi_fail_numbers(error, PITH_ERR_BASE,
                                  "the encoder's base has # elements, this one #", c->frame.count,
                                  span->count);
    c->base = span;
    return pithi_check_base_hash(c);
}

/* ---- Decompress ------------------------------------------------------------------------------*/

struct range {
    bool all; /* first is 0 and count is the frame's */
    uint64_t first;
    const pith_view *view;
};

static pith_status decode_range(struct pithi_coding *c, pith_work *work, const pith_plan *p,
                                const void *frame, size_t length, const pith_view *base,
                                const struct range *r) {
    struct pithi_span out, base_span;
    PITHI_TRY(pithi_span_init(&out, r->view, true, &work->error));
    PITHI_TRY(pithi_decode_open(c, work, p, frame, length));
    PITHI_TRY(pithi_output_dtype(&c->frame.params, out.dtype, &work->error));
    if (r->all && out.count != c->frame.count)
        return pithi_fail_numbers(&work->error, PITH_ERR_SHAPE,
                                  "the frame has # elements, the view #", c->frame.count,
                                  out.count);
    if (r->first > c->frame.count || out.count > c->frame.count - r->first)
        return pithi_fail_numbers(
            &work->error, PITH_ERR_SHAPE,
            "the range is not inside the tensor of # elements: it begins at #", c->frame.count,
            r->first);
    c->view = &out;
    c->first = r->first;
    c->count = out.count;
    if (pithi_span_overlaps(&out, out.count, frame, length))
        return pithi_fail(&work->error, PITH_ERR_ARG, "the view overlaps the frame");
    PITHI_TRY(pithi_check_blocks(c));
    PITHI_TRY(take_base(c, base, &base_span));
    if (c->base && pithi_span_overlaps_base(&out, out.count, c->base, r->first))
        return pithi_fail(&work->error, PITH_ERR_ARG,
                          "the view overlaps the base, not in its place");
    c->update = c->frame.params.key_frame && c->count == c->frame.count;
    PITHI_TRY(pithi_decode_blocks(c));
    return c->update ? pithi_check_key(c) : PITH_OK;
}

/* A plan and a work for the duration of one call. */
struct once {
    const pith_plan *plan;
    pith_work *work;
    void *memory;
    size_t bytes;
};

/* Makes a work with no more threads than there are blocks: others would only hold memory. Where
 * `most` bytes of it are allowed, not 0, it has fewer threads, but always one. */
static pith_status add_work(struct once *o, const pith_env *env, uint64_t most, pith_error *error) {
    pith_env e;
    PITHI_TRY(pithi_env_take(&e, env, error));
    PITHI_TRY(pithi_check_threads(&e, error));
    const uint64_t blocks = o->plan->blocks ? o->plan->blocks : 1;
    const uint32_t threads = e.threads ? e.threads : 1;
    uint32_t workers = threads > blocks ? (uint32_t)blocks : threads;
    while (most && workers > 1 && pithi_work_bytes_alone(o->plan, workers) > most) workers--;
    const uint64_t bytes = pithi_work_bytes_alone(o->plan, workers);
    e.size = sizeof e; /* the caller's struct may be shorter, or NULL */
    e.threads = workers;
    o->bytes = bytes < SIZE_MAX / 2 ? (size_t)bytes : SIZE_MAX / 2;
    o->memory = pithi_env_alloc(&o->plan->env, o->bytes);
    if (!o->memory)
        return pithi_fail_with(error, PITH_ERR_MEMORY, 0, "no memory for the call: # bytes",
                               &(struct pithi_words){.number = {o->bytes}});
    PITHI_TRY(pith_work_init(o->memory, o->bytes, &e, &o->work, error));
    return pithi_work_attach(o->work, o->plan, NULL);
}

static pith_status finish(struct once *o, pith_status status, pith_error *error) {
    if (o->work && status != PITH_OK) pithi_error_copy(error, &o->work->error);
    if (o->memory) pithi_env_release(&o->plan->env, o->memory, o->bytes);
    pith_plan_destroy(o->plan);
    return status;
}

/* Makes a plan and a work for the frame's own setting. The payload must be complete, so that what
 * is allocated is in proportion to bytes that are there. */
static pith_status open_for_frame(struct once *o, const void *frame, size_t length,
                                  const pith_env *env, pith_error *error) {
    struct pithi_frame f;
    pith_env e;
    *o = (struct once){0};
    pithi_clear(error);
    if (!frame) return pithi_fail(error, PITH_ERR_ARG, "frame is NULL");
    PITHI_TRY(pithi_take(&e, sizeof e, env, "the environment", error));
    PITHI_TRY(pithi_frame_read(frame, length, &f, error));
    PITHI_TRY(pithi_check_limit(&e, &f, error));
    if (f.payload_bytes > length - f.header_bytes)
        return pithi_fail_with(
            error, PITH_ERR_TRUNCATED, length, "the frame has # bytes, found #",
            &(struct pithi_words){.number = {f.header_bytes + f.payload_bytes, length}});
    PITHI_TRY(pithi_plan_for_frame(&o->plan, &f, env, error));
    const pith_status status = add_work(o, env, e.max_output_bytes, error);
    return status == PITH_OK ? status : finish(o, status, error);
}

static pith_status decompress(const void *frame, size_t length, const pith_view *base,
                              const pith_env *env, const struct range *r, pith_error *error) {
    struct once o;
    PITHI_TRY(open_for_frame(&o, frame, length, env, error));
    struct pithi_coding c = {0};
    const uint64_t before = pithi_fp_enter();
    const pith_status status = decode_range(&c, o.work, o.plan, frame, length, base, r);
    pithi_fp_leave(before);
    return finish(&o, status, error);
}

pith_status pith_decompress(const void *frame, size_t length, const pith_view *base,
                            const pith_env *env, const pith_view *view, pith_error *error) {
    return decompress(frame, length, base, env, &(struct range){true, 0, view}, error);
}

pith_status pith_decode_range(const void *frame, size_t length, const pith_view *base,
                              uint64_t first, const pith_env *env, const pith_view *view,
                              pith_error *error) {
    return decompress(frame, length, base, env, &(struct range){false, first, view}, error);
}

/* ---- Verify ----------------------------------------------------------------------------------*/

/* Decodes a block without keeping the values. Whether it decodes does not depend on the base. */
static pith_status verify_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    const struct pithi_params *q = &c->frame.params;
    const uint64_t n = pithi_block_count(&c->frame, block);
    const bool with_base = q->base_dtype != PITH_NONE;
    if (with_base && !q->key_frame)
        memset(w->base, 0, (size_t)n * pithi_dtype_bytes(q->base_dtype));
    void *const out = q->codec->decode_placed ? NULL : w->values;
    return pithi_decode_one(c, block, out, q->dtype, with_base ? w->base : NULL, w);
}

static pith_status verify(struct pithi_coding *c, pith_work *work, const pith_plan *p,
                          const void *frame, size_t length) {
    PITHI_TRY(pithi_decode_open(c, work, p, frame, length));
    PITHI_TRY(pithi_check_blocks(c));
    PITHI_TRY(pithi_check_heads(c));
    c->update = c->frame.params.key_frame;
    pithi_parallel_begin(work);
    PITHI_TRY(pithi_parallel_blocks(c, 0, c->frame.payload.blocks, verify_job, c));
    pithi_parallel_results(work, work->worker, &c->hash, &c->saturated, &c->poisoned);
    return pithi_check_key(c);
}

pith_status pith_verify(const void *frame, size_t length, const pith_env *env, pith_error *error) {
    struct once o;
    PITHI_TRY(open_for_frame(&o, frame, length, env, error));
    struct pithi_coding c = {0};
    const uint64_t before = pithi_fp_enter();
    const pith_status status = verify(&c, o.work, o.plan, frame, length);
    pithi_fp_leave(before);
    return finish(&o, status, error);
}

/* ---- Compress --------------------------------------------------------------------------------*/

/* Makes the layout of a one-shot call: what the views say, and what the caller's layout says beyond
 * them. */
static pith_status take_layout(const pith_view *view, const pith_view *base,
                               const pith_layout *layout, pith_layout *made, pith_error *error) {
    pith_layout l;
    if (!view) return pithi_fail(error, PITH_ERR_ARG, "view is NULL");
    PITHI_TRY(pithi_take(&l, sizeof l, layout, "the layout", error));
    if (l.flags & (PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_CHECK_BASE | PITH_LAYOUT_TRUST_BASE))
        return pithi_fail(error, PITH_ERR_ARG, "a one-shot call has no stream to bind a base to");
    if (view->ndim > PITH_MAX_NDIM)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "at most # dimensions, not #",
                                  PITH_MAX_NDIM, view->ndim);
    const uint32_t base_dtype = base ? base->dtype : (uint32_t)PITH_NONE;
    if (l.dtype && l.dtype != view->dtype)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "the view has dtype $, the layout $",
                               &(struct pithi_words){.name = {pith_dtype_name(view->dtype),
                                                              pith_dtype_name(l.dtype)}});
    if (l.base_dtype && l.base_dtype != base_dtype)
        return pithi_fail_with(error, PITH_ERR_ARG, 0, "the base has dtype $, the layout says $",
                               &(struct pithi_words){.name = {pith_dtype_name(base_dtype),
                                                              pith_dtype_name(l.base_dtype)}});
    if (l.slots > 1 || l.slot_count || l.slot_counts)
        return pithi_fail(error, PITH_ERR_ARG, "a one-shot call makes one frame, without slots");
    bool same = l.ndim == view->ndim;
    for (uint32_t d = 0; same && d < l.ndim; d++) same = l.shape[d] == view->shape[d];
    if (l.ndim && !same)
        return pithi_fail_numbers(error, PITH_ERR_ARG,
                                  "the layout's shape, of # dimensions, is not the view's, of #",
                                  l.ndim, view->ndim);
    *made = (pith_layout){.size = sizeof *made,
                          .flags = l.flags,
                          .source = l.source,
                          .source_bytes = l.source_bytes,
                          .exempt = l.exempt,
                          .exempt_count = l.exempt_count,
                          .dtype = view->dtype,
                          .base_dtype = base_dtype,
                          .ndim = view->ndim};
    memcpy(made->shape, view->shape, sizeof made->shape);
    return PITH_OK;
}

pith_status pith_compress_bound(const char *spec, const pith_view *view, const pith_view *base,
                                const pith_layout *layout, uint64_t *bytes, pith_error *error) {
    pith_layout made;
    pithi_clear(error);
    if (!bytes) return pithi_fail(error, PITH_ERR_ARG, "bytes is NULL");
    *bytes = 0;
    PITHI_TRY(take_layout(view, base, layout, &made, error));
    return pithi_one_frame_bytes(spec, &made, bytes, error);
}

static pith_status compress(const struct once *o, const pith_view *view, const pith_view *base,
                            void *dst, size_t cap, size_t *written) {
    struct pithi_span span, base_span;
    struct pithi_coding c = {.work = o->work, .plan = o->plan, .view = &span};
    pith_error *const error = &o->work->error;
    if (!dst) return pithi_fail(error, PITH_ERR_ARG, "dst is NULL");
    if (pithi_has_residual(o->plan))
        return pithi_fail(error, PITH_ERR_STATE, "error feedback needs a stream");
    PITHI_TRY(pithi_span_init(&span, view, false, error));
    pithi_plan_frame(o->plan, 0, false, &c.frame);
    const uint64_t most = o->plan->sizes.frame_bytes, bytes = cap < most ? cap : most;
    if (pithi_span_overlaps(&span, span.count, dst, bytes))
        return pithi_fail(error, PITH_ERR_ARG, "the view overlaps the frame");
    if (base) {
        PITHI_TRY(pithi_span_init(&base_span, base, false, error));
        if (base_span.count != span.count)
            return pithi_fail_numbers(error, PITH_ERR_SHAPE, "the view has # elements, the base #",
                                      span.count, base_span.count);
        if (pithi_span_overlaps(&base_span, base_span.count, dst, bytes))
            return pithi_fail(error, PITH_ERR_ARG, "the base overlaps the frame");
        c.base = &base_span;
    }
    return pithi_encode_frame(&c, dst, cap, true, written);
}

pith_status pith_compress(const char *spec, const pith_view *view, const pith_view *base,
                          const pith_layout *layout, const pith_env *env, void *dst, size_t cap,
                          size_t *written, pith_error *error) {
    struct once o = {0};
    pith_layout made;
    pithi_clear(error);
    if (written) *written = 0;
    if (!written) return pithi_fail(error, PITH_ERR_ARG, "written is NULL");
    PITHI_TRY(take_layout(view, base, layout, &made, error));
    PITHI_TRY(pith_plan_create(&o.plan, spec, &made, env, error));
    pith_status status = add_work(&o, env, 0, error);
    if (status != PITH_OK) return finish(&o, status, error);
    const uint64_t before = pithi_fp_enter();
    status = compress(&o, view, base, dst, cap, written);
    pithi_fp_leave(before);
    return finish(&o, status, error);
}
