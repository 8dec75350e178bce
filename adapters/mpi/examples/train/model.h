/* model.h - a small transformer over characters; the struct of its parameters is the flat vector.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    VOCAB = 64,
    CONTEXT = 64, /* characters in a window */
    WINDOWS = 4,  /* per rank and step */
    TOKENS = WINDOWS * CONTEXT,
    LAYERS = 2,
    WIDTH = 96,
    HEADS = 3,
    HEAD = WIDTH / HEADS,
    HIDDEN = 4 * WIDTH
};

/* Matrices are [inputs][outputs]. Gains and biases stand between them, as in any framework. */
struct layer {
    float mix_gain[WIDTH];
    float qkv[WIDTH * 3 * WIDTH], qkv_bias[3 * WIDTH];
    float out[WIDTH * WIDTH], out_bias[WIDTH];
    float think_gain[WIDTH];
    float up[WIDTH * HIDDEN], up_bias[HIDDEN];
    float down[HIDDEN * WIDTH], down_bias[WIDTH];
};

struct params {
    float token[VOCAB * WIDTH];
    float position[CONTEXT * WIDTH];
    struct layer layer[LAYERS];
    float gain[WIDTH];
    float head[WIDTH * VOCAB];
};

#define PARAMS (sizeof(struct params) / sizeof(float))

static inline float *params_flat(struct params *params) { return (float *)params; }

struct batch {
    uint8_t input[WINDOWS][CONTEXT];
    uint8_t target[WINDOWS][CONTEXT]; /* the character after each */
};

/* What forward leaves for backward; about 6 MiB. */
struct pass;
struct pass *pass_create(void);
void pass_destroy(struct pass *pass);

void model_init(struct params *params, uint64_t seed);
/* The mean loss of the batch, in nats per character. */
float model_loss(const struct params *params, const struct batch *batch, struct pass *pass);
/* The mean loss as model_loss returns it, and its gradient in grads. */
float model_gradient(const struct params *params, const struct batch *batch, struct pass *pass,
                     struct params *grads);

/* The gains and biases, in ascending order: first element and count of each. */
enum { VECTORS = 6 * LAYERS + 1 };
struct range {
    size_t first, count;
};
void model_vectors(struct range ranges[VECTORS]);

#endif
