/* test_grad_values.c - codec grad: searched scales, random rounding, views, and hard values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "grad_model.h"
#include "util.h"

/* ---- Searched scales and powers of two, against the model ------------------------------------*/

/* The values are used up. */
static void check_blocks(const char *spec, const struct model *m, float *x, size_t count) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, count);
    struct stream s;
    float *back = allocate(count * 4);
    const pith_view v = pith_view_flat(x, PITH_F32, count),
                    out = pith_view_flat(back, PITH_F32, count);
    uint8_t *blocks = allocate(model_bytes(m, count));
    stream_open(&s, spec, &layout, NULL);
    struct frame f = stream_encode(&s, &v, 0, false);
    CHECK_OK(decode_one(s.work, s.stream, 0, f.bytes, f.length, &out, 0));
    model_rotate(m, x, count);
    model_code(m, x, count, blocks);
    CHECK(f.length == header_of(&f) + model_bytes(m, count));
    CHECK(memcmp(f.bytes + header_of(&f), blocks, model_bytes(m, count)) == 0);
    model_decode(m, blocks, count, x);
    model_unrotate(m, x, count);
    for (size_t i = 0; i < count; i++) {
        store_float(x, PITH_F32, i, bits_of(x[i]));
        CHECK(bits_of(x[i]) == bits_of(back[i]));
    }
    free(blocks);
    free(f.bytes);
    free(back);
    stream_close(&s);
}

static void test_scales(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t scale;
        int search;
    } variants[] = {{"search=mse", PITH_F32, 1},
                    {"search=mse,scale_dtype=bf16", PITH_BF16, 1},
                    {"search=mse,scale_dtype=e8m0", MODEL_E8M0, 1},
                    {"search=none,scale_dtype=e8m0", MODEL_E8M0, 0},
                    {"search=none,scale_dtype=bf16", PITH_BF16, 0}};
    static const unsigned widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 128, 4096};
    static const size_t counts[] = {1, 31, 33, 1000, 5000};
    for (size_t w = 0; w < 6; w++)
        for (size_t g = 0; g < 3; g++)
            for (size_t i = 0; i < 5; i++)
                for (int kind = 0; kind < GEN_COUNT; kind++) {
                    const unsigned rotate = (w + g) % 2 ? 32 : 0;
                    const struct model m = {.bits = widths[w],
                                            .group = groups[g],
                                            .rotate = rotate,
                                            .block = 4096,
                                            .scale = variants[i].scale,
                                            .ranks = 1,
                                            .search = variants[i].search};
                    char spec[128];
                    snprintf(spec, sizeof spec, "grad:bits=%u,group=%u,rotate=%u,%s,block=4096",
                             m.bits, m.group, m.rotate, variants[i].text);
                    const size_t count = counts[(w + i + (size_t)kind) % 5];
                    float x[5000];
                    context("%s %s count %zu", spec, gen_name((enum gen)kind), count);
                    gen_fill((enum gen)kind, count, PITH_F32, x, count);
                    check_blocks(spec, &m, x, count);
                }
}

/* Many values that the largest factor just lifts to code 1: least squares would want a scale that
 * is below half of what reaches the largest value, where the bound ends. */
static void test_search_stops_at_half(void **state) {
    (void)state;
    static const uint32_t scales[] = {PITH_F32, PITH_BF16};
    for (int i = 0; i < 40; i++) {
        const struct model m = {.bits = 2,
                                .group = 128,
                                .block = 16384,
                                .scale = scales[i % 2],
                                .ranks = 1,
                                .search = 1};
        float x[128];
        for (int k = 0; k < 128; k++) x[k] = (0.26f + 0.003f * (float)(i / 2)) * (k % 3 ? 1 : -1);
        x[5] = i % 4 < 2 ? 2.0f : -2.0f;
        context("pattern %d", i);
        check_blocks(i % 2 ? "grad:bits=2,rotate=0,search=mse,scale_dtype=bf16"
                           : "grad:bits=2,rotate=0,search=mse",
                     &m, x, 128);
    }
}

/* The search never does worse than the largest value's scale by more than it rounds. */
static void test_search_pays(void **state) {
    (void)state;
    static const unsigned widths[] = {2, 3, 4, 5, 6, 8};
    float x[4096] = {0}, y[4096];
    const pith_view v = pith_view_flat(x, PITH_F32, 4096), out = pith_view_flat(y, PITH_F32, 4096);
    gen_fill(GEN_NOISE, 5, PITH_F32, x, 4096);
    for (size_t w = 0; w < 6; w++) {
        double error[2] = {0, 0};
        for (int search = 0; search < 2; search++) {
            char spec[64];
            snprintf(spec, sizeof spec, "grad:bits=%u%s", widths[w],
                     search ? ",search=mse" : ",search=none");
            struct frame f = compress(spec, &v, NULL, 0);
            CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &out, NULL));
            for (int i = 0; i < 4096; i++)
                error[search] += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
            free(f.bytes);
        }
        context("%u bits: %g searched, %g not", widths[w], error[1], error[0]);
        CHECK(error[1] < (widths[w] < 5 ? 0.8 : 1.0) * error[0]);
    }
}

/* ---- Random rounding -------------------------------------------------------------------------*/

enum { N = 256 };

static void decode_into(struct stream *s, const float *x, float *out) {
    const pith_view v = pith_view_flat(x, PITH_F32, N), o = pith_view_flat(out, PITH_F32, N);
    struct frame f = stream_encode(s, &v, 0, false);
    CHECK_OK(decode_one(s->work, s->stream, 0, f.bytes, f.length, &o, 0));
    free(f.bytes);
}

static void set_random(struct stream *s, uint64_t seed, uint32_t rng_stream, uint32_t rank,
                       uint32_t ranks) {
    const pith_stream_options options = {.size = sizeof options,
                                         .seed = seed,
                                         .rng_stream = rng_stream,
                                         .rank = rank,
                                         .ranks = ranks};
    CHECK_OK(pith_stream_set_random(s->work, s->stream, &options));
}

/* The mean over many steps is the value, within 6 deviations of the mean and 2^-16 of a code. */
static void unbiased(const char *spec) {
    enum { ROUNDS = 2000 };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct stream s;
    float x[N], y[N];
    double sum[N] = {0}, largest = 0;
    context("%s", spec);
    gen_fill(GEN_NOISE, 1, PITH_F32, x, N);
    stream_open(&s, spec, &layout, NULL);
    for (uint64_t t = 0; t < ROUNDS; t++) {
        CHECK(pith_stream_step(s.stream, 0) == t);
        set_random(&s, 11, 3, (uint32_t)(t % 5), 5);
        decode_into(&s, x, y);
        for (int i = 0; i < N; i++) {
            sum[i] += (double)y[i];
            largest = fmax(largest, fabs((double)y[i] - (double)x[i]));
        }
    }
    CHECK(largest > 0);
    for (int i = 0; i < N; i++) {
        const double off = fabs(sum[i] / ROUNDS - (double)x[i]);
        context("%s element %d: mean off by %g, one by up to %g", spec, i, off, largest);
        CHECK(off <= largest * (0.5 * 6 / sqrt(ROUNDS) + 0x1p-16));
    }
    stream_close(&s);
}

static void test_unbiased(void **state) {
    (void)state;
    unbiased("grad:round=stochastic,rotate=0");
    unbiased("grad:round=stochastic,bits=2");
    unbiased("grad:round=stochastic,bits=8,sign_seed=3");
    unbiased("grad:round=antithetic,rotate=0");
    unbiased("grad:round=antithetic,bits=3,scale_dtype=bf16");
}

/* Mean of 8 ranks' frames of one tensor, squared distance to it. */
static double mean_error(const char *spec, bool shared) {
    enum { RANKS = 8, COUNT = 8192 };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct stream s;
    float *x = allocate(COUNT * 4), *mean = allocate(COUNT * 4);
    struct frame f[RANKS];
    const void *bytes[RANKS];
    size_t lengths[RANKS];
    double error = 0;
    gen_fill(GEN_NOISE, 4, PITH_F32, x, COUNT);
    const pith_view v = pith_view_flat(x, PITH_F32, COUNT),
                    out = pith_view_flat(mean, PITH_F32, COUNT);
    stream_open(&s, spec, &layout, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        set_random(&s, 1, shared ? 0 : r, r, RANKS);
        CHECK_OK(pith_stream_set_step(s.work, s.stream, 0, 9));
        f[r] = stream_encode(&s, &v, 0, false);
        bytes[r] = f[r].bytes;
        lengths[r] = f[r].length;
    }
    CHECK_OK(reduce_one(s.work, s.stream, 0, bytes, lengths, RANKS, 1.0f / RANKS, &out));
    for (int i = 0; i < COUNT; i++)
        error += ((double)mean[i] - (double)x[i]) * ((double)mean[i] - (double)x[i]);
    for (int r = 0; r < RANKS; r++) free(f[r].bytes);
    free(x);
    free(mean);
    stream_close(&s);
    return error;
}

/* Independent errors fall with N, antithetic ones with N^2 where the ranks agree. */
static void test_antithetic(void **state) {
    (void)state;
    static const char *const rest[] = {"", ",rotate=0", ",bits=2", ",bits=8"};
    for (int i = 0; i < 4; i++) {
        char apart[64], alone[64];
        snprintf(apart, sizeof apart, "grad:round=antithetic%s", rest[i]);
        snprintf(alone, sizeof alone, "grad:round=stochastic%s", rest[i]);
        const double a = mean_error(apart, true), s = mean_error(alone, false);
        context("%s: %g, stochastic %g", apart, a, s);
        CHECK(a < 0.2 * s);
        CHECK(a == mean_error(apart, true));
    }
}

static void test_random_bits(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t stream;
        uint64_t step;
        uint32_t rank, ranks;
    } rows[] = {{1, 0, 0, 0, 1}, {2, 0, 0, 0, 1}, {1ull << 32, 0, 0, 0, 1}, {1, 1, 0, 0, 1},
                {1, 0, 1, 0, 1}, {1, 0, 0, 1, 2}, {1, 0, 0, 1, 3},          {1, 0, 0, 0, 0}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    for (int kind = 0; kind < 2; kind++) {
        struct stream s;
        float x[N], y[ROWS][N], again[N];
        stream_open(&s, kind ? "grad:round=antithetic" : "grad:round=stochastic", &layout, NULL);
        gen_fill(GEN_NOISE, 4, PITH_F32, x, N);
        for (int i = 0; i < 2 * ROWS; i++) {
            const int k = i % ROWS;
            set_random(&s, rows[k].seed, rows[k].stream, rows[k].rank, rows[k].ranks);
            CHECK_OK(pith_stream_set_step(s.work, s.stream, 0, rows[k].step));
            decode_into(&s, x, i < ROWS ? y[k] : again);
            context("kind %d row %d", kind, k);
            CHECK(i < ROWS || memcmp(again, y[k], sizeof again) == 0);
            /* A rank shifts the bits of antithetic rounding only. */
            const bool like = k == 7 || (!kind && k >= 5);
            CHECK(k == 0 || (memcmp(y[0], y[k], sizeof again) == 0) == like);
        }
        stream_close(&s);
    }
}

/* Rank 0 of 0 stands for 0 of 1. */
static void test_ranks(void **state) {
    (void)state;
    static const struct {
        uint32_t rank, ranks;
        pith_status wanted;
    } rows[] = {{0, 1, PITH_OK},
                {7, 8, PITH_OK},
                {65535, 65536, PITH_OK},
                {0, 65536, PITH_OK},
                {0, 0, PITH_OK},
                {1, 1, PITH_ERR_ARG},
                {8, 8, PITH_ERR_ARG},
                {0, 65537, PITH_ERR_ARG},
                {1, 0, PITH_ERR_ARG},
                {65536, 65536, PITH_ERR_ARG},
                {0, UINT32_MAX, PITH_ERR_ARG}};
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, N);
    struct stream s;
    stream_open(&s, "grad:round=antithetic", &layout, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pith_stream_options options = {
            .size = sizeof options, .rank = rows[i].rank, .ranks = rows[i].ranks};
        void *const memory = allocate((size_t)s.sizes.stream_bytes);
        pith_stream *other;
        context("rank %u of %u", rows[i].rank, rows[i].ranks);
        CHECK_STATUS(rows[i].wanted, pith_stream_set_random(s.work, s.stream, &options));
        CHECK_STATUS(rows[i].wanted, pith_stream_init(s.plan, memory, (size_t)s.sizes.stream_bytes,
                                                      &options, &other, NULL));
        free(memory);
    }
    const pith_stream_options good = {.size = sizeof good, .ranks = 1};
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(s.work, NULL, &good));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(NULL, s.stream, &good));
    CHECK_STATUS(PITH_ERR_ARG, pith_stream_set_random(s.work, s.stream, NULL));
    stream_close(&s);
}

/* ---- Views -----------------------------------------------------------------------------------*/

/* Each way to take a tensor in or out gives what dense ones give. */
static void test_views(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 31, 33, 300};
    static const char *const specs[] = {"grad:group=32,block=64", "grad:rotate=0",
                                        "grad:sign_seed=1"};
    for (size_t k = 0; k < 15; k++) {
        const size_t n = counts[k % 5];
        const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, n);
        struct stream s;
        float x[300] = {0}, spread[900], dense[300], back[300], sum[300];
        context("%s count %zu", specs[k / 5], n);
        gen_fill(GEN_NOISE, 1, PITH_F32, x, n);
        gen_fill(GEN_NOISE, 2, PITH_F32, sum, n);
        for (size_t i = 0; i < n; i++) spread[3 * i] = x[n - 1 - i];
        const pith_view v = pith_view_flat(x, PITH_F32, n), o = pith_view_flat(dense, PITH_F32, n),
                        in = {spread + 3 * (n ? n - 1 : 0), PITH_F32, 1, {n}, {-3}},
                        down = {back + (n ? n - 1 : 0), PITH_F32, 1, {n}, {-1}},
                        add = pith_view_flat(sum, PITH_F32, n);
        stream_open(&s, specs[k / 5], &layout, NULL);
        struct frame a = stream_encode(&s, &v, 0, false), b = stream_encode(&s, &in, 0, false);
        CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
        CHECK_OK(decode_one(s.work, s.stream, 0, a.bytes, a.length, &o, 0));
        CHECK_OK(decode_one(s.work, s.stream, 0, a.bytes, a.length, &down, 0));
        CHECK_OK(decode_one(s.work, s.stream, 0, a.bytes, a.length, &add, PITH_ADD));
        gen_fill(GEN_NOISE, 2, PITH_F32, x, n);
        for (size_t i = 0; i < n; i++) {
            CHECK(back[n - 1 - i] == dense[i]);
            CHECK(sum[i] == x[i] + dense[i]);
        }
        for (size_t first = 0; first <= n; first += 1 + n / 7)
            for (size_t count = 0; first + count <= n; count += 1 + n / 9) {
                const pith_view part = pith_view_flat(back, PITH_F32, count);
                CHECK_OK(pith_decode_range(a.bytes, a.length, NULL, first, NULL, &part, NULL));
                CHECK(count == 0 || memcmp(back, dense + first, count * 4) == 0);
            }
        CHECK_OK(pith_verify(a.bytes, a.length, NULL, NULL));
        free(a.bytes);
        free(b.bytes);
        stream_close(&s);
    }
}

/* The shape does not matter to the codec, only the order of elements. */
static void test_transposed(void **state) {
    (void)state;
    float x[40 * 50], turned[40 * 50];
    const uint64_t shape[2] = {40, 50};
    gen_fill(GEN_NOISE, 1, PITH_F32, x, 2000);
    for (size_t i = 0; i < 40; i++)
        for (size_t k = 0; k < 50; k++) turned[k * 40 + i] = x[i * 50 + k];
    const pith_view v = pith_view_dense(x, PITH_F32, 2, shape),
                    t = {turned, PITH_F32, 2, {40, 50}, {1, 40}};
    struct frame a = compress("grad:block=256", &v, NULL, 0);
    struct frame b = compress("grad:block=256", &t, NULL, 0);
    CHECK(a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0);
    free(a.bytes);
    free(b.bytes);
}

/* ---- Hard values -----------------------------------------------------------------------------*/

/* f16 at its largest is far inside f32: nothing is poisoned, the bound holds. */
static void test_largest_halves(void **state) {
    (void)state;
    static const char *const specs[] = {"grad",
                                        "grad:group=256,rotate=256",
                                        "grad:bits=8,sign_seed=9",
                                        "grad:search=mse",
                                        "grad:scale_dtype=e8m0",
                                        "grad:rotate=0"};
    uint16_t x[600] = {0};
    float y[600];
    const pith_view v = pith_view_flat(x, PITH_F16, 600), out = pith_view_flat(y, PITH_F32, 600);
    for (size_t k = 0; k < 6; k++)
        for (size_t i = 0; i < 3; i++) {
            double bound;
            for (size_t e = 0; e < 600; e++)
                x[e] = i == 0 ? 0x7BFF : i == 1 ? (e % 2 ? 0x7BFF : 0xFBFF) : (e % 7 ? 1 : 0x7BFF);
            context("%s pattern %zu", specs[k], i);
            struct frame f = compress(specs[k], &v, NULL, 0);
            CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &out, NULL));
            CHECK_OK(pith_error_bound(f.bytes, f.length, &bound, NULL));
            for (size_t e = 0; e < 600; e++) {
                const double from = (double)float_of(load_float(x, PITH_F16, e));
                CHECK(fabs(from - (double)y[e]) <= bound);
            }
            free(f.bytes);
        }
}

/* Near FLT_MAX a rotation may overflow: then the group is NaN and the caller sees it; where the
 * bound is a number it holds. */
static void near_largest(const char *spec, float top, unsigned *poisoned, unsigned *bounded) {
    float x[512] = {0}, y[512];
    const pith_view v = pith_view_flat(x, PITH_F32, 512), out = pith_view_flat(y, PITH_F32, 512);
    for (uint64_t seed = 1; seed < 9; seed++) {
        uint64_t random = seed;
        double bound;
        bool nan = false;
        for (size_t i = 0; i < 512; i++) {
            const float part = (float)(gen_next(&random) % 1000) / 999.0f;
            x[i] = gen_next(&random) % 2 ? part * top : -part * top;
        }
        x[seed] = top;
        context("%s up to %g, seed %u", spec, (double)top, (unsigned)seed);
        struct frame f = compress(spec, &v, NULL, 0);
        CHECK_OK(pith_decompress(f.bytes, f.length, NULL, NULL, &out, NULL));
        CHECK_OK(pith_error_bound(f.bytes, f.length, &bound, NULL));
        for (size_t i = 0; i < 512; i++) {
            nan |= isnan(y[i]);
            CHECK(isnan(bound) || fabs((double)x[i] - (double)y[i]) <= bound);
        }
        CHECK(!nan || isnan(bound));
        if (isnan(bound))
            ++*poisoned;
        else
            ++*bounded;
        free(f.bytes);
    }
}

static void test_largest_floats(void **state) {
    (void)state;
    static const char *const rotated[] = {"grad",
                                          "grad:bits=8,group=256,rotate=256,sign_seed=3",
                                          "grad:search=mse",
                                          "grad:scale_dtype=e8m0",
                                          "grad:scale_dtype=bf16",
                                          "grad:search=mse,scale_dtype=bf16,bits=2"};
    static const char *const plain[] = {
        "grad:rotate=0", "grad:rotate=0,scale_dtype=bf16", "grad:rotate=0,search=mse",
        "grad:rotate=0,search=mse,bits=2", "grad:rotate=0,round=stochastic,bits=6"};
    const float most = float_of(0x7F7FFFFFu);
    unsigned poisoned = 0, bounded = 0;
    for (size_t k = 0; k < 6; k++) {
        near_largest(rotated[k], most, &poisoned, &bounded);
        near_largest(rotated[k], most / 24, &poisoned, &bounded);
    }
    CHECK(poisoned > 0 && bounded > 0);
    poisoned = 0;
    for (size_t k = 0; k < 6; k++) near_largest(rotated[k], most / 512, &poisoned, &bounded);
    for (size_t k = 0; k < 5; k++) near_largest(plain[k], most, &poisoned, &bounded);
    CHECK(poisoned == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_search_pays),
        cmocka_unit_test(test_search_stops_at_half),
        cmocka_unit_test(test_unbiased),
        cmocka_unit_test(test_antithetic),
        cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_largest_halves),
        cmocka_unit_test(test_largest_floats),
    };
    return cmocka_run_group_tests_name("grad_values", tests, NULL, NULL);
}
