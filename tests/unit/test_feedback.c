/* test_feedback.c - error feedback: the residual against a model, steps taken back, saved states.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "grad_model.h"
#include "util.h"

enum { COUNT = 1000, STEPS = 16, SLOTS = 3 };

/* ---- Model ------------------------------------------------------------------------------------*/

struct setting {
    const char *spec;
    int thousandths; /* of ema; 0: full */
    struct model model;
};
static const struct setting settings[] = {
    {"grad:ef=full", 0, {4, 128, 32, 0, MODEL_NEAREST, 16384, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:bits=2,group=32,ef=ema:0.8,block=64",
     800,
     {2, 32, 32, 0, MODEL_NEAREST, 64, PITH_F32, 0, 0, 0, 0, 1, 1}},
    {"grad:ef=ema:0.001,rotate=0,block=128",
     1,
     {4, 128, 0, 0, MODEL_NEAREST, 128, PITH_F32, 0, 0, 0, 0, 1, 0}},
    {"grad:bits=3,ef=ema:0.999,sign_seed=5,scale_dtype=bf16,search=none",
     999,
     {3, 128, 32, 5, MODEL_NEAREST, 16384, PITH_BF16, 0, 0, 0, 0, 1, 0}},
    {"grad:bits=3,ef=full,round=stochastic,block=256",
     0,
     {3, 128, 32, 0, MODEL_STOCHASTIC, 256, PITH_F32, 77, 0, 4, 0, 1, 0}},
    {"grad:ef=ema:0.37,round=antithetic,group=64,rotate=64,block=256",
     370,
     {4, 64, 64, 0, MODEL_ANTITHETIC, 256, PITH_F32, 5, 0, 0, 2, 5, 0}},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* One sender of one slot, as FORMAT.md has it. */
struct sender {
    struct model model;
    int thousandths;
    float residual[COUNT];
};

static float faded(const struct sender *s, float before, float lost) {
    if (!s->thousandths) return lost;
    const float keep = (float)(s->thousandths / 1000.0);
    const float take = (float)(1.0 - s->thousandths / 1000.0);
    const float a = keep * before, b = take * lost;
    return a + b;
}

/* The blocks of the next frame of values in the rotated domain, which are used up. */
static void model_send(struct sender *s, float *x, size_t count, uint8_t *blocks) {
    float back[COUNT];
    for (size_t i = 0; i < count; i++) x[i] = x[i] + s->residual[i];
    model_code(&s->model, x, count, blocks);
    model_decode(&s->model, blocks, count, back);
    for (size_t i = 0; i < count; i++) {
        const float next = faded(s, s->residual[i], x[i] - back[i]);
        if (!nonfinite(bits_of(next))) s->residual[i] = next;
    }
}

static void turn(pith_plan *plan, struct model *m, uint64_t step) {
    m->step = step;
    pith_plan_set_random(plan, m->seed, m->stream, step);
    CHECK_OK(pith_plan_set_ranks(plan, m->rank, m->ranks));
}

/* Values of a step; every fifth step has some that are not finite. */
static void step_values(float *x, size_t count, uint64_t step) {
    gen_fill(step % 5 == 3 ? GEN_HOLES : GEN_NOISE, step + 1, PITH_F32, x, count);
}

static void check_blocks(const struct frame *f, const struct model *m, const uint8_t *blocks,
                         size_t count) {
    CHECK(f->length == header_of(f) + model_bytes(m, count));
    CHECK(memcmp(f->bytes + header_of(f), blocks, model_bytes(m, count)) == 0);
}

static void test_against_the_model(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 33, 128, COUNT};
    for (size_t i = 0; i < SETTINGS; i++)
        for (size_t n = 0; n < 5; n++) {
            struct sender model = {settings[i].model, settings[i].thousandths, {0}};
            struct stream s;
            float x[COUNT];
            const size_t count = counts[n];
            const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, count);
            const pith_view v = pith_view_flat(x, PITH_F32, count);
            uint8_t *blocks = room(model_bytes(&model.model, count));
            stream_open(&s, settings[i].spec, &layout, NULL);
            for (uint64_t t = 0; t < STEPS; t++) {
                context("%s count %zu step %u", settings[i].spec, count, (unsigned)t);
                turn(s.plan, &model.model, t);
                step_values(x, count, t);
                struct frame f = stream_encode(&s, &v, 0, false);
                CHECK(pith_state_step(s.state, 0) == t + 1);
                model_rotate(&model.model, x, count);
                model_send(&model, x, count, blocks);
                check_blocks(&f, &model.model, blocks, count);
                free(f.bytes);
            }
            free(blocks);
            stream_close(&s);
        }
}

/* The state of the second hop's plan owns its residual; that of the first only counts. */
static void test_second_hop(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
        struct sender model = {settings[i].model, settings[i].thousandths, {0}};
        const struct model *const m = &model.model;
        struct stream in, out;
        char spec[64];
        float x[COUNT], sum[COUNT];
        const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
        snprintf(spec, sizeof spec, "grad:bits=8,group=256,rotate=%u%s,block=512", m->rotate,
                 m->signs ? ",sign_seed=5" : "");
        const struct model from = {8, 256, m->rotate, m->signs, MODEL_NEAREST, 512, PITH_F32, 0, 0,
                                   0, 0,   1,         0};
        uint8_t *blocks = room(model_bytes(m, COUNT));
        stream_open(&in, spec, &layout, NULL);
        stream_open(&out, settings[i].spec, &layout, NULL);
        uint8_t *got = room((size_t)out.sizes.slot_bytes);
        for (uint64_t t = 0; t < STEPS; t++) {
            size_t length;
            context("%s to %s step %u", spec, settings[i].spec, (unsigned)t);
            turn(out.plan, &model.model, t);
            step_values(x, COUNT, t);
            struct frame f = stream_encode(&in, &v, 0, false);
            const void *const bytes[2] = {f.bytes, f.bytes};
            const size_t lengths[2] = {f.length, f.length};
            CHECK_OK(pith_reduce_encode(in.plan, NULL, 0, bytes, lengths, 2, 0.5f, out.plan,
                                        out.state, 0, got, (size_t)out.sizes.slot_bytes, &length));
            model_decode(&from, f.bytes + header_of(&f), COUNT, sum);
            for (size_t k = 0; k < COUNT; k++) sum[k] = (sum[k] + sum[k]) * 0.5f;
            model_send(&model, sum, COUNT, blocks);
            const struct frame second = {got, length};
            check_blocks(&second, m, blocks, COUNT);
            free(f.bytes);
        }
        free(got);
        free(blocks);
        stream_close(&in);
        stream_close(&out);
    }
}

/* ---- What it is for ---------------------------------------------------------------------------*/

static double accumulated(const char *spec) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream s;
    float x[COUNT];
    double wanted[COUNT] = {0}, got[COUNT] = {0}, error = 0, power = 0;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&s, spec, &layout, NULL);
    for (uint64_t t = 0; t < STEPS; t++) {
        gen_fill(GEN_NOISE, t, PITH_F32, x, COUNT);
        for (size_t i = 0; i < COUNT; i++) wanted[i] += (double)x[i];
        pith_plan_set_random(s.plan, 1, 0, t);
        struct frame f = stream_encode(&s, &v, 0, false);
        CHECK_OK(pith_decode(s.plan, NULL, 0, f.bytes, f.length, &v));
        for (size_t i = 0; i < COUNT; i++) got[i] += (double)x[i];
        free(f.bytes);
    }
    for (size_t i = 0; i < COUNT; i++) {
        error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        power += wanted[i] * wanted[i];
    }
    stream_close(&s);
    return error / power;
}

static void test_accumulated_sum(void **state) {
    (void)state;
    static const char *const specs[] = {"grad:bits=4", "grad:bits=2", "grad:round=stochastic",
                                        "grad:search=mse", "grad:scale_dtype=e8m0"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        char full[64], half[64];
        snprintf(full, sizeof full, "%s,ef=full", specs[i]);
        snprintf(half, sizeof half, "%s,ef=ema:0.5", specs[i]);
        const double without = accumulated(specs[i]), with = accumulated(full);
        const double slower = accumulated(half);
        context("%s: %g without, %g full, %g ema", specs[i], without, with, slower);
        CHECK(with <= 0.25 * without && slower <= 0.5 * without);
    }
}

/* ---- Steps taken back -------------------------------------------------------------------------*/

static const pith_layout slotted = {
    .size = sizeof slotted, .dtype = PITH_F32, .ndim = 1, .shape = {COUNT}, .slots = SLOTS};

/* The frames of all slots of one step, one after the other. */
struct step {
    uint8_t bytes[4096];
    size_t length;
};

static struct step send_step(struct stream *s, uint64_t step) {
    struct step out = {{0}, 0};
    float x[COUNT] = {0};
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    step_values(x, COUNT, step);
    pith_plan_set_random(s->plan, 1, 0, step);
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        struct frame f = stream_encode(s, &v, slot, false);
        CHECK(out.length + f.length <= sizeof out.bytes);
        memcpy(out.bytes + out.length, f.bytes, f.length);
        out.length += f.length;
        free(f.bytes);
    }
    return out;
}

static bool same_step(const struct step *a, const struct step *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static void test_skip(void **state) {
    (void)state;
    struct stream s, other;
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    stream_open(&other, "grad:ef=full", &slotted, NULL);
    CHECK_OK(pith_state_rollback(s.plan, s.state, 0)); /* nothing to take back */
    for (uint64_t t = 0; t < 3; t++) {
        const struct step a = send_step(&s, t), b = send_step(&other, t);
        context("step %u", (unsigned)t);
        CHECK(same_step(&a, &b));
    }
    const struct step wanted = send_step(&other, 5);
    send_step(&s, 3);
    CHECK_OK(pith_state_rollback(s.plan, s.state, 2)); /* not the last step */
    CHECK_OK(pith_state_rollback(s.plan, s.state, 4));
    CHECK_OK(pith_state_rollback(s.plan, s.state, 3));
    struct step got = send_step(&s, 5);
    CHECK(same_step(&got, &wanted));
    CHECK_OK(pith_state_rollback(s.plan, s.state, 5));
    CHECK_OK(pith_state_rollback(s.plan, s.state, 5)); /* the second finds nothing */
    CHECK_OK(pith_state_rollback(s.plan, s.state, 2));
    got = send_step(&s, 5);
    CHECK(same_step(&got, &wanted));
    const struct step a = send_step(&s, 6), b = send_step(&other, 6);
    CHECK(same_step(&a, &b));
    stream_close(&s);
    stream_close(&other);
}

/* Only slots whose last encode was of the step go back. */
static void test_skip_by_slot(void **state) {
    (void)state;
    struct stream s, never;
    float x[COUNT] = {0};
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    stream_open(&never, "grad:ef=full", &slotted, NULL);
    send_step(&s, 0);
    send_step(&never, 0);
    step_values(x, COUNT, 9);
    pith_plan_set_random(s.plan, 1, 0, 1);
    struct frame f = stream_encode(&s, &v, 1, false); /* slot 1 alone sees step 1 */
    free(f.bytes);
    CHECK_OK(pith_state_rollback(s.plan, s.state, 1));
    const struct step a = send_step(&s, 2), b = send_step(&never, 2);
    CHECK(same_step(&a, &b));
    stream_close(&s);
    stream_close(&never);
}

static void test_skip_the_second_hop(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream in, out;
    float x[COUNT];
    uint8_t frames[3][1024];
    size_t length;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&in, "grad:bits=8", &layout, NULL);
    stream_open(&out, "grad:ef=ema:0.9", &layout, NULL);
    step_values(x, COUNT, 1);
    struct frame f = stream_encode(&in, &v, 0, false);
    const void *const bytes = f.bytes;
    for (uint64_t t = 0; t < 3; t++) {
        pith_plan_set_random(out.plan, 0, 0, t);
        CHECK_OK(pith_reduce_encode(in.plan, NULL, 0, &bytes, &f.length, 1, 1, out.plan, out.state,
                                    0, frames[t], sizeof frames[t], &length));
        if (t == 1) CHECK_OK(pith_state_rollback(out.plan, out.state, 1));
    }
    CHECK(memcmp(frames[0], frames[1], length) != 0);
    CHECK(memcmp(frames[1], frames[2], length) == 0);
    free(f.bytes);
    stream_close(&in);
    stream_close(&out);
}

/* ---- Save, load, reset ------------------------------------------------------------------------*/

static void test_save_and_load(void **state) {
    (void)state;
    struct stream s, other;
    size_t length;
    stream_open(&s, "grad:bits=2,ef=ema:0.3", &slotted, NULL);
    stream_open(&other, "grad:bits=2,ef=ema:0.3", &slotted, NULL);
    for (uint64_t t = 0; t < 4; t++) send_step(&s, t);
    send_step(&other, 8); /* whatever it held */
    void *saved = room((size_t)s.sizes.save_bytes);
    CHECK_OK(pith_state_save(s.plan, s.state, saved, (size_t)s.sizes.save_bytes, &length));
    CHECK(length == s.sizes.save_bytes);
    CHECK_OK(pith_state_load(other.plan, other.state, saved, length));
    pith_stats a, b;
    pith_state_stats(s.state, &a);
    pith_state_stats(other.state, &b);
    CHECK(memcmp(&a, &b, sizeof a) == 0 && a.frames == 12);
    CHECK_OK(pith_state_rollback(other.plan, other.state, 3)); /* the older copy is forgotten */
    for (uint64_t t = 4; t < 8; t++) {
        const struct step x = send_step(&s, t), y = send_step(&other, t);
        context("step %u after a load", (unsigned)t);
        CHECK(pith_state_step(other.state, 1) == t + 1);
        CHECK(same_step(&x, &y));
    }
    CHECK_OK(pith_state_rollback(s.plan, s.state, 7));
    CHECK_OK(pith_state_rollback(other.plan, other.state, 7));
    const struct step x = send_step(&s, 9), y = send_step(&other, 9);
    CHECK(same_step(&x, &y));
    free(saved);
    stream_close(&s);
    stream_close(&other);
}

/* Damage leaves the state as it was. */
static void test_load_of_damage(void **state) {
    (void)state;
    struct stream s;
    size_t length;
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    send_step(&s, 0);
    const size_t bytes = (size_t)s.sizes.save_bytes;
    uint8_t *saved = room(bytes), *again = room(bytes);
    CHECK_OK(pith_state_save(s.plan, s.state, saved, bytes, &length));
    send_step(&s, 1);
    CHECK_OK(pith_state_save(s.plan, s.state, again, bytes, &length));
    for (size_t at = 0; at < bytes; at += 1 + at / 8) {
        saved[at] ^= 0x10;
        CHECK(pith_state_load(s.plan, s.state, saved, bytes) < 0);
        saved[at] ^= 0x10;
        CHECK(pith_state_load(s.plan, s.state, saved, at) < 0);
    }
    CHECK_OK(pith_state_save(s.plan, s.state, saved, bytes, &length));
    CHECK(memcmp(saved, again, bytes) == 0);
    free(saved);
    free(again);
    stream_close(&s);
}

static void test_reset(void **state) {
    (void)state;
    struct stream s;
    pith_stats stats;
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    const struct step first = send_step(&s, 0), second = send_step(&s, 0);
    CHECK(!same_step(&first, &second));
    CHECK_OK(pith_state_reset(s.plan, s.state));
    pith_state_stats(s.state, &stats);
    CHECK(stats.frames == 0 && pith_state_step(s.state, 0) == 0);
    CHECK_OK(pith_state_rollback(s.plan, s.state, 0));
    const struct step again = send_step(&s, 0);
    CHECK(same_step(&first, &again));
    stream_close(&s);
}

/* ---- Refusals ---------------------------------------------------------------------------------*/

static void test_encode_needs_a_state(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream in, out;
    float x[COUNT] = {1};
    uint8_t bytes[4096];
    size_t length = 1;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&in, "grad", &layout, NULL);
    stream_open(&out, "grad:ef=full", &layout, NULL);
    memset(bytes, 0x5A, sizeof bytes);
    CHECK_STATUS(PITH_ERR_STATE, pith_encode(out.plan, NULL, &v, 0, bytes, sizeof bytes, &length));
    CHECK(length == 0 && all_bytes(bytes, sizeof bytes, 0x5A));
    struct frame f = stream_encode(&in, &v, 0, false);
    const void *const frame = f.bytes;
    length = 1;
    CHECK_STATUS(PITH_ERR_STATE,
                 pith_reduce_encode(in.plan, NULL, 0, &frame, &f.length, 1, 1, out.plan, NULL, 0,
                                    bytes, sizeof bytes, &length));
    CHECK(length == 0 && all_bytes(bytes, sizeof bytes, 0x5A));
    CHECK(strlen(pith_plan_error(in.plan).text) > 0);
    CHECK_STATUS(PITH_ERR_STATE, pith_compress("grad:ef=full", &v, NULL, NULL, NULL, bytes,
                                               sizeof bytes, &length, NULL));
    /* Receivers need none, and frames do not tell. */
    CHECK_OK(pith_decode(out.plan, NULL, 0, f.bytes, f.length, &v));
    CHECK_OK(pith_reduce(out.plan, NULL, 0, &frame, &f.length, 1, 1, &v));
    free(f.bytes);
    stream_close(&in);
    stream_close(&out);
}

static void test_state_of_another_plan(void **state) {
    (void)state;
    static const char *const specs[] = {"grad", "grad:ef=full,bits=3", "grad:ef=full,rotate=0",
                                        "grad:ef=full,sign_seed=1", "grad:ef=full,group=64"};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream own, other;
    float x[COUNT] = {1};
    uint8_t bytes[8192];
    size_t length;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&own, "grad:ef=full", &layout, NULL);
    for (size_t i = 0; i <= sizeof specs / sizeof specs[0]; i++) {
        const bool cut = i == sizeof specs / sizeof specs[0];
        context("state of plan %zu", i);
        stream_open(&other, cut ? "grad:ef=full" : specs[i], cut ? &slotted : &layout, NULL);
        CHECK_STATUS(PITH_ERR_STATE,
                     pith_encode(own.plan, other.state, &v, 0, bytes, sizeof bytes, &length));
        CHECK_STATUS(PITH_ERR_STATE, pith_state_rollback(own.plan, other.state, 0));
        CHECK_STATUS(PITH_ERR_STATE, pith_state_reset(own.plan, other.state));
        CHECK_OK(pith_state_save(other.plan, other.state, bytes, sizeof bytes, &length));
        CHECK_STATUS(PITH_ERR_MISMATCH, pith_state_load(own.plan, own.state, bytes, length));
        stream_close(&other);
    }
    CHECK_STATUS(PITH_ERR_STATE, pith_state_rollback(own.plan, NULL, 0));
    stream_close(&own);
}

static void test_skip_of_a_base(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, 10);
    struct stream s;
    stream_open(&s, "wdiff", &layout, NULL);
    CHECK_STATUS(PITH_ERR_STATE, pith_state_rollback(s.plan, s.state, 0));
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_model),
        cmocka_unit_test(test_second_hop),
        cmocka_unit_test(test_accumulated_sum),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_by_slot),
        cmocka_unit_test(test_skip_the_second_hop),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_load_of_damage),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_encode_needs_a_state),
        cmocka_unit_test(test_state_of_another_plan),
        cmocka_unit_test(test_skip_of_a_base),
    };
    return cmocka_run_group_tests_name("feedback", tests, NULL, NULL);
}
