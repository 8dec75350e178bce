/* oneshot.c - calls that take a frame or a view and no plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oneshot.h"

#include "cpu.h"
#include "error.h"
#include "parallel.h"
#include "spec.h"

/* ---- Inspect ---------------------------------------------------------------------------------*/

static void fill_info(const struct pithi_frame *f, pith_info *info) {
    const struct pithi_params *q = &f->params;
    info->frame_bytes = f->header_bytes + f->payload_bytes;
    info->count = f->count;
    info->raw_bytes = f->count * pith_dtype_bytes(q->dtype);
    info->base_hash = f->base_hash;
    info->step = f->step;
    memcpy(info->shape, f->shape, sizeof info->shape);
    info->ndim = f->ndim;
    info->dtype = q->dtype;
    info->base_dtype = q->base_dtype;
    info->codec = q->codec->id;
    info->revision = q->codec->revision;
    while (info->block_log2 < 31 && 1u << info->block_log2 < q->block) info->block_log2++;
    info->stream = f->stream;
    info->is_key = q->key_frame;
    info->has_step = f->has_stream;
    info->has_base_hash = f->has_base_hash;
    info->has_checksums = f->checksums;
    info->codec_name = q->codec->name;
    pithi_spec_print(q, info->spec, sizeof info->spec);
    info->source = f->source;
    info->source_bytes = f->source_bytes;
    info->exempt = f->exempt_count;
    info->bound = f->bound.largest;
    info->relative_bound = f->bound.kind == PITHI_BOUND_RELATIVE ? f->bound.value : 0;
}

pith_status pith_inspect(const void *bytes, size_t length, pith_info *info, pith_error *error) {
    struct pithi_frame frame;
    pithi_fail(error, PITH_OK, "");
    if (!info || (!bytes && length)) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    *info = (pith_info){.codec_name = ""};
    const pith_status status = pithi_frame_read(bytes, length, &frame, error);
    info->header_bytes = frame.header_bytes;
    if (status == PITH_OK) fill_info(&frame, info);
    return status;
}

/* ---- Bound -----------------------------------------------------------------------------------*/

/* The next block from *at on; *at moves past it. */
static pith_status next_block(const struct pithi_frame *f, const struct pithi_payload *p,
                              const uint8_t *payload, uint64_t index, uint64_t *at,
                              struct pithi_block *b, pith_error *error) {
    *b = (struct pithi_block){.params = &f->params, .first = pithi_block_first(f, index)};
    b->count = (size_t)pithi_block_count(f, index);
    b->length = (size_t)f->params.codec->block_bytes(&f->params, b->count);
    if (!p->fixed) {
        const uint32_t entry = pithi_get32(payload + p->index + 4 * index);
        b->length = entry & ~PITHI_PLAIN;
        b->plain = entry & PITHI_PLAIN;
    }
    if (b->length > f->payload_bytes - *at)
        return pithi_fail_at(error, PITH_ERR_CORRUPT, "a block is too long", f->header_bytes + *at);
    b->bytes = (uint8_t *)(uintptr_t)payload + *at;
    *at += b->length;
    return PITH_OK;
}

/* Half the distance of neighbours at 16 bits, of exempt values that have more. */
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
        values += e.count * pith_dtype_bytes(stored);
    }
    return bound;
}

static pith_status largest_bound(const void *frame, size_t length, double *bound,
                                 pith_error *error) {
    struct pithi_frame f;
    struct pithi_payload p;
    PITHI_TRY(pithi_frame_read(frame, length, &f, error));
    if (f.payload_bytes > length - f.header_bytes)
        return pithi_fail_at(error, PITH_ERR_TRUNCATED, "the payload is cut", length);
    *bound = f.bound.largest; /* 0 where the codec has none */
    if (!f.params.codec->bound || f.params.key_frame) return PITH_OK;
    pithi_payload_of(&f, &p);
    const uint8_t *payload = (const uint8_t *)frame + f.header_bytes;
    uint64_t at = p.data;
    *bound = exempt_bound(&f, payload + p.exempt_values);
    for (uint64_t i = 0; i < p.blocks; i++) { /* of all: a damaged one may follow one of NaN */
        struct pithi_block b;
        PITHI_TRY(next_block(&f, &p, payload, i, &at, &b, error));
        const double one = f.params.codec->bound(&b);
        if (one != one || one > *bound) *bound = one;
        if (one < 0) return pithi_fail(error, PITH_ERR_CORRUPT, "a block's bound is damaged");
    }
    return PITH_OK;
}

pith_status pith_error_bound(const void *frame, size_t length, double *bound, pith_error *error) {
    pithi_fail(error, PITH_OK, "");
    if (!frame || !bound) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    *bound = 0;
    const uint64_t before = pithi_fp_enter();
    const pith_status status = largest_bound(frame, length, bound, error);
    pithi_fp_leave(before);
    return status;
}

/* ---- Base identity ---------------------------------------------------------------------------*/

static pith_status identity_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    const uint64_t first = pithi_block_first(&c->frame, block);
    const uint64_t n = pithi_block_count(&c->frame, block);
    const void *base = pithi_span_read(c->base, first, n, w->base);
    w->hash +=
        c->plan->kernels.nh(base, (size_t)n * c->base->element, first * c->base->element / 8);
    return PITH_OK;
}

pith_status pithi_check_base_hash(struct pithi_coding *c) {
    pith_plan *p = c->plan;
    uint64_t hash, saturated, poisoned;
    if (!c->frame.has_base_hash) return PITH_OK;
    pithi_parallel_begin(p);
    PITHI_TRY(pithi_parallel_for(p, 0, c->payload.blocks, identity_job, c));
    pithi_parallel_results(p, &hash, &saturated, &poisoned);
    if (pithi_nh_finish(hash, c->frame.count * c->base->element, c->base->dtype) ==
        c->frame.base_hash)
        return PITH_OK;
    return pithi_fail(&p->error, PITH_ERR_BASE, "the base is not the encoder's");
}

pith_status pithi_check_key(const struct pithi_coding *c) {
    const struct pithi_frame *f = &c->frame;
    const uint32_t dtype = f->params.base_dtype;
    if (!f->params.key_frame || !f->has_base_hash) return PITH_OK;
    if (pithi_nh_finish(c->hash, f->count * pith_dtype_bytes(dtype), dtype) == f->base_hash)
        return PITH_OK;
    return pithi_fail(&c->plan->error, PITH_ERR_CHECKSUM, "the key frame is not what it says");
}

static pith_status take_base(struct pithi_coding *c, const pith_view *view,
                             struct pithi_span *span) {
    pith_error *error = &c->plan->error;
    if (c->frame.params.base_dtype == PITH_NONE || c->frame.params.key_frame) return PITH_OK;
    if (!view) return pithi_fail(error, PITH_ERR_BASE, "the frame needs a base");
    PITHI_TRY(pithi_span_init(span, view, false, error));
    if (span->dtype != c->frame.params.base_dtype)
        return pithi_fail(error, PITH_ERR_BASE, "the base has another dtype than the encoder's");
    if (span->count != c->frame.count)
        return pithi_fail(error, PITH_ERR_BASE, "the base has another size than the encoder's");
    c->base = span;
    return pithi_check_base_hash(c);
}

/* ---- Decompress ------------------------------------------------------------------------------*/

struct range {
    bool whole; /* first is 0 and count is the frame's */
    uint64_t first;
    const pith_view *view;
};

static pith_status decode_range(struct pithi_coding *c, pith_plan *p, const void *frame,
                                size_t length, const pith_view *base, const struct range *r) {
    struct pithi_span out, base_span;
    PITHI_TRY(pithi_span_init(&out, r->view, true, &p->error));
    PITHI_TRY(pithi_decode_open(c, p, frame, length));
    PITHI_TRY(pithi_output_dtype(&c->frame.params, out.dtype, &p->error));
    if (r->whole && out.count != c->frame.count)
        return pithi_fail(&p->error, PITH_ERR_SHAPE, "the view has another count than the frame");
    if (r->first > c->frame.count || out.count > c->frame.count - r->first)
        return pithi_fail(&p->error, PITH_ERR_SHAPE, "the range is not inside the tensor");
    c->view = &out;
    c->first = r->first;
    c->count = out.count;
    PITHI_TRY(pithi_check_blocks(c));
    PITHI_TRY(take_base(c, base, &base_span));
    c->update = c->frame.params.key_frame && c->count == c->frame.count;
    PITHI_TRY(pithi_decode_blocks(c));
    return c->update ? pithi_check_key(c) : PITH_OK;
}

/* A plan for the frame's own setting, for the duration of one call. The payload must be whole,
 * so that what is allocated is in proportion to bytes that are there. */
static pith_status plan_of(const void *frame, size_t length, const pith_env *env, pith_plan **plan,
                           pith_error *error) {
    struct pithi_frame f;
    pith_env e;
    *plan = NULL;
    pithi_fail(error, PITH_OK, "");
    if (!frame) return pithi_fail(error, PITH_ERR_ARG, "frame is NULL");
    PITHI_TRY(pithi_take(&e, sizeof e, env, error));
    PITHI_TRY(pithi_frame_read(frame, length, &f, error));
    PITHI_TRY(pithi_check_limit(&e, &f, error));
    if (f.payload_bytes > length - f.header_bytes)
        return pithi_fail_at(error, PITH_ERR_TRUNCATED, "the payload is cut", length);
    return pithi_plan_for_frame(plan, &f, env, error);
}

static pith_status finish(pith_plan *p, pith_status status, pith_error *error) {
    if (status != PITH_OK) pithi_fail_at(error, status, p->error.text, p->error.offset);
    pith_plan_destroy(p);
    return status;
}

static pith_status decompress(const void *frame, size_t length, const pith_view *base,
                              const pith_env *env, const struct range *r, pith_error *error) {
    pith_plan *p;
    PITHI_TRY(plan_of(frame, length, env, &p, error));
    struct pithi_coding c = {0};
    const uint64_t before = pithi_fp_enter();
    const pith_status status = decode_range(&c, p, frame, length, base, r);
    pithi_fp_leave(before);
    return finish(p, status, error);
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

/* What a block decodes to is not kept, and whether it decodes does not depend on the base. */
static pith_status verify_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct pithi_coding *c = arg;
    const struct pithi_params *q = &c->frame.params;
    const uint64_t n = pithi_block_count(&c->frame, block);
    const bool with_base = q->base_dtype != PITH_NONE;
    if (with_base && !q->key_frame) memset(w->base, 0, (size_t)n * pith_dtype_bytes(q->base_dtype));
    void *const out = q->codec->lays ? NULL : w->values;
    return pithi_decode_one(c, block, out, q->dtype, with_base ? w->base : NULL, w);
}

static pith_status verify(struct pithi_coding *c, pith_plan *p, const void *frame, size_t length) {
    PITHI_TRY(pithi_decode_open(c, p, frame, length));
    PITHI_TRY(pithi_check_blocks(c));
    c->update = c->frame.params.key_frame;
    pithi_parallel_begin(p);
    PITHI_TRY(pithi_parallel_blocks(c, 0, c->payload.blocks, verify_job, c));
    pithi_parallel_results(p, &c->hash, &c->saturated, &c->poisoned);
    return pithi_check_key(c);
}

pith_status pith_verify(const void *frame, size_t length, const pith_env *env, pith_error *error) {
    pith_plan *p;
    PITHI_TRY(plan_of(frame, length, env, &p, error));
    struct pithi_coding c = {0};
    return finish(p, verify(&c, p, frame, length), error);
}

/* ---- Compress --------------------------------------------------------------------------------*/

static pith_status compress(pith_plan *p, const pith_view *view, const pith_view *base, void *dst,
                            size_t cap, size_t *written) {
    struct pithi_span span, base_span;
    struct pithi_coding c = {.plan = p, .view = &span};
    if (!dst) return pithi_fail(&p->error, PITH_ERR_ARG, "dst is NULL");
    if (pithi_has_residual(p))
        return pithi_fail(&p->error, PITH_ERR_STATE, "error feedback needs a plan and a state");
    PITHI_TRY(pithi_span_init(&span, view, false, &p->error));
    pithi_plan_frame(p, 0, false, &c.frame);
    if (base) {
        PITHI_TRY(pithi_span_init(&base_span, base, false, &p->error));
        if (base_span.count != span.count)
            return pithi_fail(&p->error, PITH_ERR_SHAPE, "value and base differ in count");
        c.base = &base_span;
    }
    return pithi_encode_frame(&c, dst, cap, true, written);
}

pith_status pith_compress(const char *spec, const pith_view *view, const pith_view *base,
                          const pith_layout *layout, const pith_env *env, void *dst, size_t cap,
                          size_t *written, pith_error *error) {
    pith_plan *p;
    pith_layout l;
    if (written) *written = 0;
    if (!written || !view) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    PITHI_TRY(pithi_take(&l, sizeof l, layout, error));
    if (l.flags & (PITH_LAYOUT_EXTERNAL_BASE | PITH_LAYOUT_CHECK_BASE | PITH_LAYOUT_TRUST_BASE))
        return pithi_fail(error, PITH_ERR_ARG, "a one-shot call has no state to bind a base to");
    pith_layout made = {.size = sizeof made,
                        .flags = l.flags,
                        .source = l.source,
                        .source_bytes = l.source_bytes,
                        .exempt = l.exempt,
                        .exempt_count = l.exempt_count,
                        .dtype = view->dtype,
                        .base_dtype = base ? base->dtype : (uint32_t)PITH_NONE,
                        .ndim = view->ndim};
    memcpy(made.shape, view->shape, sizeof made.shape);
    PITHI_TRY(pith_plan_create(&p, spec, &made, env, error));
    const uint64_t before = pithi_fp_enter();
    const pith_status status = compress(p, view, base, dst, cap, written);
    pithi_fp_leave(before);
    return finish(p, status, error);
}
