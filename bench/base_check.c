/* base_check.c - what it costs encode to look whether its external base was changed: a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "pith/pith.h"
#include "runs.h"

/* The three ways take turns, and each turn begins with another one. */
enum { RUNS = 31, WAYS = 3, ARRAYS = 3, TRUST = 0, SAMPLE = 1, CHECK = 2 };
static const uint32_t flag_of[WAYS] = {PITH_LAYOUT_TRUST_BASE, 0, PITH_LAYOUT_CHECK_BASE};

static void must(pith_status status, const char *text) {
    if (status == PITH_OK) return;
    fprintf(stderr, "base_check: %s\n", text);
    exit(1);
}

/* One way to look: a plan with a state and a base of its own. */
struct variant {
    pith_plan *plan;
    pith_state *state;
    void *memory, *base;
    double s[RUNS], share[RUNS]; /* seconds; of those that TRUST took in the same turn */
};

static void way_open(struct variant *w, const char *spec, uint32_t dtype, size_t count,
                     uint32_t flags) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = dtype,
                                .base_dtype = dtype,
                                .ndim = 3, /* tokens, heads, dim, for kv */
                                .shape = {count / 1024, 8, 128},
                                .flags = PITH_LAYOUT_EXTERNAL_BASE | flags};
    const size_t base_bytes = count * pith_dtype_bytes(dtype);
    pith_error error;
    pith_sizes sizes = {0};
    const pith_status status = pith_plan_create(&w->plan, spec, &layout, NULL, &error);
    must(status, error.text);
    pith_plan_sizes(w->plan, &sizes);
    w->memory = runs_room((size_t)sizes.state_bytes);
    w->base = runs_room(base_bytes);
    memset(w->base, 0, base_bytes);
    must(pith_state_init(w->plan, w->memory, (size_t)sizes.state_bytes, &w->state),
         pith_plan_error(w->plan).text);
    must(pith_state_bind_base(w->plan, w->state, w->base, 0), pith_plan_error(w->plan).text);
}

static void way_close(struct variant *w) {
    pith_plan_destroy(w->plan);
    free(w->memory);
    free(w->base);
}

/* Two tensors in turns, so that every step is a difference. */
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

static void row(const char *spec, uint32_t dtype, size_t bytes) {
    const size_t count = bytes / pith_dtype_bytes(dtype);
    struct variant variant[WAYS] = {{0}};
    void *const values[2] = {runs_room(bytes), runs_room(bytes)};
    for (int k = 0; k < WAYS; k++) way_open(&variant[k], spec, dtype, count, flag_of[k]);
    for (uint32_t k = 0; k < 2; k++) fill(values[k], dtype, count, k + 1);
    const size_t cap = (size_t)pith_plan_frame_bytes(variant[0].plan, 0, 0);
    void *const frame = runs_room(cap);
    for (int i = -2; i < RUNS; i++) { /* the first two are not counted: pages, the first key */
        const pith_view view = pith_view_flat(values[i & 1], dtype, count);
        for (int k = 0; k < WAYS; k++) {
            struct variant *const w = &variant[(k + i + 2) % WAYS];
            size_t length;
            const double from = roofline_clock();
            must(pith_encode(w->plan, w->state, &view, 0, frame, cap, &length),
                 pith_plan_error(w->plan).text);
            if (i >= 0) w->s[i] = roofline_clock() - from;
        }
        for (int k = 0; i >= 0 && k < WAYS; k++)
            variant[k].share[i] = variant[k].s[i] / variant[TRUST].s[i];
    }
    printf("| `%s` | %s | %.2f | %+.1f %% | %+.1f %% |\n", spec, pith_dtype_name(dtype),
           1e-9 * (double)bytes / runs_median(variant[TRUST].s, RUNS),
           100 * (runs_median(variant[SAMPLE].share, RUNS) - 1),
           100 * (runs_median(variant[CHECK].share, RUNS) - 1));
    fflush(stdout);
    for (int k = 0; k < WAYS; k++) way_close(&variant[k]);
    free(values[0]);
    free(values[1]);
    free(frame);
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
