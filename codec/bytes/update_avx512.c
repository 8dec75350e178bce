/* update_avx512.c - updates cut, split and made values again, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "bytes/bytes_avx512.h"
#include "kernels.h"

#define ESCAPES(bits, mask)                                                                     \
    static inline vec sign##bits(vec x) { return _mm512_srai_epi##bits(x, bits - 1); }          \
    static inline size_t put_escapes##bits(uint8_t *to, vec words) {                            \
        const vec few = all##bits(255);                                                         \
        const mask found = _mm512_cmpge_epu##bits##_mask(words, few);                           \
        if (!found) return 0;                                                                   \
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi##bits(found, sub##bits(words, few))); \
        return (size_t)_mm_popcnt_u32(found);                                                   \
    }                                                                                           \
    static inline vec add_escapes##bits(vec symbols, const uint8_t **escapes) {                 \
        const mask found = _mm512_cmpeq_epi##bits##_mask(symbols, all##bits(255));              \
        if (!found) return symbols;                                                             \
        const vec next = _mm512_maskz_expand_epi##bits(found, load##bits(*escapes));            \
        *escapes += sizeof(uint##bits##_t) * (size_t)_mm_popcnt_u32(found);                     \
        return add##bits(symbols, next);                                                        \
    }
ESCAPES(16, __mmask32)
ESCAPES(32, __mmask16)

static inline void put_symbols16(uint8_t *to, vec x) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtusepi16_epi8(x));
}
static inline void put_symbols32(uint8_t *to, vec x) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtusepi32_epi8(x));
}

#include "bytes/update_loops.h"

void pithi_update_bind_avx512(struct pithi_kernels *k);
void pithi_update_bind_avx512(struct pithi_kernels *k) {
    k->update_cut = cut;
    k->update_join = join;
    k->update_split = split;
    k->update_merge = merge;
}
