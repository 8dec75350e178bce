/* sums.c - a table: how fast gradients are encoded and summed, beside copies of the same bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

/* Tensors to encode, and the frames of a sum together, are more than caches hold. */
enum { FRAMES = 8, RUNS = 15, ARRAYS = 6 };

/* Why is on stderr. */
static void must(int failed) {
    if (failed) exit(1);
}

/* ---- Times -----------------------------------------------------------------------------------*/

struct times {
    double s[RUNS];
};

/* The roofline with the smallest median. */
static struct times *fastest(struct times *t, int n) {
    struct times *best = &t[0];
    for (int i = 1; i < n; i++)
        if (runs_median(t[i].s, RUNS) < runs_median(best->s, RUNS)) best = &t[i];
    return best;
}

static void print_row(const char *what, const char *roofline, double gb, struct times *t,
                      struct times *c, struct times *separate) {
    const double own = runs_median(t->s, RUNS), other = runs_median(c->s, RUNS);
    printf("| %s | %.2f (%.2f) | %s | %.2f (%.2f) | %.2f (%.2f) |", what, gb / own, gb / t->s[0],
           roofline, gb / other, gb / c->s[0], other / own, c->s[0] / t->s[0]);
    if (separate)
        printf(" %.1f |\n", runs_median(separate->s, RUNS) / own);
    else
        puts(" |");
    fflush(stdout);
}

/* ---- Data ------------------------------------------------------------------------------------*/

static void open_flat(struct end *e, const char *spec, size_t count) {
    const pith_layout layout = {.size = sizeof layout,
                                .dtype = PITH_F32,
                                .base_dtype = PITH_NONE,
                                .ndim = 1,
                                .shape = {count}};
    must(end_open(e, spec, &layout, NULL, NULL));
}

static size_t frame_capacity(const struct end *e) {
    return (size_t)pith_plan_frame_bytes(e->plan, 0, 0);
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
    struct times own, read, baselines[BASELINE_VARIANTS];
    size_t n;
    char what[80];
    struct end e;
    open_flat(&e, spec, count);
    const pith_view view = pith_view_flat((void *)(uintptr_t)values, PITH_F32, count);
    void *frame = runs_allocate(frame_capacity(&e));
    struct roofline_baseline m = {.read = {values},
                                  .read_bytes = {bytes},
                                  .write = {frame},
                                  .write_bytes = {frame_capacity(&e)}};
    for (int i = 0; i < RUNS; i++) {
        for (int k = 0; moved && k < BASELINE_VARIANTS; k++)
            baselines[k].s[i] = roofline_move(&m, k);
        read.s[i] = roofline_read(values, bytes);
        const double from = roofline_clock();
        must(end_encode(&e, &view, frame, frame_capacity(&e), &n));
        own.s[i] = roofline_clock() - from;
    }
    snprintf(what, sizeof what, "encode `%s`", spec);
    print_row(what, "read", 1e-9 * (double)bytes, &own, &read, NULL);
    if (moved)
        print_row("its bytes moved", "read", 1e-9 * (double)bytes,
                  fastest(baselines, BASELINE_VARIANTS), &read, NULL);
    end_close(&e);
    free(frame);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

struct sum {
    size_t count;
    struct end in, out;
    bool encoded; /* as a frame of `out`; else the sum itself */
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
    if (s->encoded)
        must(end_reduce_encode(&s->in, frames, s->lengths, FRAMES, &s->out, s->result,
                               s->result_bytes, &n));
    else
        must(end_reduce(&s->in, frames, s->lengths, FRAMES, &view));
}

static void sum_separately(struct sum *s) {
    const pith_view next = pith_view_flat(s->scratch, PITH_F32, s->count);
    const pith_view all = pith_view_flat(s->values, PITH_F32, s->count);
    size_t n;
    for (int k = 0; k < FRAMES; k++) {
        must(end_decode(&s->in, s->frames[k], s->lengths[k], k ? &next : &all));
        for (size_t i = 0; k && i < s->count; i++) s->values[i] += s->scratch[i];
    }
    must(end_encode(&s->out, &all, s->result, s->result_bytes, &n));
}

static double move_sum(const struct sum *s, int variant) {
    struct roofline_baseline m = {.write = {s->result}, .write_bytes = {s->result_bytes}};
    for (int k = 0; k < FRAMES; k++) {
        m.read[k] = s->frames[k];
        m.read_bytes[k] = s->lengths[k];
    }
    return roofline_move(&m, variant);
}

static void measure(struct sum *s, const char *what) {
    struct times own, separate, baselines[BASELINE_VARIANTS];
    for (int i = 0; i < RUNS; i++) {
        for (int k = 0; k < BASELINE_VARIANTS; k++) baselines[k].s[i] = move_sum(s, k);
        const double from = roofline_clock();
        sum_frames(s);
        own.s[i] = roofline_clock() - from;
        if (s->encoded) sum_separately(s);
        separate.s[i] = roofline_clock() - from - own.s[i];
    }
    const double bytes = (double)(FRAMES * s->lengths[0] + s->result_bytes);
    print_row(what, "move", bytes * 1e-9, &own, fastest(baselines, BASELINE_VARIANTS),
              s->encoded ? &separate : NULL);
}

static void sum_row(const char *in, const char *out, const float *values, size_t count) {
    struct sum s = {.count = count, .encoded = out != NULL};
    const pith_view view = pith_view_flat((void *)(uintptr_t)values, PITH_F32, count);
    char what[120];
    open_flat(&s.in, in, count);
    if (out) {
        open_flat(&s.out, out, count);
        must(end_widen(&s.in, &s.out));
    }
    for (int k = 0; k < FRAMES; k++) {
        const size_t cap = frame_capacity(&s.in);
        s.frames[k] = runs_allocate(cap);
        must(end_encode(&s.in, &view, s.frames[k], cap, &s.lengths[k]));
    }
    s.result_bytes = out ? frame_capacity(&s.out) : count * sizeof(float);
    s.result = runs_allocate(s.result_bytes);
    s.values = runs_allocate(count * sizeof(float));
    s.scratch = runs_allocate(count * sizeof(float));
    snprintf(what, sizeof what, "%s %d x `%s` to %s%s%s", out ? "reduce_encode" : "reduce", FRAMES,
             in, out ? "`" : "", out ? out : "f32", out ? "`" : "");
    measure(&s, what);
    for (int k = 0; k < FRAMES; k++) free(s.frames[k]);
    free(s.result);
    free(s.values);
    free(s.scratch);
    end_close(&s.in);
    end_close(&s.out);
}

int main(void) {
    const size_t count = roofline_bytes(ARRAYS) / sizeof(float), summed = count * 4 / FRAMES;
    float *values = runs_allocate(count * sizeof *values);
    fill(values, count);
    puts("| | GB/s | roofline | GB/s | share | separate |\n|---|---|---|---|---|---|");
    encode_row("grad:bits=8,rotate=0", values, count, true);
    encode_row("grad:bits=8", values, count, false);
    encode_row("grad:bits=4", values, count, true);
    encode_row("grad:bits=4,round=stochastic", values, count, false);
    encode_row("grad:bits=4,search=mse", values, count, false);
    encode_row("grad:bits=4,codebook=trellis", values, count, false);
    sum_row("grad:bits=8,rotate=0", NULL, values, summed);
    sum_row("grad:bits=8", NULL, values, summed);
    sum_row("grad:bits=4", NULL, values, summed);
    sum_row("grad:bits=4,codebook=trellis", NULL, values, summed);
    sum_row("grad:bits=8", "grad:bits=4", values, summed);
    free(values);
    return 0;
}
