/* test_gpu_lossless.c - exact values on the device: frames of lossless, made and read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bad.h"
#include "common/endian.h"
#include "frame_header.h"
#include "gen.h"
#include "trip.h"

static const struct {
    const char *spec;
    uint64_t counts[4];
} settings[] = {
    {"lossless:entropy=rans", {0, 1, 1025, 9001}},
    {"lossless:entropy=rans,block=16", {15, 17, 100, 333}},
    {"lossless:entropy=rans,block=1024", {1023, 1024, 2049, 3500}},
    {"lossless:entropy=rans,block=4096", {63, 4095, 4100, 8191}},
    {"lossless:entropy=rans,block=16384", {512, 8193, 16391, 20000}},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* Besides those of gen.h: words that are small but for a few; values of which one in a hundred is
 * not 0; a byte that says much beside some that say nothing; few values. */
enum { SMALL = GEN_COUNT, RARE, MIXED, FEW, FILLS };

static void fill_values(struct trip *t, int fill, uint64_t number) {
    const uint32_t dtype = t->r.layout.dtype;
    const size_t width = pith_dtype_bytes(dtype);
    uint64_t seed = number + 1;
    if (fill < GEN_COUNT) gen_fill((enum gen)fill, number, dtype, t->value, (size_t)t->r.count);
    for (size_t i = 0; fill >= GEN_COUNT && i < t->r.count; i++) {
        const uint64_t r = gen_next(&seed);
        uint64_t value = r >> 32 & 15;
        if (fill == SMALL && r % 50 == 0) value = r >> 8;
        if (fill == RARE) value = r % 100 ? 0 : r >> 8;
        if (fill == MIXED) value = r << 4 | (r >> 60 & 7);
        if (fill == FEW) value = i % 700 < 690 ? 0x3F3F3F3F3F3F3F3F : r % 3;
        if (dtype == PITH_BOOL) value &= 1;
        memcpy(t->value + i * width, &value, width);
    }
    trip_encode(t);
}

static void check_all(struct trip *t, uint64_t number) {
    trip_check_encode(t);
    trip_check_decode(t);
    trip_check_range(t, t->r.count / 3 + number % 7, t->r.count / 2 + 1);
    if (t->r.layout.dtype <= PITH_F16) trip_check_other(t, trip_reals[number / 2 % 3], true);
    trip_check_space(t);
}

static void one_trip(const char *spec, uint32_t dtype, uint64_t count, int fill, uint64_t number) {
    const uint64_t shape[5] = {1, count};
    const pith_layout layout = shape_layout(shape, dtype, number % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s of %s x %llu, values %d, number %llu", spec, pith_dtype_name(dtype),
            (unsigned long long)count, fill, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(&t, spec, &layout, number % 5 ? 0 : (size_t)(number / 5 % 16));
    fill_values(&t, fill, number);
    check_all(&t, number);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t k = 0; k < SETTINGS; k++)
        for (size_t i = 0; i < 4; i++)
            for (size_t d = 0; d < TRIP_DTYPES; d++)
                for (int fill = 0; fill < FILLS; fill++, number++)
                    if ((number + number / 16) % (settings[k].counts[i] < 1000 ? 5 : 13) == 0 &&
                        is_sampled(number, 6))
                        one_trip(settings[k].spec, trip_dtypes[d], settings[k].counts[i], fill,
                                 number);
}

/* Long strings have 64 states, or 128. */
static void test_long(void **state) {
    (void)state;
    one_trip("lossless:entropy=rans", PITH_BF16, 140000, GEN_NOISE, 0);
    one_trip("lossless:entropy=rans,block=65536", PITH_F32, 66000, GEN_HOLES, 1);
    one_trip("lossless:entropy=rans,block=65536", PITH_I32, 70000, SMALL, 2);
    one_trip("lossless:entropy=rans", PITH_U8, 131072, RARE, 3);
}

/* Blocks whose last plane is expected to take what is left, or a few bytes more or less: the CPU
 * does not begin a string that may not fit. */
static void test_tight(void **state) {
    (void)state;
    enum { BLOCK = 256, BLOCKS = 240 };
    const uint64_t shape[5] = {1, BLOCK * BLOCKS};
    const pith_layout layout = shape_layout(shape, PITH_U64, 0);
    struct trip t;
    uint64_t seed = 1;
    context("planes of nearly a byte a symbol");
    trip_open(&t, "lossless:entropy=rans,block=256", &layout, 0);
    for (size_t i = 0; i < BLOCK * BLOCKS; i++) {
        const uint64_t noise = gen_next(&seed), kinds = 16 + i / BLOCK;
        const uint64_t value = noise >> 8 | (gen_next(&seed) >> 32) % kinds << 56;
        memcpy(t.value + 8 * i, &value, 8);
    }
    trip_encode(&t);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_close(&t);
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

/* Short frames of every form: damage is tried in most of their bytes. */
static void test_hostile(void **state) {
    (void)state;
    static const struct {
        uint32_t dtype;
        uint64_t count;
        int fill;
    } cases[] = {
        {PITH_BF16, 1025, FEW},    {PITH_F32, 1024, FEW},  {PITH_F16, 1100, GEN_SPARSE},
        {PITH_F64, 130, GEN_RAMP}, {PITH_U16, 300, SMALL}, {PITH_U8, 400, RARE},
        {PITH_I32, 120, SMALL},    {PITH_U64, 60, RARE},   {PITH_BOOL, 700, MIXED},
        {PITH_F8E4M3, 200, FEW},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t shape[5] = {1, cases[i].count};
        const pith_layout layout =
            shape_layout(shape, cases[i].dtype, i % 4 == 3 ? PITH_LAYOUT_CHECKSUMS : 0);
        struct trip t;
        context("%s attacked", pith_dtype_name(cases[i].dtype));
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, "lossless:entropy=rans,block=1024", &layout, i % 16);
        fill_values(&t, cases[i].fill, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

/* Blocks of tops are long: damage in their heads, tables, states and ends, and in a few places
 * between. */
static void test_hostile_tops(void **state) {
    (void)state;
    enum { COUNT = 1030, BLOCK_AT = 80, FIRST = 90, LAST = 40, BETWEEN = 97 };
    static const uint32_t floats[] = {PITH_BF16, PITH_F16, PITH_F32, PITH_F64};
    for (size_t d = 0; d < 4; d++) {
        const uint64_t shape[5] = {1, COUNT};
        const pith_layout layout = shape_layout(shape, floats[d], 0);
        struct trip t;
        uint64_t seed = d;
        context("tops of %s attacked", pith_dtype_name(floats[d]));
        device_order((int)(d % (size_t)device_orders()));
        trip_open(&t, "lossless:entropy=rans", &layout, d);
        fill_values(&t, d % 2 ? GEN_NOISE : GEN_HOLES, d);
        CHECK(t.frame.bytes[BLOCK_AT] == 9);
        trip_flip(&t, BLOCK_AT, BLOCK_AT + FIRST, LAST, BETWEEN, seed);
        trip_close(&t);
    }
}

/* Tries the frame of one block with `length` bytes in that block, those that are more being 0. */
static pith_status try_length(struct trip *t, size_t length) {
    enum { INDEX_AT = 64, INDEX = 16 };
    struct frame f = {.length = INDEX_AT + INDEX + length};
    f.bytes = allocate(f.length + INDEX);
    memset(f.bytes, 0, f.length);
    memcpy(f.bytes, t->frame.bytes, f.length < t->frame.length ? f.length : t->frame.length);
    pithi_put64(f.bytes + PITHI_AT_PAYLOAD, INDEX + length);
    pithi_put32(f.bytes + INDEX_AT, (uint32_t)length);
    bad_seal(&f);
    const pith_status status = rig_try(&t->r, f.bytes, f.length, 0);
    free(f.bytes);
    return status;
}

/* Tops that stand beside, too many of them and too few, and heads that say what cannot be. */
static void test_crafted(void **state) {
    (void)state;
    enum { COUNT = 1100, BLOCK_AT = 80 };
    const uint64_t shape[5] = {1, COUNT};
    const pith_layout layout = shape_layout(shape, PITH_F64, 0);
    struct trip t;
    trip_open(&t, "lossless:entropy=rans", &layout, 0);
    gen_fill(GEN_NOISE, 3, PITH_F64, t.value, COUNT);
    for (size_t i = 3; i < COUNT; i += 300) memcpy(t.value + 8 * i, &(double){1e200}, 8);
    trip_encode(&t);
    CHECK(t.frame.bytes[BLOCK_AT] == 9);
    const size_t length = t.frame.length - BLOCK_AT;
    for (size_t n = 0; n < 12; n++) {
        context("%zu bytes", n);
        CHECK_STATUS(PITH_ERR_CORRUPT, try_length(&t, n));
    }
    for (size_t n = length - 3; n <= length + 3; n++) {
        context("%zu bytes of %zu", n, length);
        CHECK_STATUS(n == length ? PITH_OK : PITH_ERR_CORRUPT, try_length(&t, n));
    }
    context("a top that is too large");
    t.frame.bytes[t.frame.length - 1] ^= 0x80;
    CHECK_STATUS(PITH_ERR_CORRUPT, try_length(&t, length));
    t.frame.bytes[t.frame.length - 1] ^= 0x80;
    for (unsigned low = 0; low<256; low += low> 44 && low < 66 ? 1 : 13) {
        context("%u lower bits", low);
        t.frame.bytes[BLOCK_AT + 1] = (uint8_t)low;
        try_length(&t, length);
    }
    trip_close(&t);
}

/* Only floats of two bytes and more have tops. */
static void test_no_tops(void **state) {
    (void)state;
    enum { BLOCK_AT = 80 };
    static const uint32_t others[] = {PITH_U16, PITH_F8E4M3};
    for (size_t d = 0; d < 2; d++) {
        const uint64_t shape[5] = {1, 1100};
        const pith_layout layout = shape_layout(shape, others[d], 0);
        struct trip t;
        context("%s", pith_dtype_name(others[d]));
        trip_open(&t, "lossless:entropy=rans", &layout, 0);
        fill_values(&t, FEW, d);
        const uint8_t head[] = {9, 0, 0, 0};
        memcpy(t.frame.bytes + BLOCK_AT, head, sizeof head);
        CHECK_STATUS(PITH_ERR_CORRUPT, rig_try(&t.r, t.frame.bytes, t.frame.length, 0));
        trip_close(&t);
    }
}

/* Half of the words are far from those of the sample by which they are cut. */
static void test_escapes(void **state) {
    (void)state;
    enum { COUNT = 16384, STEP = 128 };
    const uint64_t shape[5] = {1, COUNT};
    for (size_t every = 0; every < 3; every++) {
        const pith_layout layout = shape_layout(shape, PITH_F64, 0);
        struct trip t;
        context("far from a sample, %zu", every);
        trip_open(&t, "lossless:entropy=rans", &layout, 0);
        gen_fill(GEN_NOISE, 3, PITH_F64, t.value, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            if (i % STEP >= (every ? STEP - 8 + every : STEP / 2))
                memcpy(t.value + 8 * i, &(double){1e200}, 8);
        trip_encode(&t);
        trip_check_encode(&t);
        trip_check_decode(&t);
        trip_close(&t);
    }
}

/* Symbols of 1, 2 and 4 bits, which only encoders of revision 1 make; readers take them in every
 * revision. Strings of zstd, of which some frames have none. */
static void test_narrow(void **state) {
    (void)state;
    enum { COUNT = 301 };
    static const char spec[] = "lossless:revision=1,block=128";
    size_t taken = 0;
    for (uint64_t number = 0; number < 24; number++) {
        const uint64_t shape[5] = {1, COUNT};
        const uint32_t dtype = trip_dtypes[number % TRIP_DTYPES];
        const bool wide = number / 2 % 3;
        const size_t width = pith_dtype_bytes(dtype);
        const pith_layout layout = shape_layout(shape, dtype, 0);
        struct stream other;
        struct trip t;
        uint64_t seed = number;
        trip_open(&t, "lossless:entropy=rans,block=128", &layout, 0);
        for (size_t i = 0; i < COUNT; i++) {
            const uint64_t r = gen_next(&seed);
            const bool small = r % (number % 4 ? 12 : 40);
            const uint64_t value = !small ? r >> 40 : number % 4 ? r >> 60 >> (wide ? 2 : 3) : 0;
            const uint64_t bit = dtype == PITH_BOOL ? value & 1 : value;
            memcpy(t.value + i * width, &bit, width);
        }
        const pith_view view = pith_view_flat(t.value, dtype, COUNT);
        stream_open(&other, spec, &layout, NULL);
        t.frame = stream_encode(&other, &view, 0, false);
        stream_close(&other);
        t.frame.bytes[PITHI_AT_REVISION] = 2;
        bad_seal(&t.frame);
        context("%s, number %llu", pith_dtype_name(dtype), (unsigned long long)number);
        device_order((int)(number % (uint64_t)device_orders()));
        taken += rig_try(&t.r, t.frame.bytes, t.frame.length, number % 16) == PITH_OK;
        if (number % 3 == 0) trip_attack(&t, number);
        trip_close(&t);
    }
    CHECK(taken > 8);
}

/* Frames of another setting are read where none of their strings is of zstd. */
static void test_others(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int fill;
        pith_status wanted;
    } others[] = {
        {"lossless", GEN_NOISE, PITH_OK},
        {"lossless:effort=19", GEN_BITS, PITH_OK},
        {"lossless", GEN_TEXT, PITH_ERR_UNSUPPORTED},
        {"lossless:effort=22", FEW, PITH_ERR_UNSUPPORTED},
        {"lossless:revision=1", GEN_NOISE, PITH_ERR_MISMATCH},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const uint64_t shape[5] = {1, 40000};
        const pith_layout layout = shape_layout(shape, PITH_BF16, 0);
        struct trip t;
        context("%s", others[i].spec);
        trip_open(&t, "lossless:entropy=rans", &layout, i);
        fill_values(&t, others[i].fill, i);
        trip_check_frame_of(&t, others[i].spec, others[i].wanted);
        trip_close(&t);
    }
}

static void test_refused(void **state) {
    (void)state;
    trip_check_coded_refused("lossless:entropy=rans");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),        cmocka_unit_test(test_long),
        cmocka_unit_test(test_tight),        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_hostile_tops), cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_crafted),      cmocka_unit_test(test_no_tops),
        cmocka_unit_test(test_escapes),      cmocka_unit_test(test_others),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("gpu_lossless", tests, NULL, NULL);
}
