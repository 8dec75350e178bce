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

/* By the team's first thread: the weights of classes that have some, and of no others. */
PITHI_DEVICE bool pithi_eb_take_weights(struct pithi_gpu_shared *s) {
    const struct pithi_tile *const tile = &s->rans.bounded.block.tile;
    const uint8_t *const set = pithi_planes_take(s, PITHI_WEIGHTED_LEVELS);
    if (!set) return false;
    for (uint32_t i = 0; i < PITHI_WEIGHTED_LEVELS; i++)
        for (uint32_t k = 1; k <= 8; k++) {
            if (!(set[i] >> (k - 1) & 1)) continue;
            if (k > PITHI_WEIGHTED_CLASSES || !pithi_class_count(tile, k)) return false;
            const uint32_t bytes = PITHI_WEIGHT_BYTES * pithi_class_terms(tile->extent, k);
            if (!pithi_planes_take(s, bytes)) return false;
        }
    return true;
}

/* A block of coded words, up to these. Launches to come look at blocks that have none, and at what
 * is before them. */
PITHI_PHASE(pithi_eb_words_open, uint64_t block) {
    struct pithi_gpu_block *const b = &s->rans.bounded.block;
    const uint32_t dtype = a->from.plan.dtype;
    (void)block;
    if (t->tid) return;
    pithi_quant_init(&b->quant, dtype, &pithi_mark(a, s->from.index)->bounded.bound, false);
    b->legible = pithi_block_parse(b, pithi_dtype_bytes(dtype), pithi_method_last(&a->from.plan),
                                   s->from.frame[PITHI_AT_REVISION]) == PITHI_SOUND &&
                 b->method >= PITHI_EB_CODED;
    if (!b->legible) return;
    s->rans.at = b->body;
    s->rans.left = b->body_bytes;
    s->rans.fault = b->method == PITHI_EB_WEIGHTED && !pithi_eb_take_weights(s);
}
/* Coded words of a sequence, up to their symbols. */
PITHI_PHASE(pithi_eb_sequence_open, uint32_t i) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid) return;
    pithi_eb_sequence(a, &a->from, s->from.index, e->block.method, i, s);
    s->rans.fault = e->rows.distinct && !pithi_strings_words_parse(s);
}
PITHI_PHASE(pithi_eb_known, uint64_t block) {
    struct pithi_gpu_block *const b = &s->rans.bounded.block;
    (void)a;
    if (t->tid || s->rans.fault) return;
    s->rans.fault = s->rans.left != 0;
    pithi_entry(b->workspace, block)->bounded.kind = !s->rans.fault;
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
    for (uint32_t i = 0; i < a->coding.forms; i++) {
        if (s->rans.fault) break;
        PITHI_MEET(); /* all have looked */
        PITHI_RUN(pithi_eb_sequence_open, i);
        if (s->rans.fault) break;
        if (s->rans.bounded.rows.distinct) pithi_strings_read_parts(a, s, t, team, block);
    }
    PITHI_MEET(); /* all have looked */
    PITHI_RUN(pithi_eb_known, block);
    PITHI_STEP(pithi_strings_read_close, block);
}

#endif
