/* trellis_sum.h - trellis-coded groups to values: decoded, or summed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a code means follows from it and from the lowest bits of the three codes before it, so that
 * no unit waits for another. Part of sum.h. */
#ifndef PITHI_GPU_DEVICE_GROUP_TRELLIS_SUM_H
#define PITHI_GPU_DEVICE_GROUP_TRELLIS_SUM_H

#include "device/group/sum.h"
#include "group/trellis_value.h"

/* Returns the trellis in the plan's memory: threads cannot index what is an argument of a
 * kernel. */
PITHI_DEVICE const struct pithi_trellis *pithi_trellis_of(const struct pithi_gpu_side *side) {
    return &((const struct pithi_device_plan *)(const void *)side->plan_memory)
                ->device.groups.trellis;
}

/* Fills in what the numbers of levels of a side stand for; number 0: of the side that is read. */
PITHI_PHASE(pithi_trellis_levels, const struct pithi_gpu_side *side, uint32_t number) {
    (void)a;
    if (t->tid < PITHI_TRELLIS_LEVELS)
        s->level[number][t->tid] =
            (float)pithi_trellis_of(side)->level[t->tid] / PITHI_TRELLIS_UNIT;
}

/* Whether a sequence begins with element e of a slot. */
PITHI_DEVICE bool pithi_trellis_begins(const struct pithi_group_setting *set, uint64_t e) {
    return !((uint32_t)e & (set->group - 1) & (PITHI_TRELLIS_SEQUENCE - 1));
}

/* A unit's codes. */
PITHI_DEVICE uint32_t pithi_trellis_get(const uint8_t *codes, uint32_t bits, uint32_t n) {
    if (n == PITHI_UNIT && bits == 2 && pithi_is_aligned(codes, 2))
        return pithi_get_aligned16(codes);
    return (uint32_t)pithi_unit_get_codes(codes, bits, n);
}

PITHI_DEVICE void pithi_trellis_put(uint8_t *codes, uint32_t bits, uint32_t n, uint32_t word) {
    if (n == PITHI_UNIT && bits == 2 && pithi_is_aligned(codes, 2))
        pithi_put_aligned16(codes, (uint16_t)word);
    else
        pithi_unit_put_codes(codes, bits, n, word);
}

/* The two bytes before a unit's codes; 0 where there are none in the sequence. */
PITHI_DEVICE uint32_t pithi_trellis_before(const uint8_t *codes, bool begins) {
    if (begins) return 0;
    if (pithi_is_aligned(codes, 2)) return pithi_get_aligned16(codes - 2);
    return codes[-2] | (uint32_t)codes[-1] << 8;
}

/* x := the levels that the codes of a word mean, after those in `before`. */
PITHI_DEVICE void pithi_trellis_means(const float *level, uint32_t word, uint32_t before,
                                      uint32_t bits, float x[8]) {
    const uint64_t all = (uint64_t)word << 16 | before;
    const uint32_t parity =
        word ^ (uint32_t)(all >> (16 - bits)) ^ (uint32_t)(all >> (16 - 3 * bits));
    const uint32_t low = (uint32_t)(all >> (16 - 2 * bits)), high = (1u << bits) - 2;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t code = word >> k * bits & high;
        const uint32_t subset = (parity >> k * bits & 1) << 1 | (low >> k * bits & 1);
        x[k] = level[code << 1 | subset];
    }
}

/* What a product is where the scale is large, or no number; overflows are counted. */
PITHI_DEVICE float pithi_trellis_far(uint32_t scale, float x, uint64_t *saturated) {
    const uint32_t u = pithi_bits(x);
    if (pithi_nonfinite(scale)) return pithi_float(PITHI_F32_NAN);
    if (pithi_magnitude(u) != PITHI_F32_INF) return x;
    ++*saturated;
    return pithi_float((u & 0x80000000u) | PITHI_F32_MAX);
}
/* x := what levels mean with a scale; of n overflows are counted. */
PITHI_DEVICE void pithi_trellis_scaled(uint32_t scale, uint32_t n, float x[8],
                                       uint64_t *saturated) {
    const float by = pithi_float(scale);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] = x[k] * by + 0.0f;
    if (pithi_magnitude(scale) < PITHI_SCALE_LIMIT) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n) x[k] =
        pithi_trellis_far(scale, x[k], saturated);
}

/* t->x := (more: t->x +) the values of one frame. */
PITHI_DEVICE void pithi_trellis_take(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                     const struct pithi_gpu_coded at[PITHI_UNITS],
                                     const bool begins[PITHI_UNITS], uint8_t *payload, bool more,
                                     struct pithi_gpu_results *seen) {
    const struct pithi_group_setting *const set = &a->from.plan.device.groups.set;
    uint32_t scale[PITHI_UNITS], word[PITHI_UNITS], before[PITHI_UNITS];
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        scale[u] = word[u] = before[u] = 0;
        if (!at[u].n) continue;
        uint8_t *const codes = pithi_tile_place(t, payload + at[u].codes, set->bits);
        scale[u] = pithi_unit_scale(payload + at[u].scale, set->scale_dtype);
        word[u] = pithi_trellis_get(codes, set->bits, at[u].n);
        before[u] = pithi_trellis_before(codes, begins[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        float x[PITHI_UNIT];
        if (!at[u].n) continue;
        if (at[u].first) seen->poisoned += pithi_nonfinite(scale[u]);
        pithi_trellis_means(s->level[0], word[u], before[u], set->bits, x);
        pithi_trellis_scaled(scale[u], at[u].n, x, &seen->saturated);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] =
            more ? t->x[u][k] + x[k] : x[k];
    }
}

/* Sums as pithi_sum_groups does. */
PITHI_LOCAL(pithi_trellis_sum, uint64_t tile, bool again, bool sums) {
    const struct pithi_gpu_item *const it = &s->from;
    struct pithi_gpu_coded at[PITHI_UNITS];
    struct pithi_gpu_results seen = {0};
    bool begins[PITHI_UNITS];
    pithi_symbols_units(t, &a->from.plan, it, tile, at);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        begins[u] =
            pithi_trellis_begins(&a->from.plan.device.groups.set, pithi_unit_at(t, tile, u));
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
    }
    pithi_trellis_take(a, s, t, at, begins, sums ? pithi_sum_payload(a, it, 0) : it->payload, false,
                       &seen);
    for (uint32_t k = 1; sums && k < a->per_item; k++)
        pithi_trellis_take(a, s, t, at, begins, pithi_sum_payload(a, it, k), true, &seen);
    if (again) return;
    if (a->from.plan.base_dtype == PITH_NONE) t->read.saturated += seen.saturated;
    t->read.poisoned += seen.poisoned;
}

#endif
