/* bitplane_tmpl.h - packed words, two groups of 16 at a time, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and defined measure: how many bits the largest word
 * of each of four groups needs; put_pair: 16 planes of the low halves of 16 words at `a`, then such
 * of others at `b`; get_pair: the first wa planes at `a` and wb at `b` to words of 16 bits. A plane
 * is 2 bytes; pairs read and write 32 at each place whatever the widths.
 *
 * A word's planes are the columns of 8 by 8 bits: byte b of words 8a..8a+7 is one such square,
 * turned over it is byte a of planes 8b..8b+7. */
#ifndef PITHI_PREDICT_BITPLANE_TMPL_H
#define PITHI_PREDICT_BITPLANE_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/bitplane.h"

enum { GROUP = PITHI_BITPLANE_GROUP, HALF = 16, REACH = 128 /* bytes that two groups may touch */ };

/* ---- Widths ----------------------------------------------------------------------------------*/

static void widths(const uint32_t *words, size_t count, uint8_t *to) {
    const size_t whole = count / (4 * GROUP) * (4 * GROUP);
    for (size_t i = 0; i < whole; i += 4 * GROUP, to += 4) measure(words + i, to);
    pithi_widths_c(words + whole, count - whole, to);
}

/* ---- Write -----------------------------------------------------------------------------------*/

static inline v16 words_at(const uint32_t *words) { return v_load((const uint8_t *)words); }

/* Writes all planes of a group, 64 bytes. */
static inline void put_all(uint8_t *to, const uint32_t *words) {
    const v16 x = words_at(words);
    put_pair(to, to + 2 * HALF, v_and(x, v_set(0xFFFF)), v_shr(x, 16));
}

static inline uint8_t *put_two(uint8_t *to, const uint32_t *words, const uint8_t *widths) {
    const size_t a = 2 * (size_t)widths[0], b = 2 * (size_t)widths[1];
    if (__builtin_expect((a | b) > 2 * HALF, 0)) {
        put_all(to, words);
        put_all(to + a, words + GROUP);
    } else {
        put_pair(to, to + a, words_at(words), words_at(words + GROUP));
    }
    return to + a + b;
}

static uint8_t *pack(const uint32_t *words, size_t groups, const uint8_t *widths, uint8_t *to,
                     size_t capacity) {
    uint8_t *const end = to + capacity;
    size_t g = 0;
    for (; g + 2 <= groups && (size_t)(end - to) >= REACH; g += 2)
        to = put_two(to, words + GROUP * g, widths + g);
    for (; g < groups; g++) {
        uint8_t all[4 * HALF];
        put_all(all, words + GROUP * g);
        memcpy(to, all, 2 * (size_t)widths[g]);
        to += 2 * (size_t)widths[g];
    }
    return to;
}

/* ---- Read ------------------------------------------------------------------------------------*/

/* Reads all planes of a group, 64 bytes. */
static inline void get_all(const uint8_t *from, unsigned width, uint32_t *words) {
    const unsigned low = width < HALF ? width : HALF;
    v16 x, y;
    get_pair(from, from + 2 * HALF, low, width - low, &x, &y);
    v_store((uint8_t *)words, v_xor(x, v_shl16(y)));
}

static inline const uint8_t *get_two(const uint8_t *from, const uint8_t *widths, uint32_t *words) {
    const unsigned a = widths[0], b = widths[1];
    if (__builtin_expect((a | b) > HALF, 0)) {
        get_all(from, a, words);
        get_all(from + 2 * a, b, words + GROUP);
    } else {
        v16 x, y;
        get_pair(from, from + 2 * a, a, b, &x, &y);
        v_store((uint8_t *)words, x);
        v_store((uint8_t *)(words + GROUP), y);
    }
    return from + 2 * a + 2 * b;
}

static const uint8_t *unpack(const uint8_t *from, size_t left, size_t groups, const uint8_t *widths,
                             uint32_t *words) {
    const uint8_t *const end = from + left;
    size_t g = 0;
    for (; g + 2 <= groups && (size_t)(end - from) >= REACH; g += 2)
        from = get_two(from, widths + g, words + GROUP * g);
    for (; g < groups; g++) {
        uint8_t all[4 * HALF] = {0};
        memcpy(all, from, 2 * (size_t)widths[g]);
        get_all(all, widths[g], words + GROUP * g);
        from += 2 * (size_t)widths[g];
    }
    return from;
}

#endif
