/* threads.c - what a second thread brings to encoding from cache-sized blocks: a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "../cli/roofline.h"
#include "pith/pith.h"
#include "runs.h"

enum { COUNT = 1 << 18, REPETITIONS = 8001 }; /* 1 MiB of f32: half of it fits a core's cache */

static void fail(const char *text) {
    fprintf(stderr, "threads: %s\n", text);
    exit(1);
}

struct run {
    pith_plan *plan;
    pith_state *state;
    void *memory, *frame;
    pith_sizes sizes;
};

static void open_run(struct run *r, const char *spec, uint32_t base_dtype, uint32_t threads,
                     const pith_view *base) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .base_dtype = base_dtype,
                                .ndim = 1,
                                .shape = {COUNT}};
    const pith_env env = {.size = sizeof env, .threads = threads};
    pith_error error;
    *r = (struct run){0};
    if (pith_plan_create(&r->plan, spec, &layout, &env, &error) != PITH_OK) fail(error.text);
    pith_plan_sizes(r->plan, &r->sizes);
    r->frame = runs_room((size_t)r->sizes.slot_bytes);
    if (!r->sizes.state_bytes) return;
    r->memory = runs_room((size_t)r->sizes.state_bytes);
    if (pith_state_init(r->plan, r->memory, (size_t)r->sizes.state_bytes, &r->state) != PITH_OK ||
        pith_state_set_base(r->plan, r->state, base, 0) != PITH_OK)
        fail(pith_plan_error(r->plan).text);
}

static double encode_seconds(struct run *r, const pith_view *value) {
    size_t n;
    const double from = roofline_clock();
    if (pith_encode(r->plan, r->state, value, 0, r->frame, (size_t)r->sizes.slot_bytes, &n))
        fail(pith_plan_error(r->plan).text);
    return roofline_clock() - from;
}

/* The two thread counts take turns, so that both see the same moments of the machine. */
static void one_case(const char *spec, uint32_t base_dtype, const pith_view *value,
                     const pith_view *base) {
    static double seconds[2][REPETITIONS];
    struct run runs[2];
    for (uint32_t i = 0; i < 2; i++) open_run(&runs[i], spec, base_dtype, i + 1, base);
    for (int turn = 0; turn < REPETITIONS; turn++)
        for (int i = 0; i < 2; i++) seconds[i][turn] = encode_seconds(&runs[i], value);
    for (int i = 0; i < 2; i++) {
        pith_plan_destroy(runs[i].plan);
        free(runs[i].frame);
        free(runs[i].memory);
    }
    const double one = runs_median(seconds[0], REPETITIONS);
    const double two = runs_median(seconds[1], REPETITIONS);
    printf("| `%s` | %s | %.1f | %.1f | %.2f |\n", spec, pith_dtype_name(base_dtype),
           COUNT * 4e-9 / one, COUNT * 4e-9 / two, one / two);
}

int main(void) {
    static const char *const specs[] = {"wdiff", "wdiff:group=128", "wdiff:round=stochastic"};
    static const uint32_t bases[] = {PITH_NONE, PITH_F32, PITH_BF16};
    float *values = runs_room(2 * COUNT * sizeof *values);
    uint32_t seed = 1;
    for (int i = 0; i < 2 * COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-24f * 0.04f - 0.02f;
    }
    const pith_view value = pith_view_flat(values, PITH_F32, COUNT);
    const pith_view base = pith_view_flat(values + COUNT, PITH_F32, COUNT);
    puts("| codec | base | 1 thread, GB/s | 2 threads, GB/s | ratio |\n|---|---|---|---|---|");
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++)
        for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++)
            one_case(specs[s], bases[b], &value, &base);
    free(values);
    return 0;
}
