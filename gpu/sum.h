/* sum.h - frames to values: decoded groups, added in the order of the frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_SUM_H
#define PITHI_GPU_SUM_H

#include "exempt.h"
#include "rotate.h"

/* x (more: x +) what the n codes of `word` decode to. */
PITHI_DEVICE void pithi_unit_decode(uint64_t word, uint32_t bits, uint32_t scale, uint32_t n,
                                    bool more, float x[8], uint64_t *saturated) {
    const uint32_t half = 1u << (bits - 1);
    if (pithi_magnitude(scale) < PITHI_SCALE_LIMIT) {
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            const float v = pithi_unit_code(word, bits, half, k) * pithi_float(scale);
            x[k] = more ? x[k] + v : v;
        }
        return;
    }
    const bool poisoned = pithi_nonfinite(scale);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        uint32_t v = poisoned ? PITHI_F32_NAN : 0;
        if (!poisoned && k < n)
            v = pithi_group_decoded((int)pithi_unit_code(word, bits, half, k), pithi_float(scale),
                                    0, false, saturated);
        x[k] = more ? x[k] + pithi_float(v) : pithi_float(v);
    }
}

/* Where a unit's scale and codes lie in the payloads of its frames; n: its elements. */
struct pithi_gpu_coded {
    uint64_t scale, codes;
    uint32_t n;
    bool first; /* of its group */
};

PITHI_DEVICE struct pithi_gpu_coded pithi_coded_at(const struct pithi_gpu_thread *t,
                                                   const struct pithi_table *p,
                                                   const struct pithi_gpu_item *it, uint64_t e) {
    struct pithi_gpu_coded at;
    at.n = pithi_tile_left(t, e, it->slot->count);
    const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, at.n ? e : 0);
    at.scale = pithi_spot_scale(p, &spot);
    at.codes = pithi_spot_codes(p, &spot);
    at.first = spot.inside % p->device.set.group == 0;
    return at;
}

/* f32 bits of a scale: by one access where it can be. */
PITHI_DEVICE uint32_t pithi_unit_scale(const uint8_t *p, uint32_t dtype) {
    if (dtype == PITH_F32 && pithi_is_aligned(p, 4)) return pithi_get_aligned32(p);
    return pithi_scale_load(p, dtype, 0);
}

PITHI_DEVICE uint8_t *pithi_sum_payload(const struct pithi_gpu_call *a,
                                        const struct pithi_gpu_item *it, uint32_t k) {
    return pithi_item_frame(&a->from.items, it->index * a->per_item + k) + it->form->header_bytes;
}

/* Whether all codes of whole units are words that are aligned, in all frames of the item. */
PITHI_DEVICE bool pithi_frames_aligned(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_item *it) {
    const uint32_t bits = a->from.plan.device.set.bits;
    bool aligned = a->from.plan.device.kind == PITHI_DEVICE_groups && (bits == 4 || bits == 8);
    for (uint32_t k = 0; k < a->per_item && aligned; k++)
        aligned = pithi_is_aligned(pithi_sum_payload(a, it, k), 8);
    return aligned;
}

/* Frames whose codes are fetched before the first of them is decoded: what a sum waits for is
 * memory. */
enum { PITHI_SUM_AHEAD = 2 };

/* t->x := the sums of frames `from` .. of the units, as many as are fetched at once. */
PITHI_DEVICE void pithi_sum_some(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                 struct pithi_gpu_thread *t,
                                 const struct pithi_gpu_coded at[PITHI_UNITS], uint32_t from,
                                 bool sums, struct pithi_gpu_results *seen) {
    const uint32_t frames = sums ? a->per_item : 1, ahead = sums ? PITHI_SUM_AHEAD : 1;
    const struct pithi_table *const p = &a->from.plan;
    const uint32_t bits = p->device.set.bits;
    uint32_t scale[PITHI_SUM_AHEAD][PITHI_UNITS];
    uint64_t word[PITHI_SUM_AHEAD][PITHI_UNITS];
    PITHI_UNROLL for (uint32_t k = 0; k < ahead; k++) {
        if (from + k >= frames) continue;
        uint8_t *const payload = pithi_sum_payload(a, it, from + k);
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
            if (!at[u].n) continue;
            uint8_t *const codes = pithi_tile_place(t, payload + at[u].codes, bits);
            scale[k][u] = pithi_unit_scale(payload + at[u].scale, p->device.set.scale_dtype);
            word[k][u] = pithi_unit_get_codes(codes, bits, at[u].n);
        }
    }
    PITHI_UNROLL for (uint32_t k = 0; k < ahead; k++) {
        if (from + k >= frames) continue;
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
            if (!at[u].n) continue;
            if (at[u].first) seen->poisoned += pithi_nonfinite(scale[k][u]);
            pithi_unit_decode(word[k][u], bits, scale[k][u], at[u].n, from + k > 0, t->x[u],
                              &seen->saturated);
        }
    }
}

/* t->x := the sum of the item's frames of values that a codec without groups stores as they are. */
PITHI_LOCAL(pithi_sum_raw, uint64_t tile) {
    const struct pithi_table *const p = &a->from.plan;
    const struct pithi_gpu_item *const it = &s->from;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->slot->count);
        const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, n ? e : 0);
        const uint64_t at = spot.at + (uint64_t)spot.inside * pithi_width(p->dtype);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        for (uint32_t f = 0; n && f < a->per_item; f++) {
            uint32_t v[PITHI_UNIT];
            pithi_unit_load(pithi_sum_payload(a, it, f) + at, p->dtype, n, v);
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] =
                f ? t->x[u][k] + pithi_float(v[k]) : pithi_float(v[k]);
        }
    }
}

/* t->x := the sum of the item's frames; sums: there may be several. again: nothing of it is
 * counted. */
PITHI_LOCAL(pithi_sum_groups, uint64_t tile, bool again, bool sums) {
    const struct pithi_gpu_item *const it = &s->from;
    struct pithi_gpu_coded at[PITHI_UNITS];
    struct pithi_gpu_results seen = {0};
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        at[u] = pithi_coded_at(t, &a->from.plan, it, pithi_unit_at(t, tile, u));
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
    }
    if (sums) {
        for (uint32_t k = 0; k < a->per_item; k += PITHI_SUM_AHEAD)
            pithi_sum_some(a, it, t, at, k, true, &seen);
    } else {
        pithi_sum_some(a, it, t, at, 0, false, &seen);
    }
    if (again) return;
    /* With a base, what counts is whether that overflows. */
    if (a->from.plan.base_dtype == PITH_NONE) t->read.saturated += seen.saturated;
    t->read.poisoned += seen.poisoned;
}

/* A body's text: t->x := the sum of the item's frames. */
#define PITHI_SUM(tile, again, sums)                           \
    do {                                                       \
        if (a->from.plan.device.kind == PITHI_DEVICE_raw)      \
            PITHI_STEP(pithi_sum_raw, tile);                   \
        else                                                   \
            PITHI_STEP(pithi_sum_groups, tile, again, (sums)); \
    } while (0)

/* ---- Out of the rotated domain, and the factor -----------------------------------------------*/

PITHI_LOCAL(pithi_unrotate_inner, uint64_t tile) {
    const uint32_t order = a->from.plan.device.rotation.order;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_shrink(t, order, s->from.slot->count, e, t->x[u]);
        pithi_unit_inner(t, order, s->from.slot->count, e, t->x[u]);
    }
}
PITHI_LOCAL(pithi_unrotate_across, uint64_t tile, uint32_t half) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_across(t, a->from.plan.device.rotation.order, s->from.slot->count,
                          pithi_unit_at(t, tile, u), half, t->x[u], t->y[u]);
}
PITHI_LOCAL(pithi_unrotate_signs, uint64_t tile) {
    (void)s;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_signs(a->from.plan.device.rotation.signs, pithi_unit_at(t, tile, u), t->x[u]);
}
PITHI_LOCAL(pithi_scale_sum, uint64_t tile) {
    (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] *= a->scale;
}

/* A body's text: t->x from the domain of the frames to that of tensors. */
#define PITHI_UNROTATE(tile)                                                                 \
    do {                                                                                     \
        if (a->from.plan.device.rotation.order) {                                            \
            PITHI_STEP(pithi_unrotate_inner, tile);                                          \
            PITHI_ROTATE_ACROSS(&a->from.plan.device.rotation, pithi_unrotate_across, tile); \
            if (a->from.plan.device.rotation.signs) PITHI_STEP(pithi_unrotate_signs, tile);  \
        }                                                                                    \
    } while (0)

#endif
