/* embed_encode.h - what strings of map and words make of a block of rows; the words are cut and
 * written as those of others are.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Decides as the CPU does: codecs/embed.c. */
#ifndef PITHI_GPU_DEVICE_BYTES_EMBED_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_EMBED_ENCODE_H

#include "device/bytes/strings_encode.h"

/* Where a block ends: PITHI_STRINGS_FULL where it is stored as it is. entry and coded say then how
 * its map and its words are coded. */
PITHI_DEVICE uint64_t pithi_embed_length(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_shared *s,
                                         struct pithi_gpu_entry *entry,
                                         struct pithi_bounded_strings *coded) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const struct pithi_gpu_block *const b = &e->block;
    const struct pithi_gpu_rows *const r = &e->rows;
    const uint32_t width = pithi_dtype_bytes(a->to.plan.dtype);
    const uint64_t most = (uint64_t)b->count * width - 1, frame = s->to.index;
    uint64_t at = PITHI_ROWS_HEAD + PITHI_EXACT_COUNT +
                  pithi_exact_which_bytes(b, entry->bounded.misses) +
                  (uint64_t)entry->bounded.misses * width;
    if (at > most) return PITHI_STRINGS_FULL;
    if (r->kind == PITHI_ROWMAP_PLAIN) {
        const uint64_t plain = at + pithi_rowmap_plain_bytes(r->rows, r->distinct);
        const uint64_t end = plain <= most ? plain - 1 : most;
        const uint64_t map =
            pithi_strings_place(a, frame, b->number, PITHI_STRINGS_MAP, at, end) + coded->open;
        coded->map_at = (uint32_t)at;
        if (map <= end) {
            entry->bounded.kind = PITHI_ROWMAP_CODED;
            entry->bounded.map = (uint32_t)(map - at);
        }
        at = map <= end ? map : plain;
    }
    at += (uint64_t)r->wide * r->row;
    const uint64_t packed = at + entry->bounded.packed;
    at = pithi_strings_words_length(a, s, PITHI_STRINGS_SYMBOLS, coded, at, most);
    if (at <= most && at <= packed) {
        entry->bounded.method = PITHI_EB_CODED;
        return at;
    }
    return packed <= most ? packed : PITHI_STRINGS_FULL;
}

PITHI_PHASE(pithi_embed_weigh, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    if (!pithi_strings_made(a, s, number)) return;
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    struct pithi_gpu_entry *const entry = pithi_entry(e->block.workspace, e->block.number);
    struct pithi_bounded_strings *const coded =
        pithi_strings_record(a, s->to.index, e->block.number);
    e->coded = *coded;
    const uint64_t length = pithi_embed_length(a, s, entry, coded);
    entry->length = length < PITHI_STRINGS_FULL
                        ? (uint32_t)length
                        : e->block.count * pithi_dtype_bytes(a->to.plan.dtype) | PITHI_INDEX_PLAIN;
}

/* A team a block, of which one thread has little to do. */
PITHI_BODY(pithi_embed_measure) { PITHI_RUN(pithi_embed_weigh, number); }

#endif
