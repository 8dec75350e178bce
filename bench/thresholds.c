/* thresholds.c - steps of topk streams on gradients that are drawn anew: one with a controller, and
 * others that go on from where it has come to with thresholds that stay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "thresholds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"

/* Frozen thresholds are from 1 % below to 1 % above the mean of the controller's. */
enum { FROZEN = 5, ENDS = 1 + FROZEN };

struct steps {
    const struct gradients *g;
    const struct thresholds_series *series;
    struct end end[ENDS]; /* the first has the controller */
    float *tensor;
    void *frame, *saved;
    uint64_t random;
};

static int open_steps(struct steps *s, const struct gradients *g,
                      const struct thresholds_series *series, const char *spec) {
    *s = (struct steps){.g = g, .series = series};
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {g->count}};
    s->random = 88172645463325252u;
    if (end_open(&s->end[0], spec, &layout, NULL, NULL)) return 1;
    for (int i = 1; i < ENDS; i++)
        if (end_open_other(&s->end[i], &s->end[0], NULL)) return 1;
    s->tensor = malloc(g->count * sizeof *s->tensor);
    s->frame = malloc((size_t)s->end[0].sizes.slot_bytes);
    s->saved = malloc((size_t)s->end[0].sizes.save_bytes);
    return !s->tensor || !s->frame || !s->saved;
}

static void close_steps(struct steps *s) {
    for (int i = ENDS - 1; i >= 0; i--) end_close(&s->end[i]);
    free(s->tensor), free(s->frame), free(s->saved);
}

static void draw_step(struct steps *s) {
    const size_t count = s->g->count, whole = s->series->run;
    for (size_t at = 0; at < count; at += whole) {
        const size_t run = whole < count - at ? whole : count - at;
        s->random ^= s->random << 13, s->random ^= s->random >> 7, s->random ^= s->random << 17;
        const size_t row = (size_t)((s->random >> 32) % s->g->rows);
        memcpy(s->tensor + at, s->g->values + row * count + at, run * sizeof *s->tensor);
    }
}

/* What a step chose, of k, before the hard limit, and the threshold. Returns 0 on success. */
static int take(struct steps *s, int end, double *ratio, double *threshold) {
    struct end *const e = &s->end[end];
    const pith_view view = pith_view_flat(s->tensor, PITH_F32, s->g->count);
    pith_sparse_state state = {.size = sizeof state};
    size_t length;
    if (end_encode(e, &view, s->frame, (size_t)e->sizes.slot_bytes, &length) ||
        end_said(e, pith_sparse_get_state(e->stream, 0, &state)))
        return 1;
    *ratio = (double)(state.sent + state.overflowed) / (double)s->series->k;
    *threshold = (double)state.threshold;
    return 0;
}

static int in_band(double ratio) { return ratio >= 0.909 && ratio <= 1.1; }

/* A threshold for the steps to come, or 0, the controller's. */
static int set_threshold(struct end *e, double t) {
    const pith_sparse_request request = {.size = sizeof request, .threshold = (float)t};
    return end_said(e, pith_sparse_set_request(e->work, e->stream, 0, &request)) != PITH_OK;
}

/* The first step has a threshold that is `times` the exact one, which another end finds. */
static int begin(struct steps *s) {
    double ratio, exact;
    return take(s, 1, &ratio, &exact) || set_threshold(&s->end[0], exact * s->series->times);
}

static int warm_up(struct steps *s, struct thresholds_found *found, double *mean) {
    const size_t warm = s->series->warm;
    *mean = 0;
    for (size_t step = 0; step < warm; step++) {
        double ratio, t;
        draw_step(s);
        if (step == 0 && begin(s)) return 1;
        if (take(s, 0, &ratio, &t)) return 1;
        if (step == 0 && set_threshold(&s->end[0], 0)) return 1;
        if (in_band(ratio) && step < found->first) found->first = step;
        if (step >= warm / 2) *mean += t / (double)(warm - warm / 2);
    }
    return 0;
}

/* The others go on from what the first has come to. */
static int copy_end(struct steps *s, int end, double threshold) {
    struct end *const from = &s->end[0], *const to = &s->end[end];
    size_t length;
    return end_said(from, pith_stream_save(from->work, from->stream, s->saved,
                                           (size_t)from->sizes.save_bytes, &length)) ||
           end_said(to, pith_stream_load(to->work, to->stream, s->saved, length)) ||
           set_threshold(to, threshold);
}

/* Frozen thresholds need some steps before residuals are what they would be with them. */
static int compare(struct steps *s, struct thresholds_found *found, double mean) {
    const size_t warm = s->series->warm / 2, steps = s->series->steps;
    double share[ENDS] = {0};
    for (int i = 1; i < ENDS; i++)
        if (copy_end(s, i, mean * (0.99 + 0.02 * (i - 1) / (FROZEN - 1)))) return 1;
    for (size_t step = 0; step < warm + steps; step++) {
        draw_step(s);
        for (int i = 0; i < ENDS; i++) {
            double ratio, t;
            if (take(s, i, &ratio, &t)) return 1;
            if (step < warm) continue;
            share[i] += in_band(ratio) / (double)steps;
            if (i == 0) found->mean += ratio / (double)steps;
        }
    }
    found->held = share[0];
    for (int i = 1; i < ENDS; i++)
        if (share[i] > found->frozen) found->frozen = share[i];
    return 0;
}

int thresholds_run(const struct gradients *g, const struct thresholds_series *series,
                   struct thresholds_found *found) {
    struct steps s;
    char spec[128];
    double mean;
    snprintf(spec, sizeof spec, "topk:k=%zu,%s", series->k, series->keys);
    *found = (struct thresholds_found){.first = series->warm};
    const int failed =
        open_steps(&s, g, series, spec) || warm_up(&s, found, &mean) || compare(&s, found, mean);
    close_steps(&s);
    return failed;
}

double thresholds_poisson(double k) {
    double best = 0;
    for (double mean = 0.9 * k; mean < 1.1 * k; mean += 0.002 * k) {
        double share = 0;
        for (double c = ceil(0.909 * k); c <= 1.1 * k; c++)
            share += exp(c * log(mean) - mean - lgamma(c + 1));
        if (share > best) best = share;
    }
    return best;
}
