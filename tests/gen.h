/* gen.h - seeded test data for every dtype.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_TESTS_GEN_H
#define PITH_TESTS_GEN_H

#include <stddef.h>
#include <stdint.h>

enum gen {
    GEN_ZEROS,
    GEN_RAMP,
    GEN_NOISE, /* Gaussian, deviation 0.05 */
    GEN_TINY,  /* around the smallest coded group and subnormals */
    GEN_EQUAL,
    GEN_TEXT,   /* bytes of words */
    GEN_TIES,   /* multiples of a half step: exact ties of rounding */
    GEN_LARGE,  /* up to the largest finite value */
    GEN_SIGNED, /* +0 and -0 */
    GEN_BITS,   /* any bit pattern: NaN payloads, infinities */
    GEN_HOLES,  /* noise with rare non-finite values */
    GEN_SPARSE, /* zeros with rare large values */
    GEN_COUNT
};

uint64_t gen_next(uint64_t *seed);
/* Gaussian with deviation 1. */
double gen_normal(uint64_t *seed);
const char *gen_name(enum gen kind);
void gen_fill(enum gen kind, uint64_t seed, uint32_t dtype, void *dst, size_t count);
/* Values near `base` (same count): base + step * noise, in dtype; what a training step does. */
void gen_near(uint64_t seed, double step, uint32_t dtype, void *dst, uint32_t base_dtype,
              const void *base, size_t count);

#endif
