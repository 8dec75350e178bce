/* test_gpu_kv.c - codec kv on the device: frames, values and statuses are the CPU's, for every
 * setting, shape and dtype that devices take.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

static const char *const specs[] = {
    "kv",
    "kv:bits=2,group=16,page=16",
    "kv:bits=3,group=32,page=16,scale_dtype=bf16",
    "kv:bits=5,group=64,page=32,scale_dtype=f32",
    "kv:bits=6,group=16,page=64,symmetric=on",
    "kv:preset=q8,page=128",
    "kv:order=heads,group=32,page=32,symmetric=on,scale_dtype=f32",
    "kv:axis=channel",
    "kv:preset=kivi2,page=64",
    "kv:axis=channel,bits=3,group=16,page=16,scale_dtype=bf16",
    "kv:axis=channel,bits=6,group=64,page=64,symmetric=on",
    "kv:order=heads,axis=channel,bits=5,group=16,page=32,scale_dtype=f32",
    "kv:codebook=nf,bits=3,group=32,page=16",
    "kv:codebook=nf,bits=2,group=16,page=16,axis=channel,scale_dtype=bf16",
    "kv:codebook=lloyd,group=64,page=16,scale_dtype=f32",
    "kv:codebook=lloyd,bits=3,group=32,page=64,axis=channel",
    "kv:outliers=0.125,bits=2,group=64,page=16",
    "kv:outliers=0.04,group=32,page=32,codebook=lloyd,scale_dtype=bf16",
    "kv:outliers=0.1,bits=3,group=16,page=16,axis=channel",
    "kv:preset=kvquant-lite,codebook=lloyd,page=128",
    "kv:outliers=0.04,group=32,page=32,symmetric=on,scale_dtype=bf16",
    "kv:preset=kvquant-lite,page=128",
    "kv:codebook=trellis",
    "kv:codebook=trellis,bits=2,group=16,page=16,scale_dtype=f32",
    "kv:codebook=trellis,bits=2,group=32,page=64,axis=channel",
    "kv:codebook=trellis,group=32,page=32,outliers=0.1",
    "kv:codebook=trellis,bits=3,group=64,page=64,axis=channel,outliers=0.04,scale_dtype=bf16",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* Heads that end inside units and groups, pages that end inside groups, several sequences. */
static const uint64_t shapes[][5] = {
    {1, 100},         {2, 0, 64},         {2, 1, 128},     {2, 127, 5},     {2, 129, 80},
    {3, 40, 2, 96},   {3, 33, 3, 5},      {3, 130, 2, 64}, {3, 17, 1, 256}, {3, 20, 2, 160},
    {4, 2, 35, 3, 7}, {4, 3, 129, 2, 32}, {2, 3, 1},       {2, 16, 1000},   {3, 5, 70, 8},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Scales that are searched for, which takes long: fewer of them. */
static const char *const searching[] = {
    "kv:search=mse,bits=2,group=32",
    "kv:preset=q4,group=16,page=16,scale_dtype=bf16",
    "kv:search=mse,bits=3,group=16,page=16,axis=channel,scale_dtype=f32",
    "kv:search=mse,bits=8,group=256,page=256,axis=channel,symmetric=on",
    "kv:search=mse,bits=6,group=32,page=32,axis=channel,scale_dtype=bf16",
    "kv:search=mse,bits=2,group=128,order=heads,page=16,scale_dtype=f32",
    "kv:search=mse,bits=3,group=256,outliers=0.125,page=16",
    "kv:codebook=lloyd,group=256,page=256,axis=channel,outliers=0.125",
    "kv:preset=q4,group=16,page=16,outliers=0.1",
};

/* Rows of heads that can be rotated. */
static const char *const rotating[] = {
    "kv:preset=quarot4",
    "kv:rotate_heads=on,bits=3,group=16,page=16,scale_dtype=bf16",
    "kv:rotate_heads=on,axis=channel,group=32,page=32",
    "kv:rotate_heads=on,axis=channel,bits=8,group=16,page=16,symmetric=on",
    "kv:rotate_heads=on,codebook=lloyd,bits=3,group=64,page=16",
    "kv:rotate_heads=on,codebook=lloyd,bits=2,group=128,axis=channel,scale_dtype=bf16",
    "kv:rotate_heads=on,search=mse,bits=2,group=32,page=32,axis=channel",
    "kv:rotate_heads=on,codebook=trellis,bits=2,group=64,page=16",
    "kv:rotate_heads=on,codebook=trellis,group=128,page=128,axis=channel",
};
static const uint64_t heads[][5] = {
    {2, 19, 32}, {3, 18, 2, 64}, {3, 33, 3, 128}, {3, 17, 1, 256}, {4, 2, 40, 5, 32},
};

/* Channels of different sizes, some far from 0; a few values that are not finite. */
static void fill_rows(struct trip *t, const uint64_t shape[5]) {
    const uint64_t dim = shape[shape[0]];
    uint64_t seed = 1 + t->bytes;
    for (uint64_t i = 0; i < t->r.count; i++) {
        const uint64_t c = i % dim;
        const float x = (float)(1 + c % 5) * (float)gen_normal(&seed) + (c % 7 == 3 ? 40.0f : 0);
        const bool lost = gen_next(&seed) % 3000 == 0;
        store_float(t->value, t->r.layout.dtype, (size_t)i, lost ? 0x7FC12345u : bits_of(x));
    }
}

static void open_trip(struct trip *t, const char *spec, const uint64_t shape[5], uint32_t dtype,
                      uint32_t flags, int kind, size_t offset) {
    const pith_layout layout = shape_layout(shape, dtype, flags);
    trip_open(t, spec, &layout, offset);
    if (kind == GEN_COUNT)
        fill_rows(t, shape);
    else
        gen_fill((enum gen)kind, 3 + t->bytes, dtype, t->value, t->r.count);
    trip_encode(t);
}

/* ---- Frames ----------------------------------------------------------------------------------*/

/* `number` varies what is not worth a product. */
static void one_trip(const char *spec, const uint64_t shape[5], int kind, uint64_t number) {
    if (!is_sampled(number + shape[1], 5)) return;
    const uint32_t dtype = trip_reals[number % 3];
    struct trip t;
    context("%s %s, shape of %llu: %llu %llu %llu %llu, values %d, number %llu", spec,
            pith_dtype_name(dtype), (unsigned long long)shape[0], (unsigned long long)shape[1],
            (unsigned long long)shape[2], (unsigned long long)shape[3],
            (unsigned long long)shape[4], kind, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    open_trip(&t, spec, shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0, kind,
              number % 5 ? 0 : (size_t)(number / 5 % 16));
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_range(&t, t.r.count / 3 + number % 5, t.r.count / 2 + 1);
    trip_check_range(&t, t.r.count / 2, 1 + number % 200);
    trip_check_other(&t, trip_reals[number / 4 % 3], number % 2);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t k = 0; k < SPECS; k++)
            for (int kind = 0; kind <= GEN_COUNT; kind++, number++)
                if (kind == GEN_COUNT || (number + i) % 4 == 0)
                    one_trip(specs[k], shapes[i], kind, number / 2 + k + i);
}

/* Tiles that are full, and those at the ends of ranges that are not. */
static void test_full(void **state) {
    (void)state;
    static const char *const full[] = {"kv:page=64",
                                       "kv:preset=kivi4,page=64",
                                       "kv:preset=q4,page=64",
                                       "kv:preset=quarot4,page=64",
                                       "kv:preset=quarot4,group=64,page=64,scale_dtype=f16",
                                       "kv:codebook=trellis,bits=2,page=64",
                                       "kv:codebook=trellis,page=64"};
    static const uint64_t rows[][5] = {{3, 150, 2, 128}, {4, 2, 70, 4, 64}, {3, 80, 1, 256}};
    for (uint64_t number = 0; number < 56; number++)
        for (size_t i = 0; i < 3; i++)
            one_trip(full[number / 2 % 7], rows[i], number % 5 ? GEN_COUNT : GEN_HOLES, number);
}

/* Columns of all kinds: of numbers that scales can be, or hardly, or cannot be; of equal
 * magnitudes, and of some that are not finite. */
static void fill_columns(struct trip *t, uint64_t row, uint64_t number) {
    uint64_t seed = 5 + number;
    for (uint64_t i = 0; i < t->r.count; i++) {
        const uint64_t kind = (i % row * 0x9E3779B9u >> 7) % 16;
        const float x = (float)gen_normal(&seed), sign = x < 0 ? -1.0f : 1.0f;
        const bool rare = gen_next(&seed) % 60 == 0;
        float v = (float)(1 + kind % 3) * x;
        if (kind == 0) v = sign * 1.5f;
        if (kind == 1) v = sign * 0.0f;
        if (kind == 2) v = x * 1e-7f;
        if (kind == 3) v = sign * (rare ? 4e-8f : 3e-8f);
        if (kind == 4) v = x * 3e4f;
        if (kind == 5) v = x * 3e37f;
        if (kind == 6 && rare) v = float_of(0xFFC12345u);
        if (kind == 7 && rare) v = float_of(0x7F800000u);
        if (kind == 8) v = rare ? x : 0;
        store_float(t->value, t->r.layout.dtype, (size_t)i, bits_of(v));
    }
}

/* Pages along tokens with outliers: strips, and what is around them. */
static void test_strips(void **state) {
    (void)state;
    static const uint64_t rows[][5] = {{3, 290, 2, 128}, {4, 2, 140, 4, 64}, {3, 130, 3, 128}};
    for (uint64_t number = 0; number < 16; number++) {
        const uint64_t *const shape = rows[number % 3],
                              row = shape[3] * shape[number % 3 == 1 ? 4 : 2];
        struct trip t;
        const uint32_t dtype = number % 8 == 7 ? PITH_F16 : PITH_BF16;
        const pith_layout layout =
            shape_layout(shape, dtype, number % 5 == 4 ? PITH_LAYOUT_CHECKSUMS : 0);
        context("strips, %s, number %llu", pith_dtype_name(dtype), (unsigned long long)number);
        device_order((int)(number / 2 % (uint64_t)device_orders()));
        trip_open(&t,
                  number % 4 == 3 ? "kv:preset=kvquant-lite,page=256" : "kv:preset=kvquant-lite",
                  &layout, number % 8 == 6 ? 2 : 0);
        fill_columns(&t, row, number);
        trip_encode(&t);
        trip_check_encode(&t);
        trip_check_decode(&t);
        trip_check_range(&t, row * (number * 9 % 130) + number % 7, t.r.count / 2);
        trip_check_other(&t, trip_reals[number % 3], number % 2);
        trip_close(&t);
    }
}

/* Pages whose paths are found by segments of tiles; then once more, of values that are levels. */
static void test_segments(void **state) {
    (void)state;
    static const uint64_t rows[][5] = {{3, 290, 2, 128}, {4, 2, 70, 2, 256}, {2, 300, 128}};
    static const int kinds[] = {GEN_COUNT, GEN_NOISE, GEN_TINY, GEN_LARGE, GEN_HOLES, GEN_SPARSE};
    for (uint64_t number = 0; number < 12; number++) {
        const char *const spec = number % 3 ? "kv:codebook=trellis,bits=2" : "kv:codebook=trellis";
        const uint32_t dtype = trip_reals[1 + number / 2 % 2];
        struct trip t;
        context("segments of %s, %s, number %llu", spec, pith_dtype_name(dtype),
                (unsigned long long)number);
        device_order((int)(number % (uint64_t)device_orders()));
        open_trip(&t, spec, rows[number % 3], dtype, number % 4 == 3 ? PITH_LAYOUT_CHECKSUMS : 0,
                  kinds[number / 2], 0);
        trip_check_encode(&t);
        trip_check_decode(&t);
        memcpy(t.value, t.decoded, t.bytes);
        free(t.frame.bytes);
        trip_encode(&t);
        trip_check_encode(&t);
        trip_close(&t);
    }
}

/* Pages that add to a base which nobody reads elsewhere: there is no tensor. */
static void one_base(const char *spec, const uint64_t shape[5], uint32_t dtype, uint64_t number) {
    pith_layout layout = shape_layout(shape, dtype, 0);
    layout.base_dtype = dtype;
    struct rig r;
    struct job j;
    struct stream sender;
    context("%s %s from %s, shape of %llu, number %llu", spec, pith_dtype_name(dtype),
            pith_dtype_name(dtype), (unsigned long long)shape[0], (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    CHECK(rig_open(&r, spec, &layout));
    const size_t bytes = (size_t)r.count * pith_dtype_bytes(dtype);
    uint8_t *const base = allocate(bytes), *const value = allocate(bytes);
    gen_fill(GEN_NOISE, 7 + number, dtype, base, r.count);
    gen_fill(number % 3 ? GEN_NOISE : GEN_HOLES, 8 + number, dtype, value, r.count);
    const pith_view from = pith_view_flat(base, dtype, r.count),
                    view = pith_view_flat(value, dtype, r.count);
    rig_set_base(&r, base, dtype, 3);
    stream_open_end(&sender, &r.cpu, NULL);
    CHECK_OK(pith_stream_set_base(sender.work, sender.stream, &from, 3));
    struct frame f = stream_encode(&sender, &view, 0, false);
    CHECK_OK(decode_one(r.cpu.work, r.cpu.stream, 0, f.bytes, f.length, &view, 0));
    job_open(&j, &r, 1, 1, dtype, 0);
    job_set_frame(&j, f.bytes, f.length);
    j.items.tensor = NULL;
    JOB_RUN(&j, pith_cuda_decode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_OK(job_status(&j, 0));
    rig_check_stream(&r);
    CHECK(all_bytes(j.tensor.host, j.tensor.bytes, UNTOUCHED));
    free(f.bytes);
    free(base);
    free(value);
    job_close(&j);
    stream_close(&sender);
    rig_close(&r);
}

static void test_base(void **state) {
    (void)state;
    static const uint64_t rows[][5] = {{3, 150, 2, 128}, {4, 2, 70, 4, 64}, {3, 33, 3, 5}};
    for (uint64_t number = 0; number < 12; number++)
        for (size_t i = 0; i < 3; i++)
            one_base(number % 2 ? "kv:page=64" : "kv:page=32,group=64,scale_dtype=bf16", rows[i],
                     trip_reals[number / 2 % 3], number);
}

static void test_rotated(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        for (size_t k = 0; k < sizeof rotating / sizeof rotating[0]; k++)
            for (int kind = 0; kind <= GEN_COUNT; kind++, number++)
                if (kind == GEN_COUNT || (number + i) % 3 == 0)
                    one_trip(rotating[k], heads[i], kind, number / 2 + k + i);
}

static void test_searches(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t k = 0; k < sizeof searching / sizeof searching[0]; k++)
            for (int kind = 0; kind <= GEN_COUNT; kind++, number++)
                if ((number + i) % 4 == 0)
                    one_trip(searching[k], shapes[i], kind, number / 2 + k + i);
}

/* Slots are pages of one token each. */
static void test_slots(void **state) {
    (void)state;
    trip_check_three_slots("kv:group=64,page=16", PITH_BF16);
}

static void test_space(void **state) {
    (void)state;
    struct trip t;
    context("capacity");
    open_trip(&t, "kv:page=16", shapes[5], PITH_F32, 0, GEN_NOISE, 0);
    trip_check_space(&t);
    trip_close(&t);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void refuses(const char *spec) {
    const pith_layout layout = shape_layout(shapes[5], PITH_F32, 0);
    struct rig r;
    context("%s", spec);
    CHECK(!rig_open(&r, spec, &layout));
}

static void test_refused(void **state) {
    (void)state;
    struct rig r;
    struct job j;
    refuses("kv:entropy=zstd");
    refuses("kv:entropy=rans,symmetric=on,codebook=nf");
    refuses("kv:entropy=rans,outliers=0.01");
    refuses("kv:codebook=trellis,entropy=zstd");
    context("sums");
    const pith_layout layout = shape_layout(shapes[5], PITH_F32, 0);
    CHECK(rig_open(&r, "kv", &layout));
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce(r.plan, r.stream, &j.items, 1, 1, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_encode(r.plan, r.stream, &j.items, PITH_KEY_FRAME,
                                                        device_stream(), NULL));
    job_close(&j);
    rig_close(&r);
}

/* What the encoder searched for does not matter, to either side. */
static void test_searched(void **state) {
    (void)state;
    static const char *const pair[] = {"kv:bits=2,group=32", "kv:bits=2,group=32,search=mse"};
    for (size_t i = 0; i < 2; i++) {
        struct trip t;
        context("frames of %s", pair[1 - i]);
        open_trip(&t, pair[i], shapes[5], PITH_F32, 0, GEN_COUNT, 0);
        trip_check_frame_of(&t, pair[1 - i], PITH_OK);
        trip_close(&t);
    }
}

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        size_t shape;
    } targets[] = {
        {"kv:page=16", 6},
        {"kv:axis=channel,group=16,page=16,scale_dtype=f32", 10},
        {"kv:order=heads,bits=3,group=16,page=16,symmetric=on", 10},
        {"kv:outliers=0.1,group=16,page=16,codebook=lloyd", 6},
        {"kv:outliers=0.1,group=16,page=16,axis=channel", 10},
        {"kv:codebook=trellis,group=32,page=16,bits=2", 6},
        {"kv:codebook=trellis,group=16,page=16,axis=channel,bits=3", 10},
    };
    for (size_t i = 0; i < 2 * sizeof targets / sizeof targets[0]; i++) {
        struct trip t;
        context("%s attacked, %zu", targets[i / 2].spec, i);
        device_order((int)(i % (size_t)device_orders()));
        open_trip(&t, targets[i / 2].spec, shapes[targets[i / 2].shape], trip_reals[i % 3],
                  i % 2 ? PITH_LAYOUT_CHECKSUMS : 0, GEN_COUNT, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),    cmocka_unit_test(test_searches),
        cmocka_unit_test(test_rotated),  cmocka_unit_test(test_slots),
        cmocka_unit_test(test_space),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_searched), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_full),     cmocka_unit_test(test_base),
        cmocka_unit_test(test_strips),   cmocka_unit_test(test_segments),
    };
    return cmocka_run_group_tests_name("gpu_kv", tests, NULL, NULL);
}
