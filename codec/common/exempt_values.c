/* exempt_values.c - the values of exempt elements: into their area of a frame, out of it, summed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/exempt_values.h"

#include <string.h>

#include "common/convert.h"
#include "common/numeric.h"

/* One exempt run inside the elements of a call. */
struct part {
    uint8_t *bytes; /* its values in the area */
    size_t from, count;
    uint32_t dtype;
};

/* Finds the next exempt run; *at is an element of the map's numbering, from which the search goes
 * on. */
static bool next(const struct pithi_exempt_values *a, uint64_t first, size_t count, uint64_t *at,
                 struct part *p) {
    struct pithi_exempt_run run;
    if (!pithi_exempt_next(a->map, at, a->origin + first + count, &run)) return false;
    *p = (struct part){.from = (size_t)(run.first - a->origin - first),
                       .count = (size_t)run.count,
                       .dtype = run.dtype};
    if (a->bytes) p->bytes = a->bytes + (run.at - pithi_exempt_at(a->map, a->origin));
    return true;
}

void pithi_exempt_values_take(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                              const void *values, uint32_t dtype) {
    struct part p;
    const size_t width = pith_dtype_bytes(dtype);
    for (uint64_t at = a->origin + first; next(a, first, count, &at, &p);)
        pithi_convert(p.bytes, p.dtype, (const uint8_t *)values + p.from * width, dtype, p.count);
}

void pithi_exempt_values_clear(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                               float *x) {
    struct part p;
    for (uint64_t at = a->origin + first; next(a, first, count, &at, &p);)
        memset(x + p.from, 0, p.count * sizeof *x);
}

void pithi_exempt_values_put(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                             void *out, uint32_t dtype) {
    struct part p;
    const size_t width = pith_dtype_bytes(dtype);
    for (uint64_t at = a->origin + first; next(a, first, count, &at, &p);)
        pithi_convert((uint8_t *)out + p.from * width, dtype, p.bytes, p.dtype, p.count);
}

void pithi_exempt_values_add(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                             bool more, float *x) {
    struct part p;
    for (uint64_t at = a->origin + first; next(a, first, count, &at, &p);)
        for (size_t i = 0; i < p.count; i++) {
            const float v = pithi_float(pithi_load(p.bytes, p.dtype, i));
            x[p.from + i] = more ? x[p.from + i] + v : v;
        }
}

void pithi_exempt_values_finish(const struct pithi_exempt_values *a, uint64_t first, size_t count,
                                const float *x, float scale, void *out, uint32_t dtype) {
    struct part p;
    for (uint64_t at = a->origin + first; next(a, first, count, &at, &p);)
        for (size_t i = p.from; i < p.from + p.count; i++) {
            const float v = scale == 1.0f ? x[i] : x[i] * scale;
            pithi_store(out, dtype, i, pithi_bits(v));
        }
}
