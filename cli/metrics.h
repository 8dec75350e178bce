/* metrics.h - how far two tensors are apart.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_METRICS_H
#define PITH_CLI_METRICS_H

#include "tensors.h"

/* Sums over pairs, so that tensors can be added up. Only pairs of finite values enter them. */
struct sums {
    uint64_t finite;             /* pairs */
    uint64_t nonfinite_mismatch; /* pairs with a non-finite value that do not match */
    uint64_t differing_bits;
    uint64_t opaque_bits;      /* differing bits of dtypes without numbers */
    bool has_bits, has_values; /* dtypes equal; dtype has numbers */
    bool has_range;
    double max_abs, squared_error, squared_a, squared_b, product, low, high;
};

struct metrics {
    double max_abs_error, nmse, psnr_db, cosine; /* NaN: undefined */
};

/* The values of a tensor one by one, in row-major order of its shape. Zero all but t and bytes. */
struct reader {
    const struct tensor *t;
    const uint8_t *bytes;       /* the tensor's bytes as in the file */
    uint64_t at[PITH_MAX_NDIM]; /* indices of the next element */
    uint64_t offset;            /* where it is in the file, in elements */
};
double reader_next(struct reader *r);

/* Sums over the pairs of a, the reference, and b, which have the same shape. */
void sums_of(const struct tensor *a, const uint8_t *a_bytes, const struct tensor *b,
             const uint8_t *b_bytes, struct sums *out);
void sums_add(struct sums *total, const struct sums *one);
struct metrics metrics_of(const struct sums *sums);

#endif
