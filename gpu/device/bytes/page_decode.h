/* page_decode.h - blocks of entropy-coded pages to pages of fixed rate.
 * SPDX-License-Identifier: Apache-2.0
 *
 * How long a part of a plane is may depend on the one before, so that a team takes the planes of
 * its block one after the other; then it knows where the strings of heads begin. */
#ifndef PITHI_GPU_DEVICE_BYTES_PAGE_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_PAGE_DECODE_H

#include "device/bytes/decode.h"

/* ---- A block ---------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_planes_open, uint64_t number) {
    struct pithi_gpu_item *const it = &s->from;
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    if (t->tid) return;
    bool live = pithi_reader_find(a, it, number / a->chunks) && block < it->slot->blocks;
    if (live) s->rans.page = pithi_coded_page(&a->from.plan, it, block);
    s->rans.live = live && pithi_coded_touches(a, s->rans.page.first, s->rans.page.count);
    s->rans.plain = s->rans.exact = s->rans.foreign = s->rans.former = false;
    s->rans.fault = 0;
    for (uint32_t i = 0; i < PITHI_RANS_READERS; i++) s->rans.string[i].live = false;
}

/* What is known without looking inside; no head has a string yet. */
PITHI_PHASE(pithi_planes_begin, uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    const struct pithi_gpu_item *const it = &s->from;
    for (uint32_t head = t->tid; head < g->heads; head += PITHI_TEAM)
        pithi_coding_piece(a, it->index, block, g->planes * PITHI_PIECE_STRINGS + head)->length = 0;
    if (t->tid) return;
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, it->index, block);
    const uint32_t length = entry->length & ~PITHI_BLOCK_PLAIN;
    s->rans.plain = entry->length & PITHI_BLOCK_PLAIN;
    s->rans.at = it->payload + entry->at;
    s->rans.left = length;
    if (s->rans.plain || length < PITHI_PAGE_BOUND || length == g->length) {
        s->rans.fault = !s->rans.plain || length != g->length;
        return;
    }
    const uint64_t sign = UINT64_C(1) << 63, bound = pithi_get64(s->rans.at);
    s->rans.fault = bound > sign && bound <= (sign | UINT64_C(0x7FF0000000000000));
    s->rans.at += PITHI_PAGE_BOUND;
    s->rans.left -= PITHI_PAGE_BOUND;
}

PITHI_LOCAL(pithi_planes_hash, uint64_t block) {
    const struct pithi_rans_entry *const entry = pithi_coding_entry(a, s->from.index, block);
    t->rans.total = pithi_hash_part(s->from.payload + entry->at, 0,
                                    entry->length & ~PITHI_BLOCK_PLAIN, t->tid, PITHI_TEAM);
}
PITHI_PHASE(pithi_planes_compare, uint64_t block) {
    const struct pithi_gpu_item *const it = &s->from;
    if (t->tid) return;
    const uint64_t length = pithi_coding_entry(a, it->index, block)->length & ~PITHI_BLOCK_PLAIN;
    if (pithi_get64(it->payload + it->form->checks + 8 * block) !=
        pithi_nh_finish(pithi_coded_all(s), length, PITHI_CHECK_TAG + block))
        pithi_atomic_max32(&a->checked[it->index].failed, PITHI_FAILED_CHECKSUM);
}

/* Part of a body: the checksum of a block, in a frame that has them. */
PITHI_DEVICE void pithi_planes_check(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t block) {
    if (!a->from.plan.checksums) return;
    PITHI_STEP(pithi_planes_hash, block);
    PITHI_WARP_ADD(rans.total);
    PITHI_RUN(pithi_coded_publish, block);
    PITHI_RUN(pithi_planes_compare, block);
}

PITHI_PHASE(pithi_planes_copy, uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    (void)block;
    pithi_coded_copy(t->tid, PITHI_TEAM, pithi_staging_payload(a, &s->from) + g->at, s->rans.at,
                     g->length);
}

/* ---- A plane ---------------------------------------------------------------------------------*/

/* By the team's first thread: the next n bytes of the block; NULL where there are not so many. */
PITHI_DEVICE const uint8_t *pithi_planes_take(struct pithi_gpu_shared *s, uint32_t n) {
    const uint8_t *const at = s->rans.at;
    if (n > s->rans.left) return NULL;
    s->rans.at += n;
    s->rans.left -= n;
    return at;
}

/* By the team's first thread: how often n bytes for `to` were cut, and where what they consist of
 * goes: themselves, maps, and what is not 0. Returns the place behind. */
PITHI_DEVICE uint8_t *pithi_piece_open(struct pithi_gpu_shared *s, uint8_t *to, uint32_t n) {
    uint32_t depth = 0;
    const uint8_t *kind = pithi_planes_take(s, 1);
    s->rans.others[0] = to;
    s->rans.bytes[0] = n;
    for (to += n; kind && *kind == PITHI_PIECE_SPARSE; kind = pithi_planes_take(s, 1)) {
        if (n < PITHI_PIECE_SPARSE_MIN) {
            kind = NULL;
            break;
        }
        n = (n + 7) / 8;
        s->rans.others[++depth] = to;
        s->rans.bytes[depth] = n;
        to += n;
    }
    s->rans.depth = depth;
    s->rans.kind = kind ? *kind : 0;
    if (!kind) s->rans.fault = 1;
    return to;
}
PITHI_PHASE(pithi_plane_open, uint64_t block, uint32_t plane) {
    const struct pithi_coded_page *const g = &s->rans.page;
    if (t->tid) return;
    uint8_t *const to = pithi_coding_plane(a, g, s->from.index, block, plane);
    s->rans.nonzero = pithi_piece_open(s, to, g->groups);
}

/* By the team's first thread: the string of n bytes behind a kind. */
PITHI_DEVICE bool pithi_plane_string(struct pithi_gpu_shared *s, uint32_t n, uint8_t *to) {
    struct pithi_rans_string *const r = &s->rans.string[0];
    const uint32_t kind = s->rans.kind;
    r->codes = to;
    r->n = r->packed = n;
    r->bits = r->range = 8;
    r->live = r->runs = false;
    s->rans.batches = s->rans.steps = 0;
    s->rans.copied = NULL;
    s->rans.step = 0;
    if (kind == PITHI_CODES_PACKED || kind == PITHI_CODES_CONSTANT) {
        s->rans.step = kind == PITHI_CODES_PACKED;
        s->rans.copied = pithi_planes_take(s, s->rans.step ? n : 1);
        return s->rans.copied != NULL;
    }
    const bool foreign = kind == PITHI_PIECE_ZSTD && s->rans.exact;
    const bool known = foreign || (kind == PITHI_CODES_RANS && !s->rans.former);
    const uint8_t *const size = known ? pithi_planes_take(s, 3) : NULL;
    if (!size) return false;
    r->length = PITHI_CODES_HEAD + (size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16);
    if (!pithi_planes_take(s, r->length - PITHI_CODES_HEAD)) return false;
    s->rans.foreign = foreign;
    if (foreign) return false;
    r->coded = (uint8_t *)(uintptr_t)size - 1;
    if (!pithi_reader_parse(r, &s->rans.reader[0]) || !r->runs) return false;
    pithi_reader_tables(r, &s->rans.reader[0]);
    r->live = true;
    s->rans.batches = (r->n + PITHI_RANS_BATCH - 1) / PITHI_RANS_BATCH;
    s->rans.steps = PITHI_RANS_BATCH / pithi_rans_lanes(r->log2_states);
    return true;
}

/* Ones of the map of a level. */
PITHI_LOCAL(pithi_plane_ones, uint32_t level) {
    const uint8_t *const map = s->rans.others[level + 1];
    (void)a;
    t->rans.total = 0;
    for (uint32_t i = t->tid; i < s->rans.bytes[level + 1]; i += PITHI_TEAM)
        t->rans.total += pithi_ones32(map[i]);
}
/* What is next: the innermost part, or the bytes of a level that are not 0. */
PITHI_PHASE(pithi_plane_next, uint32_t level) {
    const uint32_t n = s->rans.bytes[level];
    (void)a;
    if (t->tid) return;
    if (level == s->rans.depth) {
        if (!pithi_plane_string(s, n, s->rans.others[level])) s->rans.fault = 1;
        return;
    }
    const uint8_t *const map = s->rans.others[level + 1];
    const uint32_t ones = (uint32_t)pithi_coded_all(s);
    const uint8_t *const kind = pithi_planes_take(s, 1);
    s->rans.fault = !kind || ones == 0 || ones > n || (n % 8 && map[n / 8] >> n % 8);
    s->rans.carry[0] = 0;
    if (s->rans.fault) return;
    s->rans.kind = *kind;
    if (!pithi_plane_string(s, ones, s->rans.nonzero)) s->rans.fault = 1;
}

/* What is no string of states: so many bytes, or one that is repeated. */
PITHI_PHASE(pithi_plane_copy, uint32_t level) {
    const struct pithi_rans_string *const r = &s->rans.string[0];
    (void)a, (void)level;
    if (s->rans.copied && s->rans.step)
        pithi_coded_copy(t->tid, PITHI_TEAM, r->codes, s->rans.copied, r->n);
    for (uint32_t i = t->tid; s->rans.copied && !s->rans.step && i < r->n; i += PITHI_TEAM)
        r->codes[i] = *s->rans.copied;
}

/* Eight bytes of a level each, by the map's bytes from number `first` on. */
PITHI_PHASE(pithi_plane_map, uint32_t level, uint32_t first) {
    const uint32_t i = first + t->tid;
    (void)a;
    t->rans.symbol = i < s->rans.bytes[level + 1] ? s->rans.others[level + 1][i] : 0;
    t->rans.total = t->rans.own = pithi_ones32(t->rans.symbol);
}
PITHI_PHASE(pithi_plane_scatter, uint32_t level, uint32_t first) {
    const uint32_t at = 8 * (first + t->tid), n = s->rans.bytes[level];
    const uint32_t parity = first / PITHI_TEAM % 2;
    const uint8_t *from = s->rans.nonzero + s->rans.carry[parity] + pithi_coded_before(s, t);
    (void)a;
    for (uint32_t k = 0; k < 8 && at + k < n; k++)
        s->rans.others[level][at + k] = t->rans.symbol >> k & 1 ? *from++ : 0;
    if (t->tid == 0) s->rans.carry[!parity] = s->rans.carry[parity] + pithi_coded_all(s);
}

PITHI_PHASE(pithi_plane_put, uint64_t block, uint32_t plane) {
    const struct pithi_coded_page *const g = &s->rans.page;
    uint8_t *const page = pithi_staging_payload(a, &s->from) + g->at;
    (void)block;
    for (uint32_t i = t->tid; i < g->groups; i += PITHI_TEAM)
        page[pithi_plane_byte(&a->from.plan, g, plane, i)] = s->rans.others[0][i];
}

PITHI_DEVICE void pithi_plane_level(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint32_t level) {
    if (level < s->rans.depth) {
        PITHI_STEP(pithi_plane_ones, level);
        PITHI_WARP_ADD(rans.total);
        PITHI_RUN(pithi_coded_publish, level);
    }
    PITHI_RUN(pithi_reader_clear, 0);
    PITHI_RUN(pithi_plane_next, level);
    if (s->rans.fault) return;
    PITHI_STEP(pithi_plane_copy, level);
    pithi_reader_strings(a, s, t, team);
    if (level == s->rans.depth) return;
    for (uint32_t first = 0; first < s->rans.bytes[level + 1]; first += PITHI_TEAM) {
        PITHI_STEP(pithi_plane_map, level, first);
        PITHI_WARP_SUM(rans.total);
        PITHI_RUN(pithi_coded_publish, level);
        PITHI_RUN(pithi_plane_scatter, level, first);
    }
}

/* Part of a body: the numbers of all groups. */
PITHI_DEVICE void pithi_planes_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                    struct pithi_gpu_thread *t, struct pithi_team *team,
                                    uint64_t block) {
    for (uint32_t plane = 0; plane < s->rans.page.planes; plane++) {
        PITHI_RUN(pithi_plane_open, block, plane);
        for (uint32_t level = s->rans.depth + 1; level-- > 0 && !s->rans.fault;)
            pithi_plane_level(a, s, t, team, level);
        if (s->rans.fault) return;
        PITHI_RUN(pithi_plane_put, block, plane);
    }
}

/* ---- Heads -----------------------------------------------------------------------------------*/

/* Where the codes of each head begin; they end with the block. */
PITHI_DEVICE bool pithi_heads_find(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    const struct pithi_gpu_item *const it = &s->from;
    const uint8_t *const bytes = it->payload + pithi_coding_entry(a, it->index, block)->at;
    for (uint32_t head = 0; head < g->heads; head++) {
        struct pithi_rans_piece *const piece =
            pithi_coding_piece(a, it->index, block, g->planes * PITHI_PIECE_STRINGS + head);
        const uint8_t *const at = s->rans.at;
        uint32_t length = 0;
        if (!s->rans.left) return false;
        if (*at == PITHI_CODES_PACKED) length = PITHI_CODES_KIND + g->tokens * g->string;
        if (*at == PITHI_CODES_CONSTANT) length = PITHI_CODES_KIND + 1;
        if (*at == PITHI_CODES_RANS && s->rans.left >= PITHI_CODES_HEAD)
            length = PITHI_CODES_HEAD + (pithi_get32(at) >> 8);
        if (!length || !pithi_planes_take(s, length)) return false;
        piece->at = (uint64_t)(at - bytes);
        piece->length = length;
    }
    return s->rans.left == 0;
}
PITHI_PHASE(pithi_planes_heads, uint64_t block) {
    if (t->tid == 0 && !pithi_heads_find(a, s, block)) s->rans.fault = 1;
}
PITHI_LOCAL(pithi_planes_close, uint64_t block) {
    (void)block;
    if (t->tid == 0 && s->rans.fault) pithi_reader_damaged(a, s);
}

/* A team a block. */
PITHI_BODY(pithi_rans_planes) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_planes_open, number);
    if (!s->rans.live) return;
    PITHI_RUN(pithi_planes_begin, block);
    pithi_planes_check(a, s, t, team, block);
    const bool sound = !s->rans.fault, plain = s->rans.plain;
    PITHI_MEET(); /* all have looked */
    if (sound && plain) PITHI_STEP(pithi_planes_copy, block);
    if (sound && !plain) {
        pithi_planes_read(a, s, t, team, block);
        const bool read = !s->rans.fault;
        PITHI_MEET();
        if (read) PITHI_RUN(pithi_planes_heads, block);
    }
    PITHI_STEP(pithi_planes_close, block);
}

/* ---- Codes -----------------------------------------------------------------------------------*/

/* Packed, of all heads whose codes were found. */
PITHI_PHASE(pithi_join_codes, uint64_t block) {
    const struct pithi_coded_page *const g = &s->rans.page;
    const struct pithi_gpu_item *const it = &s->from;
    const uint8_t *const bytes = it->payload + pithi_coding_entry(a, it->index, block)->at;
    uint8_t *const codes = pithi_staging_payload(a, it) + g->at + g->codes;
    const uint32_t bits = a->from.plan.device.groups.set.bits, mask = (1u << bits) - 1;
    const uint32_t along = (g->dim + PITHI_UNIT - 1) / PITHI_UNIT;
    for (uint32_t i = t->tid; i < g->tokens * g->heads * along; i += PITHI_TEAM) {
        const uint32_t before = i / along, unit = i % along;
        const uint32_t token = before / g->heads, head = before % g->heads;
        const uint32_t n = pithi_unit_left((uint64_t)unit * PITHI_UNIT, g->dim);
        const struct pithi_rans_piece *const piece =
            pithi_coding_piece(a, it->index, block, g->planes * PITHI_PIECE_STRINGS + head);
        if (!piece->length) continue;
        const uint8_t *const string = bytes + piece->at;
        const uint8_t *const symbols = pithi_coding_head(a, g, it->index, block, head) +
                                       (uint64_t)token * g->dim + unit * PITHI_UNIT;
        const uint32_t kind = *string;
        uint64_t word = 0;
        if (kind == PITHI_CODES_PACKED) {
            word = pithi_unit_get_codes(
                string + PITHI_CODES_KIND + (uint64_t)token * g->string + unit * bits, bits, n);
        } else {
            for (uint32_t k = 0; k < n; k++)
                word |= (uint64_t)((kind == PITHI_CODES_RANS ? symbols[k] : string[1]) & mask)
                        << k * bits;
        }
        pithi_unit_put_codes(codes + (uint64_t)before * g->string + unit * bits, bits, n, word);
    }
}

/* A team a block. */
PITHI_BODY(pithi_rans_join) {
    const uint64_t block = (uint32_t)number % (uint32_t)a->chunks;
    PITHI_RUN(pithi_planes_open, number);
    if (!s->rans.live || pithi_coding_entry(a, s->from.index, block)->length & PITHI_BLOCK_PLAIN)
        return;
    PITHI_STEP(pithi_join_codes, block);
}

#endif
