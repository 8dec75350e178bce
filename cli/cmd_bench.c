/* cmd_bench.c - pith bench: the cases and how their results are shown.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "choose.h"
#include "report.h"

struct task {
    const struct options *options;
    struct bench_data data;
    pith_env env;
    json_t *results;
    struct table table;
};

/* ---- Output ----------------------------------------------------------------------------------*/

/* Names the best instruction set among those found and allowed. */
static const char *isa_name(uint32_t mask) {
    uint32_t found = pith_cpu_features();
    if (mask) found &= mask;
    if (mask & PITH_CPU_SCALAR) return "scalar";
    if (found & PITH_CPU_AVX512) return "avx512";
    if (found & PITH_CPU_AVX2) return "avx2";
    return found & PITH_CPU_NEON ? "neon" : "scalar";
}

static double gbps(const struct bench_result *r, double seconds) {
    return 1e-9 * (double)r->raw_bytes / seconds;
}

static void add_json(const struct task *t, const struct bench_result *r) {
    json_t *o = json_object();
    const bool stream = r->base_dtype != PITH_NONE;
    json_object_set_new(o, "codec", json_string(r->codec.name));
    json_object_set_new(o, "spec", json_string(r->spec));
    json_object_set_new(o, "dtype", json_string(pith_dtype_name(r->dtype)));
    json_object_set_new(o, "base",
                        stream ? json_string(pith_dtype_name(r->base_dtype)) : json_null());
    json_object_set_new(o, "mode", json_string(stream ? "stream" : "stateless"));
    json_object_set_new(o, "isa", json_string(isa_name(t->env.cpu_mask)));
    json_object_set_new(o, "threads", json_unsigned(t->env.threads));
    json_object_set_new(o, "repetitions", json_integer(r->repetitions));
    json_object_set_new(o, "bytes", json_unsigned(r->bytes));
    json_object_set_new(o, "raw_bytes", json_unsigned(r->raw_bytes));
    json_object_set_new(o, "ratio", json_number((double)r->raw_bytes / (double)r->bytes));
    json_object_set_new(o, "encode_gbps", json_number(gbps(r, r->encode)));
    json_object_set_new(o, "decode_gbps", json_number(gbps(r, r->decode)));
    json_object_set_new(o, "encode_move_gbps", json_number(gbps(r, r->encode_move)));
    json_object_set_new(o, "decode_move_gbps", json_number(gbps(r, r->decode_move)));
    json_object_set_new(o, "read_gbps", json_number(gbps(r, r->read)));
    json_object_set_new(o, "fill_gbps", json_number(gbps(r, r->fill)));
    json_object_set_new(o, "memcpy_gbps", json_number(gbps(r, r->copy)));
    json_array_append_new(t->results, o);
}

static void add_heading(struct task *t) {
    static const char *const heads[] = {"codec", "value",  "base",  "ratio", "encode", "/read",
                                        "/move", "decode", "/fill", "/move", "memcpy", "of"};
    t->table.columns = sizeof heads / sizeof *heads;
    for (size_t i = 0; i < t->table.columns; i++) table_add(&t->table, "%s", heads[i]);
}

static void add_row(struct task *t, const struct bench_result *r) {
    struct table *to = &t->table;
    table_add(to, "%s", r->spec);
    table_add(to, "%s", pith_dtype_name(r->dtype));
    table_add(to, "%s", r->base_dtype == PITH_NONE ? "-" : pith_dtype_name(r->base_dtype));
    table_add(to, "%.2f", (double)r->raw_bytes / (double)r->bytes);
    table_add(to, "%.2f", gbps(r, r->encode));
    table_add(to, "%.2f", r->read / r->encode);
    table_add(to, "%.2f", r->encode_move / r->encode);
    table_add(to, "%.2f", gbps(r, r->decode));
    table_add(to, "%.2f", r->fill / r->decode);
    table_add(to, "%.2f", r->decode_move / r->decode);
    table_add(to, "%.2f", gbps(r, r->copy));
    table_add(to, "%d", r->repetitions);
}

static void print_results(struct task *t) {
    if (t->options->json) {
        json_t *root = json_object();
        json_object_set(root, "results", t->results);
        json_print(root, stdout);
        json_decref(root);
        return;
    }
    printf(
        "GB/s of uncompressed tensor, and shares of the roofline measured in the same run.\n"
        "isa %s, threads %u, %zu MiB of f32 values, medians of up to %d repetitions (of)\n\n",
        isa_name(t->env.cpu_mask), (unsigned)t->env.threads, t->data.bytes >> 20,
        t->data.repetitions);
    table_print(&t->table, stdout, 7);
}

/* ---- Cases -----------------------------------------------------------------------------------*/

static int run_case(struct task *t, const struct bench_case *which) {
    struct bench_result result;
    const int code = bench_measure(which, &t->data, &t->env, &result);
    if (code != EXIT_GOOD) return code;
    if (t->options->json)
        add_json(t, &result);
    else
        add_row(t, &result);
    return EXIT_GOOD;
}

/* A codec that looks for redundancy or tries scales is far slower than memory: this part of the
 * data is enough for it. */
enum { SLOW_DIVIDE = 16 };

static int run_lossless(struct task *t, const char *spec, const pith_codec_info *codec) {
    const bool slow = codec->traits & PITH_TRAIT_BASE;
    struct bench_case which = {spec, PITH_F32, PITH_NONE, slow ? SLOW_DIVIDE : 1};
    int code = run_case(t, &which);
    if (code != EXIT_GOOD || !slow) return code;
    which.dtype = which.base_dtype = PITH_BF16;
    return run_case(t, &which);
}

/* Measures a lossy setting. Without a base it is the quantizer alone; with one, where the setting
 * takes one, the closed loop of a stream. */
static int run_lossy(struct task *t, const char *spec, const pith_codec_info *codec) {
    const bool slow = strstr(spec, "entropy=zstd") || strstr(spec, "entropy=rans") ||
                      strstr(spec, "search=mse") || strstr(spec, "mode=ratio");
    const uint32_t divide = slow ? SLOW_DIVIDE : 1;
    static const uint32_t bases[] = {PITH_NONE, PITH_F32, PITH_BF16};
    const int count = codec->traits & PITH_TRAIT_BASE ? 3 : 1;
    int code = EXIT_GOOD;
    for (int i = 0; i < count && code == EXIT_GOOD; i++) {
        const struct bench_case which = {spec, PITH_F32, bases[i], divide};
        if (bases[i] == PITH_NONE || bench_takes(&which, &t->data)) code = run_case(t, &which);
    }
    return code;
}

static int run_spec(struct task *t, const char *spec) {
    pith_codec_info codec;
    if (!codec_of_spec(spec, &codec)) return EXIT_USAGE;
    if (codec.traits & PITH_TRAIT_LOSSLESS) return run_lossless(t, spec, &codec);
    return run_lossy(t, spec, &codec);
}

/* Measures every codec with its defaults; a grouped quantizer also with small groups and with
 * random rounding, and a codec that predicts values also in its slow mode, where it has these
 * keys. */
static int run_codec(struct task *t, const char *name) {
    static const char *const variants[] = {"", ":group=128", ":round=stochastic", ":mode=ratio"};
    int code = EXIT_GOOD;
    for (size_t i = 0; i < sizeof variants / sizeof *variants && code == EXIT_GOOD; i++) {
        char spec[PITH_SPEC_MAX], canonical[PITH_SPEC_MAX];
        snprintf(spec, sizeof spec, "%s%s", name, variants[i]);
        if (pith_spec_check(spec, canonical, sizeof canonical, NULL) != PITH_OK) continue;
        const bool is_default = strcmp(canonical, name) == 0;
        if (i == 0 || !is_default) code = run_spec(t, canonical);
    }
    return code;
}

static int run_all(struct task *t) {
    const struct options *o = t->options;
    pith_codec_info codec = {.size = sizeof codec};
    int code = EXIT_GOOD;
    for (size_t i = 0; i < o->spec_count && code == EXIT_GOOD; i++) code = run_spec(t, o->specs[i]);
    if (o->spec_count) return code;
    for (uint32_t i = 0; code == EXIT_GOOD && pith_codec_at(i, &codec) == PITH_OK; i++)
        code = run_codec(t, codec.name);
    return code;
}

int run_bench(const struct options *options) {
    struct task t = {.options = options, .env = options_env(options)};
    const char *path = options->operand_count ? options->operands[0] : NULL;
    int code = bench_data_open(&t.data, path, options->quick);
    t.results = json_array();
    add_heading(&t);
    if (code == EXIT_GOOD) code = run_all(&t);
    if (code == EXIT_GOOD) print_results(&t);
    json_decref(t.results);
    table_free(&t.table);
    bench_data_close(&t.data);
    return code;
}
