/* nontemporal.c - copies by non-temporal stores: every length and alignment.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { CAPACITY = 8192, ROW = 256, BYTES = 64 << 20, RUNS = 7 };

bool bound_nontemporal(const struct level *level) {
    return level->kernels.move_nontemporal != pithi_move_c;
}

static void check_one(const struct level *level, struct guarded area[2], const uint8_t *data,
                      size_t bytes, size_t place) {
    const size_t from_place = check_below(PLACE_COUNT);
    check_begin("move %s: %zu bytes from place %zu to %zu", level->isa, bytes, from_place, place);
    const uint8_t *const from = guarded_place(&area[0], from_place, data, bytes);
    uint8_t *const to = guarded_place(&area[1], place, data + 1, bytes);
    level->kernels.move_nontemporal(to, from, bytes);
    check_that(!bytes || !memcmp(to, data, bytes), "bytes differ");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

void check_nontemporal(const struct level *level) {
    static uint8_t data[CAPACITY - 64];
    static struct guarded area[2];
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)check_random();
    for (size_t bytes = 0; bytes <= 600; bytes++) {
        check_one(level, area, data, bytes, PLACE_END);
        check_one(level, area, data, bytes, check_below(64));
    }
    for (size_t place = 0; place < PLACE_COUNT; place++)
        check_one(level, area, data, check_below(sizeof data - 1), place);
}

static double run(pithi_move_fn *move, uint8_t *to, const uint8_t *from) {
    double least = 1e9;
    for (int k = 0; k < RUNS; k++) {
        const double start = roofline_clock();
        for (size_t i = 0; i < BYTES; i += ROW) move(to + i, from + i % (1 << 18), ROW);
        const double t = roofline_clock() - start;
        if (t < least) least = t;
    }
    return BYTES * 1e-9 / least;
}

void bench_nontemporal(const struct level *level) {
    if (!strstr("move", bench_only)) return;
    uint8_t *const to = malloc(BYTES), *const from = calloc(1, 1 << 18);
    if (to && from) {
        memset(to, 1, BYTES);
        const double reference = run(pithi_move_c, to, from);
        printf("move %-7s rows of %d bytes  memcpy %6.2f  kernel %6.2f GB/s\n", level->isa, ROW,
               reference, run(level->kernels.move_nontemporal, to, from));
    }
    free(to);
    free(from);
}
