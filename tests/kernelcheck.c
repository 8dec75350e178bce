/* kernelcheck.c - every kernel against the scalar text, byte for byte; --bench times them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernelcheck.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"

/* ---- Results ---------------------------------------------------------------------------------*/

static char current[512];
static bool current_failed;
static unsigned long passed, failed;

void check_begin(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(current, sizeof current, format, args);
    va_end(args);
    current_failed = false;
}

void check_that(bool ok, const char *what) {
    if (ok || current_failed) return;
    current_failed = true;
    if (failed < 20) printf("FAIL %s: %s\n", current, what);
}

void check_end(void) {
    if (current_failed)
        failed++;
    else
        passed++;
}

/* Only calls that are safe in a handler. */
static void on_crash(int number) {
    const char *name = number == SIGILL ? "SIGILL" : number == SIGBUS ? "SIGBUS" : "SIGSEGV";
    const char *const parts[] = {"CRASH ", name, " in ", current, "\n"};
    for (size_t i = 0; i < 5; i++)
        if (write(STDOUT_FILENO, parts[i], strlen(parts[i])) < 0) break;
    _exit(1);
}

static void catch_crashes(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
}

/* ---- Rows of the registry --------------------------------------------------------------------*/

struct row {
    const char *stage, *isa;
    uint32_t cpu;
    bool (*bound)(const struct level *);
    void (*check)(const struct level *), (*bench)(const struct level *);
};

#define CPU_avx2 PITH_CPU_AVX2
#define CPU_avx512 (PITH_CPU_AVX2 | PITH_CPU_AVX512)
#define CPU_neon PITH_CPU_NEON
#define PITH_CODEC(id, name, device)
#define PITH_KERNEL(stage, isa) \
    {#stage, #isa, CPU_##isa, bound_##stage, check_##stage, bench_##stage},
static const struct row rows[] = {
#include "registry.def"
};
#undef PITH_KERNEL
#undef PITH_CODEC
enum { ROWS = sizeof rows / sizeof *rows };
static int rounds = 3;

static bool runs_here(const struct row *row) {
    return (pith_cpu_features() & row->cpu) == row->cpu;
}

static void list_rows(void) {
    for (size_t i = 0; i < ROWS; i++)
        printf("%s %s%s\n", rows[i].stage, rows[i].isa, runs_here(&rows[i]) ? "" : " (not here)");
}

static void run_row(const struct row *row, bool bench) {
    struct level level = {.isa = row->isa, .cpu = row->cpu};
    pithi_kernels_bind(&level.kernels, row->cpu);
    const unsigned long before = passed + failed;
    check_begin("%s %s", row->stage, row->isa);
    check_that(row->bound(&level), "the kernel is not bound");
    check_end();
    if (bench)
        row->bench(&level);
    else
        for (int round = 0; round < rounds; round++) row->check(&level);
    if (!bench) printf("%-6s %-7s %8lu cases\n", row->stage, row->isa, passed + failed - before);
    fflush(stdout);
}

const char *bench_only = "";

static int usage(void) {
    fputs(
        "usage: kernelcheck [--list] [--bench] [--isa NAME] [--only TEXT] [--seed N]\n"
        "                   [--rounds N]\n",
        stderr);
    return 2;
}

int main(int argc, char **argv) {
    uint64_t seed = 1;
    const char *isa = NULL;
    bool bench = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) return list_rows(), 0;
        if (strcmp(argv[i], "--bench") == 0)
            bench = true;
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            isa = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            bench_only = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            return usage();
    }
    printf("seed %llu\n", (unsigned long long)seed);
    check_seed(seed);
    catch_crashes();
    for (size_t i = 0; i < ROWS; i++)
        if (runs_here(&rows[i]) && (!isa || strcmp(isa, rows[i].isa) == 0))
            run_row(&rows[i], bench);
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
