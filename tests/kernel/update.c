/* update.c - updates cut, split and made values again: every width, length and place.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/update.h"

#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 600, SLACK = 64, CAPACITY = 8 * MOST + 4096, PLANES = 8 };

static struct guarded area[PLANES + 2];
static uint64_t base[MOST], values[MOST], back[MOST + SLACK / 8], escapes[MOST + SLACK / 8];
static uint8_t symbols[MOST], planes[PLANES][MOST];

bool bound_update(const struct level *level) {
    const struct pithi_kernels *const k = &level->kernels;
    return k->update_cut != pithi_update_cut_c && k->update_join != pithi_update_join_c &&
           k->update_split != pithi_update_split_c && k->update_merge != pithi_update_merge_c;
}

static size_t any_place(size_t step) {
    return check_below(3) ? step * check_below(PLACE_COUNT / step) : PLACE_END;
}

/* Values near their base, on either side of it and of 0, and in one of `rare` places any. */
static void draw(unsigned width, size_t count, size_t rare) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t near[] = {0, 1, UINT64_MAX >> (64 - 8 * width) >> 1, check_random()};
        const uint64_t y = check_below(3) ? check_random() : near[check_below(4)];
        uint64_t x = y + check_below(260) - 130;
        if (check_below(rare) == 0) x = check_random();
        memcpy((uint8_t *)base + i * width, &y, width);
        memcpy((uint8_t *)values + i * width, &x, width);
    }
}

static void intact(size_t areas) {
    for (size_t i = 0; i < areas; i++)
        check_that(guarded_intact(&area[i]), "a byte outside changed");
}

static void check_cut(const struct level *level, struct pithi_update u, size_t most) {
    const size_t raw = u.count * u.width;
    const size_t used = pithi_update_cut_c(&u, values, most, symbols, escapes);
    const void *const from = guarded_place(&area[0], any_place(u.width), values, raw);
    u.base = guarded_place(&area[1], any_place(u.width), base, raw);
    uint8_t *const to = guarded_place(&area[2], any_place(1), back, u.count);
    void *const beside = guarded_place(&area[3], any_place(u.width), back, raw + SLACK);
    const size_t got = level->kernels.update_cut(&u, from, most, to, beside);
    check_that(used > most ? got > most : got == used, "the number of escapes differs");
    if (used <= most) {
        check_that(!memcmp(to, symbols, u.count), "symbols differ");
        check_that(!memcmp(beside, escapes, used * u.width), "escapes differ");
    }
    intact(4);
}

/* Apart from their base, and in its place. */
static void check_join(const struct level *level, struct pithi_update u, bool in_place) {
    const size_t raw = u.count * u.width;
    size_t used = 0;
    for (size_t i = 0; i < u.count; i++) used += symbols[i] == 255;
    pithi_update_join_c(&u, back, symbols, escapes);
    void *const with = guarded_place(&area[0], any_place(u.width), base, raw);
    void *const to = in_place ? with : guarded_place(&area[1], any_place(u.width), base, raw);
    const uint8_t *const from = guarded_place(&area[2], any_place(1), symbols, u.count);
    const void *const beside =
        guarded_place(&area[3], any_place(u.width), escapes, used * u.width + SLACK);
    u.base = with;
    level->kernels.update_join(&u, to, from, beside);
    check_that(!memcmp(to, back, raw), "values differ");
    intact(4);
}

static void check_split(const struct level *level, struct pithi_update u) {
    uint8_t *reference[PLANES], *placed[PLANES];
    for (size_t k = 0; k < u.width; k++) {
        reference[k] = planes[k];
        placed[k] = guarded_place(&area[2 + k], any_place(1), back, u.count);
    }
    pithi_update_split_c(&u, values, reference);
    u.base = guarded_place(&area[1], any_place(u.width), base, u.count * u.width);
    level->kernels.update_split(
        &u, guarded_place(&area[0], any_place(u.width), values, u.count * u.width), placed);
    for (size_t k = 0; k < u.width; k++)
        check_that(!memcmp(placed[k], planes[k], u.count), "byte planes differ");
    intact(u.width + 2);
}

static void check_merge(const struct level *level, struct pithi_update u, bool in_place) {
    const uint8_t *reference[PLANES], *placed[PLANES];
    for (size_t k = 0; k < u.width; k++) {
        reference[k] = planes[k];
        placed[k] = guarded_place(&area[2 + k], any_place(1), planes[k], u.count);
    }
    pithi_update_merge_c(&u, back, reference);
    void *const with = guarded_place(&area[1], any_place(u.width), base, u.count * u.width);
    void *const to =
        in_place ? with : guarded_place(&area[0], any_place(u.width), base, u.count * u.width);
    u.base = with;
    level->kernels.update_merge(&u, to, placed);
    check_that(!memcmp(to, back, u.count * u.width), "values differ");
    intact(u.width + 2);
}

static void check_one(const struct level *level, unsigned width, bool ordered, size_t count) {
    const size_t rare = (const size_t[]){1, 4, 50, 1000000}[check_below(4)];
    const struct pithi_update u = {base, count, width, ordered};
    check_begin("update %s: %zu %s of %u bytes, one in %zu far away", level->isa, count,
                ordered ? "floats" : "integers", width, rare);
    draw(width, count, rare);
    check_cut(level, u, check_below(2) ? count / 4 : check_below(count + 1));
    check_cut(level, u, count);
    check_join(level, u, check_below(2));
    check_that(!memcmp(back, values, count * width), "the reference lost bits");
    check_split(level, u);
    check_merge(level, u, check_below(2));
    check_that(!memcmp(back, values, count * width), "the reference lost bits of planes");
    for (size_t i = 0; i < count; i++) {
        symbols[i] = (uint8_t)(check_below(3) ? check_random() : 255);
        escapes[i] = check_random();
        for (unsigned k = 0; k < width; k++) planes[k][i] = (uint8_t)check_random();
    }
    check_join(level, u, check_below(2));
    check_merge(level, u, check_below(2));
    check_end();
}

void check_update(const struct level *level) {
    for (size_t i = 0; i < sizeof area / sizeof *area; i++)
        if (!area[i].pages) area[i] = guarded_new(CAPACITY);
    for (unsigned width = 1; width <= 8; width *= 2)
        for (int ordered = 0; ordered < 2; ordered++)
            for (size_t n = 1; n < 300; n++)
                check_one(level, width, ordered, n < 140 ? n : 1 + check_below(MOST));
}

/* ---- Time ------------------------------------------------------------------------------------*/

enum { LARGE = 131072, HOOKS = 4 };

static void one_width(const struct level *level, unsigned width) {
    static const char *const name[HOOKS] = {"cut", "join", "split", "merge"};
    static uint64_t src[LARGE], with[LARGE], to[LARGE];
    static uint8_t s[LARGE], p[PLANES][LARGE];
    static uint64_t e[LARGE + SLACK / 8];
    const struct pithi_update u = {with, LARGE, width, true};
    uint8_t *plane[PLANES];
    const uint8_t *from[PLANES];
    struct pithi_kernels scalar;
    double best[HOOKS][2];
    pithi_kernels_bind(&scalar, 0);
    for (size_t k = 0; k < PLANES; k++) from[k] = plane[k] = p[k];
    for (int k = 0; k < HOOKS; k++) best[k][0] = best[k][1] = 1e9;
    for (size_t i = 0; i < LARGE; i++) { /* of every 256 words one is an escape */
        const uint64_t y = check_random(), x = y + (check_below(256) ? check_below(64) : 999);
        memcpy((uint8_t *)with + i * width, &y, width);
        memcpy((uint8_t *)src + i * width, &x, width);
    }
    for (int run = 0; run < 20; run++)
        for (int k = 0; k < 2; k++) {
            const struct pithi_kernels *const at = k ? &level->kernels : &scalar;
            double t[HOOKS + 1];
            t[0] = roofline_clock();
            at->update_cut(&u, src, LARGE, s, e);
            t[1] = roofline_clock();
            at->update_join(&u, to, s, e);
            t[2] = roofline_clock();
            at->update_split(&u, src, plane);
            t[3] = roofline_clock();
            at->update_merge(&u, to, from);
            t[4] = roofline_clock();
            for (int h = 0; h < HOOKS; h++)
                if (t[h + 1] - t[h] < best[h][k]) best[h][k] = t[h + 1] - t[h];
        }
    printf("update %-7s %u bytes", level->isa, width);
    for (int h = 0; h < HOOKS; h++)
        printf("  %s %5.2f GB/s x%4.1f", name[h], 1e-9 * LARGE * width / best[h][1],
               best[h][0] / best[h][1]);
    printf("\n");
}

void bench_update(const struct level *level) {
    one_width(level, 2);
    one_width(level, 4);
}
