/* grad_model.h - codec grad once more, from doc/FORMAT.md, in straight lines and for tests only.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here calls the library. */
#ifndef PITH_TESTS_GRAD_MODEL_H
#define PITH_TESTS_GRAD_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { MODEL_NEAREST, MODEL_STOCHASTIC, MODEL_ANTITHETIC };
enum { MODEL_E8M0 = 32 };

struct model {
    unsigned bits, group, rotate;
    uint32_t signs;
    int round;
    size_t block;
    uint32_t scale; /* PITH_F32, PITH_BF16 or MODEL_E8M0 */
    /* Random bits. */
    uint64_t seed, step;
    uint32_t stream, rank, ranks;
    int search; /* search=mse */
};

void model_rotate(const struct model *m, float *x, size_t count);
void model_unrotate(const struct model *m, float *x, size_t count);
/* Bytes of the blocks of a frame. */
size_t model_bytes(const struct model *m, size_t count);
/* Quantize rotated values into blocks, and back. */
void model_code(const struct model *m, const float *x, size_t count, uint8_t *blocks);
void model_decode(const struct model *m, const uint8_t *blocks, size_t count, float *x);
/* What a residual, kept rotated, is as values, and the largest error that one way through the
 * rotation in f32 makes of each: log2(H) * 2^-24 of the root of the sum of squares of its run. */
void model_residual(const struct model *m, const float *kept, size_t count, double *x,
                    double *error);

#endif
