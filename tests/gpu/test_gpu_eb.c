/* test_gpu_eb.c - codec eb with coded words on the device: frames and values are the CPU's,
 * whatever order of differences or interpolation suits; frames of other modes are read where no
 * block needs more.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "trip.h"

#define CODED "eb:mode=ratio,entropy=rans"

/* SMOOTH: waves along all dimensions, so that differences along several of them pay. THIN: nearly
 * all are one number, so that most words are 0. SPIKES: words that differ in their length, some of
 * which no symbol holds. HOLES: NaN or one number, which is one code. SMALL: one number or a
 * subnormal one, which is stored exactly and has a code of its own. WILD: a quarter is not finite.
 * LARGE: so near the largest number that some codes would be infinite. CURVED: parts of parabolas
 * along all dimensions, so that interpolation pays. RIPPLED: these and ripples of three elements
 * each, of which neighbours know more than cubics do, so that weights pay. */
enum values {
    NOISE,
    SMOOTH,
    THIN,
    SPIKES,
    EQUAL,
    HOLES,
    SMALL,
    WILD,
    LARGE,
    NONE,
    CURVED,
    RIPPLED,
    KINDS
};

static float wave(uint64_t at, uint64_t extent) {
    const uint64_t x = at % extent % 64;
    return (float)(x < 32 ? x : 63 - x) * 0.3f;
}
static float smooth_at(const uint64_t shape[5], uint64_t i) {
    float x = 1;
    for (uint64_t d = shape[0]; d > 0; i /= shape[d--]) x += wave(i, shape[d]);
    return x;
}

static float curved_at(const uint64_t shape[5], uint64_t i) {
    float x = 0;
    for (uint64_t d = shape[0]; d > 0; i /= shape[d--]) {
        const float j = (float)(i % shape[d] % 96);
        x += j * (96 - j) * (1.0f / 1024);
    }
    return x;
}
static float ripple_at(const uint64_t shape[5], uint64_t i) {
    static const float waves[3] = {0.4f, -0.3f, -0.1f};
    float x = 0;
    for (uint64_t d = shape[0]; d > 0; i /= shape[d--]) x += waves[i % shape[d] % 3];
    return x;
}

static uint32_t number_of(enum values kind, const uint64_t shape[5], uint64_t i, uint64_t *seed) {
    const float normal = (float)gen_normal(seed);
    const uint64_t chance = gen_next(seed);
    float x = normal;
    uint32_t u;
    switch (kind) {
    case SMOOTH: x = smooth_at(shape, i) + normal * 0.02f; break;
    case THIN: x = chance % 40 ? 0.75f : normal; break;
    case CURVED: x = curved_at(shape, i) + normal * 0.0005f; break;
    case RIPPLED: x = curved_at(shape, i) + ripple_at(shape, i) + normal * 0.0005f; break;
    case SPIKES: x = chance % 100 ? 2 + normal / 50 : normal * 1e18f; break;
    case EQUAL:
    case HOLES:
    case SMALL: x = 0.75f; break;
    default:;
    }
    memcpy(&u, &x, sizeof u);
    if (kind == HOLES && (i == 0 || chance % 5 == 1))
        u = chance % 10 < 5 ? 0x7FC00001u : 0xFF800000u;
    if (kind == SMALL && chance % 300 == 1) u = 0x00010000u;
    if (kind == WILD && chance % 4 == 1) u = 0x7F800000u + (uint32_t)(chance % 8 << 16);
    if (kind == LARGE) u = 0x7F000000u | (uint32_t)(chance % 0x780000u);
    if (kind == NONE) u = 0x7FC00000u;
    return u;
}

static void make_values(struct trip *t, const uint64_t shape[5], enum values kind) {
    uint64_t seed = 5 + t->bytes;
    for (uint64_t i = 0; i < t->r.count; i++)
        store_float(t->value, t->r.layout.dtype, (size_t)i, number_of(kind, shape, i, &seed));
}

/* ---- Values of any kind ----------------------------------------------------------------------*/

/* Rows that end inside units and groups; cubes in all four dimensions; blocks of a few elements, of
 * many strips, and of several parts, of which a last block has fewer. What follows the mode. */
static const struct {
    const char *rest;
    uint64_t shape[5];
} tensors[] = {
    {",pwrel=0.01", {1, 1}},
    {",pwrel=0.01", {1, 7}},
    {",pwrel=0.1,block=16", {1, 333}},
    {",pwrel=0.01", {1, 5000}},
    {",pwrel=0.01,block=256", {2, 70, 33}},
    {",pwrel=0.001,zeros=signed", {2, 3, 1700}},
    {",pwrel=0.02", {2, 900, 1}},
    {",pwrel=0.01", {3, 17, 18, 19}},
    {",pwrel=0.0001,block=1024", {3, 9, 30, 16}},
    {",pwrel=0.01", {4, 3, 5, 7, 40}},
    {",pwrel=0.3,block=whole", {4, 6, 5, 4, 16}},
    {",pwrel=1e-6", {3, 1, 1, 2500}},
    {",pwrel=0.01", {2, 0, 4}},
    {",abs=0.01", {1, 1}},
    {",abs=0.01", {1, 2}},
    {",rel=0.001", {1, 7}},
    {",rel=0.01,block=16", {1, 333}},
    {",abs=0.001", {1, 5000}},
    {",abs=0.01,block=256", {2, 70, 33}},
    {",rel=0.0001,zeros=signed", {2, 3, 1700}},
    {",abs=0.02", {2, 900, 1}},
    {"", {3, 17, 18, 19}},
    {",rel=0.00001,range=100,block=1024", {3, 9, 30, 16}},
    {",abs=0.005", {4, 3, 5, 7, 40}},
    {",abs=0.3,block=whole", {4, 6, 5, 4, 16}},
    {",abs=1e-30", {3, 1, 1, 2500}},
    {",abs=1e30", {2, 20, 30}},
    {",rel=0.01", {2, 0, 4}},
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

static void check_tensor(const char *rest, const uint64_t shape[5], enum values kind,
                         uint64_t number) {
    char spec[100];
    struct trip t;
    snprintf(spec, sizeof spec, CODED "%s", rest);
    context("%s, shape of %llu: %llu %llu %llu %llu, values %d, number %llu", spec,
            (unsigned long long)shape[0], (unsigned long long)shape[1],
            (unsigned long long)shape[2], (unsigned long long)shape[3],
            (unsigned long long)shape[4], (int)kind, (unsigned long long)number);
    trip_open_varied(&t, spec, shape, number);
    make_values(&t, shape, kind);
    trip_encode(&t);
    trip_check_all(&t, number);
    trip_close(&t);
}

static void test_tensors(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < TENSORS; i++)
        for (int kind = 0; kind < KINDS; kind++, number++)
            if (is_sampled(number, 6))
                check_tensor(tensors[i].rest, tensors[i].shape, (enum values)kind, number + i);
}

static void test_values(void **state) {
    (void)state;
    trip_check_generators(CODED ",pwrel=0.02,block=2048");
    trip_check_generators(CODED ",abs=0.02,block=2048");
    trip_check_generators(CODED ",rel=0.001,block=whole");
}

/* Blocks that several teams share, and whose strings have many states. */
static void test_parts(void **state) {
    (void)state;
    static const struct {
        const char *rest;
        uint64_t shape[5];
        enum values kind;
    } parted[] = {
        {",pwrel=0.01", {1, 70001}, SMOOTH},
        {",pwrel=0.001,block=65536", {1, 67000}, SPIKES},
        {",pwrel=0.01,block=32768", {2, 3, 17001}, THIN},
        {",pwrel=0.01", {2, 190, 211}, SMOOTH},
        {",pwrel=0.01,block=whole", {3, 33, 35, 37}, SMOOTH},
        {",pwrel=0.05,zeros=signed", {4, 5, 9, 31, 33}, WILD},
        {",pwrel=0.01", {2, 200, 170}, HOLES},
        {",abs=0.01", {1, 70001}, CURVED},
        {",abs=0.001,block=65536", {1, 67000}, RIPPLED},
        {",rel=0.0001,block=32768", {2, 3, 17001}, SMOOTH},
        {",abs=0.002", {2, 190, 211}, RIPPLED},
        {",abs=0.01", {2, 190, 211}, CURVED},
        {",rel=0.00001,block=whole", {3, 33, 35, 37}, CURVED},
        {",abs=0.001,block=whole", {3, 33, 35, 37}, RIPPLED},
        {",abs=0.05,zeros=signed", {4, 5, 9, 31, 33}, WILD},
        {",abs=0.02", {4, 5, 9, 31, 33}, CURVED},
        {",abs=0.01", {2, 200, 170}, HOLES},
        {",abs=0.01", {2, 200, 170}, LARGE},
        {",abs=1e30", {2, 200, 170}, LARGE},
        {",abs=0.05", {2, 200, 170}, NOISE},
        {",rel=0.00001,block=whole", {3, 81, 82, 83}, RIPPLED},
    };
    for (uint64_t i = 0; i < sizeof parted / sizeof parted[0]; i++)
        if (is_sampled(i, 3))
            check_tensor(parted[i].rest, parted[i].shape, parted[i].kind, i + 3 * (i % 4));
}

/* Every way to code a block is among these: its first two bytes say which it is. */
static void test_methods(void **state) {
    (void)state;
    enum { BLOCK_AT = 112, CONSTANT = 0, DIFFERENCES = 2, INTERPOLATED, WEIGHTED };
    static const struct {
        const char *rest;
        uint64_t shape[5];
        enum values kind;
        uint8_t method, order; /* of interpolation: the row of level bounds */
    } blocks[] = {
        {",abs=0.01", {2, 30, 40}, EQUAL, CONSTANT, 0},
        {",abs=0.01", {2, 30, 40}, NOISE, DIFFERENCES, 0},
        {",abs=0.002", {2, 120, 100}, CURVED, INTERPOLATED, 2},
        {",abs=0.001", {2, 190, 211}, RIPPLED, DIFFERENCES, 2},
        {",abs=0.01", {4, 5, 9, 31, 33}, CURVED, INTERPOLATED, 3},
        {",abs=0.002", {1, 60000}, RIPPLED, WEIGHTED, 0},
        {",abs=0.01", {2, 190, 211}, CURVED, WEIGHTED, 2},
        {",abs=0.02,block=whole", {3, 81, 82, 83}, SMOOTH, WEIGHTED, 0},
    };
    for (uint64_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const pith_layout layout = shape_layout(blocks[i].shape, PITH_F32, 0);
        char spec[100];
        struct trip t;
        context("block number %llu, of method %d", (unsigned long long)i, blocks[i].method);
        snprintf(spec, sizeof spec, CODED "%s", blocks[i].rest);
        trip_open(&t, spec, &layout, i);
        make_values(&t, blocks[i].shape, blocks[i].kind);
        trip_encode(&t);
        assert_int_equal(t.frame.bytes[BLOCK_AT], blocks[i].method);
        assert_int_equal(t.frame.bytes[BLOCK_AT + 1], blocks[i].order);
        trip_check_all(&t, i);
        trip_close(&t);
    }
}

static void test_slots(void **state) {
    (void)state;
    trip_check_three_slots(CODED ",pwrel=0.01,block=128", PITH_F32);
    trip_check_three_slots(CODED ",abs=0.01,block=128", PITH_F32);
}

/* One slot has fewer blocks, and fewer parts of one, than another. */
static void test_uneven(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, 100003);
    struct trip t;
    context("uneven slots");
    layout.slots = 3;
    layout.slot_count = 49152;
    trip_open(&t, CODED ",pwrel=0.01,block=32768", &layout, 0);
    gen_fill(GEN_NOISE, 5, layout.dtype, t.value, t.r.count);
    trip_check_slots(&t.r, t.value);
    trip_close(&t);
}

static void test_tight(void **state) {
    (void)state;
    trip_check_tight(CODED ",pwrel=0.001,block=256", 20, 0);
    trip_check_tight(CODED ",pwrel=0.001,block=256", 60, 2);
    trip_check_tight(CODED ",pwrel=0.001,block=256", 60, 9);
    trip_check_tight(CODED ",abs=0.5,block=256", 20, 0);
    trip_check_tight(CODED ",abs=0.01,block=256", 60, 2);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    static const char *const what = "abs, rel or pwrel, and mode=fast or mode=ratio,entropy=rans";
    trip_check_unsupported(CODED ",pwrel=0.01", PITH_F64, what);
    trip_check_unsupported(CODED ",abs=0.01", PITH_F64, what);
    trip_check_unsupported(CODED ",psnr=60", PITH_F32, what);
    trip_check_unsupported("eb:mode=ratio,abs=0.01", PITH_F32, what);
    trip_check_unsupported("eb:mode=ratio,pwrel=0.01", PITH_F32, what);
    trip_check_unsupported("eb:mode=auto,entropy=rans,pwrel=0.01", PITH_F32, what);
    trip_check_unsupported("eb:mode=auto,entropy=rans,abs=0.01", PITH_F32, what);
    trip_check_coded_refused(CODED ",pwrel=0.01");
    trip_check_coded_refused(CODED ",abs=0.01");
}

/* Frames of another mode, effort or revision: what needs more than a plan's is refused, blocks that
 * do not are read; so are not strings of zstd. */
static void test_modes(void **state) {
    (void)state;
    static const struct {
        const char *plan, *other;
        enum values kind;
        pith_status status;
    } frames[] = {
        {"eb:pwrel=0.01", CODED ",pwrel=0.01", NOISE, PITH_ERR_UNSUPPORTED},
        {"eb:pwrel=0.01", CODED ",pwrel=0.01", EQUAL, PITH_OK},
        {CODED ",pwrel=0.01", "eb:pwrel=0.01", SMOOTH, PITH_OK},
        {CODED ",pwrel=0.01", "eb:mode=auto,entropy=rans,pwrel=0.01", SMOOTH, PITH_OK},
        {CODED ",pwrel=0.01", "eb:mode=ratio,pwrel=0.01", NOISE, PITH_OK},
        {CODED ",pwrel=0.01", "eb:mode=ratio,pwrel=0.01,revision=1", NOISE, PITH_ERR_UNSUPPORTED},
        {CODED ",pwrel=0.01", "eb:mode=ratio,pwrel=0.01,revision=2,effort=9", NOISE, PITH_OK},
        {CODED ",pwrel=0.01", "eb:mode=ratio,pwrel=0.01,effort=9", HOLES, PITH_OK},
        {"eb:abs=0.01", CODED ",abs=0.01", CURVED, PITH_ERR_UNSUPPORTED},
        {CODED ",abs=0.01", "eb:abs=0.01", SMOOTH, PITH_OK},
        {CODED ",abs=0.01", "eb:mode=auto,entropy=rans,abs=0.01", SMOOTH, PITH_OK},
        {CODED ",abs=0.01", "eb:mode=auto,entropy=rans,abs=0.01", CURVED, PITH_OK},
        {CODED ",abs=0.001", "eb:mode=auto,entropy=rans,abs=0.001", RIPPLED, PITH_OK},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const uint64_t shape[5] = {2, 60, 150};
        const pith_layout layout = shape_layout(shape, PITH_F32, 0);
        struct trip t;
        context("a frame of %s, values %d", frames[i].other, (int)frames[i].kind);
        trip_open(&t, frames[i].plan, &layout, i);
        make_values(&t, shape, frames[i].kind);
        trip_encode(&t);
        trip_check_frame_of(&t, frames[i].other, frames[i].status);
        trip_close(&t);
    }
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

/* Blocks that are coded are long: damage in their heads, tables, states and ends, and in a few
 * places between. */
static void attack(const char *rest, const uint64_t shape[5], enum values kind, uint64_t number) {
    enum { BLOCK_AT = 80, FIRST = 110, LAST = 24, BETWEEN = 61 };
    char spec[100];
    struct trip t;
    snprintf(spec, sizeof spec, CODED "%s", rest);
    trip_open_attacked(&t, spec, shape, number);
    make_values(&t, shape, kind);
    trip_encode(&t);
    trip_flip(&t, BLOCK_AT, BLOCK_AT + FIRST, LAST, BETWEEN, number);
    for (size_t n = t.frame.length; n > t.frame.length / 2; n -= 1 + n / 11)
        if (is_sampled(n, 4)) rig_try(&t.r, t.frame.bytes, n - 1, t.offset);
    trip_close(&t);
}

static void test_hostile(void **state) {
    (void)state;
    static const uint64_t shapes[][5] = {{1, 900}, {2, 30, 40}, {3, 9, 10, 11}, {2, 150, 160}};
    static const enum values kinds[] = {NOISE, SMOOTH, THIN, SPIKES, HOLES, SMALL, WILD};
    for (uint64_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        attack(i % 2 ? ",pwrel=0.01" : ",pwrel=0.01,block=256", shapes[i % 3], kinds[i], i);
    attack(",pwrel=0.01", shapes[3], THIN, 2);
    attack(",abs=0.01", shapes[0], CURVED, 3);
    attack(",abs=0.01,block=256", shapes[1], CURVED, 4);
    attack(",abs=0.02", shapes[2], CURVED, 5);
    attack(",abs=0.01", shapes[3], CURVED, 6);
    attack(",abs=0.002", shapes[3], RIPPLED, 8);
}

/* What is damaged in a block of which nothing is wanted the CPU does not see, nor does a device. */
static void check_untouched(const char *spec, enum values kind) {
    const uint64_t shape[5] = {2, 64, 64};
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    struct trip t;
    context("a block that is not wanted");
    trip_open(&t, spec, &layout, 0);
    make_values(&t, shape, kind);
    trip_encode(&t);
    t.frame.bytes[t.frame.length - 1] ^= 0x55;
    t.frame.bytes[t.frame.length - 200] ^= 0x55;
    /* Rows of the first tiles, whose numbers lie between those of others'. */
    trip_check_range(&t, 16, 64 * 15);
    trip_close(&t);
}
static void test_untouched(void **state) {
    (void)state;
    check_untouched(CODED ",pwrel=0.01,block=256", NOISE);
    check_untouched(CODED ",abs=0.01,block=256", CURVED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),   cmocka_unit_test(test_values),
        cmocka_unit_test(test_parts),     cmocka_unit_test(test_methods),
        cmocka_unit_test(test_slots),     cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_tight),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_modes),     cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_untouched),
    };
    return cmocka_run_group_tests_name("gpu_eb", tests, NULL, NULL);
}
