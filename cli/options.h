/* options.h - the command line's arguments, parsed and checked.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_OPTIONS_H
#define PITH_CLI_OPTIONS_H

#include "cli.h"
#include "pith/pith.h"
#include "tensors.h"

struct rule {
    const char *glob;
    const char *text;         /* as given */
    char spec[PITH_SPEC_MAX]; /* canonical */
};

/* What pith advise was given; 0 where nothing was. */
struct advise {
    uint32_t ranks, per_node;
    double link[2];    /* bits per second: inside a node for each rank, across for a node */
    double latency[2]; /* seconds of a message, likewise */
    double bytes;      /* bytes of the gradients as f32 */
    double compute, overlap;
    double speed[2]; /* bytes of f32 values per second: encoding; decoding and adding */
    uint32_t levels;
    double cores;        /* of a node */
    double transport[2]; /* bytes per second of a core: messages; gradients copied */
};

struct options {
    char (*specs)[PITH_SPEC_MAX]; /* -C, canonical */
    size_t spec_count;
    const char *spec_text; /* the last spec as given */
    struct rule *rules;    /* --rule, in the order given */
    size_t rule_count;
    const char *base, *out;
    struct tensor_hint hint; /* --dtype, --shape */
    uint32_t threads, cpu_mask;
    bool force, quiet, verbose, json, quick, help;
    bool has_max_abs;
    double max_abs;
    uint64_t max_output, max_spool; /* 0: the default */
    struct advise advise;
    const char *operands[2];
    int operand_count;
};

struct command {
    const char *name;
    const char *summary;  /* a line of pith --help */
    const char *synopsis; /* without the program's name */
    const char *help;     /* the flags, one line each */
    const char *flags;    /* which of options.c's letters it takes */
    int operands_min, operands_max;
    int (*run)(const struct options *options);
};

/* Parses the arguments, of which arguments[0] is the command's name. Returns an exit code; with
 * EXIT_GOOD and help set, the caller prints the help. */
int options_parse(struct options *out, const struct command *command, int count, char **arguments);
void options_free(struct options *options);
/* Says which part of a spec is wrong; returns EXIT_USAGE. */
int say_bad_spec(const char *spec, const pith_error *error);
/* Returns EXIT_USAGE (said) when a spec sets a key that has no effect on this file: only streams
 * and caches heed it, or there is no base. */
int check_file_specs(const struct options *options);
/* Returns the environment for library calls. */
pith_env options_env(const struct options *options);

int run_compress(const struct options *options);
int run_decompress(const struct options *options);
int run_inspect(const struct options *options);
int run_test(const struct options *options);
int run_codecs(const struct options *options);
int run_compare(const struct options *options);
int run_bench(const struct options *options);
int run_advise(const struct options *options);

#endif
