/* transformer.c - loss and gradient of the model: pre-norm blocks of attention and an MLP.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "model.h"

typedef float tokens[TOKENS * WIDTH];

struct block {
    tokens x, mix, heads, middle, think; /* entering, normed, attention's result, between, normed */
    float qkv[TOKENS * 3 * WIDTH];
    float up[TOKENS * HIDDEN], nonzero[TOKENS * HIDDEN];
    float mix_inverse[TOKENS], think_inverse[TOKENS];
    float attention[WINDOWS * HEADS][CONTEXT * CONTEXT];
};

struct pass {
    struct block block[LAYERS];
    tokens x, normed;
    float inverse[TOKENS];
    float logits[TOKENS * VOCAB];
    /* Scratch of backward. */
    tokens d_x, d_y;
    float d_qkv[TOKENS * 3 * WIDTH], d_hidden[TOKENS * HIDDEN];
    float transposed[TOKENS * HIDDEN], transposed_weights[WIDTH * HIDDEN];
};

struct pass *pass_create(void) {
    return calloc(1, sizeof(struct pass));
}
void pass_destroy(struct pass *pass) { free(pass); }

static void linear(float *out, const float *in, const float *weights, const float *bias,
                   size_t inputs, size_t outputs) {
    matmul(out, in, weights, TOKENS, outputs, inputs, 0);
    if (bias) add_bias(out, bias, TOKENS, outputs);
}

/* d_in = d_out * weights^T; d_weights = in^T * d_out; d_bias = the sum of d_out's rows. */
static void linear_backward(struct pass *pass, float *d_in, float *d_weights, float *d_bias,
                            const float *d_out, const float *in, const float *weights,
                            size_t inputs, size_t outputs) {
    transpose(pass->transposed_weights, weights, inputs, outputs);
    matmul(d_in, d_out, pass->transposed_weights, TOKENS, inputs, outputs, 0);
    transpose(pass->transposed, in, TOKENS, inputs);
    matmul(d_weights, pass->transposed, d_out, inputs, outputs, TOKENS, 0);
    if (d_bias) sum_rows(d_bias, d_out, TOKENS, outputs);
}

/* ---- Attention, one window and head at a time ---------------------------------------------------
 * A head is HEAD columns of the window's rows; the columns of q, k and v stand side by side. */
typedef float head[CONTEXT * HEAD];

static void take_head(float *to, const float *rows, size_t stride) {
    for (size_t t = 0; t < CONTEXT; t++)
        memcpy(to + t * HEAD, rows + t * stride, HEAD * sizeof *to);
}

static void put_head(float *rows, size_t stride, const float *from) {
    for (size_t t = 0; t < CONTEXT; t++)
        memcpy(rows + t * stride, from + t * HEAD, HEAD * sizeof *from);
}

static const float head_scale = 0.17677669f; /* 1 / sqrt(HEAD) */

static void attend(float *out, float *p, const float *qkv) {
    head q, k, v, transposed;
    take_head(q, qkv, 3 * WIDTH);
    take_head(k, qkv + WIDTH, 3 * WIDTH);
    take_head(v, qkv + 2 * WIDTH, 3 * WIDTH);
    transpose(transposed, k, CONTEXT, HEAD);
    matmul(p, q, transposed, CONTEXT, CONTEXT, HEAD, 0);
    causal_softmax(p, head_scale, CONTEXT);
    matmul(q, p, v, CONTEXT, HEAD, CONTEXT, 0);
    put_head(out, WIDTH, q);
}

static void attend_backward(float *d_qkv, const float *d_out, const float *p, const float *qkv) {
    head q, k, v, d, result, transposed;
    float d_p[CONTEXT * CONTEXT], square[CONTEXT * CONTEXT];
    take_head(q, qkv, 3 * WIDTH);
    take_head(k, qkv + WIDTH, 3 * WIDTH);
    take_head(v, qkv + 2 * WIDTH, 3 * WIDTH);
    take_head(d, d_out, WIDTH);
    transpose(square, p, CONTEXT, CONTEXT);
    matmul(result, square, d, CONTEXT, HEAD, CONTEXT, 0);
    put_head(d_qkv + 2 * WIDTH, 3 * WIDTH, result);
    transpose(transposed, v, CONTEXT, HEAD);
    matmul(d_p, d, transposed, CONTEXT, CONTEXT, HEAD, 0);
    causal_softmax_backward(d_p, p, head_scale, CONTEXT);
    matmul(result, d_p, k, CONTEXT, HEAD, CONTEXT, 0);
    put_head(d_qkv, 3 * WIDTH, result);
    transpose(square, d_p, CONTEXT, CONTEXT);
    matmul(result, square, q, CONTEXT, HEAD, CONTEXT, 0);
    put_head(d_qkv + WIDTH, 3 * WIDTH, result);
}

static void attention(struct block *b) {
    for (size_t i = 0; i < WINDOWS * HEADS; i++) {
        const size_t row = i / HEADS * CONTEXT, column = i % HEADS * HEAD;
        attend(b->heads + row * WIDTH + column, b->attention[i], b->qkv + row * 3 * WIDTH + column);
    }
}

static void attention_backward(float *d_qkv, const float *d_heads, const struct block *b) {
    for (size_t i = 0; i < WINDOWS * HEADS; i++) {
        const size_t row = i / HEADS * CONTEXT, column = i % HEADS * HEAD;
        attend_backward(d_qkv + row * 3 * WIDTH + column, d_heads + row * WIDTH + column,
                        b->attention[i], b->qkv + row * 3 * WIDTH + column);
    }
}

/* ---- Blocks -----------------------------------------------------------------------------------*/

/* b->x holds what enters. */
static void block_forward(float *out, const struct layer *l, struct block *b) {
    norm_forward(b->mix, b->mix_inverse, b->x, l->mix_gain, TOKENS, WIDTH);
    linear(b->qkv, b->mix, l->qkv, l->qkv_bias, WIDTH, 3 * WIDTH);
    attention(b);
    linear(b->middle, b->heads, l->out, l->out_bias, WIDTH, WIDTH);
    add_to(b->middle, b->x, TOKENS * WIDTH);
    norm_forward(b->think, b->think_inverse, b->middle, l->think_gain, TOKENS, WIDTH);
    linear(b->up, b->think, l->up, l->up_bias, WIDTH, HIDDEN);
    square_relu(b->nonzero, b->up, TOKENS * HIDDEN);
    linear(out, b->nonzero, l->down, l->down_bias, HIDDEN, WIDTH);
    add_to(out, b->middle, TOKENS * WIDTH);
}

/* pass->d_x: gradient of what leaves, then of what enters. */
static void block_backward(struct pass *pass, struct layer *d, const struct layer *l,
                           const struct block *b) {
    linear_backward(pass, pass->d_hidden, d->down, d->down_bias, pass->d_x, b->nonzero, l->down,
                    HIDDEN, WIDTH);
    square_relu_backward(pass->d_hidden, b->up, TOKENS * HIDDEN);
    linear_backward(pass, pass->d_y, d->up, d->up_bias, pass->d_hidden, b->think, l->up, WIDTH,
                    HIDDEN);
    norm_backward(pass->d_x, d->think_gain, pass->d_y, b->middle, l->think_gain, b->think_inverse,
                  TOKENS, WIDTH);
    linear_backward(pass, pass->d_y, d->out, d->out_bias, pass->d_x, b->heads, l->out, WIDTH,
                    WIDTH);
    attention_backward(pass->d_qkv, pass->d_y, b);
    linear_backward(pass, pass->d_y, d->qkv, d->qkv_bias, pass->d_qkv, b->mix, l->qkv, WIDTH,
                    3 * WIDTH);
    norm_backward(pass->d_x, d->mix_gain, pass->d_y, b->x, l->mix_gain, b->mix_inverse, TOKENS,
                  WIDTH);
}

/* ---- The model --------------------------------------------------------------------------------*/

static void embed(const struct params *params, const struct batch *batch, float *x) {
    for (size_t i = 0; i < TOKENS; i++, x += WIDTH) {
        const float *token = params->token + batch->input[i / CONTEXT][i % CONTEXT] * WIDTH;
        const float *position = params->position + i % CONTEXT * WIDTH;
        for (size_t j = 0; j < WIDTH; j++) x[j] = token[j] + position[j];
    }
}

static void embed_backward(struct params *grads, const struct batch *batch, const float *d_x) {
    for (size_t i = 0; i < TOKENS; i++, d_x += WIDTH) {
        add_to(grads->token + batch->input[i / CONTEXT][i % CONTEXT] * WIDTH, d_x, WIDTH);
        add_to(grads->position + i % CONTEXT * WIDTH, d_x, WIDTH);
    }
}

float model_loss(const struct params *params, const struct batch *batch, struct pass *pass) {
    embed(params, batch, pass->block[0].x);
    for (size_t i = 0; i < LAYERS; i++)
        block_forward(i + 1 < LAYERS ? pass->block[i + 1].x : pass->x, &params->layer[i],
                      &pass->block[i]);
    norm_forward(pass->normed, pass->inverse, pass->x, params->gain, TOKENS, WIDTH);
    linear(pass->logits, pass->normed, params->head, NULL, WIDTH, VOCAB);
    const double loss = cross_entropy(pass->logits, batch->target[0], 1.0f / TOKENS, TOKENS, VOCAB);
    return (float)(loss / TOKENS);
}

float model_gradient(const struct params *params, const struct batch *batch, struct pass *pass,
                     struct params *grads) {
    const float loss = model_loss(params, batch, pass);
    memset(grads, 0, sizeof *grads);
    memset(pass->d_x, 0, sizeof pass->d_x);
    linear_backward(pass, pass->d_y, grads->head, NULL, pass->logits, pass->normed, params->head,
                    WIDTH, VOCAB);
    norm_backward(pass->d_x, grads->gain, pass->d_y, pass->x, params->gain, pass->inverse, TOKENS,
                  WIDTH);
    for (size_t i = LAYERS; i-- > 0;)
        block_backward(pass, &grads->layer[i], &params->layer[i], &pass->block[i]);
    embed_backward(grads, batch, pass->d_x);
    return loss;
}
