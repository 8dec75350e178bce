/* nonzero.c - codes without zeros: every length and place, any share of zeros.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 1200, MORE = PITHI_NONZERO_MORE, CAPACITY = 4 * (MOST + MORE) + 4096 };

static struct guarded area[3];
static int32_t codes[MOST], nonzero[MOST + MORE], back[MOST];
static uint8_t map[MOST / 8 + 1];

bool bound_nonzero(const struct level *level) {
    return level->kernels.split != pithi_split_c && level->kernels.spread != pithi_spread_c;
}

static size_t map_bytes(size_t count) { return (count + 7) / 8; }

static void check_one(const struct level *level, size_t count, const size_t place[3]) {
    check_begin("nonzero %s: %zu codes, places %zu %zu %zu", level->isa, count, place[0], place[1],
                place[2]);
    const void *const from = guarded_place(&area[0], place[0], codes, 4 * count);
    uint8_t *const bits = guarded_place(&area[1], place[1], map, map_bytes(count));
    void *const to = guarded_place(&area[2], place[2], nonzero, 4 * (count + MORE));
    const size_t used = pithi_split_c(codes, count, map, nonzero);
    check_that(level->kernels.split(from, count, bits, to) == used, "the number differs");
    check_that(!memcmp(bits, map, map_bytes(count)), "the map differs");
    check_that(!memcmp(to, nonzero, 4 * used), "the codes differ");
    for (int i = 0; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
    const void *const packed = guarded_place(&area[2], place[2], nonzero, 4 * (used + MORE));
    void *const out = guarded_place(&area[0], place[0], back, 4 * count);
    level->kernels.spread(packed, bits, count, out);
    pithi_spread_c(nonzero, map, count, back);
    check_that(!memcmp(out, back, 4 * count), "codes among zeros differ");
    check_that(!memcmp(back, codes, 4 * count), "the reference lost codes");
    for (int i = 0; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
    check_end();
}

static size_t any_place(size_t step) {
    return check_below(3) ? step * check_below(PLACE_COUNT / step) : PLACE_END;
}

/* Codes of a tile, of which neighbours are often alike. */
static void check_median(const struct level *level) {
    const uint32_t width = 1 + (uint32_t)check_below(check_below(2) ? 40 : 9);
    const uint32_t rows = 1 + (uint32_t)check_below(MOST / width), height = 1 + rows / 3;
    const uint32_t extent[PITHI_TILE_NDIM] = {1, rows / height, height, width};
    const size_t count = (size_t)extent[1] * height * width;
    check_begin("nonzero %s: numbers of %u planes of %u x %u", level->isa, extent[1], height,
                width);
    for (size_t i = 0; i < count; i++) {
        const int32_t small = (int32_t)check_below(9) - 4, wide = (int32_t)(uint32_t)check_random();
        codes[i] = check_below(3) == 0 ? 0 : check_below(20) ? small : wide;
    }
    const size_t used = pithi_split_c(codes, count, map, nonzero);
    const void *const from = guarded_place(&area[0], any_place(4), codes, 4 * count);
    void *const to = guarded_place(&area[2], any_place(4), nonzero, 4 * (used + MORE));
    level->kernels.median(from, map, extent, to);
    pithi_nonzero_median(codes, map, extent, nonzero);
    check_that(!memcmp(to, nonzero, 4 * used), "numbers differ");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[2]), "a byte outside changed");
    pithi_nonzero_from_median(nonzero, map, extent, back);
    check_that(!memcmp(back, codes, 4 * count), "the reference lost codes");
    check_end();
}

void check_nonzero(const struct level *level) {
    for (int i = 0; i < 3; i++)
        if (!area[i].pages) area[i] = guarded_new(CAPACITY);
    for (size_t n = 0; n < 400; n++)
        for (size_t share = 0; share <= 8; share++) {
            const size_t count = n < 200 ? n : check_below(MOST);
            const size_t place[3] = {any_place(4), any_place(1), any_place(4)};
            for (size_t i = 0; i < count; i++)
                codes[i] = check_below(8) < share ? (int32_t)(uint32_t)check_random() : 0;
            check_one(level, count, place);
        }
    for (size_t n = 0; n < 1000; n++) check_median(level);
}

static double seconds(const struct pithi_kernels *k, bool forward, int repeats) {
    double least = 1e9;
    for (int run = 0; run < 7; run++) {
        const double start = roofline_clock();
        for (int i = 0; i < repeats; i++) {
            if (forward)
                k->split(codes, 1024, map, nonzero);
            else
                k->spread(nonzero, map, 1024, back);
        }
        const double took = (roofline_clock() - start) / repeats;
        if (took < least) least = took;
    }
    return least;
}

void bench_nonzero(const struct level *level) {
    struct pithi_kernels scalar;
    pithi_kernels_bind(&scalar, 0);
    for (int i = 0; i < 1024; i++) codes[i] = check_random() & 1 ? i + 1 : 0;
    printf("nonzero %-7s half are 0, in cache", level->isa);
    for (int forward = 1; forward >= 0; forward--) {
        const double t = seconds(&level->kernels, forward, 20000);
        printf("  %s %6.2f GB/s x%4.1f", forward ? "split" : "spread", 4096e-9 / t,
               seconds(&scalar, forward, 1000) / t);
    }
    printf("\n");
}
