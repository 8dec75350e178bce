/* roots.h - roots and powers in double, the same on every machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only additions, multiplications and divisions of doubles: what they give reaches the wire. */
#ifndef PITHI_COMMON_ROOTS_H
#define PITHI_COMMON_ROOTS_H

#include "common/inline.h"

/* Returns the square root of a finite x >= 0, to a few units in the last place. */
PITHI_INLINE double pithi_root(double x) {
    double scale = 1, r = 1;
    if (!(x > 0)) return 0;
    for (; x >= 4; scale *= 2) x /= 4;
    for (; x < 1; scale /= 2) x *= 4;
    for (int i = 0; i < 7; i++) r = (r + x / r) / 2;
    return r * scale;
}

/* Returns e^x for |x| <= 3. */
PITHI_INLINE double pithi_exp_small(double x) {
    double sum = 1;
    for (int i = 40; i > 0; i--) sum = 1 + x / i * sum;
    return sum;
}

/* Returns 10^x for x <= 0, to about 1e-13; 0 where it leaves the doubles. */
PITHI_INLINE double pithi_exp10(double x) {
    double whole = 1;
    if (x < -400) return 0;
    for (; x <= -1; x += 1) whole /= 10;
    return whole * pithi_exp_small(x * 2.302585092994045684);
}

#endif
