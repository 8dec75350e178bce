/* options.c - one table of names, kinds and help.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, NUMBER, REAL };

static const struct option {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *initial, *help;
} table[] = {
    {"data", TEXT, offsetof(struct options, data), "data/new_testament.txt", "the text"},
    {"exchange", TEXT, offsetof(struct options, exchange), "both", "plain, pith or both"},
    {"steps", NUMBER, offsetof(struct options, steps), "1000", "training steps"},
    {"every", NUMBER, offsetof(struct options, every), "100", "steps between two validations"},
    {"seed", NUMBER, offsetof(struct options, seed), "1", "of weights, batches, random bits"},
    {"nodes", NUMBER, offsetof(struct options, nodes), "2", "cut the ranks into so many nodes"},
    {"replica", TEXT, offsetof(struct options, replica), "bf16", "type of the weights: bf16, f32"},
    {"rate", REAL, offsetof(struct options, rate), "0.002", "peak learning rate"},
    {"clip", REAL, offsetof(struct options, clip), "1", "largest norm of a gradient"},
    {"weights", TEXT, offsetof(struct options, weights), "wdiff:bits=4", "spec of the weights"},
    {"intra", TEXT, offsetof(struct options, intra), "grad:preset=intra",
     "spec of gradients inside a node"},
    {"inter", TEXT, offsetof(struct options, inter), "grad:preset=inter,scale_dtype=bf16",
     "spec of gradients between nodes"},
    {"exempt", TEXT, offsetof(struct options, exempt), "no",
     "gains and biases: no, 16 (at 16 bits), exact"},
    {"sparse", TEXT, offsetof(struct options, sparse), "",
     "spec of codec topk: send the largest gradients alone; not intra, inter, exempt"},
    {"slack", REAL, offsetof(struct options, slack), "0",
     "fail when losses differ by more (relative); 0: never"},
    {"log", TEXT, offsetof(struct options, log), "", "write PATH-plain.tsv and PATH-pith.tsv"},
};
enum { COUNT = sizeof table / sizeof *table };

static int set(struct options *options, const struct option *option, const char *value) {
    char *field = (char *)options + option->offset, *end = "";
    if (option->kind == TEXT) memcpy(field, &value, sizeof value);
    if (option->kind == NUMBER) {
        const uint64_t number = strtoull(value, &end, 10);
        memcpy(field, &number, sizeof number);
    }
    if (option->kind == REAL) {
        const double number = strtod(value, &end);
        memcpy(field, &number, sizeof number);
    }
    return *end ? -1 : 0;
}

static const struct option *find(const char *argument, const char **value) {
    for (size_t i = 0; i < COUNT; i++) {
        const size_t n = strlen(table[i].name);
        if (strncmp(argument, "--", 2) || strncmp(argument + 2, table[i].name, n)) continue;
        if (argument[2 + n] != '=' || !argument[3 + n]) continue;
        *value = argument + 3 + n;
        return &table[i];
    }
    return NULL;
}

static void usage(const char *argument) {
    fprintf(stderr, "train: what is %s?\nusage: mpirun -n RANKS pith-train [--NAME=VALUE...]\n",
            argument);
    for (size_t i = 0; i < COUNT; i++)
        fprintf(stderr, "  --%-9s %s (%s)\n", table[i].name, table[i].help, table[i].initial);
}

static int one_of(const char *value, const char *const *words) {
    for (; *words; words++)
        if (!strcmp(value, *words)) return 1;
    return 0;
}

static const char *wrong(const struct options *options) {
    if (!one_of(options->exchange, (const char *const[]){"plain", "pith", "both", NULL}))
        return "--exchange";
    if (!one_of(options->replica, (const char *const[]){"bf16", "f32", NULL})) return "--replica";
    if (!one_of(options->exempt, (const char *const[]){"no", "16", "exact", NULL}))
        return "--exempt";
    if (!options->steps || !options->every) return "a count of 0";
    return NULL;
}

int options_read(struct options *options, int argc, char **argv, int loud) {
    for (size_t i = 0; i < COUNT; i++) (void)set(options, &table[i], table[i].initial);
    const char *bad = NULL;
    for (int i = 1; i < argc && !bad; i++) {
        const char *value;
        const struct option *option = find(argv[i], &value);
        if (!option || set(options, option, value)) bad = argv[i];
    }
    if (!bad) bad = wrong(options);
    if (bad && loud) usage(bad);
    return bad ? -1 : 0;
}
