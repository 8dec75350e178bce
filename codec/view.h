/* view.h - elements of a strided view in row-major order, as dense pieces.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_VIEW_H
#define PITHI_VIEW_H

#include <stdbool.h>

#include "pith/pith.h"

/* A checked view from element `first` on. Dimensions that lie dense in each other are merged. */
struct pithi_span {
    uint8_t *data;
    uint64_t first;
    uint64_t count; /* elements of the whole view */
    size_t element; /* bytes of an element */
    uint32_t dtype, ndim;
    bool dense;
    uint64_t shape[PITH_MAX_NDIM];
    int64_t stride[PITH_MAX_NDIM]; /* in bytes */
};

/* Checks a view. Zero strides are refused when it is an output. */
pith_status pithi_span_init(struct pithi_span *span, const pith_view *view, bool output,
                            pith_error *error);
/* Makes the span of a view that has been checked and was not changed since. */
pith_status pithi_span_again(struct pithi_span *span, const pith_view *view, bool output,
                             pith_error *error);
/* Returns elements [at, at + count), counted from span->first: a pointer into the view when it is
 * dense, else a copy in buffer. */
void *pithi_span_read(const struct pithi_span *span, uint64_t at, uint64_t count, void *buffer);
/* Copies dense elements into the view. */
void pithi_span_write(const struct pithi_span *span, uint64_t at, uint64_t count, const void *src);
/* Returns where element `at` of a dense span lies, counted from span->first. */
static inline uint8_t *pithi_span_at(const struct pithi_span *span, uint64_t at) {
    return span->data ? span->data + (span->first + at) * span->element : NULL;
}

#endif
