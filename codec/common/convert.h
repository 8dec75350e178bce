/* convert.h - whole arrays between f32, bf16 and f16, by the rules of numeric.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_CONVERT_H
#define PITHI_COMMON_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"

/* Converts values. Equal dtypes copy bits; others round to nearest even, with NaN canonical. */
void pithi_convert(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                   size_t count);
/* Converts values, but that finite ones stay finite; returns how many became the largest finite
 * value. */
uint64_t pithi_convert_finite(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                              size_t count);

/* Adds to values of f32, bf16 or f16: each becomes value + sum, rounded to its dtype, with NaN
 * canonical. */
typedef void pithi_add_fn(void *values, uint32_t dtype, const float *sum, size_t count);
pithi_add_fn pithi_add_c;

#endif
