/* sum.h - frames to values: decoded groups, added in the order of the frames.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_SUM_H
#define PITHI_GPU_DEVICE_GROUP_SUM_H

#include "device/exempt.h"
#include "device/group/rotate.h"

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

PITHI_DEVICE struct pithi_gpu_coded pithi_symbols_at(const struct pithi_device_plan *p,
                                                     const struct pithi_gpu_spot *spot,
                                                     uint32_t n) {
    struct pithi_gpu_coded at;
    at.n = n;
    at.scale = pithi_spot_scale(p, spot);
    at.codes = pithi_spot_codes(p, spot);
    at.first = spot->inside % p->device.groups.set.group == 0;
    return at;
}

/* Finds where scales and codes of the thread's units lie. A whole tile lies in one block, and its
 * rows begin alike. */
PITHI_DEVICE void pithi_symbols_units(const struct pithi_gpu_thread *t,
                                      const struct pithi_device_plan *p,
                                      const struct pithi_gpu_item *it, uint64_t tile,
                                      struct pithi_gpu_coded at[PITHI_UNITS]) {
    const uint32_t group = p->device.groups.set.group;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u), count = it->slot->count;
        const uint32_t n = pithi_tile_left(t, e, count);
        if (t->whole && u && group <= PITHI_ROW) {
            at[u] = at[0];
            at[u].scale +=
                u * (PITHI_ROW / group) * pithi_scale_width(p->device.groups.set.scale_dtype);
            at[u].codes += u * PITHI_ROW * p->device.groups.set.bits / 8;
            continue;
        }
        struct pithi_gpu_spot spot = pithi_spot(p, it->form, count, t->whole ? tile : n ? e : 0);
        if (t->whole) spot.inside += (uint32_t)(e - tile);
        at[u] = pithi_symbols_at(p, &spot, n);
    }
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

/* Whether all codes of whole units are words that are aligned, in all frames of the item, and whole
 * tiles lie in one block. */
PITHI_DEVICE bool pithi_frames_aligned(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_shared *s, bool sums) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const uint32_t bits = p->device.groups.set.bits;
    const bool words = bits == 4 || bits == 8 || (bits == 2 && p->device.groups.set.codebook);
    if (p->device.kind != PITHI_KIND_GROUPS || !words) return false;
    if (p->device.groups.set.scale_dtype != PITH_F32 || 1u << p->block_log2 < PITHI_TILE)
        return false;
    return sums ? !s->apart : pithi_is_aligned(s->from.payload, 8);
}

/* Frames whose codes are fetched before the first of them is decoded: what a sum waits for is
 * memory. FAR: in whole tiles, where scales are common. Special kernels have no registers for both
 * ways. */
enum { PITHI_SUM_FAR = 4, PITHI_SUM_AT_ONCE = 2 };
PITHI_DEVICE uint32_t pithi_sum_at_once(const struct pithi_gpu_thread *t, bool sums) {
    return sums && !t->special ? (uint32_t)PITHI_SUM_AT_ONCE : 1;
}

/* t->x := the sums of frames `from` .. of the units, as many as are fetched at once. */
PITHI_DEVICE void pithi_sum_some(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                 struct pithi_gpu_thread *t,
                                 const struct pithi_gpu_coded at[PITHI_UNITS], uint32_t from,
                                 bool sums, struct pithi_gpu_results *seen) {
    const uint32_t frames = sums ? a->per_item : 1, at_once = pithi_sum_at_once(t, sums);
    const struct pithi_device_plan *const p = &a->from.plan;
    const uint32_t bits = p->device.groups.set.bits;
    uint32_t scale[PITHI_SUM_AT_ONCE][PITHI_UNITS];
    uint64_t word[PITHI_SUM_AT_ONCE][PITHI_UNITS];
    PITHI_UNROLL for (uint32_t k = 0; k < at_once; k++) {
        if (from + k >= frames) continue;
        uint8_t *const payload = sums ? pithi_sum_payload(a, it, from + k) : it->payload;
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
            if (!at[u].n) continue;
            uint8_t *const codes = pithi_tile_place(t, payload + at[u].codes, bits);
            scale[k][u] = pithi_unit_scale(payload + at[u].scale, p->device.groups.set.scale_dtype);
            word[k][u] = pithi_unit_get_codes(codes, bits, at[u].n);
        }
    }
    PITHI_UNROLL for (uint32_t k = 0; k < at_once; k++) {
        if (from + k >= frames) continue;
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
            if (!at[u].n) continue;
            if (at[u].first) seen->poisoned += pithi_nonfinite(scale[k][u]);
            pithi_unit_decode(word[k][u], bits, scale[k][u], at[u].n, from + k > 0, t->x[u],
                              &seen->saturated);
        }
    }
}

/* t->x := (more: t->x +) the sums of `frames` frames from `from` on; of units of whole tiles.
 * Returns a number that is not less than any scale, if none is NaN. Scales are not looked at on the
 * way: nothing must wait for them before all codes are on theirs. */
PITHI_DEVICE float pithi_sum_far(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                 struct pithi_gpu_thread *t,
                                 const struct pithi_gpu_coded at[PITHI_UNITS], uint32_t from,
                                 uint32_t frames, bool more) {
    const uint32_t bits = a->from.plan.device.groups.set.bits, half = 1u << (bits - 1);
    float scale[PITHI_SUM_FAR][PITHI_UNITS], size = 0;
    uint64_t word[PITHI_SUM_FAR][PITHI_UNITS];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SUM_FAR; k++) {
        if (k >= frames) continue;
        const uint8_t *const payload = s->payload[from + k];
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
            word[k][u] = bits == 8 ? pithi_get_aligned64(payload + at[u].codes)
                                   : pithi_get_aligned32(payload + at[u].codes);
            scale[k][u] = pithi_float(pithi_get_aligned32(payload + at[u].scale));
        }
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SUM_FAR; k++) {
        if (k >= frames) continue;
        PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
            size += pithi_size(scale[k][u]);
            PITHI_UNROLL for (uint32_t i = 0; i < PITHI_UNIT; i++) {
                const float v = pithi_unit_code(word[k][u], bits, half, i) * scale[k][u];
                t->x[u][i] = more || k ? t->x[u][i] + v : v;
            }
        }
    }
    return size;
}

/* t->x := the sums of all frames; of units of whole tiles. False, with anything there, where a
 * scale is out of the common. */
PITHI_DEVICE bool pithi_sum_whole(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                  struct pithi_gpu_thread *t,
                                  const struct pithi_gpu_coded at[PITHI_UNITS]) {
    const bool far = a->per_item >= PITHI_SUM_FAR;
    float size = far ? pithi_sum_far(a, s, t, at, 0, PITHI_SUM_FAR, false)
                     : pithi_sum_far(a, s, t, at, 0, 1, false);
    uint32_t k = far ? PITHI_SUM_FAR : 1;
    for (; k + PITHI_SUM_FAR <= a->per_item; k += PITHI_SUM_FAR)
        size += pithi_sum_far(a, s, t, at, k, PITHI_SUM_FAR, true);
    for (; k < a->per_item; k++) size += pithi_sum_far(a, s, t, at, k, 1, true);
    return size < pithi_float(PITHI_SCALE_LIMIT);
}

/* t->x := the sum of the item's frames of values that a codec without groups stores as they are. */
PITHI_LOCAL(pithi_sum_raw, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_gpu_item *const it = &s->from;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->slot->count);
        const struct pithi_gpu_spot spot = pithi_spot(p, it->form, it->slot->count, n ? e : 0);
        const uint64_t at = spot.at + (uint64_t)spot.inside * pithi_dtype_bytes(p->dtype);
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
    pithi_symbols_units(t, &a->from.plan, it, tile, at);
    if (sums && t->whole && pithi_sum_whole(a, s, t, at)) return;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] = 0;
    if (sums) {
        for (uint32_t k = 0; k < a->per_item; k += pithi_sum_at_once(t, true))
            pithi_sum_some(a, it, t, at, k, true, &seen);
    } else {
        pithi_sum_some(a, it, t, at, 0, false, &seen);
    }
    if (again) return;
    /* With a base, what counts is whether that overflows. */
    if (a->from.plan.base_dtype == PITH_NONE) t->read.saturated += seen.saturated;
    t->read.poisoned += seen.poisoned;
}

/* Sums trellis-coded groups, in kernels of their own: see trellis_sum.h. */
#if !defined __CUDACC__ || defined PITHI_GPU_trellis
#define PITHI_SUM_PATHS(tile, again, sums) PITHI_STEP(pithi_trellis_sum, tile, again, (sums))
#else
#define PITHI_SUM_PATHS(tile, again, sums) PITHI_ASSUME(false)
#endif

/* Part of a body: t->x := the sum of the item's frames. */
#define PITHI_SUM(tile, again, sums)                                                \
    do {                                                                            \
        if (a->from.plan.device.kind == PITHI_KIND_RAW)                             \
            PITHI_STEP(pithi_sum_raw, tile);                                        \
        else if (a->from.plan.device.groups.set.codebook == PITHI_CODEBOOK_TRELLIS) \
            PITHI_SUM_PATHS(tile, again, sums);                                     \
        else                                                                        \
            PITHI_STEP(pithi_sum_groups, tile, again, (sums));                      \
    } while (0)

/* ---- Out of the rotated domain, and the factor -----------------------------------------------*/

PITHI_LOCAL(pithi_unrotate_inner, uint64_t tile) {
    const uint32_t order = a->from.plan.device.groups.rotation.order;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_shrink(t, order, s->from.slot->count, e, t->x[u]);
        pithi_unit_inner(t, order, s->from.slot->count, e, t->x[u]);
    }
}
PITHI_LOCAL(pithi_unrotate_across, uint64_t tile, uint32_t half) {
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        pithi_unit_across(t, a->from.plan.device.groups.rotation.order, s->from.slot->count,
                          pithi_unit_at(t, tile, u), half, t->x[u], t->y[u]);
}
PITHI_LOCAL(pithi_unrotate_signs, uint64_t tile) {
    (void)s;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) pithi_unit_signs(
        a->from.plan.device.groups.rotation.signs, pithi_unit_at(t, tile, u), t->x[u]);
}
PITHI_LOCAL(pithi_scale_sum, uint64_t tile) {
    (void)s, (void)tile;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++)
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->x[u][k] *= a->scale;
}

/* Part of a body: t->x from the domain of the frames to that of tensors. */
#define PITHI_UNROTATE(tile)                                                                       \
    do {                                                                                           \
        if (a->from.plan.device.groups.rotation.order) {                                           \
            PITHI_STEP(pithi_unrotate_inner, tile);                                                \
            PITHI_ROTATE_ACROSS(&a->from.plan.device.groups.rotation, pithi_unrotate_across,       \
                                tile);                                                             \
            if (a->from.plan.device.groups.rotation.signs) PITHI_STEP(pithi_unrotate_signs, tile); \
        }                                                                                          \
    } while (0)

#include "device/group/trellis_sum.h"

#endif
