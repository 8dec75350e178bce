/* test_quant.c - quantization under a bound, differences and packed words, part by part.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bounds are checked in exact arithmetic: differences of two f32 in double where these are exact,
 * and in integers where they are not. */
#include <math.h>

#include "codec.h"
#include "predict/strip.h"
#include "util.h"

static uint64_t seed = UINT64_C(88172645463325252);
static uint64_t draw(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

enum { COUNT = 4096 };
static const double bounds[] = {0, 1e-45, 1e-38, 1e-30, 1e-6, 1e-3, 0.5, 1, 3, 1e30, 1e38};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

static size_t element(uint32_t dtype) { return dtype == PITH_F64 ? 8 : dtype == PITH_F32 ? 4 : 2; }

static double value_at(const void *p, uint32_t dtype, size_t i) {
    if (dtype != PITH_F64) return (double)float_of(load_float(p, dtype, i));
    double x;
    memcpy(&x, (const uint8_t *)p + 8 * i, 8);
    return x;
}

/* |a - b| <= bound in exact arithmetic: the rounded difference is right unless it is the bound,
 * and then the difference's own error says on which side it lies. */
static bool within(double a, double b, double bound) {
    const double d = a - b, part = d - a, lost = (a - (d - part)) + (-b - part);
    if (fabs(d) != bound) return fabs(d) < bound;
    return d < 0 ? lost >= 0 : lost <= 0;
}

/* Any bits, with some near multiples of the bound. */
static void fill(void *p, uint32_t dtype, double bound) {
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t r = draw();
        const double near = bound * (double)((int64_t)(r >> 20 & 0xFFFF) - 0x8000);
        const double x = r & 4 ? near * 0x1p-8 : near + bound * 1e-7 * (double)(r >> 40 & 15);
        const float x32 = (float)x;
        uint8_t *const to = (uint8_t *)p + i * element(dtype);
        if (r & 3)
            memcpy(to, &r, element(dtype));
        else if (dtype == PITH_F64)
            memcpy(to, &x, 8);
        else
            store_float(p, dtype, i, bits_of(x32));
    }
}

static bool missed(const uint8_t *miss, size_t i) { return miss[i / 8] >> i % 8 & 1; }

static void check_misses(const int32_t *codes, const uint8_t *miss, size_t count, size_t misses) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!missed(miss, i)) continue;
        sum++;
        CHECK(codes[i] == (i % 16 ? codes[i - 1] : 0));
    }
    CHECK(sum == misses);
    CHECK(count % 8 == 0 || miss[count / 8] >> count % 8 == 0);
}

static void one_absolute(uint32_t dtype, double bound, bool signed_zeros) {
    static double x[COUNT], y[COUNT];
    static int32_t codes[COUNT];
    uint8_t miss[COUNT / 8];
    struct pithi_quant q;
    const struct pithi_bound b = {PITHI_BOUND_ABSOLUTE, pithi_quant_floor(dtype, bound), 0};
    CHECK(b.value <= bound && (b.value > 0.99 * bound || bound < 1e-40));
    CHECK(pithi_quant_init(&q, dtype, &b, signed_zeros));
    fill(x, dtype, bound);
    const size_t count = COUNT - draw() % 40;
    const size_t misses = pithi_quantize_c(&q, x, count, codes, miss);
    check_misses(codes, miss, count, misses);
    pithi_dequantize_c(&q, codes, count, y, false);
    for (size_t i = 0; i < count; i++) {
        const double from = value_at(x, dtype, i), to = value_at(y, dtype, i);
        context("dtype %u bound %a element %zu: %a became %a", dtype, b.value, i, from, to);
        CHECK(isfinite(to));
        if (missed(miss, i)) continue;
        CHECK(isfinite(from) && within(from, to, b.value));
        CHECK(!signed_zeros || from != 0 || !signbit(from));
    }
    context("dtype %u bound %a", dtype, b.value);
    for (size_t i = 0; i < count; i++) { /* ordinary values are not stored exactly */
        const double from = value_at(x, dtype, i);
        if (dtype == PITH_F32 && bound > 1e-37 && bound < 1e37 && fabs(from) < 1000 * bound &&
            fabs(fmod(fabs(from) / bound, 2) - 1) > 0.01 && from != 0)
            CHECK(!missed(miss, i));
    }
}

static void test_absolute(void **unused) {
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};
    (void)unused;
    for (size_t k = 0; k < 4 * BOUNDS * sample_of(20); k++)
        one_absolute(dtypes[k % 4], bounds[k / 4 % BOUNDS], k / 4 / BOUNDS & 1);
}

/* |x - y| <= eps |x|: with both of one format the difference of two such is exact in double for
 * up to f32; f64 is checked with its units in the last place. */
static void one_relative(uint32_t dtype, double eps, bool signed_zeros) {
    static double x[COUNT], y[COUNT];
    static int32_t codes[COUNT];
    uint8_t miss[COUNT / 8];
    struct pithi_quant q;
    const struct pithi_bound b = {PITHI_BOUND_RELATIVE, eps, 0};
    CHECK(pithi_quant_init(&q, dtype, &b, signed_zeros));
    fill(x, dtype, 1);
    const size_t misses = pithi_quantize_c(&q, x, COUNT, codes, miss);
    check_misses(codes, miss, COUNT, misses);
    pithi_dequantize_c(&q, codes, COUNT, y, false);
    for (size_t i = 0; i < COUNT; i++) {
        const double from = value_at(x, dtype, i), to = value_at(y, dtype, i);
        context("dtype %u eps %a element %zu: %a became %a", dtype, eps, i, from, to);
        CHECK(isfinite(to));
        if (missed(miss, i)) continue;
        CHECK(isfinite(from) && within(from, to, eps * fabs(from) * (1 + 0x1p-40)));
        CHECK((from == 0) == (to == 0) && (to == 0 || signbit(from) == signbit(to)));
        CHECK(!signed_zeros || from != 0 || !signbit(from));
    }
}

static void test_relative(void **unused) {
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};
    static const double eps[] = {1e-12, 1e-7, 1e-5, 1e-3, 0.01, 0.3, 0.999};
    (void)unused;
    for (size_t k = 0; k < 4 * 7 * sample_of(10); k++)
        one_relative(dtypes[k % 4], eps[k / 4 % 7], k / 4 / 7 & 1);
}

/* r is not above 1 / s, and the next number is. */
static void test_inverse(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sample_of(200000); i++) {
        const uint32_t bits = (uint32_t)draw() & 0x7FFFFFFFu;
        if (nonfinite(bits) || !bits) continue;
        const float s = float_of(bits), r = pithi_quant_inverse(s);
        const double up = (double)float_of(bits_of(r) + 1);
        context("step %a has inverse %a", (double)s, (double)r);
        CHECK((double)r * (double)s <= 1 &&
              (up * (double)s > 1 || up > (double)r * 1e30 || bits_of(r) == 0x7F7FFFFFu));
    }
    CHECK(pithi_quant_inverse(0) == 0 && pithi_quant_inverse64(0) == 0);
    CHECK(pithi_quant_inverse64(0x1p-1074) == 0x1.fffffffffffffp1023);
}

/* What no frame may say, and codes that no encoder writes. */
static void test_hostile(void **unused) {
    static const uint32_t dtypes[] = {PITH_F32, PITH_BF16, PITH_F16, PITH_F64};
    static const double bad[] = {-1, -0x1p-149, (double)INFINITY, (double)NAN, 0x1.8p1023};
    struct pithi_quant q;
    (void)unused;
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < 5; i++) {
            struct pithi_bound b = {PITHI_BOUND_ABSOLUTE, bad[i], 0};
            context("dtype %u bound %a", dtypes[k], bad[i]);
            CHECK(!pithi_quant_init(&q, dtypes[k], &b, false));
            b.kind = PITHI_BOUND_RELATIVE;
            CHECK(!pithi_quant_init(&q, dtypes[k], &b, false));
        }
        for (size_t i = 0; i < BOUNDS + 2; i++) {
            const struct pithi_bound b = {i < BOUNDS ? PITHI_BOUND_ABSOLUTE : PITHI_BOUND_RELATIVE,
                                          i < BOUNDS    ? pithi_quant_floor(dtypes[k], bounds[i])
                                          : i == BOUNDS ? 1e-9
                                                        : 0.9,
                                          0};
            const int32_t codes[] = {INT32_MIN, INT32_MAX, 1 << 24 | 1, -1, 0};
            double out[5];
            CHECK(pithi_quant_init(&q, dtypes[k], &b, false));
            pithi_dequantize_c(&q, codes, 5, out, false);
            for (size_t j = 0; j < 5; j++) CHECK(isfinite(value_at(out, dtypes[k], j)));
        }
    }
}

/* ---- Differences -----------------------------------------------------------------------------*/

static void draw_extent(uint32_t extent[4]) {
    for (int d = 0; d < 4; d++) extent[d] = 1 + (uint32_t)(draw() % (draw() % 2 ? 2 : 9));
    extent[3] = 1 + (uint32_t)(draw() % 70);
}

static size_t count_of(const uint32_t e[4]) { return (size_t)e[0] * e[1] * e[2] * e[3]; }

/* Makes differences by their definition: along one dimension after the other. */
static void differences(const int32_t *codes, const uint32_t e[4], unsigned order, uint32_t *to) {
    const size_t count = count_of(e);
    size_t stride = 1;
    for (size_t i = 0; i < count; i++) to[i] = (uint32_t)codes[i];
    for (unsigned d = 3; d + order > 3 && d < 4; stride *= e[d--])
        for (size_t i = count; i-- > 0;)
            if (i / stride % e[d]) to[i] -= to[i - stride];
    for (size_t i = 0; i < count; i++) {
        const int64_t x = (int32_t)to[i];
        to[i] = (uint32_t)(x < 0 ? -2 * x - 1 : 2 * x);
    }
}

static void test_differences(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sample_of(3000); k++) {
        uint32_t extent[4];
        const unsigned order = (unsigned)(draw() % 5);
        draw_extent(extent);
        const size_t count = count_of(extent), from = draw() % count, n = draw() % (count - from);
        int32_t *codes = allocate(4 * count), *back = allocate(4 * count);
        uint32_t *expected = allocate(4 * count), *words = allocate(4 * count);
        void *memory = allocate(4 * count);
        struct pithi_unpredict u;
        for (size_t i = 0; i < count; i++) codes[i] = (int32_t)(draw() >> draw() % 32);
        differences(codes, extent, order, expected);
        context("extent %u %u %u %u order %u", extent[0], extent[1], extent[2], extent[3], order);
        pithi_predict_c(codes, extent, order, 0, count, words);
        CHECK(memcmp(words, expected, 4 * count) == 0);
        memset(words, 0, 4 * count);
        pithi_predict_c(codes + from, extent, order, from, n, words + from);
        CHECK(memcmp(words + from, expected + from, 4 * n) == 0);
        pithi_unpredict_init(&u, extent, order, memory);
        pithi_unpredict_c(&u, expected, from, back);
        pithi_unpredict_c(&u, expected + from, count - from, back + from);
        CHECK(memcmp(back, codes, 4 * count) == 0);
        free(codes), free(back), free(expected), free(words), free(memory);
    }
}

/* ---- Packed words ----------------------------------------------------------------------------*/

/* Against every table. */
static void test_choose(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sample_of(300); k++) {
        uint32_t counts[33] = {0};
        uint8_t table[4];
        const uint32_t most = 1 + (uint32_t)(draw() % 32), kinds = 1 + (uint32_t)(draw() % 12);
        for (uint32_t i = 0; i < kinds; i++)
            counts[draw() % (most + 1)] = (uint32_t)(draw() % 1000);
        const uint64_t bytes = pithi_bitplane_choose(counts, table);
        uint64_t best = UINT64_MAX, own = UINT64_MAX;
        for (uint32_t t = 0; t < 36 * 36 * 36; t++) {
            const uint32_t w[4] = {t % 36, t / 36 % 36, t / 36 / 36, 32};
            uint64_t bits = 0, top = 0;
            if (w[0] > w[1] || w[1] > w[2] || w[2] > 32) continue;
            for (uint32_t i = 0; i < 33; i++)
                if (counts[i]) top = i;
            for (uint32_t i = 0; i < 33; i++)
                bits += counts[i] * (i <= w[0] ? w[0] : i <= w[1] ? w[1] : i <= w[2] ? w[2] : top);
            if (bits < best) best = bits;
        }
        own = 0;
        for (uint32_t i = 0; i < 33; i++) {
            uint32_t at = 0;
            while (counts[i] && table[at] < i) at++;
            own += (uint64_t)counts[i] * table[at];
        }
        context("%zu: %u %u %u %u", k, table[0], table[1], table[2], table[3]);
        CHECK(table[0] <= table[1] && table[1] <= table[2] && table[2] <= table[3]);
        CHECK(own == best && bytes == 2 * best);
    }
}

static const struct pithi_kernels *kernels(void) {
    static struct pithi_kernels k;
    pithi_kernels_bind(&k, 0);
    return &k;
}

struct tile {
    struct pithi_strip p;
    size_t count, bytes;
    int32_t *codes;
    uint8_t *packed;
};

/* Codes of a sum of waves, a few of them wild. */
static struct tile draw_tile(void) {
    struct tile t = {.p = {.kernels = kernels(), .order = (unsigned)(draw() % 5)}};
    draw_extent(t.p.extent);
    t.count = count_of(t.p.extent);
    t.codes = allocate(4 * t.count);
    const uint64_t wild = 1 + draw() % 300, shift = 8 + draw() % 31;
    for (size_t i = 0; i < t.count; i++)
        t.codes[i] = draw() % wild ? (int32_t)((int64_t)draw() >> (24 + shift)) : (int32_t)draw();
    struct pithi_pen pen = {.capacity = 5 * t.count + 80,
                            .scratch = allocate(pithi_strip_scratch(t.count))};
    uint8_t *const bytes = pen.at = allocate(pen.capacity);
    CHECK(pithi_strip_put(&t.p, t.codes, &pen));
    t.bytes = (size_t)(pen.at - bytes);
    t.packed = copy_of(bytes, t.bytes);
    free(bytes), free(pen.scratch);
    return t;
}

static const char *take(const struct tile *t, const uint8_t *bytes, size_t length, int32_t *codes) {
    struct pithi_reader r = {bytes, length, allocate(pithi_strip_scratch(t->count)), NULL, NULL};
    const char *const wrong = pithi_strip_take(&t->p, &r, NULL, codes, false);
    CHECK(wrong || bytes != t->packed || r.left == 0);
    free(r.scratch);
    return wrong;
}

static void test_packed(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sample_of(2000); k++) {
        const struct tile t = draw_tile();
        int32_t *codes = allocate(4 * t.count);
        context("%u x %u x %u x %u, order %u", t.p.extent[0], t.p.extent[1], t.p.extent[2],
                t.p.extent[3], t.p.order);
        CHECK(take(&t, t.packed, t.bytes, codes) == NULL);
        CHECK(memcmp(codes, t.codes, 4 * t.count) == 0);
        struct pithi_pen pen = {.capacity = t.bytes,
                                .scratch = allocate(pithi_strip_scratch(t.count))};
        uint8_t *const exact = pen.at = allocate(t.bytes);
        CHECK(pithi_strip_put(&t.p, t.codes, &pen));
        CHECK(pen.capacity == 0 && memcmp(exact, t.packed, t.bytes) == 0);
        pen.at = exact;
        pen.capacity = t.bytes - 1;
        CHECK(!pithi_strip_put(&t.p, t.codes, &pen));
        free(exact), free(pen.scratch), free(codes), free(t.codes), free(t.packed);
    }
}

/* Every cut is noticed, and any bytes are safe. */
static void test_damage(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sample_of(300); k++) {
        const struct tile t = draw_tile();
        int32_t *codes = allocate(4 * t.count);
        for (int i = 0; i < 20; i++) {
            const size_t length = draw() % t.bytes;
            uint8_t *cut = copy_of(t.packed, length), *bytes = copy_of(t.packed, t.bytes);
            context("%zu of %zu bytes", length, t.bytes);
            CHECK(take(&t, cut, length, codes) != NULL);
            bytes[draw() % 16 % t.bytes] ^= (uint8_t)(1u << draw() % 8);
            take(&t, bytes, t.bytes, codes);
            free(cut), free(bytes);
        }
        t.packed[3] = 33;
        CHECK(take(&t, t.packed, t.bytes, codes) != NULL);
        free(codes), free(t.codes), free(t.packed);
    }
}

/* Noise; walks along the rows; sums of functions of one coordinate each, times one of the others,
 * with signs that make differences along these longer. */
static int32_t ordered(unsigned order, uint32_t i, const int32_t *codes, int32_t wild[4][16]) {
    const uint32_t at[4] = {i % 16, i / 16 % 16, i / 256 % 16, i / 4096};
    const int32_t noise = (int32_t)((int64_t)draw() >> 44);
    if (order == 0 || (order == 1 && at[0] == 0)) return noise;
    if (order == 1) return codes[i - 1] + noise / 1000;
    int32_t sum = 0, sign = 1;
    for (unsigned d = 0; d < order; d++) sum += wild[d][at[d]];
    for (unsigned d = order; d < 4; d++) sign *= at[d] % 2 ? -1 : 1;
    return sum * sign;
}

static void test_order(void **unused) {
    static int32_t codes[16 * 16 * 16 * 16];
    (void)unused;
    for (unsigned order = 0; order <= 4; order++) {
        const struct pithi_strip p = {.kernels = kernels(), .extent = {16, 16, 16, 16}};
        int32_t wild[4][16];
        for (int k = 0; k < 64; k++) wild[k / 16][k % 16] = (int32_t)(draw() >> 44);
        for (uint32_t i = 0; i < 65536; i++) codes[i] = ordered(order, i, codes, wild);
        context("order %u", order);
        const struct pithi_source source = {.values = pithi_tile_layout_dense(codes, 4)};
        CHECK(pithi_strip_choose(&p, &source, 4) == order);
        CHECK(pithi_strip_choose(&p, &source, 0) == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absolute),    cmocka_unit_test(test_relative),
        cmocka_unit_test(test_inverse),     cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_choose),
        cmocka_unit_test(test_packed),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
