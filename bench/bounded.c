/* bounded.c - prints tables of doc/RESULTS.md on values under a bound: bounded values|embeddings
 * ARRAYS DATA, of tools/bench_arrays.py and tests/data.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pith/pith.h"
#include "trips.h"

enum { RUNS = 15, RUNS_SLOW = 5 };

/* ---- Arrays ----------------------------------------------------------------------------------*/

/* Those of tools/bench_arrays.py. */
static const struct weights arrays[] = {
    {"weights", PITH_F32, 1, {1 << 24}, 1 << 24, NULL},
    {"field256", PITH_F32, 3, {256, 256, 256}, 1 << 24, NULL},
    {"dlrm16", PITH_F32, 3, {26, 2048, 16}, 26 * 2048 * 16, NULL},
    {"dlrm64", PITH_F32, 3, {26, 2048, 64}, 26 * 2048 * 64, NULL},
};

static void *load(const char *directory, const struct weights *array) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.f32", directory, array->name);
    FILE *const file = fopen(path, "rb");
    float *const values = malloc(array->count * sizeof *values);
    const size_t got = file && values ? fread(values, sizeof *values, array->count, file) : 0;
    if (got != array->count) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    return values;
}

static void open_array(struct weights *w, const char *directory, const char *name) {
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (strcmp(arrays[i].name, name) == 0) *w = arrays[i];
    w->data = load(directory, w);
}

static void close_array(const struct weights *w) { free((void *)(uintptr_t)w->data); }

/* ---- Speed -----------------------------------------------------------------------------------*/

/* others: what other compressors reach on the same array and bound: ratio (encode, decode in GB/s;
 * values beyond the bound). Measured once, each library called in process on one thread of a
 * virtual machine with AVX-512, so that their ratios can be compared with ours and their speeds
 * cannot. SPERR: one chunk, or chunks of 128^3. vector-LZ: the published coder of embedding
 * batches, its size computed from its description. */
struct row {
    const char *array;
    struct trip_spec spec;
    double goal; /* least ratio; 0: none */
    const char *others;
};

static const struct row fast_rows[] = {
    {"weights",
     {"eb:mode=fast", "0.01"},
     6.0,
     "PFPL 5.44 (0.46, 0.90), SZp 4.85 (0.47, 0.64; 2), zfp 3.42 (0.24, 0.20), SZx 2.03 "
     "(0.56, 0.73)"},
    {"weights",
     {"eb:mode=fast", "0.001"},
     3.7,
     "PFPL 3.46 (0.54, 0.89), SZp 3.18 (0.44, 0.64; 27), zfp 2.40 (0.22, 0.15), SZx 1.48 "
     "(0.44, 0.57)"},
    {"weights",
     {"eb:mode=fast", "0.0001"},
     2.65,
     "PFPL 2.54 (0.52, 0.84), SZp 2.42 (0.42, 0.59; 356), zfp 1.96 (0.20, 0.13), SZx 1.44 "
     "(0.45, 0.60)"},
    {"field256",
     {"eb:mode=fast", "0.01"},
     17,
     "PFPL 18.3 (0.60, 0.96), zfp 15.7 (0.27, 0.65), SZp 13.3 (0.61, 1.03; 13), SZx 3.41 "
     "(0.68, 0.86)"},
    {"field256",
     {"eb:mode=fast", "0.001"},
     12,
     "PFPL 8.44 (0.57, 0.90), zfp 7.55 (0.22, 0.43), SZp 6.40 (0.84, 1.07; 23), SZx 2.77 "
     "(0.75, 0.92)"},
    {"field256",
     {"eb:mode=fast", "0.0001"},
     9,
     "zfp 4.56 (0.18, 0.33), PFPL 4.52 (0.55, 0.86), SZp 3.89 (0.75, 0.88; 636), SZx 2.14 "
     "(0.60, 0.75)"},
};

static const struct row ratio_rows[] = {
    {"field256", {"eb:mode=ratio,block=whole", "0.01"}, 600, "SZ3 714 (0.19, 0.66), SPERR 294"},
    {"field256",
     {"eb:mode=ratio,block=whole", "0.001"},
     52,
     "SZ3 55.2 (0.18, 0.50; 5), SPERR 47.2"},
    {"field256",
     {"eb:mode=ratio,block=whole", "0.0001"},
     11.5,
     "SPERR 13.6, SZ3 12.1 (0.12, 0.21)"},
    {"field256", {"eb:mode=ratio", "0.01"}, 300, "SPERR 269 (0.12, 0.19)"},
    {"field256", {"eb:mode=ratio", "0.001"}, 42, "SPERR 44.7 (0.09, 0.14)"},
    {"field256", {"eb:mode=ratio", "0.0001"}, 10.5, "SPERR 13.2 (0.06, 0.08; 6)"},
    {"weights", {"eb:mode=ratio", "0.01"}, 0, "SZ3 7.49 (0.24, 0.29)"},
    {"weights", {"eb:mode=ratio", "0.001"}, 0, "SZ3 4.23 (0.22, 0.20)"},
    {"weights", {"eb:mode=ratio", "0.0001"}, 0, "SZ3 2.93 (0.17, 0.12)"},
};

static const struct row embed_rows[] = {
    {"dlrm16", {"embed:mode=fast", "0.01"}, 22, ""},
    {"dlrm64", {"embed:mode=fast", "0.01"}, 34, ""},
    {"dlrm16",
     {"embed", "0.01"},
     22,
     "SZ3 15.0 (0.22, 0.37), vector-LZ 7.0, PFPL 5.63 (0.46, 0.96)"},
    {"dlrm16",
     {"embed", "0.001"},
     0,
     "SZ3 8.71 (0.21, 0.25), vector-LZ 3.6, PFPL 3.53 (0.56, 0.94)"},
    {"dlrm16", {"embed", "0.0001"}, 0, "SZ3 6.08 (0.23, 0.17), PFPL 2.57 (0.58, 0.90)"},
    {"dlrm64",
     {"embed", "0.01"},
     34,
     "SZ3 22.3 (0.23, 0.38), vector-LZ 7.5, PFPL 6.09 (0.46, 0.89)"},
    {"dlrm64", {"embed", "0.001"}, 0, "SZ3 10.8 (0.22, 0.24), PFPL 3.74 (0.54, 0.86)"},
    {"dlrm64", {"embed", "0.0001"}, 0, "SZ3 7.20 (0.26, 0.17), PFPL 2.68 (0.55, 0.83)"},
};

static void print_number(const char *form, double x) {
    fputs("| ", stdout);
    if (x > 0) printf(form, x);
    putchar(' ');
}

static int print_row(const struct row *row, const struct weights *w, int runs) {
    struct trip trip;
    struct trip_times t;
    const double raw = (double)w->count * sizeof(float), gb = raw * 1e-9;
    if (trip_measure(w, &row->spec, runs, &trip, &t)) return 1;
    const double ratio = raw / (double)trip.bytes, limit = raw / trip_entropy(w, row->spec.rel);
    printf("| %s | `%s` | %s | %.4g ", w->name, row->spec.codec, row->spec.rel, ratio);
    print_number("%.4g", row->goal);
    printf("| %.3g | %.3g ", limit, ratio / limit);
    printf("| %.2f | %.2f | %.2f | %.2f ", gb / t.encode, t.read / t.encode, gb / t.decode,
           t.fill / t.decode);
    printf("| %.7f | %zu | %s |\n", trip.errors.largest, trip.errors.beyond, row->others);
    fflush(stdout);
    return trip.errors.beyond != 0;
}

static int print_rows(const char *directory, const struct row *rows, size_t count, int runs) {
    puts(
        "| array | codec | rel | ratio | goal | zero-order limit | of the limit | encode, GB/s | "
        "of the sum | decode, GB/s | of the fill | largest error | beyond | others |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    struct weights w = {.name = ""};
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++) {
        if (strcmp(w.name, rows[i].array) != 0) {
            close_array(&w);
            open_array(&w, directory, rows[i].array);
        }
        failed = print_row(&rows[i], &w, runs);
    }
    close_array(&w);
    putchar('\n');
    return failed;
}

/* ---- Rate and distortion ---------------------------------------------------------------------*/

/* Tensors of a file, as one. */
struct sum {
    double values, raw, bytes, entropy, squares;
    size_t beyond;
};

static int add(struct sum *s, const struct weights *w, const struct trip_spec *spec) {
    struct trip trip;
    if (trip_once(w, spec, &trip)) return 1;
    s->values += (double)w->count;
    s->raw += (double)(w->count * pith_dtype_bytes(w->dtype));
    s->bytes += (double)trip.bytes;
    s->entropy += trip_entropy(w, spec->rel);
    s->squares += trip.errors.mean * (double)w->count;
    s->beyond += trip.errors.beyond;
    return s->beyond != 0;
}

static int add_file(struct sum *s, const char *directory, const char *file,
                    const struct trip_spec *spec) {
    struct weights w;
    void *const bytes = weights_load(directory, file);
    int failed = !bytes;
    *s = (struct sum){0};
    for (size_t i = 0; !failed && weights_at(bytes, i, &w); i++) failed = add(s, &w, spec);
    if (failed) fprintf(stderr, "%s: %s,rel=%s failed\n", file, spec->codec, spec->rel);
    free(bytes);
    return failed;
}

static int print_distortion(const char *directory, const char *file, const char *rel) {
    static const char *const codecs[] = {"eb:mode=fast", "eb:mode=ratio", "eb:mode=auto"};
    struct sum s;
    printf("| %s | %s ", file, rel);
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        const struct trip_spec spec = {codecs[i], rel};
        if (add_file(&s, directory, file, &spec)) return 1;
        printf("| %.3f | %.1f ", 8 * s.bytes / s.values, -10 * log10(s.squares / s.values));
    }
    puts("|");
    return 0;
}

static int print_distortions(const char *directory) {
    static const char *const files[] = {"field64", "wo_t0", "dlrm_lookup", "ckpt_next_bf16"};
    static const char *const bounds[] = {"0.01", "0.003", "0.001", "0.0003", "0.0001"};
    puts(
        "| file | rel | fast, bits | dB | ratio, bits | dB | auto, bits | dB |\n"
        "|---|---|---|---|---|---|---|---|");
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++)
        for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
            if (print_distortion(directory, files[f], bounds[b])) return 1;
    return 0;
}

/* ---- What else can be requested -------------------------------------------------------------*/

enum target { ABS, PWREL, PSNR, NMSE };
static const struct {
    enum target target;
    const char *codec;
    double requested;
} targets[] = {
    {ABS, "eb:mode=ratio,abs=0.001", 0.001},
    {PWREL, "eb:mode=ratio,pwrel=0.01", 0.01},
    {PSNR, "eb:mode=ratio,psnr=60", 60},
    {NMSE, "eb:mode=ratio,nmse=0.000001", 0.000001},
};

/* The error that was reached, in the unit of the one that was requested. */
static double reached(const struct trip_errors *e, enum target target) {
    switch (target) {
    case ABS: return e->largest * e->bound;
    case PWREL: return e->relative;
    case PSNR: return e->mean > 0 ? -10 * log10(e->mean) : INFINITY;
    default: return e->nmse;
    }
}

/* The worst of a file's tensors; fails when it is worse than what was requested. */
static int print_target(const void *file, const char *name, size_t t) {
    const struct trip_spec spec = {targets[t].codec, NULL};
    const double sign = targets[t].target == PSNR ? -1 : 1;
    double worst = -INFINITY, bytes = 0, values = 0;
    struct weights w;
    for (size_t i = 0; weights_at(file, i, &w); i++) {
        struct trip trip;
        if (trip_once(&w, &spec, &trip) || trip.errors.beyond) return 1;
        worst = fmax(worst, sign * reached(&trip.errors, targets[t].target));
        bytes += (double)trip.bytes;
        values += (double)w.count;
    }
    printf("| %s | `%s` | %.6g | %.3f |\n", name, spec.codec, sign * worst, 8 * bytes / values);
    return !(worst <= sign * targets[t].requested);
}

static int print_targets(const char *directory) {
    static const char *const files[] = {"field64", "wo_t0", "dlrm_lookup"};
    int failed = 0;
    puts("\n| file | requested | reached | bits |\n|---|---|---|---|");
    for (size_t f = 0; f < sizeof files / sizeof files[0] && !failed; f++) {
        void *const bytes = weights_load(directory, files[f]);
        failed = !bytes;
        for (size_t t = 0; t < sizeof targets / sizeof targets[0] && !failed; t++)
            failed = print_target(bytes, files[f], t);
        free(bytes);
    }
    return failed;
}

/* ---- Batches of embeddings -------------------------------------------------------------------*/

static const char *const batch_codecs[] = {"embed", "embed:mode=fast", "eb:mode=ratio"};
enum { BATCH_CODECS = sizeof batch_codecs / sizeof batch_codecs[0] };

static void print_batch(const char *name, const char *rel, const struct sum s[BATCH_CODECS],
                        double goal) {
    printf("| %s | %s | %.2f ", name, rel, s[0].raw / s[0].entropy);
    for (size_t i = 0; i < BATCH_CODECS; i++) printf("| %.2f ", s[i].raw / s[i].bytes);
    printf("| %.2f ", s[0].entropy / s[0].bytes);
    print_number("%.2f", goal);
    puts("|");
}

/* Every tensor of a file, and all of them. */
static int print_batches(const char *directory, const char *file, const char *rel,
                         const double *goals) {
    struct weights w;
    struct sum all[BATCH_CODECS] = {{0}};
    void *const bytes = weights_load(directory, file);
    int failed = !bytes;
    size_t index = 0;
    for (; !failed && weights_at(bytes, index, &w); index++) {
        struct sum one[BATCH_CODECS] = {{0}};
        for (size_t i = 0; i < BATCH_CODECS && !failed; i++) {
            const struct trip_spec spec = {batch_codecs[i], rel};
            failed = add(&one[i], &w, &spec) || add(&all[i], &w, &spec);
        }
        print_batch(w.name, rel, one, goals ? goals[index] : 0);
    }
    print_batch("all", rel, all, goals ? goals[index] : 0);
    free(bytes);
    return failed;
}

static int print_lookups(const char *directory) {
    /* Goals for the tables in the order of the file, then for all of them together. */
    static const double goals[] = {1.60, 1.72, 4.3, 3.7, 2.2};
    static const char head[] =
        "| rel | zero-order limit | `embed` | `embed:mode=fast` | `eb:mode=ratio` | `embed` / "
        "limit | goal |\n|---|---|---|---|---|---|---|---|";
    printf("| rows of %s\n", head);
    if (print_batches(directory, "dlrm_lookup", "0.01", goals) ||
        print_batches(directory, "dlrm_lookup", "0.001", NULL))
        return 1;
    printf("\n| gradients of %s\n", head);
    return print_batches(directory, "dlrm_lookup_grad", "0.01", NULL) ||
           print_batches(directory, "dlrm_lookup_grad", "0.001", NULL);
}

/* ---- Main ------------------------------------------------------------------------------------*/

#define ROWS(rows) rows, sizeof(rows) / sizeof(rows)[0]

int main(int argc, char **argv) {
    const int values = argc == 4 && strcmp(argv[1], "values") == 0;
    if (!values && (argc != 4 || strcmp(argv[1], "embeddings") != 0)) {
        fprintf(stderr, "usage: bounded values|embeddings ARRAYS DATA\n");
        return 2;
    }
    if (values)
        return print_rows(argv[2], ROWS(fast_rows), RUNS) ||
               print_rows(argv[2], ROWS(ratio_rows), RUNS_SLOW) || print_distortions(argv[3]) ||
               print_targets(argv[3]);
    return print_rows(argv[2], ROWS(embed_rows), RUNS) || print_lookups(argv[3]);
}
