/* kernels.c - plain loops that a compiler turns into vector code.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels.h"

#include <math.h>
#include <string.h>

/* The example is built for any x86-64 and still uses the vectors of the machine it runs on. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTOR
#endif

/* Under sanitizers the tile would leave the registers, and a test of seconds take minutes. */
#ifdef __GNUC__
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))
#else
#define UNWATCHED
#endif

/* A tile of ROWS x COLS sums stays in registers while k runs. */
enum { ROWS = 4, COLS = 32 };

VECTOR UNWATCHED static void tile(float *restrict c, const float *restrict a,
                                  const float *restrict b, size_t n, size_t k, int add) {
    float sum[ROWS][COLS];
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < COLS; j++) sum[r][j] = add ? c[r * n + j] : 0;
    for (size_t i = 0; i < k; i++, b += n)
        for (size_t r = 0; r < ROWS; r++)
            for (size_t j = 0; j < COLS; j++) sum[r][j] += a[r * k + i] * b[j];
    for (size_t r = 0; r < ROWS; r++) memcpy(c + r * n, sum[r], sizeof sum[r]);
}

void matmul(float *c, const float *a, const float *b, size_t m, size_t n, size_t k, int add) {
    for (size_t j = 0; j < n; j += COLS)
        for (size_t r = 0; r < m; r += ROWS) tile(c + r * n + j, a + r * k, b + j, n, k, add);
}

void transpose(float *to, const float *from, size_t m, size_t n) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) to[j * m + i] = from[i * n + j];
}

VECTOR static float dot(const float *restrict x, const float *restrict y, size_t n) {
    float part[16] = {0}, sum = 0;
    for (size_t i = 0; i < n; i += 16)
        for (size_t j = 0; j < 16; j++) part[j] += x[i + j] * y[i + j];
    for (size_t j = 0; j < 16; j++) sum += part[j];
    return sum;
}

VECTOR void norm_forward(float *out, float *inverse, const float *x, const float *gain, size_t rows,
                         size_t n) {
    for (size_t r = 0; r < rows; r++, x += n, out += n) {
        inverse[r] = 1 / sqrtf(dot(x, x, n) / (float)n + 1e-6f);
        for (size_t i = 0; i < n; i++) out[i] = x[i] * inverse[r] * gain[i];
    }
}

VECTOR static void norm_backward_row(float *restrict d_x, float *restrict d_gain,
                                     const float *restrict d_out, const float *restrict x,
                                     const float *restrict gain, float inverse, size_t n) {
    float along = 0;
    for (size_t i = 0; i < n; i++) along += d_out[i] * gain[i] * x[i];
    const float back = along * inverse * inverse / (float)n;
    for (size_t i = 0; i < n; i++) {
        d_x[i] += inverse * (d_out[i] * gain[i] - back * x[i]);
        d_gain[i] += d_out[i] * x[i] * inverse;
    }
}

void norm_backward(float *d_x, float *d_gain, const float *d_out, const float *x, const float *gain,
                   const float *inverse, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++)
        norm_backward_row(d_x + r * n, d_gain, d_out + r * n, x + r * n, gain, inverse[r], n);
}

VECTOR void add_to(float *restrict x, const float *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

void add_bias(float *x, const float *bias, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++) add_to(x + r * n, bias, n);
}

void sum_rows(float *bias, const float *x, size_t rows, size_t n) {
    memset(bias, 0, n * sizeof *bias);
    for (size_t r = 0; r < rows; r++) add_to(bias, x + r * n, n);
}

VECTOR void square_relu(float *restrict out, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float positive = x[i] > 0 ? x[i] : 0;
        out[i] = positive * positive;
    }
}

VECTOR void square_relu_backward(float *restrict d, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) d[i] *= x[i] > 0 ? 2 * x[i] : 0;
}

/* exp(scale * x - what makes the largest 1), and one over the sum of them. */
static float exponentials(float *x, float scale, size_t n) {
    float top = x[0], sum = 0;
    for (size_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (size_t i = 0; i < n; i++) sum += x[i] = expf(scale * (x[i] - top));
    return 1 / sum;
}

void causal_softmax(float *x, float scale, size_t n) {
    for (size_t r = 0; r < n; r++, x += n) {
        const float inverse = exponentials(x, scale, r + 1);
        for (size_t i = 0; i <= r; i++) x[i] *= inverse;
        for (size_t i = r + 1; i < n; i++) x[i] = 0;
    }
}

void causal_softmax_backward(float *d, const float *p, float scale, size_t n) {
    for (size_t r = 0; r < n; r++, d += n, p += n) {
        const float along = dot(d, p, n);
        for (size_t i = 0; i < n; i++) d[i] = scale * p[i] * (d[i] - along);
    }
}

double cross_entropy(float *logits, const unsigned char *target, float scale, size_t rows,
                     size_t n) {
    double loss = 0;
    for (size_t r = 0; r < rows; r++, logits += n) {
        const float inverse = exponentials(logits, 1, n);
        loss -= log((double)(logits[target[r]] * inverse) + 1e-30);
        for (size_t i = 0; i < n; i++) logits[i] *= inverse * scale;
        logits[target[r]] -= scale;
    }
    return loss;
}
