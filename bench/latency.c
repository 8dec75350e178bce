/* latency.c - what encoding small tensors costs: one a call, and three hundred a call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plans, streams, buffers and code are warm, as in a training loop with many small tensors. The
 * fixed cost is where the line of the least squares of relative errors meets zero elements: with
 * absolute ones large tensors, which leave the first-level cache, would decide alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

enum { SIZES = 4, ROW = 128, CALLS = 64, BATCHES = 151, OPENINGS = 9 };
static const uint64_t sizes[SIZES] = {256, 1024, 4096, 16384};

static void must(const struct end *e, pith_status status) {
    if (end_said(e, status) != PITH_OK) exit(1);
}

/* ---- One tensor a call -----------------------------------------------------------------------*/

/* A stream, a tensor and a frame, each in memory of its own. */
struct opening {
    struct end end;
    float *values;
    pith_item item;
};

static void open_one(struct opening *o, const char *spec, const float *values, uint64_t count) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 2, .shape = {count / ROW, ROW}};
    if (end_open(&o->end, spec, &layout, NULL, NULL)) exit(1);
    o->values = runs_allocate((size_t)count * sizeof *values);
    memcpy(o->values, values, (size_t)count * sizeof *values);
    o->item = (pith_item){.size = sizeof o->item,
                          .stream = o->end.stream,
                          .view = pith_view_dense(o->values, PITH_F32, 2, layout.shape),
                          .frame = runs_allocate((size_t)o->end.sizes.slot_bytes),
                          .capacity = (size_t)o->end.sizes.slot_bytes};
}

static void close_one(struct opening *o) {
    free(o->item.frame);
    free(o->values);
    end_close(&o->end);
}

/* The median of batches of calls, in nanoseconds per call. */
static double opening_ns(struct opening *o) {
    static double seconds[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        const double from = roofline_clock();
        for (int i = 0; i < CALLS; i++) must(&o->end, pith_encode(o->end.work, &o->item, 1, 0));
        seconds[batch] = roofline_clock() - from;
    }
    return runs_median(seconds, BATCHES) / CALLS * 1e9;
}

/* The median of openings that are held together, so that each has other memory: some take a fifth
 * more than others as long as they are open. */
static double encode_ns(const char *spec, const float *values, uint64_t count) {
    struct opening opening[OPENINGS];
    double ns[OPENINGS];
    for (int i = 0; i < OPENINGS; i++) open_one(&opening[i], spec, values, count);
    for (int i = 0; i < OPENINGS; i++) ns[i] = opening_ns(&opening[i]);
    for (int i = 0; i < OPENINGS; i++) close_one(&opening[i]);
    return runs_median(ns, OPENINGS);
}

/* Least squares of relative errors over the sizes. */
static double intercept(const double ns[SIZES]) {
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < SIZES; i++) {
        const double n = (double)sizes[i], weight = 1 / (ns[i] * ns[i]);
        w += weight, x += weight * n, y += weight * ns[i];
        xx += weight * n * n, xy += weight * n * ns[i];
    }
    return (y * xx - x * xy) / (w * xx - x * x);
}

static void single_rows(const float *values) {
    static const char *const specs[] = {"raw", "wdiff", "grad", "kv:page=16", "eb:rel=1e-3"};
    printf("| encode, ns per call |");
    for (int k = 0; k < SIZES; k++) printf(" %llu |", (unsigned long long)sizes[k]);
    printf(" fixed |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        double ns[SIZES];
        printf("| `%s` |", specs[i]);
        for (int k = 0; k < SIZES; k++)
            printf(" %.0f |", ns[k] = encode_ns(specs[i], values, sizes[k]));
        printf(" %.0f |\n", intercept(ns));
        fflush(stdout);
    }
}

/* ---- A list, and one tensor of as many elements ----------------------------------------------
 * One call must cost at most 1.2 times the other. */

/* The second are a bucket of gradients as frameworks cut them, of 20 MB. */
enum { ITEMS = 300, ITEM_MOST = 16384, LISTED_MOST = ITEMS * ITEM_MOST, ROUNDS = 101 };
static const uint64_t item_sizes[] = {4096, ITEM_MOST};

/* Streams of one plan, and an item for each. */
struct bucket {
    struct end end; /* whose stream is not used */
    uint8_t *memory, *frames;
    pith_item item[ITEMS];
};

static void open_bucket(struct bucket *b, const char *spec, uint32_t base_dtype, uint64_t count) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .base_dtype = base_dtype,
                                .ndim = 1,
                                .shape = {count}};
    if (end_open(&b->end, spec, &layout, NULL, NULL)) exit(1);
    const size_t bytes = (size_t)b->end.sizes.stream_bytes, cap = (size_t)b->end.sizes.slot_bytes;
    const size_t stride = (bytes + 63) & ~(size_t)63;
    b->memory = runs_allocate(ITEMS * stride);
    b->frames = runs_allocate(ITEMS * cap);
    for (size_t i = 0; i < ITEMS; i++) {
        b->item[i] =
            (pith_item){.size = sizeof(pith_item), .frame = b->frames + i * cap, .capacity = cap};
        if (pith_stream_init(b->end.plan, b->memory + i * stride, bytes, NULL, &b->item[i].stream,
                             NULL) != PITH_OK)
            exit(1);
    }
}

static void take_values(struct bucket *b, const float *values, uint64_t count) {
    for (size_t i = 0; i < ITEMS; i++)
        b->item[i].view = pith_view_flat(values + i * count, PITH_F32, count);
}

/* Every round times both, so that both see the same moments of the machine, on two sets of
 * values that alternate, so that every step is a difference. Each goes first, and finds the values
 * cold, in half of the rounds. The ratio is the median of the rounds'. */
static void list_row(const char *spec, uint32_t base_dtype, const float *values, uint64_t count) {
    static double list[ROUNDS], whole[ROUNDS], ratio[ROUNDS];
    static struct bucket b;
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .base_dtype = base_dtype,
                                .ndim = 1,
                                .shape = {ITEMS * count}};
    struct end e;
    open_bucket(&b, spec, base_dtype, count);
    if (end_open(&e, spec, &layout, NULL, NULL)) exit(1);
    pith_item item = {.size = sizeof item,
                      .stream = e.stream,
                      .frame = runs_allocate((size_t)e.sizes.slot_bytes),
                      .capacity = (size_t)e.sizes.slot_bytes};
    for (int i = -2; i < ROUNDS; i++) { /* the first two warm what they touch */
        const float *const now = values + (size_t)(i & 1) * ITEMS * count;
        double seconds[2];
        take_values(&b, now, count);
        item.view = pith_view_flat(now, PITH_F32, ITEMS * count);
        for (int k = 0; k < 2; k++) {
            const bool listed = (k ^ i >> 1) & 1;
            const double from = roofline_clock();
            if (listed)
                must(&b.end, pith_encode(b.end.work, b.item, ITEMS, 0));
            else
                must(&e, pith_encode(e.work, &item, 1, 0));
            seconds[listed] = roofline_clock() - from;
        }
        if (i < 0) continue;
        whole[i] = seconds[0];
        list[i] = seconds[1];
        ratio[i] = list[i] / whole[i];
    }
    const double all = (double)(ITEMS * count) * 1e-9;
    printf("| `%s` | %s | %d | %.3f | %.3f | %.2f |\n", spec, pith_dtype_name(base_dtype),
           (int)count, runs_median(whole, ROUNDS) / all, runs_median(list, ROUNDS) / all,
           runs_median(ratio, ROUNDS));
    fflush(stdout);
    free(item.frame);
    free(b.memory);
    free(b.frames);
    end_close(&e);
    end_close(&b.end);
}

static void list_rows(const float *values) {
    printf(
        "\n| encode | base | elements of an item | one tensor, ns per element | %d items | ratio "
        "|\n|---|---|---|---|---|---|\n",
        ITEMS);
    for (size_t i = 0; i < sizeof item_sizes / sizeof *item_sizes; i++) {
        list_row("wdiff", PITH_NONE, values, item_sizes[i]);
        list_row("wdiff", PITH_F32, values, item_sizes[i]);
        list_row("grad", PITH_NONE, values, item_sizes[i]);
    }
}

int main(void) {
    float *const values = runs_allocate(2 * (size_t)LISTED_MOST * sizeof *values);
    uint32_t seed = 1;
    for (size_t i = 0; i < 2 * (size_t)LISTED_MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-24f * 0.04f - 0.02f;
    }
    single_rows(values);
    list_rows(values);
    free(values);
    return 0;
}
