/* check.h - frames of codecs with a bound, checked to the last byte before any value is
 * written.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One launch looks at headers and indices, a team a frame; the next at blocks, a team a part, and
 * leaves what the part's differences along rows come to. */
#ifndef PITHI_GPU_DEVICE_PREDICT_CHECK_H
#define PITHI_GPU_DEVICE_PREDICT_CHECK_H

#include "device/open.h"
#include "device/predict/tiles.h"

/* ---- Frames ----------------------------------------------------------------------------------*/

PITHI_DEVICE uint8_t *pithi_bound_section(const struct pithi_gpu_item *it) {
    return it->frame + it->slot->fixed_bytes + PITHI_SECTION_HEAD;
}

/* Readies the team's memory for pithi_head_fetch; called by its first thread, whose frame is
 * located. */
PITHI_DEVICE void pithi_head_open(struct pithi_gpu_shared *s) {
    s->differs[0][0] = s->differs[0][1] = PITHI_HEADER_SAME;
}
/* The first 256 bytes of the frame, by a warp; one thread would wait for each of them. */
PITHI_PHASE(pithi_head_fetch, uint32_t tid) {
    const struct pithi_gpu_item *const it = &s->from;
    const uint32_t lane = t->tid - tid;
    if (lane >= PITHI_WARP || it->status != PITH_OK) return;
    const uint64_t length = pithi_item_length(&a->from.items, it->index);
    const uint64_t word = pithi_open_word(it->frame, 8 * lane, length);
    s->head[0][lane] = word;
    pithi_open_compare(a, s, word, 8 * lane, s->differs[0]);
}
/* Judges a header as pithi_header_judge does. */
PITHI_DEVICE int32_t pithi_head_judge(const struct pithi_device_plan *p,
                                      const struct pithi_gpu_shared *s, uint64_t length,
                                      struct pithi_gpu_item *it) {
    /* A frame's own header may be wide where the plan's is not, and is hashed as it says. */
    const bool fetched = it->slot->form[0].header_bytes <= PITHI_SHORT_HEADER &&
                         it->slot->form[1].header_bytes <= PITHI_SHORT_HEADER;
    if (!fetched) return pithi_header_judge(p, length, it, it->frame, NULL);
    return pithi_header_judge(p, length, it, (const uint8_t *)s->head[0], s->differs[0]);
}

/* Header, bound, and what lies around the index. */
PITHI_DEVICE int32_t pithi_bounded_header(const struct pithi_device_plan *p,
                                          const struct pithi_gpu_shared *s, uint64_t length,
                                          struct pithi_gpu_item *it, struct pithi_bound *bound) {
    const int32_t judged = pithi_head_judge(p, s, length, it);
    if (judged != PITH_OK) return judged;
    const uint8_t *const section = pithi_bound_section(it);
    bound->kind = pithi_get32(section + PITHI_BOUND_KIND);
    bound->value = pithi_double(pithi_get64(section + PITHI_BOUND_VALUE));
    bound->largest = pithi_double(pithi_get64(section + PITHI_BOUND_LARGEST));
    if (pithi_get32(section + PITHI_BOUND_KIND + 4) || !pithi_bound_legal(p->dtype, bound))
        return PITH_ERR_CORRUPT;
    return pithi_payload_check(p, length, it, it->form->payload_bytes);
}

PITHI_PHASE(pithi_bounded_locate, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    if (t->tid) return;
    pithi_item_locate(a, &a->from, number, it);
    if (it->status == PITH_OK && !it->frame) it->status = PITH_ERR_ARG;
    pithi_head_open(s);
}

PITHI_PHASE(pithi_bounded_frame, uint64_t number) {
    const struct pithi_device_plan *const p = &a->from.plan;
    struct pithi_gpu_item *const it = &s->from;
    (void)number;
    if (t->tid) return;
    struct pithi_bound bound = {0, 0, 0};
    if (it->status == PITH_OK)
        it->status =
            pithi_bounded_header(p, s, pithi_item_length(&a->from.items, it->index), it, &bound);
    pithi_mark(a, it->index)->bounded.bound = bound;
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
    if (t->predict.total > tile.count * pithi_dtype_bytes(a->from.plan.dtype))
        pithi_atomic_max32(&s->strip.fault, 1);
    pithi_entry(s->strip.block.workspace, i)->length = entry;
    pithi_entry(s->strip.block.workspace, i)->bounded.map = 0;
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

/* Part of a body: places of the blocks of a frame whose header was judged, by its index, of which
 * `read` reads an entry a thread; then its mark. */
#define PITHI_INDEX_WALK(read)                                                         \
    do {                                                                               \
        const uint64_t blocks_ = s->from.status == PITH_OK ? s->from.slot->blocks : 0; \
        uint64_t strips_ = 0;                                                          \
        for (; strips_ * PITHI_TEAM < blocks_; strips_++) {                            \
            PITHI_STEP(read, strips_ *PITHI_TEAM);                                     \
            PITHI_SCAN(0);                                                             \
            PITHI_RUN(pithi_index_place, strips_ *PITHI_TEAM);                         \
        }                                                                              \
        PITHI_MEET(); /* all have looked at the status: there may be no block */       \
        PITHI_RUN(pithi_bounded_mark, strips_);                                        \
    } while (0)

PITHI_BODY(pithi_bounded_check) {
    PITHI_RUN(pithi_bounded_locate, number);
    PITHI_RUN(pithi_head_fetch, 0);
    PITHI_RUN(pithi_bounded_frame, number);
    PITHI_INDEX_WALK(pithi_index_read);
}

/* ---- A block's parts -------------------------------------------------------------------------*/

enum { PITHI_SOUND, PITHI_UNKNOWN, PITHI_DAMAGED };

PITHI_DEVICE bool pithi_variant_legal(const struct pithi_gpu_block *b, uint32_t revision) {
    if (b->method == PITHI_EB_CONSTANT) return b->order == 0;
    if (b->method == PITHI_EB_WEIGHTED && (revision < 3 || !pithi_weighted_fits(b->tile.extent)))
        return false;
    if (b->method == PITHI_EB_INTERPOLATED || b->method == PITHI_EB_WEIGHTED)
        return b->order < PITHI_INTERP_ROWS && !b->quant.relative;
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

/* Finds the parts of a block of a frame of some revision; those that lie in bytes of unknown
 * meaning are looked at later. last: the last method whose words launches before have read, and
 * looked at. */
PITHI_DEVICE uint32_t pithi_block_parse(struct pithi_gpu_block *b, uint32_t width, uint32_t last,
                                        uint32_t revision) {
    if (b->plain) return b->length == b->count * width ? PITHI_SOUND : PITHI_DAMAGED;
    if (b->length < PITHI_EB_HEAD) return PITHI_DAMAGED;
    b->method = b->bytes[0];
    b->order = b->bytes[1];
    if (!pithi_variant_legal(b, revision) || !pithi_exact_parse(b, PITHI_EB_HEAD, width))
        return PITHI_DAMAGED;
    if (b->method >= PITHI_EB_CODED) return b->method <= last ? PITHI_SOUND : PITHI_UNKNOWN;
    if (b->method == PITHI_EB_CONSTANT)
        return b->body_bytes == PITHI_EB_CODE ? PITHI_SOUND : PITHI_DAMAGED;
    return pithi_strip_legal(b) ? PITHI_SOUND : PITHI_DAMAGED;
}

/* Returns the last of the methods that kernels read. */
PITHI_DEVICE uint32_t pithi_method_last(const struct pithi_device_plan *p) {
    if (!p->device.coded) return PITHI_EB_PACKED;
    return pithi_interpolates(p) ? PITHI_EB_WEIGHTED : PITHI_EB_CODED;
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

/* Finds the team's block, and returns whether there is one to be parsed; called by the team's first
 * thread. */
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
    pithi_quant_init(&b->quant, a->from.plan.dtype, &pithi_mark(a, s->from.index)->bounded.bound,
                     false);
    b->bytes = s->from.payload + entry->at;
    b->length = entry->length & ~PITHI_INDEX_PLAIN;
    b->plain = entry->length & PITHI_INDEX_PLAIN;
    b->joined = b->interpolated = false;
    return true;
}

PITHI_PHASE(pithi_block_locate, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t last = pithi_method_last(&a->from.plan);
    if (t->tid || !pithi_block_find(a, s, number)) return;
    s->strip.fault = pithi_block_parse(b, pithi_dtype_bytes(a->from.plan.dtype), last,
                                       s->from.frame[PITHI_AT_REVISION]);
    b->legible = s->strip.fault != PITHI_DAMAGED && !b->plain;
    const bool known = b->legible && b->method >= PITHI_EB_CODED && b->method <= last &&
                       pithi_entry(b->workspace, b->number)->bounded.kind;
    b->joined = known && b->method == PITHI_EB_CODED;
    b->interpolated = known && !b->joined;
}
/* Whether there are words, which are packed or were joined. */
PITHI_DEVICE bool pithi_block_words(const struct pithi_gpu_block *b) {
    return b->method == PITHI_EB_PACKED || b->joined;
}

/* Whether an element is wanted of the thread's rows, of so many elements. */
PITHI_DEVICE bool pithi_rows_wanted(const struct pithi_tiling *tiling,
                                    const struct pithi_gpu_block *b, uint32_t row, uint32_t tid) {
    for (uint32_t i = tid; b->lo < b->hi && i < b->count / row; i += PITHI_TEAM) {
        const struct pithi_gpu_place p = pithi_place_of(tiling, &b->tile, i * row);
        if (p.at < b->hi && p.at + row > b->lo) return true;
    }
    return false;
}
PITHI_PHASE(pithi_block_touch, uint32_t row) {
    (void)a;
    if (pithi_rows_wanted(&s->from.slot->tiling, &s->strip.block, row, t->tid))
        pithi_atomic_max32(&s->strip.touched, 1);
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
/* Returns the bits that group g of the block has in a map. */
PITHI_DEVICE uint32_t pithi_map_bits(const struct pithi_gpu_block *b, const uint8_t *map,
                                     uint32_t g) {
    return pithi_map_group(map, g, pithi_group_count(b, g));
}

/* Positions of exact values are in order, of which each part looks at some; of a map the first part
 * counts the ones. */
PITHI_PHASE(pithi_exact_look, uint32_t tid) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_share share = pithi_share_of(b, b->misses, PITHI_TEAM);
    (void)a;
    t->predict.total = 0;
    for (uint32_t k = share.from + tid + t->tid; !b->bitmap && k < share.to; k += PITHI_TEAM) {
        const uint32_t at = pithi_get32(b->which + 4 * (uint64_t)k);
        if (at >= b->count || (k && at <= pithi_get32(b->which + 4 * (uint64_t)k - 4)))
            pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
    }
    if (!b->bitmap || b->part) return;
    for (uint32_t g = tid + t->tid; g < b->groups; g += PITHI_TEAM) {
        const uint32_t bits = pithi_map_bits(b, b->which, g);
        t->predict.total += pithi_ones32(bits);
        if (bits >> pithi_group_count(b, g)) pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
    }
}

PITHI_DEVICE uint32_t pithi_group_width(const struct pithi_gpu_block *b, uint32_t g) {
    return b->body[b->body[PITHI_PACK_WIDTHS + g / 4] >> g % 4 * 2 & 3];
}

PITHI_PHASE(pithi_exact_judge, uint32_t tid) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)a;
    if (t->tid == tid && b->bitmap && b->part == 0 && pithi_scan_all(s, 0) != b->misses)
        pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
}

/* Widths of the groups before the part, 32 bits up, and of all; four of them have a byte of names,
 * and a part has whole ones. */
PITHI_LOCAL(pithi_names_add, uint32_t first) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t bytes = pithi_names_bytes(b), before = first * (PITHI_TEAM / 4);
    uint32_t table = 0, sum[2] = {0, 0};
    (void)a;
    for (uint32_t k = 0; k < PITHI_PACK_WIDTHS; k++) table |= (uint32_t)b->body[k] << 8 * k;
    for (uint32_t i = t->tid; i < bytes; i += PITHI_TEAM) {
        const uint32_t names = b->body[PITHI_PACK_WIDTHS + i];
        const uint32_t last = 4 * i + 4 <= b->named ? 4 : b->named % 4;
        uint32_t four = 0;
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            if (k < last) four += table >> 8 * (names >> 2 * k & 3) & 0xFF;
        }
        sum[1] += four;
        if (i < before) sum[0] += four;
    }
    t->predict.total = (uint64_t)sum[0] << 32 | sum[1];
}

/* The sums of names are there, in scan 1: whether rows of differences are to be summed. */
PITHI_PHASE(pithi_names_judge, uint32_t first) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint64_t widths = pithi_scan_all(s, 1);
    (void)a;
    if (t->tid) return;
    if (PITHI_PACK_WIDTHS + pithi_names_bytes(b) + 2 * (widths & 0xFFFFFFFFu) != b->body_bytes)
        s->strip.fault = PITHI_DAMAGED;
    s->strip.sums = s->strip.fault != PITHI_DAMAGED && b->order;
    s->strip.carry[first % 2] = widths >> 32;
    s->strip.run[first % 2] = 0;
}

/* Begins the sums of words that a team has joined, unless the block is damaged. */
PITHI_PHASE(pithi_joined_judge, uint32_t first) {
    (void)a;
    if (t->tid) return;
    s->strip.sums = s->strip.fault != PITHI_DAMAGED && s->strip.block.order;
    s->strip.run[first % 2] = 0;
}

PITHI_PHASE(pithi_block_answer, uint64_t number) {
    struct pithi_gpu_mark *const m = pithi_mark(a, s->from.index);
    (void)number;
    if (t->tid) return;
    if (s->strip.fault == PITHI_DAMAGED) pithi_atomic_max32(&m->corrupt, 1);
    if (s->strip.fault == PITHI_UNKNOWN) pithi_atomic_max32(&m->unsupported, 1);
}

/* ---- Packed words ----------------------------------------------------------------------------*/

PITHI_LOCAL(pithi_strip_widths, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = g < b->named ? pithi_group_width(b, g) : 0;
}

/* Differences of the strip's groups. carry: widths of the groups before. */
PITHI_PHASE(pithi_strip_unpack, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    const uint64_t before = pithi_scan_carry(s, t->tid, strip);
    (void)a;
    if (g >= b->named) return;
    const uint8_t *const planes = b->body + PITHI_PACK_WIDTHS + pithi_names_bytes(b) + 2 * before;
    uint32_t word[PITHI_GROUP] = {0};
    for (uint32_t i = 0; i < pithi_group_width(b, g); i++) {
        const uint32_t plane = pithi_own_get(planes + 2 * i, 2);
        PITHI_UNROLL for (uint32_t k = 0; k < PITHI_GROUP; k++) word[k] |= (plane >> k & 1) << i;
    }
    PITHI_UNROLL for (uint32_t k = 0; k < PITHI_GROUP; k++) s->strip.word[k][t->tid] =
        pithi_unzigzag(word[k]);
}

/* The same of words that were joined, which lie there. */
PITHI_PHASE(pithi_joined_fetch, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    const uint8_t *const codes = pithi_codes_of(&a->from, b);
    if (g >= b->groups) return;
    for (uint32_t k = 0; k < pithi_group_count(b, g); k++)
        s->strip.word[k][t->tid] = pithi_get_aligned32(codes + 4 * ((uint64_t)g * PITHI_GROUP + k));
}

/* Sums along rows, as far as the group itself has them. */
PITHI_PHASE(pithi_strip_sum, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid, row = pithi_tile_extent(&b->tile, 3);
    (void)a;
    t->predict.total = 0;
    if (g >= b->groups) return;
    uint32_t x = g * PITHI_GROUP % row, sum = 0;
    bool begins = false;
    for (uint32_t k = 0; k < pithi_group_count(b, g); k++) {
        if (x == 0) sum = 0;
        begins = begins || x == 0;
        sum += s->strip.word[k][t->tid];
        s->strip.word[k][t->tid] = sum;
        x = x + 1 == row ? 0 : x + 1;
    }
    t->predict.total = (uint64_t)begins << 32 | sum;
}

/* Before the total becomes one of several threads. */
PITHI_LOCAL(pithi_strip_keep, uint32_t strip) {
    (void)a, (void)s, (void)strip;
    t->predict.own = t->predict.total;
}

/* Part of a body: words of a strip, and what its rows come to, group by group, in scan 1. */
PITHI_DEVICE void pithi_strip_open(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint32_t strip, bool sums) {
    if (s->strip.block.joined) {
        PITHI_RUN(pithi_joined_fetch, strip);
    } else {
        PITHI_STEP(pithi_strip_widths, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_strip_unpack, strip);
    }
    if (!sums) return;
    PITHI_RUN(pithi_strip_sum, strip);
    PITHI_STEP(pithi_strip_keep, strip);
    PITHI_WARP_RUNS(predict.total);
    PITHI_RUN(pithi_scan_publish, 1);
}

/* By the team's last thread: what rows come to up to the strip's end. */
PITHI_DEVICE void pithi_run_carry(struct pithi_gpu_shared *s, const struct pithi_gpu_thread *t,
                                  uint32_t strip, uint64_t before) {
    if (t->tid == PITHI_TEAM - 1)
        s->strip.run[(strip + 1) % 2] = pithi_runs_join(before, t->predict.own);
}
PITHI_PHASE(pithi_run_add, uint32_t strip) {
    (void)a;
    pithi_run_carry(s, t, strip, pithi_runs_before(s, 1, t->tid, s->strip.run[strip % 2]));
}
PITHI_PHASE(pithi_run_hand, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid == 0) pithi_part_of(&a->from, b, b->part)->run = s->strip.run[strip % 2];
}

/* Part of a body: checks the widths of a block of packed words against its length, and sums the
 * part's differences, of joined words too, which a launch after this one needs of the parts before
 * its own. */
PITHI_DEVICE void pithi_words_judge(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_share strips = pithi_share_strips(&s->strip.block, s->strip.block.named);
    if (s->strip.block.joined) {
        PITHI_RUN(pithi_joined_judge, strips.from);
    } else {
        PITHI_STEP(pithi_names_add, strips.from);
        PITHI_SCAN(1);
        PITHI_RUN(pithi_names_judge, strips.from);
    }
    if (!s->strip.sums) return;
    for (uint32_t strip = strips.from; strip < strips.to; strip++) {
        pithi_strip_open(a, s, t, team, strip, true);
        PITHI_RUN(pithi_run_add, strip);
    }
    PITHI_RUN(pithi_run_hand, strips.to);
}

/* ---- What is checked -------------------------------------------------------------------------*/

/* Checksum, exact values and widths of a located block, if any of it is wanted: what a part looks
 * at. */
PITHI_DEVICE void pithi_block_judge(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t number) {
    if (!s->strip.block.whole)
        PITHI_RUN(pithi_block_touch, pithi_tile_extent(&s->strip.block.tile, 3));
    if (!s->strip.touched) return;
    if (a->from.plan.checksums && s->strip.block.part == 0) {
        PITHI_STEP(pithi_block_hash, PITHI_TEAM);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_block_compare, number);
    }
    if (s->strip.block.legible) {
        PITHI_RUN(pithi_exact_look, 0);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_exact_judge, 0);
        if (pithi_block_words(&s->strip.block)) pithi_words_judge(a, s, t, team);
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
