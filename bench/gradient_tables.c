/* gradient_tables.c - prints the tables of gradients of doc/RESULTS.md: gradients DIRECTORY
 * [ELEMENTS], of tests/data, and of so many simulated elements (131072).
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "gradients.h"

/* Ranks in nodes, and what they sum. */
struct place {
    const char *what, *file; /* file NULL: simulated */
    size_t per_node, nodes;
};
static const struct place places[] = {
    {"simulation, 8 x 4", NULL, 8, 4},     {"early, 4 x 2", "grads_early", 4, 2},
    {"early, 2 x 4", "grads_early", 2, 4}, {"late, 4 x 2", "grads_late", 4, 2},
    {"late, 2 x 4", "grads_late", 2, 4},
};
enum { PLACES = sizeof places / sizeof places[0] };

/* simulated: elements of a simulated rank, in all of its steps. */
struct input {
    const char *directory;
    size_t simulated;
};

/* Says why there is no row of the table where there is none. */
static int fail(const char *what, const char *why) {
    fprintf(stderr, "gradients: %s: %s\n", what, why);
    return 1;
}

static int load(struct gradients *g, const char *directory, const char *file) {
    switch (gradients_load(g, directory, file)) {
    case GRADIENTS_GOOD: return 0;
    case GRADIENTS_UNEQUAL: return fail(file, "the ranks differ in how many elements they have");
    default: return fail(file, "cannot be read");
    }
}

/* Rows of the place in each of these steps. */
static int open_place(struct gradients *g, const struct input *in, const struct place *p,
                      size_t steps) {
    const size_t rows = steps * p->per_node * p->nodes;
    if (p->file) return load(g, in->directory, p->file);
    return gradients_simulate(g, rows, in->simulated / steps) ? fail(p->what, "out of memory") : 0;
}

/* ---- One step --------------------------------------------------------------------------------*/

static const struct {
    const char *title, *intra, *inter;
} variants[] = {
    {"stochastic, no rotation", "grad:preset=intra,rotate=0,round=stochastic",
     "grad:rotate=0,round=stochastic"},
    {"stochastic", "grad:preset=intra,round=stochastic", "grad:round=stochastic"},
    {"antithetic", "grad:preset=intra,round=antithetic", "grad:round=antithetic"},
    {"nearest", "grad:preset=intra", "grad"},
    {"mse", "grad:preset=intra", "grad:search=mse"},
    {"trellis", "grad:preset=intra", "grad:codebook=trellis"},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };
enum { STOCHASTIC = 1, NEAREST = 3, SEARCHED, PATHS };

static int print_sums(const struct input *in, const struct place *p) {
    struct gradients g;
    double nmse[VARIANTS], one = -1;
    if (open_place(&g, in, p, 1)) return 1;
    int failed = 0;
    for (int i = 0; !failed && i < VARIANTS; i++) {
        const struct gradients_levels l = {p->per_node, p->nodes, variants[i].intra,
                                           variants[i].inter, 1};
        nmse[i] = gradients_two_level(&g, &l);
        failed = !(nmse[i] >= 0);
    }
    if (!failed) one = gradients_one_level(&g, "grad:round=stochastic");
    gradients_free(&g);
    if (failed || !(one >= 0)) return fail(p->what, "the sums could not be made");
    printf("| %s |", p->what);
    for (int i = 0; i < VARIANTS; i++) printf(" %.3g |", nmse[i]);
    printf(" %.3g | %.3f | %.3f | %.3f |\n", one, nmse[NEAREST] / nmse[STOCHASTIC],
           nmse[SEARCHED] / nmse[NEAREST], nmse[PATHS] / nmse[SEARCHED]);
    return 0;
}

/* ---- Error feedback --------------------------------------------------------------------------*/

static const char *const feedbacks[][2] = {
    {"grad:preset=intra", "grad"},
    {"grad:preset=intra,ef=full", "grad:ef=full"},
    {"grad:preset=intra,ef=ema:0.5", "grad:ef=ema:0.5"},
    {"grad:preset=intra", "grad:bits=2"},
    {"grad:preset=intra,ef=full", "grad:bits=2,ef=full"},
    {"grad:preset=intra,ef=ema:0.5", "grad:bits=2,ef=ema:0.5"},
};
enum { FEEDBACKS = sizeof feedbacks / sizeof feedbacks[0], STEPS = 16 };

static int print_feedback(const struct input *in, const struct place *p) {
    struct gradients g;
    double nmse[FEEDBACKS];
    if (open_place(&g, in, p, STEPS)) return 1;
    int failed = 0;
    for (int i = 0; !failed && i < FEEDBACKS; i++) {
        const struct gradients_levels l = {p->per_node, p->nodes, feedbacks[i][0], feedbacks[i][1],
                                           STEPS};
        nmse[i] = gradients_two_level(&g, &l);
        failed = !(nmse[i] >= 0);
    }
    gradients_free(&g);
    if (failed) return fail(p->what, "the sums of several steps could not be made");
    printf("| %s | %.3g | %.3g | %.3f | %.3g | %.3g | %.3g | %.3f | %.3g |\n", p->what, nmse[0],
           nmse[1], nmse[1] / nmse[0], nmse[2], nmse[3], nmse[4], nmse[4] / nmse[3], nmse[5]);
    return 0;
}

/* ---- One frame -------------------------------------------------------------------------------*/

static const char *const columns[] = {
    "rotate=0,search=none",
    "rotate=32,search=none",
    "rotate=128,search=none",
    "rotate=32,search=none,scale_dtype=bf16",
    "rotate=32,search=none,scale_dtype=e8m0",
    "rotate=32,round=stochastic",
    "rotate=32,search=mse",
    "rotate=32,search=mse,scale_dtype=e8m0",
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static int print_frames(const char *what, const struct gradients *g) {
    static const int widths[] = {2, 3, 4, 5, 6, 8};
    const struct gradients first = {1, g->count, g->values};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        double nmse[COLUMNS];
        for (int i = 0; i < COLUMNS; i++) {
            char spec[128];
            snprintf(spec, sizeof spec, "grad:bits=%d,%s", widths[w], columns[i]);
            nmse[i] = gradients_one_level(&first, spec);
            if (!(nmse[i] >= 0)) return fail(what, "a frame could not be made");
        }
        printf("| %s | %d |", what, widths[w]);
        for (int i = 0; i < COLUMNS; i++) printf(" %.3g |", nmse[i]);
        printf("\n");
    }
    return 0;
}

static int print_frame_table(const struct input *in) {
    struct gradients simulated, late;
    int failed = gradients_simulate(&simulated, 1, in->simulated)
                     ? fail(places[0].what, "out of memory")
                     : 0;
    failed |= load(&late, in->directory, "grads_late");
    printf("\n| values | bits |");
    for (int i = 0; i < COLUMNS; i++) printf(" `%s` |", columns[i]);
    printf("\n|---|---|");
    for (int i = 0; i < COLUMNS; i++) printf("---|");
    printf("\n");
    if (!failed) failed = print_frames("simulation", &simulated) || print_frames("late", &late);
    gradients_free(&simulated);
    gradients_free(&late);
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc != 2 && argc != 3) return 2;
    const struct input in = {argv[1], argc == 3 ? strtoul(argv[2], NULL, 10) : 1 << 17};
    printf("| ranks |");
    for (int i = 0; i < VARIANTS; i++) printf(" %s |", variants[i].title);
    printf(
        " one level, 4 bits, stochastic | nearest / stochastic | mse / nearest "
        "| trellis / mse |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < PLACES; i++) failed |= print_sums(&in, &places[i]);
    printf(
        "\n| ranks | 4 bits | `ef=full` | ratio | `ef=ema:0.5` | 2 bits | `ef=full` | ratio "
        "| `ef=ema:0.5` |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < PLACES; i++) failed |= print_feedback(&in, &places[i]);
    return failed | print_frame_table(&in);
}
