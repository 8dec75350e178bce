/* stream.h - calls about a stream: its beginning, its base, its settings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Here an item is a slot. The stream of another plan is left as it is. */
#ifndef PITHI_GPU_DEVICE_STREAM_H
#define PITHI_GPU_DEVICE_STREAM_H

#include "device/raw.h"
#include "device/sparse/stream.h"

PITHI_DEVICE bool pithi_stream_ours(const struct pithi_gpu_call *a) {
    return a->to.stream->stream_fingerprint == a->to.plan.stream_fingerprint;
}

/* ---- Settings --------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_stream_assign, uint64_t number) {
    struct pithi_gpu_stream *const stream = a->to.stream;
    (void)s, (void)number;
    if (t->tid || !pithi_stream_ours(a)) return;
    switch (a->change.what) {
    case PITHI_SET_RANDOM: stream->random = a->change.random; break;
    case PITHI_SET_STEP:
        pithi_stream_slots(stream)[a->change.slot].step = a->change.step;
        pithi_stream_slots(stream)[a->change.slot].undone = 1;
        break;
    case PITHI_SET_BASE: stream->external = a->change.base; break;
    }
}

PITHI_BODY(pithi_stream_set) { PITHI_RUN(pithi_stream_assign, number); }

/* ---- Every slot, a thread each ---------------------------------------------------------------*/

/* All of the stream is 0. */
PITHI_PHASE(pithi_stream_begin, uint64_t number) {
    struct pithi_gpu_stream *const stream = a->to.stream;
    const uint64_t i = number * PITHI_TEAM + t->tid;
    (void)s;
    if (i == 0) {
        stream->stream_fingerprint = a->to.plan.stream_fingerprint;
        stream->random = a->change.random;
        stream->slots = sizeof *stream;
        stream->memory = pithi_stream_memory_at(&a->to.plan);
    }
    if (i >= a->to.plan.slots) return;
    struct pithi_gpu_slot_state *const slot =
        (struct pithi_gpu_slot_state *)(void *)(stream + 1) + i;
    slot->step = a->change.step;
    slot->undone = 1;
}

PITHI_BODY(pithi_stream_init) { PITHI_RUN(pithi_stream_begin, number); }

PITHI_PHASE(pithi_stream_undo, uint64_t number) {
    const uint64_t i = number * PITHI_TEAM + t->tid;
    (void)s;
    if (i >= a->to.plan.slots || !pithi_stream_ours(a)) return;
    struct pithi_gpu_slot_state *const slot = pithi_stream_slots(a->to.stream) + i;
    if (slot->undone || slot->step != a->change.step + 1) return;
    slot->step = a->change.step;
    if (a->to.plan.device.feedback) slot->side ^= 1;
    if (a->to.plan.device.kind == PITHI_KIND_SETS) {
        struct pithi_gpu_chosen *const c = pithi_stream_chosen(&a->to.plan, a->to.stream) + i;
        c->control = c->before;
        c->reported = c->reported_before;
        c->holds = 0;
    }
    slot->undone = 1;
}

PITHI_BODY(pithi_stream_rollback) { PITHI_RUN(pithi_stream_undo, number); }

/* ---- Base ------------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_stream_open, uint64_t number) {
    pithi_thread_clear(t);
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_item_locate(a, &a->to, number, &s->to);
}

/* A new base, when there is a tensor to take it from; equal dtypes keep every bit. */
PITHI_DEVICE void pithi_stream_take(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                    uint64_t e, uint32_t n) {
    const uint32_t from = a->to.items.dtype, to = a->to.plan.base_dtype;
    uint32_t x[PITHI_UNIT];
    pithi_unit_get(it->tensor + e * pithi_dtype_bytes(from), pithi_dtype_bytes(from), n, x);
    pithi_unit_recast(from, to, x);
    pithi_unit_put(it->base + e * pithi_dtype_bytes(to), pithi_dtype_bytes(to), n, x);
}

PITHI_LOCAL(pithi_stream_read, uint64_t tile) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t dtype = a->to.plan.base_dtype, width = pithi_dtype_bytes(dtype);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        const uint32_t n = pithi_unit_left(e, it->slot->count);
        uint32_t x[PITHI_UNIT];
        if (!n) continue;
        if (it->tensor) pithi_stream_take(a, it, e, n);
        if (!a->to.plan.device.base_hash) continue;
        pithi_unit_get(it->base + e * width, width, n, x);
        t->made.hash += pithi_unit_hash_bits(dtype, e, n, x);
    }
}

/* Whether elements have 1 or 8 bytes: these are never converted, so that a base of them is copied
 * and hashed as bytes. */
PITHI_DEVICE bool pithi_stream_odd(uint64_t width) { return width == 1 || width == 8; }
PITHI_PHASE(pithi_stream_copy_base, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t at = it->begin * width;
    (void)a;
    if (it->tensor)
        pithi_copy(t->tid, it->base + at, it->tensor + at, (it->end - it->begin) * width);
}
PITHI_LOCAL(pithi_stream_hash, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->to;
    if (a->to.plan.device.base_hash)
        t->made.hash =
            pithi_hash_part(it->base, it->begin * width, it->end * width, t->tid, PITHI_TEAM);
}

/* Part of a body: reads, or sets, the base of the team's span; s->made has its hash. */
PITHI_DEVICE void pithi_stream_span(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number) {
    const uint64_t width = pithi_dtype_bytes(a->to.plan.base_dtype);
    if (pithi_stream_odd(width)) {
        PITHI_RUN(pithi_stream_copy_base, width);
        PITHI_STEP(pithi_stream_hash, width);
    } else {
        for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
            PITHI_STEP(pithi_stream_read, tile);
    }
    PITHI_GATHER_HASHED(false, true, number);
}

PITHI_PHASE(pithi_stream_hash_base, uint64_t number) {
    struct pithi_gpu_slot_state *const slot = s->to.slot_state;
    (void)number;
    if (t->tid || !pithi_results_hand(a, &s->made, slot)) return;
    const uint64_t hash = pithi_results_finish(a->to.stream, slot, 0, false);
    slot->step = a->change.step;
    slot->base_hash = pithi_item_base_hash(&a->to.plan, &s->to, hash);
    slot->invalid = 0;
}

PITHI_BODY(pithi_stream_base) {
    PITHI_RUN(pithi_stream_open, number);
    if (s->to.status != PITH_OK) return;
    pithi_stream_span(a, s, t, team, number);
    PITHI_RUN(pithi_stream_hash_base, number);
}

PITHI_PHASE(pithi_stream_compare, uint64_t number) {
    struct pithi_gpu_slot_state *const slot = s->to.slot_state;
    (void)number;
    if (t->tid || !pithi_results_hand(a, &s->made, slot)) return;
    const uint64_t hash = pithi_results_finish(a->to.stream, slot, 0, false);
    if (pithi_item_base_hash(&a->to.plan, &s->to, hash) != slot->base_hash)
        s->to.status = PITH_ERR_BASE;
    pithi_item_answer(&a->to.items, &s->to, 0);
}

PITHI_PHASE(pithi_stream_refuse, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->to.first) pithi_item_answer(&a->to.items, &s->to, 0);
}

PITHI_PHASE(pithi_stream_whole, uint64_t number) {
    (void)a, (void)number;
    if (t->tid == 0 && s->to.status == PITH_OK && s->to.slot_state->invalid)
        s->to.status = PITH_ERR_STATE;
}

PITHI_BODY(pithi_stream_verify) {
    PITHI_RUN(pithi_stream_open, number);
    PITHI_RUN(pithi_stream_whole, number);
    if (s->to.status != PITH_OK) {
        PITHI_RUN(pithi_stream_refuse, number);
        return;
    }
    pithi_stream_span(a, s, t, team, number);
    PITHI_RUN(pithi_stream_compare, number);
}

#endif
