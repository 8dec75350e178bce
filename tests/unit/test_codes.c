/* test_codes.c - codes as symbols, and entropy-coded codes: there and back, damage, what they take.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "bytes/entropy.h"
#include "gen.h"
#include "group/code_symbols.h"
#include "util.h"

static uint32_t random_word(void) {
    static uint64_t seed = 1;
    return (uint32_t)(gen_next(&seed) >> 32);
}

static void *aligned(size_t bytes) {
    void *const memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(memory);
    return memset(memory, 0xA5, bytes);
}

/* A coder that has memory for rANS strings and for nothing else. */
static struct pithi_entropy *coder_of(void) {
    const size_t bytes = pithi_entropy_bytes(1 << 20, PITHI_EFFORT_RANS);
    return pithi_entropy_open(aligned(bytes), bytes);
}

/* ---- Symbols ---------------------------------------------------------------------------------*/

static unsigned code_at(const uint8_t *codes, size_t i, unsigned bits) {
    unsigned code = 0;
    for (unsigned k = 0; k < bits; k++)
        code |= (unsigned)(codes[(i * bits + k) / 8] >> (i * bits + k) % 8 & 1) << k;
    return code;
}

static const unsigned widths[] = {2, 3, 4, 5, 6, 8};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* Buffers end where they are allowed to be touched. */
static void symbols_are_codes(void **state) {
    (void)state;
    for (size_t w = 0; w < WIDTHS; w++)
        for (size_t count = 1; count < 70; count++) {
            const unsigned bits = widths[w];
            const size_t bytes = (count * bits + 7) / 8;
            uint8_t *const codes = allocate(bytes), *const back = allocate(bytes);
            uint8_t *const symbols = allocate(count);
            for (size_t i = 0; i < bytes; i++) codes[i] = (uint8_t)random_word();
            context("%zu codes of %u bits", count, bits);
            pithi_codes_to_symbols(bits, codes, count, symbols);
            for (size_t i = 0; i < count; i++) CHECK(symbols[i] == code_at(codes, i, bits));
            CHECK(pithi_symbols_to_codes(bits, symbols, count, back) >> bits == 0);
            for (size_t i = 0; i < count; i++) CHECK(code_at(back, i, bits) == symbols[i]);
            if (count * bits % 8) CHECK(back[bytes - 1] >> count * bits % 8 == 0);
            if (bits < 8) {
                symbols[random_word() % count] = (uint8_t)(1 << bits);
                CHECK(pithi_symbols_to_codes(bits, symbols, count, back) >> bits != 0);
            }
            free(codes);
            free(back);
            free(symbols);
        }
}

/* ---- Entropy-coded codes ---------------------------------------------------------------------*/

enum shape { BELL, FLAT, ONE, SHAPES };

static uint8_t draw(enum shape shape, unsigned bits) {
    int sum = 0;
    for (int i = 0; i < 8; i++) sum += (int)(random_word() >> 8 & 0xFF);
    if (shape == ONE) return (uint8_t)((1 << bits) - 1);
    if (shape == FLAT) return (uint8_t)(random_word() & ((1u << bits) - 1));
    return (uint8_t)((sum - 1020) * (1 << bits) / 2040 & ((1 << bits) - 1));
}

static double entropy(const uint8_t *symbols, size_t n) {
    size_t count[256] = {0};
    double bits = 0;
    for (size_t i = 0; i < n; i++) count[symbols[i]]++;
    for (unsigned s = 0; s < 256; s++)
        if (count[s]) bits -= (double)count[s] * log2((double)count[s] / (double)n);
    return bits / 8;
}

/* Strings of codes that are drawn, with bytes between them that nobody may touch. */
static struct pithi_code_strings strings_of(enum shape shape, unsigned bits, size_t count,
                                            size_t codes, uint8_t *symbols) {
    const size_t bytes = (codes * bits + 7) / 8;
    struct pithi_code_strings s = {.count = count, .codes = codes, .stride = bytes + 3};
    s.bits = bits;
    s.at = memset(allocate(count * s.stride), 0x5A, count * s.stride);
    for (size_t i = 0; i < count * codes; i++) symbols[i] = draw(shape, bits);
    for (size_t i = 0; i < count; i++)
        pithi_symbols_to_codes(bits, symbols + i * codes, codes, s.at + i * s.stride);
    return s;
}

static void there_and_back(enum shape shape, unsigned bits, size_t count, size_t codes) {
    const size_t n = count * codes, packed = count * ((codes * bits + 7) / 8), cap = packed + 2;
    struct pithi_entropy *const coder = coder_of();
    uint8_t *const symbols = allocate(n), *const bytes = allocate(cap), *const seen = allocate(n);
    const struct pithi_code_strings s = strings_of(shape, bits, count, codes, seen);
    struct pithi_pen pen = {bytes, cap,  PITHI_EFFORT_RANS, NULL, coder, pithi_rans_encode_c,
                            NULL,  false};
    context("shape %d, %zu strings of %zu codes of %u bits", (int)shape, count, codes, bits);
    CHECK(pithi_codes_put(&pen, &s, symbols));
    const size_t length = (size_t)(pen.at - bytes);
    CHECK(pen.capacity == cap - length && length <= packed + 1);
    const bool one = n == 1 || memcmp(seen, seen + 1, n - 1) == 0;
    CHECK((bytes[0] == 1) == one);
    if (bytes[0] == 0) CHECK(length == packed + 1);
    if (bytes[0] == 4) CHECK(length <= packed);
    if (shape == BELL && n >= 8192) {
        CHECK(bytes[0] == 4);
        CHECK((double)length < 1.005 * entropy(seen, n) + 0.002 * (double)n + 4 * 64 + 420);
    }
    struct pithi_code_strings back = s;
    back.at = memset(allocate(count * s.stride), 0x5A, count * s.stride);
    uint8_t *const exact = copy_of(bytes, length);
    struct pithi_reader r = {exact, length, NULL, coder, pithi_rans_decode_c};
    CHECK(!pithi_codes_take(&r, &back, symbols) && r.left == 0);
    CHECK(memcmp(back.at, s.at, count * s.stride) == 0);
    for (size_t cut = 0; cut < length; cut += 1 + length / 20) {
        uint8_t *const part = copy_of(bytes, cut), *const small = allocate(cut);
        struct pithi_reader short_of = {part, cut, NULL, coder, pithi_rans_decode_c};
        CHECK(pithi_codes_take(&short_of, &back, symbols));
        struct pithi_pen tight = {small, cut,  PITHI_EFFORT_RANS, NULL, coder, pithi_rans_encode_c,
                                  NULL,  false};
        CHECK(!pithi_codes_put(&tight, &s, symbols));
        free(part);
        free(small);
    }
    free(coder);
    free(symbols);
    free(bytes);
    free(seen);
    free(s.at);
    free(back.at);
    free(exact);
}

static void coded_codes_come_back(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{1, 1}, {1, 7}, {3, 5}, {16, 40}, {1, 2048}, {512, 33}};
    for (size_t w = 0; w < WIDTHS; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (enum shape shape = 0; shape < SHAPES; shape++)
                there_and_back(shape, widths[w], sizes[i][0], sizes[i][1]);
}

/* ---- Without zstd ----------------------------------------------------------------------------*/

/* A string that repeats, which zstd makes short. */
static void a_coder_of_rans_has_no_zstd(void **state) {
    (void)state;
    enum { N = 4096 };
    const size_t memory = pithi_entropy_bytes(N, 1);
    struct pithi_entropy *const zstd = pithi_entropy_open(aligned(memory), memory);
    struct pithi_entropy *const rans = coder_of();
    void *const scratch = aligned(pithi_piece_scratch(N));
    static uint8_t src[N], bytes[N + 8], back[N];
    for (size_t i = 0; i < N; i++) src[i] = i < 64 ? (uint8_t)random_word() : src[i - 64];
    struct pithi_pen pen = {bytes, sizeof bytes,        1,    scratch,
                            zstd,  pithi_rans_encode_c, NULL, false};
    CHECK(pithi_piece_put(&pen, N, src, N) && bytes[0] == 2);
    const size_t length = (size_t)(pen.at - bytes);
    struct pithi_reader r = {bytes, length, scratch, zstd, pithi_rans_decode_c};
    CHECK(pithi_piece_take(&r, N, back) && memcmp(back, src, N) == 0);
    r = (struct pithi_reader){bytes, length, scratch, rans, pithi_rans_decode_c};
    CHECK(!pithi_piece_take(&r, N, back));
    pen = (struct pithi_pen){
        bytes, sizeof bytes, PITHI_EFFORT_RANS, scratch, rans, pithi_rans_encode_c, NULL, false};
    CHECK(pithi_piece_put(&pen, N, src, N) && bytes[0] != 2);
    r = (struct pithi_reader){bytes, (size_t)(pen.at - bytes), scratch, rans, pithi_rans_decode_c};
    const uint8_t *const piece = pithi_piece_take(&r, N, back);
    CHECK(piece && memcmp(piece, src, N) == 0);
    free(zstd);
    free(rans);
    free(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_codes),
        cmocka_unit_test(coded_codes_come_back),
        cmocka_unit_test(a_coder_of_rans_has_no_zstd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
