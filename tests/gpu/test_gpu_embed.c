/* test_gpu_embed.c - codec embed on the device: equal rows are found and numbered as the CPU does,
 * frames and values are the CPU's, for rows of any length, coded or not; anything else is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "trip.h"

/* How rows repeat. */
enum rows { EQUAL, DISTINCT, LOOKED_UP, NEARLY, SHIFTED, WILD, RARE, THIN, SPIKES, ROWS };
enum { TABLE_ROWS = 23 };

/* Row i of a table: values, some of them around a mean that columns have. */
static float table_value(enum rows kind, uint64_t i, uint64_t j) {
    uint64_t seed = 1 + 1000 * i + j;
    const float mean = kind == SHIFTED ? (float)(j % 7) * 40 - 100 : 0;
    const float x = mean + (float)gen_normal(&seed);
    const uint64_t chance = gen_next(&seed);
    if (kind == THIN) return chance % 11 && (chance % 97 || i % 3) ? 0 : x;
    return kind == SPIKES && chance % 300 == 0 ? x * 3000 : x;
}

static uint64_t table_row(enum rows kind, uint64_t i, uint64_t *seed) {
    switch (kind) {
    case EQUAL: return 5;
    case DISTINCT:
    case THIN:
    case SPIKES:
    case SHIFTED: return i;
    case RARE: return gen_next(seed) % 4 ? 0 : i;
    default: return gen_next(seed) % TABLE_ROWS;
    }
}

/* NEARLY: equal under a bound, not in their bits. WILD: rows whose values are not numbers. THIN:
 * most are 0. SPIKES: some are far larger than the others. */
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
 * no row. dim 0: the last dimension. What follows the mode. */
static const struct {
    const char *spec;
    uint64_t dim, shape[5];
} batches[] = {
    {"", 0, {2, 50, 16}},
    {",abs=0.01,block=256", 0, {2, 70, 3}},
    {",abs=0.05,zeros=signed", 0, {3, 4, 30, 16}},
    {",rel=0.001,block=1024", 0, {2, 40, 64}},
    {",rel=0.05,range=4", 0, {2, 37, 100}},
    {",dim=1,abs=0.1", 1, {1, 9000}},
    {",dim=16,rel=0.02,block=512", 16, {1, 1201}},
    {",dim=7,abs=0.01,block=64", 7, {1, 500}},
    {",dim=100,abs=0.01,block=whole", 100, {1, 1777}},
    {",dim=64,rel=0.01,block=32", 64, {1, 333}},
    {",dim=1000,abs=0.01", 1000, {1, 333}},
    {",abs=1e-30", 0, {2, 30, 5}},
    {",abs=1000", 0, {2, 900, 1}},
    {",dim=3,abs=0.3", 3, {1, 2}},
    {",abs=0.2,block=64", 0, {3, 3, 10, 16}},
    {",abs=0.01", 0, {2, 9, 1500}},
    {",abs=0.05", 0, {2, 700, 64}},
    {",dim=5,abs=0.05,block=65536", 5, {1, 70002}},
    {",abs=0.01,block=65536", 0, {2, 3, 22000}},
    {",dim=16", 16, {1, 0}},
    {"", 0, {2, 0, 16}},
};
enum { BATCHES = sizeof batches / sizeof batches[0] };

static const char *const modes[] = {"embed:mode=fast", "embed:entropy=rans"};
enum { FAST, CODED, MODES };

static const char *spec_of(size_t i, int mode) {
    static char spec[100];
    snprintf(spec, sizeof spec, "%s%s", modes[mode], batches[i].spec);
    return spec;
}

/* `number` varies what is not worth a product. */
static void one_batch(size_t i, int mode, enum rows kind, uint64_t number) {
    const char *const spec = spec_of(i, mode);
    const uint32_t dtype = trip_reals[number % 3];
    const pith_layout layout =
        shape_layout(batches[i].shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s of %s, batch %zu, rows %d", spec, pith_dtype_name(dtype), i, (int)kind);
    trip_open(&t, spec, &layout, number % 2 ? 0 : (size_t)(number / 2 % 16));
    make_rows(&t, kind, row_of(batches[i].shape, batches[i].dim));
    trip_encode(&t);
    const int orders = mode == FAST ? device_orders() : 1;
    for (int order = 0; order < orders; order++) {
        device_order(mode == FAST ? order : (int)(number % (uint64_t)device_orders()));
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
        for (int kind = 0; kind < ROWS; kind++, number++)
            for (int mode = 0; mode < MODES; mode++)
                if (is_sampled(number * MODES + (uint64_t)mode, 4))
                    one_batch(i, mode, (enum rows)kind, number + i);
}

/* Every generator, which knows nothing of rows. */
static void test_values(void **state) {
    (void)state;
    for (int i = 0; i < MODES * GEN_COUNT; i++) {
        const int kind = i / MODES;
        const pith_layout layout = flat_layout(trip_reals[kind % 3], PITH_NONE, 3000);
        char spec[100];
        struct trip t;
        snprintf(spec, sizeof spec, "%s,dim=4,abs=0.02,block=2048", modes[i % MODES]);
        context("%s, values of %s", spec, gen_name((enum gen)kind));
        device_order(kind % device_orders());
        trip_open(&t, spec, &layout, 0);
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
    layout.slots = 3;
    for (int mode = 0; mode < MODES; mode++) {
        char spec[100];
        struct trip t;
        snprintf(spec, sizeof spec, "%s,abs=0.1,dim=16,block=256", modes[mode]);
        context("slots of %s", spec);
        trip_open(&t, spec, &layout, 0);
        make_rows(&t, LOOKED_UP, 16);
        trip_check_slots(&t.r, t.value);
        trip_close(&t);
    }
}

/* Long strings; words and maps of many strips. */
static void test_long(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        enum rows kind;
        uint64_t shape[5];
    } cases[] = {
        {"embed:entropy=rans,abs=0.01", DISTINCT, {2, 2500, 32}},
        {"embed:entropy=rans,abs=0.02", RARE, {2, 9000, 8}},
        {"embed:entropy=rans,abs=0.01", THIN, {2, 1200, 64}},
        {"embed:entropy=rans,abs=0.001,block=65536", SPIKES, {2, 1500, 64}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pith_layout layout =
            shape_layout(cases[i].shape, trip_reals[i % 3], i % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
        struct trip t;
        context("%s, rows %d", cases[i].spec, (int)cases[i].kind);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, cases[i].spec, &layout, i);
        make_rows(&t, cases[i].kind, cases[i].shape[2]);
        trip_encode(&t);
        trip_check_encode(&t);
        trip_check_decode(&t);
        trip_check_range(&t, t.r.count / 2, 1000);
        trip_check_space(&t);
        trip_close(&t);
    }
}

static void test_tight(void **state) {
    (void)state;
    trip_check_tight("embed:entropy=rans,abs=0.5,block=256,dim=1", 140, 0);
    trip_check_tight("embed:entropy=rans,abs=0.5,block=256,dim=64", 100, 0);
    trip_check_tight("embed:entropy=rans,abs=0.5,block=256,dim=64", 1, 0);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    static const char *const what = "mode=fast or entropy=rans, without decay and not in f64";
    trip_check_unsupported("embed", PITH_F32, what);
    trip_check_unsupported("embed:mode=auto,abs=0.1", PITH_BF16, what);
    trip_check_unsupported("embed:mode=fast", PITH_F64, what);
    trip_check_unsupported("embed:mode=fast,decay=linear,steps=10", PITH_F32, what);
    trip_check_unsupported("embed:entropy=rans", PITH_F64, what);
    trip_check_unsupported("embed:entropy=rans,decay=linear,steps=10", PITH_F32, what);
}

/* Frames of another mode: what needs more than a plan's is refused, blocks that do not are read; so
 * are frames with strings of zstd. */
static void test_modes(void **state) {
    (void)state;
    static const uint64_t shape[5] = {2, 300, 16};
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    static const struct {
        const char *spec, *other;
        enum rows kind;
        pith_status status;
    } frames[] = {
        {"embed:mode=fast,abs=0.3", "embed:abs=0.3", EQUAL, PITH_OK},
        {"embed:mode=fast,abs=0.3", "embed:abs=0.3", DISTINCT, PITH_ERR_UNSUPPORTED},
        {"embed:mode=fast,abs=0.3", "embed:abs=0.3", LOOKED_UP, PITH_ERR_UNSUPPORTED},
        {"embed:entropy=rans,abs=0.3", "embed:abs=0.3", DISTINCT, PITH_OK},
        {"embed:entropy=rans,abs=0.3", "embed:abs=0.3,effort=19", SPIKES, PITH_OK},
        {"embed:entropy=rans,abs=0.3", "embed:abs=0.3,mode=fast", LOOKED_UP, PITH_OK},
        {"embed:entropy=rans,abs=0.3", "embed:abs=0.3,revision=1", DISTINCT, PITH_ERR_UNSUPPORTED},
        {"embed:entropy=rans,abs=0.3", "embed:abs=0.3,revision=1", EQUAL, PITH_OK},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct trip t;
        context("a frame of %s, rows %d", frames[i].other, (int)frames[i].kind);
        trip_open(&t, frames[i].spec, &layout, i);
        make_rows(&t, frames[i].kind, 16);
        trip_encode(&t);
        trip_check_frame_of(&t, frames[i].other, frames[i].status);
        trip_close(&t);
    }
}

/* A frame of revision 1 has no rANS strings. */
static void test_former(void **state) {
    (void)state;
    static const uint64_t shape[5] = {2, 300, 16};
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    for (int kind = 0; kind < ROWS; kind++) {
        struct trip t;
        context("rows %d as of revision 1", kind);
        trip_open(&t, "embed:entropy=rans,abs=0.02", &layout, 0);
        make_rows(&t, (enum rows)kind, 16);
        trip_encode(&t);
        t.frame.bytes[6] = 1;
        bad_seal(&t.frame);
        rig_try(&t.r, t.frame.bytes, t.frame.length, 0);
        trip_close(&t);
    }
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

/* Blocks that are coded are long: damage in their heads, tables, states and ends, and in a few
 * places between. */
static void attack_some(struct trip *t) {
    enum { BLOCK_AT = 80, FIRST = 70, LAST = 20, BETWEEN = 43 };
    uint64_t seed = t->frame.length;
    trip_flip(t, BLOCK_AT, BLOCK_AT + FIRST, LAST, BETWEEN, seed);
}

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        size_t batch;
        int mode;
        enum rows kind;
        uint32_t flags;
    } targets[] = {
        {0, FAST, LOOKED_UP, 0},
        {1, FAST, SHIFTED, 0},
        {2, FAST, WILD, 0},
        {0, FAST, RARE, PITH_LAYOUT_CHECKSUMS},
        {9, FAST, EQUAL, 0},
        {13, FAST, DISTINCT, 0},
        {7, FAST, NEARLY, 0},
        {0, CODED, RARE, 0},
        {5, CODED, RARE, 0},
        {0, CODED, THIN, 0},
        {4, CODED, SPIKES, PITH_LAYOUT_CHECKSUMS},
        {2, CODED, WILD, 0},
        {1, CODED, SHIFTED, 0},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const size_t k = targets[i].batch;
        const char *const spec = spec_of(k, targets[i].mode);
        const pith_layout layout =
            shape_layout(batches[k].shape, trip_reals[i % 3], targets[i].flags);
        struct trip t;
        context("%s attacked, rows %d", spec, (int)targets[i].kind);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, spec, &layout, i);
        make_rows(&t, targets[i].kind, row_of(batches[k].shape, batches[k].dim));
        trip_encode(&t);
        if (targets[i].mode == FAST)
            trip_attack(&t, i);
        else
            attack_some(&t);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches), cmocka_unit_test(test_values),
        cmocka_unit_test(test_slots),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_tight),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_modes),   cmocka_unit_test(test_former),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("gpu_embed", tests, NULL, NULL);
}
