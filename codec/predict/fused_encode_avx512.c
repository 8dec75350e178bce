/* fused_encode_avx512.c - values to packed words of differences in one pass, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two groups at a time, as long as no value is missed and words have at most 16 bits. */
#include "codec.h"
#include "predict/bitplane_avx512.h"
#include "predict/fused_encode.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { PAIR = 32, REACH = 64 /* bytes that two groups may touch */ };

struct constants {
    v16 inverse, step, most, magnitude, limit, bound;
};

ALWAYS struct constants constants_of(const struct pithi_quant *q) {
    return (struct constants){
        .inverse = v_spread(&q->inverse),
        .step = v_spread(&q->step),
        .most = v_set(PITHI_F32_MAX),
        .magnitude = v_set(0x7FFFFFFFu),
        .limit = v_set(pithi_bits(PITHI_QUANT_LIMIT)),
        .bound = v_spread(&q->bound),
    };
}

struct code {
    v16 code, scaled, error; /* bits of magnitudes: NaN are larger than all numbers */
};

ALWAYS struct code code_of(const struct constants *c, const uint8_t *value) {
    const v16 x = v_load(value), t = f_mul(x, c->inverse), code = f_round_to_i(t);
    const v16 back = f_limit(f_mul(f_from_i(code), c->step), c->most);
    return (struct code){code, v_and(t, c->magnitude), v_and(f_sub(x, back), c->magnitude)};
}

ALWAYS bool missed(const struct constants *c, const struct code *a, const struct code *b) {
    const __mmask16 far = _mm512_cmpge_epu32_mask(v_maxu(a->scaled, b->scaled), c->limit);
    const __mmask16 off = _mm512_cmpgt_epu32_mask(v_maxu(a->error, b->error), c->bound);
    return !_mm512_kortestz(far, off);
}

ALWAYS v16 zigzag(v16 x) { return v_xor(v_add(x, x), v_sar31(x)); }

/* Returns a group's word, and leaves what sums become in `next`. */
ALWAYS v16 word_of(unsigned dims, uint32_t *const sum[3], const bool starts[3], size_t i, v16 code,
                   v16 last, v16 next[3]) {
    v16 x = _mm512_sub_epi32(code, _mm512_alignr_epi32(code, last, 15));
    for (unsigned k = 0; k < dims; k++) {
        next[k] = x;
        if (!starts[k]) x = _mm512_sub_epi32(x, v_load((const uint8_t *)(sum[k] + i)));
    }
    return zigzag(x);
}

ALWAYS void keep(unsigned dims, uint32_t *const sum[3], size_t i, const v16 next[3]) {
    for (unsigned k = 0; k < dims; k++) v_store((uint8_t *)(sum[k] + i), next[k]);
}

/* Writes the planes of words of 16 bits. */
ALWAYS uint8_t *put(v16 a, v16 b, uint8_t *widths, uint8_t *to) {
    const v16 z = put_planes(v_xor(a, _mm512_slli_epi32(b, 16)));
    const uint64_t used = _mm512_test_epi16_mask(z, z);
    const unsigned wide = 63 - (unsigned)__builtin_clzll((used & 0xFFFF) << 1 | 1);
    const unsigned other = 63 - (unsigned)__builtin_clzll(used >> 16 << 1 | 1);
    widths[0] = (uint8_t)wide, widths[1] = (uint8_t)other;
    _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(z));
    to += 2 * (size_t)wide;
    _mm256_storeu_si256((__m256i *)to, _mm512_extracti64x4_epi64(z, 1));
    return to + 2 * (size_t)other;
}

ALWAYS size_t fused_encode_row(struct pithi_fused_encode *c, unsigned dims, size_t count) {
    uint32_t *sum[3];
    bool starts[3];
    const struct constants k = constants_of(c->quant);
    const v16 narrow = v_set(0xFFFF);
    pithi_unpredict_sums(c->sums, sum, starts);
    v16 last = v_set(c->sums->before);
    uint8_t *to = c->to, *widths = c->widths;
    size_t i = 0;
    for (; i < count && c->end - to >= REACH; i += PAIR, widths += 2) {
        v16 first[3], second[3];
        const struct code a = code_of(&k, c->from + 4 * i), b = code_of(&k, c->from + 4 * i + 64);
        const v16 x = word_of(dims, sum, starts, i, a.code, last, first);
        const v16 y = word_of(dims, sum, starts, i + 16, b.code, a.code, second);
        if (missed(&k, &a, &b) || _mm512_cmpgt_epu32_mask(v_maxu(x, y), narrow)) break;
        __builtin_prefetch(c->prefetch + 4 * i, 0, 2);
        __builtin_prefetch(c->prefetch + 4 * i + 64, 0, 2);
        keep(dims, sum, i, first);
        keep(dims, sum, i + 16, second);
        to = put(x, y, widths, to);
        last = b.code;
    }
    c->sums->before = v_first(_mm512_alignr_epi32(last, last, 15));
    c->to = to, c->widths = widths;
    return i;
}

ALWAYS size_t fused_encode_rows(struct pithi_fused_encode *c, unsigned dims) {
    size_t done = 0;
    while (done < c->count) {
        const size_t at = c->sums->place[3], rest = c->sums->extent[3] - at;
        const size_t left = c->count - done, n = rest < left ? rest : left;
        const size_t own = fused_encode_row(c, dims, n);
        if (own) pithi_unpredict_advance(c->sums, own);
        done += own;
        if (own < n) break;
        c->from += c->pitch - 4 * at;
        c->prefetch += c->pitch - 4 * at;
    }
    return done;
}

/* Encodes order 0: words are the codes themselves, and rows lie together. */
static size_t fused_encode_codes(struct pithi_fused_encode *c) {
    const struct constants k = constants_of(c->quant);
    const v16 narrow = v_set(0xFFFF);
    uint8_t *to = c->to, *widths = c->widths;
    size_t i = 0;
    for (; i + PAIR <= c->count && c->end - to >= REACH; i += PAIR, widths += 2) {
        const struct code a = code_of(&k, c->from + 4 * i), b = code_of(&k, c->from + 4 * i + 64);
        const v16 x = zigzag(a.code), y = zigzag(b.code);
        if (missed(&k, &a, &b) || _mm512_cmpgt_epu32_mask(v_maxu(x, y), narrow)) break;
        __builtin_prefetch(c->prefetch + 4 * i, 0, 2);
        __builtin_prefetch(c->prefetch + 4 * i + 64, 0, 2);
        to = put(x, y, widths, to);
    }
    c->to = to, c->widths = widths;
    return i;
}

static bool fits(const struct pithi_fused_encode *c) {
    const struct pithi_quant *const q = c->quant;
    const size_t row = c->sums->extent[3];
    if (q->relative || q->signed_zeros || q->dtype != PITH_F32) return false;
    return c->sums->order ? (row | c->count) % PAIR == 0 : c->pitch == 4 * row;
}

static size_t fused_encode(struct pithi_fused_encode *c) {
    const struct pithi_unpredict *const u = c->sums;
    if (!fits(c)) return 0;
    if (!u->order) return fused_encode_codes(c);
    switch ((u->sum[0] != NULL) + (u->sum[1] != NULL) + (u->sum[2] != NULL)) {
    case 0: return fused_encode_rows(c, 0);
    case 1: return fused_encode_rows(c, 1);
    case 2: return fused_encode_rows(c, 2);
    default: return fused_encode_rows(c, 3);
    }
}

void pithi_fused_encode_bind_avx512(struct pithi_kernels *k);
void pithi_fused_encode_bind_avx512(struct pithi_kernels *k) { k->fused_encode = fused_encode; }
