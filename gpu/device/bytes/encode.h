/* encode.h - codes of frames of fixed rate to rANS strings, and these to their places.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A warp makes the string of a block: it counts codes, rounds their frequencies, makes the tables
 * and then takes as many codes at once as there are states. Where strings go is known when all
 * lengths are. */
#ifndef PITHI_GPU_DEVICE_BYTES_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_ENCODE_H

#include "bytes/rans_table.h"
#include "device/bytes/page.h"

/* ---- Frames ----------------------------------------------------------------------------------*/

/* A thread for each frame: where its staging buffer is; NULL stays what it is. */
PITHI_PHASE(pithi_aim_frame, uint64_t number) {
    const struct pithi_gpu_items *const items = &a->to.items;
    const uint64_t i = number * PITHI_TEAM + t->tid;
    (void)s;
    if (i >= items->count) return;
    const bool there = (items->frame || items->frames) && pithi_item_frame(items, i);
    a->coding.frames[i] = there ? pithi_coding_of(a, i) + a->coding.staging : NULL;
}

PITHI_BODY(pithi_rans_aim) { PITHI_RUN(pithi_aim_frame, number); }

/* ---- A string --------------------------------------------------------------------------------*/

PITHI_DEVICE bool pithi_rans_writes(const struct pithi_gpu_shared *s,
                                    const struct pithi_gpu_thread *t) {
    const uint32_t warp = t->tid / PITHI_WARP;
    return warp < PITHI_RANS_WRITERS && s->rans.string[warp].live;
}
PITHI_DEVICE struct pithi_rans_writer *pithi_rans_writer(struct pithi_gpu_shared *s,
                                                         const struct pithi_gpu_thread *t) {
    return &s->rans.writer[t->tid / PITHI_WARP];
}
/* Symbol k of a thread. */
PITHI_DEVICE uint32_t pithi_rans_own(const struct pithi_gpu_thread *t, uint32_t k) {
    return t->tid % PITHI_WARP + PITHI_WARP * k;
}

PITHI_PHASE(pithi_writer_locate, uint64_t number) {
    (void)number;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    /* Frames with a bound are answered when they have their places. */
    if (s->to.status == PITH_OK && !pithi_coding_bounded(&a->to.plan))
        s->to.status = a->to.items.status[s->to.index];
    s->rans.batches = s->rans.steps = s->rans.taking = 0;
}

/* The block of a string, of those of all blocks; of exact values the form of a block. */
PITHI_DEVICE uint64_t pithi_writer_block(const struct pithi_gpu_call *a, uint64_t number) {
    const uint64_t tried = number / a->coding.strings;
    return tried / a->coding.tried * a->coding.forms + a->coding.form + tried % a->coding.tried;
}

/* A string of exact values or of a block with a bound, of those that are tried of all blocks. */
PITHI_DEVICE void pithi_writer_words(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_item *it, uint64_t number,
                                     struct pithi_rans_string *r) {
    const uint64_t block = number / a->coding.strings / a->coding.tried;
    r->live = block < it->slot->blocks;
    if (!r->live) return;
    const struct pithi_rans_piece *const piece = pithi_coding_piece(
        a, it->index, pithi_writer_block(a, number), (uint32_t)(number % a->coding.strings));
    r->live = piece->n > 0;
    if (!r->live) return;
    r->codes = pithi_coding_of(a, it->index) + piece->from;
    r->n = r->packed = r->length = piece->n;
    r->bits = r->range = 8;
    r->piece = true;
    r->coded = pithi_coding_strings(a, it->index, block) + piece->place;
}

/* A string of a page, of those of all blocks. */
PITHI_DEVICE void pithi_writer_piece(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_item *it, uint64_t number,
                                     struct pithi_rans_string *r) {
    const uint64_t block = number / a->coding.strings;
    const uint32_t string = (uint32_t)(number % a->coding.strings);
    r->live = block < it->slot->blocks;
    if (!r->live) return;
    const struct pithi_coded_page g = pithi_coded_page(&a->to.plan, it, block);
    r->live = string < g.planes * PITHI_PIECE_STRINGS + g.heads;
    if (!r->live) return;
    const struct pithi_rans_piece *const piece = pithi_coding_piece(a, it->index, block, string);
    r->live = piece->n > 0;
    r->codes = pithi_coding_of(a, it->index) + piece->from;
    r->n = piece->n;
    r->bits = 8;
    r->range = piece->bits;
    r->packed = r->length = piece->packed;
    r->piece = !piece->codes;
    r->coded = pithi_coding_string(a, &g, it->index, block, string);
}

PITHI_PHASE(pithi_writer_open, uint64_t first) {
    const uint32_t warp = t->tid / PITHI_WARP;
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_gpu_item *const it = &s->to;
    if (warp >= PITHI_RANS_WRITERS) return;
    for (uint32_t i = t->tid % PITHI_WARP; i < PITHI_RANS_SLOTS / 2; i += PITHI_WARP)
        s->rans.writer[warp].counts[i] = 0;
    if (t->tid % PITHI_WARP) return;
    struct pithi_rans_string *const r = &s->rans.string[warp];
    r->live = it->status == PITH_OK;
    r->runs = r->piece = false;
    r->quick = p->device.kind == PITHI_KIND_ROWS;
    r->planned = 0;
    if (r->live && (pithi_coded_exact(p) || pithi_coding_bounded(p))) {
        pithi_writer_words(a, it, first + warp, r);
        return;
    }
    if (r->live && pithi_coded_paged(p)) {
        pithi_writer_piece(a, it, first + warp, r);
        return;
    }
    r->live = r->live && first + warp < it->slot->blocks;
    if (!r->live) return;
    const struct pithi_coded_block b = pithi_coded_block(p, it, first + warp);
    r->codes = pithi_staging_payload(a, it) + b.at + b.scales;
    r->n = b.count;
    r->bits = r->range = p->device.groups.set.bits;
    r->packed = b.codes;
    r->length = b.codes - 1;
    r->coded = pithi_coding_of(a, it->index) + a->coding.unplaced +
               (first + warp) * a->coding.unplaced_each;
}

/* Symbols of up to 6 bits have a counter for each thread. */
PITHI_DEVICE uint32_t pithi_rans_copies(uint32_t bits) { return bits > 6 ? 8 : PITHI_WARP; }

PITHI_PHASE(pithi_writer_count, uint32_t tid) {
    (void)a;
    if (!pithi_rans_writes(s, t)) return;
    const struct pithi_rans_string *const r = &s->rans.string[t->tid / PITHI_WARP];
    const uint32_t lane = (t->tid + tid) % PITHI_WARP, bits = r->bits, mask = (1u << bits) - 1;
    const uint32_t copies = pithi_rans_copies(r->range), copy = lane % copies;
    uint32_t *const counts = pithi_rans_writer(s, t)->counts;
    for (uint32_t u = lane; u < pithi_rans_units(r); u += PITHI_WARP) {
        const uint32_t n = pithi_unit_left((uint64_t)u * PITHI_UNIT, r->n);
        const uint64_t word = pithi_unit_get_codes(pithi_rans_unit(r, u), bits, n);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
            if (k >= n) continue;
            uint32_t *const to = &counts[((uint32_t)(word >> k * bits) & mask) * copies + copy];
            if (copies == PITHI_WARP)
                ++*to;
            else
                pithi_atomic_add32(to, 1);
        }
    }
}

/* The thread's counts; how many symbols occur, and the most of one. */
PITHI_LOCAL(pithi_writer_collect, uint32_t tid) {
    (void)a;
    t->rans.total = 0;
    t->rans.largest = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) t->rans.count[k] = 0;
    if (!pithi_rans_writes(s, t)) return;
    const uint32_t warp = t->tid / PITHI_WARP, bits = s->rans.string[warp].range;
    const uint32_t copies = pithi_rans_copies(bits);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        const uint32_t symbol = pithi_rans_own(t, k);
        if (symbol >> bits) continue;
        for (uint32_t c = 0; c < copies; c++) /* no two threads at one bank */
            t->rans.count[k] +=
                s->rans.writer[warp].counts[symbol * copies + (c + t->tid + tid) % copies];
        t->rans.total += t->rans.count[k] > 0;
        if (t->rans.count[k] > t->rans.largest) t->rans.largest = t->rans.count[k];
    }
}

/* The first of the most frequent symbols, as what the largest of is sought. */
PITHI_LOCAL(pithi_writer_rest, uint32_t tid) {
    (void)a, (void)s, (void)tid;
    t->rans.kinds = (uint32_t)t->rans.total;
    t->rans.most = t->rans.largest;
    t->rans.largest = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        const uint32_t back = 255 - pithi_rans_own(t, k);
        if (t->rans.count[k] == t->rans.most && back > t->rans.largest) t->rans.largest = back;
    }
}

/* Precision i of those that are tried. */
PITHI_DEVICE uint32_t pithi_rans_try(uint32_t n, uint32_t i) {
    return i < PITHI_RANS_PRECISIONS ? pithi_rans_precision(n) + i
                                     : (uint32_t)PITHI_RANS_PRECISION_ALL;
}

/* What all symbols but the most frequent get, by each precision: 16 bits each. */
PITHI_LOCAL(pithi_writer_sums, uint32_t tid) {
    (void)a, (void)tid;
    t->rans.rest = 255 - t->rans.largest;
    t->rans.total = 0;
    if (!pithi_rans_writes(s, t)) return;
    const uint32_t n = s->rans.string[t->tid / PITHI_WARP].n;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        if (!t->rans.count[k] || pithi_rans_own(t, k) == t->rans.rest) continue;
        const uint32_t exact = pithi_rans_exact(t->rans.count[k], n);
        for (uint32_t i = 0; i <= PITHI_RANS_PRECISIONS; i++)
            t->rans.total += (uint64_t)pithi_rans_rounded(exact, pithi_rans_try(n, i)) << 16 * i;
    }
}

/* The first precision by which the most frequent symbol gets its share. */
PITHI_LOCAL(pithi_writer_round, uint32_t tid) {
    (void)a, (void)tid;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) t->rans.frequency[k] = 0;
    t->rans.sum = PITHI_RANS_SLOTS;
    if (!pithi_rans_writes(s, t)) return;
    const uint32_t n = s->rans.string[t->tid / PITHI_WARP].n;
    const int share = (int)((uint64_t)t->rans.most * PITHI_RANS_SLOTS / n);
    uint32_t i = 0;
    int left = 0;
    for (;; i++) {
        left = PITHI_RANS_SLOTS - (int)(t->rans.total >> 16 * i & 0xFFFF);
        if (i == PITHI_RANS_PRECISIONS || pithi_rans_fair(left, share)) break;
    }
    t->rans.precision = pithi_rans_try(n, i);
    if (left <= 0) {
        t->rans.sum += (uint32_t)(1 - left);
        left = 1;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        if (!t->rans.count[k]) continue;
        t->rans.frequency[k] =
            pithi_rans_own(t, k) == t->rans.rest
                ? (uint32_t)left
                : pithi_rans_rounded(pithi_rans_exact(t->rans.count[k], n), t->rans.precision);
    }
}

/* ---- Taking back what is too much, from the most frequent symbols ----------------------------*/

PITHI_PHASE(pithi_take_clear, uint32_t tid) {
    (void)a;
    if (t->tid == tid) s->rans.taking = 0;
}
PITHI_PHASE(pithi_take_look, uint32_t tid) {
    (void)a, (void)tid;
    if (t->tid % PITHI_WARP == 0 && t->rans.sum != PITHI_RANS_SLOTS)
        pithi_atomic_max32(&s->rans.taking, 1);
}
/* Takes the symbol of largest frequency, the lowest of several. */
PITHI_LOCAL(pithi_take_most, uint32_t tid) {
    (void)a, (void)s, (void)tid;
    t->rans.largest = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        const uint32_t key = t->rans.frequency[k] << 8 | (255 - pithi_rans_own(t, k));
        if (key > t->rans.largest) t->rans.largest = key;
    }
}
PITHI_PHASE(pithi_take_some, uint32_t tid) {
    const uint32_t symbol = 255 - (t->rans.largest & 255), step = (t->rans.largest >> 8) / 8 + 1;
    const uint32_t over = t->rans.sum - PITHI_RANS_SLOTS, taken = over < step ? over : step;
    (void)a, (void)s, (void)tid;
    t->rans.sum -= taken;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) if (pithi_rans_own(t, k) == symbol)
        t->rans.frequency[k] -= taken;
}
PITHI_DEVICE void pithi_writer_take(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_RUN(pithi_take_look, 0);
    while (s->rans.taking) {
        PITHI_STEP(pithi_take_most, 0);
        PITHI_WARP_MAX(rans.largest, PITHI_WARP);
        PITHI_RUN(pithi_take_some, 0);
        PITHI_RUN(pithi_take_clear, 0);
        PITHI_RUN(pithi_take_look, 0);
    }
}

/* ---- Tables ----------------------------------------------------------------------------------*/

/* Bits of the string, in 1/256. */
PITHI_PHASE(pithi_writer_cost, uint32_t tid) {
    (void)a, (void)tid;
    t->rans.total = 0;
    if (!pithi_rans_writes(s, t)) return;
    struct pithi_rans_writer *const w = pithi_rans_writer(s, t);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        const uint32_t f = t->rans.frequency[k];
        w->frequency[pithi_rans_own(t, k)] = (uint16_t)f;
        if (f && t->rans.kinds > 1)
            t->rans.total +=
                t->rans.count[k] * (uint64_t)(256 * PITHI_RANS_LOG2_SLOTS - pithi_log2_256(f));
    }
}

/* By the first thread of a warp: whether a string is made, and its tables. */
PITHI_DEVICE void pithi_writer_tables(struct pithi_rans_string *r, struct pithi_rans_writer *w,
                                      const struct pithi_gpu_thread *t) {
    const struct pithi_rans_rounding rounding = {t->rans.kinds, t->rans.rest, t->rans.precision};
    const uint32_t most = r->packed < r->length ? r->packed : r->length;
    const uint32_t symbols = 1u << r->range;
    struct pithi_rans_filler f;
    if (t->rans.kinds < 2 || most <= PITHI_CODES_HEAD) return;
    r->log2_states = pithi_rans_log2_states(r->n, t->rans.total >> 11, r->quick);
    const uint8_t *const end = pithi_rans_put_table(r->coded + PITHI_CODES_HEAD, &rounding,
                                                    r->log2_states, w->frequency, symbols);
    r->head = (uint32_t)(end - r->coded) + (4u << r->log2_states);
    const uint64_t planned = r->head - PITHI_CODES_HEAD + (t->rans.total >> 11);
    if (planned > r->packed - r->packed / 64) return;
    if (r->piece && planned > r->packed - PITHI_CODES_HEAD) return;
    if (r->head > most) return;
    r->planned = (uint32_t)planned;
    r->runs = true;
    r->words = (most - r->head) / 2; /* as many as may be */
    r->log2_width = pithi_rans_log2_width(w->frequency, symbols);
    uint32_t start = 0;
    for (uint32_t symbol = 0; symbol < symbols; symbol++) {
        w->start[symbol] = (uint16_t)start;
        start += w->frequency[symbol];
    }
    pithi_rans_fill_open(&f, w->frequency, symbols, r->log2_width);
    for (uint32_t b = 0; b < (uint32_t)PITHI_RANS_SLOTS >> r->log2_width; b++) {
        pithi_rans_fill(&f);
        w->bucket[b] = f.split | f.symbol[0] << 8 | f.symbol[1] << 16;
        w->used[b] = (uint16_t)f.used;
    }
}
PITHI_PHASE(pithi_writer_table, uint32_t tid) {
    (void)a, (void)tid;
    if (t->tid % PITHI_WARP || !pithi_rans_writes(s, t)) return;
    struct pithi_rans_string *const r = &s->rans.string[t->tid / PITHI_WARP];
    pithi_writer_tables(r, pithi_rans_writer(s, t), t);
    if (!r->runs) return;
    pithi_atomic_max32(&s->rans.batches, (r->n + PITHI_RANS_BATCH - 1) / PITHI_RANS_BATCH);
    pithi_atomic_max32(&s->rans.steps, PITHI_RANS_BATCH / pithi_rans_lanes(r->log2_states));
}

PITHI_DEVICE bool pithi_rans_runs(const struct pithi_gpu_shared *s,
                                  const struct pithi_gpu_thread *t) {
    const uint32_t warp = t->tid / PITHI_WARP;
    return s->rans.string[warp].live && s->rans.string[warp].runs;
}

PITHI_PHASE(pithi_writer_slots, uint32_t tid) {
    (void)a;
    if (!pithi_rans_writes(s, t) || !pithi_rans_runs(s, t)) return;
    struct pithi_rans_writer *const w = pithi_rans_writer(s, t);
    const uint32_t log2_width = s->rans.string[t->tid / PITHI_WARP].log2_width;
    for (uint32_t i = (t->tid + tid) % PITHI_WARP; i < PITHI_RANS_SLOTS; i += PITHI_WARP) {
        const uint32_t b = i >> log2_width, in = i - (b << log2_width), bucket = w->bucket[b];
        const uint32_t split = bucket & 255, second = in >= split;
        const uint32_t symbol = bucket >> (second ? 16 : 8) & 255;
        w->slot[w->start[symbol] + (second ? in - split : w->used[b] + in)] = (uint16_t)i;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) t->rans.count[k] =
        w->start[pithi_rans_own(t, k)];
}

/* floor(2^32 / f), of f = 1 one less: x / f is at most one more than the product's high half. */
PITHI_PHASE(pithi_writer_begin, uint32_t tid) {
    (void)a, (void)tid;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_TURNS; k++) t->rans.x[k] = PITHI_RANS_LOW;
    t->rans.words = t->rans.n = t->rans.lanes = 0;
    t->rans.turns = 1;
    if (!pithi_rans_writes(s, t) || !pithi_rans_runs(s, t)) return;
    const struct pithi_rans_string *const r = &s->rans.string[t->tid / PITHI_WARP];
    struct pithi_rans_writer *const w = pithi_rans_writer(s, t);
    t->rans.n = r->n;
    t->rans.lanes = pithi_rans_lanes(r->log2_states);
    t->rans.turns = pithi_rans_turns(r->log2_states);
    t->rans.capacity = r->words;
    t->rans.from = r->coded + r->head;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_OWN; k++) {
        const uint32_t f = t->rans.frequency[k], symbol = pithi_rans_own(t, k);
        w->of[symbol] = f | t->rans.count[k] << 16;
        w->reciprocal[symbol] = f > 1 ? (uint32_t)(UINT64_C(0x100000000) / f) : 0xFFFFFFFFu;
    }
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Returns where the batch that is i-th from the last begins; n where there is none. */
PITHI_DEVICE uint32_t pithi_writer_at(const struct pithi_gpu_thread *t, uint32_t i) {
    const uint32_t batches = (t->rans.n + PITHI_RANS_BATCH - 1) / PITHI_RANS_BATCH;
    return i < batches ? (batches - 1 - i) * PITHI_RANS_BATCH : t->rans.n;
}
/* Loads the thread's codes of the batch that is i-th from the last. */
PITHI_LOCAL(pithi_writer_fetch, uint32_t i) {
    const uint64_t e = (uint64_t)pithi_writer_at(t, i) + t->tid % PITHI_WARP * PITHI_UNIT;
    const uint32_t n = pithi_unit_left(e, t->rans.n);
    (void)a;
    t->rans.next = 0;
    if (!n) return;
    const struct pithi_rans_string *const r = &s->rans.string[t->tid / PITHI_WARP];
    t->rans.next = pithi_unit_get_codes(pithi_rans_unit(r, (uint32_t)(e / PITHI_UNIT)), r->bits, n);
}
/* Hands the codes to the warp, a byte each. */
PITHI_PHASE(pithi_writer_load, uint32_t i) {
    const uint32_t warp = t->tid / PITHI_WARP;
    (void)a, (void)i;
    if (!t->rans.n) return;
    const uint32_t bits = s->rans.string[warp].bits, mask = (1u << bits) - 1;
    uint64_t spread = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) spread |=
        (t->rans.next >> k * bits & mask) << 8 * k;
    s->rans.writer[warp].ring[t->tid % PITHI_WARP] = spread;
}

/* What is known of the thread's symbols of a batch, where each step takes 32 of them; of none a
 * frequency of 0. */
PITHI_LOCAL(pithi_writer_look, uint32_t i) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP;
    const uint32_t first = pithi_writer_at(t, i);
    (void)a;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) t->rans.of[k] = 0;
    if (first >= t->rans.n) return;
    const struct pithi_rans_writer *const w = &s->rans.writer[warp];
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        const uint32_t at = k * PITHI_WARP + lane;
        if (first + at >= t->rans.n) continue;
        const uint32_t symbol = ((const uint8_t *)w->ring)[at];
        t->rans.of[k] = w->of[symbol];
        t->rans.reciprocal[k] = w->reciprocal[symbol];
    }
}
/* Looks up the symbols of one step, of which there are as many as states. */
PITHI_LOCAL(pithi_writer_look_one, uint32_t i, uint32_t step) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP;
    const uint32_t at = step * t->rans.lanes + lane;
    (void)a;
    t->rans.of[0] = 0;
    if (lane >= t->rans.lanes || at >= PITHI_RANS_BATCH ||
        (uint64_t)pithi_writer_at(t, i) + at >= t->rans.n)
        return;
    const struct pithi_rans_writer *const w = &s->rans.writer[warp];
    const uint32_t symbol = ((const uint8_t *)w->ring)[at];
    t->rans.of[0] = w->of[symbol];
    t->rans.reciprocal[0] = w->reciprocal[symbol];
}

/* Whether the state gives a word. */
PITHI_LOCAL(pithi_writer_vote, uint32_t k) {
    const uint32_t f = t->rans.of[k] & 0xFFFF;
    (void)a, (void)s;
    t->rans.vote = f && t->rans.x[0] >> (32 - PITHI_RANS_LOG2_SLOTS) >= f;
}
/* Words of a step stand in the order of its symbols, before those of all steps so far. */
PITHI_LOCAL(pithi_writer_step, uint32_t k) {
    const uint32_t warp = t->tid / PITHI_WARP, lane = t->tid % PITHI_WARP;
    const uint32_t f = t->rans.of[k] & 0xFFFF;
    uint32_t x = t->rans.x[0];
    (void)a;
    t->rans.words += pithi_ones32(t->rans.votes);
    if (t->rans.vote) {
        const uint32_t back = t->rans.words - pithi_ones32(t->rans.votes & ((1u << lane) - 1));
        if (back <= t->rans.capacity)
            pithi_put16(t->rans.from + 2 * (uint64_t)(t->rans.capacity - back), (uint16_t)x);
        x >>= 16;
    }
    if (f) {
        uint32_t q = (uint32_t)((uint64_t)x * t->rans.reciprocal[k] >> 32), rest = x - q * f;
        if (rest >= f) q++, rest -= f;
        x = q << PITHI_RANS_LOG2_SLOTS | s->rans.writer[warp].slot[(t->rans.of[k] >> 16) + rest];
    }
    pithi_rans_turn(t, t->rans.turns, x);
}

/* State j of the string is that of its j-th symbol: those whose turn it was last come first. */
PITHI_LOCAL(pithi_writer_states, uint32_t tid) {
    const uint32_t lane = (t->tid + tid) % PITHI_WARP, turns = t->rans.turns;
    (void)a, (void)s;
    if (lane >= t->rans.lanes) return;
    uint8_t *const states = t->rans.from - 4 * (uint64_t)(t->rans.lanes * turns);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_RANS_TURNS; k++) if (k < turns)
        pithi_put32(states + 4 * (lane + PITHI_WARP * (turns - 1 - k)), t->rans.x[k]);
}

PITHI_DEVICE void pithi_writer_end(const struct pithi_rans_string *r,
                                   const struct pithi_gpu_thread *t,
                                   struct pithi_rans_piece *piece) {
    uint32_t planned = 0;
    piece->head = PITHI_CODES_KIND;
    piece->words = piece->skipped = 0;
    piece->plain = false;
    if (r->runs && t->rans.words <= r->words) {
        planned = PITHI_CODES_HEAD + r->planned;
        piece->head = r->head;
        piece->words = t->rans.words;
        piece->skipped = r->words - t->rans.words;
        pithi_put32(r->coded,
                    (r->head + 2 * t->rans.words - PITHI_CODES_HEAD) << 8 | PITHI_CODES_RANS);
    } else if (t->rans.kinds == 1) {
        r->coded[0] = PITHI_CODES_CONSTANT;
        r->coded[1] = (uint8_t)t->rans.rest;
        piece->head = 2;
    } else {
        r->coded[0] = PITHI_CODES_PACKED;
        piece->plain = true;
    }
    piece->length = piece->nested + piece->head + 2 * piece->words + (piece->plain ? r->packed : 0);
    piece->need = piece->length > piece->nested + planned ? piece->length : piece->nested + planned;
}

PITHI_PHASE(pithi_writer_close, uint64_t first) {
    const uint32_t warp = t->tid / PITHI_WARP;
    if (t->tid % PITHI_WARP || !pithi_rans_writes(s, t)) return;
    const struct pithi_rans_string *const r = &s->rans.string[warp];
    if (pithi_coded_parted(&a->to.plan)) {
        const uint64_t number = first + warp;
        pithi_writer_end(r, t,
                         pithi_coding_piece(a, s->to.index, pithi_writer_block(a, number),
                                            (uint32_t)(number % a->coding.strings)));
        return;
    }
    struct pithi_rans_entry *const entry = pithi_coding_entry(a, s->to.index, first + warp);
    const struct pithi_coded_block b = pithi_coded_block(&a->to.plan, &s->to, first + warp);
    const uint32_t string = r->head + 2 * t->rans.words;
    entry->head = entry->words = entry->skipped = 0;
    entry->length = (b.scales + b.codes) | PITHI_BLOCK_PLAIN;
    if (r->runs && t->rans.words <= r->words) {
        entry->head = r->head;
        entry->words = t->rans.words;
        entry->skipped = r->words - t->rans.words;
        entry->length = b.scales + string;
        pithi_put32(r->coded, (string - PITHI_CODES_HEAD) << 8 | PITHI_CODES_RANS);
    } else if (t->rans.kinds == 1 && r->length >= 2) {
        r->coded[0] = PITHI_CODES_CONSTANT;
        r->coded[1] = (uint8_t)t->rans.rest;
        entry->head = 2;
        entry->length = b.scales + 2;
    }
}

/* Part of a body: frequencies of each string. */
PITHI_DEVICE void pithi_writer_measure(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team) {
    PITHI_RUN(pithi_writer_count, 0);
    PITHI_STEP(pithi_writer_collect, 0);
    PITHI_WARP_ADD(rans.total);
    PITHI_WARP_MAX(rans.largest, PITHI_WARP);
    PITHI_STEP(pithi_writer_rest, 0);
    PITHI_WARP_MAX(rans.largest, PITHI_WARP);
    PITHI_STEP(pithi_writer_sums, 0);
    PITHI_WARP_ADD(rans.total);
    PITHI_STEP(pithi_writer_round, 0);
    pithi_writer_take(a, s, t, team);
}

/* Part of a body: the strings of all warps. */
PITHI_DEVICE void pithi_writer_strings(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team) {
    const bool wide = s->rans.steps == PITHI_UNIT;
    PITHI_STEP(pithi_writer_fetch, 0);
    for (uint32_t i = 0; i < s->rans.batches; i++) {
        PITHI_STEP(pithi_writer_load, i);
        PITHI_STEP(pithi_writer_fetch, i + 1);
        PITHI_WARP_SYNC();
        if (wide) {
            PITHI_STEP(pithi_writer_look, i);
            PITHI_UNROLL for (uint32_t k = PITHI_UNIT; k-- > 0;) {
                PITHI_STEP(pithi_writer_vote, k);
                PITHI_WARP_VOTE(rans.vote, rans.votes);
                PITHI_STEP(pithi_writer_step, k);
            }
        } else {
            for (uint32_t step = s->rans.steps; step-- > 0;) {
                PITHI_STEP(pithi_writer_look_one, i, step);
                PITHI_STEP(pithi_writer_vote, 0);
                PITHI_WARP_VOTE(rans.vote, rans.votes);
                PITHI_STEP(pithi_writer_step, 0);
            }
        }
        PITHI_WARP_SYNC();
    }
}

/* A warp a block. */
PITHI_BODY(pithi_rans_encode) {
    const uint64_t first = number % a->chunks * PITHI_RANS_WRITERS;
    PITHI_RUN(pithi_writer_locate, number);
    PITHI_RUN(pithi_writer_open, first);
    pithi_writer_measure(a, s, t, team);
    PITHI_RUN(pithi_writer_cost, 0);
    PITHI_WARP_ADD(rans.total);
    PITHI_RUN(pithi_writer_table, 0);
    PITHI_RUN(pithi_writer_slots, 0);
    PITHI_RUN(pithi_writer_begin, 0);
    pithi_writer_strings(a, s, t, team);
    PITHI_STEP(pithi_writer_states, 0);
    PITHI_STEP(pithi_writer_close, first);
}

/* ---- Places, index and header ----------------------------------------------------------------*/

PITHI_PHASE(pithi_coded_locate, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    if (s->to.status == PITH_OK) s->to.status = a->to.items.status[s->to.index];
    s->rans.carry[0] = s->to.form->data;
}

PITHI_PHASE(pithi_coded_length, uint64_t first) {
    const uint64_t i = first + t->tid;
    t->rans.total = 0;
    if (i < s->to.slot->blocks) {
        const uint32_t length = pithi_coding_entry(a, s->to.index, i)->length;
        t->rans.total = length & ~PITHI_BLOCK_PLAIN;
    }
    t->rans.own = t->rans.total;
}

PITHI_PHASE(pithi_coded_place, uint64_t first) {
    const uint64_t i = first + t->tid, parity = first / PITHI_TEAM % 2;
    if (i < s->to.slot->blocks)
        pithi_coding_entry(a, s->to.index, i)->at =
            s->rans.carry[parity] + pithi_coded_before(s, t);
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}

/* A frame that does not fit was not encoded: the slot is where it was. */
PITHI_PHASE(pithi_coded_judge, uint64_t strips) {
    struct pithi_gpu_item *const it = &s->to;
    if (t->tid || it->form->header_bytes + s->rans.carry[strips % 2] <= a->to.items.capacity)
        return;
    it->status = PITH_ERR_SPACE;
    pithi_atomic_add64(&it->slot_state->step, UINT64_MAX);
    pithi_atomic_add64(&a->to.stream->frames, UINT64_MAX);
    it->slot_state->undone = 1;
    pithi_item_answer(&a->to.items, it, 1);
}

PITHI_PHASE(pithi_coded_tables, uint64_t number) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t table = a->to.plan.checksums ? 8 * it->slot->checks : 0;
    const uint8_t *const staged = pithi_coding_of(a, it->index) + a->coding.staging;
    (void)number;
    for (uint64_t i = t->tid; i < it->form->header_bytes; i += PITHI_TEAM) it->frame[i] = staged[i];
    for (uint64_t i = t->tid; i < it->slot->blocks; i += PITHI_TEAM)
        pithi_put32(it->payload + 4 * i, pithi_coding_entry(a, it->index, i)->length);
    for (uint64_t i = 4 * it->slot->blocks + t->tid; i < it->form->checks; i += PITHI_TEAM)
        it->payload[i] = 0;
    for (uint64_t i = it->form->checks + table + t->tid; i < it->form->data; i += PITHI_TEAM)
        it->payload[i] = 0;
}

PITHI_PHASE(pithi_coded_header, uint64_t strips) {
    const struct pithi_gpu_item *const it = &s->to;
    const uint64_t fixed = it->slot->fixed_bytes, payload = s->rans.carry[strips % 2];
    if (t->tid) return;
    pithi_put64(it->frame + PITHI_AT_PAYLOAD, payload);
    pithi_put64(it->frame + fixed - 8, pithi_header_hash(it->frame, fixed, it->form->header_bytes));
    pithi_item_answer(&a->to.items, it, it->form->header_bytes + payload);
}

/* A team a frame. */
PITHI_BODY(pithi_rans_place) {
    uint64_t strips = 0;
    PITHI_RUN(pithi_coded_locate, number);
    if (s->to.status != PITH_OK) return;
    PITHI_MEET(); /* all have looked: a slot may have no block */
    for (uint64_t first = 0; first < s->to.slot->blocks; first += PITHI_TEAM, strips++) {
        PITHI_STEP(pithi_coded_length, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_coded_place, first);
    }
    PITHI_RUN(pithi_coded_judge, strips);
    if (s->to.status != PITH_OK) return;
    PITHI_RUN(pithi_coded_tables, number);
    PITHI_RUN(pithi_coded_header, strips);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_coded_open, uint64_t block) {
    struct pithi_gpu_item *const it = &s->to;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, block, it);
    if (it->status == PITH_OK) it->status = a->to.items.status[it->index];
    if ((uint32_t)block % (uint32_t)a->chunks >= it->slot->blocks) it->status = PITH_ERR_ARG;
}

PITHI_PHASE(pithi_coded_bytes, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->to;
    const struct pithi_coded_block b = pithi_coded_block(&a->to.plan, it, block);
    const struct pithi_rans_entry entry = *pithi_coding_entry(a, it->index, block);
    const uint8_t *const staged = pithi_staging_payload(a, it) + b.at;
    const uint8_t *const string =
        pithi_coding_of(a, it->index) + a->coding.unplaced + block * a->coding.unplaced_each;
    uint8_t *const to = it->payload + entry.at;
    if (entry.length & PITHI_BLOCK_PLAIN) {
        pithi_coded_copy(t->tid, PITHI_TEAM, to, staged, b.scales + b.codes);
        return;
    }
    pithi_coded_copy(t->tid, PITHI_TEAM, to, staged, b.scales);
    pithi_coded_copy(t->tid, PITHI_TEAM, to + b.scales, string, entry.head);
    pithi_coded_copy(t->tid, PITHI_TEAM, to + b.scales + entry.head,
                     string + entry.head + 2 * (uint64_t)entry.skipped, 2 * (uint64_t)entry.words);
}

PITHI_LOCAL(pithi_coded_hash, uint64_t block) {
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, s->to.index, block);
    t->rans.total = pithi_hash_part(s->to.payload + entry->at, 0,
                                    entry->length & ~PITHI_BLOCK_PLAIN, t->tid, PITHI_TEAM);
}

PITHI_PHASE(pithi_coded_sum, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->to;
    if (t->tid) return;
    const uint64_t length = pithi_coding_entry(a, it->index, block)->length & ~PITHI_BLOCK_PLAIN;
    pithi_put64(it->payload + it->form->checks + 8 * block,
                pithi_nh_finish(pithi_coded_all(s), length, PITHI_CHECK_TAG + block));
}

/* Part of a body: the checksum of a block that the team has written. */
PITHI_DEVICE void pithi_coded_seal(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint64_t block) {
    if (!a->to.plan.checksums) return;
    PITHI_STEP(pithi_coded_hash, block);
    PITHI_WARP_ADD(rans.total);
    PITHI_RUN(pithi_coded_publish, block);
    PITHI_RUN(pithi_coded_sum, block);
}

/* A team a block. */
PITHI_BODY(pithi_rans_write) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_coded_open, number);
    if (s->to.status != PITH_OK) return;
    PITHI_RUN(pithi_coded_bytes, block);
    pithi_coded_seal(a, s, t, team, block);
}

#endif
