/* quant_value.h - the normative arithmetic of quantization under a bound, for one value; quant.c
 * and device kernels are made of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Quantization under a bound. */
#ifndef PITHI_PREDICT_QUANT_VALUE_H
#define PITHI_PREDICT_QUANT_VALUE_H

#include "common/numeric.h"

#define PITHI_F64_INF UINT64_C(0x7FF0000000000000)
#define PITHI_F64_MAX 0x1.fffffffffffffp1023

enum pithi_bound_kind { PITHI_BOUND_ABSOLUTE = 1, PITHI_BOUND_RELATIVE = 2 };

/* What a frame says of its error. */
struct pithi_bound {
    uint32_t kind;
    double value;   /* ABSOLUTE: bound of |x - x'|; RELATIVE: of |x - x'| / |x| */
    double largest; /* bound of |x - x'| over the frame */
};

/* The section that says it (doc/FORMAT.md), which comes first where there is no stream section. */
enum {
    PITHI_BOUND_SECTION = 2,
    PITHI_BOUND_KIND = 0,
    PITHI_BOUND_VALUE = 8,
    PITHI_BOUND_LARGEST = 16,
    PITHI_BOUND_BYTES = 24
};

enum { PITHI_QUANT_LIMIT = 1 << 22 }; /* absolute bounds: |code| is below it */

struct pithi_quant {
    uint32_t dtype;    /* f32, bf16, f16, f64 */
    bool relative;     /* codes count units in the last place, else multiples of 2 * bound */
    bool signed_zeros; /* -0 is not +0 */
    float bound, step, inverse;        /* absolute: f32, bf16, f16 */
    double bound64, step64, inverse64; /* absolute: f64 */
    uint64_t width, half;              /* relative: bins of width = 2 * half + 1 units */
};

/* ---- Formats as bit patterns -----------------------------------------------------------------*/

struct pithi_number_format {
    uint32_t bytes, mantissa;
    uint64_t infinity;
};

PITHI_INLINE struct pithi_number_format pithi_number_format_of(uint32_t dtype) {
    const struct pithi_number_format f32 = {4, 23, PITHI_F32_INF}, bf16 = {2, 7, 0x7F80},
                                     f16 = {2, 10, 0x7C00}, f64 = {8, 52, PITHI_F64_INF};
    return dtype == PITH_F32 ? f32 : dtype == PITH_BF16 ? bf16 : dtype == PITH_F16 ? f16 : f64;
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

/* These return r of a step size of 0 or more: 0 for 0; f32: the largest finite number not above 1 /
 * step; f64: the number before 1 / step. Codes of r are +-1 only for values of at least half a
 * step. Products of two f32 are exact in double. */
PITHI_INLINE float pithi_quant_inverse(float step) {
    if (step == 0) return 0;
    const uint32_t r = pithi_bits(1.0f / step);
    if (r >= PITHI_F32_INF) return pithi_float(PITHI_F32_MAX);
    return pithi_float(r - ((double)pithi_float(r) * (double)step > 1.0));
}

PITHI_INLINE double pithi_quant_inverse64(double step) {
    return step == 0 ? 0 : pithi_double(pithi_bits64(1.0 / step) - 1);
}

/* Returns the largest absolute bound not above `bound`, 0 or more, that frames of the dtype may
 * have. */
PITHI_INLINE double pithi_quant_floor(uint32_t dtype, double bound) {
    const double most =
        dtype == PITH_F64 ? PITHI_F64_MAX / 2 : (double)pithi_float(PITHI_F32_MAX) / 2;
    if (!(bound < most)) return most;
    if (dtype == PITH_F64) return bound;
    const float near = (float)bound;
    return (double)pithi_float(pithi_bits(near) - ((double)near > bound));
}

PITHI_INLINE bool pithi_quant_init_absolute(struct pithi_quant *q, double bound) {
    if (!(bound >= 0) || pithi_quant_floor(q->dtype, bound) != bound) return false;
    if (q->dtype == PITH_F64) {
        q->bound64 = bound;
        q->step64 = 2 * bound;
        q->inverse64 = pithi_quant_inverse64(q->step64);
    } else {
        q->bound = (float)bound;
        q->step = 2 * q->bound;
        q->inverse = pithi_quant_inverse(q->step);
    }
    return true;
}

/* Prepares a quantizer; false for a bound that no frame of the dtype may have. */
PITHI_INLINE bool pithi_quant_init(struct pithi_quant *q, uint32_t dtype,
                                   const struct pithi_bound *bound, bool signed_zeros) {
    memset(q, 0, sizeof *q);
    q->dtype = dtype;
    q->signed_zeros = signed_zeros;
    q->relative = bound->kind == PITHI_BOUND_RELATIVE;
    if (!q->relative) return pithi_quant_init_absolute(q, bound->value);
    if (!(bound->value > 0 && bound->value < 1)) return false;
    const double units = (double)(UINT64_C(1) << pithi_number_format_of(dtype).mantissa);
    q->half = (uint64_t)(bound->value * units);
    q->width = 2 * q->half + 1;
    return true;
}

/* ---- Absolute bounds -------------------------------------------------------------------------*/

/* Returns what a code means, in f32: a value of the dtype (f32, bf16, f16), and finite. */
PITHI_INLINE float pithi_quant_value(const struct pithi_quant *q, int32_t code) {
    const uint32_t u = pithi_bits((float)code * q->step), most = pithi_largest(q->dtype);
    if ((u & 0x7FFFFFFFu) > most) return pithi_float((u & 0x80000000u) | most);
    if (q->dtype == PITH_BF16) return pithi_float(pithi_from_bf16(pithi_to_bf16(u)));
    if (q->dtype == PITH_F16) return pithi_float(pithi_from_f16(pithi_to_f16(u)));
    return pithi_float(u);
}

/* Makes the code of a value, u in f32; false when it must be stored exactly. |t| < 2^22: adding 1.5
 * * 2^23 (f64: 2^52) rounds to the nearest integer, even on a tie. */
PITHI_INLINE bool pithi_quant_code(const struct pithi_quant *q, uint32_t u, int32_t *code) {
    const float limit = PITHI_QUANT_LIMIT, x = pithi_float(u), t = x * q->inverse;
    if (!(t > -limit && t < limit)) return false;
    *code = (int32_t)(pithi_bits(t + 0x1.8p23f) - pithi_bits(0x1.8p23f));
    const float error = x - pithi_quant_value(q, *code);
    return error >= -q->bound && error <= q->bound && !(q->signed_zeros && u == 0x80000000u);
}

PITHI_INLINE double pithi_quant_value64(const struct pithi_quant *q, int32_t code) {
    const double x = (double)code * q->step64;
    return x > PITHI_F64_MAX ? PITHI_F64_MAX : x < -PITHI_F64_MAX ? -PITHI_F64_MAX : x;
}

PITHI_INLINE bool pithi_quant_code64(const struct pithi_quant *q, uint64_t u, int32_t *code) {
    const double limit = PITHI_QUANT_LIMIT, x = pithi_double(u), t = x * q->inverse64;
    if (!(t > -limit && t < limit)) return false;
    *code = (int32_t)((t + 0x1.8p52) - 0x1.8p52);
    const double error = x - pithi_quant_value64(q, *code);
    if (q->signed_zeros && u >> 63 && x == 0) return false;
    return error >= -q->bound64 && error <= q->bound64;
}

/* ---- Relative bounds: bits of the dtype itself -----------------------------------------------*/

PITHI_INLINE uint64_t pithi_quant_bits(const struct pithi_quant *q, int32_t code) {
    const struct pithi_number_format f = pithi_number_format_of(q->dtype);
    const uint64_t most = f.infinity - 1, whole = most / q->width;
    const uint64_t sign = (uint64_t)(code < 0) << (8 * f.bytes - 1);
    const uint64_t bin = code < 0 ? -(uint64_t)code : (uint64_t)code;
    return sign | (bin > whole ? most : bin * q->width);
}

PITHI_INLINE bool pithi_quant_code_bits(const struct pithi_quant *q, uint64_t bits, int32_t *code) {
    const struct pithi_number_format f = pithi_number_format_of(q->dtype);
    const uint64_t sign = UINT64_C(1) << (8 * f.bytes - 1), u = bits & (sign - 1);
    if (u >= f.infinity) return false;
    const uint64_t bin = (u + q->half) / q->width;
    if (bin > INT32_MAX) return false;
    const uint64_t decoded = bin * q->width;
    *code = bits & sign ? -(int32_t)bin : (int32_t)bin;
    if (q->signed_zeros && bits == sign) return false;
    /* Below 2^mantissa lie subnormals, whose units are not in proportion to them. */
    return decoded < f.infinity && (decoded == u || u >> f.mantissa);
}

#endif
