/* trips.c - tensors through a codec with a bound and back: bytes, times, and what came back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trips.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/roofline.h"
#include "end.h"
#include "runs.h"

enum { RUNS_MAX = 31 };

/* ---- Values ----------------------------------------------------------------------------------*/

static uint32_t bits_at(const void *data, uint32_t dtype, size_t i) {
    uint16_t half;
    uint32_t u;
    if (dtype == PITH_F32) {
        memcpy(&u, (const uint8_t *)data + 4 * i, sizeof u);
        return u;
    }
    memcpy(&half, (const uint8_t *)data + 2 * i, sizeof half);
    return (uint32_t)half << 16;
}

static double value_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static size_t bytes_of(const struct weights *w) { return w->count * pith_dtype_bytes(w->dtype); }

struct range {
    double low, high;
};

static struct range range_of(const struct weights *w) {
    struct range r = {INFINITY, -INFINITY};
    for (size_t i = 0; i < w->count; i++) {
        const double x = value_of(bits_at(w->data, w->dtype, i));
        if (!isfinite(x)) continue;
        r.low = fmin(r.low, x);
        r.high = fmax(r.high, x);
    }
    return r;
}

static double width_of(const struct weights *w) {
    const struct range r = range_of(w);
    return r.high > r.low ? r.high - r.low : 0;
}

/* Adds to what is there: `mean` is a sum of squared errors until the end, `nmse` one of squares. */
static void check(const struct weights *w, const void *back, struct trip_errors *e) {
    for (size_t i = 0; i < w->count; i++) {
        const uint32_t before = bits_at(w->data, w->dtype, i), after = bits_at(back, w->dtype, i);
        const double x = value_of(before), error = fabs(value_of(after) - x);
        if (!isfinite(x)) {
            e->beyond += before != after;
            continue;
        }
        if (error > e->largest) e->largest = error;
        e->beyond += !(error <= e->bound);
        e->mean += error * error;
        e->nmse += x * x;
        if (error > e->relative * fabs(x)) e->relative = error / fabs(x);
    }
}

/* ---- Times -----------------------------------------------------------------------------------*/

struct series {
    double s[RUNS_MAX];
};

/* ---- One tensor ------------------------------------------------------------------------------*/

struct job {
    const struct weights *w;
    struct end end;
    char spec[PITH_SPEC_MAX];
    uint8_t *frame;
    size_t cap, length;
    void *in[RUNS_COPIES], *out[RUNS_COPIES];
    int copies;
};

static void close_job(struct job *j) {
    end_close(&j->end);
    free(j->frame);
    for (int i = 0; i < j->copies; i++) {
        free(j->in[i]);
        free(j->out[i]);
    }
}

static int open_job(struct job *j, const struct weights *w, const struct trip_spec *spec,
                    int copies) {
    pith_layout layout = {.size = sizeof layout, .dtype = w->dtype, .ndim = w->ndim};
    memcpy(layout.shape, w->shape, sizeof w->shape);
    const char *const key = strchr(spec->codec, ':') ? ",rel=" : ":rel=";
    *j = (struct job){.w = w, .copies = copies};
    snprintf(j->spec, sizeof j->spec, "%s%s%s", spec->codec, spec->rel ? key : "",
             spec->rel ? spec->rel : "");
    if (end_open(&j->end, j->spec, &layout, NULL, NULL)) return 1;
    j->cap = (size_t)pith_plan_frame_bytes(j->end.plan, 0, 0);
    j->frame = runs_allocate(j->cap);
    for (int i = 0; i < copies; i++) {
        j->in[i] = runs_allocate(bytes_of(w));
        j->out[i] = runs_allocate(bytes_of(w));
        memcpy(j->in[i], w->data, bytes_of(w));
    }
    return 0;
}

static int go(struct job *j, int copy, double *encode, double *decode) {
    const struct weights *const w = j->w;
    const pith_view in = pith_view_dense(j->in[copy], w->dtype, w->ndim, w->shape);
    const pith_view out = pith_view_dense(j->out[copy], w->dtype, w->ndim, w->shape);
    const double from = roofline_clock();
    int failed = end_encode(&j->end, &in, j->frame, j->cap, &j->length) != PITH_OK;
    const double between = roofline_clock();
    failed = failed || end_decode(&j->end, j->frame, j->length, &out) != PITH_OK;
    *encode = between - from;
    *decode = roofline_clock() - between;
    if (failed) fprintf(stderr, "%s: no trip through the codec\n", w->name);
    return failed;
}

/* ---- Trips -----------------------------------------------------------------------------------*/

static double bound_of(const struct job *j) {
    pith_info info = {.size = sizeof info};
    return pith_inspect(j->frame, j->length, &info, NULL) == PITH_OK ? info.bound : INFINITY;
}

static double over(double x, double y) { return y > 0 ? x / y : 0; }

/* Fails where the frame promises less than was requested. */
static int finish(const struct job *j, int runs, double width, struct trip *out) {
    struct trip_errors *const e = &out->errors;
    out->bytes = j->length;
    e->largest = over(e->largest, e->bound);
    e->nmse = over(e->mean, e->nmse);
    e->mean = over(e->mean, width * width * (double)runs * (double)j->w->count);
    return !(bound_of(j) <= e->bound);
}

/* A run takes one copy for each of its passes, so that none finds its own bytes in a cache. */
static int time_runs(struct job *j, int runs, struct trip_errors *e, struct trip_times *times) {
    struct series encode, decode, read, fill, stream;
    const size_t bytes = bytes_of(j->w);
    for (int i = 0; i < runs; i++) {
        const int at = 3 * i, copy = at % j->copies;
        read.s[i] = roofline_read(j->in[(at + 1) % j->copies], bytes);
        fill.s[i] = roofline_fill(j->out[(at + 1) % j->copies], bytes, false);
        stream.s[i] = roofline_fill(j->out[(at + 2) % j->copies], bytes, true);
        if (go(j, copy, &encode.s[i], &decode.s[i])) return 1;
        check(j->w, j->out[copy], e);
    }
    *times = (struct trip_times){
        runs_median(encode.s, (size_t)runs), runs_median(decode.s, (size_t)runs),
        runs_median(read.s, (size_t)runs),
        fmin(runs_median(fill.s, (size_t)runs), runs_median(stream.s, (size_t)runs))};
    return 0;
}

int trip_measure(const struct weights *w, const struct trip_spec *spec, int runs, struct trip *out,
                 struct trip_times *times) {
    struct job j;
    const double width = width_of(w);
    *out = (struct trip){.errors.bound = strtod(spec->rel, NULL) * width};
    if (runs > RUNS_MAX || open_job(&j, w, spec, runs_copies(bytes_of(w)))) return 1;
    const int failed = time_runs(&j, runs, &out->errors, times) || finish(&j, runs, width, out);
    close_job(&j);
    return failed;
}

int trip_once(const struct weights *w, const struct trip_spec *spec, struct trip *out) {
    struct job j;
    double encode, decode;
    const double width = width_of(w);
    if (open_job(&j, w, spec, 1)) return 1;
    int failed = go(&j, 0, &encode, &decode);
    if (!failed) {
        const double bound = spec->rel ? strtod(spec->rel, NULL) * width : bound_of(&j);
        *out = (struct trip){.errors.bound = bound};
        check(w, j.out[0], &out->errors);
        failed = finish(&j, 1, width, out);
    }
    close_job(&j);
    return failed;
}

/* ---- Entropy ---------------------------------------------------------------------------------*/

static double entropy_bytes(const size_t *counts, size_t codes, size_t total) {
    double bits = 0;
    for (size_t i = 0; i < codes; i++)
        if (counts[i]) bits -= (double)counts[i] * log2((double)counts[i] / (double)total);
    return bits / 8;
}

double trip_entropy(const struct weights *w, const char *rel) {
    const struct range r = range_of(w);
    const double step = 2 * strtod(rel, NULL) * (r.high - r.low), first = rint(r.low / step);
    if (!(step > 0)) return 0;
    const size_t codes = (size_t)(rint(r.high / step) - first) + 1;
    size_t *const counts = calloc(codes, sizeof *counts);
    size_t total = 0;
    if (!counts) exit(1);
    for (size_t i = 0; i < w->count; i++) {
        const double x = value_of(bits_at(w->data, w->dtype, i));
        if (!isfinite(x)) continue;
        counts[(size_t)(rint(x / step) - first)]++;
        total++;
    }
    const double bytes = entropy_bytes(counts, codes, total);
    free(counts);
    return bytes;
}
