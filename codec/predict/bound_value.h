/* bound_value.h - the bound of a frame from what is requested and the range of its values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * low and high: the smallest and largest finite value; low > high: there is none. */
#ifndef PITHI_PREDICT_BOUND_VALUE_H
#define PITHI_PREDICT_BOUND_VALUE_H

#include "predict/quant_value.h"

/* What a bound is a bound of, as keys of the same names request it. */
enum pithi_target {
    PITHI_TARGET_ABS,
    PITHI_TARGET_REL,
    PITHI_TARGET_PWREL,
    PITHI_TARGET_PSNR,
    PITHI_TARGET_NMSE,
    PITHI_TARGETS
};

/* Returns high - low, at most the largest double; 0 without a value. */
PITHI_INLINE double pithi_range_of(double low, double high) {
    if (low > high) return 0;
    const double range = high - low;
    return range <= PITHI_F64_MAX ? range : PITHI_F64_MAX;
}

/* Returns the largest |value|; +0 without any. */
PITHI_INLINE double pithi_largest_of(double low, double high) {
    if (low > high) return 0;
    return (high > -low ? high : -low) + 0.0; /* also of -0 */
}

/* Returns for a product x of positive numbers what is surely not above the exact one; 0 for that of
 * 0 and infinity. The second term is for subnormal numbers. */
PITHI_INLINE double pithi_below(double x) {
    const double y = x * (1 - 0x1p-50) - 0x1p-1074;
    return y > 0 ? y : 0;
}

PITHI_INLINE struct pithi_bound pithi_bound_absolute(uint32_t dtype, double request) {
    const double bound = pithi_quant_floor(dtype, request);
    const struct pithi_bound b = {PITHI_BOUND_ABSOLUTE, bound, bound};
    return b;
}

/* Returns a bound for values that are all one number, which must come back as it is. A bound of 0
 * does that, but stores every one of them exactly; with |number| 2^-22 the code 2^21 stands for the
 * number itself, and what other codes stand for is further away than the bound. That needs the
 * bound to be exact, and 0 is left where the format rounds it. */
PITHI_INLINE struct pithi_bound pithi_bound_constant(uint32_t dtype, double number) {
    const struct pithi_bound b = pithi_bound_absolute(dtype, number * 0x1p-22);
    return b.value * 0x1p22 == number ? b : pithi_bound_absolute(dtype, 0);
}

/* Returns `share` of a range that is given, or (0) of the range of the values. */
PITHI_INLINE struct pithi_bound pithi_bound_share(uint32_t dtype, double share, double given,
                                                  double low, double high) {
    if (!(given > 0) && low == high)
        return pithi_bound_constant(dtype, pithi_largest_of(low, high));
    const double range = given > 0 ? given : pithi_range_of(low, high);
    return pithi_bound_absolute(dtype, pithi_below(share * range));
}

/* Returns a relative bound. A share of 0, which no frame may state, stands for one that is too
 * small. */
PITHI_INLINE struct pithi_bound pithi_bound_relative(double share, double most) {
    if (!(share > 0)) share = 0x1p-1074;
    const double largest = share * most * (1 + 0x1p-50);
    const struct pithi_bound b = {PITHI_BOUND_RELATIVE, share,
                                  largest <= PITHI_F64_MAX ? largest : PITHI_F64_MAX};
    return b;
}

/* Whether a frame of the dtype may state the bound. */
PITHI_INLINE bool pithi_bound_legal(uint32_t dtype, const struct pithi_bound *b) {
    struct pithi_quant q;
    if (b->kind != PITHI_BOUND_ABSOLUTE && b->kind != PITHI_BOUND_RELATIVE) return false;
    if (pithi_bits64(b->value) >> 63) return false; /* refuses -0 as well */
    if (!(b->largest >= 0 && b->largest <= PITHI_F64_MAX)) return false;
    if (b->kind == PITHI_BOUND_ABSOLUTE && b->largest != b->value) return false;
    return pithi_quant_init(&q, dtype, b, false);
}

/* Turns f32 bits into a number that grows with the value. The function is its own inverse. */
PITHI_INLINE int32_t pithi_order(uint32_t bits) {
    return (int32_t)(bits ^ (bits >> 31 ? 0x7FFFFFFFu : 0));
}

#endif
