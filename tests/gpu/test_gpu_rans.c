/* test_gpu_rans.c - coded codes on the device: frames of entropy=rans, made and read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "trip.h"

static const char *const specs[] = {
    "wdiff:entropy=rans",
    "wdiff:entropy=rans,bits=8,group=16,block=64,scale_dtype=bf16",
    "wdiff:entropy=rans,bits=8",
    "wdiff:entropy=rans,bits=2,group=16,block=16384",
    "wdiff:entropy=rans,bits=3,group=64,block=8192",
    "wdiff:entropy=rans,bits=6,group=128,block=131072",
    "wdiff:entropy=rans,bits=4,group=16,block=16",
    "wdiff:entropy=rans,bits=2,codebook=trellis,group=256",
    "wdiff:entropy=rans,round=stochastic,block=32768",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static const uint64_t counts[] = {0,    1,    7,    16,    31,    255,   257,
                                  1000, 4096, 8191, 16384, 16391, 40003, 131077};
enum { COUNTS = sizeof counts / sizeof counts[0] };

enum fill { NOISE, CONSTANT, FLAT, FEW, RARE, POISONED, FILLS };

/* Normal values; one value; values that make all codes as frequent; zeros but for a few in a
 * hundred; a block of noise after one of zeros; values that are not finite. */
static float value_of(enum fill fill, uint64_t i, uint64_t *seed) {
    const uint64_t r = gen_next(seed);
    switch (fill) {
    case CONSTANT: return 1.5f;
    case FLAT: return (float)((double)(r >> 40) / (double)(1 << 23) - 1.0);
    case FEW: return r % 50 ? 0.0f : (float)(r >> 32 & 7);
    case RARE: return i / 16384 % 2 ? (float)gen_normal(seed) : 0.0f;
    case POISONED: return r % 5000 ? (float)gen_normal(seed) : r >> 40 & 1 ? INFINITY : NAN;
    default: return (float)gen_normal(seed);
    }
}

static void fill_values(struct trip *t, enum fill fill, uint64_t number) {
    uint64_t seed = number + 1;
    for (uint64_t i = 0; i < t->r.count; i++)
        store_float(t->value, t->r.layout.dtype, (size_t)i, bits_of(value_of(fill, i, &seed)));
    trip_encode(t);
}

static void one_trip(const char *spec, uint64_t count, enum fill fill, uint64_t number) {
    const uint64_t shape[5] = {1, count};
    const pith_layout layout =
        shape_layout(shape, trip_reals[number % 3], number / 3 % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
    struct trip t;
    context("%s x %llu, values %d, number %llu", spec, (unsigned long long)count, fill,
            (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(&t, spec, &layout, number % 5 ? 0 : (size_t)(number / 5 % 16));
    fill_values(&t, fill, number);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_range(&t, count / 3 + number % 7, count / 2 + 1);
    trip_check_other(&t, trip_reals[number / 2 % 3], number % 2);
    trip_check_space(&t);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS; k++)
        for (size_t i = 0; i < COUNTS; i++)
            for (int fill = 0; fill < FILLS; fill++, number++)
                if (counts[i] < 300 || (number + i) % (counts[i] < 10000 ? 3 : 11) == 0)
                    one_trip(specs[k], counts[i], (enum fill)fill, number);
}

static void test_hostile(void **state) {
    (void)state;
    static const uint64_t shape[5] = {1, 300};
    for (size_t i = 0; i < SPECS; i++) {
        const pith_layout layout =
            shape_layout(shape, trip_reals[i % 3], i % 2 ? PITH_LAYOUT_CHECKSUMS : 0);
        struct trip t;
        context("%s attacked", specs[i]);
        device_order((int)(i % (size_t)device_orders()));
        trip_open(&t, specs[i], &layout, i);
        fill_values(&t, FEW, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("gpu_rans", tests, NULL, NULL);
}
