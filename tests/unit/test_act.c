/* test_act.c - what codec act promises of activations: zeros, bounds, sizes, budgets.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "../../bench/activations.h"
#include "gen.h"
#include "util.h"

static char data[512];

/* ---- Values ----------------------------------------------------------------------------------*/

enum { COUNT = 3000 };

static double number_at(const void *p, uint32_t dtype, size_t i) {
    double x;
    if (dtype != PITH_F64) return (double)float_of(load_float(p, dtype, i));
    memcpy(&x, (const uint8_t *)p + 8 * i, sizeof x);
    return x;
}

static void set_number(void *p, uint32_t dtype, size_t i, double x) {
    if (dtype == PITH_F64)
        memcpy((uint8_t *)p + 8 * i, &x, sizeof x);
    else
        store_float(p, dtype, i, bits_of((float)x));
}

/* What ReLU leaves, with a share of -0 and of values that are not finite when requested. */
static void *make_values(uint32_t dtype, bool wild) {
    uint64_t seed = 7;
    void *const p = allocate(COUNT * pith_dtype_bytes(dtype));
    for (size_t i = 0; i < COUNT; i++) {
        const double x = gen_normal(&seed);
        const uint64_t kind = gen_next(&seed) % 64;
        set_number(p, dtype, i, x > 0 ? x : 0);
        if (!wild || kind > 3) continue;
        set_number(p, dtype, i,
                   kind == 0   ? -0.0
                   : kind == 1 ? -x
                   : kind == 2 ? INFINITY
                               : (double)NAN);
    }
    return p;
}

static bool same_bits(const void *a, const void *b, uint32_t dtype, size_t i) {
    const size_t element = pith_dtype_bytes(dtype);
    return memcmp((const uint8_t *)a + i * element, (const uint8_t *)b + i * element, element) == 0;
}

/* Every value within its bound, zeros exact, what is not finite bit for bit. */
static void check_values(const void *x, const void *y, uint32_t dtype, bool signed_zeros,
                         double absolute, double relative) {
    for (size_t i = 0; i < COUNT; i++) {
        const double was = number_at(x, dtype, i), is = number_at(y, dtype, i);
        context("element %zu: %a became %a", i, was, is);
        if (!isfinite(was))
            CHECK(same_bits(x, y, dtype, i));
        else if (was == 0)
            CHECK(is == 0 && (signed_zeros ? same_bits(x, y, dtype, i) : !signbit(is)));
        else
            CHECK(fabs(is - was) <= absolute + relative * fabs(was));
    }
}

static void round_trip(const char *spec, uint32_t dtype, bool signed_zeros, double absolute,
                       double relative) {
    void *const x = make_values(dtype, true), *const y = allocate(COUNT * pith_dtype_bytes(dtype));
    const uint64_t shape[] = {3, 10, 10, 10};
    const pith_view view = pith_view_dense(x, dtype, 4, shape);
    const pith_view back = pith_view_flat(y, dtype, COUNT);
    struct frame f = compress(spec, &view, NULL, 0);
    context("%s of %s: %zu bytes", spec, pith_dtype_name(dtype), f.length);
    CHECK(f.length < COUNT * pith_dtype_bytes(dtype));
    CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &back, NULL));
    check_values(x, y, dtype, signed_zeros, absolute, relative);
    free(f.bytes);
    free(x);
    free(y);
}

static void every_value_keeps_its_promise(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};
    for (size_t d = 0; d < 4; d++) {
        round_trip("act:mode=fast,abs=0.01", dtypes[d], false, 0.01, 0);
        round_trip("act:mode=ratio,abs=0.01", dtypes[d], false, 0.01, 0);
        round_trip("act:mode=ratio,entropy=rans,abs=0.01", dtypes[d], false, 0.01, 0);
        round_trip("act:mode=fast,abs=0.01,zeros=signed", dtypes[d], true, 0.01, 0);
        round_trip("act:mode=ratio,abs=0.05,zeros=signed,block=64", dtypes[d], true, 0.05, 0);
        round_trip("act:mode=ratio,pwrel=0.05", dtypes[d], false, 0, 0.05);
        round_trip("act:mode=ratio,pwrel=0.05,entropy=rans,zeros=signed,block=128", dtypes[d], true,
                   0, 0.05);
        round_trip("act:mode=fast,pwrel=0.05,zeros=signed", dtypes[d], true, 0, 0.05);
        round_trip("act:rel=0.001,range=10", dtypes[d], false, 0.01, 0);
    }
}

/* Whatever the bound, all zeros are a few bytes a block. */
static void zeros_cost_almost_nothing(void **state) {
    (void)state;
    static const char *const specs[] = {"act:mode=fast", "act:mode=ratio",
                                        "act:mode=ratio,entropy=rans"};
    enum { MANY = 1 << 20 };
    float *const x = allocate(MANY * sizeof *x);
    memset(x, 0, MANY * sizeof *x);
    const pith_view view = pith_view_flat(x, PITH_F32, MANY);
    for (int few = 0; few < 2; few++) {
        if (few) x[12345] = 1, x[MANY - 1] = -2;
        for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
            struct frame f = compress(specs[i], &view, NULL, 0);
            context("%s, %zu bytes", specs[i], f.length);
            CHECK(f.length < (few ? 4000 : 400));
            free(f.bytes);
        }
    }
    free(x);
}

/* Numbers that are all the same, by which either form of coded words is as short as the other. */
static void one_number_costs_almost_nothing(void **state) {
    (void)state;
    enum { MANY = 1 << 18 };
    float *const x = allocate(MANY * sizeof *x);
    const pith_view view = pith_view_flat(x, PITH_F32, MANY);
    for (size_t i = 0; i < MANY; i++) x[i] = i % 4 == 3;
    struct frame f = compress("act:mode=ratio,abs=0.01", &view, NULL, 0);
    context("%zu bytes", f.length);
    CHECK(f.length < 2000);
    free(f.bytes);
    free(x);
}

/* ---- Real activations and their gradients ----------------------------------------------------*/

static double ratio_of(const char *file, size_t index, const char *codec, const char *setting) {
    struct activations_ratio r;
    char spec[128];
    snprintf(spec, sizeof spec, "%s:%s", codec, setting);
    context("%s, tensor %zu, %s", file, index, spec);
    CHECK(activations_compress(data, file, index, spec, &r) == 0);
    return r.ratio;
}

static void shorter_than_the_general_codec(void **state) {
    (void)state;
    static const char *const files[] = {"cnn_act", "cnn_act_grad"};
    static const char *const settings[] = {"mode=fast,rel=0.01", "mode=fast,rel=0.001",
                                           "mode=ratio,rel=0.01", "mode=ratio,rel=0.001"};
    for (size_t f = 0; f < 2; f++)
        for (size_t index = 0; index < 3; index++)
            for (size_t s = 0; s < 4; s++) {
                const double act = ratio_of(files[f], index, "act", settings[s]);
                const double eb = ratio_of(files[f], index, "eb", settings[s]);
                context("%s, tensor %zu, %s: %g against %g", files[f], index, settings[s], act, eb);
                CHECK(act > eb);
            }
}

/* What zstd and bits one by one are worth. */
static void without_zstd_hardly_longer(void **state) {
    (void)state;
    static const char *const files[] = {"cnn_act", "cnn_act_grad"}, *const bounds[] = {"0.01",
                                                                                       "0.001"};
    for (size_t f = 0; f < 2; f++)
        for (size_t index = 0; index < 3; index++)
            for (size_t b = 0; b < 2; b++) {
                char any[64], only[80];
                snprintf(any, sizeof any, "mode=ratio,rel=%s", bounds[b]);
                snprintf(only, sizeof only, "%s,entropy=rans", any);
                const double is = ratio_of(files[f], index, "act", only);
                const double was = ratio_of(files[f], index, "act", any);
                context("%s, tensor %zu, %s: %g against %g", files[f], index, any, is, was);
                CHECK(is > 0.9 * was);
            }
}

/* sigma = bound * sqrt(positions / 3) * rms gradient * sqrt(samples * nonzero), weight by weight
 * with the terms of its own sum, and near normal. */
static void errors_of_gradients_follow_the_model(void **state) {
    (void)state;
    for (size_t below = 0; below < 2; below++) {
        struct activations_layer l;
        struct activations_error e;
        CHECK(activations_load(&l, data, below) == 0);
        const double places = (double)(l.height * l.width);
        for (double share = 1e-4; share < 0.05; share *= 10) {
            const double bound = share * l.largest;
            CHECK(activations_measure(&l, "act:mode=ratio", bound, &e) == 0);
            const double sigma =
                bound * sqrt(places / 3) * l.rms * sqrt((double)l.samples * l.nonzero);
            context("layer %zu at %g: %g of its own terms, %g of the budget's, kurtosis %g", below,
                    bound, e.own, e.sigma / sigma, e.kurtosis);
            CHECK(e.own > 0.94 && e.own < 1.06);
            CHECK(e.sigma > 0.9 * sigma && e.sigma < 1.2 * sigma);
            CHECK(e.kurtosis > 2.4 && e.kurtosis < 3.4);
        }
        activations_free(&l);
    }
}

static void a_budget_leaves_the_requested_error(void **state) {
    (void)state;
    for (size_t below = 0; below < 2; below++) {
        struct activations_layer l;
        struct activations_error e;
        CHECK(activations_load(&l, data, below) == 0);
        for (double share = 0.01; share < 0.2; share *= 3) {
            const double bound = activations_budget(&l, share);
            CHECK(bound > 0 && activations_measure(&l, "act:mode=ratio", bound, &e) == 0);
            const double of_it = e.sigma / (share * activations_momentum(&l));
            context("layer %zu, share %g, bound %g: sigma is %g of it", below, share, bound, of_it);
            CHECK(of_it > 0.85 && of_it < 1.2);
        }
        activations_free(&l);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_keeps_its_promise),
        cmocka_unit_test(zeros_cost_almost_nothing),
        cmocka_unit_test(one_number_costs_almost_nothing),
        cmocka_unit_test(shorter_than_the_general_codec),
        cmocka_unit_test(without_zstd_hardly_longer),
        cmocka_unit_test(errors_of_gradients_follow_the_model),
        cmocka_unit_test(a_budget_leaves_the_requested_error),
    };
    snprintf(data, sizeof data, "%s/data", argc > 1 ? argv[1] : ".");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
