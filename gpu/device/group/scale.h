/* scale.h - the scales of a segment's groups, from their largest values.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_SCALE_H
#define PITHI_GPU_DEVICE_GROUP_SCALE_H

#include "device/team.h"

/* Threads of a warp that share a group. */
PITHI_DEVICE uint32_t pithi_group_lanes(const struct pithi_device_plan *p) {
    const uint32_t lanes = p->device.groups.set.group / PITHI_UNIT;
    return lanes < PITHI_WARP ? lanes : PITHI_WARP;
}

/* Larger for larger magnitudes; of two values of one magnitude, for the positive one. */
PITHI_DEVICE uint32_t pithi_search_key(uint32_t x) { return x << 1 | (x >> 31 ^ 1); }

PITHI_LOCAL(pithi_encode_largest, uint64_t tile) {
    const bool search = a->to.plan.device.groups.set.search;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t n = pithi_tile_left(t, pithi_unit_at(t, tile, u), s->to.slot->count);
        uint32_t m = 0;
        pithi_unit_end(n, t->x[u]);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const uint32_t x = pithi_bits(t->x[u][k]);
            const uint32_t v = search ? pithi_search_key(x) : pithi_magnitude(x);
            if (v > m) m = v;
        }
        t->group.largest[u] = m;
    }
}

PITHI_PHASE(pithi_encode_publish, uint64_t segment, uint64_t tile) {
    const uint32_t group = a->to.plan.device.groups.set.group;
    if (t->tid % pithi_group_lanes(&a->to.plan)) return;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        if (t->whole || e < s->to.slot->count)
            pithi_atomic_max32(&s->group.largest[(uint32_t)(e - segment) / group],
                               t->group.largest[u]);
    }
}

/* Into the frame, from s: the scale of group g of the segment. */
PITHI_DEVICE void pithi_encode_put_scale(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s,
                                         struct pithi_gpu_thread *t, uint64_t segment, uint32_t g) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t e = segment + (uint64_t)g * p->device.groups.set.group;
    const uint32_t scale = pithi_bits(s->group.scale[g]);
    const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, e);
    t->made.poisoned += pithi_nonfinite(scale);
    pithi_scale_store(it->payload + pithi_spot_scale(p, &spot), p->device.groups.set.scale_dtype, 0,
                      scale);
}

/* A group without codes has reciprocal 0, others never do. */
PITHI_PHASE(pithi_encode_scales, uint64_t segment) {
    const struct pithi_device_plan *const p = &a->to.plan;
    for (uint32_t g = t->tid; g < PITHI_TILE_GROUPS; g += PITHI_TEAM) {
        const uint64_t e = segment + (uint64_t)g * p->device.groups.set.group;
        if (e >= s->to.end) break;
        float scale, reciprocal;
        const bool coded =
            pithi_group_scale(&p->device.groups.set, s->group.largest[g], &scale, &reciprocal);
        s->group.scale[g] = scale;
        s->group.reciprocal[g] = coded ? reciprocal : 0;
        s->group.largest[g] = 0;
        pithi_encode_put_scale(a, s, t, segment, g);
    }
}

#endif
