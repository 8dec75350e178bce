/* strips.h - pages along tokens whose groups have one outlier each, and codes of normal floats:
 * where nothing is missing nor unaligned, by strips.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A strip is a group of tokens of 128 columns. A thread has 8 columns of every 16th token, all at
 * once: each value is read once and stays in registers. The two largest magnitudes of a column say
 * all that its scale needs, so that one barrier brings them to the column's thread and another its
 * scale back. */
#ifndef PITHI_GPU_DEVICE_KV_STRIPS_H
#define PITHI_GPU_DEVICE_KV_STRIPS_H

#include "device/kv/full.h"
#include "device/kv/outliers.h"

/* ---- Places ----------------------------------------------------------------------------------*/

/* Strips of a page's row, and the page's strips. */
PITHI_DEVICE uint32_t pithi_strips_across(const struct pithi_gpu_page *g) {
    return g->heads * g->dim / PITHI_STRIP_COLUMNS;
}
PITHI_DEVICE uint32_t pithi_strips_full(const struct pithi_gpu_page *g) {
    return g->fulls > g->full ? (g->fulls - g->full) / g->chunks * pithi_strips_across(g) : 0;
}

/* The first of the thread's columns among the page's; its first token of a strip, whose others
 * follow PITHI_STRIP_ROWS behind. */
struct pithi_strip_place {
    uint32_t column, token, band;
};
PITHI_DEVICE struct pithi_strip_place pithi_strip_find(const struct pithi_gpu_page *g,
                                                       const struct pithi_gpu_thread *t,
                                                       uint32_t strip) {
    const uint32_t across = pithi_strips_across(g), down = strip / across;
    struct pithi_strip_place at;
    at.column =
        (strip - down * across) * PITHI_STRIP_COLUMNS + t->tid % PITHI_STRIP_LANES * PITHI_UNIT;
    at.band = g->full / g->chunks + down;
    at.token = at.band * PITHI_STRIP_TOKENS + t->tid / PITHI_STRIP_LANES;
    return at;
}

PITHI_DEVICE uint8_t *pithi_strip_value(const struct pithi_gpu_page *g, uint32_t token,
                                        uint32_t column) {
    int64_t at = g->at + column + token * g->token_stride;
    if (g->head_stride != g->dim) at += column / g->dim * (g->head_stride - g->dim);
    return g->values + 2 * at;
}
PITHI_DEVICE uint8_t *pithi_strip_codes(const struct pithi_gpu_page *g,
                                        const struct pithi_strip_place *at) {
    return g->codes + at->token * (g->heads * g->string) + at->column / 2;
}

/* Number of a column's group in the page. */
PITHI_DEVICE uint32_t pithi_strip_group(const struct pithi_gpu_page *g, uint32_t band,
                                        uint32_t column) {
    return band * (g->heads * g->dim) + column;
}

/* ---- Encode: the largest magnitudes ----------------------------------------------------------*/

/* Codes are looked up by sixteenths of a scale, rounded to nearest: no two thresholds are in one of
 * them. Of each: the threshold in sixteenths, and the code below it. */
PITHI_PHASE(pithi_strips_open, uint32_t cells) {
    const struct pithi_codebook *const book = &s->paged.book;
    const float cell = (float)t->tid - (t->tid < cells / 2 ? 0 : (float)cells);
    float threshold = pithi_float(PITHI_F32_INF);
    uint32_t below = 0;
    (void)a;
    if (t->tid >= cells) return;
    for (int k = 0; k + 1 < book->levels; k++) {
        const float middle = book->middle[k] * PITHI_STRIP_FINE;
        below += middle < cell - 0.5f;
        if (middle >= cell - 0.5f && middle <= cell + 0.5f) threshold = middle;
    }
    s->paged.strips.threshold[t->tid] = threshold;
    s->paged.strips.below[t->tid] = below;
}

PITHI_LOCAL(pithi_strip_load, uint32_t strip) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_strip_place at = pithi_strip_find(g, t, strip);
    const uint8_t *from = pithi_strip_value(g, at.token, at.column);
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_STRIP_DEEP; u++) {
        t->kv.strip[u] = pithi_get_quad(from);
        from += 2 * g->token_stride * PITHI_STRIP_ROWS;
    }
}

/* A magnitude, and below it how far its token is from the last: the largest such word has the
 * largest magnitude, the first of equal ones. */
PITHI_DEVICE uint32_t pithi_strip_key(uint32_t high, uint32_t token) {
    return (high & 0x7FFF0000u) | (PITHI_STRIP_TOKENS - 1 - token);
}
PITHI_DEVICE uint32_t pithi_strip_token(uint32_t key) {
    return PITHI_STRIP_TOKENS - 1 - (key & 0xFFFFu);
}
PITHI_DEVICE uint32_t pithi_most(uint32_t x, uint32_t y) { return x > y ? x : y; }
PITHI_DEVICE uint32_t pithi_fewest(uint32_t x, uint32_t y) { return x < y ? x : y; }

/* t->kv.up, t->kv.down := the largest and the second of each of the thread's columns. */
PITHI_LOCAL(pithi_strip_edges, uint32_t strip) {
    const uint32_t row = t->tid / PITHI_STRIP_LANES;
    (void)a, (void)s, (void)strip;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->kv.up[k] = t->kv.down[k] = 0;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_STRIP_DEEP; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t word = t->kv.strip[u].word[k / 2];
        const uint32_t key = pithi_strip_key(k % 2 ? word : word << 16, row + u * PITHI_STRIP_ROWS);
        t->kv.down[k] = pithi_most(t->kv.down[k], pithi_fewest(t->kv.up[k], key));
        t->kv.up[k] = pithi_most(t->kv.up[k], key);
    }
}

/* ---- Encode: scales --------------------------------------------------------------------------*/

/* A column to each thread that has one: its outlier, and its scale. In the team's memory, for
 * codes: what takes values to sixteenths of a scale, the most of them that a value may be, and the
 * outlier's token. A group without codes has a most of -15: what is not below 15, nor above -15, is
 * the first code. */
PITHI_PHASE(pithi_strip_finish, uint32_t strip) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const uint32_t i = t->tid, across = pithi_strips_across(g), down = strip / across;
    const uint32_t column = (strip - down * across) * PITHI_STRIP_COLUMNS + i;
    const uint32_t band = g->full / g->chunks + down, widest = PITHI_STRIP_CELLS / 2 - 1;
    const float *const from = s->paged.values + i;
    uint32_t first = 0, second = 0;
    if (i >= PITHI_STRIP_COLUMNS) return;
    PITHI_UNROLL for (uint32_t r = 0; r < PITHI_STRIP_ROWS; r++) {
        const uint32_t x = pithi_get_aligned32(from + r * PITHI_STRIP_COLUMNS);
        const uint32_t y = pithi_get_aligned32(from + r * PITHI_STRIP_COLUMNS + PITHI_ROW);
        second = pithi_most(pithi_fewest(first, x), pithi_most(second, y));
        first = pithi_most(first, x);
    }
    const uint32_t token = pithi_strip_token(first);
    const uint16_t own =
        pithi_get_aligned16(pithi_strip_value(g, band * PITHI_STRIP_TOKENS + token, column));
    const uint32_t least = first & 0xFFFF0000u, largest = second & 0xFFFF0000u;
    const float limit = pithi_outliers_limit(set, p->dtype, largest, least);
    const float scale = pithi_codebook_reach(s->paged.book.level[s->paged.book.levels - 1], set,
                                             p->dtype, pithi_fewest(largest, pithi_bits(limit)));
    const bool coded = scale != 0 && !pithi_nonfinite(pithi_bits(scale));
    const float fine = coded ? PITHI_STRIP_FINE / scale : 0;
    const float most = coded ? pithi_smaller(limit * fine, (float)widest) : -(float)widest;
    s->paged.up[i] = pithi_bits(fine);
    s->paged.up[PITHI_STRIP_COLUMNS + i] = pithi_bits(most);
    s->paged.down[i] = token;
    const uint32_t number = pithi_strip_group(g, band, column);
    pithi_put_aligned16(g->bytes + 2 * number, pithi_to_f16(pithi_bits(scale)));
    g->places[number] = (uint8_t)token;
    pithi_put_aligned16(g->exact + 2 * number, own);
    t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
}

/* ---- Encode: codes ---------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_strip_eight(const uint32_t *from, uint32_t x[8]) {
    const struct pithi_quad q[2] = {pithi_get_quad(from), pithi_get_quad(from + 4)};
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = q[k / 4].word[k % 4];
}

/* The next strip's values are on their way when these have become codes. */
PITHI_LOCAL(pithi_strip_put_codes, uint32_t strip, uint32_t next, bool more) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_strip_place at = pithi_strip_find(g, t, strip);
    const struct pithi_strip_place then = pithi_strip_find(g, t, more ? next : strip);
    const uint32_t first = t->tid % PITHI_STRIP_LANES * PITHI_UNIT;
    const uint8_t *from = pithi_strip_value(g, then.token, then.column);
    uint8_t *to = pithi_strip_codes(g, &at);
    uint32_t fine[PITHI_UNIT], most[PITHI_UNIT], token[PITHI_UNIT];
    (void)a;
    pithi_strip_eight(s->paged.up + first, fine);
    pithi_strip_eight(s->paged.up + PITHI_STRIP_COLUMNS + first, most);
    pithi_strip_eight(s->paged.down + first, token);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) token[k] -= t->tid / PITHI_STRIP_LANES;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_STRIP_DEEP; u++) {
        uint32_t codes = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const uint32_t word = t->kv.strip[u].word[k / 2];
            const float x = pithi_float(k % 2 ? word & 0xFFFF0000u : word << 16);
            const float far = pithi_float(most[k]), by = pithi_float(fine[k]);
            const float v = token[k] == u * PITHI_STRIP_ROWS ? 0 : x * by;
            const float y = pithi_smaller(pithi_larger(v, -far), far);
            const uint32_t cell = pithi_bits(pithi_lift(y)) % PITHI_STRIP_CELLS;
            const uint32_t code =
                s->paged.strips.below[cell] + (y >= s->paged.strips.threshold[cell] ? 1u : 0);
            codes |= code << 4 * k;
        }
        pithi_put_aligned32(to, codes);
        to += g->heads * g->string * PITHI_STRIP_ROWS;
        if (more) t->kv.strip[u] = pithi_get_quad(from);
        from += 2 * g->token_stride * PITHI_STRIP_ROWS;
    }
}

/* Part of a body: the team's full strips. */
PITHI_DEVICE void pithi_strips_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint32_t end = pithi_strips_full(&s->paged.page);
    uint32_t strip = s->paged.page.part;
    if (strip >= end) return;
    PITHI_STEP(pithi_strip_load, strip);
    PITHI_RUN(pithi_strips_open, PITHI_STRIP_CELLS);
    for (; strip < end; strip += a->kv.parts) {
        const uint32_t next = strip + a->kv.parts;
        PITHI_STEP(pithi_strip_edges, strip);
        PITHI_RUN(pithi_columns_publish, strip);
        PITHI_RUN(pithi_strip_finish, strip);
        PITHI_STEP(pithi_strip_put_codes, strip, next, next < end);
    }
    PITHI_MEET(); /* what follows may use the team's memory for something else */
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* Codes, and of the thread's columns scales, outliers and their tokens. */
PITHI_LOCAL(pithi_strip_fetch, uint32_t strip) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_strip_place at = pithi_strip_find(g, t, strip);
    const uint32_t number = pithi_strip_group(g, at.band, at.column);
    const uint8_t *codes = pithi_strip_codes(g, &at);
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_STRIP_DEEP; u++) {
        t->kv.strip[u].word[0] = pithi_get_aligned32(codes);
        codes += g->heads * g->string * PITHI_STRIP_ROWS;
    }
    t->kv.grids[0] = pithi_get_quad(g->bytes + 2 * number);
    t->kv.grids[1] = pithi_get_quad(g->exact + 2 * number);
    t->kv.tokens = pithi_get_aligned64(g->places + number);
}

PITHI_LOCAL(pithi_strip_put, uint32_t strip, uint32_t next, bool more) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_strip_place at = pithi_strip_find(g, t, strip);
    const struct pithi_quad scales = t->kv.grids[0], exact = t->kv.grids[1];
    const uint64_t tokens = t->kv.tokens;
    uint8_t *to = pithi_strip_value(g, at.token, at.column);
    const uint32_t row = t->tid / PITHI_STRIP_LANES;
    uint32_t codes[PITHI_STRIP_DEEP], lost[4], token[PITHI_UNIT];
    float scale[PITHI_UNIT];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_STRIP_DEEP; u++) codes[u] = t->kv.strip[u].word[0];
    if (more) pithi_strip_fetch(a, s, t, next);
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
        const uint32_t both = scales.word[k], high = pithi_halves_lost(both);
        lost[k] = (high >> 15) * 0xFFFFu; /* a half each that means NaN */
        scale[2 * k] = pithi_half_value(both << 16);
        scale[2 * k + 1] = pithi_half_value(both);
        if (row == 0) t->read.poisoned += (high >> 31) + (high >> 15 & 1);
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) token[k] =
        ((uint32_t)(tokens >> 8 * k) & 0xFFu) - row;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_STRIP_DEEP; u++) {
        struct pithi_quad out;
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            const uint32_t two = codes[u] >> 8 * k;
            const float *const level = s->paged.book.level;
            const float x = level[two & 15] * scale[2 * k] + 0.0f;
            const float y = level[two >> 4 & 15] * scale[2 * k + 1] + 0.0f;
            uint32_t pair = pithi_bf16_pair(x, y);
            pair = (pair & ~lost[k]) | (0x7FC07FC0u & lost[k]);
            if (token[2 * k] == u * PITHI_STRIP_ROWS)
                pair = (pair & 0xFFFF0000u) | (exact.word[k] & 0xFFFFu);
            if (token[2 * k + 1] == u * PITHI_STRIP_ROWS)
                pair = (pair & 0xFFFFu) | (exact.word[k] & 0xFFFF0000u);
            out.word[k] = pair;
        }
        pithi_put_quad(to, out);
        to += 2 * g->token_stride * PITHI_STRIP_ROWS;
    }
}

PITHI_DEVICE void pithi_strips_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint32_t end = pithi_strips_full(&s->paged.page);
    uint32_t strip = s->paged.page.part;
    if (strip >= end) return;
    PITHI_STEP(pithi_strip_fetch, strip);
    for (; strip < end; strip += a->kv.parts) {
        const uint32_t next = strip + a->kv.parts;
        PITHI_STEP(pithi_strip_put, strip, next, next < end);
    }
}

#endif
