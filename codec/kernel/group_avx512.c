/* group_avx512.c - the group quantizer for AVX-512 F, BW, VL, DQ and VBMI.
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "codec.h"

typedef __m512i v16;

#define F(x) _mm512_castsi512_ps(x)
#define I(x) _mm512_castps_si512(x)

static inline v16 v_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline v16 v_spread(const float *p) { return I(_mm512_set1_ps(*p)); }
static inline v16 v_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline v16 v_load16(const uint8_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

static inline void v_store(uint8_t *p, v16 x) { _mm512_storeu_si512(p, x); }
/* Lanes hold 16-bit values. */
static inline void v_store16(uint8_t *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(x));
}

/* 16 bits per lane, to and from the high halves of the lanes. */
static inline v16 v_load_high(const uint8_t *p) {
    const __m256i h = _mm256_loadu_si256((const __m256i *)p);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, _mm512_slli_epi32(lane, 16),
                                          _mm512_castsi256_si512(h));
}
static inline void v_store_high(uint8_t *p, v16 x) {
    const __m512i odd =
        _mm512_setr_epi32(0x00030001, 0x00070005, 0x000B0009, 0x000F000D, 0x00130011, 0x00170015,
                          0x001B0019, 0x001F001D, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_si256((__m256i *)p, _mm512_castsi512_si256(_mm512_permutexvar_epi16(odd, x)));
}

/* Non-temporal stores of whole lines although the output may begin within one, as large
 * allocations do: `lead` elements go before the first line, and every line takes the end of the
 * last vector and the beginning of this one. */
struct streamer {
    v16 last, turn;
    unsigned lead;
    bool begun;
};
static inline bool v_stream_fits(const void *p) { return (uintptr_t)p % 4 == 0; }
static inline void v_stream_begin(struct streamer *s, const void *p) {
    s->lead = (unsigned)(-(uintptr_t)p / 4 % 16);
    s->turn =
        _mm512_add_epi32(_mm512_set1_epi32((int)s->lead),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    s->last = _mm512_setzero_si512();
    s->begun = false;
}
static inline void v_stream(struct streamer *s, uint8_t *p, v16 x) {
    if (__builtin_expect(s->begun, 1)) {
        uint8_t *line = p + 4 * (size_t)s->lead - 64;
        _mm512_stream_si512((void *)line, _mm512_permutex2var_epi32(s->last, s->turn, x));
    } else {
        uint8_t bytes[64];
        _mm512_storeu_si512(bytes, x);
        memcpy(p, bytes, 4 * (size_t)s->lead);
        s->begun = true;
    }
    s->last = x;
}
/* p: past the last vector, of which the elements from `lead` on are still to be stored. */
static inline void v_stream_end(struct streamer *s, uint8_t *p) {
    uint8_t bytes[64];
    if (!s->begun) return;
    _mm512_storeu_si512(bytes, s->last);
    memcpy(p - 64 + 4 * (size_t)s->lead, bytes + 4 * (size_t)s->lead, 64 - 4 * (size_t)s->lead);
    s->begun = false;
}

static inline v16 v_and(v16 a, v16 b) { return _mm512_and_si512(a, b); }
static inline v16 v_xor(v16 a, v16 b) { return _mm512_xor_si512(a, b); }
static inline v16 v_add(v16 a, v16 b) { return _mm512_add_epi32(a, b); }
static inline v16 v_maxu(v16 a, v16 b) { return _mm512_max_epu32(a, b); }
static inline v16 v_maxi(v16 a, v16 b) { return _mm512_max_epi32(a, b); }
static inline v16 v_mini(v16 a, v16 b) { return _mm512_min_epi32(a, b); }
static inline v16 v_shr(v16 a, unsigned n) { return _mm512_srli_epi32(a, n); }
static inline v16 v_sar31(v16 a) { return _mm512_srai_epi32(a, 31); }
/* All ones where a > b as signed integers. */
static inline v16 v_greater(v16 a, v16 b) {
    return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(a, b));
}
/* x + 1 where a > b as signed integers. */
static inline v16 v_count_greater(v16 x, v16 a, v16 b) {
    return _mm512_mask_add_epi32(x, _mm512_cmpgt_epi32_mask(a, b), x, _mm512_set1_epi32(1));
}
static inline uint32_t v_reduce_maxu(v16 a) { return _mm512_reduce_max_epu32(a); }
static inline int32_t v_reduce_maxi(v16 a) { return _mm512_reduce_max_epi32(a); }
static inline int32_t v_reduce_mini(v16 a) { return _mm512_reduce_min_epi32(a); }

static inline v16 f_add(v16 a, v16 b) { return I(_mm512_add_ps(F(a), F(b))); }
static inline v16 f_sub(v16 a, v16 b) { return I(_mm512_sub_ps(F(a), F(b))); }
static inline v16 f_mul(v16 a, v16 b) { return I(_mm512_mul_ps(F(a), F(b))); }
static inline v16 f_div(v16 a, v16 b) { return I(_mm512_div_ps(F(a), F(b))); }
static inline v16 f_min(v16 a, v16 b) { return I(_mm512_min_ps(F(a), F(b))); }
static inline v16 f_max(v16 a, v16 b) { return I(_mm512_max_ps(F(a), F(b))); }
/* |limit| where a is larger, with the sign of a. */
static inline v16 f_limit(v16 a, v16 limit) { return I(_mm512_range_ps(F(a), F(limit), 0x02)); }
static inline v16 f_floor(v16 a) { return I(_mm512_roundscale_ps(F(a), _MM_FROUND_TO_NEG_INF)); }
static inline v16 f_to_i(v16 a) { return _mm512_cvttps_epi32(F(a)); }
static inline v16 f_from_i(v16 a) { return I(_mm512_cvtepi32_ps(a)); }
static inline v16 f_widen(v16 a) { return I(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a))); }
static inline v16 f_narrow(v16 a) {
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(F(a), _MM_FROUND_TO_NEAREST_INT));
}

enum { NONFINITE = 0x99 }; /* classes: quiet and signalling NaN, both infinities */
static inline uint32_t v_nonfinite(v16 a) { return _mm512_fpclass_ps_mask(F(a), NONFINITE); }
/* In integers: masks of 16 are dearer than vectors. */
static inline bool v_any_nonfinite(const v16 a[4]) {
    const v16 x = v_maxu(v_add(a[0], a[0]), v_add(a[1], a[1]));
    const v16 y = v_maxu(v_add(a[2], a[2]), v_add(a[3], a[3]));
    return _mm512_cmpge_epu32_mask(v_maxu(x, y), v_set(0xFF000000u)) != 0;
}
/* Nonfinite lanes become the largest value with their sign. */
static inline v16 v_saturate(v16 a, uint32_t largest) {
    const v16 full = _mm512_or_si512(v_and(a, v_set(0x80000000u)), v_set(largest));
    return _mm512_mask_mov_epi32(a, _mm512_fpclass_ps_mask(F(a), NONFINITE), full);
}

/* Words of the counters c..c+7, one counter per 64-bit lane; high halves may hold garbage, which
 * the multiplications do not see. Lane 2i of c holds counter i, lane 2i+1 counter 4+i, so that
 * unpacking gives the order of the elements. */
struct philox {
    uint64_t key[10][2], step, stream;
};

static void philox_init(struct philox *p, const struct pithi_random *r) {
    p->step = (uint32_t)r->step;
    p->stream = r->stream;
    for (uint32_t i = 0; i < 10; i++) {
        p->key[i][0] = (uint32_t)r->seed + i * 0x9E3779B9u;
        p->key[i][1] = (uint32_t)(r->seed >> 32) + i * 0xBB67AE85u;
    }
}

/* Four times eight counters: their rounds side by side hide each other's latency. */
static inline void random256(const struct philox *r, uint64_t c, uint16_t out[256]) {
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    __m512i c0[4], c1[4], c2[4], c3[4];
    for (int i = 0; i < 4; i++) {
        c0[i] = _mm512_add_epi64(_mm512_set1_epi64((long long)c + 8 * i), order);
        c1[i] = _mm512_srli_epi64(c0[i], 32);
        c2[i] = _mm512_set1_epi64((long long)r->step);
        c3[i] = _mm512_set1_epi64((long long)r->stream);
    }
    for (int round = 0; round < 10; round++) {
        const __m512i k0 = _mm512_set1_epi64((long long)r->key[round][0]);
        const __m512i k1 = _mm512_set1_epi64((long long)r->key[round][1]);
        for (int i = 0; i < 4; i++) {
            const __m512i p0 = _mm512_mul_epu32(c0[i], m0), p1 = _mm512_mul_epu32(c2[i], m1);
            c0[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[i], k0, 0x96);
            c2[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[i], k1, 0x96);
            c1[i] = p1;
            c3[i] = p0;
        }
    }
    for (int i = 0; i < 4; i++) {
        const __m512i a = _mm512_mask_shuffle_epi32(c0[i], 0xAAAA, c1[i], 0xA0);
        const __m512i b = _mm512_mask_shuffle_epi32(c2[i], 0xAAAA, c3[i], 0xA0);
        _mm512_storeu_si512(out + 64 * i, _mm512_unpacklo_epi64(a, b));
        _mm512_storeu_si512(out + 64 * i + 32, _mm512_unpackhi_epi64(a, b));
    }
}

/* 64 codes are 8 runs of `bits` bytes; each run is one 64-bit lane while it is made. */
struct packing {
    __m512i order, pairs, quads, squeeze, spread, shifts, mask, half;
    __mmask64 present; /* the 8 * bits bytes of 64 codes */
    /* 4 bits: value of every code, where a vector's codes lie, how far up its own is in a lane;
     * where byte i lies when lanes hold bytes of eight runs: 8 * (i % 8) + i / 8. */
    __m512i levels, nibbles, gather;
    __m512i pick[4];
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

static void packing_init(struct packing *p, unsigned bits, bool symmetric) {
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
    const __m512i sign = _mm512_and_si512(lane, _mm512_set1_epi32(symmetric ? 8 : 0));
    p->gather = _mm512_or_si512(
        _mm512_slli_epi16(_mm512_and_si512(stretched(0, 0), _mm512_set1_epi8(7)), 3),
        _mm512_srli_epi16(_mm512_and_si512(stretched(0, 0), _mm512_set1_epi8(56)), 3));
    p->levels = f_from_i(_mm512_sub_epi32(lane, _mm512_add_epi32(sign, sign)));
    p->nibbles = _mm512_slli_epi32(_mm512_and_si512(lane, _mm512_set1_epi32(7)), 2);
    for (int k = 0; k < 4; k++)
        p->pick[k] = _mm512_add_epi32(_mm512_srli_epi32(lane, 3), _mm512_set1_epi32(2 * k));
    p->bits = bits;
    p->symmetric = symmetric;
}

/* Codes of which a unit is a multiple of 16 bytes: no line lies half written for long. */
static inline bool v_streams_codes(unsigned bits) { return bits % 2 == 0; }
static inline bool v_stream16_fits(const void *p) { return (uintptr_t)p % 16 == 0; }
static inline void v_stream16(uint8_t *to, const void *from) {
    _mm_stream_si128((__m128i *)to, _mm_loadu_si128(from));
}
static inline void stream_codes(uint8_t *to, unsigned bits, __m512i x) {
    __m128i *const p = (__m128i *)to;
    _mm_stream_si128(p, _mm512_castsi512_si128(x));
    if (bits >= 4) _mm_stream_si128(p + 1, _mm512_extracti32x4_epi32(x, 1));
    if (bits >= 6) _mm_stream_si128(p + 2, _mm512_extracti32x4_epi32(x, 2));
    if (bits == 8) _mm_stream_si128(p + 3, _mm512_extracti32x4_epi32(x, 3));
}

static inline void put_codes(uint8_t *to, size_t room, unsigned bits, __m512i x, bool stream) {
    if (stream) {
        stream_codes(to, bits, x);
    } else if (bits == 4) {
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(x));
    } else if (bits == 8 || room >= 64) {
        _mm512_storeu_si512(to, x); /* bytes past 8 * bits are written again by the next unit */
    } else {
        _mm512_mask_storeu_epi8(to, ~UINT64_C(0) >> (64 - 8 * bits), x);
    }
}

/* The low bits of each lane of q[0..3], in order. */
static inline void pack64(uint8_t *to, size_t room, const struct packing *p, const v16 q[4],
                          bool stream) {
    const __m512i low8 = v_set(0xFF), low16 = v_set(0xFFFF);
    const __m512i a = _mm512_ternarylogic_epi32(low8, q[0], _mm512_slli_epi32(q[1], 8), 0xCA);
    const __m512i b = _mm512_ternarylogic_epi32(low8, q[2], _mm512_slli_epi32(q[3], 8), 0xCA);
    __m512i x = _mm512_ternarylogic_epi32(low16, a, _mm512_slli_epi32(b, 16), 0xCA);
    if (p->bits == 4) { /* a 64-bit lane's high half goes above the nibbles of its low half */
        x = _mm512_ternarylogic_epi64(p->mask, x, _mm512_srli_epi64(x, 28), 0xCA);
        put_codes(to, room, 4, _mm512_permutexvar_epi8(p->gather, x), stream);
        return;
    }
    x = v_and(_mm512_permutexvar_epi8(p->order, x), p->mask);
    if (p->bits < 8) {
        x = _mm512_madd_epi16(_mm512_maddubs_epi16(p->pairs, x), p->quads);
        const __m512i high = _mm512_srli_epi64(x, 32);
        const __m128i by = _mm_cvtsi32_si128((int)(4 * p->bits));
        x = _mm512_ternarylogic_epi64(_mm512_set1_epi64(0xFFFFFFFF), x, _mm512_sll_epi64(high, by),
                                      0xEA);
        x = _mm512_permutexvar_epi8(p->squeeze, x);
    }
    put_codes(to, room, p->bits, x, stream);
}

/* Masked loads are slow on some CPUs: only where the codes end. */
static inline __m512i get_codes(const uint8_t *from, size_t room, const struct packing *p) {
    if (p->bits == 4) return _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)from));
    if (room >= 64) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi8(p->present, from);
}

static inline void unpack64(v16 q[4], const uint8_t *from, size_t room, const struct packing *p) {
    __m512i x = _mm512_permutexvar_epi8(p->spread, get_codes(from, room, p));
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

/* Codes times the scale of their 16 elements. */
#define OWN_PRODUCTS
static inline __attribute__((always_inline)) void products(v16 x[4], const uint8_t *from,
                                                           size_t room, const struct packing *p,
                                                           const float *const scale[4]) {
    if (p->bits == 4) {
        const __m512i codes = get_codes(from, room, p);
        const __m512i table = f_mul(p->levels, v_spread(scale[0]));
        const bool one = scale[0] == scale[3];
        x[0] = look_up(codes, table, p, p->pick[0]);
        x[1] = look_up(codes, one ? table : f_mul(p->levels, v_spread(scale[1])), p, p->pick[1]);
        x[2] = look_up(codes, one ? table : f_mul(p->levels, v_spread(scale[2])), p, p->pick[2]);
        x[3] = look_up(codes, one ? table : f_mul(p->levels, v_spread(scale[3])), p, p->pick[3]);
        return;
    }
    unpack64(x, from, room, p);
    x[0] = f_mul(f_from_i(x[0]), v_spread(scale[0]));
    x[1] = f_mul(f_from_i(x[1]), v_spread(scale[1]));
    x[2] = f_mul(f_from_i(x[2]), v_spread(scale[2]));
    x[3] = f_mul(f_from_i(x[3]), v_spread(scale[3]));
}

#include "kernel/group_tmpl.h"

void pithi_group_bind_avx512(struct pithi_kernels *k);
void pithi_group_bind_avx512(struct pithi_kernels *k) {
    k->group_encode = group_encode;
    k->group_decode = group_decode;
}
