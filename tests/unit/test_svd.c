/* test_svd.c - factors are orthonormal and give the matrix back; bad arguments change nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "pith/pith_svd.h"
#include "util.h"

struct svd {
    size_t rows, columns, rank;
    float *w, *u, *s, *vt;
};

static void open_svd(struct svd *d, size_t rows, size_t columns) {
    *d = (struct svd){.rows = rows, .columns = columns, .rank = rows < columns ? rows : columns};
    d->w = allocate(rows * columns * sizeof(float));
    d->u = allocate(rows * d->rank * sizeof(float));
    d->s = allocate(d->rank * sizeof(float));
    d->vt = allocate(d->rank * columns * sizeof(float));
}

static void close_svd(struct svd *d) {
    free(d->w);
    free(d->u);
    free(d->s);
    free(d->vt);
}

static pith_status solve(const struct svd *d) {
    return pith_svd_thin(d->rows, d->columns, d->w, d->u, d->s, d->vt);
}

static void fill(struct svd *d, float step) {
    uint32_t seed = 1;
    for (size_t i = 0; i < d->rows * d->columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        d->w[i] = ((float)(seed >> 8) * 0x1p-24f - 0.5f) * step;
    }
}

/* The inner product of two vectors whose elements lie `stride` apart. */
static double dot(const float *a, const float *b, size_t count, size_t stride) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)a[i * stride] * (double)b[i * stride];
    return sum;
}

static void check_orthonormal(const struct svd *d) {
    for (size_t i = 0; i < d->rank; i++)
        for (size_t j = 0; j <= i; j++) {
            const double one = i == j ? 1 : 0;
            CHECK(fabs(dot(d->u + i, d->u + j, d->rows, d->rank) - one) < 1e-5);
            const float *const a = d->vt + i * d->columns, *const b = d->vt + j * d->columns;
            CHECK(fabs(dot(a, b, d->columns, 1) - one) < 1e-5);
        }
}

static void check_product(const struct svd *d) {
    for (size_t y = 0; y < d->rows; y++)
        for (size_t x = 0; x < d->columns; x++) {
            double sum = 0;
            for (size_t k = 0; k < d->rank; k++)
                sum += (double)d->u[y * d->rank + k] * (double)d->s[k] *
                       (double)d->vt[k * d->columns + x];
            CHECK(fabs(sum - (double)d->w[y * d->columns + x]) <= 1e-6 * (double)d->s[0]);
        }
}

static void check(const struct svd *d) {
    CHECK_STATUS(PITH_OK, solve(d));
    for (size_t k = 0; k < d->rank; k++) {
        CHECK(d->s[k] >= 0);
        CHECK(k == 0 || d->s[k] <= d->s[k - 1]);
    }
    check_orthonormal(d);
    check_product(d);
}

static void factors(void **state) {
    static const size_t shapes[][2] = {{1, 1}, {1, 7}, {7, 1}, {5, 5}, {192, 128}, {48, 80}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct svd d;
        open_svd(&d, shapes[i][0], shapes[i][1]);
        fill(&d, 1);
        check(&d);
        fill(&d, 0x1p-40f);
        check(&d);
        close_svd(&d);
    }
}

/* Vectors of a singular value 0 are orthonormal as well: U must keep what W does not show. */
static void low_rank(void **state) {
    struct svd d;
    (void)state;
    open_svd(&d, 24, 16);
    memset(d.w, 0, 24 * 16 * sizeof(float));
    check(&d);
    CHECK(d.s[0] == 0);
    for (size_t y = 0; y < 24; y++)
        for (size_t x = 0; x < 16; x++) d.w[y * 16 + x] = (float)((y + 1) * (x + 2));
    check(&d);
    CHECK(d.s[1] < 1e-5f * d.s[0]);
    close_svd(&d);
}

static void known(void **state) {
    float w[] = {0, 3, 0, -2, 0, 0}, u[4], s[2], vt[6];
    (void)state;
    CHECK_STATUS(PITH_OK, pith_svd_thin(2, 3, w, u, s, vt));
    CHECK(fabsf(s[0] - 3) < 1e-6f && fabsf(s[1] - 2) < 1e-6f);
    CHECK(fabsf(fabsf(u[0]) - 1) < 1e-6f && fabsf(u[1]) < 1e-6f);
    CHECK(fabsf(fabsf(vt[1]) - 1) < 1e-6f && fabsf(vt[2]) < 1e-6f);
}

static void refused(void **state) {
    struct svd d;
    (void)state;
    open_svd(&d, 4, 3);
    fill(&d, 1);
    d.u[0] = d.s[0] = d.vt[0] = 7;
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(0, 3, d.w, d.u, d.s, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(4, 0, d.w, d.u, d.s, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin((1 << 24) + 1, 3, d.w, d.u, d.s, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(4, UINT64_MAX, d.w, d.u, d.s, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(4, 3, NULL, d.u, d.s, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(4, 3, d.w, NULL, d.s, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(4, 3, d.w, d.u, NULL, d.vt));
    CHECK_STATUS(PITH_ERR_ARG, pith_svd_thin(4, 3, d.w, d.u, d.s, NULL));
    /* LAPACK would count its memory past 2^31, and no value is looked at. */
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_svd_thin(1 << 15, 1 << 15, d.w, d.u, d.s, d.vt));
    d.w[11] = NAN;
    CHECK_STATUS(PITH_ERR_ARG, solve(&d));
    d.w[11] = INFINITY;
    CHECK_STATUS(PITH_ERR_ARG, solve(&d));
    for (size_t i = 0; i < 12; i++) d.w[i] = 0x1.8p127f;
    CHECK_STATUS(PITH_ERR_ARG, solve(&d));
    CHECK(d.u[0] == 7 && d.s[0] == 7 && d.vt[0] == 7);
    close_svd(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors),
        cmocka_unit_test(low_rank),
        cmocka_unit_test(known),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
