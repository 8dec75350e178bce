/* test_quality.c - what is promised about real weights, over steps, and about sums of gradients.
 * SPDX-License-Identifier: Apache-2.0
 *
 * bench/measure.h and bench/gradients.h say what is measured; the limits are those that README.md
 * and doc/RESULTS.md state. */
#include "../../bench/gradients.h"
#include "../../bench/measure.h"

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

/* ---- Gradients -------------------------------------------------------------------------------*/

static double two_level(const struct gradients *g, size_t per_node, size_t nodes, const char *round,
                        const char *search, size_t steps) {
    char intra[64], inter[64];
    snprintf(intra, sizeof intra, "grad:preset=intra,%s", round);
    snprintf(inter, sizeof inter, "grad:%s", search ? search : round);
    const struct gradients_levels l = {per_node, nodes, intra, inter, steps};
    const double nmse = gradients_two_level(g, &l);
    CHECK(nmse > 0);
    return nmse;
}

static const char nearest[] = "round=nearest", stochastic[] = "round=stochastic",
                  antithetic[] = "round=antithetic", searched[] = "search=mse";

static void test_simulated_sums(void **state) {
    (void)state;
    struct gradients g;
    CHECK(gradients_simulate(&g, 32, 1 << 17) == 0);
    const double near = two_level(&g, 8, 4, nearest, NULL, 1);
    const double mse = two_level(&g, 8, 4, nearest, searched, 1);
    context("simulated sum: nearest %g, mse %g", near, mse);
    CHECK(near <= 3.85e-3);
    CHECK(mse <= 3.1e-3);
    gradients_free(&g);
}

static void real_sums(const char *name, size_t per_node, size_t nodes) {
    char data[512];
    struct gradients g;
    snprintf(data, sizeof data, "%s/data", tests_dir);
    CHECK(gradients_load(&g, data, name) == 0 && g.rows == 8);
    const double near = two_level(&g, per_node, nodes, nearest, NULL, 1);
    const double chance = two_level(&g, per_node, nodes, stochastic, NULL, 1);
    const double apart = two_level(&g, per_node, nodes, antithetic, NULL, 1);
    const double mse = two_level(&g, per_node, nodes, nearest, searched, 1);
    context("%s, %zu x %zu: nearest %g, stochastic %g, antithetic %g, mse %g", name, per_node,
            nodes, near, chance, apart, mse);
    CHECK(near <= 0.52 * chance);
    CHECK(mse <= 0.78 * near);
    CHECK(apart <= 0.82 * chance);
    gradients_free(&g);
}

static void test_real_sums(void **state) {
    (void)state;
    real_sums("grads_early", 4, 2);
    real_sums("grads_early", 2, 4);
    real_sums("grads_late", 4, 2);
    real_sums("grads_late", 2, 4);
}

/* One frame, the sum of all ranks over one hop, and over two hops that both take the spec. */
enum { VARIANTS = 3 };

static void all_variants(const struct gradients *g, const char *keys, double nmse[VARIANTS]) {
    char spec[128];
    snprintf(spec, sizeof spec, "grad:%s", keys);
    const struct gradients first = {1, g->count, g->values};
    const struct gradients_levels l = {4, 2, spec, spec, 1};
    nmse[0] = gradients_one_level(&first, spec);
    nmse[1] = gradients_one_level(g, spec);
    nmse[2] = gradients_two_level(g, &l);
}

/* The error of sending zeros is 1. */
static void good_default(const struct gradients *g, const char *keys, double most) {
    double requested[VARIANTS], best[VARIANTS], plain[VARIANTS];
    char text[96];
    all_variants(g, keys, requested);
    snprintf(text, sizeof text, "%s,search=mse", keys);
    all_variants(g, text, best);
    snprintf(text, sizeof text, "%s,search=none", keys);
    all_variants(g, text, plain);
    for (int i = 0; i < VARIANTS; i++) {
        context("grad:%s, variant %d: %g, mse %g, absmax %g", keys, i, requested[i], best[i],
                plain[i]);
        CHECK(requested[i] > 0 && requested[i] <= best[i] && requested[i] < plain[i]);
        CHECK(requested[i] <= most);
    }
}

static void test_few_bits(void **state) {
    (void)state;
    static const char *const names[] = {"grads_early", "grads_late"};
    char data[512];
    struct gradients g;
    snprintf(data, sizeof data, "%s/data", tests_dir);
    for (int i = 0; i < 2; i++) {
        CHECK(gradients_load(&g, data, names[i]) == 0);
        good_default(&g, "bits=2", 0.33);
        good_default(&g, "bits=3", 0.11);
        gradients_free(&g);
    }
}

static void feedback(const struct gradients *g, size_t per_node, size_t nodes) {
    const double without = two_level(g, per_node, nodes, nearest, NULL, 16);
    const double full = two_level(g, per_node, nodes, "ef=full", NULL, 16);
    const double faded = two_level(g, per_node, nodes, "ef=ema:0.5", NULL, 16);
    context("16 steps of %zu x %zu: %g, full %g, ema %g", per_node, nodes, without, full, faded);
    CHECK(full <= 0.5 * without);
    CHECK(faded <= 0.5 * without);
}

static void test_error_feedback(void **state) {
    (void)state;
    static const char *const names[] = {"grads_early", "grads_late"};
    char data[512];
    struct gradients g;
    snprintf(data, sizeof data, "%s/data", tests_dir);
    CHECK(gradients_simulate(&g, 16 * 32, 1 << 12) == 0);
    feedback(&g, 8, 4);
    gradients_free(&g);
    for (int i = 0; i < 2; i++) {
        CHECK(gradients_load(&g, data, names[i]) == 0);
        feedback(&g, 4, 2);
        feedback(&g, 2, 4);
        gradients_free(&g);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_base),       cmocka_unit_test(test_bf16_base),
        cmocka_unit_test(test_exact_chains),   cmocka_unit_test(test_checkpoint_pair),
        cmocka_unit_test(test_simulated_sums), cmocka_unit_test(test_real_sums),
        cmocka_unit_test(test_few_bits),       cmocka_unit_test(test_error_feedback),
    };
    if (argc < 2) return 2;
    tests_dir = argv[1];
    return cmocka_run_group_tests_name("quality", tests, NULL, NULL);
}
