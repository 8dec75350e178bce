/* numbers.c - floats of every size as numbers, independent of the library's conversions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "fuzz_numbers.h"

static float half_number(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value;
    if (exponent == 31)
        value = fraction ? (double)NAN : (double)INFINITY;
    else
        value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(bits & 0x8000 ? -value : value);
}

float fuzz_number(const uint8_t *at, uint32_t dtype) {
    uint32_t bits = 0;
    float value;
    memcpy(&bits, at, pith_dtype_bytes(dtype) == 4 ? 4 : 2);
    if (dtype == PITH_F16) return half_number((uint16_t)bits);
    if (dtype == PITH_BF16) bits <<= 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float fuzz_base_number(const uint8_t *at, uint32_t dtype) {
    const float value = fuzz_number(at, dtype);
    return isfinite(value) ? value : 0;
}

/* Half a unit in the last place at magnitude 1, half the smallest subnormal, the largest number.
 * The sum is rounded to f32 and then to the dtype, which the relative error allows for. */
static void grid(uint32_t dtype, double *relative, double *absolute, double *largest) {
    const double f32 = ldexp(1, -24);
    *relative = dtype == PITH_F32    ? f32
                : dtype == PITH_BF16 ? ldexp(1, -8) + f32
                                     : ldexp(1, -11) + f32;
    *absolute = dtype == PITH_F32    ? ldexp(1, -150)
                : dtype == PITH_BF16 ? ldexp(1, -134)
                                     : ldexp(1, -25);
    *largest = dtype == PITH_F32 ? 0x1.fffffep127 : dtype == PITH_BF16 ? 0x1.fep127 : 65504.0;
}

bool fuzz_within(float difference, float base, float got, uint32_t base_dtype, double bound) {
    double relative, absolute, largest;
    const double want = (double)base + (double)difference, error = fabs((double)got - want);
    if (base_dtype == PITH_NONE) return fabs((double)got - (double)difference) <= bound;
    grid(base_dtype, &relative, &absolute, &largest);
    if (fabs((double)got) >= largest &&
        (got > 0 ? want : -want) + bound >= largest * (1 - relative))
        return true;
    return error <= bound + absolute + relative * fmax(fabs((double)got), fabs(want) + bound);
}

/* The key's default. */
static bool find_key(const char *spec, const char *key, uint64_t *initial) {
    pith_codec_info codec = {.size = sizeof codec};
    pith_key_info info = {.size = sizeof info};
    for (uint32_t c = 0; pith_codec_at(c, &codec) == PITH_OK; c++) {
        const size_t name = strlen(codec.name);
        if (strncmp(spec, codec.name, name) != 0 || (spec[name] && spec[name] != ':')) continue;
        for (uint32_t k = 0; pith_codec_key_at(c, k, &info) == PITH_OK; k++) {
            if (strcmp(info.name, key) != 0) continue;
            *initial = strtoull(info.initial, NULL, 10);
            return true;
        }
    }
    return false;
}

bool fuzz_spec_has(const char *spec, const char *key) {
    uint64_t initial;
    return find_key(spec, key, &initial);
}

uint64_t fuzz_spec_number(const char *spec, const char *key) {
    char pattern[2][40];
    uint64_t initial;
    for (int i = 0; i < 2; i++) {
        snprintf(pattern[i], sizeof pattern[i], "%c%s=", i ? ',' : ':', key);
        const char *at = strstr(spec, pattern[i]);
        if (at) return strtoull(at + strlen(pattern[i]), NULL, 10);
    }
    if (find_key(spec, key, &initial)) return initial;
    fuzz_fail("the codec has the key", __FILE__, __LINE__);
}
