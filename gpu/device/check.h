/* check.h - frames checked as a whole, before a launch that writes; and checks that are all.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_CHECK_H
#define PITHI_GPU_DEVICE_CHECK_H

#include "device/blocks.h"

/* Whether the frame is long enough for what the plan says lies in it. Nothing else of its header
 * has been looked at; sets kind, form and payload. */
PITHI_DEVICE bool pithi_check_length(const struct pithi_device_plan *p, uint64_t length,
                                     struct pithi_gpu_item *it) {
    if (!it->frame || it->status != PITH_OK || length < PITHI_HEADER_BYTES) return false;
    pithi_item_kind(p, it, it->frame);
    const uint64_t payload = pithi_item_coded(p, it) ? 0 : it->form->payload_bytes;
    return length >= it->form->header_bytes && length - it->form->header_bytes >= payload;
}

/* Teams are those of a frame, not of an item. Headers are the first team's; where they fail, what
 * the others find of the blocks does not matter. */
PITHI_PHASE(pithi_check_open, uint64_t number) {
    const struct pithi_device_plan *const p = &a->from.plan;
    struct pithi_gpu_item *const it = &s->from;
    const uint64_t frame = number / a->chunks, chunk = number % a->chunks;
    pithi_thread_clear(t);
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_item_locate(a, &a->from, frame / a->per_item * a->chunks + chunk, it);
    it->index = frame;
    it->frame = pithi_item_frame(&a->from.items, frame);
    const uint64_t length = pithi_item_length(&a->from.items, frame);
    if (it->first && it->frame && it->status == PITH_OK)
        a->checked[frame].status = pithi_header_check(p, length, it, it->frame, NULL);
    if (!pithi_check_length(p, length, it)) it->status = PITH_ERR_TRUNCATED;
}

/* Hashes the tensor that a difference is to be added to, or the base that a key frame brings, where
 * the frame has it as it is. */
PITHI_LOCAL(pithi_check_hash, uint64_t width) {
    const struct pithi_gpu_item *const it = &s->from;
    if (it->kind && pithi_item_coded(&a->from.plan, it)) return;
    const uint8_t *const from = it->kind ? it->payload + it->form->data : it->tensor;
    if (it->kind || a->add)
        t->read.hash =
            pithi_hash_part(from, it->begin * width, it->end * width, t->tid, PITHI_TEAM);
}

PITHI_PHASE(pithi_check_close, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->read.hash)
        pithi_atomic_add64(&a->checked[s->from.index].hash, s->read.hash);
}

PITHI_BODY(pithi_check) {
    const struct pithi_device_plan *const p = &a->from.plan;
    PITHI_RUN(pithi_check_open, number);
    if (s->from.status != PITH_OK) return;
    if (p->checksums && !pithi_item_coded(p, &s->from))
        pithi_blocks(a, s, t, team, p, &s->from, &a->checked[s->from.index]);
    if (!a->hash_base) return;
    PITHI_STEP(pithi_check_hash, pithi_dtype_bytes(p->base_dtype));
    PITHI_GATHER_HASHED(true, false, number);
    PITHI_RUN(pithi_check_close, number);
}

/* ---- What pith_cuda_verify answers -----------------------------------------------------------*/

PITHI_PHASE(pithi_answer_item, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->from, number, &s->from);
    s->from.status = pithi_item_check(a, &s->from, NULL, NULL);
    pithi_item_answer(&a->from.items, &s->from, 0);
}

PITHI_BODY(pithi_answer) { PITHI_RUN(pithi_answer_item, number); }

#endif
