/* shrink_avx512.h - what searched ranges need of lanes of 16 bits, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_SHRINK_AVX512_H
#define PITHI_GROUP_SHRINK_AVX512_H

#include "common/lanes_avx512.h"

/* Registers hold so many parts of a range beside their sums. */
enum { SPANS = 3 };

static inline v16 v_shl(v16 a, unsigned n) { return _mm512_slli_epi32(a, n); }
static inline v16 v_srl(v16 a, unsigned n) { return _mm512_srli_epi32(a, n); }

/* 32 lanes of 16 bits. */
static inline v16 v_add16(v16 a, v16 b) { return _mm512_add_epi16(a, b); }
/* a - b, or 0. */
static inline v16 v_above16(v16 a, v16 b) { return _mm512_subs_epu16(a, b); }
/* floor((a b + 2^14) / 2^15). */
static inline v16 v_part16(v16 a, v16 b) { return _mm512_mulhrs_epi16(a, b); }
/* Sums of the two products in each lane of 32. */
static inline v16 v_products16(v16 a, v16 b) { return _mm512_madd_epi16(a, b); }

#endif
