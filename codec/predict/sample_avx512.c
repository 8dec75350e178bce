/* sample_avx512.c - how wide the words of a sample are, by the order of differences, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Four whole groups of f32 under an absolute bound, behind one or at the beginning of a row. */
#include "codec.h"
#include "common/lanes_avx512.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { GROUP = PITHI_BITPLANE_GROUP, GROUPS = PITHI_SAMPLE_GROUPS };

ALWAYS v16 zigzag(v16 x) { return v_xor(v_add(x, x), v_sar31(x)); }

/* Of lanes 0..3 of the halves of each the two that make one. */
ALWAYS v16 or_lanes(v16 a, v16 b) {
    return _mm512_or_si512(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* Returns the widths of four groups of words. */
ALWAYS __m128i widths_of(v16 a, v16 b, v16 c, v16 d) {
    const v16 x = or_lanes(a, b), y = or_lanes(c, d);
    const v16 z = _mm512_or_si512(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
    const __m256i h = _mm256_or_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));
    const __m128i all = _mm_or_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    /* Without the bit below its highest one no number is rounded up to a power of two. */
    const __m128i number = _mm_andnot_si128(_mm_srli_epi32(all, 1), all);
    const __m128i exponent = _mm_srli_epi32(_mm_castps_si128(_mm_cvtepu32_ps(number)), 23);
    return _mm_subs_epu16(exponent, _mm_set1_epi32(126));
}

/* The alternating sums of the codes of lines. */
struct sums {
    v16 lead, a, b, c, d;
};

ALWAYS v16 code_of(v16 inverse, const uint8_t *value) {
    return f_round_to_i(f_mul(v_load(value), inverse));
}

ALWAYS struct sums codes_of(v16 inverse, const struct pithi_sample *s, unsigned k) {
    static const uint8_t none[4 * GROUP];
    const uint8_t *const lead = s->line[k], *const line = lead + 4 * s->lead;
    return (struct sums){code_of(inverse, s->lead ? lead : none), code_of(inverse, line),
                         code_of(inverse, line + 64), code_of(inverse, line + 128),
                         code_of(inverse, line + 192)};
}

ALWAYS struct sums minus(struct sums x, struct sums y) {
    return (struct sums){_mm512_sub_epi32(x.lead, y.lead), _mm512_sub_epi32(x.a, y.a),
                         _mm512_sub_epi32(x.b, y.b), _mm512_sub_epi32(x.c, y.c),
                         _mm512_sub_epi32(x.d, y.d)};
}

ALWAYS v16 difference(v16 x, v16 before) {
    return zigzag(_mm512_sub_epi32(x, _mm512_alignr_epi32(x, before, 15)));
}

ALWAYS void add(uint32_t widths[GROUPS], v16 a, v16 b, v16 c, v16 d) {
    __m128i *const to = (__m128i *)(void *)widths;
    _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), widths_of(a, b, c, d)));
}

ALWAYS void add_differences(uint32_t widths[GROUPS], struct sums s) {
    add(widths, difference(s.a, s.lead), difference(s.b, s.a), difference(s.c, s.b),
        difference(s.d, s.c));
}

/* Lines are subtracted from the line behind them, pairs of lines from the pair behind them, and so
 * on. */
ALWAYS struct sums pair_of(v16 inverse, const struct pithi_sample *s, unsigned k) {
    return minus(codes_of(inverse, s, k), codes_of(inverse, s, k + 1));
}

ALWAYS void add_widths(const struct pithi_sample *s, unsigned most, pithi_sample_widths widths) {
    const v16 inverse = v_spread(&s->quant->inverse);
    struct sums sums = codes_of(inverse, s, 0);
    add(widths[0], zigzag(sums.a), zigzag(sums.b), zigzag(sums.c), zigzag(sums.d));
    add_differences(widths[1], sums);
    if (most < 2) return;
    sums = minus(sums, codes_of(inverse, s, 1));
    add_differences(widths[2], sums);
    if (most < 3) return;
    sums = minus(sums, pair_of(inverse, s, 2));
    add_differences(widths[3], sums);
    if (most < 4) return;
    sums = minus(sums, minus(pair_of(inverse, s, 4), pair_of(inverse, s, 6)));
    add_differences(widths[4], sums);
}

static bool sample(const struct pithi_sample *s, unsigned most, pithi_sample_widths widths) {
    const struct pithi_quant *const q = s->quant;
    if (!q || q->relative || q->dtype != PITH_F32) return false;
    if (s->count != PITHI_PACK_SAMPLE || s->lead % GROUP) return false;
    switch (most) {
    case 1: add_widths(s, 1, widths); break;
    case 2: add_widths(s, 2, widths); break;
    case 3: add_widths(s, 3, widths); break;
    default: add_widths(s, 4, widths);
    }
    return true;
}

void pithi_sample_bind_avx512(struct pithi_kernels *k);
void pithi_sample_bind_avx512(struct pithi_kernels *k) { k->sample = sample; }
