/* numbers.h - roots, logarithms and quantiles that thresholds and plans are computed with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only additions, multiplications and divisions of doubles in a fixed order, so that every rank
 * computes the same bits. The errors stated are measured against libm by tests/unit/test_control.c.
 */
#ifndef PITHI_SPARSE_NUMBERS_H
#define PITHI_SPARSE_NUMBERS_H

#include "common/numeric.h"
#include "common/roots.h"

/* Returns x^0.05 for x in [2^-20, 2^20], to a relative 1e-15. */
PITHI_INLINE double pithi_root20(double x) {
    const double y = pithi_root(pithi_root(x)); /* in [2^-5, 2^5]; its fifth root is in [1/2, 2] */
    double z = 2;
    /* Newton's steps from above, which shrink z by at most a fifth until they converge. */
    for (int i = 0; i < 14; i++) z = (4 * z + y / (z * z * z * z)) / 5;
    return z;
}

/* Returns the natural logarithm of a finite, normal x > 0, to 1e-15 of it or of 1. */
PITHI_INLINE double pithi_ln(double x) {
    const uint64_t bits = pithi_bits64(x);
    int exponent = (int)(bits >> 52) - 1023;
    double m = pithi_double((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u); /* [1, 2) */
    if (m > 1.4142135623730951) m /= 2, exponent++;
    /* ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...), |s| < 0.172 */
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int i = 23; i > 0; i -= 2) sum = sum * square + 1.0 / i;
    return exponent * 0.6931471805599453 + 2 * s * sum;
}

PITHI_INLINE double pithi_log2(double x) { return pithi_ln(x) / 0.6931471805599453; }

/* Returns c[0] x^(count - 1) + ... + c[count - 1]. */
PITHI_INLINE double pithi_polynomial(const double *c, int count, double x) {
    double sum = c[0];
    PITHI_UNROLL for (int i = 1; i < count; i++) sum = sum * x + c[i];
    return sum;
}

/* Returns the z that a normal variable exceeds with probability p, for p in [1e-300, 1/2], to a
 * relative 2e-9: the rational approximation of P. J. Acklam ("An algorithm for computing the
 * inverse normal cumulative distribution function", 2003). */
PITHI_INLINE double pithi_normal_exceeded(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01, 1};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00, 1};
    if (p >= 0.02425) {
        const double q = 0.5 - p, r = q * q;
        return q * pithi_polynomial(a, 6, r) / pithi_polynomial(b, 6, r);
    }
    const double q = pithi_root(-2 * pithi_ln(p));
    return -pithi_polynomial(c, 6, q) / pithi_polynomial(d, 5, q);
}

#endif
