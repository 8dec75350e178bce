/* lossless.h - blocks of exact values: where their parts lie, and eight words at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block of codec lossless is symbols and planes of bytes, each of them a piece, see page.h, and
 * where words are cut in two what is left of them. The staging buffer has values as they are. */
#ifndef PITHI_GPU_DEVICE_BYTES_LOSSLESS_H
#define PITHI_GPU_DEVICE_BYTES_LOSSLESS_H

#include "bytes/word_value.h"
#include "device/bytes/page.h"

/* What the head of a block says of symbols that are tops; and behind it, lower bits and base. */
enum { PITHI_LOSSLESS_TOPS = 9, PITHI_LOSSLESS_SHIFTED = 10 };
enum { PITHI_LOSSLESS_HEAD = 1, PITHI_LOSSLESS_TOPS_HEAD = 4 };
enum { PITHI_LOSSLESS_ESCAPE = 255, PITHI_LOSSLESS_UPDATE = 0x10 };

/* ---- The workspace ---------------------------------------------------------------------------*/

/* number: of a form of a block, when it is encoded, else of the block. */
PITHI_DEVICE struct pithi_lossless_block *pithi_lossless_record(const struct pithi_gpu_call *a,
                                                                uint64_t frame, uint64_t number) {
    uint8_t *const blocks = pithi_coding_of(a, frame) + a->coding.blocks;
    return (struct pithi_lossless_block *)(void *)blocks + number;
}
/* Bytes of a part: symbols are the first one, plane k is part k + 1. */
PITHI_DEVICE uint8_t *pithi_lossless_part(const struct pithi_gpu_shared *s, uint32_t part) {
    return s->rans.words.parts + part * pithi_lossless_part_bytes(s->rans.words.run);
}
/* Returns where an encode has lower bits, then tops, behind the parts. */
PITHI_DEVICE uint8_t *pithi_lossless_tail(const struct pithi_device_plan *p,
                                          const struct pithi_gpu_shared *s) {
    return pithi_lossless_part(s, pithi_lossless_parts(p));
}
PITHI_DEVICE uint32_t pithi_lossless_bits_bytes(const struct pithi_lossless_block *b,
                                                uint32_t count) {
    return (count + 7) / 8 * (b->low % 8);
}

/* Whether what is encoded is tried as updates of a base too. */
PITHI_DEVICE bool pithi_lossless_based(const struct pithi_gpu_call *a) {
    return a->to.plan.base_dtype != PITH_NONE && !a->key;
}

/* By the team's first thread: a block of a located item. */
PITHI_DEVICE void pithi_lossless_find(const struct pithi_gpu_call *a,
                                      const struct pithi_device_plan *p,
                                      const struct pithi_gpu_item *it, uint64_t block,
                                      struct pithi_lossless_shared *w) {
    w->first = block << p->block_log2;
    w->count = pithi_lossless_count(p, it, block);
    w->width = pithi_dtype_bytes(p->dtype);
    w->kind = pithi_word_kind_of(p->dtype);
    w->values = pithi_staging_payload(a, it) + it->form->data + w->first * w->width;
    w->before = NULL;
    w->parts = pithi_coding_symbols(a, it->index, block);
    w->run = pithi_coding_run(p);
    w->place = 0;
    w->number = block;
    w->form = PITHI_FORM_VALUES;
    w->apart = 0;
    w->row = p->device.row;
    w->column = w->row ? (uint32_t)(w->first % w->row) : 0;
    w->block.bits = w->block.low = w->block.base = w->block.escapes = 0;
    w->block.parts = w->block.tail = w->block.sound = w->block.update = 0;
    w->block.shifted = 0;
}
/* Finds a form of a block that is encoded. The symbols of a sample are behind those of both other
 * forms, and so are its strings. */
PITHI_DEVICE void pithi_lossless_find_form(const struct pithi_gpu_call *a,
                                           const struct pithi_gpu_item *it, uint64_t block,
                                           uint32_t form, struct pithi_lossless_shared *w) {
    const struct pithi_device_plan *const p = &a->to.plan;
    pithi_lossless_find(a, p, it, block, w);
    const uint32_t before = form == PITHI_FORM_SAMPLE ? 2 : form == PITHI_FORM_UPDATE;
    w->form = form;
    w->number = block * a->coding.forms + form;
    w->parts += before * pithi_lossless_symbols_bytes(p, w->run);
    w->place = before * pithi_lossless_strings_bytes(p, a->coding.strings, w->run);
    if (form == PITHI_FORM_UPDATE) {
        w->before = pithi_coding_of(a, it->index) + a->coding.before + w->first * w->width;
        w->block.update = PITHI_LOSSLESS_UPDATE;
    }
    if (form == PITHI_FORM_SAMPLE) {
        w->apart = w->count / PITHI_VALUES_RUNS;
        w->count = w->count < PITHI_VALUES_LEAST ? 0 : (uint32_t)PITHI_VALUES_SAMPLE;
        w->run = PITHI_VALUES_SAMPLE;
    }
}

/* The part that offsets of rows are; the next one is those of columns. */
PITHI_DEVICE uint32_t pithi_lossless_rows_part(const struct pithi_lossless_shared *w) {
    return w->width + 1;
}
PITHI_DEVICE uint32_t pithi_offsets_rows_count(const struct pithi_lossless_shared *w) {
    return (uint32_t)pithi_top_shift_rows(w->row, w->column, w->count);
}
/* What the symbol of word `at` becomes by the offsets of its row and its column. */
PITHI_DEVICE uint8_t pithi_lossless_shifted(const struct pithi_gpu_shared *s, uint64_t at,
                                            uint8_t symbol) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t place = w->column + (uint32_t)at, rows = pithi_lossless_rows_part(w);
    const uint8_t of_row = pithi_lossless_part(s, rows)[place / w->row] % PITHI_TOP_SHIFTS;
    return pithi_top_shifted(symbol, of_row, pithi_lossless_part(s, rows + 1)[place % w->row]);
}

/* ---- Words -----------------------------------------------------------------------------------*/

/* Values are aligned to their width. */
PITHI_DEVICE uint64_t pithi_lossless_load(const uint8_t *values, uint32_t width, uint64_t i) {
    switch (width) {
    case 1: return values[i];
    case 2: return pithi_get_aligned16(values + 2 * i);
    case 4: return pithi_get_aligned32(values + 4 * i);
    default: return pithi_get_aligned64(values + 8 * i);
    }
}
PITHI_DEVICE void pithi_lossless_store(uint8_t *values, uint32_t width, uint64_t i,
                                       uint64_t value) {
    switch (width) {
    case 1: values[i] = (uint8_t)value; break;
    case 2: pithi_put_aligned16(values + 2 * i, (uint16_t)value); break;
    case 4: pithi_put_aligned32(values + 4 * i, (uint32_t)value); break;
    default: pithi_put_aligned64(values + 8 * i, value);
    }
}
/* Loads a value as pithi_lossless_load, from any address. */
PITHI_DEVICE uint64_t pithi_lossless_load_any(const uint8_t *values, uint32_t width, uint64_t i) {
    if (pithi_is_aligned(values, width)) return pithi_lossless_load(values, width, i);
    switch (width) {
    case 2: return pithi_get16(values + 2 * i);
    case 4: return pithi_get32(values + 4 * i);
    default: return pithi_get64(values + 8 * i);
    }
}
/* Word i of what is tried of the block. */
PITHI_DEVICE uint64_t pithi_lossless_word(const struct pithi_lossless_shared *w, uint64_t i) {
    const enum pithi_word_kind kind = (enum pithi_word_kind)w->kind;
    const uint32_t bits = 8 * w->width;
    if (w->apart) i = i / PITHI_VALUES_RUN * w->apart + i % PITHI_VALUES_RUN;
    const uint64_t value = pithi_lossless_load(w->values, w->width, i);
    if (!w->before) return pithi_word_from_value(value, kind, bits);
    return pithi_word_from_update(value, pithi_lossless_load(w->before, w->width, i), kind, bits);
}

/* The thread's words of a strip, the first of which is number `first`: how many there are. */
PITHI_DEVICE uint32_t pithi_lossless_left(const struct pithi_lossless_shared *w,
                                          const struct pithi_gpu_thread *t, uint32_t first) {
    return pithi_unit_left((uint64_t)first + t->tid * PITHI_UNIT, w->count);
}

#endif
