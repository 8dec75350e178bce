/* test_shrink.c - searched ranges: doc/FORMAT.md, A.3, written again; what they gain; groups with
 * nothing to search for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "group/group.h"
#include "util.h"

static uint64_t seed = UINT64_C(0x9E3779B97F4A7C15);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}
static double uniform(void) { return (double)(draw() >> 11) * 0x1p-53; }
static float normal(void) {
    const double radius = sqrt(-2 * log(1 - uniform()));
    return (float)(radius * cos(6.283185307179586 * uniform()));
}

enum { MOST = 256 };
static const uint32_t dtypes[3] = {PITH_F32, PITH_BF16, PITH_F16};

struct coded {
    uint8_t codes[MOST], scales[8];
    float value[MOST];
};

/* Values in a dtype, coded by a setting, and what they decode to in that dtype. */
static void code(struct pithi_group_setting s, uint32_t dtype, const uint8_t *x, size_t count,
                 struct coded *to) {
    uint8_t back[4 * MOST];
    memset(to, 0, sizeof *to);
    struct pithi_group_job job = {.set = s,
                                  .count = count,
                                  .value = x,
                                  .value_dtype = dtype,
                                  .out = back,
                                  .out_dtype = dtype,
                                  .codes = to->codes,
                                  .scales = to->scales};
    pithi_group_encode_c(&job);
    pithi_group_decode_c(&job);
    for (size_t i = 0; i < count; i++) to->value[i] = float_of(pithi_load(back, dtype, i));
}

static double error_of(const uint8_t *x, uint32_t dtype, size_t count, const struct coded *c) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double e = (double)float_of(pithi_load(x, dtype, i)) - (double)c->value[i];
        sum += e * e;
    }
    return sum;
}

/* ---- The search, from doc/FORMAT.md -----------------------------------------------------------*/

struct model {
    bool asymmetric;
    int64_t q, b, r, n, sum;
    int64_t t[MOST];
    float u, v, from, to; /* of the best part, and its line */
    int64_t s1;
};

static void try_part(struct model *m, int64_t low, int64_t high) {
    int64_t s1 = 0, s2 = 0, st = 0;
    if (low < 0 || !m->asymmetric) low = 0;
    if (high > m->r) high = m->r;
    if (high - low < 32) return;
    const int64_t r = (m->q << (16 - m->b)) / (high - low);
    for (int64_t i = 0; i < m->n; i++) {
        int64_t c = m->t[i] - low;
        c = c < 0 ? 0 : c > high - low ? high - low : c;
        const int64_t q = (r * c + (INT64_C(1) << (15 - m->b))) >> (16 - m->b);
        CHECK(q >= 0 && q <= m->q);
        s1 += q;
        s2 += q * q;
        st += q * m->t[i];
    }
    const float u = (float)(m->asymmetric ? m->n * st - s1 * m->sum : st);
    const float v = (float)(m->asymmetric ? m->n * s2 - s1 * s1 : s2);
    const float square = u * u, best = m->u * m->u;
    if (square * m->v <= best * v) return;
    m->u = u;
    m->v = v;
    m->s1 = s1;
}

static void find_line(struct model *m) {
    const float g = m->u / m->v, less = g * (float)m->s1, left = (float)m->sum - less;
    const float slope = g * (float)m->q, a = m->asymmetric ? left / (float)m->n : 0, e = a + slope;
    m->from = a < 0 ? 0 : a;
    m->to = e > (float)m->r ? (float)m->r : e;
}

static void search(struct model *m) {
    static const int64_t moves[2][2] = {{8, 0}, {16, 4}};
    m->u = 0;
    m->v = 1;
    for (int64_t k = 0; k <= 5; k++) try_part(m, 16 * k, m->r - 16 * k);
    find_line(m);
    for (int i = 0; i < 3; i++) {
        const int64_t a = (int64_t)nearbyint((double)m->from),
                      b = (int64_t)nearbyint((double)m->to);
        const int64_t by = i < 2 ? moves[m->asymmetric][i] : 0;
        if (i < 2 && by == 0) continue;
        try_part(m, a - by, b - by);
        if (by) try_part(m, a + by, b + by);
        find_line(m);
    }
}

/* What a grid loses of a group: squares of numbers of 8ths of a unit of t. */
static int64_t model_losses(const struct pithi_group_setting *s, uint32_t dtype, float factor,
                            const struct pithi_grid *grid, const uint8_t *x, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const float v = float_of(pithi_load(x, dtype, i));
        const float q = pithi_grid_code(s, grid, grid->most, v);
        const double eighths =
            nearbyint((double)((pithi_grid_value(dtype, grid, q) - v) * factor * 8));
        const int64_t loss = eighths > 2047 ? 2047 : eighths < -2047 ? -2047 : (int64_t)eighths;
        sum += loss * loss;
    }
    return sum;
}

/* The grid of a group of finite values, by the search. */
static struct pithi_grid model_grid(const struct pithi_group_setting *s, uint32_t dtype,
                                    const uint8_t *x, size_t count) {
    struct model m = {.asymmetric = s->asymmetric, .n = (int64_t)count};
    float lo = float_of(pithi_load(x, dtype, 0)), hi = lo, most = 0;
    bool keeps = true;
    for (size_t i = 0; i < count; i++) {
        const float v = float_of(pithi_load(x, dtype, i));
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
        most = fabsf(v) > most ? fabsf(v) : most;
    }
    if (!s->asymmetric) lo = 0, hi = most;
    struct pithi_grid whole = pithi_grid_of(s, dtype, lo, hi);
    pithi_idempotent_scale(s, dtype, lo, hi, &whole);
    const float range = hi - lo;
    if (whole.reciprocal == 0 || s->bits > 6 || range < 0x1p-118f || isinf(range)) return whole;
    m.b = s->asymmetric ? s->bits : s->bits - 1;
    m.q = (INT64_C(1) << m.b) - 1;
    m.r = m.q * (255 / m.q);
    const float factor = (float)m.r / range;
    for (size_t i = 0; i < count; i++) {
        const float v = float_of(pithi_load(x, dtype, i)), from = v - lo;
        const float t = (s->asymmetric ? from : fabsf(v)) * factor;
        const float q = pithi_grid_code(s, &whole, whole.most, v);
        keeps = keeps && pithi_grid_value(dtype, &whole, q) == v;
        m.t[i] = (int64_t)nearbyint((double)t);
        m.sum += m.t[i];
    }
    if (keeps) return whole;
    search(&m);
    if (m.to - m.from < 32) return whole;
    const float p = range / (float)m.r, up = m.from * p, rest = (float)m.r - m.to, down = rest * p;
    const float low = pithi_round_to(dtype, lo + up), high = pithi_round_to(dtype, hi - down);
    struct pithi_grid grid = pithi_grid_of(s, dtype, s->asymmetric ? low : 0, high);
    pithi_idempotent_scale(s, dtype, lo, hi, &grid);
    if (grid.reciprocal == 0) return whole;
    /* A zero point that is far from where it should be makes another grid than the search saw. */
    const bool coarse = s->asymmetric && fabsf(grid.zero - low) * 8 > grid.scale;
    return coarse && model_losses(s, dtype, factor, &grid, x, count) >=
                         model_losses(s, dtype, factor, &whole, x, count)
               ? whole
               : grid;
}

static struct pithi_group_setting random_setting(void) {
    struct pithi_group_setting s = {.asymmetric = draw() % 2, .idempotent = true, .shrink = true};
    s.bits = (uint8_t)(2 + draw() % 7);
    s.group = 16u << draw() % 5;
    s.scale_dtype = (uint8_t)dtypes[draw() % 3];
    return s;
}

/* Normal values; few different ones; and one far away from the others. */
static void random_values(uint8_t *x, uint32_t dtype, size_t count) {
    const int kind = (int)(draw() % 3);
    const float beside = draw() % 2 ? 0 : 20 * normal();
    const float unit = float_of((uint32_t)(115 + draw() % 20) << 23);
    for (size_t i = 0; i < count; i++) {
        float v = normal();
        if (kind == 1) v = (float)(draw() % 4);
        if (kind == 2 && i == 0) v *= 100;
        pithi_store(x, dtype, i, bits_of(beside + unit * v));
    }
}

static void test_model(void **unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        const struct pithi_group_setting s = random_setting();
        const uint32_t dtype = dtypes[draw() % 3];
        const size_t count = 1 + draw() % s.group;
        uint8_t x[4 * MOST];
        struct coded c, again;
        random_values(x, dtype, count);
        code(s, dtype, x, count, &c);
        context("bits %d group %u asymmetric %d scales %d values %d, %zu", s.bits, s.group,
                s.asymmetric, s.scale_dtype, (int)dtype, count);
        const struct pithi_grid grid = model_grid(&s, dtype, x, count);
        CHECK(pithi_scale_load(c.scales, s.scale_dtype, 0) == bits_of(grid.scale));
        if (s.asymmetric) CHECK(pithi_load(c.scales, s.scale_dtype, 1) == bits_of(grid.zero));
        for (size_t k = 0; k < count; k++) pithi_store(x, dtype, k, bits_of(c.value[k]));
        code(s, dtype, x, count, &again);
        CHECK(memcmp(&c, &again, sizeof c) == 0);
    }
}

/* ---- What is gained ---------------------------------------------------------------------------*/

/* The least error of all parts that cut 32nds of the range from both sides. */
static double all_cuts(const struct pithi_group_setting *s, const uint8_t *x, size_t count) {
    float lo = float_of(pithi_load(x, PITH_F32, 0)), hi = lo, most = 0;
    double best = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const float v = float_of(pithi_load(x, PITH_F32, i));
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
        most = fabsf(v) > most ? fabsf(v) : most;
    }
    if (!s->asymmetric) lo = 0, hi = most;
    const float part = (hi - lo) / 32;
    for (int a = 0; a <= (s->asymmetric ? 14 : 0); a++)
        for (int b = 0; b <= 14; b++) {
            double sum = 0;
            struct pithi_grid r =
                pithi_grid_of(s, PITH_F32, lo + part * (float)a, hi - part * (float)b);
            pithi_idempotent_scale(s, PITH_F32, lo, hi, &r);
            for (size_t i = 0; i < count && sum < best; i++) {
                const float v = float_of(pithi_load(x, PITH_F32, i));
                const float q = pithi_grid_code(s, &r, r.most, v);
                const double e = (double)v - (double)pithi_grid_value(PITH_F32, &r, q);
                sum += e * e;
            }
            best = sum < best ? sum : best;
        }
    return best;
}

static void check_gain(uint8_t bits, uint32_t group, bool asymmetric, double most) {
    const struct pithi_group_setting s = {.asymmetric = asymmetric,
                                          .idempotent = true,
                                          .shrink = true,
                                          .bits = bits,
                                          .group = group,
                                          .scale_dtype = PITH_F32};
    double found = 0, wanted = 0;
    for (int i = 0; i < 200; i++) {
        uint8_t x[4 * MOST];
        struct coded c;
        for (size_t k = 0; k < group; k++) pithi_store(x, PITH_F32, k, bits_of(normal()));
        code(s, PITH_F32, x, group, &c);
        found += error_of(x, PITH_F32, group, &c);
        wanted += all_cuts(&s, x, group);
    }
    context("%d bits, groups of %u, asymmetric %d: %g of all cuts", bits, group, asymmetric,
            found / wanted);
    CHECK(found <= most * wanted);
}

/* Lines that fit the codes are better than any cut of a 32nd where there are few codes. */
static void test_gain(void **unused) {
    (void)unused;
    for (int asymmetric = 0; asymmetric < 2; asymmetric++)
        for (uint32_t group = 32; group <= 128; group *= 4) {
            check_gain(2, group, asymmetric, 1.02);
            check_gain(3, group, asymmetric, 1.03);
            check_gain(4, group, asymmetric, 1.03);
            check_gain(6, group, asymmetric, 1.03);
        }
}

/* ---- Groups with nothing to search for --------------------------------------------------------*/

/* Coded as without a search. */
static void check_same(const struct pithi_group_setting *s, uint32_t dtype, const float *values,
                       size_t count) {
    struct pithi_group_setting plain = *s;
    uint8_t x[4 * MOST];
    struct coded a, b;
    plain.shrink = false;
    for (size_t i = 0; i < count; i++) pithi_store(x, dtype, i, bits_of(values[i]));
    code(*s, dtype, x, count, &a);
    code(plain, dtype, x, count, &b);
    CHECK(memcmp(a.codes, b.codes, sizeof a.codes) == 0);
    CHECK(memcmp(a.scales, b.scales, sizeof a.scales) == 0);
}

static void fill(float *x, size_t count, float even, float odd) {
    for (size_t i = 0; i < count; i++) x[i] = i % 2 ? odd : even;
}

static void test_nothing(void **unused) {
    (void)unused;
    float x[MOST];
    for (int i = 0; i < 2000; i++) {
        struct pithi_group_setting s = random_setting();
        const uint32_t dtype = dtypes[draw() % 3];
        const size_t count = 1 + draw() % s.group;
        const float v = normal();
        context("bits %d group %u asymmetric %d scales %d values %d, %zu", s.bits, s.group,
                s.asymmetric, s.scale_dtype, (int)dtype, count);
        fill(x, count, v, v);
        check_same(&s, dtype, x, count); /* constant */
        fill(x, count, -0.0f, 0.0f);
        check_same(&s, dtype, x, count);
        fill(x, count, 0, (float)pithi_group_levels(&s)); /* two that codes are */
        check_same(&s, dtype, x, count);
        fill(x, count, 0x1p-130f, -0x1p-127f); /* below what scales reach */
        check_same(&s, dtype, x, count);
        fill(x, count, normal(), normal());
        x[draw() % count] = draw() % 2 ? INFINITY : -INFINITY;
        check_same(&s, dtype, x, count); /* poisoned */
        x[draw() % count] = NAN;
        check_same(&s, dtype, x, count);
        fill(x, count, -0x1.8p127f, 0x1.8p127f); /* the range is infinite */
        check_same(&s, PITH_F32, x, count);
        s.bits = draw() % 2 ? 7 : 8;
        for (size_t k = 0; k < count; k++) x[k] = normal();
        check_same(&s, dtype, x, count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_gain),
                                       cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests_name("shrink", tests, NULL, NULL);
}
