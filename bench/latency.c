/* latency.c - what one encode of a small tensor costs: a table of nanoseconds per call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plans, buffers and code are warm, as in a training loop with many small tensors. The fixed cost
 * is where a line through the times meets zero elements. */
#include <stdio.h>
#include <stdlib.h>

#include "../cli/roofline.h"
#include "pith/pith.h"
#include "runs.h"

enum { SIZES = 4, ROW = 128, CALLS = 64, BATCHES = 601 };
static const uint64_t sizes[SIZES] = {256, 1024, 4096, 16384};

static void fail(const char *text) {
    fprintf(stderr, "latency: %s\n", text);
    exit(1);
}

/* The median of batches of calls, in nanoseconds per call. */
static double encode_ns(const char *spec, const float *values, uint64_t count) {
    static double seconds[BATCHES];
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 2, .shape = {count / ROW, ROW}};
    const pith_view view = pith_view_dense(values, PITH_F32, 2, layout.shape);
    pith_plan *plan;
    pith_error error;
    pith_sizes bytes;
    if (pith_plan_create(&plan, spec, &layout, NULL, &error) != PITH_OK) fail(error.text);
    pith_plan_sizes(plan, &bytes);
    void *const frame = runs_room((size_t)bytes.slot_bytes);
    for (int batch = 0; batch < BATCHES; batch++) {
        const double from = roofline_clock();
        for (int i = 0; i < CALLS; i++) {
            size_t n;
            if (pith_encode(plan, NULL, &view, 0, frame, (size_t)bytes.slot_bytes, &n) != PITH_OK)
                fail(pith_plan_error(plan).text);
        }
        seconds[batch] = roofline_clock() - from;
    }
    free(frame);
    pith_plan_destroy(plan);
    return runs_median(seconds, BATCHES) / CALLS * 1e9;
}

/* Least squares over the sizes. */
static double intercept(const double ns[SIZES]) {
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < SIZES; i++) {
        const double n = (double)sizes[i];
        x += n, y += ns[i], xx += n * n, xy += n * ns[i];
    }
    return (y * xx - x * xy) / (SIZES * xx - x * x);
}

int main(void) {
    static const char *const specs[] = {"raw", "wdiff", "grad", "kv:page=16", "eb:rel=1e-3"};
    float *const values = runs_room(sizes[SIZES - 1] * sizeof *values);
    uint32_t seed = 1;
    for (uint64_t i = 0; i < sizes[SIZES - 1]; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-24f * 0.04f - 0.02f;
    }
    printf("| encode, ns per call |");
    for (int k = 0; k < SIZES; k++) printf(" %llu |", (unsigned long long)sizes[k]);
    printf(" fixed |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        double ns[SIZES];
        printf("| `%s` |", specs[i]);
        for (int k = 0; k < SIZES; k++)
            printf(" %.0f |", ns[k] = encode_ns(specs[i], values, sizes[k]));
        printf(" %.0f |\n", intercept(ns));
    }
    free(values);
    return 0;
}
