/* activations.h - what a bound on saved activations does to the gradient of a layer's weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A 3 x 3 convolution with a border of zeros: the gradient of weight (o, c, i, j) is the sum over
 * samples and positions of the gradient arriving at (o, y, x) times the activation at
 * (c, y + i - 1, x + j - 1). Activations go through a codec, gradients do not. */
#ifndef PITH_BENCH_ACTIVATIONS_H
#define PITH_BENCH_ACTIVATIONS_H

#include <stddef.h>

struct activations_layer {
    size_t samples, in, out, height, width;
    float *input;     /* samples x in x height x width: what the layer was given */
    double *arriving; /* samples x out x height x width: the gradient at its output */
    double *gradient; /* out x in x 3 x 3: of its weights */
    double *terms;    /* alike: sum of squared arriving gradients where the activation is not 0 */
    double nonzero;   /* share of the activations that are not 0 */
    double largest;   /* of the activations */
    double mean, rms; /* of |arriving| */
};
/* The layer between tensors number `below` and below + 1 of directory/cnn_act: the activations of
 * the one after 2 x 2 pooling, and the gradient of the other where that is not 0. Returns 0 on
 * success. */
int activations_load(struct activations_layer *l, const char *directory, size_t below);
void activations_free(struct activations_layer *l);
/* Mean magnitude of the weights' gradient, which stands for the optimizer's momentum. */
double activations_momentum(const struct activations_layer *l);

/* The bound that a budget gives for this share of it (pith_stream_adapt); 0 on failure. */
double activations_budget(const struct activations_layer *l, double share);

struct activations_error {
    double ratio;
    double bound;    /* requested, as the spec could say it */
    double sigma;    /* root mean square of the error of the weights' gradient */
    double own;      /* of each error over bound / sqrt(3) * sqrt(terms): 1 when the model holds */
    double kurtosis; /* of these quotients: 3 when they are normal */
};
/* With a codec that keeps zeros, at about this absolute bound. Returns 0 on success, and only if
 * every value keeps the bound and every zero is one. */
int activations_measure(const struct activations_layer *l, const char *codec, double bound,
                        struct activations_error *out);

/* Tensor number index of directory/file through a spec: its ratio, and the share of zeros. Returns
 * 0 on success, 1 past the last, -1 unless every zero decodes to one when the codec promises it. */
struct activations_ratio {
    char name[64];
    double ratio, zeros;
};
int activations_compress(const char *directory, const char *file, size_t index, const char *spec,
                         struct activations_ratio *out);

#endif
