/* nh.c - the universal hash: every length, every alignment, pieces that add up.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = 8192 };

static volatile uint64_t witness; /* keeps timed sums alive */

bool bound_nh(const struct level *level) { return level->kernels.nh != pithi_nh_c; }

static void check_one(const struct level *level, struct guarded *g, const uint8_t *data,
                      size_t bytes, size_t place) {
    const uint64_t lane = check_random() >> check_below(64);
    check_begin("nh %s: %zu bytes at place %zu, lane %llu", level->isa, bytes, place,
                (unsigned long long)lane);
    const uint8_t *p = guarded_place(g, place, data, bytes);
    const uint64_t whole = pithi_nh_c(data, bytes, lane);
    check_that(level->kernels.nh(p, bytes, lane) == whole, "the sum differs");
    const size_t cut = check_below(bytes / 8 + 1) * 8;
    const uint64_t parts =
        level->kernels.nh(p, cut, lane) + level->kernels.nh(p + cut, bytes - cut, lane + cut / 8);
    check_that(parts == whole, "the sums of two pieces do not add up");
    check_that(guarded_intact(g), "a byte around the input changed");
    check_end();
}

void check_nh(const struct level *level) {
    static uint8_t data[CAPACITY - 64];
    struct guarded g = guarded_new(CAPACITY);
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)check_random();
    for (size_t bytes = 0; bytes <= 1100; bytes++) {
        check_one(level, &g, data, bytes, PLACE_END);
        check_one(level, &g, data, bytes, check_below(64));
    }
    for (size_t place = 0; place < PLACE_COUNT; place++)
        for (int k = 0; k < 20; k++) check_one(level, &g, data, check_below(sizeof data), place);
}

void bench_nh(const struct level *level) {
    enum { RUNS = 9 };
    const size_t sizes[2] = {16384, (size_t)128 << 20};
    for (int s = 0; s < 2; s++) {
        const size_t bytes = sizes[s], repeats = s == 0 ? 4096 : 1;
        double kernel[RUNS], read[RUNS], scalar[RUNS];
        void *p = malloc(bytes);
        if (!p) return;
        roofline_fill(p, bytes, false);
        for (int run = 0; run < RUNS; run++) {
            read[run] = 0;
            for (size_t k = 0; k < repeats; k++) read[run] += roofline_read(p, bytes);
            double start = roofline_clock();
            for (size_t k = 0; k < repeats; k++) witness += level->kernels.nh(p, bytes, 0);
            kernel[run] = roofline_clock() - start;
            start = roofline_clock();
            for (size_t k = 0; k < repeats; k++) witness += pithi_nh_c(p, bytes, 0);
            scalar[run] = roofline_clock() - start;
        }
        const double kernel_median = median(kernel, RUNS);
        const double read_median = median(read, RUNS);
        const double scalar_median = median(scalar, RUNS);
        const double gb = (double)bytes * (double)repeats * 1e-9;
        printf("nh %-7s %9zu bytes  scalar %6.2f  kernel %6.2f GB/s  x%5.2f  of read %.2f\n",
               level->isa, bytes, gb / scalar_median, gb / kernel_median,
               scalar_median / kernel_median, read_median / kernel_median);
        free(p);
    }
}
