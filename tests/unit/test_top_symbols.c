/* test_top_symbols.c - words of floats cut in two, and whole again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bytes/top_symbols.h"
#include "bytes/update.h"
#include "gen.h"
#include "util.h"

static uint64_t seed = 1;
static uint32_t random_word(void) { return (uint32_t)(gen_next(&seed) >> 32); }

/* A word of so many bytes, with tops of every kind. */
static void draw_word(uint8_t *to, unsigned width) {
    for (unsigned k = 0; k < width; k++) to[k] = (uint8_t)random_word();
    if (random_word() % 4 == 0) to[width - 1] = (uint8_t)(random_word() % 2 ? 0 : 255);
    if (random_word() % 8 == 0) memset(to, 0, width);
}

static void there_and_back(unsigned width, unsigned low, size_t count) {
    const struct pithi_top top = {width, low, random_word() % 3 ? random_word() % 1000 : 0};
    uint8_t *const words = allocate(count * width), *const back = allocate(count * width),
                   *const values = allocate(count * width), *const symbols = allocate(count),
                   *const planes = allocate(count * 8), *const bits = allocate((count + 7) / 8 * 8),
                   *const string = allocate(pithi_top_bits_bytes(&top, count) + 7),
                   *const again = allocate((count + 7) / 8 * 8);
    uint16_t *const escapes = allocate(2 * count);
    const uint32_t dtype = width == 2 ? PITH_BF16 : width == 4 ? PITH_F32 : PITH_F64;
    const uint8_t *plane[8];
    context("width %u, %u lower bits, base %u, %zu words", width, low, top.base, count);
    for (size_t i = 0; i < count; i++) draw_word(words + i * width, width);
    const size_t used = pithi_top_cut_c(&top, words, count, symbols, planes, bits, escapes);
    CHECK(used == pithi_top_escapes(symbols, count));
    for (unsigned k = 0; k < low / 8; k++) plane[k] = planes + k * count;
    if (low % 8) {
        pithi_top_pack(string, bits, low % 8, count);
        uint8_t *const exact = copy_of(string, pithi_top_bits_bytes(&top, count));
        pithi_top_unpack(again, exact, low % 8, count);
        CHECK(memcmp(again, bits, count) == 0);
        free(exact);
    }
    CHECK(pithi_top_fit(&top, (const uint8_t *)escapes, used));
    pithi_top_join_c(&top, values, count, symbols, plane, string, (const uint8_t *)escapes);
    pithi_words_from(back, values, NULL, dtype, count);
    CHECK(memcmp(back, words, count * width) == 0);
    if (used && 8 * width - low < 16) {
        escapes[random_word() % used] = (uint16_t)(1u << (8 * width - low));
        CHECK(!pithi_top_fit(&top, (const uint8_t *)escapes, used));
    }
    free(words), free(back), free(symbols), free(planes), free(bits), free(string), free(again);
    free(escapes), free(values);
}

static void words_come_back(void **state) {
    (void)state;
    for (unsigned width = 2; width <= 8; width *= 2)
        for (unsigned low = 8 * width - 16; low < 8 * width; low++)
            for (size_t count = 1; count < 9000; count = count * 5 + random_word() % 7)
                there_and_back(width, low, count);
}

/* The exponents of bell-shaped values have some 2.5 bits, and the next two bits of the mantissa
 * less than two. What is no such noise stays bytes. */
static void bells_are_cut(void **state) {
    enum { COUNT = 20000 };
    static float values[COUNT];
    static uint32_t words[COUNT];
    struct pithi_top_choice choice;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) values[i] = (float)(0.02 * gen_normal(&seed));
    pithi_words_from(words, values, NULL, PITH_F32, COUNT);
    CHECK(pithi_top_choose(&choice, words, PITH_F32, COUNT) && choice.pays);
    context("%u lower bits, base %u, or %u", choice.top.low, choice.top.base, choice.finer.low);
    CHECK(choice.top.width == 4 && choice.top.low >= 21 && choice.top.low <= 24);
    CHECK(choice.finer.width == 4 && choice.finer.low >= 21 && choice.finer.low <= 23);
    CHECK(choice.finer_loss < COUNT * 256 / 16);
    CHECK(!pithi_top_choose(&choice, words, PITH_F32, 100));
    CHECK(!pithi_top_choose(&choice, words, PITH_U32, COUNT));
    for (size_t i = 0; i < COUNT; i++) values[i] = (float)(random_word() % 40);
    pithi_words_from(words, values, NULL, PITH_F32, COUNT);
    CHECK(pithi_top_choose(&choice, words, PITH_F32, COUNT) && !choice.pays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(bells_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
