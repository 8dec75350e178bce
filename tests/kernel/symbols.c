/* symbols.c - words cut in symbols and low bits, and joined: every cut, length and place.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 600, CAPACITY = 4 * MOST + 4096, LOW_MOST = 24 };

static struct guarded area[3];
static uint32_t words[MOST], bits[MOST], back[MOST];
static uint8_t symbols[MOST];

/* NEON leaves joining to scalar C. */
bool bound_symbols(const struct level *level) {
    return level->kernels.symbols_cut != pithi_symbols_cut_c &&
           level->kernels.symbols_lengths != pithi_symbols_lengths_c &&
           (level->kernels.symbols_join != pithi_symbols_join_c || !strcmp(level->isa, "neon"));
}

static size_t any_place(size_t step) {
    return check_below(3) ? step * check_below(PLACE_COUNT / step) : PLACE_END;
}

/* Words of which most have a symbol, and some one that is next to the escape. */
static void draw_words(unsigned low, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t all = (uint32_t)check_random(), near = 253 + (uint32_t)check_below(4);
        const uint32_t high = check_below(4) ? all >> 24 : near;
        words[i] = check_below(8) ? high << low | (all & ((1u << low) - 1)) : all;
    }
}

static void check_one(const struct level *level, unsigned low, size_t count) {
    check_begin("symbols %s: %zu words, %u low bits", level->isa, count, low);
    draw_words(low, count);
    const size_t escapes = pithi_symbols_cut_c(words, count, low, symbols, bits);
    const size_t bit_count = low ? count : 0;
    const void *const from = guarded_place(&area[0], any_place(4), words, 4 * count);
    uint8_t *const to = guarded_place(&area[1], any_place(1), words, count);
    void *const rest = guarded_place(&area[2], any_place(4), words, 4 * bit_count);
    check_that(level->kernels.symbols_cut(from, count, low, to, rest) == escapes,
               "the number of escapes differs");
    check_that(!memcmp(to, symbols, count), "symbols differ");
    check_that(!memcmp(rest, bits, 4 * bit_count), "low bits differ");
    for (int i = 0; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
    memcpy(back, bits, 4 * bit_count);
    pithi_symbols_join_c(symbols, count, low, back);
    void *const joined = guarded_place(&area[0], any_place(4), low ? bits : words, 4 * count);
    level->kernels.symbols_join(to, count, low, joined);
    check_that(!memcmp(joined, back, 4 * count), "words differ");
    for (size_t i = 0; i < count; i++)
        check_that(symbols[i] == PITHI_SYMBOLS_ESCAPE || back[i] == words[i],
                   "the reference lost bits");
    for (int i = 0; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
    check_end();
}

static void check_lengths(const struct level *level, size_t count) {
    check_begin("symbols %s: the lengths of %zu words", level->isa, count);
    uint8_t lengths[MOST];
    for (size_t i = 0; i < count; i++) {
        const unsigned length = (unsigned)check_below(33);
        const uint32_t all = (uint32_t)check_random(),
                       most = length ? UINT32_MAX >> (32 - length) : 0;
        words[i] = check_below(3) ? (all & most) | (most ^ most >> 1) : most;
        lengths[i] = (uint8_t)length;
    }
    pithi_symbols_lengths_c(words, count, symbols);
    check_that(!memcmp(symbols, lengths, count), "the reference miscounts bits");
    const void *const from = guarded_place(&area[0], any_place(4), words, 4 * count);
    uint8_t *const to = guarded_place(&area[1], any_place(1), words, count);
    level->kernels.symbols_lengths(from, count, to);
    check_that(!memcmp(to, lengths, count), "lengths differ");
    for (int i = 0; i < 2; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
    check_end();
}

void check_symbols(const struct level *level) {
    for (int i = 0; i < 3; i++)
        if (!area[i].pages) area[i] = guarded_new(CAPACITY);
    for (unsigned low = 0; low <= LOW_MOST; low++)
        for (size_t n = 1; n < 160; n++) check_one(level, low, n < 140 ? n : 1 + check_below(MOST));
    for (size_t n = 1; n < 300; n++) check_lengths(level, n < 140 ? n : 1 + check_below(MOST));
}

/* ---- Time ------------------------------------------------------------------------------------*/

enum { LARGE = 16384 };

void bench_symbols(const struct level *level) {
    static uint32_t src[LARGE], to[LARGE];
    static uint8_t s[LARGE];
    struct pithi_kernels scalar;
    pithi_kernels_bind(&scalar, 0);
    for (size_t i = 0; i < LARGE; i++) src[i] = (uint32_t)check_random() >> 22;
    for (unsigned low = 0; low <= 2; low += 2) {
        double best[2][2] = {{1e9, 1e9}, {1e9, 1e9}};
        for (int run = 0; run < 100; run++)
            for (int k = 0; k < 2; k++) {
                const struct pithi_kernels *const at = k ? &level->kernels : &scalar;
                double t = roofline_clock();
                at->symbols_cut(src, LARGE, low, s, to);
                t = roofline_clock() - t;
                if (t < best[0][k]) best[0][k] = t;
                t = roofline_clock();
                at->symbols_join(s, LARGE, low, to);
                t = roofline_clock() - t;
                if (t < best[1][k]) best[1][k] = t;
            }
        const double giga = 4e-9 * LARGE;
        printf("symbols %-7s %u low bits  cut %6.2f GB/s x%4.1f  join %6.2f GB/s x%4.1f\n",
               level->isa, low, giga / best[0][1], best[0][0] / best[0][1], giga / best[1][1],
               best[1][0] / best[1][1]);
    }
}
