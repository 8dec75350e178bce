/* add_tmpl.h - sums added to values of any float dtype, written once over 16 lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h. What is no whole vector goes to scalar C. */
#ifndef PITHI_COMMON_ADD_TMPL_H
#define PITHI_COMMON_ADD_TMPL_H

#include "common/convert.h"
#include "common/lanes_tmpl.h"

ALWAYS void add_lanes(uint8_t *values, uint32_t dtype, const float *sum, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const v16 y = v_load((const uint8_t *)(sum + i));
        const v16 x = f_canonical(f_add(load(dtype, values, i), y));
        store(dtype, values, i, dtype == PITH_F16 ? x : round_loosely(dtype, x));
    }
    if (i < count) pithi_add_c(values + i * width(dtype), dtype, sum + i, count - i);
}

static void add_values(void *values, uint32_t dtype, const float *sum, size_t count) {
    if (dtype == PITH_F32)
        add_lanes(values, PITH_F32, sum, count);
    else if (dtype == PITH_BF16)
        add_lanes(values, PITH_BF16, sum, count);
    else
        add_lanes(values, PITH_F16, sum, count);
}

#endif
