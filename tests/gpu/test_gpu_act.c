/* test_gpu_act.c - codec act on the device: maps and numbers are the CPU's, whatever is 0; frames
 * and values too; what another mode needs is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

/* What is 0. RELU: about half. FEW: one in 500. PATCHES: runs of hundreds. ALIKE: every 32nd
 * element is not, so that bytes of the map that are not 0 are one. WILD: values that are not
 * numbers, and such as are stored exactly. */
enum zeros { NONE, ALL, ONE, RELU, FEW, PATCHES, ALIKE, SIGNED, WILD, KINDS };

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
 * three deep; blocks that are planes. */
static const struct {
    const char *spec;
    uint64_t shape[5];
} tensors[] = {
    {"act", {1, 5000}},
    {"act:abs=0.01,block=1024", {2, 70, 33}},
    {"act:abs=0.05,zeros=signed,block=4096", {3, 9, 30, 16}},
    {"act:pwrel=0.01", {1, 1201}},
    {"act:rel=0.05,range=4,block=16", {1, 333}},
    {"act:abs=0.5,block=32768", {1, 70001}},
    {"act:abs=0.01", {4, 2, 3, 100, 64}},
    {"act:abs=1e-30", {1, 300}},
    {"act:abs=100", {1, 2000}},
    {"act:abs=0.1", {1, 1}},
    {"act", {2, 0, 16}},
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

/* `number` varies what is not worth a product. */
static void one_tensor(size_t i, enum zeros kind, uint64_t number) {
    const uint32_t dtype = trip_reals[number % 3];
    const pith_layout layout =
        shape_layout(tensors[i].shape, dtype, number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s of %s, tensor %zu, zeros %d", tensors[i].spec, pith_dtype_name(dtype), i,
            (int)kind);
    trip_open(&t, tensors[i].spec, &layout, number % 2 ? 0 : (size_t)(number / 2 % 16));
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
            one_tensor(i, (enum zeros)kind, number + i);
}

/* Every generator, in every order of threads. */
static void test_values(void **state) {
    (void)state;
    for (int kind = 0; kind < GEN_COUNT; kind++)
        for (int order = 0; order < device_orders(); order++) {
            const pith_layout layout = flat_layout(trip_reals[kind % 3], PITH_NONE, 3000);
            struct trip t;
            context("values of %s", gen_name((enum gen)kind));
            device_order(order);
            trip_open(&t, "act:abs=0.02,block=2048", &layout, 0);
            gen_fill((enum gen)kind, 9, layout.dtype, t.value, t.r.count);
            trip_encode(&t);
            trip_check_encode(&t);
            trip_check_decode(&t);
            trip_check_space(&t);
            trip_close(&t);
        }
}

/* One slot's blocks are not another's. */
static void test_slots(void **state) {
    (void)state;
    pith_layout layout = flat_layout(PITH_BF16, PITH_NONE, 2000);
    struct trip t;
    layout.slots = 3;
    trip_open(&t, "act:abs=0.1,block=256", &layout, 0);
    make_values(&t, RELU);
    trip_check_slots(&t.r, t.value);
    trip_close(&t);
}

/* ---- What is refused -------------------------------------------------------------------------*/

static void test_refused(void **state) {
    (void)state;
    trip_check_unsupported("act", PITH_F64, "mode=fast");
    trip_check_unsupported("act:mode=ratio", PITH_F32, "mode=fast");
    trip_check_unsupported("act:mode=ratio,entropy=rans", PITH_F32, "mode=fast");
}

/* Frames of another mode: what needs more than a plan's is refused, blocks that do not are read. */
static void test_modes(void **state) {
    (void)state;
    static const struct {
        const char *other;
        enum zeros kind;
        pith_status status;
    } frames[] = {
        {"act:mode=ratio,abs=0.3", ALL, PITH_OK},
        {"act:mode=ratio,abs=0.3", RELU, PITH_ERR_UNSUPPORTED},
        {"act:mode=ratio,abs=0.3,entropy=rans", RELU, PITH_ERR_UNSUPPORTED},
        {"act:mode=ratio,abs=0.3,revision=2,effort=9", PATCHES, PITH_ERR_UNSUPPORTED},
        {"act:mode=ratio,abs=1e-30", NONE, PITH_OK},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, 9000);
        struct trip t;
        context("a frame of %s, zeros %d", frames[i].other, (int)frames[i].kind);
        trip_open(&t, frames[i].kind == NONE ? "act:abs=1e-30" : "act:abs=0.3", &layout, i);
        make_values(&t, frames[i].kind);
        trip_encode(&t);
        trip_check_frame_of(&t, frames[i].other, frames[i].status);
        trip_close(&t);
    }
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        enum zeros kind;
        uint32_t count, flags;
    } targets[] = {
        {"act:abs=0.1", RELU, 900, 0},
        {"act:abs=0.1", FEW, 9000, 0},
        {"act:abs=0.1", ALIKE, 2000, 0},
        {"act:abs=0.3,block=256", PATCHES, 1100, 0},
        {"act:abs=0.1", WILD, 700, PITH_LAYOUT_CHECKSUMS},
        {"act:abs=0.1", NONE, 333, 0},
        {"act:abs=0.1,zeros=signed", SIGNED, 500, 0},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        pith_layout layout = flat_layout(trip_reals[i % 3], PITH_NONE, targets[i].count);
        struct trip t;
        layout.flags = targets[i].flags;
        context("%s attacked, zeros %d", targets[i].spec, (int)targets[i].kind);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, targets[i].spec, &layout, i);
        make_values(&t, targets[i].kind);
        trip_encode(&t);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

/* A frame of revision 3 may have maps in lanes, of which earlier ones know nothing. */
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
        cmocka_unit_test(test_tensors),        cmocka_unit_test(test_values),
        cmocka_unit_test(test_slots),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_modes),          cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_ratio_attacked),
    };
    return cmocka_run_group_tests_name("gpu_act", tests, NULL, NULL);
}
