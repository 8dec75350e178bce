/* test_gpu_bounded.c - codec eb on the device: frames, values and statuses are the CPU's, for every
 * dtype, shape and bound that devices take; anything else is refused, never guessed at.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "trip.h"

/* Bounds that leave many values exact, few, or none. */
static const char *const specs[] = {
    "eb",
    "eb:rel=0.05,zeros=signed",
    "eb:rel=0.01,range=3,block=64",
    "eb:abs=0.01,block=256",
    "eb:abs=1e-30,block=32",
    "eb:abs=1000",
    "eb:pwrel=0.01,zeros=signed,block=512",
    "eb:pwrel=0.0001,block=whole",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* Shapes of one to four dimensions: rows end inside groups, or have runs of groups inside. */
static const uint64_t shapes[][5] = {
    {1, 1},        {1, 7},          {1, 17},         {1, 300},         {1, 5000},
    {2, 3, 5},     {2, 70, 33},     {2, 2, 2500},    {2, 900, 1},      {3, 9, 10, 11},
    {3, 1, 1, 40}, {3, 17, 18, 19}, {4, 3, 5, 7, 9}, {4, 6, 5, 4, 16}, {2, 0, 4},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---- Frames and values -----------------------------------------------------------------------*/

/* Smooth: differences along all dimensions are worth something. */
static void make_values(struct trip *t, const uint64_t shape[5], int kind) {
    const uint32_t dtype = t->r.layout.dtype;
    if (kind < GEN_COUNT) {
        gen_fill((enum gen)kind, 3 + t->bytes, dtype, t->value, t->r.count);
        return;
    }
    uint64_t seed = 1 + t->bytes;
    for (uint64_t i = 0; i < t->r.count; i++) {
        float x = 0;
        for (uint64_t d = shape[0], at = i; d > 0; at /= shape[d--])
            x += (float)(at % shape[d]) * (float)(at % shape[d]) * 0.01f;
        uint32_t u;
        x += (float)gen_normal(&seed) * 0.02f;
        memcpy(&u, &x, sizeof u);
        store_float(t->value, dtype, (size_t)i, gen_next(&seed) % 400 ? u : 0x7FC12345u);
    }
}

static void open_trip(struct trip *t, const char *spec, const pith_layout *layout,
                      const uint64_t shape[5], int kind, size_t offset) {
    trip_open(t, spec, layout, offset);
    make_values(t, shape, kind);
    trip_encode(t);
}

/* `number` varies what is not worth a product. */
static void one_trip(const char *spec, const uint64_t shape[5], int kind, uint64_t number) {
    if (!is_sampled(number + shape[1], 10)) return;
    const uint32_t dtype = trip_reals[number % 3];
    const pith_layout layout =
        shape_layout(shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s %s, shape of %llu: %llu %llu %llu %llu, values %d", spec, pith_dtype_name(dtype),
            (unsigned long long)shape[0], (unsigned long long)shape[1],
            (unsigned long long)shape[2], (unsigned long long)shape[3],
            (unsigned long long)shape[4], kind);
    device_order((int)(number % (uint64_t)device_orders()));
    open_trip(&t, spec, &layout, shape, kind, number % 5 ? 0 : (size_t)(number / 5 % 16));
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_part(&t, number);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t k = 0; k < SPECS; k++)
            for (int kind = 0; kind <= GEN_COUNT; kind++, number++)
                if (kind == GEN_COUNT || i < 4 || (number + i) % 5 == 0)
                    one_trip(specs[k], shapes[i], kind, number / 2 + k + i);
}

/* One number, alone and among NaN: the last two have a bound that the format would round. */
static void test_constants(void **state) {
    (void)state;
    static const float constants[] = {0x1.1c0ebep+0f, 0x1.8p-100f, 0x1.066676p-107f, 0x1p-148f};
    static const char *const modes[] = {"eb:rel=0.01", "embed:rel=0.01,mode=fast"};
    for (size_t k = 0; k < 2 * 2 * 3 * 4; k++) {
        if (!is_sampled(k, 3)) continue;
        const float constant = constants[k % 4];
        const uint32_t dtype = trip_reals[k / 4 % 3];
        const bool holes = k / 12 % 2;
        const pith_layout layout = shape_layout(shapes[6], dtype, 0);
        struct trip t;
        context("%s %s, all %a%s", modes[k / 24], pith_dtype_name(dtype), (double)constant,
                holes ? " or NaN" : "");
        trip_open(&t, modes[k / 24], &layout, 0);
        for (uint64_t i = 0; i < t.r.count; i++) {
            uint32_t u;
            memcpy(&u, &constant, sizeof u);
            store_float(t.value, dtype, (size_t)i, holes && i % 5 == 1 ? 0x7FC00000u : u);
        }
        trip_encode(&t);
        CHECK(memcmp(t.value, t.decoded, t.bytes) == 0);
        trip_check_encode(&t);
        trip_check_decode(&t);
        trip_close(&t);
    }
}

/* ---- Blocks of many parts --------------------------------------------------------------------*/

/* Blocks that several teams share: a last block with fewer strips than teams, so that some have
 * none; rows within a part, and over all of them; differences along every dimension, which other
 * launches sum. few: exact values are listed; else most are exact, with a map, or the block is
 * stored as it is. */
static const struct {
    const char *spec;
    uint64_t shape[5];
} parted[] = {
    {"eb:abs=0.05", {1, 70001}},
    {"eb:rel=0.001,block=65536", {1, 67000}},
    {"eb:abs=0.01,block=32768", {2, 3, 17001}},
    {"eb:abs=0.05", {2, 190, 211}},
    {"eb:rel=0.0001,block=whole", {3, 33, 35, 37}},
    {"eb:pwrel=0.01,zeros=signed", {4, 5, 9, 31, 33}},
    {"eb:abs=0.05,block=1048576", {1, 620011}}, /* more parts than a warp has threads */
};

static void one_parted(size_t i, int kind, uint64_t number) {
    const uint32_t dtype = trip_reals[number % 3];
    const pith_layout layout =
        shape_layout(parted[i].shape, dtype, number % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s %s, blocks of many parts, values %d", parted[i].spec, pith_dtype_name(dtype), kind);
    device_order((int)(number % (uint64_t)device_orders()));
    open_trip(&t, parted[i].spec, &layout, parted[i].shape, kind, number % 3 ? 0 : 2);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_range(&t, t.r.count / 3 + number, t.r.count / 3);
    trip_check_other(&t, trip_reals[(number + 1) % 3], number % 2);
    trip_close(&t);
}

static void test_parts(void **state) {
    (void)state;
    static const int kinds[] = {GEN_COUNT, GEN_HOLES, GEN_EQUAL, GEN_BITS, GEN_NOISE};
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof parted / sizeof parted[0]; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++, number++)
            if ((k == 0 || (k + i) % 2) && is_sampled(number, 3))
                one_parted(i, kinds[k], number / 2 + k);
}

/* Items of a call whose slots differ in the blocks and parts that they have. */
static void test_uneven(void **state) {
    (void)state;
    static const char *const specs_uneven[] = {"eb:abs=0.01,block=32768",
                                               "embed:mode=fast,abs=0.1,dim=16,block=32768"};
    for (size_t i = 0; i < 2; i++) {
        pith_layout layout = flat_layout(trip_reals[i], PITH_NONE, 100003);
        struct trip t;
        context("%s, uneven slots", specs_uneven[i]);
        layout.slots = 3;
        layout.slot_count = 49152;
        trip_open(&t, specs_uneven[i], &layout, 0);
        gen_fill(GEN_NOISE, 5, layout.dtype, t.value, t.r.count);
        trip_check_slots(&t.r, t.value);
        trip_close(&t);
    }
}

/* ---- Many items ------------------------------------------------------------------------------*/

static void test_slots(void **state) {
    (void)state;
    trip_check_three_slots("eb:rel=0.01,block=128", PITH_F32);
}

/* A workspace that is too small for what launches tell each other is refused. */
static void test_space(void **state) {
    (void)state;
    const pith_layout layout = shape_layout(shapes[6], PITH_F32, 0);
    struct trip t;
    struct job j;
    context("capacity");
    open_trip(&t, "eb:abs=0.01", &layout, shapes[6], GEN_NOISE, 0);
    trip_check_space(&t);
    job_open(&j, &t.r, 1, 1, PITH_F32, 0);
    j.items.workspace_bytes--;
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_encode(t.r.plan, t.r.stream, &j.items, 0, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_SPACE,
                 pith_cuda_decode(t.r.plan, t.r.stream, &j.items, 0, device_stream(), NULL));
    job_close(&j);
    trip_close(&t);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    trip_check_unsupported("eb", PITH_F64, "mode=fast");
    trip_check_unsupported("eb:mode=ratio", PITH_F32, "mode=fast");
    trip_check_unsupported("eb:mode=auto,abs=0.1", PITH_F32, "mode=fast");
    trip_check_unsupported("eb:psnr=60", PITH_F32, "mode=fast");
    trip_check_unsupported("eb:nmse=1e-6", PITH_F32, "mode=fast");
}

/* A device would code with the plan's bound instead of one that was set in the stream. */
static void test_set_bound(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct rig r;
    pith_error error = {.size = sizeof error};
    context("a bound that was set");
    CHECK(rig_open(&r, "eb:abs=0.1", &layout));
    const size_t bytes = (size_t)r.sizes.stream_bytes;
    uint8_t *const image = allocate(bytes);
    pith_work *const work = r.cpu.work;
    CHECK_OK(pith_stream_set_bound(work, r.cpu.stream, 0, 0.05));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_stream_pack(r.plan, work, r.cpu.stream, image, bytes, &error));
    CHECK(error.text[0]);
    CHECK_OK(pith_stream_reset(work, r.cpu.stream));
    CHECK_OK(pith_cuda_stream_pack(r.plan, work, r.cpu.stream, image, bytes, &error));
    free(image);
    rig_close(&r);
}

static void test_sums(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 100);
    struct rig r, raw;
    struct job j, made;
    context("sums");
    CHECK(rig_open(&r, "eb", &layout) && rig_open(&raw, "raw", &layout));
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    job_open(&made, &raw, 1, 1, PITH_F32, 0);
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce(r.plan, r.stream, &j.items, 1, 1, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(r.plan, r.stream, &j.items, 1, 1, raw.plan, raw.stream,
                                         &made.items, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED,
                 pith_cuda_reduce_encode(raw.plan, raw.stream, &made.items, 1, 1, r.plan, r.stream,
                                         &j.items, device_stream(), NULL));
    CHECK_STATUS(PITH_ERR_UNSUPPORTED, pith_cuda_encode(r.plan, r.stream, &j.items, PITH_KEY_FRAME,
                                                        device_stream(), NULL));
    job_close(&made);
    job_close(&j);
    rig_close(&raw);
    rig_close(&r);
}

/* Frames of other modes: plain, constant and packed blocks are read, others refused. */
static void other_mode(const char *spec, const uint64_t shape[5], int kind, pith_status wanted) {
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    struct trip t;
    context("frames of %s, values %d", spec, kind);
    open_trip(&t, "eb:abs=0.01", &layout, shape, kind, 0);
    trip_check_frame_of(&t, spec, wanted);
    trip_close(&t);
}

static void test_modes(void **state) {
    (void)state;
    static const uint64_t large[5] = {2, 130, 400}; /* by weighted interpolation */
    other_mode("eb:mode=ratio,abs=0.01", shapes[6], GEN_COUNT, PITH_ERR_UNSUPPORTED);
    other_mode("eb:mode=ratio,abs=0.01", large, GEN_COUNT, PITH_ERR_UNSUPPORTED);
    other_mode("eb:mode=ratio,abs=0.01", shapes[6], GEN_EQUAL, PITH_OK);
    other_mode("eb:mode=auto,abs=0.01", shapes[6], GEN_EQUAL, PITH_OK);
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        size_t shape;
        int kind;
    } targets[] = {
        {"eb:abs=0.01,block=64", 11, GEN_COUNT},
        {"eb:abs=0.01", 3, GEN_HOLES},
        {"eb:abs=1", 3, GEN_EQUAL},
        {"eb:pwrel=0.01", 12, GEN_BITS},
        {"eb:abs=1e-30,block=32", 3, GEN_SPARSE},
        {"eb:rel=0.001", 6, GEN_COUNT},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const uint64_t *const shape = shapes[targets[i].shape];
        const pith_layout layout =
            shape_layout(shape, trip_reals[i % 3], i == 1 ? PITH_LAYOUT_CHECKSUMS : 0);
        struct trip t;
        context("%s attacked", targets[i].spec);
        device_order((int)(i % (size_t)device_orders()));
        open_trip(&t, targets[i].spec, &layout, shape, targets[i].kind, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

/* Blocks of many parts: in their heads, and here and there behind. */
static void attack_parts(const char *spec, uint64_t dim, int kind, uint64_t seed) {
    const uint64_t shape[5] = {dim > 1 ? 2u : 1u, dim > 1 ? dim : 35001, 35001 / dim};
    const pith_layout layout = shape_layout(shape, trip_reals[seed % 3], 0);
    struct trip t;
    context("%s of many parts attacked, values %d", spec, kind);
    device_order((int)(seed % (uint64_t)device_orders()));
    open_trip(&t, spec, &layout, shape, kind, 0);
    const size_t length = t.frame.length, head = 160;
    CHECK(length > head);
    uint8_t *const kept = allocate(length);
    memcpy(kept, t.frame.bytes, length);
    for (size_t i = 0; i < head + 60; i++) {
        const size_t at = i < head ? i : head + gen_next(&seed) % (length - head);
        if (!is_sampled(i, 8)) continue;
        t.frame.bytes[at] ^= (uint8_t)(1u << gen_next(&seed) % 8);
        if (at < 96 && gen_next(&seed) % 2) bad_seal(&t.frame);
        rig_try(&t.r, t.frame.bytes, length, t.offset);
        memcpy(t.frame.bytes, kept, length);
    }
    free(kept);
    trip_close(&t);
}

static void test_hostile_parts(void **state) {
    (void)state;
    attack_parts("eb:abs=0.01", 1, GEN_COUNT, 1);
    attack_parts("eb:abs=0.001", 1, GEN_HOLES, 2);
    attack_parts("eb:rel=0.001", 173, GEN_COUNT, 3);
    attack_parts("embed:mode=fast,abs=0.05,dim=3", 1, GEN_NOISE, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),         cmocka_unit_test(test_constants),
        cmocka_unit_test(test_parts),         cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_slots),         cmocka_unit_test(test_space),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_sums),
        cmocka_unit_test(test_modes),         cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_hostile_parts), cmocka_unit_test(test_set_bound),
    };
    return cmocka_run_group_tests_name("gpu_bounded", tests, NULL, NULL);
}
