/* lorenzo.c - differences in a tile: kernels against the scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 20000, CAPACITY = MOST * 4 + 4096 };

struct shape {
    uint32_t extent[PITHI_TILE_NDIM];
    unsigned order;
    size_t count, from, cut; /* of the tile; predicted; where reading is interrupted */
    size_t place[3];         /* of codes, words and what is read back: multiples of 4 */
    bool in_place;
};

static struct guarded area[3];
static uint32_t *data, *words, *memory;

bool bound_lorenzo(const struct level *level) {
    return level->kernels.predict != pithi_predict_c && level->kernels.differ != pithi_differ_c &&
           level->kernels.unpredict != pithi_unpredict_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "lorenzo %s %s: %u x %u x %u x %u, order %u, from %zu, cut %zu, in place %d, "
        "places %zu %zu %zu",
        level->isa, what, s->extent[0], s->extent[1], s->extent[2], s->extent[3], s->order, s->from,
        s->cut, s->in_place, s->place[0], s->place[1], s->place[2]);
}

static void check_forward(const struct level *level, const struct shape *s) {
    const size_t count = s->cut - s->from;
    const uint8_t *const codes = guarded_place(&area[0], s->place[0], data, 4 * s->count);
    uint8_t *const to = guarded_place(&area[1], s->place[1], data, 4 * count);
    begin(level, "forward", s);
    pithi_predict_c((const int32_t *)(const void *)data + s->from, s->extent, s->order, s->from,
                    count, words);
    level->kernels.predict((const int32_t *)(const void *)codes + s->from, s->extent, s->order,
                           s->from, count, (uint32_t *)(void *)to);
    check_that(!memcmp(to, words, 4 * count), "words differ");
    check_that(!memcmp(codes, data, 4 * s->count), "the codes were written");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

/* The whole tile, in two parts. */
static void check_differ(const struct level *level, const struct shape *s) {
    struct pithi_unpredict u;
    const uint8_t *const codes = guarded_place(&area[0], s->place[0], data, 4 * s->count);
    uint8_t *const to = guarded_place(&area[1], s->place[1], data, 4 * s->count);
    begin(level, "differ", s);
    pithi_predict_c((const int32_t *)(const void *)data, s->extent, s->order, 0, s->count, words);
    pithi_unpredict_init(&u, s->extent, s->order, memory);
    s->in_place
        ? pithi_differ_c(&u, (const int32_t *)(const void *)codes, s->cut, (uint32_t *)(void *)to)
        : level->kernels.differ(&u, (const int32_t *)(const void *)codes, s->cut,
                                (uint32_t *)(void *)to);
    level->kernels.differ(&u, (const int32_t *)(const void *)(codes + 4 * s->cut),
                          s->count - s->cut, (uint32_t *)(void *)(to + 4 * s->cut));
    check_that(!memcmp(to, words, 4 * s->count), "words differ");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

/* Undoes differences in two parts, as readers of strips do. */
static void check_back(const struct level *level, const struct shape *s) {
    struct pithi_unpredict u;
    begin(level, "back", s);
    pithi_unpredict_init(&u, s->extent, s->order, memory);
    pithi_unpredict_c(&u, data, s->count, (int32_t *)words);
    uint8_t *const from = guarded_place(&area[1], s->place[1], data, 4 * s->count);
    uint8_t *const to =
        s->in_place ? from : guarded_place(&area[2], s->place[2], data, 4 * s->count);
    pithi_unpredict_init(&u, s->extent, s->order, memory);
    level->kernels.unpredict(&u, (const uint32_t *)(const void *)from, s->cut,
                             (int32_t *)(void *)to);
    level->kernels.unpredict(&u, (const uint32_t *)(const void *)(from + 4 * s->cut),
                             s->count - s->cut, (int32_t *)(void *)(to + 4 * s->cut));
    check_that(!memcmp(to, words, 4 * s->count), "codes differ");
    check_that(guarded_intact(&area[1]) && (s->in_place || guarded_intact(&area[2])),
               "a byte outside changed");
    check_end();
}

static struct shape random_shape(void) {
    const uint64_t r = check_random();
    struct shape s = {.order = (unsigned)check_below(5), .in_place = r & 1};
    for (int d = 0; d < 3; d++) s.extent[d] = r >> (d + 1) & 1 ? 1 : 1 + (uint32_t)check_below(6);
    s.extent[3] = r >> 4 & 1 ? 16 * (1 + (uint32_t)check_below(5)) : 1 + (uint32_t)check_below(80);
    if (r >> 5 & 1) s.extent[0] = s.extent[1] = 1;
    s.count = (size_t)s.extent[0] * s.extent[1] * s.extent[2] * s.extent[3];
    s.cut = check_below(s.count + 1);
    s.from = check_below(s.cut + 1);
    if (r >> 6 & 1) s.from = s.from / 16 * 16;
    for (int k = 0; k < 3; k++) s.place[k] = check_below(3) ? 4 * check_below(16) : PLACE_END;
    return s;
}

void check_lorenzo(const struct level *level) {
    data = malloc(CAPACITY);
    words = malloc(CAPACITY);
    memory = malloc(CAPACITY);
    check_begin("lorenzo %s: memory", level->isa);
    check_that(data && words && memory, "malloc failed");
    check_end();
    if (!data || !words || !memory) return;
    for (int k = 0; k < 3; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (int k = 0; k < 4000; k++) {
        const struct shape s = random_shape();
        for (size_t i = 0; i < s.count; i++) data[i] = (uint32_t)(check_random() >> 32);
        check_forward(level, &s);
        check_differ(level, &s);
        check_back(level, &s);
    }
    free(data);
    free(words);
    free(memory);
}

/* ---- Speed: a tile of 64 x 64 x 64 in strips --------------------------------------------------*/

enum { SIDE = 64, TILE = SIDE * SIDE * SIDE, STRIP = 1024 };
static const uint32_t cube[PITHI_TILE_NDIM] = {1, SIDE, SIDE, SIDE};

static double forward(const struct pithi_kernels *k, unsigned order) {
    const double start = roofline_clock();
    for (size_t i = 0; i < TILE; i += STRIP)
        k->predict((const int32_t *)(const void *)data + i, cube, order, i, STRIP, words);
    return roofline_clock() - start;
}

static double back(const struct pithi_kernels *k, unsigned order) {
    struct pithi_unpredict u;
    pithi_unpredict_init(&u, cube, order, memory);
    const double start = roofline_clock();
    for (size_t i = 0; i < TILE; i += STRIP)
        k->unpredict(&u, words, STRIP, (int32_t *)(void *)(words + STRIP));
    return roofline_clock() - start;
}

static double best(double (*run)(const struct pithi_kernels *, unsigned),
                   const struct pithi_kernels *k, unsigned order, int runs) {
    double least = 1;
    for (; runs; runs--) {
        const double t = run(k, order);
        if (t < least) least = t;
    }
    return least * 16 / TILE * 1e9;
}

void bench_lorenzo(const struct level *level) {
    struct pithi_kernels scalar;
    if (!strstr("lorenzo", bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    data = calloc(TILE, 4);
    words = calloc(2 * STRIP, 4);
    memory = calloc(TILE, 4);
    for (unsigned order = 0; order <= 3 && data && words && memory; order++) {
        const double to = best(forward, &level->kernels, order, 50);
        const double from = best(back, &level->kernels, order, 50);
        printf("lorenzo %-7s order %u, 64^3  forward %6.3f ns/16 x%5.1f  back %6.3f ns/16 x%5.1f\n",
               level->isa, order, to, best(forward, &scalar, order, 5) / to, from,
               best(back, &scalar, order, 5) / from);
        fflush(stdout);
    }
    free(data);
    free(words);
    free(memory);
}
