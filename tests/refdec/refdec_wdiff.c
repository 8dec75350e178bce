/* refdec_wdiff.c - codec 3: number formats, the symmetric group quantizer, the update of a base.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "refdec.h"

#if FLT_EVAL_METHOD != 0
#error "float arithmetic must be one operation and one rounding"
#endif

/* ---- Number formats, as bits of f32 ----------------------------------------------------------*/

static float as_float(uint32_t u) {
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

static uint32_t as_bits(float value) {
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

static bool finite(uint32_t u) { return (u & 0x7F800000u) != 0x7F800000u; }
static bool is_nan(uint32_t u) { return (u & 0x7FFFFFFFu) > 0x7F800000u; }

static uint32_t canonical_nan(void) { return 0x7FC00000u; }

static uint32_t f16_to_f32(uint32_t h) {
    const uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return sign | 0x7F800000u | fraction << 13;
    if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
    return sign | as_bits((float)fraction * 0x1p-24f);
}

static uint32_t f32_to_bf16(uint32_t u) {
    if (is_nan(u)) return 0x7FC0;
    if (!finite(u)) return u >> 16;
    return (u + 0x7FFF + (u >> 16 & 1)) >> 16;
}

/* In units of the last place of the result: an integer, rounded to nearest, ties to even. */
static uint32_t f32_to_f16(uint32_t u) {
    const uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7FFFFFFFu;
    const int exponent = (int)(magnitude >> 23) - 127;
    if (is_nan(u)) return 0x7E00;
    if (exponent >= 16) return sign | 0x7C00;
    if (exponent < -25) return sign;
    const uint32_t fraction = (magnitude & 0x7FFFFF) | 0x800000;
    const int shift = exponent >= -14 ? 13 : -exponent - 1;
    uint32_t units = fraction >> shift;
    const uint32_t rest = fraction - (units << shift), half = UINT32_C(1) << (shift - 1);
    units += rest > half || (rest == half && units % 2);
    return sign | (exponent >= -14 ? (uint32_t)(exponent + 14) * 1024 + units : units);
}

static uint32_t load(const uint8_t *bytes, size_t i, unsigned dtype) {
    if (dtype == F32) return (uint32_t)ref_le(bytes + 4 * i, 4);
    const uint32_t u = (uint32_t)ref_le(bytes + 2 * i, 2);
    return dtype == BF16 ? u << 16 : f16_to_f32(u);
}

static void store(uint8_t *bytes, size_t i, unsigned dtype, uint32_t u) {
    const unsigned size = dtype == F32 ? 4 : 2;
    if (is_nan(u)) u = canonical_nan();
    if (dtype == BF16) u = f32_to_bf16(u);
    if (dtype == F16) u = f32_to_f16(u);
    for (unsigned t = 0; t < size; t++, u >>= 8) bytes[size * i + t] = (uint8_t)u;
}

/* ---- Quantizer and update --------------------------------------------------------------------*/

static uint32_t largest(unsigned dtype) {
    return dtype == F32 ? 0x7F7FFFFFu : dtype == BF16 ? 0x7F7F0000u : 0x477FE000u;
}

static uint32_t saturated(uint32_t u, unsigned dtype) {
    return finite(u) ? u : (u & 0x80000000u) | largest(dtype);
}

static uint32_t decoded(int code, uint32_t scale) {
    if (!finite(scale)) return canonical_nan();
    return saturated(as_bits((float)code * as_float(scale)), F32);
}

/* Stored as element i of the new base. */
static void update(uint8_t *new_base, size_t i, unsigned dtype, uint32_t b, uint32_t x) {
    if (is_nan(x)) {
        store(new_base, i, dtype, canonical_nan());
        return;
    }
    const float y = as_float(finite(b) ? b : 0) + as_float(x);
    store(new_base, i, dtype, as_bits(y));
    if (!finite(load(new_base, i, dtype)))
        store(new_base, i, dtype, saturated(as_bits(y) | 0x7F800000u, dtype));
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

static int sign_extended(unsigned code, unsigned w) {
    return code >> (w - 1) ? (int)code - (1 << w) : (int)code;
}

static unsigned code_at(const uint8_t *string, size_t i, unsigned w) {
    unsigned code = 0;
    for (unsigned t = 0; t < w; t++) {
        const size_t at = i * w + t;
        code |= (unsigned)(string[at / 8] >> (at % 8) & 1) << t;
    }
    return code;
}

/* The codes, one byte each. */
static enum ref_status read_codes(const struct ref_block *b, const uint8_t *bytes, size_t length,
                                  uint8_t *codes) {
    const unsigned w = b->frame->parameter[0];
    const bool zstd = b->frame->parameter[4] && !b->plain;
    const bool one_byte_each = zstd && (w == 3 || w == 6);
    const size_t string = (b->count * w + 7) / 8;
    uint8_t *symbols = malloc(b->count);
    if (!symbols) return REF_MEMORY;
    enum ref_status status = REF_OK;
    if (zstd) {
        const size_t n = one_byte_each ? b->count : string;
        if (!ref_unzstd(bytes, length, symbols, n)) status = REF_CORRUPT;
        bytes = symbols;
    } else if (b->plain && length != string) {
        status = REF_CORRUPT;
    }
    for (size_t i = 0; status == REF_OK && i < b->count; i++) {
        codes[i] = one_byte_each ? bytes[i] : (uint8_t)code_at(bytes, i, w);
        if (codes[i] >> w) status = REF_CORRUPT;
    }
    free(symbols);
    return status;
}

static void apply(const struct ref_block *b, const uint8_t *codes) {
    const struct ref_frame *f = b->frame;
    const unsigned scale_dtype = f->parameter[3] ? BF16 : F32;
    for (size_t i = 0; i < b->count; i++) {
        const uint32_t scale = load(b->bytes, i >> f->parameter[1], scale_dtype);
        uint32_t x = decoded(sign_extended(codes[i], f->parameter[0]), scale);
        if (f->base_dtype) {
            update(b->new_base, i, f->base_dtype, load(b->base, i, f->base_dtype), x);
            x = load(b->new_base, i, f->base_dtype);
        }
        store(b->out, i, f->dtype, x);
    }
}

static enum ref_status key_frame(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    memcpy(b->new_base, b->bytes, b->length);
    if (f->dtype == f->base_dtype)
        memcpy(b->out, b->bytes, b->length);
    else
        for (size_t i = 0; i < b->count; i++)
            store(b->out, i, f->dtype, load(b->new_base, i, f->base_dtype));
    return REF_OK;
}

enum ref_status ref_wdiff(const struct ref_block *b) {
    const struct ref_frame *f = b->frame;
    if (f->key) return key_frame(b);
    const uint64_t group = UINT64_C(1) << f->parameter[1];
    const uint64_t groups = (b->count + group - 1) / group;
    const uint64_t scales = ref_pad16(groups * (f->parameter[3] ? 2 : 4));
    if (b->length < scales) return REF_CORRUPT;
    uint8_t *codes = malloc(b->count);
    enum ref_status status = codes ? REF_OK : REF_MEMORY;
    if (codes) status = read_codes(b, b->bytes + scales, b->length - scales, codes);
    if (status == REF_OK) apply(b, codes);
    free(codes);
    return status;
}
