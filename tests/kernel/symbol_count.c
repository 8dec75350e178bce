/* symbol_count.c - symbols counted: few kinds and many, every place, long strings.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "bytes/rans.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { LARGE = 131072 };

static struct guarded area;
static uint8_t symbols[LARGE];
static uint32_t table[2][PITHI_RANS_TABLES][256];

bool bound_symbol_count(const struct level *level) {
    return level->kernels.symbol_count != pithi_symbol_count_c;
}

/* Most symbols are of some kinds, others any; with `late` they begin after the first half. */
static void draw(size_t count, unsigned first, unsigned kinds, size_t others, bool late) {
    for (size_t i = 0; i < count; i++) {
        const bool other = (!late || i > count / 2) && check_below(1000) < others;
        symbols[i] = (uint8_t)(other ? check_random() : first + check_below(kinds));
    }
}

static void check_one(const struct level *level, size_t count, unsigned kinds) {
    const unsigned first = (unsigned)(check_below(3) ? check_below(256) : 257 - kinds) % 256;
    const size_t others = (const size_t[]){0, 3, 60, 1000}[check_below(4)];
    check_begin("symbol_count %s: %zu symbols, %u kinds from %u, %zu in 1000 others", level->isa,
                count, kinds, first, others);
    draw(count, first, kinds, others, check_below(3) == 0);
    pithi_symbol_count_c(table[0], symbols, count);
    const size_t place = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    level->kernels.symbol_count(table[1], guarded_place(&area, place, symbols, count), count);
    check_that(!memcmp(table[0][0], table[1][0], sizeof table[0][0]), "a count differs");
    check_that(guarded_intact(&area), "a byte outside changed");
    check_end();
}

void check_symbol_count(const struct level *level) {
    static const unsigned kinds[] = {1, 2, 8, 15, 16, 17, 31, 32, 33, 64, 256};
    if (!area.pages) area = guarded_new(LARGE + 4096);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t n = 0; n < 40; n++) check_one(level, check_below(9000), kinds[k]);
        for (size_t n = 0; n < 4; n++) check_one(level, LARGE - check_below(2000), kinds[k]);
    }
}

void bench_symbol_count(const struct level *level) {
    for (unsigned kinds = 4; kinds <= 64; kinds *= 2) {
        double best[2] = {1e9, 1e9};
        for (size_t i = 0; i < LARGE; i++) { /* a bell, of 200 symbols one is another */
            unsigned all = 0;
            for (int k = 0; k < 4; k++) all += (unsigned)check_below(kinds / 4 + 1);
            symbols[i] = (uint8_t)(check_below(200) ? all : check_random());
        }
        for (int run = 0; run < 20; run++)
            for (int k = 0; k < 2; k++) {
                double t = roofline_clock();
                (k ? level->kernels.symbol_count : pithi_symbol_count_c)(table[k], symbols, LARGE);
                t = roofline_clock() - t;
                if (t < best[k]) best[k] = t;
            }
        printf("symbol_count %-7s %2u kinds %6.2f GB/s x%4.1f\n", level->isa, kinds + 1,
               LARGE * 1e-9 / best[1], best[0] / best[1]);
    }
}
