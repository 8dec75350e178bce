/* page_calls.c - pages of codec kv on their own, in batches, and accumulators kept as pages.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "block_io.h"
#include "common/convert.h"
#include "cpu.h"
#include "error.h"
#include "group/codebook_value.h"
#include "items.h"
#include "kv/cache.h"
#include "overlap.h"
#include "stream.h"

/* ---- Sizes -----------------------------------------------------------------------------------*/

uint32_t pith_kv_page_tokens(const pith_plan *plan) {
    struct pithi_paged p;
    return plan && pithi_paged_of(plan, &p) ? p.tokens : 0;
}

uint64_t pith_kv_page_bytes(const pith_plan *plan, uint32_t tokens) {
    struct pithi_paged p;
    if (!plan || !pithi_paged_of(plan, &p) || tokens == 0 || tokens > p.tokens) return 0;
    return pithi_kv_areas(&p.kv, tokens).bytes;
}

double pith_kv_page_bound(const pith_plan *plan, const void *page, uint32_t tokens) {
    struct pithi_paged p;
    if (!plan || !page || !pith_kv_page_bytes(plan, tokens)) return -1;
    pithi_paged_of(plan, &p);
    const struct pithi_block b = {.params = &plan->params,
                                  .count = (size_t)tokens * p.row,
                                  .bytes = (uint8_t *)(uintptr_t)page,
                                  .length = pithi_kv_areas(&p.kv, tokens).bytes};
    const uint64_t before = pithi_fp_enter();
    const double bound = plan->params.codec->bound(&b);
    pithi_fp_leave(before);
    return bound;
}

double pith_kv_idempotent_from(const pith_plan *plan) {
    struct pithi_paged p;
    if (!plan || !pith_kv_page_tokens(plan)) return (double)pithi_float(PITHI_F32_INF);
    pithi_paged_of(plan, &p);
    const struct pithi_group_setting *const set = &p.kv.set;
    const bool lloyd = set->codebook == PITHI_CODEBOOK_LLOYD;
    const bool lost = p.kv.rotation || set->codebook == PITHI_CODEBOOK_TRELLIS ||
                      (p.kv.outliers && (set->asymmetric || lloyd)) ||
                      (lloyd && p.kv.dtype != PITH_F32);
    if (lost) return (double)pithi_float(PITHI_F32_INF);
    if (set->codebook) return 0x1p-14;
    return set->asymmetric && set->scale_dtype == PITH_F16 ? 0x1p-20 : 0;
}

/* ---- Batches ---------------------------------------------------------------------------------*/

struct batch {
    struct pithi_paged paged;
    const pith_view *like;
    struct pithi_span span; /* the span of one page's values; others differ in their data */
    const pith_kv_pair *pairs;
    bool nontemporal;
};

static uint32_t tokens_of(const struct batch *b, const pith_kv_pair *pair) {
    return pair->tokens ? pair->tokens : b->paged.tokens;
}

static struct pithi_span span_of(const struct batch *b, const pith_kv_pair *pair) {
    struct pithi_span span = b->span;
    span.data = pair->values;
    return span;
}

static pith_status encode_job(void *arg, uint64_t i, struct pithi_worker *w) {
    const struct batch *b = arg;
    const pith_kv_pair *pair = &b->pairs[i];
    const struct pithi_span span = span_of(b, pair);
    const uint32_t tokens = tokens_of(b, pair);
    const size_t bytes = pithi_kv_areas(&b->paged.kv, tokens).bytes;
    struct pithi_kv_rows rows = {
        .tokens = tokens,
        .count = tokens,
        .value = pithi_span_read(&span, 0, tokens * b->paged.row, w->values),
        .nontemporal = b->nontemporal,
        .scratch = w->scratch};
    pithi_kv_clear(&b->paged.kv, pair->page, tokens);
    pithi_kv_put(&b->paged.kv, pair->page, &rows);
    memset((uint8_t *)pair->page + bytes, 0, b->paged.bytes - bytes);
    return PITH_OK;
}

static pith_status decode_job(void *arg, uint64_t i, struct pithi_worker *w) {
    const struct batch *b = arg;
    const pith_kv_pair *pair = &b->pairs[i];
    const struct pithi_span span = span_of(b, pair);
    const struct pithi_kv *k = &b->paged.kv;
    const bool direct = pithi_paged_direct(k, b->like, k->heads);
    const uint32_t tokens = tokens_of(b, pair);
    const uint32_t most = direct ? tokens : pithi_paged_some(&b->paged, b->paged.row);
    struct pithi_kv_part part = {
        .tokens = tokens,
        .heads = k->heads,
        .out = direct ? pair->values : w->values,
        .out_dtype = span.dtype,
        .token_stride = direct ? b->like->stride[0] : (int64_t)b->paged.row,
        .nontemporal = direct && b->nontemporal,
        .scratch = w->scratch};
    for (; part.first < tokens; part.first += part.count) {
        part.count = tokens - part.first < most ? tokens - part.first : most;
        pithi_kv_get(k, pair->page, &part);
        if (!direct)
            pithi_span_write(&span, part.first * b->paged.row, part.count * b->paged.row,
                             w->values);
    }
    return PITH_OK;
}

static pith_status take_batch(pith_work *w, const pith_plan *plan, const pith_view *like,
                              const pith_kv_pair *pairs, size_t count, bool output,
                              struct batch *b) {
    pith_error *const error = &w->error;
    PITHI_TRY(pithi_paged_require(plan, &b->paged, error));
    PITHI_TRY(pithi_work_attach(w, plan, NULL));
    if (!like || (!pairs && count)) return pithi_fail(error, PITH_ERR_ARG, "an argument is NULL");
    b->like = like;
    b->pairs = pairs;
    pith_view any = *like;
    any.data = w; /* only its shape is looked at */
    PITHI_TRY(pithi_paged_view(&b->paged.kv, &any, b->paged.kv.heads, output, &b->span, error));
    if (like->shape[0] != b->paged.tokens)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "a page has # tokens, the view #",
                                  b->paged.tokens, like->shape[0]);
    for (size_t i = 0; i < count; i++)
        if (!pairs[i].values || !pairs[i].page || pairs[i].tokens > b->paged.tokens)
            return pithi_fail_with(error, PITH_ERR_ARG, i,
                                   "pair #: values or page are NULL, or it has more than # tokens",
                                   &(struct pithi_words){.number = {i, b->paged.tokens}});
    for (size_t i = 0; i < count && b->span.dense; i++)
        if (pithi_overlap(pairs[i].values, tokens_of(b, &pairs[i]) * b->paged.row * b->span.element,
                          pairs[i].page, b->paged.bytes))
            return pithi_fail_with(error, PITH_ERR_ARG, i, "pair #: values and page overlap",
                                   &(struct pithi_words){.number = {i}});
    b->nontemporal = count * b->span.count * b->span.element >= PITHI_LARGE_OUTPUT;
    return PITH_OK;
}

static pith_status run_batch(pith_work *w, size_t count, pithi_block_fn *job, struct batch *b) {
    const uint64_t before = pithi_fp_enter();
    pithi_parallel_begin(w);
    const pith_status status = pithi_parallel_for(w, 0, count, job, b);
    pithi_fp_leave(before);
    return status;
}

static pith_status encode_pages(pith_work *w, const pith_plan *plan, const pith_view *like,
                                const pith_kv_pair *pairs, size_t count) {
    struct batch b;
    PITHI_TRY(take_batch(w, plan, like, pairs, count, false, &b));
    if (like->dtype != b.paged.kv.dtype)
        return pithi_fail_with(&w->error, PITH_ERR_DTYPE, 0, "the view has dtype $, the layout $",
                               &(struct pithi_words){.name = {pith_dtype_name(like->dtype),
                                                              pith_dtype_name(b.paged.kv.dtype)}});
    return run_batch(w, count, encode_job, &b);
}

pith_status pith_kv_encode_pages(pith_work *w, const pith_plan *plan, const pith_view *like,
                                 const pith_kv_pair *pairs, size_t count) {
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = encode_pages(w, plan, like, pairs, count);
    pithi_work_leave(w);
    return status;
}

static pith_status decode_pages(pith_work *w, const pith_plan *plan, const pith_view *like,
                                const pith_kv_pair *pairs, size_t count) {
    struct batch b;
    PITHI_TRY(take_batch(w, plan, like, pairs, count, true, &b));
    if (!pithi_is_float16_32(like->dtype))
        return pithi_fail_with(&w->error, PITH_ERR_DTYPE, 0,
                               "pages decode to f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(like->dtype)}});
    return run_batch(w, count, decode_job, &b);
}

pith_status pith_kv_decode_pages(pith_work *w, const pith_plan *plan, const pith_view *like,
                                 const pith_kv_pair *pairs, size_t count) {
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status = decode_pages(w, plan, like, pairs, count);
    pithi_work_leave(w);
    return status;
}

/* ---- Accumulators ----------------------------------------------------------------------------*/

struct accumulation {
    pith_work *work;      /* attached to the accumulator's plan, with the delta's as its second */
    pith_work delta_work; /* attached to the delta's plan, with the accumulator's as its second */
    struct pithi_coding sum, put, delta; /* sum, put: the accumulator before and after */
    const struct pithi_span *view;
};

static pith_status decode_sum(const struct accumulation *f, uint64_t block,
                              struct pithi_worker *w) {
    return pithi_decode_one(&f->sum, block, w->values, f->sum.frame.params.dtype, NULL, w);
}

static pith_status hash_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct accumulation *f = arg;
    const size_t element = pith_dtype_bytes(f->sum.frame.params.dtype);
    const uint64_t first = pithi_block_first(&f->sum.frame, block);
    const size_t n = (size_t)pithi_block_count(&f->sum.frame, block);
    PITHI_TRY(decode_sum(f, block, w));
    w->hash += f->sum.plan->kernels.nh(w->values, n * element, first * element / 8);
    return PITH_OK;
}

/* Decodes a block of a variable-rate delta without using it: damage shows in blocks, and must not
 * be found after the accumulator was changed. */
static pith_status look_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct accumulation *f = arg;
    struct pithi_worker *other = &f->work->second[w - f->work->worker];
    return pithi_decode_one(&f->delta, block, w->floats, PITH_F32, NULL, other);
}

/* Adds the delta's block to values, where the delta has no base. */
static pith_status add_delta(const struct accumulation *f, uint64_t block, uint8_t *values,
                             size_t count, struct pithi_worker *w, struct pithi_worker *other) {
    const uint32_t dtype = f->sum.frame.params.dtype;
    float *const x = (float *)(void *)w->floats;
    PITHI_TRY(pithi_decode_one(&f->delta, block, x, PITH_F32, NULL, other));
    for (size_t i = 0; i < count; i++)
        pithi_store(values, dtype, i, pithi_bits(pithi_float(pithi_load(values, dtype, i)) + x[i]));
    return PITH_OK;
}

static void show(const struct accumulation *f, uint64_t block, size_t count,
                 struct pithi_worker *w) {
    const uint32_t dtype = f->sum.frame.params.dtype;
    const void *values = w->values;
    if (f->view->dtype != dtype) {
        pithi_convert(w->sums, f->view->dtype, values, dtype, count);
        values = w->sums;
    }
    pithi_block_store(&f->sum.frame, block, 0, f->sum.frame.count, f->view, values, NULL);
}

static pith_status accumulate_job(void *arg, uint64_t block, struct pithi_worker *w) {
    const struct accumulation *f = arg;
    struct pithi_worker *other = &f->work->second[w - f->work->worker];
    const size_t n = (size_t)pithi_block_count(&f->sum.frame, block);
    PITHI_TRY(decode_sum(f, block, w));
    if (f->delta.update)
        PITHI_TRY(pithi_decode_one(&f->delta, block, NULL, f->delta.frame.params.dtype, w->values,
                                   other));
    else
        PITHI_TRY(add_delta(f, block, w->values, n, w, other));
    if (f->view) show(f, block, n, w);
    return pithi_encode_one(&f->put, block, w->values, NULL, w);
}

static pith_status run_accumulation(struct accumulation *f, pithi_block_fn *job) {
    pithi_parallel_begin(f->work);
    return pithi_parallel_for(f->work, 0, f->sum.frame.payload.blocks, job, f);
}

static pith_status check_base_hash(struct accumulation *f) {
    const struct pithi_frame *d = &f->delta.frame;
    uint64_t hash, ignored;
    if (!d->has_base_hash) return PITH_OK;
    PITHI_TRY(run_accumulation(f, hash_job));
    pithi_parallel_results(f->work, f->work->worker, &hash, &ignored, &ignored);
    if (pithi_base_hash(f->delta.plan, hash, d->count) == d->base_hash) return PITH_OK;
    return pithi_fail(&f->work->error, PITH_ERR_BASE, "the accumulator is not the delta's base");
}

static pith_status check_accumulation(const struct accumulation *f) {
    const struct pithi_frame *s = &f->sum.frame, *d = &f->delta.frame;
    pith_error *const error = &f->work->error;
    if (!s->params.codec->refuse_pages || !d->params.codec->refuse_pages || s->params.base_dtype ||
        !f->sum.frame.payload.fixed)
        return pithi_fail(error, PITH_ERR_UNSUPPORTED,
                          "frames of codec kv are accumulated, into one of fixed rate");
    if (!pithi_frame_same_tiles(s, d) ||
        memcmp(s->tiling.extent, d->tiling.extent, sizeof s->tiling.extent) != 0)
        return pithi_fail(error, PITH_ERR_MISMATCH, "the frames differ in shape or page");
    if (d->params.key_frame)
        return pithi_fail(error, PITH_ERR_MISMATCH, "the delta is a key frame");
    if (d->params.base_dtype && d->params.base_dtype != s->params.dtype)
        return pithi_fail_with(error, PITH_ERR_MISMATCH, 0,
                               "the delta's base is $, the accumulator $",
                               &(struct pithi_words){.name = {pith_dtype_name(d->params.base_dtype),
                                                              pith_dtype_name(s->params.dtype)}});
    return PITH_OK;
}

/* Opens the delta with a work of its own, so that its blocks are found where its plan's worker
 * keeps them. */
static pith_status open_delta(struct accumulation *f, const pith_plan *plan, const void *delta,
                              size_t bytes) {
    pith_work *const w = f->work;
    f->delta_work = (pith_work){.error = {.size = sizeof f->delta_work.error},
                                .env = w->env,
                                .workers = w->workers,
                                .worker = w->second,
                                .second = w->worker,
                                .lane_bytes = w->lane_bytes};
    const pith_status status = pithi_decode_slot(&f->delta, &f->delta_work, plan, 0, delta, bytes);
    if (status != PITH_OK) pithi_error_copy(&w->error, &f->delta_work.error);
    return status;
}

static pith_status open_accumulation(struct accumulation *f, const pith_plan *plan, void *frame,
                                     size_t bytes, const pith_plan *other, const void *delta,
                                     size_t delta_bytes) {
    pith_work *const w = f->work;
    PITHI_TRY(pithi_decode_slot(&f->sum, w, plan, 0, frame, bytes));
    PITHI_TRY(open_delta(f, other, delta, delta_bytes));
    PITHI_TRY(check_accumulation(f));
    PITHI_TRY(pithi_check_limit(&w->env, &f->sum.frame, &w->error));
    f->delta.update = f->delta.frame.params.base_dtype != PITH_NONE;
    f->put = (struct pithi_coding){.plan = plan, .work = w};
    pithi_plan_frame(plan, 0, false, &f->put.frame);
    f->put.frame.checksums = f->sum.frame.checksums;
    f->put.frame.payload = f->sum.frame.payload;
    f->put.bytes = f->sum.bytes;
    return PITH_OK;
}

static pith_status accumulate_view(struct accumulation *f, const pith_plan *plan,
                                   const pith_view *view, struct pithi_span *span) {
    pith_error *const error = &f->work->error;
    if (!view) return PITH_OK;
    PITHI_TRY(pithi_span_init(span, view, true, error));
    PITHI_TRY(pithi_output_dtype(&plan->params, view->dtype, error));
    if (span->count != plan->count)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "the tensor has # elements, the view #",
                                  plan->count, span->count);
    f->view = span;
    return PITH_OK;
}

static pith_status accumulate(pith_work *w, const pith_plan *plan, void *frame, size_t bytes,
                              const pith_plan *delta_plan, const void *delta, size_t delta_bytes,
                              const pith_view *view) {
    struct accumulation f = {.work = w};
    struct pithi_span span;
    if (!plan || !frame || !delta || !delta_plan)
        return pithi_fail(&w->error, PITH_ERR_ARG, "an argument is NULL");
    if (!plan->one_frame || !delta_plan->one_frame)
        return pithi_fail(&w->error, PITH_ERR_UNSUPPORTED,
                          "accumulators are for plans of one frame");
    PITHI_TRY(accumulate_view(&f, plan, view, &span));
    if (f.view && (pithi_span_overlaps(f.view, span.count, frame, bytes) ||
                   pithi_span_overlaps(f.view, span.count, delta, delta_bytes)))
        return pithi_fail(&w->error, PITH_ERR_ARG, "the view overlaps a frame");
    if (frame != delta && pithi_overlap(frame, bytes, delta, delta_bytes))
        return pithi_fail(&w->error, PITH_ERR_ARG, "the delta overlaps the accumulator");
    PITHI_TRY(pithi_work_attach(w, plan, delta_plan));
    const uint64_t before = pithi_fp_enter();
    pith_status status = open_accumulation(&f, plan, frame, bytes, delta_plan, delta, delta_bytes);
    if (status == PITH_OK && !f.delta.frame.payload.fixed) status = run_accumulation(&f, look_job);
    if (status == PITH_OK) status = check_base_hash(&f);
    if (status == PITH_OK) status = run_accumulation(&f, accumulate_job);
    pithi_fp_leave(before);
    return status;
}

pith_status pith_kv_accumulate(pith_work *w, const pith_plan *plan, void *frame, size_t bytes,
                               const pith_plan *delta_plan, const void *delta, size_t delta_bytes,
                               const pith_view *view) {
    PITHI_TRY(pithi_work_enter(w));
    const pith_status status =
        accumulate(w, plan, frame, bytes, delta_plan, delta, delta_bytes, view);
    pithi_work_leave(w);
    return status;
}
