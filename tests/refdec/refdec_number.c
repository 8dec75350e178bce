/* refdec_number.c - number formats and what decoding a group of codes means.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <string.h>

#include "refdec.h"

#if FLT_EVAL_METHOD != 0
#error "float arithmetic must be one operation and one rounding"
#endif

/* ---- Number formats, as bits of f32 ----------------------------------------------------------*/

float ref_as_float(uint32_t u) {
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

uint32_t ref_as_bits(float value) {
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

bool ref_finite(uint32_t u) { return (u & 0x7F800000u) != 0x7F800000u; }
bool ref_is_nan(uint32_t u) { return (u & 0x7FFFFFFFu) > 0x7F800000u; }

uint32_t ref_canonical_nan(void) { return 0x7FC00000u; }

static uint32_t f16_to_f32(uint32_t h) {
    const uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return sign | 0x7F800000u | fraction << 13;
    if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
    return sign | ref_as_bits((float)fraction * 0x1p-24f);
}

static uint32_t f32_to_bf16(uint32_t u) {
    if (ref_is_nan(u)) return 0x7FC0;
    if (!ref_finite(u)) return u >> 16;
    return (u + 0x7FFF + (u >> 16 & 1)) >> 16;
}

/* In units of the last place of the result: an integer, rounded to nearest, ties to even. */
static uint32_t f32_to_f16(uint32_t u) {
    const uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7FFFFFFFu;
    const int exponent = (int)(magnitude >> 23) - 127;
    if (ref_is_nan(u)) return 0x7E00;
    if (exponent >= 16) return sign | 0x7C00;
    if (exponent < -25) return sign;
    const uint32_t fraction = (magnitude & 0x7FFFFF) | 0x800000;
    const int shift = exponent >= -14 ? 13 : -exponent - 1;
    uint32_t units = fraction >> shift;
    const uint32_t rest = fraction - (units << shift), half = UINT32_C(1) << (shift - 1);
    units += rest > half || (rest == half && units % 2);
    return sign | (exponent >= -14 ? (uint32_t)(exponent + 14) * 1024 + units : units);
}

uint32_t ref_load(const uint8_t *bytes, size_t i, unsigned dtype) {
    if (dtype == F32) return (uint32_t)ref_le(bytes + 4 * i, 4);
    const uint32_t u = (uint32_t)ref_le(bytes + 2 * i, 2);
    return dtype == BF16 ? u << 16 : f16_to_f32(u);
}

void ref_store(uint8_t *bytes, size_t i, unsigned dtype, uint32_t u) {
    const unsigned size = dtype == F32 ? 4 : 2;
    if (ref_is_nan(u)) u = ref_canonical_nan();
    if (dtype == BF16) u = f32_to_bf16(u);
    if (dtype == F16) u = f32_to_f16(u);
    for (unsigned t = 0; t < size; t++, u >>= 8) bytes[size * i + t] = (uint8_t)u;
}

/* ---- The symmetric group quantizer -----------------------------------------------------------*/

static uint32_t largest(unsigned dtype) {
    return dtype == F32 ? 0x7F7FFFFFu : dtype == BF16 ? 0x7F7F0000u : 0x477FE000u;
}

uint32_t ref_saturated(uint32_t u, unsigned dtype) {
    return ref_finite(u) ? u : (u & 0x80000000u) | largest(dtype);
}

uint32_t ref_decoded(int code, uint32_t scale) {
    if (!ref_finite(scale)) return ref_canonical_nan();
    return ref_saturated(ref_as_bits((float)code * ref_as_float(scale)), F32);
}

int ref_sign_extended(unsigned code, unsigned w) {
    return code >> (w - 1) ? (int)code - (1 << w) : (int)code;
}

uint32_t ref_trellis(unsigned w, const unsigned code[4], uint32_t scale) {
    static const float magnitude[3][16] = {
        {8, 24, 43, 75},
        {6, 18, 31, 45, 61, 80, 106, 148},
        {4, 11, 19, 26, 35, 42, 51, 60, 70, 80, 92, 106, 123, 144, 171, 213}};
    const unsigned u[4] = {code[0] % 2, code[1] % 2, code[2] % 2, code[3] % 2};
    const unsigned number = code[0] / 2 * 4 + (u[0] + u[1] + u[3]) % 2 * 2 + u[2], half = 1u << w;
    if (!ref_finite(scale)) return ref_canonical_nan();
    const float level =
        number < half ? -magnitude[w - 2][half - 1 - number] : magnitude[w - 2][number - half];
    return ref_saturated(ref_as_bits(level / 64 * ref_as_float(scale) + 0.0f), F32);
}

unsigned ref_code_at(const uint8_t *string, size_t i, unsigned w) {
    unsigned code = 0;
    for (unsigned t = 0; t < w; t++) {
        const size_t at = i * w + t;
        code |= (unsigned)(string[at / 8] >> (at % 8) & 1) << t;
    }
    return code;
}
