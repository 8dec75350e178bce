/* trellis_whole.h - whole segments to codes of trellises, in kernels that know their settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What trellis.h does with any segment, here of two tiles and of groups that are a sequence each,
 * in the units of a warp. All elements exist and everything is aligned. The two units of a thread
 * are neighbours, a run, so that much of a rotation and of a group is in one thread. A segment is
 * read once: values stay in the team's memory, a thread finds a path by them, and codes and sums
 * are made of them. Part of trellis.h. */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_WHOLE_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_WHOLE_H

#include "device/group/trellis_path.h"
#include "device/group/whole.h"

/* Neighbouring elements of a thread, as many as a group's sums have lanes. */
enum { PITHI_TRELLIS_RUN = PITHI_UNITS * PITHI_UNIT, PITHI_TRELLIS_QUADS = PITHI_TRELLIS_RUN / 4 };
static_assert((int)PITHI_TRELLIS_RUN == (int)PITHI_LANES &&
                  (int)PITHI_TRELLIS_RUN == (int)PITHI_TRELLIS_LOOK,
              "a run is looked at, and is a row of products");

/* Whether segments may be coded so, as far as settings go. No value is clamped then, no metric gets
 * to its limit, and the squares of a group's levels have a sum below 2^24, exact in any order. */
PITHI_DEVICE bool pithi_trellis_suits(const struct pithi_device_plan *p) {
    const struct pithi_group_setting *const set = &p->device.set;
    return (set->bits == 2 || set->bits == 4) && set->scale_dtype == PITH_F32 &&
           set->group >= PITHI_TRELLIS_WHOLE / PITHI_TRELLIS_GROUPS &&
           set->group <= PITHI_TRELLIS_SEQUENCE && p->dtype == PITH_F32 &&
           p->base_dtype == PITH_NONE && !p->ranges && !p->device.rotation.signs &&
           !p->device.decay && (uint64_t)1 << p->block_log2 >= PITHI_TRELLIS_WHOLE;
}

/* ---- Places ----------------------------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_trellis_group_log2(const struct pithi_gpu_call *a) {
    return pithi_trellis_log2(a->to.plan.device.set.group);
}
/* Threads of a group, as many as it has runs; groups of a segment. */
PITHI_DEVICE uint32_t pithi_trellis_threads(const struct pithi_gpu_call *a) {
    return a->to.plan.device.set.group / PITHI_TRELLIS_RUN;
}
PITHI_DEVICE uint32_t pithi_trellis_groups_whole(const struct pithi_gpu_call *a) {
    return PITHI_TRELLIS_WHOLE / a->to.plan.device.set.group;
}
/* A thread's group in tile n of the segment. */
PITHI_DEVICE uint32_t pithi_trellis_group(const struct pithi_gpu_call *a,
                                          const struct pithi_gpu_thread *t, uint32_t n) {
    return (n * PITHI_TEAM + t->tid) / pithi_trellis_threads(a);
}

/* Where quad q of a run of a group is: for all who look at some at once, which are the threads of
 * runs, those of paths and those of sums, in different banks. */
PITHI_DEVICE uint32_t pithi_trellis_quad(const struct pithi_gpu_call *a, uint32_t group,
                                         uint32_t run, uint32_t q) {
    const uint32_t at = run * PITHI_TRELLIS_QUADS + (q ^ (run >> 1 & 3));
    return group * (a->to.plan.device.set.group / 4) + (at ^ (group & 7));
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* t->x := the thread's values in tile n of a segment. */
PITHI_LOCAL(pithi_trellis_fetch, uint64_t segment, uint32_t n) {
    const uint8_t *const from =
        s->to.tensor + 4 * (segment + (n * PITHI_TEAM + t->tid) * PITHI_TRELLIS_RUN);
    struct pithi_quad quad[PITHI_TRELLIS_QUADS];
    (void)a;
    PITHI_UNROLL for (uint32_t q = 0; q < PITHI_TRELLIS_QUADS; q++) {
        quad[q] = pithi_get_quad(from + 16 * q);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            t->x[u][k] = pithi_float(quad[2 * u + k / 4].word[k % 4]);
}

/* Strides of the rotation inside a run, and between threads so many apart. */
PITHI_LOCAL(pithi_trellis_rotate, uint32_t order) {
    const struct pithi_rotated whole = {true, 0, 0};
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t half = 1; half < PITHI_UNIT; half *= 2) {
        if (half < order) pithi_unit_stride(whole, half, t->x[u]);
    }
    if (order <= PITHI_UNIT) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const float x = t->x[0][k], y = t->x[1][k];
        t->x[0][k] = x + y;
        t->x[1][k] = x - y;
    }
}
PITHI_LOCAL(pithi_trellis_across, uint32_t apart) {
    const uint32_t sign = t->tid & apart ? 0x80000000u : 0;
    (void)a, (void)s;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++)
            t->x[u][k] = t->y[u][k] + pithi_float(pithi_bits(t->x[u][k]) ^ sign);
}

/* sent[0] := the thread's largest magnitude, doubled, so that nothing is to be masked. */
PITHI_LOCAL(pithi_trellis_peak, uint32_t n) {
    uint32_t most = 0;
    (void)a, (void)s, (void)n;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t size = pithi_bits(t->x[u][k]) << 1;
        most = size > most ? size : most;
    }
    t->trellis.sent[0] = most;
}
PITHI_LOCAL(pithi_trellis_peak_meet, uint32_t n) {
    (void)a, (void)s, (void)n;
    if (t->trellis.got[0] > t->trellis.sent[0]) t->trellis.sent[0] = t->trellis.got[0];
}

/* Into the team's memory: values, and the largest magnitude of the group. */
PITHI_PHASE(pithi_trellis_put_values, uint32_t n) {
    const uint32_t i = pithi_trellis_group(a, t, n), run = t->tid % pithi_trellis_threads(a);
    PITHI_UNROLL for (uint32_t q = 0; q < PITHI_TRELLIS_QUADS; q++) {
        struct pithi_quad quad;
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) quad.word[k] =
            pithi_bits(t->x[q / 2][q % 2 * 4 + k]);
        pithi_put_quad(&s->trellis.whole.value[pithi_trellis_quad(a, i, run, q)], quad);
    }
    if (run == 0) s->trellis.whole.largest[i] = t->trellis.sent[0] >> 1;
}

/* ---- Paths -----------------------------------------------------------------------------------*/

/* What a group's values are multiplied by, with the sign that pithi_trellis_whole says. */
PITHI_DEVICE uint32_t pithi_trellis_rate(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s, uint32_t group) {
    const struct pithi_group_setting *const set = &a->to.plan.device.set;
    const struct pithi_trellis_whole *const g = &s->trellis.whole;
    uint32_t unit, other;
    pithi_trellis_units(set, pithi_trellis_of(&a->to)->top, PITH_F32, g->largest[group], set->group,
                        &unit, &other);
    bool levels = unit;
    PITHI_ROLLED for (uint32_t q = 0; q < PITHI_TRELLIS_QUADS; q++) {
        if (!levels) break;
        const struct pithi_quad quad =
            pithi_get_quad(&g->value[pithi_trellis_quad(a, group, 0, q)]);
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            const float v = pithi_float(quad.word[k]) * pithi_float(unit);
            const int32_t y = pithi_trellis_whole_number(v);
            const uint32_t size = (uint32_t)(y < 0 ? -y : y);
            levels = levels && (s->trellis.tables.marks[size / 32] >> size % 32 & 1);
        }
    }
    return levels ? unit : other | 0x80000000u;
}

PITHI_DEVICE int32_t pithi_trellis_from(const int32_t *by_cell, uint32_t offset) {
    return (int32_t)pithi_get_aligned32((const uint8_t *)by_cell + offset);
}
PITHI_DEVICE void pithi_trellis_value_step(const struct pithi_trellis_tables *g, float v,
                                           int32_t bit, int32_t m[8]) {
    const int32_t y = pithi_trellis_whole_number(v);
    const uint32_t at = pithi_trellis_celled(y) >> 2 & 124;
    pithi_trellis_forth(
        pithi_trellis_from(g->lean[0], at) + pithi_trellis_from(g->slope[0], at) * y,
        pithi_trellis_from(g->lean[1], at) + pithi_trellis_from(g->slope[1], at) * y,
        pithi_trellis_from(g->lean[2], at) + pithi_trellis_from(g->slope[2], at) * y, bit, m);
}

PITHI_PHASE(pithi_trellis_whole_paths, uint64_t segment) {
    struct pithi_trellis_whole *const g = &s->trellis.whole;
    const uint32_t runs = pithi_trellis_threads(a), paths = pithi_trellis_groups_whole(a);
    const uint32_t path = pithi_trellis_turned(t, segment / PITHI_TRELLIS_WHOLE);
    int32_t m[PITHI_TRELLIS_STATES];
    if (path >= paths) return;
    g->unit[path] = pithi_trellis_rate(a, s, path);
    const float unit = pithi_float(pithi_magnitude(g->unit[path]));
    if (unit == 0) return;
    pithi_trellis_begin(true, m);
    PITHI_ROLLED for (uint32_t run = 0; run < runs; run++) {
        PITHI_UNROLL for (uint32_t q = 0; q < PITHI_TRELLIS_QUADS; q++) {
            const struct pithi_quad quad =
                pithi_get_quad(&g->value[pithi_trellis_quad(a, path, run, q)]);
            PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) pithi_trellis_value_step(
                &s->trellis.tables, pithi_float(quad.word[k]) * unit, 1 << (q % 2 * 4 + k), m);
            if (q % 2 == 0) continue;
            uint32_t ways[2];
            pithi_trellis_keep(m, ways);
            pithi_put_aligned64(&g->ways[(run * PITHI_UNITS + q / 2) * paths + path],
                                (uint64_t)ways[1] << 32 | ways[0]);
        }
    }
    uint32_t state = pithi_trellis_last(m);
    uint8_t *const chosen = g->chosen + path * (runs * PITHI_UNITS);
    PITHI_ROLLED for (uint32_t j = runs * PITHI_UNITS; j-- > 0;) {
        const uint64_t ways = pithi_get_aligned64(&g->ways[j * paths + path]);
        const uint32_t bits =
            pithi_trellis_back((uint32_t)ways, (uint32_t)(ways >> 32), state, PITHI_UNIT);
        chosen[j] = (uint8_t)(bits >> 3);
        state = bits & 7;
    }
    g->begin[path] = (uint8_t)state;
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

/* 4 times the subsets of four values, a byte each: products put the bits of a number of four far
 * enough apart. */
PITHI_DEVICE uint32_t pithi_trellis_subsets(uint32_t parity, uint32_t low) {
    return ((parity & 15) * 0x01020408u & 0x08080808u) | ((low & 15) * 0x00810204u & 0x04040404u);
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

/* Into the frame the codes of tile n, in place of values their products with levels; sent[0] := the
 * sum of the squares of levels. */
PITHI_PHASE(pithi_trellis_whole_codes, uint64_t segment, uint32_t n) {
    struct pithi_trellis_whole *const g = &s->trellis.whole;
    const struct pithi_device_plan *const p = &a->to.plan;
    const uint32_t bits = p->device.set.bits, i = pithi_trellis_group(a, t, n);
    const uint32_t run = t->tid % pithi_trellis_threads(a);
    const uint32_t begin = g->begin[i];
    const float unit = pithi_float(pithi_magnitude(g->unit[i]));
    const uint8_t *const chosen = g->chosen + (n * PITHI_TEAM + t->tid) * PITHI_UNITS;
    const uint32_t lows =
        (uint32_t)pithi_get_aligned16(chosen) << 3 | (run ? (uint32_t)chosen[-1] >> 5 : begin);
    const uint32_t parity = lows ^ lows >> 2 ^ lows >> 3;
    uint32_t near[PITHI_UNITS][PITHI_UNIT], code[PITHI_UNITS];
    float squares = 0;
    PITHI_UNROLL for (uint32_t q = 0; q < PITHI_TRELLIS_QUADS; q++) {
        struct pithi_quad *const at = &g->value[pithi_trellis_quad(a, i, run, q)];
        struct pithi_quad quad = pithi_get_quad(at);
        const uint32_t subset = pithi_trellis_subsets(parity >> 4 * q, lows >> (4 * q + 1));
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            const float v = pithi_float(quad.word[k]) * unit;
            const uint32_t found = pithi_trellis_near(
                &s->trellis.tables, pithi_trellis_celled(pithi_trellis_whole_number(v)),
                pithi_byte_on(subset, k, 0));
            const float level = pithi_trellis_near_level(found);
            near[q / 2][q % 2 * 4 + k] = found;
            quad.word[k] = pithi_bits(v * level);
            squares += level * level;
        }
        pithi_put_quad(at, quad);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        code[u] = pithi_trellis_side_by_side(near[u], bits) |
                  pithi_trellis_spread(lows >> (8 * u + 3), bits);
        code[u] = unit == 0 ? 0 : begin ? ~code[u] : code[u];
    }
    t->trellis.sent[0] = pithi_bits(squares);
    const struct pithi_gpu_spot spot = pithi_spot(p, s->to.form, s->to.slot->count, segment);
    uint8_t *const to = s->to.payload + pithi_spot_codes(p, &spot) +
                        (n * PITHI_TEAM + t->tid) * (PITHI_TRELLIS_RUN / 8 * bits);
    if (bits == 4)
        pithi_put_aligned64(to, (uint64_t)code[1] << 32 | code[0]);
    else
        pithi_put_aligned32(to, (code[0] & 0xFFFFu) | code[1] << 16);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

PITHI_LOCAL(pithi_trellis_join, uint32_t n) {
    (void)a, (void)s, (void)n;
    t->trellis.sent[0] =
        pithi_bits(pithi_float(t->trellis.sent[0]) + pithi_float(t->trellis.got[0]));
}
PITHI_PHASE(pithi_trellis_squares, uint32_t n) {
    if (t->tid % pithi_trellis_threads(a)) return;
    s->trellis.whole.total[1][pithi_trellis_group(a, t, n)] = pithi_float(t->trellis.sent[0]);
}

/* A warp sums eight groups, 16 threads to one, the second 16 those four behind the others'. */
enum { PITHI_TRELLIS_AT_ONCE = 4 };
PITHI_DEVICE uint32_t pithi_trellis_sums_of(const struct pithi_gpu_thread *t) {
    return t->tid / PITHI_WARP * (2 * PITHI_TRELLIS_AT_ONCE) +
           t->tid / PITHI_LANES % 2 * PITHI_TRELLIS_AT_ONCE;
}
/* lane := sums of products over the thread's lane, of its four groups. */
PITHI_LOCAL(pithi_trellis_gather, uint32_t runs) {
    const uint32_t first = pithi_trellis_sums_of(t), lane = t->tid % PITHI_LANES;
    const float *const product = (const float *)(const void *)s->trellis.whole.value;
    const float *from[8];
    PITHI_UNROLL for (uint32_t i = 0; i < PITHI_TRELLIS_AT_ONCE; i++) t->trellis.lane[i] = 0;
    if (first >= pithi_trellis_groups_whole(a)) return;
    /* Bits 2 to 4 of a place are turned in eight ways, see pithi_trellis_quad. */
    PITHI_UNROLL for (uint32_t k = 0; k < 8; k++) from[k] =
        product + first * a->to.plan.device.set.group + ((lane ^ (first & 4) << 2) ^ k << 2);
    PITHI_UNROLL for (uint32_t i = 0; i < PITHI_TRELLIS_AT_ONCE; i++) {
        float sum = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRELLIS_SEQUENCE / PITHI_TRELLIS_RUN; k++) {
            if (k >= runs) continue;
            const uint32_t turned = (k >> 1 & 3) ^ i ^ (k & 1) << 2;
            sum += from[turned][i * runs * PITHI_TRELLIS_RUN + k / 2 * 2 * PITHI_TRELLIS_RUN];
        }
        t->trellis.lane[i] = sum;
    }
}
/* Threads 0 to 7 of 16 keep the first two sums, and send the others to the thread eight away. */
PITHI_LOCAL(pithi_trellis_halves, uint32_t n) {
    const bool upper = t->tid & 8;
    (void)a, (void)s, (void)n;
    PITHI_UNROLL for (uint32_t i = 0; i < 2; i++) {
        const float lower = t->trellis.lane[i], other = t->trellis.lane[i + 2];
        t->trellis.lane[i] = upper ? other : lower;
        t->trellis.sent[i] = pithi_bits(upper ? lower : other);
    }
}
/* Of these two, the same with four. */
PITHI_LOCAL(pithi_trellis_quarters, uint32_t n) {
    const float first = t->trellis.lane[0] + pithi_float(t->trellis.got[0]);
    const float second = t->trellis.lane[1] + pithi_float(t->trellis.got[1]);
    (void)a, (void)s, (void)n;
    t->trellis.lane[0] = t->tid & 4 ? second : first;
    t->trellis.sent[0] = pithi_bits(t->tid & 4 ? first : second);
}
PITHI_LOCAL(pithi_trellis_eighths, uint32_t n) {
    (void)a, (void)s, (void)n;
    t->trellis.sent[0] = pithi_bits(t->trellis.lane[0] + pithi_float(t->trellis.got[0]));
}
PITHI_PHASE(pithi_trellis_gathered, uint32_t n) {
    const uint32_t i = pithi_trellis_sums_of(t) + t->tid / 4 % 4 / 2 * 2 + t->tid / 4 % 2;
    (void)n;
    if (t->tid % 4 || i >= pithi_trellis_groups_whole(a)) return;
    s->trellis.whole.total[0][i] = pithi_float(t->trellis.sent[0]);
}

/* Scales, of all groups of a segment, to the frame. */
PITHI_PHASE(pithi_trellis_whole_finish, uint64_t segment) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.set;
    const struct pithi_trellis *const of = pithi_trellis_of(&a->to);
    const struct pithi_trellis_whole *const g = &s->trellis.whole;
    const uint32_t i = t->tid;
    if (i >= pithi_trellis_groups_whole(a)) return;
    const float sum[2] = {g->total[0][i], g->total[1][i]};
    const bool coded = pithi_magnitude(g->unit[i]);
    const float scale =
        coded ? pithi_trellis_fitted(set, of, PITH_F32, g->largest[i], set->group, g->unit[i], sum)
              : pithi_trellis_utmost(set, of->top, PITH_F32, g->largest[i]);
    const uint32_t sign = coded && g->begin[i] ? 0x80000000u : 0;
    t->made.poisoned += pithi_nonfinite(pithi_bits(scale));
    const struct pithi_gpu_spot spot = pithi_spot(p, s->to.form, s->to.slot->count, segment);
    pithi_put_aligned32(s->to.payload + pithi_spot_scale(p, &spot) + 4 * i,
                        pithi_bits(scale) ^ sign);
}

/* ---- The segment -----------------------------------------------------------------------------*/

/* Part of a body: got := what the thread so many lanes away sent. */
#define PITHI_TRELLIS_SWAP(n, lanes) PITHI_WARP_SWAP(trellis.sent, trellis.got, n, lanes)

/* Values of tile n of a segment to the team's memory. */
PITHI_DEVICE void pithi_trellis_whole_enter(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t segment, uint32_t n) {
    const uint32_t order = a->to.plan.device.rotation.order, threads = pithi_trellis_threads(a);
    PITHI_STEP(pithi_trellis_fetch, segment, n);
    if (order) PITHI_STEP(pithi_trellis_rotate, order);
    PITHI_UNROLL for (uint32_t apart = 1; apart < PITHI_WARP; apart *= 2) {
        if (apart * PITHI_TRELLIS_RUN >= order) continue;
        PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)
            PITHI_WARP_SWAP(x[u_], y[u_], PITHI_UNIT, apart);
        PITHI_STEP(pithi_trellis_across, apart);
    }
    PITHI_STEP(pithi_trellis_peak, n);
    PITHI_UNROLL for (uint32_t apart = 1; apart < PITHI_WARP; apart *= 2) {
        if (apart >= threads) continue;
        PITHI_TRELLIS_SWAP(1, apart);
        PITHI_STEP(pithi_trellis_peak_meet, n);
    }
    PITHI_STEP(pithi_trellis_put_values, n);
}

/* Codes of tile n, and sums of squares. */
PITHI_DEVICE void pithi_trellis_whole_leave(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t segment, uint32_t n) {
    PITHI_STEP(pithi_trellis_whole_codes, segment, n);
    PITHI_UNROLL for (uint32_t apart = 1; apart < PITHI_WARP; apart *= 2) {
        if (apart >= pithi_trellis_threads(a)) continue;
        PITHI_TRELLIS_SWAP(1, apart);
        PITHI_STEP(pithi_trellis_join, n);
    }
    PITHI_STEP(pithi_trellis_squares, n);
}

PITHI_DEVICE void pithi_trellis_encode_whole(const struct pithi_gpu_call *a,
                                             struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                             struct pithi_team *team, uint64_t segment) {
    PITHI_ROLLED for (uint32_t n = 0; n < 2; n++)
        pithi_trellis_whole_enter(a, s, t, team, segment, n);
    PITHI_RUN(pithi_trellis_wait, segment);
    PITHI_RUN(pithi_trellis_whole_paths, segment);
    PITHI_ROLLED for (uint32_t n = 0; n < 2; n++)
        pithi_trellis_whole_leave(a, s, t, team, segment, n);
    PITHI_RUN(pithi_trellis_wait, segment);
    PITHI_STEP(pithi_trellis_gather, pithi_trellis_threads(a));
    PITHI_STEP(pithi_trellis_halves, 0);
    PITHI_TRELLIS_SWAP(2, 8);
    PITHI_STEP(pithi_trellis_quarters, 0);
    PITHI_TRELLIS_SWAP(1, 4);
    PITHI_STEP(pithi_trellis_eighths, 0);
    PITHI_UNROLL for (uint32_t apart = 2; apart; apart /= 2) {
        PITHI_TRELLIS_SWAP(1, apart);
        PITHI_STEP(pithi_trellis_join, 0);
    }
    PITHI_RUN(pithi_trellis_gathered, 0);
    PITHI_RUN(pithi_trellis_whole_finish, segment);
}

#endif
