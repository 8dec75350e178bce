/* team.h - what every kernel over units has: the team's memory, a thread's registers, and the end
 * of an item.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_TEAM_H
#define PITHI_GPU_DEVICE_TEAM_H

#include <stdalign.h>

#include "device/item.h"
#include "device/unit.h"
#include "group/outliers_value.h"
#include "predict/bitplane_choice.h"

/* What a side of a call counts. hash: of the base as the call leaves it. */
struct pithi_gpu_results {
    uint64_t hash, saturated, poisoned;
};

/* Threads of a group that is searched. */
enum { PITHI_LANES = 16 };

/* Candidates that one thread tries. */
enum { PITHI_TRIES = PITHI_SEARCH_ROOM / 2 };

/* Codecs in pages: a thread's columns of a tile, from this one of this head on, and its tokens, up
 * to the tile's end. n: columns, 0 where there are none. */
struct pithi_gpu_column {
    uint32_t head, in_head, n, token, end;
};

/* Units of a full tile that a thread has, of the same columns: see kv_full.h. */
enum { PITHI_DEEP = 4 };

/* A group that is searched, whose 16 threads the thread is one of: its number in the tile, its
 * elements, 0 when there are none to code, and where its values lie. more: candidates are left. */
struct pithi_gpu_sought {
    uint32_t index, count, at;
    bool more;
};

struct pithi_gpu_thread {
    uint32_t tid;
    /* Of the kernel, so that bodies may look at it: it is one of special.def; the host's, by turns.
     * These have the text of a tile twice. whole: all elements of the tile exist, and all that
     * moves is aligned; what else would be asked falls away where the text knows that. */
    bool special;
    bool whole;
    float x[PITHI_UNITS][PITHI_UNIT]; /* values, differences or sums */
    float y[PITHI_UNITS][PITHI_UNIT]; /* another thread's */
    uint32_t base[PITHI_UNITS][PITHI_UNIT];
    uint32_t largest[PITHI_UNITS];
    /* Of whole tiles, see whole.h: where the first unit goes; steps of a unit's group. */
    uint8_t *to_codes, *to_scales;
    float step[2], step_other[2];
    struct pithi_gpu_results read, made; /* of the sides from and to */
    /* Sums over a lane of a group, see search.h and kv_search.h. */
    float vq[PITHI_TRIES], vq_other[PITHI_TRIES];
    int32_t qq[PITHI_TRIES], qq_other[PITHI_TRIES];
    uint64_t total;     /* of codecs with a bound: what is summed over the team */
    uint64_t own;       /* what total was before */
    uint32_t low, high; /* the same: what the largest of is sought */
    /* Of codecs in pages: extremes of units or columns, or their scales and zero points. */
    uint32_t up[PITHI_UNIT], down[PITHI_UNIT];
    struct pithi_gpu_column column;
    struct pithi_gpu_sought sought;
    /* Of full tiles: what was fetched, and values; largest values and those of what is below 0, of
     * units; in exchanges what is kept, and what goes and comes. */
    struct pithi_quad raw[PITHI_DEEP], grids[2];
    float deep[PITHI_DEEP][PITHI_UNIT];
    float edge[2][PITHI_UNITS], kept[2], given[2], taken[2];
    /* What the thread's code means, in high halves, codes, and what they mean. */
    uint32_t meant[PITHI_UNITS], codes[PITHI_UNITS][PITHI_UNIT], means[PITHI_UNITS][PITHI_UNIT];
    struct pithi_shrink shrink;
    uint64_t word[2], word_other[2], floor[2]; /* see kv_outliers.h */
};

/* Frames that a team opens at once; frames of a sum whose places are kept. */
enum { PITHI_HEADS = PITHI_TEAM / PITHI_WARP, PITHI_SUMMANDS = 64 };

/* A team's tile, and its block of the frame. */
struct pithi_gpu_block {
    struct pithi_tile tile;
    struct pithi_quant quant;
    uint64_t number, before; /* before: elements of the tiles before it */
    uint64_t lo, hi;         /* decode: the elements of the slot that are wanted */
    uint32_t count, groups;
    uint32_t named; /* groups of packed words */
    uint8_t *room;
    uint8_t *bytes;
    uint32_t length, method, order, misses;
    bool live, plain, bitmap;
    /* decode: all of the slot is wanted; the parts of the block are known. What branches look at
     * must not change in the phases behind them. */
    bool whole, legible;
    /* Parts of the block. */
    const uint8_t *which, *values, *body;
    uint32_t body_bytes;
};

/* What rows a block of embed has. */
struct pithi_gpu_rows {
    uint32_t row, rows, distinct; /* elements of one; how many; how many that differ */
    uint32_t kind, width, wide;   /* of the map; bits of its numbers; bytes of a centre */
    bool mapped;                  /* decode: the map is to be read */
    /* In the workspace: codes of all rows; decode: of the distinct ones, encode: centres; the
     * number among the distinct of every row; encode: the first row of each number, and the table
     * by which they are found, two places a row. */
    uint32_t *code, *spare, *number, *first, *place;
    uint8_t *map, *numbers, *centre; /* parts of the block */
    uint32_t largest;                /* of the centres */
    uint64_t without, with;          /* bits of samples, without centres and with them */
};

/* The team's memory of codecs with a bound. */
struct pithi_gpu_strip {
    struct pithi_gpu_block block;
    struct pithi_gpu_rows rows;
    uint64_t scan[2][PITHI_TEAM];
    uint64_t carry[2], run[2]; /* of the strips before; the strip that is summed, and the next */
    uint32_t low, high, touched, fault;
    uint32_t misses, bits[PITHI_TILE_NDIM + 1], counts[PITHI_PACK_MOST];
    struct pithi_bitplane_room choice;
    uint8_t table[PITHI_PACK_WIDTHS], name[PITHI_TEAM];
    uint32_t word[PITHI_BITPLANE_GROUP][PITHI_TEAM]; /* of each thread's group */
};

/* A team's page, or the part of it that is the team's: see kv_page.h. */
struct pithi_gpu_page {
    uint8_t *bytes, *values;               /* values: where `at` counts from */
    uint8_t *codes, *places, *exact;       /* the last two of outliers */
    uint8_t *base;                         /* of its first element; or NULL */
    uint64_t number, first;                /* of the page, and of its first element, in the slot */
    int64_t at, token_stride, head_stride; /* in elements: of the page's first; between its rows */
    uint64_t scale_bytes, code_bytes, place_bytes, exact_bytes;
    uint64_t length, whole; /* bytes; and of a page that is not cut */
    struct pithi_rotation rotation;
    uint32_t tokens, heads, dim;
    uint32_t along, groups;     /* of a head, of the page */
    uint32_t string;            /* bytes of codes of a head */
    uint32_t outliers;          /* of a group */
    uint32_t lo, hi;            /* elements that are wanted */
    uint32_t part, tile, tiles; /* tiles [tile, tiles) hold these */
    uint32_t lanes, log2, rows, chunks;
    uint32_t full, fulls; /* tiles [full, fulls) are full, see kv_full.h */
    bool live;
    bool plain; /* units lie in a run, in the tensor too */
    bool apart; /* units do not begin at whole lanes of the base's hash */
};

/* The team's memory of codecs in pages. */
struct pithi_gpu_paged {
    struct pithi_gpu_page page;
    struct pithi_codebook book;
    struct pithi_grid grid[PITHI_UNITS * PITHI_TEAM];
    alignas(16) uint32_t up[PITHI_UNITS * PITHI_TEAM];
    alignas(16) uint32_t down[PITHI_UNITS * PITHI_TEAM];
    uint32_t rough; /* one more than the last full tile whose codes need limits */
    /* Of groups that are looked at as a whole, and of full tiles along tokens; else absent. */
    alignas(16) float values[PITHI_TILE];
    /* Of groups with outliers, at once: the words that come first from below, and from above. */
    uint64_t first[PITHI_TEAM / PITHI_LANES][2][PITHI_OUTLIERS_MOST + 1];
};

struct pithi_gpu_shared {
    struct pithi_gpu_item from, to; /* as the sides of a call */
    struct pithi_gpu_results read, made;
    /* Beginnings of frames, a warp's each, and how they differ from both of their plan's forms. */
    uint64_t head[PITHI_HEADS][PITHI_WARP];
    uint32_t differs[PITHI_HEADS][2];
    const uint8_t *payload[PITHI_SUMMANDS]; /* of frames of a sum */
    uint32_t largest[PITHI_TILE_GROUPS];
    float scale[PITHI_TILE_GROUPS], reciprocal[PITHI_TILE_GROUPS];
    uint32_t warps[2][PITHI_UNITS][PITHI_HEADS]; /* what is largest in each; see whole.h */
    /* Frames of a sum: the lowest whose status is not PITH_OK; whether there are more than are kept
     * here, or one is not aligned. */
    uint32_t bad, apart;
    uint64_t sums[PITHI_TEAM]; /* of the blocks that are being hashed */
    union {
        float values[PITHI_TILE];     /* in units; only of calls that search */
        struct pithi_gpu_strip strip; /* only of codecs with a bound */
        struct pithi_gpu_paged paged; /* only of codecs in pages */
    };
};
/* Bytes of it that a launch needs. */
static inline size_t pithi_shared_bytes(const struct pithi_gpu_call *a) {
    const struct pithi_device_plan *const to = &a->to.plan;
    const size_t all = offsetof(struct pithi_gpu_shared, values);
    if (a->rooms) return all + sizeof(struct pithi_gpu_strip);
    if (!a->parts) return all + (to->device.set.search ? PITHI_TILE * sizeof(float) : 0);
    if (to->device.pages.outliers) return all + sizeof(struct pithi_gpu_paged);
    return all + (pithi_pages_keep(to) || to->device.pages.channel
                      ? offsetof(struct pithi_gpu_paged, first)
                      : offsetof(struct pithi_gpu_paged, values));
}

#define PITHI_PHASE(name, ...)                                                         \
    PITHI_DEVICE void name(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s, \
                           struct pithi_gpu_thread *t, __VA_ARGS__)
#define PITHI_LOCAL(name, ...)                                                               \
    PITHI_DEVICE void name(const struct pithi_gpu_call *a, const struct pithi_gpu_shared *s, \
                           struct pithi_gpu_thread *t, __VA_ARGS__)
#define PITHI_BODY(name)                                                               \
    PITHI_DEVICE void name(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s, \
                           struct pithi_gpu_thread *t, struct pithi_team *team, uint64_t number)

/* Element of the slot where unit u of a thread begins, in the tile at `tile`. */
PITHI_DEVICE uint64_t pithi_unit_at(const struct pithi_gpu_thread *t, uint64_t tile, uint32_t u) {
    return tile + (uint64_t)u * PITHI_ROW + (uint64_t)t->tid * PITHI_UNIT;
}

PITHI_LOCAL(pithi_tile_whole, bool whole) {
    (void)a, (void)s;
    t->whole = whole;
}
/* How many elements the unit at e has, of the tile's. */
PITHI_DEVICE uint32_t pithi_tile_left(const struct pithi_gpu_thread *t, uint64_t e, uint64_t end) {
    return t->whole ? (uint32_t)PITHI_UNIT : pithi_unit_left(e, end);
}
/* p, which is aligned in whole tiles. */
PITHI_DEVICE uint8_t *pithi_tile_place(const struct pithi_gpu_thread *t, uint8_t *p,
                                       uint32_t bytes) {
    if (t->whole) PITHI_ASSUME(pithi_is_aligned(p, bytes));
    return p;
}

PITHI_DEVICE void pithi_results_clear(struct pithi_gpu_results *r) {
    r->hash = r->saturated = r->poisoned = 0;
}
PITHI_DEVICE void pithi_thread_clear(struct pithi_gpu_thread *t) {
    pithi_results_clear(&t->read);
    pithi_results_clear(&t->made);
}

/* By the team's first thread. */
PITHI_DEVICE void pithi_shared_clear(struct pithi_gpu_shared *s) {
    pithi_results_clear(&s->read);
    pithi_results_clear(&s->made);
    s->bad = UINT32_MAX;
    s->apart = 0;
}

/* The random bits of an encode with a state. */
PITHI_DEVICE struct pithi_random pithi_item_random(const struct pithi_gpu_call *a,
                                                   const struct pithi_gpu_item *it) {
    const struct pithi_gpu_state *const state = a->to.state;
    const bool base = a->to.plan.base_dtype != PITH_NONE;
    struct pithi_random r;
    r.seed = state->seed;
    r.step = base ? it->state->step : state->step;
    r.stream = state->stream;
    r.shift = (uint16_t)(a->to.plan.device.antithetic ? state->shift : 0);
    return r;
}

/* ---- Results ---------------------------------------------------------------------------------*/

/* Adds what a thread counted, which is rare; and its warp's hash, which is in each of its threads
 * already. */
PITHI_DEVICE void pithi_results_add(struct pithi_gpu_results *to, const struct pithi_gpu_results *r,
                                    uint32_t tid) {
    if (r->hash && tid % PITHI_WARP == 0) pithi_atomic_add64(&to->hash, r->hash);
    if (r->saturated) pithi_atomic_add64(&to->saturated, r->saturated);
    if (r->poisoned) pithi_atomic_add64(&to->poisoned, r->poisoned);
}

PITHI_PHASE(pithi_results_collect, uint64_t number) {
    (void)a, (void)number;
    pithi_results_add(&s->read, &t->read, t->tid);
    pithi_results_add(&s->made, &t->made, t->tid);
}

/* A body's text: s->read and s->made := the sums over the team. Call it only where somebody looks
 * at them: hashes, of the sides that have one, take many exchanges. */
#define PITHI_GATHER_HASHED(reads, makes, number) \
    do {                                          \
        if (reads) PITHI_WARP_ADD(read.hash);     \
        if (makes) PITHI_WARP_ADD(made.hash);     \
        PITHI_RUN(pithi_results_collect, number); \
    } while (0)
#define PITHI_GATHER(number) PITHI_GATHER_HASHED(true, true, number)

/* By the team's first thread: hands its results over, and says whether all teams of the item have.
 * Then the slot holds their sum. */
PITHI_DEVICE bool pithi_results_hand(const struct pithi_gpu_call *a,
                                     const struct pithi_gpu_results *r,
                                     struct pithi_gpu_slot_state *slot) {
    if (r->hash) pithi_atomic_add64(&slot->hash, r->hash);
    if (r->saturated) pithi_atomic_add64(&slot->saturated, r->saturated);
    if (r->poisoned) pithi_atomic_add64(&slot->poisoned, r->poisoned);
    pithi_fence();
    const bool last = pithi_atomic_add32(&slot->arrived, 1) + 1 == a->chunks;
    pithi_fence();
    return last;
}

/* By the first thread of the last team: counts the item's frames and clears what was of this
 * launch. Returns the whole hash. */
PITHI_DEVICE uint64_t pithi_results_finish(struct pithi_gpu_state *state,
                                           struct pithi_gpu_slot_state *slot, uint64_t frames,
                                           bool key) {
    const uint64_t hash = pithi_fresh64(&slot->hash);
    pithi_atomic_add64(&state->saturated, pithi_fresh64(&slot->saturated));
    pithi_atomic_add64(&state->poisoned, pithi_fresh64(&slot->poisoned));
    pithi_atomic_add64(&state->frames, frames);
    if (key) pithi_atomic_add64(&state->key_frames, frames);
    slot->hash = slot->saturated = slot->poisoned = 0;
    slot->arrived = 0;
    return hash;
}

/* Step and identity of the slot after a frame; by the first thread of the last team. */
PITHI_DEVICE void pithi_advance(struct pithi_gpu_slot_state *slot, uint64_t step,
                                uint64_t base_hash) {
    slot->step = step + 1;
    slot->base_hash = base_hash;
    slot->invalid = 0;
}

/* ---- Ends ------------------------------------------------------------------------------------*/

/* By one thread of the item's first team. */
PITHI_DEVICE void pithi_item_answer(const struct pithi_gpu_items *items,
                                    const struct pithi_gpu_item *it, uint64_t length) {
    items->status[it->index] = it->status;
    if (length && items->lengths) items->lengths[it->index] = it->status == PITH_OK ? length : 0;
}

#endif
