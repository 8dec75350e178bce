/* top_symbols_neon.c - words of floats cut in two and joined, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bytes/bytes_neon.h"
#include "codec.h"
#include "common/endian.h"

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
#define VECTORS(bits)                                                                          \
    static inline vec load##bits(const uint##bits##_t *p) {                                    \
        return vld1q_u8_x4((const uint8_t *)p);                                                \
    }                                                                                          \
    static inline void store##bits(uint##bits##_t *p, vec x) { vst1q_u8_x4((uint8_t *)p, x); } \
    static inline vec symbol##bits(vec s, vec top) {                                           \
        return zero_of##bits(top,                                                              \
                             v_or(s, from##bits(sub##bits(s, all##bits(1)), all##bits(254)))); \
    }
VECTORS(16)
VECTORS(32)
VECTORS(64)

static inline void unpack(uint8_t *bits, const uint8_t *string, unsigned width, size_t count) {
    pithi_top_unpack(bits, string, width, count);
}

enum { CHUNK = 2048 };

#define WORD uint16_t
#define NAME(name) name##16
#define LANES 32
#define WHOLE 1
#include "bytes/top_symbols_tmpl.h"
#define WORD uint32_t
#define NAME(name) name##32
#define LANES 16
#define WHOLE 3
#include "bytes/top_symbols_tmpl.h"
#define WORD uint64_t
#define NAME(name) name##64
#define LANES 8
#define WHOLE 7
#include "bytes/top_symbols_tmpl.h"

#define LANES_16 32
#include "bytes/top_symbols_loops.h"

void pithi_top_symbols_bind_neon(struct pithi_kernels *k);
void pithi_top_symbols_bind_neon(struct pithi_kernels *k) {
    k->top_cut = cut;
    k->top_join = join;
}
