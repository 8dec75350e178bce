/* range.c - what a bound can depend on: range, largest value and sum of squares.
 * SPDX-License-Identifier: Apache-2.0 */
#include "predict/range.h"

#include "predict/bound_value.h"

/* The order of values of 16 bits; what makes bits a place in it makes of a place its bits. */
static int32_t order16(int32_t bits) { return bits < 0 ? bits ^ 0x7FFF : bits; }

static void widen(struct pithi_extremes *e, int32_t order) {
    if (order < e->low) e->low = order;
    if (order > e->high) e->high = order;
}

void pithi_extremes_c(const void *values, uint32_t dtype, size_t count, struct pithi_extremes *e) {
    const uint8_t *const from = values;
    const int16_t infinity = pithi_infinity16(dtype);
    for (size_t i = 0; i < count; i++) {
        if (dtype == PITH_F32) {
            const uint32_t u = pithi_get32(from + 4 * i);
            if (!pithi_nonfinite(u)) widen(e, pithi_order(u));
        } else {
            const int16_t u = (int16_t)pithi_get16(from + 2 * i);
            if ((u & infinity) != infinity) widen(e, order16(u));
        }
    }
}

static double value_at(const void *values, uint32_t dtype, size_t i) {
    if (dtype != PITH_F64) return (double)pithi_float(pithi_load(values, dtype, i));
    double x;
    memcpy(&x, (const uint8_t *)values + 8 * i, sizeof x);
    return x;
}

static double value_of(int32_t order, uint32_t dtype) {
    if (dtype == PITH_F32) return (double)pithi_float((uint32_t)pithi_order((uint32_t)order));
    const uint16_t bits = (uint16_t)order16(order);
    return (double)pithi_float(dtype == PITH_F16 ? pithi_from_f16(bits) : pithi_from_bf16(bits));
}

static bool is_finite(double x) { return x >= -DBL_MAX && x <= DBL_MAX; }

static void add_value(struct pithi_range *s, double x) {
    if (!is_finite(x)) return;
    if (x < s->low) s->low = x;
    if (x > s->high) s->high = x;
    s->squares += x * x;
    s->finite++;
}

void pithi_range_measure(struct pithi_range *s, const void *values, uint32_t dtype, size_t count,
                         bool squares, pithi_extremes_fn *extremes) {
    struct pithi_extremes e = {INT32_MAX, INT32_MIN};
    *s = pithi_range_none();
    if (dtype == PITH_F64 || squares) {
        for (size_t i = 0; i < count; i++) add_value(s, value_at(values, dtype, i));
        return;
    }
    extremes(values, dtype, count, &e);
    if (e.low > e.high) return;
    s->low = value_of(e.low, dtype);
    s->high = value_of(e.high, dtype);
}

double pithi_range_error(const void *a, const void *b, uint32_t dtype, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double x = value_at(a, dtype, i), d = x - value_at(b, dtype, i);
        if (is_finite(x)) sum += d * d;
    }
    return sum;
}

void pithi_range_add(struct pithi_range *total, const struct pithi_range *b) {
    if (b->low < total->low) total->low = b->low;
    if (b->high > total->high) total->high = b->high;
    total->squares += b->squares;
    total->finite += b->finite;
}
