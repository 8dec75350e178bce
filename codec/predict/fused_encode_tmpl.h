/* fused_encode_tmpl.h - values to packed words of differences in one pass, written once for each
 * ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two groups at a time, as long as no value is missed and words have at most 16 bits.
 *
 * The including file has included lanes_<isa>.h and defined
 *   PAIRS                       how many pairs of groups become words before any becomes planes: 1,
 *                               or as many as let a processor have many steps of one kind under way
 *   struct words                the words of a pair, of 16 bits
 *   words_of(a, b)              makes them of two groups in lanes
 *   any_above(error, bound, x)  whether a lane of `error` is above that of `bound`, neither of
 *                               which has a sign, or a lane of x has more than 16 bits
 *   put(w, pairs, widths, to)   writes the planes of pairs of words and their widths; returns the
 *                               planes' end, and may write REACH bytes for every pair */
#ifndef PITHI_PREDICT_FUSED_ENCODE_TMPL_H
#define PITHI_PREDICT_FUSED_ENCODE_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/fused_encode.h"

enum { GROUP = 16, PAIR = 2 * GROUP, REACH = 64 };

static inline bool any_above(v16 error, v16 bound, v16 x);
static inline struct words words_of(v16 a, v16 b);
static uint8_t *put(const struct words *w, size_t pairs, uint8_t *widths, uint8_t *to);

/* Codes are small when |code| is below SMALL, or code is -SMALL; others are left to the caller.
 * Those of a value of PITHI_QUANT_LIMIT steps or more, or of no number, are not: they are INT32_MIN
 * where no integer is near. */
enum { SMALL = PITHI_QUANT_LIMIT / 2 };
_Static_assert(2 * SMALL == 1 << 22, "more_than_small moves bit 22 to bit 16");

struct constants {
    v16 inverse, step, magnitude, bound, small;
};

ALWAYS struct constants constants_of(const struct pithi_quant *q) {
    return (struct constants){
        .inverse = v_spread(&q->inverse),
        .step = v_spread(&q->step),
        .magnitude = v_set(0x7FFFFFFFu),
        .bound = v_spread(&q->bound),
        .small = v_set(SMALL),
    };
}

struct code {
    v16 code, error; /* bits of its magnitude: NaN are larger than all numbers */
};

/* A product that overflows is not limited to the largest value: its error is infinite, and the
 * caller limits it. */
ALWAYS struct code code_of(const struct constants *c, const uint8_t *value) {
    const v16 x = v_load(value), code = f_round_to_i(f_mul(x, c->inverse));
    const v16 back = f_mul(f_from_i(code), c->step);
    return (struct code){code, v_and(f_sub(x, back), c->magnitude)};
}

/* Numbers of more than 16 bits where codes are not small. */
ALWAYS v16 more_than_small(const struct constants *c, v16 code) {
    return v_shr(v_add(code, c->small), 6);
}

/* Whether a value of a pair is missed, or a word is wide, or may be one of these. Words of order 0
 * of 16 bits are those of small codes. Where words are differences of neighbours in a row, codes
 * are at most 32 * 2^15 apart, so that none reaches the limit when those of one group are small. */
ALWAYS bool irregular(const struct constants *c, unsigned dims, bool differences,
                      const struct code *a, const struct code *b, v16 x, v16 y) {
    v16 most = v_maxu(x, y);
    if (differences) most = v_maxu(most, more_than_small(c, b->code));
    if (dims) most = v_maxu(most, more_than_small(c, a->code));
    return any_above(v_maxu(a->error, b->error), c->bound, most);
}

ALWAYS v16 zigzag(v16 x) { return v_xor(v_add(x, x), v_sar31(x)); }

/* Returns a group's word; sums become those of the next element. */
ALWAYS v16 word_of(unsigned dims, uint32_t *const sum[3], const bool starts[3], size_t i, v16 code,
                   v16 last) {
    v16 x = v_sub(code, v_before(code, last));
    for (unsigned k = 0; k < dims; k++) {
        uint8_t *const p = (uint8_t *)(sum[k] + i);
        const v16 all = x;
        if (!starts[k]) x = v_sub(x, v_load(p));
        v_store(p, all);
    }
    return zigzag(x);
}

/* Gives sums back what they were before word_of made this word; those that start are not read. */
static __attribute__((noinline)) void undo(unsigned dims, uint32_t *const sum[3], size_t i,
                                           v16 word) {
    v16 x = v_xor(v_shr(word, 1), v_sub(v_set(0), v_and(word, v_set(1))));
    for (unsigned k = dims; k--;) {
        uint8_t *const p = (uint8_t *)(sum[k] + i);
        const v16 all = v_load(p);
        v_store(p, v_sub(all, x));
        x = all;
    }
}

ALWAYS void prefetch_pair(const uint8_t *values) {
    __builtin_prefetch(values, 0, 2);
    __builtin_prefetch(values + 4 * GROUP, 0, 2);
}

/* Words that are not planes yet. */
struct held {
    struct words words[PAIRS];
    size_t pairs, most; /* most of them for which there is space */
};

/* Some compilers do not see that no words are put that were not made. */
ALWAYS void held_init(struct held *h) { h->words[0] = words_of(v_set(0), v_set(0)); }

/* Begins to hold pairs, as many as there is space for, of the `left` elements that come next. */
ALWAYS void hold(const struct pithi_fused_encode *c, struct held *h, size_t left) {
    const size_t pairs = left / PAIR, fit = (size_t)(c->end - c->to) / REACH;
    h->pairs = 0;
    h->most = pairs < PAIRS ? pairs : PAIRS;
    if (h->most > fit) h->most = fit;
}

/* Makes planes of what is held. */
ALWAYS void put_held(struct pithi_fused_encode *c, const struct held *h) {
    c->to = put(h->words, h->pairs, c->widths, c->to);
    c->widths += 2 * h->pairs;
}

/* Makes words of a pair of groups, element i being the first; false where one is irregular. `last`
 * has the code before them, then that of the last. */
ALWAYS bool make_words(const struct pithi_fused_encode *c, const struct constants *k, unsigned dims,
                       uint32_t *const sum[3], const bool starts[3], size_t i, v16 *last,
                       struct words *w) {
    const struct code a = code_of(k, c->from + 4 * i), b = code_of(k, c->from + 4 * (i + GROUP));
    const v16 x = word_of(dims, sum, starts, i, a.code, *last);
    const v16 y = word_of(dims, sum, starts, i + GROUP, b.code, a.code);
    if (irregular(k, dims, true, &a, &b, x, y)) {
        if (dims) undo(dims, sum, i, x), undo(dims, sum, i + GROUP, y);
        return false;
    }
    prefetch_pair(c->prefetch + 4 * i);
    *w = words_of(x, y);
    *last = b.code;
    return true;
}

/* Encodes differences. */
ALWAYS size_t fused_encode_rows(struct pithi_fused_encode *c, unsigned dims) {
    const struct constants k = constants_of(c->quant);
    struct pithi_unpredict *const u = c->sums;
    struct held h;
    uint32_t *sum[3];
    bool starts[3];
    v16 last = v_set(u->before);
    size_t at = u->place[3], left = c->count, i;
    held_init(&h);
    hold(c, &h, left);
    pithi_unpredict_sums(u, sum, starts);
    for (;;) {
        const size_t n = u->extent[3] - at < left ? u->extent[3] - at : left;
        for (i = 0; i < n; i += PAIR) {
            if (h.pairs == h.most) {
                put_held(c, &h);
                hold(c, &h, left - i);
                if (!h.most) break;
            }
            if (!make_words(c, &k, dims, sum, starts, i, &last, &h.words[h.pairs])) break;
            h.pairs++;
        }
        left -= i;
        if (i < n || !left) break;
        pithi_unpredict_next_row(u, at, dims, sum, starts);
        c->from += c->pitch - 4 * at;
        c->prefetch += c->pitch - 4 * at;
        last = v_set(0);
        at = 0;
    }
    u->before = v_first(v_last(last));
    if (i) pithi_unpredict_advance(u, i);
    put_held(c, &h);
    return c->count - left;
}

/* Encodes order 0, where words are the codes themselves, of rows of `row` elements, of which `at`
 * were before the first. */
ALWAYS size_t fused_encode_codes(struct pithi_fused_encode *c, size_t row, size_t at) {
    const struct constants k = constants_of(c->quant);
    struct held h;
    size_t left = c->count, i;
    held_init(&h);
    hold(c, &h, left);
    for (;;) {
        const size_t n = row - at < left ? row - at : left;
        for (i = 0; i < n; i += PAIR) {
            if (h.pairs == h.most) {
                put_held(c, &h);
                hold(c, &h, left - i);
                if (!h.most) break;
            }
            const struct code a = code_of(&k, c->from + 4 * i);
            const struct code b = code_of(&k, c->from + 4 * (i + GROUP));
            const v16 x = zigzag(a.code), y = zigzag(b.code);
            if (irregular(&k, 0, false, &a, &b, x, y)) break;
            prefetch_pair(c->prefetch + 4 * i);
            h.words[h.pairs++] = words_of(x, y);
        }
        left -= i;
        if (i < n || !left) break;
        c->from += c->pitch - 4 * at;
        c->prefetch += c->pitch - 4 * at;
        at = 0;
    }
    put_held(c, &h);
    return c->count - left;
}

static size_t fused_encode(struct pithi_fused_encode *c) {
    const struct pithi_quant *const q = c->quant;
    const struct pithi_unpredict *const u = c->sums;
    const size_t row = u->extent[3];
    if (q->relative || q->signed_zeros || q->dtype != PITH_F32) return 0;
    /* Rows that lie together are one. */
    if (!u->order && c->pitch == 4 * row)
        return c->count % PAIR == 0 ? fused_encode_codes(c, c->count, 0) : 0;
    if ((row | c->count) % PAIR) return 0;
    if (!u->order) return fused_encode_codes(c, row, c->at);
    switch ((u->sum[0] != NULL) + (u->sum[1] != NULL) + (u->sum[2] != NULL)) {
    case 0: return fused_encode_rows(c, 0);
    case 1: return fused_encode_rows(c, 1);
    case 2: return fused_encode_rows(c, 2);
    default: return fused_encode_rows(c, 3);
    }
}

#endif
