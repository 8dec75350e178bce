/* sparse_avx512.c - selection, histograms, moments, lists and indices of sets for AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/endian.h"
#include "common/lanes_avx512.h"
#include "common/log2.h"
#include "kernels.h"
#include "sparse/index_x86.h"

static inline uint32_t reached16(v16 x, v16 least) { return _mm512_cmpge_epu32_mask(x, least); }
static inline v16 finite_pick(v16 x, v16 then, v16 other) {
    return _mm512_mask_mov_epi32(then, (__mmask16)v_nonfinite(x), other);
}
static inline v16 below16(v16 x, v16 y, v16 least) {
    return _mm512_maskz_mov_epi32(_mm512_cmplt_epu32_mask(y, least), x);
}
static inline double d_sum(d16 x) {
    const __m512d a = _mm512_add_pd(x.a, x.b);
    const __m256d b = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
    return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

#include "sparse/select_tmpl.h"

/* ---- Lists ------------------------------------------------------------------------------------*/

static inline v16 numbers_from(uint32_t first) {
    return v_add(v_set(first),
                 _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
ALWAYS size_t used_words(const uint64_t *words, uint32_t first, uint32_t *to) {
    const __m512i a = _mm512_loadu_si512(words), b = _mm512_loadu_si512(words + 8);
    const uint32_t used = _mm512_test_epi64_mask(a, a) | (uint32_t)_mm512_test_epi64_mask(b, b)
                                                             << 8;
    v_store((uint8_t *)to, _mm512_maskz_compress_epi32((__mmask16)used, numbers_from(first)));
    return (size_t)_mm_popcnt_u32(used);
}
ALWAYS uint32_t *list_word(uint64_t word, uint32_t first, uint32_t *to) {
    for (unsigned k = 0; k < WORD; k += UNIT) {
        const __mmask16 bits = (__mmask16)(word >> k);
        /* Stores of whole vectors: those of some lanes only are slow on some machines. */
        v_store((uint8_t *)to, _mm512_maskz_compress_epi32(bits, numbers_from(first + k)));
        to += _mm_popcnt_u32(bits);
    }
    return to;
}

#include "sparse/set_list_tmpl.h"

/* ---- Indices ----------------------------------------------------------------------------------*/

#define OWN_UNITS

static inline __m512i ramp(void) {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Vectors of numbers become lanes of 8 or 16 bits, of which `bits` are taken out eight or four at a
 * time. */
static inline void put_units(const uint32_t *numbers, size_t count, unsigned bits, uint8_t *to) {
    const uint64_t eights = ((UINT64_C(1) << bits) - 1) * UINT64_C(0x0101010101010101);
    const uint64_t fours = ((UINT64_C(1) << bits) - 1) * UINT64_C(0x0001000100010001);
    for (size_t i = 0; i < count; i += 16, to += 2 * bits) {
        const __m512i x = _mm512_loadu_si512(numbers + i);
        if (bits <= 8) {
            const __m128i b = _mm512_cvtepi32_epi8(x);
            pithi_put64(to, _pext_u64((uint64_t)_mm_cvtsi128_si64(b), eights));
            pithi_put64(to + bits, _pext_u64((uint64_t)_mm_extract_epi64(b, 1), eights));
            continue;
        }
        const __m256i w = _mm512_cvtepi32_epi16(x);
        const __m128i half[2] = {_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)};
        for (int k = 0; k < 2; k++) {
            const uint64_t a = _pext_u64((uint64_t)_mm_cvtsi128_si64(half[k]), fours);
            const uint64_t b = _pext_u64((uint64_t)_mm_extract_epi64(half[k], 1), fours);
            pithi_put64(to + (size_t)k * bits, a | b << 2 * bits << 2 * bits);
            pithi_put64(to + (size_t)k * bits + 8, b >> (32 - 2 * bits) >> (32 - 2 * bits));
        }
    }
}

static inline void take_units(const uint8_t *bytes, size_t count, unsigned bits, uint32_t *to) {
    const __m512i at = _mm512_mullo_epi32(ramp(), _mm512_set1_epi32((int)bits));
    const __m512i shift = _mm512_and_si512(at, _mm512_set1_epi32(7));
    /* The byte that each number begins in, and the three behind it. */
    const __m512i pick = _mm512_add_epi32(
        _mm512_shuffle_epi8(_mm512_srli_epi32(at, 3),
                            _mm512_broadcast_i32x4(
                                _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12))),
        _mm512_set1_epi32(0x03020100));
    const __m512i mask = _mm512_set1_epi32((1 << bits) - 1);
    for (size_t i = 0; i < count; i += 16, bytes += 2 * bits) {
        const __m512i x = _mm512_permutexvar_epi8(pick, _mm512_loadu_si512(bytes));
        _mm512_storeu_si512(to + i, _mm512_and_si512(_mm512_srlv_epi32(x, shift), mask));
    }
}

static inline uint64_t ones_of_8(const uint32_t *list, unsigned low_bits) {
    const __m256i x = _mm256_srl_epi32(_mm256_loadu_si256((const __m256i *)(const void *)list),
                                       _mm_cvtsi32_si128((int)low_bits));
    const __m256i first = _mm256_set1_epi32((int)(list[0] >> low_bits));
    const __m256i bit =
        _mm256_add_epi32(_mm256_sub_epi32(x, first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return (uint64_t)_mm512_reduce_or_epi64(
        _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_cvtepu32_epi64(bit)));
}

static inline void list_ones(uint64_t word, uint32_t base, uint32_t *to) {
    const __m512i at = _mm512_add_epi32(ramp(), _mm512_set1_epi32((int)base));
    for (int k = 0; k < 64; k += 16) {
        const __mmask16 bits = (__mmask16)(word >> k);
        const __m512i x = _mm512_add_epi32(at, _mm512_set1_epi32(k));
        /* Stores of whole vectors: those of some lanes only are slow on some machines. */
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(bits, x));
        to += _mm_popcnt_u32(bits);
    }
}

static inline bool merge(const uint32_t *low, uint32_t *list, size_t count, uint32_t first,
                         unsigned low_bits, uint32_t last) {
    const __m128i by = _mm_cvtsi32_si128((int)low_bits);
    __m512i before = _mm512_set1_epi32((int)last);
    __m512i at = _mm512_add_epi32(ramp(), _mm512_set1_epi32((int)first));
    __mmask16 wrong = 0;
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 there = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1 : 0xFFFF);
        const __m512i high = _mm512_sub_epi32(_mm512_loadu_si512(list + i), at);
        const __m512i x = _mm512_or_si512(_mm512_sll_epi32(high, by), _mm512_loadu_si512(low + i));
        _mm512_storeu_si512(list + i, x);
        wrong |= _mm512_mask_cmple_epi32_mask(there, x, _mm512_alignr_epi32(x, before, 15));
        before = x;
        at = _mm512_add_epi32(at, _mm512_set1_epi32(16));
    }
    return !wrong;
}

/* The differences of numbers x, before which are those of `before`. */
static inline __m512i difference_of(__m512i x, __m512i before) {
    return _mm512_sub_epi32(_mm512_sub_epi32(x, _mm512_alignr_epi32(x, before, 15)),
                            _mm512_set1_epi32(1));
}

static inline uint64_t low64(__m512i x) {
    return (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(x));
}
static inline __m512i numbers64(void) {
    static const uint8_t number[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    return _mm512_loadu_si512(number);
}
/* Bytes that `narrow` made, in the order of the numbers. */
static inline __m512i in_order(__m512i x) {
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}
/* 64 numbers below 2^31 as bytes, 255 for larger ones, in an order that in_order undoes. */
static inline __m512i narrow(const __m512i *x) {
    return _mm512_packus_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
}
/* The exponents of 64 numbers below 2^24 as floats, which are exact, as bytes. */
static inline __m512i exponents(const __m512i *x) {
    __m512i f[4];
    for (int k = 0; k < 4; k++)
        f[k] = _mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(x[k])), 23);
    return narrow(f);
}
static inline unsigned largest_byte(__m512i x) {
    const __m256i a = _mm256_max_epu8(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    return largest_of_16(_mm_max_epu8(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
}
static inline uint32_t bytes_from(__m512i x, __m512i y, unsigned least) {
    const __m512i from = _mm512_set1_epi8((char)least);
    return (uint32_t)_mm_popcnt_u64(_mm512_cmpge_epu8_mask(x, from)) +
           (uint32_t)_mm_popcnt_u64(_mm512_cmpge_epu8_mask(y, from));
}

/* The lanes of vector i of a group whose numbers are `skip` or more, below GROUP. */
static inline __mmask16 lanes_from(unsigned i, size_t skip) {
    const size_t first = 16 * i;
    return (__mmask16)(skip <= first ? 0xFFFF : skip - first < 16 ? 0xFFFFu << (skip - first) : 0);
}

static inline uint32_t far_of(const __m512i d[8]) {
    __mmask16 far[8];
    for (int i = 0; i < 8; i++) far[i] = _mm512_cmpge_epu32_mask(d[i], _mm512_set1_epi32(256));
    const __mmask64 low =
        _mm512_kunpackd(_mm512_kunpackw(far[0], far[1]), _mm512_kunpackw(far[2], far[3]));
    const __mmask64 high =
        _mm512_kunpackd(_mm512_kunpackw(far[4], far[5]), _mm512_kunpackw(far[6], far[7]));
    return (uint32_t)(_mm_popcnt_u64(low) + _mm_popcnt_u64(high));
}

/* The differences of the first `skip` numbers count as 0. */
ALWAYS unsigned measure(const uint32_t *list, uint32_t last, size_t skip, bool patched,
                        struct pithi_list_measure *m) {
    __m512i before = _mm512_set1_epi32((int)last), d[8];
    for (unsigned i = 0; i < 8; i++) {
        const __m512i x = _mm512_loadu_si512(list + 16 * i);
        d[i] = difference_of(x, before);
        if (skip) d[i] = _mm512_maskz_mov_epi32(lanes_from(i, skip), d[i]);
        before = x;
    }
    const __m512i low = narrow(d), high = narrow(d + 4);
    m->runs += bytes_from(low, high, 1);
    m->far += far_of(d);
    if (!patched) {
        const __m512i some =
            _mm512_or_si512(_mm512_or_si512(d[0], d[1]), _mm512_or_si512(d[2], d[3]));
        const __m512i more =
            _mm512_or_si512(_mm512_or_si512(d[4], d[5]), _mm512_or_si512(d[6], d[7]));
        return pithi_bit_length((uint32_t)_mm512_reduce_or_epi32(_mm512_or_si512(some, more)));
    }
    const __m512i a = exponents(d), b = exponents(d + 4);
    const unsigned none = 126, most = largest_byte(_mm512_max_epu8(a, b));
    const unsigned bits = most > none ? most - none : 0;
    /* Numbers of 0 bits have exponent 0: they count where those of all lengths do. */
    uint32_t wider = 0;
    for (unsigned k = 0; k < PITHI_PATCHED_LESS; k++)
        wider |= bytes_from(a, b, bits > k ? most - k : 0) << 8 * k;
    return pithi_patched_byte(bits, wider);
}

ALWAYS void differ(const uint32_t *list, uint32_t last, unsigned byte, uint32_t *difference,
                   uint8_t *to) {
    const unsigned width = pithi_packed_width(byte), exceptions = pithi_packed_exceptions(byte);
    const __m512i mask = _mm512_set1_epi32((1 << width) - 1);
    const __m128i by = _mm_cvtsi32_si128((int)width);
    __m512i before = _mm512_set1_epi32((int)last), d[8];
    for (int i = 0; i < 8; i++) {
        const __m512i x = _mm512_loadu_si512(list + 16 * i);
        d[i] = difference_of(x, before);
        _mm512_storeu_si512(difference + 16 * i, _mm512_and_si512(d[i], mask));
        before = x;
    }
    if (!exceptions) return;
    uint64_t place[2], high[2];
    unsigned first = 0; /* bits of those in the first half, of which there are 7 at most */
    for (int half = 0; half < 2; half++) {
        __m512i h[4];
        for (int k = 0; k < 4; k++) h[k] = _mm512_srl_epi32(d[4 * half + k], by);
        const __m512i x = in_order(narrow(h));
        const __mmask64 there = _mm512_test_epi8_mask(x, x);
        const __m512i at = _mm512_add_epi8(numbers64(), _mm512_set1_epi8((char)(64 * half)));
        place[half] = low64(_mm512_maskz_compress_epi8(there, at));
        high[half] = low64(_mm512_maskz_compress_epi8(there, x));
        if (!half) first = 8 * (unsigned)_mm_popcnt_u64(there);
    }
    const uint64_t places = place[0] | place[1] << first, highs = high[0] | high[1] << first;
    _mm_mask_storeu_epi16(to, (__mmask8)((1u << exceptions) - 1),
                          _mm_unpacklo_epi8(_mm_cvtsi64_si128((long long)places),
                                            _mm_cvtsi64_si128((long long)highs)));
}

#include "sparse/index_tmpl.h"

void pithi_sparse_bind_avx512(struct pithi_kernels *k);
void pithi_sparse_bind_avx512(struct pithi_kernels *k) {
    k->select = select_set;
    k->histogram = histogram;
    k->moments = moments;
    k->set_list = set_list;
    BIND(k); /* packed_take stays that of AVX2 */
}
