/* rans.c - rANS strings: every number of states, of symbols, and any words.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { MOST = 6000, CAPACITY = 4 * MOST + 4096 };

static struct guarded area[3];
static uint8_t symbols[MOST], words[2 * MOST], back[MOST];
static struct pithi_rans memory;

bool bound_rans(const struct level *level) {
    return level->kernels.rans_encode != pithi_rans_encode_c &&
           level->kernels.rans_decode != pithi_rans_decode_c;
}

static size_t any_place(void) { return check_below(3) ? check_below(PLACE_COUNT) : PLACE_END; }

/* Symbols of so many kinds from `first` on, but for one in `steep` most of them alike. */
static void draw_symbols(size_t count, unsigned first, unsigned kinds, size_t steep) {
    for (size_t i = 0; i < count; i++) {
        const unsigned zeros = (unsigned)__builtin_ctzll(check_random() | UINT64_C(1) << 40);
        const unsigned kind =
            steep && check_below(steep) ? zeros % kinds : (unsigned)check_below(kinds);
        symbols[i] = (uint8_t)(first + kind);
    }
}

static struct pithi_rans_states states_of(unsigned log2, bool any) {
    struct pithi_rans_states s = {.log2 = log2};
    for (unsigned j = 0; j < PITHI_RANS_STATES_MOST; j++)
        s.x[j] = any ? (uint32_t)check_random() | PITHI_RANS_LOW : PITHI_RANS_LOW;
    return s;
}

static bool same_states(const struct pithi_rans_states *a, const struct pithi_rans_states *b) {
    return a->log2 == b->log2 && !memcmp(a->x, b->x, sizeof *a->x << a->log2);
}

/* Encodes into `space` bytes: the same words and states as scalar C, or none. */
static void check_encode(const struct level *level, size_t count, unsigned log2, size_t space) {
    struct pithi_rans_states wanted = states_of(log2, false), got = wanted;
    const uint8_t *const from = guarded_place(&area[0], any_place(), symbols, count);
    uint8_t *const to = guarded_place(&area[1], any_place(), words, space);
    const struct pithi_rans_encoder *const t = &memory.tables.encoder;
    struct pithi_rans_space put = {to, to + space}, expected = {words, words + space};
    const bool fits = level->kernels.rans_encode(t, from, count, &got, &put);
    check_that(pithi_rans_encode_c(t, symbols, count, &wanted, &expected) == fits,
               "one of them ran out of space");
    if (fits) {
        check_that(put.end - to == expected.end - words, "the number of words differs");
        check_that(!memcmp(put.end, expected.end, (size_t)(words + space - expected.end)),
                   "words differ");
        check_that(same_states(&got, &wanted), "states differ");
    }
    for (int i = 0; i < 2; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
}

/* Decodes `length` bytes of words, which need be none of these symbols. */
static void check_decode(const struct level *level, size_t count, struct pithi_rans_states states,
                         const uint8_t *from, size_t length) {
    struct pithi_rans_states got = states, wanted = states;
    const uint8_t *const placed = guarded_place(&area[1], any_place(), from, length);
    uint8_t *const to = guarded_place(&area[2], any_place(), back, count);
    const struct pithi_rans_decoder *const t = &memory.tables.decoder;
    struct pithi_rans_words taken = {placed, placed + length}, expected = {from, from + length};
    const bool enough = level->kernels.rans_decode(t, &got, &taken, to, count);
    check_that(pithi_rans_decode_c(t, &wanted, &expected, back, count) == enough,
               "one of them ran out of words");
    if (enough) {
        check_that(taken.at - placed == expected.at - from, "the number of words differs");
        check_that(!memcmp(to, back, count), "symbols differ");
        check_that(same_states(&got, &wanted), "states differ");
    }
    for (int i = 1; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
}

static void check_one(const struct level *level, size_t count, unsigned log2, unsigned first,
                      unsigned kinds, size_t steep) {
    check_begin("rans %s: %zu symbols, 2^%u states, %u kinds from %u", level->isa, count, log2,
                kinds, first);
    draw_symbols(count, first, kinds, steep);
    if (pithi_rans_plan(&memory, NULL, false, symbols, count) == SIZE_MAX) {
        check_end();
        return;
    }
    uint16_t frequency[256];
    memcpy(frequency, memory.frequency, sizeof frequency);
    pithi_rans_encoder_of(&memory.tables.encoder, frequency);
    check_encode(level, count, log2, 2 * count);
    check_encode(level, count, log2, check_below(2 * count + 1));
    struct pithi_rans_states states = states_of(log2, false);
    struct pithi_rans_space space = {words, words + 2 * count};
    check_that(pithi_rans_encode_c(&memory.tables.encoder, symbols, count, &states, &space),
               "two bytes for each symbol are too few");
    const size_t length = (size_t)(words + 2 * count - space.end);
    memmove(words, space.end, length);
    pithi_rans_decoder_of(&memory.tables.decoder, frequency);
    check_decode(level, count, states, words, length);
    check_that(!memcmp(back, symbols, count), "the reference lost symbols");
    check_decode(level, count, states_of(log2, true), words, check_below(length + 1));
    for (size_t i = 0; i < 2 * count; i++) words[i] = (uint8_t)check_random();
    check_decode(level, count, states_of(log2, true), words, check_below(2 * count + 1));
    check_end();
}

void check_rans(const struct level *level) {
    static const unsigned kinds[] = {2, 3, 31, 32, 33, 60, 64, 65, 100, 128, 129, 200, 256};
    for (int i = 0; i < 3; i++)
        if (!area[i].pages) area[i] = guarded_new(CAPACITY);
    for (unsigned log2 = 0; log2 <= PITHI_RANS_LOG2_STATES_MOST; log2++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (size_t n = 0; n < 24; n++) {
                const size_t count = n < 8 ? 2 + check_below(300) : 2 + check_below(MOST - 1);
                const unsigned first = (unsigned)check_below(256);
                check_one(level, count, log2, first, kinds[k], (const size_t[]){0, 8, 1000}[n % 3]);
            }
}

/* ---- Time ------------------------------------------------------------------------------------*/

enum { LARGE = 131072 };

static void one_kind(const struct level *level, unsigned kinds) {
    static uint8_t src[LARGE], packed[LARGE], out[LARGE];
    struct pithi_kernels scalar;
    double encode[2] = {1e9, 1e9}, decode[2] = {1e9, 1e9};
    pithi_kernels_bind(&scalar, 0);
    for (size_t i = 0; i < LARGE; i++) {
        unsigned sum = 0; /* a bell */
        for (int k = 0; k < 4; k++) sum += (unsigned)check_below(kinds / 4 + 1);
        src[i] = (uint8_t)sum;
    }
    for (int run = 0; run < 10; run++)
        for (int k = 0; k < 2; k++) {
            const struct pithi_kernels *const at = k ? &level->kernels : &scalar;
            pithi_rans_plan(&memory, NULL, false, src, LARGE);
            double t = roofline_clock();
            const size_t length =
                pithi_rans_pack(&memory, at->rans_encode, src, LARGE, packed, LARGE);
            t = roofline_clock() - t;
            if (t < encode[k]) encode[k] = t;
            t = roofline_clock();
            if (length) pithi_rans_unpack(&memory, at->rans_decode, packed, length, out, LARGE);
            t = roofline_clock() - t;
            if (t < decode[k]) decode[k] = t;
        }
    printf("rans %-7s %3u kinds, 128 KiB  encode %5.2f GB/s x%4.1f  decode %5.2f GB/s x%4.1f\n",
           level->isa, kinds + 1, LARGE * 1e-9 / encode[1], encode[0] / encode[1],
           LARGE * 1e-9 / decode[1], decode[0] / decode[1]);
}

void bench_rans(const struct level *level) {
    one_kind(level, 24);
    one_kind(level, 56);
    one_kind(level, 96);
    one_kind(level, 252);
}
