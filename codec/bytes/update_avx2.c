/* update_avx2.c - updates cut, split and made values again, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "codec.h"

typedef __m256i vec;

static inline vec v_and(vec a, vec b) { return _mm256_and_si256(a, b); }
static inline vec v_or(vec a, vec b) { return _mm256_or_si256(a, b); }
static inline vec v_xor(vec a, vec b) { return _mm256_xor_si256(a, b); }

/* A word of 255 and more is its own maximum with 255. */
#define VECTORS(bits, type, first)                                                           \
    static inline vec load##bits(const uint8_t *p) {                                         \
        return _mm256_loadu_si256((const __m256i *)(const void *)p);                         \
    }                                                                                        \
    static inline void store##bits(uint8_t *p, vec x) {                                      \
        _mm256_storeu_si256((__m256i *)(void *)p, x);                                        \
    }                                                                                        \
    static inline vec all##bits(uint##bits##_t x) { return _mm256_set1_epi##bits((type)x); } \
    static inline vec add##bits(vec a, vec b) { return _mm256_add_epi##bits(a, b); }         \
    static inline vec sub##bits(vec a, vec b) { return _mm256_sub_epi##bits(a, b); }         \
    static inline vec sign##bits(vec x) { return _mm256_srai_epi##bits(x, bits - 1); }       \
    static inline vec down##bits(vec x, unsigned n) {                                        \
        return _mm256_srl_epi##bits(x, _mm_cvtsi32_si128((int)n));                           \
    }                                                                                        \
    static inline vec up##bits(vec x, unsigned n) {                                          \
        return _mm256_sll_epi##bits(x, _mm_cvtsi32_si128((int)n));                           \
    }                                                                                        \
    static inline size_t put_escapes##bits(uint8_t *to, vec words) {                         \
        const vec few = all##bits(255);                                                      \
        const vec large = _mm256_cmpeq_epi##bits(_mm256_max_epu##bits(words, few), words);   \
        uint32_t found = (uint32_t)_mm256_movemask_epi8(large) & first;                      \
        uint8_t each[sizeof(vec)];                                                           \
        size_t used = 0;                                                                     \
        if (!found) return 0;                                                                \
        store##bits(each, sub##bits(words, few));                                            \
        for (; found; found &= found - 1, used++)                                            \
            memcpy(to + used * (bits / 8), each + __builtin_ctz(found), bits / 8);           \
        return used;                                                                         \
    }                                                                                        \
    static inline vec add_escapes##bits(vec symbols, const uint8_t **escapes) {              \
        const vec escape = _mm256_cmpeq_epi##bits(symbols, all##bits(255));                  \
        uint32_t found = (uint32_t)_mm256_movemask_epi8(escape) & first;                     \
        uint8_t each[sizeof(vec)] = {0};                                                     \
        if (!found) return symbols;                                                          \
        for (; found; found &= found - 1, *escapes += bits / 8)                              \
            memcpy(each + __builtin_ctz(found), *escapes, bits / 8);                         \
        return add##bits(symbols, load##bits(each));                                         \
    }
VECTORS(16, short, 0x55555555)
VECTORS(32, int, 0x11111111)

static inline void narrow16(uint8_t *to, vec x) {
    x = v_and(x, all16(0xFF));
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
static inline void narrow32(uint8_t *to, vec x) {
    x = _mm256_shuffle_epi8(x, _mm256_set1_epi32(0x0C080400));
    _mm_storel_epi64((__m128i *)(void *)to,
                     _mm_unpacklo_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
static inline void put_symbols16(uint8_t *to, vec x) {
    narrow16(to, _mm256_min_epu16(x, all16(255)));
}
static inline void put_symbols32(uint8_t *to, vec x) {
    narrow32(to, _mm256_min_epu32(x, all32(255)));
}
static inline vec widen16(const uint8_t *from) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}
static inline vec widen32(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}

#define WORD uint16_t
#define NAME(name) name##16
#define LANES 16
#include "bytes/update_tmpl.h"
#define WORD uint32_t
#define NAME(name) name##32
#define LANES 8
#include "bytes/update_tmpl.h"

#include "bytes/update_loops.h"

void pithi_update_bind_avx2(struct pithi_kernels *k);
void pithi_update_bind_avx2(struct pithi_kernels *k) {
    k->update_cut = cut;
    k->update_join = join;
    k->update_split = split;
    k->update_merge = merge;
}
