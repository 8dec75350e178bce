/* trellis_whole.h - a whole segment to codes of trellises, in kernels that know their settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What trellis.h does with any segment, here of groups that lie in a warp's row and are a sequence
 * each. All elements exist and everything is aligned; every thread finds for itself what the values
 * of its groups are multiplied by, and scales are made at the end of the segment, of all its groups
 * at once. So warps wait for each other around paths and once in a tile. Part of trellis.h. */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_WHOLE_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_WHOLE_H

#include "device/group/trellis_path.h"
#include "device/group/whole.h"

/* Whether segments may be coded so, as far as settings go. No value is clamped then, no metric gets
 * to its limit, and the squares of a group's levels have a sum below 2^24, exact in any order. */
PITHI_DEVICE bool pithi_trellis_suits(const struct pithi_device_plan *p) {
    const struct pithi_group_setting *const set = &p->device.set;
    return (set->bits == 2 || set->bits == 4) && set->scale_dtype == PITH_F32 &&
           set->group >= PITHI_TRELLIS_SEGMENT / PITHI_TRELLIS_WHOLE &&
           set->group <= PITHI_TRELLIS_SEQUENCE && p->base_dtype == PITH_NONE && !p->device.decay &&
           (uint64_t)1 << p->block_log2 >= PITHI_TRELLIS_SEGMENT;
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* own[0] := the largest magnitude of the thread's own row, doubled; sent: that of the other. */
PITHI_LOCAL(pithi_trellis_peak, uint64_t tile) {
    uint32_t most[PITHI_UNITS];
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        most[u] = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const uint32_t size = pithi_bits(t->x[u][k]) << 1;
            most[u] = size > most[u] ? size : most[u];
        }
    }
    t->trellis.own[0] = t->tid % PITHI_UNITS ? most[1] : most[0];
    t->trellis.sent[0] = t->tid % PITHI_UNITS ? most[0] : most[1];
}
PITHI_LOCAL(pithi_trellis_peak_meet, uint64_t tile) {
    (void)a, (void)s, (void)tile;
    if (t->trellis.got[0] > t->trellis.own[0]) t->trellis.own[0] = t->trellis.got[0];
    t->trellis.sent[0] = t->trellis.own[0];
}

/* own := what values of the thread's own group are multiplied by if it was decoded before, and if
 * not. The first two threads of a group leave it for later. */
PITHI_PHASE(pithi_trellis_rate, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t largest = t->trellis.own[0] >> 1, lanes = set->group / PITHI_UNIT;
    const float m = pithi_float(largest);
    if (m >= 0x1p-60f && m <= 0x1p60f) { /* all scales are numbers, and none is 0 */
        t->trellis.own[0] = pithi_bits((float)of->top / m);
        t->trellis.own[1] = pithi_bits((float)pithi_trellis_reach(set->bits, set->group) / m);
    } else {
        pithi_trellis_units(set, of->top, PITH_F32, largest, set->group, &t->trellis.own[0],
                            &t->trellis.own[1]);
    }
    if (t->tid % lanes >= PITHI_UNITS) return;
    const uint32_t in_tile = t->tid % PITHI_UNITS * PITHI_ROW + t->tid * PITHI_UNIT;
    const uint32_t i = ((uint32_t)(tile - segment) + in_tile) >> pithi_trellis_log2(set->group);
    s->trellis.largest[i] = largest;
    s->trellis.unit[i] = t->trellis.own[0];
}

/* The unit of row u's group. */
PITHI_DEVICE float pithi_trellis_rated(const struct pithi_gpu_thread *t, uint32_t u, bool before) {
    const uint32_t own = before ? t->trellis.own[0] : t->trellis.own[1];
    const uint32_t other = before ? t->trellis.other[0] : t->trellis.other[1];
    return pithi_float(t->tid % PITHI_UNITS == u ? own : other);
}

/* sent, a bit for each row: whether the unit, if it is of a group's first two, has a value that is
 * no level. */
PITHI_LOCAL(pithi_trellis_glance, uint64_t tile) {
    const uint32_t lanes = a->to.plan.device.set.group / PITHI_UNIT;
    (void)tile;
    t->trellis.sent[0] = t->trellis.first[0] = 0;
    if (t->tid % lanes >= PITHI_TRELLIS_LOOK / PITHI_UNIT) return;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const float unit = pithi_trellis_rated(t, u, true);
        bool levels = true;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) levels =
            levels && pithi_trellis_marked(&s->trellis.tables, t->x[u][k] * unit);
        t->trellis.sent[0] |= (uint32_t)!levels << u;
    }
}
PITHI_LOCAL(pithi_trellis_glance_meet, uint64_t tile) {
    (void)a, (void)s, (void)tile;
    t->trellis.sent[0] |= t->trellis.got[0];
}

/* Into the team's memory the words of a tile; and whether a group was decoded before. */
PITHI_PHASE(pithi_trellis_whole_words, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.set;
    const uint32_t log2 = pithi_trellis_log2(set->group), paths = PITHI_TRELLIS_SEGMENT >> log2;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t at = (uint32_t)(pithi_unit_at(t, tile, u) - segment);
        const uint32_t inside = at & (set->group - 1);
        const bool fresh = t->trellis.got[0] >> u & 1;
        const float unit = pithi_trellis_rated(t, u, !fresh);
        uint32_t word[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] =
            pithi_trellis_worded(t->x[u][k] * unit);
        pithi_put_quad(pithi_trellis_slot(s->trellis.slot, paths, at >> log2, inside / PITHI_UNIT),
                       pithi_trellis_paired(word));
        if (inside) continue;
        s->trellis.other[at >> log2] =
            fresh ? pithi_bits(unit) | 0x80000000u : pithi_bits(pithi_trellis_rated(t, u, false));
    }
}

/* ---- Paths -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_trellis_whole_paths, uint64_t segment) {
    const uint32_t group = a->to.plan.device.set.group, log2 = pithi_trellis_log2(group);
    struct pithi_trellis_path p;
    (void)segment;
    p.slot = s->trellis.slot;
    p.paths = PITHI_TRELLIS_SEGMENT >> log2;
    p.path = t->tid;
    p.count = group;
    p.mirrored = true;
    p.limits = false;
    if (p.path >= p.paths || !s->trellis.unit[p.path]) return;
    const uint32_t last = pithi_trellis_forward(&s->trellis.tables, &p);
    s->trellis.begin[p.path] = (uint8_t)pithi_trellis_backward(
        &p, last, s->trellis.chosen + (p.path << log2) / PITHI_UNIT);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* The bits of a byte, `bits` apart. */
PITHI_DEVICE uint32_t pithi_trellis_spread(uint32_t byte, uint32_t bits) {
    uint32_t x = byte & 255;
    if (bits == 2) {
        x = (x | x << 4) & 0x0F0F;
        x = (x | x << 2) & 0x3333;
        return (x | x << 1) & 0x5555;
    }
    x = (x | x << 12) & 0x000F000F;
    x = (x | x << 6) & 0x03030303;
    return (x | x << 3) & 0x11111111;
}

/* Where a product of a tile goes, and the 15 behind it: neighbouring groups that threads of a warp
 * sum at once are in different banks. */
PITHI_DEVICE uint32_t pithi_trellis_place(uint32_t log2, uint32_t in_tile) {
    return in_tile ^ (in_tile >> log2 & 1) << 4;
}

/* Into the frame the codes of a tile; what sums are formed of to the team's memory; sum[u] := that
 * of the squares of levels. */
PITHI_PHASE(pithi_trellis_whole_codes, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.set;
    const uint32_t log2 = pithi_trellis_log2(set->group), bits = set->bits;
    float *const product = s->trellis.products[tile / PITHI_TILE % 2];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t at = (uint32_t)(e - segment), in_tile = (uint32_t)(e - tile);
        const float unit = pithi_trellis_unit_of(&s->trellis, at >> log2);
        const uint32_t begin = s->trellis.begin[at >> log2];
        const uint32_t lows = pithi_trellis_lows(s->trellis.chosen, at / PITHI_UNIT, begin,
                                                 (at & (set->group - 1)) == 0);
        const uint32_t parity = lows ^ lows >> 2 ^ lows >> 3;
        const uint32_t subset =
            pithi_trellis_spread(parity, 4) << 3 | pithi_trellis_spread(lows >> 1, 4) << 2;
        struct pithi_quad part[2];
        uint32_t codes = 0;
        float squares = 0;
        PITHI_UNROLL for (uint32_t i = 0; i < PITHI_UNIT; i++) {
            const uint32_t k = PITHI_UNIT - 1 - i;
            const float v = t->x[u][k] * unit;
            const uint32_t near = pithi_trellis_near(
                &s->trellis.tables, pithi_trellis_celled(pithi_trellis_whole_number(v)),
                subset >> 4 * k);
            const float level = pithi_trellis_near_level(near);
            part[k / 4].word[k % 4] = pithi_bits(v * level);
            squares += level * level;
            codes = codes << bits | (near & 14);
        }
        codes |= pithi_trellis_spread(lows >> 3, bits);
        codes ^= begin ? 0xFFFFFFFFu : 0;
        if (unit == 0) codes = 0;
        t->trellis.sum[u] = squares;
        float *const to = product + pithi_trellis_place(log2, in_tile);
        pithi_put_quad(to, part[0]);
        pithi_put_quad(to + 4, part[1]);
        uint8_t *const out =
            pithi_tile_place(t, t->group.to_codes + u * (PITHI_ROW / 8 * bits), bits);
        if (bits == 4)
            pithi_put_aligned32(out, codes);
        else
            pithi_put_aligned16(out, (uint16_t)codes);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* Of two sums a thread keeps sum[0]; the other is sent to the thread `apart` away, which keeps that. */
PITHI_LOCAL(pithi_trellis_part, uint32_t apart) {
    const float first = t->trellis.sum[0], second = t->trellis.sum[1];
    (void)a, (void)s;
    t->trellis.sum[0] = t->tid & apart ? second : first;
    t->trellis.sent[0] = pithi_bits(t->tid & apart ? first : second);
}
PITHI_LOCAL(pithi_trellis_join, uint64_t tile) {
    (void)a, (void)s, (void)tile;
    t->trellis.sum[0] += pithi_float(t->trellis.got[0]);
    t->trellis.sent[0] = pithi_bits(t->trellis.sum[0]);
}
PITHI_PHASE(pithi_trellis_squares, uint64_t segment, uint64_t tile) {
    const uint32_t group = a->to.plan.device.set.group;
    if (t->tid % (group / PITHI_UNIT) >= PITHI_UNITS) return;
    const uint32_t in_tile = t->tid % PITHI_UNITS * PITHI_ROW + t->tid * PITHI_UNIT;
    s->trellis.total[1][((uint32_t)(tile - segment) + in_tile) >> pithi_trellis_log2(group)] =
        t->trellis.sum[0];
}

/* Groups that a team sums at once, 16 threads to one: no fewer than half of a tile's. */
enum { PITHI_TRELLIS_HALF = PITHI_TEAM / PITHI_LANES };

PITHI_LOCAL(pithi_trellis_gather, uint64_t tile) {
    const uint32_t group = a->to.plan.device.set.group, log2 = pithi_trellis_log2(group);
    const float *const product = s->trellis.products[tile / PITHI_TILE % 2];
    const uint32_t groups = PITHI_TILE >> log2;
    PITHI_UNROLL for (uint32_t half = 0; half < 2; half++) {
        const uint32_t i = half * PITHI_TRELLIS_HALF + t->tid / PITHI_LANES;
        float sum = 0;
        t->trellis.sum[half] = 0;
        if (i >= groups) continue;
        const uint32_t at = (i << log2) + t->tid % PITHI_LANES;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRELLIS_SEQUENCE; k += PITHI_LANES) {
            if (k >= group) continue;
            sum += product[pithi_trellis_place(log2, at + k)];
        }
        t->trellis.sum[half] = sum;
    }
}
PITHI_PHASE(pithi_trellis_gathered, uint64_t segment, uint64_t tile) {
    const uint32_t log2 = pithi_trellis_log2(a->to.plan.device.set.group);
    const uint32_t lane = t->tid % PITHI_LANES, half = lane / (PITHI_LANES / 2);
    const uint32_t i = half * PITHI_TRELLIS_HALF + t->tid / PITHI_LANES;
    if (lane % (PITHI_LANES / 2) || i >= (uint32_t)PITHI_TILE >> log2) return;
    s->trellis.total[0][((uint32_t)(tile - segment) >> log2) + i] = t->trellis.sum[0];
}

/* Scales, of all groups of a segment, to the frame. */
PITHI_PHASE(pithi_trellis_whole_finish, uint64_t segment) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t log2 = pithi_trellis_log2(set->group), i = t->tid;
    if (i >= (uint32_t)PITHI_TRELLIS_SEGMENT >> log2) return;
    const uint32_t largest = s->trellis.largest[i];
    const float sum[2] = {s->trellis.total[0][i], s->trellis.total[1][i]};
    const bool coded = s->trellis.unit[i];
    const float scale = coded ? pithi_trellis_fitted(set, of, PITH_F32, largest, set->group,
                                                     s->trellis.other[i], sum)
                              : pithi_trellis_utmost(set, of->top, PITH_F32, largest);
    const uint32_t sign = coded && s->trellis.begin[i] ? 0x80000000u : 0;
    t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
    const struct pithi_gpu_spot spot =
        pithi_spot(p, s->to.form, s->to.slot->count, segment + ((uint64_t)i << log2));
    pithi_put_aligned32(s->to.payload + pithi_spot_scale(p, &spot), pithi_bits(scale) ^ sign);
}

/* ---- The segment -----------------------------------------------------------------------------*/

/* Part of a body: got := what the thread so many lanes away sent. */
#define PITHI_TRELLIS_SWAP(lanes) PITHI_WARP_SWAP(trellis.sent, trellis.got, 1, lanes)

PITHI_DEVICE void pithi_trellis_whole_enter(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t segment,
                                            uint64_t tile) {
    const uint32_t lanes = a->to.plan.device.set.group / PITHI_UNIT;
    PITHI_STEP(pithi_trellis_peak, tile);
    PITHI_UNROLL for (uint32_t step = 1; step < PITHI_WARP; step *= 2) {
        if (step >= lanes) continue;
        PITHI_TRELLIS_SWAP(step);
        PITHI_STEP(pithi_trellis_peak_meet, tile);
    }
    PITHI_STEP(pithi_trellis_rate, segment, tile);
    PITHI_WARP_SWAP(trellis.own, trellis.other, 2, 1);
    PITHI_STEP(pithi_trellis_glance, tile);
    PITHI_TRELLIS_SWAP(1);
    PITHI_STEP(pithi_trellis_glance_meet, tile);
    PITHI_WARP_PICK(trellis.sent[0], trellis.got, trellis.first, 1, lanes);
    PITHI_STEP(pithi_trellis_whole_words, segment, tile);
}

PITHI_DEVICE void pithi_trellis_whole_leave(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t segment,
                                            uint64_t tile) {
    const uint32_t lanes = a->to.plan.device.set.group / PITHI_UNIT;
    PITHI_RUN(pithi_trellis_whole_codes, segment, tile);
    PITHI_STEP(pithi_trellis_part, 1);
    PITHI_UNROLL for (uint32_t step = 1; step < PITHI_WARP; step *= 2) {
        if (step >= lanes) continue;
        PITHI_TRELLIS_SWAP(step);
        PITHI_STEP(pithi_trellis_join, tile);
    }
    PITHI_STEP(pithi_trellis_squares, segment, tile);
    PITHI_STEP(pithi_trellis_gather, tile);
    PITHI_STEP(pithi_trellis_part, PITHI_LANES / 2);
    PITHI_UNROLL for (uint32_t step = PITHI_LANES / 2; step; step /= 2) {
        PITHI_TRELLIS_SWAP(step);
        PITHI_STEP(pithi_trellis_join, tile);
    }
    PITHI_STEP(pithi_trellis_gathered, segment, tile);
}

PITHI_DEVICE void pithi_trellis_encode_whole(const struct pithi_gpu_call *a,
                                             struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                             struct pithi_team *team, uint64_t segment) {
    const uint64_t last = segment + PITHI_TRELLIS_SEGMENT - PITHI_TILE;
    PITHI_STEP(pithi_tile_whole, true);
    PITHI_ROLLED for (uint64_t tile = segment; tile <= last; tile += PITHI_TILE) {
        PITHI_ENCODE_FILL(PITHI_OF_TENSOR, tile, false);
        pithi_trellis_whole_enter(a, s, t, team, segment, tile);
    }
    PITHI_RUN(pithi_trellis_wait, segment);
    PITHI_RUN(pithi_trellis_whole_paths, segment);
    PITHI_ROLLED for (uint64_t tile = segment; tile <= last; tile += PITHI_TILE) {
        PITHI_ENCODE_FILL(PITHI_OF_TENSOR, tile, true);
        PITHI_STEP(pithi_whole_aim, tile, tile != segment);
        pithi_trellis_whole_leave(a, s, t, team, segment, tile);
    }
    PITHI_RUN(pithi_trellis_wait, segment);
    PITHI_RUN(pithi_trellis_whole_finish, segment);
}

#endif
