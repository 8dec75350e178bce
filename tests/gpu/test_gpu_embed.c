/* test_gpu_embed.c - codec embed on the device: equal rows are found and numbered as the CPU does,
 * frames and values are the CPU's, for rows of any length; anything else is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

/* How rows repeat. */
enum rows { EQUAL, DISTINCT, LOOKED_UP, NEARLY, SHIFTED, WILD, RARE, ROWS };
enum { TABLE_ROWS = 23 };

/* Row i of a table: values, some of them around a mean that columns have. */
static float table_value(enum rows kind, uint64_t i, uint64_t j) {
    uint64_t seed = 1 + 1000 * i + j;
    const float mean = kind == SHIFTED ? (float)(j % 7) * 40 - 100 : 0;
    return mean + (float)gen_normal(&seed);
}

static uint64_t table_row(enum rows kind, uint64_t i, uint64_t *seed) {
    switch (kind) {
    case EQUAL: return 5;
    case DISTINCT:
    case SHIFTED: return i;
    case RARE: return gen_next(seed) % 4 ? 0 : i;
    default: return gen_next(seed) % TABLE_ROWS;
    }
}

/* NEARLY: equal under a bound, not in their bits. WILD: rows whose values are not numbers. */
static void make_rows(struct trip *t, enum rows kind, uint64_t row) {
    const uint32_t dtype = t->r.layout.dtype;
    uint64_t seed = 7 + t->bytes, which = 0;
    for (uint64_t i = 0; i < t->r.count; i++) {
        if (i % row == 0) which = table_row(kind, i / row, &seed);
        float x = table_value(kind, which, i % row);
        uint32_t u;
        if (kind == NEARLY) x += (float)(gen_next(&seed) % 8) * 1e-4f;
        memcpy(&u, &x, sizeof u);
        if (kind == WILD && which % 3 == 0) u = 0x7FC00000u + (uint32_t)(gen_next(&seed) % 3);
        if (kind == WILD && which % 3 == 1 && gen_next(&seed) % 9 == 0) u = 0x7F000000u;
        store_float(t->value, dtype, (size_t)i, u);
    }
}

static uint64_t row_of(const uint64_t shape[5], uint64_t dim) {
    const uint64_t last = dim ? dim : shape[shape[0]];
    return last ? last : 1;
}

/* ---- Rows of any length ----------------------------------------------------------------------*/

/* Rows of 1, 3, 16, 64 and 100; a last one that is short; rows longer than a block or than all;
 * several tables; blocks of many strips, and of parts that several teams have, of which some have
 * no row. dim 0: the last dimension. */
static const struct {
    const char *spec;
    uint64_t dim, shape[5];
} batches[] = {
    {"embed:mode=fast", 0, {2, 50, 16}},
    {"embed:mode=fast,abs=0.01,block=256", 0, {2, 70, 3}},
    {"embed:mode=fast,abs=0.05,zeros=signed", 0, {3, 4, 30, 16}},
    {"embed:mode=fast,rel=0.001,block=1024", 0, {2, 40, 64}},
    {"embed:mode=fast,rel=0.05,range=4", 0, {2, 37, 100}},
    {"embed:mode=fast,dim=1,abs=0.1", 1, {1, 9000}},
    {"embed:mode=fast,dim=16,rel=0.02,block=512", 16, {1, 1201}},
    {"embed:mode=fast,dim=7,abs=0.01,block=64", 7, {1, 500}},
    {"embed:mode=fast,dim=100,abs=0.01,block=whole", 100, {1, 1777}},
    {"embed:mode=fast,dim=64,rel=0.01,block=32", 64, {1, 333}},
    {"embed:mode=fast,dim=1000,abs=0.01", 1000, {1, 333}},
    {"embed:mode=fast,abs=1e-30", 0, {2, 30, 5}},
    {"embed:mode=fast,abs=1000", 0, {2, 900, 1}},
    {"embed:mode=fast,dim=3,abs=0.3", 3, {1, 2}},
    {"embed:mode=fast,abs=0.2,block=64", 0, {3, 3, 10, 16}},
    {"embed:mode=fast,abs=0.01", 0, {2, 9, 1500}},
    {"embed:mode=fast,abs=0.05", 0, {2, 700, 64}},
    {"embed:mode=fast,dim=5,abs=0.05,block=65536", 5, {1, 70002}},
    {"embed:mode=fast,abs=0.01,block=65536", 0, {2, 3, 22000}},
    {"embed:mode=fast,dim=16", 16, {1, 0}},
    {"embed:mode=fast", 0, {2, 0, 16}},
};
enum { BATCHES = sizeof batches / sizeof batches[0] };

/* `number` varies what is not worth a product. */
static void one_batch(size_t i, enum rows kind, uint64_t number) {
    const uint32_t dtype = trip_reals[number % 3];
    const pith_layout layout =
        shape_layout(batches[i].shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s of %s, batch %zu, rows %d", batches[i].spec, pith_dtype_name(dtype), i, (int)kind);
    trip_open(&t, batches[i].spec, &layout, number % 2 ? 0 : (size_t)(number / 2 % 16));
    make_rows(&t, kind, row_of(batches[i].shape, batches[i].dim));
    trip_encode(&t);
    for (int order = 0; order < device_orders(); order++) {
        device_order(order);
        trip_check_encode(&t);
        trip_check_decode(&t);
    }
    trip_check_range(&t, t.r.count / 3 + number % 5, t.r.count / 4 + 1);
    trip_check_other(&t, trip_reals[number / 2 % 3], false);
    trip_check_other(&t, trip_reals[number % 3], true);
    trip_close(&t);
}

static void test_batches(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < BATCHES; i++)
        for (int kind = 0; kind < ROWS; kind++) one_batch(i, (enum rows)kind, number++ + i);
}

/* Every generator, which knows nothing of rows. */
static void test_values(void **state) {
    (void)state;
    for (int kind = 0; kind < GEN_COUNT; kind++) {
        const pith_layout layout = flat_layout(trip_reals[kind % 3], PITH_NONE, 3000);
        struct trip t;
        context("values of %s", gen_name((enum gen)kind));
        device_order(kind % device_orders());
        trip_open(&t, "embed:mode=fast,dim=4,abs=0.02,block=2048", &layout, 0);
        gen_fill((enum gen)kind, 9, layout.dtype, t.value, t.r.count);
        trip_encode(&t);
        trip_check_encode(&t);
        trip_check_decode(&t);
        trip_check_other(&t, PITH_F32, true);
        trip_close(&t);
    }
}

/* One slot's blocks and rows are not another's. */
static void test_slots(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, 2000);
    struct trip t;
    context("slots");
    layout.slots = 3;
    trip_open(&t, "embed:mode=fast,abs=0.1,dim=16,block=256", &layout, 0);
    make_rows(&t, LOOKED_UP, 16);
    trip_check_slots(&t.r, t.value);
    trip_close(&t);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t dtype;
    } refused[] = {
        {"embed", PITH_F32},
        {"embed:mode=auto,abs=0.1", PITH_BF16},
        {"embed:mode=fast", PITH_F64},
        {"embed:mode=fast,decay=linear,steps=10", PITH_F32},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const pith_layout layout = flat_layout(refused[i].dtype, PITH_NONE, 100);
        struct rig r;
        context("%s of %s", refused[i].spec, pith_dtype_name(refused[i].dtype));
        CHECK(!rig_open(&r, refused[i].spec, &layout));
    }
}

/* Frames of mode auto: what needs zstd is refused, blocks that do not are read. */
static void test_modes(void **state) {
    (void)state;
    static const uint64_t shape[5] = {2, 300, 16};
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    static const struct {
        enum rows kind;
        pith_status status;
    } modes[] = {
        {EQUAL, PITH_OK}, {DISTINCT, PITH_ERR_UNSUPPORTED}, {LOOKED_UP, PITH_ERR_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct trip t;
        context("a frame of mode auto, rows %d", (int)modes[i].kind);
        trip_open(&t, "embed:mode=fast,abs=0.3", &layout, i);
        make_rows(&t, modes[i].kind, 16);
        trip_encode(&t);
        trip_check_frame_of(&t, "embed:abs=0.3", modes[i].status);
        trip_close(&t);
    }
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        size_t batch;
        enum rows kind;
        uint32_t flags;
    } targets[] = {
        {0, LOOKED_UP, 0}, {1, SHIFTED, 0},   {2, WILD, 0},  {0, RARE, PITH_LAYOUT_CHECKSUMS},
        {9, EQUAL, 0},     {13, DISTINCT, 0}, {7, NEARLY, 0}};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const size_t k = targets[i].batch;
        const pith_layout layout =
            shape_layout(batches[k].shape, trip_reals[i % 3], targets[i].flags);
        struct trip t;
        context("%s attacked, rows %d", batches[k].spec, (int)targets[i].kind);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, batches[k].spec, &layout, i);
        make_rows(&t, targets[i].kind, row_of(batches[k].shape, batches[k].dim));
        trip_encode(&t);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches), cmocka_unit_test(test_values),
        cmocka_unit_test(test_slots),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_modes),   cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("gpu_embed", tests, NULL, NULL);
}
