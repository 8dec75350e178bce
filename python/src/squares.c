/* squares.c - arrays divided by the roots of running means of their squares, and multiplied again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "squares.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The same sums on every CPU: wider vectors change no result. */
#if defined(__x86_64__) && defined(__gnu_linux__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

static inline float divisor(float mean, float least) {
    const float root = sqrtf(mean);
    return root > least ? root : least;
}

WIDE void pithpy_squares_divide(const float *restrict means, float least, float *restrict x,
                                size_t count) {
    for (size_t i = 0; i < count; i++) x[i] /= divisor(means[i], least);
}

/* Squares that are not finite are not below this one. */
static const float infinite = INFINITY;

static inline float moved(float mean, float x, float share) {
    const float square = x * x, step = share * (square - mean);
    return mean + (square < infinite ? step : 0);
}

/* The largest mean is found by its bits: of what is not below 0 they are in order, and compilers
 * know how to compare several integers at once. */
WIDE float pithpy_squares_multiply(float *restrict means, float least, float share,
                                   float *restrict x, size_t count) {
    const bool divided = least > 0;
    int32_t largest = 0;
    float most;
    for (size_t i = 0; i < count; i++) {
        const float value = divided ? x[i] * divisor(means[i], least) : x[i];
        const float mean = moved(means[i], value, share);
        int32_t bits;
        memcpy(&bits, &mean, sizeof bits);
        x[i] = value;
        means[i] = mean;
        largest = bits > largest ? bits : largest;
    }
    memcpy(&most, &largest, sizeof most);
    return most;
}
