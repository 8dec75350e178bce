/* lossless_tops.h - how words of floats are cut, and what they become: tops and lower bits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a block, and decides as the CPU does: bytes/top_choice.h. */
#ifndef PITHI_GPU_DEVICE_BYTES_LOSSLESS_TOPS_H
#define PITHI_GPU_DEVICE_BYTES_LOSSLESS_TOPS_H

#include "device/bytes/lossless.h"

/* ---- How words are cut -----------------------------------------------------------------------*/

PITHI_PHASE(pithi_lossless_tops_count, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t count = w->count, step = (uint32_t)pithi_top_step(count), bits = 8 * w->width;
    const uint32_t runs = (count + step - 1) / step, last = count - (runs - 1) * step;
    (void)a, (void)block;
    for (uint32_t i = t->tid; i < runs * PITHI_TOP_RUN; i += PITHI_TEAM) {
        const uint32_t at = i / PITHI_TOP_RUN * step + i % PITHI_TOP_RUN;
        if (at >= count) continue;
        const uint64_t word = pithi_lossless_word(w, at);
        pithi_atomic_add32(&s->rans.sample.top[word >> (bits - w->most)], 1);
        pithi_atomic_add32(&s->rans.sample.second[word >> (bits - 16) & 0xFF], 1);
    }
    if (t->tid) return;
    w->costs = pithi_top_costs_of(
        (runs - 1) * PITHI_TOP_RUN + (last < PITHI_TOP_RUN ? last : (uint32_t)PITHI_TOP_RUN),
        count);
    w->bytes = w->second = w->symbols = 0;
    w->named = 0;
}

/* Counts the words that have one of the thread's tops; those of the first thread are the
 * largest. */
PITHI_LOCAL(pithi_lossless_tops_above, uint64_t block) {
    const uint32_t tops = 1u << s->rans.words.most, each = tops / PITHI_TEAM;
    (void)a, (void)block;
    t->rans.total = 0;
    for (uint32_t k = 1; k <= each; k++)
        t->rans.total += s->rans.sample.top[tops - t->tid * each - k];
    t->rans.own = t->rans.total;
}
/* Exactly one thread has the top at which more than one in 256 words has that or a larger one. */
PITHI_PHASE(pithi_lossless_tops_last, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t tops = 1u << w->most, each = tops / PITHI_TEAM, few = w->costs.total / 256;
    uint64_t above = pithi_coded_before(s, t);
    (void)a, (void)block;
    if (above > few || above + t->rans.own <= few) return;
    uint32_t top = tops - t->tid * each;
    while (above <= few) above += s->rans.sample.top[--top];
    w->last = top;
}

/* What words take as bytes. */
PITHI_PHASE(pithi_lossless_tops_bytes, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t group = 1u << (w->most - 8);
    uint32_t n = 0;
    (void)a, (void)block;
    for (uint32_t k = 0; k < group; k++) n += s->rans.sample.top[t->tid * group + k];
    pithi_atomic_add64(&w->bytes, pithi_top_cost_of(n, &w->costs));
    pithi_atomic_add64(&w->second, pithi_top_cost_of(s->rans.sample.second[t->tid], &w->costs));
}
/* What they take with tops of so many bits. */
PITHI_PHASE(pithi_lossless_tops_cost, uint32_t bits) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t shift = w->most - bits, base = pithi_top_base(w->last >> shift);
    uint64_t cost = 0;
    uint32_t named = 0;
    (void)a;
    for (uint32_t top = t->tid; top < 1u << bits; top += PITHI_TEAM) {
        uint32_t n = 0;
        if (!pithi_top_has_symbol(top, base)) continue;
        for (uint32_t k = 0; k < 1u << shift; k++) n += s->rans.sample.top[(top << shift) + k];
        cost += pithi_top_cost_of(n, &w->costs);
        named += n;
    }
    if (!named) return;
    pithi_atomic_add64(&w->symbols, cost);
    pithi_atomic_add32(&w->named, named);
}
PITHI_PHASE(pithi_lossless_tops_judge, uint32_t bits) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    (void)a;
    if (t->tid) return;
    w->cost[bits - w->exponent] =
        pithi_top_cut_cost(w->symbols, w->costs.total - w->named, bits, &w->costs);
    w->symbols = 0;
    w->named = 0;
}
PITHI_PHASE(pithi_lossless_tops_choose, uint64_t block) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    (void)a, (void)block;
    if (t->tid) return;
    const uint64_t bytes = pithi_top_bytes_cost(w->bytes, w->second, &w->costs);
    const uint32_t bits = pithi_top_bits(w->cost, bytes, w->exponent, w->most, w->width, &w->costs);
    s->rans.carry[0] = 0;
    w->finer = pithi_top_finer(w->cost, bytes, w->exponent, w->most, w->width, &w->costs);
    w->finer_loss =
        pithi_top_loss(w->cost, bytes, w->exponent, w->most, w->finer, w->count, &w->costs);
    if (!bits) return;
    w->block.bits = PITHI_LOSSLESS_TOPS;
    w->block.low = 8 * w->width - bits;
    w->block.base = pithi_top_base(w->last >> (w->most - bits));
    w->block.parts = 1 + w->block.low / 8;
}

/* ---- Tops and lower bits ---------------------------------------------------------------------*/

PITHI_DEVICE uint32_t pithi_lossless_tops_symbol(const struct pithi_lossless_block *b,
                                                 uint64_t word) {
    const uint32_t top = (uint32_t)(word >> b->low), above = top - b->base;
    if (!top) return 0;
    return above - 1 < PITHI_TOP_SYMBOLS ? above : (uint32_t)PITHI_LOSSLESS_ESCAPE;
}

/* The words of a strip. */
PITHI_PHASE(pithi_lossless_tops_cut, uint32_t first) {
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const struct pithi_lossless_block *const b = &w->block;
    const uint32_t n = pithi_lossless_left(w, t, first), at = first + t->tid * PITHI_UNIT;
    const uint32_t planes = b->low / 8, rest = b->low % 8;
    uint64_t symbols = 0, bits = 0;
    t->rans.total = t->rans.own = 0;
    if (!n) return;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) {
        if (k >= n) continue;
        const uint64_t word = pithi_lossless_word(w, at + k);
        const uint32_t symbol = pithi_lossless_tops_symbol(b, word);
        symbols |= (uint64_t)symbol << 8 * k;
        bits |= (word >> 8 * planes & ((1u << rest) - 1)) << k * rest;
        t->rans.total += symbol == PITHI_LOSSLESS_ESCAPE;
    }
    t->rans.own = t->rans.total;
    pithi_unit_put_codes(pithi_lossless_part(s, 0) + at, 8, n, symbols);
    for (uint32_t i = 0; i < planes; i++) {
        uint64_t plane = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (k < n) plane |=
            (pithi_lossless_word(w, at + k) >> 8 * i & 0xFF) << 8 * k;
        pithi_unit_put_codes(pithi_lossless_part(s, 1 + i) + at, 8, n, plane);
    }
    if (rest)
        pithi_unit_put_codes(pithi_lossless_tail(p, s) + at / PITHI_UNIT * rest, rest, PITHI_UNIT,
                             bits);
}
/* Tops without a symbol; where there are too many of them they are not kept. */
PITHI_PHASE(pithi_lossless_tops_escapes, uint32_t first) {
    const struct pithi_lossless_shared *const w = &s->rans.words;
    const uint32_t n = pithi_lossless_left(w, t, first), at = first + t->tid * PITHI_UNIT;
    const uint32_t parity = first / PITHI_ROW % 2;
    uint8_t *const tops =
        pithi_lossless_tail(&a->to.plan, s) + pithi_lossless_bits_bytes(&w->block, w->count);
    uint64_t i = s->rans.carry[parity] + pithi_coded_before(s, t);
    for (uint32_t k = 0; t->rans.own && k < n; k++) {
        const uint64_t word = pithi_lossless_word(w, at + k);
        if (pithi_lossless_tops_symbol(&w->block, word) != PITHI_LOSSLESS_ESCAPE) continue;
        if (i < w->count / 16) pithi_put16(tops + 2 * i, (uint16_t)(word >> w->block.low));
        i++;
    }
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}
PITHI_PHASE(pithi_lossless_tops_close, uint32_t strips) {
    struct pithi_lossless_shared *const w = &s->rans.words;
    const uint64_t escapes = s->rans.carry[strips % 2];
    (void)a;
    if (t->tid) return;
    w->block.escapes = (uint32_t)escapes;
    if (escapes > w->count / 16) w->block.bits = 0;
}

/* Part of a body: all words are cut as the block says; where too many of them are escapes it has no
 * tops. */
PITHI_DEVICE void pithi_lossless_tops_all(const struct pithi_gpu_call *a,
                                          struct pithi_gpu_shared *s, struct pithi_gpu_thread *t,
                                          struct pithi_team *team) {
    uint32_t strips = 0;
    for (uint32_t first = 0; first < s->rans.words.count; first += PITHI_ROW, strips++) {
        PITHI_STEP(pithi_lossless_tops_cut, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, first);
        PITHI_RUN(pithi_lossless_tops_escapes, first);
    }
    PITHI_RUN(pithi_lossless_tops_close, strips);
}

#endif
