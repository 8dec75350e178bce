/* range_tmpl.h - the smallest and largest finite f32, in a form that compilers make vectors of.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

static void extremes(const void *values, size_t count, struct pithi_extremes *e) {
    const uint8_t *const from = values;
    int32_t low = e->low, high = e->high;
    for (size_t i = 0; i < count; i++) {
        int32_t u;
        memcpy(&u, from + 4 * i, sizeof u);
        const int32_t order = u ^ (-(u < 0) & INT32_MAX);
        const int32_t finite = -((u & (int32_t)PITHI_F32_INF) != (int32_t)PITHI_F32_INF);
        const int32_t a = (order & finite) | (INT32_MAX & ~finite);
        const int32_t b = (order & finite) | (INT32_MIN & ~finite);
        low = a < low ? a : low;
        high = b > high ? b : high;
    }
    e->low = low;
    e->high = high;
}
