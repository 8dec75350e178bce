/* threads.c - what a second thread brings to encoding from cache-sized blocks: a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

/* 1 MiB of f32: half of it fits a core's cache. Of the calls of a round the first wait for what the
 * other number of threads has left in another core's cache, and are not measured. */
enum { COUNT = 1 << 18, ROUNDS = 401, WARM = 4, CALLS = 20, REPETITIONS = ROUNDS * CALLS };

struct run {
    struct end end;
    void *frame;
};

static void open_run(struct run *r, const char *spec, uint32_t base_dtype, uint32_t threads,
                     const pith_view *base) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .base_dtype = base_dtype,
                                .ndim = 1,
                                .shape = {COUNT}};
    const pith_env env = {.size = sizeof env, .threads = threads};
    if (end_open(&r->end, spec, &layout, &env, NULL)) exit(1);
    r->frame = runs_allocate((size_t)r->end.sizes.slot_bytes);
    if (base_dtype != PITH_NONE &&
        end_said(&r->end, pith_stream_set_base(r->end.work, r->end.stream, base, 0)))
        exit(1);
}

static double encode_seconds(struct run *r, const pith_view *value) {
    size_t n;
    const double from = roofline_clock();
    if (end_encode(&r->end, value, r->frame, (size_t)r->end.sizes.slot_bytes, &n)) exit(1);
    return roofline_clock() - from;
}

/* Every round has both thread counts, so that both see the same moments of the machine. */
static void one_case(const char *spec, uint32_t base_dtype, const pith_view *value,
                     const pith_view *base) {
    static double seconds[2][REPETITIONS];
    struct run runs[2];
    for (uint32_t i = 0; i < 2; i++) open_run(&runs[i], spec, base_dtype, i + 1, base);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < WARM; k++) encode_seconds(&runs[i], value);
            for (int k = 0; k < CALLS; k++)
                seconds[i][round * CALLS + k] = encode_seconds(&runs[i], value);
        }
    for (int i = 0; i < 2; i++) {
        end_close(&runs[i].end);
        free(runs[i].frame);
    }
    const double one = runs_median(seconds[0], REPETITIONS);
    const double two = runs_median(seconds[1], REPETITIONS);
    printf("| `%s` | %s | %.1f | %.1f | %.2f |\n", spec, pith_dtype_name(base_dtype),
           COUNT * 4e-9 / one, COUNT * 4e-9 / two, one / two);
}

int main(void) {
    static const char *const specs[] = {"wdiff", "wdiff:group=128", "wdiff:round=stochastic"};
    static const uint32_t bases[] = {PITH_NONE, PITH_F32, PITH_BF16};
    float *values = runs_allocate(2 * COUNT * sizeof *values);
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
