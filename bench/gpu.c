/* gpu.c - how fast the CUDA backend is, beside copies of as many bytes: a table, or JSON.
 * SPDX-License-Identifier: Apache-2.0
 *
 * gpu [--json] [--mib N] [--runs N] [--only TEXT] [--empty]. --mib: tensors of one size only.
 * --runs: medians of so many. --only: rows whose name has TEXT in it. --empty: the table without
 * numbers, for doc/RESULTS.md where there is no device. Exit status 77 says that there is none, 1
 * that something failed or was not the CPU's byte for byte. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_job.h"
#include "pith/pith.h"
#include "runs.h"

enum { LARGE = 256, SMALL = 8, WARM = 3, RUNS = 31, RUNS_MOST = 1000, NO_DEVICE = 77 };

/* The goal of small tensors is the same for all. */
static const double small_goal = 0.5;

static const struct gpu_row rows[] = {
    {GPU_ENCODE, "wdiff", NULL, PITH_F32, PITH_F32, 1, 0.85, 0, 0},
    {GPU_ENCODE, "wdiff", NULL, PITH_F32, PITH_BF16, 1, 0.85, 0, 0},
    {GPU_ENCODE, "wdiff", NULL, PITH_BF16, PITH_BF16, 1, 0.85, 0, 0},
    {GPU_ENCODE, "wdiff:round=stochastic", NULL, PITH_BF16, PITH_BF16, 1, 0, 0, 0},
    {GPU_DECODE, "wdiff", NULL, PITH_F32, PITH_F32, 1, 0.85, 0, 0},
    {GPU_DECODE, "wdiff", NULL, PITH_F32, PITH_BF16, 1, 0.85, 0, 0},
    {GPU_DECODE, "wdiff", NULL, PITH_BF16, PITH_BF16, 1, 0.85, 0, 0},
    {GPU_DECODE_ADD, "wdiff", NULL, PITH_F32, PITH_F32, 1, 0.85, 0, 0},
    {GPU_DECODE_ADD, "wdiff:base_hash=off", NULL, PITH_F32, PITH_F32, 1, 0.85, 0, 0},
    {GPU_DECODE_ADD, "wdiff:base_hash=off", NULL, PITH_BF16, PITH_BF16, 1, 0.85, 0, 0},
    {GPU_ENCODE, "grad", NULL, PITH_F32, PITH_NONE, 1, 0.8, 0, 0},
    {GPU_ENCODE, "grad", NULL, PITH_BF16, PITH_NONE, 1, 0.8, 0, 0},
    {GPU_DECODE, "grad", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "grad:preset=intra", NULL, PITH_F32, PITH_NONE, 1, 0.85, 0, 0},
    {GPU_DECODE, "grad:preset=intra", NULL, PITH_F32, PITH_NONE, 1, 0.85, 0, 0},
    {GPU_ENCODE, "grad:preset=intra,rotate=0", NULL, PITH_F32, PITH_NONE, 1, 0.85, 0, 0},
    {GPU_DECODE, "grad:preset=intra,rotate=0", NULL, PITH_F32, PITH_NONE, 1, 0.85, 0, 0},
    {GPU_DECODE_ADD, "grad:preset=intra,rotate=0", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "grad:round=stochastic", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "grad:search=mse", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "grad:codebook=trellis", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "grad:codebook=trellis", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "grad:codebook=trellis,bits=2", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "grad:codebook=trellis,bits=2", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "wdiff:codebook=trellis", NULL, PITH_F32, PITH_F32, 1, 0, 0, 0},
    {GPU_DECODE, "wdiff:codebook=trellis", NULL, PITH_F32, PITH_F32, 1, 0, 0, 0},
    {GPU_ENCODE, "wdiff:entropy=rans", NULL, PITH_F32, PITH_F32, 1, 0, 0, 0},
    {GPU_ENCODE, "wdiff:entropy=rans", NULL, PITH_BF16, PITH_BF16, 1, 0, 0, 0},
    {GPU_DECODE, "wdiff:entropy=rans", NULL, PITH_F32, PITH_F32, 1, 0, 0, 0},
    {GPU_DECODE, "wdiff:entropy=rans", NULL, PITH_BF16, PITH_BF16, 1, 0, 0, 0},
    {GPU_REDUCE, "grad:preset=intra", NULL, PITH_F32, PITH_NONE, 8, 0.85, 0, 0},
    {GPU_REDUCE, "grad", NULL, PITH_F32, PITH_NONE, 8, 0.85, 0, 0},
    {GPU_REDUCE_ENCODE, "grad:preset=intra", "grad", PITH_F32, PITH_NONE, 8, 0.75, 0, 0},
    {GPU_ENCODE, "raw", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "raw", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "lossless:entropy=rans", NULL, PITH_BF16, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "lossless:entropy=rans", NULL, PITH_BF16, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "lossless:entropy=rans", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "lossless:entropy=rans", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "lossless:entropy=rans,block=16384", NULL, PITH_BF16, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "lossless:entropy=rans,block=16384", NULL, PITH_BF16, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "kv", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE, "kv", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "kv:preset=kivi4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE, "kv:preset=kivi4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "kv:preset=quarot4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE, "kv:preset=quarot4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "kv:preset=kvquant-lite", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE, "kv:preset=kvquant-lite", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "kv:preset=q4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "kv:codebook=trellis,bits=2", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE, "kv:codebook=trellis,bits=2", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "kv", NULL, PITH_BF16, PITH_BF16, 1, 0, 8, 128},
    {GPU_DECODE, "kv", NULL, PITH_BF16, PITH_BF16, 1, 0, 8, 128},
    {GPU_ENCODE, "kv:entropy=rans", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE, "kv:entropy=rans", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE_PAGES, "kv", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE_PAGES, "kv", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE_PAGES, "kv:preset=kivi4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_DECODE_PAGES, "kv:preset=kivi4", NULL, PITH_BF16, PITH_NONE, 1, 0, 8, 128},
    {GPU_ENCODE, "eb:abs=0.001", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "eb:abs=0.001", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "eb:abs=0.001,block=16384", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "eb:abs=0.001,block=16384", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "eb:mode=ratio,abs=0.001,entropy=rans,block=16384", NULL, PITH_F32, PITH_NONE, 1,
     0, 0, 0},
    {GPU_DECODE, "eb:mode=ratio,abs=0.001,entropy=rans,block=16384", NULL, PITH_F32, PITH_NONE, 1,
     0, 0, 0},
    {GPU_ENCODE, "embed:mode=fast,abs=0.001,dim=64", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "embed:mode=fast,abs=0.001,dim=64", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "embed:abs=0.001,dim=64,entropy=rans,block=16384", NULL, PITH_F32, PITH_NONE, 1, 0,
     0, 0},
    {GPU_DECODE, "embed:abs=0.001,dim=64,entropy=rans,block=16384", NULL, PITH_F32, PITH_NONE, 1, 0,
     0, 0},
    {GPU_ENCODE, "act:abs=0.001,block=16384", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "act:abs=0.001,block=16384", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "act:mode=ratio,abs=0.001,entropy=rans,block=16384", NULL, PITH_F32, PITH_NONE, 1,
     0, 0, 0},
    {GPU_DECODE, "act:mode=ratio,abs=0.001,entropy=rans,block=16384", NULL, PITH_F32, PITH_NONE, 1,
     0, 0, 0},
    {GPU_ENCODE, "topk:density=0.01,ef=full", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "topk:density=0.01", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_ENCODE, "topk:density=0.01,index=fast", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE, "topk:density=0.01,index=fast", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_DECODE_ADD, "topk:density=0.01", NULL, PITH_F32, PITH_NONE, 1, 0, 0, 0},
    {GPU_REDUCE, "topk:density=0.01", NULL, PITH_F32, PITH_NONE, 8, 0, 0, 0},
    {GPU_HOLD, "topk:density=0.01", NULL, PITH_F32, PITH_NONE, 8, 0, 0, 0},
    {GPU_GATHER, "topk:density=0.01", NULL, PITH_F32, PITH_NONE, 8, 0, 0, 0},
    {GPU_SCATTER, "topk:density=0.01", NULL, PITH_F32, PITH_NONE, 8, 0, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- Measuring -------------------------------------------------------------------------------*/

struct result {
    double seconds, copy; /* of a call, and of a copy of the same bytes */
    double latency, host; /* of one call alone, and what launching it takes the host */
    double nodes;         /* launches per call */
    uint64_t moved;
    bool same;
};

/* Copies that move as many bytes as the calls, in as many rounds through as much memory. */
struct copies {
    uint8_t *from, *to;
    size_t bytes, capacity;
};

static void copy_round(void *of, uint32_t k) {
    const struct copies *const c = of;
    const size_t at = k * c->bytes % c->capacity;
    gpu_copy(c->to + at, c->from + at, c->bytes);
}

static struct copies copies_open(const struct gpu_job *j, uint64_t cache) {
    struct copies c = {.bytes = (size_t)(gpu_job_moved(j) / 2) & ~(size_t)15};
    const size_t rounds = 1 + 4 * (size_t)cache / (2 * c.bytes);
    c.capacity = rounds * c.bytes;
    c.from = gpu_allocate(c.capacity);
    c.to = gpu_allocate(c.capacity);
    GPU(cudaMemsetAsync(c.from, 0x5A, c.capacity, gpu_stream()));
    return c;
}

static void copies_close(struct copies *c) {
    GPU(cudaFree(c->from));
    GPU(cudaFree(c->to));
}

/* Every round measures calls and copies, so that both see the same clocks. */
static void measure_rate(struct gpu_job *j, uint64_t cache, int runs, struct result *r) {
    double own[RUNS_MOST], copy[RUNS_MOST];
    struct gpu_graph calls, moves;
    struct copies c = copies_open(j, cache);
    const uint32_t count = gpu_job_calls(j);
    gpu_graph_make(&calls, gpu_job_call, j, count);
    gpu_graph_make(&moves, copy_round, &c, count);
    for (int i = -WARM; i < runs; i++) {
        gpu_job_restore(j);
        const double a = gpu_graph_time(&calls), b = gpu_graph_time(&moves);
        if (i < 0) continue;
        own[i] = a / count;
        copy[i] = b / count;
    }
    r->seconds = runs_median(own, (size_t)runs);
    r->copy = runs_median(copy, (size_t)runs);
    r->nodes = (double)calls.nodes / count;
    gpu_graph_end(&calls);
    gpu_graph_end(&moves);
    copies_close(&c);
}

static void measure_call(struct gpu_job *j, int runs, struct result *r) {
    double device[RUNS_MOST], host[RUNS_MOST];
    for (int i = -WARM; i < runs; i++) {
        gpu_job_restore(j);
        double h;
        const double d = gpu_call_time(gpu_job_call, j, &h);
        if (i < 0) continue;
        device[i] = d;
        host[i] = h;
    }
    r->latency = runs_median(device, (size_t)runs);
    r->host = runs_median(host, (size_t)runs);
}

static struct result measure(const struct gpu_row *row, uint64_t bytes, uint64_t cache, int runs) {
    struct gpu_job *const j = gpu_job_open(row, bytes / pith_dtype_bytes(row->dtype), cache);
    struct result r = {.moved = gpu_job_moved(j)};
    measure_rate(j, cache, runs, &r);
    r.same = gpu_job_check(j);
    measure_call(j, runs, &r);
    gpu_job_close(j);
    return r;
}

/* ---- Printing --------------------------------------------------------------------------------*/

struct options {
    bool json, empty;
    int mib, runs; /* mib 0: both sizes */
    const char *only;
};

static const char *const verbs[] = {"encode", "decode", "decode_add", "reduce",   "reduce_encode",
                                    "hold",   "gather", "scatter",    "pages in", "pages out"};

static void name_of(const struct gpu_row *row, char *to, size_t size) {
    char types[32] = "";
    if (row->base != PITH_NONE)
        snprintf(types, sizeof types, "%s, base %s", pith_dtype_name(row->dtype),
                 pith_dtype_name(row->base));
    else
        snprintf(types, sizeof types, "%s", pith_dtype_name(row->dtype));
    if (row->into)
        snprintf(to, size, "%s of %u `%s` into `%s`", verbs[row->what], row->frames, row->spec,
                 row->into);
    else if (row->frames > 1)
        snprintf(to, size, "%s of %u `%s`, %s", verbs[row->what], row->frames, row->spec, types);
    else
        snprintf(to, size, "%s `%s`, %s", verbs[row->what], row->spec, types);
}

static void print_head(void) {
    puts(
        "| what | tensor | launches | GB/s moved | copy, GB/s | ratio | goal | one call, us "
        "| host, us | CPU's bytes |");
    puts("|---|---|---|---|---|---|---|---|---|---|");
}

static void print_row(const struct gpu_row *row, unsigned mib, double goal,
                      const struct result *r) {
    char name[160], wanted[16] = "";
    name_of(row, name, sizeof name);
    if (goal > 0) snprintf(wanted, sizeof wanted, "%.2f", goal);
    if (!r) {
        printf("| %s | %u MiB | | | | | %s | | | |\n", name, mib, wanted);
        return;
    }
    const double gb = (double)r->moved * 1e-9;
    printf("| %s | %u MiB | %g | %.0f | %.0f | %.2f | %s | %.1f | %.1f | %s |\n", name, mib,
           r->nodes, gb / r->seconds, gb / r->copy, r->copy / r->seconds, wanted, r->latency * 1e6,
           r->host * 1e6, r->same ? "yes" : "NO");
}

static void print_json(const struct gpu_row *row, unsigned mib, double goal,
                       const struct result *r) {
    static bool first = true;
    char name[160];
    name_of(row, name, sizeof name);
    printf(
        "%s\n    {\"what\": \"%s\", \"mib\": %u, \"moved\": %llu, \"launches\": %g, "
        "\"seconds\": %.9g, \"copy_seconds\": %.9g, \"ratio\": %.4f, \"goal\": %g, "
        "\"call_seconds\": %.9g, \"host_seconds\": %.9g, \"same\": %s}",
        first ? "" : ",", name, mib, (unsigned long long)r->moved, r->nodes, r->seconds, r->copy,
        r->copy / r->seconds, goal, r->latency, r->host, r->same ? "true" : "false");
    first = false;
}

static void print_device(const struct gpu_device *d, bool json) {
    char date[16];
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%d", &utc);
    printf(json ? "{\"device\": \"%s\", \"driver\": \"%s\", \"runtime\": \"%d.%d\", "
                  "\"date\": \"%s\",\n  \"results\": ["
                : "%s, driver %s, CUDA runtime %d.%d, %s.\n\n",
           d->name, d->driver, d->runtime / 1000, d->runtime % 1000 / 10, date);
}

/* ---- The program -----------------------------------------------------------------------------*/

static bool run_size(const struct options *o, const struct gpu_device *d, unsigned mib) {
    bool good = true;
    for (int i = 0; i < ROWS; i++) {
        const double goal = mib > SMALL ? rows[i].goal : rows[i].goal > 0 ? small_goal : 0;
        char name[160];
        name_of(&rows[i], name, sizeof name);
        if (o->only && !strstr(name, o->only)) continue;
        if (o->empty) {
            print_row(&rows[i], mib, goal, NULL);
            continue;
        }
        const struct result r = measure(&rows[i], (uint64_t)mib << 20, d->cache, o->runs);
        good &= r.same;
        if (o->json)
            print_json(&rows[i], mib, goal, &r);
        else
            print_row(&rows[i], mib, goal, &r);
        fflush(stdout);
    }
    return good;
}

/* The number after an option, 1 .. most; or 0. */
static int take_number(int argc, char **argv, int *i, int most) {
    if (*i + 1 >= argc) return 0;
    const long n = strtol(argv[++*i], NULL, 10);
    return n < 1 || n > most ? 0 : (int)n;
}

static bool take_options(int argc, char **argv, struct options *o) {
    *o = (struct options){.runs = RUNS};
    for (int i = 1; i < argc; i++) {
        const char *const name = argv[i];
        if (strcmp(name, "--json") == 0)
            o->json = true;
        else if (strcmp(name, "--empty") == 0)
            o->empty = true;
        else if (strcmp(name, "--only") == 0 && i + 1 < argc)
            o->only = argv[++i];
        else if (strcmp(name, "--mib") == 0 && (o->mib = take_number(argc, argv, &i, 65536)) > 0)
            continue;
        else if (strcmp(name, "--runs") == 0 && (o->runs = take_number(argc, argv, &i, RUNS_MOST)))
            continue;
        else
            return false;
    }
    return !(o->empty && o->json);
}

int main(int argc, char **argv) {
    struct options o;
    struct gpu_device device = {.name = ""};
    if (!take_options(argc, argv, &o)) {
        fputs("usage: gpu [--json] [--mib N] [--runs N] [--only TEXT] [--empty]\n", stderr);
        return 2;
    }
    const char *const none = o.empty ? NULL : gpu_open(&device);
    if (none) {
        fprintf(stderr, "gpu: no CUDA device: %s\n", none);
        return NO_DEVICE;
    }
    if (!o.empty) print_device(&device, o.json);
    if (!o.json) print_head();
    bool good = run_size(&o, &device, o.mib ? (unsigned)o.mib : LARGE);
    if (!o.mib) good &= run_size(&o, &device, SMALL);
    if (o.json) puts("\n  ]}");
    return good ? 0 : 1;
}
