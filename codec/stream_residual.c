/* stream_residual.c - the residual of a stream as values, read and written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/convert.h"
#include "cpu.h"
#include "error.h"
#include "slots.h"
#include "stream.h"
#include "work.h"

/* A run of a slot that is transformed by itself, or the shorter one at the slot's end: residuals
 * are kept in the codec's domain, which mixes the elements of a run. */
struct run {
    uint64_t slot, first, count; /* in elements of the slot */
};

static struct pithi_block block_of(const pith_stream *s, const struct run *at) {
    return (struct pithi_block){.params = &s->plan->params,
                                .kernels = &s->plan->kernels,
                                .first = at->first,
                                .count = (size_t)at->count};
}

static void saturate(float *x, size_t count, uint32_t dtype) {
    const float most = pithi_float(pithi_largest(dtype));
    for (size_t i = 0; i < count; i++) x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

static bool is_finite(const float *x, size_t count) {
    uint32_t any = 0;
    for (size_t i = 0; i < count; i++) any |= pithi_nonfinite(pithi_bits(x[i]));
    return !any;
}

static void change(const pith_stream *s, const struct run *at, bool inverse, float *x) {
    const struct pithi_domain *const domain = s->plan->params.codec->domain;
    const struct pithi_block b = block_of(s, at);
    if (inverse)
        domain->leave(&b, 0, b.count, x, x, PITH_F32, 1.0f);
    else
        domain->enter(&b, 0, b.count, x);
}

/* Transforms a run of finite numbers, or transforms it back. What f32 does not reach becomes the
 * largest number: sums on the way, which may come back from beyond it, are those of numbers divided
 * by 2^9, and no sum of a run's products is more than PITHI_TRANSFORM_MAX times its largest
 * number. */
static void transform(const pith_stream *s, const struct run *at, bool inverse, float *x) {
    float divided[PITHI_TRANSFORM_MAX];
    const size_t count = (size_t)at->count;
    if (!s->plan->params.codec->domain) return;
    for (size_t i = 0; i < count; i++) divided[i] = x[i] * 0x1p-9f;
    change(s, at, inverse, x);
    if (is_finite(x, count)) return;
    change(s, at, inverse, divided);
    for (size_t i = 0; i < count; i++) x[i] = divided[i] * 0x1p9f;
    saturate(x, count, PITH_F32);
}

static void to_values(const pith_stream *s, const struct run *at, float *x) {
    memcpy(x, pithi_stream_residual(s, at->slot, 0) + at->first, (size_t)at->count * sizeof *x);
    transform(s, at, true, x);
}

typedef bool run_fn(pith_stream *s, const struct run *at, uint64_t tensor_first,
                    const struct pithi_span *view, uint64_t first, float *x);

/* Calls fn for each run that has elements of the view, which begins at element `first` of the
 * tensor; false as soon as a call returns false. */
static bool for_runs(pith_stream *s, uint64_t first, const struct pithi_span *view, run_fn *fn) {
    const pith_plan *const p = s->plan;
    const uint64_t length = pithi_transform_length(&p->params), end = first + view->count;
    float x[PITHI_TRANSFORM_MAX];
    if (!view->count) return true; /* an empty range is in no run */
    for (uint64_t i = 0; i < p->slots; i++) {
        const uint64_t slot = pithi_slot_first(p, i), count = pithi_slot_count(p, i);
        if (slot >= end || slot + count <= first) continue;
        const uint64_t unit = length > 1 ? length : PITHI_TRANSFORM_MAX;
        for (uint64_t at = first > slot ? (first - slot) / unit * unit : 0;
             at < count && slot + at < end; at += unit) {
            const struct run run = {i, at, count - at < unit ? count - at : unit};
            if (!fn(s, &run, slot + at, view, first, x)) return false;
        }
    }
    return true;
}

/* Returns [*from, *until), the elements that the view has of a run at `tensor_first`. */
static void cut_run(const struct run *at, uint64_t tensor_first, const struct pithi_span *view,
                    uint64_t first, uint64_t *from, uint64_t *until) {
    const uint64_t end = first + view->count;
    *from = first > tensor_first ? first - tensor_first : 0;
    *until = end - tensor_first < at->count ? end - tensor_first : at->count;
}

static bool read_run(pith_stream *s, const struct run *at, uint64_t tensor_first,
                     const struct pithi_span *view, uint64_t first, float *x) {
    uint64_t from, until, buffer[PITHI_TRANSFORM_MAX];
    cut_run(at, tensor_first, view, first, &from, &until);
    to_values(s, at, x);
    saturate(x + from, (size_t)(until - from), view->dtype);
    pithi_convert(buffer, view->dtype, x + from, PITH_F32, (size_t)(until - from));
    pithi_span_write(view, tensor_first + from - first, until - from, buffer);
    return true;
}

/* Writes to x the run in the codec's domain, with the view's values in place of the residual's;
 * false where one is not finite. */
static bool replace(const pith_stream *s, const struct run *at, uint64_t tensor_first,
                    const struct pithi_span *view, uint64_t first, float *x) {
    uint64_t from, until, buffer[PITHI_TRANSFORM_MAX];
    cut_run(at, tensor_first, view, first, &from, &until);
    to_values(s, at, x);
    pithi_convert(x + from, PITH_F32,
                  pithi_span_read(view, tensor_first + from - first, until - from, buffer),
                  view->dtype, (size_t)(until - from));
    if (!is_finite(x + from, (size_t)(until - from))) return false;
    transform(s, at, false, x);
    return true;
}

static bool check_run(pith_stream *s, const struct run *at, uint64_t tensor_first,
                      const struct pithi_span *view, uint64_t first, float *x) {
    return replace(s, at, tensor_first, view, first, x);
}

static bool write_run(pith_stream *s, const struct run *at, uint64_t tensor_first,
                      const struct pithi_span *view, uint64_t first, float *x) {
    replace(s, at, tensor_first, view, first, x);
    memcpy(pithi_stream_residual(s, at->slot, 0) + at->first, x, (size_t)at->count * sizeof *x);
    s->slot[at->slot].undone = true;
    return true;
}

static pith_status take_range(const pith_stream *s, uint64_t first, const pith_view *view,
                              bool output, struct pithi_span *span, pith_error *error) {
    if (!pithi_has_residual(s->plan))
        return pithi_fail(error, PITH_ERR_STATE, "the stream has no error feedback");
    PITHI_TRY(pithi_span_init(span, view, output, error));
    if (!pithi_is_float16_32(span->dtype))
        return pithi_fail_with(error, PITH_ERR_DTYPE, 0, "residuals are f32, bf16 or f16, not $",
                               &(struct pithi_words){.name = {pith_dtype_name(span->dtype)}});
    if (first <= s->plan->count && span->count <= s->plan->count - first) return PITH_OK;
    return pithi_fail_with(error, PITH_ERR_SHAPE, 0,
                           "a range of # elements from # on is not inside the tensor of #",
                           &(struct pithi_words){.number = {span->count, first, s->plan->count}});
}

pith_status pith_stream_get_residual(pith_work *w, const pith_stream *s, uint64_t first,
                                     const pith_view *view) {
    struct pithi_span span;
    PITHI_TRY(pithi_stream_enter_reading(w, s));
    const pith_status status = take_range(s, first, view, true, &span, &w->error);
    if (status != PITH_OK) return pithi_stream_leave_reading(w, status);
    const uint64_t before = pithi_fp_enter();
    for_runs((pith_stream *)(uintptr_t)s, first, &span, read_run);
    pithi_fp_leave(before);
    return pithi_stream_leave_reading(w, PITH_OK);
}

pith_status pith_stream_set_residual(pith_work *w, pith_stream *s, uint64_t first,
                                     const pith_view *view) {
    struct pithi_span span;
    PITHI_TRY(pithi_stream_begin(w, s));
    const pith_status status = take_range(s, first, view, false, &span, &w->error);
    if (status != PITH_OK) return pithi_stream_end(w, s, status);
    const uint64_t before = pithi_fp_enter();
    const bool good = for_runs(s, first, &span, check_run);
    if (good) for_runs(s, first, &span, write_run);
    pithi_fp_leave(before);
    if (good) return pithi_stream_end(w, s, PITH_OK);
    return pithi_stream_end(w, s, pithi_fail(&w->error, PITH_ERR_ARG, "a residual is not finite"));
}
