/* page_encode.h - pages to strings of symbols, and the blocks that their strings make.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_BYTES_PAGE_ENCODE_H
#define PITHI_GPU_DEVICE_BYTES_PAGE_ENCODE_H

#include "device/bytes/encode.h"
#include "group/bound_value.h"

/* ---- Symbols ---------------------------------------------------------------------------------*/

/* A team has a block. */
PITHI_PHASE(pithi_spread_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->to;
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    if (t->tid) return;
    pithi_item_locate(a, &a->to, number, it);
    if (it->status == PITH_OK) it->status = a->to.items.status[it->index];
    if (block >= it->slot->blocks) it->status = PITH_ERR_ARG;
    if (it->status == PITH_OK) s->rans.page = pithi_coded_page(&a->to.plan, it, block);
}

/* The codes of all heads, a byte each. */
PITHI_PHASE(pithi_spread_codes, uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    const uint8_t *const codes = pithi_staging_payload(a, &s->to) + g->at + g->codes;
    const uint32_t bits = a->to.plan.device.groups.set.bits, mask = (1u << bits) - 1;
    const uint32_t along = (g->dim + PITHI_UNIT - 1) / PITHI_UNIT;
    for (uint32_t i = t->tid; i < g->tokens * g->heads * along; i += PITHI_TEAM) {
        const uint32_t before = i / along, unit = i % along;
        const uint32_t token = before / g->heads, head = before % g->heads;
        const uint32_t n = pithi_unit_left((uint64_t)unit * PITHI_UNIT, g->dim);
        const uint64_t word =
            pithi_unit_get_codes(codes + (uint64_t)before * g->string + unit * bits, bits, n);
        uint8_t *const to = pithi_coding_head(a, g, s->to.index, block, head) +
                            (uint64_t)token * g->dim + unit * PITHI_UNIT;
        for (uint32_t k = 0; k < n; k++) to[k] = (uint8_t)(word >> k * bits & mask);
    }
}

PITHI_PHASE(pithi_spread_plane, uint64_t block, uint32_t plane) {
    const struct pithi_coded_page *const g = &s->rans.page;
    const uint8_t *const page = pithi_staging_payload(a, &s->to) + g->at;
    uint8_t *const to = pithi_coding_plane(a, g, s->to.index, block, plane);
    for (uint32_t i = t->tid; i < g->groups; i += PITHI_TEAM)
        to[i] = page[pithi_plane_byte(&a->to.plan, g, plane, i)];
    if (t->tid) return;
    s->rans.depth = 0;
    s->rans.from[0] = to;
    s->rans.bytes[0] = g->groups;
}

/* Whether what is left of a plane is cut, and where its parts go: bytes that are not 0, then the
 * map, behind all before. */
PITHI_LOCAL(pithi_thin_count, uint32_t plane) {
    const uint8_t *const from = s->rans.from[s->rans.depth];
    (void)a, (void)plane;
    t->rans.total = 0;
    for (uint32_t i = t->tid; i < s->rans.bytes[s->rans.depth]; i += PITHI_TEAM)
        t->rans.total += from[i] != 0;
}
PITHI_PHASE(pithi_thin_judge, uint32_t plane) {
    const uint32_t depth = s->rans.depth, n = s->rans.bytes[depth];
    const uint32_t used = (uint32_t)pithi_coded_all(s);
    (void)a, (void)plane;
    if (t->tid) return;
    s->rans.cut = n >= PITHI_PIECE_SPARSE_MIN && used && used <= n / 8;
    s->rans.carry[0] = 0;
    if (!s->rans.cut) return;
    s->rans.others[depth] = (uint8_t *)(uintptr_t)s->rans.from[depth] + n;
    s->rans.used[depth] = used;
    s->rans.from[depth + 1] = s->rans.others[depth] + used;
    s->rans.bytes[depth + 1] = (n + 7) / 8;
}
/* Eight bytes each, from byte number `first` of the map on. */
PITHI_PHASE(pithi_thin_map, uint32_t first) {
    const uint32_t depth = s->rans.depth, n = s->rans.bytes[depth], at = 8 * (first + t->tid);
    const uint8_t *const from = s->rans.from[depth];
    uint32_t map = 0;
    (void)a;
    for (uint32_t k = 0; k < 8 && at + k < n; k++) map |= (uint32_t)(from[at + k] != 0) << k;
    if (at < n) ((uint8_t *)(uintptr_t)s->rans.from[depth + 1])[at / 8] = (uint8_t)map;
    t->rans.total = t->rans.own = pithi_ones32(map);
    t->rans.symbol = map;
}
PITHI_PHASE(pithi_thin_bytes, uint32_t first) {
    const uint32_t depth = s->rans.depth, at = 8 * (first + t->tid),
                   parity = first / PITHI_TEAM % 2;
    uint8_t *to = s->rans.others[depth] + s->rans.carry[parity] + pithi_coded_before(s, t);
    (void)a;
    for (uint32_t k = 0; k < 8; k++)
        if (t->rans.symbol >> k & 1) *to++ = s->rans.from[depth][at + k];
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}
PITHI_PHASE(pithi_thin_deeper, uint32_t plane) {
    (void)a, (void)plane;
    if (t->tid == 0) s->rans.depth++;
}

/* By one thread: a string. */
PITHI_DEVICE void pithi_piece_describe(const struct pithi_gpu_call *a,
                                       const struct pithi_gpu_shared *s, uint64_t block,
                                       uint32_t string, const uint8_t *from, uint32_t n) {
    struct pithi_rans_piece *const piece = pithi_coding_piece(a, s->to.index, block, string);
    piece->from = (uint64_t)(from - pithi_coding_of(a, s->to.index));
    piece->n = piece->packed = n;
    piece->nested = 0;
    piece->bits = 8;
    piece->codes = false;
    piece->length = 0;
}

/* The strings of a plane: the innermost map, or all of it; from the inside out what is not 0. */
PITHI_PHASE(pithi_spread_pieces, uint64_t block, uint32_t plane) {
    const uint32_t depth = s->rans.depth, first = plane * PITHI_PIECE_STRINGS;
    if (t->tid) return;
    pithi_piece_describe(a, s, block, first, s->rans.from[depth], s->rans.bytes[depth]);
    pithi_coding_piece(a, s->to.index, block, first)->nested = depth;
    for (uint32_t i = 1; i < PITHI_PIECE_STRINGS; i++) {
        const uint32_t level = i <= depth ? depth - i : 0;
        pithi_piece_describe(a, s, block, first + i, s->rans.others[level],
                             i <= depth ? s->rans.used[level] : 0);
    }
}
PITHI_PHASE(pithi_spread_heads, uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    for (uint32_t head = t->tid; head < g->heads; head += PITHI_TEAM) {
        const uint32_t string = g->planes * PITHI_PIECE_STRINGS + head;
        pithi_piece_describe(a, s, block, string, pithi_coding_head(a, g, s->to.index, block, head),
                             g->tokens * g->dim);
        struct pithi_rans_piece *const piece = pithi_coding_piece(a, s->to.index, block, string);
        piece->packed = g->tokens * g->string;
        piece->bits = a->to.plan.device.groups.set.bits;
        piece->codes = true;
    }
}

PITHI_DEVICE void pithi_spread_cut(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team,
                                   uint32_t plane) {
    for (;;) {
        PITHI_STEP(pithi_thin_count, plane);
        PITHI_WARP_ADD(rans.total);
        PITHI_RUN(pithi_coded_publish, plane);
        PITHI_RUN(pithi_thin_judge, plane);
        if (!s->rans.cut) return;
        const uint32_t bytes = s->rans.bytes[s->rans.depth];
        for (uint32_t first = 0; 8 * first < bytes; first += PITHI_TEAM) {
            PITHI_STEP(pithi_thin_map, first);
            PITHI_WARP_SUM(rans.total);
            PITHI_RUN(pithi_coded_publish, plane);
            PITHI_RUN(pithi_thin_bytes, first);
        }
        PITHI_RUN(pithi_thin_deeper, plane);
    }
}

/* A team a block. */
PITHI_BODY(pithi_rans_spread) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_spread_open, number);
    if (s->to.status != PITH_OK) return;
    PITHI_STEP(pithi_spread_codes, block);
    for (uint32_t plane = 0; plane < s->rans.page.planes; plane++) {
        PITHI_RUN(pithi_spread_plane, block, plane);
        pithi_spread_cut(a, s, t, team, plane);
        PITHI_RUN(pithi_spread_pieces, block, plane);
    }
    PITHI_STEP(pithi_spread_heads, block);
}

/* ---- What a block comes to -------------------------------------------------------------------*/

/* The largest bound of the thread's groups, as bits, which are in the order of the numbers; NaN is
 * above all. */
PITHI_PHASE(pithi_measure_bound, uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    const struct pithi_device_plan *const p = &a->to.plan;
    const struct pithi_group_setting *const set = &p->device.groups.set;
    const uint8_t *const page = pithi_staging_payload(a, &s->to) + g->at;
    uint64_t largest = 0;
    (void)block;
    for (uint32_t i = t->tid; i < g->groups; i += PITHI_TEAM) {
        const uint32_t at = pithi_plane_byte(p, g, 0, i);
        const uint32_t scale = pithi_scale_load(page + at, set->scale_dtype, 0);
        const uint32_t zero =
            set->asymmetric
                ? pithi_load(page + pithi_plane_byte(p, g, g->width, i), set->scale_dtype, 0)
                : 0;
        const float x = pithi_float(scale), z = pithi_float(zero);
        uint64_t bits = UINT64_C(0x7FF8000000000000);
        if (!pithi_nonfinite(scale) && !pithi_nonfinite(zero)) {
            const double one = pithi_idempotent_bound(set, x < 0 ? -(double)x : (double)x,
                                                      z < 0 ? -(double)z : (double)z);
            const uint32_t order = p->device.pages.rotated ? g->dim : 0;
            bits = pithi_bits64((one > 0 ? one : 0) + 0 + pithi_rotated_bound(set, order, x, z));
        }
        if (bits > largest) largest = bits;
    }
    s->sums[t->tid] = largest;
}
PITHI_PHASE(pithi_measure_largest, uint64_t block) {
    uint64_t largest = 0;
    if (t->tid) return;
    for (uint32_t i = 0; i < PITHI_TEAM; i++)
        if (s->sums[i] > largest) largest = s->sums[i];
    s->rans.bound = largest;
    s->rans.fault = 0;
    s->rans.carry[0] = PITHI_PAGE_BOUND;
    (void)a, (void)block;
}

PITHI_DEVICE uint32_t pithi_page_strings(const struct pithi_coded_page *g) {
    return g->planes * PITHI_PIECE_STRINGS + g->heads;
}
PITHI_PHASE(pithi_measure_length, uint64_t block, uint32_t first) {
    const uint32_t i = first + t->tid;
    t->rans.total = 0;
    if (i < pithi_page_strings(&s->rans.page))
        t->rans.total = pithi_coding_piece(a, s->to.index, block, i)->length;
    t->rans.own = t->rans.total;
}
/* Places strings as pithi_lossless_place does: the CPU does not begin one where there may be too
 * little space. */
PITHI_PHASE(pithi_measure_place, uint64_t block, uint32_t first) {
    const uint32_t i = first + t->tid, parity = first / PITHI_TEAM % 2;
    if (i < pithi_page_strings(&s->rans.page)) {
        struct pithi_rans_piece *const piece = pithi_coding_piece(a, s->to.index, block, i);
        piece->at = s->rans.carry[parity] + pithi_coded_before(s, t);
        if (piece->length && piece->at + piece->need >= s->rans.page.length)
            pithi_atomic_max32(&s->rans.fault, 1);
    }
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}
PITHI_PHASE(pithi_measure_close, uint64_t block, uint32_t strips) {
    struct pithi_rans_entry *const entry = pithi_coding_entry(a, s->to.index, block);
    const uint64_t length = s->rans.carry[strips % 2];
    if (t->tid) return;
    entry->length = !s->rans.fault && length < s->rans.page.length
                        ? (uint32_t)length
                        : s->rans.page.length | PITHI_BLOCK_PLAIN;
    entry->bound = s->rans.bound;
}

/* A team a block. */
PITHI_BODY(pithi_rans_measure) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    uint32_t strips = 0;
    PITHI_RUN(pithi_spread_open, number);
    if (s->to.status != PITH_OK) return;
    PITHI_RUN(pithi_measure_bound, block);
    PITHI_RUN(pithi_measure_largest, block);
    for (uint32_t first = 0; first < pithi_page_strings(&s->rans.page);
         first += PITHI_TEAM, strips++) {
        PITHI_STEP(pithi_measure_length, block, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, block);
        PITHI_RUN(pithi_measure_place, block, first);
    }
    PITHI_RUN(pithi_measure_close, block, strips);
}

/* ---- Bytes -----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_page_whole, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->to;
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, block);
    uint8_t *const to = it->payload + entry->at;
    if (entry->length & PITHI_BLOCK_PLAIN)
        pithi_coded_copy(t->tid, PITHI_TEAM, to, pithi_staging_payload(a, it) + s->rans.page.at,
                         s->rans.page.length);
    else if (t->tid == 0)
        pithi_put64(to, entry->bound);
}
/* The threads of a team, or of a warp, copy a string to its place: its head and its words, i of so
 * many. Returns the place behind the head, where symbols go that follow as they are. */
PITHI_DEVICE uint8_t *pithi_piece_copy(uint32_t i, uint32_t threads,
                                       const struct pithi_rans_piece *piece, const uint8_t *string,
                                       uint8_t *to) {
    for (uint32_t k = i; k < piece->nested; k += threads) to[k] = PITHI_PIECE_SPARSE;
    to += piece->nested;
    pithi_coded_copy(i, threads, to, string, piece->head);
    pithi_coded_copy(i, threads, to + piece->head,
                     string + piece->head + 2 * (uint64_t)piece->skipped,
                     2 * (uint64_t)piece->words);
    return to + piece->head;
}

/* A warp a string. */
PITHI_PHASE(pithi_page_pieces, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->to;
    const struct pithi_coded_page *const g = &s->rans.page;
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, block);
    const uint32_t lane = t->tid % PITHI_WARP;
    if (entry->length & PITHI_BLOCK_PLAIN) return;
    for (uint32_t i = t->tid / PITHI_WARP; i < pithi_page_strings(g);
         i += PITHI_TEAM / PITHI_WARP) {
        const struct pithi_rans_piece *const piece = pithi_coding_piece(a, it->index, block, i);
        const uint8_t *const string = pithi_coding_string(a, g, it->index, block, i);
        if (!piece->length) continue;
        uint8_t *const to =
            pithi_piece_copy(lane, PITHI_WARP, piece, string, it->payload + entry->at + piece->at);
        if (!piece->plain) continue;
        if (!piece->codes) {
            pithi_coded_copy(lane, PITHI_WARP, to, pithi_coding_of(a, it->index) + piece->from,
                             piece->n);
            continue;
        }
        const uint8_t *const codes = pithi_staging_payload(a, it) + g->at + g->codes +
                                     (i - g->planes * PITHI_PIECE_STRINGS) * g->string;
        for (uint32_t k = lane; k < piece->packed; k += PITHI_WARP)
            to[k] = codes[(uint64_t)(k / g->string) * g->heads * g->string + k % g->string];
    }
}

/* A team a block. */
PITHI_BODY(pithi_rans_page) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_spread_open, number);
    if (s->to.status != PITH_OK) return;
    PITHI_RUN(pithi_page_whole, block);
    PITHI_RUN(pithi_page_pieces, block);
    pithi_coded_seal(a, s, t, team, block);
}

#endif
