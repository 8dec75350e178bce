/* exact.h - exact values with a base: into the staging buffer, and out of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The staging buffer of such a frame (device/bytes/frame.h) has the values themselves, that of a
 * key frame too. Values are the next base, so that what the base held is kept beside them. */
#ifndef PITHI_GPU_DEVICE_EXACT_H
#define PITHI_GPU_DEVICE_EXACT_H

#include "device/bytes/frame.h"
#include "device/key.h"
#include "device/raw.h"

/* ---- Encode ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_exact_keep, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->to;
    uint8_t *const before = pithi_coding_of(a, it->index) + a->coding.before;
    pithi_copy(t->tid, before + it->begin * width, it->base + it->begin * width,
               (it->end - it->begin) * width);
}
PITHI_PHASE(pithi_exact_put, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t at = it->begin * width, bytes = (it->end - it->begin) * width;
    (void)a;
    pithi_copy(t->tid, it->payload + it->form->data + at, it->tensor + at, bytes);
    pithi_copy(t->tid, it->base + at, it->tensor + at, bytes);
}
PITHI_LOCAL(pithi_exact_hash, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->to;
    if (!a->to.plan.device.base_hash) return;
    t->made.hash = pithi_hash_part(it->payload + it->form->data, it->begin * width, it->end * width,
                                   t->tid, PITHI_TEAM);
}

PITHI_BODY(pithi_encode_exact) {
    const uint64_t width = pithi_dtype_bytes(a->to.plan.dtype);
    if (!pithi_encode_begin(a, s, t, team, number)) return;
    PITHI_RUN(pithi_exact_keep, width);
    PITHI_RUN(pithi_exact_put, width);
    PITHI_STEP(pithi_exact_hash, width);
    pithi_encode_end(a, s, t, team, PITHI_OF_TENSOR);
    PITHI_GATHER_HASHED(false, true, number);
    if (a->key)
        PITHI_RUN(pithi_key_close, number);
    else
        PITHI_RUN(pithi_encode_close, number);
}

/* ---- Decode ----------------------------------------------------------------------------------*/

/* The base becomes what was read; a tensor that is the base has been written. */
PITHI_PHASE(pithi_exact_renew, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint8_t *const from = it->payload + it->form->data;
    const uint64_t at = it->begin * width, end = it->end * width;
    if (!a->update || a->add) return;
    pithi_copy(t->tid, it->base + at, from + at, end - at);
    if (a->from.plan.device.base_hash)
        t->read.hash = pithi_hash_part(from, at, end, t->tid, PITHI_TEAM);
}

PITHI_BODY(pithi_decode_exact) {
    const uint32_t width = pithi_dtype_bytes(a->from.plan.dtype);
    if (!pithi_decode_begin(a, s, t, team, number)) return;
    if (s->from.tensor) PITHI_RUN(pithi_raw_get, width);
    PITHI_RUN(pithi_exact_renew, width);
    if (pithi_decode_counts(a)) PITHI_GATHER_HASHED(true, false, number);
    PITHI_RUN(pithi_decode_close, number);
}

#endif
