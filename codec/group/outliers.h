/* outliers.h - the values of a group that lie farthest out, kept as they are beside its codes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, Codec 8; which values are taken: appendix A.8. */
#ifndef PITHI_GROUP_OUTLIERS_H
#define PITHI_GROUP_OUTLIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/group_value.h"

/* Takes `most` values out of a group of count <= 256, or all when it has fewer. Their places,
 * ascending, go to `places` and the values to `exact`, the last one repeated up to `most`; what is
 * coded in their stead takes their place. Asymmetric groups give the values whose loss makes the
 * range of the others least, symmetric ones those of the largest magnitude; then, but with
 * codebook=lloyd, the others are clamped so that they decode to less than what was taken. */
void pithi_outliers_take(const struct pithi_group_setting *set, void *values, uint32_t dtype,
                         size_t count, size_t most, uint8_t *places, void *exact);
/* Takes `most` values out of each column of a few rows, at least 1 and at most 256, which is a
 * group: element i of column c is value[i * stride + c * apart], and what is coded in its place
 * goes to others[i * others_stride + c * others_apart], which may be the same memory. Column c has
 * its places at places[c * most], and its values behind those of the columns before. */
struct pithi_outliers_job {
    const struct pithi_group_setting *set;
    const void *value; /* of this dtype */
    uint32_t dtype;
    int64_t stride;
    size_t apart, rows, columns, most;
    void *others;
    size_t others_stride, others_apart;
    uint8_t *places;
    void *exact;
};
typedef void pithi_outliers_fn(const struct pithi_outliers_job *job);
pithi_outliers_fn pithi_outliers_columns_c;
/* Returns what clamping the others adds to the bound of a group of this scale in a tensor of
 * dtype. */
double pithi_outliers_bound(const struct pithi_group_setting *set, uint32_t dtype, double scale);
/* The outliers of a group, as taken: `most` places, and as many values of a dtype. */
struct pithi_outliers {
    const uint8_t *places;
    const void *exact;
    uint32_t dtype;
    size_t most;
};
/* Puts back those values whose places are among [first, first + count): place p goes to out[(p -
 * first) * stride]. Any bytes are safe. */
void pithi_outliers_put(const struct pithi_outliers *taken, size_t first, size_t count, void *out,
                        uint32_t out_dtype, int64_t stride);

#endif
