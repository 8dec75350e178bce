/* decimal.h - settings that are decimal numbers, such as an error bound, without rounding them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A number m * 10^e, m below 10^6 without a trailing 0, e in -300..300, in one word:
 * (m << 10) + e + 512; 0 is the word 0. Text and word are the same number on every machine. */
#ifndef PITHI_COMMON_DECIMAL_H
#define PITHI_COMMON_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PITHI_DECIMAL(m, e) ((uint32_t)(m) << 10 | (uint32_t)((e) + 512))

/* Parses text such as "0.001", "1e-3", "2.5E3": digits with at most one point, then an exponent or
 * none. False for other text, more than six significant digits, or an exponent out of range. */
bool pithi_decimal_parse(const char *text, size_t length, uint32_t *word);
/* Whether pithi_decimal_parse can make the word. */
bool pithi_decimal_legal(uint32_t word);
enum { PITHI_DECIMAL_TEXT = 16 };
/* Prints the shortest of forms such as "1200", "0.05" and "1.5e-7", ended by 0. Returns its
 * length. */
size_t pithi_decimal_print(uint32_t word, char text[PITHI_DECIMAL_TEXT]);
/* Returns the largest double not above the number. */
double pithi_decimal_floor(uint32_t word);
/* Returns floor(p * n + 1/2) for a number p below 1: exactly, and whatever rounding the caller has
 * set. */
uint32_t pithi_decimal_share(uint32_t word, uint32_t n);
/* Returns floor(p * n) for a number p of at most 1, exactly. n is below 2^63. */
uint64_t pithi_decimal_part(uint32_t word, uint64_t n);

#endif
