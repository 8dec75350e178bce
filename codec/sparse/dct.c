/* dct.c - the cosine transform of short runs of values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every sum is of products in ascending order, one rounded operation each; the inner loops go over
 * the results, which compilers turn into vectors without a change of order. */
#include "sparse/dct_value.h"

#include <stdbool.h>
#include <string.h>

enum { ORDER = PITHI_DCT_ORDER };

/* Writes the numbers of an order of 64, 16 or 4: that of value i and coefficient k to
 * c[i * ORDER + k], or, for the inverse, to c[k * ORDER + i]. */
static void make_table(float *c, uint32_t order, bool inverse) {
    for (uint32_t i = 0; i < order; i++)
        for (uint32_t k = 0; k < order; k++)
            c[inverse ? k * ORDER + i : i * ORDER + k] = pithi_dct_number(i, k, order);
}

/* Replaces a run by its products with the rows of a table. A term that is 0 changes no sum, since
 * sums begin with +0; most coefficients of a frame are 0. */
static void multiply(const float *c, float *x, size_t order) {
    float sum[ORDER] = {0};
    for (size_t i = 0; i < order; i++) {
        const float factor = x[i];
        if (factor == 0) continue;
        for (size_t k = 0; k < ORDER; k++) sum[k] += factor * c[i * ORDER + k];
    }
    memcpy(x, sum, order * sizeof *x);
}

static void transform(float *x, size_t count, bool inverse) {
    float c[ORDER * ORDER] = {0};
    for (uint32_t order = ORDER; order > 1; order /= 4) {
        if (count < order) continue;
        make_table(c, order, inverse);
        for (; count >= order; x += order, count -= order) multiply(c, x, order);
    }
}

void pithi_dct(float *x, size_t count) { transform(x, count, false); }

void pithi_dct_inverse(float *x, size_t count) { transform(x, count, true); }
