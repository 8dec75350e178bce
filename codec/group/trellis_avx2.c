/* trellis_avx2.c - trellis-coded groups for AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/lanes_avx2.h"
#include "group/look_avx2.h"
#include "kernels.h"

typedef __m256i wide;

static inline wide w_set(uint16_t x) { return _mm256_set1_epi16((short)x); }
static inline wide w_load(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void w_store(uint16_t *p, wide x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline wide w_and(wide x, wide y) { return _mm256_and_si256(x, y); }
static inline wide w_xor(wide x, wide y) { return _mm256_xor_si256(x, y); }
static inline wide w_add(wide x, wide y) { return _mm256_add_epi16(x, y); }
static inline wide w_sub(wide x, wide y) { return _mm256_sub_epi16(x, y); }
static inline wide w_adds(wide x, wide y) { return _mm256_adds_epu16(x, y); }
static inline wide w_mul(wide x, wide y) { return _mm256_mullo_epi16(x, y); }
static inline wide w_min(wide x, wide y) { return _mm256_min_epu16(x, y); }
static inline wide w_equal(wide x, wide y) { return _mm256_cmpeq_epi16(x, y); }
static inline wide w_choose(wide m, wide a, wide b) { return _mm256_blendv_epi8(b, a, m); }
static inline wide w_shr(wide x, int n) { return _mm256_srli_epi16(x, n); }
static inline wide w_shl(wide x, int n) { return _mm256_slli_epi16(x, n); }
static inline wide w_abs(wide x) { return _mm256_abs_epi16(x); }
static inline wide w_sign(wide x) { return _mm256_srai_epi16(x, 15); }
static inline wide w_table(const uint8_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
/* An upper byte with its highest bit gives 0. */
static inline wide w_index(wide x) { return _mm256_or_si256(x, w_set(0x8000)); }
static inline wide w_look(wide table, wide index) { return _mm256_shuffle_epi8(table, index); }

typedef __m128i eight;
static inline eight e_load(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void e_store(uint16_t *p, eight x) { _mm_storeu_si128((__m128i *)p, x); }
static inline eight e_low(eight x, eight y) { return _mm_unpacklo_epi16(x, y); }
static inline eight e_high(eight x, eight y) { return _mm_unpackhi_epi16(x, y); }

/* Joins neighbours three times; codes of 3 bits are then 24 bits of each half. */
static inline void put_codes(uint8_t *to, const uint16_t *row, uint16_t flip, unsigned bits) {
    const __m128i four = _mm_set1_epi16(15), flips = _mm_set1_epi16((short)flip);
    const __m128i a = _mm_and_si128(_mm_loadu_si128((const __m128i *)row), four);
    const __m128i b = _mm_and_si128(_mm_loadu_si128((const __m128i *)(row + 8)), four);
    const __m128i codes = _mm_packus_epi16(_mm_xor_si128(a, flips), _mm_xor_si128(b, flips));
    const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16((short)(1 | 1 << bits << 8)));
    const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(1 | 1 << 2 * bits << 16));
    if (bits == 4) {
        _mm_storel_epi64((__m128i *)to, _mm_packus_epi32(fours, fours));
    } else if (bits == 2) {
        const int all = _mm_cvtsi128_si32(_mm_shuffle_epi8(fours, _mm_set1_epi32(0x0C080400)));
        memcpy(to, &all, 4);
    } else {
        const __m128i eights = _mm_or_si128(fours, _mm_srli_epi64(fours, 20));
        const uint64_t all = (uint64_t)_mm_cvtsi128_si64(_mm_shuffle_epi8(
            eights, _mm_setr_epi8(0, 1, 2, 8, 9, 10, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)));
        const uint16_t rest = (uint16_t)(all >> 32);
        memcpy(to, &all, 4);
        memcpy(to + 4, &rest, 2);
    }
}

static inline v16 v_down(v16 x, unsigned n) { return v_shr(x, (int)n); }

struct window {
    v16 spread, shift;
};
static inline struct window window_of(const uint8_t place[64], const uint32_t shift[16]) {
    return (struct window){v_load(place), v_load((const uint8_t *)shift)};
}
static inline v16 window_take(const struct window *w, const uint8_t *from) {
    const __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)from));
    return (v16){_mm256_srlv_epi32(_mm256_shuffle_epi8(x, w->spread.a), w->shift.a),
                 _mm256_srlv_epi32(_mm256_shuffle_epi8(x, w->spread.b), w->shift.b)};
}

#include "group/trellis_tmpl.h"

void pithi_trellis_bind_avx2(struct pithi_kernels *k);
void pithi_trellis_bind_avx2(struct pithi_kernels *k) {
    k->trellis_encode = trellis_encode;
    k->trellis_decode = trellis_decode;
}
