/* fused_decode_tmpl.h - packed words of differences to values in one pass, written once for each
 * ISA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two groups at a time, as long as the sums of a group's differences fit in 16 bits: words of
 * NARROW do; without differences, as long as words do. Wider ones and short rows are left to the
 * caller.
 *
 * The including file has included lanes_<isa>.h and defined
 *   PAIRS              how many pairs of groups come out of planes before any becomes values: 1, or
 *                      as many as let a processor have many steps of one kind under way
 *   WHOLE_LINES        1 where stores of whole lines are faster than a streamer's
 *   REACH              the most bytes that get may read
 *   struct words       16 bits for every element of a pair
 *   get(from, widths, widest, pairs, w)  makes differences of pairs of groups of so many planes, at
 *                      most `widest`, 16 at most: of what planes hold, bit 0 is the sign
 *   lanes_of(w, x, y)  the groups in lanes, with sign
 *   sums_of(w, x, y)   the same, of the sums of each group up to each element */
#ifndef PITHI_PREDICT_FUSED_DECODE_TMPL_H
#define PITHI_PREDICT_FUSED_DECODE_TMPL_H

#include "common/lanes_tmpl.h"
#include "predict/fused_decode.h"

enum { GROUP = 16, PAIR = 2 * GROUP, NARROW = 12, WIDE = 16 };
enum stores { PLAIN, LINES, SHIFTED };

static void get(const uint8_t *from, const uint8_t *widths, unsigned widest, size_t pairs,
                struct words *w);
static inline void lanes_of(const struct words *w, v16 *x, v16 *y);
static inline void sums_of(const struct words *w, v16 *x, v16 *y);

/* ---- Values ----------------------------------------------------------------------------------*/

struct goal {
    v16 step;
    struct streamer stream;
};

/* Puts values in the place of element i. None is too large, see fits. */
ALWAYS void put(struct goal *g, uint32_t dtype, enum stores stores, uint8_t *to, size_t i,
                v16 codes) {
    const v16 x = f_mul(f_from_i(codes), g->step);
    if (stores == SHIFTED)
        v_stream(&g->stream, to + 4 * i, x);
    else if (stores == LINES)
        v_stream_line(to + 4 * i, x);
    else
        store(dtype, to, i, round_loosely(dtype, x));
}

ALWAYS v16 add(unsigned dims, uint32_t *const sum[3], const bool starts[3], size_t i, v16 x) {
    for (unsigned k = 0; k < dims; k++) {
        uint8_t *const p = (uint8_t *)(sum[k] + i);
        if (!starts[k]) x = v_add(x, v_load(p));
        v_store(p, x);
    }
    return x;
}

/* ---- Planes ----------------------------------------------------------------------------------*/

/* Differences that are not values yet. */
struct held {
    struct words words[PAIRS];
    size_t pairs, next;
};

ALWAYS void held_init(struct held *h) { h->pairs = h->next = 0; }

/* Holds the next pairs of `left` elements, as many as there is space for, of words of at most so
 * many bits; false when there are none. */
ALWAYS bool hold(struct pithi_fused_decode *r, struct held *h, size_t left, unsigned most) {
    const uint8_t *const from = r->planes, *const widths = r->widths;
    const size_t pairs = left / PAIR < PAIRS ? left / PAIR : PAIRS;
    size_t n = 0, bytes = 0;
    unsigned widest = 0;
    for (; n < pairs && r->left - bytes >= REACH; n++) {
        const unsigned a = widths[2 * n], b = widths[2 * n + 1], wider = a > b ? a : b;
        if (wider > most) break;
        widest = wider > widest ? wider : widest;
        bytes += 2 * (size_t)(a + b);
    }
    get(from, widths, widest, n, h->words);
    r->planes = from + bytes, r->left -= bytes, r->widths = widths + 2 * n;
    h->pairs = n;
    h->next = 0;
    return n;
}

/* ---- Rows ------------------------------------------------------------------------------------*/

/* Decodes differences. */
ALWAYS size_t fused_decode_rows(struct pithi_fused_decode *r, uint32_t dtype, unsigned dims,
                                enum stores stores) {
    struct pithi_unpredict *const u = r->sums;
    struct goal goal = {.step = v_spread(&r->quant->step)};
    struct held h;
    uint32_t *sum[3];
    bool starts[3];
    v16 last = v_set(u->before);
    size_t at = u->place[3], left = r->count, i;
    held_init(&h);
    pithi_unpredict_sums(u, sum, starts);
    for (;;) {
        const size_t n = u->extent[3] - at < left ? u->extent[3] - at : left;
        uint8_t *const to = r->to;
        if (stores == SHIFTED) v_stream_begin(&goal.stream, to);
        for (i = 0; i < n; i += PAIR) {
            v16 x, y;
            if (h.next == h.pairs && !hold(r, &h, left - i, NARROW)) break;
            sums_of(&h.words[h.next++], &x, &y);
            /* What is before a group is known before its own sums are. */
            const v16 half = v_add(last, v_last(x)), all = v_add(half, v_last(y));
            x = add(dims, sum, starts, i, v_add(x, last));
            y = add(dims, sum, starts, i + GROUP, v_add(y, half));
            put(&goal, dtype, stores, to, i, x);
            put(&goal, dtype, stores, to, i + GROUP, y);
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
    struct held h;
    size_t left = r->count, i;
    held_init(&h);
    for (;;) {
        const size_t n = row - at < left ? row - at : left;
        uint8_t *const to = r->to;
        if (stores == SHIFTED) v_stream_begin(&goal.stream, to);
        for (i = 0; i < n; i += PAIR) {
            v16 x, y;
            if (h.next == h.pairs && !hold(r, &h, left - i, WIDE)) break;
            lanes_of(&h.words[h.next++], &x, &y);
            put(&goal, dtype, stores, to, i, x);
            put(&goal, dtype, stores, to, i + GROUP, y);
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
