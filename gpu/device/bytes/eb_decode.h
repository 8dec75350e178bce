/* eb_decode.h - blocks of eb whose words are coded: to differences, which lie where codes will.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team finds the strings of its block; launches behind it make words of these as for rows. Sums
 * of differences are left to kernels of device/predict, as those of packed words are. */
#ifndef PITHI_GPU_DEVICE_BYTES_EB_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_EB_DECODE_H

#include "device/bytes/strings_decode.h"

PITHI_PHASE(pithi_eb_read_open, uint64_t number) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid || !pithi_strings_read_begin(a, s, number)) return;
    e->block.whole = e->block.lo == 0 && e->block.hi == s->from.slot->count;
    e->touched = e->block.whole;
}
PITHI_PHASE(pithi_eb_touch, uint32_t row) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    (void)a;
    if (pithi_rows_wanted(&s->from.slot->tiling, &e->block, row, t->tid))
        pithi_atomic_max32(&e->touched, 1);
}

/* Coded words up to their symbols. Launches to come look at blocks that have none, and at what is
 * before them. */
PITHI_PHASE(pithi_eb_words_open, uint64_t block) {
    struct pithi_gpu_block *const b = &s->rans.bounded.block;
    (void)block;
    if (t->tid) return;
    pithi_quant_init(&b->quant, a->from.plan.dtype, &pithi_mark(a, s->from.index)->bounded.bound,
                     false);
    b->legible = pithi_block_parse(b, pithi_dtype_bytes(a->from.plan.dtype), true) == PITHI_SOUND &&
                 b->method == PITHI_EB_CODED;
    if (!b->legible) return;
    s->rans.at = b->body;
    s->rans.left = b->body_bytes;
    s->rans.fault = !pithi_strings_words_parse(s);
}
PITHI_LOCAL(pithi_eb_known, uint64_t block) {
    (void)a;
    if (t->tid == 0 && s->rans.bounded.coded.sound)
        pithi_entry(s->rans.bounded.block.workspace, block)->bounded.kind = 1;
}

/* A team a block. */
PITHI_BODY(pithi_eb_read) {
    PITHI_RUN(pithi_eb_read_open, number);
    if (!s->rans.live) return;
    const struct pithi_gpu_block *const b = &s->rans.bounded.block;
    const uint64_t block = b->number;
    if (!b->whole) PITHI_RUN(pithi_eb_touch, pithi_tile_extent(&b->tile, 3));
    if (!s->rans.bounded.touched) return;
    PITHI_RUN(pithi_eb_words_open, block);
    if (!b->legible) return;
    const bool sound = !s->rans.fault;
    PITHI_MEET(); /* all have looked */
    if (sound) pithi_strings_read_parts(a, s, t, team, block);
    PITHI_STEP(pithi_eb_known, block);
    PITHI_STEP(pithi_strings_read_close, block);
}

#endif
