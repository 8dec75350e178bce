/* test_topk_thresholds.c - how often control=prop keeps k, on real gradients.
 * SPDX-License-Identifier: Apache-2.0
 *
 * bench/thresholds.h says what is measured, doc/SPARSE.md what is promised: nearly as many steps in
 * the band as the best threshold that stays. */
#include "../../bench/thresholds.h"

#include "util.h"

static const char *tests_dir;

/* Begins 20 times too high in the early gradients, and 20 times too low in the late ones. */
static void hold(const char *keys, size_t k, size_t run, double less) {
    static const char *const names[] = {"grads_early", "grads_late"};
    if (getenv("PITH_TEST_STEP")) skip(); /* long, and alike on every CPU */
    for (int i = 0; i < 2; i++) {
        char data[512];
        struct gradients g;
        struct thresholds_found found;
        const struct thresholds_series series = {
            .keys = keys, .k = k, .run = run, .warm = 500, .steps = 1000, .times = i ? 0.05 : 20};
        snprintf(data, sizeof data, "%s/data", tests_dir);
        CHECK(gradients_load(&g, data, names[i]) == 0);
        CHECK(thresholds_run(&g, &series, &found) == 0);
        context("%s, %s, k=%zu: %g in the band, %g of the best that stays, mean %g, first %zu",
                names[i], keys, k, found.held, found.frozen, found.mean, found.first);
        CHECK(found.first <= 70 && found.mean > 0.98 && found.mean < 1.02);
        CHECK(found.held >= found.frozen - less);
        gradients_free(&g);
    }
}

static void test_values_by_themselves(void **state) {
    (void)state;
    hold("ef=none", 983, 1, 0.01);
}

static void test_feedback(void **state) {
    (void)state;
    hold("ef=full", 983, 64, 0.01);
}

/* Of 245 elements a count leaves the band in one step of seven whatever the threshold. */
static void test_feedback_of_few(void **state) {
    (void)state;
    hold("ef=full", 245, 1, 0.1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_by_themselves),
        cmocka_unit_test(test_feedback),
        cmocka_unit_test(test_feedback_of_few),
    };
    if (argc < 2) return 2;
    tests_dir = argv[1];
    return cmocka_run_group_tests_name("topk_thresholds", tests, NULL, NULL);
}
