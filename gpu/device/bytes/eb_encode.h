/* eb_encode.h - what strings of words make of a block of eb, sequence by sequence;
 * the words are cut and written as those of rows are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_EB_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_EB_ENCODE_H

#include "device/bytes/strings_encode.h"

PITHI_PHASE(pithi_eb_weigh, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->rans.bounded.block;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    if (!pithi_strings_find(a, &a->to, &s->to, number, s)) return;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    if (entry->bounded.method < PITHI_EB_CODED) return;
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), raw = b->count * width;
    const uint64_t most = (uint64_t)raw - 1;
    uint64_t at = pithi_eb_body_at(b, entry->bounded.misses, width);
    if (entry->bounded.method == PITHI_EB_WEIGHTED)
        at += pithi_weights_bytes(pithi_weights_of(&a->to, b), &b->tile);
    for (uint32_t i = 0; i < a->coding.forms && at <= most; i++) {
        pithi_eb_sequence(a, &a->to, s->to.index, entry->bounded.method, i, s);
        if (!pithi_strings_words(&s->rans.bounded)) continue;
        at = pithi_strings_words_length(a, s, PITHI_STRINGS_SYMBOLS,
                                        pithi_strings_record(a, s->to.index, s->rans.words.number),
                                        at, most);
    }
    entry->length = at <= most ? (uint32_t)at : raw | PITHI_INDEX_PLAIN;
}

/* A team a block, of which one thread has little to do. */
PITHI_BODY(pithi_eb_measure) { PITHI_RUN(pithi_eb_weigh, number); }

#endif
