/* test_rans.c - rANS strings: slots, tables, there and back, damage.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "bytes/entropy.h"
#include "bytes/rans.h"
#include "bytes/rans_table.h"
#include "gen.h"
#include "util.h"

static uint64_t seed = 1;
static uint32_t random_word(void) { return (uint32_t)(gen_next(&seed) >> 32); }

enum { SYMBOLS = 256, SLOTS = PITHI_RANS_SLOTS };

static struct pithi_rans *memory(void) {
    static struct pithi_rans *m;
    if (!m) m = allocate(sizeof *m);
    return m;
}

/* ---- Slots -----------------------------------------------------------------------------------*/

/* Frequencies of `kinds` symbols that add up to all slots; the larger `skew`, the more differ. */
static void draw_frequencies(uint16_t frequency[SYMBOLS], unsigned kinds, unsigned skew) {
    unsigned left = SLOTS - kinds, order[SYMBOLS];
    for (unsigned s = 0; s < SYMBOLS; s++) order[s] = s;
    for (unsigned s = SYMBOLS - 1; s > 0; s--) {
        const unsigned other = random_word() % (s + 1), t = order[s];
        order[s] = order[other];
        order[other] = t;
    }
    memset(frequency, 0, SYMBOLS * sizeof *frequency);
    for (unsigned k = 0; k < kinds; k++) {
        unsigned share = k + 1 < kinds ? left / (kinds - k) : left;
        for (unsigned i = 0; k + 1 < kinds && i < skew; i++)
            share = random_word() % 2 ? share / 2 : share + (left - share) / 2;
        frequency[order[k]] = (uint16_t)(1 + share);
        left -= share;
    }
}

/* Every symbol has as many slots as its frequency says, and they are numbered in ascending order;
 * the encoder's table has the same slots. */
static void check_slots(const uint16_t frequency[SYMBOLS]) {
    static struct pithi_rans_decoder d;
    static struct pithi_rans_encoder e;
    unsigned seen[SYMBOLS] = {0};
    memset(&d, 0xA5, sizeof d);
    memset(&e, 0xA5, sizeof e);
    pithi_rans_decoder_of(&d, frequency);
    pithi_rans_encoder_of(&e, frequency);
    CHECK(d.log2_width >= 4 && d.log2_width <= 7);
    for (unsigned t = 0; t < SLOTS; t++) {
        const struct pithi_rans_bucket *const b = &d.bucket[t >> d.log2_width];
        const unsigned k = (t & ((1u << d.log2_width) - 1)) >= b->split, s = b->symbol[k];
        CHECK(b->frequency[k] == frequency[s]);
        CHECK((uint16_t)(t + b->bias[k]) == seen[s]);
        CHECK(e.frequency[s] == frequency[s] && e.slot[e.start[s] + seen[s]] == t);
        seen[s]++;
    }
    for (unsigned s = 0; s < SYMBOLS; s++) CHECK(seen[s] == frequency[s]);
}

static void every_symbol_has_its_slots(void **state) {
    (void)state;
    uint16_t frequency[SYMBOLS];
    for (unsigned kinds = 2; kinds <= SYMBOLS; kinds++)
        for (unsigned skew = 0; skew < 12; skew++) {
            context("%u symbols, skew %u", kinds, skew);
            draw_frequencies(frequency, kinds, skew);
            check_slots(frequency);
        }
}

/* A state x < 2^20 f, which is what a frequency f takes, times the inverse of f is x / f. */
static void inverses_divide(void **state) {
    (void)state;
    static struct pithi_rans_encoder e;
    for (unsigned f = 1; f < SLOTS; f++) {
        uint16_t frequency[SYMBOLS] = {(uint16_t)f, (uint16_t)(SLOTS - f)};
        context("frequency %u", f);
        pithi_rans_encoder_of(&e, frequency);
        for (unsigned i = 0; i < 20; i++) {
            const uint32_t q = i ? (random_word() >> (12 + i)) + 1 : 1u << 20;
            CHECK((uint32_t)(q * f - 1) * e.inverse[0] >> PITHI_RANS_INVERSE_SHIFT == q - 1);
            if (i) CHECK((uint32_t)(q * f) * e.inverse[0] >> PITHI_RANS_INVERSE_SHIFT == q);
        }
    }
}

/* ---- There and back --------------------------------------------------------------------------*/

enum shape { FLAT, BELL, STEEP, TWO, ALMOST_ONE, ENDS, RISING, SHAPES };

static uint8_t draw(enum shape shape) {
    const uint32_t r = random_word();
    switch (shape) {
    case FLAT: return (uint8_t)r;
    case BELL: return (uint8_t)(128 + (int)lrint(fmax(-120, fmin(120, 12 * gen_normal(&seed)))));
    case STEEP: return (uint8_t)(100 + __builtin_ctz(r | 1u << 20));
    case TWO: return r % 2 ? 255 : 0;
    case ALMOST_ONE: return r % 4000 ? 7 : 200;
    case ENDS: return r % 64 ? (uint8_t)(r >> 8 & 3) : (uint8_t)(255 - (r >> 8 & 3));
    default: return (uint8_t)(255 - (uint32_t)sqrt(r >> 16));
    }
}

static double entropy(const uint8_t *src, size_t n) {
    size_t count[SYMBOLS] = {0};
    double bits = 0;
    for (size_t i = 0; i < n; i++) count[src[i]]++;
    for (unsigned s = 0; s < SYMBOLS; s++)
        if (count[s]) bits -= (double)count[s] * log2((double)count[s] / (double)n);
    return bits / 8;
}

static void there_and_back(enum shape shape, size_t n) {
    uint8_t *const src = allocate(n), *const back = allocate(n);
    const size_t cap = 2 * n + 2000;
    uint8_t *const bytes = allocate(cap);
    context("shape %d, %zu symbols", (int)shape, n);
    for (size_t i = 0; i < n; i++) src[i] = draw(shape);
    const size_t planned = pithi_rans_plan(memory(), NULL, false, src, n);
    const bool one = n == 1 || memcmp(src, src + 1, n - 1) == 0;
    CHECK(one == (planned == SIZE_MAX));
    if (!one) {
        const size_t length = pithi_rans_pack(memory(), pithi_rans_encode_c, src, n, bytes, cap);
        CHECK(length > 0);
        /* A state begins with 16 bits that say nothing, and ends with 8 on average; frequencies of
         * four significant bits cost little. */
        CHECK(fabs((double)length - (double)planned) < 8 + 0.004 * (double)n);
        CHECK((double)length < 1.005 * entropy(src, n) + 0.002 * (double)n + 4 * 128 + 420);
        uint8_t *const exact = copy_of(bytes, length);
        CHECK(pithi_rans_unpack(memory(), pithi_rans_decode_c, exact, length, back, n));
        CHECK(memcmp(back, src, n) == 0);
        CHECK(!pithi_rans_unpack(memory(), pithi_rans_decode_c, exact, length, back, n - 1));
        free(exact);
        uint8_t *const tight = allocate(length);
        CHECK(pithi_rans_plan(memory(), NULL, false, src, n) == planned);
        CHECK(pithi_rans_pack(memory(), pithi_rans_encode_c, src, n, tight, length) == length);
        CHECK(memcmp(tight, bytes, length) == 0);
        for (size_t cut = 1; cut <= length; cut += 1 + length / 16) {
            uint8_t *const small = allocate(length - cut + 1);
            pithi_rans_plan(memory(), NULL, false, src, n);
            CHECK(!pithi_rans_pack(memory(), pithi_rans_encode_c, src, n, small, length - cut));
            free(small);
        }
        free(tight);
    }
    free(src), free(back), free(bytes);
}

static void strings_come_back(void **state) {
    (void)state;
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        for (size_t n = 1; n < 300; n += 1 + n / 16) there_and_back(shape, n);
        for (size_t n = 2000; n < 300000; n = n * 3 / 2 + random_word() % 100)
            there_and_back(shape, n);
    }
}

/* Exponents of bf16 weights take what their frequencies say, and no 200th more, besides the table
 * and the states. */
static void exponents_take_their_entropy(void **state) {
    (void)state;
    enum { BLOCK = 131072, ROW = 1024 };
    uint8_t *const src = allocate(BLOCK), *const bytes = allocate(BLOCK);
    for (size_t n = BLOCK; n >= BLOCK / 8; n /= 2) {
        double deviation = 0;
        for (size_t i = 0; i < n; i++) {
            if (i % ROW == 0) deviation = 0.01 + 0.03 * (double)random_word() / UINT32_MAX;
            src[i] = (uint8_t)(bits_of((float)(deviation * gen_normal(&seed))) >> 23);
        }
        pithi_rans_plan(memory(), NULL, false, src, n);
        const size_t length = pithi_rans_pack(memory(), pithi_rans_encode_c, src, n, bytes, n);
        const size_t head = memory()->table_bytes + ((size_t)4 << memory()->states.log2);
        context("%zu exponents: %zu bytes, %.0f of entropy", n, length, entropy(src, n));
        CHECK(length > head && (double)length <= 1.005 * entropy(src, n) + (double)head);
        CHECK(memory()->table_bytes <= 48);
    }
    free(src), free(bytes);
}

/* Any words decode with two states as they do two symbols at a time, or are too few for both. */
static void long_strings_are_as_short_ones(void **state) {
    (void)state;
    enum { MOST = 3000 };
    static struct pithi_rans_decoder t;
    uint8_t symbols[2][MOST];
    for (size_t run = 0; run < sample_of(400); run++) {
        const size_t n = 2 + random_word() % (MOST - 1), length = 2 * (random_word() % n) + run % 2;
        uint16_t frequency[SYMBOLS];
        struct pithi_rans_states states[2] = {{.log2 = 1}};
        draw_frequencies(frequency, 2 + random_word() % 255, random_word() % 12);
        pithi_rans_decoder_of(&t, frequency);
        uint8_t *const words = allocate(length);
        for (size_t i = 0; i < length; i++) words[i] = (uint8_t)random_word();
        for (size_t j = 0; j < 2; j++) states[0].x[j] = random_word() | PITHI_RANS_LOW;
        states[1] = states[0];
        context("run %zu, %zu symbols, %zu bytes", run, n, length);
        struct pithi_rans_words from[2] = {{words, words + length}, {words, words + length}};
        const bool enough = pithi_rans_decode_c(&t, &states[0], &from[0], symbols[0], n);
        bool still = true;
        for (size_t i = 0; still && i < n; i += 2)
            still =
                pithi_rans_decode_c(&t, &states[1], &from[1], symbols[1] + i, i + 1 < n ? 2 : 1);
        CHECK(still == enough);
        CHECK(!enough || (from[0].at == from[1].at && !memcmp(symbols[0], symbols[1], n) &&
                          states[0].x[0] == states[1].x[0] && states[0].x[1] == states[1].x[1]));
        free(words);
    }
}

/* Returns log2 of the states of a string of n symbols below `kinds`. */
static unsigned states_of(size_t n, unsigned kinds, bool quick) {
    uint8_t *const src = allocate(n), *const bytes = allocate(2 * n);
    for (size_t i = 0; i < n; i++) src[i] = (uint8_t)(random_word() % kinds);
    pithi_rans_plan(memory(), NULL, quick, src, n);
    CHECK(pithi_rans_pack(memory(), pithi_rans_encode_c, src, n, bytes, 2 * n) > 0);
    const unsigned log2 = bytes[0] & 15;
    free(src), free(bytes);
    return log2;
}

/* A string has as many states as cost one byte in a hundred. */
static void states_are_chosen(void **state) {
    (void)state;
    context("states");
    CHECK(states_of(8191, 4, false) == 1 && states_of(8192, 4, false) == 3);
    CHECK(states_of(16383, 200, false) == 3 && states_of(16384, 200, false) == 5);
    CHECK(states_of(65535, 200, false) == 5 && states_of(65536, 200, false) == 7);
    CHECK(states_of(70000, 4, false) == 6 && states_of(80000, 4, false) == 7);
}

/* A quick one as cost one in 32. */
static void quick_strings_have_more_states(void **state) {
    (void)state;
    context("states of quick strings");
    CHECK(states_of(2047, 200, true) == 1 && states_of(2048, 200, true) == 3);
    CHECK(states_of(2500, 4, true) == 1 && states_of(3500, 4, true) == 3);
    CHECK(states_of(8191, 200, true) == 3 && states_of(8192, 200, true) == 5);
    CHECK(states_of(9000, 4, true) == 3 && states_of(13000, 4, true) == 5);
    CHECK(states_of(65535, 200, true) == 5 && states_of(70000, 4, true) == 6);
}

/* ---- By hand ---------------------------------------------------------------------------------*/

/* The example of doc/FORMAT.md. */
static const uint8_t example[] = {0x11, 5, 6, 0xFF, 0x0A, 0, 0xEA, 0x0B, 0, 0, 0xB0, 1, 0};
static const uint8_t example_symbols[] = {5, 5, 6, 5, 5, 5, 5, 5};

static void the_example_decodes(void **state) {
    (void)state;
    uint8_t back[8], bytes[sizeof example];
    CHECK(pithi_rans_unpack(memory(), pithi_rans_decode_c, example, sizeof example, back, 8));
    CHECK(memcmp(back, example_symbols, 8) == 0);
    CHECK(pithi_rans_plan(memory(), NULL, false, example_symbols, 8) == sizeof example);
    CHECK(pithi_rans_pack(memory(), pithi_rans_encode_c, example_symbols, 8, bytes, sizeof bytes) ==
          sizeof example);
    CHECK(memcmp(bytes, example, sizeof example) == 0);
}

/* The table of doc/FORMAT.md that drops bits. */
static void the_example_of_a_table_is_read_and_written(void **state) {
    (void)state;
    static const uint8_t table[] = {0x31, 5, 9, 0xCB, 0xBF, 0x0E, 0x6F, 0};
    static const struct pithi_rans_rounding rounding = {.rest = 6, .precision = 3};
    uint16_t frequency[SYMBOLS] = {0};
    uint8_t bytes[sizeof table];
    CHECK(pithi_rans_take_table(table, table + sizeof table, frequency) == table + sizeof table);
    CHECK(frequency[5] == 3 && frequency[6] == 2935 && frequency[7] == 6);
    CHECK(frequency[8] == 0 && frequency[9] == 1152);
    CHECK(pithi_rans_put_table(bytes, &rounding, 1, frequency, SYMBOLS) == bytes + sizeof bytes);
    CHECK(memcmp(bytes, table, sizeof table) == 0);
}

/* Writes `count` low bits of a value, least significant first, at bit *at. */
static void put(uint8_t *bytes, size_t *at, uint32_t value, unsigned count) {
    for (; count--; value >>= 1, ++*at)
        bytes[*at / 8] = (uint8_t)(bytes[*at / 8] | (value & 1) << *at % 8);
}

enum { REST = 3 | 15 << 2 };

struct bad_table {
    const char *what;
    uint8_t head, first, last;
    struct {
        uint32_t value;
        unsigned count;
    } bits[4];
};

/* All with two states of 2^16 and no words: a string of no symbols, were it legal. */
static const struct bad_table tables[] = {
    {"good: 2048 each", 0xB1, 5, 6, {{REST, 6}, {3 | 12 << 2, 6}, {0, 11}}},
    {"good: the rest last", 0x01, 5, 6, {{3 | 12 << 2, 6}, {REST, 6}}},
    {"good: a gap", 0x01, 5, 7, {{3 | 12 << 2, 6}, {3, 6}, {REST, 6}}},
    {"256 states", 0x08, 5, 6, {{REST, 6}, {3 | 12 << 2, 6}}},
    {"a precision of 12", 0xC1, 5, 6, {{REST, 6}, {3 | 12 << 2, 6}, {0, 11}}},
    {"one symbol", 0x01, 5, 5, {{REST, 6}}},
    {"the last before the first", 0x01, 6, 5, {{REST, 6}, {3 | 12 << 2, 6}}},
    {"a length of 13", 0x01, 5, 6, {{REST, 6}, {3 | 13 << 2, 6}}},
    {"a length of -1", 0x01, 5, 6, {{1, 3}, {REST, 6}}},
    {"two rests", 0x01, 5, 7, {{REST, 6}, {REST, 6}, {3 | 12 << 2, 6}}},
    {"no rest", 0x01, 5, 6, {{3 | 12 << 2, 6}, {0, 1}}},
    {"others that take all", 0x01, 5, 7, {{3 | 12 << 2, 6}, {0, 1}, {REST, 6}}},
    {"a first symbol without slots", 0x01, 5, 7, {{0, 1}, {3 | 12 << 2, 6}, {REST, 6}}},
    {"a last symbol without slots", 0x01, 5, 7, {{3 | 12 << 2, 6}, {REST, 6}, {3, 6}}},
    {"nothing but a rest", 0x01, 5, 6, {{REST, 6}, {0, 1}}},
    {"an unused bit", 0x01, 5, 6, {{REST, 6}, {3 | 12 << 2, 6}, {8, 4}}},
};

static void tables_are_checked(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        const struct bad_table *const c = &tables[k];
        uint8_t bytes[64] = {c->head, c->first, c->last}, out[1];
        size_t bits = 24;
        for (size_t i = 0; i < 4; i++) put(bytes, &bits, c->bits[i].value, c->bits[i].count);
        size_t length = (bits + 7) / 8;
        for (unsigned j = 0; j < 2; j++, length += 4) bytes[length + 2] = 1;
        context("%s", c->what);
        for (size_t cut = 0; cut <= length; cut++) {
            uint8_t *const exact = copy_of(bytes, cut);
            const bool good = pithi_rans_unpack(memory(), pithi_rans_decode_c, exact, cut, out, 0);
            CHECK(good == (cut == length && strncmp(c->what, "good", 4) == 0));
            free(exact);
        }
        bytes[length - 2] = 0; /* a state of 0 */
        CHECK(!pithi_rans_unpack(memory(), pithi_rans_decode_c, bytes, length, out, 0));
    }
}

/* ---- Damage ----------------------------------------------------------------------------------*/

/* Any change decodes to something or is refused; a string that is longer or shorter is refused. */
static void damage_is_harmless(void **state) {
    (void)state;
    for (size_t run = 0; run < sample_of(400); run++) {
        const size_t n = 2 + random_word() % 3000;
        const enum shape shape = random_word() % SHAPES;
        uint8_t *const src = allocate(n), *const back = allocate(n), *bytes = allocate(2 * n + 600);
        for (size_t i = 0; i < n; i++) src[i] = draw(shape);
        const size_t planned = pithi_rans_plan(memory(), NULL, false, src, n);
        const size_t length = planned == SIZE_MAX ? 0
                                                  : pithi_rans_pack(memory(), pithi_rans_encode_c,
                                                                    src, n, bytes, 2 * n + 600);
        context("run %zu, %zu symbols, %zu bytes", run, n, length);
        for (size_t k = 0; length && k < 64; k++) {
            uint8_t *const copy = copy_of(bytes, length);
            copy[k < 32 ? k % length : random_word() % length] ^=
                (uint8_t)(1u << random_word() % 8);
            (void)pithi_rans_unpack(memory(), pithi_rans_decode_c, copy, length, back, n);
            const size_t cut = random_word() % length;
            CHECK(!pithi_rans_unpack(memory(), pithi_rans_decode_c, bytes, cut, back, n));
            free(copy);
        }
        free(src), free(back), free(bytes);
    }
}

/* Pieces are plain where a coded string would have fewer bytes than any has (bytes/piece.c): in the
 * fewest there are two kinds of symbols, which neither rANS nor zstd at any effort codes in 12. */
static void no_string_takes_less_than_13_bytes(void **state) {
    (void)state;
    enum { LEAST = 13, LONG = 700 };
    const size_t memory_bytes = pithi_entropy_bytes(LONG, PITHI_EFFORT_MAX);
    void *const place = allocate(memory_bytes);
    struct pithi_entropy *const e = pithi_entropy_open(place, memory_bytes);
    for (size_t run = 0; run < sample_of(4000); run++) {
        uint8_t src[LONG], to[LONG];
        const size_t n = 2 + random_word() % (run % 4 ? 40 : LONG - 2), period = 1 + run % 5;
        const size_t edge = 1 + random_word() % (n - 1);
        for (size_t i = 0; i < n; i++) /* few kinds, or a period, or the same but for one place */
            src[i] = (uint8_t)(run % 3 == 0   ? random_word() % 2
                               : run % 3 == 1 ? i % period
                                              : (run % 2 ? i == edge : i >= edge));
        if (memcmp(src, src + 1, n - 1) == 0) continue;
        const int effort = 1 + (int)(random_word() % PITHI_EFFORT_MAX);
        const int flag = run % 7 ? 0 : PITHI_ENTROPY_BARE;
        context("run %zu, %zu symbols, effort %d", run, n, effort);
        CHECK(pithi_entropy_pack(e, effort | flag, src, n, to, LEAST - 1) == 0);
        const size_t planned = pithi_rans_plan(memory(), NULL, false, src, n);
        CHECK(planned >= LEAST);
        CHECK(pithi_rans_pack(memory(), pithi_rans_encode_c, src, n, to, LEAST - 1) == 0);
    }
    free(place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_symbol_has_its_slots),
        cmocka_unit_test(inverses_divide),
        cmocka_unit_test(strings_come_back),
        cmocka_unit_test(exponents_take_their_entropy),
        cmocka_unit_test(long_strings_are_as_short_ones),
        cmocka_unit_test(states_are_chosen),
        cmocka_unit_test(quick_strings_have_more_states),
        cmocka_unit_test(the_example_decodes),
        cmocka_unit_test(the_example_of_a_table_is_read_and_written),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(damage_is_harmless),
        cmocka_unit_test(no_string_takes_less_than_13_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
