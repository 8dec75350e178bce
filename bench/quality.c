/* quality.c - prints the quality tables of doc/RESULTS.md: quality DIRECTORY, of tests/data.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "measure.h"
#include "pith/pith.h"

struct row {
    const char *spec;
    uint32_t values, base;
};
static const struct row rows[] = {
    {"wdiff:bits=2", PITH_F32, PITH_F32},
    {"wdiff:bits=2,group=32", PITH_F32, PITH_F32},
    {"wdiff:bits=3", PITH_F32, PITH_F32},
    {"wdiff", PITH_F32, PITH_F32},
    {"wdiff:bits=2,codebook=trellis", PITH_F32, PITH_F32},
    {"wdiff:bits=3,codebook=trellis", PITH_F32, PITH_F32},
    {"wdiff:codebook=trellis", PITH_F32, PITH_F32},
    {"wdiff:group=128", PITH_F32, PITH_F32},
    {"wdiff:round=stochastic", PITH_F32, PITH_F32},
    {"wdiff:entropy=zstd", PITH_F32, PITH_F32},
    {"wdiff:bits=6", PITH_F32, PITH_F32},
    {"wdiff:bits=8", PITH_F32, PITH_F32},
    {"lossless", PITH_F32, PITH_F32},
    {"wdiff:bits=2", PITH_F32, PITH_BF16},
    {"wdiff:bits=3", PITH_F32, PITH_BF16},
    {"wdiff", PITH_F32, PITH_BF16},
    {"wdiff:bits=8", PITH_F32, PITH_BF16},
    {"lossless", PITH_BF16, PITH_BF16},
};

static int print_row(const char *directory, const struct row *r) {
    struct measure_step s[MEASURE_STEPS], worst = {0};
    if (measure_chain(directory, r->spec, r->values, r->base, s)) return 1;
    int identical = 1;
    for (int t = 0; t < MEASURE_STEPS; t++) {
        worst.bits += s[t].bits / MEASURE_STEPS;
        if (s[t].update_nmse > worst.update_nmse) worst.update_nmse = s[t].update_nmse;
        if (s[t].weight_nmse > worst.weight_nmse) worst.weight_nmse = s[t].weight_nmse;
        if (s[t].cast_nmse > worst.cast_nmse) worst.cast_nmse = s[t].cast_nmse;
        identical = identical && s[t].identical;
    }
    printf("| `%s` | %s | %s | %.2f | %.3g | %.3g | ", r->spec, pith_dtype_name(r->values),
           pith_dtype_name(r->base), worst.bits, worst.update_nmse, worst.weight_nmse);
    if (worst.cast_nmse > 0) printf("%.3f", worst.weight_nmse / worst.cast_nmse);
    printf(" | %s |\n", identical ? "yes" : "NO");
    return !identical;
}

static int print_pair(const char *directory, const char *spec) {
    struct measure_pair p;
    if (measure_pair(directory, spec, &p)) return 1;
    printf("| `%s` | %zu | %.3f | %.3f | %.3f | %s |\n", spec, p.bytes,
           (double)p.bytes * 8 / (double)p.weights, p.entropy_bytes * 8 / (double)p.weights,
           (double)p.bytes / p.entropy_bytes, p.identical ? "yes" : "NO");
    return !p.identical;
}

int main(int argc, char **argv) {
    int failed = argc != 2;
    if (failed) return 2;
    printf(
        "Eight chained training steps (wo_t0 to wo_t8), largest of the eight, bits on average:\n\n"
        "| codec | values | base | bits per weight | NMSE of the update | NMSE of the weights "
        "| of a plain cast's | replicas identical |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        failed |= print_row(argv[1], &rows[i]);
    printf(
        "\nA bf16 checkpoint against the one before it, exact, every tensor a frame:\n\n"
        "| codec | bytes | bits per weight | zero-order entropy of the update, bits "
        "| ratio | identical |\n|---|---|---|---|---|---|\n");
    failed |= print_pair(argv[1], "lossless");
    failed |= print_pair(argv[1], "lossless:effort=1");
    failed |= print_pair(argv[1], "lossless:effort=19");
    return failed;
}
