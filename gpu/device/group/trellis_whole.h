/* trellis_whole.h - a whole segment to codes of trellises, in kernels that know their settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What trellis.h does with any segment, here of groups that lie in a warp's units and are a
 * sequence each. All elements exist and everything is aligned. The two units of a thread are
 * neighbours, so that more of a rotation and of a group is in one thread; each finds for itself
 * what the values of its group are multiplied by. Scales are made at the end of the segment, of all
 * its groups at once. So warps wait for each other around paths and once in a tile. Values are read
 * again behind paths: with them in the team's memory there would be half as many paths at once, and
 * who waits for these is what takes longest. Part of trellis.h. */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_WHOLE_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_WHOLE_H

#include "device/group/trellis_path.h"
#include "device/group/whole.h"

/* Neighbouring elements of a thread, as many as a group's sums have lanes. */
enum { PITHI_TRELLIS_RUN = PITHI_UNITS * PITHI_UNIT };
static_assert((int)PITHI_TRELLIS_RUN == PITHI_LANES && (int)PITHI_TRELLIS_RUN == PITHI_TRELLIS_LOOK,
              "a run is looked at, and is a row of products");

/* Whether segments may be coded so, as far as settings go. No value is clamped then, no metric gets
 * to its limit, and the squares of a group's levels have a sum below 2^24, exact in any order. */
PITHI_DEVICE bool pithi_trellis_suits(const struct pithi_device_plan *p) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    return (set->bits == 2 || set->bits == 4) && set->scale_dtype == PITH_F32 &&
           set->group >= PITHI_TRELLIS_WHOLE / PITHI_TRELLIS_GROUPS &&
           set->group <= PITHI_TRELLIS_SEQUENCE && p->dtype == PITH_F32 &&
           p->base_dtype == PITH_NONE && !p->ranges && !p->device.groups.rotation.signs &&
           !p->device.feedback && (uint64_t)1 << p->block_log2 >= PITHI_TRELLIS_WHOLE;
}

/* Where the thread's elements begin in a tile, and the number of its group in the segment. */
PITHI_DEVICE uint32_t pithi_trellis_inside(const struct pithi_gpu_thread *t) {
    return t->tid * PITHI_TRELLIS_RUN;
}
PITHI_DEVICE uint32_t pithi_trellis_group(const struct pithi_gpu_call *a,
                                          const struct pithi_gpu_thread *t, uint64_t segment,
                                          uint64_t tile) {
    return ((uint32_t)(tile - segment) + pithi_trellis_inside(t)) >>
           pithi_trellis_log2(a->to.plan.device.groups.set.group);
}
/* Threads of a group. */
PITHI_DEVICE uint32_t pithi_trellis_threads(const struct pithi_gpu_call *a) {
    return a->to.plan.device.groups.set.group / PITHI_TRELLIS_RUN;
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* t->x := the thread's values, rotated as far as its own go. */
PITHI_LOCAL(pithi_trellis_fetch, uint64_t tile) {
    const struct pithi_rotated whole = {true, 0, 0};
    const uint32_t order = a->to.plan.device.groups.rotation.order;
    const uint8_t *const from = s->to.tensor + 4 * (tile + pithi_trellis_inside(t));
    struct pithi_quad quad[PITHI_TRELLIS_RUN / 4];
    PITHI_UNROLL for (uint32_t q = 0; q < PITHI_TRELLIS_RUN / 4; q++) {
        quad[q] = pithi_get_quad(from + 16 * q);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] =
            pithi_float(quad[2 * u + k / 4].word[k % 4]);
        PITHI_UNROLL for (uint32_t half = 1; half < PITHI_UNIT; half *= 2) {
            if (half < order) pithi_unit_stride(whole, half, t->x[u]);
        }
    }
    if (order <= PITHI_UNIT) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const float x = t->x[0][k], y = t->x[1][k];
        t->x[0][k] = x + y;
        t->x[1][k] = x - y;
    }
}
/* A stride between threads that are so many apart. */
PITHI_LOCAL(pithi_trellis_across, uint32_t apart) {
    const uint32_t sign = t->tid & apart ? 0x80000000u : 0;
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            t->x[u][k] = t->y[u][k] + pithi_float(pithi_bits(t->x[u][k]) ^ sign);
}

/* Part of a body: t->x := what groups of a tile are made of. */
PITHI_DEVICE void pithi_trellis_whole_fill(const struct pithi_gpu_call *a,
                                           struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                           struct pithi_team *team, uint64_t tile) {
    PITHI_STEP(pithi_trellis_fetch, tile);
    PITHI_UNROLL for (uint32_t apart = 1; apart < PITHI_WARP; apart *= 2) {
        if (apart * PITHI_TRELLIS_RUN >= a->to.plan.device.groups.rotation.order) continue;
        PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)
            PITHI_WARP_SWAP(x[u_], y[u_], PITHI_UNIT, apart);
        PITHI_STEP(pithi_trellis_across, apart);
    }
}

/* Part of a body: got := what the thread so many lanes away sent. */
#define PITHI_TRELLIS_SWAP(lanes) PITHI_WARP_SWAP(trellis.sent, trellis.got, 1, lanes)

/* ---- Words -----------------------------------------------------------------------------------*/

/* sent := the thread's largest magnitude, doubled, so that nothing is to be masked. */
PITHI_LOCAL(pithi_trellis_peak, uint64_t tile) {
    uint32_t most = 0;
    (void)a, (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t size = pithi_bits(t->x[u][k]) << 1;
        most = size > most ? size : most;
    }
    t->trellis.sent[0] = most;
}
PITHI_LOCAL(pithi_trellis_peak_meet, uint64_t tile) {
    (void)a, (void)s, (void)tile;
    if (t->trellis.got[0] > t->trellis.sent[0]) t->trellis.sent[0] = t->trellis.got[0];
}

/* unit, other := what values of the group are multiplied by if it was decoded before, and if not.
 * sent := whether the thread, if it has the first values of a group, has one that is no level. */
PITHI_PHASE(pithi_trellis_rate, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t largest = t->trellis.sent[0] >> 1;
    const float m = pithi_float(largest);
    if (m >= 0x1p-60f && m <= 0x1p60f) { /* all scales are numbers, and none is 0 */
        t->trellis.unit = pithi_bits((float)of->top / m);
        t->trellis.other = pithi_bits((float)pithi_trellis_reach(set->bits, set->group) / m);
    } else {
        pithi_trellis_units(set, of->top, PITH_F32, largest, set->group, &t->trellis.unit,
                            &t->trellis.other);
    }
    t->trellis.from[0] = 0;
    if (t->tid % pithi_trellis_threads(a)) return;
    const float unit = pithi_float(t->trellis.unit);
    const uint32_t i = pithi_trellis_group(a, t, segment, tile);
    bool levels = true;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) levels =
            levels && pithi_trellis_marked(&s->trellis.tables, t->x[u][k] * unit);
    t->trellis.sent[0] = !levels;
    s->trellis.any.largest[i] = largest;
    s->trellis.any.unit[i] = t->trellis.unit;
    s->trellis.any.other[i] = levels ? t->trellis.other : t->trellis.other | 0x80000000u;
}

/* Into the team's memory the words of a tile. */
PITHI_PHASE(pithi_trellis_whole_words, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t log2 = pithi_trellis_log2(set->group), paths = PITHI_TRELLIS_WHOLE >> log2;
    const uint32_t i = pithi_trellis_group(a, t, segment, tile);
    const uint32_t j = t->tid % pithi_trellis_threads(a) * PITHI_UNITS;
    const float unit = pithi_float(t->trellis.got[0] ? t->trellis.other : t->trellis.unit);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        uint32_t word[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] =
            pithi_trellis_worded(t->x[u][k] * unit);
        pithi_put_quad(pithi_trellis_slot(s->trellis.any.slot, paths, i, j + u),
                       pithi_trellis_paired(word));
    }
}

/* ---- Paths -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_trellis_whole_paths, uint64_t segment) {
    const uint32_t group = a->to.plan.device.groups.set.group, log2 = pithi_trellis_log2(group);
    struct pithi_trellis_path p;
    (void)segment;
    p.slot = s->trellis.any.slot;
    p.paths = PITHI_TRELLIS_WHOLE >> log2;
    p.path = t->tid;
    p.count = group;
    p.mirrored = true;
    p.limits = false;
    if (p.path >= p.paths || !s->trellis.any.unit[p.path]) return;
    const uint32_t last = pithi_trellis_forward(&s->trellis.tables, &p);
    s->trellis.any.begin[p.path] = (uint8_t)pithi_trellis_backward(
        &p, last, s->trellis.any.chosen + (p.path << log2) / PITHI_UNIT);
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

/* Codes of a unit without their lowest bits: the last bits of what is near its values, side by
 * side. In half a word each has its place, and what `near` has before it gets out of the way. */
PITHI_DEVICE uint32_t pithi_trellis_side_by_side(const uint32_t near[8], uint32_t bits) {
    const uint32_t each = 16 / bits;
    uint32_t half[2] = {0, 0};
    PITHI_UNROLL for (uint32_t i = 0; i < PITHI_UNIT; i++) {
        const uint32_t k = PITHI_UNIT - 1 - i;
        half[k / each % 2] = (half[k / each % 2] << bits) + near[k];
    }
#ifdef __CUDACC__
    return __byte_perm(half[0], half[1], 0x5410);
#else
    return (half[0] & 0xFFFFu) | half[1] << 16;
#endif
}

/* Where quad q of the products of run `run` of a tile is. A run is written by a thread, and each of
 * its elements read by another, together with the run of the group behind: all in different
 * banks. */
PITHI_DEVICE uint32_t pithi_trellis_place(uint32_t log2, uint32_t run, uint32_t q) {
    const uint32_t group = run >> (log2 - 4), at = run ^ (group & 1);
    return at * PITHI_TRELLIS_RUN + (q ^ (run >> 1 & 3)) * 4;
}

/* Into the frame the codes of a tile; what sums are formed of to the team's memory; sent := the sum
 * of the squares of levels. */
PITHI_PHASE(pithi_trellis_whole_codes, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t log2 = pithi_trellis_log2(set->group), bits = set->bits;
    const uint32_t i = pithi_trellis_group(a, t, segment, tile);
    const uint32_t number = ((uint32_t)(tile - segment) + pithi_trellis_inside(t)) / PITHI_UNIT;
    const float unit = pithi_trellis_unit_of(&s->trellis.any, i);
    const uint32_t begin = s->trellis.any.begin[i];
    float *const product = s->trellis.any.products[tile / PITHI_TILE % 2];
    const bool begins = t->tid % pithi_trellis_threads(a) == 0;
    uint32_t code[PITHI_UNITS];
    float squares = 0;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t lows =
            pithi_trellis_lows(s->trellis.any.chosen, number + u, begin, begins && u == 0);
        const uint32_t parity = lows ^ lows >> 2 ^ lows >> 3;
        const uint32_t subset =
            pithi_trellis_spread(parity, 4) << 3 | pithi_trellis_spread(lows >> 1, 4) << 2;
        uint32_t near[PITHI_UNIT];
        struct pithi_quad part[2];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const float v = t->x[u][k] * unit;
            near[k] = pithi_trellis_near(&s->trellis.tables,
                                         pithi_trellis_celled(pithi_trellis_whole_number(v)),
                                         subset >> 4 * k & 12);
            const float level = pithi_trellis_near_level(near[k]);
            part[k / 4].word[k % 4] = pithi_bits(v * level);
            squares += level * level;
        }
        PITHI_UNROLL for (uint32_t q = 0; q < 2; q++)
            pithi_put_quad(product + pithi_trellis_place(log2, t->tid, 2 * u + q), part[q]);
        code[u] = pithi_trellis_side_by_side(near, bits) | pithi_trellis_spread(lows >> 3, bits);
        code[u] = unit == 0 ? 0 : begin ? ~code[u] : code[u];
    }
    t->trellis.sent[0] = pithi_bits(squares);
    const struct pithi_gpu_spot spot = pithi_spot(&a->to.plan, s->to.form, s->to.slot->count, tile);
    uint8_t *const to = s->to.payload + pithi_spot_codes(&a->to.plan, &spot) +
                        t->tid * (PITHI_TRELLIS_RUN / 8 * bits);
    if (bits == 4)
        pithi_put_aligned64(to, (uint64_t)code[1] << 32 | code[0]);
    else
        pithi_put_aligned32(to, (code[0] & 0xFFFFu) | code[1] << 16);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

PITHI_LOCAL(pithi_trellis_join, uint64_t tile) {
    (void)a, (void)s, (void)tile;
    t->trellis.sent[0] =
        pithi_bits(pithi_float(t->trellis.sent[0]) + pithi_float(t->trellis.got[0]));
}
PITHI_PHASE(pithi_trellis_squares, uint64_t segment, uint64_t tile) {
    if (t->tid % pithi_trellis_threads(a)) return;
    s->trellis.any.total[1][pithi_trellis_group(a, t, segment, tile)] =
        pithi_float(t->trellis.sent[0]);
}

/* Groups of a tile that a team sums at once, 16 threads to one: half of them, or all. */
enum { PITHI_TRELLIS_HALF = PITHI_TEAM / PITHI_LANES };

/* sum := of the products of a lane of two groups, each in the other half of the tile. */
PITHI_LOCAL(pithi_trellis_gather, uint64_t tile) {
    const uint32_t group = a->to.plan.device.groups.set.group, log2 = pithi_trellis_log2(group);
    const uint32_t first = t->tid / PITHI_LANES, runs = group / PITHI_TRELLIS_RUN;
    /* Bits 2 to 4 of a place are turned, see pithi_trellis_place, alike in both halves. */
    const uint32_t lane = t->tid % PITHI_LANES ^ (first & 1) << 4;
    const float *const from = s->trellis.any.products[tile / PITHI_TILE % 2] + (first << log2);
    PITHI_UNROLL for (uint32_t half = 0; half < 2; half++) {
        float sum = 0;
        t->trellis.sum[half] = 0;
        if (half * PITHI_TRELLIS_HALF + first >= (uint32_t)PITHI_TILE >> log2) continue;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRELLIS_SEQUENCE / PITHI_TRELLIS_RUN; k++) {
            if (k >= runs) continue;
            sum +=
                from[(half * PITHI_TRELLIS_HALF << log2) + (lane ^ (k << 4 | (k >> 1 & 3) << 2))];
        }
        t->trellis.sum[half] = sum;
    }
}
/* The first eight threads of 16 keep the first group's, and get what the others have of it. */
PITHI_LOCAL(pithi_trellis_part, uint64_t tile) {
    const float first = t->trellis.sum[0], second = t->trellis.sum[1];
    (void)a, (void)s, (void)tile;
    t->trellis.sum[0] = t->tid & PITHI_LANES / 2 ? second : first;
    t->trellis.sent[0] = pithi_bits(t->tid & PITHI_LANES / 2 ? first : second);
}
PITHI_LOCAL(pithi_trellis_part_meet, uint64_t tile) {
    (void)a, (void)s, (void)tile;
    t->trellis.sent[0] = pithi_bits(t->trellis.sum[0] + pithi_float(t->trellis.got[0]));
}
PITHI_PHASE(pithi_trellis_gathered, uint64_t segment, uint64_t tile) {
    const uint32_t log2 = pithi_trellis_log2(a->to.plan.device.groups.set.group);
    const uint32_t lane = t->tid % PITHI_LANES, half = lane / (PITHI_LANES / 2);
    const uint32_t i = half * PITHI_TRELLIS_HALF + t->tid / PITHI_LANES;
    if (lane % (PITHI_LANES / 2) || i >= (uint32_t)PITHI_TILE >> log2) return;
    s->trellis.any.total[0][((uint32_t)(tile - segment) >> log2) + i] =
        pithi_float(t->trellis.sent[0]);
}

/* Scales, of all groups of a segment, to the frame. */
PITHI_PHASE(pithi_trellis_whole_finish, uint64_t segment) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t log2 = pithi_trellis_log2(set->group), i = t->tid;
    if (i >= (uint32_t)PITHI_TRELLIS_WHOLE >> log2) return;
    const uint32_t largest = s->trellis.any.largest[i];
    const float sum[2] = {s->trellis.any.total[0][i], s->trellis.any.total[1][i]};
    const bool coded = s->trellis.any.unit[i];
    const float scale = coded ? pithi_trellis_fitted(set, of, PITH_F32, largest, set->group,
                                                     s->trellis.any.other[i], sum)
                              : pithi_trellis_utmost(set, of->top, PITH_F32, largest);
    const uint32_t sign = coded && s->trellis.any.begin[i] ? 0x80000000u : 0;
    t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
    const struct pithi_gpu_spot spot =
        pithi_spot(p, s->to.form, s->to.slot->count, segment + ((uint64_t)i << log2));
    pithi_put_aligned32(s->to.payload + pithi_spot_scale(p, &spot), pithi_bits(scale) ^ sign);
}

/* ---- The segment -----------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_trellis_whole_enter(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t segment,
                                            uint64_t tile) {
    const uint32_t threads = pithi_trellis_threads(a);
    PITHI_STEP(pithi_trellis_peak, tile);
    PITHI_UNROLL for (uint32_t step = 1; step < PITHI_WARP; step *= 2) {
        if (step >= threads) continue;
        PITHI_TRELLIS_SWAP(step);
        PITHI_STEP(pithi_trellis_peak_meet, tile);
    }
    PITHI_STEP(pithi_trellis_rate, segment, tile);
    PITHI_WARP_PICK(trellis.sent[0], trellis.got, trellis.from, 1, threads);
    PITHI_STEP(pithi_trellis_whole_words, segment, tile);
}

PITHI_DEVICE void pithi_trellis_whole_leave(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t segment,
                                            uint64_t tile) {
    const uint32_t threads = pithi_trellis_threads(a);
    PITHI_RUN(pithi_trellis_whole_codes, segment, tile);
    PITHI_UNROLL for (uint32_t step = 1; step < PITHI_WARP; step *= 2) {
        if (step >= threads) continue;
        PITHI_TRELLIS_SWAP(step);
        PITHI_STEP(pithi_trellis_join, tile);
    }
    PITHI_STEP(pithi_trellis_squares, segment, tile);
    PITHI_STEP(pithi_trellis_gather, tile);
    PITHI_STEP(pithi_trellis_part, tile);
    PITHI_TRELLIS_SWAP(PITHI_LANES / 2);
    PITHI_STEP(pithi_trellis_part_meet, tile);
    PITHI_UNROLL for (uint32_t step = PITHI_LANES / 4; step; step /= 2) {
        PITHI_TRELLIS_SWAP(step);
        PITHI_STEP(pithi_trellis_join, tile);
    }
    PITHI_STEP(pithi_trellis_gathered, segment, tile);
}

PITHI_DEVICE void pithi_trellis_encode_whole(const struct pithi_gpu_call *a,
                                             struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                             struct pithi_team *team, uint64_t segment) {
    const uint64_t end = segment + PITHI_TRELLIS_WHOLE;
    PITHI_STEP(pithi_tile_whole, true);
    PITHI_ROLLED for (uint64_t tile = segment; tile < end; tile += PITHI_TILE) {
        pithi_trellis_whole_fill(a, s, t, team, tile);
        pithi_trellis_whole_enter(a, s, t, team, segment, tile);
    }
    PITHI_MEET(); /* scales are there, and nobody looks at what sums were formed of */
    PITHI_RUN(pithi_trellis_whole_paths, segment);
    PITHI_ROLLED for (uint64_t tile = segment; tile < end; tile += PITHI_TILE) {
        pithi_trellis_whole_fill(a, s, t, team, tile);
        pithi_trellis_whole_leave(a, s, t, team, segment, tile);
    }
    PITHI_MEET(); /* scales are there, and nobody looks at what sums were formed of */
    PITHI_RUN(pithi_trellis_whole_finish, segment);
}

#endif
