/* fused_tmpl.h - values to packed words of differences and back, in one pass each, written once for
 * each ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two groups at a time. Encoding goes on as long as no value is missed and words have at most 16
 * bits; decoding as long as the sums of a group's differences fit in 16 bits, as those of words of
 * NARROW bits do, or, without differences, words themselves. The rest, and short rows, are left to
 * the caller.
 *
 * The including file has included lanes_<isa>.h and defined
 *   PAIRS         how many pairs of groups become words before any becomes planes, and come out of
 *                 planes before any becomes values: 1, or as many as let a processor have many
 *                 steps of one kind under way
 *   UNPACK_REACH  the most bytes that unpack may read for a pair
 *   WHOLE_LINES   1 where stores of whole lines are faster than a streamer's
 *   struct words  the words of a pair, of 16 bits
 * to encode,
 *   words_of(a, b)                     makes words of two groups in lanes
 *   any_above(error, bound, x)         whether a lane of `error` is above that of `bound`, neither
 *                                      of which has a sign, or a lane of x has more than 16 bits
 *   pack(w, pairs, widths, to)         writes the planes of pairs of words and their widths;
 *                                      returns the planes' end, and may write PACK_REACH bytes for
 *                                      every pair
 * and to decode,
 *   unpack(from, widths, widest, pairs, w)  makes differences of pairs of groups of so many planes,
 *                                      at most `widest`, 16 at most: of what planes hold, bit 0 is
 *                                      the sign
 *   lanes_of(w, x, y)                  the groups in lanes, with sign
 *   sums_of(w, x, y)                   the same, of the sums of each group up to each element */
#ifndef PITHI_PREDICT_FUSED_TMPL_H
#define PITHI_PREDICT_FUSED_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/fused.h"

enum { GROUP = 16, PAIR = 2 * GROUP, PACK_REACH = 64, NARROW = 12, WIDE = 16 };
enum stores { PLAIN, LINES, SHIFTED };

static inline bool any_above(v16 error, v16 bound, v16 x);
static inline struct words words_of(v16 a, v16 b);
static uint8_t *pack(const struct words *w, size_t pairs, uint8_t *widths, uint8_t *to);
static void unpack(const uint8_t *from, const uint8_t *widths, unsigned widest, size_t pairs,
                   struct words *w);
static inline void lanes_of(const struct words *w, v16 *x, v16 *y);
static inline void sums_of(const struct words *w, v16 *x, v16 *y);

/* ---- Encoding ---------------------------------------------------------------------------------*/

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
struct to_pack {
    struct words words[PAIRS];
    size_t pairs, most; /* most of them for which there is space */
};

/* Some compilers do not see that no words are put that were not made. */
ALWAYS void to_pack_init(struct to_pack *p) { p->words[0] = words_of(v_set(0), v_set(0)); }

/* Begins with no pairs, of as many as there is space for in the `left` elements that come next. */
ALWAYS void begin_words(const struct pithi_fused_encode *c, struct to_pack *p, size_t left) {
    const size_t pairs = left / PAIR, fit = (size_t)(c->end - c->to) / PACK_REACH;
    p->pairs = 0;
    p->most = pairs < PAIRS ? pairs : PAIRS;
    if (p->most > fit) p->most = fit;
}

/* Makes planes of the words. */
ALWAYS void pack_words(struct pithi_fused_encode *c, const struct to_pack *p) {
    c->to = pack(p->words, p->pairs, c->widths, c->to);
    c->widths += 2 * p->pairs;
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
    struct to_pack p;
    uint32_t *sum[3];
    bool starts[3];
    v16 last = v_set(u->before);
    size_t at = u->place[3], left = c->count, i;
    to_pack_init(&p);
    begin_words(c, &p, left);
    pithi_unpredict_sums(u, sum, starts);
    for (;;) {
        const size_t n = u->extent[3] - at < left ? u->extent[3] - at : left;
        for (i = 0; i < n; i += PAIR) {
            if (p.pairs == p.most) {
                pack_words(c, &p);
                begin_words(c, &p, left - i);
                if (!p.most) break;
            }
            if (!make_words(c, &k, dims, sum, starts, i, &last, &p.words[p.pairs])) break;
            p.pairs++;
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
    pack_words(c, &p);
    return c->count - left;
}

/* Encodes order 0, where words are the codes themselves, of rows of `row` elements, of which `at`
 * were before the first. */
ALWAYS size_t fused_encode_codes(struct pithi_fused_encode *c, size_t row, size_t at) {
    const struct constants k = constants_of(c->quant);
    struct to_pack p;
    size_t left = c->count, i;
    to_pack_init(&p);
    begin_words(c, &p, left);
    for (;;) {
        const size_t n = row - at < left ? row - at : left;
        for (i = 0; i < n; i += PAIR) {
            if (p.pairs == p.most) {
                pack_words(c, &p);
                begin_words(c, &p, left - i);
                if (!p.most) break;
            }
            const struct code a = code_of(&k, c->from + 4 * i);
            const struct code b = code_of(&k, c->from + 4 * (i + GROUP));
            const v16 x = zigzag(a.code), y = zigzag(b.code);
            if (irregular(&k, 0, false, &a, &b, x, y)) break;
            prefetch_pair(c->prefetch + 4 * i);
            p.words[p.pairs++] = words_of(x, y);
        }
        left -= i;
        if (i < n || !left) break;
        c->from += c->pitch - 4 * at;
        c->prefetch += c->pitch - 4 * at;
        at = 0;
    }
    pack_words(c, &p);
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

/* ---- Decoding: values -------------------------------------------------------------------------*/

struct goal {
    v16 step;
    struct streamer stream;
};

/* Puts values in the place of element i. None is too large, see fits. */
ALWAYS void put_value(struct goal *g, uint32_t dtype, enum stores stores, uint8_t *to, size_t i,
                      v16 codes) {
    const v16 x = f_mul(f_from_i(codes), g->step);
    if (stores == SHIFTED)
        v_stream(&g->stream, to + 4 * i, x);
    else if (stores == LINES)
        v_stream_line(to + 4 * i, x);
    else
        store(dtype, to, i, round_loosely(dtype, x));
}

ALWAYS v16 add_sums(unsigned dims, uint32_t *const sum[3], const bool starts[3], size_t i, v16 x) {
    for (unsigned k = 0; k < dims; k++) {
        uint8_t *const p = (uint8_t *)(sum[k] + i);
        if (!starts[k]) x = v_add(x, v_load(p));
        v_store(p, x);
    }
    return x;
}

/* ---- Decoding: planes -------------------------------------------------------------------------*/

/* Differences that are not values yet. */
struct unpacked {
    struct words words[PAIRS];
    size_t pairs, next;
};

ALWAYS void unpacked_init(struct unpacked *w) { w->pairs = w->next = 0; }

/* Unpacks the next pairs of `left` elements, as many as there is space for, of words of at most so
 * many bits; false when there are none. */
ALWAYS bool unpack_words(struct pithi_fused_decode *r, struct unpacked *w, size_t left,
                         unsigned most) {
    const uint8_t *const from = r->planes, *const widths = r->widths;
    const size_t pairs = left / PAIR < PAIRS ? left / PAIR : PAIRS;
    size_t n = 0, bytes = 0;
    unsigned widest = 0;
    for (; n < pairs && r->left - bytes >= UNPACK_REACH; n++) {
        const unsigned a = widths[2 * n], b = widths[2 * n + 1], wider = a > b ? a : b;
        if (wider > most) break;
        widest = wider > widest ? wider : widest;
        bytes += 2 * (size_t)(a + b);
    }
    unpack(from, widths, widest, n, w->words);
    r->planes = from + bytes, r->left -= bytes, r->widths = widths + 2 * n;
    w->pairs = n;
    w->next = 0;
    return n;
}

/* ---- Decoding: rows ---------------------------------------------------------------------------*/

/* Decodes differences. */
ALWAYS size_t fused_decode_rows(struct pithi_fused_decode *r, uint32_t dtype, unsigned dims,
                                enum stores stores) {
    struct pithi_unpredict *const u = r->sums;
    struct goal goal = {.step = v_spread(&r->quant->step)};
    struct unpacked w;
    uint32_t *sum[3];
    bool starts[3];
    v16 last = v_set(u->before);
    size_t at = u->place[3], left = r->count, i;
    unpacked_init(&w);
    pithi_unpredict_sums(u, sum, starts);
    for (;;) {
        const size_t n = u->extent[3] - at < left ? u->extent[3] - at : left;
        uint8_t *const to = r->to;
        if (stores == SHIFTED) v_stream_begin(&goal.stream, to);
        for (i = 0; i < n; i += PAIR) {
            v16 x, y;
            if (w.next == w.pairs && !unpack_words(r, &w, left - i, NARROW)) break;
            sums_of(&w.words[w.next++], &x, &y);
            /* What is before a group is known before its own sums are. */
            const v16 half = v_add(last, v_last(x)), all = v_add(half, v_last(y));
            x = add_sums(dims, sum, starts, i, v_add(x, last));
            y = add_sums(dims, sum, starts, i + GROUP, v_add(y, half));
            put_value(&goal, dtype, stores, to, i, x);
            put_value(&goal, dtype, stores, to, i + GROUP, y);
            last = all;
        }
        if (stores == SHIFTED) v_stream_end(&goal.stream, to + 4 * i);
        left -= i;
        if (i < n || !left) break;
        pithi_unpredict_next_row(u, at, dims, sum, starts);
        r->to += r->pitch - width(dtype) * at;
        last = v_set(0);
        at = 0;
    }
    u->before = v_first(last);
    if (i) pithi_unpredict_advance(u, i);
    return r->count - left;
}

/* Decodes order 0, where words are the codes themselves, of rows of `row` elements, of which `at`
 * were before the first. */
ALWAYS size_t fused_decode_codes(struct pithi_fused_decode *r, uint32_t dtype, enum stores stores,
                                 size_t row, size_t at) {
    struct goal goal = {.step = v_spread(&r->quant->step)};
    struct unpacked w;
    size_t left = r->count, i;
    unpacked_init(&w);
    for (;;) {
        const size_t n = row - at < left ? row - at : left;
        uint8_t *const to = r->to;
        if (stores == SHIFTED) v_stream_begin(&goal.stream, to);
        for (i = 0; i < n; i += PAIR) {
            v16 x, y;
            if (w.next == w.pairs && !unpack_words(r, &w, left - i, WIDE)) break;
            lanes_of(&w.words[w.next++], &x, &y);
            put_value(&goal, dtype, stores, to, i, x);
            put_value(&goal, dtype, stores, to, i + GROUP, y);
        }
        if (stores == SHIFTED) v_stream_end(&goal.stream, to + 4 * i);
        left -= i;
        if (i < n || !left) break;
        r->to += r->pitch - width(dtype) * at;
        at = 0;
    }
    return r->count - left;
}

ALWAYS size_t fused_decode_of(struct pithi_fused_decode *r, uint32_t dtype, enum stores stores) {
    const struct pithi_unpredict *const u = r->sums;
    /* Rows that lie together are one. */
    if (!u->order && r->pitch == width(dtype) * u->extent[3])
        return fused_decode_codes(r, dtype, stores, r->count, 0);
    if (!u->order) return fused_decode_codes(r, dtype, stores, u->extent[3], r->at);
    switch ((u->sum[0] != NULL) + (u->sum[1] != NULL) + (u->sum[2] != NULL)) {
    case 0: return fused_decode_rows(r, dtype, 0, stores);
    case 1: return fused_decode_rows(r, dtype, 1, stores);
    case 2: return fused_decode_rows(r, dtype, 2, stores);
    default: return fused_decode_rows(r, dtype, 3, stores);
    }
}

/* Whether rows are whole pairs of groups, or lie together without differences, and no code of 32
 * bits times the step size is as large as 2^127, so that no value need be limited. */
static bool fits(const struct pithi_fused_decode *r) {
    const struct pithi_quant *const q = r->quant;
    const struct pithi_unpredict *const u = r->sums;
    if (q->relative || !(q->step < 0x1p96f)) return false;
    if (q->dtype != PITH_F32 && q->dtype != PITH_BF16) return false;
    if ((u->extent[3] | r->count) % PAIR == 0) return true;
    return !u->order && r->pitch == width(q->dtype) * u->extent[3] && r->count % PAIR == 0;
}

static size_t fused_decode(struct pithi_fused_decode *r) {
    if (!fits(r)) return 0;
    if (r->quant->dtype == PITH_BF16) return fused_decode_of(r, PITH_BF16, PLAIN);
    const uintptr_t place = (uintptr_t)r->to | r->pitch;
    if (!r->nontemporal || !v_stream_fits((const void *)place))
        return fused_decode_of(r, PITH_F32, PLAIN);
    return !WHOLE_LINES || place % 64 ? fused_decode_of(r, PITH_F32, SHIFTED)
                                      : fused_decode_of(r, PITH_F32, LINES);
}

#endif
