/* key.h - key frames: the new base itself, element after element.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What such a frame's header says of its content is known when all of it has been hashed, so the
 * last team to arrive writes the header's end, or says the status. */
#ifndef PITHI_GPU_DEVICE_KEY_H
#define PITHI_GPU_DEVICE_KEY_H

#include "device/group/encode.h"

/* ---- Encode ----------------------------------------------------------------------------------*/

/* Bits of a value in the base's dtype: nearest even, finite values stay finite. Values of that
 * dtype keep every bit. */
PITHI_DEVICE uint32_t pithi_key_round(const struct pithi_device_plan *p, uint32_t bits,
                                      uint64_t *saturated) {
    if (p->base_dtype == p->dtype) return bits;
    const uint32_t value = pithi_unit_widen(p->dtype, bits);
    const uint32_t rounded = pithi_unit_round(p->base_dtype, value);
    if (p->base_dtype == PITH_F32 || pithi_nonfinite(value) ||
        !pithi_nonfinite(pithi_unit_widen(p->base_dtype, rounded)))
        return rounded;
    ++*saturated;
    return pithi_unit_round(p->base_dtype, (value & 0x80000000u) | pithi_largest(p->base_dtype));
}

PITHI_LOCAL(pithi_key_put, uint64_t tile) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    const uint32_t width = pithi_dtype_bytes(p->dtype),
                   base_width = pithi_dtype_bytes(p->base_dtype);
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        pithi_unit_get(it->tensor + e * width, width, pithi_unit_left(e, it->end), t->base[u]);
    }
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u), at = e * base_width;
        const uint32_t n = pithi_unit_left(e, it->end);
        uint32_t bits[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) bits[k] =
            pithi_key_round(p, t->base[u][k], &t->made.saturated);
        pithi_unit_put(it->payload + it->form->data + at, base_width, n, bits);
        pithi_unit_put(it->base + at, base_width, n, bits);
        if (p->device.base_hash) t->made.hash += pithi_unit_hash_bits(p->base_dtype, e, n, bits);
    }
}

PITHI_PHASE(pithi_key_close, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    (void)number;
    if (t->tid || !pithi_results_hand(a, &s->made, it->slot_state)) return;
    const uint64_t hash = pithi_results_finish(a->to.stream, it->slot_state, 1, true);
    const uint64_t base_hash = pithi_item_base_hash(&a->to.plan, it, hash);
    pithi_write_stream(a, it, base_hash);
    pithi_advance(it->slot_state, it->slot_state->step, base_hash);
    pithi_item_answer(&a->to.items, it, it->form->header_bytes + it->form->payload_bytes);
}

PITHI_BODY(pithi_encode_key) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE)
        PITHI_RUN(pithi_key_put, tile);
    pithi_encode_end(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_GATHER_HASHED(false, true, number);
    PITHI_RUN(pithi_key_close, number);
}

#endif
