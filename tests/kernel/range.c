/* range.c - range of values: every length, every alignment, hostile values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = 8192, MOST = 1500 };

bool bound_range(const struct level *level) { return level->kernels.extremes != pithi_extremes_c; }

static void check_one(const struct level *level, struct guarded *g, const void *data,
                      uint32_t dtype, size_t count, size_t place, const char *name) {
    struct pithi_extremes wanted = {INT32_MAX, INT32_MIN}, got = wanted;
    check_begin("range %s: %zu values %s of dtype %u at place %zu", level->isa, count, name,
                (unsigned)dtype, place);
    const uint8_t *p = guarded_place(g, place, data, count * pith_dtype_bytes(dtype));
    pithi_extremes_c(data, dtype, count, &wanted);
    level->kernels.extremes(p, dtype, count, &got);
    check_that(got.low == wanted.low && got.high == wanted.high, "the extremes differ");
    level->kernels.extremes(p, dtype, count / 2, &got);
    check_that(got.low == wanted.low && got.high == wanted.high, "a part has widened the range");
    check_that(guarded_intact(g), "a byte around the input changed");
    check_end();
}

void check_range(const struct level *level) {
    static float data[MOST];
    struct guarded g = guarded_new(CAPACITY);
    for (uint32_t dtype = PITH_F32; dtype <= PITH_F16; dtype++)
        for (int fill = 0; fill < FILL_COUNT; fill++) {
            fill_values(data, dtype, MOST, (enum fill)fill, 7);
            for (size_t count = 0; count < 200; count++)
                check_one(level, &g, data, dtype, count, PLACE_END, fill_names[fill]);
            for (size_t place = 0; place < PLACE_COUNT; place++)
                check_one(level, &g, data, dtype, check_below(MOST), place, fill_names[fill]);
        }
}

void bench_range(const struct level *level) {
    enum { RUNS = 7 };
    const size_t bytes = (size_t)128 << 20;
    double best = 1e9, read = 1e9;
    struct pithi_extremes e = {INT32_MAX, INT32_MIN};
    void *p = malloc(bytes);
    if (!p) return;
    roofline_fill(p, bytes, false);
    for (int run = 0; run < RUNS; run++) {
        const double sum = roofline_read(p, bytes), start = roofline_clock();
        level->kernels.extremes(p, PITH_F32, bytes / 4, &e);
        const double took = roofline_clock() - start;
        if (took < best) best = took;
        if (sum < read) read = sum;
    }
    printf("range %-7s %9zu bytes  kernel %6.2f GB/s  of read %.2f\n", level->isa, bytes,
           (double)bytes * 1e-9 / best, read / best);
    free(p);
}
