/* rows.h - the rows of a block of codec embed: where the workspace has what is known of them, and
 * their parts of a frame, read and checked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block's elements are neighbours in the tensor. A team has a part of a block, a thread at a time
 * a row, or a group of the distinct rows' words. */
#ifndef PITHI_GPU_DEVICE_PREDICT_ROWS_H
#define PITHI_GPU_DEVICE_PREDICT_ROWS_H

#include "device/predict/check.h"
#include "predict/rows_value.h"

/* Opens the rows of a block that is live; called by the team's first thread. Only a slot's last
 * block has a short row. */
PITHI_DEVICE void pithi_rows_open(const struct pithi_gpu_side *side,
                                  const struct pithi_gpu_block *b, struct pithi_gpu_rows *r) {
    const struct pithi_device_plan *const p = &side->plan;
    const uint64_t before = b->before / p->device.row, all = pithi_workspace_rows(p);
    uint32_t *const numbers = (uint32_t *)(void *)(b->workspace + pithi_workspace_numbers(p));
    r->row = p->device.row < b->count ? p->device.row : b->count;
    r->rows = (b->count + r->row - 1) / r->row;
    r->code = (uint32_t *)(void *)pithi_codes_of(side, b);
    r->scratch = (uint32_t *)(void *)pithi_scratch_of(side, b);
    r->number = numbers + before;
    r->first = numbers + all + before;
    r->place = numbers + 2 * all + 2 * before;
    r->coded = 0;
    r->mapped = false;
}

/* Takes the number of distinct rows, as soon as it is known; called by the team's first thread. */
PITHI_DEVICE void pithi_rows_distinct(struct pithi_gpu_block *b, struct pithi_gpu_rows *r,
                                      uint32_t distinct) {
    const bool none = distinct == 1 || distinct == r->rows;
    r->distinct = distinct;
    r->kind = none ? PITHI_ROWMAP_NONE : PITHI_ROWMAP_PLAIN;
    r->width = pithi_rowmap_width(distinct);
    b->named = (distinct * r->row + PITHI_GROUP - 1) / PITHI_GROUP;
}

/* By the team's first thread: parts from the map on. Returns where words begin. */
PITHI_DEVICE uint8_t *pithi_rows_place(struct pithi_gpu_rows *r, uint8_t *map) {
    const bool plain = r->kind == PITHI_ROWMAP_PLAIN;
    r->map = map;
    r->numbers = map + (plain ? pithi_rowmap_bytes_of(r->rows) : 0);
    r->centre = map + (plain ? pithi_rowmap_plain_bytes(r->rows, r->distinct) : r->coded);
    return r->centre + (uint64_t)r->wide * r->row;
}

/* Rows of the team's part, whole bytes of the map; a strip has a row for every thread. */
PITHI_DEVICE struct pithi_gpu_share pithi_rows_share(const struct pithi_gpu_block *b,
                                                     const struct pithi_gpu_rows *r) {
    return pithi_share_of(b, r->rows, 8);
}
/* Row of the thread in a strip of a share, counted from its first row. */
PITHI_DEVICE uint32_t pithi_rows_at(const struct pithi_gpu_share *share, uint32_t strip,
                                    uint32_t tid) {
    return share->from + strip * PITHI_TEAM + tid;
}
PITHI_DEVICE uint32_t pithi_rows_strips(const struct pithi_gpu_share *share) {
    return (share->to - share->from + PITHI_TEAM - 1) / PITHI_TEAM;
}

/* The distinct row that row i is. */
PITHI_DEVICE uint32_t pithi_rows_number(const struct pithi_gpu_rows *r, uint32_t i) {
    if (r->kind != PITHI_ROWMAP_NONE) return r->number[i];
    return r->distinct == 1 ? 0 : i;
}
/* Encode: code j of distinct row d. */
PITHI_DEVICE uint32_t pithi_distinct_code(const struct pithi_gpu_rows *r, size_t d, uint32_t j) {
    return r->code[(r->first ? r->first[d] : d) * r->row + j];
}
/* Decode: centre j, read where it lies. */
PITHI_DEVICE uint32_t pithi_centre_get(const struct pithi_gpu_rows *r, uint32_t j) {
    if (!r->wide) return 0;
    const uint8_t *const at = r->centre + (uint64_t)j * r->wide;
    uint32_t x = 0;
    for (uint32_t k = 0; k < r->wide; k++) x |= (uint32_t)at[k] << 8 * k;
    return pithi_rows_centre_of(x, r->wide);
}

/* ---- Parts of a frame ------------------------------------------------------------------------*/

/* Finds the body of a block whose number of distinct rows is legal. coded: launches before have
 * read what is entropy-coded, and looked at it. */
PITHI_DEVICE uint32_t pithi_rows_body(struct pithi_gpu_block *b, struct pithi_gpu_rows *r,
                                      uint32_t head, bool coded) {
    const uint32_t kind = head & PITHI_ROWS_MAP;
    b->method = PITHI_EB_CODED; /* until it is known that words are packed */
    if (kind == PITHI_ROWMAP_CODED && r->kind == PITHI_ROWMAP_PLAIN) {
        if (!coded) return PITHI_UNKNOWN;
        r->kind = kind;
    }
    if (kind != r->kind) return PITHI_DAMAGED;
    uint8_t *const map = b->bytes + (b->body - b->bytes);
    const uint8_t *const words = pithi_rows_place(r, map);
    if ((uint64_t)(words - map) > b->body_bytes) return PITHI_DAMAGED;
    r->mapped = kind == PITHI_ROWMAP_PLAIN;
    b->body = words;
    b->body_bytes -= (uint32_t)(words - map);
    if (head & PITHI_ROWS_CODED) return coded ? PITHI_SOUND : PITHI_UNKNOWN;
    b->method = PITHI_EB_PACKED;
    return pithi_strip_legal(b) ? PITHI_SOUND : PITHI_DAMAGED;
}

/* Head and exact values of a block that is not plain; whether they are legal. */
PITHI_DEVICE bool pithi_rows_parse_head(struct pithi_gpu_block *b, struct pithi_gpu_rows *r,
                                        uint32_t width) {
    if (b->length < PITHI_ROWS_HEAD) return false;
    const uint32_t word = pithi_get32(b->bytes), distinct = (word >> 8) + 1, head = word & 0xFF;
    if (head & ~(uint32_t)(PITHI_ROWS_MAP | PITHI_ROWS_CODED | PITHI_ROWS_CENTRE)) return false;
    if (distinct > r->rows || !pithi_exact_parse(b, PITHI_ROWS_HEAD, width)) return false;
    r->wide = pithi_rows_centre_bytes(head);
    pithi_rows_distinct(b, r, distinct);
    return true;
}
/* Parses a block of rows as pithi_block_parse does others. */
PITHI_DEVICE uint32_t pithi_rows_parse(struct pithi_gpu_block *b, struct pithi_gpu_rows *r,
                                       uint32_t width, bool coded) {
    if (b->plain) return b->length == b->count * width ? PITHI_SOUND : PITHI_DAMAGED;
    b->order = 0;
    if (!pithi_rows_parse_head(b, r, width)) return PITHI_DAMAGED;
    return pithi_rows_body(b, r, b->bytes[0], coded);
}

PITHI_PHASE(pithi_rows_locate, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_rows *const r = &s->strip.rows;
    if (t->tid || !pithi_block_find(a, s, number)) return;
    pithi_rows_open(&a->from, b, r);
    r->coded = pithi_entry(b->workspace, b->number)->bounded.map;
    s->strip.fault =
        pithi_rows_parse(b, r, pithi_dtype_bytes(a->from.plan.dtype), a->from.plan.device.coded);
    b->legible = s->strip.fault != PITHI_DAMAGED && !b->plain;
    r->mapped = r->mapped && b->legible;
}

/* ---- The map ---------------------------------------------------------------------------------*/

/* New rows before the part, 32 bits up, and of all the block. */
PITHI_LOCAL(pithi_map_open, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    uint32_t sum[2] = {0, 0};
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < (r->rows + 7) / 8; i += PITHI_TEAM) {
        const uint32_t left = r->rows - 8 * i;
        const uint32_t ones = pithi_ones32(left < 8 ? r->map[i] & ((1u << left) - 1) : r->map[i]);
        sum[1] += ones;
        if (8 * i < share.from) sum[0] += ones;
    }
    t->predict.total = (uint64_t)sum[0] << 32 | sum[1];
}

/* By the first part also: whether what the map says goes together. */
PITHI_PHASE(pithi_map_judge, uint32_t unused) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const uint64_t bits = pithi_rowmap_bits(r->rows, r->distinct), rows = pithi_scan_all(s, 0);
    (void)a, (void)unused;
    if (t->tid) return;
    s->strip.carry[0] = rows >> 32;
    if (s->strip.block.part) return;
    if ((rows & 0xFFFFFFFFu) != r->distinct ||
        (bits % 8 && r->numbers[bits / 8] >> bits % 8 != 0) ||
        (r->rows % 8 && r->map[r->rows / 8] >> r->rows % 8 != 0))
        s->strip.fault = PITHI_DAMAGED;
}

PITHI_DEVICE bool pithi_map_bit(const struct pithi_gpu_rows *r, uint32_t i) {
    return r->map[i / 8] >> i % 8 & 1;
}

PITHI_LOCAL(pithi_map_rows, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    const uint32_t i = pithi_rows_at(&share, strip, t->tid);
    (void)a;
    t->predict.total = i < share.to && pithi_map_bit(r, i);
}

/* Number q of the map; what lies past the last is 0. */
PITHI_DEVICE uint32_t pithi_map_number(const struct pithi_gpu_rows *r, uint64_t q) {
    const uint64_t at = q * r->width, bytes = (uint64_t)(r->centre - r->numbers);
    uint32_t word = 0;
    for (uint32_t k = 0; k < 4 && at / 8 + k < bytes; k++)
        word |= (uint32_t)r->numbers[at / 8 + k] << 8 * k;
    return word >> at % 8 & ((1u << r->width) - 1);
}

/* The rows' numbers, for the launches after this one; a fault where one is not before its row. */
PITHI_PHASE(pithi_map_take, uint32_t strip) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
    const uint32_t i = pithi_rows_at(&share, strip, t->tid);
    const uint64_t known = pithi_scan_carry(s, t->tid, strip);
    (void)a;
    if (i >= share.to) return;
    const bool is_new = pithi_map_bit(r, i);
    const uint32_t number = is_new ? (uint32_t)known : pithi_map_number(r, i - known);
    if (!is_new && number >= known) pithi_atomic_max32(&s->strip.fault, PITHI_DAMAGED);
    r->number[i] = number;
}

PITHI_BODY(pithi_rows_judge) {
    const struct pithi_gpu_rows *const r = &s->strip.rows;
    PITHI_RUN(pithi_rows_locate, number);
    if (!s->strip.block.live) return;
    pithi_block_judge(a, s, t, team, number);
    if (!s->strip.touched) return;
    if (r->mapped) {
        const struct pithi_gpu_share share = pithi_rows_share(&s->strip.block, r);
        PITHI_STEP(pithi_map_open, 0);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_map_judge, 0);
        for (uint32_t strip = 0; strip < pithi_rows_strips(&share); strip++) {
            PITHI_STEP(pithi_map_rows, strip);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_map_take, strip);
        }
    }
    PITHI_RUN(pithi_block_answer, number);
}

#endif
