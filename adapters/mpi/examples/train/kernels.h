/* kernels.h - the arithmetic of the model on dense row-major matrices.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H

#include <stddef.h>

/* c[m][n] = a[m][k] * b[k][n], or += with add. m is a multiple of 4, n of 32. */
void matmul(float *c, const float *a, const float *b, size_t m, size_t n, size_t k, int add);
/* to[n][m] = from[m][n] transposed. */
void transpose(float *to, const float *from, size_t m, size_t n);

/* Rows of n values, each divided by its root mean square, times gain; inverse keeps 1 / rms. */
void norm_forward(float *out, float *inverse, const float *x, const float *gain, size_t rows,
                  size_t n);
/* d_x += what arrives through the norm; d_gain +=. */
void norm_backward(float *d_x, float *d_gain, const float *d_out, const float *x, const float *gain,
                   const float *inverse, size_t rows, size_t n);

void add_bias(float *x, const float *bias, size_t rows, size_t n);
/* bias[n] = the sum of the rows. */
void sum_rows(float *bias, const float *x, size_t rows, size_t n);
void add_to(float *x, const float *y, size_t n);

/* out = max(x, 0)^2, and d_x = d_out * 2 max(x, 0) in place of d_out. */
void square_relu(float *out, const float *x, size_t n);
void square_relu_backward(float *d, const float *x, size_t n);

/* Row r of a square matrix: softmax of scale * its first r + 1 values, zeros behind. */
void causal_softmax(float *x, float scale, size_t n);
/* d (of the softmax p) becomes d of the values before it. */
void causal_softmax_backward(float *d, const float *p, float scale, size_t n);

/* Rows of logits become their gradient (softmax minus one at the target, times scale); returns the
 * sum of the losses. */
double cross_entropy(float *logits, const unsigned char *target, float scale, size_t rows,
                     size_t n);

#endif
