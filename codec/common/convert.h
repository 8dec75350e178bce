/* convert.h - whole arrays between f32, bf16 and f16, by the rules of numeric.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_COMMON_CONVERT_H
#define PITHI_COMMON_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* f32, bf16 or f16. */
bool pithi_is_float16_32(uint32_t dtype);
/* Equal dtypes copy bits; otherwise round to nearest even, NaN canonical. */
void pithi_convert(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                   size_t count);
/* The same, but finite values stay finite; returns how many took the largest finite value. */
uint64_t pithi_convert_finite(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                              size_t count);

#endif
