/* decode.h - frames of topk to values: checked to the last byte, then written, added or summed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One launch looks at headers and indices, a team a frame; the next at blocks, a team each; the
 * last writes. The two walk over the set of a block by the same source. */
#ifndef PITHI_GPU_DEVICE_SPARSE_DECODE_H
#define PITHI_GPU_DEVICE_SPARSE_DECODE_H

#include "device/sparse/encode.h"

/* ---- Frames ----------------------------------------------------------------------------------*/

/* Parameters of topk in a header on which decoding does not depend (FORMAT.md, 6.9). */
enum {
    PITHI_TOPK_CONTROL = PITHI_AT_PARAMS + 1,
    PITHI_TOPK_INDEX = PITHI_AT_PARAMS + 2,
    PITHI_TOPK_SHARES = PITHI_AT_PARAMS + 3,
    PITHI_TOPK_DENSITY = PITHI_AT_PARAMS + 4,
    PITHI_TOPK_K = PITHI_AT_PARAMS + 8,
    PITHI_TOPK_CAP = PITHI_AT_PARAMS + 12
};

/* Whether a decimal (common/decimal.h) is a share: above 0 and at most 1. */
PITHI_DEVICE bool pithi_share_legal(uint32_t word) {
    const uint32_t m = word >> 10;
    const int e = (int)(word & 1023) - 512;
    uint32_t one = 1;
    if (!m || m >= 1000000 || m % 10 == 0 || e < -300 || e > 0) return false;
    for (int i = e; i < 0 && one < 1000000; i++) one *= 10;
    return m <= one;
}

PITHI_DEVICE bool pithi_topk_legal(const uint8_t *head) {
    const uint32_t density = pithi_get32(head + PITHI_TOPK_DENSITY);
    const uint32_t k = pithi_get32(head + PITHI_TOPK_K);
    if (head[PITHI_TOPK_CONTROL] >= PITHI_CONTROL_KINDS || head[PITHI_TOPK_INDEX] > 1) return false;
    if (head[PITHI_AT_REVISION] == 2 && !head[PITHI_TOPK_INDEX]) return false;
    if (!head[PITHI_TOPK_CAP] || head[PITHI_TOPK_SHARES] > 1) return false;
    return head[PITHI_TOPK_SHARES] ? !k && pithi_share_legal(density) : k && !density;
}

/* Header, section CHOSEN, and what lies around the index. */
PITHI_DEVICE int32_t pithi_topk_header(const struct pithi_device_plan *p,
                                       const struct pithi_gpu_shared *s, uint64_t length,
                                       struct pithi_gpu_item *it) {
    const int32_t judged = pithi_head_judge(p, s, length, it);
    if (judged != PITH_OK) return judged;
    const uint8_t *const section = pithi_bound_section(it);
    const uint32_t flags = pithi_get32(section + PITHI_CHOSEN_AT_FLAGS);
    const bool held = flags & PITHI_CHOSEN_HELD, same = flags & PITHI_CHOSEN_SAME_BLOCKS;
    const bool newer = it->frame[PITHI_AT_REVISION] == PITHI_CHOSEN_REVISION;
    const uint32_t most = PITHI_CHOSEN_BOUNDED | PITHI_CHOSEN_SAME_BLOCKS;
    if (!pithi_topk_legal(it->frame) || flags > (held ? (uint32_t)PITHI_CHOSEN_HELD : most) ||
        newer != same || pithi_get64(section + PITHI_CHOSEN_AT_COUNT) > it->slot->count ||
        (held && pithi_get32(section + PITHI_CHOSEN_AT_THRESHOLD)) ||
        (!held && !same && pithi_get64(section + PITHI_CHOSEN_AT_HASH)))
        return PITH_ERR_CORRUPT;
    return pithi_payload_check(p, length, it, it->slot->sets.read_most);
}
/* Returns PITHI_CHOSEN_HELD where a frame, whose header was checked, has the values of a set that
 * is held, PITHI_CHOSEN_SAME_BLOCKS where some of its blocks have, else 0. */
PITHI_DEVICE uint32_t pithi_frame_follows(const struct pithi_gpu_item *it) {
    return pithi_get32(pithi_bound_section(it) + PITHI_CHOSEN_AT_FLAGS) &
           (PITHI_CHOSEN_HELD | PITHI_CHOSEN_SAME_BLOCKS);
}

/* Locates an item as pithi_item_locate does, where teams are those of a frame and not of an
 * item. */
PITHI_DEVICE void pithi_frame_locate(const struct pithi_gpu_call *a, uint64_t number,
                                     struct pithi_gpu_item *it) {
    const uint64_t frame = number / a->chunks, chunk = number % a->chunks;
    pithi_item_locate(a, &a->from, frame / a->per_item * a->chunks + chunk, it);
    it->index = frame;
    it->frame = pithi_item_frame(&a->from.items, frame);
    it->payload = it->frame ? it->frame + it->form->header_bytes : NULL;
}

/* The slot of a located frame. */
PITHI_DEVICE uint64_t pithi_frame_slot(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_item *it) {
    return pithi_item_slot(&a->from.items, it->index / a->per_item);
}
PITHI_DEVICE uint8_t *pithi_frame_map(const struct pithi_gpu_call *a,
                                      const struct pithi_gpu_item *it) {
    return pithi_slot_map(&a->from, it, pithi_frame_slot(a, it));
}

PITHI_PHASE(pithi_topk_find, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    if (t->tid) return;
    pithi_frame_locate(a, number, it);
    if (it->status == PITH_OK && !it->frame) it->status = PITH_ERR_ARG;
    pithi_head_open(s);
}

PITHI_PHASE(pithi_topk_frame, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    (void)number;
    if (t->tid) return;
    if (it->status == PITH_OK)
        it->status =
            pithi_topk_header(&a->from.plan, s, pithi_item_length(&a->from.items, it->index), it);
    s->strip.block.workspace = pithi_frame_workspace(a, &a->from, it->index);
    s->strip.carry[0] = it->form->data;
    s->strip.fault = 0;
}

/* The index, as many entries as there are threads at a time. */
PITHI_PHASE(pithi_topk_index, uint64_t first) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t i = first + t->tid;
    t->predict.total = 0;
    (void)a;
    if (i >= it->slot->blocks) return;
    const uint32_t entry = pithi_get32(it->payload + 4 * i);
    t->predict.total = entry & ~PITHI_INDEX_PLAIN;
    if (t->predict.total >
        (i + 1 < it->slot->blocks ? it->slot->sets.block_most : it->slot->sets.last_most))
        pithi_atomic_max32(&s->strip.fault, 1);
    pithi_entry(s->strip.block.workspace, i)->length = entry;
}

/* touched: the frame has blocks without indices, and the slot holds a set. Calls that read frames
 * for their sets take those that lack indices of some blocks where an item has no other frame: with
 * the first of several the slot no longer holds what the others leave out. */
PITHI_PHASE(pithi_held_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    (void)number;
    if (t->tid) return;
    const uint32_t follows = it->status == PITH_OK ? pithi_frame_follows(it) : 0;
    const bool named =
        !a->sparse.names || (follows == PITHI_CHOSEN_SAME_BLOCKS && a->per_item == 1);
    s->strip.touched = false;
    if (!follows) return;
    struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    const struct pithi_gpu_chosen *const chosen =
        pithi_stream_chosen(&a->from.plan, a->from.stream) + pithi_frame_slot(a, it);
    if (!named) m->status = PITH_ERR_UNSUPPORTED;
    if (!chosen->holds) m->stream = PITH_ERR_STATE;
    s->strip.touched = named && chosen->holds;
}
PITHI_PHASE(pithi_held_compare, const uint8_t *map) {
    const struct pithi_gpu_item *const it = &s->from;
    if (t->tid) return;
    if (pithi_map_hash(s, map, it->slot->count) !=
        pithi_get64(pithi_bound_section(it) + PITHI_CHOSEN_AT_HASH))
        pithi_mark(a, it->index)->stream = PITH_ERR_BASE;
}

PITHI_BODY(pithi_sparse_check) {
    PITHI_RUN(pithi_topk_find, number);
    PITHI_RUN(pithi_head_fetch, 0);
    PITHI_RUN(pithi_topk_frame, number);
    PITHI_INDEX_WALK(pithi_topk_index);
    PITHI_RUN(pithi_held_open, number);
    if (!s->strip.touched) return;
    const uint8_t *const map = pithi_frame_map(a, &s->from);
    pithi_map_lanes(a, s, t, team, map, s->from.slot->count);
    PITHI_RUN(pithi_held_compare, map);
}

/* ---- A block's parts -------------------------------------------------------------------------*/

/* Bytes of the indices of a form whose length follows from the counts. */
PITHI_DEVICE bool pithi_index_fits(const struct pithi_gpu_set *c) {
    switch (c->form) {
    case PITHI_INDEX_ALL: return c->count == c->n && !c->index_bytes;
    case PITHI_INDEX_BITMAP: return c->index_bytes == (c->n + 7) / 8;
    case PITHI_INDEX_ELIAS_FANO:
        return c->low_bits < PITHI_INDEX_BITS_MAX && c->count <= c->n / 4 + 1 &&
               c->index_bytes == pithi_low_bytes(c) + (pithi_high_bits(c) + 7) / 8;
    case PITHI_INDEX_PACKED:
    case PITHI_INDEX_PATCHED:
        return c->count <= c->n / 4 + 1 && c->index_bytes >= pithi_set_groups(c);
    case PITHI_INDEX_RUNS: return true;
    case PITHI_INDEX_HELD: return !c->index_bytes;
    default: return false;
    }
}

/* Finds the parts of a block of a frame; false where it is damaged. */
PITHI_DEVICE bool pithi_set_parse(const struct pithi_device_plan *p,
                                  const struct pithi_gpu_block *b, const uint8_t *head,
                                  struct pithi_gpu_set *c) {
    const bool patched = head[PITHI_AT_REVISION] >= 2 && head[PITHI_TOPK_INDEX];
    if (b->plain || !b->length) return false;
    c->form = b->bytes[0] & PITHI_SET_FORM;
    c->low_bits = b->bytes[0] >> PITHI_SET_LOW_BITS;
    if (c->form == PITHI_INDEX_EMPTY) return !b->bytes[0] && b->length == PITHI_SET_EMPTY;
    if (b->length < PITHI_SET_HEAD || (c->low_bits && c->form != PITHI_INDEX_ELIAS_FANO))
        return false;
    if (c->form == PITHI_INDEX_PATCHED && !patched) return false;
    const uint32_t count =
        (b->bytes[1] | (uint32_t)b->bytes[2] << 8 | (uint32_t)b->bytes[3] << 16) + 1;
    const uint64_t values = pithi_values_bytes(p, count);
    if (count > c->n || values > b->length - PITHI_SET_HEAD) return false;
    c->count = count;
    c->index = b->bytes + PITHI_SET_HEAD;
    c->index_bytes = b->length - PITHI_SET_HEAD - values;
    c->values = c->index + c->index_bytes;
    return pithi_index_fits(c);
}

/* Gives a block of the values of a held set, which lies in a map, its indices: it is read as if
 * they had come with them. Returns whether the block's form is one that its frame may have, which
 * says what it `follows`: all blocks of the frames of a held set have its indices. */
PITHI_DEVICE bool pithi_set_join(uint8_t *map, uint32_t follows, struct pithi_gpu_set *c) {
    const bool known = c->form == PITHI_INDEX_HELD || c->form == PITHI_INDEX_EMPTY;
    if (!follows || (follows == PITHI_CHOSEN_SAME_BLOCKS && c->form != PITHI_INDEX_HELD))
        return c->form != PITHI_INDEX_HELD;
    c->form = PITHI_INDEX_BITMAP;
    c->index = map + c->first / 8;
    return known;
}

/* By the team's first thread: block `number` of the frame in s->from. `live` is written once: where
 * frames of one item follow each other without a value, others may still look at what it was of the
 * frame before, which is the same. */
PITHI_DEVICE void pithi_topk_block(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_set *const c = &s->strip.set;
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t end = it->slot->count;
    b->number = number;
    b->workspace = pithi_frame_workspace(a, &a->from, it->index);
    const bool exists = it->status == PITH_OK && number < it->slot->blocks;
    s->strip.fault = PITHI_SOUND;
    s->strip.carry[0] = s->strip.run[0] = 0;
    if (!exists) b->live = false;
    if (!exists) return;
    b->lo = a->first < end ? a->first : end;
    b->hi = a->count < end - b->lo ? b->lo + a->count : end;
    /* All coefficients of the runs that are wanted. */
    const uint32_t run = a->from.plan.device.sets.run;
    b->lo -= b->lo % run;
    if (b->hi % run) b->hi = end - b->hi < run - b->hi % run ? end : b->hi + run - b->hi % run;
    pithi_set_open(&a->from.plan, it, number, c);
    b->live = c->first < b->hi && c->first + c->n > b->lo;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, number);
    b->bytes = it->payload + entry->at;
    b->length = entry->length & ~PITHI_INDEX_PLAIN;
    b->plain = entry->length & PITHI_INDEX_PLAIN;
    b->legible = pithi_set_parse(&a->from.plan, b, it->frame, c);
    b->legible = b->legible && pithi_set_join(pithi_frame_map(a, it), pithi_frame_follows(it), c);
    c->out = it->tensor; /* none where sets are held */
    if (c->out && a->from.items.tensors)
        c->out -= a->first * pithi_dtype_bytes(a->from.items.dtype);
    c->dtype = a->from.items.dtype;
    c->add = a->add && run == 1; /* coefficients are not what is added to */
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* f32 bits of value i. */
PITHI_DEVICE uint32_t pithi_set_value(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_set *c, uint64_t i,
                                      uint64_t *saturated) {
    const uint32_t dtype = p->device.sets.values, width = pithi_dtype_bytes(dtype);
    if (dtype == PITH_NONE) return 0x3F800000u;
    if (dtype != PITH_I8)
        return pithi_unit_widen(dtype, pithi_own_get(c->values + i * width, width));
    const uint32_t scale = pithi_own_get(c->values + i / PITHI_PACKED_GROUP * 4, 4);
    const int code = (int8_t)c->values[4 * (uint64_t)pithi_set_groups(c) + i];
    if (pithi_nonfinite(scale)) return PITHI_F32_NAN;
    return pithi_group_decoded(code, pithi_float(scale), 0, false, saturated);
}

/* What a walk over a set does with its elements: checks them alone, writes their values, or marks
 * them in a map. */
enum pithi_visit { PITHI_VISIT_LOOK, PITHI_VISIT_PUT, PITHI_VISIT_MARK };

/* Element number `at` of the block, which is below n, := value i, or plus it; or its bit is set. */
PITHI_DEVICE void pithi_set_put(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s,
                                struct pithi_gpu_thread *t, uint64_t i, uint64_t at,
                                enum pithi_visit visit) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t e = c->first + at;
    if (visit == PITHI_VISIT_MARK) {
        pithi_atomic_or32(&c->marks[at / 32], 1u << at % 32);
        return;
    }
    if (e < s->strip.block.lo || e >= s->strip.block.hi) return;
    uint32_t x = pithi_set_value(&a->from.plan, c, i, &t->read.saturated);
    uint8_t *const to = c->out + e * pithi_dtype_bytes(c->dtype);
    const uint32_t width = pithi_dtype_bytes(c->dtype);
    if (c->add)
        x = pithi_bits(pithi_float(pithi_unit_widen(c->dtype, pithi_own_get(to, width))) +
                       pithi_float(x));
    pithi_own_put(to, width, pithi_unit_round(c->dtype, x));
}

/* ---- Walks over a set ------------------------------------------------------------------------*/

PITHI_DEVICE void pithi_set_fault(struct pithi_gpu_shared *s) {
    pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
}

PITHI_PHASE(pithi_all_walk, enum pithi_visit visit) {
    for (uint64_t i = t->tid; visit && i < s->strip.set.count; i += PITHI_TEAM)
        pithi_set_put(a, s, t, i, i, visit);
}

/* Four bytes of `bytes` at p; 0 behind their end. */
PITHI_DEVICE uint32_t pithi_four_bytes(const uint8_t *p, uint64_t at, uint64_t bytes) {
    uint32_t word = 0;
    for (uint32_t k = 0; k < 4 && at + k < bytes; k++) word |= (uint32_t)p[at + k] << 8 * k;
    return word;
}
/* Number i of a string of numbers of so many bits. */
PITHI_DEVICE uint32_t pithi_string_get(const uint8_t *p, uint64_t i, uint32_t bits) {
    const uint64_t at = i * bits / 8, end = ((i + 1) * bits + 7) / 8;
    return pithi_four_bytes(p, at, end) >> i * bits % 8 & ((1u << bits) - 1);
}

/* Bits of BITMAP, or the high bits of ELIAS_FANO, four bytes a thread. */
PITHI_DEVICE const uint8_t *pithi_ones_at(const struct pithi_gpu_set *c) {
    return c->index + (c->form == PITHI_INDEX_BITMAP ? 0 : pithi_low_bytes(c));
}
PITHI_DEVICE uint64_t pithi_ones_bits(const struct pithi_gpu_set *c) {
    return c->form == PITHI_INDEX_BITMAP ? c->n : pithi_high_bits(c);
}
PITHI_LOCAL(pithi_ones_look, uint32_t strip) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t at = 4 * ((uint64_t)strip * PITHI_TEAM + t->tid);
    (void)a;
    t->predict.low = pithi_four_bytes(pithi_ones_at(c), at, (pithi_ones_bits(c) + 7) / 8);
    t->predict.total = pithi_ones32(t->predict.low);
}

/* Number i of ELIAS_FANO, whose one is `bit`; n where it is not above the one before it or not
 * below n. */
PITHI_DEVICE uint64_t pithi_elias_number(const struct pithi_gpu_set *c, uint64_t bit, uint64_t i) {
    const uint8_t *const ones = pithi_ones_at(c);
    const uint32_t low = pithi_string_get(c->index, i, c->low_bits);
    const uint64_t number = (bit - i) << c->low_bits | low;
    /* Numbers whose ones are neighbours have the same high bits. */
    const bool same = bit && ones[(bit - 1) / 8] >> (bit - 1) % 8 & 1;
    if (same && pithi_string_get(c->index, i - 1, c->low_bits) >= low) return c->n;
    return number < c->n ? number : c->n;
}

PITHI_PHASE(pithi_ones_walk, uint32_t strip, enum pithi_visit visit) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t first = 32 * ((uint64_t)strip * PITHI_TEAM + t->tid), end = pithi_ones_bits(c);
    uint64_t i = pithi_scan_carry(s, t->tid, strip);
    for (uint32_t bits = t->predict.low; bits; bits &= bits - 1, i++) {
        const uint64_t bit = first + pithi_ones32((bits & (0 - bits)) - 1);
        uint64_t at = c->n;
        if (bit < end && i < c->count)
            at = c->form == PITHI_INDEX_BITMAP ? bit : pithi_elias_number(c, bit, i);
        if (at >= c->n)
            pithi_set_fault(s);
        else if (visit)
            pithi_set_put(a, s, t, i, at, visit);
    }
}

/* Unused bits of the low bits are 0, and ones are as many as numbers. */
PITHI_PHASE(pithi_ones_end, uint32_t strips) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t bits = (uint64_t)c->count * c->low_bits;
    (void)a;
    if (t->tid) return;
    if (s->strip.carry[strips % 2] != c->count) pithi_set_fault(s);
    if (bits % 8 && c->index[bits / 8] >> bits % 8) pithi_set_fault(s);
}

/* Whether group g may have this byte. */
PITHI_DEVICE bool pithi_packed_legal(const struct pithi_gpu_set *c, uint32_t g, uint32_t byte) {
    if (!pithi_packed_exceptions(byte)) return byte <= PITHI_INDEX_BITS_MAX;
    return c->form == PITHI_INDEX_PATCHED && pithi_packed_count(c, g) == PITHI_PACKED_GROUP &&
           pithi_packed_width(byte) <= PITHI_PATCHED_BITS_MAX;
}
/* Bytes of PACKED and PATCHED: those of all groups, and the unused bits of the last one. */
PITHI_LOCAL(pithi_packed_sum, uint32_t first) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    (void)a;
    t->predict.total = 0;
    for (uint32_t g = first + t->tid; g < pithi_set_groups(c); g += PITHI_TEAM)
        t->predict.total += pithi_packed_legal(c, g, c->index[g])
                                ? pithi_packed_group_bytes(c, g, c->index[g])
                                : (uint64_t)1 << 32;
}
PITHI_PHASE(pithi_packed_judge, uint32_t groups) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t bits = (uint64_t)(c->count % PITHI_PACKED_GROUP) * c->index[groups - 1];
    (void)a;
    if (t->tid) return;
    if (groups + pithi_scan_all(s, 0) != c->index_bytes)
        pithi_set_fault(s);
    else if (bits % 8 && c->index[c->index_bytes - 1] >> bits % 8)
        pithi_set_fault(s);
}

/* Adds to the differences of a thread what exceptions have above their low bits; false where they
 * are none or do not ascend. */
PITHI_DEVICE bool pithi_packed_patch(const uint8_t *exception, uint32_t byte,
                                     struct pithi_gpu_thread *t) {
    const uint32_t first = t->tid % PITHI_WARP * PITHI_SET_EACH;
    uint32_t least = 0;
    bool good = true;
    for (uint32_t n = pithi_packed_exceptions(byte); n; n--, exception += 2) {
        const uint32_t place = exception[0], high = exception[1];
        good &= place >= least && place < PITHI_PACKED_GROUP && high;
        least = place + 1;
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) if (place == first + k)
            t->base[0][k] |= high << pithi_packed_width(byte);
    }
    return good;
}
/* Differences of a thread's numbers, in group first + its warp; run: bytes of the groups before;
 * low := whether exceptions are damaged. */
PITHI_LOCAL(pithi_packed_look, uint32_t first, uint32_t parity) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t groups = pithi_set_groups(c), g = first + t->tid / PITHI_WARP;
    const uint32_t row = t->tid % PITHI_WARP;
    uint64_t at = groups + s->strip.run[parity];
    (void)a;
    t->predict.total = 0;
    t->predict.low = 0;
    if (g >= groups) return;
    for (uint32_t k = first; k < g; k++) at += pithi_packed_group_bytes(c, k, c->index[k]);
    const uint32_t width = pithi_packed_width(c->index[g]);
    const uint32_t left = c->count - g * PITHI_PACKED_GROUP;
    const uint32_t shift = row * width % 32, word = row * width / 32;
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        const uint32_t i = row * PITHI_SET_EACH + k;
        if (i >= left) continue;
        const uint8_t *const lane = c->index + at + 16 * word + 4 * k;
        uint32_t x = 0;
        if (left < PITHI_PACKED_GROUP) {
            x = pithi_string_get(c->index + at, i, width);
        } else if (width) {
            x = pithi_own_get(lane, 4) >> shift;
            if (shift + width > 32) x |= pithi_own_get(lane + 16, 4) << (32 - shift);
            x &= (1u << width) - 1;
        }
        t->base[0][k] = x;
    }
    t->predict.low = !pithi_packed_patch(
        c->index + at + pithi_packed_string(PITHI_PACKED_GROUP, width), c->index[g], t);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) if (row * PITHI_SET_EACH + k < left)
        t->predict.total += (uint64_t)t->base[0][k] + 1;
}
PITHI_PHASE(pithi_packed_walk, uint32_t first, uint32_t parity, enum pithi_visit visit) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t groups = pithi_set_groups(c);
    uint64_t next = s->strip.carry[parity] + pithi_scan_before(s, 0, t->tid);
    if (t->tid == 0) {
        uint64_t bytes = s->strip.run[parity];
        for (uint32_t k = first; k < groups && k < first + PITHI_SET_GROUPS; k++)
            bytes += pithi_packed_group_bytes(c, k, c->index[k]);
        s->strip.run[!parity] = bytes;
        s->strip.carry[!parity] = s->strip.carry[parity] + pithi_scan_all(s, 0);
    }
    if (t->predict.low) pithi_set_fault(s);
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_SET_EACH; k++) {
        const uint64_t i = pithi_group_first(t, first) + k;
        if (i >= c->count) continue;
        const uint64_t at = next + t->base[0][k];
        next = at + 1;
        if (at >= c->n)
            pithi_set_fault(s);
        else if (visit)
            pithi_set_put(a, s, t, i, at, visit);
    }
}

/* A byte of RUNS: low := the number that ends there, high := whether one does. */
PITHI_PHASE(pithi_runs_read, uint32_t strip) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t at = (uint64_t)strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.low = t->predict.high = 0;
    t->predict.total = 0;
    if (at >= c->index_bytes) return;
    const uint32_t byte = c->index[at];
    if (byte >= 0x80) {
        if (at + 1 == c->index_bytes) pithi_set_fault(s);
        return;
    }
    uint32_t value = byte, bytes = 1;
    for (; bytes < 5 && at >= bytes && c->index[at - bytes] >= 0x80; bytes++)
        value = value << 7 | (c->index[at - bytes] & 0x7F);
    if (bytes > 4 || (bytes > 1 && !byte) || value > c->n) {
        pithi_set_fault(s);
        value = 0;
    }
    t->predict.low = value;
    t->predict.total = t->predict.high = 1;
}
/* Numbers are gaps and lengths by turns. total := in the low half how far they lead, in the high
 * half elements; own: the same. */
PITHI_PHASE(pithi_runs_turn, uint32_t strip) {
    const uint64_t number = pithi_scan_carry(s, t->tid, strip);
    (void)a;
    t->predict.total = 0;
    if (t->predict.high)
        t->predict.total = number % 2 ? (uint64_t)(t->predict.low + 1) << 32 | (t->predict.low + 2)
                                      : t->predict.low;
    t->predict.own = t->predict.total;
}
/* Lists a run: its first element, how many there are and how many were before. */
PITHI_PHASE(pithi_runs_walk, uint32_t strip) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t before = s->strip.run[strip % 2] + pithi_scan_before(s, 1, t->tid);
    const uint64_t first = before & 0xFFFFFFFFu, rank = before >> 32, count = t->predict.own >> 32;
    (void)a;
    if (t->tid == 0) s->strip.run[(strip + 1) % 2] = s->strip.run[strip % 2] + pithi_scan_all(s, 1);
    if (count && (first + count > c->n || rank + count > c->count)) pithi_set_fault(s);
    s->strip.word[0][t->tid] = (uint32_t)first;
    s->strip.word[1][t->tid] = (uint32_t)count;
    s->strip.word[2][t->tid] = (uint32_t)rank;
}
/* A warp fills the runs that its threads found. */
PITHI_PHASE(pithi_runs_fill, enum pithi_visit visit) {
    const uint32_t warp = t->tid / PITHI_WARP * PITHI_WARP;
    for (uint32_t k = warp; k < warp + PITHI_WARP; k++)
        for (uint32_t i = t->tid % PITHI_WARP; i < s->strip.word[1][k]; i += PITHI_WARP)
            pithi_set_put(a, s, t, s->strip.word[2][k] + i, s->strip.word[0][k] + i, visit);
}
PITHI_PHASE(pithi_runs_end, uint32_t strips) {
    (void)a;
    if (t->tid) return;
    if (s->strip.carry[strips % 2] % 2 || s->strip.run[strips % 2] >> 32 != s->strip.set.count)
        pithi_set_fault(s);
}

PITHI_DEVICE void pithi_runs_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    enum pithi_visit visit) {
    const uint32_t strips = (uint32_t)((s->strip.set.index_bytes + PITHI_TEAM - 1) / PITHI_TEAM);
    for (uint32_t strip = 0; strip < strips; strip++) {
        PITHI_RUN(pithi_runs_read, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_runs_turn, strip);
        PITHI_SCAN(1);
        PITHI_RUN(pithi_runs_walk, strip);
        if (visit) PITHI_RUN(pithi_runs_fill, visit);
    }
    PITHI_RUN(pithi_runs_end, strips);
}

PITHI_DEVICE void pithi_packed_decode(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                      struct pithi_gpu_thread *t, struct pithi_team *team,
                                      enum pithi_visit visit) {
    const uint32_t groups = pithi_set_groups(&s->strip.set);
    uint32_t parity = 0;
    PITHI_STEP(pithi_packed_sum, 0);
    PITHI_SCAN(0);
    PITHI_RUN(pithi_packed_judge, groups);
    if (s->strip.fault) return;
    for (uint32_t g = 0; g < groups; g += PITHI_SET_GROUPS, parity = !parity) {
        PITHI_STEP(pithi_packed_look, g, parity);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_packed_walk, g, parity, visit);
    }
}

/* Part of a body: visits every element of the set, and finds out whether the bytes are those of a
 * set. */
PITHI_DEVICE void pithi_set_walk(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                 struct pithi_gpu_thread *t, struct pithi_team *team,
                                 enum pithi_visit visit) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    if (c->form == PITHI_INDEX_ALL) {
        PITHI_RUN(pithi_all_walk, visit);
    } else if (c->form == PITHI_INDEX_RUNS) {
        pithi_runs_decode(a, s, t, team, visit);
    } else if (c->form == PITHI_INDEX_PACKED || c->form == PITHI_INDEX_PATCHED) {
        pithi_packed_decode(a, s, t, team, visit);
    } else if (c->form != PITHI_INDEX_EMPTY) {
        const uint32_t strips =
            (uint32_t)((pithi_ones_bits(c) + 32 * PITHI_TEAM - 1) / (32 * PITHI_TEAM));
        for (uint32_t strip = 0; strip < strips; strip++) {
            PITHI_STEP(pithi_ones_look, strip);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_ones_walk, strip, visit);
        }
        PITHI_RUN(pithi_ones_end, strips);
    }
}

/* ---- Checks ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_topk_locate, uint64_t number) {
    if (t->tid) return;
    pithi_frame_locate(a, number, &s->from);
    s->from.status = pithi_mark(a, s->from.index)->status;
    pithi_topk_block(a, s, number % a->chunks);
    if (!s->strip.block.live) return;
    if (!s->strip.block.legible) s->strip.fault = PITHI_DAMAGED;
    pithi_atomic_add64(&pithi_mark(a, s->from.index)->set.counted, s->strip.set.count);
}

PITHI_PHASE(pithi_topk_answer, uint64_t number) {
    (void)number;
    if (t->tid == 0 && s->strip.fault == PITHI_DAMAGED)
        pithi_atomic_max32(&pithi_mark(a, s->from.index)->corrupt, 1);
}

PITHI_BODY(pithi_sparse_judge) {
    PITHI_RUN(pithi_topk_locate, number);
    if (!s->strip.block.live) return;
    if (a->from.plan.checksums) {
        PITHI_STEP(pithi_block_hash, PITHI_TEAM);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_block_compare, number);
    }
    if (s->strip.block.legible) pithi_set_walk(a, s, t, team, PITHI_VISIT_LOOK);
    PITHI_RUN(pithi_topk_answer, number);
}

/* Returns the status of a frame whose blocks were judged: where all of them are sound, their values
 * are as many as the header says. */
PITHI_DEVICE int32_t pithi_topk_status(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_item *it) {
    const struct pithi_gpu_mark *const m = pithi_mark(a, it->index);
    const int32_t status = pithi_mark_status(m);
    const bool whole = a->first == 0 && a->count >= it->slot->count;
    if (status != PITH_OK || !whole) return status;
    return pithi_get64(pithi_bound_section(it) + PITHI_CHOSEN_AT_COUNT) == m->set.counted
               ? PITH_OK
               : PITH_ERR_CORRUPT;
}

/* The checks alone: a team a frame. */
PITHI_PHASE(pithi_topk_say, uint64_t number) {
    if (t->tid) return;
    pithi_frame_locate(a, number, &s->from);
    s->from.status = pithi_topk_status(a, &s->from);
    pithi_item_answer(&a->from.items, &s->from, 0);
}
PITHI_BODY(pithi_sparse_answer) { PITHI_RUN(pithi_topk_say, number); }

/* ---- Decode ----------------------------------------------------------------------------------*/

/* answers: of the launches that write values, one says what became of the frame. */
PITHI_PHASE(pithi_topk_open, uint64_t number, bool answers) {
    pithi_thread_clear(t);
    if (t->tid) return;
    pithi_shared_clear(s);
    pithi_frame_locate(a, number, &s->from);
    s->from.status = pithi_topk_status(a, &s->from);
    pithi_topk_block(a, s, number % a->chunks / (a->predict.parts ? a->predict.parts : 1));
    if (s->from.first && answers) pithi_item_answer(&a->from.items, &s->from, 0);
}

/* The elements of the block, from its first one, that the team has where several share it. */
PITHI_DEVICE struct pithi_gpu_share pithi_topk_share(const struct pithi_gpu_call *a,
                                                     const struct pithi_gpu_shared *s,
                                                     uint64_t number) {
    const uint32_t n = s->strip.set.n, part = (uint32_t)(number % a->chunks % a->predict.parts);
    const uint32_t each =
        ((n + a->predict.parts - 1) / a->predict.parts + PITHI_ROW - 1) / PITHI_ROW * PITHI_ROW;
    struct pithi_gpu_share share;
    share.from = (uint64_t)part * each < n ? part * each : n;
    share.to = n - share.from < each ? n : share.from + each;
    return share;
}

/* +0 to all elements of the team's part that are wanted. */
PITHI_PHASE(pithi_topk_zero, uint64_t number) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share share = pithi_topk_share(a, s, number);
    const uint64_t from = c->first + share.from, to = c->first + share.to;
    const uint64_t end = to < b->hi ? to : b->hi, begin = from > b->lo ? from : b->lo;
    const uint32_t none[PITHI_UNIT] = {0, 0, 0, 0, 0, 0, 0, 0}, width = pithi_dtype_bytes(c->dtype);
    for (uint64_t e = begin + (uint64_t)t->tid * PITHI_UNIT; e < end; e += PITHI_ROW)
        pithi_unit_put_raw(c->out + e * width, width, pithi_unit_left(e, end), none);
}

/* Groups of int8 that decode to NaN. */
PITHI_PHASE(pithi_topk_poisoned, uint32_t groups) {
    (void)a;
    for (uint32_t g = t->tid; g < groups; g += PITHI_TEAM)
        t->read.poisoned +=
            pithi_nonfinite(pithi_own_get(s->strip.set.values + 4 * (uint64_t)g, 4));
}

/* The stream does not count a sum that is to be encoded until it is. */
PITHI_PHASE(pithi_topk_close, uint64_t frames) {
    struct pithi_gpu_mark *const m = pithi_mark(a, s->from.index / a->per_item * a->per_item);
    if (t->tid) return;
    if (a->update) {
        pithi_results_count(a->from.stream, &s->read, frames);
        return;
    }
    if (s->read.saturated) pithi_atomic_add64(&m->set.saturated, s->read.saturated);
    if (s->read.poisoned) pithi_atomic_add64(&m->set.poisoned, s->read.poisoned);
}

/* Part of a body: the values of a block that is opened. A launch before has made all others 0. */
PITHI_DEVICE void pithi_topk_values(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    pithi_set_walk(a, s, t, team, PITHI_VISIT_PUT);
    if (a->from.plan.device.sets.values == PITH_I8 && s->strip.set.count)
        PITHI_RUN(pithi_topk_poisoned, pithi_set_groups(&s->strip.set));
}

/* A team a part of a block: what is 0 in the blocks of a frame is most of them. */
PITHI_BODY(pithi_sparse_zero) {
    PITHI_RUN(pithi_topk_open, number, false);
    if (s->strip.block.live) PITHI_RUN(pithi_topk_zero, number);
}

PITHI_BODY(pithi_sparse_decode) {
    PITHI_RUN(pithi_topk_open, number, true);
    if (s->from.status != PITH_OK) return;
    if (s->strip.block.live) pithi_topk_values(a, s, t, team);
    if (!pithi_decode_counts(a)) return;
    PITHI_GATHER_HASHED(false, false, number);
    PITHI_RUN(pithi_topk_close, s->from.first);
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* bad: the lowest frame that cannot be read, of all that are. answers: for every frame. */
PITHI_PHASE(pithi_topk_sum_open, uint64_t number, bool answers) {
    pithi_thread_clear(t);
    if (t->tid) return;
    pithi_shared_clear(s);
    const uint64_t item = number / a->chunks;
    for (uint32_t k = 0; k < a->per_item; k++) {
        pithi_frame_locate(a, (item * a->per_item + k) * a->chunks + number % a->chunks, &s->from);
        s->from.status = pithi_topk_status(a, &s->from);
        if (s->from.first && answers) pithi_item_answer(&a->from.items, &s->from, 0);
        if (s->from.status != PITH_OK && s->bad == UINT32_MAX) s->bad = k;
    }
}

/* Frame k of the item is added to the block's sums, the first one after they are 0. */
PITHI_PHASE(pithi_topk_summand, uint64_t number, uint32_t k) {
    struct pithi_gpu_set *const c = &s->strip.set;
    const uint64_t item = number / a->chunks;
    if (t->tid) return;
    pithi_frame_locate(a, (item * a->per_item + k) * a->chunks + number % a->chunks, &s->from);
    pithi_topk_block(a, s, number % a->chunks / (a->predict.parts ? a->predict.parts : 1));
    if (a->sparse.sums) c->out = a->sparse.sums + item * pithi_workspace_whole(&a->from.plan);
    c->dtype = PITH_F32;
    c->add = k != 0;
}

/* The tensor := scale * the sums, of the team's part. */
PITHI_PHASE(pithi_topk_sum_close, uint64_t number) {
    const struct pithi_gpu_set *const c = &s->strip.set;
    const uint32_t dtype = a->from.items.dtype, width = pithi_dtype_bytes(dtype);
    const struct pithi_gpu_share share = pithi_topk_share(a, s, number);
    for (uint64_t e = share.from + t->tid * PITHI_UNIT; e < share.to; e += PITHI_ROW) {
        const uint32_t n = pithi_unit_left(e, share.to);
        uint32_t x[PITHI_UNIT];
        pithi_unit_load(c->out + (c->first + e) * 4, PITH_F32, n, x);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_UNIT; k++) if (a->scale != 1.0f) x[k] =
            pithi_bits(pithi_float(x[k]) * a->scale);
        pithi_unit_store(s->from.tensor + (c->first + e) * width, dtype, n, x);
    }
}

PITHI_BODY(pithi_sparse_reduce) {
    PITHI_RUN(pithi_topk_sum_open, number, true);
    if (s->bad != UINT32_MAX) return;
    for (uint32_t k = 0; k < a->per_item; k++) {
        PITHI_RUN(pithi_topk_summand, number, k);
        if (!s->strip.block.live) break; /* nor is it of the other frames */
        pithi_topk_values(a, s, t, team);
        PITHI_MEET(); /* all are done with this frame: the block of an empty set has no phase */
    }
    PITHI_GATHER_HASHED(false, false, number);
    PITHI_RUN(pithi_topk_close, s->from.first ? a->per_item : 0);
}

/* Before it and behind it, a team a part of a block: sums begin at 0, are rounded at the end. */
PITHI_BODY(pithi_sparse_sums) {
    PITHI_RUN(pithi_topk_sum_open, number, false);
    if (s->bad != UINT32_MAX) return;
    PITHI_RUN(pithi_topk_summand, number, 0);
    if (s->strip.block.live) PITHI_RUN(pithi_topk_zero, number);
}
PITHI_BODY(pithi_sparse_round) {
    PITHI_RUN(pithi_topk_sum_open, number, false);
    if (s->bad != UINT32_MAX) return;
    PITHI_RUN(pithi_topk_summand, number, 0);
    if (s->strip.block.live) PITHI_RUN(pithi_topk_sum_close, number);
}

#endif
