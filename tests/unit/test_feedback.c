/* test_feedback.c - error feedback: the residual against a model, in and out as values, steps taken
 * back, saved streams.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cases.h"
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

/* A stream that draws as the model does, from step 0 on. */
static void open_sender(struct stream *s, const struct setting *setting,
                        const pith_layout *layout) {
    const struct model *const m = &setting->model;
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = m->seed,
                                         .rng_stream = m->stream,
                                         .rank = m->rank,
                                         .ranks = m->ranks};
    stream_open_with(s, setting->spec, layout, NULL, &options);
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
            uint8_t *blocks = allocate(model_bytes(&model.model, count));
            open_sender(&s, &settings[i], &layout);
            for (uint64_t t = 0; t < STEPS; t++) {
                context("%s count %zu step %u", settings[i].spec, count, (unsigned)t);
                model.model.step = t;
                step_values(x, count, t);
                struct frame f = stream_encode(&s, &v, 0, false);
                CHECK(pith_stream_step(s.stream, 0) == t + 1);
                model_rotate(&model.model, x, count);
                model_send(&model, x, count, blocks);
                check_blocks(&f, &model.model, blocks, count);
                free(f.bytes);
            }
            free(blocks);
            stream_close(&s);
        }
}

/* The stream of the second hop owns the residual; that of the first only counts. */
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
        uint8_t *blocks = allocate(model_bytes(m, COUNT));
        stream_open(&in, spec, &layout, NULL);
        open_sender(&out, &settings[i], &layout);
        void *memory;
        pith_work *const work =
            work_for((const pith_plan *const[]){in.plan, out.plan}, 2, NULL, &memory);
        uint8_t *got = allocate((size_t)out.sizes.slot_bytes);
        for (uint64_t t = 0; t < STEPS; t++) {
            size_t length;
            context("%s to %s step %u", spec, settings[i].spec, (unsigned)t);
            model.model.step = t;
            step_values(x, COUNT, t);
            struct frame f = stream_encode(&in, &v, 0, false);
            const void *const bytes[2] = {f.bytes, f.bytes};
            const size_t lengths[2] = {f.length, f.length};
            CHECK_OK(reduce_encode_one(work, in.stream, 0, bytes, lengths, 2, 0.5f, out.stream, 0,
                                       got, (size_t)out.sizes.slot_bytes, &length));
            model_decode(&from, f.bytes + header_of(&f), COUNT, sum);
            for (size_t k = 0; k < COUNT; k++) sum[k] = (sum[k] + sum[k]) * 0.5f;
            model_send(&model, sum, COUNT, blocks);
            const struct frame second = {got, length};
            check_blocks(&second, m, blocks, COUNT);
            free(f.bytes);
        }
        CHECK(pith_stream_step(in.stream, 0) == STEPS && pith_stream_step(out.stream, 0) == STEPS);
        free(got);
        free(blocks);
        free(memory);
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
    stream_open_with(&s, spec, &layout, NULL,
                     &(pith_stream_options){.size = sizeof(pith_stream_options), .seed = 1});
    for (uint64_t t = 0; t < STEPS; t++) {
        gen_fill(GEN_NOISE, t, PITH_F32, x, COUNT);
        for (size_t i = 0; i < COUNT; i++) wanted[i] += (double)x[i];
        struct frame f = stream_encode(&s, &v, 0, false);
        CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &v, 0));
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
    const pith_stream_options options = {.size = sizeof options, .seed = 1};
    CHECK_OK(pith_stream_set_random(s->work, s->stream, &options));
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        CHECK_OK(pith_stream_set_step(s->work, s->stream, slot, step));
        struct frame f = stream_encode(s, &v, slot, false);
        CHECK(out.length + f.length <= sizeof out.bytes);
        memcpy(out.bytes + out.length, f.bytes, f.length);
        out.length += f.length;
        free(f.bytes);
    }
    return out;
}

static void check_steps(const struct stream *s, uint64_t step) {
    for (uint64_t slot = 0; slot < SLOTS; slot++) CHECK(pith_stream_step(s->stream, slot) == step);
}

static bool same_step(const struct step *a, const struct step *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static void test_rollback(void **state) {
    (void)state;
    struct stream s, other;
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    stream_open(&other, "grad:ef=full", &slotted, NULL);
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 0)); /* nothing to take back */
    check_steps(&s, 0);
    for (uint64_t t = 0; t < 3; t++) {
        const struct step a = send_step(&s, t), b = send_step(&other, t);
        context("step %u", (unsigned)t);
        CHECK(same_step(&a, &b));
    }
    const struct step wanted = send_step(&other, 5);
    send_step(&s, 3);
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 2)); /* not the last step */
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 4));
    check_steps(&s, 4);
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 3));
    check_steps(&s, 3);
    struct step got = send_step(&s, 5);
    CHECK(same_step(&got, &wanted));
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 5));
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 5)); /* the second finds nothing */
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 2));
    check_steps(&s, 5);
    got = send_step(&s, 5);
    CHECK(same_step(&got, &wanted));
    const struct step a = send_step(&s, 6), b = send_step(&other, 6);
    CHECK(same_step(&a, &b));
    stream_close(&s);
    stream_close(&other);
}

/* Only slots whose last encode was of the step go back. */
static void test_rollback_by_slot(void **state) {
    (void)state;
    struct stream s, never;
    float x[COUNT] = {0};
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    stream_open(&never, "grad:ef=full", &slotted, NULL);
    send_step(&s, 0);
    send_step(&never, 0);
    step_values(x, COUNT, 9);
    struct frame f = stream_encode(&s, &v, 1, false); /* slot 1 alone sees step 1 */
    free(f.bytes);
    CHECK(pith_stream_step(s.stream, 0) == 1 && pith_stream_step(s.stream, 1) == 2);
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 1));
    check_steps(&s, 1);
    const struct step a = send_step(&s, 2), b = send_step(&never, 2);
    CHECK(same_step(&a, &b));
    stream_close(&s);
    stream_close(&never);
}

static void test_rollback_of_the_second_hop(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream in, out;
    float x[COUNT];
    uint8_t frames[3][1024];
    size_t length;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&in, "grad:bits=8", &layout, NULL);
    stream_open(&out, "grad:ef=ema:0.9", &layout, NULL);
    void *memory;
    pith_work *const work =
        work_for((const pith_plan *const[]){in.plan, out.plan}, 2, NULL, &memory);
    step_values(x, COUNT, 1);
    struct frame f = stream_encode(&in, &v, 0, false);
    const void *const bytes = f.bytes;
    for (uint64_t t = 0; t < 3; t++) {
        CHECK_OK(pith_stream_set_step(work, out.stream, 0, t));
        CHECK_OK(reduce_encode_one(work, in.stream, 0, &bytes, &f.length, 1, 1, out.stream, 0,
                                   frames[t], sizeof frames[t], &length));
        CHECK(pith_stream_step(out.stream, 0) == t + 1);
        if (t == 1) CHECK_OK(pith_stream_rollback(work, out.stream, 1));
        if (t == 1) CHECK(pith_stream_step(out.stream, 0) == 1);
    }
    CHECK(memcmp(frames[0], frames[1], length) != 0);
    CHECK(memcmp(frames[1], frames[2], length) == 0);
    free(f.bytes);
    free(memory);
    stream_close(&in);
    stream_close(&out);
}

/* A frame at some step, taken back, is made again, by every codec that has no base. */
static void test_rollback_of_every_codec(void **state) {
    (void)state;
    enum { N = 700 };
    const struct test_case *c;
    size_t cases = 0;
    for (size_t i = 0; (c = case_at(i)) != NULL; i++) {
        if (c->base_dtype != PITH_NONE) continue;
        struct stream s;
        uint8_t x[2][8 * N];
        const pith_layout layout = flat_layout(c->dtype, PITH_NONE, N);
        const pith_stream_options options = {.size = sizeof options, .seed = 9, .step = 17};
        context("%s dtype %s", c->spec, pith_dtype_name(c->dtype));
        stream_open_with(&s, c->spec, &layout, NULL, &options);
        for (int k = 0; k < 2; k++) gen_fill(GEN_NOISE, (uint64_t)k, c->dtype, x[k], N);
        const pith_view v = pith_view_flat(x[0], c->dtype, N),
                        w = pith_view_flat(x[1], c->dtype, N);
        struct frame first = stream_encode(&s, &v, 0, false);
        struct frame second = stream_encode(&s, &w, 0, false);
        CHECK(pith_stream_step(s.stream, 0) == 19);
        CHECK_OK(pith_stream_rollback(s.work, s.stream, 17)); /* not the last */
        CHECK(pith_stream_step(s.stream, 0) == 19);
        CHECK_OK(pith_stream_rollback(s.work, s.stream, 18));
        CHECK(pith_stream_step(s.stream, 0) == 18);
        CHECK_OK(pith_stream_rollback(s.work, s.stream, 18)); /* finds nothing */
        CHECK_OK(pith_stream_rollback(s.work, s.stream, 17));
        CHECK(pith_stream_step(s.stream, 0) == 18);
        struct frame again = stream_encode(&s, &w, 0, false);
        CHECK(pith_stream_step(s.stream, 0) == 19);
        CHECK(again.length == second.length &&
              memcmp(again.bytes, second.bytes, again.length) == 0);
        free(first.bytes);
        free(second.bytes);
        free(again.bytes);
        stream_close(&s);
        cases++;
    }
    CHECK(cases > 60);
}

/* ---- The residual as values -------------------------------------------------------------------*/

static float *residual_of(struct stream *s, uint64_t first, uint64_t count) {
    float *out = allocate((size_t)count * sizeof *out);
    const pith_view v = pith_view_flat(out, PITH_F32, count);
    CHECK_OK(pith_stream_get_residual(s->work, s->stream, first, &v));
    return out;
}

/* What encoding left, rotated back, whole and in parts. */
static void test_get_residual(void **state) {
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct sender model = {settings[i].model, settings[i].thousandths, {0}};
        struct stream s;
        float x[COUNT] = {0};
        double exact[COUNT], error[COUNT];
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
        const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
        uint8_t *blocks = allocate(model_bytes(&model.model, COUNT));
        open_sender(&s, &settings[i], &layout);
        float *got = residual_of(&s, 0, COUNT);
        context("%s", settings[i].spec);
        for (size_t k = 0; k < COUNT; k++) CHECK(got[k] == 0);
        free(got);
        for (uint64_t t = 0; t < 4; t++) {
            model.model.step = t;
            step_values(x, COUNT, t);
            struct frame f = stream_encode(&s, &v, 0, false);
            model_rotate(&model.model, x, COUNT);
            model_send(&model, x, COUNT, blocks);
            free(f.bytes);
        }
        got = residual_of(&s, 0, COUNT);
        model_residual(&model.model, model.residual, COUNT, exact, error);
        for (size_t k = 0; k < COUNT; k++)
            CHECK(fabs((double)got[k] - exact[k]) <= error[k] * (1 + 0x1p-20));
        for (uint64_t first = 0; first < COUNT; first += 77) {
            const uint64_t n = first % 131 < COUNT - first ? first % 131 : COUNT - first;
            float *part = residual_of(&s, first, n);
            CHECK(memcmp(part, got + first, (size_t)n * sizeof *part) == 0);
            free(part);
        }
        for (uint32_t dtype = PITH_BF16; dtype <= PITH_F16; dtype++) {
            uint16_t narrow[COUNT], wanted[COUNT];
            const pith_view o = pith_view_flat(narrow, dtype, COUNT);
            CHECK_OK(pith_stream_get_residual(s.work, s.stream, 0, &o));
            for (size_t k = 0; k < COUNT; k++) store_float(wanted, dtype, k, bits_of(got[k]));
            CHECK(memcmp(narrow, wanted, sizeof wanted) == 0);
        }
        free(got);
        free(blocks);
        stream_close(&s);
    }
}

/* Written and read again: what was written, within two ways of rotation; the rest of the blocks
 * that were touched, within three; all else bit for bit. */
static void set_and_get(struct stream *s, const struct setting *setting, uint64_t first,
                        uint64_t count, uint32_t dtype) {
    float x[COUNT];
    uint8_t given[4 * COUNT];
    double values[COUNT], error[COUNT], before_error[COUNT];
    float *const before = residual_of(s, 0, COUNT);
    gen_fill(GEN_NOISE, first + count, dtype, given, count);
    const pith_view v = pith_view_flat(given, dtype, count);
    CHECK_OK(pith_stream_set_residual(s->work, s->stream, first, &v));
    memcpy(x, before, sizeof x);
    for (size_t k = 0; k < count; k++) x[first + k] = float_of(load_float(given, dtype, k));
    float *const after = residual_of(s, 0, COUNT);
    for (uint64_t slot = 0; slot < s->sizes.slots; slot++) { /* blocks begin anew in each */
        uint64_t begin, n;
        float rotated[COUNT];
        CHECK_OK(pith_plan_slot(s->plan, slot, &begin, &n));
        memcpy(rotated, x + begin, (size_t)n * sizeof *rotated);
        model_rotate(&setting->model, rotated, (size_t)n);
        model_residual(&setting->model, rotated, (size_t)n, values, error);
        memcpy(rotated, before + begin, (size_t)n * sizeof *rotated);
        model_rotate(&setting->model, rotated, (size_t)n);
        model_residual(&setting->model, rotated, (size_t)n, values, before_error);
        const uint64_t order = setting->model.rotate ? setting->model.rotate : 1;
        for (size_t k = 0; k < n; k++) {
            const uint64_t at = begin + k;
            const bool inside = at >= first && at < first + count;
            /* Shorter runs at a slot's end are blocks of their own; a whole one is looked at. */
            const uint64_t block = begin + k / order * order;
            const bool touched = block < first + count && block + order > first;
            const double most = (2 * error[k] + (inside ? 0 : before_error[k])) * (1 + 0x1p-20);
            CHECK(fabs((double)after[at] - (double)x[at]) <= most);
            if (!touched) CHECK(bits_of(after[at]) == bits_of(before[at]));
            if (setting->model.rotate == 0) CHECK(bits_of(after[at]) == bits_of(x[at]));
        }
    }
    free(before);
    free(after);
}

/* An empty range touches no block: none is rotated back and forth, and no step is forgotten. */
static void test_set_nothing(void **state) {
    (void)state;
    enum { N = 1000 };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    float x[N];
    struct stream s;
    size_t bytes;
    for (int i = 0; i < N; i++) x[i] = (float)(i % 37) * 0.1f - 1.7f;
    const pith_view view = pith_view_flat(x, PITH_F32, N), none = pith_view_flat(x, PITH_F32, 0);
    stream_open(&s, "grad:ef=full", &layout, NULL);
    free(stream_encode(&s, &view, 0, false).bytes);
    const size_t cap = (size_t)s.sizes.save_bytes;
    uint8_t *const before = allocate(cap), *const after = allocate(cap);
    CHECK_OK(pith_stream_save(s.work, s.stream, before, cap, &bytes));
    for (uint64_t first = 0; first <= N; first += 125)
        CHECK_OK(pith_stream_set_residual(s.work, s.stream, first, &none));
    CHECK_OK(pith_stream_save(s.work, s.stream, after, cap, &bytes));
    CHECK(memcmp(before, after, cap) == 0);
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 0));
    CHECK(pith_stream_step(s.stream, 0) == 0);
    free(before);
    free(after);
    stream_close(&s);
}

static void test_set_residual(void **state) {
    (void)state;
    static const uint64_t ranges[][2] = {{0, COUNT}, {5, 3},    {31, 2},   {333, 1}, {334, 100},
                                         {300, 400}, {1, 998},  {999, 1},  {500, 0}, {1000, 0},
                                         {64, 128},  {660, 20}, {128, 256}};
    for (size_t i = 0; i < SETTINGS; i++)
        for (uint64_t slots = 1; slots <= SLOTS; slots += SLOTS - 1) {
            struct stream s;
            pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
            layout.slots = slots;
            open_sender(&s, &settings[i], &layout);
            for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
                context("%s in %u slots, elements %u + %u", settings[i].spec, (unsigned)slots,
                        (unsigned)ranges[r][0], (unsigned)ranges[r][1]);
                set_and_get(&s, &settings[i], ranges[r][0], ranges[r][1], (uint32_t)(1 + r % 3));
            }
            stream_close(&s);
        }
}

/* What is set is what the next encode adds. */
static void test_encode_after_set(void **state) {
    (void)state;
    static const char spec[] = "grad:rotate=0,ef=full,bits=3,group=32";
    float x[COUNT] = {0}, residual[COUNT] = {0}, sum[COUNT];
    struct stream s, other;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                    r = pith_view_flat(residual, PITH_F32, COUNT),
                    w = pith_view_flat(sum, PITH_F32, COUNT);
    gen_fill(GEN_NOISE, 1, PITH_F32, x, COUNT);
    gen_fill(GEN_NOISE, 2, PITH_F32, residual, COUNT);
    for (size_t i = 0; i < COUNT; i++) sum[i] = x[i] + residual[i];
    stream_open(&s, spec, &slotted, NULL);
    stream_open(&other, spec, &slotted, NULL);
    CHECK_OK(pith_stream_set_residual(s.work, s.stream, 0, &r));
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        struct frame a = stream_encode(&s, &v, slot, false);
        struct frame b = stream_encode(&other, &w, slot, false);
        context("slot %u", (unsigned)slot);
        CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
        free(a.bytes);
        free(b.bytes);
    }
    stream_close(&s);
    stream_close(&other);
}

/* A framework that cuts its bucket anew: read from the stream of one cut, written to another's,
 * through a view with strides; and saved and loaded like any other residual. */
static void test_residual_of_another_cut(void **state) {
    (void)state;
    struct stream s, other, loaded;
    size_t length;
    pith_layout layout = slotted;
    layout.slots = 7;
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    stream_open(&other, "grad:ef=full", &layout, NULL);
    stream_open(&loaded, "grad:ef=full", &layout, NULL);
    for (uint64_t t = 0; t < 3; t++) send_step(&s, t);
    float *const values = residual_of(&s, 0, COUNT), backwards[COUNT];
    pith_view v = pith_view_flat(backwards + COUNT - 1, PITH_F32, COUNT);
    v.stride[0] = -1;
    CHECK_OK(pith_stream_get_residual(s.work, s.stream, 0, &v));
    for (size_t i = 0; i < COUNT; i++) CHECK(backwards[COUNT - 1 - i] == values[i]);
    CHECK_OK(pith_stream_set_residual(other.work, other.stream, 0, &v));
    float *const moved = residual_of(&other, 0, COUNT);
    double power = 0, error = 0;
    for (size_t i = 0; i < COUNT; i++) {
        error += ((double)moved[i] - (double)values[i]) * ((double)moved[i] - (double)values[i]);
        power += (double)values[i] * (double)values[i];
    }
    CHECK(power > 0 && sqrt(error) <= 10 * 0x1p-24 * sqrt(power)); /* log2(H) twice */
    void *saved = allocate((size_t)other.sizes.save_bytes);
    CHECK_OK(
        pith_stream_save(other.work, other.stream, saved, (size_t)other.sizes.save_bytes, &length));
    CHECK_OK(pith_stream_load(loaded.work, loaded.stream, saved, length));
    float *const again = residual_of(&loaded, 0, COUNT);
    CHECK(memcmp(again, moved, COUNT * sizeof *again) == 0);
    free(saved);
    free(values);
    free(moved);
    free(again);
    stream_close(&s);
    stream_close(&other);
    stream_close(&loaded);
}

/* The slots that a range touches forget what rollback would take back; others do not. */
static void test_set_forgets_the_older_copy(void **state) {
    (void)state;
    struct stream s;
    float zero = 0;
    uint64_t first, count;
    const pith_view v = pith_view_flat(&zero, PITH_F32, 1);
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    send_step(&s, 0);
    send_step(&s, 1);
    CHECK_OK(pith_plan_slot(s.plan, 1, &first, &count));
    CHECK_OK(pith_stream_set_residual(s.work, s.stream, first + count - 1, &v));
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 1));
    CHECK(pith_stream_step(s.stream, 0) == 1);
    CHECK(pith_stream_step(s.stream, 1) == 2);
    CHECK(pith_stream_step(s.stream, 2) == 1);
    stream_close(&s);
}

static void residual_refused(struct stream *s, pith_status wanted, uint64_t first,
                             const pith_view *view) {
    void *const before = copy_of(s->memory, (size_t)s->sizes.stream_bytes);
    const pith_status status = pith_stream_set_residual(s->work, s->stream, first, view);
    CHECK_STATUS(wanted, status);
    CHECK(pith_work_error(s->work)->text[0] != 0);
    CHECK(memcmp(before, s->memory, (size_t)s->sizes.stream_bytes) == 0);
    free(before);
}

/* A value that is not finite, wherever it stands, and a range that is not there change nothing. */
static void test_residuals_refused(void **state) {
    (void)state;
    static const uint32_t holes[3] = {0x7F800000u, 0xFF800000u, 0x7FC00000u};
    static const char *const without[3] = {"grad", "raw", "wdiff"};
    float x[COUNT] = {0};
    struct stream s;
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT);
    stream_open(&s, "grad:ef=full,rotate=64", &slotted, NULL);
    send_step(&s, 0);
    gen_fill(GEN_NOISE, 1, PITH_F32, x, COUNT);
    for (size_t at = 0; at < COUNT; at += at == 0 ? 1 : at * 2 + 1)
        for (size_t k = 0; k < 3; k++) {
            const float kept = x[at];
            context("value %zu is %x", at, holes[k]);
            x[at] = float_of(holes[k]);
            residual_refused(&s, PITH_ERR_ARG, 0, &v);
            x[at] = kept;
        }
    x[COUNT - 1] = float_of(holes[0]);
    residual_refused(&s, PITH_ERR_ARG, 0, &v); /* the last of the last slot */
    x[COUNT - 1] = 0;
    context("ranges beyond the end");
    float *const before = residual_of(&s, 0, COUNT);
    const pith_view ten = pith_view_flat(x, PITH_F32, 10), words = pith_view_flat(x, PITH_I32, 10);
    const uint64_t beyond[3] = {COUNT - 9, COUNT, UINT64_MAX - 4};
    for (size_t k = 0; k < 3; k++) {
        residual_refused(&s, PITH_ERR_SHAPE, beyond[k], &ten);
        CHECK_STATUS(PITH_ERR_SHAPE, pith_stream_get_residual(s.work, s.stream, beyond[k], &ten));
    }
    residual_refused(&s, PITH_ERR_DTYPE, 0, &words);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_stream_get_residual(s.work, s.stream, 0, &words));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_residual(s.work, NULL, 0, &ten));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_residual(s.work, s.stream, 0, NULL));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_get_residual(NULL, s.stream, 0, &ten));
    float *const after = residual_of(&s, 0, COUNT);
    CHECK(memcmp(before, after, sizeof x) == 0);
    free(before);
    free(after);
    stream_close(&s);
    for (size_t k = 0; k < 3; k++) {
        pith_layout layout = slotted;
        context("%s has no residual", without[k]);
        layout.base_dtype = k == 2 ? PITH_F32 : PITH_NONE;
        stream_open(&s, without[k], &layout, NULL);
        residual_refused(&s, PITH_ERR_STATE, 0, &ten);
        CHECK_STATUS(PITH_ERR_STATE, pith_stream_get_residual(s.work, s.stream, 0, &ten));
        stream_close(&s);
    }
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
    void *saved = allocate((size_t)s.sizes.save_bytes);
    CHECK_OK(pith_stream_save(s.work, s.stream, saved, (size_t)s.sizes.save_bytes, &length));
    CHECK(length == s.sizes.save_bytes);
    CHECK_OK(pith_stream_load(other.work, other.stream, saved, length));
    pith_stats a = {.size = sizeof a}, b = {.size = sizeof b};
    CHECK_OK(pith_stream_stats(s.stream, &a));
    CHECK_OK(pith_stream_stats(other.stream, &b));
    CHECK(memcmp(&a, &b, sizeof a) == 0 && a.frames == 12);
    CHECK_OK(pith_stream_rollback(other.work, other.stream, 3)); /* the older copy is forgotten */
    check_steps(&other, 4);
    for (uint64_t t = 4; t < 8; t++) {
        const struct step x = send_step(&s, t), y = send_step(&other, t);
        context("step %u after a load", (unsigned)t);
        CHECK(pith_stream_step(other.stream, 1) == t + 1);
        CHECK(same_step(&x, &y));
    }
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 7));
    CHECK_OK(pith_stream_rollback(other.work, other.stream, 7));
    const struct step x = send_step(&s, 9), y = send_step(&other, 9);
    CHECK(same_step(&x, &y));
    free(saved);
    stream_close(&s);
    stream_close(&other);
}

/* Damage leaves the stream as it was. */
static void test_load_of_damage(void **state) {
    (void)state;
    struct stream s;
    size_t length;
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    send_step(&s, 0);
    const size_t bytes = (size_t)s.sizes.save_bytes;
    uint8_t *saved = allocate(bytes), *again = allocate(bytes);
    CHECK_OK(pith_stream_save(s.work, s.stream, saved, bytes, &length));
    send_step(&s, 1);
    CHECK_OK(pith_stream_save(s.work, s.stream, again, bytes, &length));
    for (size_t at = 0; at < bytes; at += 1 + at / 8) {
        saved[at] ^= 0x10;
        CHECK(pith_stream_load(s.work, s.stream, saved, bytes) < 0);
        saved[at] ^= 0x10;
        CHECK(pith_stream_load(s.work, s.stream, saved, at) < 0);
    }
    CHECK_OK(pith_stream_save(s.work, s.stream, saved, bytes, &length));
    CHECK(memcmp(saved, again, bytes) == 0);
    free(saved);
    free(again);
    stream_close(&s);
}

static void test_reset(void **state) {
    (void)state;
    struct stream s;
    pith_stats stats = {.size = sizeof stats};
    stream_open(&s, "grad:ef=full", &slotted, NULL);
    const struct step first = send_step(&s, 0), second = send_step(&s, 0);
    CHECK(!same_step(&first, &second));
    CHECK_OK(pith_stream_reset(s.work, s.stream));
    CHECK_OK(pith_stream_stats(s.stream, &stats));
    CHECK(stats.frames == 0 && pith_stream_step(s.stream, 0) == 0);
    CHECK_OK(pith_stream_rollback(s.work, s.stream, 0));
    const struct step again = send_step(&s, 0);
    CHECK(same_step(&first, &again));
    stream_close(&s);
}

/* ---- Refusals ---------------------------------------------------------------------------------*/

/* Without a stream there is nothing to encode with, feedback or not. */
static void test_encode_needs_a_stream(void **state) {
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
    CHECK_STATUS(PITH_ERR_ARG, encode_one(out.work, NULL, &v, 0, 0, bytes, sizeof bytes, &length));
    CHECK(length == 0 && all_bytes(bytes, sizeof bytes, 0x5A));
    struct frame f = stream_encode(&in, &v, 0, false);
    const void *const frame = f.bytes;
    length = 1;
    CHECK_STATUS(PITH_ERR_ARG, reduce_encode_one(in.work, in.stream, 0, &frame, &f.length, 1, 1,
                                                 NULL, 0, bytes, sizeof bytes, &length));
    CHECK(length == 0 && all_bytes(bytes, sizeof bytes, 0x5A));
    CHECK(strlen(pith_work_error(in.work)->text) > 0);
    CHECK_STATUS(PITH_ERR_STATE, pith_compress("grad:ef=full", &v, NULL, NULL, NULL, bytes,
                                               sizeof bytes, &length, NULL));
    /* Receivers have no residual, and frames do not tell. */
    CHECK_OK(decode_one(out.work, out.stream, 0, f.bytes, f.length, &v, 0));
    CHECK_OK(reduce_one(out.work, out.stream, 0, &frame, &f.length, 1, 1, &v));
    CHECK(pith_stream_step(out.stream, 0) == 0);
    free(f.bytes);
    stream_close(&in);
    stream_close(&out);
}

/* Streams of one layout whose specs keep other residuals load nothing from each other. */
static void test_stream_of_another_plan(void **state) {
    (void)state;
    static const char *const specs[] = {"grad", "grad:ef=full,bits=3", "grad:ef=full,rotate=0",
                                        "grad:ef=full,sign_seed=1", "grad:ef=full,group=64"};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream own, other;
    uint8_t bytes[8192];
    size_t length;
    stream_open(&own, "grad:ef=full", &layout, NULL);
    for (size_t i = 0; i <= sizeof specs / sizeof specs[0]; i++) {
        const bool cut = i == sizeof specs / sizeof specs[0];
        context("stream of plan %zu", i);
        stream_open(&other, cut ? "grad:ef=full" : specs[i], cut ? &slotted : &layout, NULL);
        CHECK(pith_stream_plan(other.stream) == other.plan);
        CHECK_OK(pith_stream_save(other.work, other.stream, bytes, sizeof bytes, &length));
        CHECK_STATUS(PITH_ERR_MISMATCH, pith_stream_load(own.work, own.stream, bytes, length));
        CHECK_OK(pith_stream_save(own.work, own.stream, bytes, sizeof bytes, &length));
        CHECK_STATUS(PITH_ERR_MISMATCH, pith_stream_load(other.work, other.stream, bytes, length));
        stream_close(&other);
    }
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_rollback(own.work, NULL, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_rollback(NULL, own.stream, 0));
    stream_close(&own);
}

static void test_rollback_of_a_base(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_F32, 10);
    struct stream s;
    stream_open(&s, "wdiff", &layout, NULL);
    CHECK_STATUS(PITH_ERR_STATE, pith_stream_rollback(s.work, s.stream, 0));
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_model),
        cmocka_unit_test(test_second_hop),
        cmocka_unit_test(test_accumulated_sum),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_rollback_by_slot),
        cmocka_unit_test(test_rollback_of_the_second_hop),
        cmocka_unit_test(test_rollback_of_every_codec),
        cmocka_unit_test(test_get_residual),
        cmocka_unit_test(test_set_residual),
        cmocka_unit_test(test_set_nothing),
        cmocka_unit_test(test_encode_after_set),
        cmocka_unit_test(test_residual_of_another_cut),
        cmocka_unit_test(test_set_forgets_the_older_copy),
        cmocka_unit_test(test_residuals_refused),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_load_of_damage),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_encode_needs_a_stream),
        cmocka_unit_test(test_stream_of_another_plan),
        cmocka_unit_test(test_rollback_of_a_base),
    };
    return cmocka_run_group_tests_name("feedback", tests, NULL, NULL);
}
