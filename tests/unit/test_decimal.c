/* test_decimal.c - decimal settings: text, words, and the double below the number.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "common/decimal.h"
#include "gen.h"
#include "util.h"

static void accepts(const char *text, uint32_t mantissa, int exponent, const char *wanted) {
    uint32_t word = 1;
    char printed[PITHI_DECIMAL_TEXT];
    context("number %s", text);
    CHECK(pithi_decimal_parse(text, strlen(text), &word));
    CHECK(word == (mantissa ? PITHI_DECIMAL(mantissa, exponent) : 0));
    CHECK(pithi_decimal_legal(word) || word == 0);
    CHECK(pithi_decimal_print(word, printed) == strlen(wanted));
    CHECK(strcmp(printed, wanted) == 0);
}

static void test_text(void **state) {
    (void)state;
    accepts("0.001", 1, -3, "1e-3");
    accepts("1e-3", 1, -3, "1e-3");
    accepts("1E-03", 1, -3, "1e-3");
    accepts(".001", 1, -3, "1e-3");
    accepts("1.000e-3", 1, -3, "1e-3");
    accepts("2.5E3", 25, 2, "2500");
    accepts("2.5e+3", 25, 2, "2500");
    accepts("1200", 12, 2, "1200");
    accepts("1.", 1, 0, "1");
    accepts("0", 0, 0, "0");
    accepts("0.000", 0, 0, "0");
    accepts("0e5", 0, 0, "0");
    accepts("1.5e-7", 15, -8, "1.5e-7");
    accepts("999999", 999999, 0, "999999");
    accepts("100000000000000000000", 1, 20, "1e20");
    accepts("1e300", 1, 300, "1e300");
    accepts("1e-300", 1, -300, "1e-300");
    accepts("0.999999e-294", 999999, -300, "9.99999e-295");
}

static void refuses(const char *text) {
    uint32_t word;
    context("number %s", text);
    CHECK(!pithi_decimal_parse(text, strlen(text), &word));
}

static void test_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",        ".",
                                        "e",       "e5",
                                        "-1",      "+1",
                                        "1e",      "1e+",
                                        "1e-",     "1.2.3",
                                        "1e5.",    " 1",
                                        "1 ",      "0x1",
                                        "1e301",   "1e-301",
                                        "1000001", "1.000001e2",
                                        "nan",     "inf",
                                        "1e99999", "0.0000001e-295",
                                        "1,5",     "1e1e1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) refuses(texts[i]);
}

/* Every word has one text, and its text is that word. */
static void test_there_and_back(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < 200000; i++) {
        const uint32_t word = (uint32_t)gen_next(&seed) & 0x3FFFFFFFu;
        char text[PITHI_DECIMAL_TEXT];
        uint32_t back = 0;
        if (!pithi_decimal_legal(word)) continue;
        const size_t n = pithi_decimal_print(word, text);
        context("word %08x is %s", word, text);
        CHECK(n < sizeof text && strlen(text) == n);
        CHECK(pithi_decimal_parse(text, n, &back) && back == word);
    }
}

static void test_legal(void **state) {
    (void)state;
    context("legal words");
    CHECK(pithi_decimal_legal(PITHI_DECIMAL(1, 0)) && !pithi_decimal_legal(PITHI_DECIMAL(10, 0)));
    CHECK(pithi_decimal_legal(PITHI_DECIMAL(1, 300)) &&
          !pithi_decimal_legal(PITHI_DECIMAL(1, 301)));
    CHECK(pithi_decimal_legal(PITHI_DECIMAL(1, -300)) &&
          !pithi_decimal_legal(PITHI_DECIMAL(1, -301)));
    CHECK(pithi_decimal_legal(PITHI_DECIMAL(999999, 0)) &&
          !pithi_decimal_legal(PITHI_DECIMAL(1000001, 0)));
    CHECK(!pithi_decimal_legal(PITHI_DECIMAL(0, 1)));
}

/* Against the C library, which rounds to nearest: that number or the one before it, which of them
 * follows from the sign of the rest where long double shows it. */
static void test_floor(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (size_t i = 0; i < 200000; i++) {
        const uint32_t word = (uint32_t)gen_next(&seed) & 0x3FFFFFFFu;
        char text[PITHI_DECIMAL_TEXT];
        if (!pithi_decimal_legal(word)) continue;
        pithi_decimal_print(word, text);
        const double nearest = strtod(text, NULL), got = pithi_decimal_floor(word);
        context("%s rounded down", text);
        CHECK(got == nearest || got == nextafter(nearest, 0));
#if LDBL_MANT_DIG >= 64
        const long double wide = strtold(text, NULL);
        if (wide != (long double)nearest)
            CHECK(got == (wide < (long double)nearest ? nextafter(nearest, 0) : nearest));
#endif
    }
    context("exact numbers");
    CHECK(pithi_decimal_floor(PITHI_DECIMAL(5, -1)) == 0.5);
    CHECK(pithi_decimal_floor(PITHI_DECIMAL(1, 22)) == 1e22);
    CHECK(pithi_decimal_floor(PITHI_DECIMAL(3, 0)) == 3 && pithi_decimal_floor(0) == 0);
}

/* Against numbers of six digits, in units of their last digit. */
static void test_share(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (size_t i = 0; i < 200000; i++) {
        const uint32_t digits = (uint32_t)gen_next(&seed) % 1000000;
        const uint32_t n = 1 + (uint32_t)gen_next(&seed) % 4096;
        char text[PITHI_DECIMAL_TEXT];
        uint32_t word = 0;
        snprintf(text, sizeof text, "0.%06u", digits);
        context("%s of %u", text, n);
        CHECK(digits == 0 || pithi_decimal_parse(text, strlen(text), &word));
        CHECK(pithi_decimal_share(word, n) == ((uint64_t)digits * n + 500000) / 1000000);
    }
    context("shares of little");
    CHECK(pithi_decimal_share(PITHI_DECIMAL(5, -2), 30) == 2);
    CHECK(pithi_decimal_share(PITHI_DECIMAL(1, -300), UINT32_MAX) == 0);
    CHECK(pithi_decimal_share(PITHI_DECIMAL(999999, -15), UINT32_MAX) == 4);
    CHECK(pithi_decimal_share(PITHI_DECIMAL(999999, -16), UINT32_MAX) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_legal),
        cmocka_unit_test(test_floor),          cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
