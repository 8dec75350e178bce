/* range_tmpl.h - the smallest and largest finite values of a dtype, for every ISA without its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h. */
#ifndef PITHI_PREDICT_RANGE_TMPL_H
#define PITHI_PREDICT_RANGE_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/range.h"

#define EXTREMES extremes32
#define WORD int32_t
#include "predict/range_word_tmpl.h"
#define EXTREMES extremes16
#define WORD int16_t
#include "predict/range_word_tmpl.h"

/* Bytes of a vector, the most vectors of a part, and bytes from a value to one that is fetched. */
enum { VECTOR = 64, PART = 256, PREFETCH = 8192 };

/* Three values for every lane, seen as integers: the largest with a sign, then the largest and the
 * least without. Where all are finite, the smallest and largest of the three are those of all: the
 * first is the largest value that is not negative, the second the lowest that is, and the third the
 * smallest where none is negative, and the highest where all are. Where one is not finite, one of
 * the first two is not. */
struct picked {
    v16 high, most, least;
};

ALWAYS struct picked pick(const uint8_t *from, size_t vectors, bool words) {
    struct picked p = {v_load(from), v_load(from), v_load(from)};
    for (size_t i = 0; i < vectors; i++, from += VECTOR) {
        const v16 x = v_load(from);
        __builtin_prefetch(from + PREFETCH, 0, 2);
        p.high = words ? v_maxi(p.high, x) : v_maxi16(p.high, x);
        p.most = words ? v_maxu(p.most, x) : v_maxu16(p.most, x);
        p.least = words ? v_minu(p.least, x) : v_minu16(p.least, x);
    }
    return p;
}

static size_t vectors_of(size_t count, size_t lanes) {
    return count / lanes < PART ? count / lanes : PART;
}

/* A part with values that are not finite is looked at value by value. */
static void find32(const uint8_t *from, size_t count, struct pithi_extremes *e) {
    const int32_t infinity = (int32_t)PITHI_F32_INF;
    for (size_t n; (n = 16 * vectors_of(count, 16)); from += 4 * n, count -= n) {
        const struct picked p = pick(from, n / 16, true);
        if (v_nonfinite(p.high) | v_nonfinite(p.most)) {
            extremes32(from, n, infinity, e);
            continue;
        }
        const v16 least = v_ordered(p.least);
        const int32_t low = v_reduce_mini(v_mini(v_ordered(p.most), least));
        const int32_t high = v_reduce_maxi(v_maxi(v_ordered(p.high), least));
        if (low < e->low) e->low = low;
        if (high > e->high) e->high = high;
    }
    if (count) extremes32(from, count, infinity, e);
}

static void find16(const uint8_t *from, size_t count, int16_t infinity, struct pithi_extremes *e) {
    for (size_t n; (n = 32 * vectors_of(count, 32)); from += 2 * n, count -= n) {
        const struct picked p = pick(from, n / 32, false);
        uint8_t lanes[3 * VECTOR];
        bool finite = true;
        v_store(lanes, p.high), v_store(lanes + VECTOR, p.most),
            v_store(lanes + 2 * VECTOR, p.least);
        for (size_t i = 0; i < 2 * VECTOR; i += 2)
            finite &= ((int16_t)pithi_get16(lanes + i) & infinity) != infinity;
        if (finite)
            extremes16(lanes, sizeof lanes / 2, infinity, e);
        else
            extremes16(from, n, infinity, e);
    }
    if (count) extremes16(from, count, infinity, e);
}

static void extremes(const void *values, uint32_t dtype, size_t count, struct pithi_extremes *e) {
    if (dtype == PITH_F32)
        find32(values, count, e);
    else
        find16(values, count, pithi_infinity16(dtype), e);
}

#endif
