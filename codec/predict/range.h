/* range.h - what a bound can depend on: range, largest value and sum of squares.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only finite values count. */
#ifndef PITHI_PREDICT_RANGE_H
#define PITHI_PREDICT_RANGE_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/inline.h"
#include "pith/pith.h"

/* The bits of infinity, which are the exponent's. */
PITHI_INLINE int16_t pithi_infinity16(uint32_t dtype) {
    return dtype == PITH_F16 ? 0x7C00 : 0x7F80;
}

struct pithi_range {
    double low, high; /* low > high: no finite value */
    /* Only when requested: the sum of squares in element order, and how many finite values there
     * are. */
    double squares;
    uint64_t finite;
};
PITHI_INLINE struct pithi_range pithi_range_none(void) {
    return (struct pithi_range){DBL_MAX, -DBL_MAX, 0, 0};
}

/* The smallest and largest finite value, each as the bits of its dtype turned into a number that
 * grows with the value. */
struct pithi_extremes {
    int32_t low, high; /* low > high: none */
};
/* Widens extremes by values of f32, bf16 or f16. */
typedef void pithi_extremes_fn(const void *values, uint32_t dtype, size_t count,
                               struct pithi_extremes *e);
pithi_extremes_fn pithi_extremes_c;

/* Finds low and high of f32, bf16, f16 or f64 values, and with `squares` also their sum of
 * squares. */
void pithi_range_measure(struct pithi_range *range, const void *values, uint32_t dtype,
                         size_t count, bool squares, pithi_extremes_fn *extremes);
/* Returns the sum of squared differences of values that are finite in a, in element order. */
double pithi_range_error(const void *a, const void *b, uint32_t dtype, size_t count);
/* Adds b, which comes after total, to total. */
void pithi_range_add(struct pithi_range *total, const struct pithi_range *b);

#endif
