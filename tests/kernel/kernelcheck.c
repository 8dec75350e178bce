/* kernelcheck.c - every kernel against the scalar reference, byte for byte; --bench times them.
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

/* ---- Kernels by the file they stand in, checked at each level that has such a file -----------*/

struct check {
    const char *name, *file;
    const char *missing; /* the level whose file has no such kernel, or "none" */
    bool (*bound)(const struct level *);
    void (*check)(const struct level *), (*bench)(const struct level *);
};

#define PITH_CHECK(name, source, file, missing) \
    {#name, #file, #missing, bound_##name, check_##name, bench_##name},
static const struct check checks[] = {
#include "kernels.def"
};
enum { CHECKS = sizeof checks / sizeof *checks };

struct row {
    const char *file, *isa;
    uint32_t cpu;
};

#define CPU_avx2 PITH_CPU_AVX2
#define CPU_avx512 (PITH_CPU_AVX2 | PITH_CPU_AVX512)
#define CPU_neon PITH_CPU_NEON
#define PITH_CODEC(id, name)
#define PITH_KERNEL(folder, name, isa) {#name, #isa, CPU_##isa},
static const struct row rows[] = {
#include "registry.def"
};
#undef PITH_KERNEL
#undef PITH_CODEC
enum { ROWS = sizeof rows / sizeof *rows };

static bool runs_here(const struct row *row) {
    return (pith_cpu_features() & row->cpu) == row->cpu;
}

static bool in_file(const struct check *check, const struct row *row) {
    return strcmp(check->file, row->file) == 0 && strcmp(check->missing, row->isa) != 0;
}

static void list_rows(void) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < CHECKS; k++)
            if (in_file(&checks[k], &rows[i]))
                printf("%s %s%s\n", checks[k].name, rows[i].isa,
                       runs_here(&rows[i]) ? "" : " (not here)");
}

/* How many rounds of random cases there are; one where PITH_TEST_STEP asks for a sample. */
static int rounds;

static void run_check(const struct check *check, const struct level *level, bool bench) {
    const unsigned long before = passed + failed;
    check_begin("%s %s", check->name, level->isa);
    check_that(check->bound(level), "the kernel is not bound");
    check_end();
    if (bench)
        check->bench(level);
    else
        for (int round = 0; round < rounds; round++) check->check(level);
    if (!bench)
        printf("%-12s %-7s %8lu cases\n", check->name, level->isa, passed + failed - before);
    fflush(stdout);
}

static void run_row(const struct row *row, bool bench) {
    struct level level = {.isa = row->isa, .cpu = row->cpu};
    pithi_kernels_bind(&level.kernels, row->cpu);
    size_t found = 0;
    for (size_t i = 0; i < CHECKS; i++) {
        if (!in_file(&checks[i], row)) continue;
        run_check(&checks[i], &level, bench);
        found++;
    }
    check_begin("%s %s", row->file, row->isa);
    check_that(found, "no check is of this file");
    check_end();
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
    rounds = getenv("PITH_TEST_STEP") ? 1 : 3;
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
