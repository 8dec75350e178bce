/* lanes_tmpl.h - 16 values of any float dtype to and from 16 lanes, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h: the type v16 (16 lanes of 32 bits) and its
 * operations. */
#ifndef PITHI_COMMON_LANES_TMPL_H
#define PITHI_COMMON_LANES_TMPL_H

#include "common/numeric.h"

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS size_t width(uint32_t dtype) { return dtype == PITH_NONE ? 0 : dtype == PITH_F32 ? 4 : 2; }

ALWAYS v16 load(uint32_t dtype, const uint8_t *p, size_t i) {
    if (dtype == PITH_F32) return v_load(p + 4 * i);
    return dtype == PITH_BF16 ? v_load_high(p + 2 * i) : f_load16(p + 2 * i);
}

ALWAYS v16 magnitude16(v16 x) { return v_and(x, v_set(0x7FFFFFFFu)); }

/* f32 to the nearest value of the dtype, in f32; a bf16 leaves the low half undefined. NaN only as
 * the canonical one. */
ALWAYS v16 round_loosely(uint32_t dtype, v16 x) {
    if (dtype == PITH_F32) return x;
    if (dtype == PITH_F16) return f_round16(x);
    const v16 odd = v_and(v_shr(x, 16), v_set(1));
    return v_add(v_add(x, v_set(0x7FFF)), odd);
}
ALWAYS v16 tidy(uint32_t dtype, v16 x) {
    return dtype == PITH_BF16 ? v_and(x, v_set(0xFFFF0000u)) : x;
}
ALWAYS v16 round_to(uint32_t dtype, v16 x) { return tidy(dtype, round_loosely(dtype, x)); }
/* A scale to the nearest value of the dtype; of f32, to one of 16 significant bits. */
ALWAYS v16 round_step(uint32_t dtype, v16 x) {
    if (dtype != PITH_F32) return round_to(dtype, x);
    const v16 odd = v_and(v_shr(x, 8), v_set(1));
    return v_and(v_add(v_add(x, v_set(0x7F)), odd), v_set(0xFFFFFF00u));
}

/* True where one of 64 values is not finite, or the sum of some is not. */
ALWAYS bool some_overflow(const v16 x[4]) {
    return v_overflows(f_add(f_add(x[0], x[1]), f_add(x[2], x[3])));
}

/* x is a value of the dtype, loosely. */
ALWAYS void store(uint32_t dtype, uint8_t *p, size_t i, v16 x) {
    if (dtype == PITH_F32)
        v_store(p + 4 * i, x);
    else if (dtype == PITH_BF16)
        v_store_high(p + 2 * i, x);
    else
        f_store16(p + 2 * i, x);
}

/* Codes times a scale, and on top, unless that is NULL, a zero point. */
ALWAYS v16 product(v16 codes, const float *scale, const float *zero) {
    const v16 x = f_mul(f_from_i(codes), v_spread(scale));
    return zero ? f_add(x, v_spread(zero)) : x;
}

#endif
