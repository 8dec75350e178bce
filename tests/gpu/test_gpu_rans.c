/* test_gpu_rans.c - entropy-coded codes on the device: frames of entropy=rans, made and read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "bad.h"
#include "common/endian.h"
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

enum fill { NOISE, CONSTANT, FLAT, FEW, RARE, LONELY, POISONED, FILLS };

/* Normal values; one value; values that make all codes as frequent; zeros but for a few in a
 * hundred; a block of noise after one of zeros; runs of noise far apart, the scales of which are
 * bytes that are mostly 0; values that are not finite. */
static float value_of(enum fill fill, uint64_t i, uint64_t *seed) {
    const uint64_t r = gen_next(seed);
    switch (fill) {
    case CONSTANT: return 1.5f;
    case FLAT: return (float)((double)(r >> 40) / (double)(1 << 23) - 1.0);
    case FEW: return r % 50 ? 0.0f : (float)(r >> 32 & 7);
    case RARE: return i / 16384 % 2 ? (float)gen_normal(seed) : 0.0f;
    case LONELY: return i / 512 % 13 == 5 ? (float)gen_normal(seed) : 0.0f;
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
    struct trip t;
    context("%s x %llu, values %d, number %llu", spec, (unsigned long long)count, fill,
            (unsigned long long)number);
    trip_open_varied(&t, spec, shape, number);
    fill_values(&t, fill, number);
    trip_check_all(&t, number);
    trip_check_space(&t);
    trip_close(&t);
}

static void test_trips(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t k = 0; k < SPECS; k++)
        for (size_t i = 0; i < COUNTS; i++)
            for (int fill = 0; fill < FILLS; fill++, number++)
                if ((counts[i] < 300 || (number + i) % (counts[i] < 10000 ? 5 : 17) == 0) &&
                    is_sampled(number, 6))
                    one_trip(specs[k], counts[i], (enum fill)fill, number);
}

static const char *const page_specs[] = {
    "kv:entropy=rans",
    "kv:entropy=rans,bits=2,group=16,page=16,block=4096",
    "kv:entropy=rans,bits=3,group=32,page=32,axis=channel,scale_dtype=f32,block=16384",
    "kv:entropy=rans,bits=5,group=16,page=16,symmetric=on,scale_dtype=bf16,block=1024",
    "kv:entropy=rans,bits=6,group=64,page=64,block=65536",
    "kv:entropy=rans,bits=8,group=16,page=16,axis=channel,block=8192",
    "kv:entropy=rans,rotate_heads=on,page=16,search=mse",
};
enum { PAGE_SPECS = sizeof page_specs / sizeof page_specs[0] };
static const uint64_t pages[][5] = {
    {3, 1, 1, 32},  {3, 17, 2, 64},     {3, 100, 3, 32}, {3, 700, 2, 32},
    {3, 40, 4, 13}, {4, 2, 33, 1, 128}, {2, 65, 5},      {3, 0, 2, 32},
};
enum { PAGES = sizeof pages / sizeof pages[0] };

static void one_page_trip(const char *spec, const uint64_t shape[5], enum fill fill,
                          uint64_t number) {
    struct trip t;
    if (strstr(spec, "rotate_heads=on") && (shape[shape[0]] < 32)) return;
    context("%s of %llu x %llu x %llu, values %d, number %llu", spec, (unsigned long long)shape[1],
            (unsigned long long)shape[2], (unsigned long long)shape[3], fill,
            (unsigned long long)number);
    trip_open_varied(&t, spec, shape, number);
    fill_values(&t, fill, number);
    trip_check_all(&t, number);
    trip_check_space(&t);
    trip_close(&t);
}

static void test_pages(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t k = 0; k < PAGE_SPECS; k++)
        for (size_t i = 0; i < PAGES; i++)
            for (int fill = 0; fill < FILLS; fill++, number++)
                if ((number + i) % 5 == 0 && is_sampled(number, 6))
                    one_page_trip(page_specs[k], pages[i], (enum fill)fill, number);
}

/* Pages that take as many bytes coded as packed, but for a few: scales are noise, and the last head
 * is less even from page to page. The CPU does not begin a string where it expects too little
 * space. */
static void test_tight_pages(void **state) {
    (void)state;
    enum { PAGE = 16, NUMBER = 200, HEADS = 4, DIM = 64, ROW = HEADS * DIM, GROUP = 16 };
    static const uint64_t shape[5] = {3, PAGE * NUMBER, HEADS, DIM};
    const pith_layout layout = shape_layout(shape, PITH_F32, 0);
    struct trip t;
    uint64_t seed = 1;
    double scale = 1, zero = 0;
    context("pages that are nearly plain");
    trip_open(&t, "kv:entropy=rans,bits=2,group=16,page=16,block=4096", &layout, 0);
    for (size_t i = 0; i < t.r.count; i++) {
        const uint64_t r = gen_next(&seed), common = i / ROW / PAGE;
        uint64_t code = r >> 40 & 3;
        if (i % GROUP == 0) {
            scale = ldexp(1 + (double)(r >> 12 & 1023) / 1024, (int)(r >> 22 & 15) - 8);
            zero = (r & 1 ? 1 : -1) * scale * (1 + (double)(r >> 26 & 1023) / 256);
        }
        if (i % ROW / DIM == HEADS - 1 && (r >> 32 & 255) < common) code = 1;
        if (i % GROUP < 2) code = 3 * (i % GROUP); /* the range of a group */
        store_float(t.value, PITH_F32, i, bits_of((float)(zero + scale * (double)code)));
    }
    trip_encode(&t);
    trip_check_encode(&t);
    trip_check_decode(&t);
    trip_close(&t);
}

static void test_hostile_pages(void **state) {
    (void)state;
    static const uint64_t shape[5] = {3, 20, 2, 32};
    for (size_t i = 0; i < PAGE_SPECS; i++) {
        struct trip t;
        trip_open_attacked(&t, page_specs[i], shape, i);
        fill_values(&t, i % 2 ? FEW : NOISE, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

/* Long strings have 64 states, or 128. */
static void test_long(void **state) {
    (void)state;
    one_trip("wdiff:entropy=rans,bits=6,group=128,block=131072", 140000, NOISE, 0);
    one_trip("wdiff:entropy=rans,bits=2,group=128,block=131072", 140000, FEW, 4);
    one_trip("wdiff:entropy=rans,bits=8,group=16384,block=65536", 65600, NOISE, 8);
}

static void test_hostile(void **state) {
    (void)state;
    static const uint64_t shape[5] = {1, 120};
    for (size_t i = 0; i < SPECS; i++) {
        struct trip t;
        trip_open_attacked(&t, specs[i], shape, i);
        fill_values(&t, FEW, i);
        trip_attack(&t, i);
        trip_close(&t);
    }
}

/* ---- Any number of states --------------------------------------------------------------------*/

enum { STATES_MOST = 128, STRING_MOST = 4096 };
static const char states_spec[] = "wdiff:entropy=rans,bits=2,group=16,block=16384";

/* Writes n entropy-coded codes 0 and 1, as frequent as each other, with so many states; this
 * library makes no string of some of these numbers. Returns the bytes. */
static size_t put_states(uint8_t *to, unsigned log2_states, size_t n, uint64_t seed) {
    uint32_t x[STATES_MOST];
    uint16_t words[STRING_MOST / 2];
    const size_t states = (size_t)1 << log2_states;
    size_t at = STRING_MOST / 2;
    for (size_t j = 0; j < states; j++) x[j] = 65536;
    for (size_t i = n; i-- > 0;) {
        uint32_t *const state = &x[i % states];
        if (*state >= UINT32_C(1) << 31) {
            words[--at] = (uint16_t)*state;
            *state >>= 16;
        }
        *state = *state / 2048 * 4096 + (uint32_t)(gen_next(&seed) & 1) * 2048 + *state % 2048;
    }
    const uint8_t head[] = {4, 0, 0, 0, (uint8_t)log2_states, 0, 1, 0xF3, 0x0F};
    const size_t word_bytes = 2 * (STRING_MOST / 2 - at);
    const size_t length = sizeof head + 4 * states + word_bytes;
    memcpy(to, head, sizeof head);
    pithi_put16(to + 1, (uint16_t)(length - 4));
    for (size_t j = 0; j < states; j++) pithi_put32(to + sizeof head + 4 * j, x[j]);
    memcpy(to + sizeof head + 4 * states, words + at, word_bytes);
    return length;
}

static void one_string(struct rig *r, unsigned log2_states, uint64_t n) {
    enum { HEADER = 64, INDEX = 16 };
    const pith_view zeros = pith_view_flat(allocate((size_t)n * 4), PITH_F32, n);
    memset(zeros.data, 0, (size_t)n * 4);
    struct stream other;
    stream_open(&other, states_spec, &r->layout, NULL);
    struct frame f = stream_encode(&other, &zeros, 0, false);
    stream_close(&other);
    const size_t scales = (size_t)(n + 15) / 16 * 4, codes = (scales + 15) / 16 * 16;
    uint8_t *const bytes = allocate(HEADER + INDEX + codes + STRING_MOST);
    memset(bytes, 0, HEADER + INDEX + codes + STRING_MOST);
    memcpy(bytes, f.bytes, HEADER);
    for (size_t g = 0; g < scales / 4; g++)
        pithi_put32(bytes + HEADER + INDEX + 4 * g, 0x3F800000u + (uint32_t)g);
    const size_t length =
        codes + put_states(bytes + HEADER + INDEX + codes, log2_states, (size_t)n, n);
    pithi_put64(bytes + 32, INDEX + length);
    pithi_put32(bytes + HEADER, (uint32_t)length);
    struct frame made = {.bytes = bytes, .length = HEADER + INDEX + length};
    bad_seal(&made);
    context("%u states of %llu codes", 1u << log2_states, (unsigned long long)n);
    const bool fits = length <= codes + ((size_t)(n + 3) / 4 + 15) / 16 * 16;
    CHECK((rig_try(r, bytes, made.length, 0) == PITH_OK) == fits);
    free(zeros.data);
    free(bytes);
    free(f.bytes);
}

static void test_states(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1, 3, 33, 127, 129, 700, 2500, 5003};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const uint64_t shape[5] = {1, lengths[i]};
        const pith_layout layout = shape_layout(shape, PITH_F32, 0);
        struct rig r;
        CHECK(rig_open(&r, states_spec, &layout));
        for (unsigned log2_states = 0; log2_states < 8; log2_states++) {
            device_order((int)((i + log2_states) % (size_t)device_orders()));
            one_string(&r, log2_states, lengths[i]);
        }
        rig_close(&r);
    }
}

/* ---- Streams ---------------------------------------------------------------------------------*/

/* Damage in a block is found when the frame is known to be the next one, as the CPU has it; then
 * the base is as it was. */
static void test_damaged_step(void **state) {
    (void)state;
    enum { COUNT = 40000, STEP = 5 };
    const uint64_t shape[5] = {1, COUNT};
    pith_layout layout = shape_layout(shape, PITH_F32, 0);
    layout.base_dtype = PITH_BF16;
    struct rig r;
    struct stream other;
    uint8_t *const values = allocate(COUNT * 4), *const base = allocate(COUNT * 2);
    const pith_view view = pith_view_flat(values, PITH_F32, COUNT);
    memset(base, 0, COUNT * 2);
    gen_fill(GEN_NOISE, 3, PITH_F32, values, COUNT);
    CHECK(rig_open(&r, "wdiff:entropy=rans", &layout));
    stream_open(&other, "wdiff:entropy=rans", &layout, NULL);
    rig_set_base(&r, base, PITH_BF16, STEP);
    for (uint64_t step = STEP - 1; step <= STEP; step++) {
        const pith_view from = pith_view_flat(base, PITH_BF16, COUNT);
        CHECK_OK(pith_stream_set_base(other.work, other.stream, &from, step));
        struct frame f = stream_encode(&other, &view, 0, false);
        context("step %llu", (unsigned long long)step);
        CHECK_STATUS(step == STEP ? PITH_OK : PITH_ERR_STEP, rig_try(&r, f.bytes, f.length, 0));
        for (size_t back = 1; back < 9000; back += test_step(1) == 1 ? 1777 : 3 * 1777) {
            f.bytes[f.length - back] ^= 16;
            context("step %llu, %zu from the end", (unsigned long long)step, back);
            CHECK_STATUS(step == STEP ? PITH_ERR_CORRUPT : PITH_ERR_STEP,
                         rig_try(&r, f.bytes, f.length, 0));
            f.bytes[f.length - back] ^= 16;
        }
        free(f.bytes);
    }
    stream_close(&other);
    rig_close(&r);
    free(values);
    free(base);
}

static void test_refused(void **state) {
    (void)state;
    trip_check_coded_refused("wdiff:entropy=rans");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trips),        cmocka_unit_test(test_long),
        cmocka_unit_test(test_hostile),      cmocka_unit_test(test_states),
        cmocka_unit_test(test_damaged_step), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_pages),        cmocka_unit_test(test_hostile_pages),
        cmocka_unit_test(test_tight_pages),
    };
    return cmocka_run_group_tests_name("gpu_rans", tests, NULL, NULL);
}
