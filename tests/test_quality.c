/* test_quality.c - what is promised about real weights, over eight chained training steps.
 * SPDX-License-Identifier: Apache-2.0
 *
 * bench/measure.h says what is measured; the limits are those that README.md and doc/RESULTS.md
 * state. */
#include "../bench/measure.h"

#include "util.h"

static const char *tests_dir;

static void chain(const char *spec, uint32_t values, uint32_t base, struct measure_step *steps) {
    char data[512];
    snprintf(data, sizeof data, "%s/data", tests_dir);
    context("chain of %s, base %s", spec, pith_dtype_name(base));
    CHECK(measure_chain(data, spec, values, base, steps) == 0);
    for (int t = 0; t < MEASURE_STEPS; t++) CHECK(steps[t].identical);
}

static void check_update(const char *spec, double most, double most_bits) {
    struct measure_step steps[MEASURE_STEPS];
    chain(spec, PITH_F32, PITH_F32, steps);
    for (int t = 0; t < MEASURE_STEPS; t++) {
        context("%s, step %d: NMSE %g at %g bits", spec, t + 1, steps[t].update_nmse,
                steps[t].bits);
        CHECK(steps[t].update_nmse > 0 && steps[t].update_nmse <= most);
        CHECK(steps[t].bits <= most_bits);
    }
}

static void test_f32_base(void **state) {
    (void)state;
    check_update("wdiff:bits=4", 0.02, 4.1);
    check_update("wdiff:bits=3", 0.11, 3.1);
    check_update("wdiff:bits=6", 0.002, 6.1);
    check_update("wdiff:bits=8", 0.0002, 8.1);
    check_update("wdiff:bits=4,entropy=zstd", 0.02, 3.6);
    check_update("wdiff:bits=4,round=stochastic", 0.08, 4.1);
}

static void test_bf16_base(void **state) {
    (void)state;
    static const char *const specs[] = {"wdiff:bits=4", "wdiff:bits=8"};
    struct measure_step steps[MEASURE_STEPS];
    for (int k = 0; k < 2; k++) {
        chain(specs[k], PITH_F32, PITH_BF16, steps);
        for (int t = 0; t < MEASURE_STEPS; t++) {
            const double ratio = steps[t].weight_nmse / steps[t].cast_nmse;
            context("%s, bf16 base, step %d: %g of a plain cast's", specs[k], t + 1, ratio);
            CHECK(steps[t].cast_nmse > 0 && ratio <= 1.15);
        }
    }
}

static void test_exact_chains(void **state) {
    (void)state;
    struct measure_step steps[MEASURE_STEPS];
    chain("lossless", PITH_F32, PITH_F32, steps);
    for (int t = 0; t < MEASURE_STEPS; t++) CHECK(steps[t].weight_nmse == 0);
    chain("lossless", PITH_BF16, PITH_BF16, steps);
    for (int t = 0; t < MEASURE_STEPS; t++) {
        context("lossless bf16, step %d: %g bits", t + 1, steps[t].bits);
        CHECK(steps[t].weight_nmse == steps[t].cast_nmse && steps[t].bits < 3);
    }
}

static void test_checkpoint_pair(void **state) {
    (void)state;
    char data[512];
    struct measure_pair p;
    snprintf(data, sizeof data, "%s/data", tests_dir);
    CHECK(measure_pair(data, "lossless", &p) == 0);
    const double ratio = (double)p.bytes / p.entropy_bytes;
    context("lossless checkpoint pair: %g of the entropy, %zu of %zu bytes", ratio, p.bytes,
            p.raw_bytes);
    CHECK(p.identical && p.weights > 900000);
    CHECK(ratio <= 1.20);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_base),
        cmocka_unit_test(test_bf16_base),
        cmocka_unit_test(test_exact_chains),
        cmocka_unit_test(test_checkpoint_pair),
    };
    if (argc < 2) return 2;
    tests_dir = argv[1];
    return cmocka_run_group_tests_name("quality", tests, NULL, NULL);
}
