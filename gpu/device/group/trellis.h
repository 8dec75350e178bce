/* trellis.h - kernels of trellis-coded groups.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A segment is read twice: for the largest values of its groups and, in units of levels, the words
 * that paths are found by; then for what codes, of which a path has chosen the lowest bits, are
 * besides, and for the sums that scales are made of. Groups longer than a tile are read once more
 * for each of these. */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_H

#include "device/group/decode.h"
#include "device/group/encode.h"
#include "device/group/trellis_path.h"
#include "device/raw.h"

/* ---- Places ----------------------------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_trellis_log2(uint32_t n) { return pithi_bit_length(n) - 1; }
/* Elements of a segment, of a sequence. */
PITHI_DEVICE uint32_t pithi_trellis_segment(const struct pithi_group_setting *set) {
    return set->group < PITHI_TRELLIS_SEGMENT / PITHI_TRELLIS_PATHS
               ? set->group * PITHI_TRELLIS_PATHS
               : (uint32_t)PITHI_TRELLIS_SEGMENT;
}
PITHI_DEVICE uint32_t pithi_trellis_sequence(const struct pithi_group_setting *set) {
    return set->group < PITHI_TRELLIS_SEQUENCE ? set->group : (uint32_t)PITHI_TRELLIS_SEQUENCE;
}
/* How many elements of a slot there are from e on, `most` at most. */
PITHI_DEVICE uint32_t pithi_trellis_left(const struct pithi_gpu_item *it, uint64_t e,
                                         uint32_t most) {
    const uint64_t count = it->slot->count;
    return e >= count ? 0 : count - e < most ? (uint32_t)(count - e) : most;
}

/* What the group's values are multiplied by: 0 where all codes are 0. */
PITHI_DEVICE float pithi_trellis_unit_of(const struct pithi_trellis_segment *g, uint32_t i) {
    return pithi_trellis_unit(g->unit[i], g->other[i]);
}

PITHI_PHASE(pithi_trellis_open, const struct pithi_gpu_side *side) {
    (void)a;
    pithi_trellis_table(pithi_trellis_of(side), t->tid, &s->trellis.tables);
}

/* ---- Words -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_trellis_clear, uint64_t segment) {
    (void)a, (void)segment;
    for (uint32_t i = t->tid; i < PITHI_TRELLIS_PATHS; i += PITHI_TEAM)
        s->trellis.any.largest[i] = 0;
}

PITHI_PHASE(pithi_trellis_publish, uint64_t segment, uint64_t tile) {
    const uint32_t log2 = pithi_trellis_log2(a->to.plan.device.groups.set.group);
    if (t->tid % pithi_group_lanes(&a->to.plan)) return;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        if (t->whole || e < s->to.slot->count)
            pithi_atomic_max32(&s->trellis.any.largest[(uint32_t)(e - segment) >> log2],
                               t->group.largest[u]);
    }
}

/* Units of groups [from, to) of a segment. */
PITHI_PHASE(pithi_trellis_scales, uint64_t segment, uint32_t from, uint32_t to) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const int top = pithi_trellis_of(&a->to)->top;
    for (uint32_t i = from + t->tid; i < to; i += PITHI_TEAM) {
        const uint32_t count =
            pithi_trellis_left(&s->to, segment + (uint64_t)i * set->group, set->group);
        if (!count) break;
        pithi_trellis_units(set, top, PITH_F32, s->trellis.any.largest[i], count,
                            &s->trellis.any.unit[i], &s->trellis.any.other[i]);
    }
}

/* Groups whose first values are no levels. */
PITHI_PHASE(pithi_trellis_look, uint64_t segment, uint64_t tile) {
    const uint32_t group = a->to.plan.device.groups.set.group, log2 = pithi_trellis_log2(group);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_tile_left(t, e, s->to.slot->count), at = (uint32_t)(e - segment);
        const uint32_t i = at >> log2;
        if (!n || (at & (group - 1)) >= PITHI_TRELLIS_LOOK || !s->trellis.any.unit[i]) continue;
        const float unit = pithi_float(s->trellis.any.unit[i]);
        bool levels = true;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) levels =
            levels && (k >= n || pithi_trellis_marked(&s->trellis.tables, t->x[u][k] * unit));
        if (!levels) pithi_atomic_or32(&s->trellis.any.other[i], 0x80000000u);
    }
}

PITHI_PHASE(pithi_trellis_put_words, uint64_t segment, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t group = pithi_trellis_log2(set->group), each = pithi_trellis_sequence(set);
    const uint32_t log2 = pithi_trellis_log2(each), paths = pithi_trellis_segment(set) >> log2;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t at = (uint32_t)(pithi_unit_at(t, tile, u) - segment);
        if (!t->whole && segment + at >= s->to.slot->count) continue;
        const float unit = pithi_trellis_unit_of(&s->trellis.any, at >> group);
        const struct pithi_quad none = {{0, 0, 0, 0}};
        const struct pithi_quad words =
            unit == 0 ? none : pithi_trellis_words(s->trellis.tables.most, t->x[u], unit);
        pithi_put_quad(pithi_trellis_slot(s->trellis.any.slot, paths, at >> log2,
                                          (at & (each - 1)) / PITHI_UNIT),
                       words);
    }
}

/* ---- Paths -----------------------------------------------------------------------------------*/

/* The number of a thread among those who find paths, of which two warps may be enough. Which ones
 * differs from segment to segment: a processor issues warps from four places, by their numbers. */
PITHI_DEVICE uint32_t pithi_trellis_turned(const struct pithi_gpu_thread *t, uint64_t number) {
    return t->tid ^ ((uint32_t)number * 0x9E3779B1u >> 31) * 64;
}

PITHI_PHASE(pithi_trellis_paths, uint64_t segment) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t each = pithi_trellis_sequence(set), log2 = pithi_trellis_log2(each);
    const uint32_t size = pithi_trellis_segment(set);
    const uint64_t left = s->to.end - segment;
    struct pithi_trellis_path p;
    p.slot = s->trellis.any.slot;
    p.paths = size >> log2;
    p.limits = pithi_trellis_limits(set);
    const uint32_t first = pithi_trellis_turned(t, segment / size);
    for (p.path = first; p.path << log2 < size && p.path << log2 < left; p.path += PITHI_TEAM) {
        const uint32_t at = p.path << log2, begin = at & ~(set->group - 1);
        p.count = pithi_trellis_left(&s->to, segment + at, each);
        p.mirrored =
            pithi_trellis_left(&s->to, segment + begin, set->group) <= PITHI_TRELLIS_SEQUENCE;
        if (pithi_trellis_unit_of(&s->trellis.any, at >> pithi_trellis_log2(set->group)) == 0)
            continue;
        const uint32_t last = pithi_trellis_forward(&s->trellis.tables, &p);
        s->trellis.any.begin[p.path] =
            (uint8_t)pithi_trellis_backward(&p, last, s->trellis.any.chosen + at / PITHI_UNIT);
    }
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Into the frame the codes of a tile; what sums are formed of to the team's memory; t->y := levels,
 * in scales. */
PITHI_PHASE(pithi_trellis_put_codes, uint64_t segment, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t group = pithi_trellis_log2(set->group), each = pithi_trellis_sequence(set);
    const uint32_t log2 = pithi_trellis_log2(each);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t at = (uint32_t)(e - segment), in_tile = (uint32_t)(e - tile);
        const uint32_t n = pithi_tile_left(t, e, it->slot->count);
        uint32_t codes = 0, level[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->y[u][k] = 0;
        if (!n) continue;
        pithi_unit_end(n, t->x[u]);
        const float unit = pithi_trellis_unit_of(&s->trellis.any, at >> group);
        if (unit != 0) {
            const uint32_t begin = s->trellis.any.begin[at >> log2];
            const uint32_t lows = pithi_trellis_lows(s->trellis.any.chosen, at / PITHI_UNIT, begin,
                                                     (at & (each - 1)) == 0);
            uint32_t code[PITHI_UNIT];
            pithi_trellis_codes(&s->trellis.tables,
                                pithi_trellis_words(s->trellis.tables.most, t->x[u], unit), lows,
                                code, t->y[u]);
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) codes |= code[k]
                                                                            << k * set->bits;
            codes ^= begin ? 0xFFFFFFFFu : 0;
            codes &= 0xFFFFFFFFu >> (32 - n * set->bits);
        }
        struct pithi_quad product[2], levels;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const float l = t->y[u][k] * PITHI_TRELLIS_UNIT;
            product[k / 4].word[k % 4] = pithi_bits(t->x[u][k] * unit * l);
            level[k] = (uint32_t)(int32_t)l & 0xFFFFu;
        }
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) levels.word[k] =
            level[2 * k] | level[2 * k + 1] << 16;
        pithi_put_quad(s->trellis.any.product + in_tile, product[0]);
        pithi_put_quad(s->trellis.any.product + in_tile + 4, product[1]);
        pithi_put_quad(s->trellis.any.level + in_tile, levels);
        const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, e);
        uint8_t *const to =
            pithi_tile_place(t, it->payload + pithi_spot_codes(p, &spot), set->bits);
        pithi_trellis_put(to, set->bits, n, codes);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* A thread's group of those of the tile from number `from` on, 16 threads to one: its elements in
 * the tile, of which it takes every 16th. */
PITHI_DEVICE uint32_t pithi_trellis_summand(const struct pithi_gpu_call *a,
                                            const struct pithi_gpu_shared *s,
                                            const struct pithi_gpu_thread *t, uint64_t tile,
                                            uint32_t from, uint32_t *at) {
    const uint32_t group = a->to.plan.device.groups.set.group;
    const uint32_t size = group < PITHI_TILE ? group : (uint32_t)PITHI_TILE;
    *at = (from + t->tid / PITHI_LANES) << pithi_trellis_log2(size);
    return *at >= PITHI_TILE ? 0 : pithi_trellis_left(&s->to, tile + *at, size);
}

/* more: of a group of which earlier tiles had a part. */
PITHI_LOCAL(pithi_trellis_add, uint64_t tile, uint32_t from, bool more) {
    uint32_t at;
    const uint32_t n = pithi_trellis_summand(a, s, t, tile, from, &at);
    float with_value = more ? t->trellis.sum[0] : 0, with_itself = more ? t->trellis.sum[1] : 0;
    for (uint32_t i = t->tid % PITHI_LANES; i < n; i += PITHI_LANES) {
        const float l = (float)s->trellis.any.level[at + i];
        with_value += s->trellis.any.product[at + i];
        with_itself += l * l;
    }
    t->trellis.sum[0] = with_value;
    t->trellis.sum[1] = with_itself;
}
PITHI_LOCAL(pithi_trellis_halve, uint32_t lanes) {
    (void)a, (void)s, (void)lanes;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) t->trellis.sum[i] += t->trellis.sum_other[i];
}

/* The scale of a thread's group, to the frame. */
PITHI_PHASE(pithi_trellis_finish, uint64_t segment, uint64_t tile, uint32_t from) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const uint32_t log2 = pithi_trellis_log2(set->group);
    uint32_t at;
    if (t->tid % PITHI_LANES || !pithi_trellis_summand(a, s, t, tile, from, &at)) return;
    const uint32_t i = ((uint32_t)(tile - segment) + at) >> log2;
    const uint64_t e = segment + ((uint64_t)i << log2);
    const uint32_t largest = s->trellis.any.largest[i];
    float scale = pithi_trellis_utmost(set, of->top, PITH_F32, largest);
    uint32_t sign = 0;
    if (s->trellis.any.unit[i]) {
        const uint32_t count = pithi_trellis_left(&s->to, e, set->group);
        const uint32_t path = (uint32_t)(e - segment) / pithi_trellis_sequence(set);
        scale = pithi_trellis_fitted(set, of, PITH_F32, largest, count, s->trellis.any.other[i],
                                     t->trellis.sum);
        sign = s->trellis.any.begin[path] ? 0x80000000u : 0;
    }
    s->trellis.any.largest[i] = pithi_bits(scale);
    t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
    const struct pithi_gpu_spot spot = pithi_spot(p, s->to.form, s->to.slot->count, e);
    pithi_scale_store(s->to.payload + pithi_spot_scale(p, &spot), set->scale_dtype, 0,
                      pithi_bits(scale) ^ sign);
}

/* Part of a body: the scales of a tile's groups; more, last: whether the tile is neither the first
 * nor the last of a longer group's. */
PITHI_DEVICE void pithi_trellis_fit(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t segment, uint64_t tile, bool more, bool last) {
    const uint32_t group = a->to.plan.device.groups.set.group;
    const uint32_t groups = group < PITHI_TILE ? PITHI_TILE >> pithi_trellis_log2(group) : 1;
    for (uint32_t from = 0; from < groups; from += PITHI_TEAM / PITHI_LANES) {
        PITHI_STEP(pithi_trellis_add, tile, from, more);
        if (!last) continue;
        for (uint32_t lanes = PITHI_LANES / 2; lanes; lanes /= 2) {
            PITHI_WARP_SWAP(trellis.sum, trellis.sum_other, 2, lanes);
            PITHI_STEP(pithi_trellis_halve, lanes);
        }
        PITHI_STEP(pithi_trellis_finish, segment, tile, from);
    }
}

/* ---- What is kept ----------------------------------------------------------------------------*/

/* The new base or residual. */
PITHI_LOCAL(pithi_trellis_update, uint64_t segment, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t log2 = pithi_trellis_log2(p->device.groups.set.group);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_tile_left(t, e, it->slot->count);
        uint64_t ignored = 0;
        if (!n) continue;
        const uint32_t scale = s->trellis.any.largest[(uint32_t)(e - segment) >> log2];
        pithi_trellis_scaled(scale, n, t->y[u], &ignored);
        if (p->base_dtype != PITH_NONE) pithi_encode_rebase(p, it, t, u, e, n, t->y[u]);
        if (p->device.feedback) pithi_encode_fade(a, it, e, n, t->x[u], t->y[u]);
    }
}

/* ---- Segments --------------------------------------------------------------------------------*/

/* What is done with the values of a tile, by passes over a segment: of groups that lie in a tile,
 * all that is before paths is one, and all behind them another. Values are filled in at one place,
 * since that is most of what a compiler sees. */
enum pithi_trellis_pass {
    PITHI_TRELLIS_MEASURE,
    PITHI_TRELLIS_SEEK,
    PITHI_TRELLIS_WORDS,
    PITHI_TRELLIS_CODES,
    PITHI_TRELLIS_KEEP,
    PITHI_TRELLIS_PASSES
};

PITHI_DEVICE void pithi_trellis_measure(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                        struct pithi_gpu_thread *t, struct pithi_team *team,
                                        uint64_t segment, uint64_t tile) {
    PITHI_STEP(pithi_encode_largest, tile);
    PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)
        PITHI_WARP_MAX(group.largest[u_], pithi_group_lanes(&a->to.plan));
    PITHI_RUN(pithi_trellis_publish, segment, tile);
}

/* Part of a body: a tile before paths. */
PITHI_DEVICE void pithi_trellis_enter(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team, int pass,
                                      uint64_t segment, uint64_t tile) {
    const uint32_t group = a->to.plan.device.groups.set.group, log2 = pithi_trellis_log2(group);
    const uint32_t first = (uint32_t)(tile - segment) >> log2;
    const bool longer = group > PITHI_TILE;
    if (pass == PITHI_TRELLIS_MEASURE) {
        pithi_trellis_measure(a, s, t, team, segment, tile);
        if (!longer) PITHI_RUN(pithi_trellis_scales, segment, first, first + (PITHI_TILE >> log2));
    }
    if (!longer || pass == PITHI_TRELLIS_SEEK) PITHI_RUN(pithi_trellis_look, segment, tile);
    if (!longer || pass == PITHI_TRELLIS_WORDS) PITHI_RUN(pithi_trellis_put_words, segment, tile);
}

/* A tile behind them. */
PITHI_DEVICE void pithi_trellis_leave(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team, int pass,
                                      uint64_t segment, uint64_t tile, uint64_t end) {
    const uint32_t group = a->to.plan.device.groups.set.group;
    const bool longer = group > PITHI_TILE;
    const bool keeps = a->to.plan.base_dtype != PITH_NONE || a->to.plan.device.feedback;
    const uint64_t next = tile + PITHI_TILE;
    PITHI_RUN(pithi_trellis_put_codes, segment, tile);
    if (pass == PITHI_TRELLIS_CODES) {
        const bool more = longer && ((tile - segment) & (group - 1));
        const bool last = !longer || next >= end || !((next - segment) & (group - 1));
        pithi_trellis_fit(a, s, t, team, segment, tile, more, last);
        PITHI_MEET(); /* scales are there, and nobody looks at what sums were formed of */
    }
    if (keeps && (!longer || pass == PITHI_TRELLIS_KEEP))
        PITHI_RUN(pithi_trellis_update, segment, tile);
}

/* The passes over a segment. whole: its tiles are. plain: codes are not of a trellis, as encode.h
 * makes them, but with the values filled in here. */
PITHI_DEVICE void pithi_trellis_encode_segment(const struct pithi_gpu_call *a,
                                               struct pithi_gpu_shared *s,
                                               struct pithi_gpu_thread *t, struct pithi_team *team,
                                               int of, bool plain, bool whole, uint64_t segment,
                                               uint64_t end) {
    const uint32_t group = a->to.plan.device.groups.set.group, log2 = pithi_trellis_log2(group);
    const bool longer = group > PITHI_TILE;
    const bool keeps = a->to.plan.base_dtype != PITH_NONE || a->to.plan.device.feedback;
    PITHI_STEP(pithi_tile_whole, whole);
    if (!plain) PITHI_RUN(pithi_trellis_clear, segment);
    PITHI_ROLLED for (int pass = 0; pass < PITHI_TRELLIS_PASSES; pass++) {
        const bool always = pass == PITHI_TRELLIS_MEASURE || pass == PITHI_TRELLIS_CODES;
        if (!always && (plain || !longer)) continue;
        if (pass == PITHI_TRELLIS_KEEP && !keeps) continue;
        if (pass == PITHI_TRELLIS_SEEK)
            PITHI_RUN(pithi_trellis_scales, segment, 0, PITHI_TRELLIS_SEGMENT >> log2);
        if (pass == PITHI_TRELLIS_CODES && plain)
            PITHI_ENCODE_SCALES(segment);
        else if (pass == PITHI_TRELLIS_CODES)
            PITHI_RUN(pithi_trellis_paths, segment);
        PITHI_ROLLED for (uint64_t tile = segment; tile < end; tile += PITHI_TILE) {
            if (!plain || longer || pass == PITHI_TRELLIS_MEASURE)
                PITHI_ENCODE_FILL(of, tile, pass > 0);
            if (plain && pass == PITHI_TRELLIS_MEASURE)
                PITHI_ENCODE_MEASURE(segment, tile);
            else if (plain)
                PITHI_RUN(pithi_encode_codes, segment, tile);
            else if (pass < PITHI_TRELLIS_CODES)
                pithi_trellis_enter(a, s, t, team, pass, segment, tile);
            else
                pithi_trellis_leave(a, s, t, team, pass, segment, tile, end);
        }
    }
}

#include "device/group/trellis_whole.h"

PITHI_DEVICE void pithi_trellis_groups(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       int of) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const bool plain = of == PITHI_OF_FRAMES && set->codebook != PITHI_CODEBOOK_TRELLIS;
    const uint32_t most = set->group > PITHI_TILE ? set->group : (uint32_t)PITHI_TILE;
    const uint32_t size = plain ? most : pithi_trellis_segment(set);
    if (!plain) PITHI_RUN(pithi_trellis_open, &a->to);
    const bool aligned = t->special && of == PITHI_OF_TENSOR && set->scale_dtype == PITH_F32 &&
                         (set->bits == 2 || set->bits == 4) && pithi_encode_aligned(a, s, of);
    const bool suits = pithi_trellis_suits(&a->to.plan);
    uint64_t at = s->to.begin;
    for (; aligned && suits && at + PITHI_TRELLIS_WHOLE <= s->to.end; at += PITHI_TRELLIS_WHOLE)
        pithi_trellis_encode_whole(a, s, t, team, at);
    for (; at < s->to.end; at += size) {
        const uint64_t end = s->to.end - at < size ? s->to.end : at + size;
        if (aligned && !suits && (end - at) % PITHI_TILE == 0)
            pithi_trellis_encode_segment(a, s, t, team, of, plain, true, at, end);
        else
            pithi_trellis_encode_segment(a, s, t, team, of, plain, false, at, end);
    }
}

/* ---- The kernels -----------------------------------------------------------------------------*/

PITHI_BODY(pithi_trellis_encode) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    pithi_trellis_groups(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_RUN(pithi_encode_padding, (uint64_t)1 << a->to.plan.block_log2);
    pithi_encode_end(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_GATHER_HASHED(false, a->to.plan.base_dtype != PITH_NONE, number);
    PITHI_RUN(pithi_encode_close, number);
}

PITHI_BODY(pithi_trellis_decode) {
    PITHI_RUN(pithi_trellis_levels, &a->from, 0);
    pithi_decode(a, s, t, team, number);
}

PITHI_BODY(pithi_trellis_reduce) {
    PITHI_RUN(pithi_trellis_levels, &a->from, 0);
    pithi_reduce(a, s, t, team, number);
}

/* One side or both are of trellises. */
PITHI_BODY(pithi_trellis_recode) {
    if (!pithi_pair_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_trellis_levels, &a->from, 0);
    pithi_trellis_groups(a, s, t, team, PITHI_OF_FRAMES);
    PITHI_RUN(pithi_encode_padding, (uint64_t)1 << a->to.plan.block_log2);
    pithi_pair_close(a, s, t, team, number);
}

PITHI_BODY(pithi_trellis_recode_raw) {
    PITHI_RUN(pithi_trellis_levels, &a->from, 0);
    pithi_recode_raw(a, s, t, team, number);
}

#endif
