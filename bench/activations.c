/* activations.c - gradients of convolutions, from exact and from decoded activations.
 * SPDX-License-Identifier: Apache-2.0 */
#include "activations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"
#include "weights.h"

enum { TAPS = 9 };

/* ---- Layers ----------------------------------------------------------------------------------*/

static float value_at(const struct weights *w, size_t i) {
    const uint8_t *const p = w->data;
    uint16_t half;
    uint32_t u;
    float x;
    if (w->dtype == PITH_BF16) {
        memcpy(&half, p + 2 * i, sizeof half);
        u = (uint32_t)half << 16;
    } else {
        memcpy(&u, p + 4 * i, sizeof u);
    }
    memcpy(&x, &u, sizeof x);
    return x;
}

static size_t places(const struct activations_layer *l) { return l->height * l->width; }
static size_t inputs(const struct activations_layer *l) { return l->samples * l->in * places(l); }
static size_t outputs(const struct activations_layer *l) { return l->samples * l->out * places(l); }
static size_t weights_of(const struct activations_layer *l) { return l->out * l->in * TAPS; }

/* to[t] += the sum over a plane of g times a, moved by tap t. */
static void correlate(const struct activations_layer *l, const double *g, const double *a,
                      double *to) {
    const ptrdiff_t height = (ptrdiff_t)l->height, width = (ptrdiff_t)l->width;
    for (ptrdiff_t t = 0; t < TAPS; t++)
        for (ptrdiff_t y = 0; y < height; y++)
            for (ptrdiff_t x = 0; x < width; x++) {
                const ptrdiff_t row = y + t / 3 - 1, column = x + t % 3 - 1;
                if (row >= 0 && row < height && column >= 0 && column < width)
                    to[t] += g[y * width + x] * a[row * width + column];
            }
}

/* The gradient of the weights from arriving gradients and activations. */
static void weight_gradient(const struct activations_layer *l, const double *g, const double *a,
                            double *to) {
    memset(to, 0, weights_of(l) * sizeof *to);
    for (size_t n = 0; n < l->samples; n++)
        for (size_t o = 0; o < l->out; o++)
            for (size_t c = 0; c < l->in; c++)
                correlate(l, g + (n * l->out + o) * places(l), a + (n * l->in + c) * places(l),
                          to + (o * l->in + c) * TAPS);
}

static void pool(struct activations_layer *l, const struct weights *below) {
    const size_t width = 2 * l->width;
    for (size_t i = 0; i < inputs(l); i++) {
        const size_t y = i / l->width, x = i % l->width;
        float most = 0;
        for (size_t k = 0; k < 4; k++)
            most = fmaxf(most, value_at(below, (2 * y + k / 2) * width + 2 * x + k % 2));
        l->input[i] = most;
        l->nonzero += most != 0;
        l->largest = fmax(l->largest, (double)most);
    }
    l->nonzero /= (double)inputs(l);
}

static void arrive(struct activations_layer *l, const struct weights *act,
                   const struct weights *gradient) {
    double squares = 0;
    for (size_t i = 0; i < outputs(l); i++) {
        const double g = value_at(act, i) != 0 ? (double)value_at(gradient, i) : 0;
        l->arriving[i] = g;
        l->mean += fabs(g);
        squares += g * g;
    }
    l->mean /= (double)outputs(l);
    l->rms = sqrt(squares / (double)outputs(l));
}

static int work_out(struct activations_layer *l) {
    double *const a = calloc(inputs(l), sizeof *a), *const g = calloc(outputs(l), sizeof *g);
    const int failed = !a || !g;
    for (size_t i = 0; !failed && i < inputs(l); i++) a[i] = (double)l->input[i];
    if (!failed) weight_gradient(l, l->arriving, a, l->gradient);
    for (size_t i = 0; !failed && i < inputs(l); i++) a[i] = l->input[i] != 0;
    for (size_t i = 0; !failed && i < outputs(l); i++) g[i] = l->arriving[i] * l->arriving[i];
    if (!failed) weight_gradient(l, g, a, l->terms);
    free(a);
    free(g);
    return failed;
}

static int fill(struct activations_layer *l, const struct weights *below, const struct weights *act,
                const struct weights *gradient) {
    *l = (struct activations_layer){.samples = (size_t)act->shape[0],
                                    .in = (size_t)below->shape[1],
                                    .out = (size_t)act->shape[1],
                                    .height = (size_t)act->shape[2],
                                    .width = (size_t)act->shape[3]};
    l->input = malloc(inputs(l) * sizeof *l->input);
    l->arriving = malloc(outputs(l) * sizeof *l->arriving);
    l->gradient = malloc(weights_of(l) * sizeof *l->gradient);
    l->terms = malloc(weights_of(l) * sizeof *l->terms);
    if (!l->input || !l->arriving || !l->gradient || !l->terms) return 1;
    pool(l, below);
    arrive(l, act, gradient);
    return work_out(l);
}

int activations_load(struct activations_layer *l, const char *directory, size_t below) {
    struct weights a, b, g;
    void *const acts = weights_load(directory, "cnn_act");
    void *const gradients = weights_load(directory, "cnn_act_grad");
    int failed = !acts || !gradients || !weights_at(acts, below, &a) ||
                 !weights_at(acts, below + 1, &b) || !weights_at(gradients, below + 1, &g);
    if (!failed) failed = fill(l, &a, &b, &g);
    free(acts);
    free(gradients);
    return failed;
}

void activations_free(struct activations_layer *l) {
    free(l->input);
    free(l->arriving);
    free(l->gradient);
    free(l->terms);
}

double activations_momentum(const struct activations_layer *l) {
    double sum = 0;
    for (size_t i = 0; i < weights_of(l); i++) sum += fabs(l->gradient[i]);
    return sum / (double)weights_of(l);
}

static double adapted(const struct activations_layer *l, double share, const struct end *e) {
    const pith_budget budget = {.size = sizeof budget,
                                .momentum = activations_momentum(l),
                                .share = share,
                                .gradient = l->rms,
                                .samples = (double)l->samples,
                                .positions = (double)places(l),
                                .nonzero = l->nonzero};
    double bound = 0;
    return end_said(e, pith_stream_adapt(e->work, e->stream, 0, &budget, &bound)) ? 0 : bound;
}

double activations_budget(const struct activations_layer *l, double share) {
    const pith_layout layout = {
        .size = sizeof layout, .dtype = PITH_F32, .ndim = 1, .shape = {inputs(l)}};
    struct end e;
    const double bound = end_open(&e, "act", &layout, NULL, NULL) ? 0 : adapted(l, share, &e);
    end_close(&e);
    return bound;
}

/* ---- Through a codec -------------------------------------------------------------------------*/

/* The view's values after one trip, in memory to be freed; NULL on failure. */
static void *round_trip(const char *spec, const pith_view *view, size_t *length) {
    uint64_t cap = 0;
    if (pith_compress_bound(spec, view, NULL, NULL, &cap, NULL) != PITH_OK) return NULL;
    void *const frame = malloc((size_t)cap);
    void *out = malloc((size_t)pith_view_count(view) * pith_dtype_bytes(view->dtype));
    pith_view back = *view;
    back.data = out;
    if (!frame || !out ||
        pith_compress(spec, view, NULL, NULL, NULL, frame, (size_t)cap, length, NULL) != PITH_OK ||
        pith_decompress(frame, *length, NULL, NULL, &back, NULL) != PITH_OK) {
        free(out);
        out = NULL;
    }
    free(frame);
    return out;
}

/* error := what decoding changed. 0 when the promises were kept. */
static int compare(const struct activations_layer *l, const float *decoded, double bound,
                   double *error) {
    for (size_t i = 0; i < inputs(l); i++) {
        error[i] = (double)decoded[i] - (double)l->input[i];
        if (!(fabs(error[i]) <= bound) || (l->input[i] == 0 && decoded[i] != 0)) return 1;
    }
    return 0;
}

static void summarize(const struct activations_layer *l, const double *error,
                      struct activations_error *out) {
    double squares = 0, own = 0, fourth = 0, used = 0;
    for (size_t i = 0; i < weights_of(l); i++) {
        squares += error[i] * error[i];
        if (!(l->terms[i] > 0)) continue;
        const double quotient = error[i] / (out->bound * sqrt(l->terms[i] / 3));
        own += pow(quotient, 2);
        fourth += pow(quotient, 4);
        used++;
    }
    out->sigma = sqrt(squares / (double)weights_of(l));
    out->own = sqrt(own / used);
    out->kurtosis = fourth / used / pow(own / used, 2);
}

int activations_measure(const struct activations_layer *l, const char *codec, double bound,
                        struct activations_error *out) {
    char spec[PITH_SPEC_MAX];
    const uint64_t shape[] = {l->samples, l->in, l->height, l->width};
    const pith_view view = pith_view_dense(l->input, PITH_F32, 4, shape);
    size_t length = 0;
    const int codec_end = snprintf(spec, sizeof spec, "%s,abs=", codec);
    snprintf(spec + codec_end, sizeof spec - (size_t)codec_end, "%.6g", bound);
    out->bound = strtod(spec + codec_end, NULL);
    float *const decoded = round_trip(spec, &view, &length);
    double *const error = malloc(inputs(l) * sizeof *error);
    double *const moved = malloc(weights_of(l) * sizeof *moved);
    int failed = !decoded || !error || !moved;
    if (!failed) failed = compare(l, decoded, out->bound, error);
    if (!failed) {
        weight_gradient(l, l->arriving, error, moved);
        summarize(l, moved, out);
        out->ratio = (double)inputs(l) * sizeof(float) / (double)length;
    }
    free(decoded);
    free(error);
    free(moved);
    return failed;
}

/* ---- Ratios ----------------------------------------------------------------------------------*/

static int compress_one(const struct weights *w, const char *spec, struct activations_ratio *out) {
    const pith_view view = pith_view_dense(w->data, w->dtype, w->ndim, w->shape);
    size_t length = 0, zeros = 0, kept = 0;
    struct weights back = *w;
    void *const decoded = round_trip(spec, &view, &length);
    if (!decoded) return -1;
    back.data = decoded;
    for (size_t i = 0; i < w->count; i++)
        if (value_at(w, i) == 0) zeros++, kept += value_at(&back, i) == 0;
    free(decoded);
    snprintf(out->name, sizeof out->name, "%s", w->name);
    out->zeros = (double)zeros / (double)w->count;
    out->ratio = (double)(w->count * pith_dtype_bytes(w->dtype)) / (double)length;
    return strncmp(spec, "act", 3) == 0 && kept != zeros ? -1 : 0;
}

int activations_compress(const char *directory, const char *file, size_t index, const char *spec,
                         struct activations_ratio *out) {
    struct weights w;
    void *const bytes = weights_load(directory, file);
    if (!bytes) return -1;
    const int result = weights_at(bytes, index, &w) ? compress_one(&w, spec, out) : 1;
    free(bytes);
    return result;
}
