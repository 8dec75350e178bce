/* segments.h - codec kv with codebook=trellis along heads: four full tiles at once, which are 128
 * groups of 128 values, bf16.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A group's values are those of 16 neighbouring threads, so that a warp has all of its groups: what
 * they need of each other are exchanges of registers. Only paths are found by one thread a group,
 * of words in the team's memory. Of a thread's eight groups each has an owner, two of the 16
 * threads, which make its unit and its scale. */
#ifndef PITHI_GPU_DEVICE_KV_SEGMENTS_H
#define PITHI_GPU_DEVICE_KV_SEGMENTS_H

#include "device/group/trellis.h"
#include "device/kv/full.h"

/* Number among the segment's groups of that of unit u; which unit's group the thread owns. */
PITHI_DEVICE uint32_t pithi_segment_group(const struct pithi_gpu_thread *t, uint32_t u) {
    return u * (PITHI_TEAM / PITHI_LANES) + t->tid / PITHI_LANES;
}
PITHI_DEVICE uint32_t pithi_segment_owned(const struct pithi_gpu_thread *t) {
    return t->tid % PITHI_LANES / 2;
}

/* ---- Units -----------------------------------------------------------------------------------*/

/* The larger of each of two pairs of numbers of 16 bits. */
PITHI_DEVICE uint32_t pithi_most_halves(uint32_t x, uint32_t y) {
#ifdef __CUDACC__
    return __vmaxu2(x, y);
#else
    const uint32_t high = x >> 16 > y >> 16 ? x : y, low = (x & 0xFFFFu) > (y & 0xFFFFu) ? x : y;
    return (high & 0xFFFF0000u) | (low & 0xFFFFu);
#endif
}

/* t->kv.strip := values; t->kv.pairs := the largest magnitude of each unit, two a word. */
PITHI_LOCAL(pithi_segment_load, uint32_t tile) {
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_SEGMENT_UNITS; u++) t->kv.strip[u] =
        pithi_get_quad(pithi_full_values(&s->paged.page, t, tile, u));
    PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) {
        uint32_t most[2] = {0, 0};
        PITHI_UNROLL for (uint32_t h = 0; h < 2; h++) {
            PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) most[h] =
                pithi_most_halves(most[h], t->kv.strip[2 * i + h].word[k] & 0x7FFF7FFFu);
            most[h] = pithi_most_halves(most[h], most[h] >> 16) & 0xFFFFu;
        }
        t->kv.pairs[i] = most[0] | most[1] << 16;
    }
}
PITHI_LOCAL(pithi_segment_join, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) t->kv.pairs[i] =
        pithi_most_halves(t->kv.pairs[i], t->kv.pairs_other[i]);
}

/* Finds the largest magnitude of the owned group, as f32, and both of its units; and where those of
 * other groups are. */
PITHI_LOCAL(pithi_segment_unit, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t u = pithi_segment_owned(t);
    uint32_t both = 0; /* by masks: a choice among registers would be one among addresses */
    (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t i = 0; i < 4; i++) both |=
        t->kv.pairs[i] & (0u - (uint32_t)(u / 2 == i));
    t->kv.owned_most = pithi_unit_widen(PITH_BF16, both >> u % 2 * 16 & 0xFFFFu);
    pithi_trellis_units(&p->device.groups.set, pithi_trellis_of(&a->to)->top, PITH_BF16,
                        t->kv.owned_most, PITHI_SEGMENT_GROUP, &t->kv.owned_unit,
                        &t->kv.owned_other);
    PITHI_UNROLL for (uint32_t i = 0; i < PITHI_SEGMENT_UNITS; i++) t->kv.owner[i] = 2 * i;
}

/* t->kv.apart[0] := a bit for each unit whose values are no levels, of those that are looked at. */
PITHI_LOCAL(pithi_segment_look, uint32_t tile) {
    const bool looks = t->tid % PITHI_LANES * PITHI_UNIT < PITHI_TRELLIS_LOOK;
    (void)a, (void)tile;
    t->kv.apart[0] = 0;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_SEGMENT_UNITS; u++) {
        const float unit = pithi_float(t->kv.by[u]);
        bool levels = true;
        if (!looks || unit == 0) continue;
        float x[PITHI_UNIT];
        pithi_full_spread(PITH_BF16, &t->kv.strip[u], x);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (levels) levels =
            pithi_trellis_marked(&s->paged.paths.tables, x[k] * unit);
        t->kv.apart[0] |= (levels ? 0u : 1u) << u;
    }
}
PITHI_LOCAL(pithi_segment_agree, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    t->kv.apart[0] |= t->kv.apart_other[0];
}

/* The owned group's unit that counts, for all of its threads, and for the one of its path. */
PITHI_PHASE(pithi_segment_choose, uint32_t tile) {
    const uint32_t u = pithi_segment_owned(t);
    (void)a, (void)tile;
    if (t->kv.owned_unit && t->kv.apart[0] >> u & 1) t->kv.owned_other |= 0x80000000u;
    t->kv.owned_unit = pithi_bits(pithi_trellis_unit(t->kv.owned_unit, t->kv.owned_other));
    s->paged.segment.unit[pithi_segment_group(t, u)] = t->kv.owned_unit;
}

/* ---- Paths -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_segment_put_words, uint32_t tile) {
    (void)a, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_SEGMENT_UNITS; u++) {
        float x[PITHI_UNIT];
        if (!t->kv.by[u]) continue;
        pithi_full_spread(PITH_BF16, &t->kv.strip[u], x);
        pithi_put_quad(
            pithi_trellis_slot(s->paged.segment.slot, PITHI_SEGMENT_GROUPS,
                               pithi_segment_group(t, u), t->tid % PITHI_LANES),
            pithi_trellis_words(s->paged.paths.tables.most, x, pithi_float(t->kv.by[u])));
    }
}

PITHI_PHASE(pithi_segment_find, uint32_t tile) {
    struct pithi_trellis_path path;
    (void)a, (void)tile;
    path.path = t->tid;
    if (path.path >= PITHI_SEGMENT_GROUPS || !s->paged.segment.unit[path.path]) return;
    path.slot = s->paged.segment.slot;
    path.paths = PITHI_SEGMENT_GROUPS;
    path.count = PITHI_SEGMENT_GROUP;
    path.mirrored = true;
    path.limits = false;
    const uint32_t last = pithi_trellis_forward(&s->paged.paths.tables, &path);
    s->paged.segment.begin[path.path] = (uint8_t)pithi_trellis_backward(
        &path, last, s->paged.segment.chosen + path.path * PITHI_LANES);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Reads values again, two units before they are coded: there are too few registers to keep them. */
PITHI_LOCAL(pithi_segment_reload, uint32_t tile, uint32_t first) {
    (void)a;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) t->kv.raw[i] =
        pithi_get_quad(pithi_full_values(&s->paged.page, t, tile, first + i));
}

/* The codes of a unit: what is near its values, and the lowest bits from bit 3 of `lows` on. */
PITHI_DEVICE uint32_t pithi_segment_codes(const uint32_t near[8], uint32_t lows, uint32_t bits) {
    uint32_t codes = 0, low = lows >> 3 & 0xFFu;
    /* A bit each goes to where its code is. */
    low = (low | low << 4 * (bits - 1)) & (bits == 2 ? 0x0F0Fu : 0x000F000Fu);
    low = (low | low << 2 * (bits - 1)) & (bits == 2 ? 0x3333u : 0x03030303u);
    low = (low | low << (bits - 1)) & (bits == 2 ? 0x5555u : 0x11111111u);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) codes |= (near[k] & 14) << k * bits;
    return codes | low;
}

/* Writes codes of units `first` and the one behind it to the page, products of values and levels to
 * the memory that slots were in, and sums up the squares of levels, which are whole numbers whose
 * sums are exact. */
PITHI_PHASE(pithi_segment_code, uint32_t tile, uint32_t first) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_page *const g = &s->paged.page;
    const struct pithi_gpu_segment *const of = &s->paged.segment;
    const struct pithi_trellis_tables *const tables = &s->paged.paths.tables;
    const uint32_t bits = p->device.groups.set.bits, j = t->tid % PITHI_LANES;
    const float most = (float)tables->most;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) {
        const uint32_t u = first + i, group = pithi_segment_group(t, u);
        const float unit = pithi_float(of->unit[group]);
        struct pithi_quad product[2] = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}};
        uint32_t codes = 0;
        float squares = 0;
        if (unit != 0) {
            const uint32_t begin = of->begin[group];
            const uint32_t lows =
                pithi_trellis_lows(of->chosen, group * PITHI_LANES + j, begin, j == 0);
            const uint32_t parity = lows ^ lows >> 2 ^ lows >> 3;
            uint32_t near[PITHI_UNIT];
            float x[PITHI_UNIT];
            pithi_full_spread(PITH_BF16, &t->kv.raw[i], x);
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
                const float v = x[k] * unit;
                const int32_t y = pithi_trellis_whole_number(pithi_within(v, -most, most));
                const uint32_t subset = (parity >> k & 1) << 3 | (lows >> (k + 1) & 1) << 2;
                near[k] = pithi_trellis_near(tables, pithi_trellis_celled(y), subset);
                const float level = pithi_trellis_near_level(near[k]);
                squares += level * level;
                product[k / 4].word[k % 4] = pithi_bits(v * level);
            }
            codes =
                bits == 2 ? pithi_segment_codes(near, lows, 2) : pithi_segment_codes(near, lows, 4);
            if (begin) codes = ~codes;
        }
        t->kv.squares[u] = squares;
        uint8_t *const to = g->codes + ((tile * PITHI_UNITS + u) * PITHI_TEAM + t->tid) * bits;
        if (bits == 2)
            pithi_put_aligned16(to, (uint16_t)codes);
        else
            pithi_put_aligned32(to, codes);
        float *const sums = s->paged.segment.product + (i * PITHI_TEAM + t->tid) * PITHI_UNIT;
        pithi_put_quad(sums, product[0]);
        pithi_put_quad(sums + 4, product[1]);
    }
}

/* t->kv.vq := sums of products, every 16th. */
PITHI_LOCAL(pithi_segment_add, uint32_t first) {
    (void)a;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) {
        const float *const from = s->paged.segment.product + i * PITHI_ROW +
                                  t->tid / PITHI_LANES * PITHI_SEGMENT_GROUP + t->tid % PITHI_LANES;
        float sum = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) sum +=
            pithi_float(pithi_get_aligned32(from + k * PITHI_LANES));
        t->kv.vq[first + i] = sum;
    }
}

/* ---- Scales ----------------------------------------------------------------------------------*/

/* Threads that are `lanes` apart share what each has of n groups: one keeps the first half. */
PITHI_LOCAL(pithi_segment_part, uint32_t n, uint32_t lanes) {
    const bool second = t->tid & lanes;
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
        if (k >= n / 2) continue;
        const float x = t->kv.vq[k], y = t->kv.vq[k + n / 2];
        const float v = t->kv.squares[k], w = t->kv.squares[k + n / 2];
        t->kv.vq[k] = second ? y : x;
        t->kv.squares[k] = second ? w : v;
        t->kv.sum_given[k] = second ? x : y;
        t->kv.squares_given[k] = second ? v : w;
    }
}
PITHI_LOCAL(pithi_segment_both, uint32_t n) {
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
        if (k >= n) continue;
        t->kv.vq[k] += t->kv.sum_taken[k];
        t->kv.squares[k] += t->kv.squares_taken[k];
    }
}
PITHI_LOCAL(pithi_segment_last, uint32_t tile) {
    (void)a, (void)s, (void)tile;
    t->kv.sum_given[0] = t->kv.vq[0];
    t->kv.squares_given[0] = t->kv.squares[0];
}

/* Writes the scale of an owned group; the first of its owners does. */
PITHI_LOCAL(pithi_segment_scale, uint32_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t group = pithi_segment_group(t, pithi_segment_owned(t));
    float scale = pithi_trellis_utmost(set, of->top, PITH_BF16, t->kv.owned_most);
    if (t->kv.owned_unit) {
        const float sum[2] = {t->kv.vq[0], t->kv.squares[0]};
        scale = pithi_trellis_fitted(set, of, PITH_BF16, t->kv.owned_most, PITHI_SEGMENT_GROUP,
                                     t->kv.owned_other, sum);
        if (s->paged.segment.begin[group]) scale = -scale;
    }
    if (t->tid % 2) return;
    pithi_put_aligned16(
        s->paged.page.bytes + 2 * (tile * (PITHI_TILE / PITHI_SEGMENT_GROUP) + group),
        pithi_to_f16(pithi_bits(scale)));
    t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
}

/* ---- Segments --------------------------------------------------------------------------------*/

/* Parts of a body. Units that are not constant would be indices into registers. */
#define PITHI_SEGMENT_CODE(first)                      \
    do {                                               \
        PITHI_STEP(pithi_segment_reload, tile, first); \
        PITHI_STEP(pithi_segment_code, tile, first);   \
        PITHI_WARP_SYNC();                             \
        PITHI_STEP(pithi_segment_add, first);          \
        PITHI_WARP_SYNC();                             \
    } while (0)
#define PITHI_SEGMENT_SHARE(n)                                           \
    do {                                                                 \
        PITHI_STEP(pithi_segment_part, n, n);                            \
        PITHI_WARP_SWAP(kv.sum_given, kv.sum_taken, (n) / 2, n);         \
        PITHI_WARP_SWAP(kv.squares_given, kv.squares_taken, (n) / 2, n); \
        PITHI_STEP(pithi_segment_both, (n) / 2);                         \
    } while (0)

/* Part of a body: the four tiles from `tile` on. */
PITHI_DEVICE void pithi_segment_encode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       uint32_t tile) {
    PITHI_STEP(pithi_segment_load, tile);
    PITHI_UNROLL for (uint32_t lanes = 1; lanes < PITHI_LANES; lanes *= 2) {
        PITHI_WARP_SWAP(kv.pairs, kv.pairs_other, 4, lanes);
        PITHI_STEP(pithi_segment_join, tile);
    }
    PITHI_STEP(pithi_segment_unit, tile);
    PITHI_WARP_PICK(kv.owned_unit, kv.by, kv.owner, PITHI_SEGMENT_UNITS, PITHI_LANES);
    PITHI_STEP(pithi_segment_look, tile);
    PITHI_UNROLL for (uint32_t lanes = 1; lanes < PITHI_LANES; lanes *= 2) {
        PITHI_WARP_SWAP(kv.apart, kv.apart_other, 1, lanes);
        PITHI_STEP(pithi_segment_agree, tile);
    }
    PITHI_STEP(pithi_segment_choose, tile);
    PITHI_WARP_PICK(kv.owned_unit, kv.by, kv.owner, PITHI_SEGMENT_UNITS, PITHI_LANES);
    PITHI_RUN(pithi_segment_put_words, tile);
    PITHI_RUN(pithi_segment_find, tile);
    PITHI_SEGMENT_CODE(0);
    PITHI_SEGMENT_CODE(2);
    PITHI_SEGMENT_CODE(4);
    PITHI_SEGMENT_CODE(6);
    PITHI_SEGMENT_SHARE(8);
    PITHI_SEGMENT_SHARE(4);
    PITHI_SEGMENT_SHARE(2);
    PITHI_STEP(pithi_segment_last, tile);
    PITHI_WARP_SWAP(kv.sum_given, kv.sum_taken, 1, 1);
    PITHI_WARP_SWAP(kv.squares_given, kv.squares_taken, 1, 1);
    PITHI_STEP(pithi_segment_both, 1);
    PITHI_STEP(pithi_segment_scale, tile);
    PITHI_MEET(); /* scales are there, and nobody looks at what sums were formed of */
}

/* The team's segments, of values that take one operation to be f32; returns how many tiles from the
 * first full one on they all are. */
PITHI_DEVICE uint32_t pithi_segments_encode(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team) {
    const struct pithi_gpu_page *const g = &s->paged.page;
    const bool any = a->to.plan.dtype == PITH_BF16 && g->fulls > g->full;
    const uint32_t end = any ? (g->fulls - g->full) / PITHI_SEGMENT_TILES : 0;
    for (uint32_t i = g->part; i < end; i += a->kv.parts)
        pithi_segment_encode(a, s, t, team, g->full + i * PITHI_SEGMENT_TILES);
    return end * PITHI_SEGMENT_TILES;
}

#endif
