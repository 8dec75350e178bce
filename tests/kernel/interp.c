/* interp.c - runs of interpolation: kernels against the scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 3000, CAPACITY = MOST * 4 + 4096, KINDS = PITHI_INTERP_COPY + 1 };
/* Neighbours a, b, c, e; then values or words that are read; then y, then words, written. */
enum { X = 4, Y = 5, WORDS = 6, AREAS = 7 };

struct shape {
    struct pithi_interp_run run;
    size_t n;
    enum fill fill, near; /* of the values and of the neighbours */
    size_t place[AREAS];
};

static struct guarded area[AREAS];
static uint8_t *data[AREAS];

bool bound_interp(const struct level *level) {
    return level->kernels.interp_encode != pithi_interp_encode_c &&
           level->kernels.interp_weigh != pithi_interp_weigh_c &&
           level->kernels.interp_fit != pithi_interp_fit_c &&
           level->kernels.interp_decode != pithi_interp_decode_c;
}

static void begin(const struct level *level, const char *what, const struct shape *s) {
    check_begin(
        "interp %s %s: kind %d, dtype %u, %zu values %u apart, %s from %s, bound %a, signed zeros "
        "%d",
        level->isa, what, (int)s->run.kind, s->run.dtype, s->n, s->run.apart, fill_names[s->fill],
        fill_names[s->near], (double)s->run.bound, s->run.signed_zeros);
}

static const float *neighbour(const struct shape *s, int k) {
    return (const float *)(void *)guarded_place(&area[k], s->place[k], data[k], 4 * s->n);
}

static struct pithi_interp_run aimed(const struct shape *s) {
    struct pithi_interp_run run = s->run;
    const bool cubic = run.kind == PITHI_INTERP_CUBIC;
    run.a = neighbour(s, 0);
    if (run.kind <= PITHI_INTERP_LINEAR) run.b = neighbour(s, 1);
    if (cubic || run.kind == PITHI_INTERP_LEFT || run.kind == PITHI_INTERP_BEYOND)
        run.c = neighbour(s, 2);
    if (cubic || run.kind == PITHI_INTERP_RIGHT) run.e = neighbour(s, 3);
    return run;
}

static bool all_intact(void) {
    for (int k = 0; k < AREAS; k++)
        if (!guarded_intact(&area[k])) return false;
    return true;
}

static void check_encode(const struct level *level, const struct shape *s) {
    static float y[MOST];
    static uint32_t words[MOST];
    const size_t bytes = 4 * s->n;
    begin(level, "encode", s);
    const struct pithi_interp_run run = aimed(s);
    const size_t read = s->n ? 4 * (s->run.apart * (s->n - 1) + 1) : 0;
    const uint8_t *x = guarded_place(&area[X], s->place[X], data[X], read);
    uint8_t *const to = guarded_place(&area[Y], s->place[Y], data[Y], bytes);
    uint8_t *const out = guarded_place(&area[WORDS], s->place[WORDS], data[WORDS], bytes);
    const bool missed = pithi_interp_encode_c(&run, x, s->n, y, words);
    const bool got =
        level->kernels.interp_encode(&run, x, s->n, (float *)(void *)to, (uint32_t *)(void *)out);
    check_that(got == missed, "misses differ");
    check_that(!bytes || memcmp(to, y, bytes) == 0, "reconstructions differ");
    check_that(!bytes || memcmp(out, words, bytes) == 0, "words differ");
    check_that(all_intact(), "a byte outside changed");
    check_end();
}

static void check_decode(const struct level *level, const struct shape *s) {
    static float y[MOST];
    const size_t bytes = 4 * s->n;
    begin(level, "decode", s);
    const struct pithi_interp_run run = aimed(s);
    const uint8_t *const words = guarded_place(&area[X], s->place[X] & ~(size_t)3, data[X], bytes);
    uint8_t *const to = guarded_place(&area[Y], s->place[Y], data[Y], bytes);
    pithi_interp_decode_c(&run, (const uint32_t *)(const void *)words, s->n, y);
    level->kernels.interp_decode(&run, (const uint32_t *)(const void *)words, s->n,
                                 (float *)(void *)to);
    check_that(!bytes || memcmp(to, y, bytes) == 0, "values differ");
    check_that(all_intact(), "a byte outside changed");
    check_end();
}

/* Bounds from far below the values' precision to far above their range. */
static void set_level(struct pithi_interp_run *run) {
    const float power = pithi_float((uint32_t)(127 - 20 + check_below(24)) << 23);
    run->bound = check_below(20) ? power * (1.0f + (float)check_below(1000) * 0.001f)
                                 : pithi_float((uint32_t)check_below(0x7F000000u));
    run->step = 2 * run->bound * (check_below(2) ? 1.0f : 0.64f);
    run->inverse = pithi_quant_inverse(run->step);
}

static struct shape random_shape(enum pithi_interp_kind kind) {
    static const uint32_t dtypes[4] = {PITH_F32, PITH_F32, PITH_BF16, PITH_F16};
    struct shape s = {.run = {.kind = kind, .dtype = dtypes[check_below(4)]}};
    s.run.signed_zeros = check_below(2);
    s.run.apart = 1 + (unsigned)check_below(2);
    s.near = check_below(4) ? FILL_GAUSS : (enum fill)check_below(FILL_COUNT);
    s.fill = check_below(3) ? s.near : (enum fill)check_below(FILL_COUNT);
    for (int k = 0; k < AREAS; k++) {
        s.place[k] = check_below(3) ? check_below(PLACE_COUNT) : PLACE_END;
        if (k != X && s.place[k] != PLACE_END) s.place[k] &= ~(size_t)3;
    }
    set_level(&s.run);
    return s;
}

/* Values near what the neighbours predict, unless they are of another kind. */
static void fill_areas(const struct shape *s) {
    for (int k = 0; k < 4; k++) fill_values(data[k], PITH_F32, s->n, s->near, 7);
    fill_values(data[X], PITH_F32, s->run.apart * s->n, s->fill, 7);
    if (s->fill == s->near)
        for (size_t i = 0; i < s->n; i++)
            if (check_below(8)) memcpy(data[X] + 4 * s->run.apart * i, data[0] + 4 * i, 4);
}

static bool same_number(float a, float b) {
    return (a != a && b != b) || pithi_bits(a) == pithi_bits(b);
}

/* Sums of neighbours that may be anywhere in an area, which is longer than the sums. */
static void check_weigh(const struct level *level, const struct shape *s) {
    enum { FARTHER = 100 };
    static float expected[MOST];
    struct pithi_interp_terms t = {.terms = check_below(PITHI_WEIGHTED_TERMS + 1)};
    size_t points = 0;
    for (size_t k = 0; k < t.terms; k++) {
        const bool many = points + 8 + 2 * (t.terms - k) <= PITHI_WEIGHTED_POINTS;
        t.points[k] = (uint8_t)(2u << (many ? check_below(3) : 0));
        t.weight[k] = (float)((int)check_below(1 << 24) - (1 << 23)) * 0x1p-22f;
        for (unsigned i = 0; i < t.points[k]; i++)
            t.distance[points++] = (ptrdiff_t)check_below(FARTHER + 1) - FARTHER / 2;
    }
    const size_t read = 4 * (s->n + FARTHER);
    fill_values(data[0], PITH_F32, s->n + FARTHER, s->near, 7);
    t.from = (const float *)(void *)guarded_place(&area[0], s->place[0], data[0], read);
    t.from += FARTHER / 2;
    uint8_t *const to = guarded_place(&area[Y], s->place[Y], data[Y], 4 * s->n);
    begin(level, "weigh", s);
    pithi_interp_weigh_c(&t, s->n, expected);
    level->kernels.interp_weigh(&t, s->n, (float *)(void *)to);
    bool same = true;
    for (size_t i = 0; i < s->n; i++) {
        float sum;
        memcpy(&sum, to + 4 * i, 4);
        same = same && same_number(sum, expected[i]);
    }
    check_that(same, "predictions differ");
    check_that(all_intact(), "a byte outside changed");
    check_end();
}

/* Equations that go on from others, of samples with and without values that do not count. */
static void check_fit(const struct level *level, enum fill fill) {
    struct pithi_interp_sample s = {.terms = check_below(PITHI_WEIGHTED_TERMS + 1), .step = 0.01f};
    struct pithi_equations expected, e;
    s.count = check_below(2) ? 16 + 16 * check_below(2) : check_below(PITHI_WEIGHTED_SAMPLE + 1);
    fill_values(s.value, PITH_F32, PITHI_WEIGHTED_SAMPLE, fill, 7);
    fill_values(s.term, PITH_F32, s.terms * PITHI_WEIGHTED_SAMPLE, fill, 7);
    for (size_t k = 0; k < s.terms; k++)
        s.weight[k] = (float)((int)check_below(1 << 24) - (1 << 23)) * 0x1p-22f;
    for (size_t k = 0; k < PITHI_WEIGHTED_TERMS; k++) {
        e.vector[k] = (double)check_below(1000);
        for (size_t m = 0; m < PITHI_WEIGHTED_TERMS; m++)
            e.matrix[k][m] = (double)check_below(1000);
    }
    expected = e;
    check_begin("interp %s fit: %zu values of %zu terms", level->isa, s.count, s.terms);
    pithi_interp_fit_c(&s, &expected);
    level->kernels.interp_fit(&s, &e);
    check_that(!memcmp(e.vector, expected.vector, s.terms * sizeof e.vector[0]), "vectors differ");
    for (size_t k = 0; k < s.terms; k++)
        check_that(!memcmp(e.matrix[k], expected.matrix[k], (k + 1) * sizeof e.matrix[k][0]),
                   "matrices differ");
    check_end();
}

static void check_both(const struct level *level, const struct shape *s) {
    fill_areas(s);
    const uint64_t host = pithi_fp_enter();
    check_encode(level, s);
    check_weigh(level, s);
    check_fit(level, s->fill);
    for (size_t i = 0; i < s->n; i++) {
        const uint32_t word = (uint32_t)check_random() >> check_below(32);
        pithi_put32(data[X] + 4 * i, word);
    }
    check_decode(level, s);
    pithi_fp_leave(host);
}

void check_interp(const struct level *level) {
    for (int k = 0; k < AREAS; k++) {
        if (!area[k].pages) area[k] = guarded_new(CAPACITY);
        data[k] = calloc(1, CAPACITY);
        check_begin("interp %s: memory", level->isa);
        check_that(data[k] != NULL, "malloc failed");
        check_end();
        if (!data[k]) return;
    }
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t n = 0; n <= 400; n++) {
            struct shape s = random_shape((enum pithi_interp_kind)kind);
            s.n = n < 300 ? n : check_below(MOST / s.run.apart);
            check_both(level, &s);
        }
    for (int k = 0; k < AREAS; k++) free(data[k]);
}

/* ---- Speed: runs that are in the cache -------------------------------------------------------*/

struct timing {
    double encode, decode;
};

enum { BENCH = 4096 };
static float values[BENCH], near[2 * BENCH], rebuilt[BENCH];
static uint32_t bench_words[BENCH];

static struct timing measure(const struct pithi_kernels *k, const struct pithi_interp_run *run,
                             int repeats) {
    enum { RUNS = 9 };
    double encode[RUNS], decode[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const double start = roofline_clock();
        for (int j = 0; j < repeats; j++)
            k->interp_encode(run, values, BENCH, rebuilt, bench_words);
        const double middle = roofline_clock();
        for (int j = 0; j < repeats; j++) k->interp_decode(run, bench_words, BENCH, rebuilt);
        encode[i] = (middle - start) / repeats / BENCH;
        decode[i] = (roofline_clock() - middle) / repeats / BENCH;
    }
    return (struct timing){median(encode, RUNS), median(decode, RUNS)};
}

void bench_interp(const struct level *level) {
    struct pithi_kernels scalar;
    if (!strstr("interp", bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    fill_values(values, PITH_F32, BENCH, FILL_GAUSS, 7);
    fill_values(near, PITH_F32, 2 * BENCH, FILL_GAUSS, 7);
    struct pithi_interp_run run = {.a = near, .b = near + 64, .c = near + 128, .e = near + 192};
    run.dtype = PITH_F32;
    run.bound = 0.01f;
    run.step = 0.02f;
    run.inverse = pithi_quant_inverse(run.step);
    run.apart = 1;
    const struct timing kernel = measure(&level->kernels, &run, 4000);
    const struct timing reference = measure(&scalar, &run, 100);
    printf("interp %-7s in cache  encode %6.2f GB/s x%5.1f  decode %6.2f GB/s x%5.1f\n", level->isa,
           4e-9 / kernel.encode, reference.encode / kernel.encode, 4e-9 / kernel.decode,
           reference.decode / kernel.decode);
    fflush(stdout);
}
