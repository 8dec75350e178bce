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
    pith_error error = {.size = sizeof error};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(spec, sizeof spec, "grad:%s", bad[i]);
        context("%s", spec);
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, NULL, 0, &error));
        CHECK(error.text[0] && error.offset >= 5 && error.offset < strlen(spec) + 1);
    }
    for (size_t i = 0; i < sizeof across / sizeof across[0]; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 10);
        const pith_plan *plan;
        snprintf(spec, sizeof spec, "grad:%s", across[i]);
        context("%s", spec);
        CHECK_STATUS(PITH_ERR_SPEC, pith_spec_check(spec, NULL, 0, &error));
        CHECK(error.text[0]);
        CHECK_STATUS(PITH_ERR_SPEC, pith_plan_create(&plan, spec, &layout, NULL, &error));
    }
}

static void test_dtypes_and_bases(void **state) {
    (void)state;
    const pith_plan *plan;
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
        pith_info info = {.size = sizeof info};
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
    const pith_plan *const plans[2] = {s.plan, out.plan};
    void *memory;
    pith_work *const both = work_for(plans, 2, NULL, &memory);
    CHECK_STATUS(wanted, reduce_one(s.work, s.stream, 0, frames, lengths, 2, 1, &v));
    CHECK_STATUS(wanted, reduce_encode_one(both, s.stream, 0, frames, lengths, 2, 1, out.stream, 0,
                                           bytes, sizeof bytes, &length));
    CHECK_STATUS(wanted, decode_one(s.work, s.stream, 0, f->bytes, f->length, &v, 0));
    CHECK_STATUS(wanted, decode_one(s.work, s.stream, 0, f->bytes, f->length, &v, PITH_ADD));
    pith_stats stats = {.size = sizeof stats};
    CHECK_OK(pith_stream_stats(s.stream, &stats));
    if (wanted != PITH_OK) {
        CHECK(length == 0 && stats.frames == 0);
        CHECK(all_bytes(x, sizeof x, 0x5A) && all_bytes(bytes, sizeof bytes, 0x5A));
    } else {
        CHECK(stats.frames == 5); /* PITH_ADD changes nothing in a stream */
    }
    free(memory);
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

enum { SLOTS = 12 };

static pith_item item_of(struct stream *s, uint64_t slot, const pith_view *view, uint8_t *frame,
                         size_t capacity, size_t length) {
    return (pith_item){.size = sizeof(pith_item),
                       .stream = s->stream,
                       .slot = slot,
                       .view = *view,
                       .frame = frame,
                       .capacity = capacity,
                       .length = length,
                       .status = PITH_ERR_INTERNAL};
}

/* Several slots in one call are what single calls make, each at its place, nothing between. */
static void check_slots(const char *spec, const struct cut *c, const uint64_t *slots,
                        size_t count) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, c->count);
    layout.slots = c->slots;
    layout.slot_count = c->slot_count;
    layout.slot_counts = c->slot_counts;
    const pith_stream_options options = {
        .size = sizeof options, .seed = 5, .rng_stream = 6, .step = 7};
    struct stream many, one;
    float x[1200];
    gen_fill(GEN_NOISE, 3, PITH_F32, x, c->count);
    const pith_view v = pith_view_flat(x, PITH_F32, c->count);
    stream_open_with(&many, spec, &layout, NULL, &options);
    stream_open_end(&one, &many, &options);
    const size_t each = (size_t)many.sizes.slot_bytes, cap = count * each;
    uint8_t *bytes = allocate(cap);
    pith_item items[SLOTS];
    for (uint64_t step = 7; step < 9; step++) {
        memset(bytes, 0xA5, cap);
        for (size_t k = 0; k < count; k++)
            items[k] = item_of(&many, slots ? slots[k] : k, &v, bytes + k * each, each, SIZE_MAX);
        CHECK_OK(pith_encode(many.work, items, count, 0));
        for (size_t k = 0; k < count; k++) {
            struct frame f = stream_encode(&one, &v, items[k].slot, false);
            CHECK(items[k].status == PITH_OK && items[k].length == f.length);
            CHECK(memcmp(bytes + k * each, f.bytes, f.length) == 0);
            CHECK(all_bytes(bytes + k * each + f.length, each - f.length, 0xA5));
            CHECK(pith_stream_step(many.stream, items[k].slot) == step + 1);
            free(f.bytes);
        }
    }
    free(bytes);
    stream_close(&one);
    stream_close(&many);
}

static void test_encode_slots(void **state) {
    (void)state;
    static const char *const specs[] = {"grad:group=32,block=64", "grad:round=stochastic,bits=8",
                                        "grad:ef=full,bits=2", "wdiff:group=16", "lossless"};
    static const uint64_t subset[5] = {7, 3, 11, 0, 4}, one[1] = {11};
    uint64_t order[SLOTS];
    pith_slot_order(3, 4, order);
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++)
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            context("%s cut %zu", specs[k], i);
            check_slots(specs[k], &cuts[i], NULL, SLOTS);
            check_slots(specs[k], &cuts[i], order, SLOTS);
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
        layout.slots = SLOTS;
        layout.slot_count = cuts[i].slot_count;
        layout.slot_counts = cuts[i].slot_counts;
        struct stream s;
        float x[1200], out[1200];
        uint64_t order[SLOTS];
        pith_item items[SLOTS];
        context("cut %zu", i);
        gen_fill(GEN_NOISE, 3, PITH_F32, x, cuts[i].count);
        memset(out, 0xFF, sizeof out);
        const pith_view v = pith_view_flat(x, PITH_F32, cuts[i].count),
                        o = pith_view_flat(out, PITH_F32, cuts[i].count);
        stream_open(&s, "grad:bits=8", &layout, NULL);
        const size_t each = (size_t)s.sizes.slot_bytes;
        uint8_t *bytes = allocate(SLOTS * each);
        pith_slot_order(3, 4, order);
        for (size_t k = 0; k < SLOTS; k++)
            items[k] = item_of(&s, order[k], &v, bytes + k * each, each, 0);
        CHECK_OK(pith_encode(s.work, items, SLOTS, 0));
        for (size_t k = 0; k < SLOTS; k++) /* a receiver that knows only the stride */
            items[k] = item_of(&s, order[k], &o, bytes + k * each, 0, each);
        CHECK_OK(pith_decode(s.work, items, SLOTS, 0));
        for (size_t k = 0; k < SLOTS; k++) CHECK(items[k].status == PITH_OK);
        for (size_t k = 0; k < cuts[i].count; k++) {
            const float error = out[k] - x[k];
            CHECK(error < 0.01f && error > -0.01f);
        }
        free(bytes);
        stream_close(&s);
    }
}

/* ---- Lists that are refused ------------------------------------------------------------------*/

struct refusal {
    struct stream s;
    float x[100];
    pith_view view;
    uint8_t bytes[4096];
    pith_item items[4];
};

static void refusal_open(struct refusal *r) {
    pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    layout.slots = 4;
    memset(r, 0, sizeof *r);
    stream_open(&r->s, "grad", &layout, NULL);
    r->view = pith_view_flat(r->x, PITH_F32, 100);
    memset(r->bytes, 0x5A, sizeof r->bytes);
}

/* Four good items, of which the test spoils one. */
static pith_item *good_items(struct refusal *r) {
    const size_t each = (size_t)r->s.sizes.slot_bytes;
    for (size_t k = 0; k < 4; k++)
        r->items[k] = item_of(&r->s, k, &r->view, r->bytes + k * each, each, SIZE_MAX);
    return r->items;
}

/* Nothing was written, no stream went on; the error says which item is meant. */
static void check_refused(struct refusal *r, pith_status wanted, size_t item, uint32_t flags) {
    CHECK_STATUS(wanted, pith_encode(r->s.work, r->items, 4, flags));
    CHECK(r->items[item].length == 0 && r->items[item].status == wanted);
    CHECK(pith_work_error(r->s.work)->text[0] && pith_work_error(r->s.work)->item == item);
    for (uint64_t k = 0; k < 4; k++) CHECK(pith_stream_step(r->s.stream, k) == 0);
    CHECK(all_bytes(r->bytes, sizeof r->bytes, 0x5A));
}

static void test_lists_refused(void **state) {
    (void)state;
    struct refusal r;
    float other[25] = {0};
    refusal_open(&r);
    for (size_t k = 0; k < 4; k++) {
        context("item %zu is bad", k);
        good_items(&r)[k].frame = NULL;
        check_refused(&r, PITH_ERR_ARG, k, 0);
        good_items(&r)[k].stream = NULL;
        check_refused(&r, PITH_ERR_ARG, k, 0);
        good_items(&r)[k].view.data = NULL;
        check_refused(&r, PITH_ERR_ARG, k, 0);
        good_items(&r)[k].slot = 4;
        check_refused(&r, PITH_ERR_ARG, k, 0);
        good_items(&r)[k].capacity--;
        check_refused(&r, PITH_ERR_SPACE, k, 0);
        good_items(&r)[k].view = pith_view_flat(other, PITH_F32, 24);
        check_refused(&r, PITH_ERR_SHAPE, k, 0);
        good_items(&r)[k].view = pith_view_flat(r.x, PITH_BF16, 100);
        check_refused(&r, PITH_ERR_DTYPE, k, 0);
    }
    for (size_t k = 1; k < 4; k++) {
        context("items %zu and 0 are one slot", k);
        good_items(&r)[k].slot = 0;
        check_refused(&r, PITH_ERR_ARG, k, 0);
        context("item %zu has a size of its own", k);
        good_items(&r)[k].size = sizeof(pith_item) - 8;
        CHECK_STATUS(PITH_ERR_ARG, pith_encode(r.s.work, r.items, 4, 0));
        CHECK(all_bytes(r.bytes, sizeof r.bytes, 0x5A));
    }
    context("no list, no work, flags of other calls");
    good_items(&r);
    CHECK_STATUS(PITH_ERR_ARG, pith_encode(r.s.work, NULL, 4, 0));
    CHECK_STATUS(PITH_ERR_ARG, pith_encode(NULL, r.items, 4, 0));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(r.s.work, r.items, 4, PITH_ADD));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(r.s.work, r.items, 4, UINT32_C(1) << 31));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_encode(r.s.work, r.items, 4, PITH_KEY_FRAME));
    r.items[0].size = 0;
    CHECK_STATUS(PITH_ERR_ARG, pith_encode(r.s.work, r.items, 4, 0));
    CHECK(all_bytes(r.bytes, sizeof r.bytes, 0x5A));
    context("a piece for one slot, the tensor for the others");
    good_items(&r)[2].view = pith_view_flat(other, PITH_F32, 25);
    CHECK_OK(pith_encode(r.s.work, r.items, 4, 0));
    stream_close(&r.s);
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
        cmocka_unit_test(test_lists_refused),
    };
    return cmocka_run_group_tests_name("grad", tests, NULL, NULL);
}
