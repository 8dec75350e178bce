/* convert.c - array conversion between float dtypes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/convert.h"

#include "common/numeric.h"

/* A loop that is inlined with constant dtypes, so that each copy of it is one straight
 * conversion. */
static inline void loop(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                        size_t count) {
    for (size_t i = 0; i < count; i++)
        pithi_store(dst, dst_dtype, i, pithi_load(src, src_dtype, i));
}

static inline void from(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                        size_t count) {
    switch (src_dtype) {
    case PITH_F32: loop(dst, dst_dtype, src, PITH_F32, count); break;
    case PITH_BF16: loop(dst, dst_dtype, src, PITH_BF16, count); break;
    default: loop(dst, dst_dtype, src, PITH_F16, count);
    }
}

void pithi_convert(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                   size_t count) {
    if (dst_dtype == src_dtype) {
        if (count) memcpy(dst, src, count * pith_dtype_bytes(dst_dtype));
        return;
    }
    switch (dst_dtype) {
    case PITH_F32: from(dst, PITH_F32, src, src_dtype, count); break;
    case PITH_BF16: from(dst, PITH_BF16, src, src_dtype, count); break;
    default: from(dst, PITH_F16, src, src_dtype, count);
    }
}

uint64_t pithi_convert_finite(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype,
                              size_t count) {
    uint64_t saturated = 0;
    pithi_convert(dst, dst_dtype, src, src_dtype, count);
    if (dst_dtype == src_dtype || dst_dtype == PITH_F32) return 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t u = pithi_load(dst, dst_dtype, i);
        if (!pithi_nonfinite(u) || pithi_nonfinite(pithi_load(src, src_dtype, i))) continue;
        pithi_store(dst, dst_dtype, i, (u & 0x80000000u) | pithi_largest(dst_dtype));
        saturated++;
    }
    return saturated;
}

static inline void add_loop(void *values, uint32_t dtype, const float *sum, size_t count) {
    for (size_t i = 0; i < count; i++)
        pithi_store(values, dtype, i,
                    pithi_bits(pithi_float(pithi_load(values, dtype, i)) + sum[i]));
}

void pithi_add_c(void *values, uint32_t dtype, const float *sum, size_t count) {
    switch (dtype) {
    case PITH_F32: add_loop(values, PITH_F32, sum, count); break;
    case PITH_BF16: add_loop(values, PITH_BF16, sum, count); break;
    default: add_loop(values, PITH_F16, sum, count);
    }
}
