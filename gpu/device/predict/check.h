/* check.h - frames of codecs with a bound, checked to the last byte before any value is
 * written.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One launch looks at headers and indices, a team a frame; the next at blocks, a team each. */
#ifndef PITHI_GPU_DEVICE_PREDICT_CHECK_H
#define PITHI_GPU_DEVICE_PREDICT_CHECK_H

#include "device/predict/tiles.h"

/* ---- Frames ----------------------------------------------------------------------------------*/

PITHI_DEVICE uint8_t *pithi_bound_section(const struct pithi_gpu_item *it) {
    return it->frame + it->slot->fixed_bytes + PITHI_SECTION_HEAD;
}

/* Header, bound, and what lies around the index. */
PITHI_DEVICE int32_t pithi_bounded_header(const struct pithi_device_plan *p, uint64_t length,
                                          struct pithi_gpu_item *it, struct pithi_bound *bound) {
    const int32_t judged = pithi_header_judge(p, length, it, it->frame, NULL);
    if (judged != PITH_OK) return judged;
    const uint8_t *const section = pithi_bound_section(it);
    bound->kind = pithi_get32(section + PITHI_BOUND_KIND);
    bound->value = pithi_double(pithi_get64(section + PITHI_BOUND_VALUE));
    bound->largest = pithi_double(pithi_get64(section + PITHI_BOUND_LARGEST));
    if (pithi_get32(section + PITHI_BOUND_KIND + 4) || !pithi_bound_legal(p->dtype, bound))
        return PITH_ERR_CORRUPT;
    const struct pithi_device_plan_form *const form = it->form;
    const uint64_t payload = pithi_get64(it->frame + PITHI_AT_PAYLOAD);
    if (payload < form->data || payload > form->payload_bytes) return PITH_ERR_CORRUPT;
    if (payload > length - form->header_bytes) return PITH_ERR_TRUNCATED;
    const uint64_t checks_end = form->checks + (p->checksums ? 8 * it->slot->checks : 0);
    return pithi_zeros(it->payload, 4 * it->slot->blocks, form->checks) &&
                   pithi_zeros(it->payload, checks_end, form->data)
               ? PITH_OK
               : PITH_ERR_CORRUPT;
}

PITHI_PHASE(pithi_bounded_frame, uint64_t number) {
    const struct pithi_device_plan *const p = &a->from.plan;
    struct pithi_gpu_item *const it = &s->from;
    if (t->tid) return;
    pithi_item_locate(a, &a->from, number, it);
    if (it->status == PITH_OK && !it->frame) it->status = PITH_ERR_ARG;
    struct pithi_bound bound = {0, 0, 0};
    if (it->status == PITH_OK)
        it->status =
            pithi_bounded_header(p, pithi_item_length(&a->from.items, it->index), it, &bound);
    pithi_mark(a, it->index)->bound = bound;
    s->strip.block.workspace = pithi_frame_workspace(a, &a->from, it->index);
    s->strip.carry[0] = it->form->data;
    s->strip.fault = 0;
}

/* The index, as many entries as there are threads at a time. */
PITHI_PHASE(pithi_index_read, uint64_t first) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint64_t i = first + t->tid;
    t->predict.total = 0;
    if (i >= it->slot->blocks) return;
    const uint32_t entry = pithi_get32(it->payload + 4 * i);
    const struct pithi_tile tile = pithi_tile_at(&it->slot->tiling, i);
    t->predict.total = entry & ~PITHI_INDEX_PLAIN;
    if (t->predict.total > tile.count * pithi_width(a->from.plan.dtype))
        pithi_atomic_max32(&s->strip.fault, 1);
    pithi_entry(s->strip.block.workspace, i)->length = entry;
}

PITHI_PHASE(pithi_index_place, uint64_t first) {
    const uint64_t i = first + t->tid, parity = first / PITHI_TEAM % 2;
    (void)a;
    if (i < s->from.slot->blocks)
        pithi_entry(s->strip.block.workspace, i)->at =
            s->strip.carry[parity] + pithi_scan_before(s, 0, t->tid);
    if (t->tid == 0) s->strip.carry[!parity] = s->strip.carry[parity] + pithi_scan_all(s, 0);
}

PITHI_PHASE(pithi_bounded_mark, uint64_t strips) {
    struct pithi_gpu_item *const it = &s->from;
    if (t->tid) return;
    if (it->status == PITH_OK &&
        (s->strip.fault || s->strip.carry[strips % 2] != pithi_get64(it->frame + PITHI_AT_PAYLOAD)))
        it->status = PITH_ERR_CORRUPT;
    pithi_mark(a, it->index)->status = it->status;
}

PITHI_BODY(pithi_bounded_check) {
    uint64_t strips = 0;
    PITHI_RUN(pithi_bounded_frame, number);
    if (s->from.status == PITH_OK) {
        for (uint64_t first = 0; first < s->from.slot->blocks; first += PITHI_TEAM, strips++) {
            PITHI_STEP(pithi_index_read, first);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_index_place, first);
        }
    }
    PITHI_RUN(pithi_bounded_mark, strips);
}

/* ---- A block's parts -------------------------------------------------------------------------*/

enum { PITHI_SOUND, PITHI_UNKNOWN, PITHI_DAMAGED };

PITHI_DEVICE bool pithi_variant_legal(const struct pithi_gpu_block *b) {
    if (b->method == PITHI_EB_CONSTANT) return b->order == 0;
    if (b->method == PITHI_EB_INTERPOLATED)
        return b->order < PITHI_PACK_WIDTHS && !b->quant.relative;
    return b->method < PITHI_EB_INTERPOLATED && b->order <= pithi_tile_dimensions(&b->tile);
}

PITHI_DEVICE uint32_t pithi_names_bytes(const struct pithi_gpu_block *b) {
    return (b->named + 3) / 4;
}

PITHI_DEVICE bool pithi_strip_legal(const struct pithi_gpu_block *b) {
    const uint32_t names = pithi_names_bytes(b), last = b->named % 4;
    if (b->body_bytes < PITHI_PACK_WIDTHS + names) return false;
    if (b->body[PITHI_PACK_WIDTHS - 1] > PITHI_PACK_WIDEST) return false;
    for (uint32_t k = 1; k < PITHI_PACK_WIDTHS; k++)
        if (b->body[k] < b->body[k - 1]) return false;
    return !last || !(b->body[PITHI_PACK_WIDTHS + names - 1] >> 2 * last);
}

/* Exact values behind the block's head, and the body behind them. */
PITHI_DEVICE bool pithi_exact_parse(struct pithi_gpu_block *b, uint32_t head, uint32_t width) {
    const uint8_t *const p = b->bytes + head + PITHI_EXACT_COUNT;
    if (b->length < head + PITHI_EXACT_COUNT) return false;
    b->misses = pithi_get32(b->bytes + head);
    if (b->misses > b->count) return false;
    const uint32_t map = (b->count + 7) / 8;
    b->bitmap = b->misses > map / 4;
    const uint64_t left = b->length - head - PITHI_EXACT_COUNT;
    const uint64_t which = b->bitmap ? map : 4 * (uint64_t)b->misses;
    const uint64_t exact = which + (uint64_t)b->misses * width;
    if (left < exact) return false;
    b->which = p;
    b->values = p + which;
    b->body = p + exact;
    b->body_bytes = (uint32_t)(left - exact);
    return true;
}

/* Finds the parts of a block; those that lie in bytes of unknown meaning are looked at later. */
PITHI_DEVICE uint32_t pithi_block_parse(struct pithi_gpu_block *b, uint32_t width) {
    if (b->plain) return b->length == b->count * width ? PITHI_SOUND : PITHI_DAMAGED;
    if (b->length < PITHI_EB_HEAD) return PITHI_DAMAGED;
    b->method = b->bytes[0];
    b->order = b->bytes[1];
    if (!pithi_variant_legal(b) || !pithi_exact_parse(b, PITHI_EB_HEAD, width))
        return PITHI_DAMAGED;
    if (b->method >= PITHI_EB_CODED) return PITHI_UNKNOWN;
    if (b->method == PITHI_EB_CONSTANT)
        return b->body_bytes == PITHI_EB_CODE ? PITHI_SOUND : PITHI_DAMAGED;
    return pithi_strip_legal(b) ? PITHI_SOUND : PITHI_DAMAGED;
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

/* By the team's first thread; whether there is a block to be parsed. */
PITHI_DEVICE bool pithi_block_find(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    pithi_item_locate(a, &a->from, number, &s->from);
    s->from.status = pithi_mark(a, s->from.index)->status;
    pithi_block_open(a, &a->from, &s->from, number, b);
    s->strip.fault = PITHI_SOUND;
    b->whole = b->live && b->lo == 0 && b->hi == s->from.slot->count;
    s->strip.touched = b->whole;
    if (!b->live) return false;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    pithi_quant_init(&b->quant, a->from.plan.dtype, &pithi_mark(a, s->from.index)->bound, false);
    b->bytes = s->from.payload + entry->at;
    b->length = entry->length & ~PITHI_INDEX_PLAIN;
    b->plain = entry->length & PITHI_INDEX_PLAIN;
    return true;
}

PITHI_PHASE(pithi_block_locate, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid || !pithi_block_find(a, s, number)) return;
    s->strip.fault = pithi_block_parse(b, pithi_width(a->from.plan.dtype));
    b->legible = s->strip.fault != PITHI_DAMAGED && !b->plain;
}

/* Whether an element is wanted. */
PITHI_PHASE(pithi_block_touch, uint32_t row) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)a;
    for (uint32_t i = t->tid; i < b->count / row; i += PITHI_TEAM) {
        const struct pithi_gpu_place p = pithi_place_of(&s->from.slot->tiling, &b->tile, i * row);
        if (p.at < b->hi && p.at + row > b->lo && b->lo < b->hi)
            pithi_atomic_max32(&s->strip.touched, 1);
    }
}

PITHI_PHASE(pithi_block_compare, uint64_t number) {
    const struct pithi_gpu_item *const it = &s->from;
    (void)number;
    if (t->tid) return;
    const uint64_t stated = pithi_get64(it->payload + it->form->checks + 8 * s->strip.block.number);
    if (pithi_block_sum(s) != stated) pithi_atomic_max32(&pithi_mark(a, it->index)->differs, 1);
}

/* Group g of a map, which has n bits. */
PITHI_DEVICE uint32_t pithi_map_group(const uint8_t *map, uint32_t g, uint32_t n) {
    return n > 8 ? pithi_get16(map + 2 * g) : map[2 * g];
}
/* Of a map of b->count. */
PITHI_DEVICE uint32_t pithi_map_bits(const struct pithi_gpu_block *b, const uint8_t *map,
                                     uint32_t g) {
    return pithi_map_group(map, g, pithi_group_count(b, g));
}

/* Positions of exact values are in order; of a map the ones are counted. */
PITHI_PHASE(pithi_exact_look, uint32_t tid) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)a;
    t->predict.total = 0;
    for (uint32_t k = tid + t->tid; !b->bitmap && k < b->misses; k += PITHI_TEAM) {
        const uint32_t at = pithi_get32(b->which + 4 * (uint64_t)k);
        if (at >= b->count || (k && at <= pithi_get32(b->which + 4 * (uint64_t)k - 4)))
            pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
    }
    for (uint32_t g = tid + t->tid; b->bitmap && g < b->groups; g += PITHI_TEAM) {
        const uint32_t bits = pithi_map_bits(b, b->which, g);
        t->predict.total += pithi_ones32(bits);
        if (bits >> pithi_group_count(b, g)) pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
    }
}

PITHI_DEVICE uint32_t pithi_group_width(const struct pithi_gpu_block *b, uint32_t g) {
    return b->body[b->body[PITHI_PACK_WIDTHS + g / 4] >> g % 4 * 2 & 3];
}

PITHI_PHASE(pithi_widths_look, uint32_t tid) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)a;
    if (t->tid == 0 && b->bitmap && pithi_scan_all(s, 0) != b->misses)
        pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
    t->predict.total = 0;
    if (b->method != PITHI_EB_PACKED) return;
    for (uint32_t g = tid + t->tid; g < b->named; g += PITHI_TEAM)
        t->predict.total += pithi_group_width(b, g);
}

PITHI_PHASE(pithi_block_answer, uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_mark *const m = pithi_mark(a, s->from.index);
    (void)number;
    if (t->tid) return;
    if (s->strip.fault == PITHI_SOUND && !b->plain && b->method == PITHI_EB_PACKED &&
        PITHI_PACK_WIDTHS + pithi_names_bytes(b) + 2 * pithi_scan_all(s, 1) != b->body_bytes)
        s->strip.fault = PITHI_DAMAGED;
    if (s->strip.fault == PITHI_DAMAGED) pithi_atomic_max32(&m->corrupt, 1);
    if (s->strip.fault == PITHI_UNKNOWN) pithi_atomic_max32(&m->unsupported, 1);
}

/* Checksum, exact values and widths of a located block, if any of it is wanted. */
PITHI_DEVICE void pithi_block_judge(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number) {
    if (!s->strip.block.whole)
        PITHI_RUN(pithi_block_touch, pithi_tile_extent(&s->strip.block.tile, 3));
    if (!s->strip.touched) return;
    if (a->from.plan.checksums) {
        PITHI_STEP(pithi_block_hash, PITHI_TEAM);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_block_compare, number);
    }
    if (s->strip.block.legible) {
        PITHI_RUN(pithi_exact_look, 0);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_widths_look, 0);
        PITHI_SCAN(1);
    }
}

PITHI_BODY(pithi_bounded_judge) {
    PITHI_RUN(pithi_block_locate, number);
    if (!s->strip.block.live) return;
    pithi_block_judge(a, s, t, team, number);
    if (s->strip.touched) PITHI_RUN(pithi_block_answer, number);
}

/* The checks alone: a team an item. */
PITHI_PHASE(pithi_bounded_say, uint64_t number) {
    if (t->tid) return;
    pithi_item_locate(a, &a->from, number, &s->from);
    s->from.status = pithi_mark_status(pithi_mark(a, s->from.index));
    pithi_item_answer(&a->from.items, &s->from, 0);
}
PITHI_BODY(pithi_bounded_answer) { PITHI_RUN(pithi_bounded_say, number); }

#endif
