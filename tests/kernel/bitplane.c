/* bitplane.c - packed words: kernels against the scalar reference; a whole tile's speed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "predict/strip.h"
#include "roofline.h"

enum { GROUP = PITHI_BITPLANE_GROUP, MOST = 300, CAPACITY = MOST * 64 + 4096 };

struct shape {
    size_t groups, bytes, spare; /* spare: bytes that may be written after the planes */
    unsigned most;               /* bits of words */
    size_t place[2];             /* of words, a multiple of 4, and of planes */
};

static struct guarded area[2];
static uint32_t words[MOST * GROUP], back[MOST * GROUP];
static uint8_t widths[MOST], planes[MOST * 64 + 4096];

bool bound_bitplane(const struct level *level) {
    const struct pithi_kernels *const k = &level->kernels;
    return k->widths != pithi_widths_c && k->pack != pithi_bitplane_pack_c &&
           k->unpack != pithi_bitplane_unpack_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin("bitplane %s %s: %zu groups of up to %u bits, %zu bytes and %zu, places %zu %zu",
                level->isa, what, s->groups, s->most, s->bytes, s->spare, s->place[0], s->place[1]);
}

static void check_widths(const struct level *level, const struct shape *s) {
    static uint8_t own[MOST];
    const size_t count = s->groups * GROUP - (s->groups ? check_below(GROUP) : 0);
    const uint8_t *const from = guarded_place(&area[0], s->place[0], words, 4 * count);
    uint8_t *const to = guarded_place(&area[1], s->place[1], planes, s->groups);
    begin(level, "widths", s);
    pithi_widths_c(words, count, own);
    level->kernels.widths((const uint32_t *)(const void *)from, count, to);
    check_that(!memcmp(to, own, s->groups), "widths differ");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

static void check_forward(const struct level *level, const struct shape *s) {
    const uint8_t *const from = guarded_place(&area[0], s->place[0], words, 4 * GROUP * s->groups);
    memset(planes, 0, s->bytes + s->spare);
    uint8_t *const to = guarded_place(&area[1], s->place[1], planes, s->bytes + s->spare);
    begin(level, "forward", s);
    check_that(
        pithi_bitplane_pack_c(words, s->groups, widths, planes, s->bytes) == planes + s->bytes,
        "the reference's end is wrong");
    const uint8_t *const end = level->kernels.pack((const uint32_t *)(const void *)from, s->groups,
                                                   widths, to, s->bytes + s->spare);
    check_that(end == to + s->bytes, "the end differs");
    check_that(!memcmp(to, planes, s->bytes), "planes differ");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

static void check_back(const struct level *level, const struct shape *s) {
    for (size_t i = 0; i < s->spare; i++) planes[s->bytes + i] = (uint8_t)check_random();
    const uint8_t *const from = guarded_place(&area[1], s->place[1], planes, s->bytes + s->spare);
    uint8_t *const to = guarded_place(&area[0], s->place[0], words, 4 * GROUP * s->groups);
    begin(level, "back", s);
    pithi_bitplane_unpack_c(planes, s->bytes, s->groups, widths, back);
    const uint8_t *const end =
        level->kernels.unpack(from, s->bytes + s->spare, s->groups, widths, (uint32_t *)(void *)to);
    check_that(end == from + s->bytes, "the end differs");
    check_that(!memcmp(to, back, 4 * GROUP * s->groups), "words differ");
    check_that(!memcmp(back, words, 4 * GROUP * s->groups), "the reference lost words");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

static struct shape random_shape(size_t groups) {
    struct shape s = {.groups = groups, .most = (unsigned)check_below(33)};
    s.spare = check_below(2) ? 0 : check_below(200);
    s.place[0] = check_below(3) ? 4 * check_below(16) : PLACE_END;
    s.place[1] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
    for (size_t g = 0; g < groups; g++) {
        const unsigned bits = (unsigned)check_below(s.most + 1);
        for (size_t i = g * GROUP; i < (g + 1) * GROUP; i++)
            words[i] = bits ? (uint32_t)(check_random() >> 32) >> (32 - bits) : 0;
    }
    return s;
}

/* Widths at least those that are needed. */
static void check_one(const struct level *level, struct shape *s) {
    check_widths(level, s);
    pithi_widths_c(words, s->groups * GROUP, widths);
    s->bytes = 0;
    for (size_t g = 0; g < s->groups; g++) {
        if (check_below(2)) widths[g] = (uint8_t)(widths[g] + check_below(33u - widths[g]));
        s->bytes += 2u * widths[g];
    }
    check_forward(level, s);
    check_back(level, s);
}

void check_bitplane(const struct level *level) {
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (size_t n = 0; n < MOST; n++) {
        for (int k = 0; k < 10; k++) {
            struct shape s = random_shape(n);
            check_one(level, &s);
        }
    }
}

/* ---- Speed: kernels in the cache; tiles from values to bytes and back ------------------------*/

enum { TILE = 1 << 18, TILES = 64, RUNS = 7 };

struct bench {
    float *x;
    uint8_t *miss, *bytes;
    void *scratch;
    size_t length; /* of a tile's bytes */
};

static double kernel_seconds(const struct pithi_kernels *k, int what, int repeats) {
    enum { GROUPS = 64 };
    const double start = roofline_clock();
    for (int i = 0; i < repeats; i++) {
        if (what == 0) k->widths(words, GROUPS * GROUP, widths);
        if (what == 1) k->pack(words, GROUPS, widths, planes, sizeof planes);
        if (what == 2) k->unpack(planes, sizeof planes, GROUPS, widths, back);
    }
    return (roofline_clock() - start) / repeats / GROUPS * 1e9;
}

static double least_seconds(const struct pithi_kernels *k, int what, int repeats) {
    double least = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const double t = kernel_seconds(k, what, repeats);
        if (t < least) least = t;
    }
    return least;
}

static void bench_kernels(const struct level *level, const struct pithi_kernels *scalar) {
    for (unsigned bits = 4; bits <= 20; bits += 4) {
        for (size_t i = 0; i < 64 * GROUP; i++) words[i] = (uint32_t)check_random() >> (32 - bits);
        printf("bitplane %-7s %2u bits in cache", level->isa, bits);
        for (int what = 0; what < 3; what++) {
            static const char *const names[] = {"widths", "pack", "unpack"};
            const double t = least_seconds(&level->kernels, what, 20000);
            printf("  %s %6.3f ns/16 x%5.1f", names[what], t, least_seconds(scalar, what, 500) / t);
        }
        printf("\n");
        fflush(stdout);
    }
}

static unsigned encode_tile(const struct pithi_strip *p, const struct pithi_quant *q,
                            struct bench *b, size_t tile) {
    const struct pithi_source source = {q, pithi_tile_layout_dense(b->x + tile * TILE, 4), b->miss};
    struct pithi_strip own = *p;
    struct pithi_packing packing;
    struct pithi_pen pen = {.at = b->bytes + tile * b->length, .capacity = b->length};
    own.order = pithi_strip_choose(p, &source, 3);
    pithi_strip_begin(&own, &source, b->scratch, &packing);
    pithi_strip_finish(&own, &packing, &pen);
    return own.order;
}

static void bench_tiles(const struct level *level, struct bench *b) {
    const struct pithi_bound bound = {PITHI_BOUND_ABSOLUTE, 0x1p-7, 0};
    struct pithi_quant q;
    pithi_quant_init(&q, PITH_F32, &bound, false);
    for (int cube = 0; cube < 2; cube++) {
        struct pithi_strip p = {&level->kernels, {1, 1, 1, TILE}, 0};
        if (cube) p = (struct pithi_strip){&level->kernels, {1, 64, 64, 64}, 0};
        unsigned order = 0;
        double read = 1e9, fill = 1e9, encode = 1e9, decode = 1e9;
        for (int run = 0; run < RUNS; run++) {
            double t = roofline_read(b->x, (size_t)TILE * TILES * 4);
            if (t < read) read = t;
            t = roofline_clock();
            for (size_t i = 0; i < TILES; i++) order = encode_tile(&p, &q, b, i);
            t = roofline_clock() - t;
            if (t < encode) encode = t;
        }
        p.order = order;
        for (int run = 0; run < RUNS; run++) {
            double t = roofline_fill(b->x, (size_t)TILE * TILES * 4, run & 1);
            if (t < fill) fill = t;
            t = roofline_clock();
            for (size_t i = 0; i < TILES; i++) {
                struct pithi_reader r = {b->bytes + i * b->length, b->length, b->scratch, NULL,
                                         NULL};
                pithi_strip_take(&p, &r, &q, b->x + i * TILE, true);
            }
            t = roofline_clock() - t;
            if (t < decode) decode = t;
        }
        const double gb = (double)TILE * TILES * 4e-9;
        printf(
            "bitplane %-7s %s order %u  encode %6.2f GB/s, %.2f of read  decode %6.2f GB/s, %.2f "
            "of "
            "fill\n",
            level->isa, cube ? "64^3 tiles" : "1-D tiles ", p.order, gb / encode, read / encode,
            gb / decode, fill / decode);
        fflush(stdout);
    }
}

void bench_bitplane(const struct level *level) {
    struct pithi_kernels scalar;
    struct bench b = {.length = 3 * TILE};
    if (!strstr("bitplane", bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    bench_kernels(level, &scalar);
    b.x = malloc((size_t)TILE * TILES * 4);
    b.miss = malloc(TILE / 8);
    b.bytes = malloc(TILES * b.length);
    b.scratch = aligned_alloc(64, pithi_strip_scratch(TILE));
    if (b.x && b.miss && b.bytes && b.scratch) {
        fill_values(b.x, PITH_F32, (size_t)TILE * TILES, FILL_GAUSS, 7);
        memset(b.bytes, 0, TILES * b.length);
        bench_tiles(level, &b);
    }
    free(b.x), free(b.miss), free(b.bytes), free(b.scratch);
}
