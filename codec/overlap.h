/* overlap.h - whether memory that a call writes overlaps what it reads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_OVERLAP_H
#define PITHI_OVERLAP_H

#include "view.h"

/* Whether m bytes at a and n bytes at b have a byte in common. */
static inline bool pithi_overlap(const void *a, uint64_t m, const void *b, uint64_t n) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return m && n && (x < y ? y - x < m : x - y < n);
}

/* Whether an element of a strided span lies in the n bytes at b, and not only beside them. */
bool pithi_strided_overlaps(const struct pithi_span *span, const void *b, uint64_t n);

/* Whether the first `count` elements of a dense span, or any of a strided one, lie in the n bytes
 * at b. */
static inline bool pithi_span_overlaps(const struct pithi_span *span, uint64_t count, const void *b,
                                       uint64_t n) {
    return span->dense ? pithi_overlap(pithi_span_at(span, 0), count * span->element, b, n)
                       : pithi_strided_overlaps(span, b, n);
}

/* Whether they lie in a dense base, and not each in its own place: element `at` of the base is that
 * of the first one. There, calls read an element of both before they write it. */
static inline bool pithi_span_overlaps_base(const struct pithi_span *span, uint64_t count,
                                            const struct pithi_span *base, uint64_t at) {
    const bool in_place = span->dense && span->dtype == base->dtype &&
                          pithi_span_at(span, 0) == pithi_span_at(base, at);
    return base->dense && !in_place &&
           pithi_span_overlaps(span, count, base->data, base->count * base->element);
}

#endif
