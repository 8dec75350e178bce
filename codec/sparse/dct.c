/* dct.c - the cosine transform of short runs of values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every sum is of products in ascending order, one rounded operation each; the inner loops go over
 * the results, which compilers turn into vectors without a change of order. */
#include "sparse/dct.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ORDER = PITHI_DCT_ORDER, PERIOD = 4 * ORDER };

/* sqrt(2 / 64) cos(m pi / 128) for m of 0 to 64. */
static const float quarter[ORDER + 1] = {
    0x1.6a09e6p-3f, 0x1.69edfcp-3f, 0x1.699a42p-3f, 0x1.690ec6p-3f, 0x1.684b9cp-3f,
    0x1.6750e4p-3f, 0x1.661ec2p-3f, 0x1.64b568p-3f, 0x1.63150cp-3f, 0x1.613deep-3f,
    0x1.5f3056p-3f, 0x1.5cec98p-3f, 0x1.5a730cp-3f, 0x1.57c414p-3f, 0x1.54e018p-3f,
    0x1.51c78cp-3f, 0x1.4e7aeap-3f, 0x1.4afab2p-3f, 0x1.474772p-3f, 0x1.4361bap-3f,
    0x1.3f4a24p-3f, 0x1.3b0150p-3f, 0x1.3687eap-3f, 0x1.31dea2p-3f, 0x1.2d062ep-3f,
    0x1.27ff50p-3f, 0x1.22caccp-3f, 0x1.1d6972p-3f, 0x1.17dc14p-3f, 0x1.12238ep-3f,
    0x1.0c40c2p-3f, 0x1.063498p-3f, 0x1.000000p-3f, 0x1.f347dcp-4f, 0x1.e642b8p-4f,
    0x1.d8f29ap-4f, 0x1.cb598cp-4f, 0x1.bd79aap-4f, 0x1.af5516p-4f, 0x1.a0edfep-4f,
    0x1.92469cp-4f, 0x1.836132p-4f, 0x1.74400ap-4f, 0x1.64e57cp-4f, 0x1.5553e4p-4f,
    0x1.458daap-4f, 0x1.35953cp-4f, 0x1.256d12p-4f, 0x1.1517a8p-4f, 0x1.049782p-4f,
    0x1.e7de5ep-5f, 0x1.c6427ap-5f, 0x1.a4608ap-5f, 0x1.823dc8p-5f, 0x1.5fdf76p-5f,
    0x1.3d4ae0p-5f, 0x1.1a855ep-5f, 0x1.ef2894p-6f, 0x1.a8fa12p-6f, 0x1.628a08p-6f,
    0x1.1be352p-6f, 0x1.aa21a8p-7f, 0x1.1c3af6p-7f, 0x1.1c50e2p-8f, 0,
};

static float cosine(uint32_t m) {
    m %= PERIOD;
    if (m > PERIOD / 2) m = PERIOD - m;
    return m > ORDER ? -quarter[PERIOD / 2 - m] : quarter[m];
}

/* Writes the numbers of an order of 64, 16 or 4: that of value i and coefficient k to
 * c[i * ORDER + k], or, for the inverse, to c[k * ORDER + i]. */
static void make_table(float *c, uint32_t order, bool inverse) {
    const float first = order == 64 ? 0.125f : order == 16 ? 0.25f : 0.5f;
    for (uint32_t i = 0; i < order; i++)
        for (uint32_t k = 0; k < order; k++) {
            const float angle = cosine((2 * i + 1) * k * (ORDER / order)) * (8 * first);
            c[inverse ? k * ORDER + i : i * ORDER + k] = k ? angle : first;
        }
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
