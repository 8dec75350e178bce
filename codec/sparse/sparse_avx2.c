/* sparse_avx2.c - selection, histograms, moments, lists and indices of sets for AVX2 and BMI2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/endian.h"
#include "common/lanes_avx2.h"
#include "kernels.h"
#include "sparse/index_x86.h"

static inline __m256i reached256(__m256i x, __m256i least) {
    return _mm256_cmpeq_epi32(_mm256_max_epu32(x, least), x);
}
static inline uint32_t reached8(__m256i x, __m256i least) {
    return (uint32_t)_mm256_movemask_ps(F(reached256(x, least)));
}
static inline uint32_t reached16(v16 x, v16 least) {
    return reached8(x.a, least.a) | reached8(x.b, least.b) << 8;
}
static inline v16 finite_pick(v16 x, v16 then, v16 other) {
    return (v16){_mm256_blendv_epi8(other.a, then.a, finite256(x.a)),
                 _mm256_blendv_epi8(other.b, then.b, finite256(x.b))};
}
static inline v16 below16(v16 x, v16 y, v16 least) {
    return (v16){_mm256_andnot_si256(reached256(y.a, least.a), x.a),
                 _mm256_andnot_si256(reached256(y.b, least.b), x.b)};
}
static inline double d_sum(d16 x) {
    const __m256d low = _mm256_add_pd(x.q[0], x.q[2]), high = _mm256_add_pd(x.q[1], x.q[3]);
    const __m256d b = _mm256_add_pd(low, high);
    const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
    return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

#include "sparse/select_tmpl.h"

/* ---- Lists ------------------------------------------------------------------------------------*/

/* The numbers of 16 bits within them are half a byte each. */
ALWAYS void list16(uint32_t bits, uint32_t first, uint32_t *to) {
    const uint64_t ones = _pdep_u64(bits, UINT64_C(0x1111111111111111));
    const uint64_t halves = _pext_u64(UINT64_C(0xFEDCBA9876543210), (ones << 4) - ones);
    const __m128i half = _mm_set1_epi8(15), x = _mm_cvtsi64_si128((long long)halves);
    const __m128i bytes =
        _mm_unpacklo_epi8(_mm_and_si128(x, half), _mm_and_si128(_mm_srli_epi16(x, 4), half));
    const __m256i base = _mm256_set1_epi32((int)first);
    const __m128i upper = _mm_unpackhi_epi64(bytes, bytes);
    store256((uint8_t *)to, _mm256_add_epi32(base, _mm256_cvtepu8_epi32(bytes)));
    store256((uint8_t *)(to + 8), _mm256_add_epi32(base, _mm256_cvtepu8_epi32(upper)));
}

ALWAYS uint32_t zeros4(const uint64_t *words) {
    const __m256i none = _mm256_setzero_si256(), x = load256((const uint8_t *)words);
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(x, none)));
}
ALWAYS size_t used_words(const uint64_t *words, uint32_t first, uint32_t *to) {
    const uint32_t zeros =
        zeros4(words) | zeros4(words + 4) << 4 | zeros4(words + 8) << 8 | zeros4(words + 12) << 12;
    list16(~zeros & 0xFFFF, first, to);
    return (size_t)_mm_popcnt_u32(~zeros & 0xFFFF);
}

ALWAYS uint32_t *list_word(uint64_t word, uint32_t first, uint32_t *to) {
    for (unsigned k = 0; k < WORD; k += UNIT) {
        const uint32_t bits = (uint16_t)(word >> k);
        list16(bits, first + k, to);
        to += _mm_popcnt_u32(bits);
    }
    return to;
}

#include "sparse/set_list_tmpl.h"

/* ---- Indices ----------------------------------------------------------------------------------*/

typedef __m256i wide;

static inline wide w_load(const uint32_t *p) { return load256((const uint8_t *)p); }
static inline void w_store(uint32_t *p, wide x) { store256((uint8_t *)p, x); }
static inline wide w_set(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline wide w_sub(wide x, wide y) { return _mm256_sub_epi32(x, y); }
static inline wide w_and(wide x, wide y) { return _mm256_and_si256(x, y); }
static inline wide w_shr(wide x, int n) { return _mm256_srli_epi32(x, n); }
static inline wide w_after(uint32_t last, wide x) {
    const wide moved = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6));
    return _mm256_blend_epi32(moved, w_set(last), 1);
}
static inline wide w_narrow(const wide *x) {
    const wide bytes =
        _mm256_packus_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
/* The exponents of numbers as floats, which are exact: that of 0 is 0. */
enum { LENGTH_0 = 126 };
static inline wide w_length(wide x) {
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(x)), 23);
}
static inline wide b_set(unsigned x) { return _mm256_set1_epi8((char)x); }
static inline wide b_add(wide x, wide y) { return _mm256_add_epi8(x, y); }
static inline wide b_sub(wide x, wide y) { return _mm256_sub_epi8(x, y); }
static inline wide b_max(wide x, wide y) { return _mm256_max_epu8(x, y); }
static inline wide b_equal(wide x, wide y) { return _mm256_cmpeq_epi8(x, y); }
static inline wide b_least(wide x, wide y) { return _mm256_cmpeq_epi8(b_max(x, y), x); }
/* A shuffle looks at bit 7, and else at bits 0 to 3. */
enum { LOOK_0 = 0x70 };
static inline wide b_look(const uint8_t table[16], wide x) {
    const __m128i t = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), x);
}
static inline uint32_t b_bits(wide x) { return (uint32_t)_mm256_movemask_epi8(x); }
static inline uint32_t b_sum(wide x) {
    x = _mm256_sad_epu8(x, _mm256_setzero_si256());
    const __m128i y = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(y, _mm_unpackhi_epi64(y, y)));
}
static inline uint32_t b_sums(wide x, wide y) {
    const wide half = b_set(15), none = _mm256_setzero_si256();
    const wide both =
        b_add(_mm256_permute2x128_si256(x, y, 0x20), _mm256_permute2x128_si256(x, y, 0x31));
    const wide low = _mm256_sad_epu8(w_and(both, half), none);
    const wide high = _mm256_sad_epu8(w_and(w_shr(both, 4), half), none);
    const wide sums = _mm256_or_si256(low, _mm256_slli_epi64(high, 8));
    const wide all = _mm256_add_epi64(sums, _mm256_unpackhi_epi64(sums, sums));
    return (uint32_t)_mm_cvtsi128_si32(
        _mm_unpacklo_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}
static inline unsigned b_same(const uint8_t bytes[16], unsigned x) {
    const __m128i all = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8((char)x)));
}
static inline unsigned b_largest(wide x) {
    return largest_of_16(_mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}

#define OWN_ELIAS_FANO

/* Lanes of two numbers become 64 bits of which the low 2 * bits are used, and two of these one. */
static inline void put_units(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to) {
    const wide mask = w_set((UINT32_C(1) << bits) - 1), low = _mm256_set1_epi64x(0xFFFFFFFF);
    const __m128i by = _mm_cvtsi32_si128((int)bits);
    const wide odd = _mm256_setr_epi64x(0, 2 * bits, 0, 2 * bits);
    for (size_t i = 0; i < count; i += 8, to += bits) {
        const wide x = w_and(w_load(numbers + i), mask);
        const wide upper = _mm256_sll_epi64(_mm256_srli_epi64(x, 32), by);
        const wide two = _mm256_sllv_epi64(_mm256_or_si256(w_and(x, low), upper), odd);
        const wide four = _mm256_or_si256(two, _mm256_unpackhi_epi64(two, two));
        const uint64_t a = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(four));
        const uint64_t b = (uint64_t)_mm_cvtsi128_si64(_mm256_extracti128_si256(four, 1));
        pithi_put64(to, a | b << 2 * bits << 2 * bits);
        pithi_put64(to + 8, b >> (32 - 2 * bits) >> (32 - 2 * bits));
    }
}

static inline uint64_t ones_of_8(const uint32_t *list, unsigned low_bits) {
    const wide x = _mm256_srl_epi32(w_load(list), _mm_cvtsi32_si128((int)low_bits));
    const wide at = _mm256_add_epi32(w_sub(x, w_set(list[0] >> low_bits)),
                                     _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const wide one = _mm256_set1_epi64x(1);
    const wide four = _mm256_or_si256(
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(at))),
        _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(at, 1))));
    const __m128i two =
        _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two)));
}

/* Reads whole units of numbers, eight at a time: four of the 16 bytes in which they begin, and four
 * of those `bits / 2` bytes further on. */
static inline void take_units(const uint8_t *bytes, size_t count, unsigned bits, uint32_t *to) {
    const wide ramp = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
    const int odd = (int)(4 * bits % 8);
    const wide at = _mm256_add_epi32(_mm256_mullo_epi32(ramp, w_set(bits)),
                                     _mm256_setr_epi32(0, 0, 0, 0, odd, odd, odd, odd));
    /* The byte that each number begins in, and the three behind it. */
    const wide begin = _mm256_mullo_epi32(w_shr(at, 3), w_set(0x01010101));
    const wide pick = _mm256_add_epi32(begin, w_set(0x03020100));
    const wide shift = w_and(at, w_set(7)), mask = w_set((UINT32_C(1) << bits) - 1);
    for (size_t i = 0; i < count; i += 8, bytes += bits) {
        const __m128i *const four = (const void *)bytes, *next = (const void *)(bytes + bits / 2);
        const wide x = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(four)),
                                               _mm_loadu_si128(next), 1);
        w_store(to + i, w_and(_mm256_srlv_epi32(_mm256_shuffle_epi8(x, pick), shift), mask));
    }
}

/* The places of the ones of a byte, each as a byte, beginning with the lowest. */
#define BELOW_1(higher) higher, (higher) << 8
#define BELOW_2(higher) BELOW_1(higher), BELOW_1((higher) << 8 | 1)
#define BELOW_3(higher) BELOW_2(higher), BELOW_2((higher) << 8 | 2)
#define BELOW_4(higher) BELOW_3(higher), BELOW_3((higher) << 8 | 3)
#define BELOW_5(higher) BELOW_4(higher), BELOW_4((higher) << 8 | 4)
#define BELOW_6(higher) BELOW_5(higher), BELOW_5((higher) << 8 | 5)
#define BELOW_7(higher) BELOW_6(higher), BELOW_6((higher) << 8 | 6)
static const uint64_t ones_of_byte[256] = {BELOW_7(UINT64_C(0)), BELOW_7(UINT64_C(7))};

static inline void list_ones(uint64_t word, uint32_t base, uint32_t *to) {
    for (unsigned k = 0; k < 64; k += 8) {
        const uint32_t byte = (uint8_t)(word >> k);
        const __m128i places = _mm_cvtsi64_si128((long long)ones_of_byte[byte]);
        w_store(to, _mm256_add_epi32(w_set(base + k), _mm256_cvtepu8_epi32(places)));
        to += _mm_popcnt_u32(byte);
    }
}

/* Numbers behind the count are made, too, in whole vectors, and not looked at. */
static inline bool merge(const uint32_t *low, uint32_t *list, size_t count, uint32_t first,
                         unsigned low_bits, uint32_t last) {
    const __m128i by = _mm_cvtsi32_si128((int)low_bits);
    const wide ramp = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), all = _mm256_set1_epi32(-1);
    wide at = _mm256_add_epi32(ramp, w_set(first)), before = w_set(last), good = all;
    for (size_t i = 0; i < count; i += 8) {
        const wide high = _mm256_sll_epi32(w_sub(w_load(list + i), at), by);
        const wide x = _mm256_or_si256(high, w_load(low + i));
        const wide carry = _mm256_permute2x128_si256(before, x, 0x21);
        wide ascends = _mm256_cmpgt_epi32(x, _mm256_alignr_epi8(x, carry, 12));
        w_store(list + i, x);
        if (i + 8 > count)
            ascends = _mm256_or_si256(ascends,
                                      _mm256_cmpgt_epi32(ramp, w_set((uint32_t)(count - i - 1))));
        good = w_and(good, ascends);
        before = x;
        at = _mm256_add_epi32(at, w_set(8));
    }
    return _mm256_testc_si256(good, all);
}

#include "sparse/index_tmpl.h"

void pithi_sparse_bind_avx2(struct pithi_kernels *k);
void pithi_sparse_bind_avx2(struct pithi_kernels *k) {
    k->select = select_set;
    k->histogram = histogram;
    k->moments = moments;
    k->set_list = set_list;
    BIND(k);
    k->packed_take = packed_take;
}
