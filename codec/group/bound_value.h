/* bound_value.h - error bounds of groups of kv, which a block with entropy-coded codes states.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_BOUND_VALUE_H
#define PITHI_GROUP_BOUND_VALUE_H

#include "group/group_value.h"

/* What rounding takes from scale and zero point moves the ends of what codes reach; shrinking
 * leaves an eighth of the range. */
PITHI_INLINE double pithi_idempotent_bound(const struct pithi_group_setting *s, double scale,
                                           double zero) {
    const double levels = pithi_group_levels(s), reach = levels * scale;
    const double half = s->scale_dtype == PITH_F16 ? 0x1p-12 : 0x1p-9;
    const double least = s->scale_dtype == PITH_F16 ? 0x1p-25 : 0x1p-118;
    const double cut = s->shrink ? 7 * reach * (1 + 0x1p-4) : 0;
    const double lost = s->short_zero ? zero * 0x1p-5 : 0;
    return cut + lost + scale / 2 * (1 + 0x1p-9) + 4 * half * (zero + reach) + (levels + 1) * least;
}

/* Returns what rounding inside a transform of heads and its inverse may add to the error of a
 * value, which is a mean of errors of codes; order 0: there is none. */
PITHI_INLINE double pithi_rotated_bound(const struct pithi_group_setting *s, uint32_t order,
                                        float scale, float zero) {
    const double reach = (zero < 0 ? -(double)zero : (double)zero) +
                         (double)(1 << s->bits) * (scale < 0 ? -(double)scale : (double)scale);
    double stages = 0, root = 2;
    for (uint32_t n = order; n > 1; n /= 2) stages++;
    for (uint32_t n = order; n > 1; n /= 4) root *= 2;
    return order ? reach * stages * root * 0x1p-22 : 0;
}

#endif
