/* eb_encode.h - what strings of words make of a block of eb; the words are cut and written as those
 * of rows are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_EB_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_EB_ENCODE_H

#include "device/bytes/strings_encode.h"

PITHI_PHASE(pithi_eb_weigh, uint64_t number) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    if (!pithi_strings_made(a, s, number) || !pithi_strings_words(e)) return;
    struct pithi_gpu_entry *const entry = pithi_entry(e->block.workspace, e->block.number);
    struct pithi_bounded_strings *const coded =
        pithi_strings_record(a, s->to.index, e->block.number);
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype), raw = e->block.count * width;
    const uint64_t at = pithi_eb_body_at(&e->block, entry->bounded.misses, width),
                   most = (uint64_t)raw - 1;
    const uint64_t length =
        pithi_strings_words_length(a, s, PITHI_STRINGS_SYMBOLS, coded, at, most);
    coded->words_at = (uint32_t)at;
    entry->length = length <= most ? (uint32_t)length : raw | PITHI_INDEX_PLAIN;
}

/* A team a block, of which one thread has little to do. */
PITHI_BODY(pithi_eb_measure) { PITHI_RUN(pithi_eb_weigh, number); }

#endif
