/* metrics.c - how far two tensors are apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 4096 };

/* ---- Values in logical order -----------------------------------------------------------------*/

static uint64_t stride_of(const struct tensor *t, uint32_t dim) {
    uint64_t stride = 1;
    for (uint32_t i = 0; i < dim; i++) stride *= t->shape[i];
    return stride;
}

/* Moves to the next element in row-major order. */
static void advance(struct reader *r) {
    const struct tensor *t = r->t;
    if (!t->fortran_order) {
        r->offset++;
        return;
    }
    for (uint32_t d = t->ndim; d-- > 0;) {
        const uint64_t stride = stride_of(t, d);
        r->offset += stride;
        if (++r->at[d] < t->shape[d]) return;
        r->offset -= stride * t->shape[d];
        r->at[d] = 0;
    }
}

static uint64_t load_bits(const struct reader *r) {
    const uint32_t n = r->t->item_bytes;
    const uint8_t *p = r->bytes + r->offset * n;
    uint8_t item[8];
    memcpy(item, p, n);
    if (r->t->swapped) swap_items(item, 1, n);
    uint8_t one;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (n) {
    case 1: memcpy(&one, item, 1); return one;
    case 2: memcpy(&two, item, 2); return two;
    case 4: memcpy(&four, item, 4); return four;
    default: memcpy(&eight, item, 8); return eight;
    }
}

static double f32_value(uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float v;
    memcpy(&v, &low, sizeof v);
    return v;
}

static double f64_value(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Reads a binary float with these field widths; no_infinity: only the largest pattern is NaN. */
static double small_float(uint64_t bits, int exponent_bits, int fraction_bits, bool no_infinity) {
    const int top = (1 << exponent_bits) - 1, bias = top >> 1;
    const int exponent = (int)(bits >> fraction_bits) & top;
    const int fraction = (int)bits & ((1 << fraction_bits) - 1);
    const int implicit = 1 << fraction_bits;
    double v;
    if (no_infinity && exponent == top && fraction == implicit - 1)
        v = NAN;
    else if (!no_infinity && exponent == top)
        v = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        v = ldexp(fraction, 1 - bias - fraction_bits);
    else
        v = ldexp(fraction + implicit, exponent - bias - fraction_bits);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -v : v;
}

static double value_of(uint32_t dtype, uint64_t bits) {
    switch (dtype) {
    case PITH_F32: return f32_value(bits);
    case PITH_BF16: return f32_value(bits << 16);
    case PITH_F64: return f64_value(bits);
    case PITH_F16: return small_float(bits, 5, 10, false);
    case PITH_F8E5M2: return small_float(bits, 5, 2, false);
    case PITH_F8E4M3: return small_float(bits, 4, 3, true);
    case PITH_I8: return (int8_t)(uint8_t)bits;
    case PITH_I16: return (int16_t)(uint16_t)bits;
    case PITH_I32: return (int32_t)(uint32_t)bits;
    case PITH_I64: return (double)(int64_t)bits;
    default: return (double)bits;
    }
}

double reader_next(struct reader *r) {
    const double v = value_of(r->t->dtype, load_bits(r));
    advance(r);
    return v;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

static unsigned count_bits(uint64_t v) {
    unsigned n = 0;
    for (; v; v &= v - 1) n++;
    return n;
}

/* Whether two values match. NaN matches NaN; an infinity matches the one of its sign. */
static bool matches(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void widen_range(struct sums *s, double a) {
    if (!s->has_range || a < s->low) s->low = a;
    if (!s->has_range || a > s->high) s->high = a;
    s->has_range = true;
}

static bool is_signed(uint32_t dtype) {
    return dtype == PITH_I8 || dtype == PITH_I16 || dtype == PITH_I32 || dtype == PITH_I64;
}

static bool is_integer(uint32_t dtype) {
    return is_signed(dtype) || dtype == PITH_U8 || dtype == PITH_U16 || dtype == PITH_U32 ||
           dtype == PITH_U64 || dtype == PITH_BOOL;
}

/* Makes integers offsets from the smallest, so that they can be subtracted without a sign. */
static uint64_t ordered(uint32_t dtype, uint64_t bits) {
    const uint64_t sign = (uint64_t)1 << (8 * pith_dtype_bytes(dtype) - 1);
    return is_signed(dtype) ? bits ^ sign : bits;
}

/* Returns a - b. Integers beyond 2^53 may differ although they are the same as doubles. */
static double difference(const struct reader *x, uint64_t p, const struct reader *y, uint64_t q) {
    const uint32_t dtype = x->t->dtype;
    if (dtype != y->t->dtype || !is_integer(dtype))
        return value_of(dtype, p) - value_of(y->t->dtype, q);
    const uint64_t a = ordered(dtype, p), b = ordered(dtype, q);
    return a < b ? -(double)(b - a) : (double)(a - b);
}

static void add_pair(struct sums *s, double a, double b, double d) {
    if (isfinite(a)) widen_range(s, a);
    if (!isfinite(a) || !isfinite(b)) {
        s->nonfinite_mismatch += !matches(a, b);
        return;
    }
    s->finite++;
    if (fabs(d) > s->max_abs) s->max_abs = fabs(d);
    s->squared_error += d * d;
    s->squared_a += a * a;
    s->squared_b += b * b;
    s->product += a * b;
}

/* Partial sums keep the rounding of long sums small. */
void sums_of(const struct tensor *a, const uint8_t *a_bytes, const struct tensor *b,
             const uint8_t *b_bytes, struct sums *out) {
    struct reader x = {.t = a, .bytes = a_bytes}, y = {.t = b, .bytes = b_bytes};
    const uint64_t count = tensor_count(a);
    *out = (struct sums){.has_bits = a->dtype == b->dtype, .has_values = !a->opaque};
    for (uint64_t i = 0; i < count;) {
        struct sums part = *out;
        part.squared_error = part.squared_a = part.squared_b = part.product = 0;
        for (int n = 0; n < CHUNK && i < count; n++, i++, advance(&x), advance(&y)) {
            const uint64_t p = load_bits(&x), q = load_bits(&y);
            if (out->has_bits) part.differing_bits += count_bits(p ^ q);
            if (out->has_values)
                add_pair(&part, value_of(a->dtype, p), value_of(b->dtype, q),
                         difference(&x, p, &y, q));
        }
        part.squared_error += out->squared_error;
        part.squared_a += out->squared_a;
        part.squared_b += out->squared_b;
        part.product += out->product;
        *out = part;
    }
    if (a->opaque) out->opaque_bits = out->differing_bits;
}

void sums_add(struct sums *total, const struct sums *one) {
    total->has_bits &= one->has_bits;
    total->differing_bits += one->differing_bits;
    total->opaque_bits += one->opaque_bits;
    if (!one->has_values) return;
    total->has_values = true;
    total->finite += one->finite;
    total->nonfinite_mismatch += one->nonfinite_mismatch;
    total->squared_error += one->squared_error;
    total->squared_a += one->squared_a;
    total->squared_b += one->squared_b;
    total->product += one->product;
    if (one->max_abs > total->max_abs) total->max_abs = one->max_abs;
    if (!one->has_range) return;
    widen_range(total, one->low);
    widen_range(total, one->high);
}

struct metrics metrics_of(const struct sums *s) {
    struct metrics m = {NAN, NAN, NAN, NAN};
    if (!s->has_values) return m;
    m.max_abs_error = s->max_abs;
    m.nmse = s->squared_error / s->squared_a;
    /* Rounding may carry the quotient of equal vectors past 1. */
    m.cosine = s->product / (sqrt(s->squared_a) * sqrt(s->squared_b));
    if (fabs(m.cosine) > 1) m.cosine = m.cosine > 0 ? 1 : -1;
    const double range = s->has_range ? s->high - s->low : 0;
    if (s->finite && s->squared_error > 0 && range > 0)
        m.psnr_db = 10 * log10(range * range / (s->squared_error / (double)s->finite));
    return m;
}
