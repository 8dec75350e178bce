/* threshold_tables.c - prints the table of thresholds of doc/SPARSE.md: thresholds DIRECTORY, of
 * tests/data.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "thresholds.h"

static const struct {
    const char *ef;
    size_t k, run;
} rows[] = {
    {"none", 24, 1}, {"none", 245, 1}, {"none", 983, 1}, {"none", 983, 64}, {"none", 2457, 64},
    {"full", 24, 1}, {"full", 245, 1}, {"full", 983, 1}, {"full", 983, 64}, {"full", 2457, 64},
};

static int print_rows(const struct gradients *g, const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char keys[32];
        struct thresholds_found found;
        snprintf(keys, sizeof keys, "ef=%s", rows[i].ef);
        /* Residuals have filled when each value had the time to be sent some times. */
        const size_t warm = 500 + 100000 / rows[i].k;
        const struct thresholds_series series = {.keys = keys,
                                                 .k = rows[i].k,
                                                 .run = rows[i].run,
                                                 .warm = warm,
                                                 .steps = 3000,
                                                 .times = 20};
        if (thresholds_run(g, &series, &found)) return 1;
        printf("| %s | %s | %zu | %zu | %.1f %% | %.1f %% | %.1f %% | %.2f | %zu |\n", name,
               rows[i].ef, rows[i].k, rows[i].run, 100 * thresholds_poisson((double)rows[i].k),
               100 * found.frozen, 100 * found.held, found.mean, found.first);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"early", "late"}, *const files[] = {"grads_early",
                                                                            "grads_late"};
    int failed = 0;
    if (argc != 2) return 2;
    printf(
        "| gradients | `ef` | k | run | Poisson | frozen | `prop` | mean k'/k | first |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < 2; i++) {
        struct gradients g;
        if (gradients_load(&g, argv[1], files[i]) != GRADIENTS_GOOD) {
            fprintf(stderr, "thresholds: %s: cannot be read\n", files[i]);
            failed = 1;
            continue;
        }
        failed |= print_rows(&g, names[i]);
        gradients_free(&g);
    }
    return failed;
}
