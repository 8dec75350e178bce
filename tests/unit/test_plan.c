/* test_plan.c - what a plan says of itself: spec, layout, fingerprint.
 * SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

static pith_plan *plan_of(const char *spec, const pith_layout *layout) {
    pith_plan *plan;
    context("%s", spec);
    CHECK_OK(pith_plan_create(&plan, spec, layout, NULL, NULL));
    return plan;
}

static pith_layout layout_of(uint64_t rows, uint64_t columns) {
    pith_layout l = {.size = sizeof l, .dtype = PITH_F32, .ndim = 2};
    l.shape[0] = rows, l.shape[1] = columns;
    return l;
}

static void test_spec_of_a_plan(void **state) {
    (void)state;
    const pith_layout layout = layout_of(64, 96);
    pith_plan *plan = plan_of("grad:bits=2,preset=intra", &layout);
    char text[PITH_SPEC_MAX], wanted[PITH_SPEC_MAX];
    CHECK_OK(pith_spec_check("grad:bits=2,preset=intra", wanted, sizeof wanted, NULL));
    CHECK_OK(pith_plan_spec(plan, text, sizeof text));
    CHECK(strcmp(text, wanted) == 0);
    const size_t length = strlen(wanted);
    CHECK_STATUS(PITH_ERR_SPACE, pith_plan_spec(plan, text, length));
    CHECK_OK(pith_plan_spec(plan, text, length + 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_spec(plan, NULL, 10));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_spec(NULL, text, sizeof text));
    pith_plan_destroy(plan);
}

static void test_layout_of_a_plan(void **state) {
    (void)state;
    pith_layout layout = layout_of(64, 96), got = {.size = sizeof got};
    layout.base_dtype = PITH_BF16;
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    layout.slots = 5;
    pith_plan *plan = plan_of("wdiff", &layout);
    CHECK_OK(pith_plan_layout(plan, &got));
    CHECK(got.size == sizeof got && got.dtype == PITH_F32 && got.base_dtype == PITH_BF16);
    CHECK(got.ndim == 2 && got.shape[0] == 64 && got.shape[1] == 96 && got.slots == 5);
    CHECK(got.flags == PITH_LAYOUT_CHECKSUMS && got.slot_count == (64 * 96 + 4) / 5);
    pith_plan *again = plan_of("wdiff", &got);
    CHECK(pith_plan_fingerprint(again) == pith_plan_fingerprint(plan));
    struct {
        pith_layout layout;
        uint64_t more;
    } larger = {{.size = sizeof larger}, 7};
    CHECK_OK(pith_plan_layout(plan, &larger.layout));
    CHECK(larger.more == 7 && larger.layout.slots == 5); /* what is not known stays */
    pith_layout smaller = {.size = offsetof(pith_layout, source), .exempt_count = 9};
    CHECK_OK(pith_plan_layout(plan, &smaller));
    CHECK(smaller.exempt_count == 9 && smaller.slots == 5);
    smaller.size = 8;
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_layout(plan, &smaller));
    CHECK_STATUS(PITH_ERR_ARG, pith_plan_layout(NULL, &got));
    pith_plan_destroy(again);
    pith_plan_destroy(plan);
}

/* Plans with one fingerprint take each other's frames, others do not. */
static void test_fingerprint(void **state) {
    (void)state;
    const uint64_t counts[2] = {4000, 2144};
    const pith_exempt exempt = {100, 50, PITH_EXEMPT_EXACT};
    pith_layout wide = layout_of(64, 96), flat = layout_of(96, 64), slots = wide, ragged = wide,
                checked = wide, some = wide, half = wide;
    slots.slots = ragged.slots = 2;
    ragged.slot_counts = counts;
    checked.flags = PITH_LAYOUT_CHECKSUMS;
    some.exempt = &exempt;
    some.exempt_count = 1;
    half.dtype = PITH_BF16;
    const struct {
        const char *spec;
        const pith_layout *layout;
    } rows[] = {{"grad", &wide},
                {"grad:bits=8", &wide},
                {"grad:group=64", &wide},
                {"grad:sign_seed=3", &wide},
                {"grad:block=32768", &wide},
                {"grad", &flat},
                {"grad", &slots},
                {"grad", &ragged},
                {"grad", &checked},
                {"grad", &some},
                {"grad", &half},
                {"wdiff", &wide},
                {"raw", &wide}};
    enum { ROWS = sizeof rows / sizeof *rows };
    uint64_t found[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        pith_plan *plan = plan_of(rows[i].spec, rows[i].layout);
        found[i] = pith_plan_fingerprint(plan);
        for (size_t k = 0; k < i; k++) CHECK(found[k] != found[i]);
        pith_plan_destroy(plan);
    }
    static const char *const alike[] = {"grad:round=stochastic", "grad:search=mse", "grad:ef=full",
                                        "grad:preset=inter"};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        pith_plan *plan = plan_of(alike[i], &wide);
        CHECK(pith_plan_fingerprint(plan) == found[0]);
        pith_plan_destroy(plan);
    }
    CHECK(found[0] == UINT64_C(0x2f17493b56098848)); /* the same on every machine */
    CHECK(pith_plan_fingerprint(NULL) == 0);
}

static void test_statuses(void **state) {
    (void)state;
    CHECK(strcmp(pith_status_name(PITH_ERR_TIMEOUT), "PITH_ERR_TIMEOUT") == 0);
    CHECK(strcmp(pith_status_text(PITH_ERR_BASE), "the base is not the encoder's") == 0);
    for (int s = 0; s >= -100; s--) {
        const bool known = strcmp(pith_status_name((pith_status)s), "PITH_ERR_UNKNOWN") != 0;
        const char *const text = pith_status_text((pith_status)s);
        CHECK(text && text[0]);
        CHECK(known == (strcmp(text, "a status that this pith does not know") != 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_of_a_plan),
        cmocka_unit_test(test_layout_of_a_plan),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_statuses),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
