/* top_symbols_avx512.c - words of floats cut in two and joined, and shifted, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx512.h"
#include "common/endian.h"
#include "kernels.h"

static inline uint64_t escapes_of(const uint8_t *symbols) {
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(symbols),
                                  _mm512_set1_epi8((char)PITHI_TOP_ESCAPE));
}

#define SYMBOLS(bits)                                                                              \
    static inline vec zero_of##bits(vec s, vec x) {                                                \
        return _mm512_maskz_mov_epi##bits(_mm512_test_epi##bits##_mask(s, s), x);                  \
    }                                                                                              \
    static inline vec symbol##bits(vec s, vec top) {                                               \
        const vec escape = all##bits(PITHI_TOP_ESCAPE);                                            \
        s = _mm512_mask_mov_epi##bits(                                                             \
            escape, _mm512_cmplt_epu##bits##_mask(sub##bits(s, all##bits(1)), all##bits(254)), s); \
        return zero_of##bits(top, s);                                                              \
    }
SYMBOLS(16)
SYMBOLS(32)
SYMBOLS(64)

/* Numbers are eight to a lane: each takes the bits of a byte from its own, and loses those of the
 * next one. */
static inline void unpack(uint8_t *bits, const uint8_t *string, unsigned width, size_t count) {
    uint8_t first[64], shift[64];
    for (unsigned i = 0; i < 64; i++) {
        first[i] = (uint8_t)(i / 8 * width + i % 8);
        shift[i] = (uint8_t)(i % 8 * width);
    }
    const vec bytes = _mm512_loadu_si512(first), bit = _mm512_loadu_si512(shift);
    const vec mask = _mm512_set1_epi8((char)((1u << width) - 1));
    for (size_t i = 0; i < count; i += 64, string += 8 * width) {
        const size_t left = (count - i + 7) / 8, lanes = left < 8 ? left : 8;
        const __mmask64 there = (UINT64_C(1) << lanes * width) - 1,
                        used = ~UINT64_C(0) >> (64 - 8 * lanes);
        const vec x = _mm512_permutexvar_epi8(bytes, _mm512_maskz_loadu_epi8(there, string));
        _mm512_mask_storeu_epi8(bits + i, used, v_and(_mm512_multishift_epi64_epi8(bit, x), mask));
    }
}

/* ---- Offsets ---------------------------------------------------------------------------------*/

/* Numbers below 254 are added mod 254 by subtracting what is missing to 254 of the second one, and,
 * where that is more than the first one, 2 more, mod 256. */
static inline vec add_mod(vec a, vec missing) {
    const vec x = _mm512_sub_epi8(a, missing);
    return _mm512_mask_sub_epi8(x, _mm512_cmplt_epu8_mask(a, missing), x, _mm512_set1_epi8(2));
}

/* What offsets, any bytes, miss to 254: mod 254 they are the smaller one of them and them plus 2,
 * mod 256. */
static inline vec offsets_of(vec any) {
    return _mm512_min_epu8(any, _mm512_add_epi8(any, _mm512_set1_epi8(2)));
}
static inline vec missing_of(vec offsets) {
    return _mm512_sub_epi8(_mm512_set1_epi8((char)PITHI_TOP_SHIFTS), offsets);
}

static inline vec shifted(vec symbols, vec row_missing, vec columns) {
    const vec one = _mm512_set1_epi8(1), below = _mm512_sub_epi8(symbols, one);
    const vec missing = missing_of(add_mod(offsets_of(columns), row_missing));
    const __mmask64 moves = _mm512_cmplt_epu8_mask(below, _mm512_set1_epi8((char)PITHI_TOP_SHIFTS));
    return _mm512_mask_add_epi8(symbols, moves, add_mod(below, missing), one);
}

/* Shifts n > 0 neighbours of a row. The last vector ends with them, and may write again what the
 * one before wrote. */
static inline void shift_run(uint8_t *to, const uint8_t *symbols, size_t n, unsigned row,
                             const uint8_t *columns) {
    const vec missing = _mm512_set1_epi8((char)(PITHI_TOP_SHIFTS - row));
    if (n < 64) {
        const __mmask64 used = (UINT64_C(1) << n) - 1;
        _mm512_mask_storeu_epi8(to, used,
                                shifted(_mm512_maskz_loadu_epi8(used, symbols), missing,
                                        _mm512_maskz_loadu_epi8(used, columns)));
        return;
    }
    for (size_t i = 0; i < n; i = n - i >= 128 ? i + 64 : i + 64 == n ? n : n - 64)
        _mm512_storeu_si512(to + i, shifted(_mm512_loadu_si512(symbols + i), missing,
                                            _mm512_loadu_si512(columns + i)));
}

/* Shifts whole rows of 8, 16 or 32, a vector of them at a time; returns how many. */
static size_t shift_narrow(const struct pithi_top_shift *shift, uint8_t *to, const uint8_t *symbols,
                           const uint8_t *row, size_t rows) {
    const size_t width = shift->width, step = 64 / width;
    uint8_t number[64], column[64];
    size_t done = 0;
    for (size_t i = 0; i < 64; i++) {
        number[i] = (uint8_t)(i / width);
        column[i] = shift->columns[i % width];
    }
    const vec which = _mm512_loadu_si512(number), columns = _mm512_loadu_si512(column);
    for (; rows - done >= 8; done += step) { /* eight offsets are there to be read */
        const vec any = _mm512_set1_epi64((long long)pithi_get64(row + done));
        const vec missing = missing_of(offsets_of(_mm512_shuffle_epi8(any, which)));
        const uint8_t *const from = symbols + done * width;
        _mm512_storeu_si512(to + done * width, shifted(_mm512_loadu_si512(from), missing, columns));
    }
    return done;
}

enum { NARROW_MOST = 32, NARROW_ROWS = 8 };
#include "bytes/top_symbols_loops.h"

void pithi_top_symbols_bind_avx512(struct pithi_kernels *k);
void pithi_top_symbols_bind_avx512(struct pithi_kernels *k) {
    k->top_cut = cut;
    k->top_join = join;
    k->top_shift = shift;
}
