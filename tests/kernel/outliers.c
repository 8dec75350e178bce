/* outliers.c - outliers of columns against their scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "group/outliers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "group/outliers_value.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = 1 << 19 };

struct shape {
    struct pithi_group_setting set;
    uint32_t dtype;
    size_t rows, columns, stride, apart, others_stride, others_apart, most;
    enum fill fill;
    bool outlying, alike, in_place;
    size_t place[4];
};

enum { VALUE, OTHERS, PLACES, EXACT, AREAS };
static struct guarded area[AREAS];
static uint8_t *memory[AREAS];

bool bound_outliers(const struct level *level) {
    return level->kernels.outliers_take != pithi_outliers_columns_c;
}

/* Elements from the first to the last. */
static size_t span(const struct shape *s, size_t stride, size_t apart) {
    return (s->rows - 1) * stride + (s->columns - 1) * apart + 1;
}

static void begin(const struct level *level, const struct shape *s) {
    check_begin(
        "outliers %s: %zu of %zu x %zu, stride %zu, %zu to %zu, %zu, dtype %u, %s %u bits, "
        "codebook "
        "%u, scale %u, values %s, outlying %d, alike %d, places %zu %zu %zu %zu",
        level->isa, s->most, s->rows, s->columns, s->stride, s->apart, s->others_stride,
        s->others_apart, s->dtype, s->set.asymmetric ? "asymmetric" : "symmetric", s->set.bits,
        s->set.codebook, s->set.scale_dtype, fill_names[s->fill], s->outlying, s->alike,
        s->place[0], s->place[1], s->place[2], s->place[3]);
}

/* Values of few magnitudes are those that a decoded group has. */
static void make_values(const struct shape *s) {
    const size_t count = span(s, s->stride, s->apart), size = width(s->dtype);
    uint8_t some[16 * 4];
    fill_values(memory[VALUE], s->dtype, count, s->fill, 7);
    fill_values(some, s->dtype, 16, s->fill, 7);
    for (size_t i = 0; s->alike && i < count; i++)
        memcpy(memory[VALUE] + i * size, some + check_below(16) * size, size);
    for (size_t n = s->outlying ? count / 100 : 0; n; n--)
        fill_values(memory[VALUE] + check_below(count) * size, s->dtype, 1,
                    (enum fill)check_below(FILL_COUNT), 7);
}

static void check_one(const struct level *level, const struct shape *s) {
    const size_t size = width(s->dtype),
                 bytes[AREAS] = {span(s, s->stride, s->apart) * size,
                                 span(s, s->others_stride, s->others_apart) * size,
                                 s->columns * s->most, s->columns * s->most * size};
    struct pithi_outliers_job job = {.set = &s->set,
                                     .value = memory[VALUE],
                                     .dtype = s->dtype,
                                     .stride = (int64_t)s->stride,
                                     .apart = s->apart,
                                     .rows = s->rows,
                                     .columns = s->columns,
                                     .most = s->most,
                                     .others = memory[OTHERS],
                                     .others_stride = s->others_stride,
                                     .others_apart = s->others_apart,
                                     .places = memory[PLACES],
                                     .exact = memory[EXACT]};
    begin(level, s);
    make_values(s);
    for (int k = OTHERS; k < AREAS; k++) memset(memory[k], 0x5A, bytes[k]);
    if (s->in_place) memcpy(memory[OTHERS], memory[VALUE], bytes[OTHERS]);
    for (int k = VALUE; k < AREAS; k++) guarded_place(&area[k], s->place[k], memory[k], bytes[k]);
    const struct host_fp host = host_fp_enter();
    if (s->in_place) job.value = job.others;
    pithi_outliers_columns_c(&job);
    job.others = area[OTHERS].p;
    job.value = s->in_place ? job.others : area[VALUE].p;
    job.places = area[PLACES].p;
    job.exact = area[EXACT].p;
    level->kernels.outliers_take(&job);
    host_fp_leave(host);
    static const char *const differ[AREAS] = {"values were written", "others differ",
                                              "places differ", "exact values differ"};
    for (int k = 0; k < AREAS; k++) {
        check_that(memcmp(area[k].p, memory[k], bytes[k]) == 0, differ[k]);
        check_that(guarded_intact(&area[k]), "something beside a buffer was written");
    }
    check_end();
}

/* Groups that lie together, most of them of whole vectors. */
static void together(struct shape *s) {
    if (check_below(4)) s->rows = (s->rows + 15) / 16 * 16;
    s->stride = s->others_stride = 1;
    s->apart = s->rows + check_below(2) * check_below(40);
    s->in_place = check_below(2);
    s->others_apart = s->in_place ? s->apart : s->rows + check_below(2) * check_below(40);
}

static void random_shape(struct shape *s) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    s->set.asymmetric = check_below(3) == 0;
    s->set.idempotent = true;
    s->set.codebook = s->set.asymmetric ? 0 : (uint8_t)check_below(4);
    s->set.bits = (uint8_t)(s->set.codebook ? 2 + check_below(3) : 2 + check_below(7));
    s->set.scale_dtype = (uint8_t)dtypes[check_below(3)];
    s->set.group = 16u << check_below(5);
    s->dtype = dtypes[check_below(3)];
    s->rows = check_below(4) ? 1 + check_below(s->set.group) : s->set.group;
    s->columns = 1 + check_below(check_below(2) ? 20 : 200);
    if (check_below(2)) s->columns = 64 * (1 + check_below(3));
    s->stride = s->columns + (check_below(2) ? 0 : check_below(200));
    s->others_stride = s->columns + (check_below(2) ? 0 : check_below(70));
    s->apart = s->others_apart = 1;
    s->most = check_below(2) ? 1 : 1 + check_below(s->set.group / 8);
    s->fill = check_below(2) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s->outlying = check_below(4) == 0;
    s->alike = check_below(4) == 0;
    for (int k = 0; k < AREAS; k++)
        s->place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
}

void check_outliers(const struct level *level) {
    bool good = true;
    for (int k = 0; k < AREAS; k++) {
        good = (memory[k] = malloc(CAPACITY)) != NULL && good;
        if (!area[k].pages) area[k] = guarded_new(CAPACITY + 8192);
    }
    check_begin("outliers %s: memory", level->isa);
    check_that(good, "malloc failed");
    check_end();
    for (size_t c = 0; good && c < 1500; c += check_step()) {
        struct shape s = {.rows = 0};
        random_shape(&s);
        check_one(level, &s);
        together(&s);
        check_one(level, &s);
    }
    for (int k = 0; k < AREAS; k++) free(memory[k]);
}

/* ---- Speed -----------------------------------------------------------------------------------*/

enum { ROW = 1024, GROUP = 128, TIMES = 200, RUNS = 11 };

static double run(const struct pithi_kernels *k, struct pithi_outliers_job *job, int times) {
    const double start = roofline_clock();
    for (int i = 0; i < times; i++) k->outliers_take(job);
    return (roofline_clock() - start) / times;
}

static void bench_one(const struct level *level, const char *name, uint32_t dtype, size_t most) {
    const struct pithi_group_setting set = {
        .bits = 4, .group = GROUP, .scale_dtype = PITH_F16, .codebook = PITHI_CODEBOOK_NF};
    struct pithi_outliers_job job = {.set = &set,
                                     .value = memory[VALUE],
                                     .dtype = dtype,
                                     .stride = ROW,
                                     .apart = 1,
                                     .rows = GROUP,
                                     .columns = ROW,
                                     .most = most,
                                     .others = memory[OTHERS],
                                     .others_stride = ROW,
                                     .others_apart = 1,
                                     .places = memory[PLACES],
                                     .exact = memory[EXACT]};
    struct pithi_kernels scalar;
    double kernel[RUNS];
    pithi_kernels_bind(&scalar, 0);
    fill_values(memory[VALUE], dtype, (size_t)ROW * GROUP, FILL_GAUSS, 7);
    for (int i = 0; i < RUNS; i++) kernel[i] = run(&level->kernels, &job, TIMES);
    const double kernel_median = median(kernel, RUNS);
    const double gb = (double)ROW * GROUP * (double)width(dtype) * 1e-9;
    const double reference = run(&scalar, &job, 4);
    printf("%-7s %-34s group %5u  scalar %5.2f  kernel %6.2f GB/s  x%5.1f\n", level->isa, name,
           GROUP, gb / reference, gb / kernel_median, reference / kernel_median);
    fflush(stdout);
}

void bench_outliers(const struct level *level) {
    static const struct {
        const char *name;
        uint32_t dtype;
        size_t most;
    } rows[] = {{"1 outlier of a column, f32", PITH_F32, 1},
                {"1 outlier of a column, f16", PITH_F16, 1},
                {"6 outliers of a column, f16", PITH_F16, 6}};
    bool good = true;
    for (int k = 0; k < AREAS; k++)
        good = (memory[k] = malloc((size_t)ROW * GROUP * 4)) != NULL && good;
    for (size_t i = 0; good && i < sizeof rows / sizeof *rows; i++)
        if (strstr(rows[i].name, bench_only))
            bench_one(level, rows[i].name, rows[i].dtype, rows[i].most);
    for (int k = 0; k < AREAS; k++) free(memory[k]);
}
