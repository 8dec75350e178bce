/* search.h - search=mse: scales of least error, among the candidates of group/group_value.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A warp takes a group at a time. Sums run over 16 lanes, so its threads are the lanes twice: for
 * the candidates of even number, and for those of odd. Then a thread chooses for a group. Groups
 * that are searched are of 32 elements to a tile. */
#ifndef PITHI_GPU_DEVICE_GROUP_SEARCH_H
#define PITHI_GPU_DEVICE_GROUP_SEARCH_H

#include "device/group/scale.h"

enum { PITHI_WARPS = PITHI_TEAM / PITHI_WARP };

/* Elements of group g of the tile. */
PITHI_DEVICE uint32_t pithi_search_count(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s, uint64_t tile,
                                         uint32_t g) {
    const uint32_t group = a->to.plan.device.set.group;
    const uint64_t first = tile + (uint64_t)g * group;
    if ((uint64_t)g * group >= PITHI_TILE || first >= s->to.end) return 0;
    return s->to.end - first < group ? (uint32_t)(s->to.end - first) : group;
}

/* Where the group's sums for candidate k stand, in place of its values; those of squares, 16
 * behind. Neighbouring groups use different banks. */
PITHI_DEVICE uint32_t pithi_search_place(const struct pithi_gpu_call *a, uint32_t g, uint32_t k) {
    return g * a->to.plan.device.set.group + (k + g) % 32;
}

/* Scales of groups that have no codes; of others the unit, and the factor to it, which is negative
 * where values are turned. */
PITHI_PHASE(pithi_search_start, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.set;
    for (uint32_t g = t->tid; pithi_search_count(a, s, tile, g); g += PITHI_TEAM) {
        struct pithi_search r;
        float reciprocal;
        r.set = set;
        r.largest = s->group.largest[g] >> 1;
        r.above = s->group.largest[g] & 1;
        s->group.largest[g] = 0;
        s->group.reciprocal[g] = 0;
        if (pithi_group_scale(set, r.largest, &r.scale, &reciprocal)) {
            pithi_search_begin(&r);
            s->group.scale[g] = r.unit;
            s->group.reciprocal[g] = pithi_float(pithi_bits(r.reciprocal) ^ r.sign);
        } else {
            s->group.scale[g] = r.scale;
            pithi_encode_put_scale(a, s, t, tile, g);
        }
    }
}

/* The values in units. */
PITHI_PHASE(pithi_search_keep, uint64_t tile) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t at = (uint32_t)(pithi_unit_at(t, tile, u) - tile);
        const float factor = s->group.reciprocal[at / a->to.plan.device.set.group];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) s->group.values[at + k] =
            t->x[u][k] * factor;
    }
}

/* t->group.vq, t->group.qq := one lane's sums for the thread's candidates. */
PITHI_PHASE(pithi_search_try, uint64_t tile, uint32_t first) {
    const struct pithi_group_setting *const set = &a->to.plan.device.set;
    const uint32_t g = first + t->tid / PITHI_WARP, odd = t->tid / PITHI_LANES % 2;
    const uint32_t count = pithi_search_count(a, s, tile, g);
    const float *const v = s->group.values + g * set->group;
    struct pithi_search r;
    r.set = set;
    pithi_search_steps(&r);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRIES; k++) {
        t->group.vq[k] = 0;
        t->group.qq[k] = 0;
        r.factor[k] = odd ? r.factor[2 * k + 1] : r.factor[2 * k];
    }
    if (!count || s->group.reciprocal[g] == 0) return;
    for (uint32_t i = t->tid % PITHI_LANES; i < count; i += PITHI_LANES) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRIES; k++) {
            if (2 * (int)k >= r.candidates) continue;
            const int q = pithi_clamp(pithi_round_even(v[i] * r.factor[k]), r.least, r.most);
            t->group.vq[k] += v[i] * (float)q;
            t->group.qq[k] += q * q;
        }
    }
}

PITHI_LOCAL(pithi_search_halve, uint32_t lanes) {
    (void)a, (void)s, (void)lanes;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRIES; k++) {
        t->group.vq[k] += t->group.vq_other[k];
        t->group.qq[k] += t->group.qq_other[k];
    }
}

PITHI_PHASE(pithi_search_put, uint64_t tile, uint32_t first) {
    const uint32_t g = first + t->tid / PITHI_WARP, odd = t->tid / PITHI_LANES % 2;
    if (t->tid % PITHI_LANES || !pithi_search_count(a, s, tile, g)) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_TRIES; k++) {
        s->group.values[pithi_search_place(a, g, 2 * k + odd)] = t->group.vq[k];
        s->group.values[pithi_search_place(a, g, 2 * k + odd + PITHI_SEARCH_CAPACITY)] =
            (float)t->group.qq[k];
    }
}

PITHI_PHASE(pithi_search_choose, uint64_t tile) {
    for (uint32_t g = t->tid; pithi_search_count(a, s, tile, g); g += PITHI_TEAM) {
        struct pithi_search r;
        if (s->group.reciprocal[g] == 0) continue;
        r.set = &a->to.plan.device.set;
        r.unit = s->group.scale[g];
        r.sign = pithi_bits(s->group.reciprocal[g]) & 0x80000000u;
        pithi_search_steps(&r);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SEARCH_CAPACITY; k++) {
            r.vq[k] = s->group.values[pithi_search_place(a, g, k)];
            r.qq[k] = s->group.values[pithi_search_place(a, g, k + PITHI_SEARCH_CAPACITY)];
        }
        s->group.scale[g] = pithi_search_end(&r);
        s->group.reciprocal[g] = 1.0f / s->group.scale[g];
        pithi_encode_put_scale(a, s, t, tile, g);
    }
}

/* Part of a body: the scales of a tile. */
PITHI_DEVICE void pithi_search(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                               struct pithi_gpu_thread *t, struct pithi_team *team, uint64_t tile) {
    PITHI_RUN(pithi_search_start, tile);
    PITHI_RUN(pithi_search_keep, tile);
    for (uint32_t g = 0; pithi_search_count(a, s, tile, g); g += PITHI_WARPS) {
        PITHI_RUN(pithi_search_try, tile, g);
        for (uint32_t lanes = PITHI_LANES / 2; lanes; lanes /= 2) {
            PITHI_WARP_SWAP(group.vq, group.vq_other, PITHI_TRIES, lanes);
            PITHI_WARP_SWAP(group.qq, group.qq_other, PITHI_TRIES, lanes);
            PITHI_STEP(pithi_search_halve, lanes);
        }
        PITHI_RUN(pithi_search_put, tile, g);
    }
    PITHI_RUN(pithi_search_choose, tile);
}

#endif
