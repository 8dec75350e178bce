/* base_check.c - what it costs encode to look whether its external base was changed: a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

/* Every round measures the three variants, and each round begins with another one. This is done
 * with their memory allocated in two orders, since the address of a base changes a time by more
 * than the check of a sample does. */
enum { RUNS = 15, VARIANTS = 3, ORDERS = 2, ARRAYS = 3, TRUST = 0, SAMPLE = 1, CHECK = 2 };
static const uint32_t flag_of[VARIANTS] = {PITH_LAYOUT_TRUST_BASE, 0, PITH_LAYOUT_CHECK_BASE};

/* One flag of the layout: a plan with a stream and a base of its own. */
struct variant {
    struct end end;
    void *base;
    double s[RUNS], share[RUNS]; /* seconds; of those that TRUST took in the same round */
};

static void variant_open(struct variant *w, const char *spec, uint32_t dtype, size_t count,
                         uint32_t flags) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = dtype,
                                .base_dtype = dtype,
                                .ndim = 3, /* tokens, heads, dim, for kv */
                                .shape = {count / 1024, 8, 128},
                                .flags = PITH_LAYOUT_EXTERNAL_BASE | flags};
    const size_t base_bytes = count * pith_dtype_bytes(dtype);
    struct end *const e = &w->end;
    if (end_open(e, spec, &layout, NULL, NULL)) exit(1);
    w->base = runs_allocate(base_bytes);
    memset(w->base, 0, base_bytes);
    if (end_said(e, pith_stream_bind_base(e->work, e->stream, w->base, 0))) exit(1);
}

static void variant_close(struct variant *w) {
    end_close(&w->end);
    free(w->base);
}

/* Steps alternate between two tensors, so that every step is a difference. */
static void fill(void *values, uint32_t dtype, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float x = (float)(seed >> 8) * 0x1p-24f * 0.04f - 0.02f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        const uint16_t high = (uint16_t)(bits >> 16);
        if (dtype == PITH_F32)
            memcpy((float *)values + i, &x, sizeof x);
        else
            memcpy((uint16_t *)values + i, &high, sizeof high);
    }
}

/* Adds the medians with one order of memory: seconds of TRUST, shares of all variants. */
static void measure(const char *spec, uint32_t dtype, size_t bytes, bool backwards,
                    void *const values[2], double *seconds, double share[VARIANTS]) {
    const size_t count = bytes / pith_dtype_bytes(dtype);
    struct variant variants[VARIANTS];
    for (int k = 0; k < VARIANTS; k++) {
        const int variant = backwards ? VARIANTS - 1 - k : k;
        variant_open(&variants[variant], spec, dtype, count, flag_of[variant]);
    }
    const size_t cap = (size_t)pith_plan_frame_bytes(variants[0].end.plan, 0, 0);
    void *const frame = runs_allocate(cap);
    for (int i = -2; i < RUNS; i++) { /* the first two are not counted: pages, the first key */
        const pith_view view = pith_view_flat(values[i & 1], dtype, count);
        for (int k = 0; k < VARIANTS; k++) {
            struct variant *const w = &variants[(k + i + 2) % VARIANTS];
            size_t length;
            const double from = roofline_clock();
            if (end_encode(&w->end, &view, frame, cap, &length)) exit(1);
            if (i >= 0) w->s[i] = roofline_clock() - from;
        }
        for (int k = 0; i >= 0 && k < VARIANTS; k++)
            variants[k].share[i] = variants[k].s[i] / variants[TRUST].s[i];
    }
    *seconds += runs_median(variants[TRUST].s, RUNS);
    for (int k = 0; k < VARIANTS; k++) {
        share[k] += runs_median(variants[k].share, RUNS);
        variant_close(&variants[k]);
    }
    free(frame);
}

static void row(const char *spec, uint32_t dtype, size_t bytes) {
    void *const values[2] = {runs_allocate(bytes), runs_allocate(bytes)};
    double seconds = 0, share[VARIANTS] = {0};
    for (uint32_t k = 0; k < 2; k++) fill(values[k], dtype, bytes / pith_dtype_bytes(dtype), k + 1);
    for (int order = 0; order < ORDERS; order++)
        measure(spec, dtype, bytes, order != 0, values, &seconds, share);
    printf("| `%s` | %s | %.2f | %+.1f %% | %+.1f %% |\n", spec, pith_dtype_name(dtype),
           1e-9 * (double)bytes * ORDERS / seconds, 100 * (share[SAMPLE] / ORDERS - 1),
           100 * (share[CHECK] / ORDERS - 1));
    fflush(stdout);
    free(values[0]);
    free(values[1]);
}

int main(void) {
    const size_t bytes = roofline_bytes(ARRAYS);
    puts("| codec | dtype | unchecked, GB/s | sample | every byte |\n|---|---|---|---|---|");
    row("wdiff", PITH_F32, bytes);
    row("wdiff", PITH_BF16, bytes);
    row("kv", PITH_F32, bytes);
    row("kv", PITH_BF16, bytes);
    row("lossless", PITH_F32, bytes / 4);
    row("lossless", PITH_BF16, bytes / 4);
    return 0;
}
