/* activation_tables.c - prints the tables of activations of doc/RESULTS.md: activations DIRECTORY,
 * of tests/data.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "activations.h"

/* ---- Ratios beside the general codec ---------------------------------------------------------*/

static const char *const specs[] = {"eb:mode=fast", "act:mode=fast", "eb:mode=ratio",
                                    "act:mode=ratio"};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* 1: there is no such tensor. */
static int print_ratio(const char *directory, const char *file, size_t index, const char *bound) {
    struct activations_ratio r[SPECS];
    for (size_t i = 0; i < SPECS; i++) {
        char spec[128];
        snprintf(spec, sizeof spec, "%s,rel=%s", specs[i], bound);
        const int result = activations_compress(directory, file, index, spec, &r[i]);
        if (result) return result;
    }
    printf("| %s | %.1f %% | %s |", r[0].name, 100 * r[0].zeros, bound);
    for (size_t i = 0; i < SPECS; i++) printf(" %.2f |", r[i].ratio);
    printf(" %.2f | %.2f |\n", r[1].ratio / r[0].ratio, r[3].ratio / r[2].ratio);
    return 0;
}

static int print_ratios(const char *directory) {
    static const char *const files[] = {"cnn_act", "cnn_act_grad"}, *const bounds[] = {"0.01",
                                                                                       "0.001"};
    printf(
        "| tensor | zeros | rel | `eb` fast | `act` fast | `eb` ratio | `act` ratio | fast, "
        "`act` / `eb` | ratio, `act` / `eb` |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t f = 0; f < 2; f++)
        for (size_t index = 0, more = 1; more; index++)
            for (size_t b = 0; b < 2 && more; b++) {
                const int result = print_ratio(directory, files[f], index, bounds[b]);
                if (result < 0) return 1;
                more = result == 0;
            }
    return 0;
}

/* ---- The error of the weights' gradient ------------------------------------------------------*/

enum { LAYERS = 2 };

/* Deviation that a budget counts with, per unit of the bound. */
static double slope(const struct activations_layer *l) {
    const double places = (double)(l->height * l->width);
    return sqrt(places / 3) * l->rms * sqrt((double)l->samples * l->nonzero);
}

static int print_model(const struct activations_layer *l) {
    static const double shares[] = {1e-4, 1e-3, 1e-2, 3e-2};
    const double published = l->mean * sqrt((double)l->samples * l->nonzero);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        struct activations_error e;
        const double bound = shares[i] * l->largest;
        if (activations_measure(l, "act:mode=ratio", bound, &e)) return 1;
        printf("| %zu to %zu, %zu x %zu | %.3g | %.2f | %.3g | %.3f | %.2f | %.3f | %.1f |\n",
               l->in, l->out, l->height, l->width, bound, e.ratio, e.sigma, e.own, e.kurtosis,
               e.sigma / (bound * slope(l)), e.sigma / (bound * published));
    }
    return 0;
}

static int print_budget(const struct activations_layer *l) {
    static const double shares[] = {0.01, 0.03, 0.1};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        struct activations_error e;
        const double sigma = shares[i] * activations_momentum(l);
        const double bound = activations_budget(l, shares[i]);
        if (activations_measure(l, "act:mode=ratio", bound, &e)) return 1;
        printf("| %zu to %zu, %zu x %zu | %.2f | %.3g | %.2f | %.3f |\n", l->in, l->out, l->height,
               l->width, shares[i], bound, e.ratio, e.sigma / sigma);
    }
    return 0;
}

static int for_layers(const char *directory, int (*print)(const struct activations_layer *l)) {
    int failed = 0;
    for (size_t i = 0; i < LAYERS && !failed; i++) {
        struct activations_layer l;
        failed = activations_load(&l, directory, i);
        if (!failed) failed = print(&l);
        activations_free(&l);
    }
    return failed;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: activations DIRECTORY\n");
        return 2;
    }
    if (print_ratios(argv[1])) return 1;
    printf(
        "\n| layer | bound | ratio | sigma | of its own terms | kurtosis | of the budget's | a "
        "|\n|---|---|---|---|---|---|---|---|\n");
    if (for_layers(argv[1], print_model)) return 1;
    printf(
        "\n| layer | share | bound | ratio | sigma, of what was requested "
        "|\n|---|---|---|---|---|\n");
    return for_layers(argv[1], print_budget);
}
