/* encode.h - sets of elements and their values to frames of topk, after choose.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the elements of each block stand in the frame's list, a team a frame; which form is
 * shortest, a team a block; where blocks stand, a team a frame; their bytes, a team a block. */
#ifndef PITHI_GPU_DEVICE_SPARSE_ENCODE_H
#define PITHI_GPU_DEVICE_SPARSE_ENCODE_H

#include "device/sparse/held.h"

/* ---- Places in the list ----------------------------------------------------------------------*/

PITHI_PHASE(pithi_list_open, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    s->strip.block.workspace = pithi_frame_workspace(a, &a->to, s->to.index);
    s->strip.carry[0] = 0;
}

PITHI_PHASE(pithi_list_count, uint64_t first) {
    const uint64_t i = first + t->tid;
    (void)a;
    t->predict.total =
        i < s->to.slot->blocks ? pithi_entry(s->strip.block.workspace, i)->set.count : 0;
}

PITHI_PHASE(pithi_list_place, uint64_t first) {
    const uint64_t i = first + t->tid, parity = first / PITHI_TEAM % 2;
    (void)a;
    if (i < s->to.slot->blocks)
        pithi_entry(s->strip.block.workspace, i)->set.first =
            (uint32_t)(s->strip.carry[parity] + pithi_scan_before(s, 0, t->tid));
    if (t->tid == 0) s->strip.carry[!parity] = s->strip.carry[parity] + pithi_scan_all(s, 0);
}

PITHI_BODY(pithi_sparse_list) {
    PITHI_RUN(pithi_list_open, number);
    if (s->to.status != PITH_OK) return;
    for (uint64_t first = 0; first < s->to.slot->blocks; first += PITHI_TEAM) {
        PITHI_STEP(pithi_list_count, first);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_list_place, first);
    }
}

/* ---- A block's list --------------------------------------------------------------------------*/

/* By the team's first thread: the block and its set. */
PITHI_DEVICE void pithi_set_find(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                 uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_set *const c = &s->strip.set;
    pithi_item_locate(a, &a->to, number, &s->to);
    s->to.status = pithi_mark(a, s->to.index)->status;
    b->number = number % a->chunks;
    b->workspace = pithi_frame_workspace(a, &a->to, s->to.index);
    b->live = s->to.status == PITH_OK && b->number < s->to.slot->blocks;
    s->strip.carry[0] = s->strip.run[0] = 0;
    if (!b->live) return;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    pithi_set_open(&a->to.plan, &s->to, b->number, c);
    c->count = entry->set.count;
    const uint8_t *const list =
        a->sparse.sends ? a->sparse.scratch + s->to.index * pithi_workspace_whole(&a->to.plan)
                        : b->workspace + pithi_workspace_list(&a->to.plan);
    c->list = (uint32_t *)(uintptr_t)list + entry->set.first;
}

/* Whether blocks may have the set that the slot held before. Where the hard limit is passed the CPU
 * has written over it when it chooses once more. */
PITHI_DEVICE bool pithi_code_repeats(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_item *it) {
    return a->sparse.same_blocks && pithi_chosen_of(a, it)->holds &&
           !pithi_choose_overflows(pithi_search_of(a, it->index));
}

PITHI_PHASE(pithi_code_find, uint64_t number) {
    t->predict.total = 0;
    if (t->tid) return;
    pithi_set_find(a, s, number);
    s->strip.touched = s->strip.block.live && !a->sparse.bare && s->strip.set.count &&
                       s->strip.set.count < s->strip.set.n;
    s->strip.set.differs = !s->strip.touched || !pithi_code_repeats(a, &s->to);
}

/* A word of the map; 0 behind the block. */
PITHI_DEVICE uint64_t pithi_map_word(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_shared *s, uint32_t word) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    if (word >= (c->n + 63) / 64) return 0;
    return pithi_get_aligned64(pithi_chosen_map(a, &s->to) + c->first / 8 + 8 * (uint64_t)word);
}

PITHI_LOCAL(pithi_listing_count, uint32_t strip) {
    const uint64_t word = pithi_map_word(a, s, strip * PITHI_TEAM + t->tid);
    t->predict.total = pithi_ones32((uint32_t)word) + pithi_ones32((uint32_t)(word >> 32));
}

PITHI_PHASE(pithi_listing_put, uint32_t strip) {
    const uint32_t at = strip * PITHI_TEAM + t->tid;
    uint32_t *to = s->strip.set.list + pithi_scan_carry(s, t->tid, strip);
    uint64_t word = pithi_map_word(a, s, at);
    for (uint32_t half = 0; half < 2; half++, word >>= 32)
        for (uint32_t bits = (uint32_t)word; bits; bits &= bits - 1)
            *to++ = 64 * at + 32 * half + pithi_ones32((bits & (0 - bits)) - 1);
}

/* differs: also where a word of the block's set is not what the slot held there. */
PITHI_PHASE(pithi_code_compare, uint32_t words) {
    const uint8_t *const before = pithi_chosen_before(a, &s->to) + s->strip.set.first / 8;
    for (uint32_t i = t->tid; i < words; i += PITHI_TEAM)
        if (pithi_map_word(a, s, i) != pithi_get_aligned64(before + 8 * (uint64_t)i))
            pithi_atomic_max32(&s->strip.set.differs, 1);
}

/* ---- Which form is shortest ------------------------------------------------------------------*/

/* Whether a run begins, or ends, with number i of the list. */
PITHI_DEVICE bool pithi_run_begins(const struct pithi_gpu_set *c, uint32_t i) {
    return i == 0 || c->list[i - 1] + 1 != c->list[i];
}
PITHI_DEVICE bool pithi_run_ends(const struct pithi_gpu_set *c, uint32_t i) {
    return i + 1 == c->count || c->list[i] + 1 != c->list[i + 1];
}

PITHI_LOCAL(pithi_runs_count, uint32_t first) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    (void)a;
    t->predict.total = 0;
    for (uint32_t i = first + t->tid; i < c->count; i += PITHI_TEAM)
        t->predict.total += pithi_run_begins(c, i);
}
PITHI_PHASE(pithi_runs_join_all, uint32_t first) {
    (void)a, (void)first;
    if (t->tid % PITHI_WARP == 0)
        pithi_atomic_add32(&s->strip.set.runs, (uint32_t)t->predict.total);
}

/* Difference of number i of the list to the one before it. */
PITHI_DEVICE uint32_t pithi_list_difference(const struct pithi_gpu_set *c, uint32_t i) {
    return i ? c->list[i] - c->list[i - 1] - 1 : c->list[0];
}

/* base[0] := the thread's differences of group first + its warp; low := bits of the largest. */
PITHI_LOCAL(pithi_packed_differ, uint32_t first) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t g = first + t->tid / PITHI_WARP;
    uint32_t all = 0;
    (void)a;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        const uint32_t i = g * PITHI_PACKED_GROUP + t->tid % PITHI_WARP * PITHI_SET_EACH + k;
        t->base[0][k] = i < c->count ? pithi_list_difference(c, i) : 0;
        all |= t->base[0][k];
    }
    t->predict.low = pithi_bitplane_bits(all);
}
/* total := what pithi_patched_byte takes, of the thread's differences; low: bits of the largest. */
PITHI_LOCAL(pithi_packed_near, uint32_t first) {
    (void)a, (void)s, (void)first;
    t->predict.total = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        const uint32_t less = t->predict.low - pithi_bitplane_bits(t->base[0][k]);
        if (less < PITHI_PATCHED_LESS) t->predict.total += 0x01010101u << 8 * less;
    }
}
/* low := the byte of group first + its warp; total := how many of the thread's differences are
 * exceptions. */
PITHI_LOCAL(pithi_packed_narrow, uint32_t first) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t g = first + t->tid / PITHI_WARP, near = (uint32_t)t->predict.total;
    t->predict.total = 0;
    if (!a->to.plan.device.sets.patched || (g + 1) * PITHI_PACKED_GROUP > c->count) return;
    t->predict.low = pithi_patched_byte(t->predict.low, near);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) t->predict.total +=
        t->base[0][k] >> pithi_packed_width(t->predict.low) != 0;
}
/* Part of a body: what pithi_packed_differ and pithi_packed_narrow say of a group. */
PITHI_DEVICE void pithi_packed_measure(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team,
                                       uint32_t first) {
    PITHI_STEP(pithi_packed_differ, first);
    PITHI_WARP_MAX(predict.low, PITHI_WARP);
    PITHI_STEP(pithi_packed_near, first);
    PITHI_WARP_ADD(predict.total);
    PITHI_STEP(pithi_packed_narrow, first);
}
PITHI_PHASE(pithi_packed_add, uint32_t first) {
    struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t g = first + t->tid / PITHI_WARP;
    (void)a;
    if (t->tid % PITHI_WARP || g >= pithi_set_groups(c)) return;
    pithi_atomic_add64(&c->total, 1 + pithi_packed_group_bytes(c, g, t->predict.low));
    if (pithi_packed_exceptions(t->predict.low)) pithi_atomic_add32(&c->exceptions, 1);
}

/* By one thread, as pithi_index_choose: the shortest but for RUNS. PACKED or, with exceptions,
 * PATCHED has c->total bytes. */
PITHI_PHASE(pithi_code_choose, bool listed) {
    struct pithi_gpu_set *const c = &s->strip.set;
    if (t->tid) return;
    c->form = PITHI_INDEX_BITMAP;
    c->shortest = (c->n + 7) / 8;
    for (uint32_t low = 0;
         listed && a->to.plan.device.sets.elias_fano && low < PITHI_INDEX_BITS_MAX; low++) {
        const uint64_t bytes =
            ((uint64_t)c->count * low + 7) / 8 + ((uint64_t)c->count + ((c->n - 1) >> low) + 7) / 8;
        if (bytes >= c->shortest) continue;
        c->form = PITHI_INDEX_ELIAS_FANO;
        c->low_bits = low;
        c->shortest = bytes;
    }
    if (listed && c->total < c->shortest) {
        c->form = c->exceptions ? PITHI_INDEX_PATCHED : PITHI_INDEX_PACKED;
        c->low_bits = 0;
        c->shortest = c->total;
    }
    s->strip.touched = 2 * (uint64_t)c->runs < c->shortest;
    s->strip.carry[0] = s->strip.run[0] = 0;
}

PITHI_DEVICE uint32_t pithi_leb_bytes(uint32_t x) {
    return x < 1u << 7 ? 1 : x < 1u << 14 ? 2 : x < 1u << 21 ? 3 : 4;
}
PITHI_DEVICE uint8_t *pithi_leb_put(uint8_t *to, uint32_t x) {
    for (; x >= 0x80; x >>= 7) *to++ = (uint8_t)(x | 0x80);
    *to++ = (uint8_t)x;
    return to;
}

/* Numbers of a strip of the list: whether a run begins, so that PITHI_WARP_RUNS counts its
 * elements. */
PITHI_LOCAL(pithi_runs_look, uint32_t strip) {
    const uint32_t i = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = 0;
    if (i < s->strip.set.count)
        t->predict.total = (uint64_t)pithi_run_begins(&s->strip.set, i) << 32 | 1;
    t->predict.own = t->predict.total;
}
/* total := bytes of a gap where a run begins, and of a length where it ends. low: that length. */
PITHI_PHASE(pithi_runs_size, uint32_t strip) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t i = strip * PITHI_TEAM + t->tid;
    const uint64_t so_far =
        pithi_runs_join(pithi_runs_before(s, 1, t->tid, s->strip.run[strip % 2]), t->predict.own);
    (void)a;
    if (t->tid == PITHI_TEAM - 1) s->strip.run[(strip + 1) % 2] = so_far;
    t->predict.total = 0;
    if (i >= c->count) return;
    t->predict.low = (uint32_t)so_far;
    /* Behind a run one element is known not to be of the set. */
    t->predict.high = pithi_list_difference(c, i) - (i != 0);
    if (pithi_run_begins(c, i)) t->predict.total += pithi_leb_bytes(t->predict.high);
    if (pithi_run_ends(c, i)) t->predict.total += pithi_leb_bytes(t->predict.low - 1);
}
PITHI_PHASE(pithi_runs_put, uint32_t strip, bool puts) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t i = strip * PITHI_TEAM + t->tid;
    uint8_t *to = c->index + pithi_scan_carry(s, t->tid, strip);
    (void)a;
    if (!puts || i >= c->count) return;
    if (pithi_run_begins(c, i)) to = pithi_leb_put(to, t->predict.high);
    if (pithi_run_ends(c, i)) pithi_leb_put(to, t->predict.low - 1);
}

/* Part of a body: bytes of RUNS are counted in s->strip.carry[strips % 2], and written with `puts`.
 * index is NULL without. */
PITHI_DEVICE uint32_t pithi_runs_code(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      bool puts) {
    const uint32_t strips = (s->strip.set.count + PITHI_TEAM - 1) / PITHI_TEAM;
    for (uint32_t strip = 0; strip < strips; strip++) {
        PITHI_STEP(pithi_runs_look, strip);
        PITHI_WARP_RUNS(predict.total);
        PITHI_RUN(pithi_scan_publish, 1);
        PITHI_RUN(pithi_runs_size, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_runs_put, strip, puts);
    }
    return strips;
}

/* By one thread: the form, and the bytes of the block. measured: those of RUNS are counted. */
PITHI_PHASE(pithi_code_end, uint32_t strips, bool measured) {
    struct pithi_gpu_set *const c = &s->strip.set;
    const struct pithi_device_plan *const p = &a->to.plan;
    struct pithi_gpu_entry *const entry =
        pithi_entry(s->strip.block.workspace, s->strip.block.number);
    if (t->tid) return;
    if (measured && s->strip.carry[strips % 2] < c->shortest) {
        c->form = PITHI_INDEX_RUNS;
        c->low_bits = 0;
        c->shortest = s->strip.carry[strips % 2];
    }
    const uint64_t values = pithi_values_bytes(p, c->count), all = pithi_values_bytes(p, c->n);
    const struct pithi_gpu_search *const f = pithi_search_of(a, s->to.index);
    const bool held = a->sparse.bare || !c->differs;
    if (!c->differs) pithi_atomic_max32(&pithi_mark(a, s->to.index)->set.same, 1);
    if (c->count == 0 || c->count == c->n || held) {
        const uint32_t known = held ? PITHI_INDEX_HELD : PITHI_INDEX_ALL;
        c->form = c->count ? known : PITHI_INDEX_EMPTY;
        c->shortest = 0;
    } else if (!a->sparse.sends && p->device.sets.values != PITH_NONE && c->first >= f->first &&
               c->first + c->n <= f->end && all < c->shortest + values) {
        c->form = PITHI_INDEX_ALL;
        c->low_bits = 0;
        c->shortest = 0;
    }
    entry->set.form = (uint8_t)c->form;
    entry->set.low_bits = (uint8_t)c->low_bits;
    entry->length = c->form == PITHI_INDEX_EMPTY
                        ? (uint32_t)PITHI_SET_EMPTY
                        : (uint32_t)(PITHI_SET_HEAD + c->shortest +
                                     (c->form == PITHI_INDEX_ALL ? all : values));
    pithi_atomic_add64(&pithi_mark(a, s->to.index)->set.counted,
                       c->form == PITHI_INDEX_ALL ? c->n : c->count);
}

PITHI_BODY(pithi_sparse_code) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    uint32_t strips = 0;
    bool measured = false;
    PITHI_RUN(pithi_code_find, number);
    if (!s->strip.block.live) return;
    const uint32_t words = (c->n + 63) / 64;
    if (s->strip.set.count) {
        for (uint32_t strip = 0; strip < (words + PITHI_TEAM - 1) / PITHI_TEAM; strip++) {
            PITHI_STEP(pithi_listing_count, strip);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_listing_put, strip);
        }
    }
    if (s->strip.touched && a->sparse.same_blocks) PITHI_RUN(pithi_code_compare, words);
    if (s->strip.touched && c->differs) {
        const bool listed = c->count <= c->n / 4 + 1;
        PITHI_STEP(pithi_runs_count, 0);
        PITHI_WARP_ADD(predict.total);
        PITHI_RUN(pithi_runs_join_all, 0);
        for (uint32_t g = 0; listed && g < pithi_set_groups(c); g += PITHI_SET_GROUPS) {
            pithi_packed_measure(a, s, t, team, g);
            PITHI_RUN(pithi_packed_add, g);
        }
        PITHI_RUN(pithi_code_choose, listed);
        measured = s->strip.touched;
        if (measured) strips = pithi_runs_code(a, s, t, team, false);
    }
    PITHI_RUN(pithi_code_end, strips, measured);
}

/* ---- Places, index and header ----------------------------------------------------------------*/

enum {
    PITHI_CHOSEN_AT_COUNT = 0,
    PITHI_CHOSEN_AT_HASH = 8,
    PITHI_CHOSEN_AT_THRESHOLD = 16,
    PITHI_CHOSEN_AT_FLAGS = 20
};
enum { PITHI_CHOSEN_HELD = 1, PITHI_CHOSEN_BOUNDED = 2, PITHI_CHOSEN_SAME_BLOCKS = 4 };

/* What a frame says of its threshold: rows have none in common. */
PITHI_DEVICE uint32_t pithi_chosen_threshold(const struct pithi_device_plan_slot *slot,
                                             const struct pithi_gpu_search *f) {
    return pithi_choose_by_row(slot) ? 0 : pithi_choose_reached(f, pithi_choose_overflows(f));
}

/* The map of the set by whose hash the frame goes; NULL where it has all indices. */
PITHI_DEVICE const uint8_t *pithi_map_hashed(const struct pithi_gpu_call *a,
                                             const struct pithi_gpu_item *it) {
    if (a->sparse.bare) return pithi_chosen_map(a, it);
    return pithi_mark(a, it->index)->set.same ? pithi_chosen_before(a, it) : NULL;
}

/* Returns the flags of a frame's section. */
PITHI_DEVICE uint32_t pithi_chosen_flags(const struct pithi_gpu_call *a,
                                         const struct pithi_gpu_item *it) {
    const struct pithi_gpu_search *const f = pithi_search_of(a, it->index);
    const bool whole = f->first == 0 && f->end == it->slot->count;
    if (a->sparse.sends) return a->sparse.bare ? PITHI_CHOSEN_HELD : 0;
    return (whole && !pithi_choose_by_row(it->slot) ? PITHI_CHOSEN_BOUNDED : 0) |
           (pithi_mark(a, it->index)->set.same ? PITHI_CHOSEN_SAME_BLOCKS : 0);
}

/* What the plan's header does not know; and the answer. The older copy of the residual is written
 * over even where the frame has no space. */
PITHI_PHASE(pithi_chosen_header, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    const struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    (void)number;
    if (t->tid) return;
    if (it->status == PITH_OK) {
        const struct pithi_gpu_search *const f = pithi_search_of(a, it->index);
        const uint8_t *const map = pithi_map_hashed(a, it);
        const uint64_t fixed = it->slot->fixed_bytes;
        uint8_t *const section = pithi_bound_section(it);
        pithi_put64(it->frame + PITHI_AT_PAYLOAD, m->bytes - it->form->header_bytes);
        pithi_put64(section + PITHI_CHOSEN_AT_COUNT, m->set.counted);
        pithi_put32(section + PITHI_CHOSEN_AT_THRESHOLD,
                    a->sparse.sends ? 0 : pithi_chosen_threshold(it->slot, f));
        pithi_put32(section + PITHI_CHOSEN_AT_FLAGS, pithi_chosen_flags(a, it));
        if (m->set.same) it->frame[PITHI_AT_REVISION] = PITHI_CHOSEN_REVISION;
        if (map)
            pithi_put64(section + PITHI_CHOSEN_AT_HASH, pithi_map_hash(s, map, it->slot->count));
        pithi_put64(it->frame + fixed - 8,
                    pithi_header_hash(it->frame, fixed, it->form->header_bytes));
    }
    pithi_item_answer(&a->to.items, it, it->status == PITH_OK ? m->bytes : 1);
    if (it->status != PITH_ERR_SPACE) return;
    it->slot_state->undone = 1;
    if (!a->sparse.sends) pithi_chosen_of(a, it)->holds = 0;
}

PITHI_BODY(pithi_sparse_place) {
    pithi_place_blocks(a, s, t, team, number);
    if (s->to.status == PITH_OK && pithi_map_hashed(a, &s->to))
        pithi_map_lanes(a, s, t, team, pithi_map_hashed(a, &s->to), s->to.slot->count);
    PITHI_RUN(pithi_chosen_header, number);
}

/* ---- Indices ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_set_write_open, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_set *const c = &s->strip.set;
    pithi_thread_clear(t);
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_set_find(a, s, number);
    s->strip.touched = s->to.status == PITH_OK;
    if (!b->live) return;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    b->bytes = s->to.payload + entry->at;
    b->length = entry->length;
    c->form = entry->set.form;
    c->low_bits = entry->set.low_bits;
    if (c->form == PITHI_INDEX_ALL) {
        c->count = c->n;
        c->list = NULL;
    }
    c->index = b->bytes + PITHI_SET_HEAD;
    c->values = b->bytes + b->length - pithi_values_bytes(&a->to.plan, c->count);
    b->bytes[0] = (uint8_t)(c->form | c->low_bits << PITHI_SET_LOW_BITS);
    for (uint32_t k = 1; c->count && k < PITHI_SET_HEAD; k++)
        b->bytes[k] = (uint8_t)((c->count - 1) >> 8 * (k - 1));
}

PITHI_PHASE(pithi_map_write, uint64_t bytes) {
    const uint8_t *const map = pithi_chosen_map(a, &s->to) + s->strip.set.first / 8;
    for (uint64_t i = t->tid; i < bytes; i += PITHI_TEAM) s->strip.set.index[i] = map[i];
}

/* A block that is sent whole is chosen whole: the slot holds all of it. */
PITHI_PHASE(pithi_map_fill, uint32_t n) {
    uint8_t *const map = pithi_chosen_map(a, &s->to) + s->strip.set.first / 8;
    for (uint32_t i = t->tid; i < (n + 7) / 8; i += PITHI_TEAM)
        map[i] = (uint8_t)(n - 8 * i < 8 ? (1u << (n - 8 * i)) - 1 : 0xFF);
}

/* Low bits of the list, one behind the other. */
PITHI_PHASE(pithi_low_write, uint32_t tid) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t low = c->low_bits, mask = ((uint64_t)1 << low) - 1;
    (void)a;
    for (uint64_t at = tid + t->tid; at < pithi_low_bytes(c); at += PITHI_TEAM) {
        uint64_t byte = 0;
        for (uint64_t i = 8 * at / low; i < c->count && i * low < 8 * at + 8; i++) {
            const uint64_t number = c->list[i] & mask;
            byte |= i * low < 8 * at ? number >> (8 * at - i * low) : number << (i * low - 8 * at);
        }
        c->index[at] = (uint8_t)byte;
    }
}

/* High bits in unary: the first number that has a bit in a byte is searched for. */
PITHI_PHASE(pithi_high_write, uint32_t tid) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t bytes = (pithi_high_bits(c) + 7) / 8;
    (void)a;
    for (uint64_t at = tid + t->tid; at < bytes; at += PITHI_TEAM) {
        uint32_t lo = 0, hi = c->count, byte = 0;
        while (lo < hi) {
            const uint32_t middle = lo + (hi - lo) / 2;
            if ((uint64_t)(c->list[middle] >> c->low_bits) + middle < 8 * at)
                lo = middle + 1;
            else
                hi = middle;
        }
        for (; lo < c->count; lo++) {
            const uint64_t bit = (uint64_t)(c->list[lo] >> c->low_bits) + lo - 8 * at;
            if (bit > 7) break;
            byte |= 1u << bit;
        }
        c->index[pithi_low_bytes(c) + at] = (uint8_t)byte;
    }
}

/* Word i of a whole group: its lanes have the low `width` bits of numbers. */
PITHI_DEVICE uint32_t pithi_packed_word(const struct pithi_gpu_set *c, uint32_t g, uint32_t width,
                                        uint32_t i) {
    const uint32_t lane = i % 4, from = i / 4 * 32;
    uint32_t word = 0;
    for (uint32_t row = from / width; row < PITHI_WARP && row * width < from + 32; row++) {
        const uint32_t x =
            pithi_list_difference(c, g * PITHI_PACKED_GROUP + 4 * row + lane) & ((1u << width) - 1);
        word |= row * width < from ? x >> (from - row * width) : x << (row * width - from);
    }
    return word;
}
/* Byte i of the short last group: numbers one behind the other. */
PITHI_DEVICE uint32_t pithi_packed_byte(const struct pithi_gpu_set *c, uint32_t g, uint32_t width,
                                        uint32_t i) {
    const uint32_t first = g * PITHI_PACKED_GROUP;
    uint32_t byte = 0;
    for (uint32_t k = 8 * i / width; first + k < c->count && k * width < 8 * i + 8; k++) {
        const uint32_t x = pithi_list_difference(c, first + k);
        byte |= k * width < 8 * i ? x >> (8 * i - k * width) : x << (k * width - 8 * i);
    }
    return byte;
}

/* Bytes of groups [first, first + PITHI_SET_GROUPS), a warp's each; low: that byte. */
PITHI_PHASE(pithi_packed_head, uint32_t first) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t g = first + t->tid / PITHI_WARP;
    (void)a;
    if (t->tid % PITHI_WARP == 0 && g < pithi_set_groups(c)) c->index[g] = (uint8_t)t->predict.low;
}
/* Exceptions of a thread's part of a group that is at `at`; total: how many the warp has up to
 * these. */
PITHI_DEVICE void pithi_packed_except(const struct pithi_gpu_set *c,
                                      const struct pithi_gpu_thread *t, uint64_t at,
                                      uint32_t byte) {
    uint32_t high[PITHI_SET_EACH], own = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        high[k] = t->base[0][k] >> pithi_packed_width(byte);
        own += high[k] != 0;
    }
    uint8_t *to = c->index + at + pithi_packed_string(PITHI_PACKED_GROUP, byte) +
                  2 * (t->predict.total - own);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        if (!high[k]) continue;
        to[0] = (uint8_t)(t->tid % PITHI_WARP * PITHI_SET_EACH + k);
        to[1] = (uint8_t)high[k];
        to += 2;
    }
}
/* carry: bytes of the groups before. */
PITHI_PHASE(pithi_packed_write, uint32_t first, uint32_t parity) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t groups = pithi_set_groups(c), g = first + t->tid / PITHI_WARP;
    uint64_t at = groups + s->strip.carry[parity], end = s->strip.carry[parity];
    (void)a;
    for (uint32_t k = first; k < groups && k < first + PITHI_SET_GROUPS; k++) {
        const uint32_t bytes = pithi_packed_group_bytes(c, k, c->index[k]);
        if (k < g) at += bytes;
        end += bytes;
    }
    if (t->tid == 0) s->strip.carry[!parity] = end;
    if (g >= groups || !c->index[g]) return;
    const uint32_t width = pithi_packed_width(c->index[g]);
    const uint32_t bytes = (uint32_t)pithi_packed_string(pithi_packed_count(c, g), width);
    const bool whole = pithi_packed_count(c, g) == PITHI_PACKED_GROUP;
    if (pithi_packed_exceptions(c->index[g])) pithi_packed_except(c, t, at, c->index[g]);
    for (uint32_t i = t->tid % PITHI_WARP; whole && i < bytes / 4; i += PITHI_WARP)
        pithi_own_put(c->index + at + 4 * i, 4, pithi_packed_word(c, g, width, i));
    for (uint32_t i = t->tid % PITHI_WARP; !whole && i < bytes; i += PITHI_WARP)
        c->index[at + i] = (uint8_t)pithi_packed_byte(c, g, width, i);
}

PITHI_DEVICE void pithi_set_write(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                  struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    if (c->form == PITHI_INDEX_ALL) {
        PITHI_RUN(pithi_map_fill, c->n);
    } else if (c->form == PITHI_INDEX_BITMAP) {
        PITHI_RUN(pithi_map_write, (c->n + 7) / 8);
    } else if (c->form == PITHI_INDEX_ELIAS_FANO) {
        PITHI_RUN(pithi_low_write, 0);
        PITHI_RUN(pithi_high_write, 0);
    } else if (c->form == PITHI_INDEX_RUNS) {
        pithi_runs_code(a, s, t, team, true);
    } else if (c->form == PITHI_INDEX_PACKED || c->form == PITHI_INDEX_PATCHED) {
        uint32_t parity = 0;
        for (uint32_t g = 0; g < pithi_set_groups(c); g += PITHI_SET_GROUPS, parity = !parity) {
            pithi_packed_measure(a, s, t, team, g);
            PITHI_WARP_SUM(predict.total);
            PITHI_RUN(pithi_packed_head, g);
            PITHI_RUN(pithi_packed_write, g, parity);
        }
    }
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* Element of the slot that is number i of the set. */
PITHI_DEVICE uint64_t pithi_set_element(const struct pithi_gpu_set *c, uint64_t i) {
    return c->first + (c->list ? c->list[i] : i);
}

/* Takes what was sent of x out of the residual. */
PITHI_DEVICE void pithi_set_sent(const struct pithi_gpu_call *a, const struct pithi_gpu_item *it,
                                 uint64_t e, uint32_t x, uint32_t sent) {
    if (!a->to.plan.device.feedback || !a->to.plan.device.sets.clears) return;
    const uint32_t before = pithi_bits(pithi_residual(a, it, 0)[e]);
    pithi_residual(a, it, 1)[e] =
        pithi_float(pithi_residual_after(&a->to.plan, before, pithi_float(x) - pithi_float(sent)));
    if (a->to.plan.device.sets.momentum != 0) pithi_momentum(a, it, 1)[e] = 0;
}

PITHI_PHASE(pithi_values_write, uint32_t dtype) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t width = pithi_dtype_bytes(dtype), one = 0x3F800000u;
    for (uint64_t i = t->tid; i < c->count; i += PITHI_TEAM) {
        const uint64_t e = pithi_set_element(c, i);
        const uint32_t x = pithi_choose_value(a, &s->to, e);
        const uint32_t bits = width ? pithi_unit_round(dtype, x) : 0;
        if (width) pithi_own_put(c->values + i * width, width, bits);
        pithi_set_sent(a, &s->to, e, x, width ? pithi_unit_widen(dtype, bits) : one);
    }
}

/* Number of the first value of a thread in group first + its warp, of PITHI_SET_EACH. */
PITHI_DEVICE uint64_t pithi_group_first(const struct pithi_gpu_thread *t, uint64_t first) {
    return (first + t->tid / PITHI_WARP) * PITHI_PACKED_GROUP +
           t->tid % PITHI_WARP * PITHI_SET_EACH;
}
PITHI_LOCAL(pithi_group_look, uint64_t first) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    t->predict.low = 0;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        const uint64_t i = pithi_group_first(t, first) + k;
        t->base[0][k] = i < c->count ? pithi_choose_value(a, &s->to, pithi_set_element(c, i)) : 0;
        const uint32_t magnitude = pithi_magnitude(t->base[0][k]);
        if (magnitude > t->predict.low) t->predict.low = magnitude;
    }
}
PITHI_PHASE(pithi_group_write, uint64_t first, uint64_t groups) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const struct pithi_group_setting *const set = &a->to.plan.device.groups.set;
    const uint64_t g = first + t->tid / PITHI_WARP;
    float scale, reciprocal;
    uint64_t ignored = 0;
    if (g >= groups) return;
    const bool coded = pithi_group_scale(set, t->predict.low, &scale, &reciprocal);
    const bool poisoned = pithi_nonfinite(pithi_bits(scale));
    if (t->tid % PITHI_WARP == 0) {
        t->made.poisoned += poisoned;
        pithi_store(c->values, PITH_F32, (size_t)g, pithi_bits(scale));
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        const uint64_t i = pithi_group_first(t, first) + k;
        if (i >= c->count) continue;
        const float x = pithi_float(t->base[0][k]);
        const int code = coded ? pithi_group_quantize(set, x, reciprocal, 0) : 0;
        c->values[4 * groups + i] = (uint8_t)code;
        const uint32_t sent =
            poisoned ? PITHI_F32_NAN : pithi_group_decoded(code, scale, 0, false, &ignored);
        pithi_set_sent(a, &s->to, pithi_set_element(c, i), t->base[0][k], sent);
    }
}

PITHI_DEVICE void pithi_set_values(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    const uint32_t dtype = a->to.plan.device.sets.values;
    const uint64_t groups = pithi_set_groups(&s->strip.set);
    if (dtype != PITH_I8) {
        PITHI_RUN(pithi_values_write, dtype);
        return;
    }
    for (uint64_t first = 0; first < groups; first += PITHI_SET_GROUPS) {
        PITHI_STEP(pithi_group_look, first);
        PITHI_WARP_MAX(predict.low, PITHI_WARP);
        PITHI_RUN(pithi_group_write, first, groups);
    }
}

/* ---- The end ---------------------------------------------------------------------------------*/

/* Counts the frames of an item that is a sum, in their stream. */
PITHI_DEVICE void pithi_summed_count(const struct pithi_gpu_call *a, uint64_t item) {
    const struct pithi_gpu_mark *const m =
        (const struct pithi_gpu_mark *)(const void *)(a->sparse.marks +
                                                      item * a->sparse.summands * PITHI_MARK_BYTES);
    struct pithi_gpu_results r;
    pithi_results_clear(&r);
    r.saturated = m->set.saturated;
    r.poisoned = m->set.poisoned;
    pithi_results_count(a->from.stream, &r, a->sparse.summands);
}

/* By the last team of a frame: the slot's next step begins. */
PITHI_PHASE(pithi_set_close, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    struct pithi_gpu_slot_state *const slot = it->slot_state;
    (void)number;
    if (t->tid || !pithi_results_hand(a, &s->made, slot)) return;
    const struct pithi_gpu_search *const f = pithi_search_of(a, it->index);
    struct pithi_gpu_chosen *const chosen = pithi_chosen_of(a, it);
    pithi_results_finish(a->to.stream, slot, 1, false);
    if (a->sparse.summands) pithi_summed_count(a, it->index);
    slot->step++;
    if (a->to.plan.device.feedback) slot->side ^= 1;
    slot->undone = 0;
    chosen->before = chosen->control;
    chosen->reported_before = chosen->reported;
    chosen->sent = pithi_mark(a, it->index)->set.counted;
    chosen->overflowed = chosen->threshold = 0;
    if (a->sparse.sends) return;
    const bool over = pithi_choose_overflows(f), anew = over && f->anew;
    chosen->threshold = pithi_chosen_threshold(it->slot, f);
    chosen->control = f->control;
    chosen->reported = 0;
    if (f->exact || anew) chosen->control.threshold = pithi_control_kept(chosen->threshold);
    chosen->control.selected = anew ? f->kth[1].k : pithi_choose_found(&a->to.plan, f);
    if (over) chosen->overflowed = f->found[0] - f->kth[1].k;
    chosen->holds = 1;
}

PITHI_BODY(pithi_sparse_write) {
    PITHI_RUN(pithi_set_write_open, number);
    if (!s->strip.touched) return;
    if (s->strip.block.live) {
        if (s->strip.set.count) {
            pithi_set_write(a, s, t, team);
            pithi_set_values(a, s, t, team);
        }
        pithi_write_check(a, s, t, team, number);
    }
    PITHI_GATHER_HASHED(false, false, number);
    PITHI_RUN(pithi_set_close, number);
}

#endif
