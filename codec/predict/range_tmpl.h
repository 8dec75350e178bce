/* range_tmpl.h - the smallest and largest finite values of a dtype, for every ISA without its own.
 * SPDX-License-Identifier: Apache-2.0 */
#define EXTREMES extremes32
#define WORD int32_t
#include "predict/range_word_tmpl.h"
#define EXTREMES extremes16
#define WORD int16_t
#include "predict/range_word_tmpl.h"

static void extremes(const void *values, uint32_t dtype, size_t count, struct pithi_extremes *e) {
    if (dtype == PITH_F32)
        extremes32(values, count, (int32_t)PITHI_F32_INF, e);
    else
        extremes16(values, count, pithi_infinity16(dtype), e);
}
