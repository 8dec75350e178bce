/* top_symbols.c - words cut in two and joined: every width, cut, length and place.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 5000, CAPACITY = 8 * MOST + 4096, PLANES = 7 };

static struct guarded area[5];
static uint64_t words[MOST], back[MOST];
static uint8_t symbols[MOST], planes[PLANES * MOST], bits[MOST + 8], string[MOST + 8];
static uint16_t escapes[MOST];

bool bound_top_symbols(const struct level *level) {
    return level->kernels.top_cut != pithi_top_cut_c &&
           level->kernels.top_join != pithi_top_join_c &&
           level->kernels.top_shift != pithi_top_shift_c;
}

static size_t any_place(size_t step) {
    return check_below(3) ? step * check_below(PLACE_COUNT / step) : PLACE_END;
}

/* Words whose tops are mostly near the base, some of them 0 or the ends of what symbols are. */
static void draw_words(const struct pithi_top *top, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t lower = check_random() & ((UINT64_C(1) << top->low) - 1);
        const uint64_t tops[] = {0, top->base, top->base + 1, top->base + 254, top->base + 255};
        uint64_t t = check_random();
        if (check_below(16)) t = top->base + check_below(256);
        if (check_below(8) == 0) t = tops[check_below(5)];
        const uint64_t word = t << top->low | lower;
        memcpy((uint8_t *)words + i * top->width, &word, top->width);
    }
}

static void check_cut(const struct level *level, const struct pithi_top *top, size_t count,
                      size_t used) {
    const size_t whole = top->low / 8, padded = (count + 7) / 8 * 8;
    const void *const from =
        guarded_place(&area[0], any_place(top->width), words, count * top->width);
    uint8_t *const to = guarded_place(&area[1], any_place(1), bits, count);
    uint8_t *const plane = guarded_place(&area[2], any_place(1), words, whole * count);
    uint8_t *const rest = guarded_place(&area[3], any_place(1), words, padded);
    uint16_t *const beside = (void *)guarded_place(&area[4], any_place(2), words, 2 * count);
    check_that(level->kernels.top_cut(top, from, count, to, plane, rest, beside) == used,
               "the number of escapes differs");
    check_that(!memcmp(to, symbols, count), "symbols differ");
    check_that(!memcmp(plane, planes, whole * count), "byte planes differ");
    if (top->low % 8) check_that(!memcmp(rest, bits, padded), "lower bits differ");
    check_that(!memcmp(beside, escapes, 2 * used), "escapes differ");
    for (int i = 0; i < 5; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
}

static void check_join(const struct level *level, const struct pithi_top *top, size_t count,
                       size_t used) {
    const uint8_t *from[PLANES], *placed[PLANES];
    const uint8_t *const at = guarded_place(&area[2], any_place(1), planes, top->low / 8 * count);
    for (size_t k = 0; k < top->low / 8; k++) {
        from[k] = planes + k * count;
        placed[k] = at + k * count;
    }
    const size_t packed = pithi_top_bits_bytes(top, count);
    pithi_top_join_c(top, back, count, symbols, from, string, (const uint8_t *)escapes);
    const uint8_t *const with = guarded_place(&area[1], any_place(1), symbols, count);
    const uint8_t *const rest = guarded_place(&area[3], any_place(1), string, packed);
    const uint8_t *const beside = guarded_place(&area[4], any_place(1), escapes, 2 * used);
    void *const to = guarded_place(&area[0], any_place(top->width), words, count * top->width);
    level->kernels.top_join(top, to, count, with, placed, rest, beside);
    check_that(!memcmp(to, back, count * top->width), "values differ");
    for (int i = 0; i < 5; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
}

/* Rotates values left: their words. */
static void words_of(unsigned width, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t x = 0;
        memcpy(&x, (const uint8_t *)back + i * width, width);
        x = x << 1 | x >> (8 * width - 1);
        memcpy((uint8_t *)back + i * width, &x, width);
    }
}

static void check_one(const struct level *level, unsigned width, unsigned low, size_t count) {
    const struct pithi_top top = {width, low, check_below(2) ? (uint32_t)check_below(65536) : 0};
    check_begin("top_symbols %s: %zu words of %u bytes, %u lower bits, base %u", level->isa, count,
                width, low, top.base);
    draw_words(&top, count);
    const size_t used = pithi_top_cut_c(&top, words, count, symbols, planes, bits, escapes);
    check_cut(level, &top, count, used);
    if (low % 8) pithi_top_pack(string, bits, low % 8, count);
    check_join(level, &top, count, used);
    words_of(width, count);
    check_that(!memcmp(back, words, count * width), "the reference lost bits");
    for (size_t i = 0; i < sizeof string; i++) string[i] = (uint8_t)check_random();
    check_join(level, &top, count, used);
    check_end();
}

/* ---- Offsets ---------------------------------------------------------------------------------*/

static void draw_bytes(uint8_t *to, size_t count) {
    static const uint8_t ends[] = {0, 1, 2, 126, 127, 128, 252, 253, 254, 255};
    for (size_t i = 0; i < count; i++)
        to[i] = check_below(2) ? (uint8_t)check_random() : ends[check_below(sizeof ends)];
}

static void check_shift(const struct level *level, size_t width, size_t count) {
    const size_t first = check_below(3) ? check_below(width) : 0;
    const size_t rows = pithi_top_shift_rows(width, first, count);
    check_begin("top_shift %s: %zu symbols from column %zu of %zu", level->isa, count, first,
                width);
    draw_bytes(symbols, count);
    draw_bytes(string, rows);
    draw_bytes(planes, width);
    const struct pithi_top_shift s = {string, planes, width, first};
    pithi_top_shift_c(&s, bits, symbols, count);
    const struct pithi_top_shift placed = {guarded_place(&area[0], any_place(1), string, rows),
                                           guarded_place(&area[1], any_place(1), planes, width),
                                           width, first};
    const uint8_t *const from = guarded_place(&area[2], any_place(1), symbols, count);
    uint8_t *const to = guarded_place(&area[3], any_place(1), words, count);
    level->kernels.top_shift(&placed, to, from, count);
    check_that(!memcmp(to, bits, count), "shifted symbols differ");
    for (int i = 0; i < 4; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
    pithi_top_shift_invert(string, rows);
    pithi_top_shift_invert(planes, width);
    pithi_top_shift_c(&s, (uint8_t *)back, bits, count);
    check_that(!memcmp(back, symbols, count), "the inverse is none");
    check_end();
}

/* Every symbol with every offset of rows, and many of columns. */
static void check_shifts(const struct level *level) {
    for (size_t width = 1; width < 140; width++)
        for (size_t k = 0; k < 12; k++)
            check_shift(level, width, 1 + check_below(k < 10 ? 4 * width : MOST));
    for (size_t k = 0; k < 50; k++)
        check_shift(level, 1 + check_below(2000), 1 + check_below(MOST));
    static uint8_t every[256], row[1];
    for (unsigned r = 0; r < 256; r++)
        for (unsigned c = 0; c < 256; c++) {
            check_begin("top_shift %s: offsets %u and %u", level->isa, r, c);
            for (unsigned i = 0; i < 256; i++) symbols[i] = (uint8_t)i;
            memset(every, (int)c, sizeof every);
            row[0] = (uint8_t)r;
            const struct pithi_top_shift s = {row, every, 256, 0};
            pithi_top_shift_c(&s, planes, symbols, 256);
            level->kernels.top_shift(&s, bits, symbols, 256);
            check_that(!memcmp(bits, planes, 256), "shifted symbols differ");
            check_end();
        }
}

void check_top_symbols(const struct level *level) {
    for (int i = 0; i < 5; i++)
        if (!area[i].pages) area[i] = guarded_new(CAPACITY);
    check_shifts(level);
    for (unsigned width = 2; width <= 8; width *= 2)
        for (unsigned low = 8 * width - 16; low < 8 * width; low++)
            for (size_t n = 1; n < 160; n++)
                check_one(level, width, low, n < 140 ? n : 1 + check_below(n < 150 ? 600 : MOST));
}

/* ---- Time ------------------------------------------------------------------------------------*/

enum { LARGE = 131072 };

static void one_width(const struct level *level, const struct pithi_top *top) {
    static uint64_t src[LARGE], to[LARGE];
    static uint8_t s[LARGE], p[PLANES * LARGE], b[LARGE];
    static uint16_t e[LARGE];
    struct pithi_kernels scalar;
    double best[2][2] = {{1e9, 1e9}, {1e9, 1e9}};
    const uint8_t *plane[PLANES];
    pithi_kernels_bind(&scalar, 0);
    for (size_t k = 0; k < PLANES; k++) plane[k] = p + k * LARGE;
    for (size_t i = 0; i < LARGE; i++) { /* of every 256 words one has an escape */
        const uint64_t t = check_below(256) ? top->base + 1 + check_below(32) : top->base + 255;
        const uint64_t word = t << top->low | (check_random() & ((UINT64_C(1) << top->low) - 1));
        memcpy((uint8_t *)src + i * top->width, &word, top->width);
    }
    for (int run = 0; run < 20; run++)
        for (int k = 0; k < 2; k++) {
            const struct pithi_kernels *const at = k ? &level->kernels : &scalar;
            double t = roofline_clock();
            at->top_cut(top, src, LARGE, s, p, b, e);
            t = roofline_clock() - t;
            if (t < best[0][k]) best[0][k] = t;
            t = roofline_clock();
            at->top_join(top, to, LARGE, s, plane, b, (const uint8_t *)e); /* any bits */
            t = roofline_clock() - t;
            if (t < best[1][k]) best[1][k] = t;
        }
    const double giga = 1e-9 * LARGE * top->width;
    printf(
        "top_symbols %-7s %u bytes, %2u lower bits  cut %5.2f GB/s x%4.1f  join %5.2f GB/s "
        "x%4.1f\n",
        level->isa, top->width, top->low, giga / best[0][1], best[0][0] / best[0][1],
        giga / best[1][1], best[1][0] / best[1][1]);
}

static void one_shift(const struct level *level, size_t width) {
    static uint8_t src[LARGE], to[LARGE], rows[LARGE], columns[LARGE];
    struct pithi_kernels scalar;
    double best[2] = {1e9, 1e9};
    const struct pithi_top_shift s = {rows, columns, width, 0};
    pithi_kernels_bind(&scalar, 0);
    draw_bytes(src, LARGE);
    draw_bytes(rows, LARGE);
    draw_bytes(columns, LARGE);
    for (int run = 0; run < 20; run++)
        for (int k = 0; k < 2; k++) {
            const struct pithi_kernels *const at = k ? &level->kernels : &scalar;
            double t = roofline_clock();
            at->top_shift(&s, to, src, LARGE);
            t = roofline_clock() - t;
            if (t < best[k]) best[k] = t;
        }
    printf("top_shift %-7s rows of %4zu  %5.2f GB/s x%4.1f\n", level->isa, width,
           1e-9 * LARGE / best[1], best[0] / best[1]);
}

void bench_top_symbols(const struct level *level) {
    static const size_t widths[] = {8, 16, 32, 192, 4096};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) one_shift(level, widths[k]);
    static const struct pithi_top tops[] = {{2, 8, 100}, {2, 7, 200},  {2, 10, 5},
                                            {4, 24, 0},  {4, 22, 400}, {8, 52, 3800}};
    for (size_t k = 0; k < sizeof tops / sizeof *tops; k++) one_width(level, &tops[k]);
}
