/* sum.h - frames to values: decoded groups, added in the order of the frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_SUM_H
#define PITHI_GPU_SUM_H

#include "exempt.h"
#include "rotate.h"

#define PITHI_SCALE_LIMIT 0x7B000000u /* bits of 2^119: no code times less than it overflows */

/* x (more: x +) what the n codes of `word` decode to. */
PITHI_DEVICE void pithi_unit_decode(uint64_t word, uint32_t bits, uint32_t scale, uint32_t n,
                                    bool more, float x[8], uint64_t *saturated) {
    const bool poisoned = pithi_nonfinite(scale);
    const bool plain = pithi_magnitude(scale) < PITHI_SCALE_LIMIT;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const int q = pithi_unit_code(word, bits, k);
        float v;
        if (plain)
            v = (float)q * pithi_float(scale);
        else if (poisoned || k >= n)
            v = pithi_float(poisoned ? PITHI_F32_NAN : 0);
        else
            v = pithi_float(pithi_group_decoded(q, pithi_float(scale), 0, false, saturated));
        x[k] = more ? x[k] + v : v;
    }
}

/* One unit of one frame, whose payload has the form of the item's. */
PITHI_DEVICE void pithi_unit_take(const struct pithi_table *p, const uint8_t *payload,
                                  const struct pithi_gpu_spot *spot, uint32_t n, bool more,
                                  float x[8], struct pithi_gpu_results *count) {
    const uint8_t *const scales = payload + pithi_spot_scale(p, spot);
    const uint32_t scale = pithi_scale_load(scales, p->device.set.scale_dtype, 0);
    const uint64_t word =
        pithi_unit_get_codes(payload + pithi_spot_codes(p, spot), p->device.set.bits, n);
    if (spot->inside % p->device.set.group == 0) count->poisoned += pithi_nonfinite(scale);
    uint64_t saturated = 0;
    pithi_unit_decode(word, p->device.set.bits, scale, n, more, x, &saturated);
    /* With a base, what counts is whether that overflows. */
    if (p->base_dtype == PITH_NONE) count->saturated += saturated;
}

/* Values that a codec without groups stores as they are. */
PITHI_DEVICE void pithi_unit_take_raw(const struct pithi_table *p, const uint8_t *payload,
                                      const struct pithi_gpu_spot *spot, uint32_t n, bool more,
                                      float x[8]) {
    uint32_t v[PITHI_UNIT];
    pithi_unit_load(payload + spot->at + (uint64_t)spot->inside * pithi_width(p->dtype), p->dtype,
                    n, v);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) x[k] =
        more ? x[k] + pithi_float(v[k]) : pithi_float(v[k]);
}

/* t->x := the sum of the item's frames; again: nothing of it is counted. */
PITHI_LOCAL(pithi_sum, uint64_t tile, bool again) {
    const struct pithi_table *const p = &a->from.plan;
    const struct pithi_gpu_item *const it = &s->from;
    struct pithi_gpu_results seen = {0};
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->slot->count);
        const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, n ? e : 0);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
        for (uint32_t k = 0; n && k < a->per_item; k++) {
            const uint8_t *const payload =
                pithi_item_frame(&a->from.items, it->index * a->per_item + k) +
                it->form->header_bytes;
            if (p->device.kind == PITHI_DEVICE_raw)
                pithi_unit_take_raw(p, payload, &spot, n, k > 0, t->x[u]);
            else
                pithi_unit_take(p, payload, &spot, n, k > 0, t->x[u], &seen);
        }
    }
    if (again) return;
    t->read.saturated += seen.saturated;
    t->read.poisoned += seen.poisoned;
}

/* ---- Out of the rotated domain, and the factor -----------------------------------------------*/

PITHI_LOCAL(pithi_unrotate_inner, uint64_t tile) {
    const uint32_t order = a->from.plan.device.rotation.order;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_shrink(order, s->from.slot->count, e, t->x[u]);
        pithi_unit_inner(order, s->from.slot->count, e, t->x[u]);
    }
}
PITHI_LOCAL(pithi_unrotate_across, uint64_t tile, uint32_t half) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_across(a->from.plan.device.rotation.order, s->from.slot->count,
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
