/* sums.c - how fast gradients are encoded and summed, beside movers of the same bytes: a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "pith/pith.h"
#include "runs.h"

/* Tensors to encode, and the frames of a sum together, are more than caches hold. */
enum { FRAMES = 8, RUNS = 15, ARRAYS = 6 };

static void fail(const char *text) {
    fprintf(stderr, "sums: %s\n", text);
    exit(1);
}

/* ---- Times -----------------------------------------------------------------------------------*/

struct times {
    double s[RUNS];
};

/* The ceiling with the smallest median. */
static struct times *fastest(struct times *t, int n) {
    struct times *best = &t[0];
    for (int i = 1; i < n; i++)
        if (runs_median(t[i].s, RUNS) < runs_median(best->s, RUNS)) best = &t[i];
    return best;
}

static void print_row(const char *what, const char *ceiling, double gb, struct times *t,
                      struct times *c, struct times *separate) {
    const double own = runs_median(t->s, RUNS), other = runs_median(c->s, RUNS);
    printf("| %s | %.2f (%.2f) | %s | %.2f (%.2f) | %.2f (%.2f) |", what, gb / own, gb / t->s[0],
           ceiling, gb / other, gb / c->s[0], other / own, c->s[0] / t->s[0]);
    if (separate)
        printf(" %.1f |\n", runs_median(separate->s, RUNS) / own);
    else
        puts(" |");
    fflush(stdout);
}

/* ---- Data ------------------------------------------------------------------------------------*/

static pith_plan *plan_of(const char *spec, size_t count) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .base_dtype = PITH_NONE,
                                .ndim = 1,
                                .shape = {count}};
    pith_plan *plan;
    pith_error error;
    if (pith_plan_create(&plan, spec, &layout, NULL, &error) != PITH_OK) fail(error.text);
    return plan;
}

static size_t frame_room(const pith_plan *plan) {
    return (size_t)pith_plan_frame_bytes(plan, 0, 0);
}

static void must(const pith_plan *plan, pith_status status) {
    if (status != PITH_OK) fail(pith_plan_error(plan).text);
}

static void fill(float *values, size_t count) {
    uint32_t seed = 1;
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-24f * 0.04f - 0.02f;
    }
}

/* ---- Encode ----------------------------------------------------------------------------------*/

/* moved: also how fast the bytes alone are read and written. */
static void encode_row(const char *spec, const float *values, size_t count, bool moved) {
    const size_t bytes = count * sizeof *values;
    struct times own, read, movers[CEILING_MOVERS];
    size_t n;
    char what[80];
    pith_plan *plan = plan_of(spec, count);
    const pith_view view = pith_view_flat((void *)(uintptr_t)values, PITH_F32, count);
    void *frame = runs_room(frame_room(plan));
    struct roofline_mover m = {.read = {values},
                               .read_bytes = {bytes},
                               .write = {frame},
                               .write_bytes = {frame_room(plan)}};
    for (int i = 0; i < RUNS; i++) {
        for (int k = 0; moved && k < CEILING_MOVERS; k++) movers[k].s[i] = roofline_move(&m, k);
        read.s[i] = roofline_read(values, bytes);
        const double from = roofline_clock();
        must(plan, pith_encode(plan, NULL, &view, 0, frame, frame_room(plan), &n));
        own.s[i] = roofline_clock() - from;
    }
    snprintf(what, sizeof what, "encode `%s`", spec);
    print_row(what, "read", 1e-9 * (double)bytes, &own, &read, NULL);
    if (moved)
        print_row("its bytes moved", "read", 1e-9 * (double)bytes, fastest(movers, CEILING_MOVERS),
                  &read, NULL);
    pith_plan_destroy(plan);
    free(frame);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

struct sum {
    size_t count;
    pith_plan *in, *out; /* out NULL: the sum itself */
    void *frames[FRAMES];
    size_t lengths[FRAMES];
    void *result;
    size_t result_bytes;
    float *values, *scratch;
};

static void sum_frames(struct sum *s) {
    const void *const *frames = (const void *const *)s->frames;
    const pith_view view = pith_view_flat(s->result, PITH_F32, s->count);
    size_t n;
    if (s->out)
        must(s->in, pith_reduce_encode(s->in, NULL, 0, frames, s->lengths, FRAMES, 1.0f, s->out,
                                       NULL, 0, s->result, s->result_bytes, &n));
    else
        must(s->in, pith_reduce(s->in, NULL, 0, frames, s->lengths, FRAMES, 1.0f, &view));
}

static void sum_separately(struct sum *s) {
    const pith_view next = pith_view_flat(s->scratch, PITH_F32, s->count);
    const pith_view all = pith_view_flat(s->values, PITH_F32, s->count);
    size_t n;
    for (int k = 0; k < FRAMES; k++) {
        must(s->in, pith_decode(s->in, NULL, 0, s->frames[k], s->lengths[k], k ? &next : &all));
        for (size_t i = 0; k && i < s->count; i++) s->values[i] += s->scratch[i];
    }
    must(s->out, pith_encode(s->out, NULL, &all, 0, s->result, s->result_bytes, &n));
}

static double move_sum(const struct sum *s, int variant) {
    struct roofline_mover m = {.write = {s->result}, .write_bytes = {s->result_bytes}};
    for (int k = 0; k < FRAMES; k++) {
        m.read[k] = s->frames[k];
        m.read_bytes[k] = s->lengths[k];
    }
    return roofline_move(&m, variant);
}

static void measure(struct sum *s, const char *what) {
    struct times own, separate, movers[CEILING_MOVERS];
    for (int i = 0; i < RUNS; i++) {
        for (int k = 0; k < CEILING_MOVERS; k++) movers[k].s[i] = move_sum(s, k);
        const double from = roofline_clock();
        sum_frames(s);
        own.s[i] = roofline_clock() - from;
        if (s->out) sum_separately(s);
        separate.s[i] = roofline_clock() - from - own.s[i];
    }
    const double bytes = (double)(FRAMES * s->lengths[0] + s->result_bytes);
    print_row(what, "move", bytes * 1e-9, &own, fastest(movers, CEILING_MOVERS),
              s->out ? &separate : NULL);
}

static void sum_row(const char *in, const char *out, const float *values, size_t count) {
    struct sum s = {
        .count = count, .in = plan_of(in, count), .out = out ? plan_of(out, count) : NULL};
    const pith_view view = pith_view_flat((void *)(uintptr_t)values, PITH_F32, count);
    char what[120];
    for (int k = 0; k < FRAMES; k++) {
        const size_t cap = frame_room(s.in);
        s.frames[k] = runs_room(cap);
        must(s.in, pith_encode(s.in, NULL, &view, 0, s.frames[k], cap, &s.lengths[k]));
    }
    s.result_bytes = out ? frame_room(s.out) : count * sizeof(float);
    s.result = runs_room(s.result_bytes);
    s.values = runs_room(count * sizeof(float));
    s.scratch = runs_room(count * sizeof(float));
    snprintf(what, sizeof what, "%s %d x `%s` to %s%s%s", out ? "reduce_encode" : "reduce", FRAMES,
             in, out ? "`" : "", out ? out : "f32", out ? "`" : "");
    measure(&s, what);
    for (int k = 0; k < FRAMES; k++) free(s.frames[k]);
    free(s.result);
    free(s.values);
    free(s.scratch);
    pith_plan_destroy(s.in);
    pith_plan_destroy(s.out);
}

int main(void) {
    const size_t count = roofline_bytes(ARRAYS) / sizeof(float), summed = count * 4 / FRAMES;
    float *values = runs_room(count * sizeof *values);
    fill(values, count);
    puts("| | GB/s | ceiling | GB/s | share | separate |\n|---|---|---|---|---|---|");
    encode_row("grad:bits=8,rotate=0", values, count, true);
    encode_row("grad:bits=8", values, count, false);
    encode_row("grad:bits=4", values, count, true);
    encode_row("grad:bits=4,round=stochastic", values, count, false);
    encode_row("grad:bits=4,search=mse", values, count, false);
    sum_row("grad:bits=8,rotate=0", NULL, values, summed);
    sum_row("grad:bits=8", NULL, values, summed);
    sum_row("grad:bits=8", "grad:bits=4", values, summed);
    free(values);
    return 0;
}
