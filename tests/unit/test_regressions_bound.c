/* test_regressions_bound.c - bugs that were found in codecs with a bound, one test each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "util.h"

/* A last short row counted as a whole one: more values were nonzero than there are, and the
 * stream that had been saved did not load. */
static void test_nonzero_values_of_a_short_row(void **unused) {
    (void)unused;
    enum { COUNT = 1000 };
    static float value[COUNT];
    for (int i = 0; i < COUNT; i++) value[i] = (float)(i * 37 % COUNT);
    const pith_view v = pith_view_flat(value, PITH_F32, COUNT);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream s;
    size_t n;
    stream_open(&s, "embed:abs=1,dim=64", &layout, NULL);
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK(f.length < sizeof value);
    CHECK(pith_stream_nonzero(s.stream, 0) == 1);
    const size_t bytes = (size_t)s.sizes.save_bytes;
    void *const saved = allocate(bytes);
    CHECK_OK(pith_stream_save(s.work, s.stream, saved, bytes, &n));
    CHECK_OK(pith_stream_load(s.work, s.stream, saved, n));
    free(saved);
    free(f.bytes);
    stream_close(&s);
}

/* A frame of a few elements in a row of 2^24 took half a gigabyte to read, whatever the caller
 * allowed for the output. */
static void test_memory_for_a_row_longer_than_its_tensor(void **unused) {
    (void)unused;
    float value[40], back[40];
    for (int i = 0; i < 40; i++) value[i] = (float)i;
    const char *const spec = "embed:abs=1,dim=16777216,block=16777216";
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 40);
    const pith_view v = pith_view_flat(value, PITH_F32, 40),
                    out = pith_view_flat(back, PITH_F32, 40);
    struct stream s;
    stream_open(&s, spec, &layout, NULL);
    CHECK(pith_work_bytes(&s.plan, 1, 1) < 1 << 20);
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK(f.length < 96 + 16 + sizeof value);
    CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &out, 0));
    for (int i = 0; i < 40; i++) CHECK(within_bound((double)value[i], (double)back[i], 1));
    free(f.bytes);
    stream_close(&s);
}

/* psnr and nmse decode what they have encoded, and counted its exact values again. */
static void test_exact_values_counted_once(void **unused) {
    (void)unused;
    static float value[4096];
    for (int i = 0; i < 4096; i++) value[i] = (float)(i % 64);
    value[77] = float_of(0x7F800000u);
    const pith_view v = pith_view_flat(value, PITH_F32, 4096);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 4096);
    struct stream s;
    pith_stats stats = {.size = sizeof stats};
    stream_open(&s, "eb:psnr=40", &layout, NULL);
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK_OK(pith_stream_stats(s.stream, &stats));
    CHECK(stats.exact == 1);
    free(f.bytes);
    stream_close(&s);
}

static double bound_in(const struct frame *f) {
    pith_info info = {.size = sizeof info};
    CHECK_OK(pith_inspect(f->bytes, f->length, &info, NULL));
    return info.bound;
}

/* One frame of four doubles with the spec's bound times a factor, which must decode. */
static double bound_of_four(const char *spec, double factor, const double value[4]) {
    double back[4];
    const pith_view v = pith_view_flat(value, PITH_F64, 4), to = pith_view_flat(back, PITH_F64, 4);
    const pith_layout layout = flat_layout(PITH_F64, PITH_NONE, 4);
    struct stream s;
    context("%s times %g", spec, factor);
    stream_open(&s, spec, &layout, NULL);
    CHECK_OK(pith_stream_scale_bound(s.work, s.stream, 0, factor));
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &to, 0));
    const double bound = bound_in(&f);
    for (int i = 0; i < 4; i++) CHECK(within_bound(value[i], back[i], bound));
    free(f.bytes);
    stream_close(&s);
    return bound;
}

/* A factor that took a share to 0 made frames that no decoder reads; an infinite product with a
 * range of 0 made a bound of half the largest number; a subnormal one was rounded up; where squares
 * overflowed, nmse allowed any error. */
static void test_bounds_at_the_ends_of_doubles(void **unused) {
    (void)unused;
    const double same[4] = {5, 5, 5, 5}, tiny[4] = {0, 0x1p-1072, 0, 0x1p-1074};
    const double large[4] = {1e154, -1e154, 0.9e154, 1e154};
    bound_of_four("eb:pwrel=1e-3", 0x1p-1074, same);
    CHECK(bound_of_four("eb:rel=100", 1e308, same) <= 5 * 0x1p-22);
    CHECK(bound_of_four("eb:psnr=60", 1e200, same) == 0);
    CHECK(bound_of_four("eb:rel=0.9", 1, tiny) == 3 * 0x1p-1074);
    CHECK(bound_of_four("eb:nmse=1e-6", 1, large) < 1e152);
}

/* A bound of -0 was taken for 0, and zeros under it decoded to -0. */
static void test_negative_zero_as_a_bound(void **unused) {
    (void)unused;
    enum { VALUE = 80, LARGEST = 88 };
    float value[64] = {0}, back[64];
    const pith_view v = pith_view_flat(value, PITH_F32, 64),
                    to = pith_view_flat(back, PITH_F32, 64);
    struct frame f = compress("act:rel=0.001", &v, NULL, 0);
    for (int negative = 0; negative < 2; negative++) {
        f.bytes[VALUE + 7] = f.bytes[LARGEST + 7] = negative ? 0x80 : 0;
        bad_seal(&f);
        CHECK_STATUS(negative ? PITH_ERR_CORRUPT : PITH_OK,
                     pith_decompress(f.bytes, f.length, NULL, NULL, &to, NULL));
    }
    free(f.bytes);
}

/* The order of differences may be guessed as if no value were missed: where some are, a ramp with a
 * NaN in every group, its frame had another order than scalar C chooses. */
static void test_order_of_differences_with_exact_values(void **unused) {
    (void)unused;
    enum { COUNT = 4096 };
    static float value[COUNT];
    for (int i = 0; i < COUNT; i++) value[i] = float_of(0x7FC00000u);
    for (int i = 0; i < COUNT; i++)
        if (i % 16 != 5) value[i] = (float)i;
    const pith_view v = pith_view_flat(value, PITH_F32, COUNT);
    struct frame f = compress("eb:abs=0.5", &v, NULL, 0);
    pith_env env = test_env();
    env.cpu_mask = PITH_CPU_SCALAR;
    uint8_t *const scalar = allocate(f.length);
    size_t length = 0;
    CHECK_OK(pith_compress("eb:abs=0.5", &v, NULL, NULL, &env, scalar, f.length, &length, NULL));
    CHECK(length == f.length && memcmp(scalar, f.bytes, length) == 0);
    free(scalar);
    free(f.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nonzero_values_of_a_short_row),
        cmocka_unit_test(test_memory_for_a_row_longer_than_its_tensor),
        cmocka_unit_test(test_exact_values_counted_once),
        cmocka_unit_test(test_bounds_at_the_ends_of_doubles),
        cmocka_unit_test(test_negative_zero_as_a_bound),
        cmocka_unit_test(test_order_of_differences_with_exact_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
