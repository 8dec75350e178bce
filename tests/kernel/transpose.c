/* transpose.c - columns put together, and their codes put into rows, against scalar C.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = 1 << 18 };

struct shape {
    struct pithi_group_setting set;
    size_t rows, columns, stride, to_stride, width;
    size_t place[2];
};

static struct guarded area[2];
static uint8_t *from, *to;

bool bound_transpose(const struct level *level) {
    return level->kernels.transpose_values != pithi_transpose_values_c &&
           level->kernels.transpose_codes != pithi_transpose_codes_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin("transpose %s %s: %zu x %zu, stride %zu to %zu, %zu bytes, %u bits, places %zu %zu",
                level->isa, what, s->rows, s->columns, s->stride, s->to_stride, s->width,
                s->set.bits, s->place[0], s->place[1]);
}

/* Bytes from the first of so many rows to the end of the last. */
static size_t span(size_t rows, size_t stride, size_t row) {
    return rows && row ? (rows - 1) * stride + row : 0;
}

/* Expects the same bytes, and none beside them. */
static void expect(const uint8_t *got, size_t bytes) {
    check_that(!bytes || memcmp(got, to, bytes) == 0, "bytes differ");
    for (int k = 0; k < 2; k++)
        check_that(guarded_intact(&area[k]), "something beside a buffer was written");
    check_end();
}

static void check_values(const struct level *level, const struct shape *s) {
    const size_t in = span(s->rows, s->stride * s->width, s->columns * s->width);
    const size_t bytes = span(s->columns, s->to_stride * s->width, s->rows * s->width);
    begin(level, "values", s);
    memset(to, 0x5A, bytes); /* between columns nothing is written */
    const uint8_t *const value = guarded_place(&area[0], s->place[0], from, in);
    uint8_t *const got = guarded_place(&area[1], s->place[1], to, bytes);
    pithi_transpose_values_c(from, (int64_t)s->stride, s->rows, s->columns, to, s->to_stride,
                             s->width);
    level->kernels.transpose_values(value, (int64_t)s->stride, s->rows, s->columns, got,
                                    s->to_stride, s->width);
    expect(got, bytes);
}

static void check_codes(const struct level *level, const struct shape *s) {
    const size_t in = s->columns * pithi_group_code_bytes(&s->set, s->rows);
    const size_t row = pithi_group_code_bytes(&s->set, s->columns);
    const size_t stride = row + s->to_stride - s->rows, bytes = span(s->rows, stride, row);
    begin(level, "codes", s);
    memset(to, 0x5A, bytes);
    const uint8_t *const codes = guarded_place(&area[0], s->place[0], from, in);
    uint8_t *const got = guarded_place(&area[1], s->place[1], to, bytes);
    pithi_transpose_codes_c(&s->set, from, s->rows, s->columns, to, stride);
    level->kernels.transpose_codes(&s->set, codes, s->rows, s->columns, got, stride);
    expect(got, bytes);
}

static bool open_memory(const struct level *level) {
    from = malloc(CAPACITY), to = malloc(CAPACITY);
    check_begin("transpose %s: memory", level->isa);
    check_that(from && to, "malloc failed");
    check_end();
    for (size_t i = 0; from && i < CAPACITY; i++) from[i] = (uint8_t)check_random();
    return from && to;
}

void check_transpose(const struct level *level) {
    const bool good = open_memory(level);
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY + 8192);
    for (size_t c = 0; good && c < 3000; c += check_step()) {
        struct shape s = {
            .set = {.bits = (uint8_t)(2 + check_below(7)), .asymmetric = check_below(2)},
            .rows = check_below(2) ? check_below(150) : 16u << check_below(5),
            .columns = check_below(2) ? check_below(140) : 64,
            .width = check_below(2) ? 4 : 2};
        s.stride = s.columns + check_below(2) * check_below(60);
        s.to_stride = s.rows + check_below(2) * check_below(40);
        for (int k = 0; k < 2; k++)
            s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
        check_values(level, &s);
        check_codes(level, &s);
    }
    free(from), free(to);
}

/* ---- Speed -----------------------------------------------------------------------------------*/

enum { ROWS = 128, COLUMNS = 64, ROW = 1024, BITS = 4, TIMES = 200, RUNS = 11 };

static double run(const struct pithi_kernels *k, size_t width, int times) {
    const struct pithi_group_setting set = {.bits = BITS, .asymmetric = true};
    const double start = roofline_clock();
    for (int i = 0; i < times; i++)
        if (width)
            k->transpose_values(from, ROW / 4, ROWS, COLUMNS, to, ROWS, width);
        else
            k->transpose_codes(&set, from, ROWS, COLUMNS, to, ROW * BITS / 8);
    return (roofline_clock() - start) / times;
}

static double least_of(const struct pithi_kernels *k, size_t width, int times) {
    double least = run(k, width, times);
    for (int i = 1; i < RUNS; i++) {
        const double t = run(k, width, times);
        least = t < least ? t : least;
    }
    return least;
}

void bench_transpose(const struct level *level) {
    static const char *const names[] = {"codes of 4 bits", "values of 16 bits",
                                        "values of 32 bits"};
    struct pithi_kernels scalar;
    pithi_kernels_bind(&scalar, 0);
    from = calloc(1, CAPACITY), to = calloc(1, CAPACITY);
    for (size_t k = 0; from && to && k < 3; k++) {
        if (!strstr("transpose", bench_only)) continue;
        const double kernel = least_of(&level->kernels, 2 * k, TIMES);
        const double reference = least_of(&scalar, 2 * k, TIMES / 10);
        printf("transpose %-7s %-18s %d x %d  %.3f ns a value x%5.1f\n", level->isa, names[k], ROWS,
               COLUMNS, kernel * 1e9 / (ROWS * COLUMNS), reference / kernel);
    }
    free(from), free(to);
}
