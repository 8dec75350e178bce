/* squares.c - arrays divided by the roots of running means of their squares, and multiplied again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "squares.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float divisor(float mean, float least) {
    const float root = sqrtf(mean);
    return root > least ? root : least;
}

void pithpy_squares_divide(const float *restrict means, float least, float *restrict x,
                           size_t count) {
    for (size_t i = 0; i < count; i++) x[i] /= divisor(means[i], least);
}

/* Squares that are not finite are not below this one. */
static const float infinite = INFINITY;

static inline float moved(float mean, float x, float share) {
    const float square = x * x, step = share * (square - mean);
    return mean + (square < infinite ? step : 0);
}

/* Returns the largest mean, by its bits: of what is not below 0 they are in order, and compilers
 * know how to compare several integers at once. */
static int32_t learn(float *restrict means, float share, const float *restrict x, size_t count) {
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const float mean = moved(means[i], x[i], share);
        int32_t bits;
        memcpy(&bits, &mean, sizeof bits);
        means[i] = mean;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

float pithpy_squares_multiply(float *restrict means, float least, float share, float *restrict x,
                              size_t count) {
    enum { CHUNK = 4096 }; /* which stays in the first-level cache */
    int32_t largest = 0;
    float mean;
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? count - at : CHUNK;
        for (size_t i = at; least > 0 && i < at + n; i++) x[i] *= divisor(means[i], least);
        const int32_t most = learn(means + at, share, x + at, n);
        largest = most > largest ? most : largest;
    }
    memcpy(&mean, &largest, sizeof mean);
    return mean;
}
