/* add.c - sums added to values of every dtype, against scalar C.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 300, COUNT = 1 << 16, TIMES = 50, RUNS = 11 };
static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};

bool bound_add(const struct level *level) { return level->kernels.add != pithi_add_c; }

static void check_one(const struct level *level, struct guarded area[2], uint32_t dtype,
                      size_t count) {
    static uint8_t values[MOST * 4];
    static float sums[MOST];
    const enum fill value = (enum fill)check_below(FILL_COUNT);
    const enum fill sum = (enum fill)check_below(FILL_COUNT);
    const size_t place = check_below(2) ? check_below(PLACE_COUNT) : PLACE_END;
    check_begin("add %s: %zu values of dtype %u, %s + %s, place %zu", level->isa, count, dtype,
                fill_names[value], fill_names[sum], place);
    fill_values(values, dtype, count, value, 7);
    fill_values(sums, PITH_F32, count, sum, 7);
    uint8_t *const to = guarded_place(&area[0], place, values, count * width(dtype));
    void *const from = guarded_place(&area[1], PLACE_END, sums, count * 4);
    const struct host_fp host = host_fp_enter();
    pithi_add_c(values, dtype, sums, count);
    level->kernels.add(to, dtype, from, count);
    host_fp_leave(host);
    check_that(!count || memcmp(to, values, count * width(dtype)) == 0, "sums differ");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

void check_add(const struct level *level) {
    static struct guarded area[2];
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(MOST * 4 + 8192);
    for (size_t count = 0; count < MOST; count++)
        for (int k = 0; k < 9; k++) check_one(level, area, dtypes[k % 3], count);
}

static double run(pithi_add_fn *add, uint8_t *values, uint32_t dtype, const float *sums) {
    double least = 1e9;
    for (int k = 0; k < RUNS; k++) {
        const double start = roofline_clock();
        for (int i = 0; i < TIMES; i++) add(values, dtype, sums, COUNT);
        const double t = roofline_clock() - start;
        if (t < least) least = t;
    }
    return least * 1e9 / ((double)COUNT * TIMES);
}

void bench_add(const struct level *level) {
    if (!strstr("add", bench_only)) return;
    uint8_t *const values = calloc(COUNT, 4);
    float *const sums = calloc(COUNT, 4);
    for (int k = 0; values && sums && k < 3; k++) {
        memset(values, 0, (size_t)COUNT * 4);
        const double scalar = run(pithi_add_c, values, dtypes[k], sums);
        const double kernel = run(level->kernels.add, values, dtypes[k], sums);
        printf("add %-7s dtype %u  %.3f ns a value x%5.1f\n", level->isa, dtypes[k], kernel,
               scalar / kernel);
    }
    free(values);
    free(sums);
}
