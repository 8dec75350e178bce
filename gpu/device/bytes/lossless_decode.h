/* lossless_decode.h - blocks of exact values to values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team takes the parts of its block one after the other. Strings on which no length depends are
 * left to a launch that has a warp for each; then values are made. */
#ifndef PITHI_GPU_DEVICE_BYTES_LOSSLESS_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_LOSSLESS_DECODE_H

#include "device/bytes/lossless.h"
#include "device/bytes/page_decode.h"

/* ---- A block ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_lossless_read_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    if (t->tid) return;
    const bool live = pithi_reader_find(a, it, number / a->chunks) && block < it->slot->blocks;
    if (live) pithi_lossless_find(a, &a->from.plan, it, block, w);
    if (live && a->from.plan.base_dtype != PITH_NONE)
        w->before = a->add ? it->tensor : it->base; /* of the slot */
    s->rans.live = live && pithi_coded_touches(a, w->first, w->count);
    s->rans.plain = s->rans.foreign = s->rans.former = false;
    s->rans.exact = true;
    s->rans.fault = 0;
    s->rans.carry[0] = 0;
    for (uint32_t i = 0; i < PITHI_RANS_READERS; i++) s->rans.string[i].live = false;
}

/* By the team's first thread: what the head says. Whether it can be so: key frames have no
 * updates. */
PITHI_DEVICE bool pithi_lossless_read_parse(struct pithi_gpu_shared *s) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint8_t *const head = pithi_planes_take(s, PITHI_LOSSLESS_HEAD);
    if (!head) return false;
    if (w->before && !s->from.kind) w->block.update = *head & PITHI_LOSSLESS_UPDATE;
    w->block.bits = *head & ~w->block.update;
    w->block.parts = 1 + w->width;
    if (*head == PITHI_LOSSLESS_SHIFTED && w->row) {
        w->block.shifted = 1;
        w->block.bits = PITHI_LOSSLESS_TOPS;
        if (w->row > w->count) return false;
    }
    if (w->block.bits != PITHI_LOSSLESS_TOPS || w->block.update)
        return w->block.bits <= 8 && !(w->block.bits & (w->block.bits - 1));
    const uint8_t *const cut = pithi_planes_take(s, PITHI_LOSSLESS_TOPS_HEAD - PITHI_LOSSLESS_HEAD);
    const uint32_t bits = 8 * w->width;
    if (!cut) return false;
    w->block.low = cut[0];
    w->block.base = cut[1] | (uint32_t)cut[2] << 8;
    w->block.parts = 1 + w->block.low / 8;
    return w->kind == PITHI_WORD_FLOATS && w->width > 1 && w->block.low < bits &&
           w->block.low + 16 >= bits;
}

/* What is known without looking inside of parts; none of them waits. */
PITHI_PHASE(pithi_lossless_read_begin, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->from;
    struct pithi_lossless_shared *const w = &s->rans.words;
    for (uint32_t part = t->tid; part < pithi_lossless_parts(&a->from.plan); part += PITHI_TEAM)
        pithi_coding_piece(a, it->index, block, part * (uint32_t)a->coding.levels)->length = 0;
    if (t->tid) return;
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, block);
    s->rans.plain = entry->length & PITHI_BLOCK_PLAIN;
    s->rans.at = it->payload + entry->at;
    s->rans.left = entry->length & ~PITHI_BLOCK_PLAIN;
    if (s->rans.plain)
        s->rans.fault = s->rans.left != w->count * w->width;
    else
        s->rans.fault = !pithi_lossless_read_parse(s);
    pithi_lossless_record(a, it->index, block)->sound = 0;
}

PITHI_PHASE(pithi_lossless_read_copy, uint64_t block) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    (void)a, (void)block;
    pithi_coded_copy(t->tid, PITHI_TEAM, w->values, s->rans.at, (uint64_t)w->count * w->width);
}

/* ---- Parts -----------------------------------------------------------------------------------*/

/* The bytes of a part, of symbols or a plane: 0 where the block has none. */
PITHI_DEVICE uint32_t pithi_lossless_read_count(const struct pithi_lossless_shared *w,
                                                uint32_t part) {
    const uint32_t bits = w->block.bits;
    if (part == pithi_lossless_rows_part(w)) return pithi_offsets_rows_count(w);
    if (part > w->width) return w->row;
    if (bits == PITHI_LOSSLESS_TOPS) return w->count;
    if (part == 0) return (uint32_t)(((uint64_t)w->count * bits + 7) / 8);
    return bits ? w->block.escapes : w->count;
}

/* By the team's first thread: leaves the string behind a kind to be read later. */
PITHI_DEVICE bool pithi_lossless_read_leave(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, uint64_t block,
                                            uint32_t part, uint32_t n) {
    const struct pithi_gpu_item *const it = &s->from;
    struct pithi_rans_piece *const piece =
        pithi_coding_piece(a, it->index, s->rans.words.number, part * (uint32_t)a->coding.levels);
    const uint8_t *const begin = it->payload + pithi_reader_at(a, it->index, block);
    const uint8_t *const size = pithi_planes_take(s, PITHI_CODES_HEAD - PITHI_CODES_KIND);
    if (!size) return false;
    const uint32_t length = size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16;
    if (!pithi_planes_take(s, length)) return false;
    piece->at = (uint64_t)(size - PITHI_CODES_KIND - begin);
    piece->length = PITHI_CODES_HEAD + length;
    piece->n = n;
    piece->from = (uint64_t)(s->rans.others[0] - pithi_coding_of(a, it->index));
    return true;
}

/* By the team's first thread: opens a part of n bytes. leave: nothing that is looked at now depends
 * on it. */
PITHI_DEVICE void pithi_lossless_read_whole(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, uint64_t block,
                                            uint32_t part, uint32_t n, bool leave) {
    s->rans.waits = false;
    pithi_piece_open(s, pithi_lossless_part(s, part), n);
    s->rans.nonzero = pithi_coding_strings(a, s->from.index, block);
    if (s->rans.fault || s->rans.depth || s->rans.kind != PITHI_CODES_RANS || s->rans.former ||
        !leave)
        return;
    s->rans.waits = true;
    if (!pithi_lossless_read_leave(a, s, block, part, n)) s->rans.fault = 1;
}
/* Symbols say how many escapes follow. */
PITHI_PHASE(pithi_lossless_read_part, uint64_t block, uint32_t part) {
    const bool tops = s->rans.words.block.bits == PITHI_LOSSLESS_TOPS;
    if (t->tid) return;
    pithi_lossless_read_whole(a, s, block, part, pithi_lossless_read_count(&s->rans.words, part),
                              part || tops);
}

/* Symbols of the thread's words of a strip; how many of them are escapes. */
PITHI_DEVICE uint64_t pithi_lossless_read_symbols(const struct pithi_gpu_shared *s, uint32_t at,
                                                  uint32_t bits, uint32_t n) {
    const uint8_t *const symbols = pithi_lossless_part(s, 0);
    return pithi_unit_get_codes(symbols + (uint64_t)(at / PITHI_UNIT) * bits, bits, n);
}
PITHI_DEVICE uint32_t pithi_lossless_read_escaped(uint64_t symbols, uint32_t bits, uint32_t n) {
    const uint64_t escape = (1u << bits) - 1;
    uint32_t escapes = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n) escapes +=
        (symbols >> k * bits & escape) == escape;
    return escapes;
}
PITHI_LOCAL(pithi_lossless_read_escapes, uint32_t bits) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    (void)a;
    t->rans.total = 0;
    for (uint32_t first = 0; first < w->count; first += PITHI_ROW) {
        const uint32_t n = pithi_lossless_left(w, t, first);
        if (!n) continue;
        const uint64_t symbols =
            pithi_lossless_read_symbols(s, first + t->tid * PITHI_UNIT, bits, n);
        t->rans.total += pithi_lossless_read_escaped(symbols, bits, n);
    }
}
PITHI_PHASE(pithi_lossless_read_counted, uint32_t bits) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint64_t used = (uint64_t)w->count * bits;
    (void)a;
    if (t->tid) return;
    w->block.escapes = (uint32_t)pithi_coded_all(s);
    if (!w->block.escapes) w->block.parts = 1;
    if (used % 8 && pithi_lossless_part(s, 0)[used / 8] >> used % 8) s->rans.fault = 1;
}

/* Part of a body: parts that do not wait are read. */
PITHI_DEVICE void pithi_lossless_read_parts(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t block) {
    const uint32_t bits = s->rans.words.block.bits;
    const uint32_t offsets = s->rans.words.block.shifted ? 2 : 0; /* they come first */
    const uint32_t rows = pithi_lossless_rows_part(&s->rans.words);
    for (uint32_t i = bits ? 0 : 1; i < offsets + s->rans.words.block.parts; i++) {
        const uint32_t part = i < offsets ? rows + i : i - offsets;
        PITHI_MEET(); /* all have looked */
        PITHI_RUN(pithi_lossless_read_part, block, part);
        if (s->rans.fault) return;
        if (s->rans.waits) continue;
        for (uint32_t level = s->rans.depth + 1; level-- > 0 && !s->rans.fault;)
            pithi_plane_level(a, s, t, team, level);
        if (s->rans.fault) return;
        if (part || bits == PITHI_LOSSLESS_TOPS) continue;
        PITHI_RUN(pithi_coded_publish, part); /* what was read is seen */
        PITHI_STEP(pithi_lossless_read_escapes, bits);
        PITHI_WARP_ADD(rans.total);
        PITHI_RUN(pithi_coded_publish, part);
        PITHI_RUN(pithi_lossless_read_counted, bits);
        if (s->rans.fault) return;
    }
}

/* Finds what lies behind the last part of a block: bits and escapes. */
PITHI_PHASE(pithi_lossless_read_tail, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->from;
    struct pithi_lossless_shared *const w = &s->rans.words;
    if (t->tid || s->rans.fault) return;
    if (w->block.bits == PITHI_LOSSLESS_TOPS) {
        const uint8_t *const begin = it->payload + pithi_coding_entry(a, it->index, block)->at;
        const uint32_t bytes = pithi_lossless_bits_bytes(&w->block, w->count);
        w->block.tail = (uint32_t)(s->rans.at - begin);
        w->block.escapes = s->rans.left - bytes;
        s->rans.fault = bytes > s->rans.left || w->block.escapes % 2;
    } else {
        s->rans.fault = s->rans.left != 0;
    }
    w->block.sound = !s->rans.fault;
    *pithi_lossless_record(a, it->index, block) = w->block;
}
PITHI_LOCAL(pithi_lossless_read_close, uint64_t block) {
    (void)block;
    if (t->tid == 0 && s->rans.fault)
        pithi_atomic_max32(&a->checked[s->from.index].failed,
                           s->rans.foreign ? PITHI_FAILED_UNSUPPORTED : PITHI_FAILED_CORRUPT);
}

/* A team a block. */
PITHI_BODY(pithi_lossless_read) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_lossless_read_open, number);
    if (!s->rans.live) return;
    PITHI_RUN(pithi_lossless_read_begin, block);
    pithi_planes_check(a, s, t, team, block);
    const bool sound = !s->rans.fault, plain = s->rans.plain;
    PITHI_MEET(); /* all have looked */
    if (sound && plain) PITHI_STEP(pithi_lossless_read_copy, block);
    if (sound && !plain) {
        pithi_lossless_read_parts(a, s, t, team, block);
        PITHI_MEET();
        PITHI_RUN(pithi_lossless_read_tail, block);
    }
    PITHI_STEP(pithi_lossless_read_close, block);
}

/* ---- Values ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_lossless_join_open, uint64_t block) {
    if (t->tid) return;
    s->rans.plain = pithi_coding_entry(a, s->from.index, block)->length & PITHI_BLOCK_PLAIN;
    s->rans.words.block = *pithi_lossless_record(a, s->from.index, block);
}

/* Bits of a symbol: of tops, and what stands for them, they are bytes. */
PITHI_DEVICE uint32_t pithi_lossless_join_bits(const struct pithi_lossless_block *b) {
    return b->bits == PITHI_LOSSLESS_TOPS ? 8 : b->bits;
}
PITHI_LOCAL(pithi_lossless_join_escapes, uint32_t first) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_lossless_left(w, t, first), bits = pithi_lossless_join_bits(&w->block);
    (void)a;
    t->rans.total = t->rans.own = 0;
    if (!n || !bits) return;
    const uint64_t symbols = pithi_lossless_read_symbols(s, first + t->tid * PITHI_UNIT, bits, n);
    t->rans.total = t->rans.own = pithi_lossless_read_escaped(symbols, bits, n);
}

/* word := what the planes from number 1 on have of words [at, at + n). */
PITHI_DEVICE void pithi_lossless_join_planes(const struct pithi_gpu_shared *s, uint32_t planes,
                                             uint32_t at, uint32_t n, uint64_t word[PITHI_UNIT]) {
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] = 0;
    for (uint32_t i = 0; i < planes; i++) {
        const uint8_t *const from = pithi_lossless_part(s, 1 + i) + at;
        const uint64_t plane = pithi_unit_get_codes(from, 8, n);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) word[k] |= (plane >> 8 * k & 0xFF)
                                                                          << 8 * i;
    }
}
/* Word i of those that planes have. */
PITHI_DEVICE uint64_t pithi_lossless_join_escape(const struct pithi_gpu_shared *s, uint64_t i) {
    uint64_t word = 0;
    for (uint32_t byte = 0; byte < s->rans.words.width; byte++)
        word |= (uint64_t)pithi_lossless_part(s, 1 + byte)[i] << 8 * byte;
    return word;
}

/* Symbols of tops, shifted where the block says so. */
PITHI_DEVICE uint64_t pithi_lossless_join_shifted(const struct pithi_gpu_shared *s, uint32_t at,
                                                  uint32_t n) {
    const uint64_t symbols = pithi_lossless_read_symbols(s, at, 8, n);
    uint64_t shifted = 0;
    if (!s->rans.words.block.shifted) return symbols;
    for (uint32_t k = 0; k < n; k++)
        shifted |= (uint64_t)pithi_lossless_shifted(s, at + k, (uint8_t)(symbols >> 8 * k))
                   << 8 * k;
    return shifted;
}
/* Words that are tops, i being how many tops stand beside before them, and lower bits. */
PITHI_DEVICE bool pithi_lossless_join_tops(const struct pithi_gpu_call *a,
                                           const struct pithi_gpu_shared *s, uint64_t block,
                                           uint32_t at, uint32_t n, uint64_t i,
                                           uint64_t word[PITHI_UNIT]) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const struct pithi_lossless_block *const b = &w->block;
    const uint32_t rest = b->low % 8, planes = b->low / 8,
                   all = (1u << (8 * w->width - b->low)) - 1;
    const uint8_t *const tail =
        s->from.payload + pithi_coding_entry(a, s->from.index, block)->at + b->tail;
    const uint8_t *const tops = tail + pithi_lossless_bits_bytes(b, w->count);
    const uint64_t symbols = pithi_lossless_join_shifted(s, at, n);
    const uint64_t bits =
        rest ? pithi_unit_get_codes(tail + at / PITHI_UNIT * rest, rest, PITHI_UNIT) : 0;
    bool fits = true;
    pithi_lossless_join_planes(s, planes, at, n, word);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t symbol = (uint32_t)(symbols >> 8 * k) & 255;
        uint32_t top = symbol ? (symbol + b->base) & all : 0;
        if (k < n && symbol == PITHI_LOSSLESS_ESCAPE) {
            top = i < b->escapes / 2 ? pithi_get16(tops + 2 * i) : all + 1;
            fits = fits && top <= all;
            i++;
        }
        word[k] |= (uint64_t)top << b->low | (bits >> k * rest & ((1u << rest) - 1)) << 8 * planes;
    }
    return fits;
}
/* Words that are symbols, or these and what escapes are more. */
PITHI_DEVICE void pithi_lossless_join_symbols(const struct pithi_gpu_shared *s, uint32_t at,
                                              uint32_t n, uint64_t i, uint64_t word[PITHI_UNIT]) {
    const uint32_t bits = s->rans.words.block.bits;
    const uint64_t escape = (1u << bits) - 1, symbols = pithi_lossless_read_symbols(s, at, bits, n);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        word[k] = symbols >> k * bits & escape;
        if (k < n && word[k] == escape) word[k] += pithi_lossless_join_escape(s, i++);
    }
}

PITHI_PHASE(pithi_lossless_join_values, uint64_t block, uint32_t first) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_lossless_left(w, t, first), at = first + t->tid * PITHI_UNIT;
    const uint32_t parity = first / PITHI_ROW % 2, bits = 8 * w->width;
    const uint64_t i = s->rans.carry[parity] + pithi_coded_before(s, t);
    const uint64_t all = ~UINT64_C(0) >> (64 - bits);
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
    if (!n) return;
    uint64_t word[PITHI_UNIT];
    if (w->block.bits == PITHI_LOSSLESS_TOPS) {
        if (!pithi_lossless_join_tops(a, s, block, at, n, i, word))
            pithi_atomic_max32(&s->rans.fault, 1);
    } else if (w->block.bits) {
        pithi_lossless_join_symbols(s, at, n, i, word);
    } else {
        pithi_lossless_join_planes(s, w->width, at, n, word);
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        const enum pithi_word_kind kind = (enum pithi_word_kind)w->kind;
        uint64_t value = pithi_word_to_value(word[k] & all, kind, bits);
        if (w->block.update)
            value = pithi_word_to_update(
                word[k] & all, pithi_lossless_load_any(w->before, w->width, w->first + at + k),
                kind, bits);
        pithi_lossless_store(w->values, w->width, at + k, value);
    }
}
/* Every top beside is one that a symbol stands for. */
PITHI_LOCAL(pithi_lossless_join_close, uint32_t strips) {
    const struct pithi_lossless_block *const b = &s->rans.words.block;
    if (t->tid) return;
    if (s->rans.fault ||
        (b->bits == PITHI_LOSSLESS_TOPS && s->rans.carry[strips % 2] != b->escapes / 2))
        pithi_reader_damaged(a, s);
}

/* Hashes the base that a key frame brings, where no later launch would tell in time. */
PITHI_LOCAL(pithi_lossless_join_hash, uint64_t width) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint64_t at = w->first * width;
    (void)a;
    t->rans.total = pithi_hash_part(w->values - at, at, at + w->count * width, t->tid, PITHI_TEAM);
}
PITHI_LOCAL(pithi_lossless_join_hashed, uint64_t block) {
    (void)block;
    if (t->tid % PITHI_WARP == 0)
        pithi_atomic_add64(&a->checked[s->from.index].hash, t->rans.total);
}

/* Part of a body: the values of a block. */
PITHI_DEVICE void pithi_lossless_join_block(const struct pithi_gpu_call *a,
                                            struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                            struct pithi_team *team, uint64_t block) {
    uint32_t strips = 0;
    for (uint32_t first = 0; first < s->rans.words.count; first += PITHI_ROW, strips++) {
        PITHI_STEP(pithi_lossless_join_escapes, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_lossless_join_values, block, first);
    }
    PITHI_STEP(pithi_lossless_join_close, strips);
}

/* A team a block. */
PITHI_BODY(pithi_lossless_join) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_lossless_read_open, number);
    if (!s->rans.live) return;
    PITHI_RUN(pithi_lossless_join_open, block);
    if (!s->rans.plain && s->rans.words.block.sound)
        pithi_lossless_join_block(a, s, t, team, block);
    if (!a->hash_base || !s->from.kind) return;
    PITHI_STEP(pithi_lossless_join_hash, s->rans.words.width);
    PITHI_WARP_ADD(rans.total);
    PITHI_STEP(pithi_lossless_join_hashed, block);
}

#endif
