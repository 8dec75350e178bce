/* raw.h - values as they are: copied into frames and out of them, and sums stored as f32.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_RAW_H
#define PITHI_GPU_DEVICE_RAW_H

#include "device/pair.h"

/* ---- Copies ----------------------------------------------------------------------------------*/

enum { PITHI_COPY_AT_ONCE = 4 }; /* accesses under way at once, per thread */

/* A team's copy of n quads, or words, of aligned memory. */
PITHI_DEVICE void pithi_copy_quads(uint32_t tid, uint8_t *to, const uint8_t *from, uint64_t n) {
    uint64_t at = tid;
    for (; at + (PITHI_COPY_AT_ONCE - 1) * PITHI_TEAM < n; at += PITHI_COPY_AT_ONCE * PITHI_TEAM) {
        struct pithi_quad q[PITHI_COPY_AT_ONCE];
        PITHI_UNROLL for (uint64_t k = 0; k < PITHI_COPY_AT_ONCE; k++) q[k] =
            pithi_get_quad(from + 16 * (at + k * PITHI_TEAM));
        PITHI_UNROLL for (uint64_t k = 0; k < PITHI_COPY_AT_ONCE; k++)
            pithi_put_quad(to + 16 * (at + k * PITHI_TEAM), q[k]);
    }
    for (; at < n; at += PITHI_TEAM) pithi_put_quad(to + 16 * at, pithi_get_quad(from + 16 * at));
}
PITHI_DEVICE void pithi_copy_words(uint32_t tid, uint8_t *to, const uint8_t *from, uint64_t n) {
    for (uint64_t at = tid; at < n; at += PITHI_TEAM)
        pithi_put_aligned32(to + 4 * at, pithi_get_aligned32(from + 4 * at));
}
PITHI_DEVICE void pithi_copy_bytes(uint32_t tid, uint8_t *to, const uint8_t *from, uint64_t n) {
    for (uint64_t at = tid; at < n; at += PITHI_TEAM) to[at] = from[at];
}

/* A team's copy of n bytes, in the largest parts that both sides can be aligned to. */
PITHI_DEVICE void pithi_copy(uint32_t tid, uint8_t *to, const uint8_t *from, uint64_t n) {
    const uintptr_t apart = (uintptr_t)to ^ (uintptr_t)from;
    const uint64_t wide = apart % 16 == 0 ? 16 : apart % 4 == 0 ? 4 : 1;
    uint64_t head = (0 - (uint64_t)(uintptr_t)to) % wide;
    if (head > n) head = n;
    const uint64_t parts = (n - head) / wide, tail = head + parts * wide;
    pithi_copy_bytes(tid, to, from, head);
    if (wide == 16)
        pithi_copy_quads(tid, to + head, from + head, parts);
    else if (wide == 4)
        pithi_copy_words(tid, to + head, from + head, parts);
    else
        pithi_copy_bytes(tid, to, from, parts);
    pithi_copy_bytes(tid, to + tail, from + tail, n - tail);
}

/* ---- The kernels -----------------------------------------------------------------------------*/

PITHI_PHASE(pithi_raw_put, uint32_t width) {
    const struct pithi_gpu_item *const it = &s->to;
    (void)a;
    pithi_copy(t->tid, it->payload + it->form->data + it->begin * width,
               it->tensor + it->begin * width, (it->end - it->begin) * width);
}

PITHI_BODY(pithi_encode_raw) {
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_raw_put, pithi_dtype_bytes(a->to.plan.dtype));
    pithi_encode_end(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_RUN(pithi_encode_close, number);
}

PITHI_PHASE(pithi_raw_get, uint32_t width) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t lo = it->begin > a->first ? it->begin : a->first;
    const uint64_t shift = a->from.items.tensors ? a->first : 0;
    if (lo < it->end)
        pithi_copy(t->tid, it->tensor + (lo - shift) * width,
                   it->payload + it->form->data + lo * width, (it->end - lo) * width);
}

PITHI_BODY(pithi_decode_raw) {
    if (!pithi_decode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_raw_get, pithi_dtype_bytes(a->from.plan.dtype));
    PITHI_RUN(pithi_decode_close, number);
}

PITHI_LOCAL(pithi_raw_store, uint64_t tile) {
    const struct pithi_gpu_item *const it = &s->to;
    (void)a;
    PITHI_UNROLL for (uint32_t u = 0; u < PITHI_UNITS; u++) {
        const uint64_t e = pithi_unit_at(t, tile, u);
        uint32_t v[PITHI_UNIT];
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) v[k] = pithi_bits(t->x[u][k]);
        pithi_unit_store(it->payload + it->form->data + 4 * e, PITH_F32,
                         pithi_unit_left(e, it->end), v);
    }
}

/* The sum of the item's frames. */
PITHI_BODY(pithi_recode_raw) {
    if (!pithi_pair_begin(a, s, t, team, number)) return;
    PITHI_STEP(pithi_tile_whole, false);
    for (uint64_t tile = s->to.begin; tile < s->to.end; tile += PITHI_TILE) {
        PITHI_SUM(tile, false, true);
        PITHI_UNROTATE(tile);
        if (a->scale != 1.0f) PITHI_STEP(pithi_scale_sum, tile);
        PITHI_RUN(pithi_raw_store, tile);
    }
    pithi_pair_close(a, s, t, team, number);
}

#endif
