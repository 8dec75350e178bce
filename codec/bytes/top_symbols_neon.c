/* top_symbols_neon.c - words of floats cut in two and joined, and shifted, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bytes/bytes_neon.h"
#include "common/endian.h"
#include "kernels.h"

static inline uint64_t escapes_of(const uint8_t *symbols) {
    const uint8x16_t bit = B64(vdupq_n_u64(UINT64_C(0x8040201008040201)));
    uint8x16_t found[4];
    for (int q = 0; q < 4; q++)
        found[q] =
            vandq_u8(vceqq_u8(vld1q_u8(symbols + 16 * q), vdupq_n_u8(PITHI_TOP_ESCAPE)), bit);
    const uint8x16_t sums = vpaddq_u8(vpaddq_u8(found[0], found[1]), vpaddq_u8(found[2], found[3]));
    return vgetq_lane_u64(W64(vpaddq_u8(sums, sums)), 0);
}

TWO(zero_of16, vandq_u8(y, B16(vtstq_u16(W16(x), W16(x)))))
TWO(zero_of32, vandq_u8(y, B32(vtstq_u32(W32(x), W32(x)))))
TWO(zero_of64, vandq_u8(y, B64(vtstq_u64(W64(x), W64(x)))))
TWO(from16, B16(vcgeq_u16(W16(x), W16(y))))
TWO(from32, B32(vcgeq_u32(W32(x), W32(y))))
TWO(from64, B64(vcgeq_u64(W64(x), W64(y))))

/* A lane that is all ones has PITHI_TOP_ESCAPE in its low byte. */
#define SYMBOLS(bits)                                                                          \
    static inline vec symbol##bits(vec s, vec top) {                                           \
        return zero_of##bits(top,                                                              \
                             v_or(s, from##bits(sub##bits(s, all##bits(1)), all##bits(254)))); \
    }
SYMBOLS(16)
SYMBOLS(32)
SYMBOLS(64)

static inline void unpack(uint8_t *bits, const uint8_t *string, unsigned width, size_t count) {
    pithi_top_unpack(bits, string, width, count);
}

/* ---- Shift -----------------------------------------------------------------------------------*/

/* Sums mod 254 of numbers below it: b is subtracted as what it lacks to 254, and, where that is
 * more than a, 2 more, mod 256. A comparison that holds is -1. Any byte mod 254 is the smaller one
 * of it and it plus 2, mod 256. */
static inline uint8x16_t mod(uint8x16_t x) { return vminq_u8(x, vaddq_u8(x, vdupq_n_u8(2))); }

static inline uint8x16_t missing_of(uint8x16_t x) {
    return vsubq_u8(vdupq_n_u8(PITHI_TOP_SHIFTS), x);
}

/* What the sum of an offset and another one, of which this is missing, lacks. */
static inline uint8x16_t missing_of_sum(uint8x16_t x, uint8x16_t missing) {
    const uint8x16_t enough = vcgeq_u8(x, missing), lacks = vsubq_u8(missing, x);
    return vsubq_u8(lacks, vandq_u8(enough, vdupq_n_u8(2)));
}

/* A symbol is 1 more than what is shifted. */
static inline uint8x16_t shifted(uint8x16_t symbols, uint8x16_t missing) {
    const uint8x16_t below = vsubq_u8(symbols, vdupq_n_u8(1)), less = vcltq_u8(below, missing);
    const uint8x16_t moves = vcltq_u8(below, vdupq_n_u8(PITHI_TOP_SHIFTS));
    return vbslq_u8(moves, vaddq_u8(vsubq_u8(symbols, missing), vaddq_u8(less, less)), symbols);
}

/* How much the offset of a row is below the largest one, in all lanes. */
typedef uint8x16_t offsets;
static inline offsets offsets_of(unsigned row) {
    return vdupq_n_u8((uint8_t)(PITHI_TOP_SHIFTS - row));
}

static inline void shift_16(uint8_t *to, const uint8_t *symbols, offsets row,
                            const uint8_t *columns) {
    vst1q_u8(to, shifted(vld1q_u8(symbols), missing_of_sum(mod(vld1q_u8(columns)), row)));
}

static inline void shift_8(uint8_t *to, const uint8_t *symbols, offsets row,
                           const uint8_t *columns) {
    const uint8x16_t s = vcombine_u8(vld1_u8(symbols), vdup_n_u8(0)),
                     c = vcombine_u8(vld1_u8(columns), vdup_n_u8(0));
    vst1_u8(to, vget_low_u8(shifted(s, missing_of_sum(mod(c), row))));
}

static inline void shift_32(uint8_t *to, const uint8_t *symbols, offsets row,
                            const uint8_t *columns) {
    shift_16(to, symbols, row, columns);
    shift_16(to + 16, symbols + 16, row, columns + 16);
}

#include "bytes/top_shift_runs.h"

/* Shifts whole rows of 8 or 16, in vectors; returns how many. */
static size_t shift_narrow(const struct pithi_top_shift *shift, uint8_t *to, const uint8_t *symbols,
                           const uint8_t *row, size_t rows) {
    const bool pairs = shift->width == 8;
    const uint8x8_t first = vld1_u8(shift->columns);
    const uint8x16_t columns = mod(vcombine_u8(first, pairs ? first : vld1_u8(shift->columns + 8)));
    const size_t whole = pairs ? rows & ~(size_t)1 : rows, step = pairs ? 2 : 1;
    for (size_t i = 0; i < whole; i += step, to += 16, symbols += 16) {
        const uint8x16_t of_rows =
            mod(vcombine_u8(vld1_dup_u8(row + i), vld1_dup_u8(row + i + step - 1)));
        vst1q_u8(to, shifted(vld1q_u8(symbols), missing_of_sum(columns, missing_of(of_rows))));
    }
    return whole;
}

enum { NARROW_MOST = 16, NARROW_ROWS = 1 };
#include "bytes/top_symbols_loops.h"

void pithi_top_symbols_bind_neon(struct pithi_kernels *k);
void pithi_top_symbols_bind_neon(struct pithi_kernels *k) {
    k->top_cut = cut;
    k->top_join = join;
    k->top_shift = shift;
}
