/* fuzz_numbers.h - floats as numbers, and how far a decoded one may lie from its value.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_FUZZ_NUMBERS_H
#define PITH_FUZZ_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* f32, bf16 or f16 in memory of any alignment. */
float fuzz_number(const uint8_t *at, uint32_t dtype);
/* The same as a base is read: what is not finite is +0. */
float fuzz_base_number(const uint8_t *at, uint32_t dtype);
/* Whether got can be base + x' rounded to base_dtype (PITH_NONE: x' itself) for an x' within
 * bound of the difference. A result beyond the dtype's range saturates. */
bool fuzz_within(float difference, float base, float got, uint32_t base_dtype, double bound);
/* Whether the codec of the spec has a key. */
bool fuzz_spec_has(const char *spec, const char *key);
/* The value of a numeric key of the spec, its default when it does not stand there. */
uint64_t fuzz_spec_number(const char *spec, const char *key);

#endif
