/* decode.h - frames of groups to values: decoded, added, or summed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_GROUP_DECODE_H
#define PITHI_GPU_DEVICE_GROUP_DECODE_H

#include "device/group/sum.h"
#include "device/open.h"

/* ---- Opening ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_decode_open, uint64_t number) {
    pithi_thread_clear(t);
    if (t->tid < PITHI_HEADS) s->differs[t->tid][0] = s->differs[t->tid][1] = PITHI_HEADER_SAME;
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_item_locate(a, &a->from, number, &s->from);
    if (a->add && a->from.plan.base_dtype != PITH_NONE) s->from.base = s->from.tensor;
}

/* Whether values are added to a base. Kernels that know of plans without one leave that out. */
PITHI_DEVICE bool pithi_decode_based(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_item *it) {
    return a->from.plan.base_dtype != PITH_NONE && it->base;
}

/* ---- Values out ------------------------------------------------------------------------------*/

/* Stores as much of the unit at e as lies in the team's elements; raw, in the tensor's dtype, may
 * have more. A tensor that is the base has been written already. */
PITHI_DEVICE void pithi_decode_put(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                   const struct pithi_gpu_thread *t, uint64_t e,
                                   const uint32_t raw[8]) {
    const uint32_t width = a->from.items.dtype == PITH_F32 ? 4 : 2;
    const uint64_t lo = a->first, shift = a->from.items.tensors ? lo : 0;
    if (!it->tensor || it->tensor == it->base) return;
    if (t->whole || e >= lo) {
        pithi_unit_put_raw(pithi_tile_place(t, it->tensor + (e - shift) * width, 16), width,
                           pithi_tile_left(t, e, it->end), raw);
        return;
    }
    uint32_t bits[PITHI_UNIT];
    pithi_unit_spread(width, raw, bits);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (e + k < lo || e + k >= it->end) continue;
        uint8_t *const to = it->tensor + (e + k - shift) * width;
        if (width == 4)
            pithi_put32(to, bits[k]);
        else
            pithi_put16(to, (uint16_t)bits[k]);
    }
}

PITHI_DEVICE void pithi_decode_store(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_item *it,
                                     const struct pithi_gpu_thread *t, uint64_t e,
                                     const uint32_t x[8]) {
    uint32_t raw[PITHI_UNIT];
    pithi_unit_stored(a->from.items.dtype, x, raw);
    pithi_decode_put(a, it, t, e, raw);
}

/* raw := bits of the base's dtype as elements of the tensor. */
PITHI_DEVICE void pithi_decode_recast(const struct pithi_gpu_call *a, uint32_t bits[8],
                                      uint32_t raw[8]) {
    const uint32_t dtype = a->from.items.dtype;
    pithi_unit_recast(a->from.plan.base_dtype, dtype, bits);
    pithi_unit_join(dtype == PITH_F32 ? 4 : 2, bits, raw);
}

/* The new base of a unit. */
PITHI_DEVICE void pithi_decode_update(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it, struct pithi_gpu_thread *t,
                                      uint32_t u, uint64_t e, uint32_t n) {
    const uint32_t dtype = a->from.plan.base_dtype, width = pithi_dtype_bytes(dtype);
    uint32_t base[PITHI_UNIT], raw[PITHI_UNIT], bits[PITHI_UNIT];
    pithi_unit_read(dtype, t->base[u], base);
    pithi_unit_update(dtype, base, t->x[u], n, &t->read.saturated, raw);
    if (a->update) {
        pithi_unit_put_raw(pithi_tile_place(t, it->base + e * width, 16), width, n, raw);
        if (a->from.plan.device.base_hash && it->slot_state)
            t->read.hash += pithi_unit_hash(width, e, n, raw);
    }
    if (dtype == a->from.items.dtype) {
        pithi_decode_put(a, it, t, e, raw);
        return;
    }
    pithi_unit_spread(width, raw, bits);
    pithi_decode_recast(a, bits, raw);
    pithi_decode_put(a, it, t, e, raw);
}

/* t->base := the base as it lies there. */
PITHI_LOCAL(pithi_decode_base, uint64_t tile) {
    const uint32_t width = pithi_dtype_bytes(a->from.plan.base_dtype);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_fetch(pithi_tile_place(t, s->from.base + e * width, 16), width,
                         pithi_tile_left(t, e, s->from.slot->count), t->base[u]);
    }
}

/* t->base := the tensor as it lies there, which is to be added to. */
PITHI_LOCAL(pithi_decode_held, uint64_t tile) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint32_t width = pithi_dtype_bytes(a->from.items.dtype);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_fetch(pithi_tile_place(t, it->tensor + e * width, 16), width,
                         pithi_tile_left(t, e, it->slot->count), t->base[u]);
    }
}

/* v := what the tensor holds, plus v. */
PITHI_DEVICE void pithi_decode_plus(uint32_t dtype, const uint32_t raw[8], uint32_t v[8]) {
    uint32_t held[PITHI_UNIT];
    pithi_unit_read(dtype, raw, held);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t x = pithi_unit_round(PITH_F32, v[k]);
        v[k] = pithi_bits(pithi_float(held[k]) + pithi_float(x));
    }
}

/* Exempt values as the frame has them, over what was decoded in their place. */
PITHI_DEVICE void pithi_decode_exempt(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it, uint64_t e) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const uint32_t dtype = a->from.items.dtype;
    const uint64_t shift = a->from.items.tensors ? a->first : 0;
    uint64_t i = pithi_range_after(p, it, it->slot->first + e);
    for (uint32_t k = 0; k < PITHI_UNIT; k++)
        if (it->tensor && e + k >= a->first && e + k < it->end)
            pithi_exempt_put(p, it, e, k, &i,
                             it->tensor + (e + k - shift) * pithi_dtype_bytes(dtype), dtype);
}

PITHI_LOCAL(pithi_decode_values, uint64_t tile, bool sums) {
    const struct pithi_gpu_item *const it = &s->from;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_tile_left(t, e, it->slot->count);
        uint32_t v[PITHI_UNIT];
        if (!n) continue;
        if (pithi_decode_based(a, it)) {
            pithi_decode_update(a, it, t, u, e, n);
            continue;
        }
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_bits(t->x[u][k]);
        if (a->from.plan.ranges && (sums || a->add)) pithi_exempt_sum(a, it, e, n, v);
        if (a->add) pithi_decode_plus(a->from.items.dtype, t->base[u], v);
        pithi_decode_store(a, it, t, e, v);
        if (a->from.plan.ranges && !sums && !a->add) pithi_decode_exempt(a, it, e);
    }
}

/* ---- Key frames ------------------------------------------------------------------------------*/

/* The new base, as it stands in the frame. */
PITHI_LOCAL(pithi_decode_key, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_gpu_item *const it = &s->from;
    const uint32_t width = pithi_dtype_bytes(p->base_dtype);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_get(it->payload + it->form->data + e * width, width, pithi_unit_left(e, it->end),
                       t->base[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->end);
        if (it->base && a->update) pithi_unit_put(it->base + e * width, width, n, t->base[u]);
        if (it->slot_state && p->device.base_hash)
            t->read.hash += pithi_unit_hash_bits(p->base_dtype, e, n, t->base[u]);
        uint32_t raw[PITHI_UNIT];
        pithi_decode_recast(a, t->base[u], raw);
        pithi_decode_put(a, it, t, e, raw);
    }
}

/* Called by the first thread of the item's last team: marks the base as invalid where it is not
 * what the header says. */
PITHI_DEVICE void pithi_key_finish(const struct pithi_gpu_call *a, struct pithi_gpu_item *it) {
    const struct pithi_device_plan *const p = &a->from.plan;
    struct pithi_gpu_slot_state *const slot = it->slot_state;
    if (pithi_item_base_matches(p, it, pithi_fresh64(&slot->hash))) {
        const uint64_t hash = pithi_results_finish(a->from.stream, slot, 1, true);
        pithi_advance(slot, pithi_get64(pithi_item_stream(it) + PITHI_STREAM_STEP),
                      pithi_item_base_hash(p, it, hash));
    } else {
        it->status = PITH_ERR_CHECKSUM;
        slot->invalid = 1;
        slot->hash = 0;
        slot->arrived = 0;
    }
    pithi_item_answer(&a->from.items, it, 0);
}

/* ---- Ends ------------------------------------------------------------------------------------*/

/* Called by the first thread of the item's last team: brings the slot and the counters to where
 * they are after the item's frame. */
PITHI_DEVICE void pithi_decode_finish(const struct pithi_gpu_call *a, struct pithi_gpu_item *it) {
    struct pithi_gpu_slot_state *const slot = it->slot_state;
    const uint64_t hash = pithi_results_finish(a->from.stream, slot, a->per_item, false);
    pithi_advance(slot, slot->step, pithi_item_base_hash(&a->from.plan, it, hash));
}

PITHI_PHASE(pithi_decode_close, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    const bool moves = pithi_decode_counts(a) && a->from.plan.base_dtype != PITH_NONE;
    (void)number;
    if (t->tid) return;
    if (it->first && a->per_item == 1 && !(moves && it->kind))
        pithi_item_answer(&a->from.items, it, 0);
    if (!moves) {
        if (pithi_decode_counts(a))
            pithi_results_count(a->from.stream, &s->read, it->first ? a->per_item : 0);
    } else if (pithi_results_hand(a, &s->read, it->slot_state)) {
        if (it->kind)
            pithi_key_finish(a, it);
        else
            pithi_decode_finish(a, it);
    }
}

PITHI_PHASE(pithi_decode_refuse, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->from.first) pithi_item_answer(&a->from.items, &s->from, 0);
}

/* Part of a body: opens the item and its frame; returns whether it is decoded. */
PITHI_DEVICE bool pithi_decode_begin(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t number) {
    PITHI_RUN(pithi_decode_open, number);
    PITHI_OPEN_FRAMES(false);
    if (s->from.status == PITH_OK) return true;
    PITHI_RUN(pithi_decode_refuse, number);
    return false;
}

/* ---- The kernels -----------------------------------------------------------------------------*/

/* Whether whole tiles move by the widest accesses. */
PITHI_DEVICE bool pithi_decode_aligned(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_shared *s, bool sums) {
    const struct pithi_gpu_item *const it = &s->from;
    return a->first == 0 && pithi_frames_aligned(a, s, sums) && pithi_is_aligned(it->tensor, 16) &&
           (a->from.plan.base_dtype == PITH_NONE || pithi_is_aligned(it->base, 16));
}

PITHI_DEVICE void pithi_decode_tile(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team, bool sums,
                                    uint64_t tile, bool whole) {
    const bool based = pithi_decode_based(a, &s->from);
    const bool early = a->from.plan.base_dtype != PITH_F32; /* else registers do not suffice */
    PITHI_STEP(pithi_tile_whole, whole);
    if (based && early) PITHI_STEP(pithi_decode_base, tile);
    if (!based && a->add) PITHI_STEP(pithi_decode_held, tile);
    PITHI_SUM(tile, false, sums);
    PITHI_UNROTATE(tile);
    if (a->scale != 1.0f) PITHI_STEP(pithi_scale_sum, tile);
    if (based && !early) PITHI_STEP(pithi_decode_base, tile);
    PITHI_STEP(pithi_decode_values, tile, sums);
}

PITHI_DEVICE void pithi_decode_groups(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      bool sums) {
    const bool aligned = t->special && pithi_decode_aligned(a, s, sums);
    for (uint64_t tile = s->from.begin; tile < s->from.end; tile += PITHI_TILE) {
        if (aligned && tile + PITHI_TILE <= s->from.end)
            pithi_decode_tile(a, s, t, team, sums, tile, true);
        else
            pithi_decode_tile(a, s, t, team, sums, tile, false);
    }
}

/* One frame an item. */
PITHI_BODY(pithi_decode) {
    if (!pithi_decode_begin(a, s, t, team, number)) return;
    if (a->from.plan.base_dtype != PITH_NONE && s->from.kind) {
        PITHI_STEP(pithi_tile_whole, false);
        for (uint64_t tile = s->from.begin; tile < s->from.end; tile += PITHI_TILE)
            PITHI_STEP(pithi_decode_key, tile);
    } else {
        pithi_decode_groups(a, s, t, team, false);
    }
    if (pithi_decode_counts(a))
        PITHI_GATHER_HASHED(a->from.plan.base_dtype != PITH_NONE, false, number);
    PITHI_RUN(pithi_decode_close, number);
}

/* Several. */
PITHI_BODY(pithi_reduce) {
    PITHI_RUN(pithi_decode_open, number);
    PITHI_OPEN_FRAMES(true);
    if (s->bad != UINT32_MAX) return;
    pithi_decode_groups(a, s, t, team, true);
    if (pithi_decode_counts(a))
        PITHI_GATHER_HASHED(a->from.plan.base_dtype != PITH_NONE, false, number);
    PITHI_RUN(pithi_decode_close, number);
}

#endif
