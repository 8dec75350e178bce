/* test_select.c - selection by magnitude, histograms, moments and lists of sets, by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "sparse/select.h"
#include "util.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

/* From the least magnitude to the greatest, and both signs of zero at the beginning. */
static const uint32_t ascending[] = {0x80000000u, 0x00000000u, 0x80000001u, 0x007FFFFFu,
                                     0x00800000u, 0x3F800000u, 0x7F7FFFFFu, 0xFF800000u,
                                     0x7F800001u, 0xFFFFFFFFu, 0x7FC00000u};
enum { ASCENDING = LENGTH(ascending), NANS = 3 };

static void thresholds(void **state) {
    (void)state;
    struct pithi_select_job job = {.from = {ascending, PITH_F32, ASCENDING, NULL}};
    uint64_t set[2] = {0, 7};
    const struct {
        uint32_t threshold;
        size_t chosen; /* the last so many */
    } rows[] = {
        {0, ASCENDING},   {1, ASCENDING - 2},        {0x007FFFFFu, 8},    {0x3F800000u, 6},
        {0x3F800001u, 5}, {PITHI_F32_INF, NANS + 1}, {0x7F800001u, NANS}, {0x7F800002u, 0},
        {0x7FC00000u, 0}, {0x80000000u, 0},          {UINT32_MAX, 0},
    };
    job.set = set;
    for (size_t k = 0; k < LENGTH(rows); k++) {
        context("threshold %08x", rows[k].threshold);
        job.threshold = rows[k].threshold;
        set[0] = UINT64_MAX;
        CHECK(pithi_select_c(&job) == rows[k].chosen);
        const uint64_t all = (UINT64_C(1) << ASCENDING) - 1;
        CHECK(set[0] == (all & ~(all >> rows[k].chosen)));
        CHECK(set[1] == 7);
    }
}

/* What goes on: the sum, or the residual where the sum is infinite or NaN. */
static void residuals(void **state) {
    (void)state;
    const uint16_t value[] = {0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0x0000, 0x8000};
    const float residual[] = {0.5f, 1.0f, FLT_MAX, -3.0f, INFINITY, 2.0f, -0.0f, -0.0f};
    const float after[] = {1.5f, 0.0f, FLT_MAX, -3.0f, INFINITY, 2.0f, 0.0f, -0.0f};
    float got[8];
    uint64_t set;
    struct pithi_select_job job = {.from = {value, PITH_BF16, 8, residual},
                                   .threshold = PITHI_F32_INF,
                                   .set = &set,
                                   .after = got};
    context("sums in bf16");
    CHECK(pithi_select_c(&job) == 4);
    CHECK(set == 0x3C);
    CHECK(memcmp(got, after, sizeof got) == 0);
    job.threshold = 0x3FC00000u; /* 1.5 */
    CHECK(pithi_select_c(&job) == 5);
    CHECK(set == 0x3D);
    /* What is sent leaves 0, but what is not finite the residual as it was. */
    const float rest[] = {0.0f, 0.0f, FLT_MAX, -3.0f, INFINITY, 2.0f, 0.0f, -0.0f};
    job.sent = true;
    CHECK(pithi_select_c(&job) == 5);
    CHECK(set == 0x3D);
    CHECK(memcmp(got, rest, sizeof got) == 0);
    /* A sum is rounded to nearest even, and to subnormal numbers as well. */
    const float small[] = {0x1p-149f, 0x1p-126f, 1.0f, 1.0f};
    const float more[] = {0x1p-149f, -0x1p-149f, 0x1p-24f, 0x1.8p-23f};
    const float sums[] = {0x1p-148f, 0x1.fffffcp-127f, 1.0f, 0x1.000004p+0f};
    struct pithi_select_job f32 = {
        .from = {small, PITH_F32, 4, more}, .threshold = 3, .set = &set, .after = got};
    context("sums in f32");
    CHECK(pithi_select_c(&f32) == 3);
    CHECK(set == 0xE);
    CHECK(memcmp(got, sums, sizeof sums) == 0);
}

static void several_words(void **state) {
    (void)state;
    for (size_t count = 0; count <= 200; count++) {
        uint16_t *const value = allocate(count * sizeof *value);
        uint64_t *const set = allocate((count + 63) / 64 * 8);
        struct pithi_select_job job = {
            .from = {value, PITH_F16, count, NULL}, .threshold = bits_of(0x1p-24f), .set = set};
        size_t wanted = 0;
        context("%zu elements", count);
        for (size_t i = 0; i < count; i++) wanted += value[i] = draw() & 1; /* 0 or 2^-24 */
        CHECK(pithi_select_c(&job) == wanted);
        for (size_t i = 0; i < (count + 63) / 64 * 64; i++)
            CHECK((set[i / 64] >> i % 64 & 1) == (i < count && value[i]));
        free(value);
        free(set);
    }
}

static void histograms(void **state) {
    (void)state;
    uint32_t bins[4] = {10, 20, 30, 40};
    struct pithi_histogram_job job = {.from = {ascending, PITH_F32, ASCENDING, NULL},
                                      .low = 1,
                                      .high = PITHI_F32_INF,
                                      .shift = 29,
                                      .bins = bins};
    context("all finite values but 0");
    CHECK(pithi_histogram_c(&job) == NANS + 1);
    CHECK(bins[0] == 13 && bins[1] == 21 && bins[2] == 30 && bins[3] == 41);
    memset(bins, 0, sizeof bins);
    job.low = 0x7FFFFE, job.high = 0x800000, job.shift = 0;
    context("a bin for each magnitude");
    CHECK(pithi_histogram_c(&job) == 7);
    CHECK(bins[0] == 0 && bins[1] == 1 && bins[2] == 0 && bins[3] == 0);
    job.low = PITHI_F32_INF, job.high = UINT32_MAX, job.shift = 0;
    context("infinities and NaNs");
    CHECK(pithi_histogram_c(&job) == 0);
    CHECK(bins[0] == 1 && bins[1] == 1 + NANS);
    job.low = job.high = 0;
    context("no bins");
    CHECK(pithi_histogram_c(&job) == ASCENDING);
}

/* The lanes first, first + step, ... as the header has them. */
static double tree(const double *lane, int first, int step) {
    if (step == 16) return lane[first];
    return tree(lane, first, 2 * step) + tree(lane, first + step, 2 * step);
}

/* Values of many magnitudes, so that sums in another order differ. */
static void moments_in_order(void **state) {
    (void)state;
    static float value[PITHI_MOMENTS_CHUNK];
    for (size_t count = 0; count <= PITHI_MOMENTS_CHUNK; count += 1 + count / 3) {
        double sum[16] = {0}, squares[16] = {0}, magnitudes[16] = {0};
        struct pithi_moments m;
        uint64_t finite = 0;
        uint32_t largest = 0;
        context("%zu values", count);
        for (size_t i = 0; i < count; i++) {
            value[i] = float_of((uint32_t)draw());
            if (i % 2) value[i] = (float)ldexp(1 + (double)(draw() % 1024), (int)(draw() % 80));
            if (!isfinite(value[i])) continue;
            sum[i % 16] += (double)value[i];
            squares[i % 16] += (double)value[i] * (double)value[i];
            magnitudes[i % 16] += fabs((double)value[i]);
            finite++;
            if (bits_of(fabsf(value[i])) > largest) largest = bits_of(fabsf(value[i]));
        }
        pithi_moments_c(&(struct pithi_select_values){value, PITH_F32, count, NULL}, &m);
        CHECK(m.sum == tree(sum, 0, 1) && m.squares == tree(squares, 0, 1));
        CHECK(m.magnitudes == tree(magnitudes, 0, 1));
        CHECK(m.finite == finite && m.largest == largest);
    }
}

/* Beginning with +0, a lane of -0 alone has +0. */
static void moments_of_nothing(void **state) {
    (void)state;
    const float value[] = {-0.0f, NAN, -INFINITY}, residual[] = {-0.0f, 1, 1};
    struct pithi_moments m;
    pithi_moments_c(&(struct pithi_select_values){value, PITH_F32, 3, residual}, &m);
    context("no number but 0");
    CHECK(m.sum == 0 && !signbit(m.sum) && m.squares == 0 && m.magnitudes == 0);
    CHECK(m.finite == 1 && m.largest == 0);
}

static void lists(void **state) {
    (void)state;
    const uint64_t set[] = {UINT64_C(0x8000000000000001), 0, UINT64_MAX, 2};
    uint32_t index[67 + PITHI_INDEX_SLACK];
    context("four words");
    CHECK(pithi_set_list_c(set, 0, index) == 0);
    CHECK(pithi_set_list_c(set, 4, index) == 67);
    CHECK(index[0] == 0 && index[1] == 63 && index[66] == 193);
    for (uint32_t i = 0; i < 64; i++) CHECK(index[2 + i] == 128 + i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds),
        cmocka_unit_test(residuals),
        cmocka_unit_test(several_words),
        cmocka_unit_test(histograms),
        cmocka_unit_test(moments_in_order),
        cmocka_unit_test(moments_of_nothing),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
