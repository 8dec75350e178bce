/* quant.c - the normative text of quantization under a bound.
 * SPDX-License-Identifier: Apache-2.0 */
#include "quant.h"

#define F64_INFINITY UINT64_C(0x7FF0000000000000)
#define F64_MAX 0x1.fffffffffffffp1023

enum { GROUP = 16 };

/* ---- Formats as bit patterns -----------------------------------------------------------------*/

struct layout {
    unsigned bytes, mantissa;
    uint64_t infinity;
};

static struct layout layout_of(uint32_t dtype) {
    switch (dtype) {
    case PITH_F32: return (struct layout){4, 23, PITHI_F32_INF};
    case PITH_BF16: return (struct layout){2, 7, 0x7F80};
    case PITH_F16: return (struct layout){2, 10, 0x7C00};
    default: return (struct layout){8, 52, F64_INFINITY};
    }
}

static uint64_t get_bits(const void *values, unsigned bytes, size_t i) {
    const uint8_t *const p = (const uint8_t *)values + bytes * i;
    return bytes == 2 ? pithi_get16(p) : bytes == 4 ? pithi_get32(p) : pithi_get64(p);
}
static void put_bits(void *values, unsigned bytes, size_t i, uint64_t u) {
    uint8_t *const p = (uint8_t *)values + bytes * i;
    if (bytes == 2)
        pithi_put16(p, (uint16_t)u);
    else if (bytes == 4)
        pithi_put32(p, (uint32_t)u);
    else
        pithi_put64(p, u);
}

static double get_double(const void *values, size_t i) {
    double x;
    memcpy(&x, (const uint8_t *)values + 8 * i, sizeof x);
    return x;
}

/* ---- Bounds ----------------------------------------------------------------------------------*/

/* Products of two f32 are exact in double. */
float pithi_quant_inverse(float step) {
    if (step == 0) return 0;
    const uint32_t r = pithi_bits(1.0f / step);
    if (r >= PITHI_F32_INF) return pithi_float(PITHI_F32_MAX);
    return pithi_float(r - ((double)pithi_float(r) * (double)step > 1.0));
}

double pithi_quant_inverse64(double step) {
    if (step == 0) return 0;
    double r = 1.0 / step;
    uint64_t u;
    memcpy(&u, &r, sizeof u);
    u--;
    memcpy(&r, &u, sizeof r);
    return r;
}

double pithi_quant_floor(uint32_t dtype, double bound) {
    const double most = dtype == PITH_F64 ? F64_MAX / 2 : (double)pithi_float(PITHI_F32_MAX) / 2;
    if (!(bound < most)) return most;
    if (dtype == PITH_F64) return bound;
    const float near = (float)bound;
    return (double)pithi_float(pithi_bits(near) - ((double)near > bound));
}

static bool init_absolute(struct pithi_quant *q, double bound) {
    if (!(bound >= 0) || pithi_quant_floor(q->dtype, bound) != bound) return false;
    if (q->dtype == PITH_F64) {
        q->bound64 = bound;
        q->step64 = 2 * bound;
        q->inverse64 = pithi_quant_inverse64(q->step64);
    } else {
        q->bound = (float)bound;
        q->step = 2 * q->bound;
        q->inverse = pithi_quant_inverse(q->step);
    }
    return true;
}

bool pithi_quant_init(struct pithi_quant *q, uint32_t dtype, const struct pithi_bound *bound,
                      bool signed_zeros) {
    *q = (struct pithi_quant){.dtype = dtype, .signed_zeros = signed_zeros};
    q->relative = bound->kind == PITHI_BOUND_RELATIVE;
    if (!q->relative) return init_absolute(q, bound->value);
    if (!(bound->value > 0 && bound->value < 1)) return false;
    const double units = (double)(UINT64_C(1) << layout_of(dtype).mantissa);
    q->half = (uint64_t)(bound->value * units);
    q->width = 2 * q->half + 1;
    return true;
}

/* ---- Absolute bounds -------------------------------------------------------------------------*/

/* What a code means, in f32: of the dtype, and finite. */
static float float_of(const struct pithi_quant *q, int32_t code) {
    const uint32_t u = pithi_bits((float)code * q->step), most = pithi_largest(q->dtype);
    if ((u & 0x7FFFFFFFu) > most) return pithi_float((u & 0x80000000u) | most);
    if (q->dtype == PITH_BF16) return pithi_float(pithi_from_bf16(pithi_to_bf16(u)));
    if (q->dtype == PITH_F16) return pithi_float(pithi_from_f16(pithi_to_f16(u)));
    return pithi_float(u);
}

static double double_of(const struct pithi_quant *q, int32_t code) {
    const double x = (double)code * q->step64;
    return x > F64_MAX ? F64_MAX : x < -F64_MAX ? -F64_MAX : x;
}

/* |t| < 2^22: adding 1.5 * 2^23 (2^52) rounds to the nearest integer, even on a tie. */
static bool code_float(const struct pithi_quant *q, const void *values, size_t i, int32_t *code) {
    const float limit = PITHI_QUANT_LIMIT;
    const uint32_t u = pithi_load(values, q->dtype, i);
    const float x = pithi_float(u), t = x * q->inverse;
    if (!(t > -limit && t < limit)) return false;
    *code = (int32_t)(pithi_bits(t + 0x1.8p23f) - pithi_bits(0x1.8p23f));
    const float error = x - float_of(q, *code);
    return error >= -q->bound && error <= q->bound && !(q->signed_zeros && u == 0x80000000u);
}

static bool code_double(const struct pithi_quant *q, const void *values, size_t i, int32_t *code) {
    const double limit = PITHI_QUANT_LIMIT;
    const double x = get_double(values, i), t = x * q->inverse64;
    if (!(t > -limit && t < limit)) return false;
    *code = (int32_t)((t + 0x1.8p52) - 0x1.8p52);
    const double error = x - double_of(q, *code);
    if (q->signed_zeros && get_bits(values, 8, i) >> 63 && x == 0) return false;
    return error >= -q->bound64 && error <= q->bound64;
}

/* ---- Relative bounds -------------------------------------------------------------------------*/

static bool code_relative(const struct pithi_quant *q, const void *values, size_t i,
                          int32_t *code) {
    const struct layout f = layout_of(q->dtype);
    const uint64_t bits = get_bits(values, f.bytes, i), sign = UINT64_C(1) << (8 * f.bytes - 1);
    const uint64_t u = bits & (sign - 1);
    if (u >= f.infinity) return false;
    const uint64_t bin = (u + q->half) / q->width;
    if (bin > INT32_MAX) return false;
    const uint64_t decoded = bin * q->width;
    *code = bits & sign ? -(int32_t)bin : (int32_t)bin;
    if (q->signed_zeros && bits == sign) return false;
    /* Below 2^mantissa lie subnormals, whose units are not in proportion to them. */
    return decoded < f.infinity && (decoded == u || u >> f.mantissa);
}

static void decode_relative(const struct pithi_quant *q, const int32_t *codes, size_t count,
                            void *values) {
    const struct layout f = layout_of(q->dtype);
    const uint64_t most = f.infinity - 1, whole = most / q->width;
    for (size_t i = 0; i < count; i++) {
        const uint64_t sign = (uint64_t)(codes[i] < 0) << (8 * f.bytes - 1);
        const uint64_t bin = codes[i] < 0 ? -(uint64_t)codes[i] : (uint64_t)codes[i];
        put_bits(values, f.bytes, i, sign | (bin > whole ? most : bin * q->width));
    }
}

/* ---- Arrays ----------------------------------------------------------------------------------*/

typedef bool code_fn(const struct pithi_quant *, const void *, size_t, int32_t *);

PITHI_INLINE size_t quantize(const struct pithi_quant *q, const void *values, size_t count,
                             int32_t *codes, uint8_t *miss, code_fn *code) {
    size_t misses = 0;
    int32_t last = 0;
    memset(miss, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        if (i % GROUP == 0) last = 0;
        if (code(q, values, i, &codes[i])) {
            last = codes[i];
        } else {
            codes[i] = last;
            miss[i / 8] = (uint8_t)(miss[i / 8] | 1u << i % 8);
            misses++;
        }
    }
    return misses;
}

size_t pithi_quantize_c(const struct pithi_quant *q, const void *values, size_t count,
                        int32_t *codes, uint8_t *miss) {
    if (q->relative) return quantize(q, values, count, codes, miss, code_relative);
    if (q->dtype == PITH_F64) return quantize(q, values, count, codes, miss, code_double);
    return quantize(q, values, count, codes, miss, code_float);
}

void pithi_dequantize_c(const struct pithi_quant *q, const int32_t *codes, size_t count,
                        void *values, bool stream) {
    (void)stream;
    if (q->relative) {
        decode_relative(q, codes, count, values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (q->dtype == PITH_F64) {
            const double x = double_of(q, codes[i]);
            memcpy((uint8_t *)values + 8 * i, &x, sizeof x);
        } else {
            pithi_store(values, q->dtype, i, pithi_bits(float_of(q, codes[i])));
        }
    }
}
