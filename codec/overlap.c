/* overlap.c - whether memory that a call writes overlaps what it reads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

/* Whether what dimensions d and on have from `at` on lies in the n bytes at b: not where all that
 * they span is elsewhere, else by one index of d after the other. In unsigned numbers, since a view
 * that nobody can have may span more than there is. */
static bool box_overlaps(const struct pithi_span *span, uint32_t d, uintptr_t at, const void *b,
                         uint64_t n) {
    uintptr_t first = at, bytes = span->element;
    for (uint32_t k = d; k < span->ndim; k++) {
        const uintptr_t reach = (uintptr_t)(span->shape[k] - 1) * (uintptr_t)span->stride[k];
        if (span->stride[k] < 0) first += reach;
        bytes += span->stride[k] < 0 ? 0 - reach : reach;
    }
    if (!pithi_overlap((const void *)first, bytes, b, n)) return false;
    if (d == span->ndim || (d + 1 == span->ndim && span->stride[d] == (int64_t)span->element))
        return true;
    const uint64_t places = span->stride[d] ? span->shape[d] : 1; /* 0: all are in one place */
    for (uint64_t i = 0; i < places; i++, at += (uintptr_t)span->stride[d])
        if (box_overlaps(span, d + 1, at, b, n)) return true;
    return false;
}

bool pithi_strided_overlaps(const struct pithi_span *span, const void *b, uint64_t n) {
    return span->count && box_overlaps(span, 0, (uintptr_t)span->data, b, n);
}
