/* fused_decode_avx512.c - packed words of differences to values in one pass, for AVX-512.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two groups at a time, a word of each in a lane, as long as the sums of a group's differences fit
 * in 16 bits: words of NARROW do; without differences, as long as words do. Wider ones and short
 * rows are left to the caller. */
#include "codec.h"
#include "predict/bitplane_avx512.h"
#include "predict/fused_decode.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { PAIR = 32, NARROW = 12, WIDE = 16, REACH = 64 /* bytes that two groups may touch */ };
enum store { PLAIN, LINES, SHIFTED };

ALWAYS v16 differences(v16 words) {
    const v16 odd = v_and(words, _mm512_set1_epi16(1));
    return v_xor(_mm512_srli_epi16(words, 1), _mm512_sub_epi16(_mm512_setzero_si512(), odd));
}

/* Returns for each lane of both groups the sum of all lanes up to it. */
ALWAYS v16 sums(v16 x) {
    const v16 zero = _mm512_setzero_si512();
    x = _mm512_add_epi16(x, _mm512_alignr_epi32(x, zero, 15));
    x = _mm512_add_epi16(x, _mm512_alignr_epi32(x, zero, 14));
    x = _mm512_add_epi16(x, _mm512_alignr_epi32(x, zero, 12));
    return _mm512_add_epi16(x, _mm512_alignr_epi32(x, zero, 8));
}

ALWAYS v16 last_of(v16 x) { return _mm512_permutexvar_epi32(v_set(15), x); }
ALWAYS v16 low(v16 x) { return v_sar16(_mm512_slli_epi32(x, 16)); }
ALWAYS v16 high(v16 x) { return v_sar16(x); }

struct goal {
    v16 step, most;
    struct streamer stream;
};

ALWAYS void put(struct goal *g, enum store store, uint8_t *to, v16 codes) {
    const v16 x = f_limit(f_mul(f_from_i(codes), g->step), g->most);
    if (store == SHIFTED)
        v_stream(&g->stream, to, x);
    else if (store == LINES)
        _mm512_stream_si512((void *)to, x);
    else
        v_store(to, x);
}

ALWAYS v16 add(unsigned dims, uint32_t *sum[3], const bool starts[3], size_t i, v16 x) {
    for (unsigned k = 0; k < dims; k++) {
        uint8_t *const p = (uint8_t *)(sum[k] + i);
        if (!starts[k]) x = v_add(x, v_load(p));
        v_store(p, x);
    }
    return x;
}

ALWAYS size_t fused_decode_row(struct pithi_fused_decode *r, unsigned dims, enum store store,
                               size_t count) {
    uint32_t *sum[3];
    bool starts[3];
    pithi_unpredict_sums(r->sums, sum, starts);
    const uint8_t *from = r->planes, *const end = from + r->left, *widths = r->widths;
    struct goal goal = {.step = v_spread(&r->quant->step), .most = v_set(PITHI_F32_MAX)};
    v16 last = v_set(r->sums->before);
    size_t i = 0;
    if (store == SHIFTED) v_stream_begin(&goal.stream, r->to);
    for (; i < count && (size_t)(end - from) >= REACH; i += PAIR, widths += 2) {
        const unsigned a = widths[0], b = widths[1];
        if (a > NARROW || b > NARROW) break;
        const v16 x = sums(differences(get_planes(from, from + 2 * a, a, b)));
        const v16 y = v_add(low(x), last), z = v_add(high(x), last_of(y));
        put(&goal, store, r->to + 4 * i, add(dims, sum, starts, i, y));
        put(&goal, store, r->to + 4 * i + 2 * PAIR, add(dims, sum, starts, i + PAIR / 2, z));
        last = last_of(z);
        from += 2 * (a + b);
    }
    if (store == SHIFTED) v_stream_end(&goal.stream, r->to + 4 * i);
    r->sums->before = v_first(last);
    r->planes = from, r->left = (size_t)(end - from), r->widths = widths;
    return i;
}

ALWAYS size_t fused_decode_rows(struct pithi_fused_decode *r, unsigned dims, enum store store) {
    size_t done = 0;
    while (done < r->count) {
        const size_t at = r->sums->place[3], rest = r->sums->extent[3] - at, left = r->count - done;
        const size_t n = rest < left ? rest : left, own = fused_decode_row(r, dims, store, n);
        if (own) pithi_unpredict_advance(r->sums, own);
        done += own;
        if (own < n) break;
        r->to += r->pitch - 4 * at;
    }
    return done;
}

ALWAYS size_t fused_decode_store(struct pithi_fused_decode *r, enum store store) {
    const struct pithi_unpredict *const u = r->sums;
    switch ((u->sum[0] != NULL) + (u->sum[1] != NULL) + (u->sum[2] != NULL)) {
    case 0: return fused_decode_rows(r, 0, store);
    case 1: return fused_decode_rows(r, 1, store);
    case 2: return fused_decode_rows(r, 2, store);
    default: return fused_decode_rows(r, 3, store);
    }
}

/* Decodes order 0: words are the codes themselves, and rows lie together. */
ALWAYS size_t fused_decode_codes(struct pithi_fused_decode *r, enum store store) {
    const uint8_t *from = r->planes, *const end = from + r->left, *widths = r->widths;
    struct goal goal = {.step = v_spread(&r->quant->step), .most = v_set(PITHI_F32_MAX)};
    size_t i = 0;
    if (store == SHIFTED) v_stream_begin(&goal.stream, r->to);
    for (; i + PAIR <= r->count && (size_t)(end - from) >= REACH; i += PAIR, widths += 2) {
        const unsigned a = widths[0], b = widths[1];
        if (a > WIDE || b > WIDE) break;
        const v16 x = differences(get_planes(from, from + 2 * a, a, b));
        put(&goal, store, r->to + 4 * i, low(x));
        put(&goal, store, r->to + 4 * i + 2 * PAIR, high(x));
        from += 2 * (a + b);
    }
    if (store == SHIFTED) v_stream_end(&goal.stream, r->to + 4 * i);
    r->planes = from, r->left = (size_t)(end - from), r->widths = widths;
    return i;
}

static bool fits(const struct pithi_fused_decode *r) {
    const size_t row = r->sums->extent[3];
    if (r->quant->relative || r->quant->dtype != PITH_F32) return false;
    return r->sums->order ? (row | r->count) % PAIR == 0 : r->pitch == 4 * row;
}

static size_t fused_decode(struct pithi_fused_decode *r) {
    const bool nontemporal = r->nontemporal && v_stream_fits(r->to);
    if (!fits(r)) return 0;
    if (!r->sums->order)
        return nontemporal ? fused_decode_codes(r, SHIFTED) : fused_decode_codes(r, PLAIN);
    if (!nontemporal) return fused_decode_store(r, PLAIN);
    const bool lines = ((uintptr_t)r->to | r->pitch) % 64 == 0;
    return lines ? fused_decode_store(r, LINES) : fused_decode_store(r, SHIFTED);
}

void pithi_fused_decode_bind_avx512(struct pithi_kernels *k);
void pithi_fused_decode_bind_avx512(struct pithi_kernels *k) { k->fused_decode = fused_decode; }
