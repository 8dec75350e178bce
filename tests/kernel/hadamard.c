/* hadamard.c - the rotation's kernels against its scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 9000, CAPACITY = MOST * 4 + 4096, ORDERS = 5 };
static const uint32_t orders[ORDERS] = {0, 32, 64, 128, 256};

struct shape {
    struct pithi_rotation r;
    uint32_t dtype;
    size_t count;
    uint64_t first;
    enum fill fill;
    float scale;
    bool in_place, nontemporal;
    size_t place[2]; /* of what is read and what is written */
};

static struct guarded area[2];
static uint8_t *data, *expected, *input;

bool bound_hadamard(const struct level *level) {
    const struct pithi_kernels *k = &level->kernels;
    return k->rotate != pithi_rotate_c && k->unrotate != pithi_unrotate_c &&
           k->unrotate_nontemporal != pithi_unrotate_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "hadamard %s %s: order %u, signs %u, dtype %u, %zu elements from %llu, values %s, "
        "scale %a, in place %d, nontemporal %d, places %zu %zu",
        level->isa, what, s->r.order, s->r.signs, s->dtype, s->count, (unsigned long long)s->first,
        fill_names[s->fill], (double)s->scale, s->in_place, s->nontemporal, s->place[0],
        s->place[1]);
}

/* Equal bits, or NaN and NaN. */
static bool same_floats(const uint8_t *a, const uint8_t *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t x = pithi_load(a, PITH_F32, i), y = pithi_load(b, PITH_F32, i);
        const bool both_nan =
            (x & 0x7FFFFFFFu) > PITHI_F32_INF && (y & 0x7FFFFFFFu) > PITHI_F32_INF;
        if (x != y && !both_nan) return false;
    }
    return true;
}

static void check_forward(const struct level *level, const struct shape *s) {
    const size_t bytes = s->count * width(s->dtype);
    const bool in_place = s->in_place && s->dtype == PITH_F32;
    begin(level, "rotate", s);
    pithi_rotate_c(&s->r, (float *)(void *)expected, data, s->dtype, s->count, s->first);
    const size_t to_place = s->place[1] == PLACE_END ? PLACE_END : s->place[1] / 4 * 4;
    const uint8_t *from = guarded_place(&area[0], in_place ? to_place : s->place[0], data, bytes);
    uint8_t *to = in_place ? area[0].p : guarded_place(&area[1], to_place, input, s->count * 4);
    level->kernels.rotate(&s->r, (float *)(void *)to, from, s->dtype, s->count, s->first);
    check_that(same_floats(to, expected, s->count), "outputs differ");
    check_that(in_place || !bytes || memcmp(from, data, bytes) == 0, "the input was written");
    check_that(guarded_intact(&area[0]) && (in_place || guarded_intact(&area[1])),
               "a byte outside changed");
    check_end();
}

static void check_inverse(const struct level *level, const struct shape *s) {
    const size_t bytes = s->count * width(s->dtype);
    const bool in_place = s->in_place && s->dtype == PITH_F32;
    const struct pithi_kernels *k = &level->kernels;
    begin(level, "unrotate", s);
    memcpy(input, data, s->count * 4);
    pithi_unrotate_c(&s->r, expected, s->dtype, (float *)(void *)input, s->count, s->first,
                     s->scale);
    const size_t place = s->place[0] == PLACE_END ? PLACE_END : s->place[0] / 4 * 4;
    uint8_t *x = guarded_place(&area[0], place, data, s->count * 4);
    uint8_t *to = in_place ? x : guarded_place(&area[1], s->place[1], data, bytes);
    (s->nontemporal ? k->unrotate_nontemporal : k->unrotate)(
        &s->r, to, s->dtype, (float *)(void *)x, s->count, s->first, s->scale);
    check_that(!bytes || memcmp(to, expected, bytes) == 0, "outputs differ");
    check_that(guarded_intact(&area[0]) && (in_place || guarded_intact(&area[1])),
               "a byte outside changed");
    check_end();
}

static void check_both(const struct level *level, const struct shape *s) {
    fill_values(data, s->dtype, s->count, s->fill, 7);
    const uint64_t host = pithi_fp_enter();
    check_forward(level, s);
    fill_values(data, PITH_F32, s->count, s->fill, 7);
    check_inverse(level, s);
    pithi_fp_leave(host);
}

/* first: a multiple of the order, near it or near where the counter's low word ends. */
static struct shape random_shape(uint32_t order) {
    static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};
    const uint64_t r = check_random();
    struct shape s = {.r = {order, r & 1 ? 0 : (uint32_t)check_random()}, .scale = 1.0f};
    const uint64_t far = r & 2 ? UINT64_C(1) << 39 : check_random() >> 20;
    s.first = (far - check_below(6000)) / 256 * 256 + (order ? order * check_below(9) : 0);
    s.dtype = dtypes[check_below(3)];
    s.fill = check_below(2) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    if (r & 4) s.scale = r & 8 ? 0.125f : 1.0f / 3.0f;
    s.in_place = r >> 4 & 1;
    s.nontemporal = r >> 5 & 1;
    for (int k = 0; k < 2; k++) s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    return s;
}

static void check_order(const struct level *level, uint32_t order) {
    for (size_t n = 0; n <= 600; n++) {
        for (int k = 0; k < 4; k++) {
            struct shape s = random_shape(order);
            s.count = n;
            check_both(level, &s);
        }
    }
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        for (int k = 0; k < FILL_COUNT; k++) {
            struct shape s = random_shape(order);
            s.count = 256 + check_below(600);
            s.fill = (enum fill)k;
            s.place[0] = s.place[1] = place;
            check_both(level, &s);
        }
    }
    for (int k = 0; k < 60; k++) {
        struct shape s = random_shape(order);
        s.count = check_below(MOST);
        check_both(level, &s);
    }
}

void check_hadamard(const struct level *level) {
    data = malloc(CAPACITY);
    expected = malloc(CAPACITY);
    input = malloc(CAPACITY);
    check_begin("hadamard %s: memory", level->isa);
    check_that(data && expected && input, "malloc failed");
    check_end();
    if (!data || !expected || !input) return;
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (int k = 0; k < ORDERS; k++) check_order(level, orders[k]);
    free(data);
    free(expected);
    free(input);
}

/* ---- Speed: 4096 values that are in the cache ------------------------------------------------*/

struct timing {
    double forward, inverse;
};

static struct timing measure(const struct pithi_kernels *k, const struct pithi_rotation *r,
                             float *x, float *y, int repeats) {
    enum { RUNS = 9, COUNT = 4096 };
    double forward[RUNS], inverse[RUNS];
    for (int run = 0; run < RUNS; run++) {
        const double start = roofline_clock();
        for (int i = 0; i < repeats; i++) k->rotate(r, y, x, PITH_F32, COUNT, 0);
        const double middle = roofline_clock();
        for (int i = 0; i < repeats; i++) k->unrotate(r, y, PITH_F32, x, COUNT, 0, 1.0f);
        forward[run] = (middle - start) / repeats / COUNT;
        inverse[run] = (roofline_clock() - middle) / repeats / COUNT;
    }
    return (struct timing){median(forward, RUNS), median(inverse, RUNS)};
}

void bench_hadamard(const struct level *level) {
    static float x[4096], y[4096];
    struct pithi_kernels scalar;
    if (!strstr("hadamard", bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    for (int k = 0; k < ORDERS * 2; k++) {
        const struct pithi_rotation r = {orders[k / 2], k % 2 ? 7 : 0};
        fill_values(x, PITH_F32, 4096, FILL_GAUSS, 7);
        const struct timing kernel = measure(&level->kernels, &r, x, y, 4000);
        const struct timing reference = measure(&scalar, &r, x, y, 100);
        printf(
            "hadamard %-7s order %3u %-8s in cache  rotate %6.2f GB/s x%5.1f  back %6.2f GB/s "
            "x%5.1f\n",
            level->isa, r.order, r.signs ? "signs" : "no signs", 4e-9 / kernel.forward,
            reference.forward / kernel.forward, 4e-9 / kernel.inverse,
            reference.inverse / kernel.inverse);
        fflush(stdout);
    }
}
