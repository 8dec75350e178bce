/* pass.c - values to packed words and back in one pass, against the scalar C of every step.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum {
    MOST = 4096,
    CAPACITY = 4 * MOST * 2 + 4096,
    GROUP = PITHI_BITPLANE_GROUP,
    PAIR = 32,
    SLACK = 256
};

/* A tile of rows that lie pitch bytes apart. */
struct tile {
    uint32_t extent[PITHI_TILE_NDIM];
    unsigned order;
    size_t count, cut; /* elements; where the pass is interrupted */
    size_t pitch, place;
    bool nontemporal;
};

static struct guarded area[2];
static float values[MOST];
static int32_t codes[MOST];
static uint32_t words[MOST], other[MOST], memory[2][MOST];
static uint8_t widths[MOST / GROUP], miss[MOST / 8], planes[4 * MOST + SLACK], image[CAPACITY];

bool bound_fused_encode(const struct level *level) {
    return level->kernels.fused_encode != pithi_fused_encode_c;
}
bool bound_fused_decode(const struct level *level) {
    return level->kernels.fused_decode != pithi_fused_decode_c;
}

bool bound_sample(const struct level *level) { return level->kernels.sample != pithi_sample_c; }

static size_t row_bytes(const struct tile *t) { return 4 * (size_t)t->extent[3]; }
static size_t image_bytes(const struct tile *t) {
    return (t->count / t->extent[3] - 1) * t->pitch + row_bytes(t);
}
static size_t at_in_image(const struct tile *t, size_t i) {
    return i / t->extent[3] * t->pitch + i % t->extent[3] * 4;
}

/* Rows of whole pairs of groups; without differences, also other rows that lie together. */
static bool has_loop(const struct tile *t) {
    if (t->extent[3] % PAIR == 0) return true;
    return !t->order && t->pitch == row_bytes(t) && t->count % PAIR == 0;
}

static struct tile random_tile(void) {
    const uint64_t r = check_random();
    struct tile t = {.order = (unsigned)check_below(5), .nontemporal = r & 1};
    for (int d = 0; d < 3; d++) t.extent[d] = r >> (d + 1) & 1 ? 1 : 1 + (uint32_t)check_below(4);
    t.extent[3] =
        r >> 4 & 7 ? PAIR * (1 + (uint32_t)check_below(2)) : 1 + (uint32_t)check_below(60);
    t.count = (size_t)t.extent[0] * t.extent[1] * t.extent[2] * t.extent[3];
    t.cut = check_below(t.count / PAIR + 1) * PAIR;
    t.pitch = row_bytes(&t) + (r >> 7 & 1 ? 64 : 4 * check_below(20) * (t.order || r >> 9 & 1));
    t.place = check_below(3) ? 4 * check_below(16) : r >> 8 & 1 ? 0 : PLACE_END;
    return t;
}

static struct pithi_quant random_quant(void) {
    const struct pithi_bound bound = {PITHI_BOUND_ABSOLUTE, check_below(8) ? 0x1p-7 : 0x1p-20, 0};
    struct pithi_quant q;
    pithi_quant_init(&q, PITH_F32, &bound, check_below(16) == 0);
    return q;
}

static void begin(const struct level *level, const char *what, const struct tile *t) {
    check_begin("%s %s: %u x %u x %u x %u, order %u, cut %zu, pitch %zu, place %zu, nontemporal %d",
                what, level->isa, t->extent[0], t->extent[1], t->extent[2], t->extent[3], t->order,
                t->cut, t->pitch, t->place, t->nontemporal);
}

/* ---- Fused encode ----------------------------------------------------------------------------*/

/* Sets `values` to a slow wave with noise, and at times one value that no code stands for. */
static void fill(size_t count) {
    const size_t irregular = check_below(4) ? count : check_below(count);
    const float step = check_below(2) ? 0x1p-5f : 0x1p-3f;
    for (size_t i = 0; i < count; i++)
        values[i] = sinf((float)i * 0.05f) + step * (float)check_below(16);
    if (irregular < count) values[irregular] = check_below(2) ? NAN : 1e9f * (float)check_below(3);
}

static void scalar_words(const struct tile *t, const struct pithi_quant *q) {
    struct pithi_unpredict u;
    pithi_quantize_c(q, values, t->count, codes, miss);
    pithi_unpredict_init(&u, t->extent, t->order, memory[0]);
    pithi_differ_c(&u, codes, t->count, words);
}

static void check_encoded(const struct tile *t, struct pithi_fused_encode *c, const uint8_t *own,
                          const uint8_t *to, size_t done) {
    uint8_t expected[MOST / GROUP];
    bool kept = true;
    for (size_t i = 0; i < done; i++) kept = kept && !(miss[i / 8] >> i % 8 & 1);
    check_that(kept, "a value that is missed was encoded");
    pithi_widths_c(words, done, expected);
    check_that(!done || !memcmp(own, expected, done / GROUP), "widths differ");
    const uint8_t *const end =
        pithi_bitplane_pack_c(words, done / GROUP, expected, planes, sizeof planes);
    check_that(c->to - to == end - planes && c->widths == own + done / GROUP, "another length");
    check_that(!memcmp(to, planes, (size_t)(end - planes)), "planes differ");
    pithi_differ_c(c->sums, codes + done, t->count - done, other);
    check_that(!memcmp(other, words + done, 4 * (t->count - done)), "sums differ");
}

static void check_one_encode(const struct level *level, struct tile t) {
    struct pithi_unpredict u;
    const struct pithi_quant q = random_quant();
    const size_t capacity = check_below(4) ? 4 * t.count + SLACK : check_below(4 * t.count);
    uint8_t own[MOST / GROUP];
    fill(t.count);
    scalar_words(&t, &q);
    memset(image, 0x55, sizeof image);
    for (size_t i = 0; i < t.count; i++) memcpy(image + at_in_image(&t, i), &values[i], 4);
    const uint8_t *const from = guarded_place(&area[0], t.place, image, image_bytes(&t));
    uint8_t *const to = guarded_place(&area[1], PLACE_END, image, capacity);
    begin(level, "fused_encode", &t);
    pithi_unpredict_init(&u, t.extent, t.order, memory[1]);
    struct pithi_fused_encode c = {
        .quant = &q, .sums = &u, .pitch = t.pitch, .widths = own, .to = to};
    c.end = to + capacity;
    c.from = c.prefetch = from;
    c.count = t.cut;
    size_t done = level->kernels.fused_encode(&c);
    if (done == t.cut && t.cut < t.count) {
        c.from = c.prefetch = from + at_in_image(&t, t.cut);
        c.at = t.cut % t.extent[3];
        c.count = t.count - t.cut;
        done += level->kernels.fused_encode(&c);
    }
    check_encoded(&t, &c, own, to, done);
    bool fits = has_loop(&t) && !q.signed_zeros && capacity > 4 * t.count;
    for (size_t i = 0; i < t.count; i++) fits = fits && words[i] < 65536 && !miss[i / 8];
    check_that(!fits || done == t.count, "it has stopped early");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

void check_fused_encode(const struct level *level) {
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (int k = 0; k < 3000; k++) check_one_encode(level, random_tile());
}

/* ---- Fused decode ----------------------------------------------------------------------------*/

/* Words of as many bits as their group says; returns the bytes of their planes. */
static size_t random_words(size_t count, bool *narrow) {
    const size_t groups = (count + GROUP - 1) / GROUP;
    const unsigned most = check_below(3) ? 12 : 32;
    *narrow = true;
    memset(words, 0, sizeof words);
    for (size_t g = 0; g < groups; g++) {
        widths[g] = (uint8_t)check_below(check_below(8) ? 13 : most + 1);
        *narrow = *narrow && widths[g] <= 12;
        for (size_t i = g * GROUP; i < count && i < (g + 1) * GROUP; i++)
            words[i] = widths[g] ? (uint32_t)(check_random() >> 32) >> (32 - widths[g]) : 0;
    }
    return (size_t)(pithi_bitplane_pack_c(words, groups, widths, planes, sizeof planes) - planes);
}

static void scalar_image(const struct tile *t, const struct pithi_quant *q, size_t done) {
    pithi_dequantize_c(q, codes, t->count, values, false);
    for (size_t i = 0; i < done; i++) memcpy(image + at_in_image(t, i), &values[i], 4);
}

static void check_one_decode(const struct level *level, struct tile t) {
    struct pithi_unpredict u;
    const struct pithi_quant q = random_quant();
    bool narrow;
    const size_t bytes = random_words(t.count, &narrow), slack = check_below(2) ? SLACK : 0;
    pithi_unpredict_init(&u, t.extent, t.order, memory[0]);
    pithi_unpredict_c(&u, words, t.count, codes);
    memset(image, 0x55, sizeof image);
    const uint8_t *const from = guarded_place(&area[0], PLACE_END, planes, bytes + slack);
    uint8_t *const to = guarded_place(&area[1], t.place, image, image_bytes(&t));
    begin(level, "fused_decode", &t);
    pithi_unpredict_init(&u, t.extent, t.order, memory[1]);
    struct pithi_fused_decode r = {.quant = &q, .sums = &u, .planes = from, .left = bytes + slack};
    r.widths = widths, r.pitch = t.pitch, r.nontemporal = t.nontemporal, r.to = to, r.count = t.cut;
    size_t done = level->kernels.fused_decode(&r);
    if (done == t.cut && t.cut < t.count) {
        r.to = to + at_in_image(&t, t.cut);
        r.at = t.cut % t.extent[3];
        r.count = t.count - t.cut;
        done += level->kernels.fused_decode(&r);
    }
    scalar_image(&t, &q, done);
    check_that(!memcmp(to, image, image_bytes(&t)), "values differ");
    size_t used = 0;
    for (size_t g = 0; g < done / GROUP; g++) used += 2 * (size_t)widths[g];
    check_that(r.planes == from + used && r.left == bytes + slack - used &&
                   r.widths == widths + done / GROUP,
               "another place");
    pithi_unpredict_c(&u, words + done, t.count - done, (int32_t *)other);
    check_that(!memcmp(other, codes + done, 4 * (t.count - done)), "sums differ");
    const bool fits = has_loop(&t) && narrow && slack;
    check_that(!fits || done == t.count, "it has stopped early");
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
    check_end();
}

void check_fused_decode(const struct level *level) {
    for (int k = 0; k < 2; k++)
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
    for (int k = 0; k < 3000; k++) check_one_decode(level, random_tile());
}

/* ---- Samples ---------------------------------------------------------------------------------*/

enum { LINES = PITHI_SAMPLE_LINES, SAMPLE = PITHI_PACK_SAMPLE };

/* Returns how many values are missed. */
static size_t scalar_sample(const struct pithi_sample *s, unsigned most, pithi_sample_widths sums) {
    const size_t n = s->lead + s->count, at = (LINES - 1) * n + s->lead;
    size_t misses = 0;
    const uint32_t extent[PITHI_TILE_NDIM] = {2, 2, 2, (uint32_t)n};
    for (size_t k = 0; k < LINES; k++)
        misses += pithi_quantize_c(s->quant, s->line[k], n, codes + (LINES - 1 - k) * n, miss);
    for (unsigned order = 0; order <= most; order++) {
        pithi_predict_c(codes + at, extent, order, at, s->count, words);
        pithi_widths_c(words, s->count, widths);
        for (size_t g = 0; g * GROUP < s->count; g++) sums[order][g] += widths[g];
    }
    return misses;
}

/* The lines of a sample stand one behind the other, and a guarded page behind the last. */
static void check_one_sample(const struct level *level) {
    static float line[LINES * (SAMPLE + GROUP)];
    const struct pithi_quant q = random_quant();
    const unsigned most = 1 + (unsigned)check_below(4);
    struct pithi_sample s = {.quant = &q, .lead = GROUP, .count = SAMPLE};
    pithi_sample_widths own = {{0}}, sums = {{0}};
    if (check_below(3) == 0) s.lead = check_below(GROUP + 1);
    if (check_below(8) == 0) s.count = 1 + check_below(SAMPLE);
    const size_t n = s.lead + s.count;
    const float step = check_below(2) ? 0x1p-5f : 0x1p-3f;
    for (size_t i = 0; i < LINES * n; i++)
        line[i] = check_below(9) ? sinf((float)i * 0.05f) + step * (float)check_below(16) : 0;
    const uint8_t *const from =
        guarded_place(&area[0], check_below(2) ? PLACE_END : 4, line, 4 * LINES * n);
    for (size_t k = 0; k < LINES; k++) s.line[k] = from + 4 * n * k;
    check_begin("sample %s: lead %zu, count %zu, order %u", level->isa, s.lead, s.count, most);
    for (unsigned order = 0; order <= most; order++)
        for (size_t g = 0; g < PITHI_SAMPLE_GROUPS; g++)
            own[order][g] = sums[order][g] = (uint32_t)check_below(1000);
    const bool done = level->kernels.sample(&s, most, own);
    const size_t misses = done ? scalar_sample(&s, most, sums) : 0;
    check_that(misses || !memcmp(own, sums, sizeof own), "widths differ");
    check_that(done || s.lead % GROUP || s.count < SAMPLE, "it has no loop");
    check_that(guarded_intact(&area[0]), "a byte outside changed");
    check_end();
}

void check_sample(const struct level *level) {
    if (!area[0].pages) area[0] = guarded_new(CAPACITY);
    for (int k = 0; k < 3000; k++) check_one_sample(level);
}

/* ---- Speed: rows of 64 -----------------------------------------------------------------------*/

/* A tensor out of cache goes to words, a plane at a time, and back. */
enum { ROWS = MOST / 64, ROW = 256, APART = 4 * ROW, PLANES = 256, RUNS = 7 };
static const uint32_t cube[PITHI_TILE_NDIM] = {1, PLANES, ROWS, 64};

struct bench {
    const struct pithi_kernels *kernels;
    struct pithi_quant quant;
    struct pithi_unpredict sums;
    uint8_t *out; /* of the tensor */
};

static void encode_steps(struct bench *b) {
    const struct pithi_kernels *const k = b->kernels;
    for (size_t i = 0; i < ROWS; i++, b->out += APART)
        k->quantize(&b->quant, b->out, 64, codes + 64 * i, miss + 8 * i);
    k->differ(&b->sums, codes, MOST, words);
    k->widths(words, MOST, widths);
    k->pack(words, MOST / GROUP, widths, planes, sizeof planes);
}

static void encode_pass(struct bench *b) {
    struct pithi_fused_encode c = {.quant = &b->quant, .sums = &b->sums, .from = b->out};
    c.pitch = APART, c.prefetch = b->out + 16 * APART, c.count = MOST;
    c.widths = widths, c.to = planes, c.end = planes + sizeof planes;
    b->kernels->fused_encode(&c);
    b->out += (size_t)ROWS * APART;
}

static void decode_steps(struct bench *b) {
    const struct pithi_kernels *const k = b->kernels;
    k->unpack(planes, sizeof planes, MOST / GROUP, widths, words);
    k->unpredict(&b->sums, words, MOST, codes);
    for (size_t i = 0; i < ROWS; i++, b->out += APART)
        k->dequantize(&b->quant, codes + 64 * i, 64, b->out, true);
}

static void decode_pass(struct bench *b) {
    struct pithi_fused_decode r = {.quant = &b->quant, .sums = &b->sums, .planes = planes};
    r.left = sizeof planes, r.widths = widths, r.count = MOST;
    r.to = b->out, r.pitch = APART, r.nontemporal = true;
    b->kernels->fused_decode(&r);
    b->out += (size_t)ROWS * APART;
}

static double least(void (*run)(struct bench *), const struct level *level, uint8_t *out,
                    uint32_t *sums) {
    static const struct pithi_bound bound = {PITHI_BOUND_ABSOLUTE, 0x1p-7, 0};
    struct bench b = {.kernels = &level->kernels};
    double best = 1;
    pithi_quant_init(&b.quant, PITH_F32, &bound, false);
    for (int i = 0; i < RUNS; i++) {
        pithi_unpredict_init(&b.sums, cube, 3, sums);
        b.out = out;
        const double start = roofline_clock();
        for (int p = 0; p < PLANES; p++) run(&b);
        const double t = roofline_clock() - start;
        if (t < best) best = t;
    }
    return best * GROUP / MOST / PLANES * 1e9;
}

static void bench_pass(const struct level *level, const char *name,
                       void (*in_steps)(struct bench *), void (*in_pass)(struct bench *)) {
    const size_t bytes = (size_t)PLANES * ROWS * APART;
    uint8_t *const out = aligned_alloc(64, bytes);
    uint32_t *const sums = malloc(sizeof *sums * MOST * PLANES);
    float wave[1024];
    for (size_t i = 0; i < 1024; i++) wave[i] = sinf((float)i * 0.05f);
    if (!strstr(name, bench_only) || !out || !sums) {
        free(out), free(sums);
        return;
    }
    for (size_t i = 0; i < bytes / 4; i++) memcpy(out + 4 * i, &wave[i % 1024], 4);
    least(encode_steps, level, out, sums);
    const double steps = least(in_steps, level, out, sums), pass = least(in_pass, level, out, sums);
    printf("%-12s %-7s order 3  steps %6.3f ns/16  pass %6.3f ns/16 x%4.1f\n", name, level->isa,
           steps, pass, steps / pass);
    free(out), free(sums);
}

void bench_fused_encode(const struct level *level) {
    bench_pass(level, "fused_encode", encode_steps, encode_pass);
}
void bench_fused_decode(const struct level *level) {
    bench_pass(level, "fused_decode", decode_steps, decode_pass);
}

void bench_sample(const struct level *level) {
    enum { REPEATS = 100000 };
    static const struct pithi_bound bound = {PITHI_BOUND_ABSOLUTE, 0x1p-7, 0};
    struct pithi_quant q;
    struct pithi_sample s = {.quant = &q, .lead = GROUP, .count = SAMPLE};
    if (!strstr("sample", bench_only)) return;
    pithi_quant_init(&q, PITH_F32, &bound, false);
    for (size_t i = 0; i < MOST; i++) values[i] = sinf((float)i * 0.05f);
    for (size_t k = 0; k < LINES; k++) s.line[k] = (const uint8_t *)(values + 256 * k);
    for (unsigned most = 1; most <= PITHI_TILE_NDIM; most++) {
        pithi_sample_widths sums = {{0}};
        double start = roofline_clock();
        for (int i = 0; i < REPEATS / 100; i++) scalar_sample(&s, most, sums);
        const double steps = (roofline_clock() - start) * 100;
        start = roofline_clock();
        for (int i = 0; i < REPEATS; i++) level->kernels.sample(&s, most, sums);
        const double pass = roofline_clock() - start;
        printf("%-12s %-7s order %u  scalar %7.1f ns  pass %5.1f ns x%5.1f\n", "sample", level->isa,
               most, steps / REPEATS * 1e9, pass / REPEATS * 1e9, steps / pass);
    }
}
