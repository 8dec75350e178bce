/* packing_avx2.h - codes of 2 to 8 bits to packed bytes and back, for AVX2.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of group_avx2.c: what group_encode_tmpl.h and group_decode_tmpl.h ask of an instruction
 * set's packing, 64 codes at a time. The scalar reference is packing.h. */
#ifndef PITHI_PACKING_AVX2_H
#define PITHI_PACKING_AVX2_H

#include "group/packing.h"

/* 16 codes are 2 * bits bytes. Making them, 8 codes are one 64-bit lane; reading them, every
 * 32-bit lane gets the two bytes its code begins in, and is shifted up by `up`, so that the code's
 * highest bit is the lane's, and down again by `down`, with the sign or without. */
struct packing {
    __m256i pairs, quads, squeeze, mask8, spread[2], up[2], down;
    const float *levels; /* what codes of 2 or 4 bits stand for */
    unsigned bits;
    bool symmetric;
};

static inline __attribute__((always_inline)) void packing_make(struct packing *p, unsigned bits,
                                                               bool symmetric) {
    const __m256i place = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m256i first = _mm256_cmpgt_epi8(_mm256_set1_epi8((char)bits), place);
    const __m256i past = _mm256_cmpgt_epi8(place, _mm256_set1_epi8((char)(2 * bits - 1)));
    const __m256i moved = _mm256_add_epi8(place, _mm256_set1_epi8((char)(8 - bits)));
    uint8_t spread[64];
    uint32_t up[16];
    for (unsigned i = 0; i < 16; i++) {
        const unsigned byte = i * bits / 8, last = 2 * bits - 1;
        const uint8_t from[4] = {(uint8_t)byte, (uint8_t)(byte < last ? byte + 1 : byte), 0x80,
                                 0x80};
        memcpy(spread + 4 * i, from, 4);
        up[i] = 32 - bits - i * bits % 8;
    }
    p->squeeze = _mm256_or_si256(_mm256_blendv_epi8(moved, place, first), past);
    for (int k = 0; k < 2; k++) {
        p->spread[k] = load256(spread + 32 * k);
        p->up[k] = load256((const uint8_t *)(up + 8 * k));
    }
    p->pairs = _mm256_set1_epi16((short)(1 | 256 << (bits & 7)));
    p->quads = _mm256_set1_epi32(1 | 65536 << (2 * bits & 15));
    p->mask8 = _mm256_set1_epi8((char)((1 << bits) - 1));
    p->down = _mm256_set1_epi32((int)(32 - bits));
    p->levels = (bits == 2 ? pithi_levels2 : pithi_levels4)[symmetric];
    p->bits = bits;
    p->symmetric = symmetric;
}
static __attribute__((noinline)) void packing_init(struct packing *p, unsigned bits,
                                                   bool symmetric) {
    packing_make(p, bits, symmetric);
}

/* Low bytes of the lanes, in order. */
static inline __m256i low_bytes(v16 x, v16 y) {
    const v16 byte = v_set(0xFF);
    x = v_and(x, byte);
    y = v_and(y, byte);
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_packus_epi32(x.a, x.b), _mm256_packus_epi32(y.a, y.b));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline __m256i pack32(const struct packing *p, v16 x, v16 y) {
    const __m256i bytes = _mm256_and_si256(low_bytes(x, y), p->mask8);
    if (p->bits == 8) return bytes;
    const __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(p->pairs, bytes), p->quads);
    const __m128i by = _mm_cvtsi32_si128((int)(4 * p->bits));
    const __m256i high = _mm256_sll_epi64(_mm256_srli_epi64(fours, 32), by);
    const __m256i low = _mm256_blend_epi32(fours, _mm256_setzero_si256(), 0xAA);
    return _mm256_shuffle_epi8(_mm256_or_si256(low, high), p->squeeze);
}

/* Codes of 4 bits of 32 lanes: the pairs of elements 0..3 of each eighth, then those of 4..7. */
static inline __m256i pairs4(v16 x, v16 y) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15));
    const __m256i p = _mm256_blend_epi16(x.a, _mm256_slli_epi32(x.b, 16), 0xAA);
    const __m256i q = _mm256_blend_epi16(y.a, _mm256_slli_epi32(y.b, 16), 0xAA);
    const __m256i high = _mm256_set1_epi16((short)0xFF00);
    __m256i bytes = _mm256_blendv_epi8(p, _mm256_slli_epi16(q, 8), high);
    bytes = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    return _mm256_maddubs_epi16(_mm256_set1_epi16(0x1001), _mm256_shuffle_epi8(bytes, order));
}
/* 64 codes of 4 bits. */
static inline __m256i pack4(const v16 q[4]) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    const __m256i bytes = _mm256_packus_epi16(pairs4(q[0], q[1]), pairs4(q[2], q[3]));
    return _mm256_shuffle_epi8(_mm256_permute4x64_epi64(bytes, 0xD8), order);
}

/* 4 and 8 bits: what pack32 gives is a multiple of 16 bytes. */
static inline bool v_streams_codes(unsigned bits) { return bits == 4 || bits == 8; }
static inline bool v_stream16_fits(const void *p) { return (uintptr_t)p % 16 == 0; }
static inline void v_stream16(uint8_t *to, const void *from) {
    _mm_stream_si128((__m128i *)to, _mm_loadu_si128(from));
}
static inline void stream32(uint8_t *to, __m256i x) {
    _mm_stream_si128((__m128i *)to, _mm256_castsi256_si128(x));
    _mm_stream_si128((__m128i *)(to + 16), _mm256_extracti128_si256(x, 1));
}

/* Stores of 16 bytes overlap: each one's end is written again by the next, in ascending order. */
static inline void put_codes(uint8_t *to, size_t step, __m256i x, __m256i y) {
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(x));
    _mm_storeu_si128((__m128i *)(to + step), _mm256_extracti128_si256(x, 1));
    _mm_storeu_si128((__m128i *)(to + 2 * step), _mm256_castsi256_si128(y));
    _mm_storeu_si128((__m128i *)(to + 3 * step), _mm256_extracti128_si256(y, 1));
}

/* The low bits of each lane of q[0..3], in order. */
static inline void pack64(uint8_t *to, size_t capacity, const struct packing *p, const v16 q[4],
                          bool nontemporal) {
    if (p->bits == 4) {
        if (nontemporal)
            stream32(to, pack4(q));
        else
            store256(to, pack4(q));
        return;
    }
    const __m256i x = pack32(p, q[0], q[1]), y = pack32(p, q[2], q[3]);
    if (nontemporal) {
        stream32(to, x);
        stream32(to + 32, y);
    } else if (capacity >= 64) {
        put_codes(to, 2 * p->bits, x, y);
    } else {
        uint8_t bytes[64];
        put_codes(bytes, 2 * p->bits, x, y);
        memcpy(to, bytes, 8 * (size_t)p->bits);
    }
}

/* The bytes of 32 lanes that are codes as integers, see pack64_whole: those of elements 0..3 of
 * each eighth, then those of 4..7. */
static inline __m256i bytes_of_whole(const struct packing *p, v16 x, v16 y) {
    if (!p->symmetric)
        return _mm256_packus_epi16(_mm256_packus_epi32(x.a, x.b), _mm256_packus_epi32(y.a, y.b));
    const __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
    return p->bits == 8 ? bytes : _mm256_and_si256(bytes, p->mask8);
}

#define OWN_WHOLE
/* Packs 64 codes from lanes that are the codes as integers. Those of 2, 4 and 8 bits are not cut to
 * their low bits: other integers saturate to 8 bits, and what is beyond a code of fewer bits spoils
 * its neighbours. Of these widths just the 8 * bits bytes of the codes are written. */
static inline void pack64_whole(uint8_t *to, size_t capacity, const struct packing *p,
                                const v16 q[4], bool nontemporal) {
    if (p->bits != 2 && p->bits != 4 && p->bits != 8) {
        pack64(to, capacity, p, q, nontemporal);
        return;
    }
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i x = bytes_of_whole(p, q[0], q[1]), y = bytes_of_whole(p, q[2], q[3]);
    if (p->bits == 8) {
        x = _mm256_permutevar8x32_epi32(x, order);
        y = _mm256_permutevar8x32_epi32(y, order);
        if (nontemporal) {
            stream32(to, x);
            stream32(to + 32, y);
        } else {
            store256(to, x);
            store256(to + 32, y);
        }
        return;
    }
    x = _mm256_maddubs_epi16(p->pairs, x);
    y = _mm256_maddubs_epi16(p->pairs, y);
    if (p->bits == 2) {
        const __m256i words =
            _mm256_packus_epi32(_mm256_madd_epi16(x, p->quads), _mm256_madd_epi16(y, p->quads));
        const __m256i bytes = _mm256_packus_epi16(words, words);
        _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi8(_mm256_castsi256_si128(bytes),
                                                          _mm256_extracti128_si256(bytes, 1)));
        return;
    }
    const __m256i words_in_order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi16(x, y), 0xD8);
    const __m256i bytes = _mm256_shuffle_epi8(pairs, words_in_order);
    if (nontemporal)
        stream32(to, bytes);
    else
        store256(to, bytes);
}

static inline __m256i unpack8(__m128i codes, const struct packing *p, int k) {
    __m256i x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(codes), p->spread[k]);
    x = _mm256_sllv_epi32(x, p->up[k]);
    return p->symmetric ? _mm256_srav_epi32(x, p->down) : _mm256_srlv_epi32(x, p->down);
}

static inline v16 unpack16(const uint8_t *from, const struct packing *p) {
    const __m128i codes = _mm_loadu_si128((const __m128i *)from);
    return (v16){unpack8(codes, p, 0), unpack8(codes, p, 1)};
}

static inline v16 signed_bytes(const uint8_t *from) {
    return (v16){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)),
                 _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(from + 8)))};
}

static inline void unpack64(v16 q[4], const uint8_t *from, size_t capacity,
                            const struct packing *p) {
    uint8_t bytes[64];
    if (p->bits == 8 && p->symmetric) {
        q[0] = signed_bytes(from);
        q[1] = signed_bytes(from + 16);
        q[2] = signed_bytes(from + 32);
        q[3] = signed_bytes(from + 48);
        return;
    }
    if (capacity < 64) from = memcpy(bytes, from, 8 * (size_t)p->bits);
    q[0] = unpack16(from, p);
    q[1] = unpack16(from + 2 * p->bits, p);
    q[2] = unpack16(from + 4 * p->bits, p);
    q[3] = unpack16(from + 6 * p->bits, p);
}

/* What each code stands for in 16 bits: the low bytes of the words, then the high ones. */
static inline __m256i bytes_of_levels(const struct packing *p, uint32_t dtype, const float *scale,
                                      const float *zero) {
    v16 x = f_mul(v_load((const uint8_t *)p->levels), v_spread(scale));
    if (zero) x = f_add(x, v_spread(zero));
    __m256i words;
    if (dtype == PITH_F16) {
        words = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm256_cvtps_ph(F(x.a), _MM_FROUND_TO_NEAREST_INT)),
            _mm256_cvtps_ph(F(x.b), _MM_FROUND_TO_NEAREST_INT), 1);
    } else {
        x = v_shr(round_loosely(PITH_BF16, x), 16);
        words = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.a, x.b), 0xD8);
    }
    const __m256i low = _mm256_and_si256(words, _mm256_set1_epi16(0xFF));
    const __m256i high = _mm256_srli_epi16(words, 8);
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
}

/* 64 codes of 2 or 4 bits, every 32 of one group, as values of 16 bits. Low and high bytes of a
 * value are looked up apart, and so are codes at even and at odd places; until they are joined, the
 * low half of a vector is of the first 32 elements. Reads the 8 * bits bytes of the codes alone;
 * scales and zeros are finite and below PITHI_SCALE_LIMIT. */
#define OWN_HALVES
static inline bool has_halves(unsigned bits, size_t group) {
    return (bits == 2 || bits == 4) && group >= 32;
}
static inline __attribute__((always_inline)) void halves(v16 x[2], uint32_t dtype,
                                                         const uint8_t *from, size_t capacity,
                                                         const struct packing *p,
                                                         const float *const scale[2],
                                                         const float *const zero[2]) {
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i table = bytes_of_levels(p, dtype, scale[0], zero[0]);
    const __m256i next =
        scale[0] == scale[1] ? table : bytes_of_levels(p, dtype, scale[1], zero[1]);
    const __m256i low = _mm256_permute2x128_si256(table, next, 0x20);
    const __m256i high = _mm256_permute2x128_si256(table, next, 0x31);
    __m256i even[2], odd[2]; /* low and high bytes */
    (void)capacity;
    if (p->bits == 4) {
        const __m256i codes = load256(from);
        const __m256i first = _mm256_and_si256(codes, nibble);
        const __m256i second = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
        even[0] = _mm256_shuffle_epi8(low, first), even[1] = _mm256_shuffle_epi8(high, first);
        odd[0] = _mm256_shuffle_epi8(low, second), odd[1] = _mm256_shuffle_epi8(high, second);
    } else {
        /* A nibble has two codes: tables of what its first and its second one stand for. */
        const __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)from));
        const __m256i pairs =
            _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), nibble);
        const __m256i second = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
        even[0] = _mm256_shuffle_epi8(low, pairs), even[1] = _mm256_shuffle_epi8(high, pairs);
        odd[0] = _mm256_shuffle_epi8(_mm256_shuffle_epi8(low, second), pairs);
        odd[1] = _mm256_shuffle_epi8(_mm256_shuffle_epi8(high, second), pairs);
    }
    const __m256i a = _mm256_unpacklo_epi8(even[0], even[1]);
    const __m256i b = _mm256_unpacklo_epi8(odd[0], odd[1]);
    const __m256i c = _mm256_unpackhi_epi8(even[0], even[1]);
    const __m256i d = _mm256_unpackhi_epi8(odd[0], odd[1]);
    const __m256i e = _mm256_unpacklo_epi16(a, b), f = _mm256_unpackhi_epi16(a, b);
    const __m256i g = _mm256_unpacklo_epi16(c, d), h = _mm256_unpackhi_epi16(c, d);
    x[0] = (v16){_mm256_permute2x128_si256(e, f, 0x20), _mm256_permute2x128_si256(g, h, 0x20)};
    x[1] = (v16){_mm256_permute2x128_si256(e, f, 0x31), _mm256_permute2x128_si256(g, h, 0x31)};
}

#endif
