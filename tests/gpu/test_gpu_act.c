/* test_gpu_act.c - codec act on the device: maps and numbers are the CPU's, whatever is 0; frames
 * and values too, coded or not; what zstd would be needed for is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bad.h"
#include "gen.h"
#include "trip.h"

/* What is 0. RELU: about half. FEW: one in 500. PATCHES: runs of hundreds. ALIKE: every 32nd
 * element is not, so that bytes of the map that are not 0 are one. WILD: values that are not
 * numbers, and such as are stored exactly. SMOOTH: waves along rows of 48, cut off below 0. */
enum zeros { NONE, ALL, ONE, RELU, FEW, PATCHES, ALIKE, SIGNED, WILD, SMOOTH, KINDS };

static float value_of(enum zeros kind, uint64_t i, uint64_t *seed) {
    const float x = (float)gen_normal(seed), size = x < 0 ? -x : x;
    const uint64_t chance = gen_next(seed);
    switch (kind) {
    case NONE: return size + 1;
    case ALL: return 0;
    case ONE: return i == 77 ? x : 0;
    case RELU: return x > 0 ? x : 0;
    case FEW: return chance % 500 ? 0 : size;
    case PATCHES: return i / 300 % 3 ? 0 : x;
    case ALIKE: return i % 32 == 5 ? size : 0;
    case SIGNED: return chance % 3 ? x : -0.0f;
    case SMOOTH: {
        const uint64_t wave = (i + i / 48 * 7) % 96;
        const float height = wave < 48 ? (float)wave - 20 : 76 - (float)wave;
        return height > 0 ? height / 8 + x / 50 : 0;
    }
    default: return chance % 4 ? 0 : x;
    }
}

static void make_values(struct trip *t, enum zeros kind) {
    uint64_t seed = 3 + t->bytes;
    for (uint64_t i = 0; i < t->r.count; i++) {
        const float x = value_of(kind, i, &seed);
        uint32_t u;
        memcpy(&u, &x, sizeof u);
        if (kind == WILD && gen_next(&seed) % 50 == 0)
            u = gen_next(&seed) % 2 ? 0x7F800000u : 0x7FC00000u;
        if (kind == WILD && gen_next(&seed) % 90 == 0) u = 0x7F000000u;
        store_float(t->value, t->r.layout.dtype, (size_t)i, u);
    }
}

/* ---- Values of any kind ----------------------------------------------------------------------*/

/* Blocks of less than a byte of the map and of many strips; maps whose bitmaps are one, two and
 * three deep; blocks that are planes; more rows than a team has threads. What follows the mode. */
static const struct {
    const char *rest;
    uint64_t shape[5];
} tensors[] = {
    {"", {1, 5000}},
    {",abs=0.01,block=1024", {2, 70, 33}},
    {",abs=0.05,zeros=signed,block=4096", {3, 9, 30, 16}},
    {",pwrel=0.01", {1, 1201}},
    {",rel=0.05,range=4,block=16", {1, 333}},
    {",abs=0.5,block=32768", {1, 70001}},
    {",abs=0.01", {4, 2, 3, 100, 64}},
    {",abs=1e-30", {1, 300}},
    {",abs=100", {1, 2000}},
    {",abs=0.1", {1, 1}},
    {",abs=0.2", {2, 700, 9}},
    {",abs=0.1", {4, 40, 12, 4, 12}},
    {"", {2, 0, 16}},
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

static const char *const modes[] = {"act:mode=fast", "act:mode=ratio,entropy=rans"};
enum { FAST, CODED, MODES };

static const char *spec_of(int mode, const char *rest) {
    static char spec[100];
    snprintf(spec, sizeof spec, "%s%s", modes[mode], rest);
    return spec;
}

/* `number` varies what is not worth a product. */
static void one_tensor(size_t i, int mode, enum zeros kind, uint64_t number) {
    const char *const spec = spec_of(mode, tensors[i].rest);
    const uint32_t dtype = trip_reals[number % 3];
    const pith_layout layout =
        shape_layout(tensors[i].shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s of %s, tensor %zu, zeros %d", spec, pith_dtype_name(dtype), i, (int)kind);
    trip_open(&t, spec, &layout, number % 2 ? 0 : (size_t)(number / 2 % 16));
    make_values(&t, kind);
    trip_encode(&t);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_range(&t, t.r.count / 3 + number % 5, t.r.count / 4 + 1);
    trip_check_other(&t, trip_reals[number / 2 % 3], false);
    trip_check_other(&t, trip_reals[number % 3], true);
    trip_close(&t);
}

static void test_tensors(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t i = 0; i < TENSORS; i++)
        for (int kind = 0; kind < KINDS; kind++, number++)
            for (int mode = 0; mode < MODES; mode++)
                if (is_sampled(number * MODES + (uint64_t)mode, 6))
                    one_tensor(i, mode, (enum zeros)kind, number + i);
}

static void test_values(void **state) {
    (void)state;
    for (int mode = 0; mode < MODES; mode++)
        trip_check_generators(spec_of(mode, ",abs=0.02,block=2048"));
}

/* One slot's blocks are not another's. */
static void test_slots(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, 2000);
    layout.slots = 3;
    for (int mode = 0; mode < MODES; mode++) {
        struct trip t;
        trip_open(&t, spec_of(mode, ",abs=0.1,block=256"), &layout, 0);
        make_values(&t, RELU);
        trip_check_slots(&t.r, t.value);
        trip_close(&t);
    }
}

/* Long strings; maps in lanes, of 4 and 16 of them; numbers less what neighbours let expect. */
static void test_long(void **state) {
    (void)state;
    static const struct {
        const char *rest;
        enum zeros kind;
        uint64_t shape[5];
    } cases[] = {
        {",abs=0.05", SMOOTH, {2, 600, 48}}, {",abs=0.05,block=65536", SMOOTH, {4, 5, 7, 40, 48}},
        {",abs=0.01", RELU, {1, 70003}},     {",abs=0.02", PATCHES, {3, 20, 50, 31}},
        {",abs=0.3", SMOOTH, {1, 5000}},     {",abs=0.1", FEW, {2, 300, 300}},
        {",abs=0.1", RELU, {3, 3000, 4, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const spec = spec_of(CODED, cases[i].rest);
        const pith_layout layout =
            shape_layout(cases[i].shape, trip_reals[i % 3], i % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
        struct trip t;
        context("%s, zeros %d", spec, (int)cases[i].kind);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, spec, &layout, i);
        make_values(&t, cases[i].kind);
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
    static const char spec[] = "act:mode=ratio,entropy=rans,abs=0.5,block=256";
    trip_check_tight(spec, 20, 0);
    trip_check_tight(spec, 60, 2);
    trip_check_tight(spec, 60, 9);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    static const char *const what = "mode=fast or mode=ratio,entropy=rans, and not in f64";
    trip_check_unsupported("act", PITH_F64, what);
    trip_check_unsupported("act:mode=ratio", PITH_F32, what);
    trip_check_unsupported("act:mode=ratio,entropy=rans", PITH_F64, what);
}

/* Frames of another mode: what needs more than a plan's is refused, blocks that do not are read; so
 * are maps bit by bit, and strings of zstd. */
static void test_modes(void **state) {
    (void)state;
    static const struct {
        int mode;
        const char *other;
        enum zeros kind;
        pith_status status;
    } frames[] = {
        {FAST, "act:mode=ratio,abs=0.3", ALL, PITH_OK},
        {FAST, "act:mode=ratio,abs=0.3", RELU, PITH_ERR_UNSUPPORTED},
        {FAST, "act:mode=ratio,abs=0.3,entropy=rans", RELU, PITH_ERR_UNSUPPORTED},
        {FAST, "act:mode=ratio,abs=0.3,revision=2,effort=9", PATCHES, PITH_ERR_UNSUPPORTED},
        {FAST, "act:mode=ratio,abs=1e-30", NONE, PITH_OK},
        {CODED, "act:abs=0.3", RELU, PITH_OK},
        {CODED, "act:mode=ratio,abs=0.3", RELU, PITH_OK},
        {CODED, "act:mode=ratio,abs=0.3", SMOOTH, PITH_ERR_UNSUPPORTED},
        {CODED, "act:mode=ratio,abs=0.3,revision=1", RELU, PITH_ERR_UNSUPPORTED},
        {CODED, "act:mode=ratio,abs=0.3,revision=2,effort=9", PATCHES, PITH_ERR_UNSUPPORTED},
        {CODED, "act:mode=ratio,abs=1e-30", NONE, PITH_OK},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 9000);
        struct trip t;
        context("a frame of %s, zeros %d", frames[i].other, (int)frames[i].kind);
        trip_open(&t, spec_of(frames[i].mode, frames[i].kind == NONE ? ",abs=1e-30" : ",abs=0.3"),
                  &layout, i);
        make_values(&t, frames[i].kind);
        trip_encode(&t);
        trip_check_frame_of(&t, frames[i].other, frames[i].status);
        trip_close(&t);
    }
}

/* A frame of revision 1 has no rANS strings, one of revision 2 no maps in lanes. */
static void test_former(void **state) {
    (void)state;
    for (int i = 0; i < 2 * KINDS; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 9000);
        struct trip t;
        context("zeros %d as of revision %d", i / 2, 1 + i % 2);
        trip_open(&t, "act:mode=ratio,entropy=rans,abs=0.1", &layout, 0);
        make_values(&t, (enum zeros)(i / 2));
        trip_encode(&t);
        t.frame.bytes[6] = (uint8_t)(1 + i % 2);
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
    trip_flip(t, BLOCK_AT, BLOCK_AT + FIRST, LAST, BETWEEN, t->frame.length);
}

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        int mode;
        const char *rest;
        enum zeros kind;
        uint32_t count, flags;
    } targets[] = {
        {FAST, ",abs=0.1", RELU, 900, 0},
        {FAST, ",abs=0.1", FEW, 9000, 0},
        {FAST, ",abs=0.1", ALIKE, 2000, 0},
        {FAST, ",abs=0.3,block=256", PATCHES, 1100, 0},
        {FAST, ",abs=0.1", WILD, 700, PITH_LAYOUT_CHECKSUMS},
        {FAST, ",abs=0.1", NONE, 333, 0},
        {FAST, ",abs=0.1,zeros=signed", SIGNED, 500, 0},
        {CODED, ",abs=0.1", RELU, 900, 0},
        {CODED, ",abs=0.1", SMOOTH, 2000, 0},
        {CODED, ",abs=0.1", FEW, 3000, PITH_LAYOUT_CHECKSUMS},
        {CODED, ",abs=0.3,block=256", PATCHES, 1100, 0},
        {CODED, ",abs=0.1", WILD, 700, 0},
        {CODED, ",abs=0.1", NONE, 333, 0},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        pith_layout layout = flat_layout(trip_reals[i % 3], PITH_NONE, targets[i].count);
        struct trip t;
        layout.flags = targets[i].flags;
        const char *const spec = spec_of(targets[i].mode, targets[i].rest);
        context("%s attacked, zeros %d", spec, (int)targets[i].kind);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, spec, &layout, i);
        make_values(&t, targets[i].kind);
        trip_encode(&t);
        if (targets[i].mode == FAST)
            trip_attack(&t, i);
        else
            attack_some(&t);
        trip_close(&t);
    }
}

/* A plan of mode fast reads frames of revision 3, which may have maps in lanes. */
static void test_ratio_attacked(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 9000);
        struct trip t;
        context("ratio attacked, zeros %d", kind);
        trip_open(&t, "act:abs=0.1", &layout, 0);
        make_values(&t, (enum zeros)kind);
        trip_encode(&t);
        const pith_view view = pith_view_flat(t.value, PITH_F32, 9000);
        struct frame f = compress("act:mode=ratio,abs=0.1,entropy=rans", &view, NULL, 0);
        for (size_t at = 90; at < f.length; at += 1 + f.length / 50) {
            f.bytes[at] ^= (uint8_t)(1u << at % 8);
            rig_try(&t.r, f.bytes, f.length, 0);
            f.bytes[at] ^= (uint8_t)(1u << at % 8);
        }
        free(f.bytes);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_values),
        cmocka_unit_test(test_slots),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_tight),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_modes),   cmocka_unit_test(test_former),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_ratio_attacked),
    };
    return cmocka_run_group_tests_name("gpu_act", tests, NULL, NULL);
}
