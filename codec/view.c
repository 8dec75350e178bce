/* view.c - tensor views: checks, counts, gather and scatter.
 * SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <string.h>

#include "common/checked.h"
#include "common/dtype.h"
#include "error.h"

/* The shape and strides stay in registers: put together in memory, they would be copied in other
 * pieces than they were stored in, and such a copy waits for every store before it. */
pith_view pith_view_dense(const void *data, uint32_t dtype, uint32_t ndim, const uint64_t *shape) {
    static const uint64_t none = 0;
    const bool fits = ndim <= PITH_MAX_NDIM;
    uint64_t n[PITH_MAX_NDIM], step = 1;
    int64_t s[PITH_MAX_NDIM];
    for (uint32_t d = PITH_MAX_NDIM; d-- > 0;) {
        const bool there = fits && d < ndim;
        n[d] = *(there ? shape + d : &none);
        s[d] = there ? (int64_t)step : 0;
        step *= n[d] + (n[d] == 0);
    }
    return (pith_view){(void *)(uintptr_t)data,
                       fits ? dtype : PITH_NONE,
                       fits ? ndim : 0,
                       {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]},
                       {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]}};
}

pith_view pith_view_flat(const void *data, uint32_t dtype, uint64_t count) {
    return pith_view_dense(data, dtype, 1, &count);
}

/* Counts the elements of a view, UINT64_MAX when that does not fit, and finds whether they lie one
 * after another. */
static uint64_t measure(const pith_view *view, bool *dense) {
    uint64_t count = 1;
    bool fits = true;
    *dense = true;
    for (uint32_t d = view->ndim < PITH_MAX_NDIM ? view->ndim : PITH_MAX_NDIM; d-- > 0;) {
        const uint64_t n = view->shape[d];
        if (n == 1) continue;
        if (n == 0) return 0;
        *dense = *dense && (uint64_t)view->stride[d] == count;
        fits = pithi_checked_multiply(count, n, &count) && fits;
    }
    return fits ? count : UINT64_MAX;
}

uint64_t pith_view_count(const pith_view *view) {
    bool ignored;
    return measure(view, &ignored);
}

/* Appends a dimension, or grows the last one when the new one lies dense inside it. */
static void append(struct pithi_span *s, uint64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (s->ndim && (uint64_t)s->stride[s->ndim - 1] == (uint64_t)stride * extent) {
        s->shape[s->ndim - 1] *= extent;
        s->stride[s->ndim - 1] = stride;
        return;
    }
    s->shape[s->ndim] = extent;
    s->stride[s->ndim++] = stride;
}

pith_status pithi_span_init(struct pithi_span *span, const pith_view *view, bool output,
                            pith_error *error) {
    uint64_t bytes;
    bool dense;
    span->first = 0; /* fields are set one by one, since most of the arrays is not read */
    span->ndim = 0;
    if (!view) return pithi_fail(error, PITH_ERR_ARG, "view is NULL");
    if (view->ndim > PITH_MAX_NDIM)
        return pithi_fail_numbers(error, PITH_ERR_SHAPE, "at most # dimensions, the view has #",
                                  PITH_MAX_NDIM, view->ndim);
    span->element = pithi_dtype_bytes(view->dtype);
    if (!span->element)
        return pithi_fail(error, PITH_ERR_DTYPE, "the view has no dtype, or an unknown one");
    span->dtype = view->dtype;
    span->data = view->data;
    span->count = measure(view, &dense);
    if (!pithi_checked_multiply(span->count, span->element, &bytes) || bytes > (uint64_t)INT64_MAX)
        return pithi_fail(error, PITH_ERR_SHAPE, "view is larger than the address space");
    span->dense = true;
    if (span->count == 0) return PITH_OK;
    if (!view->data) return pithi_fail(error, PITH_ERR_ARG, "view has elements but no data");
    if (bytes <= (uint64_t)INT64_MAX / 16 && dense) {
        append(span, span->count, (int64_t)span->element);
        return PITH_OK;
    }
    for (uint32_t d = 0; d < view->ndim; d++) {
        const int64_t stride = view->stride[d];
        if (output && stride == 0 && view->shape[d] > 1)
            return pithi_fail(error, PITH_ERR_SHAPE, "an output view has a zero stride");
        if (view->shape[d] > 1 && (stride > INT64_MAX / 16 || stride < -(INT64_MAX / 16)))
            return pithi_fail(error, PITH_ERR_SHAPE, "view has a stride out of range");
        /* A dimension of one element never uses its stride, which may be any number. */
        append(span, view->shape[d], view->shape[d] > 1 ? stride * (int64_t)span->element : 0);
    }
    span->dense = span->ndim == 0 || (span->ndim == 1 && span->stride[0] == (int64_t)span->element);
    return PITH_OK;
}

pith_status pithi_span_again(struct pithi_span *span, const pith_view *view, bool output,
                             pith_error *error) {
    if (view->ndim != 1 || view->stride[0] != 1) return pithi_span_init(span, view, output, error);
    span->data = view->data;
    span->first = 0;
    span->count = view->shape[0];
    span->element = pithi_dtype_bytes(view->dtype);
    span->dtype = view->dtype;
    span->dense = true; /* of which a walk has no use for ndim, shape and stride */
    return PITH_OK;
}

/* ---- Walking ---------------------------------------------------------------------------------*/

struct walk {
    uint64_t index[PITH_MAX_NDIM];
    int64_t offset;
};

static void walk_to(const struct pithi_span *s, uint64_t element, struct walk *w) {
    w->offset = 0;
    for (uint32_t d = s->ndim; d-- > 0;) {
        w->index[d] = element % s->shape[d];
        element /= s->shape[d];
        w->offset += (int64_t)w->index[d] * s->stride[d];
    }
}

/* Moves w by `run` elements of the last dimension, and into the next row when that ends there. */
static void walk_on(const struct pithi_span *s, uint64_t run, struct walk *w) {
    uint32_t d = s->ndim - 1;
    w->index[d] += run;
    w->offset += (int64_t)run * s->stride[d];
    while (w->index[d] == s->shape[d] && d > 0) {
        w->offset -= (int64_t)w->index[d] * s->stride[d];
        w->index[d--] = 0;
        w->index[d]++;
        w->offset += s->stride[d];
    }
}

static void copy_element(uint8_t *dst, const uint8_t *src, size_t element) {
    switch (element) {
    case 1: *dst = *src; break;
    case 2: memcpy(dst, src, 2); break;
    case 4: memcpy(dst, src, 4); break;
    default: memcpy(dst, src, 8);
    }
}

/* Copies `count` elements from the strided view to dense memory (gather), or the other way. */
static void copy(const struct pithi_span *s, uint64_t at, uint64_t count, uint8_t *dense,
                 bool gather) {
    struct walk w;
    walk_to(s, s->first + at, &w);
    const uint32_t last = s->ndim - 1;
    while (count) {
        const uint64_t left = s->shape[last] - w.index[last];
        const uint64_t run = left < count ? left : count;
        uint8_t *place = s->data + w.offset;
        if (s->stride[last] == (int64_t)s->element) {
            memcpy(gather ? dense : place, gather ? place : dense, (size_t)run * s->element);
            dense += run * s->element;
        } else {
            for (uint64_t i = 0; i < run; i++, place += s->stride[last], dense += s->element)
                copy_element(gather ? dense : place, gather ? place : dense, s->element);
        }
        walk_on(s, run, &w);
        count -= run;
    }
}

void *pithi_span_read(const struct pithi_span *span, uint64_t at, uint64_t count, void *buffer) {
    if (span->dense) return pithi_span_at(span, at);
    copy(span, at, count, buffer, true);
    return buffer;
}

void pithi_span_write(const struct pithi_span *span, uint64_t at, uint64_t count, const void *src) {
    if (!span->dense)
        copy(span, at, count, (uint8_t *)(uintptr_t)src, false);
    else if (count)
        memcpy(pithi_span_at(span, at), src, count * span->element);
}
