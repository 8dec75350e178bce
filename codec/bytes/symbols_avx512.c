/* symbols_avx512.c - symbols counted, most of them of few kinds, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx512.h"
#include "kernels.h"

static inline vec load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline void store(uint64_t *p, vec x) { _mm512_storeu_si512(p, x); }
static inline vec all(uint8_t x) { return _mm512_set1_epi8((char)x); }
static inline vec add8(vec a, vec b) { return _mm512_add_epi8(a, b); }
static inline vec sub8(vec a, vec b) { return _mm512_sub_epi8(a, b); }
static inline vec add_most(vec a, vec b) { return _mm512_adds_epu8(a, b); }
static inline vec look_up(const uint8_t table[16], vec at) {
    return _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)), at);
}
static inline vec odd(vec a, vec b, vec c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
static inline vec majority(vec a, vec b, vec c) { return _mm512_ternarylogic_epi64(a, b, c, 0xE8); }
static inline vec min8(vec a, vec b) { return _mm512_min_epu8(a, b); }
static inline vec sum(vec x) { return _mm512_sad_epu8(x, _mm512_setzero_si512()); }
static inline uint8_t *put_where(uint8_t *to, const uint8_t *from, vec at) {
    const __mmask64 found = _mm512_movepi8_mask(at);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(found, load(from)));
    return to + _mm_popcnt_u64(found);
}

#define BYTES 64
#define WINDOWS 2
#include "bytes/symbol_count_tmpl.h"

void pithi_symbols_bind_avx512(struct pithi_kernels *k);
void pithi_symbols_bind_avx512(struct pithi_kernels *k) { k->symbol_count = count_symbols; }
