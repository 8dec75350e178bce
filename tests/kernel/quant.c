/* quant.c - quantization under a bound: kernels against the scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 5000, CAPACITY = MOST * 8 + 4096, AREAS = 4 };

struct shape {
    uint32_t dtype;
    size_t count;
    enum fill fill;
    struct pithi_bound bound;
    bool signed_zeros, nontemporal;
    size_t place[AREAS]; /* of values, codes, miss bits and what is decoded */
};

static struct guarded area[AREAS];
static uint8_t *data, *filler;
static int32_t *expected;

bool bound_quant(const struct level *level) {
    return level->kernels.quantize != pithi_quantize_c &&
           level->kernels.dequantize != pithi_dequantize_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "quant %s %s: dtype %u, %zu elements, values %s, kind %u, bound %a, zeros %d, "
        "nontemporal %d, places %zu %zu %zu %zu",
        level->isa, what, s->dtype, s->count, fill_names[s->fill], s->bound.kind, s->bound.value,
        s->signed_zeros, s->nontemporal, s->place[0], s->place[1], s->place[2], s->place[3]);
}

/* Places of 4-byte elements are multiples of 4. */
static uint8_t *placed(const struct shape *s, int k, const void *from, size_t bytes) {
    const bool aligned = k == 1 || (k == 3 && s->dtype == PITH_F32);
    const size_t place = s->place[k];
    return guarded_place(&area[k], aligned && place != PLACE_END ? place / 4 * 4 : place, from,
                         bytes);
}

static void check_forward(const struct level *level, const struct shape *s,
                          const struct pithi_quant *q) {
    static uint8_t miss[MOST / 8 + 1];
    const size_t bytes = s->count * width(s->dtype), bits = (s->count + 7) / 8;
    const uint8_t *const from = placed(s, 0, data, bytes);
    uint8_t *const codes = placed(s, 1, filler, 4 * s->count);
    uint8_t *const bitmap = placed(s, 2, filler, bits);
    begin(level, "encode", s);
    const size_t misses = pithi_quantize_c(q, data, s->count, expected, miss);
    const size_t own = level->kernels.quantize(q, from, s->count, (int32_t *)(void *)codes, bitmap);
    check_that(own == misses, "the number of misses differs");
    check_that(!memcmp(codes, expected, 4 * s->count), "codes differ");
    check_that(!memcmp(bitmap, miss, bits), "miss bits differ");
    check_that(!bytes || !memcmp(from, data, bytes), "the input was written");
    for (int k = 0; k < 3; k++) check_that(guarded_intact(&area[k]), "a byte outside changed");
    check_end();
}

/* Codes of the values, or any. */
static void check_back(const struct level *level, const struct shape *s,
                       const struct pithi_quant *q, bool wild) {
    static uint8_t values[MOST * 8];
    const size_t bytes = s->count * width(s->dtype);
    for (size_t i = 0; wild && i < s->count; i++)
        expected[i] = (int32_t)(check_random() >> check_below(32));
    const uint8_t *const codes = placed(s, 1, expected, 4 * s->count);
    uint8_t *const to = placed(s, 3, filler, bytes);
    begin(level, wild ? "decode wild codes" : "decode", s);
    pithi_dequantize_c(q, expected, s->count, values, false);
    level->kernels.dequantize(q, (const int32_t *)(const void *)codes, s->count, to,
                              s->nontemporal);
    check_that(!bytes || !memcmp(to, values, bytes), "values differ");
    check_that(guarded_intact(&area[1]) && guarded_intact(&area[3]), "a byte outside changed");
    check_end();
}

static void check_one(const struct level *level, const struct shape *s) {
    struct pithi_quant q;
    fill_values(data, s->dtype == PITH_F64 ? PITH_F32 : s->dtype,
                s->dtype == PITH_F64 ? 2 * s->count : s->count, s->fill, 7);
    const uint64_t host = pithi_fp_enter();
    check_begin("quant %s: bound %a", level->isa, s->bound.value);
    check_that(pithi_quant_init(&q, s->dtype, &s->bound, s->signed_zeros), "init failed");
    check_end();
    check_forward(level, s, &q);
    check_back(level, s, &q, false);
    check_back(level, s, &q, true);
    pithi_fp_leave(host);
}

static struct shape random_shape(void) {
    static const uint32_t dtypes[6] = {PITH_F32,  PITH_F32, PITH_BF16,
                                       PITH_BF16, PITH_F16, PITH_F64};
    static const double bounds[] = {0,    0x1p-149, 1e-40, 1e-30, 1e-6, 1e-3,
                                    0.01, 0.125,    1,     1e5,   1e30, 1e38};
    const uint64_t r = check_random();
    struct shape s = {.dtype = dtypes[check_below(6)]};
    s.bound.kind = r % 16 ? PITHI_BOUND_ABSOLUTE : PITHI_BOUND_RELATIVE;
    s.bound.value = pithi_quant_floor(s.dtype, bounds[check_below(12)] * (r & 32 ? 1 : 0.7));
    if (s.bound.kind == PITHI_BOUND_RELATIVE) s.bound.value = 1e-3;
    s.signed_zeros = r >> 4 & 1;
    s.nontemporal = r >> 6 & 1;
    s.fill = check_below(2) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    for (int k = 0; k < AREAS; k++)
        s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    return s;
}

void check_quant(const struct level *level) {
    data = malloc(CAPACITY);
    filler = calloc(1, CAPACITY);
    expected = malloc(CAPACITY);
    check_begin("quant %s: memory", level->isa);
    check_that(data && filler && expected, "malloc failed");
    check_end();
    if (!data || !filler || !expected) return;
    for (int k = 0; k < AREAS; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (size_t n = 0; n <= 300; n++) {
        for (int k = 0; k < 8; k++) {
            struct shape s = random_shape();
            s.count = n;
            check_one(level, &s);
        }
    }
    for (int k = 0; k < 300; k++) {
        struct shape s = random_shape();
        s.count = check_below(MOST);
        check_one(level, &s);
    }
    free(data);
    free(filler);
    free(expected);
}

/* ---- Speed: 4096 values that are in the cache ------------------------------------------------*/

static double seconds(const struct pithi_kernels *k, const struct pithi_quant *q, bool decode,
                      int repeats) {
    enum { COUNT = 4096, RUNS = 9 };
    static float x[COUNT];
    static int32_t codes[COUNT];
    static uint8_t miss[COUNT / 8];
    double best = 1;
    fill_values(x, q->dtype, COUNT, FILL_GAUSS, 7);
    k->quantize(q, x, COUNT, codes, miss);
    for (int run = 0; run < RUNS; run++) {
        const double start = roofline_clock();
        for (int i = 0; i < repeats; i++)
            if (decode)
                k->dequantize(q, codes, COUNT, x, false);
            else
                k->quantize(q, x, COUNT, codes, miss);
        const double t = (roofline_clock() - start) / repeats / COUNT;
        if (t < best) best = t;
    }
    return best;
}

void bench_quant(const struct level *level) {
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
    static const char *const names[] = {"f32", "bf16", "f16"};
    struct pithi_kernels scalar;
    if (!strstr("quant", bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    for (int k = 0; k < 3; k++) {
        const struct pithi_bound bound = {PITHI_BOUND_ABSOLUTE, 0x1p-6, 0};
        struct pithi_quant q;
        pithi_quant_init(&q, dtypes[k], &bound, false);
        const double forward = seconds(&level->kernels, &q, false, 4000) * 1e9;
        const double back = seconds(&level->kernels, &q, true, 4000) * 1e9;
        printf("quant %-7s %-4s in cache  encode %6.3f ns/16 x%5.1f  decode %6.3f ns/16 x%5.1f\n",
               level->isa, names[k], 16 * forward, seconds(&scalar, &q, false, 100) * 1e9 / forward,
               16 * back, seconds(&scalar, &q, true, 100) * 1e9 / back);
        fflush(stdout);
    }
}
