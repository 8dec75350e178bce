/* whole.h - a whole tile to codes, in kernels that know their settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What encode.h does with any segment. Here all elements exist, everything is aligned, and every
 * thread finds the scales of its own groups: from its warp or, of groups that are longer, from the
 * team. So warps wait for each other once, or not at all. */
#ifndef PITHI_GPU_DEVICE_GROUP_WHOLE_H
#define PITHI_GPU_DEVICE_GROUP_WHOLE_H

#include "device/group/scale.h"

/* Whether tiles may be coded so, as far as settings go; groups lie in rows then. */
PITHI_DEVICE bool pithi_whole_suits(const struct pithi_device_plan *p) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    return (set->bits == 4 || set->bits == 8) && set->group <= PITHI_ROW &&
           set->scale_dtype == PITH_F32 && !set->search && !p->device.feedback &&
           (uint64_t)1 << p->block_log2 >= PITHI_TILE;
}
PITHI_DEVICE uint32_t pithi_whole_warps(const struct pithi_device_plan *p) {
    return p->device.groups.set.group / (PITHI_WARP * PITHI_UNIT);
}

/* Where the thread's first unit goes; next: to what follows the tile before. */
PITHI_LOCAL(pithi_whole_aim, uint64_t tile, bool next) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    if (next) {
        t->group.to_codes += PITHI_TILE / 8 * set->bits;
        t->group.to_scales += PITHI_TILE / set->group * sizeof(float);
        return;
    }
    const struct pithi_gpu_spot spot =
        pithi_spot(p, s->to.form, s->to.slot->count, pithi_unit_at(t, tile, 0));
    t->group.to_codes = s->to.payload + pithi_spot_codes(p, &spot);
    t->group.to_scales = s->to.payload + pithi_spot_scale(p, &spot);
}

/* Groups longer than a warp's units: each warp hands its largest magnitude to the team, by turns in
 * one of two places, and takes the largest of all warps of its group. */
PITHI_PHASE(pithi_whole_publish, uint64_t tile) {
    (void)a;
    if (t->tid % PITHI_WARP) return;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        s->group.warps[tile / PITHI_TILE % 2][u][t->tid / PITHI_WARP] = t->group.largest[u];
}
PITHI_LOCAL(pithi_whole_collect, uint64_t tile) {
    const uint32_t n = pithi_whole_warps(&a->to.plan), first = t->tid / PITHI_WARP / n * n;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint32_t *const of = s->group.warps[tile / PITHI_TILE % 2][u] + first;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_HEADS; k++) {
            if (k < n && of[k] > t->group.largest[u]) t->group.largest[u] = of[k];
        }
    }
}

/* The scale of the group of one of the thread's units: of the first or, of odd threads, the second.
 * The first two threads of a group write them. */
PITHI_LOCAL(pithi_whole_scale, uint64_t tile) {
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint32_t unit = t->tid % PITHI_UNITS, row = PITHI_ROW / set->group * sizeof(float);
    const uint32_t largest = unit ? t->group.largest[1] : t->group.largest[0];
    (void)s, (void)tile;
    float reciprocal;
    const bool coded = pithi_group_scale(set, largest, &t->group.step[1], &reciprocal);
    t->group.step[0] = coded ? reciprocal : 0;
    if (t->tid % (set->group / PITHI_UNIT) >= PITHI_UNITS) return;
    pithi_put_aligned32(pithi_tile_place(t, t->group.to_scales + unit * row, 4),
                        pithi_bits(t->group.step[1]));
    t->made.poisoned += pithi_nonfinite(pithi_bits(t->group.step[1]));
}

/* Step i of unit u: 0 the reciprocal of its scale, 0 where there are no codes, and 1 the scale. */
PITHI_DEVICE float pithi_whole_step(const struct pithi_gpu_thread *t, uint32_t u, uint32_t i) {
    return t->tid % PITHI_UNITS == u ? t->group.step[i] : t->group.step_other[i];
}

/* A code, lifted. Nothing is to be clamped: the largest value of a group comes to the last code and
 * what four roundings of f32 add to that. */
PITHI_DEVICE float pithi_whole_lifted(float x, float reciprocal) {
    return pithi_lift(x * reciprocal);
}

/* Part of a body: t->group.step and t->group.step_other := those of the tile's groups. */
#define PITHI_WHOLE_SCALES(tile)                                               \
    do {                                                                       \
        const bool based_ = a->to.plan.base_dtype != PITH_NONE;                \
        PITHI_STEP(pithi_encode_largest, tile);                                \
        PITHI_UNROLL for (uint32_t u_ = 0; u_ < PITHI_UNITS; u_++)             \
            PITHI_WARP_MAX(group.largest[u_], pithi_group_lanes(&a->to.plan)); \
        if (pithi_whole_warps(&a->to.plan) > 1) {                              \
            PITHI_RUN(pithi_whole_publish, tile);                              \
            PITHI_STEP(pithi_whole_collect, tile);                             \
        }                                                                      \
        PITHI_STEP(pithi_whole_scale, tile);                                   \
        PITHI_WARP_SWAP(group.step, group.step_other, based_ ? 2u : 1u, 1);    \
    } while (0)

#endif
