/* numeric.h - the normative arithmetic on single values: bit casts, dtype conversion, Philox.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything is written on bit patterns where a comparison or a conversion could be affected by
 * NaN, so that every compiler and device computes the same. */
#ifndef PITHI_COMMON_NUMERIC_H
#define PITHI_COMMON_NUMERIC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/endian.h"
#include "pith/pith.h"

#define PITHI_F32_NAN 0x7FC00000u
#define PITHI_F32_INF 0x7F800000u
#define PITHI_F32_MAX 0x7F7FFFFFu
#define PITHI_BF16_NAN 0x7FC0u
#define PITHI_BF16_MAX 0x7F7Fu
#define PITHI_F16_NAN 0x7E00u
#define PITHI_F16_MAX 0x7BFFu

PITHI_INLINE uint32_t pithi_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
PITHI_INLINE float pithi_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
PITHI_INLINE uint64_t pithi_bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
PITHI_INLINE double pithi_double(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* Whether the value is NaN or an infinity. */
PITHI_INLINE bool pithi_nonfinite(uint32_t f32_bits) {
    return (f32_bits & PITHI_F32_INF) == PITHI_F32_INF;
}

PITHI_INLINE uint32_t pithi_from_bf16(uint16_t h) { return (uint32_t)h << 16; }

/* Rounds to nearest even; overflow gives infinity; every NaN becomes the canonical one. */
PITHI_INLINE uint16_t pithi_to_bf16(uint32_t u) {
    if ((u & 0x7FFFFFFFu) > PITHI_F32_INF) return PITHI_BF16_NAN;
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}

/* Converts exactly. NaN payloads move up unchanged. */
PITHI_INLINE uint32_t pithi_from_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7FFFu;
    if (magnitude >= 0x7C00u) return sign | PITHI_F32_INF | (magnitude & 0x3FFu) << 13;
    if (magnitude >= 0x0400u) return sign | ((magnitude << 13) + (112u << 23));
    /* A subnormal number is magnitude * 2^-24, exact in f32. */
    return sign | pithi_bits((float)magnitude * 0x1p-24f);
}

/* Rounds to nearest even; overflow gives infinity; every NaN becomes the canonical one. */
PITHI_INLINE uint16_t pithi_to_f16(uint32_t u) {
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    const uint32_t a = u & 0x7FFFFFFFu;
    if (a > PITHI_F32_INF) return PITHI_F16_NAN;
    if (a >= 0x47800000u) return (uint16_t)(sign | 0x7C00u); /* >= 2^16 */
    if (a < 0x38800000u) {
        /* Below 2^-14 results are multiples of 2^-24. Adding 1.5 * 2^-1 aligns the sum's last bit
         * with 2^-24, so the addition itself rounds to nearest even. */
        const uint32_t sum = pithi_bits(pithi_float(a) + 0.75f);
        return (uint16_t)(sign | (sum - pithi_bits(0.75f)));
    }
    return (uint16_t)(sign | ((a + 0xFFFu + (a >> 13 & 1u) - (112u << 23)) >> 13));
}

/* Returns the f32 bits of element i of a float array of dtype f32, bf16 or f16. */
PITHI_INLINE uint32_t pithi_load(const void *p, uint32_t dtype, size_t i) {
    const uint8_t *s = (const uint8_t *)p;
    if (dtype == PITH_F32) return pithi_get32(s + 4 * i);
    const uint16_t h = pithi_get16(s + 2 * i);
    return dtype == PITH_BF16 ? pithi_from_bf16(h) : pithi_from_f16(h);
}

/* Rounds f32 bits to dtype and stores them. NaN becomes canonical in every dtype. */
PITHI_INLINE void pithi_store(void *p, uint32_t dtype, size_t i, uint32_t u) {
    uint8_t *d = (uint8_t *)p;
    if (dtype == PITH_F32) {
        pithi_put32(d + 4 * i, (u & 0x7FFFFFFFu) > PITHI_F32_INF ? PITHI_F32_NAN : u);
        return;
    }
    pithi_put16(d + 2 * i, dtype == PITH_BF16 ? pithi_to_bf16(u) : pithi_to_f16(u));
}

/* Returns the largest finite value of dtype f32, bf16 or f16, as f32 bits. */
PITHI_INLINE uint32_t pithi_largest(uint32_t dtype) {
    if (dtype == PITH_F32) return PITHI_F32_MAX;
    return dtype == PITH_BF16 ? pithi_from_bf16(PITHI_BF16_MAX) : pithi_from_f16(PITHI_F16_MAX);
}

/* Random bits of stochastic rounding: Philox4x32-10 with the seed as key and counter words (low and
 * high of element/8, low of step, rng_stream). Element e takes 16 bits: word (e%8)/2, the low half
 * for even e. */
struct pithi_random {
    uint64_t seed, step;
    uint32_t rng_stream;
    uint16_t shift; /* added to every 16 bits, mod 2^16 (round=antithetic) */
};

PITHI_INLINE void pithi_philox(const struct pithi_random *r, uint64_t counter, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = (uint32_t)r->step,
             c3 = r->rng_stream;
    uint32_t k0 = (uint32_t)r->seed, k1 = (uint32_t)(r->seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Returns the 16 bits of an element among those drawn for its eight. */
PITHI_INLINE uint32_t pithi_random_pick(const struct pithi_random *r, const uint32_t words[4],
                                        uint64_t element) {
    return ((words[element % 8 / 2] >> (element % 2 * 16)) + r->shift) & 0xFFFFu;
}

#endif
