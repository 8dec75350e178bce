/* model.c - the model's first parameters and the map of its gains and biases.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model.h"

#include <math.h>
#include <string.h>

#include "random.h"

/* The 53-bit sum of four uniform numbers is near enough to a normal one. */
static void fill_random(float *values, size_t count, double scale, uint64_t *state) {
    for (size_t i = 0; i < count; i++) {
        double sum = -2;
        for (int k = 0; k < 4; k++) sum += random_unit(state);
        values[i] = (float)(sum * scale * 1.7320508);
    }
}

static void fill(float *values, size_t count, float value) {
    for (size_t i = 0; i < count; i++) values[i] = value;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void init_layer(struct layer *l, uint64_t *state) {
    /* What is added to the residual stream starts smaller, the more is added. */
    const double into = 1 / sqrt(WIDTH), back = into / sqrt(2 * LAYERS);
    fill(l->mix_gain, WIDTH, 1);
    fill(l->think_gain, WIDTH, 1);
    fill_random(l->qkv, COUNT(l->qkv), into, state);
    fill_random(l->out, COUNT(l->out), back, state);
    fill_random(l->up, COUNT(l->up), into, state);
    fill_random(l->down, COUNT(l->down), back / 2, state);
}

void model_init(struct params *params, uint64_t seed) {
    uint64_t state = seed;
    memset(params, 0, sizeof *params);
    fill_random(params->token, COUNT(params->token), 0.1, &state);
    fill_random(params->position, COUNT(params->position), 0.05, &state);
    for (int i = 0; i < LAYERS; i++) init_layer(&params->layer[i], &state);
    fill(params->gain, WIDTH, 1);
    fill_random(params->head, COUNT(params->head), 0.02, &state);
}

#define IN_LAYER(i, field)                                                         \
    ((struct range){(offsetof(struct params, layer) + (i) * sizeof(struct layer) + \
                     offsetof(struct layer, field)) /                              \
                        sizeof(float),                                             \
                    COUNT(((struct layer *)0)->field)})

void model_vectors(struct range ranges[VECTORS]) {
    for (size_t i = 0; i < LAYERS; i++) {
        *ranges++ = IN_LAYER(i, mix_gain);
        *ranges++ = IN_LAYER(i, qkv_bias);
        *ranges++ = IN_LAYER(i, out_bias);
        *ranges++ = IN_LAYER(i, think_gain);
        *ranges++ = IN_LAYER(i, up_bias);
        *ranges++ = IN_LAYER(i, down_bias);
    }
    *ranges = (struct range){offsetof(struct params, gain) / sizeof(float), WIDTH};
}
