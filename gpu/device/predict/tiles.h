/* tiles.h - what kernels of codecs with a bound have in common: a team's tile, its elements, its
 * place in the workspace, and sums over the team.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team has a tile or a part of one, a thread at a time a group of 16 of its elements. */
#ifndef PITHI_GPU_DEVICE_PREDICT_TILES_H
#define PITHI_GPU_DEVICE_PREDICT_TILES_H

#include "device/blocks.h"
#include "device/predict/workspace.h"
#include "predict/lorenzo.h"

enum { PITHI_GROUP = PITHI_BITPLANE_GROUP };
/* How a block of eb is coded that these kernels read and write. */
enum {
    PITHI_EB_CONSTANT,
    PITHI_EB_PACKED,
    PITHI_EB_CODED,
    PITHI_EB_INTERPOLATED,
    PITHI_EB_WEIGHTED
};
enum { PITHI_EB_HEAD = 2, PITHI_EB_CODE = 4, PITHI_EXACT_COUNT = 4 };
#define PITHI_INDEX_PLAIN 0x80000000u

/* ---- Workspace -------------------------------------------------------------------------------*/

PITHI_DEVICE struct pithi_gpu_mark *pithi_mark(const struct pithi_gpu_call *a, uint64_t frame) {
    return (struct pithi_gpu_mark *)(void *)(a->predict.workspace + frame * PITHI_MARK_BYTES);
}
PITHI_DEVICE uint8_t *pithi_frame_workspace(const struct pithi_gpu_call *a,
                                            const struct pithi_gpu_side *side, uint64_t frame) {
    return a->predict.workspace + side->items.count * a->per_item * PITHI_MARK_BYTES +
           frame * pithi_workspace_bytes(&side->plan);
}
PITHI_DEVICE struct pithi_gpu_entry *pithi_entry(uint8_t *workspace, uint64_t block) {
    return (struct pithi_gpu_entry *)(void *)workspace + block;
}
PITHI_DEVICE uint8_t *pithi_codes_of(const struct pithi_gpu_side *side,
                                     const struct pithi_gpu_block *b) {
    return b->workspace + pithi_workspace_codes(&side->plan) + 4 * b->before;
}
/* As many again, of codecs that have a use for them. */
PITHI_DEVICE uint8_t *pithi_scratch_of(const struct pithi_gpu_side *side,
                                       const struct pithi_gpu_block *b) {
    return b->workspace + pithi_workspace_scratch(&side->plan) + 4 * b->before;
}
/* Tiles that share a byte of elements have a byte each. */
PITHI_DEVICE uint8_t *pithi_misses_of(const struct pithi_gpu_side *side,
                                      const struct pithi_gpu_block *b) {
    return b->workspace + pithi_workspace_misses(&side->plan) + b->before / 8 + b->number;
}
PITHI_DEVICE int32_t pithi_mark_status(const struct pithi_gpu_mark *m) {
    return m->status != PITH_OK   ? m->status
           : m->differs           ? PITH_ERR_CHECKSUM
           : m->stream != PITH_OK ? m->stream
           : m->corrupt           ? PITH_ERR_CORRUPT
           : m->unsupported       ? PITH_ERR_UNSUPPORTED
                                  : PITH_OK;
}

/* ---- Tiles -----------------------------------------------------------------------------------*/

PITHI_DEVICE uint64_t pithi_tile_before(const struct pithi_tiling *t, const struct pithi_tile *at) {
    uint64_t before = at->origin[0], whole = at->extent[0];
    PITHI_UNROLL for (uint32_t d = 1; d < PITHI_TILE_NDIM; d++) {
        before = before * t->shape[d] + whole * at->origin[d];
        whole *= at->extent[d];
    }
    return before;
}

/* Finds the block of a team; called by its first thread. A block that is not live has no tile, or
 * an item that cannot be coded. */
PITHI_DEVICE void pithi_block_open(const struct pithi_gpu_call *a,
                                   const struct pithi_gpu_side *side,
                                   const struct pithi_gpu_item *it, uint64_t team,
                                   struct pithi_gpu_block *b) {
    const uint32_t chunk = (uint32_t)team % (uint32_t)a->chunks,
                   teams = a->predict.parts ? a->predict.parts : 1;
    b->number = chunk / teams;
    b->part = chunk % teams;
    b->parts = pithi_workspace_parts(&side->plan);
    b->workspace = pithi_frame_workspace(a, side, it->index);
    b->live = it->status == PITH_OK && b->number < it->slot->blocks;
    if (!b->live) return;
    b->tile = pithi_tile_at(&it->slot->tiling, b->number);
    b->before = pithi_tile_before(&it->slot->tiling, &b->tile);
    b->count = (uint32_t)b->tile.count;
    b->groups = b->named = (b->count + PITHI_GROUP - 1) / PITHI_GROUP;
    const uint64_t end = it->slot->count;
    b->lo = a->first < end ? a->first : end;
    b->hi = a->count < end - b->lo ? b->lo + a->count : end;
}

PITHI_DEVICE struct pithi_gpu_part *pithi_part_of(const struct pithi_gpu_side *side,
                                                  const struct pithi_gpu_block *b, uint32_t part) {
    uint8_t *const parts = b->workspace + pithi_workspace_records(&side->plan);
    return (struct pithi_gpu_part *)(void *)parts + b->number * b->parts + part;
}

/* What the team's part has of n things of the block, in whole runs of `run`: parts are as equal as
 * can be, the first are never empty, and those behind have nothing where there are few runs. */
struct pithi_gpu_share {
    uint32_t from, to;
};
PITHI_DEVICE struct pithi_gpu_share pithi_share_of(const struct pithi_gpu_block *b, uint32_t n,
                                                   uint32_t run) {
    const uint32_t runs = (n + run - 1) / run, each = (runs + b->parts - 1) / b->parts * run;
    struct pithi_gpu_share share;
    share.from = b->part * each < n ? b->part * each : n;
    share.to = n - share.from < each ? n : share.from + each;
    return share;
}
/* Returns the strips of groups that are the part's; a strip has a group for every thread. */
PITHI_DEVICE struct pithi_gpu_share pithi_share_strips(const struct pithi_gpu_block *b,
                                                       uint32_t groups) {
    return pithi_share_of(b, (groups + PITHI_TEAM - 1) / PITHI_TEAM, 1);
}
/* Returns the elements whose groups are the part's. */
PITHI_DEVICE struct pithi_gpu_share pithi_share_elements(const struct pithi_gpu_block *b) {
    return pithi_share_of(b, b->count, PITHI_TEAM * PITHI_GROUP);
}

/* An element of the tile: where in it, and its number in the slot. */
struct pithi_gpu_place {
    uint32_t x[PITHI_TILE_NDIM];
    uint64_t at;
};
PITHI_DEVICE void pithi_place_find(const struct pithi_tiling *t, const struct pithi_tile *tile,
                                   struct pithi_gpu_place *p) {
    p->at = 0;
    PITHI_UNROLL for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) p->at =
        p->at * t->shape[d] + tile->origin[d] + p->x[d];
}
PITHI_DEVICE struct pithi_gpu_place pithi_place_of(const struct pithi_tiling *t,
                                                   const struct pithi_tile *tile, uint32_t i) {
    struct pithi_gpu_place p;
    PITHI_UNROLL for (int d = PITHI_TILE_NDIM - 1; d >= 0; d--) {
        p.x[d] = i % tile->extent[d];
        i /= tile->extent[d];
    }
    pithi_place_find(t, tile, &p);
    return p;
}
PITHI_DEVICE void pithi_place_next(const struct pithi_tiling *t, const struct pithi_tile *tile,
                                   struct pithi_gpu_place *p) {
    p->at++;
    if (++p->x[3] < tile->extent[3]) return;
    p->x[3] = 0;
    bool carry = true;
    PITHI_UNROLL for (int d = 2; d >= 0; d--) {
        p->x[d] += carry;
        carry = carry && p->x[d] == tile->extent[d];
        if (carry) p->x[d] = 0;
    }
    pithi_place_find(t, tile, p);
}

PITHI_DEVICE uint32_t pithi_group_count(const struct pithi_gpu_block *b, uint32_t g) {
    const uint32_t left = b->count - g * PITHI_GROUP;
    return left < PITHI_GROUP ? left : (uint32_t)PITHI_GROUP;
}

/* Bytes that say which values are exact. */
PITHI_DEVICE uint64_t pithi_exact_which_bytes(const struct pithi_gpu_block *b, uint32_t misses) {
    const uint32_t map = (b->count + 7) / 8;
    return misses > map / 4 ? map : 4 * (uint64_t)misses;
}

/* Where the body of a block of eb begins. */
PITHI_DEVICE uint64_t pithi_eb_body_at(const struct pithi_gpu_block *b, uint32_t misses,
                                       uint32_t width) {
    return PITHI_EB_HEAD + PITHI_EXACT_COUNT + pithi_exact_which_bytes(b, misses) +
           (uint64_t)misses * width;
}

/* Dimensions of more than one element: no higher order of differences says more. */
PITHI_DEVICE uint32_t pithi_tile_dimensions(const struct pithi_tile *t) {
    uint32_t n = 0;
    PITHI_UNROLL for (uint32_t d = 0; d < PITHI_TILE_NDIM; d++) if (!n && t->extent[d] > 1) n =
        PITHI_TILE_NDIM - d;
    return n;
}

PITHI_DEVICE uint32_t pithi_tile_extent(const struct pithi_tile *t, uint32_t d) {
    return d == 0 ? t->extent[0] : d == 1 ? t->extent[1] : d == 2 ? t->extent[2] : t->extent[3];
}

/* ---- Bits of the dtype -----------------------------------------------------------------------*/

/* Loads a value by one access where it is aligned; else there is one for every byte. */
PITHI_DEVICE uint32_t pithi_own_get(const uint8_t *p, uint32_t width) {
    if (!pithi_is_aligned(p, width)) return width == 4 ? pithi_get32(p) : pithi_get16(p);
    return width == 4 ? pithi_get_aligned32(p) : pithi_get_aligned16(p);
}
PITHI_DEVICE void pithi_own_put(uint8_t *p, uint32_t width, uint32_t bits) {
    const bool aligned = pithi_is_aligned(p, width);
    if (width == 4 && aligned)
        pithi_put_aligned32(p, bits);
    else if (width == 4)
        pithi_put32(p, bits);
    else if (aligned)
        pithi_put_aligned16(p, (uint16_t)bits);
    else
        pithi_put16(p, (uint16_t)bits);
}
/* Returns the bits in a dtype of a finite value, given as bits of f32, that the dtype has
 * exactly. */
PITHI_DEVICE uint32_t pithi_own_bits(uint32_t dtype, uint32_t u) {
    return dtype == PITH_F32 ? u : dtype == PITH_BF16 ? pithi_to_bf16(u) : pithi_to_f16(u);
}

PITHI_DEVICE bool pithi_own_code(const struct pithi_quant *q, uint32_t bits, int32_t *code) {
    return q->relative ? pithi_quant_code_bits(q, bits, code)
                       : pithi_quant_code(q, pithi_unit_widen(q->dtype, bits), code);
}
PITHI_DEVICE uint32_t pithi_own_value(const struct pithi_quant *q, uint32_t code) {
    if (q->relative) return (uint32_t)pithi_quant_bits(q, (int32_t)code);
    return pithi_own_bits(q->dtype, pithi_bits(pithi_quant_value(q, (int32_t)code)));
}

/* ---- Sums over the team ----------------------------------------------------------------------*/

PITHI_PHASE(pithi_scan_publish, uint32_t which) {
    (void)a;
    s->strip.scan[which][t->tid] = t->predict.total;
}

/* Part of a body: t->predict.total of the threads before and of all are then available. */
#define PITHI_SCAN(which)                     \
    do {                                      \
        PITHI_WARP_SUM(predict.total);        \
        PITHI_RUN(pithi_scan_publish, which); \
    } while (0)

PITHI_DEVICE uint64_t pithi_scan_before(const struct pithi_gpu_shared *s, uint32_t which,
                                        uint32_t tid) {
    uint64_t sum = tid % PITHI_WARP ? s->strip.scan[which][tid - 1] : 0;
    for (uint32_t w = 1; w <= tid / PITHI_WARP; w++)
        sum += s->strip.scan[which][w * PITHI_WARP - 1];
    return sum;
}
PITHI_DEVICE uint64_t pithi_scan_all(const struct pithi_gpu_shared *s, uint32_t which) {
    return pithi_scan_before(s, which, PITHI_TEAM - 1) + s->strip.scan[which][PITHI_TEAM - 1] -
           s->strip.scan[which][PITHI_TEAM - 2];
}
/* Returns the sum of all before the thread, in strips before this one too, where a string is
 * scanned strip by strip. The first thread carries the sum on to the next strip. */
PITHI_DEVICE uint64_t pithi_scan_carry(struct pithi_gpu_shared *s, uint32_t tid, uint32_t strip) {
    const uint64_t carry = s->strip.carry[strip % 2];
    if (tid == 0) s->strip.carry[(strip + 1) % 2] = carry + pithi_scan_all(s, 0);
    return carry + pithi_scan_before(s, 0, tid);
}

/* Returns what pithi_scan_before does, of runs as PITHI_WARP_RUNS joins them. */
PITHI_DEVICE uint64_t pithi_runs_before(const struct pithi_gpu_shared *s, uint32_t which,
                                        uint32_t tid, uint64_t sum) {
    for (uint32_t w = 1; w <= tid / PITHI_WARP; w++)
        sum = pithi_runs_join(sum, s->strip.scan[which][w * PITHI_WARP - 1]);
    return tid % PITHI_WARP ? pithi_runs_join(sum, s->strip.scan[which][tid - 1]) : sum;
}

/* ---- Checksums -------------------------------------------------------------------------------*/

PITHI_PHASE(pithi_block_hash, uint32_t step) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    (void)a;
    t->predict.total = pithi_hash_part(b->bytes, 0, b->length, t->tid, step);
}

/* Returns the checksum of the block, after PITHI_SCAN(0) of pithi_block_hash; called by one
 * thread. */
PITHI_DEVICE uint64_t pithi_block_sum(const struct pithi_gpu_shared *s) {
    const struct pithi_gpu_block *const b = &s->strip.block;
    return pithi_nh_finish(pithi_scan_all(s, 0), b->length, PITHI_CHECK_TAG + b->number);
}

#endif
