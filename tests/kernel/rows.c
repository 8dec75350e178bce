/* rows.c - rows of codes numbered: lengths around vectors, in place and elsewhere, few and many of
 * them repeats.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "predict/rows.h"
#include "roofline.h"

enum { CODES = 32768, ROWS = 2048, CALL = 128 };

static struct guarded numbers, distinct;
static _Alignas(64) int32_t codes[CODES];
static uint32_t table[8192], which[2][ROWS];
static _Alignas(64) int32_t kept[2][CODES];

bool bound_rows(const struct level *level) {
    return level->kernels.rows_number != pithi_rows_number_c;
}

/* Rows of so many kinds; a kind differs from the one before in one code. */
static void draw(size_t rows, size_t dim, size_t kinds, uint32_t range) {
    for (size_t i = 0; i < rows; i++) {
        const size_t kind = check_below(kinds);
        for (size_t j = 0; j < dim; j++) codes[i * dim + j] = (int32_t)(j * j % range);
        codes[i * dim + kind % dim] = (int32_t)((uint32_t)kind * range);
    }
}

/* Numbers rows in calls of up to CALL, as codec embed does: each call finds its own right behind
 * the distinct ones, or elsewhere. Returns how many are distinct. */
static size_t number(pithi_rows_number_fn *run, size_t rows, size_t dim, bool in_place, int32_t *to,
                     uint32_t *numbers_to) {
    struct pithi_rows r;
    pithi_rows_begin(&r, dim, rows, to, table);
    for (size_t at = 0, n; at < rows; at += n) {
        n = rows - at < CALL ? rows - at : CALL;
        const int32_t *from = codes + at * dim;
        if (in_place) from = memcpy(to + r.distinct * dim, from, n * dim * sizeof *from);
        run(&r, from, n, numbers_to + at);
    }
    return r.distinct;
}

static void check_one(const struct level *level, size_t rows, size_t dim, size_t kinds) {
    const bool in_place = check_below(2);
    const uint32_t range = check_below(4) ? 3 : UINT32_MAX;
    const size_t place = check_below(3) ? 4 * check_below(PLACE_COUNT / 4) : PLACE_END;
    check_begin("rows %s: %zu of %zu codes, %zu kinds, %s", level->isa, rows, dim, kinds,
                in_place ? "in place" : "elsewhere");
    draw(rows, dim, kinds, range);
    memset(kept[0], 0, sizeof kept[0]);
    const size_t wanted = number(pithi_rows_number_c, rows, dim, in_place, kept[0], which[0]);
    int32_t *const to =
        (int32_t *)(void *)guarded_place(&distinct, place, kept[1], rows * dim * sizeof *codes);
    uint32_t *const is =
        (uint32_t *)(void *)guarded_place(&numbers, place, which[1], rows * sizeof *which[1]);
    const size_t found = number(level->kernels.rows_number, rows, dim, in_place, to, is);
    check_that(found == wanted, "the distinct rows are not as many");
    check_that(same(is, which[0], rows * sizeof *is), "a number differs");
    check_that(same(to, kept[0], wanted * dim * sizeof *to), "a distinct row differs");
    check_that(guarded_intact(&distinct) && guarded_intact(&numbers), "a byte outside changed");
    check_end();
}

void check_rows(const struct level *level) {
    static const size_t dims[] = {1, 3, 15, 16, 17, 32, 48, 64, 80, 256, 1024};
    if (!numbers.pages) numbers = guarded_new(sizeof which[0] + 4096);
    if (!distinct.pages) distinct = guarded_new(sizeof codes + 4096);
    for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) {
        const size_t most = CODES / dims[k] < ROWS ? CODES / dims[k] : ROWS;
        for (size_t rows = 1; rows < 36 && rows <= most; rows++)
            check_one(level, rows, dims[k], 1 + check_below(rows));
        for (size_t n = 0; n < 20; n++)
            check_one(level, most - check_below(most / 2), dims[k], 1 + check_below(2 * most));
    }
}

void bench_rows(const struct level *level) {
    for (size_t dim = 16; dim <= 64; dim *= 2) {
        const size_t rows = CODES / dim;
        double best[2] = {1e9, 1e9};
        draw(rows, dim, rows / 4, 1000);
        for (int run = 0; run < 40; run++)
            for (int k = 0; k < 2; k++) {
                double t = roofline_clock();
                number(k ? level->kernels.rows_number : pithi_rows_number_c, rows, dim, false,
                       kept[k], which[k]);
                t = roofline_clock() - t;
                if (t < best[k]) best[k] = t;
            }
        printf("rows %-7s %3zu columns %6.2f GB/s x%4.1f\n", level->isa, dim,
               CODES * 4e-9 / best[1], best[0] / best[1]);
    }
}
