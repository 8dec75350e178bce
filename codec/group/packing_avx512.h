/* packing_avx512.h - codes of 2 to 8 bits to packed bytes and back, for AVX-512 (VBMI).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A part of group_avx512.c: what group_encode_tmpl.h and group_decode_tmpl.h ask of an instruction
 * set's packing, 64 codes at a time. The scalar reference is packing.h. */
#ifndef PITHI_PACKING_AVX512_H
#define PITHI_PACKING_AVX512_H

#define OWN_PACKING
#define OWN_WHOLE
/* 64 codes are 8 runs of `bits` bytes; each run is one 64-bit lane while it is made. */
struct packing {
    __m512i order, pairs, quads, squeeze, spread, shifts, mask, half;
    __mmask64 present; /* the 8 * bits bytes of 64 codes */
    /* Up to 4 bits: value of every code. 4 bits: where a vector's codes lie, how far up its own is
     * in a lane; where byte i lies when lanes hold bytes of eight runs: 8 * (i % 8) + i / 8. */
    __m512i levels, nibbles, gather;
    /* 4 bits: where byte i of a rotated group lies, which has run i / 16, half i / 8 % 2, four
     * i / 2 % 4 and pair i % 2 of its values: at 32 * half + 16 * pair + 4 * four + run. 8 bits:
     * where that of value i % 16 of run i / 16 lies in a half, 16 * (i % 4) + 4 * (i / 4 % 4) +
     * i / 16. */
    __m512i transposed;
    __m512i pick[4];
    /* Places in codes that were narrowed lane by lane: of every four codes; 4 bits: where byte i
     * of pairs lies, 16 * (i / 2 % 4) + 4 * (i / 8) + 2 * (i % 2); 2 bits: of fours, in every 16
     * bytes, 16 * (i % 4) + 4 * (i / 4 % 4). */
    __m512i fours, whole;
    __m512i
        twice; /* 4 bits: the byte that each of 32 codes is in, once for either byte of a word */
    unsigned bits;
    bool symmetric;
};

struct halves {
    __m512i low, high; /* 32 lanes of 16 bits each */
};

static __m512i to_bytes(struct halves x) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(x.low)),
                              _mm512_cvtepi16_epi8(x.high), 1);
}

/* i + (i * reciprocal >> 16) * factor for i = 0..63. */
static __m512i stretched(int reciprocal, int factor) {
    const __m512i by = _mm512_set1_epi16((short)reciprocal);
    const __m512i f = _mm512_set1_epi16((short)factor);
    struct halves i, x;
    i.low = _mm512_cvtepi8_epi16(_mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                                  15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
                                                  27, 28, 29, 30, 31));
    i.high = _mm512_add_epi16(i.low, _mm512_set1_epi16(32));
    x.low = _mm512_add_epi16(i.low, _mm512_mullo_epi16(_mm512_mulhi_epu16(i.low, by), f));
    x.high = _mm512_add_epi16(i.high, _mm512_mullo_epi16(_mm512_mulhi_epu16(i.high, by), f));
    return to_bytes(x);
}

static inline __attribute__((always_inline)) void packing_make(struct packing *p, unsigned bits,
                                                               bool symmetric) {
    static const uint16_t inverse[9] = {0, 0, 32768, 21846, 16384, 13108, 10923, 9363, 8192};
    const int b = (int)bits;
    /* Byte i of the dwords of four vectors: lane i % 16 of vector i / 16. */
    p->order = _mm512_or_si512(
        _mm512_slli_epi16(_mm512_and_si512(stretched(0, 0), _mm512_set1_epi8(15)), 2),
        _mm512_srli_epi16(_mm512_and_si512(stretched(0, 0), _mm512_set1_epi8(48)), 4));
    p->squeeze = stretched(inverse[bits], 8 - b); /* 8 * (i / bits) + i % bits */
    if (bits == 1) p->squeeze = _mm512_slli_epi64(stretched(0, 0), 3); /* the first 8 count */
    p->spread = stretched(inverse[8], b - 8);                          /* bits * (i / 8) + i % 8 */
    p->shifts = _mm512_set1_epi64((long long)(UINT64_C(0x0706050403020100) * bits));
    p->pairs = _mm512_set1_epi16((short)(1 | 256 << (bits & 7)));
    p->quads = _mm512_set1_epi32(1 | 65536 << (2 * bits & 15));
    p->mask = _mm512_set1_epi8((char)((1 << bits) - 1));
    p->half = _mm512_set1_epi8((char)(symmetric ? 1 << (bits - 1) : 0));
    p->present = ~UINT64_C(0) >> (64 - 8 * bits);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i sign =
        _mm512_and_si512(lane, _mm512_set1_epi32(symmetric && bits <= 4 ? 1 << (bits - 1) : 0));
    p->gather = _mm512_or_si512(
        _mm512_slli_epi16(_mm512_and_si512(stretched(0, 0), _mm512_set1_epi8(7)), 3),
        _mm512_srli_epi16(_mm512_and_si512(stretched(0, 0), _mm512_set1_epi8(56)), 3));
    p->transposed = _mm512_broadcast_i32x4(
        bits == 8 ? _mm_setr_epi8(0, 16, 32, 48, 4, 20, 36, 52, 8, 24, 40, 56, 12, 28, 44, 60)
                  : _mm_setr_epi8(0, 16, 4, 20, 8, 24, 12, 28, 32, 48, 36, 52, 40, 56, 44, 60));
    p->transposed = _mm512_add_epi8(
        p->transposed, _mm512_setr_epi32(0, 0, 0, 0, 0x01010101, 0x01010101, 0x01010101, 0x01010101,
                                         0x02020202, 0x02020202, 0x02020202, 0x02020202, 0x03030303,
                                         0x03030303, 0x03030303, 0x03030303));
    p->levels = f_from_i(_mm512_sub_epi32(lane, _mm512_add_epi32(sign, sign)));
    p->nibbles = _mm512_slli_epi32(_mm512_and_si512(lane, _mm512_set1_epi32(7)), 2);
    for (int k = 0; k < 4; k++)
        p->pick[k] = _mm512_add_epi32(_mm512_srli_epi32(lane, 3), _mm512_set1_epi32(2 * k));
    p->twice = _mm512_and_si512(_mm512_srli_epi16(stretched(0, 0), 2), _mm512_set1_epi8(15));
    p->fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i twos = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 16, 32, 48, 4, 20, 36, 52, 8, 24, 40, 56, 12, 28, 44, 60));
    p->whole = bits == 2 ? twos
                         : _mm512_castsi256_si512(_mm256_setr_epi8(
                               0, 2, 16, 18, 32, 34, 48, 50, 4, 6, 20, 22, 36, 38, 52, 54, 8, 10,
                               24, 26, 40, 42, 56, 58, 12, 14, 28, 30, 44, 46, 60, 62));
    p->bits = bits;
    p->symmetric = symmetric;
}
static __attribute__((noinline)) void packing_init(struct packing *p, unsigned bits,
                                                   bool symmetric) {
    packing_make(p, bits, symmetric);
}

/* Codes of which a unit is a multiple of 16 bytes: no line lies half written for long. */
static inline bool v_streams_codes(unsigned bits) { return bits % 2 == 0; }
static inline bool v_stream16_fits(const void *p) { return (uintptr_t)p % 16 == 0; }
static inline void v_stream16(uint8_t *to, const void *from) {
    _mm_stream_si128((__m128i *)to, _mm_loadu_si128(from));
}
static inline void stream_codes(uint8_t *to, unsigned bits, __m512i x) {
    __m128i *const p = (__m128i *)to;
    if (bits == 8 && (uintptr_t)to % 64 == 0) {
        _mm512_stream_si512((__m512i *)to, x);
        return;
    }
    if (bits == 4 && (uintptr_t)to % 32 == 0) {
        _mm256_stream_si256((__m256i *)to, _mm512_castsi512_si256(x));
        return;
    }
    _mm_stream_si128(p, _mm512_castsi512_si128(x));
    if (bits >= 4) _mm_stream_si128(p + 1, _mm512_extracti32x4_epi32(x, 1));
    if (bits >= 6) _mm_stream_si128(p + 2, _mm512_extracti32x4_epi32(x, 2));
    if (bits == 8) _mm_stream_si128(p + 3, _mm512_extracti32x4_epi32(x, 3));
}

static inline void put_codes(uint8_t *to, size_t capacity, unsigned bits, __m512i x,
                             bool nontemporal) {
    if (nontemporal) {
        stream_codes(to, bits, x);
    } else if (bits == 4) {
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(x));
    } else if (bits == 2) {
        _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(x));
    } else if (bits == 8 || capacity >= 64) {
        _mm512_storeu_si512(to, x); /* bytes past 8 * bits are written again by the next unit */
    } else {
        _mm512_mask_storeu_epi8(to, ~UINT64_C(0) >> (64 - 8 * bits), x);
    }
}

/* Bytes of x[0..3] beside each other in every lane: the lowest of each, or the third. */
static inline __m512i bytes_of(const v16 x[4], bool third) {
    const __m512i low8 = v_set(0xFF), byte2 = v_set(0xFF0000), low16 = v_set(0xFFFF);
    if (third) {
        const __m512i a = _mm512_ternarylogic_epi32(low8, v_shr(x[0], 16), v_shr(x[1], 8), 0xCA);
        const __m512i b = _mm512_ternarylogic_epi32(byte2, x[2], _mm512_slli_epi32(x[3], 8), 0xCA);
        return _mm512_ternarylogic_epi32(low16, a, b, 0xCA);
    }
    const __m512i a = _mm512_ternarylogic_epi32(low8, x[0], _mm512_slli_epi32(x[1], 8), 0xCA);
    const __m512i b = _mm512_ternarylogic_epi32(low8, x[2], _mm512_slli_epi32(x[3], 8), 0xCA);
    return _mm512_ternarylogic_epi32(low16, a, _mm512_slli_epi32(b, 16), 0xCA);
}

/* x: 64 codes, one to a byte. */
static inline void pack_ordered(uint8_t *to, size_t capacity, const struct packing *p, __m512i x,
                                bool nontemporal) {
    if (p->bits < 8) {
        x = _mm512_madd_epi16(_mm512_maddubs_epi16(p->pairs, x), p->quads);
        const __m512i high = _mm512_srli_epi64(x, 32);
        const __m128i by = _mm_cvtsi32_si128((int)(4 * p->bits));
        x = _mm512_ternarylogic_epi64(_mm512_set1_epi64(0xFFFFFFFF), x, _mm512_sll_epi64(high, by),
                                      0xEA);
        x = _mm512_permutexvar_epi8(p->squeeze, x);
    }
    put_codes(to, capacity, p->bits, x, nontemporal);
}

/* x: of bytes_of. */
static inline void pack_bytes(uint8_t *to, size_t capacity, const struct packing *p, __m512i x,
                              bool nontemporal) {
    if (p->bits == 4) { /* a 64-bit lane's high half goes above the nibbles of its low half */
        x = _mm512_ternarylogic_epi64(p->mask, x, _mm512_srli_epi64(x, 28), 0xCA);
        put_codes(to, capacity, 4, _mm512_permutexvar_epi8(p->gather, x), nontemporal);
        return;
    }
    pack_ordered(to, capacity, p, v_and(_mm512_permutexvar_epi8(p->order, x), p->mask),
                 nontemporal);
}

/* The low bits of each lane of q[0..3], in order; of pack64_high: its bits from 16 up. */
static inline void pack64(uint8_t *to, size_t capacity, const struct packing *p, const v16 q[4],
                          bool nontemporal) {
    pack_bytes(to, capacity, p, bytes_of(q, false), nontemporal);
}
static inline void pack64_high(uint8_t *to, size_t capacity, const struct packing *p,
                               const v16 q[4], bool nontemporal) {
    pack_bytes(to, capacity, p, bytes_of(q, true), nontemporal);
}

/* Packs 64 codes from lanes that are the codes as integers. */
static inline void pack64_whole(uint8_t *to, size_t capacity, const struct packing *p,
                                const v16 q[4], bool nontemporal) {
    const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
    const __m512i x = p->symmetric ? v_and(_mm512_packs_epi16(low, high), p->mask)
                                   : _mm512_packus_epi16(low, high);
    if (p->bits == 4) {
        const __m512i pairs = _mm512_maddubs_epi16(p->pairs, x);
        put_codes(to, capacity, 4, _mm512_permutexvar_epi8(p->whole, pairs), nontemporal);
    } else if (p->bits == 2) {
        const __m512i fours = _mm512_madd_epi16(_mm512_maddubs_epi16(p->pairs, x), p->quads);
        put_codes(to, capacity, 2, _mm512_permutexvar_epi8(p->whole, fours), nontemporal);
    } else {
        pack_ordered(to, capacity, p, _mm512_permutexvar_epi32(p->fours, x), nontemporal);
    }
}

/* Four runs of 32 values transformed, transposed to the order that pack_rotated takes their codes,
 * which are integers. */
static inline bool has_transposed(unsigned bits) { return bits == 4 || bits == 8; }
static inline __attribute__((always_inline)) void rotate_runs(v16 v[8], unsigned bits,
                                                              bool transposed) {
    if (has_transposed(bits) && transposed)
        f_transform32x4_transposed(v);
    else
        f_transform32x4(v);
}
/* a, b: of values 0..15 and 16..31 of every run, in bytes. */
static inline void put_runs8(uint8_t *to, const struct packing *p, __m512i a, __m512i b,
                             bool nontemporal) {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    a = _mm512_permutexvar_epi8(p->transposed, a);
    b = _mm512_permutexvar_epi8(p->transposed, b);
    put_codes(to, 128, 8, _mm512_permutex2var_epi64(a, low, b), nontemporal);
    put_codes(to + 64, 64, 8, _mm512_permutex2var_epi64(a, high, b), nontemporal);
}
static inline void pack_rotated(uint8_t *to, size_t capacity, const struct packing *p,
                                const v16 q[8], bool nontemporal) {
    if (!has_transposed(p->bits)) {
        pack64(to, capacity, p, q, nontemporal);
        pack64(to + 8 * p->bits, capacity - 8 * p->bits, p, q + 4, nontemporal);
        return;
    }
    const __m512i a =
        _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[2]), _mm512_packs_epi32(q[4], q[6]));
    const __m512i b =
        _mm512_packs_epi16(_mm512_packs_epi32(q[1], q[3]), _mm512_packs_epi32(q[5], q[7]));
    if (p->bits == 8) {
        put_runs8(to, p, a, b, nontemporal);
        return;
    }
    const __m512i even = _mm512_shuffle_i32x4(a, b, 0x88), odd = _mm512_shuffle_i32x4(a, b, 0xDD);
    const __m512i x = _mm512_ternarylogic_epi32(p->mask, even, _mm512_slli_epi32(odd, 4), 0xCA);
    put_codes(to, capacity, 8, _mm512_permutexvar_epi8(p->transposed, x), nontemporal);
}

/* Masked loads are slow on some CPUs: only where the codes end. */
static inline __m512i get_codes(const uint8_t *from, size_t capacity, const struct packing *p) {
    if (p->bits == 4) return _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)from));
    if (capacity >= 64) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi8(p->present, from);
}

static inline void unpack64(v16 q[4], const uint8_t *from, size_t capacity,
                            const struct packing *p) {
    if (p->bits == 8 && p->symmetric) {
        const __m128i *const bytes = (const __m128i *)from;
        q[0] = _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes));
        q[1] = _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes + 1));
        q[2] = _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes + 2));
        q[3] = _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes + 3));
        return;
    }
    __m512i x = _mm512_permutexvar_epi8(p->spread, get_codes(from, capacity, p));
    x = v_and(_mm512_multishift_epi64_epi8(p->shifts, x), p->mask);
    /* Sign extension, for bytes: symmetric codes of 8 bits end in the sign bit already. */
    x = _mm512_sub_epi8(_mm512_xor_si512(x, p->half), p->half);
    q[0] = _mm512_cvtepi8_epi32(_mm512_castsi512_si128(x));
    q[1] = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32(x, 1));
    q[2] = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32(x, 2));
    q[3] = _mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32(x, 3));
    if (p->bits == 8 && !p->symmetric) {
        q[0] = v_and(q[0], v_set(0xFF));
        q[1] = v_and(q[1], v_set(0xFF));
        q[2] = v_and(q[2], v_set(0xFF));
        q[3] = v_and(q[3], v_set(0xFF));
    }
}

/* 16 codes of 4 bits: a table look-up, which reads only the low 4 bits of a lane. */
static inline v16 look_up(__m512i codes, __m512i table, const struct packing *p, __m512i pick) {
    const __m512i index = _mm512_srlv_epi32(_mm512_permutexvar_epi32(pick, codes), p->nibbles);
    return _mm512_permutexvar_epi32(index, table);
}

/* What each code stands for, as those of a group are. */
static inline __m512i table_of(const struct packing *p, const float *scale, const float *zero) {
    const __m512i x = f_mul(p->levels, v_spread(scale));
    return zero ? f_add(x, v_spread(zero)) : x;
}

/* Codes times the scale of their 16 elements, and their zero point on top. */
#define OWN_PRODUCTS
static inline __attribute__((always_inline)) void products(v16 x[4], const uint8_t *from,
                                                           size_t capacity, const struct packing *p,
                                                           const float *const scale[4],
                                                           const float *const zero[4]) {
    if (p->bits == 4) {
        const __m512i codes = get_codes(from, capacity, p);
        const __m512i table = table_of(p, scale[0], zero[0]);
        const bool one = scale[0] == scale[3];
        x[0] = look_up(codes, table, p, p->pick[0]);
        x[1] = look_up(codes, one ? table : table_of(p, scale[1], zero[1]), p, p->pick[1]);
        x[2] = look_up(codes, one ? table : table_of(p, scale[2], zero[2]), p, p->pick[2]);
        x[3] = look_up(codes, one ? table : table_of(p, scale[3], zero[3]), p, p->pick[3]);
        return;
    }
    unpack64(x, from, capacity, p);
    x[0] = product(x[0], scale[0], zero[0]);
    x[1] = product(x[1], scale[1], zero[1]);
    x[2] = product(x[2], scale[2], zero[2]);
    x[3] = product(x[3], scale[3], zero[3]);
}

/* What each code stands for in 16 bits, twice: look-ups read the low 5 bits of a word. */
static inline __m512i table_of_halves(const struct packing *p, uint32_t dtype, const float *scale,
                                      const float *zero) {
    const v16 values = table_of(p, scale, zero);
    return _mm512_broadcast_i64x4(
        dtype == PITH_F16 ? _mm512_cvtps_ph(F(values), _MM_FROUND_TO_NEAREST_INT)
                          : _mm512_cvtepi32_epi16(v_shr(round_loosely(PITH_BF16, values), 16)));
}

/* 64 codes in 16 bits each, every 32 of one group. */
#define OWN_HALVES
static inline bool has_halves(unsigned bits, size_t group) {
    return bits >= 2 && bits <= 4 && group >= 32;
}
static inline __attribute__((always_inline)) void halves(v16 x[2], uint32_t dtype,
                                                         const uint8_t *from, size_t capacity,
                                                         const struct packing *p,
                                                         const float *const scale[2],
                                                         const float *const zero[2]) {
    const __m512i codes = get_codes(from, capacity, p);
    const __m512i first = table_of_halves(p, dtype, scale[0], zero[0]);
    const __m512i second =
        scale[0] == scale[1] ? first : table_of_halves(p, dtype, scale[1], zero[1]);
    if (p->bits == 4) {
        const __m512i shift = _mm512_set1_epi32(0x00040000);
        const __m512i low = _mm512_permutexvar_epi8(p->twice, codes);
        const __m512i high =
            _mm512_permutexvar_epi8(_mm512_or_si512(p->twice, _mm512_set1_epi8(16)), codes);
        x[0] = _mm512_permutexvar_epi16(_mm512_srlv_epi16(low, shift), first);
        x[1] = _mm512_permutexvar_epi16(_mm512_srlv_epi16(high, shift), second);
        return;
    }
    const __m512i runs = _mm512_permutexvar_epi8(p->spread, codes);
    const __m512i code = v_and(_mm512_multishift_epi64_epi8(p->shifts, runs), p->mask);
    const __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(code));
    const __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(code, 1));
    x[0] = _mm512_permutexvar_epi16(low, first);
    x[1] = _mm512_permutexvar_epi16(high, second);
}

#endif
