/* update_neon.c - updates cut, split and made values again, for 64-bit ARM.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bytes/bytes_neon.h"
#include "kernels.h"

ONE(sign16, vreinterpretq_u8_s16(vshrq_n_s16(vreinterpretq_s16_u8(x), 15)))
ONE(sign32, vreinterpretq_u8_s32(vshrq_n_s32(vreinterpretq_s32_u8(x), 31)))

/* Saturating, larger words become 255. */
static inline uint8x16_t symbols_of32(vec x) {
    const uint16x8_t a = vqmovn_high_u32(vqmovn_u32(W32(x.val[0])), W32(x.val[1])),
                     b = vqmovn_high_u32(vqmovn_u32(W32(x.val[2])), W32(x.val[3]));
    return vqmovn_high_u16(vqmovn_u16(a), b);
}
static inline uint8x16_t symbols_of16(vec x, int half) {
    return vqmovn_high_u16(vqmovn_u16(W16(x.val[2 * half])), W16(x.val[2 * half + 1]));
}
static inline void put_symbols32(uint8_t *to, vec x) { vst1q_u8(to, symbols_of32(x)); }
static inline void put_symbols16(uint8_t *to, vec x) {
    for (int h = 0; h < 2; h++) vst1q_u8(to + 16 * h, symbols_of16(x, h));
}

/* Returns four bits for each byte, of which the lowest is set where the byte is 255. */
static inline uint64_t escapes_of(uint8x16_t symbols) {
    return nibbles_of(vceqq_u8(symbols, vdupq_n_u8(255))) & UINT64_C(0x1111111111111111);
}

/* Stores those of sixteen words whose bits are found. */
static inline size_t put_found(uint8_t *to, const uint8_t *words, size_t width, uint64_t found) {
    size_t used = 0;
    for (; found; found &= found - 1, used += width)
        memcpy(to + used, words + (size_t)__builtin_ctzll(found) / 4 * width, width);
    return used / width;
}
static inline size_t put_escapes32(uint8_t *to, vec words) {
    const uint64_t found = escapes_of(symbols_of32(words));
    uint8_t each[sizeof(vec)];
    if (!found) return 0;
    store32(each, sub32(words, all32(255)));
    return put_found(to, each, 4, found);
}
static inline size_t put_escapes16(uint8_t *to, vec words) {
    const uint64_t found[2] = {escapes_of(symbols_of16(words, 0)),
                               escapes_of(symbols_of16(words, 1))};
    uint8_t each[sizeof(vec)];
    if (!(found[0] | found[1])) return 0;
    store16(each, sub16(words, all16(255)));
    const size_t used = put_found(to, each, 2, found[0]);
    return used + put_found(to + 2 * used, each + 32, 2, found[1]);
}

/* Puts the next words where bits are found. */
static inline const uint8_t *take_found(uint8_t *to, const uint8_t *words, size_t width,
                                        uint64_t found) {
    for (; found; found &= found - 1, words += width)
        memcpy(to + (size_t)__builtin_ctzll(found) / 4 * width, words, width);
    return words;
}
static inline vec add_escapes32(vec symbols, const uint8_t **escapes) {
    const uint64_t found = escapes_of(low_bytes32(symbols));
    uint8_t each[sizeof(vec)] = {0};
    if (!found) return symbols;
    *escapes = take_found(each, *escapes, 4, found);
    return add32(symbols, load32(each));
}
static inline vec add_escapes16(vec symbols, const uint8_t **escapes) {
    uint8_t each[sizeof(vec)] = {0};
    uint64_t found[2];
    for (int h = 0; h < 2; h++)
        found[h] = escapes_of(vuzp1q_u8(symbols.val[2 * h], symbols.val[2 * h + 1]));
    if (!(found[0] | found[1])) return symbols;
    for (int h = 0; h < 2; h++) *escapes = take_found(each + 32 * h, *escapes, 2, found[h]);
    return add16(symbols, load16(each));
}

static inline void put_planes16(uint8_t *const *planes, size_t i, vec x) {
    for (int h = 0; h < 2; h++) {
        vst1q_u8(planes[0] + i + 16 * h, vuzp1q_u8(x.val[2 * h], x.val[2 * h + 1]));
        vst1q_u8(planes[1] + i + 16 * h, vuzp2q_u8(x.val[2 * h], x.val[2 * h + 1]));
    }
}
static inline void put_planes32(uint8_t *const *planes, size_t i, vec x) {
    const uint16x8_t a = W16(x.val[0]), b = W16(x.val[1]), c = W16(x.val[2]), d = W16(x.val[3]);
    const uint8x16_t lower[2] = {B16(vuzp1q_u16(a, b)), B16(vuzp1q_u16(c, d))};
    const uint8x16_t upper[2] = {B16(vuzp2q_u16(a, b)), B16(vuzp2q_u16(c, d))};
    vst1q_u8(planes[0] + i, vuzp1q_u8(lower[0], lower[1]));
    vst1q_u8(planes[1] + i, vuzp2q_u8(lower[0], lower[1]));
    vst1q_u8(planes[2] + i, vuzp1q_u8(upper[0], upper[1]));
    vst1q_u8(planes[3] + i, vuzp2q_u8(upper[0], upper[1]));
}
static inline vec take_planes16(const uint8_t *const *planes, size_t i) {
    vec r;
    for (int h = 0; h < 2; h++) {
        const uint8x16_t a = vld1q_u8(planes[0] + i + 16 * h), b = vld1q_u8(planes[1] + i + 16 * h);
        r.val[2 * h] = vzip1q_u8(a, b);
        r.val[2 * h + 1] = vzip2q_u8(a, b);
    }
    return r;
}
static inline vec take_planes32(const uint8_t *const *planes, size_t i) {
    const uint8x16_t a = vld1q_u8(planes[0] + i), b = vld1q_u8(planes[1] + i),
                     c = vld1q_u8(planes[2] + i), d = vld1q_u8(planes[3] + i);
    const uint16x8_t lower[2] = {W16(vzip1q_u8(a, b)), W16(vzip2q_u8(a, b))};
    const uint16x8_t upper[2] = {W16(vzip1q_u8(c, d)), W16(vzip2q_u8(c, d))};
    return (vec){{B16(vzip1q_u16(lower[0], upper[0])), B16(vzip2q_u16(lower[0], upper[0])),
                  B16(vzip1q_u16(lower[1], upper[1])), B16(vzip2q_u16(lower[1], upper[1]))}};
}

#define INTERLEAVES
#include "bytes/update_loops.h"

void pithi_update_bind_neon(struct pithi_kernels *k);
void pithi_update_bind_neon(struct pithi_kernels *k) {
    k->update_cut = cut;
    k->update_join = join;
    k->update_split = split;
    k->update_merge = merge;
}
