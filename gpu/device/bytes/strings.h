/* strings.h - blocks of codecs with a bound whose map or words are coded: where their parts lie,
 * and eight words at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of device/predict find and number rows, and make and read what is not coded. Symbols and
 * strings lie in the workspace as those of exact values do, behind the parts of frames that those
 * kernels have. Numbers of act and differences of eb are words as well: rows of one element, all of
 * them distinct. */
#ifndef PITHI_GPU_DEVICE_BYTES_STRINGS_H
#define PITHI_GPU_DEVICE_BYTES_STRINGS_H

#include "device/bytes/lossless.h"
#include "device/predict/interp.h"
#include "device/predict/rows.h"
#include "device/predict/zeros.h"

/* number: of a block, or of a sequence of those of all blocks. */
PITHI_DEVICE struct pithi_bounded_strings *pithi_strings_record(const struct pithi_gpu_call *a,
                                                                uint64_t frame, uint64_t number) {
    uint8_t *const blocks = pithi_coding_of(a, frame) + a->coding.blocks;
    return (struct pithi_bounded_strings *)(void *)blocks + PITHI_ACT_FORMS * number;
}
/* Words of the distinct rows; groups of 16 of them. */
PITHI_DEVICE uint32_t pithi_strings_words(const struct pithi_bounded_shared *e) {
    return e->rows.distinct * e->rows.row;
}
PITHI_DEVICE uint32_t pithi_strings_groups(const struct pithi_bounded_shared *e) {
    return (pithi_strings_words(e) + PITHI_GROUP - 1) / PITHI_GROUP;
}
PITHI_DEVICE uint64_t pithi_strings_low_bytes(const struct pithi_bounded_shared *e) {
    return 2 * (uint64_t)e->coded.low * pithi_strings_groups(e);
}
/* Returns how many of n things the thread has in the strip that begins with number `first`. */
PITHI_DEVICE uint32_t pithi_strings_left(const struct pithi_gpu_thread *t, uint32_t first,
                                         uint32_t n) {
    return pithi_unit_left((uint64_t)first + t->tid * PITHI_UNIT, n);
}
/* What is summed over strips so far, before the thread; by the first thread, the next strip's. */
PITHI_DEVICE uint64_t pithi_strings_before(const struct pithi_gpu_shared *s,
                                           const struct pithi_gpu_thread *t, uint32_t strip) {
    return s->rans.carry[strip % 2] + pithi_coded_before(s, t);
}
PITHI_DEVICE void pithi_strings_carry(struct pithi_gpu_shared *s, uint32_t strip) {
    s->rans.carry[(strip + 1) % 2] = s->rans.carry[strip % 2] + pithi_coded_all(s);
}

/* By the team's first thread: so many rows of one element, and none that are not distinct. */
PITHI_DEVICE void pithi_strings_numbers(struct pithi_gpu_rows *r, uint32_t numbers, uint32_t *code,
                                        uint32_t *scratch) {
    r->row = 1;
    r->distinct = numbers;
    r->rows = r->wide = r->coded = 0;
    r->kind = PITHI_ROWMAP_NONE;
    r->code = code;
    r->scratch = scratch;
    r->number = r->first = r->place = NULL;
    r->centre = NULL;
}
/* By the team's first thread: a block of act whose numbers are not known yet. */
PITHI_DEVICE void pithi_act_open(const struct pithi_gpu_side *side, struct pithi_gpu_block *b,
                                 struct pithi_gpu_rows *r, struct pithi_gpu_zeros *z) {
    pithi_zeros_open(side, b, z);
    pithi_strings_numbers(r, 0, (uint32_t *)(void *)pithi_codes_of(side, b), z->number);
}

/* By the team's first thread: a block of eb. Encodes have its differences behind the codes, decodes
 * make them where codes lie. */
PITHI_DEVICE void pithi_eb_open(const struct pithi_gpu_side *side, const struct pithi_gpu_block *b,
                                struct pithi_gpu_rows *r) {
    pithi_strings_numbers(r, b->count, (uint32_t *)(void *)pithi_scratch_of(side, b),
                          (uint32_t *)(void *)pithi_codes_of(side, b));
}

/* By the team's first thread: words are those of a sequence of the block from now on. */
PITHI_DEVICE void pithi_eb_sequence(const struct pithi_gpu_call *a,
                                    const struct pithi_gpu_side *side, uint64_t frame,
                                    uint32_t method, uint32_t i, struct pithi_gpu_shared *s) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    const struct pithi_device_plan *const p = &side->plan;
    const struct pithi_gpu_sequence q = pithi_sequence_of(&e->block.tile, method, i);
    pithi_eb_open(side, &e->block, &e->rows);
    e->rows.distinct = q.words;
    e->rows.code += q.before;
    e->rows.scratch += q.before;
    s->rans.words.parts =
        pithi_coding_symbols(a, frame, e->block.number) + pithi_sequence_symbols(p, i, q.before);
    s->rans.words.run = q.words;
    s->rans.words.number = e->block.number * a->coding.forms + i;
    s->rans.words.place = pithi_sequence_place(p, a->coding.strings, i, q.before);
}

/* By the team's first thread, of an item that is located: its block. Whether there is one. */
PITHI_DEVICE bool pithi_strings_find(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_side *side,
                                     const struct pithi_gpu_item *it, uint64_t number,
                                     struct pithi_gpu_shared *s) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    pithi_block_open(a, side, it, number, &e->block);
    if (!e->block.live) return false;
    if (pithi_coded_zeros(&side->plan))
        pithi_act_open(side, &e->block, &e->rows, &e->zeros);
    else if (pithi_coded_tiles(&side->plan))
        pithi_eb_open(side, &e->block, &e->rows);
    else
        pithi_rows_open(side, &e->block, &e->rows);
    e->part = PITHI_STRINGS_SYMBOLS;
    s->rans.words.parts = pithi_coding_symbols(a, it->index, e->block.number);
    s->rans.words.run = pithi_coding_run(&side->plan);
    s->rans.words.number = e->block.number;
    s->rans.words.place = 0;
    return true;
}

#endif
