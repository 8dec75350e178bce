/* test_adapt.c - bounds that adapt: by hand, by a factor, by a schedule, by a budget.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "util.h"

enum { N = 4096 };

static pith_info info_of(const struct frame *f) {
    pith_info info = {.size = sizeof info};
    CHECK_OK(pith_inspect(f->bytes, f->length, &info, NULL));
    return info;
}

/* The bound of the next frame of a slot. */
static double next_bound(struct stream *s, const pith_view *v, uint64_t slot) {
    struct frame f = stream_encode(s, v, slot, false);
    const double bound = info_of(&f).bound;
    free(f.bytes);
    return bound;
}

struct fixture {
    struct stream s;
    float *values;
    pith_view view;
};

static void begin(struct fixture *f, const char *spec, uint64_t slots) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    layout.slots = slots;
    f->values = allocate(N * sizeof(float));
    gen_fill(GEN_NOISE, 5, PITH_F32, f->values, N);
    f->view = pith_view_flat(f->values, PITH_F32, N);
    stream_open(&f->s, spec, &layout, NULL);
}

static void end(struct fixture *f) {
    stream_close(&f->s);
    free(f->values);
}

static void test_by_hand(void **state) {
    (void)state;
    struct fixture f;
    begin(&f, "eb:abs=0.5", 2);
    CHECK(next_bound(&f.s, &f.view, 0) == 0.5);
    CHECK_OK(pith_stream_set_bound(f.s.work, f.s.stream, 0, 0.125));
    CHECK(pith_stream_bound(f.s.stream, 0) == 0.125);
    CHECK(next_bound(&f.s, &f.view, 0) == 0.125);
    CHECK(next_bound(&f.s, &f.view, 1) == 0.5);
    CHECK_OK(pith_stream_scale_bound(f.s.work, f.s.stream, 0, 2));
    CHECK(pith_stream_bound(f.s.stream, 0) == 0);
    CHECK(fabs(next_bound(&f.s, &f.view, 0) - 1) < 1e-6);
    CHECK_OK(pith_stream_set_bound(f.s.work, f.s.stream, 0, 0));
    CHECK(next_bound(&f.s, &f.view, 0) == 0.5);
    end(&f);
}

static void test_refused(void **state) {
    (void)state;
    struct fixture f;
    struct stream other;
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, N);
    begin(&f, "eb:abs=0.5", 1);
    pith_work *const work = f.s.work;
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_bound(work, f.s.stream, 0, -1));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_bound(work, f.s.stream, 0, NAN));
    CHECK(strstr(pith_work_error(work)->text, "finite and at least 0") != NULL);
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_bound(work, f.s.stream, 1, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_scale_bound(work, f.s.stream, 0, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_scale_bound(work, f.s.stream, 0, INFINITY));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_bound(work, NULL, 0, 1));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_bound(NULL, f.s.stream, 0, 1));
    CHECK(pith_stream_bound(f.s.stream, 0) == 0);
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_adapt(work, f.s.stream, 0, NULL, NULL));
    stream_open(&other, "wdiff", &layout, NULL);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_stream_set_bound(other.work, other.stream, 0, 1));
    stream_close(&other);
    end(&f);
}

/* Slots of other codecs remember other things in the same place. */
static void test_other_slots(void **state) {
    (void)state;
    float values[N];
    uint8_t frame[8 * N + 4096];
    size_t length;
    struct stream s;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    const pith_view view = pith_view_flat(values, PITH_F32, N);
    for (int i = 0; i < N; i++) values[i] = (float)(i % 7 - 3);
    stream_open(&s, "topk:density=0.1", &layout, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(encode_one(s.work, s.stream, &view, 0, 0, frame, sizeof frame, &length));
        CHECK(pith_stream_bound(s.stream, 0) == 0 && pith_stream_nonzero(s.stream, 0) == 1);
    }
    stream_close(&s);
}

/* The schedule counts the slot's encodes, and goes with the stream when that is saved. */
static void test_schedule(void **state) {
    (void)state;
    struct fixture f;
    uint8_t saved[1024];
    size_t length;
    begin(&f, "embed:abs=0.25,dim=16,decay=linear,start=3,steps=4", 1);
    const double wanted[] = {0.75, 0.625, 0.5, 0.375, 0.25, 0.25};
    for (int i = 0; i < 6; i++) {
        context("step %d", i);
        CHECK(pith_stream_step(f.s.stream, 0) == (uint64_t)i);
        CHECK(fabs(next_bound(&f.s, &f.view, 0) - wanted[i]) < 1e-6);
    }
    CHECK_OK(pith_stream_set_step(f.s.work, f.s.stream, 0, 2));
    CHECK_OK(pith_stream_save(f.s.work, f.s.stream, saved, sizeof saved, &length));
    CHECK(length == f.s.sizes.save_bytes);
    CHECK_OK(pith_stream_reset(f.s.work, f.s.stream));
    CHECK(fabs(next_bound(&f.s, &f.view, 0) - 0.75) < 1e-6);
    CHECK_OK(pith_stream_load(f.s.work, f.s.stream, saved, length));
    CHECK(fabs(next_bound(&f.s, &f.view, 0) - 0.5) < 1e-6);
    end(&f);
}

static void test_saved_bounds(void **state) {
    (void)state;
    struct fixture f;
    uint8_t saved[1024];
    size_t length;
    begin(&f, "act:abs=0.25", 2);
    for (int i = 0; i < N; i++) f.values[i] = i % 4 ? 0 : 3;
    CHECK_OK(pith_stream_set_bound(f.s.work, f.s.stream, 0, 0.5));
    CHECK_OK(pith_stream_scale_bound(f.s.work, f.s.stream, 1, 4));
    next_bound(&f.s, &f.view, 0);
    const double nonzero = pith_stream_nonzero(f.s.stream, 0);
    CHECK(nonzero == 0.25 && pith_stream_nonzero(f.s.stream, 1) == 1);
    CHECK_OK(pith_stream_save(f.s.work, f.s.stream, saved, sizeof saved, &length));
    CHECK_OK(pith_stream_reset(f.s.work, f.s.stream));
    CHECK(pith_stream_bound(f.s.stream, 0) == 0 && pith_stream_nonzero(f.s.stream, 0) == 1);
    CHECK_OK(pith_stream_load(f.s.work, f.s.stream, saved, length));
    CHECK(pith_stream_bound(f.s.stream, 0) == 0.5 && pith_stream_nonzero(f.s.stream, 0) == nonzero);
    CHECK(fabs(next_bound(&f.s, &f.view, 1) - 1) < 1e-6);
    end(&f);
}

/* sigma = factor * gradient * sqrt(samples * nonzero) * bound, and sigma = share * momentum. */
static void test_budget(void **state) {
    (void)state;
    struct fixture f;
    double bound = -1;
    begin(&f, "act", 1);
    pith_budget b = {.size = sizeof b,
                     .momentum = 2,
                     .gradient = 0.5,
                     .samples = 64,
                     .factor = 0.32,
                     .nonzero = 0.25};
    CHECK_OK(pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
    CHECK(fabs(bound - 0.01 * 2 / (0.32 * 0.5 * sqrt(64 * 0.25))) < 1e-9);
    CHECK(fabs(next_bound(&f.s, &f.view, 0) - bound) < 1e-6);
    b.factor = 0;
    b.positions = 12;
    CHECK_OK(pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
    CHECK(fabs(bound - 0.01 * 2 / (2 * 0.5 * sqrt(64 * 0.25))) < 1e-9);
    const double before = bound;
    b.momentum = 0;
    CHECK_OK(pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
    CHECK(bound == before);
    b = (pith_budget){.size = sizeof b, .momentum = 1, .largest = 0.125};
    CHECK_OK(pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
    CHECK(bound == 0.125);
    b.nonzero = 1.5;
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
    b.nonzero = 0;
    b.samples = NAN;
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
    end(&f);
}

/* Where the last bound was above all values, their share is 0: that allowed any error, and the
 * bound stayed what it was. Streams of eb count no share. */
static void test_budget_after_zeros(void **state) {
    (void)state;
    static const char *const specs[] = {"act", "eb"};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        double bound = -1;
        begin(&f, specs[i], 1);
        context("%s", specs[i]);
        CHECK_OK(pith_stream_set_bound(f.s.work, f.s.stream, 0, 1e6));
        CHECK(next_bound(&f.s, &f.view, 0) == 1e6);
        CHECK(pith_stream_nonzero(f.s.stream, 0) == 0);
        const pith_budget b = {
            .size = sizeof b, .momentum = 2, .gradient = 0.5, .samples = 64, .factor = 0.32};
        CHECK_OK(pith_stream_adapt(f.s.work, f.s.stream, 0, &b, &bound));
        CHECK(fabs(bound - 0.01 * 2 / (0.32 * 0.5 * 8)) < 1e-9);
        end(&f);
    }
}

/* A decoder needs neither the bound of the encoder's stream nor its schedule: frames carry their
 * bound. */
static void test_lost_schedule(void **state) {
    (void)state;
    struct fixture f;
    struct stream other;
    float *back = allocate(N * sizeof *back);
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    const pith_view to = pith_view_flat(back, PITH_F32, N);
    begin(&f, "embed:abs=0.25,dim=16,decay=step,start=4,steps=9", 1);
    struct frame sent = stream_encode(&f.s, &f.view, 0, false);
    stream_open(&other, "embed:rel=0.001,dim=16", &layout, NULL);
    CHECK_OK(decode_one(other.work, other.stream, 0, sent.bytes, sent.length, &to, 0));
    const double bound = info_of(&sent).bound;
    CHECK(bound > 0.99 && bound <= 1);
    for (int i = 0; i < N; i++) CHECK(fabs((double)back[i] - (double)f.values[i]) <= bound);
    stream_close(&other);
    free(sent.bytes);
    free(back);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_schedule),    cmocka_unit_test(test_saved_bounds),
        cmocka_unit_test(test_budget),      cmocka_unit_test(test_lost_schedule),
        cmocka_unit_test(test_other_slots), cmocka_unit_test(test_budget_after_zeros),
    };
    return cmocka_run_group_tests_name("adapt", tests, NULL, NULL);
}
