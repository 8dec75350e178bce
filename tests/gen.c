/* gen.c - seeded test data for every dtype.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "util.h"

static inline uint64_t next(uint64_t *seed) {
    uint64_t x = (*seed += UINT64_C(0x9E3779B97F4A7C15));
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

uint64_t gen_next(uint64_t *seed) { return next(seed); }

double gen_normal(uint64_t *seed) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += (double)(next(seed) >> 11) * 0x1p-53;
    return sum;
}

static const char *const names[GEN_COUNT] = {"zeros", "ramp",  "noise",  "tiny", "equal", "text",
                                             "ties",  "large", "signed", "bits", "holes", "sparse"};

const char *gen_name(enum gen kind) { return names[kind]; }

/* Subnormals of a format whose smallest is 2^least, and values above them. */
static double tiny_value(uint64_t *seed, int least) {
    const double scale = ldexp(1, least + (int)(gen_next(seed) % 40));
    return gen_normal(seed) * scale;
}

static float real_value(enum gen kind, uint64_t *seed, size_t i) {
    const uint64_t r = gen_next(seed);
    switch (kind) {
    case GEN_ZEROS: return 0;
    case GEN_RAMP: return (float)i * 0.01f - 1;
    case GEN_NOISE: return (float)(gen_normal(seed) * 0.05);
    case GEN_TINY: return (float)tiny_value(seed, -149);
    case GEN_EQUAL: return 0.37f;
    case GEN_TIES: return (float)(int)(r % 29) * 0.5f - 7;
    case GEN_LARGE: return (r & 1 ? -1.0f : 1.0f) * float_of(0x7F7FFFFFu - (uint32_t)(r >> 45));
    case GEN_SIGNED: return r & 1 ? -0.0f : 0.0f;
    case GEN_SPARSE: return r % 64 ? 0 : (float)gen_normal(seed);
    default: return float_of((uint32_t)r);
    }
}

static uint32_t hole(uint64_t r) {
    static const uint32_t holes[4] = {0x7F800000u, 0xFF800000u, 0x7FC12345u, 0xFF800001u};
    return holes[r % 4];
}

static void fill_reals(enum gen kind, uint64_t seed, uint32_t dtype, void *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t u = kind == GEN_HOLES ? bits_of((float)(gen_normal(&seed) * 0.05))
                                       : bits_of(real_value(kind, &seed, i));
        const uint64_t r = gen_next(&seed);
        if (kind == GEN_HOLES && r % 97 == 0) u = hole(r >> 32);
        if (dtype != PITH_F32 && kind == GEN_LARGE) u = (u & 0x80000000u) | largest_of(dtype);
        store_float(dst, dtype, i, u);
    }
}

/* Returns a value of f64 that no f32 has. */
static double double_value(enum gen kind, uint64_t *seed, size_t i) {
    const uint64_t r = gen_next(seed);
    switch (kind) {
    case GEN_RAMP: return (double)i * 0.01 - 1;
    case GEN_NOISE: return gen_normal(seed) * 0.05;
    case GEN_TINY: return tiny_value(seed, -1074);
    case GEN_EQUAL: return 0.37;
    case GEN_LARGE: return (r & 1 ? -DBL_MAX : DBL_MAX) * (1 - (double)(r >> 45) * 0x1p-53);
    case GEN_HOLES: return r % 97 ? gen_normal(seed) * 0.05 : (double)float_of(hole(r >> 32));
    case GEN_SPARSE: return r % 64 ? 0 : gen_normal(seed);
    default: return (double)real_value(kind, seed, i);
    }
}

static void fill_doubles(enum gen kind, uint64_t seed, uint8_t *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double x = double_value(kind, &seed, i);
        memcpy(dst + i * sizeof x, &x, sizeof x);
    }
}

static void fill_text(uint64_t seed, uint8_t *dst, size_t bytes) {
    static const char words[] = "the quick brown tensor jumps over lazy layers and weights ";
    size_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        dst[i] = (uint8_t)words[at];
        if (words[at] == ' ' || ++at >= sizeof words - 1) at = gen_next(&seed) % 40;
    }
}

static void fill_bits(uint64_t seed, uint8_t *dst, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) dst[i] = (uint8_t)(gen_next(&seed) >> 56);
}

/* Integers: the same shapes of data on little-endian words. */
static void fill_words(enum gen kind, uint64_t seed, size_t width, uint8_t *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t v = 0;
        if (kind == GEN_RAMP) v = i;
        if (kind == GEN_EQUAL) v = UINT64_C(0x3FD7AE147AE147AE);
        if (kind == GEN_NOISE || kind == GEN_TIES) v = (uint64_t)(int64_t)(gen_normal(&seed) * 9);
        if (kind == GEN_SIGNED) v = gen_next(&seed) & 1 ? UINT64_C(1) << (8 * width - 1) : 0;
        if (kind == GEN_SPARSE && gen_next(&seed) % 64 == 0) v = gen_next(&seed);
        memcpy(dst + i * width, &v, width);
    }
}

void gen_fill(enum gen kind, uint64_t seed, uint32_t dtype, void *dst, size_t count) {
    const size_t width = pith_dtype_bytes(dtype);
    const bool real = dtype == PITH_F32 || dtype == PITH_BF16 || dtype == PITH_F16;
    if (kind == GEN_TEXT)
        fill_text(seed, dst, count * width);
    else if (kind == GEN_BITS)
        fill_bits(seed, dst, count * width);
    else if (real)
        fill_reals(kind, seed, dtype, dst, count);
    else if (dtype == PITH_F64)
        fill_doubles(kind, seed, dst, count);
    else if (kind == GEN_TINY || kind == GEN_LARGE || kind == GEN_HOLES)
        fill_bits(seed, dst, count * width);
    else
        fill_words(kind, seed, width, dst, count);
}

void gen_near(uint64_t seed, double step, uint32_t dtype, void *dst, uint32_t base_dtype,
              const void *base, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t b = load_float(base, base_dtype, i);
        const double v = nonfinite(b) ? 0 : (double)float_of(b);
        store_float(dst, dtype, i, bits_of((float)(v + step * gen_normal(&seed))));
    }
}
