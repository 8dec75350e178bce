/* top_symbols_avx2.c - words of floats cut in two and joined, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx2.h"
#include "common/endian.h"
#include "kernels.h"

static inline uint64_t escapes_of(const uint8_t *symbols) {
    const vec escape = _mm256_set1_epi8((char)PITHI_TOP_ESCAPE);
    uint32_t mask[2];
    for (int h = 0; h < 2; h++) {
        const vec x = _mm256_loadu_si256((const __m256i *)(const void *)(symbols + 32 * h));
        mask[h] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, escape));
    }
    return mask[0] | (uint64_t)mask[1] << 32;
}

#define ZERO_OF(bits)                                                                     \
    static inline vec zero_of##bits(vec s, vec x) {                                       \
        return _mm256_andnot_si256(_mm256_cmpeq_epi##bits(s, _mm256_setzero_si256()), x); \
    }
ZERO_OF(16)
ZERO_OF(32)
ZERO_OF(64)

/* A lane that is all ones has PITHI_TOP_ESCAPE in its low byte. Wider lanes hold differences of
 * numbers of 16 bits, so that a signed comparison sees which are negative. */
static inline vec symbol16(vec s, vec top) {
    const vec below = sub16(s, all16(1));
    const vec none = _mm256_cmpeq_epi16(_mm256_max_epu16(below, all16(254)), below);
    return zero_of16(top, v_or(s, none));
}
static inline vec symbol32(vec s, vec top) {
    const vec none = v_or(_mm256_cmpgt_epi32(all32(1), s), _mm256_cmpgt_epi32(s, all32(254)));
    return zero_of32(top, v_or(s, none));
}
static inline vec symbol64(vec s, vec top) {
    const vec none = v_or(_mm256_cmpgt_epi64(all64(1), s), _mm256_cmpgt_epi64(s, all64(254)));
    return zero_of64(top, v_or(s, none));
}

static inline void unpack(uint8_t *bits, const uint8_t *string, unsigned width, size_t count) {
    pithi_top_unpack(bits, string, width, count);
}

/* Numbers below 254 are added mod 254 by subtracting what is missing to 254 of the second one, and,
 * where that is more than the first one, 2 more, mod 256. Any byte mod 254 is the smaller one of it
 * and it plus 2, mod 256. */
#define SHIFT(name, type, p)                                                                   \
    static inline type add_mod##name(type a, type b) {                                         \
        const type missing = p##_sub_epi8(p##_set1_epi8((char)PITHI_TOP_SHIFTS), b);           \
        const type more = p##_cmpeq_epi8(p##_max_epu8(a, missing), a);                         \
        const type two = p##_set1_epi8(2);                                                     \
        return p##_sub_epi8(p##_sub_epi8(a, missing), p##_andnot_##name(more, two));           \
    }                                                                                          \
    static inline type shifted##name(type symbols, type row, type columns) {                   \
        const type below = p##_add_epi8(symbols, p##_set1_epi8(-1));                           \
        const type column = p##_min_epu8(columns, p##_add_epi8(columns, p##_set1_epi8(2)));    \
        const type x =                                                                         \
            p##_sub_epi8(add_mod##name(below, add_mod##name(column, row)), p##_set1_epi8(-1)); \
        const type last = p##_set1_epi8((char)(PITHI_TOP_SHIFTS - 1));                         \
        const type moves = p##_cmpeq_epi8(p##_min_epu8(below, last), below);                   \
        return p##_blendv_epi8(symbols, x, moves);                                             \
    }
SHIFT(si256, __m256i, _mm256)
SHIFT(si128, __m128i, _mm)

typedef vec offsets;
static inline offsets offsets_of(unsigned row) { return _mm256_set1_epi8((char)row); }

static inline void shift_8(uint8_t *to, const uint8_t *symbols, offsets row,
                           const uint8_t *columns) {
    const __m128i s = _mm_loadl_epi64((const __m128i *)(const void *)symbols);
    const __m128i c = _mm_loadl_epi64((const __m128i *)(const void *)columns);
    _mm_storel_epi64((__m128i *)(void *)to, shiftedsi128(s, _mm256_castsi256_si128(row), c));
}

static inline void shift_16(uint8_t *to, const uint8_t *symbols, offsets row,
                            const uint8_t *columns) {
    const __m128i s = _mm_loadu_si128((const __m128i *)(const void *)symbols);
    const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)columns);
    _mm_storeu_si128((__m128i *)(void *)to, shiftedsi128(s, _mm256_castsi256_si128(row), c));
}

static inline void shift_32(uint8_t *to, const uint8_t *symbols, offsets row,
                            const uint8_t *columns) {
    const vec s = _mm256_loadu_si256((const __m256i *)(const void *)symbols);
    const vec c = _mm256_loadu_si256((const __m256i *)(const void *)columns);
    _mm256_storeu_si256((__m256i *)(void *)to, shiftedsi256(s, row, c));
}

#include "bytes/top_shift_runs.h"

/* Shifts 32 symbols of whole rows of 8 or 16. */
static inline void shift_rows(uint8_t *to, const uint8_t *symbols, const uint8_t *row, vec which,
                              vec columns) {
    const vec any = _mm256_shuffle_epi8(_mm256_set1_epi32((int)pithi_get32(row)), which);
    const vec rows = _mm256_min_epu8(any, _mm256_add_epi8(any, _mm256_set1_epi8(2)));
    const vec s = _mm256_loadu_si256((const __m256i *)(const void *)symbols);
    _mm256_storeu_si256((__m256i *)(void *)to, shiftedsi256(s, rows, columns));
}

/* Shifts whole rows of 8 or 16; returns how many. */
static size_t shift_narrow(const struct pithi_top_shift *shift, uint8_t *to, const uint8_t *symbols,
                           const uint8_t *row, size_t rows) {
    const size_t width = shift->width, step = 32 / width;
    uint8_t number[32], column[32];
    size_t done = 0;
    for (size_t i = 0; i < 32; i++) {
        number[i] = (uint8_t)(i / width);
        column[i] = shift->columns[i % width];
    }
    const vec which = _mm256_loadu_si256((const __m256i *)(const void *)number);
    const vec columns = _mm256_loadu_si256((const __m256i *)(const void *)column);
    for (; rows - done >= 4; done += step) /* four offsets are there to be read */
        shift_rows(to + done * width, symbols + done * width, row + done, which, columns);
    return done;
}

enum { NARROW_MOST = 16, NARROW_ROWS = 4 };
#include "bytes/top_symbols_loops.h"

void pithi_top_symbols_bind_avx2(struct pithi_kernels *k);
void pithi_top_symbols_bind_avx2(struct pithi_kernels *k) {
    k->top_cut = cut;
    k->top_join = join;
    k->top_shift = shift;
}
