/* test_gpu_offsets.c - matrices of exact values on the device: offsets of rows and of columns.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bad.h"
#include "common/endian.h"
#include "frame_header.h"
#include "gen.h"
#include "trip.h"

static const uint32_t floats[] = {PITH_BF16, PITH_F32, PITH_F16, PITH_F64};

/* What differs in scale: rows, columns, both, by less than a symbol, or nothing; HOLES: with zeros
 * and values far away between; TAIL: words whose tops are all but the same. */
enum fill { ROWS, COLUMNS, BOTH, LITTLE, NOTHING, HOLES, TAIL, FILLS };

static double scale_of(uint64_t number) {
    uint64_t seed = number + 1;
    const int power = (int)(gen_next(&seed) >> 60) - 8;
    return power < 0 ? 1.0 / (double)(1 << -power) : (double)(1 << power);
}

static double value_of(enum fill fill, uint64_t row, uint64_t column, uint64_t *seed) {
    double x = gen_normal(seed);
    const uint64_t r = gen_next(seed);
    if (fill == TAIL) return 1.0 + (double)(r >> 60) / 4096;
    if (fill == HOLES && r % 7 == 0) return r % 5 ? 0.0 : r % 3 ? -0.0 : 1e4;
    if (fill == ROWS || fill == BOTH || fill == HOLES) x *= scale_of(row);
    if (fill == COLUMNS || fill == BOTH || fill == HOLES) x *= scale_of(column + 1000003);
    if (fill == LITTLE) x *= row % 2 ? 1.25 : 1.0;
    return x;
}

static void fill_values(struct trip *t, uint64_t width, enum fill fill, uint64_t number) {
    const uint32_t dtype = t->r.layout.dtype;
    uint64_t seed = number + 1;
    for (size_t i = 0; i < t->r.count; i++) {
        const double x = value_of(fill, i / width, i % width, &seed);
        if (dtype == PITH_F64)
            memcpy(t->value + 8 * i, &x, 8);
        else
            store_float(t->value, dtype, i, bits_of((float)x));
    }
    trip_encode(t);
}

/* The blocks whose symbols are shifted, of a frame of a plan without checksums. */
static size_t shifted_blocks(const struct trip *t, size_t block) {
    const size_t blocks = ((size_t)t->r.count + block - 1) / block;
    const uint8_t *const payload =
        t->frame.bytes + t->frame.length - pithi_get64(t->frame.bytes + PITHI_AT_PAYLOAD);
    size_t at = (4 * blocks + 15) / 16 * 16, shifted = 0;
    for (size_t i = 0; i < blocks; i++) {
        const uint32_t entry = pithi_get32(payload + 4 * i);
        shifted += !(entry >> 31) && payload[at] == 10;
        at += entry & 0x7FFFFFFFu;
    }
    return shifted;
}

/* Returns how many blocks have offsets. */
static size_t one_trip(size_t block, uint32_t dtype, uint64_t rows, uint64_t width, enum fill fill,
                       uint64_t number) {
    const uint64_t shape[5] = {2, rows, width};
    const pith_layout layout =
        shape_layout(shape, dtype, number % 3 == 1 ? PITH_LAYOUT_CHECKSUMS : 0);
    char spec[64];
    struct trip t;
    snprintf(spec, sizeof spec, "lossless:entropy=rans,block=%zu", block);
    context("%s of %s x %llu x %llu, values %d, number %llu", spec, pith_dtype_name(dtype),
            (unsigned long long)rows, (unsigned long long)width, fill, (unsigned long long)number);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(&t, spec, &layout, number % 5 ? 0 : (size_t)(number / 5 % 16));
    fill_values(&t, width, fill, number);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_check_range(&t, t.r.count / 3 + number % 7, t.r.count / 2 + 1);
    trip_check_space(&t);
    const size_t shifted = layout.flags ? 0 : shifted_blocks(&t, block);
    trip_close(&t);
    return shifted;
}

/* Rows of all lengths: blocks begin inside of rows, or hold many, and a row may be longer than what
 * is looked at of it. */
static void test_trips(void **state) {
    (void)state;
    static const uint64_t widths[] = {8, 13, 16, 61, 64, 130, 300, 1024};
    uint64_t number = 0;
    size_t shifted = 0;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (size_t d = 0; d < 4; d++)
            for (int fill = 0; fill < FILLS; fill++, number++) {
                const size_t block = number % 3 == 0 || widths[w] > 256 ? 16384 : 4096;
                if (((number + number / 11) % 4 == 0 || fill == BOTH) && is_sampled(number, 6))
                    shifted += one_trip(block, floats[d], 9000 / widths[w] + number % 9, widths[w],
                                        (enum fill)fill, number);
            }
    CHECK(shifted > (size_t)(test_step(1) == 1 ? 10 : 3));
}

static void test_long(void **state) {
    (void)state;
    CHECK(one_trip(131072, PITH_BF16, 70, 2048, COLUMNS, 0));
    CHECK(one_trip(65536, PITH_F32, 600, 128, ROWS, 2));
}

/* ---- Any bytes -------------------------------------------------------------------------------*/

enum { WIDTH = 64, ROWS_OF = 40, BLOCK_AT = 80 };
static const char spec[] = "lossless:entropy=rans,block=4096";

static void open_shifted(struct trip *t, uint32_t dtype, uint64_t number) {
    const uint64_t shape[5] = {2, ROWS_OF, WIDTH};
    const pith_layout layout = shape_layout(shape, dtype, 0);
    device_order((int)(number % (uint64_t)device_orders()));
    trip_open(t, spec, &layout, number % 16);
    fill_values(t, WIDTH, BOTH, number);
    CHECK(t->frame.bytes[BLOCK_AT] == 10);
}

/* Damage in heads, offsets and tables, and in a few places behind them. */
static void test_hostile(void **state) {
    (void)state;
    enum { FIRST = 260, LAST = 30, BETWEEN = 149 };
    for (size_t d = 0; d < 4; d++) {
        struct trip t;
        uint64_t seed = d;
        context("offsets of %s attacked", pith_dtype_name(floats[d]));
        open_shifted(&t, floats[d], d);
        trip_flip(&t, 0, BLOCK_AT + FIRST, LAST, BETWEEN, seed);
        for (size_t n = BLOCK_AT; n < t.frame.length; n += 1 + n / 9)
            if (is_sampled(n, 4)) rig_try(&t.r, t.frame.bytes, n, t.offset);
        trip_close(&t);
    }
}

/* The last block has less elements than a row, so that it has no offsets; nor has a frame of
 * revision 2. */
static void test_no_rows(void **state) {
    (void)state;
    enum { BLOCK = 1024, ROW = 250, COUNT = 4 * BLOCK + 100 };
    const uint64_t shape[5] = {1, COUNT};
    static const char *const specs[] = {"lossless:entropy=rans,block=1024,dim=250",
                                        "lossless:entropy=rans,block=1024,revision=2"};
    for (size_t i = 0; i < 2; i++) {
        const pith_layout layout = shape_layout(shape, PITH_F32, 0);
        struct trip t;
        context("%s", specs[i]);
        trip_open(&t, specs[i], &layout, 0);
        fill_values(&t, ROW, COLUMNS, 3);
        trip_check_encode(&t);
        trip_check_decode(&t);
        const uint8_t *const payload =
            t.frame.bytes + t.frame.length - pithi_get64(t.frame.bytes + PITHI_AT_PAYLOAD);
        size_t at = (size_t)(payload - t.frame.bytes) + 32;
        for (size_t k = 0; k < 5; k++) {
            const uint32_t entry = pithi_get32(payload + 4 * k);
            const uint8_t kept = t.frame.bytes[at];
            t.frame.bytes[at] = 10;
            const bool had = kept == 10 && !(entry >> 31);
            CHECK(!had || i == 0);
            CHECK((rig_try(&t.r, t.frame.bytes, t.frame.length, 0) == PITH_OK) == had ||
                  entry >> 31);
            t.frame.bytes[at] = kept;
            at += entry & 0x7FFFFFFFu;
        }
        trip_close(&t);
    }
}

/* Frames of entropy=auto of the same rows, where no string is of zstd; of others none. */
static void test_others(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        pith_status wanted;
    } others[] = {
        {"lossless:block=4096", PITH_OK},
        {"lossless:entropy=rans,block=4096,dim=32", PITH_ERR_MISMATCH},
        {"lossless:entropy=rans,block=4096,revision=2", PITH_ERR_MISMATCH},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct trip t;
        context("%s", others[i].spec);
        open_shifted(&t, PITH_F32, i);
        trip_check_frame_of(&t, others[i].spec, others[i].wanted);
        trip_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests_name("gpu_offsets", tests, NULL, NULL);
}
