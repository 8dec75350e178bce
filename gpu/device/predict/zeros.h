/* zeros.h - blocks of codec act: where the workspace has their maps and numbers, and their parts of
 * a frame, read and checked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a block. A map that is sparse is told by one of its bytes that are not 0, and so on:
 * the workspace has these bitmaps one behind the other, the map being the first. Where the plan's
 * mode codes, launches before have read the map, and numbers that are coded words. */
#ifndef PITHI_GPU_DEVICE_PREDICT_ZEROS_H
#define PITHI_GPU_DEVICE_PREDICT_ZEROS_H

#include "device/predict/decode.h"
#include "predict/nonzero_value.h"

/* The head of a block, forms of numbers and of maps (doc/FORMAT.md). */
enum { PITHI_ZEROS_HEAD = 1, PITHI_ZEROS_FORM = 0x03, PITHI_ZEROS_CODED = 0x04 };
enum { PITHI_ZEROS_SIGNED, PITHI_ZEROS_POSITIVE, PITHI_ZEROS_MEDIAN };
enum { PITHI_ZEROS_PIECE, PITHI_ZEROS_ONES, PITHI_ZEROS_LANES = 3 };

/* Opens a block that is live, all of which is the team's; called by the team's first thread. */
PITHI_DEVICE void pithi_zeros_open(const struct pithi_gpu_side *side, struct pithi_gpu_block *b,
                                   struct pithi_gpu_zeros *z) {
    const struct pithi_device_plan *const p = &side->plan;
    const uint64_t skipped = b->before / 4 + PITHI_ZEROS_SLACK * b->number;
    b->parts = 1;
    b->order = 0;
    z->number = (uint32_t *)(void *)pithi_scratch_of(side, b);
    z->map = b->workspace + pithi_workspace_maps(p) + skipped;
    z->piece = z->map + pithi_workspace_pieces(p) - pithi_workspace_maps(p);
    z->used = z->bytes = z->depth = 0;
    for (uint32_t d = 0, n = (b->count + 7) / 8, at = 0; d < PITHI_ZEROS_DEPTH; d++) {
        z->n[d] = n;
        z->at[d] = at;
        z->ones[d] = z->most[d] = 0;
        z->least[d] = 255;
        at += n;
        n = (n + 7) / 8;
    }
}

/* Takes how many numbers there are, as soon as that is known; called by the team's first thread. */
PITHI_DEVICE void pithi_zeros_used(struct pithi_gpu_block *b, struct pithi_gpu_zeros *z,
                                   uint32_t used) {
    z->used = used;
    b->named = (used + PITHI_GROUP - 1) / PITHI_GROUP;
}

PITHI_PHASE(pithi_zeros_begin, uint32_t carry) {
    (void)a;
    if (t->tid == 0) s->strip.carry[0] = carry;
}

/* A byte of bitmap d + 1 for every thread of a strip: how many bytes of bitmap d it says. */
PITHI_DEVICE uint32_t pithi_zeros_strips(uint32_t n) { return (n + PITHI_TEAM - 1) / PITHI_TEAM; }
PITHI_LOCAL(pithi_zeros_bits, uint32_t d, uint32_t strip) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const uint32_t i = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = i < z->n[d + 1] ? pithi_ones32(z->map[z->at[d + 1] + i]) : 0;
}

/* Whether the bits of the last byte of a bitmap that are past its n bits are 0. */
PITHI_DEVICE bool pithi_zeros_tail(const uint8_t *bitmap, uint32_t n) {
    return n % 8 == 0 || bitmap[n / 8] >> n % 8 == 0;
}

/* ---- Parts of a frame ------------------------------------------------------------------------*/

/* Parses a block as pithi_block_parse does, up to the map. */
PITHI_DEVICE uint32_t pithi_zeros_parse(struct pithi_gpu_block *b, struct pithi_gpu_zeros *z,
                                        uint32_t width) {
    if (b->plain) return b->length == b->count * width ? PITHI_SOUND : PITHI_DAMAGED;
    b->method = PITHI_EB_CODED; /* until it is known that words are packed */
    if (b->length < PITHI_ZEROS_HEAD) return PITHI_DAMAGED;
    z->form = b->bytes[0];
    if (z->form & ~(uint32_t)(PITHI_ZEROS_FORM | PITHI_ZEROS_CODED)) return PITHI_DAMAGED;
    if ((z->form & PITHI_ZEROS_FORM) > PITHI_ZEROS_MEDIAN) return PITHI_DAMAGED;
    return pithi_exact_parse(b, PITHI_ZEROS_HEAD, width) ? PITHI_SOUND : PITHI_DAMAGED;
}

PITHI_PHASE(pithi_zeros_locate, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    if (t->tid || !pithi_block_find(a, s, number)) return;
    pithi_zeros_open(&a->from, b, &s->strip.zeros);
    s->strip.fault = pithi_zeros_parse(b, &s->strip.zeros, pithi_dtype_bytes(a->from.plan.dtype));
    b->legible = s->strip.fault == PITHI_SOUND && !b->plain;
}

/* By the team's first thread: the next byte of the body; 255, and a fault, where there is none. */
PITHI_DEVICE uint32_t pithi_zeros_byte(struct pithi_gpu_shared *s) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    if (z->bytes < b->body_bytes) return b->body[z->bytes++];
    s->strip.fault = PITHI_DAMAGED;
    return 255;
}

/* By the team's first thread: a piece of n bytes that is not sparse, of this kind; whether it can
 * be read. */
PITHI_DEVICE bool pithi_zeros_simple(struct pithi_gpu_shared *s, uint32_t kind, uint32_t n) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    z->from = NULL;
    if (s->strip.fault != PITHI_SOUND) return false;
    if (kind == PITHI_PIECE_CONSTANT) {
        z->fill = pithi_zeros_byte(s);
    } else if (kind == PITHI_PIECE_PLAIN && n <= b->body_bytes - z->bytes) {
        z->from = b->body + z->bytes;
        z->bytes += n;
    } else {
        s->strip.fault =
            kind != PITHI_PIECE_PLAIN && kind <= PITHI_PIECE_RANS ? PITHI_UNKNOWN : PITHI_DAMAGED;
    }
    return s->strip.fault == PITHI_SOUND;
}
PITHI_DEVICE uint8_t pithi_zeros_from(const struct pithi_gpu_zeros *z, uint64_t i) {
    return z->from ? z->from[i] : (uint8_t)z->fill;
}

/* ---- The map ---------------------------------------------------------------------------------*/

/* The map's form, and the innermost bitmap. Who looks at step k of `go` writes none of it. */
PITHI_PHASE(pithi_zeros_enter, uint32_t unused) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    (void)a, (void)unused;
    if (t->tid) return;
    z->go[PITHI_ZEROS_DEPTH] = false;
    if (s->strip.fault != PITHI_SOUND) return;
    const uint32_t form = pithi_zeros_byte(s);
    if (form == PITHI_ZEROS_ONES) {
        z->from = NULL;
        z->fill = 255;
        z->go[PITHI_ZEROS_DEPTH] = true;
    } else if (form == PITHI_ZEROS_PIECE) {
        uint32_t kind = pithi_zeros_byte(s);
        for (; kind == PITHI_PIECE_SPARSE; kind = pithi_zeros_byte(s)) {
            if (z->n[z->depth] < PITHI_PIECE_SPARSE_MIN) kind = 255;
            if (kind == 255) break;
            z->depth++;
        }
        z->go[PITHI_ZEROS_DEPTH] = pithi_zeros_simple(s, kind, z->n[z->depth]);
    } else {
        s->strip.fault = form <= PITHI_ZEROS_LANES ? PITHI_UNKNOWN : PITHI_DAMAGED;
    }
}

PITHI_PHASE(pithi_zeros_innermost, uint32_t depth) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const bool cut = !depth && !z->from && z->fill == 255 && b->body[0] == PITHI_ZEROS_ONES;
    (void)a;
    for (uint32_t i = t->tid; i < z->n[depth]; i += PITHI_TEAM) {
        const bool last = cut && i == b->count / 8;
        z->map[z->at[depth] + i] =
            last ? (uint8_t)((1u << b->count % 8) - 1) : pithi_zeros_from(z, i);
    }
}

/* How many bytes of bitmap d bitmap d + 1 says. */
PITHI_PHASE(pithi_zeros_total, uint32_t d) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    uint32_t ones = 0;
    (void)a;
    for (uint32_t i = t->tid; i < z->n[d + 1]; i += PITHI_TEAM)
        ones += pithi_ones32(z->map[z->at[d + 1] + i]);
    if (ones) pithi_atomic_add32(&z->ones[d], ones);
}

PITHI_PHASE(pithi_zeros_next, uint32_t d) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    (void)a;
    if (t->tid) return;
    if (!z->ones[d] || !pithi_zeros_tail(z->map + z->at[d + 1], z->n[d]))
        s->strip.fault = PITHI_DAMAGED;
    const uint32_t kind = s->strip.fault == PITHI_SOUND ? pithi_zeros_byte(s) : 255;
    z->go[d] = kind != PITHI_PIECE_SPARSE && pithi_zeros_simple(s, kind, z->ones[d]);
    if (kind == PITHI_PIECE_SPARSE) s->strip.fault = PITHI_DAMAGED;
    s->strip.carry[0] = 0;
}

/* The bytes of bitmap d, eight a thread. */
PITHI_PHASE(pithi_zeros_scatter, uint32_t d, uint32_t strip) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const uint32_t i = strip * PITHI_TEAM + t->tid;
    uint64_t rank = pithi_scan_carry(s, t->tid, strip);
    (void)a;
    if (i >= z->n[d + 1]) return;
    const uint32_t bits = z->map[z->at[d + 1] + i];
    for (uint32_t k = 0; k < 8 && 8 * i + k < z->n[d]; k++)
        z->map[z->at[d] + 8 * i + k] = bits >> k & 1 ? pithi_zeros_from(z, rank++) : 0;
}

/* Part of a body: reads bitmaps from the innermost on; whether the map is there. */
PITHI_DEVICE bool pithi_zeros_read(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                   struct pithi_gpu_thread *t, struct pithi_team *team) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    PITHI_RUN(pithi_zeros_enter, 0);
    if (!z->go[PITHI_ZEROS_DEPTH]) return false;
    PITHI_RUN(pithi_zeros_innermost, z->depth);
    for (uint32_t d = z->depth; d--;) {
        PITHI_RUN(pithi_zeros_total, d);
        PITHI_RUN(pithi_zeros_next, d);
        if (!z->go[d]) return false;
        for (uint32_t strip = 0; strip < pithi_zeros_strips(z->n[d + 1]); strip++) {
            PITHI_STEP(pithi_zeros_bits, d, strip);
            PITHI_SCAN(0);
            PITHI_RUN(pithi_zeros_scatter, d, strip);
        }
    }
    return true;
}

/* Ones of the map, in the count of what is innermost of all, which no bitmap has. */
PITHI_PHASE(pithi_zeros_sum, uint32_t unused) {
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    uint32_t ones = 0;
    (void)a, (void)unused;
    for (uint32_t i = t->tid; i < z->n[0]; i += PITHI_TEAM) ones += pithi_ones32(z->map[i]);
    if (ones) pithi_atomic_add32(&z->ones[PITHI_ZEROS_DEPTH - 1], ones);
}

/* What follows the map; launches behind this one find its length, and the ones, in the entry. */
PITHI_PHASE(pithi_zeros_body, uint32_t unused) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    (void)unused;
    if (t->tid) return;
    pithi_zeros_used(b, z, z->ones[PITHI_ZEROS_DEPTH - 1]);
    entry->bounded.map = z->bytes;
    entry->bounded.distinct = z->used;
    b->body += z->bytes;
    b->body_bytes -= z->bytes;
    const bool coded = z->form & PITHI_ZEROS_CODED;
    if (!pithi_zeros_tail(z->map, b->count) || (!z->used && b->body_bytes)) {
        s->strip.fault = PITHI_DAMAGED;
    } else if (z->used && z->form > PITHI_ZEROS_POSITIVE && !a->from.plan.device.coded) {
        s->strip.fault = PITHI_UNKNOWN;
    } else if (z->used && !coded) {
        b->method = PITHI_EB_PACKED;
        if (!pithi_strip_legal(b)) s->strip.fault = PITHI_DAMAGED;
    }
    z->go[PITHI_ZEROS_DEPTH + 1] = z->used && !coded && s->strip.fault == PITHI_SOUND;
}

/* Loads what launches before have found of the map. */
PITHI_PHASE(pithi_zeros_known_map, uint32_t unused) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    (void)a, (void)unused;
    if (t->tid) return;
    z->go[PITHI_ZEROS_DEPTH] = b->legible && entry->bounded.kind;
    if (!z->go[PITHI_ZEROS_DEPTH]) return;
    z->bytes = entry->bounded.map;
    z->ones[PITHI_ZEROS_DEPTH - 1] = entry->bounded.distinct;
}
/* Part of a body: the map, and how many ones it has; whether it is there. */
PITHI_DEVICE bool pithi_zeros_find_map(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                       struct pithi_gpu_thread *t, struct pithi_team *team) {
    if (a->from.plan.device.coded) {
        PITHI_RUN(pithi_zeros_known_map, 0);
        return s->strip.zeros.go[PITHI_ZEROS_DEPTH];
    }
    if (!s->strip.block.legible || !pithi_zeros_read(a, s, t, team)) return false;
    PITHI_RUN(pithi_zeros_sum, 0);
    return true;
}

PITHI_BODY(pithi_zeros_judge) {
    PITHI_RUN(pithi_zeros_locate, number);
    if (!s->strip.block.live) return;
    pithi_block_judge(a, s, t, team, number);
    if (!s->strip.touched) return;
    if (pithi_zeros_find_map(a, s, t, team)) {
        PITHI_RUN(pithi_zeros_body, 0);
        if (s->strip.zeros.go[PITHI_ZEROS_DEPTH + 1]) pithi_words_judge(a, s, t, team);
    }
    PITHI_RUN(pithi_block_answer, number);
}

/* ---- Values ----------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_zeros_find, uint64_t number) {
    struct pithi_gpu_block *const b = &s->strip.block;
    struct pithi_gpu_zeros *const z = &s->strip.zeros;
    pithi_zeros_locate(a, s, t, number);
    if (t->tid || !b->live || !b->legible) return;
    const struct pithi_gpu_entry *const entry = pithi_entry(b->workspace, b->number);
    b->body += entry->bounded.map;
    b->body_bytes -= entry->bounded.map;
    pithi_zeros_used(b, z, entry->bounded.distinct);
    if (z->form & PITHI_ZEROS_CODED) b->named = 0;
}

/* The code of a number, but of form MEDIAN, where neighbours are not known yet. */
PITHI_DEVICE uint32_t pithi_zeros_code_of(const struct pithi_gpu_zeros *z, uint32_t n) {
    const uint32_t form = z->form & PITHI_ZEROS_FORM;
    return form == PITHI_ZEROS_MEDIAN ? n : pithi_nonzero_code(form == PITHI_ZEROS_POSITIVE, n);
}
/* Codes of the strip's groups, unpacked before. */
PITHI_PHASE(pithi_zeros_codes, uint32_t strip) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const uint32_t first = (strip * PITHI_TEAM + t->tid) * PITHI_GROUP;
    (void)a;
    for (uint32_t k = 0; k < PITHI_GROUP && first + k < z->used; k++)
        z->number[first + k] = pithi_zeros_code_of(z, s->strip.word[k][t->tid]);
}
/* Makes codes of numbers that were entropy-coded words. */
PITHI_PHASE(pithi_zeros_codes_coded, uint32_t used) {
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    (void)a;
    for (uint32_t i = t->tid; i < used; i += PITHI_TEAM)
        z->number[i] = pithi_zeros_code_of(z, z->number[i]);
}

PITHI_LOCAL(pithi_zeros_ones, uint32_t strip) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    (void)a;
    t->predict.total = g < b->groups ? pithi_ones32(pithi_map_bits(b, s->strip.zeros.map, g)) : 0;
}

/* Values of a strip; or its codes, of form MEDIAN less what is expected of them. */
PITHI_PHASE(pithi_zeros_values, uint32_t strip, bool expected) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    const uint32_t g = strip * PITHI_TEAM + t->tid;
    uint64_t rank = pithi_scan_carry(s, t->tid, strip);
    if (g >= b->groups) return;
    const uint32_t bits = pithi_map_bits(b, z->map, g);
    for (uint32_t k = 0; k < pithi_group_count(b, g); k++) {
        const uint32_t i = g * PITHI_GROUP + k, code = bits >> k & 1 ? z->number[rank++] : 0;
        if (expected)
            pithi_put_aligned32(pithi_codes_of(&a->from, b) + 4 * (uint64_t)i, code);
        else
            pithi_value_make(a, &s->from, b, i, b->before + i, pithi_own_value(&b->quant, code));
    }
}

/* Makes codes of form MEDIAN of rows from number `first` on, some codes of a row in each step: a
 * thread has a row, and the thread before it the row above, in which it is so many codes
 * further. */
enum { PITHI_ZEROS_LAG = 32 };
PITHI_PHASE(pithi_zeros_expect, uint32_t first, uint32_t step) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint8_t *const map = s->strip.zeros.map;
    const uint32_t width = pithi_tile_extent(&b->tile, 3), row = first + t->tid;
    const uint64_t begin = (uint64_t)(step - t->tid) * PITHI_ZEROS_LAG;
    if (row >= b->count / width || step < t->tid || begin >= width) return;
    const bool above = row % pithi_tile_extent(&b->tile, 2) != 0;
    uint8_t *const codes = pithi_codes_of(&a->from, b) + 4 * (uint64_t)row * width;
    const uint8_t *const up = codes - 4 * (uint64_t)width;
    const uint32_t end =
        width - begin < PITHI_ZEROS_LAG ? width : (uint32_t)begin + PITHI_ZEROS_LAG;
    uint32_t left = 0, corner = 0;
    if (begin) left = pithi_get_aligned32(codes + 4 * (begin - 1));
    if (begin && above) corner = pithi_get_aligned32(up + 4 * (begin - 1));
    for (uint32_t x = (uint32_t)begin; x < end; x++) {
        const uint32_t i = row * width + x;
        const uint32_t over = above ? pithi_get_aligned32(up + 4 * (uint64_t)x) : 0;
        uint32_t code = 0;
        if (map[i / 8] >> i % 8 & 1) {
            code = pithi_get_aligned32(codes + 4 * (uint64_t)x) +
                   pithi_nonzero_expected((int32_t)left, (int32_t)over, (int32_t)corner);
            pithi_put_aligned32(codes + 4 * (uint64_t)x, code);
        }
        left = code;
        corner = over;
    }
}
/* Part of a body. */
PITHI_DEVICE void pithi_zeros_median(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t number) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const uint32_t width = pithi_tile_extent(&b->tile, 3), rows = b->count / width;
    for (uint32_t first = 0; first < rows; first += PITHI_TEAM) {
        const uint32_t after = rows - first < PITHI_TEAM ? rows - first : (uint32_t)PITHI_TEAM;
        const uint32_t steps = (width + PITHI_ZEROS_LAG - 1) / PITHI_ZEROS_LAG + after - 1;
        for (uint32_t step = 0; step < steps; step++) PITHI_RUN(pithi_zeros_expect, first, step);
    }
    PITHI_RUN(pithi_codes_read, number);
}

PITHI_BODY(pithi_zeros_decode) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    const struct pithi_gpu_zeros *const z = &s->strip.zeros;
    PITHI_RUN(pithi_zeros_find, number);
    if (!pithi_block_wanted(a, s, t, team, number, true)) return;
    if (b->plain) {
        PITHI_RUN(pithi_plain_read, pithi_dtype_bytes(a->from.plan.dtype));
        return;
    }
    if (b->named) {
        pithi_strips_begin(a, s, t, team, 0, false);
        for (uint32_t strip = 0; strip < pithi_zeros_strips(b->named); strip++) {
            pithi_strip_open(a, s, t, team, strip, false);
            PITHI_RUN(pithi_zeros_codes, strip);
        }
    }
    if (z->form & PITHI_ZEROS_CODED) PITHI_RUN(pithi_zeros_codes_coded, z->used);
    const bool median = (z->form & PITHI_ZEROS_FORM) == PITHI_ZEROS_MEDIAN;
    PITHI_RUN(pithi_zeros_begin, 0);
    for (uint32_t strip = 0; strip < pithi_zeros_strips(b->groups); strip++) {
        PITHI_STEP(pithi_zeros_ones, strip);
        PITHI_SCAN(0);
        PITHI_RUN(pithi_zeros_values, strip, median);
    }
    if (median) pithi_zeros_median(a, s, t, team, number);
    pithi_exact_read(a, s, t, team, number);
}

#endif
