/* checked.h - arithmetic on sizes that says when it overflows.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_CHECKED_H
#define PITHI_COMMON_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Multiplies; returns false, and leaves *out alone, on overflow. */
static inline bool pithi_checked_multiply(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

#endif
