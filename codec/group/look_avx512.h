/* look_avx512.h - floats of a table in one vector, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GROUP_LOOK_AVX512_H
#define PITHI_GROUP_LOOK_AVX512_H

#include "common/lanes_avx512.h"

/* The low bits of the index count. */
static inline v16 look16(v16 table, v16 index) { return _mm512_permutexvar_epi32(index, table); }
static inline v16 look8(v16 table, v16 index) { return look16(table, index); }

#endif
