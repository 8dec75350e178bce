/* quant.c - the reference of quantization under a bound.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of one value is in predict/quant_value.h. */
#include "predict/quant.h"

enum { GROUP = 16 };

static uint64_t get_bits(const void *values, uint32_t bytes, size_t i) {
    const uint8_t *const p = (const uint8_t *)values + bytes * i;
    return bytes == 2 ? pithi_get16(p) : bytes == 4 ? pithi_get32(p) : pithi_get64(p);
}
static void put_bits(void *values, uint32_t bytes, size_t i, uint64_t u) {
    uint8_t *const p = (uint8_t *)values + bytes * i;
    if (bytes == 2)
        pithi_put16(p, (uint16_t)u);
    else if (bytes == 4)
        pithi_put32(p, (uint32_t)u);
    else
        pithi_put64(p, u);
}

/* ---- One value -------------------------------------------------------------------------------*/

static bool code_float(const struct pithi_quant *q, const void *values, size_t i, int32_t *code) {
    return pithi_quant_code(q, pithi_load(values, q->dtype, i), code);
}
static bool code_double(const struct pithi_quant *q, const void *values, size_t i, int32_t *code) {
    return pithi_quant_code64(q, get_bits(values, sizeof(double), i), code);
}
static bool code_relative(const struct pithi_quant *q, const void *values, size_t i,
                          int32_t *code) {
    return pithi_quant_code_bits(q, get_bits(values, pithi_number_format_of(q->dtype).bytes, i),
                                 code);
}

static void decode_relative(const struct pithi_quant *q, const int32_t *codes, size_t count,
                            void *values) {
    const uint32_t bytes = pithi_number_format_of(q->dtype).bytes;
    for (size_t i = 0; i < count; i++) put_bits(values, bytes, i, pithi_quant_bits(q, codes[i]));
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
                        void *values, bool nontemporal) {
    (void)nontemporal;
    if (q->relative) {
        decode_relative(q, codes, count, values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (q->dtype == PITH_F64) {
            put_bits(values, sizeof(double), i, pithi_bits64(pithi_quant_value64(q, codes[i])));
        } else {
            pithi_store(values, q->dtype, i, pithi_bits(pithi_quant_value(q, codes[i])));
        }
    }
}
