/* test_control.c - controllers: what they select in training, by hand, of values without a k-th.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "sparse/control.h"
#include "sparse/control_value.h"
#include "sparse/numbers.h"
#include "util.h"

static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}
static double uniform(void) { return ((double)(draw() >> 11) + 0.5) * 0x1p-53; }
static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* ---- A view of an array ----------------------------------------------------------------------*/

struct array {
    const float *x;
    size_t n;
    int looks; /* how often the rule looked at the values */
    int fails; /* which look fails, from 1; 0: none */
    /* The last sample, and the sum of magnitudes of all elements that were sampled. */
    uint64_t first, stride, sampled;
    double magnitudes;
};

static uint32_t magnitude(float x) { return bits_of(x) & 0x7FFFFFFFu; }

static pith_status looked(struct array *a) {
    return ++a->looks == a->fails ? PITH_ERR_RUNNER : PITH_OK;
}

static int descending(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static uint32_t kth_of(const float *x, size_t n, uint64_t k) {
    uint32_t *sorted = allocate(n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = magnitude(x[i]);
    qsort(sorted, n, sizeof *sorted, descending);
    const uint32_t t = sorted[k - 1];
    free(sorted);
    return t;
}

static uint64_t count_of(const float *x, size_t n, uint32_t t) {
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) count += magnitude(x[i]) >= t;
    return count;
}

static pith_status look_kth(void *from, uint64_t k, uint32_t *t) {
    struct array *a = from;
    CHECK(k >= 1 && k < a->n);
    *t = kth_of(a->x, a->n, k);
    return looked(a);
}

static pith_status look_count(void *from, uint32_t t, uint64_t *elements) {
    struct array *a = from;
    *elements = count_of(a->x, a->n, t);
    return looked(a);
}

static pith_status look_moments(void *from, struct pithi_moments *m) {
    struct array *a = from;
    *m = (struct pithi_moments){0};
    for (size_t i = 0; i < a->n; i++) {
        if (nonfinite(bits_of(a->x[i]))) continue;
        const double x = a->x[i];
        m->sum += x, m->squares += x * x, m->magnitudes += fabs(x), m->finite++;
        if (magnitude(a->x[i]) > m->largest) m->largest = magnitude(a->x[i]);
    }
    return looked(a);
}

static pith_status look_sample(void *from, const struct pithi_places *at, float *x) {
    struct array *a = from;
    CHECK(at->count <= PITHI_CONTROL_SAMPLE);
    for (size_t i = 0; i < at->count; i++) {
        const uint64_t place = pithi_places_at(at, i);
        CHECK(place < a->n);
        x[i] = a->x[place];
        a->magnitudes += fabs(x[i]);
    }
    a->first = at->first, a->stride = at->stride, a->sampled += at->count;
    return looked(a);
}

static float scratch[PITHI_CONTROL_SAMPLE];

static struct pithi_control_view view_of(struct array *a, uint64_t step) {
    return (struct pithi_control_view){a,           look_kth, look_count, look_moments,
                                       look_sample, scratch,  step};
}

static struct pithi_control_setting setting_of(enum pithi_control_kind kind, uint64_t k, size_t n,
                                               uint32_t every) {
    return (struct pithi_control_setting){.kind = kind, .k = k, .n = n, .every = every};
}

/* Chooses and counts, as a step of one rank does; returns how many elements were selected. */
static uint64_t select_with(const struct pithi_control_setting *setting, struct array *a,
                            struct pithi_control_state *state, uint32_t *t) {
    const struct pithi_control_view view = view_of(a, state->steps);
    CHECK(pithi_control_legal(state));
    CHECK_OK(pithi_control_choose(setting, &view, state, t));
    CHECK(*t >= 1);
    state->selected = count_of(a->x, a->n, *t);
    CHECK(pithi_control_legal(state));
    return state->selected;
}

static struct array normals(size_t n, double deviation) {
    float *x = allocate(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (float)(deviation * normal());
    return (struct array){.x = x, .n = n};
}

/* ---- Numbers ---------------------------------------------------------------------------------*/

static void test_numbers_against_libm(void **state) {
    (void)state;
    for (double x = 0x1p-20; x <= 0x1p20; x *= 1.001)
        CHECK(fabs(pithi_root20(x) / pow(x, 0.05) - 1) < 1e-15);
    for (double x = 1e-300; x < 1e300; x *= 1.01) {
        const double wanted = log(x);
        CHECK(fabs(pithi_ln(x) - wanted) < 1e-15 * fmax(1, fabs(wanted)));
    }
    for (double z = 0.001; z < 37; z *= 1.003)
        CHECK(fabs(pithi_normal_exceeded(erfc(z / sqrt(2)) / 2) / z - 1) < 2e-9);
    CHECK(pithi_normal_exceeded(0.5) == 0);
}

static void test_numbers_are_the_same_everywhere(void **state) {
    (void)state;
    CHECK(pithi_root20(3) == 0x1.0e74a43b836eap+0);
    CHECK(pithi_ln(10) == 0x1.26bb1bbb55515p+1);
    CHECK(pithi_normal_exceeded(0.001) == 0x1.8b8cbb6ee2822p+1);
    CHECK(pithi_normal_exceeded(0.3) == 0x1.0c7e395d14936p-1);
}

/* ---- Rules by hand ---------------------------------------------------------------------------*/

/* Chooses with a state that a step of threshold 1 has left which selected so many. */
static float after_one(enum pithi_control_kind kind, uint64_t k, uint64_t selected) {
    static const float x[2000];
    struct array a = {.x = x, .n = 2000};
    const struct pithi_control_setting setting = setting_of(kind, k, a.n, 100);
    const struct pithi_control_view view = view_of(&a, 1);
    struct pithi_control_state state = {1, selected, bits_of(1), bits_of(1)};
    uint32_t t;
    CHECK(pithi_control_legal(&state));
    CHECK_OK(pithi_control_choose(&setting, &view, &state, &t));
    CHECK(state.steps == 2 && state.threshold == t);
    return float_of(t);
}

static void test_prop(void **state) {
    (void)state;
    CHECK(after_one(PITHI_CONTROL_PROP, 1000, 1000) == 1);
    CHECK(after_one(PITHI_CONTROL_PROP, 1000, 2000) == (float)pow(2, 0.05));
    CHECK(after_one(PITHI_CONTROL_PROP, 1000, 800) == (float)pow(0.8, 0.05));
    CHECK(after_one(PITHI_CONTROL_PROP, 1000, 900) == (float)(0.9975 * (double)0.9998f));
    CHECK(after_one(PITHI_CONTROL_PROP, 1000, 0) == 0.5f);
    CHECK(after_one(PITHI_CONTROL_PROP, 1000, UINT64_MAX) == 2);
    struct array a = normals(5000, 3);
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_PROP, 50, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t;
    CHECK(select_with(&setting, &a, &s, &t) == 50);
    CHECK(t == kth_of(a.x, a.n, 50) && s.threshold == t && a.looks == 1);
    CHECK(select_with(&setting, &a, &s, &t) == 50);
    CHECK(a.looks == 1);
    free((void *)a.x);
}

/* Where every step selects 5 % less than it should, the trend alone takes over more and more, and
 * stops at 2 %; a trend that a damaged stream brings is taken for the nearest that there is. */
static void test_prop_follows_a_trend(void **state) {
    (void)state;
    uint32_t word = 0;
    CHECK(pithi_control_prop(1, &word) == 1 && word == bits_of(1));
    CHECK(fabs(pithi_control_prop(0.95, &word) - 0.99875 * 0.9999) < 1e-7);
    const double once = pithi_prop_trend(word);
    CHECK(pithi_control_prop(0.5, &word) == pithi_root20(0.5) * once);
    CHECK(pithi_prop_trend(word) == once);
    for (int i = 0; i < 2000; i++) pithi_control_prop(0.95, &word);
    CHECK(pithi_prop_trend(word) == 0.98f);
    for (int i = 0; i < 4000; i++) pithi_control_prop(1.05, &word);
    CHECK(pithi_prop_trend(word) == 1.02f);
    static const uint32_t hostile[] = {1, 0x00800000u, 0x7F7FFFFFu};
    for (int i = 0; i < 3; i++) {
        word = hostile[i];
        pithi_control_prop(3, &word);
        CHECK(pithi_prop_trend(word) == (i < 2 ? 0.98f : 1.02f));
        CHECK(pithi_prop_marks(word) <= 82);
    }
}

/* A tenth of a step is left out for each count that swings, up to 40 times; each count on one side
 * undoes two of them, and those near k none. */
static void test_prop_damps_swings(void **state) {
    (void)state;
    uint32_t word = 0;
    const double up = pithi_root20(2) - 1, down = pithi_root20(0.5) - 1;
    for (int i = 0; i < 50; i++) {
        const double step = pithi_control_prop(i % 2 ? 0.5 : 2, &word) - 1;
        CHECK(fabs(step / (i % 2 ? down : up) / pow(0.9, i < 40 ? i : 40) - 1) < 1e-12);
    }
    const uint32_t damped = word;
    for (int i = 0; i < 50; i++) CHECK(pithi_control_prop(i % 2 ? 0.95 : 1.05, &word) > 0);
    CHECK(pithi_prop_marks(word) == pithi_prop_marks(damped));
    word = damped;
    for (int i = 0; i < 50; i++) {
        const double step = pithi_control_prop(0.5, &word) - 1;
        CHECK(fabs(step / down / pow(0.9, i < 20 ? 38 - 2 * i : 0) - 1) < 1e-12);
    }
    /* Counts that take turns by three do not damp for long. */
    word = 0;
    for (int i = 0; i < 60; i++) {
        pithi_control_prop(i % 3 ? 2 : 0.5, &word);
        CHECK((pithi_prop_marks(word) - 1) / 2 <= 2);
    }
    /* The trend leaves the square of the share. */
    word = 0;
    pithi_control_prop(2, &word), pithi_control_prop(0.5, &word), pithi_control_prop(2, &word);
    CHECK(fabs(pithi_control_prop(0.9, &word) / (1 - 0.729 * 0.0025) - 1) < 0.0002);
    CHECK(pithi_prop_trend(word) == (float)(1 - 0.0002 * 0.729 * 0.729));
}

/* What is remembered is a word whatever the trend, and the trend of streams that were saved when
 * there was nothing else is read as it was. */
static void test_prop_remembers_in_one_word(void **state) {
    (void)state;
    static const float trends[] = {0.98f, 0.999f, 1, 1.0001f, 1.02f};
    for (int i = 0; i < 5; i++) {
        CHECK(pithi_prop_marks(bits_of(trends[i])) == 0);
        CHECK(pithi_prop_trend(bits_of(trends[i])) == trends[i]);
        uint32_t word = bits_of(trends[i]);
        for (uint32_t step = 0; step < 100; step++) {
            const struct pithi_control_state s = {1, 1, bits_of(1), word};
            const uint32_t marks = pithi_prop_marks(word), degree = marks ? (marks - 1) / 2 : 0;
            CHECK(pithi_control_legal(&s));
            CHECK(degree == (step == 0 ? 0 : step < 41 ? step - 1 : 40));
            pithi_control_prop(step % 2 ? 0.5 : 2, &word);
            CHECK(pithi_prop_trend(word) == trends[i]);
        }
    }
}

static void test_micro_as_coded_and_as_meant(void **state) {
    (void)state;
    static const struct {
        uint64_t selected;
        double coded, meant;
    } steps[] = {{1101, 1.005, 1.005},    {1100, 1.00125, 1.00125}, {1001, 1.00125, 1.00125},
                 {1000, 1.00125, 0.9987}, {910, 1.00125, 0.9987},   {909, 0.995, 0.995},
                 {0, 0.995, 0.995}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        context("%u selected of 1000", (unsigned)steps[i].selected);
        CHECK(after_one(PITHI_CONTROL_MICRO, 1000, steps[i].selected) == (float)steps[i].coded);
        CHECK(after_one(PITHI_CONTROL_MICRO_SYMMETRIC, 1000, steps[i].selected) ==
              (float)steps[i].meant);
    }
    struct array a = normals(100, 1);
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_MICRO, 25, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t;
    select_with(&setting, &a, &s, &t);
    CHECK(float_of(t) == 0.1f && a.looks == 0);
    free((void *)a.x);
}

static void test_counts_of_all_ranks_are_compared_with_what_all_select(void **state) {
    (void)state;
    static const enum pithi_control_kind kinds[] = {PITHI_CONTROL_PROP, PITHI_CONTROL_MICRO,
                                                    PITHI_CONTROL_MICRO_SYMMETRIC,
                                                    PITHI_CONTROL_OKTOPK};
    static const float x[2000];
    for (int i = 0; i < 4; i++) {
        struct array a = {.x = x, .n = 2000};
        struct pithi_control_setting setting = setting_of(kinds[i], 100, a.n, 100);
        const struct pithi_control_view view = view_of(&a, 1);
        struct pithi_control_state s = {1, 1600, bits_of(1), 0};
        uint32_t t;
        setting.all = 800;
        context("kind %d", kinds[i]);
        CHECK_OK(pithi_control_choose(&setting, &view, &s, &t));
        CHECK(float_of(t) == after_one(kinds[i], 100, 200));
    }
    struct array a = {.x = x, .n = 2000};
    struct pithi_control_setting setting = setting_of(PITHI_CONTROL_MICRO, 100, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t;
    setting.all = 400;
    select_with(&setting, &a, &s, &t);
    CHECK(float_of(t) == 0.025f);
}

static void test_every_refreshes_in_its_steps_alone(void **state) {
    (void)state;
    float *x = allocate(1000 * sizeof *x);
    struct array a = {.x = x, .n = 1000};
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_EVERY, 100, a.n, 3);
    struct pithi_control_state s = {0};
    for (int step = 0; step < 7; step++) {
        uint32_t t;
        for (int i = 0; i < 1000; i++) x[i] = (float)(i + 1 + 50 * step);
        const uint64_t selected = select_with(&setting, &a, &s, &t);
        context("step %d", step);
        CHECK(float_of(t) == (float)(901 + 50 * (step / 3 * 3)));
        CHECK(selected == 100 + 50 * (uint64_t)(step % 3));
    }
    free(x);
}

static void test_oktopk_corrects_in_between(void **state) {
    (void)state;
    float *x = allocate(1000 * sizeof *x);
    struct array a = {.x = x, .n = 1000};
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_OKTOPK, 100, a.n, 4);
    struct pithi_control_state s = {0};
    uint32_t t;
    for (int i = 0; i < 1000; i++) x[i] = (float)(i + 1);
    CHECK(select_with(&setting, &a, &s, &t) == 100);
    /* 550 elements reach 901 of twice the values: five raises do not suffice, and are this step's
     * alone. */
    for (int i = 0; i < 1000; i++) x[i] = (float)(2 * (i + 1));
    a.looks = 0;
    select_with(&setting, &a, &s, &t);
    float raised = 901;
    for (int i = 0; i < 5; i++) raised = (float)(raised * 1.03);
    CHECK(float_of(t) == raised && float_of(s.threshold) == 901 && a.looks == 5);
    /* Too many were selected, and of a tenth of the values none will be. */
    for (int i = 0; i < 1000; i++) x[i] = (float)(i + 1) / 10;
    CHECK(select_with(&setting, &a, &s, &t) == 0);
    CHECK(float_of(t) == (float)(901 * 1.012) && s.threshold == t);
    const float last = float_of(t);
    select_with(&setting, &a, &s, &t);
    CHECK(float_of(t) == (float)(last / 1.012));
    CHECK(select_with(&setting, &a, &s, &t) == 100);
    CHECK(float_of(t) == 90.1f);
    free(x);
}

static void test_oktopk_leaves_what_is_near(void **state) {
    (void)state;
    CHECK(after_one(PITHI_CONTROL_OKTOPK, 1000, 666) == (float)(1 / 1.012));
    CHECK(after_one(PITHI_CONTROL_OKTOPK, 1000, 667) == 1);
    CHECK(after_one(PITHI_CONTROL_OKTOPK, 1000, 1250) == 1);
    CHECK(after_one(PITHI_CONTROL_OKTOPK, 1000, 1251) == (float)1.012);
}

static void test_gauss(void **state) {
    (void)state;
    struct array a = normals(100000, 2);
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_GAUSS, 1000, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t;
    const uint64_t selected = select_with(&setting, &a, &s, &t);
    CHECK(selected > 900 && selected < 1100 && a.looks == 2);
    CHECK(fabs(float_of(t) / (2 * 2.5758293) - 1) < 0.02);
    free((void *)a.x);
    /* 50 elements of 1000 are +-10, the others 1/4. The threshold for k = 500, 1.7, is halved three
     * times; that for k = 20, 5.4, raised twice and, past all, halved. */
    float *x = allocate(1000 * sizeof *x);
    for (int i = 0; i < 1000; i++) x[i] = i % 20 ? 0.25f : i % 40 ? 10.0f : -10.0f;
    struct array b = {.x = x, .n = 1000};
    const double mean = 0.25 * 0.95, deviation = sqrt(0.05 * 100 + 0.95 * 0.0625 - mean * mean);
    struct pithi_control_setting two = setting_of(PITHI_CONTROL_GAUSS, 500, b.n, 0);
    select_with(&two, &b, &s, &t);
    CHECK(b.looks == 4);
    CHECK(fabs(float_of(t) / (mean + deviation * 0.6744897502) * 8 - 1) < 1e-6);
    two.k = 20, b.looks = 0;
    CHECK(select_with(&two, &b, &s, &t) == 50 && b.looks == 4);
    CHECK(fabs(float_of(t) / (mean + deviation * 2.3263478740) / 1.5 / 1.5 / 0.5 - 1) < 1e-6);
    free(x);
}

static void test_redsync_bisects(void **state) {
    (void)state;
    /* |x| = 1 ... 1000: mean 500.5, largest 1000. The first middle, 750.25, has 250 elements. */
    float *x = allocate(1000 * sizeof *x);
    for (int i = 0; i < 1000; i++) x[i] = (float)(i % 2 ? i + 1 : -i - 1);
    struct array a = {.x = x, .n = 1000};
    struct pithi_control_setting setting = setting_of(PITHI_CONTROL_REDSYNC, 200, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t;
    CHECK(select_with(&setting, &a, &s, &t) == 250 && a.looks == 2);
    setting.k = 100, a.looks = 0; /* 250, then 125 */
    CHECK(select_with(&setting, &a, &s, &t) == 125 && a.looks == 3);
    setting.k = 10, a.looks = 0; /* 250, 125, 63: the width is 1/8 */
    CHECK(select_with(&setting, &a, &s, &t) == 63 && a.looks == 4);
    setting.k = 400, a.looks = 0; /* 250, 375, 438 */
    CHECK(select_with(&setting, &a, &s, &t) == 438 && a.looks == 4);
    free(x);
}

static void test_dgc_samples_and_corrects(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint64_t k;
    } cases[] = {{100000, 1000}, {100000, 10}, {100000, 3}, {70000, 3},     {65537, 5},
                 {1000000, 100}, {999, 30},    {4097, 41},  {300007, 99000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct array a = normals(cases[i].n, 1);
        const struct pithi_control_setting setting =
            setting_of(PITHI_CONTROL_DGC, cases[i].k, a.n, 0);
        struct pithi_control_state s = {0};
        for (int step = 0; step < 3; step++) {
            uint32_t t;
            const double ratio = (double)select_with(&setting, &a, &s, &t) / (double)cases[i].k;
            context("%u of %u, step %d: %g", (unsigned)cases[i].k, (unsigned)a.n, step, ratio);
            CHECK(ratio >= 0.8 && ratio <= 1.3);
        }
        CHECK(a.looks <= 3 * 13);
        free((void *)a.x);
    }
    /* With k = 2 every element would be in the sample. */
    struct array a = normals(1000, 1);
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_DGC, 2, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t;
    CHECK(select_with(&setting, &a, &s, &t) == 2 && a.looks == 1);
    free((void *)a.x);
}

/* 1000 samples are wanted: strides 129, 121, 113 and 105 give fewer, 97 gives 1030, of which the
 * 11th largest is the first threshold. */
static void test_dgc_by_hand(void **state) {
    (void)state;
    struct array a = normals(100000, 1);
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_DGC, 1000, a.n, 0);
    struct pithi_control_state s = {0};
    uint64_t firsts = 0;
    for (int step = 0; step < 5; step++) {
        uint32_t t;
        a.sampled = 0;
        select_with(&setting, &a, &s, &t);
        CHECK(a.stride == 97 && a.first < 97 && a.sampled == 1030);
        firsts |= UINT64_C(1) << a.first % 64;
        float *sample = allocate(1030 * sizeof *sample);
        for (size_t i = 0; i < 1030; i++) sample[i] = a.x[a.first + i * 97];
        float wanted = float_of(kth_of(sample, 1030, 11));
        while (count_of(a.x, a.n, bits_of(wanted)) < 800) wanted = (float)(wanted * 0.8);
        if (count_of(a.x, a.n, bits_of(wanted)) > 1300) wanted = float_of(kth_of(a.x, a.n, 1000));
        context("step %d", step);
        CHECK(float_of(t) == wanted);
        free(sample);
    }
    CHECK((firsts & (firsts - 1)) != 0); /* the first position is drawn for each step */
    free((void *)a.x);
}

static void test_sage_by_hand(void **state) {
    (void)state;
    static const double thresholds[] = {2.5, 6,
                                        0.3}; /* densities near k / n, far below, far above */
    for (int i = 0; i < 3; i++) {
        const double last = (float)thresholds[i];
        struct array a = normals(50000, 1);
        const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_SAGE, 500, a.n, 0);
        const struct pithi_control_view view = view_of(&a, 3);
        struct pithi_control_state s = {3, 500, bits_of((float)thresholds[i]), bits_of(1)};
        uint32_t t;
        CHECK_OK(pithi_control_choose(&setting, &view, &s, &t));
        CHECK(a.sampled == 396); /* 50000 / 126 */
        const double alpha = a.magnitudes / 396;
        const uint32_t moved = bits_of((float)(last * (double)(float)alpha));
        const double found = (double)count_of(a.x, a.n, moved) / 50000;
        const double gamma = found < 0.001 ? 0.95 : found > 0.1 ? 1.05 : 1;
        const double wanted = last * alpha * 2 / (1 + exp(0.01 - found)) * gamma;
        context("threshold %g: density %g", last, found);
        CHECK(float_of(s.extra) == (float)alpha);
        CHECK(fabs(float_of(t) / wanted - 1) < 1e-6);
        free((void *)a.x);
    }
}

static void test_sage_follows_the_mean(void **state) {
    (void)state;
    struct array a = normals(50000, 0.01);
    const struct pithi_control_setting setting = setting_of(PITHI_CONTROL_SAGE, 500, a.n, 0);
    struct pithi_control_state s = {0};
    uint32_t t, last;
    select_with(&setting, &a, &s, &t);
    CHECK(float_of(t) == (float)(1 / (2 * sqrt(500))));
    for (int step = 0; step < 200; step++) select_with(&setting, &a, &s, &t);
    CHECK(s.selected > 100 && s.selected < 2500);
    for (size_t i = 0; i < a.n; i++) ((float *)a.x)[i] *= 16;
    last = t;
    select_with(&setting, &a, &s, &t);
    CHECK(float_of(t) > 10 * float_of(last) && float_of(t) < 24 * float_of(last));
    free((void *)a.x);
}

/* ---- Values without a k-th, damaged states, failures -----------------------------------------*/

static bool counts_only(enum pithi_control_kind kind) {
    return kind == PITHI_CONTROL_MICRO || kind == PITHI_CONTROL_MICRO_SYMMETRIC;
}

static void test_all_or_nothing_needs_no_look(void **state) {
    (void)state;
    static const struct {
        uint64_t k, n;
    } cases[] = {{0, 0}, {5, 0}, {0, 1}, {1, 1}, {7, 7}, {8, 7}, {UINT64_MAX, 7}};
    const struct pithi_control_view blind = {0};
    for (int kind = 0; kind < PITHI_CONTROL_KINDS; kind++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const struct pithi_control_setting setting =
                setting_of((enum pithi_control_kind)kind, cases[i].k, cases[i].n, 0);
            struct pithi_control_state s = {3, 9, bits_of(0.5), bits_of(2)};
            uint32_t t = 0;
            context("kind %d case %d", kind, (int)i);
            CHECK_OK(pithi_control_choose(&setting, &blind, &s, &t));
            CHECK(t == 1 && s.steps == 4 && pithi_control_legal(&s));
        }
}

/* Selects from x for some steps, then from normal values: no rule stays where it was led. */
static void lead_and_recover(float x, int steps) {
    enum { COUNT = 2000, K = 20 };
    float *led = allocate(COUNT * sizeof *led);
    for (int i = 0; i < COUNT; i++) led[i] = i % 2 ? x : -x;
    const struct array healthy = normals(COUNT, 1 / (2 * sqrt(K)) / 2.576);
    for (int kind = 0; kind < PITHI_CONTROL_NONZERO; kind++) {
        const struct pithi_control_setting setting =
            setting_of((enum pithi_control_kind)kind, K, COUNT, 8);
        struct pithi_control_state s = {0};
        struct array a = {.x = led, .n = COUNT}, b = healthy;
        uint32_t t;
        for (int step = 0; step < steps; step++) {
            const uint64_t selected = select_with(&setting, &a, &s, &t);
            context("kind %d, values %g, step %d: %g", kind, x, step, float_of(t));
            CHECK(x == 0 ? selected == 0 : !isnan(x) || selected == COUNT);
        }
        uint64_t selected = 0;
        for (int step = 0; step < 600; step++) selected = select_with(&setting, &b, &s, &t);
        context("kind %d, led to %g, then %u selected", kind, x, (unsigned)selected);
        CHECK(selected >= K / 10 && selected <= 10 * K);
    }
    free(led);
    free((void *)healthy.x);
}

static void test_zeros_and_infinities_lead_no_rule_astray(void **state) {
    (void)state;
    lead_and_recover(0, 40);
    lead_and_recover(0, 300);
    lead_and_recover(NAN, 300);
    lead_and_recover(INFINITY, 300);
    lead_and_recover(3e38f, 20);
    lead_and_recover(1e-42f, 40);
}

static void test_few_values_are_sent_and_no_zeros(void **state) {
    (void)state;
    float x[100] = {[3] = 1e-45f, [50] = -2, [51] = 5};
    for (int kind = 0; kind < PITHI_CONTROL_KINDS; kind++) {
        if (kind != PITHI_CONTROL_PROP && kind != PITHI_CONTROL_EXACT &&
            kind != PITHI_CONTROL_EVERY && kind != PITHI_CONTROL_OKTOPK &&
            kind != PITHI_CONTROL_NONZERO)
            continue;
        struct array a = {.x = x, .n = 100};
        const struct pithi_control_setting setting =
            setting_of((enum pithi_control_kind)kind, 10, a.n, 50);
        struct pithi_control_state s = {0};
        uint32_t t;
        for (int step = 0; step < 3; step++) CHECK(select_with(&setting, &a, &s, &t) == 3);
    }
}

static void test_ends_of_the_range_are_left(void **state) {
    (void)state;
    static const float zeros[100];
    float infinite[100];
    for (int i = 0; i < 100; i++) infinite[i] = INFINITY;
    for (int kind = PITHI_CONTROL_MICRO; kind <= PITHI_CONTROL_MICRO_SYMMETRIC; kind++)
        for (int high = 0; high < 2; high++) {
            struct array a = {.x = high ? infinite : zeros, .n = 100};
            const struct pithi_control_setting setting =
                setting_of((enum pithi_control_kind)kind, 25, a.n, 0);
            struct pithi_control_state s = {1, high ? 100 : 0,
                                            bits_of(high ? 0x1.fep127f : 0x1.01p-126f), 0};
            uint32_t t, last;
            context("kind %d, %s end", kind, high ? "upper" : "lower");
            for (int step = 0; step < 3 && s.threshold != 0; step++)
                select_with(&setting, &a, &s, &last);
            CHECK(s.threshold == 0 && last == (high ? 0x7F7FFFFFu : 0x00800000u));
            select_with(&setting, &a, &s, &t);
            CHECK(float_of(t) == 0.1f);
        }
}

static void test_states_that_no_controller_saves(void **state) {
    (void)state;
    static const struct {
        struct pithi_control_state s;
        bool legal;
    } states[] = {
        {{0}, true},
        {{1, 0, 0, 0}, true},
        {{UINT64_MAX, UINT64_MAX, 0x7F7FFFFEu, 0x7F7FFFFFu}, true},
        {{1, 5, 0x00800001u, 1}, true},
        {{0, 1, 0, 0}, false},
        {{0, 0, 0x3F800000u, 0}, false},
        {{0, 0, 0, 1}, false},
        {{1, 0, 1, 0}, false},
        {{1, 0, 0x00800000u, 0}, false},
        {{1, 0, 0x7F7FFFFFu, 0}, false},
        {{1, 0, 0x7F800000u, 0}, false},
        {{1, 0, 0x7FC00000u, 0}, false},
        {{1, 0, 0xBF800000u, 0}, false},
        {{1, 0, 0x3F800000u, 0x7F800000u}, false},
        {{1, 0, 0x3F800000u, 0x80000000u}, false},
    };
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        context("state %d", (int)i);
        CHECK(pithi_control_legal(&states[i].s) == states[i].legal);
    }
}

/* The bit that says what was selected by whom is no step, however many there were. */
static void test_saved_steps_are_loaded(void **state) {
    (void)state;
    static const uint64_t steps[] = {0, 1, UINT64_MAX / 2 - 1, UINT64_MAX / 2, UINT64_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const struct pithi_control_state s = {steps[i], steps[i] != 0, 0, 0};
        uint8_t bytes[PITHI_CONTROL_BYTES];
        const uint64_t word = pithi_control_save(&s, bytes);
        const struct pithi_control_state loaded = pithi_control_load(word, bytes);
        CHECK(word < PITHI_CONTROL_REPORTED);
        CHECK(loaded.steps == (i < 4 ? steps[i] : steps[3]));
        CHECK(pithi_control_legal(&loaded));
    }
}

static void test_failures_change_nothing(void **state) {
    (void)state;
    struct array a = normals(3000, 0.02);
    for (int kind = 0; kind < PITHI_CONTROL_KINDS; kind++)
        for (int begun = 0; begun < 2; begun++) {
            const struct pithi_control_setting setting =
                setting_of((enum pithi_control_kind)kind, 30, a.n, 9);
            const struct pithi_control_state before = {(uint64_t)begun, begun ? 90 : 0,
                                                       begun ? bits_of(0.01f) : 0,
                                                       begun ? bits_of(0.015f) : 0};
            const struct pithi_control_view view = view_of(&a, 5);
            for (a.fails = 1;; a.fails++) {
                struct pithi_control_state s = before;
                uint32_t t = 77;
                a.looks = 0;
                const pith_status status = pithi_control_choose(&setting, &view, &s, &t);
                context("kind %d, look %d", kind, a.fails);
                if (a.looks < a.fails) {
                    CHECK_OK(status);
                    break;
                }
                CHECK_STATUS(PITH_ERR_RUNNER, status);
                CHECK(t == 77 && memcmp(&s, &before, sizeof s) == 0);
            }
            CHECK(a.fails > 1 || counts_only((enum pithi_control_kind)kind) ||
                  kind == PITHI_CONTROL_NONZERO || begun);
        }
    free((void *)a.x);
}

/* ---- Training: ranks with error feedback that select in disjoint partitions ------------------*/

enum { RANKS = 8, N = 1 << 18, LAYERS = 64, NOISE = 1 << 20 };

struct training {
    float *noise, *residual[RANKS], scale[LAYERS];
    struct pithi_control_state state[RANKS];
};

static struct training begin_training(void) {
    struct training w = {.noise = allocate(2 * (size_t)NOISE * sizeof(float))};
    for (size_t i = 0; i < NOISE; i++) w.noise[i] = w.noise[NOISE + i] = (float)normal();
    for (int l = 0; l < LAYERS; l++) w.scale[l] = (float)(0.01 * exp(normal()));
    for (int r = 0; r < RANKS; r++) {
        w.residual[r] = allocate(N * sizeof(float));
        memset(w.residual[r], 0, N * sizeof(float));
    }
    return w;
}

static void end_training(struct training *w) {
    for (int r = 0; r < RANKS; r++) free(w->residual[r]);
    free(w->noise);
}

/* Gradients that are a quarter of the first ones after 800 steps. */
static void add_gradients(struct training *w, int step) {
    const float decay = (float)(1 / (1 + step / 266.0));
    for (int r = 0; r < RANKS; r++)
        for (int l = 0; l < LAYERS; l++) {
            const float *noise = w->noise + draw() % NOISE, scale = w->scale[l] * decay;
            float *residual = w->residual[r] + (size_t)l * (N / LAYERS);
            for (int i = 0; i < N / LAYERS; i++) residual[i] += noise[i] * scale;
        }
}

/* Returns k' / k of a step; a rank's partition moves on from step to step. */
static double train(struct training *w, const struct pithi_control_setting *setting, int step) {
    uint64_t selected = 0;
    uint32_t t[RANKS];
    add_gradients(w, step);
    for (int r = 0; r < RANKS; r++) {
        struct array a = {.x = w->residual[r], .n = N};
        const struct pithi_control_view view = view_of(&a, (uint64_t)step);
        CHECK_OK(pithi_control_choose(setting, &view, &w->state[r], &t[r]));
    }
    for (int r = 0; r < RANKS; r++) {
        const size_t first = (size_t)((step + r) % RANKS) * (N / RANKS);
        for (size_t i = first; i < first + N / RANKS; i++) {
            if (magnitude(w->residual[r][i]) < t[r]) continue;
            selected++;
            for (int other = 0; other < RANKS; other++) w->residual[other][i] = 0;
        }
    }
    for (int r = 0; r < RANKS; r++) w->state[r].selected = selected;
    return (double)selected / (double)setting->k;
}

struct summary {
    int first;         /* step whose k' is in the authors' band for the first time */
    double mean, band; /* of k' / k, and the share of steps in the band, from `from` on */
};

/* Trains from a threshold that is `times` the k-th of rank 0's first gradients; 0: from nothing. */
static struct summary run(enum pithi_control_kind kind, double density, double times, int from,
                          int steps) {
    const struct pithi_control_setting setting = setting_of(kind, (uint64_t)(density * N), N, 0);
    struct training w = begin_training();
    struct summary s = {.first = steps};
    if (times > 0) {
        add_gradients(&w, 0);
        const double t = float_of(kth_of(w.residual[0], N, setting.k)) * times;
        for (int r = 0; r < RANKS; r++) {
            w.state[r] = (struct pithi_control_state){1, setting.k, bits_of((float)t), 0};
            memset(w.residual[r], 0, N * sizeof(float));
        }
    }
    for (int step = 0; step < steps; step++) {
        const double ratio = train(&w, &setting, step);
        const bool in_band = ratio > 0.909 && ratio < 1.1;
        if (in_band && s.first == steps) s.first = step;
        if (step < from) continue;
        s.mean += ratio / (steps - from);
        s.band += (double)in_band / (steps - from);
    }
    end_training(&w);
    context("kind %d, density %g, from %g: first %d, mean %.4f, in band %.4f", kind, density, times,
            s.first, s.mean, s.band);
    return s;
}

/* A count of k has a deviation of sqrt(k) of its own, 3 % of 1048, so that of the smaller density
 * some steps are out of the band whatever the threshold. */
static void test_prop_holds_k_in_training(void **state) {
    (void)state;
    if (getenv("PITH_TEST_STEP")) skip(); /* long, and alike on every CPU */
    static const double begins[] = {0, 20, 0.05};
    for (int i = 0; i < 3; i++) {
        const struct summary s = run(PITHI_CONTROL_PROP, 0.004, begins[i], 70, 1000);
        CHECK(s.first <= 70 && s.mean > 0.98 && s.mean < 1.02 && s.band > 0.99);
    }
    const struct summary s = run(PITHI_CONTROL_PROP, 0.016, 20, 70, 200);
    CHECK(s.first <= 70 && s.mean > 0.98 && s.band > 0.999);
}

/* As coded MiCRO moves by 0.5 % a step and settles where it has moved as often up as down. */
static void test_micro_drifts_as_its_code_has_it(void **state) {
    (void)state;
    if (getenv("PITH_TEST_STEP")) skip(); /* long, and alike on every CPU */
    CHECK(run(PITHI_CONTROL_MICRO, 0.004, 0.05, 0, 300).first == 300);
    const struct summary coded = run(PITHI_CONTROL_MICRO, 0.004, 1, 200, 500);
    CHECK(coded.mean > 0.90 && coded.mean < 0.96 && coded.band < 0.9);
    const struct summary meant = run(PITHI_CONTROL_MICRO_SYMMETRIC, 0.004, 1, 200, 500);
    CHECK(meant.mean > 0.96 && meant.mean < 1.02 && meant.band > 0.9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_against_libm),
        cmocka_unit_test(test_numbers_are_the_same_everywhere),
        cmocka_unit_test(test_prop),
        cmocka_unit_test(test_prop_follows_a_trend),
        cmocka_unit_test(test_prop_damps_swings),
        cmocka_unit_test(test_prop_remembers_in_one_word),
        cmocka_unit_test(test_micro_as_coded_and_as_meant),
        cmocka_unit_test(test_counts_of_all_ranks_are_compared_with_what_all_select),
        cmocka_unit_test(test_every_refreshes_in_its_steps_alone),
        cmocka_unit_test(test_oktopk_corrects_in_between),
        cmocka_unit_test(test_oktopk_leaves_what_is_near),
        cmocka_unit_test(test_gauss),
        cmocka_unit_test(test_redsync_bisects),
        cmocka_unit_test(test_dgc_samples_and_corrects),
        cmocka_unit_test(test_dgc_by_hand),
        cmocka_unit_test(test_sage_by_hand),
        cmocka_unit_test(test_sage_follows_the_mean),
        cmocka_unit_test(test_all_or_nothing_needs_no_look),
        cmocka_unit_test(test_few_values_are_sent_and_no_zeros),
        cmocka_unit_test(test_zeros_and_infinities_lead_no_rule_astray),
        cmocka_unit_test(test_ends_of_the_range_are_left),
        cmocka_unit_test(test_states_that_no_controller_saves),
        cmocka_unit_test(test_saved_steps_are_loaded),
        cmocka_unit_test(test_failures_change_nothing),
        cmocka_unit_test(test_prop_holds_k_in_training),
        cmocka_unit_test(test_micro_drifts_as_its_code_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
