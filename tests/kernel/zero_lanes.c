/* zero_lanes.c - bits of zero maps in lanes: every number of lanes, any place, and any words.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum { LANES = PITHI_ZERO_LANES_MOST, STEPS = 70, MOST = LANES * (STEPS + 2), SPACE = 4 * MOST };

static struct guarded area[3];
static uint8_t bits[MOST], around[MOST], back[MOST], words[SPACE];
static pithi_zero_chances chances;

bool bound_zero_lanes(const struct level *level) {
    return level->kernels.zero_encode != pithi_zero_encode_c &&
           level->kernels.zero_decode != pithi_zero_decode_c;
}

static size_t any_place(void) { return check_below(3) ? check_below(PLACE_COUNT) : PLACE_END; }

/* Chances of all sizes, and the least and the largest. */
static void draw_chances(void) {
    uint32_t *const to = &chances[0][0];
    for (size_t i = 0; i < 2 * (sizeof chances / sizeof *to); i++) {
        const size_t above = check_below(4095) >> check_below(12);
        const uint32_t chance = (uint32_t)(check_below(2) ? 1 + above : 4095 - above);
        to[i / 2] = i % 2 ? to[i / 2] | chance << 16 : chance;
    }
}

static void draw_states(uint32_t *state) {
    for (size_t j = 0; j < LANES; j++)
        state[j] = check_below(8)   ? (uint32_t)check_random() | PITHI_RANS_LOW
                   : check_below(2) ? PITHI_RANS_LOW
                                    : UINT32_MAX;
}

/* Bits of the steps before the run stand first. */
static void draw_bits(struct pithi_zero_run *r) {
    for (size_t i = 0; i < MOST; i++) bits[i] = check_below(4) == 0;
    for (size_t i = 0; i < MOST; i++) around[i] = (uint8_t)check_random() & 0xEE;
    for (size_t i = 0; i < r->steps; i++)
        for (size_t j = r->active; j < r->lanes; j++) bits[(i + 2) * r->lanes + j] = 0;
}

/* Encodes into `space` bytes: the same words and states as scalar C, or none. */
static void check_encode(const struct level *level, const struct pithi_zero_run *run,
                         size_t space) {
    struct pithi_zero_run r = *run;
    uint32_t state[2][LANES];
    uint8_t full[MOST];
    const size_t bytes = r.steps * r.lanes;
    draw_states(state[0]);
    memcpy(state[1], state[0], sizeof state[0]);
    for (size_t i = 0; i < bytes; i++) full[i] = (uint8_t)check_random();
    r.around = full;
    r.bits = bits + 2 * r.lanes;
    const uint8_t *const wanted = pithi_zero_encode_c(&r, state[0], words, words + space);
    r.around = guarded_place(&area[0], any_place(), full, bytes);
    r.bits = guarded_place(&area[1], any_place(), r.bits, bytes);
    uint8_t *const to = guarded_place(&area[2], any_place(), words, space);
    memset(to, 0, space);
    const uint8_t *const got = level->kernels.zero_encode(&r, state[1], to, to + space);
    check_that((got == NULL) == (wanted == NULL), "one of them ran out of space");
    if (got && wanted) {
        check_that(to + space - got == words + space - wanted, "the number of words differs");
        check_that(!memcmp(got, wanted, (size_t)(words + space - wanted)), "words differ");
        check_that(!memcmp(state[0], state[1], sizeof state[0]), "states differ");
    }
    for (int i = 0; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
}

/* Decodes words that need be nobody's. */
static void check_decode(const struct level *level, const struct pithi_zero_run *run,
                         size_t length) {
    struct pithi_zero_run r = *run;
    uint32_t state[2][LANES];
    const size_t lead = 2 * r.lanes, bytes = r.steps * r.lanes;
    draw_states(state[0]);
    memcpy(state[1], state[0], sizeof state[0]);
    for (size_t i = 0; i < length; i++) words[i] = (uint8_t)check_random();
    memcpy(back, bits, lead);
    r.around = around;
    r.bits = back + lead;
    const uint8_t *const wanted = pithi_zero_decode_c(&r, state[0], words, words + length);
    r.around = guarded_place(&area[0], any_place(), around, bytes);
    const size_t before = r.lanes * (r.x < 2 ? r.x : 2);
    r.bits = guarded_place(&area[1], any_place(), bits + lead - before, before + bytes);
    r.bits += before;
    const uint8_t *const from = guarded_place(&area[2], any_place(), words, length);
    const uint8_t *const got = level->kernels.zero_decode(&r, state[1], from, from + length);
    check_that((got == NULL) == (wanted == NULL), "one of them wanted more words");
    if (got && wanted) {
        check_that(got - from == wanted - words, "they took other numbers of words");
        check_that(!memcmp(r.bits, back + lead, bytes), "bits differ");
        check_that(!memcmp(state[0], state[1], sizeof state[0]), "states differ");
    }
    for (int i = 0; i < 3; i++) check_that(guarded_intact(&area[i]), "a byte outside changed");
}

void check_zero_lanes(const struct level *level) {
    for (int i = 0; i < 3; i++)
        if (!area[i].pages) area[i] = guarded_new(SPACE + 4096);
    for (size_t n = 0; n < 1500; n++) {
        struct pithi_zero_run r = {.chances = (const pithi_zero_chances *)&chances};
        r.lanes = check_below(3) ? 16 : 1u << check_below(6);
        r.active = check_below(3) ? r.lanes : (unsigned)check_below(r.lanes + 1);
        r.steps = 1 + check_below(STEPS);
        r.x = check_below(5);
        check_begin("zero_lanes %s: %zu steps of %u lanes, %u active, from %zu on", level->isa,
                    r.steps, r.lanes, r.active, r.x);
        draw_chances();
        draw_bits(&r);
        check_encode(level, &r, check_below(4) ? 2 * r.steps * r.lanes : 2 * check_below(40));
        check_decode(level, &r, check_below(4) ? 2 * r.steps * r.lanes : check_below(200));
        check_end();
    }
}

static double seconds(const struct pithi_kernels *k, bool forward) {
    const struct pithi_zero_run r = {
        (const pithi_zero_chances *)&chances, around, bits, STEPS, 0, 16, 16};
    double least = 1e9;
    for (int run = 0; run < 200; run++) {
        uint32_t state[LANES];
        for (size_t j = 0; j < LANES; j++) state[j] = PITHI_RANS_LOW;
        const double start = roofline_clock();
        if (forward)
            (void)k->zero_encode(&r, state, words, words + SPACE);
        else
            (void)k->zero_decode(&r, state, words, words + SPACE);
        const double took = roofline_clock() - start;
        if (took < least) least = took;
    }
    return least;
}

void bench_zero_lanes(const struct level *level) {
    struct pithi_kernels scalar;
    pithi_kernels_bind(&scalar, 0);
    memset(words, 0x55, sizeof words);
    for (size_t i = 0; i < MOST; i++) {
        bits[i] = check_below(4) == 0;
        around[i] = (uint8_t)(2 * bits[i]);
    }
    for (size_t i = 0; i < sizeof chances / 4; i++) (&chances[0][0])[i] = 1024 << 16 | 1024;
    printf("zero_lanes %-7s 16 lanes, in cache", level->isa);
    for (int forward = 1; forward >= 0; forward--) {
        const double reference = seconds(&scalar, forward),
                     took = seconds(&level->kernels, forward);
        printf("  %s %5.3f bits/ns, %.2f times scalar", forward ? "encode" : "decode",
               16 * STEPS / took / 1e9, reference / took);
    }
    printf("\n");
}
