/* index.c - sets of elements: Elias-Fano and packed differences against the scalar reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcheck.h"
#include "roofline.h"

enum {
    MOST = 1100,
    LIST = MOST + PITHI_INDEX_SLACK,
    BYTES = 8 * MOST,
    CAPACITY = 2 * BYTES + 4096
};

static struct guarded area[2];
static uint32_t list[LIST], back[LIST];
static uint8_t bytes[BYTES], own[BYTES];

bool bound_index(const struct level *level) {
    const struct pithi_kernels *const k = &level->kernels;
    return k->elias_fano_put != pithi_elias_fano_put_c &&
           k->elias_fano_take != pithi_elias_fano_take_c && k->packed_put != pithi_packed_put_c &&
           k->packed_take != pithi_packed_take_c;
}

/* ---- Lists -----------------------------------------------------------------------------------*/

/* Makes a list whose gaps are around so many bits, few of them wider; returns an n that it is
 * below. */
static size_t make_list(size_t count, unsigned bits) {
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t rare = check_below(64) ? 0 : check_below((size_t)1 << (bits + 2));
        next += check_below((size_t)1 << bits) + rare;
        if (next > ((size_t)1 << 24) - (count - i)) next = ((size_t)1 << 24) - (count - i);
        list[i] = (uint32_t)next++;
    }
    const size_t left = ((size_t)1 << 24) - next;
    return next + (left && check_below(2) ? check_below(left < 1000 ? left : 1000) : 0);
}

static const void *place_list(size_t count) {
    return guarded_place(&area[0], check_below(3) ? 4 * check_below(16) : PLACE_END, list,
                         4 * count);
}
static uint8_t *place_bytes(const void *from, size_t length) {
    return guarded_place(&area[1], check_below(3) ? check_below(PLACE_COUNT) : PLACE_END, from,
                         length);
}
static uint32_t *place_back(size_t count) {
    memset(back, 0xC3, sizeof back);
    return (uint32_t *)(void *)guarded_place(&area[0],
                                             check_below(3) ? 4 * check_below(16) : PLACE_END, back,
                                             4 * (count + PITHI_INDEX_SLACK));
}
static void check_intact(void) {
    check_that(guarded_intact(&area[0]) && guarded_intact(&area[1]), "a byte outside changed");
}

/* ---- Elias-Fano ------------------------------------------------------------------------------*/

/* Any bytes are the same list to both, or none. */
static void check_elias_fano_take(const struct level *level, size_t count, size_t n, unsigned low,
                                  const char *what) {
    const size_t length = pithi_elias_fano_bytes(n, count, low);
    check_begin("index %s elias_fano_take %s: %zu of %zu, %u low bits", level->isa, what, count, n,
                low);
    const bool good = pithi_elias_fano_take_c(bytes, count, n, low, back);
    const uint8_t *const from = place_bytes(bytes, length);
    static uint32_t wanted[LIST];
    memcpy(wanted, back, sizeof wanted);
    uint32_t *const to = place_back(count);
    check_that(level->kernels.elias_fano_take(from, count, n, low, to) == good,
               "the kernel judges otherwise");
    if (good) check_that(!memcmp(to, wanted, 4 * count), "the list differs");
    if (!*what) check_that(good && !memcmp(wanted, list, 4 * count), "the reference lost the list");
    check_intact();
    check_end();
}

static void check_elias_fano(const struct level *level, size_t count, size_t n, unsigned low) {
    const size_t length = pithi_elias_fano_bytes(n, count, low);
    if (length > BYTES) return;
    check_begin("index %s elias_fano_put: %zu of %zu, %u low bits", level->isa, count, n, low);
    const void *const from = place_list(count);
    memset(own, 0xA5, length);
    uint8_t *const to = place_bytes(own, length);
    pithi_elias_fano_put_c(list, count, n, low, bytes);
    level->kernels.elias_fano_put(from, count, n, low, to);
    check_that(!memcmp(to, bytes, length), "bytes differ");
    check_intact();
    check_end();
    memcpy(own, bytes, length);
    check_elias_fano_take(level, count, n, low, "");
    for (int i = 0; i < 6; i++) { /* a bit, a byte, a one that moves, anything */
        const size_t bit = check_below(8 * length), other = check_below(8 * length);
        memcpy(bytes, own, length);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (i % 3 == 1) bytes[other / 8] ^= (uint8_t)(1u << other % 8);
        if (i % 3 == 2) bytes[other / 8] = (uint8_t)check_random();
        check_elias_fano_take(level, count, n, low, "of damaged bytes");
    }
    if (count > 1) { /* two numbers that are one */
        const size_t at = check_below(2) ? 1 + check_below(count - 1) : (count - 1) / 128 * 128;
        const uint32_t before = list[at ? at - 1 : 0];
        static uint32_t twice[LIST];
        memcpy(twice, list, 4 * count);
        twice[at ? at : 1] = before;
        pithi_elias_fano_put_c(twice, count, n, low, bytes);
        check_elias_fano_take(level, count, n, low, "of a number twice");
    }
    for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)check_random();
    check_elias_fano_take(level, count, n, low, "of any bytes");
    memset(bytes, 0xFF, length);
    check_elias_fano_take(level, count, n, low, "of ones");
}

/* ---- Packed ----------------------------------------------------------------------------------*/

static size_t packed_length(const uint8_t *width, size_t count) {
    size_t length = 0;
    for (size_t first = 0; first < count; first += PITHI_PACKED_GROUP) {
        const size_t left = count - first;
        length +=
            1 + pithi_packed_bytes(left < PITHI_PACKED_GROUP ? left : PITHI_PACKED_GROUP, *width++);
    }
    return length;
}

static void check_packed_take(const struct level *level, size_t count, size_t n, const char *what) {
    const size_t length = packed_length(bytes, count);
    static uint32_t wanted[LIST];
    check_begin("index %s packed_take %s: %zu below %zu, widths %d ..", level->isa, what, count, n,
                bytes[0]);
    /* Bytes of something else may follow. */
    const size_t readable = length + (check_below(2) ? check_below(BYTES - length) : 0);
    const uint8_t *const from = place_bytes(bytes, readable);
    uint32_t *const to = place_back(count);
    const bool good = pithi_packed_take_c(bytes, length, count, n, wanted);
    check_that(level->kernels.packed_take(from, readable, count, n, to) == good,
               "the kernel judges otherwise");
    if (good) check_that(!memcmp(to, wanted, 4 * count), "the list differs");
    if (!*what) check_that(good && !memcmp(wanted, list, 4 * count), "the reference lost the list");
    check_intact();
    check_end();
}

/* Changes an exception of a group that has some: its place or what it has above the width. */
static void damage_exception(size_t count) {
    const size_t groups = pithi_packed_groups(count);
    size_t at = groups;
    for (size_t g = 0; g < count / PITHI_PACKED_GROUP; g++) {
        const unsigned exceptions = pithi_packed_exceptions(bytes[g]);
        at += pithi_packed_bytes(PITHI_PACKED_GROUP, bytes[g]);
        if (exceptions && check_below(3) == 0)
            bytes[at - 1 - check_below(2 * exceptions)] =
                check_below(4) ? (uint8_t)check_below(130) : 0;
    }
}

static bool same_measure(const struct pithi_list_measure *a, const struct pithi_list_measure *b) {
    return a->packed == b->packed && a->runs == b->runs && a->exceptions == b->exceptions &&
           a->far == b->far;
}

static void check_packed(const struct level *level, size_t count, size_t n, bool patched) {
    const struct pithi_list_measure m = pithi_packed_put_c(list, count, patched, bytes, BYTES);
    const size_t groups = pithi_packed_groups(count);
    check_begin("index %s packed_put: %zu below %zu, %zu exceptions", level->isa, count, n,
                m.exceptions);
    const void *const from = place_list(count);
    memset(own, 0xA5, m.packed);
    uint8_t *const to = place_bytes(own, m.packed);
    struct pithi_list_measure other = level->kernels.packed_put(from, count, patched, to, m.packed);
    check_that(same_measure(&m, &other), "the measure differs");
    check_that(packed_length(bytes, count) == m.packed, "the measure is not that of the bytes");
    check_that(!memcmp(to, bytes, m.packed), "bytes differ");
    check_intact();
    /* In more memory than it takes, and in less. */
    const size_t more = m.packed + check_below(BYTES - m.packed);
    uint8_t *const roomy = place_bytes(own, more);
    other = level->kernels.packed_put(from, count, patched, roomy, more);
    check_that(same_measure(&m, &other), "the measure differs where memory is left");
    check_that(!memcmp(roomy, bytes, m.packed), "bytes differ where memory is left");
    check_intact();
    const size_t less = check_below(m.packed);
    uint8_t *const cut = place_bytes(own, less);
    other = level->kernels.packed_put(from, count, patched, cut, less);
    check_that(same_measure(&m, &other), "the measure differs where the memory is short");
    check_intact();
    check_end();
    memcpy(own, bytes, m.packed);
    check_packed_take(level, count, n, "");
    check_packed_take(level, count, (size_t)list[count - 1] + 1, "");
    check_packed_take(level, count, list[count - 1], "beyond the end");
    for (int i = 0; i < 3 && m.exceptions; i++) {
        memcpy(bytes, own, m.packed);
        damage_exception(count);
        check_packed_take(level, count, (size_t)1 << 24, "of damaged exceptions");
    }
    for (int i = 0; i < 3 && m.packed > groups; i++) {
        const size_t at = groups + check_below(m.packed - groups);
        memcpy(bytes, own, m.packed);
        bytes[at] ^= (uint8_t)(1u << check_below(8));
        check_packed_take(level, count, check_below(2) ? n : (size_t)1 << 24, "of damaged bytes");
    }
    for (size_t i = 0; i < BYTES; i++) bytes[i] = i % 3 ? 0 : (uint8_t)check_random();
    for (size_t i = 0; i < groups; i++) bytes[i] = (uint8_t)check_below(25);
    for (size_t i = 0; patched && i < count / PITHI_PACKED_GROUP; i++)
        if (bytes[i] <= PITHI_PATCHED_BITS_MAX)
            bytes[i] |= (uint8_t)(check_below(8) << PITHI_PATCHED_SHIFT);
    check_packed_take(level, count, (size_t)1 << 24, "of any bytes");
    memset(bytes + groups, 0xFF, BYTES - groups);
    check_packed_take(level, count, (size_t)1 << 24, "of ones");
}

void check_index(const struct level *level) {
    for (int i = 0; i < 2; i++)
        if (!area[i].pages) area[i] = guarded_new(CAPACITY);
    for (size_t i = 1; i < MOST; i++)
        for (unsigned k = 0; k < 3; k++) {
            const size_t count = i < 300 ? i : 1 + check_below(MOST);
            const unsigned bits = (unsigned)check_below(k == 2 ? 23 : 8);
            const size_t n = make_list(count, bits);
            const unsigned low = k ? bits : (unsigned)check_below(24);
            check_elias_fano(level, count, n, low);
            check_packed(level, count, n, false);
            check_packed(level, count, n, true);
        }
}

/* ---- Speed -----------------------------------------------------------------------------------*/

/* The kernels; then the choice of a form, and its bytes, as blocks have them. */
enum {
    PUT_ELIAS_FANO,
    TAKE_ELIAS_FANO,
    MEASURE,
    PUT_PACKED,
    TAKE_PACKED,
    PUT_SMALL,
    PUT_FAST,
    SPEEDS
};

struct bench {
    uint32_t *list, *back;
    uint8_t *elias_fano, *packed;
    size_t count, n;
    unsigned low;
};

static void run_once(const struct pithi_kernels *k, const struct bench *b, int what) {
    switch (what) {
    case PUT_ELIAS_FANO: k->elias_fano_put(b->list, b->count, b->n, b->low, b->elias_fano); break;
    case TAKE_ELIAS_FANO: k->elias_fano_take(b->elias_fano, b->count, b->n, b->low, b->back); break;
    case PUT_PACKED: (void)k->packed_put(b->list, b->count, true, b->packed, 4 * b->count); break;
    case TAKE_PACKED: k->packed_take(b->packed, 4 * b->count, b->count, b->n, b->back); break;
    case MEASURE: (void)k->packed_put(b->list, b->count, true, b->packed, 0); break;
    default: {
        const bool fast = what == PUT_FAST;
        const struct pithi_index_setting setting = {.elias_fano = !fast, .patched = fast};
        /* No form uses a map. */
        const struct pithi_index_set set = {NULL, b->list, b->n, b->count};
        uint8_t *const to = fast ? b->packed : b->elias_fano;
        const struct pithi_index_choice c = pithi_index_choose(k, &set, setting, to);
        pithi_index_put(k, &c, &set, to);
    }
    }
}

static double rate(const struct pithi_kernels *k, const struct bench *b, int what) {
    const int repeats = 1 + (int)(100000 / b->count);
    double most = 0;
    for (int run = 0; run < 140; run++) { /* short ones: what else the machine does is in few */
        const double start = roofline_clock();
        for (int i = 0; i < repeats; i++) run_once(k, b, what);
        const double took = (roofline_clock() - start) / repeats;
        if ((double)b->count / took > most) most = (double)b->count / took;
    }
    return most * 1e-9;
}

void bench_index(const struct level *level) {
    static const char *const names[] = {"put EF",      "take EF", "measure", "put packed",
                                        "take packed", "small",   "fast"};
    static const size_t gaps[] = {10000, 1000, 100, 20, 10};
    struct pithi_kernels scalar;
    if (!strstr("index", bench_only)) return;
    pithi_kernels_bind(&scalar, 0);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        for (size_t count = 2048; count <= 65536; count *= 32) {
            struct bench b = {.count = count, .n = 0};
            b.list = malloc(4 * (count + PITHI_INDEX_SLACK));
            b.back = malloc(4 * (count + PITHI_INDEX_SLACK));
            b.elias_fano = malloc(4 * count);
            b.packed = malloc(4 * count);
            if (b.list && b.back && b.elias_fano && b.packed) {
                size_t found = 0; /* each element with a chance of one in gaps[i] */
                for (; b.n < (size_t)1 << 24 && found < count; b.n++)
                    if (!check_below(gaps[i])) b.list[found++] = (uint32_t)b.n;
                b.count = found;
                while (pithi_elias_fano_bytes(b.n, b.count, b.low + 1) <
                       pithi_elias_fano_bytes(b.n, b.count, b.low))
                    b.low++;
                printf("index %-7s 1 in %5zu, %5zu:", level->isa, gaps[i], b.count);
                for (int what = 0; what < SPEEDS; what++) {
                    const double r = rate(&level->kernels, &b, what);
                    printf("  %s %5.2f G/s x%4.1f", names[what], r, r / rate(&scalar, &b, what));
                    if (what == TAKE_PACKED && memcmp(b.list, b.back, 4 * b.count))
                        printf(" WRONG");
                }
                printf("\n");
                fflush(stdout);
            }
            free(b.list), free(b.back), free(b.elias_fano), free(b.packed);
        }
}
