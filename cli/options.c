/* options.c - parses the arguments of one command.
 * SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 1024 };

static const char short_flags[] = ":C:T:o:fqvh";
static const struct option table[] = {
    {"codec", required_argument, NULL, 'C'},
    {"base", required_argument, NULL, 'b'},
    {"rule", required_argument, NULL, 'r'},
    {"dtype", required_argument, NULL, 'd'},
    {"shape", required_argument, NULL, 's'},
    {"threads", required_argument, NULL, 'T'},
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, 'f'},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {"json", no_argument, NULL, 'j'},
    {"max-abs", required_argument, NULL, 'm'},
    {"max-output", required_argument, NULL, 'x'},
    {"max-spool", required_argument, NULL, 'p'},
    {"cpu", required_argument, NULL, 'c'},
    {"quick", no_argument, NULL, 'k'},
    {"ranks", required_argument, NULL, 'R'},
    {"ranks-per-node", required_argument, NULL, 'N'},
    {"links", required_argument, NULL, 'L'},
    {"latency", required_argument, NULL, 'l'},
    {"size", required_argument, NULL, 'S'},
    {"compute", required_argument, NULL, 'u'},
    {"overlap", required_argument, NULL, 'O'},
    {"codec-speed", required_argument, NULL, 'E'},
    {"levels", required_argument, NULL, 'V'},
    {"cores", required_argument, NULL, 'P'},
    {"transport", required_argument, NULL, 'W'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int usage_error(const char *text, const char *value) {
    say_error(NULL, "%s: '%s'", text, value);
    return EXIT_USAGE;
}

/* ---- Specs and rules ------------------------------------------------------------------------*/

/* Returns the length of the key or name around an offset of a spec, and where it begins. */
static int part_length(const char *spec, uint64_t offset, const char **part) {
    const size_t n = strlen(spec);
    const char *at = spec + (offset < n ? offset : n);
    while (at > spec && at[-1] != ':' && at[-1] != ',') at--;
    *part = at;
    return (int)strcspn(at, *at == ':' ? "" : "=,:");
}

int say_bad_spec(const char *spec, const pith_error *error) {
    const char *part;
    const int n = part_length(spec, error->offset, &part);
    if (n == 0 || strcmp(part, spec) == 0)
        say_error(NULL, "bad spec '%s': %s (see pith codecs)", spec, error->text);
    else
        say_error(NULL, "bad spec '%s': '%.*s': %s (see pith codecs)", spec, n, part, error->text);
    return EXIT_USAGE;
}

static int check_spec(const char *spec, char canonical[PITH_SPEC_MAX]) {
    pith_error error = {.size = sizeof error};
    if (pith_spec_check(spec, canonical, PITH_SPEC_MAX, &error) == PITH_OK) return EXIT_GOOD;
    return say_bad_spec(spec, &error);
}

/* Returns what the text, a good spec, sets a key of the codec to; NULL: the default stays. */
static const char *setting_of(const char *text, const char *key) {
    const size_t n = strlen(key);
    for (const char *at = strchr(text, ':'); at; at = strchr(at, ',')) {
        at++;
        if (strncmp(at, key, n) == 0 && at[n] == '=') return at + n + 1;
    }
    return NULL;
}

/* Returns why the key has no effect on a file; NULL where it has one. */
static const char *idle_because(const pith_key_info *key, bool base) {
    if (key->traits & PITH_KEY_STREAM)
        return "is for streams and caches and has no effect on a file";
    if (!base && strcmp(key->name, "base_hash") == 0) return "has no effect without --base";
    return NULL;
}

/* Checks a spec as it was written: presets may set keys that have no effect, for those who have use
 * for them. */
static int check_file_spec(const char *text, bool base) {
    pith_codec_info codec = {.size = sizeof codec};
    pith_key_info key = {.size = sizeof key};
    const size_t name = strcspn(text, ":");
    for (uint32_t i = 0; pith_codec_at(i, &codec) == PITH_OK; i++) {
        if (strlen(codec.name) != name || memcmp(codec.name, text, name) != 0) continue;
        for (uint32_t k = 0; pith_codec_key_at(i, k, &key) == PITH_OK; k++) {
            const char *const because = idle_because(&key, base);
            const char *value = because ? setting_of(text, key.name) : NULL;
            const size_t n = strlen(key.initial);
            if (!value || (strcspn(value, ",") == n && memcmp(value, key.initial, n) == 0))
                continue;
            pith_error error = {.size = sizeof error, .offset = (uint64_t)(value - text) - 1};
            snprintf(error.text, sizeof error.text, "%s", because);
            return say_bad_spec(text, &error);
        }
    }
    return EXIT_GOOD;
}

int check_file_specs(const struct options *options) {
    const bool base = options->base != NULL;
    int code = options->spec_text ? check_file_spec(options->spec_text, base) : EXIT_GOOD;
    for (size_t i = 0; i < options->rule_count && code == EXIT_GOOD; i++)
        code = check_file_spec(options->rules[i].text, base);
    return code;
}

static int add_spec(struct options *o, const char *text) {
    void *grown = realloc(o->specs, (o->spec_count + 1) * sizeof *o->specs);
    if (!grown) return say_errno(NULL, "options");
    o->specs = grown;
    o->spec_text = text;
    return check_spec(text, o->specs[o->spec_count++]);
}

/* Adds GLOB=SPEC, cut at the first '='; a glob reaches a '=' in a name with '?'. */
static int add_rule(struct options *o, char *text) {
    char *cut = strchr(text, '=');
    if (!cut || cut == text) return usage_error("--rule wants GLOB=SPEC", text);
    struct rule *grown = realloc(o->rules, (o->rule_count + 1) * sizeof *o->rules);
    if (!grown) return say_errno(NULL, "options");
    o->rules = grown;
    *cut = '\0';
    o->rules[o->rule_count].glob = text;
    o->rules[o->rule_count].text = cut + 1;
    return check_spec(cut + 1, o->rules[o->rule_count++].spec);
}

/* ---- Numbers --------------------------------------------------------------------------------*/

static bool read_unsigned(const char *text, char **end, uint64_t *out) {
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, end, 10);
    return errno == 0;
}

/* Reads a shape such as 4x1024; "" and "scalar" mean no dimensions. */
static int read_shape(struct options *o, const char *text) {
    char *at = (char *)(uintptr_t)text;
    o->hint.has_shape = true;
    o->hint.ndim = 0;
    if (*text == '\0' || strcmp(text, "scalar") == 0) return EXIT_GOOD;
    for (;;) {
        uint64_t *dim = &o->hint.shape[o->hint.ndim];
        if (o->hint.ndim++ == PITH_MAX_NDIM || !read_unsigned(at, &at, dim))
            return usage_error("--shape wants up to 8 dimensions such as 4x1024", text);
        if (*at == '\0') return EXIT_GOOD;
        if (*at++ != 'x') return usage_error("--shape wants dimensions such as 4x1024", text);
    }
}

static int read_dtype(struct options *o, const char *text) {
    o->hint.dtype = pith_dtype_from_name(text);
    if (o->hint.dtype != PITH_NONE) return EXIT_GOOD;
    char names[256];
    int used = snprintf(names, sizeof names, "--dtype: none of");
    for (uint32_t d = PITH_F32; d <= PITH_F8E5M2; d++)
        used += snprintf(names + used, sizeof names - (size_t)used, " %s", pith_dtype_name(d));
    return usage_error(names, text);
}

/* Reads a number of threads; 0 means all processors. */
static int read_threads(struct options *o, const char *text) {
    char *end;
    uint64_t v;
    if (!read_unsigned(text, &end, &v) || *end || v > MAX_THREADS)
        return usage_error("-T wants 0 to 1024", text);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (v == 0) v = online > 0 ? (uint64_t)online : 1;
    o->threads = (uint32_t)(v < MAX_THREADS ? v : MAX_THREADS);
    return EXIT_GOOD;
}

static int read_cpu(struct options *o, const char *text) {
    static const struct {
        const char *name;
        uint32_t mask;
    } rows[] = {{"scalar", PITH_CPU_SCALAR},
                {"avx2", PITH_CPU_AVX2},
                {"avx512", PITH_CPU_AVX2 | PITH_CPU_AVX512},
                {"neon", PITH_CPU_NEON}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(text, rows[i].name) == 0) {
            o->cpu_mask = rows[i].mask;
            return EXIT_GOOD;
        }
    return usage_error("--cpu wants scalar, avx2, avx512 or neon", text);
}

static int read_max_abs(struct options *o, const char *text) {
    char *end;
    o->has_max_abs = true;
    o->max_abs = strtod(text, &end);
    if (*text == '\0' || *end || !(o->max_abs >= 0) || isinf(o->max_abs))
        return usage_error("--max-abs wants a number of at least 0", text);
    return EXIT_GOOD;
}

/* Reads a number of bytes, with K, M or G for powers of 1024. */
static int read_bytes(const char *flag, const char *text, uint64_t *out) {
    static const char suffixes[] = "KMG";
    char *end;
    int shift = 0;
    const char *suffix = NULL;
    bool good = read_unsigned(text, &end, out) && *out > 0;
    if (good && *end) suffix = strchr(suffixes, *end);
    if (suffix) shift = 10 * (int)(suffix - suffixes + 1);
    good = good && end[suffix != NULL] == '\0' && *out <= (uint64_t)INT64_MAX >> shift;
    *out <<= shift;
    if (good) return EXIT_GOOD;
    say_error(NULL, "%s wants bytes such as 500000 or 8G: '%s'", flag, text);
    return EXIT_USAGE;
}

/* --- Numbers of pith advise: decimal, with suffixes for powers of 1000, and a unit. */

/* The units that a number may have, up to one without a name, and the factor and divisor that they
 * stand for: with these 350ms is the number that 0.35 is. */
struct unit {
    const char *name;
    double times, per;
};
static const struct unit no_units[] = {{NULL, 1, 1}};
static const struct unit bit_rates[] = {{"bit/s", 1, 1}, {"bit", 1, 1}, {"bps", 1, 1},
                                        {"b/s", 1, 1},   {"B/s", 8, 1}, {NULL, 1, 1}};
static const struct unit byte_rates[] = {{"B/s", 1, 1}, {NULL, 1, 1}};
static const struct unit byte_counts[] = {{"B", 1, 1}, {NULL, 1, 1}};
static const struct unit times[] = {{"s", 1, 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {NULL, 1, 1}};

/* Reads a number that a comma or nothing follows. */
static bool read_quantity(const char *text, const struct unit *units, char **end, double *out) {
    static const char suffixes[] = "kMGT";
    *out = strtod(text, end);
    if (*end == text || !(*out >= 0) || !strchr("0123456789.", *text)) return false;
    const char *const suffix = **end ? strchr(suffixes, **end) : NULL;
    for (const char *s = suffixes; suffix && s <= suffix; s++) *out *= 1000;
    if (suffix) ++*end;
    const size_t length = strcspn(*end, ",");
    for (const struct unit *u = units; length > 0 && u->name; u++) {
        if (strlen(u->name) != length || memcmp(u->name, *end, length) != 0) continue;
        *out = *out * u->times / u->per;
        *end += length;
        break;
    }
    return !isinf(*out) && (**end == ',' || !**end);
}

/* Reads one number for both, or two with a comma between. */
static bool read_pair(const char *text, const struct unit *units, double out[2]) {
    char *end;
    if (!read_quantity(text, units, &end, &out[0])) return false;
    out[1] = out[0];
    return !*end || (read_quantity(end + 1, units, &end, &out[1]) && !*end);
}

static int read_positive_pair(const char *problem, const char *text, const struct unit *units,
                              double out[2]) {
    if (read_pair(text, units, out) && out[0] > 0 && out[1] > 0) return EXIT_GOOD;
    return usage_error(problem, text);
}

static int read_ranks(const char *problem, const char *text, uint32_t *out) {
    char *end;
    uint64_t v;
    if (!read_unsigned(text, &end, &v) || *end || v == 0 || v > 1u << 24)
        return usage_error(problem, text);
    *out = (uint32_t)v;
    return EXIT_GOOD;
}

static int read_levels(const char *text, uint32_t *out) {
    if (strcmp(text, "1") != 0 && strcmp(text, "2") != 0)
        return usage_error("--levels wants 1 or 2", text);
    *out = (uint32_t)(*text - '0');
    return EXIT_GOOD;
}

static int read_number(const char *problem, const char *text, const struct unit *units,
                       double least, double most, double *out) {
    char *end;
    if (read_quantity(text, units, &end, out) && !*end && *out >= least && *out <= most)
        return EXIT_GOOD;
    return usage_error(problem, text);
}

static int apply_advise(struct advise *a, int letter, const char *value) {
    switch (letter) {
    case 'R': return read_ranks("--ranks wants 1 to 16777216", value, &a->ranks);
    case 'N': return read_ranks("--ranks-per-node wants 1 to 16777216", value, &a->per_node);
    case 'L':
        return read_positive_pair(
            "--links wants bits per second such as 600G,100Gbit/s (suffix "
            "k M G T, unit bit/s bit bps b/s, or B/s for bytes)",
            value, bit_rates, a->link);
    case 'l':
        return read_pair(value, times, a->latency)
                   ? EXIT_GOOD
                   : usage_error("--latency wants seconds such as 5e-6,20us (unit s ms us)", value);
    case 'S':
        return read_number(
            "--size wants bytes of f32 gradients such as 5.2G or 5.2GB (suffix k "
            "M G T, unit B)",
            value, byte_counts, 1, 1e18, &a->bytes);
    case 'u':
        return read_number("--compute wants seconds such as 0.35 or 350ms (unit s ms us)", value,
                           times, 0, 1e9, &a->compute);
    case 'O': return read_number("--overlap wants 0 to 1", value, no_units, 0, 1, &a->overlap);
    case 'V': return read_levels(value, &a->levels);
    case 'P':
        return read_number("--cores wants 0.001 to 1000000", value, no_units, 1e-3, 1e6, &a->cores);
    case 'W':
        return read_positive_pair(
            "--transport wants bytes per second such as 1.5G,2.5GB/s "
            "(suffix k M G T, unit B/s)",
            value, byte_rates, a->transport);
    default:
        return read_positive_pair(
            "--codec-speed wants bytes per second such as 300G,400GB/s "
            "(suffix k M G T, unit B/s)",
            value, byte_rates, a->speed);
    }
}

static int read_output(struct options *o, const char *text) {
    o->out = text;
    return *text ? EXIT_GOOD : usage_error("-o wants a file name", text);
}

static int read_base(struct options *o, const char *text) {
    if (o->base) return usage_error("--base was given twice", text);
    o->base = text;
    return *text ? EXIT_GOOD : usage_error("--base wants a file name", text);
}

/* ---- All of it ------------------------------------------------------------------------------*/

static int apply(struct options *o, int letter, char *value) {
    switch (letter) {
    case 'C': return add_spec(o, value);
    case 'r': return add_rule(o, value);
    case 'd': return read_dtype(o, value);
    case 's': return read_shape(o, value);
    case 'T': return read_threads(o, value);
    case 'c': return read_cpu(o, value);
    case 'm': return read_max_abs(o, value);
    case 'x': return read_bytes("--max-output", value, &o->max_output);
    case 'p': return read_bytes("--max-spool", value, &o->max_spool);
    case 'b': return read_base(o, value);
    case 'o': return read_output(o, value);
    case 'f': o->force = true; break;
    case 'q':
    case 'v':
        o->quiet = letter == 'q';
        o->verbose = letter == 'v';
        break;
    case 'j': o->json = true; break;
    case 'k': o->quick = true; break;
    case 'R':
    case 'N':
    case 'L':
    case 'l':
    case 'S':
    case 'u':
    case 'O':
    case 'V':
    case 'P':
    case 'W':
    case 'E': return apply_advise(&o->advise, letter, value);
    default: o->help = true; break;
    }
    return EXIT_GOOD;
}

/* Counts the long flags that begin like this one. */
static int count_matches(const char *text) {
    const size_t n = strcspn(text + 2, "=");
    int matches = 0;
    for (const struct option *o = table; o->name; o++)
        if (strncmp(o->name, text + 2, n) == 0) matches++;
    return matches;
}

/* Whether getopt_long refused this text, a long flag, and no letter behind it. Of letters that
 * stand together it says only which: the text before them may be a long flag that is good. */
static bool is_refused(const char *text, int letter) {
    if (strncmp(text, "--", 2) != 0) return false;
    const size_t n = strcspn(text + 2, "=");
    bool taken = letter == 0;
    for (const struct option *o = table; o->name && text[2 + n]; o++)
        taken = taken || (o->val == letter && strncmp(o->name, text + 2, n) == 0);
    return taken;
}

static int unknown_flag(const struct command *command, char **arguments, int letter) {
    const char *text = arguments[optind - 1];
    const char short_form[] = {'-', (char)letter, '\0'};
    const char *what = "unknown flag";
    if (!is_refused(text, letter))
        text = letter ? short_form : text;
    else if (letter)
        what = "no argument is taken by";
    else if (count_matches(text) > 1)
        what = "ambiguous flag";
    say_error(command->name, "%s '%s'", what, text);
    return EXIT_USAGE;
}

/* Says what is wrong with a flag, which it names as people write it: in its short form where it has
 * one. */
static int misused(const struct command *command, int letter, const char *problem) {
    const char *name = "";
    for (const struct option *o = table; o->name; o++)
        if (o->val == letter) name = o->name;
    if (strchr(short_flags, letter))
        say_error(command->name, "'-%c' %s", letter, problem);
    else
        say_error(command->name, "'--%s' %s", name, problem);
    return EXIT_USAGE;
}

static int next_flag(struct options *o, const struct command *command, int letter,
                     char **arguments) {
    if (letter == ':') return misused(command, optopt, "needs an argument");
    if (letter == '?') return unknown_flag(command, arguments, optopt);
    if (letter != 'h' && !strchr(command->flags, letter))
        return misused(command, letter, "is not for this command");
    return apply(o, letter, optarg);
}

static int take_operands(struct options *o, const struct command *command, int count,
                         char **arguments) {
    o->operand_count = count - optind;
    if (o->operand_count < command->operands_min) {
        say_error(command->name, "a file is missing");
        return EXIT_USAGE;
    }
    if (o->operand_count > command->operands_max) {
        say_error(command->name, "unexpected argument '%s'",
                  arguments[optind + command->operands_max]);
        return EXIT_USAGE;
    }
    for (int i = 0; i < o->operand_count; i++) {
        o->operands[i] = arguments[optind + i];
        if (*o->operands[i] || command->run == run_codecs) continue; /* no codec has the name "" */
        say_error(command->name, "a file name is empty");
        return EXIT_USAGE;
    }
    return EXIT_GOOD;
}

/* Refuses hints that no file could make right. */
static int check_hint(const struct options *o, const struct command *command) {
    uint64_t bytes;
    const char *why = NULL;
    if (!o->hint.has_shape) return EXIT_GOOD;
    if (o->hint.dtype == PITH_NONE)
        why = "--shape needs --dtype";
    else if (!tensor_hint_bytes(&o->hint, &bytes))
        why = "no file can have so many bytes as --dtype and --shape say";
    if (!why) return EXIT_GOOD;
    say_error(command->name, "%s", why);
    return EXIT_USAGE;
}

int options_parse(struct options *out, const struct command *command, int count, char **arguments) {
    int letter, code = EXIT_GOOD;
    *out = (struct options){.threads = 1};
    opterr = 0;
    while (code == EXIT_GOOD && !out->help &&
           (letter = getopt_long(count, arguments, short_flags, table, NULL)) != -1)
        code = next_flag(out, command, letter, arguments);
    if (code != EXIT_GOOD || out->help) return code;
    code = take_operands(out, command, count, arguments);
    return code == EXIT_GOOD ? check_hint(out, command) : code;
}

void options_free(struct options *options) {
    free(options->specs);
    free(options->rules);
    *options = (struct options){0};
}

pith_env options_env(const struct options *options) {
    return (pith_env){
        .size = sizeof(pith_env), .threads = options->threads, .cpu_mask = options->cpu_mask};
}
