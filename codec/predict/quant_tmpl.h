/* quant_tmpl.h - quantization under an absolute bound in 16 lanes, written once for each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file has included lanes_<isa>.h and defined kept16. Relative bounds, f64 and what
 * is left after whole groups of 16 go to the scalar reference. */
#ifndef PITHI_PREDICT_QUANT_TMPL_H
#define PITHI_PREDICT_QUANT_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/quant.h"

struct constants {
    v16 inverse, step, bound, most, limit, never, magnitude;
};

ALWAYS struct constants constants_of(const struct pithi_quant *q, uint32_t dtype) {
    /* No kept value has the bits of a NaN, which stand for `never`. */
    return (struct constants){
        .inverse = v_spread(&q->inverse),
        .step = v_spread(&q->step),
        .bound = v_spread(&q->bound),
        .most = v_set(pithi_largest(dtype)),
        .limit = v_set(pithi_bits(PITHI_QUANT_LIMIT)),
        .never = v_set(q->signed_zeros ? 0x80000000u : PITHI_F32_NAN),
        .magnitude = v_set(0x7FFFFFFFu),
    };
}

ALWAYS v16 decoded(const struct constants *c, v16 code) {
    return f_limit(f_mul(f_from_i(code), c->step), c->most);
}

/* Puts codes of the elements that are kept (bits of `kept`) into the places of the others. */
static __attribute__((noinline)) size_t repair(int32_t *codes, uint32_t kept) {
    size_t misses = 0;
    int32_t last = 0;
    for (unsigned i = 0; i < 16; i++) {
        const bool keep = kept >> i & 1;
        last = keep ? codes[i] : last;
        codes[i] = last;
        misses += !keep;
    }
    return misses;
}

/* Quantizes whole groups of 16. */
ALWAYS size_t quantize_groups(const struct pithi_quant *q, uint32_t dtype, const uint8_t *values,
                              size_t count, int32_t *codes, uint8_t *miss) {
    const struct constants c = constants_of(q, dtype);
    size_t misses = 0;
    for (size_t i = 0; i < count; i += 16) {
        __builtin_prefetch(values + (dtype == PITH_F32 ? 4 : 2) * i + 4096);
        const v16 x = load(dtype, values, i), t = f_mul(x, c.inverse), code = f_round_to_i(t);
        const v16 error = f_sub(x, round_to(dtype, decoded(&c, code)));
        const uint32_t kept = kept16(&c, t, error, x);
        v_store((uint8_t *)(codes + i), code);
        pithi_put16(miss + i / 8, (uint16_t)~kept);
        if (__builtin_expect(kept != 0xFFFF, 0)) misses += repair(codes + i, kept);
    }
    return misses;
}

static size_t quantize(const struct pithi_quant *q, const void *values, size_t count,
                       int32_t *codes, uint8_t *miss) {
    const size_t whole = q->relative || q->dtype == PITH_F64 ? 0 : count / 16 * 16;
    size_t misses = 0;
    if (q->dtype == PITH_F32)
        misses = quantize_groups(q, PITH_F32, values, whole, codes, miss);
    else if (q->dtype == PITH_BF16)
        misses = quantize_groups(q, PITH_BF16, values, whole, codes, miss);
    else if (q->dtype == PITH_F16)
        misses = quantize_groups(q, PITH_F16, values, whole, codes, miss);
    if (whole == count) return misses;
    return misses + pithi_quantize_c(q, (const uint8_t *)values + whole * width(q->dtype),
                                     count - whole, codes + whole, miss + whole / 8);
}

ALWAYS void dequantize_groups(const struct pithi_quant *q, uint32_t dtype, const int32_t *codes,
                              size_t count, uint8_t *values) {
    const struct constants c = constants_of(q, dtype);
    for (size_t i = 0; i < count; i += 16) {
        const v16 code = v_load((const uint8_t *)(codes + i));
        store(dtype, values, i, round_loosely(dtype, decoded(&c, code)));
    }
}

/* Makes f32 values, by non-temporal stores. */
static void dequantize_stream(const struct pithi_quant *q, const int32_t *codes, size_t count,
                              uint8_t *values) {
    const struct constants c = constants_of(q, PITH_F32);
    struct streamer s;
    v_stream_begin(&s, values);
    for (size_t i = 0; i < count; i += 16)
        v_stream(&s, values + 4 * i, decoded(&c, v_load((const uint8_t *)(codes + i))));
    v_stream_end(&s, values + 4 * count);
}

static void dequantize(const struct pithi_quant *q, const int32_t *codes, size_t count,
                       void *values, bool nontemporal) {
    const size_t whole = q->relative || q->dtype == PITH_F64 ? 0 : count / 16 * 16;
    uint8_t *const to = values;
    if (q->dtype == PITH_F32 && nontemporal && v_stream_fits(to))
        dequantize_stream(q, codes, whole, to);
    else if (q->dtype == PITH_F32)
        dequantize_groups(q, PITH_F32, codes, whole, to);
    else if (q->dtype == PITH_BF16)
        dequantize_groups(q, PITH_BF16, codes, whole, to);
    else if (q->dtype == PITH_F16)
        dequantize_groups(q, PITH_F16, codes, whole, to);
    if (whole < count)
        pithi_dequantize_c(q, codes + whole, count - whole, to + whole * width(q->dtype),
                           nontemporal);
}

#endif
