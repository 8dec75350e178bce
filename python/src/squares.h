/* squares.h - arrays divided by the roots of running means of their squares, and multiplied again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Divisors are the roots of `means`, at least `least`, which is above 0. Every operation is one of
 * f32, rounded by itself, so that all machines make the same of the same. */
#ifndef PITH_PYTHON_SQUARES_H
#define PITH_PYTHON_SQUARES_H

#include <stddef.h>

/* Divides x by the divisors. */
void pithpy_squares_divide(const float *means, float least, float *x, size_t count);
/* Multiplies x by the divisors (least 0: leaves it), then moves the means by `share` of the way to
 * the squares of x; where a square is not finite the mean stays. Returns the largest mean. */
float pithpy_squares_multiply(float *means, float least, float share, float *x, size_t count);

#endif
