/* select.c - selection by magnitude, histograms, moments and lists of sets: every length, place and
 * dtype, thresholds at the edges of what there is, hostile values and sums.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = PITHI_MOMENTS_CHUNK, CAPACITY = 4 * MOST + 4096, WORDS = MOST / 64 + 1 };

static struct guarded value_area, residual_area, after_area, set_area, bins_area, list_area;

static void make_areas(void) {
    if (value_area.pages) return;
    value_area = guarded_new(CAPACITY);
    residual_area = guarded_new(CAPACITY);
    after_area = guarded_new(CAPACITY);
    set_area = guarded_new(CAPACITY);
    bins_area = guarded_new(CAPACITY);
    list_area = guarded_new(CAPACITY);
}

/* Where a buffer is: at either end of its pages, aligned to `step`. */
static size_t any_place(size_t step) {
    return check_below(3) ? step * check_below(PLACE_COUNT / step) : PLACE_END;
}

bool bound_select(const struct level *level) {
    return level->kernels.select != pithi_select_c &&
           level->kernels.histogram != pithi_histogram_c &&
           level->kernels.moments != pithi_moments_c;
}
bool bound_set_list(const struct level *level) {
    return level->kernels.set_list != pithi_set_list_c;
}

/* ---- Values and thresholds --------------------------------------------------------------------*/

static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16};
static const char *const dtype_names[] = {"f32", "bf16", "f16"};
enum { DTYPES = 3 };

/* A kind of values and residuals, in buffers between guard pages. */
struct sample {
    int dtype;
    enum fill value, residual; /* FILL_COUNT: no residual */
    struct pithi_select_values from;
};

static size_t bytes_of(const struct sample *s) {
    return s->from.count * (dtypes[s->dtype] == PITH_F32 ? 4 : 2);
}

static void make_sample(struct sample *s, size_t count) {
    static uint8_t value[4 * MOST], residual[4 * MOST];
    s->dtype = (int)check_below(DTYPES);
    s->value = (enum fill)check_below(FILL_COUNT);
    s->residual = check_below(3) ? (enum fill)check_below(FILL_COUNT) : FILL_COUNT;
    s->from = (struct pithi_select_values){.dtype = dtypes[s->dtype], .count = count};
    fill_values(value, dtypes[s->dtype], count, s->value, 7);
    s->from.value = guarded_place(&value_area, any_place(1), value, bytes_of(s));
    if (s->residual == FILL_COUNT) return;
    fill_values(residual, PITH_F32, count, s->residual, 7);
    s->from.residual =
        (const float *)(void *)guarded_place(&residual_area, any_place(4), residual, 4 * count);
}

static void begin(const struct level *level, const char *what, const struct sample *s,
                  uint32_t threshold) {
    check_begin("%s %s: %zu %s %s at %p, residual %s at %p, threshold %08x", what, level->isa,
                s->from.count, dtype_names[s->dtype], fill_names[s->value], s->from.value,
                s->from.residual ? fill_names[s->residual] : "none", (const void *)s->from.residual,
                threshold);
}

static bool inputs_intact(const struct sample *s) {
    return guarded_intact(&value_area) && (!s->from.residual || guarded_intact(&residual_area));
}

/* A magnitude that occurs, or its neighbour; or one at an edge of floats. */
static uint32_t any_threshold(const struct sample *s) {
    static const uint32_t edges[] = {0,           1,           0x007FFFFFu, 0x7F7FFFFFu,
                                     0x7F800000u, 0x7F800001u, 0x7F800002u, 0x7FC00000u,
                                     0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu};
    if (check_below(2) || !s->from.count) return edges[check_below(sizeof edges / sizeof *edges)];
    const size_t i = check_below(s->from.count);
    const uint32_t u = pithi_load(s->from.value, s->from.dtype, i);
    const float x = pithi_float(u) + (s->from.residual ? s->from.residual[i] : 0);
    return pithi_select_magnitude(pithi_bits(x)) + (uint32_t)check_below(3) - 1;
}

/* ---- Comparisons ------------------------------------------------------------------------------*/

static void check_selection(const struct level *level, const struct sample *s) {
    static const uint8_t zeros[4 * MOST];
    static uint64_t set[WORDS];
    static float after[MOST];
    const size_t words = (s->from.count + 63) / 64;
    struct pithi_select_job job = {.from = s->from, .threshold = any_threshold(s), .set = set};
    const bool stores = s->from.residual && check_below(4);
    job.nontemporal = check_below(2);
    job.sent = check_below(2);
    begin(level, "select", s, job.threshold);
    if (stores) job.after = after;
    const size_t wanted = pithi_select_c(&job);
    job.set = (uint64_t *)(void *)guarded_place(&set_area, any_place(8), zeros, 8 * words);
    if (stores)
        job.after =
            (float *)(void *)guarded_place(&after_area, any_place(4), zeros, 4 * s->from.count);
    check_that(level->kernels.select(&job) == wanted, "the number differs");
    check_that(!memcmp(job.set, set, 8 * words), "the set differs");
    check_that(!stores || !memcmp(job.after, after, 4 * s->from.count), "what goes on differs");
    check_that(guarded_intact(&set_area) && inputs_intact(s), "a byte outside changed");
    check_that(!stores || guarded_intact(&after_area), "a byte outside `after` changed");
    check_end();
}

/* At most 1024 bins. */
static void check_histogram(const struct level *level, const struct sample *s) {
    enum { BINS = 1024 };
    static uint32_t bins[BINS];
    struct pithi_histogram_job job = {.from = s->from, .bins = bins};
    job.low = any_threshold(s);
    job.high = any_threshold(s);
    if (check_below(4) == 0) job.low = 0, job.high = 0x80000000u;
    const uint32_t last = job.high > job.low ? job.high - job.low - 1 : 0;
    while (last >> job.shift >= BINS) job.shift++;
    for (size_t k = 0; k < BINS; k++) bins[k] = (uint32_t)check_random();
    const size_t bytes = 4 * ((size_t)(last >> job.shift) + 1);
    uint32_t *const got = (uint32_t *)(void *)guarded_place(&bins_area, any_place(4), bins, bytes);
    begin(level, "histogram", s, job.low);
    const uint64_t wanted = pithi_histogram_c(&job);
    job.bins = got;
    check_that(level->kernels.histogram(&job) == wanted, "the number above differs");
    check_that(!memcmp(got, bins, bytes), "bins differ");
    check_that(guarded_intact(&bins_area) && inputs_intact(s), "a byte outside changed");
    check_end();
}

static void check_moments(const struct level *level, const struct sample *s) {
    struct pithi_moments wanted, got;
    begin(level, "moments", s, 0);
    pithi_moments_c(&s->from, &wanted);
    level->kernels.moments(&s->from, &got);
    check_that(!memcmp(&got, &wanted, offsetof(struct pithi_moments, largest) + 4),
               "the moments differ");
    check_that(inputs_intact(s), "a byte outside changed");
    check_end();
}

void check_select(const struct level *level) {
    make_areas();
    for (size_t n = 0; n < 6000; n++) {
        struct sample s;
        make_sample(&s, n < 4000 ? n / 10 : check_below(MOST + 1));
        const uint64_t host = pithi_fp_enter();
        check_selection(level, &s);
        check_histogram(level, &s);
        check_moments(level, &s);
        pithi_fp_leave(host);
    }
}

void check_set_list(const struct level *level) {
    static uint64_t set[WORDS];
    static uint32_t list[64 * WORDS + PITHI_INDEX_SLACK];
    make_areas();
    for (size_t n = 0; n < 2000; n++) {
        const size_t words = check_below(n % 2 ? 4 : WORDS);
        const size_t sparse = check_below(10);
        for (size_t w = 0; w < words; w++) {
            set[w] = check_random();
            for (size_t k = 0; k < sparse; k++) set[w] &= check_random();
            if (check_below(20) == 0) set[w] = UINT64_MAX;
        }
        check_begin("list %s: %zu words", level->isa, words);
        const size_t wanted = pithi_set_list_c(set, words, list);
        const void *const from = guarded_place(&set_area, any_place(8), set, 8 * words);
        void *const to =
            guarded_place(&list_area, any_place(4), list, 4 * (wanted + PITHI_INDEX_SLACK));
        memset(to, 0xA5, 4 * wanted);
        check_that(level->kernels.set_list(from, words, to) == wanted, "the number differs");
        check_that(!memcmp(to, list, 4 * wanted), "the list differs");
        check_that(guarded_intact(&set_area) && guarded_intact(&list_area),
                   "a byte outside changed");
        check_end();
    }
}

/* ---- Speed ------------------------------------------------------------------------------------*/

/* Half a GiB of f32, more than caches have, in pieces as blocks are. */
enum { COUNT = 1 << 27, PIECE = 1 << 21, RUNS = 7 };

enum subject_kind { SELECT, HISTOGRAM, MOMENTS };

struct subject {
    const char *name;
    enum subject_kind kind;
    uint32_t dtype;
    bool feedback;
    double share; /* of the elements that are selected, or in bins */
};

struct arrays {
    uint8_t *value, *residual, *after;
    uint64_t *set;
    uint32_t *bins;
};

static int by_magnitude(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The magnitude that this share of all x reaches. */
static uint32_t threshold_of(const struct subject *s, const struct arrays *a) {
    enum { SAMPLE = 1 << 18 };
    static uint32_t magnitude[SAMPLE];
    for (size_t i = 0; i < SAMPLE; i++) {
        const float x = pithi_float(pithi_load(a->value, s->dtype, i));
        const float more = s->feedback ? pithi_float(pithi_load(a->residual, PITH_F32, i)) : 0;
        magnitude[i] = pithi_select_magnitude(pithi_bits(more + x));
    }
    qsort(magnitude, SAMPLE, sizeof *magnitude, by_magnitude);
    return s->share < 1 ? magnitude[(size_t)(SAMPLE * (1 - s->share))] : 0;
}

static double run_kernel(const struct pithi_kernels *k, const struct subject *s,
                         const struct arrays *a, uint32_t threshold, size_t count) {
    const size_t piece = s->kind == MOMENTS ? PITHI_MOMENTS_CHUNK : PIECE;
    const size_t width = s->dtype == PITH_F32 ? 4 : 2;
    const uint64_t host = pithi_fp_enter();
    const double start = roofline_clock();
    struct pithi_moments m;
    for (size_t i = 0; i < count; i += piece) {
        const struct pithi_select_values from = {
            a->value + width * i, s->dtype, piece,
            s->feedback ? (const float *)(const void *)(a->residual + 4 * i) : NULL};
        const struct pithi_select_job job = {
            from,
            threshold,
            a->set + i / 64,
            s->feedback ? (float *)(void *)(a->after + 4 * i) : NULL,
            true,
            true};
        /* A thousand bins, from the threshold up. */
        const struct pithi_histogram_job bins = {from, threshold, 0x7F800000u,
                                                 s->share < 1 ? 16 : 21, a->bins};
        switch (s->kind) {
        case SELECT: k->select(&job); break;
        case HISTOGRAM: k->histogram(&bins); break;
        default: k->moments(&from, &m);
        }
    }
    const double seconds = roofline_clock() - start;
    pithi_fp_leave(host);
    return seconds;
}

/* A baseline of the same bytes. */
static double run_roofline(const struct subject *s, const struct arrays *a, int variant) {
    const size_t bytes = (s->dtype == PITH_F32 ? 4ul : 2ul) * COUNT;
    if (!s->feedback) return roofline_read(a->value, bytes);
    struct roofline_baseline m = {.read = {a->value, a->residual},
                                  .read_bytes = {bytes, 4ul * COUNT},
                                  .write = {s->kind == SELECT ? a->after : NULL},
                                  .write_bytes = {4ul * COUNT}};
    return roofline_move(&m, variant);
}

static void bench_subject(const struct level *level, const struct subject *s,
                          const struct arrays *a) {
    enum { SOME = 1 << 22 };
    double kernel[RUNS], roofline[BASELINE_VARIANTS][RUNS], least = 1e9;
    struct pithi_kernels scalar;
    pithi_kernels_bind(&scalar, 0);
    for (size_t i = 0; i < 2; i++) {
        uint8_t *const p = i ? a->residual : a->value;
        const uint32_t dtype = i ? PITH_F32 : s->dtype;
        const size_t part = (dtype == PITH_F32 ? 4ul : 2ul) * SOME;
        fill_values(p, dtype, SOME, FILL_GAUSS, 7);
        for (size_t at = part; at < COUNT / SOME * part; at += part) memcpy(p + at, p, part);
    }
    const uint32_t threshold = threshold_of(s, a);
    run_kernel(&level->kernels, s, a, threshold, COUNT);
    for (int run = 0; run < RUNS; run++) {
        for (int v = 0; v < BASELINE_VARIANTS; v++) roofline[v][run] = run_roofline(s, a, v);
        kernel[run] = run_kernel(&level->kernels, s, a, threshold, COUNT);
    }
    for (int v = 0; v < BASELINE_VARIANTS; v++)
        if (median(roofline[v], RUNS) < least) least = median(roofline[v], RUNS);
    const double seconds = median(kernel, RUNS),
                 reference = run_kernel(&scalar, s, a, threshold, SOME);
    printf("%-7s %-36s scalar %5.2f  kernel %5.2f G elements/s  x%5.1f  of roofline %.2f\n",
           level->isa, s->name, SOME * 1e-9 / reference, COUNT * 1e-9 / seconds,
           reference / SOME / (seconds / COUNT), least / seconds);
    fflush(stdout);
}

static const struct subject subjects[] = {
    {"select 0.001 of f32", SELECT, PITH_F32, false, 0.001},
    {"select 0.001 of f32 and residual", SELECT, PITH_F32, true, 0.001},
    {"select 0.1 of f32 and residual", SELECT, PITH_F32, true, 0.1},
    {"select 0.001 of bf16", SELECT, PITH_BF16, false, 0.001},
    {"select 0.001 of bf16 and residual", SELECT, PITH_BF16, true, 0.001},
    {"select 0.001 of f16", SELECT, PITH_F16, false, 0.001},
    {"select 0.001 of f16 and residual", SELECT, PITH_F16, true, 0.001},
    {"histogram of 0.005 of f32", HISTOGRAM, PITH_F32, false, 0.005},
    {"histogram of 0.005 of f32 and residual", HISTOGRAM, PITH_F32, true, 0.005},
    {"histogram of all f32", HISTOGRAM, PITH_F32, false, 1},
    {"moments of f32", MOMENTS, PITH_F32, false, 1},
    {"moments of f32 and residual", MOMENTS, PITH_F32, true, 1},
    {"moments of bf16", MOMENTS, PITH_BF16, false, 1},
};

void bench_select(const struct level *level) {
    struct arrays a = {malloc(4ul * COUNT), malloc(4ul * COUNT), malloc(4ul * COUNT),
                       malloc(COUNT / 8), calloc(1 << 16, 4)};
    if (a.value && a.residual && a.after && a.set && a.bins) {
        roofline_fill(a.after, 4ul * COUNT, false);
        for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
            if (strstr(subjects[i].name, bench_only)) bench_subject(level, &subjects[i], &a);
    }
    free(a.value);
    free(a.residual);
    free(a.after);
    free(a.set);
    free(a.bins);
}

/* So many elements that no branch predictor remembers which belong to the set. */
enum { LIST_COUNT = 1 << 24, LIST_WORDS = LIST_COUNT / 64 };

static double run_list(const struct pithi_kernels *k, const uint64_t *set, uint32_t *list) {
    double t[RUNS];
    for (int run = 0; run < RUNS; run++) {
        const double start = roofline_clock();
        k->set_list(set, LIST_WORDS, list);
        t[run] = roofline_clock() - start;
    }
    return median(t, RUNS);
}

void bench_set_list(const struct level *level) {
    static const double shares[] = {0.0001, 0.001, 0.01, 0.03, 0.1, 0.25, 0.5};
    struct pithi_kernels scalar;
    uint64_t *const set = malloc(8ul * LIST_WORDS);
    uint32_t *const list = malloc(4ul * (LIST_COUNT + PITHI_INDEX_SLACK));
    pithi_kernels_bind(&scalar, 0);
    for (size_t s = 0; s < sizeof shares / sizeof *shares && set && list; s++) {
        if (!strstr("list", bench_only)) break;
        memset(set, 0, 8ul * LIST_WORDS);
        for (size_t i = 0; i < LIST_COUNT; i++)
            if ((double)(check_random() >> 11) * 0x1p-53 < shares[s])
                set[i / 64] |= UINT64_C(1) << i % 64;
        const double reference = run_list(&scalar, set, list);
        const double kernel = run_list(&level->kernels, set, list);
        const size_t found = pithi_set_list_c(set, LIST_WORDS, list);
        printf(
            "%-7s list %-6g of 2^24  scalar %6.1f  kernel %6.1f G elements/s  %5.2f G numbers/s  "
            "x%4.1f\n",
            level->isa, shares[s], LIST_COUNT * 1e-9 / reference, LIST_COUNT * 1e-9 / kernel,
            (double)found * 1e-9 / kernel, reference / kernel);
    }
    free(set);
    free(list);
}
