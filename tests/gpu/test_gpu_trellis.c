/* test_gpu_trellis.c - trellis-coded groups on the device where paths are hard to find: long
 * groups, metrics at their limit, values that were decoded before.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"
#include "trip.h"

static const char *const specs[] = {
    "wdiff:codebook=trellis,bits=2,group=16,block=16",
    "wdiff:codebook=trellis,bits=2,group=2048",
    "wdiff:codebook=trellis,bits=2,group=16384,scale_dtype=bf16",
    "wdiff:codebook=trellis,bits=3,group=512,block=512",
    "wdiff:codebook=trellis,bits=3,group=1024",
    "wdiff:codebook=trellis,bits=3,group=8192,block=8192",
    "wdiff:codebook=trellis,bits=4,group=256",
    "wdiff:codebook=trellis,bits=4,group=2048",
    "wdiff:codebook=trellis,bits=4,group=16384",
    "grad:codebook=trellis,bits=2,group=4096,rotate=0",
    "grad:codebook=trellis,bits=3,group=2048,rotate=256",
    "grad:codebook=trellis,bits=4,group=32,block=32",
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static const uint64_t counts[] = {1, 15, 17, 255, 261, 517, 4111, 16383, 16640, 40003};
enum { COUNTS = sizeof counts / sizeof counts[0] };

enum fill { FILL_EXTREMES, FILL_RUNS, FILL_STEPS, FILL_DECODED, FILL_COUNT };

/* The largest value and its negative, alone or in runs, so that every step is far from most
 * levels; or values from 0 to it with rare larger ones, in steps. */
static float value_of(enum fill fill, uint64_t i, uint64_t *seed) {
    const uint64_t r = gen_next(seed);
    if (fill == FILL_EXTREMES) return r % 8 < 7 ? (r >> 8 & 1 ? 3.0f : -3.0f) : 2.5f;
    if (fill == FILL_RUNS)
        return (i / (1 + i / 64 % 9) & 1 ? 1.0f : -1.0f) * (r % 16 ? 7.0f : 6.0f);
    if (fill == FILL_STEPS) return (float)(r % 64) / 64.0f - (r % 3 ? 0.5f : 1.0f);
    return (float)gen_normal(seed);
}

static void fill_values(struct trip *t, enum fill fill, uint64_t number) {
    uint64_t seed = number + 1;
    for (uint64_t i = 0; i < t->r.count; i++)
        store_float(t->value, t->r.layout.dtype, (size_t)i, bits_of(value_of(fill, i, &seed)));
    trip_encode(t);
    if (fill != FILL_DECODED) return;
    memcpy(t->value, t->decoded, t->bytes);
    free(t->frame.bytes);
    trip_encode(t);
}

static void one_trip(const char *spec, uint64_t count, enum fill fill, uint64_t number) {
    const uint64_t shape[5] = {1, count};
    struct trip t;
    context("%s x %llu, values %d, number %llu", spec, (unsigned long long)count, fill,
            (unsigned long long)number);
    trip_open_varied(&t, spec, shape, number);
    fill_values(&t, fill, number);
    trip_check_all(&t, number);
    trip_close(&t);
}

static void test_paths(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS; k++)
        for (size_t i = 0; i < COUNTS; i++)
            for (int fill = 0; fill < FILL_COUNT; fill++, number++)
                if (counts[i] < 10000 || (number + i) % 3 == 0)
                    one_trip(specs[k], counts[i], (enum fill)fill, number);
}

/* So many values that teams have whole segments, which kernels take that know the settings: on the
 * host those are every other launch, so that there are two encodes with an odd number between. */
static void whole_trip(const char *spec, uint64_t count, enum fill fill, uint64_t number) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, count);
    struct trip t;
    context("%s x %llu, values %d, whole", spec, (unsigned long long)count, fill);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(&t, spec, &layout, 0);
    fill_values(&t, fill, number);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_encode(&t);
    trip_close(&t);
}

static void test_whole(void **state) {
    (void)state;
    static const char *const known[] = {"grad:codebook=trellis", "grad:codebook=trellis,bits=2",
                                        "grad:codebook=trellis,group=256,rotate=256",
                                        "grad:codebook=trellis,group=256,rotate=0,bits=2",
                                        "wdiff:codebook=trellis"};
    static const uint64_t many[] = {262144, 270011};
    uint64_t number = 0;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        for (int fill = 0; fill < FILL_COUNT; fill++, number++)
            if (is_sampled(number, 3))
                whole_trip(known[k], many[(k + number) % 2], (enum fill)fill, number);
}

static void test_hostile(void **state) {
    (void)state;
    static const uint64_t shape[5] = {1, 300};
    for (size_t i = 0; i < SPECS; i++) {
        struct trip t;
        trip_open_attacked(&t, specs[i], shape, i);
        fill_values(&t, FILL_EXTREMES, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests_name("gpu_trellis", tests, NULL, NULL);
}
