/* test_grad.c - codec grad: its specs, which frames belong together, and many slots at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "util.h"

/* ---- Specs -----------------------------------------------------------------------------------*/

static void test_specs(void **state) {
    (void)state;
    static const char *const good[][2] = {
        {"grad", "grad"},
        {"grad:preset=inter", "grad"},
        {"grad:preset=intra", "grad:bits=8"},
        {"grad:preset=intra,bits=3", "grad:bits=3,search=mse"},
        {"grad:bits=3,preset=intra", "grad:bits=3,search=mse"},
        {"grad:bits=2", "grad:bits=2,search=mse"},
        {"grad:search=mse,bits=2", "grad:bits=2,search=mse"},
        {"grad:search=none,bits=2", "grad:bits=2,search=none"},
        {"grad:bits=3,search=none,scale_dtype=e8m0", "grad:bits=3,scale_dtype=e8m0,search=none"},
        {"grad:bits=2,round=nearest", "grad:bits=2,search=mse"},
        {"grad:bits=2,round=stochastic", "grad:bits=2,round=stochastic"},
        {"grad:bits=3,search=none,round=antithetic", "grad:bits=3,round=antithetic"},
        {"grad:bits=4,search=none", "grad"},
        {"grad:bits=4,preset=intra", "grad"},
        {"grad:preset=inter,bits=8", "grad:bits=8"},
        {"grad:round=nearest,scale_dtype=f32,search=none,ef=none,sign_seed=0,group=128,rotate=32",
         "grad"},
        {"grad:ef=full", "grad:ef=full"},
        {"grad:ef=ema:0.8", "grad:ef=ema:0.8"},
        {"grad:ef=ema:0.80", "grad:ef=ema:0.8"},
        {"grad:ef=ema:0.800", "grad:ef=ema:0.8"},
        {"grad:ef=ema:0.85", "grad:ef=ema:0.85"},
        {"grad:ef=ema:0.805", "grad:ef=ema:0.805"},
        {"grad:ef=ema:0.05", "grad:ef=ema:0.05"},
        {"grad:ef=ema:0.001", "grad:ef=ema:0.001"},
        {"grad:ef=ema:0.999", "grad:ef=ema:0.999"},
        {"grad:ef=ema:0.0", "grad:ef=full"},
        {"grad:sign_seed=4294967295", "grad:sign_seed=4294967295"},
        {"grad:group=32,rotate=32,block=32", "grad:group=32,block=32"},
        {"grad:rotate=0,group=4096", "grad:group=4096,rotate=0"},
        {"grad:group=256,rotate=256", "grad:group=256,rotate=256"},
        {"grad:scale_dtype=e8m0,search=mse", "grad:scale_dtype=e8m0,search=mse"},
        {"grad:block=16777216,sign_seed=1,search=mse,scale_dtype=bf16,group=4096,rotate=64,bits=5",
         "grad:bits=5,group=4096,rotate=64,scale_dtype=bf16,search=mse,sign_seed=1,block=16777216"},
    };
    char text[PITH_SPEC_MAX], again[PITH_SPEC_MAX];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        context("%s", good[i][0]);
        CHECK_OK(pith_spec_check(good[i][0], text, sizeof text, NULL));
        context("%s became %s", good[i][0], text);
        CHECK(strcmp(text, good[i][1]) == 0);
        CHECK_OK(pith_spec_check(text, again, sizeof again, NULL));
        CHECK(strcmp(again, good[i][1]) == 0);
    }
}

static void test_bad_specs(void **state) {
    (void)state;
    static const char *const bad[] = {
        "ef=ema:1",
        "ef=ema:1.0",
        "ef=ema:.8",
        "ef=ema:0.",
        "ef=ema:0.1234",
        "ef=ema:0",
        "ef=ema:",
        "ef=ema",
        "ef=ema:-0.5",
        "ef=ema:0.8x",
        "ef=ema:0.8 ",
        "ef=ema: 0.8",
        "ef=ema:0,8",
        "ef=ema:0.8e1",
        "ef=ema:00.8",
        "ef=Full",
        "ef=",
        "ef=half",
        "ef=none ",
        "preset=high",
        "preset=",
        "preset",
        "bits=0",
        "bits=1",
        "bits=7",
        "bits=9",
        "bits=16",
        "bits=",
        "bits=+4",
        "group=16",
        "group=8192",
        "group=100",
        "group=0",
        "rotate=16",
        "rotate=512",
        "rotate=1",
        "rotate=33",
        "round=up",
        "round=random",
        "scale_dtype=f16",
        "scale_dtype=8",
        "search=max",
        "sign_seed=-1",
        "sign_seed=4294967296",
        "sign_seed=0x10",
        "sign_seed=99999999999",
        "block=16",
        "block=33554432",
        "bits=4,bits=4",
        "seed=1",
        "base_hash=off",
        "entropy=zstd",
        "round=",
        "preset=intra,preset=intra",
    };
    /* Rules across keys. */
    static const char *const across[] = {
        "rotate=64,group=32",
        "rotate=256",
        "group=64,rotate=128",
        "sign_seed=1,rotate=0",
        "search=mse,round=stochastic",
        "search=mse,round=antithetic",
        "block=64",
        "group=4096,block=2048",
    };
    char spec[PITH_SPEC_MAX];
    pith_error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(spec, sizeof spec, "grad:%s", bad[i]);
        context("%s", spec);
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, NULL, 0, &error));
        CHECK(error.text[0] && error.offset >= 5 && error.offset < strlen(spec) + 1);
    }
    for (size_t i = 0; i < sizeof across / sizeof across[0]; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
        pith_plan *plan;
        snprintf(spec, sizeof spec, "grad:%s", across[i]);
        context("%s", spec);
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, NULL, 0, &error));
        CHECK(error.text[0]);
        CHECK_STATUS(PITH_ERR_SPEC, pith_plan_create(&plan, spec, &layout, NULL, &error));
    }
}

static void test_dtypes_and_bases(void **state) {
    (void)state;
    pith_plan *plan;
    for (uint32_t dtype = PITH_F32; dtype <= PITH_F8E5M2; dtype++) {
        const pith_layout layout = flat_layout(dtype, PITH_NONE, 10);
        const bool real = dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16;
        context("%s", pith_dtype_name(dtype));
        CHECK_STATUS(real ? PITH_OK : PITH_ERR_DTYPE,
                     pith_plan_create(&plan, "grad", &layout, NULL, NULL));
        pith_plan_destroy(plan);
    }
    const pith_layout based = flat_layout(PITH_F32, PITH_F32, 10);
    CHECK_STATUS(PITH_ERR_DTYPE, pith_plan_create(&plan, "grad", &based, NULL, NULL));
}

/* What a frame says of itself: all that decoding needs, and what informs, but not the encoder's. */
static void test_recorded_specs(void **state) {
    (void)state;
    static const char *const specs[][2] = {
        {"grad:preset=intra", "grad:bits=8"},
        {"grad:sign_seed=4294967295", "grad:sign_seed=4294967295"},
        {"grad:sign_seed=1", "grad:sign_seed=1"},
        {"grad:sign_seed=65536,round=antithetic", "grad:round=antithetic,sign_seed=65536"},
        {"grad:sign_seed=16777217,rotate=64", "grad:rotate=64,sign_seed=16777217"},
        {"grad:rotate=0,search=mse,scale_dtype=e8m0", "grad:rotate=0,scale_dtype=e8m0,search=mse"},
        {"grad:group=4096,rotate=256,bits=2", "grad:bits=2,group=4096,rotate=256,search=mse"},
        {"grad:search=none,bits=2", "grad:bits=2,search=none"},
        {"grad:bits=3,round=stochastic", "grad:bits=3,round=stochastic"},
    };
    float x[100] = {1, 2, 3};
    const pith_view v = pith_view_flat(x, PITH_F32, 100);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        pith_info info;
        context("%s", specs[i][0]);
        struct frame f = compress(specs[i][0], &v, NULL, 0);
        CHECK_OK(pith_inspect(f.bytes, f.length, &info, NULL));
        CHECK(strcmp(info.spec, specs[i][1]) == 0);
        CHECK(info.codec == 4 && !info.has_step && info.exempt == 0);
        free(f.bytes);
    }
}

/* ---- Which frames belong together ------------------------------------------------------------*/

static struct frame frame_of(const char *spec, uint32_t dtype, size_t count) {
    uint8_t x[4 * 1000];
    gen_fill(GEN_NOISE, 1, dtype, x, count);
    const pith_view v = pith_view_flat(x, dtype, count);
    const pith_layout layout = flat_layout(dtype, PITH_NONE, count);
    struct stream s;
    stream_open(&s, spec, &layout, NULL);
    struct frame f = stream_encode(&s, &v, 0, false);
    stream_close(&s);
    return f;
}

static void check_together(const struct frame *own, const struct frame *f, pith_status wanted) {
    static const char spec[] = "grad:group=64,rotate=64,sign_seed=7,block=256";
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 1000);
    struct stream s, out;
    uint8_t x[4000], bytes[4096];
    size_t length;
    const pith_view v = pith_view_flat(x, PITH_F32, 1000);
    const void *const frames[2] = {own->bytes, f->bytes};
    const size_t lengths[2] = {own->length, f->length};
    memset(x, 0x5A, sizeof x);
    memset(bytes, 0x5A, sizeof bytes);
    stream_open(&s, spec, &layout, NULL);
    stream_open(&out, "grad:group=64,rotate=64,sign_seed=7", &layout, NULL);
    CHECK_STATUS(wanted, pith_reduce(s.plan, s.state, 0, frames, lengths, 2, 1, &v));
    CHECK_STATUS(wanted, pith_reduce_encode(s.plan, s.state, 0, frames, lengths, 2, 1, out.plan,
                                            out.state, 0, bytes, sizeof bytes, &length));
    CHECK_STATUS(wanted, pith_decode(s.plan, s.state, 0, f->bytes, f->length, &v));
    CHECK_STATUS(wanted, pith_decode_add(s.plan, 0, f->bytes, f->length, &v));
    pith_stats stats;
    pith_state_stats(s.state, &stats);
    if (wanted != PITH_OK) {
        CHECK(length == 0 && stats.frames == 0);
        CHECK(all_bytes(x, sizeof x, 0x5A) && all_bytes(bytes, sizeof bytes, 0x5A));
    } else {
        CHECK(stats.frames == 5);
    }
    stream_close(&s);
    stream_close(&out);
}

static void test_frames_that_belong_together(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype;
        size_t count;
        pith_status wanted;
    } rows[] = {
        {"grad:group=64,rotate=64,sign_seed=7,block=256", PITH_F32, 1000, PITH_OK},
        {"grad:group=64,rotate=64,sign_seed=7,block=256,round=stochastic", PITH_F32, 1000, PITH_OK},
        {"grad:group=64,rotate=64,sign_seed=7,block=256,search=mse", PITH_F32, 1000, PITH_OK},
        {"grad:group=64,rotate=64,sign_seed=7,block=256,ef=full", PITH_F32, 1000, PITH_OK},
        {"grad:group=64,rotate=64,sign_seed=8,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=64,sign_seed=16777223,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=64,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=32,sign_seed=7,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=0,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=128,rotate=64,sign_seed=7,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:bits=5,group=64,rotate=64,sign_seed=7,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=64,sign_seed=7,block=512", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=64,sign_seed=7,block=256,scale_dtype=bf16", PITH_F32, 1000,
         PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=64,sign_seed=7,block=256", PITH_BF16, 1000, PITH_ERR_MISMATCH},
        {"grad:group=64,rotate=64,sign_seed=7,block=256", PITH_F32, 999, PITH_ERR_MISMATCH},
        {"wdiff:group=64,block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
        {"raw:block=256", PITH_F32, 1000, PITH_ERR_MISMATCH},
    };
    struct frame own = frame_of(rows[0].spec, PITH_F32, 1000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct frame f = frame_of(rows[i].spec, rows[i].dtype, rows[i].count);
        context("%s %s %zu", rows[i].spec, pith_dtype_name(rows[i].dtype), rows[i].count);
        check_together(&own, &f, rows[i].wanted);
        free(f.bytes);
    }
    free(own.bytes);
}

/* ---- Slots -----------------------------------------------------------------------------------*/

static void test_slot_order(void **state) {
    (void)state;
    uint64_t order[12];
    static const uint64_t node_major[12] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    static const uint64_t rank_major[12] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};
    pith_slot_order(3, 4, order); /* three nodes of four ranks, numbered node by node */
    CHECK(memcmp(order, node_major, sizeof order) == 0);
    pith_slot_order(4, 3, order); /* the same machine, numbered the other way */
    CHECK(memcmp(order, rank_major, sizeof order) == 0);
    pith_slot_order(1, 12, order);
    for (uint64_t i = 0; i < 12; i++) CHECK(order[i] == i);
    pith_slot_order(12, 1, order);
    for (uint64_t i = 0; i < 12; i++) CHECK(order[i] == i);
    memset(order, 0x5A, sizeof order);
    pith_slot_order(0, 4, order);
    pith_slot_order(4, 0, order);
    CHECK(all_bytes(order, sizeof order, 0x5A));
}

struct cut {
    uint64_t count, slots, slot_count;
    const uint64_t *slot_counts;
};
static const uint64_t ragged[12] = {0, 700, 1, 0, 33, 0, 64, 65, 0, 0, 137, 0};
static const struct cut cuts[] = {
    {1200, 12, 0, NULL}, {1000, 12, 0, NULL}, {1000, 12, 128, NULL}, {1000, 12, 96, NULL},
    {5, 12, 0, NULL},    {0, 12, 0, NULL},    {1000, 12, 0, ragged}, {1000, 12, 1000, NULL},
};

/* Several slots in one call are what single calls make, each at its place, nothing between. */
static void check_slots(const char *spec, const struct cut *c, const uint64_t *slots,
                        uint64_t count) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, c->count);
    layout.slots = c->slots;
    layout.slot_count = c->slot_count;
    layout.slot_counts = c->slot_counts;
    struct stream many, one;
    float x[1200];
    gen_fill(GEN_NOISE, 3, PITH_F32, x, c->count);
    const pith_view v = pith_view_flat(x, PITH_F32, c->count);
    stream_open(&many, spec, &layout, NULL);
    stream_open(&one, spec, &layout, NULL);
    pith_plan_set_random(many.plan, 5, 6, 7);
    pith_plan_set_random(one.plan, 5, 6, 7);
    const size_t each = (size_t)many.sizes.slot_bytes, cap = (size_t)count * each;
    uint8_t *bytes = room(cap);
    size_t lengths[24];
    for (int step = 0; step < 2; step++) {
        memset(bytes, 0xA5, cap);
        CHECK_OK(pith_encode_slots(many.plan, many.state, &v, slots, count, bytes, cap, lengths));
        for (uint64_t k = 0; k < count; k++) {
            struct frame f = stream_encode(&one, &v, slots ? slots[k] : k, false);
            CHECK(lengths[k] == f.length);
            CHECK(memcmp(bytes + k * each, f.bytes, f.length) == 0);
            CHECK(all_bytes(bytes + k * each + f.length, each - f.length, 0xA5));
            free(f.bytes);
        }
    }
    free(bytes);
    stream_close(&many);
    stream_close(&one);
}

static void test_encode_slots(void **state) {
    (void)state;
    static const char *const specs[] = {"grad:group=32,block=64", "grad:round=stochastic,bits=8",
                                        "grad:ef=full,bits=2", "wdiff:group=16", "lossless"};
    static const uint64_t subset[5] = {7, 3, 11, 0, 3}, one[1] = {11};
    uint64_t order[12];
    pith_slot_order(3, 4, order);
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++)
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            context("%s cut %zu", specs[k], i);
            check_slots(specs[k], &cuts[i], NULL, 12);
            check_slots(specs[k], &cuts[i], order, 12);
            check_slots(specs[k], &cuts[i], subset, 5);
            check_slots(specs[k], &cuts[i], one, 1);
            check_slots(specs[k], &cuts[i], one, 0);
        }
}

/* What a hierarchical exchange does: the frames in send order, each decoded where it belongs. */
static void test_exchange(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        pith_layout layout = flat_layout(PITH_F32, PITH_NONE, cuts[i].count);
        layout.slots = 12;
        layout.slot_count = cuts[i].slot_count;
        layout.slot_counts = cuts[i].slot_counts;
        struct stream s;
        float x[1200], out[1200];
        uint64_t order[12];
        size_t lengths[12];
        context("cut %zu", i);
        gen_fill(GEN_NOISE, 3, PITH_F32, x, cuts[i].count);
        memset(out, 0xFF, sizeof out);
        const pith_view v = pith_view_flat(x, PITH_F32, cuts[i].count),
                        o = pith_view_flat(out, PITH_F32, cuts[i].count);
        stream_open(&s, "grad:bits=8", &layout, NULL);
        const size_t each = (size_t)s.sizes.slot_bytes;
        uint8_t *bytes = room(12 * each);
        pith_slot_order(3, 4, order);
        CHECK_OK(pith_encode_slots(s.plan, NULL, &v, order, 12, bytes, 12 * each, lengths));
        for (size_t k = 0; k < 12; k++) /* a receiver that knows only the stride */
            CHECK_OK(pith_decode(s.plan, NULL, order[k], bytes + k * each, each, &o));
        for (size_t k = 0; k < cuts[i].count; k++) {
            const float error = out[k] - x[k];
            CHECK(error < 0.01f && error > -0.01f);
        }
        free(bytes);
        stream_close(&s);
    }
}

static void test_encode_slots_refusals(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    layout.slots = 4;
    struct stream s;
    float x[100] = {0};
    uint8_t bytes[4096];
    size_t lengths[4];
    static const uint64_t bad[2] = {1, 4};
    const pith_view v = pith_view_flat(x, PITH_F32, 100), piece = pith_view_flat(x, PITH_F32, 25),
                    other = pith_view_flat(x, PITH_BF16, 100);
    stream_open(&s, "grad", &layout, NULL);
    const size_t each = (size_t)s.sizes.slot_bytes;
    memset(bytes, 0x5A, sizeof bytes);
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, &v, NULL, 4, bytes, sizeof bytes, NULL));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, &v, NULL, 4, NULL, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, NULL, NULL, 4, bytes, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_encode_slots(s.plan, NULL, &v, NULL, 4, bytes, 4 * each - 1, lengths));
    CHECK_STATUS(PITH_ERR_SPACE, pith_encode_slots(s.plan, NULL, &v, NULL, UINT64_MAX, bytes,
                                                   sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_SHAPE,
                 pith_encode_slots(s.plan, NULL, &piece, NULL, 4, bytes, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_DTYPE,
                 pith_encode_slots(s.plan, NULL, &other, NULL, 4, bytes, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(NULL, NULL, &v, NULL, 4, bytes, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, NULL, NULL, 4, bytes, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, &v, NULL, 4, NULL, sizeof bytes, lengths));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, &v, NULL, 4, bytes, sizeof bytes, NULL));
    CHECK(all_bytes(bytes, sizeof bytes, 0x5A));
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_encode_slots(s.plan, NULL, &v, bad, 2, bytes, sizeof bytes, lengths));
    CHECK(lengths[0] > 0 && lengths[1] == 0);
    CHECK(all_bytes(bytes + each, sizeof bytes - each, 0x5A));
    stream_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_bad_specs),
        cmocka_unit_test(test_dtypes_and_bases),
        cmocka_unit_test(test_recorded_specs),
        cmocka_unit_test(test_frames_that_belong_together),
        cmocka_unit_test(test_slot_order),
        cmocka_unit_test(test_encode_slots),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_encode_slots_refusals),
    };
    return cmocka_run_group_tests_name("grad", tests, NULL, NULL);
}
