/* search.h - search=mse: scales of least error, among the candidates of group/group_value.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread sums a segment of a group, of up to 64 elements, for a few candidates; what it comes to
 * is added to the sums of the group, which are integers. Then a thread chooses for a group. Groups
 * that are searched are of 32 elements to a tile. */
#ifndef PITHI_GPU_DEVICE_GROUP_SEARCH_H
#define PITHI_GPU_DEVICE_GROUP_SEARCH_H

#include "device/group/scale.h"

/* Candidates of a thread, and how many threads then share a segment. */
enum { PITHI_SEARCHED = 3, PITHI_SEARCHERS = PITHI_SEARCH_CANDIDATES / PITHI_SEARCHED };

PITHI_DEVICE uint32_t pithi_search_groups(const struct pithi_gpu_call *a) {
    return PITHI_TILE / a->to.plan.device.groups.set.group;
}
PITHI_DEVICE uint32_t pithi_search_segment(const struct pithi_gpu_call *a) {
    return a->to.plan.device.groups.set.group < 64 ? a->to.plan.device.groups.set.group : 64;
}
/* Where element i of the tile stands: fours are exchanged so that eight threads, which read one of
 * each of their segments, use all banks. */
PITHI_DEVICE uint32_t pithi_search_place(const struct pithi_gpu_call *a, uint32_t i) {
    return i ^ (i / pithi_search_segment(a) % 8 * 4);
}

/* Scales of groups that have no codes; of others what makes integers of their values. Factors are
 * copied, since a call whose place is computed has to lie in local memory. */
PITHI_PHASE(pithi_search_start, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    if (t->tid == 0) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SEARCH_CANDIDATES; k++) s->group.factors[k] =
            (float)a->to.plan.device.groups.factors[k] * (1.0f / (1 << PITHI_SEARCH_SHIFT));
    }
    for (uint32_t g = t->tid; g < pithi_search_groups(a); g += PITHI_TEAM) {
        const uint32_t largest = s->group.largest[g] >> 1;
        float reciprocal;
        s->group.reciprocal[g] = 0;
        for (uint32_t k = 0; k < PITHI_SEARCH_CANDIDATES; k++)
            s->group.sums[0][k][g] = s->group.sums[1][k][g] = 0;
        if (tile + (uint64_t)g * set->group >= s->to.end) continue;
        if (pithi_group_scale(set, largest, &s->group.scale[g], &reciprocal))
            s->group.reciprocal[g] =
                pithi_search_reciprocal(set, s->group.scale[g], largest, s->group.largest[g] & 1);
        else
            pithi_encode_put_scale(a, s, t, tile, g);
    }
}

/* The values as integers; those of groups without codes are 0. */
PITHI_PHASE(pithi_search_keep, uint64_t tile) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t at = (uint32_t)(pithi_unit_at(t, tile, u) - tile);
        const float factor = s->group.reciprocal[at / a->to.plan.device.groups.set.group];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const float y = pithi_lower(pithi_lift(t->x[u][k] * factor));
            s->group.values[pithi_search_place(a, at + k)] = factor == 0 ? 0 : y;
        }
    }
}

/* Adds a segment, from element `first` of the tile on, to the sums of its group: those of a
 * thread's candidates, from k on. Products of integers and factors are exact, so that lifting them
 * rounds to the nearest code, and none lies between two. */
PITHI_DEVICE void pithi_search_add(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   uint32_t first, uint32_t k) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t g = first / set->group, end = first + pithi_search_segment(a);
    const float reach = (float)(1 << (set->bits - 1));
    const float least = pithi_lift(-reach), most = pithi_lift(reach - 1);
    const bool bytes = pithi_search_most(set) < 128;
    float factor[PITHI_SEARCHED], exact[PITHI_SEARCHED]; /* of 64 products, below 2^24 */
    int32_t yq[PITHI_SEARCHED], qq[PITHI_SEARCHED];
    PITHI_UNROLL for (uint32_t n = 0; n < PITHI_SEARCHED; n++) {
        factor[n] = s->group.factors[k + n];
        exact[n] = 0;
        yq[n] = qq[n] = 0;
    }
    for (uint32_t i = first; i < end; i += 4) {
        const struct pithi_quad v = pithi_get_quad(s->group.values + pithi_search_place(a, i));
        float y[4], q[4];
        PITHI_UNROLL for (uint32_t j = 0; j < 4; j++) {
            y[j] = pithi_float(v.word[j]);
            q[j] = pithi_lift(y[j]);
        }
        const uint32_t low = pithi_first_bytes(q);
        PITHI_UNROLL for (uint32_t n = 0; n < PITHI_SEARCHED; n++) {
            PITHI_UNROLL for (uint32_t j = 0; j < 4; j++) q[j] =
                pithi_within(pithi_lift(y[j] * factor[n]), least, most);
            const uint32_t codes = pithi_first_bytes(q);
            qq[n] = pithi_dot_bytes(codes, codes, qq[n]);
            if (bytes) {
                yq[n] = pithi_dot_bytes(low, codes, yq[n]);
            } else {
                PITHI_UNROLL for (uint32_t j = 0; j < 4; j++) exact[n] += y[j] * pithi_lower(q[j]);
            }
        }
    }
    PITHI_UNROLL for (uint32_t n = 0; n < PITHI_SEARCHED; n++) {
        const int32_t sum = bytes ? yq[n] : (int32_t)exact[n];
        pithi_atomic_add32(&s->group.sums[0][k + n][g], (uint32_t)sum);
        pithi_atomic_add32(&s->group.sums[1][k + n][g], (uint32_t)qq[n]);
    }
}

PITHI_PHASE(pithi_search_try, uint64_t tile) {
    const uint32_t segments = PITHI_TILE / pithi_search_segment(a);
    const bool power = pithi_search_is_power(&a->to.plan.device.groups.set);
    (void)tile;
    for (uint32_t i = t->tid; i < segments * PITHI_SEARCHERS; i += PITHI_TEAM) {
        const uint32_t k = i / segments * PITHI_SEARCHED;
        if (!power || k < PITHI_SEARCH_POWERS)
            pithi_search_add(a, s, i % segments * pithi_search_segment(a), k);
    }
}

PITHI_DEVICE struct pithi_search_sums pithi_search_sums_of(const struct pithi_gpu_shared *s,
                                                           uint32_t k, uint32_t g) {
    struct pithi_search_sums sums;
    sums.yq = (float)(int32_t)s->group.sums[0][k][g];
    sums.qq = (float)(int32_t)s->group.sums[1][k][g];
    return sums;
}

PITHI_DEVICE float pithi_search_found(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_shared *s, uint32_t g) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    struct pithi_search_sums best = pithi_search_sums_of(s, 0, g);
    if (pithi_search_is_power(set))
        return pithi_search_power(set, s->group.scale[g], best, pithi_search_sums_of(s, 1, g));
    for (uint32_t k = 1; k < PITHI_SEARCH_CANDIDATES; k++) {
        const struct pithi_search_sums next = pithi_search_sums_of(s, k, g);
        if (pithi_search_better(best, next)) best = next;
    }
    return pithi_search_scale(set, s->group.largest[g] >> 1, s->group.largest[g] & 1, best);
}

PITHI_PHASE(pithi_search_choose, uint64_t tile) {
    for (uint32_t g = t->tid; g < pithi_search_groups(a); g += PITHI_TEAM) {
        if (s->group.reciprocal[g] != 0) {
            s->group.scale[g] = pithi_search_found(a, s, g);
            s->group.reciprocal[g] = 1.0f / s->group.scale[g];
            pithi_encode_put_scale(a, s, t, tile, g);
        }
        s->group.largest[g] = 0;
    }
}

/* Part of a body: the scales of a tile. */
PITHI_DEVICE void pithi_search(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                               struct pithi_gpu_thread *t, struct pithi_team *team, uint64_t tile) {
    PITHI_RUN(pithi_search_start, tile);
    PITHI_RUN(pithi_search_keep, tile);
    PITHI_RUN(pithi_search_try, tile);
    PITHI_RUN(pithi_search_choose, tile);
}

#endif
