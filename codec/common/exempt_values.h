/* exempt_values.h - the values of exempt elements: into their area of a frame, out of it, summed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_EXEMPT_VALUES_H
#define PITHI_COMMON_EXEMPT_VALUES_H

#include "common/exempt.h"

/* The exempt elements of one slot of one frame. */
struct pithi_exempt_values {
    const struct pithi_exempt_map *map;
    uint64_t origin; /* the number in the map of the slot's element 0 */
    uint8_t *bytes;  /* the slot's exempt values; decoding only reads them */
};

/* All of these work on elements [first, first + count) of the slot, one after the other. */

/* Copies exempt elements of `values` to the area. */
void pithi_exempt_values_take(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                              const void *values, uint32_t dtype);
/* Sets exempt elements of x to +0. */
void pithi_exempt_values_clear(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                               float *x);
/* Sets exempt elements of `out` to the area's values. */
void pithi_exempt_values_put(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                             void *out, uint32_t dtype);
/* Sets exempt elements of x to the area's values in f32, or, with `more`, adds these to them. */
void pithi_exempt_values_add(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                             bool more, float *x);
/* Sets exempt elements of `out` to scale * x (1: x as it is). */
void pithi_exempt_values_finish(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                                const float *x, float scale, void *out, uint32_t dtype);

#endif
