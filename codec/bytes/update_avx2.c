/* update_avx2.c - updates cut, split and made values again, for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "bytes/bytes_avx2.h"
#include "kernels.h"

/* A word of 255 and more is its own maximum with 255. */
#define ESCAPES(bits, first)                                                               \
    static inline vec sign##bits(vec x) { return _mm256_srai_epi##bits(x, bits - 1); }     \
    static inline size_t put_escapes##bits(uint8_t *to, vec words) {                       \
        const vec few = all##bits(255);                                                    \
        const vec large = _mm256_cmpeq_epi##bits(_mm256_max_epu##bits(words, few), words); \
        uint32_t found = (uint32_t)_mm256_movemask_epi8(large) & first;                    \
        uint8_t each[sizeof(vec)];                                                         \
        size_t used = 0;                                                                   \
        if (!found) return 0;                                                              \
        store##bits(each, sub##bits(words, few));                                          \
        for (; found; found &= found - 1, used++)                                          \
            memcpy(to + used * (bits / 8), each + __builtin_ctz(found), bits / 8);         \
        return used;                                                                       \
    }                                                                                      \
    static inline vec add_escapes##bits(vec symbols, const uint8_t **escapes) {            \
        const vec escape = _mm256_cmpeq_epi##bits(symbols, all##bits(255));                \
        uint32_t found = (uint32_t)_mm256_movemask_epi8(escape) & first;                   \
        uint8_t each[sizeof(vec)] = {0};                                                   \
        if (!found) return symbols;                                                        \
        for (; found; found &= found - 1, *escapes += bits / 8)                            \
            memcpy(each + __builtin_ctz(found), *escapes, bits / 8);                       \
        return add##bits(symbols, load##bits(each));                                       \
    }
ESCAPES(16, 0x55555555)
ESCAPES(32, 0x11111111)

static inline void put_symbols16(uint8_t *to, vec x) {
    narrow16(to, _mm256_min_epu16(x, all16(255)));
}
static inline void put_symbols32(uint8_t *to, vec x) {
    narrow32(to, _mm256_min_epu32(x, all32(255)));
}

#include "bytes/update_loops.h"

void pithi_update_bind_avx2(struct pithi_kernels *k);
void pithi_update_bind_avx2(struct pithi_kernels *k) {
    k->update_cut = cut;
    k->update_join = join;
    k->update_split = split;
    k->update_merge = merge;
}
