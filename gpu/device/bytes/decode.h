/* decode.h - entropy-coded frames to frames of fixed rate, checked to their last byte.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A launch before has looked at headers. One reads indices, a team a frame; the next blocks, a warp
 * each. What is wrong with one it leaves in what was checked, and no value is decoded. */
#ifndef PITHI_GPU_DEVICE_BYTES_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_DECODE_H

#include "bytes/rans_table.h"
#include "device/bytes/page.h"

/* By the team's first thread: frame `number`, of which chunks are counted. Whether it has blocks of
 * their own lengths and may be read. */
PITHI_DEVICE bool pithi_reader_find(const struct pithi_gpu_call *a, struct pithi_gpu_item *it,
                                    uint64_t frame) {
    const struct pithi_device_plan *const p = &a->from.plan;
    pithi_item_locate(a, &a->from, frame / a->per_item * a->chunks, it);
    it->index = frame;
    it->frame = pithi_item_frame(&a->from.items, frame);
    if (it->status == PITH_OK && !it->frame) it->status = PITH_ERR_ARG;
    if (it->status == PITH_OK)
        it->status =
            pithi_coding_bounded(p) ? pithi_mark(a, frame)->status : a->checked[frame].status;
    if (it->status != PITH_OK) return false;
    pithi_item_kind(p, it, it->frame);
    return pithi_item_coded(p, it);
}

/* ---- Index -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_index_open, uint64_t frame) {
    if (t->tid) return;
    s->rans.string[0].live = pithi_reader_find(a, &s->from, frame);
    s->rans.carry[0] = s->from.form->data;
    s->rans.fault = 0;
    a->coding.frames[frame] = s->rans.string[0].live ? pithi_coding_of(a, frame) + a->coding.staging
                                                     : pithi_item_frame(&a->from.items, frame);
}

PITHI_PHASE(pithi_index_length, uint64_t first) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t i = first + t->tid;
    t->rans.total = 0;
    if (i < it->slot->blocks) {
        const uint32_t entry = pithi_get32(it->payload + 4 * i);
        t->rans.total = entry & ~PITHI_BLOCK_PLAIN;
        if (t->rans.total > pithi_coded_most(&a->from.plan, it, i))
            pithi_atomic_max32(&s->rans.fault, 1);
        pithi_coding_entry(a, it->index, i)->length = entry;
    }
    t->rans.own = t->rans.total;
}

PITHI_PHASE(pithi_index_at, uint64_t first) {
    const uint64_t i = first + t->tid, parity = first / PITHI_TEAM % 2;
    if (i < s->from.slot->blocks)
        pithi_coding_entry(a, s->from.index, i)->at =
            s->rans.carry[parity] + pithi_coded_before(s, t);
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}

/* Kernels of groups look at the header for the frame's place in its stream. */
PITHI_PHASE(pithi_index_close, uint64_t strips) {
    const struct pithi_gpu_item *const it = &s->from;
    uint8_t *const staged = pithi_coding_of(a, it->index) + a->coding.staging;
    for (uint64_t i = t->tid; i < it->form->header_bytes; i += PITHI_TEAM) staged[i] = it->frame[i];
    if (t->tid == 0 &&
        (s->rans.fault || s->rans.carry[strips % 2] != pithi_get64(it->frame + PITHI_AT_PAYLOAD)))
        a->checked[it->index].status = PITH_ERR_CORRUPT;
}

/* A team a frame. */
PITHI_BODY(pithi_rans_index) {
    uint64_t strips = 0;
    PITHI_RUN(pithi_index_open, number);
    if (!s->rans.string[0].live) return;
    for (uint64_t first = 0; first < s->from.slot->blocks; first += PITHI_TEAM, strips++) {
        PITHI_STEP(pithi_index_length, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_index_at, first);
    }
    PITHI_RUN(pithi_index_close, strips);
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_reader_locate, uint64_t number) {
    if (t->tid) return;
    s->from.status = PITH_OK;
    if (!pithi_reader_find(a, &s->from, number / a->chunks) && s->from.status == PITH_OK)
        s->from.status = PITH_ERR_ARG; /* a key frame */
    s->rans.batches = s->rans.steps = 0;
}

PITHI_DEVICE void pithi_reader_damaged(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_shared *s) {
    if (pithi_coding_bounded(&a->from.plan))
        pithi_atomic_max32(&pithi_mark(a, s->from.index)->corrupt, 1);
    else
        pithi_atomic_max32(&a->checked[s->from.index].failed, PITHI_FAILED_CORRUPT);
}

/* By a warp's first thread: what kind its block is, behind the scales. Whether it is sound so far;
 * plain codes are copied by those who come after. */
PITHI_DEVICE bool pithi_reader_parse(struct pithi_rans_string *r, struct pithi_rans_reader *w) {
    const uint8_t *const end = r->coded + r->length;
    if (!r->length) return false;
    const uint32_t kind = r->coded[0];
    r->head = PITHI_CODES_KIND;
    if (kind == PITHI_CODES_PACKED) return r->length == PITHI_CODES_KIND + r->packed;
    if (kind == PITHI_CODES_CONSTANT) {
        r->head = PITHI_CODES_KIND + 1;
        return r->length == r->head && !(r->coded[1] >> r->range);
    }
    if (kind != PITHI_CODES_RANS || r->length < PITHI_CODES_HEAD + PITHI_RANS_HEAD) return false;
    if (pithi_get32(r->coded) >> 8 != r->length - PITHI_CODES_HEAD) return false;
    const uint8_t *const string = r->coded + PITHI_CODES_HEAD;
    r->log2_states = string[0] & 15;
    if (r->log2_states > PITHI_RANS_LOG2_STATES_MOST) return false;
    const uint8_t *const at = pithi_rans_take_table(string, end, w->frequency);
    if (!at || (uint64_t)(end - at) < 4u << r->log2_states) return false;
    r->head = (uint32_t)(at - r->coded) + (4u << r->log2_states);
    r->words = (r->length - r->head) / 2;
    r->runs = true;
    return (r->length - r->head) % 2 == 0;
}

PITHI_DEVICE void pithi_reader_tables(struct pithi_rans_string *r, struct pithi_rans_reader *w) {
    struct pithi_rans_filler f;
    const uint32_t symbols = r->coded[PITHI_CODES_HEAD + PITHI_RANS_HEAD - 1] + 1u;
    r->log2_width = pithi_rans_log2_width(w->frequency, symbols);
    pithi_rans_fill_open(&f, w->frequency, symbols, r->log2_width);
    for (uint32_t b = 0; b < (uint32_t)PITHI_RANS_SLOTS >> r->log2_width; b++) {
        const uint32_t at = b << r->log2_width;
        pithi_rans_fill(&f);
        w->bucket[b] = f.split | f.symbol[0] << 8 | f.symbol[1] << 16;
        w->first[b] = w->frequency[f.symbol[0]] | (f.used - at) << 16;
        w->second[b] = w->frequency[f.symbol[1]] | (0u - (at + f.split)) << 16;
    }
}

/* By a warp's first thread: what its string is. */
PITHI_DEVICE void pithi_reader_string(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_rans_string *r, struct pithi_rans_reader *w) {
    r->live = pithi_reader_parse(r, w);
    if (!r->live) pithi_reader_damaged(a, s);
    if (!r->live || !r->runs) return;
    pithi_reader_tables(r, w);
    pithi_atomic_max32(&s->rans.batches, (r->n + PITHI_RANS_BATCH - 1) / PITHI_RANS_BATCH);
    pithi_atomic_max32(&s->rans.steps, PITHI_RANS_BATCH / pithi_rans_lanes(r->log2_states));
}

/* The codes of a head, of those of all blocks of pages; what needs no states comes later. */
PITHI_DEVICE void pithi_reader_head(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    uint64_t number, struct pithi_rans_string *r,
                                    struct pithi_rans_reader *w) {
    const struct pithi_gpu_item *const it = &s->from;
    if (!it->slot->blocks) return;
    const uint64_t block = number / a->from.plan.device.pages.most_heads;
    const uint32_t head = (uint32_t)(number % a->from.plan.device.pages.most_heads);
    if (block >= it->slot->blocks || head >= it->slot->pages.heads) return;
    const struct pithi_coded_page g = pithi_coded_page(&a->from.plan, it, block);
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, block);
    const struct pithi_rans_piece *const piece =
        pithi_coding_piece(a, it->index, block, g.planes * PITHI_PIECE_STRINGS + head);
    if (!pithi_coded_touches(a, g.first, g.count) || !piece->length) return;
    r->codes = pithi_coding_head(a, &g, it->index, block, head);
    r->coded = it->payload + entry->at + piece->at;
    r->length = piece->length;
    r->n = g.tokens * g.dim;
    r->bits = 8;
    r->range = a->from.plan.device.groups.set.bits;
    r->packed = g.tokens * g.string;
    pithi_reader_string(a, s, r, w);
    r->live = r->live && r->runs;
}

/* Where a block begins in the payload. */
PITHI_DEVICE uint64_t pithi_reader_at(const struct pithi_gpu_call *a, uint64_t frame,
                                      uint64_t block) {
    if (pithi_coding_bounded(&a->from.plan))
        return pithi_entry(pithi_frame_workspace(a, &a->from, frame), block)->at;
    return pithi_coding_entry(a, frame, block)->at;
}
/* A part of a block of exact values or with a bound, of those of all blocks, whose string waits to
 * be read; blocks with a bound that are not wanted have none. */
PITHI_DEVICE void pithi_reader_words(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     uint64_t number, struct pithi_rans_string *r,
                                     struct pithi_rans_reader *w) {
    const struct pithi_gpu_item *const it = &s->from;
    const struct pithi_device_plan *const p = &a->from.plan;
    const uint32_t parts = pithi_lossless_parts(p);
    const uint64_t sequence = number / parts;
    const uint64_t block = pithi_coding_bounded(p) ? sequence / a->coding.forms : sequence;
    if (block >= it->slot->blocks) return;
    if (pithi_coded_exact(p) &&
        !pithi_coded_touches(a, block << p->block_log2, pithi_lossless_count(p, it, block)))
        return;
    const struct pithi_rans_piece *const piece = pithi_coding_piece(
        a, it->index, sequence, (uint32_t)(number % parts) * (uint32_t)a->coding.levels);
    if (!piece->length) return;
    r->codes = pithi_coding_of(a, it->index) + piece->from;
    r->coded = it->payload + pithi_reader_at(a, it->index, block) + piece->at;
    r->length = piece->length;
    r->n = r->packed = piece->n;
    r->bits = r->range = 8;
    pithi_reader_string(a, s, r, w);
}

PITHI_PHASE(pithi_reader_clear, uint32_t tid) {
    (void)a;
    for (uint32_t i = t->tid % PITHI_WARP + tid; i < 256; i += PITHI_WARP)
        s->rans.reader[t->tid / PITHI_WARP].frequency[i] = 0;
}

/* A block that is not plain: live when its codes are to be taken out of a string. */
PITHI_PHASE(pithi_reader_open, uint64_t first) {
    const uint32_t warp = t->tid / PITHI_WARP;
    const struct pithi_device_plan *const p = &a->from.plan;
    const struct pithi_gpu_item *const it = &s->from;
    if (t->tid % PITHI_WARP) return;
    struct pithi_rans_string *const r = &s->rans.string[warp];
    struct pithi_rans_reader *const w = &s->rans.reader[warp];
    r->live = r->runs = false;
    r->packed = 0;
    if (pithi_coded_exact(p) || pithi_coding_bounded(p)) {
        pithi_reader_words(a, s, first + warp, r, w);
        return;
    }
    if (pithi_coded_paged(p)) {
        pithi_reader_head(a, s, first + warp, r, w);
        return;
    }
    if (first + warp >= it->slot->blocks) return;
    const struct pithi_coded_block b = pithi_coded_block(p, it, first + warp);
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, first + warp);
    const uint32_t length = entry->length & ~PITHI_BLOCK_PLAIN;
    const bool plain = entry->length & PITHI_BLOCK_PLAIN;
    if (!pithi_coded_touches(a, b.first, b.count)) return;
    r->live = true;
    if (length < b.scales || (plain && length != b.scales + b.codes)) {
        r->live = false;
        pithi_reader_damaged(a, s);
        return;
    }
    r->codes = pithi_staging_payload(a, it) + b.at + b.scales;
    r->coded = it->payload + entry->at + b.scales;
    r->length = length - b.scales;
    r->n = b.count;
    r->bits = r->range = p->device.groups.set.bits;
    r->packed = b.codes;
    r->head = 0;
    if (plain) return;
    pithi_reader_string(a, s, r, w);
}

/* Where a block is wanted its scales, and codes that are no string. */
PITHI_PHASE(pithi_reader_copy, uint64_t first) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP;
    const struct pithi_gpu_item *const it = &s->from;
    const struct pithi_rans_string *const r = &s->rans.string[warp];
    if (!r->live || pithi_coded_parted(&a->from.plan)) return;
    const struct pithi_coded_block b = pithi_coded_block(&a->from.plan, it, first + warp);
    pithi_coded_copy(lane, PITHI_WARP, r->codes - b.scales, r->coded - b.scales, b.scales);
    if (r->runs) return;
    if (r->head <= PITHI_CODES_KIND) {
        pithi_coded_copy(lane, PITHI_WARP, r->codes, r->coded + r->head, r->packed);
        return;
    }
    uint64_t word = 0;
    for (uint32_t k = 0; k < PITHI_UNIT; k++) word |= (uint64_t)r->coded[1] << k * r->bits;
    for (uint32_t u = lane; u < pithi_rans_units(r); u += PITHI_WARP)
        pithi_unit_put_codes(pithi_rans_unit(r, u), r->bits,
                             pithi_unit_left((uint64_t)u * PITHI_UNIT, r->n), word);
}

/* The checksum of a block, by its warp. */
PITHI_LOCAL(pithi_reader_hash, uint64_t first) {
    const uint32_t warp = t->tid / PITHI_WARP;
    t->rans.total = 0;
    if (first + warp >= s->from.slot->blocks) return;
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, s->from.index, first + warp);
    t->rans.total =
        pithi_hash_part(s->from.payload + entry->at, 0, entry->length & ~PITHI_BLOCK_PLAIN,
                        t->tid % PITHI_WARP, PITHI_WARP);
}
PITHI_LOCAL(pithi_reader_compare, uint64_t first) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t block = first + t->tid / PITHI_WARP;
    if (t->tid % PITHI_WARP || block >= it->slot->blocks) return;
    const struct pithi_coded_block b = pithi_coded_block(&a->from.plan, it, block);
    const uint64_t length = pithi_coding_entry(a, it->index, block)->length & ~PITHI_BLOCK_PLAIN;
    if (pithi_coded_touches(a, b.first, b.count) &&
        pithi_get64(it->payload + it->form->checks + 8 * block) !=
            pithi_nh_finish(t->rans.total, length, PITHI_CHECK_TAG + block))
        pithi_atomic_max32(&a->checked[it->index].failed, PITHI_FAILED_CHECKSUM);
}

/* ---- Strings ---------------------------------------------------------------------------------*/

PITHI_DEVICE bool pithi_reader_runs(const struct pithi_gpu_shared *s,
                                    const struct pithi_gpu_thread *t) {
    const uint32_t warp = t->tid / PITHI_WARP;
    return s->rans.string[warp].live && s->rans.string[warp].runs;
}

PITHI_LOCAL(pithi_reader_begin, uint32_t tid) {
    const uint32_t lane = t->tid % PITHI_WARP;
    (void)a, (void)tid;
    t->rans.words = t->rans.n = t->rans.lanes = t->rans.capacity = 0;
    t->rans.turns = 1;
    t->rans.fault = false;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_TURNS; k++) t->rans.x[k] = PITHI_RANS_LOW;
    if (!pithi_reader_runs(s, t)) return;
    const struct pithi_rans_string *const r = &s->rans.string[t->tid / PITHI_WARP];
    t->rans.n = r->n;
    t->rans.lanes = pithi_rans_lanes(r->log2_states);
    t->rans.turns = pithi_rans_turns(r->log2_states);
    t->rans.capacity = r->words;
    t->rans.from = r->coded + r->head;
    t->rans.log2_width = r->log2_width;
    const uint8_t *const states = t->rans.from - (4u << r->log2_states);
    if (lane >= t->rans.lanes) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_TURNS; k++) {
        if (k >= t->rans.turns) continue;
        t->rans.x[k] = pithi_get32(states + 4 * (k * PITHI_WARP + lane));
        if (t->rans.x[k] < PITHI_RANS_LOW) t->rans.fault = true;
    }
}

/* Words that come soon. */
PITHI_LOCAL(pithi_reader_ahead, uint32_t lines) {
    const uint32_t at = t->rans.words + (1 + t->tid % PITHI_WARP) * 64;
    (void)a, (void)s;
    if (t->tid % PITHI_WARP < lines && at < t->rans.capacity)
        pithi_prefetch(t->rans.from + 2 * (uint64_t)at);
}

/* The thread's symbol of a step, counted from the batch's first; whether its state takes a word. */
PITHI_PHASE(pithi_reader_look, uint32_t batch, uint32_t step) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP;
    const uint32_t at = step * t->rans.lanes + lane;
    (void)a;
    t->rans.vote = 0;
    if (lane >= t->rans.lanes || at >= PITHI_RANS_BATCH ||
        batch * PITHI_RANS_BATCH + at >= t->rans.n)
        return;
    struct pithi_rans_reader *const w = &s->rans.reader[warp];
    const uint32_t x = t->rans.x[0], slot = x & (PITHI_RANS_SLOTS - 1);
    const uint32_t b = slot >> t->rans.log2_width;
    const uint32_t bucket = w->bucket[b], first = w->first[b], other = w->second[b];
    const bool second = slot - (b << t->rans.log2_width) >= (bucket & 255);
    const uint32_t of = second ? other : first;
    ((uint8_t *)w->ring)[at] = (uint8_t)(bucket >> (second ? 16 : 8));
    t->rans.x[0] = (of & 0xFFFF) * (x >> PITHI_RANS_LOG2_SLOTS) + ((slot + (of >> 16)) & 0xFFFF);
    t->rans.vote = t->rans.x[0] < PITHI_RANS_LOW;
}

PITHI_LOCAL(pithi_reader_step, uint32_t step) {
    const uint32_t lane = t->tid % PITHI_WARP;
    (void)a, (void)s, (void)step;
    uint32_t x = t->rans.x[0];
    if (t->rans.vote) {
        const uint32_t at = t->rans.words + pithi_ones32(t->rans.votes & ((1u << lane) - 1));
        x <<= 16;
        if (at < t->rans.capacity)
            x |= pithi_get16(t->rans.from + 2 * (uint64_t)at);
        else
            t->rans.fault = true;
    }
    t->rans.words += pithi_ones32(t->rans.votes);
    pithi_rans_turn(t, t->rans.turns, x);
}

/* The codes of a batch, packed. */
PITHI_LOCAL(pithi_reader_store, uint32_t batch) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP;
    (void)a;
    if (!t->rans.n) return;
    const struct pithi_rans_string *const r = &s->rans.string[warp];
    const uint32_t u = batch * PITHI_WARP + lane, bits = r->bits;
    const uint32_t n = pithi_unit_left((uint64_t)u * PITHI_UNIT, r->n);
    const uint64_t symbols = s->rans.reader[warp].ring[lane];
    uint64_t word = 0;
    if (!n) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t symbol = (uint32_t)(symbols >> 8 * k) & 255;
        if (k >= n) continue;
        if (symbol >> r->range) t->rans.fault = true;
        word |= (uint64_t)(symbol & ((1u << bits) - 1)) << k * bits;
    }
    pithi_unit_put_codes(pithi_rans_unit(r, u), bits, n, word);
}

PITHI_LOCAL(pithi_reader_close, uint32_t tid) {
    (void)tid;
    if (!t->rans.n) return;
    bool fault = t->rans.fault || t->rans.words != t->rans.capacity;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_TURNS; k++) fault =
        fault || t->rans.x[k] != PITHI_RANS_LOW;
    if (fault) pithi_reader_damaged(a, s);
}

/* Part of a body: the strings of all warps. */
PITHI_DEVICE void pithi_reader_strings(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_STEP(pithi_reader_begin, 0);
    const bool wide = s->rans.steps == PITHI_UNIT;
    for (uint32_t batch = 0; batch < s->rans.batches; batch++) {
        PITHI_STEP(pithi_reader_ahead, 4);
        if (wide) {
            PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
                PITHI_STEP(pithi_reader_look, batch, k);
                PITHI_WARP_VOTE(rans.vote, rans.votes);
                PITHI_STEP(pithi_reader_step, k);
            }
        } else {
            for (uint32_t step = 0; step < s->rans.steps; step++) {
                PITHI_STEP(pithi_reader_look, batch, step);
                PITHI_WARP_VOTE(rans.vote, rans.votes);
                PITHI_STEP(pithi_reader_step, step);
            }
        }
        PITHI_WARP_SYNC();
        PITHI_STEP(pithi_reader_store, batch);
        PITHI_WARP_SYNC();
    }
    PITHI_RUN(pithi_reader_close, 0);
}

/* A warp a block, or a head or a part of one. */
PITHI_BODY(pithi_rans_decode) {
    const uint64_t first = number % a->chunks * PITHI_RANS_READERS;
    PITHI_RUN(pithi_reader_locate, number);
    if (s->from.status != PITH_OK) return;
    PITHI_RUN(pithi_reader_clear, 0);
    PITHI_RUN(pithi_reader_open, first);
    if (a->from.plan.checksums && !pithi_coded_parted(&a->from.plan)) {
        PITHI_STEP(pithi_reader_hash, first);
        PITHI_WARP_ADD(rans.total);
        PITHI_STEP(pithi_reader_compare, first);
    }
    PITHI_STEP(pithi_reader_copy, first);
    pithi_reader_strings(a, s, t, team);
}

#endif
