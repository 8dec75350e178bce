/* test_hadamard.c - the rotation: its inverse, its values, its signs, at every length.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gen.h"
#include "grad_model.h"
#include "group/hadamard.h"
#include "util.h"

enum { MOST = 600, SETTINGS = 9 };
static const struct pithi_rotation settings[SETTINGS] = {
    {0, 0},  {32, 0},          {64, 0},  {128, 0},         {256, 0},
    {32, 1}, {64, 0xFFFFFFFF}, {128, 7}, {256, 0x12345678}};

static double largest(const float *x, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* ---- Inverse ----------------------------------------------------------------------------------*/

static void test_inverse_at_every_length(void **state) {
    (void)state;
    float x[MOST], y[MOST], back[MOST];
    for (size_t n = 0; n <= MOST; n++) {
        gen_fill(GEN_NOISE, n + 1, PITH_F32, x, n);
        for (int k = 0; k < SETTINGS; k++) {
            context("order %u signs %u count %zu", settings[k].order, settings[k].signs, n);
            pithi_rotate_c(&settings[k], y, x, PITH_F32, n, 0);
            const double slack = largest(y, n) * 17 * 8 * 0x1p-23;
            pithi_unrotate_c(&settings[k], back, PITH_F32, y, n, 0, 1.0f);
            for (size_t i = 0; i < n; i++)
                CHECK(fabs((double)back[i] - (double)x[i]) <= (settings[k].order ? slack : 0));
        }
    }
}

/* No stage rounds small integers. */
static void test_integers_are_exact(void **state) {
    (void)state;
    float x[MOST], y[MOST], back[MOST];
    for (size_t i = 0; i < MOST; i++) x[i] = (float)((int)(i * 37 % 1001) - 500);
    for (int k = 0; k < SETTINGS; k++) {
        pithi_rotate_c(&settings[k], y, x, PITH_F32, MOST, 0);
        pithi_unrotate_c(&settings[k], back, PITH_F32, y, MOST, 0, 1.0f);
        for (size_t i = 0; i < MOST; i++) CHECK(x[i] == back[i]);
    }
}

/* ---- Values -----------------------------------------------------------------------------------*/

/* Row r, column c of the Sylvester matrix: minus where r and c share an odd number of bits. */
static int sylvester(size_t r, size_t c) { return __builtin_parityll(r & c) ? -1 : 1; }

static void check_run(const float *x, const float *y, size_t order) {
    double sum = 0;
    for (size_t i = 0; i < order; i++) sum += fabs((double)x[i]);
    for (size_t r = 0; r < order; r++) {
        double wanted = 0;
        for (size_t c = 0; c < order; c++) wanted += sylvester(r, c) * (double)x[c];
        CHECK(fabs((double)y[r] - wanted) <= sum * 8 * 0x1p-23);
    }
}

/* Whole runs, then the tail in runs of ever smaller orders, each once where it fits. */
static void test_against_the_matrix(void **state) {
    (void)state;
    float x[MOST], y[MOST];
    for (size_t n = 0; n <= MOST; n += n < 300 ? 1 : 23)
        for (int k = 0; k < SETTINGS; k++) {
            const struct pithi_rotation r = {settings[k].order, 0};
            size_t at = 0;
            context("order %u count %zu", r.order, n);
            gen_fill(GEN_SPARSE, n + 7, PITH_F32, x, n);
            pithi_rotate_c(&r, y, x, PITH_F32, n, 0);
            for (; r.order && n - at >= r.order; at += r.order) check_run(x + at, y + at, r.order);
            for (size_t order = r.order / 2; order; order /= 2)
                if ((n - at) & order) {
                    check_run(x + at, y + at, order);
                    at += order;
                }
            CHECK(!r.order ? memcmp(x, y, n * 4) == 0 : at == n);
        }
}

static void test_against_the_model(void **state) {
    (void)state;
    static const enum gen kinds[] = {GEN_NOISE, GEN_TINY, GEN_SPARSE, GEN_EQUAL};
    float x[MOST], y[MOST], z[MOST];
    for (size_t n = 0; n <= MOST; n++)
        for (int k = 0; k < SETTINGS; k++) {
            const struct model m = {.rotate = settings[k].order, .signs = settings[k].signs};
            context("order %u signs %u count %zu", m.rotate, m.signs, n);
            gen_fill(kinds[n % 4], n, PITH_F32, x, n);
            pithi_rotate_c(&settings[k], y, x, PITH_F32, n, 0);
            model_rotate(&m, x, n);
            CHECK(n == 0 || memcmp(x, y, n * sizeof *x) == 0);
            pithi_unrotate_c(&settings[k], z, PITH_F32, y, n, 0, 1.0f);
            model_unrotate(&m, x, n);
            CHECK(n == 0 || memcmp(x, z, n * sizeof *x) == 0);
        }
}

/* ---- Signs ------------------------------------------------------------------------------------*/

/* A slot's pieces get the signs that the slot gets as a whole, wherever a piece begins. */
static void test_signs_follow_the_element(void **state) {
    (void)state;
    static float x[2048], whole[2048], piece[2048];
    gen_fill(GEN_NOISE, 3, PITH_F32, x, 2048);
    for (int k = 1; k < SETTINGS; k++) {
        const struct pithi_rotation *r = &settings[k];
        pithi_rotate_c(r, whole, x, PITH_F32, 2048, 0);
        for (size_t at = 0; at < 2048; at += r->order) {
            context("order %u signs %u element %zu", r->order, r->signs, at);
            pithi_rotate_c(r, piece, x + at, PITH_F32, r->order, at);
            CHECK(memcmp(piece, whole + at, r->order * sizeof *x) == 0);
        }
    }
}

static void test_signs_depend_on_the_key(void **state) {
    (void)state;
    uint32_t before[4] = {0};
    for (uint32_t key = 1; key < 200; key++) {
        uint32_t words[4], ones = 0;
        for (uint64_t w = 0; w < 4; w++) {
            words[w] = pithi_sign_word(key, w);
            ones += (uint32_t)__builtin_popcount(words[w]);
        }
        context("key %u", key);
        CHECK(memcmp(words, before, sizeof words) != 0);
        CHECK(ones > 30 && ones < 98);
        memcpy(before, words, sizeof words);
    }
    CHECK(pithi_sign_word(5, 0) != pithi_sign_word(5, 4));
    CHECK(pithi_sign_word(5, 1) != pithi_sign_word(5, UINT64_C(1) << 34 | 1));
}

/* ---- Dtypes and scale -------------------------------------------------------------------------*/

static void test_dtypes(void **state) {
    (void)state;
    static const uint32_t dtypes[] = {PITH_BF16, PITH_F16};
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < SETTINGS; k++) {
            uint16_t x[MOST], out[MOST], wanted[MOST];
            float wide[MOST], y[MOST], z[MOST];
            context("%s order %u", pith_dtype_name(dtypes[d]), settings[k].order);
            gen_fill(GEN_NOISE, 11, dtypes[d], x, MOST);
            for (size_t i = 0; i < MOST; i++) wide[i] = float_of(load_float(x, dtypes[d], i));
            pithi_rotate_c(&settings[k], y, x, dtypes[d], MOST, 0);
            pithi_rotate_c(&settings[k], z, wide, PITH_F32, MOST, 0);
            CHECK(memcmp(y, z, sizeof y) == 0);
            pithi_unrotate_c(&settings[k], out, dtypes[d], y, MOST, 0, 0.75f);
            pithi_unrotate_c(&settings[k], z, PITH_F32, z, MOST, 0, 1.0f);
            for (size_t i = 0; i < MOST; i++)
                store_float(wanted, dtypes[d], i, bits_of(z[i] * 0.75f));
            CHECK(memcmp(out, wanted, sizeof out) == 0);
        }
}

/* The transform of the largest f16 values is far from overflow: it is made in f32. */
static void test_largest_halves(void **state) {
    (void)state;
    uint16_t x[256], back[256];
    float y[256];
    for (size_t i = 0; i < 256; i++) x[i] = i % 3 ? 0x7BFF : 0xFBFF;
    for (int k = 0; k < SETTINGS; k++) {
        pithi_rotate_c(&settings[k], y, x, PITH_F16, 256, 0);
        for (size_t i = 0; i < 256; i++) CHECK(isfinite(y[i]));
        pithi_unrotate_c(&settings[k], back, PITH_F16, y, 256, 0, 1.0f);
        CHECK(memcmp(x, back, sizeof x) == 0);
    }
}

static void test_nan_is_canonical(void **state) {
    (void)state;
    float x[64], y[64];
    for (size_t i = 0; i < 64; i++) x[i] = 1;
    x[40] = float_of(0xFF812345u);
    pithi_rotate_c(&settings[1], y, x, PITH_F32, 64, 0);
    pithi_unrotate_c(&settings[1], y, PITH_F32, y, 64, 0, 1.0f);
    for (size_t i = 0; i < 64; i++) CHECK(i < 32 ? y[i] == 1 : bits_of(y[i]) == 0x7FC00000u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inverse_at_every_length),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_against_the_matrix),
        cmocka_unit_test(test_against_the_model),
        cmocka_unit_test(test_signs_follow_the_element),
        cmocka_unit_test(test_signs_depend_on_the_key),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_largest_halves),
        cmocka_unit_test(test_nan_is_canonical),
    };
    return cmocka_run_group_tests_name("hadamard", tests, NULL, NULL);
}
