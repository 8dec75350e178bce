/* team.h - what every kernel over units has: the team's memory, a thread's registers, and the end
 * of an item.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_TEAM_H
#define PITHI_GPU_DEVICE_TEAM_H

#include "device/bytes/memory.h"
#include "device/group/memory.h"
#include "device/group/trellis_memory.h"
#include "device/item.h"
#include "device/kv/memory.h"
#include "device/predict/memory.h"
#include "device/unit.h"

/* What a side of a call counts. hash: of the base as the call leaves it. */
struct pithi_gpu_results {
    uint64_t hash, saturated, poisoned;
};

/* A thread's registers: what all kernels have, and what those of one family have besides. */
struct pithi_gpu_thread {
    uint32_t tid;
    /* special: the kernel is one of special.def, which have the source of a tile twice; the same
     * for all threads, so that bodies may look at it. The host runner's kernels are special by
     * turns. whole: all elements of the tile exist, and all that moves is aligned; what else would
     * be checked falls away where the compiler knows that. */
    bool special;
    bool whole;
    float x[PITHI_UNITS][PITHI_UNIT]; /* values, differences or sums */
    float y[PITHI_UNITS][PITHI_UNIT]; /* another thread's */
    uint32_t base[PITHI_UNITS][PITHI_UNIT];
    struct pithi_gpu_results read, made; /* of the sides from and to */
    struct pithi_group_thread group;
    struct pithi_trellis_thread trellis;
    struct pithi_predict_thread predict;
    struct pithi_kv_thread kv;
    struct pithi_rans_thread rans;
};

/* Frames that a team opens at once; frames of a sum whose places are kept. */
enum { PITHI_HEADS = PITHI_TEAM / PITHI_WARP, PITHI_SUMMANDS = 64 };

/* The team's memory: as the registers. A launch has of its family's part what it needs. */
struct pithi_gpu_shared {
    struct pithi_gpu_item from, to; /* as the sides of a call */
    struct pithi_gpu_results read, made;
    /* Beginnings of frames, a warp's each, and how they differ from both of their plan's forms. */
    uint64_t head[PITHI_HEADS][PITHI_WARP];
    uint32_t differs[PITHI_HEADS][2];
    const uint8_t *payload[PITHI_SUMMANDS]; /* of frames of a sum */
    /* Frames of a sum: the lowest whose status is not PITH_OK; whether there are more than are kept
     * here, or one is not aligned. */
    uint32_t bad, apart;
    uint64_t sums[PITHI_TEAM];            /* of the blocks that are being hashed */
    float level[2][PITHI_TRELLIS_LEVELS]; /* of trellises, in scales: read and made */
    union {
        struct pithi_group_shared group;
        struct pithi_trellis_shared trellis;
        struct pithi_gpu_strip strip;  /* codecs with a bound */
        struct pithi_gpu_paged paged;  /* codecs in pages */
        struct pithi_rans_shared rans; /* entropy-coded codes */
    };
};
static_assert(sizeof(struct pithi_gpu_shared) <= 48 * 1024, "what a launch has without asking");

/* Bytes of it that a launch needs. */
static inline size_t pithi_shared_bytes(const struct pithi_gpu_call *a) {
    const struct pithi_device_plan *const to = &a->to.plan;
    const size_t all = offsetof(struct pithi_gpu_shared, group);
    if (a->memory == PITHI_MEMORY_STRINGS) return all + sizeof(struct pithi_rans_shared);
    if (a->memory == PITHI_MEMORY_BLOCKS) return all + sizeof(struct pithi_gpu_strip);
    if (a->memory == PITHI_MEMORY_PAGES) return all + pithi_paged_bytes(to);
    if (to->device.groups.set.codebook == PITHI_CODEBOOK_TRELLIS)
        return all + sizeof(struct pithi_trellis_shared);
    return all + (to->device.groups.set.search ? sizeof(struct pithi_group_shared)
                                               : offsetof(struct pithi_group_shared, values));
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
    (void)bytes;
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

/* Clears what a team counts; called by its first thread. */
PITHI_DEVICE void pithi_shared_clear(struct pithi_gpu_shared *s) {
    pithi_results_clear(&s->read);
    pithi_results_clear(&s->made);
    s->bad = UINT32_MAX;
    s->apart = 0;
}

/* The random bits of an encode. */
PITHI_DEVICE struct pithi_random pithi_item_random(const struct pithi_gpu_call *a,
                                                   const struct pithi_gpu_item *it) {
    const struct pithi_gpu_random *const random = &a->to.stream->random;
    struct pithi_random r;
    r.seed = random->seed;
    r.step = it->slot_state->step;
    r.rng_stream = random->rng_stream;
    r.shift = (uint16_t)(a->to.plan.device.groups.antithetic ? random->shift : 0);
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

/* Part of a body: s->read and s->made := the sums over the team. Call it only where somebody looks
 * at them: hashes, of the sides that have one, take many exchanges. */
#define PITHI_GATHER_HASHED(reads, makes, number) \
    do {                                          \
        if (reads) PITHI_WARP_ADD(read.hash);     \
        if (makes) PITHI_WARP_ADD(made.hash);     \
        PITHI_RUN(pithi_results_collect, number); \
    } while (0)
#define PITHI_GATHER(number) PITHI_GATHER_HASHED(true, true, number)

/* Called by a team's first thread: hands the team's results over, and returns whether all teams of
 * the item have done so. Then the slot holds their sum. */
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

/* Called by the first thread of the item's last team: counts the item's frames and clears what the
 * launch has counted in the slot. Returns the hash over all teams. */
PITHI_DEVICE uint64_t pithi_results_finish(struct pithi_gpu_stream *stream,
                                           struct pithi_gpu_slot_state *slot, uint64_t frames,
                                           bool key) {
    const uint64_t hash = pithi_fresh64(&slot->hash);
    pithi_atomic_add64(&stream->saturated, pithi_fresh64(&slot->saturated));
    pithi_atomic_add64(&stream->poisoned, pithi_fresh64(&slot->poisoned));
    pithi_atomic_add64(&stream->frames, frames);
    if (key) pithi_atomic_add64(&stream->key_frames, frames);
    slot->hash = slot->saturated = slot->poisoned = 0;
    slot->arrived = 0;
    return hash;
}

/* Called by a team's first thread where the call does not depend on the slot: counts what the team
 * has, and `frames` frames of the item. */
PITHI_DEVICE void pithi_results_count(struct pithi_gpu_stream *stream,
                                      const struct pithi_gpu_results *r, uint64_t frames) {
    if (r->saturated) pithi_atomic_add64(&stream->saturated, r->saturated);
    if (r->poisoned) pithi_atomic_add64(&stream->poisoned, r->poisoned);
    if (frames) pithi_atomic_add64(&stream->frames, frames);
}

/* The slot is one encode further, of which nothing depended on it; by one thread of an item. */
PITHI_DEVICE void pithi_step_count(struct pithi_gpu_slot_state *slot) {
    pithi_atomic_add64(&slot->step, 1);
    slot->undone = 0;
}

/* Step and base hash of the slot after a frame; by the first thread of the last team. */
PITHI_DEVICE void pithi_advance(struct pithi_gpu_slot_state *slot, uint64_t step,
                                uint64_t base_hash) {
    slot->step = step + 1;
    slot->base_hash = base_hash;
    slot->invalid = 0;
}

/* ---- Ends ------------------------------------------------------------------------------------*/

/* Writes the status of an item, and its frame's length if that is not 0; called by one thread of
 * the item's first team. */
PITHI_DEVICE void pithi_item_answer(const struct pithi_gpu_items *items,
                                    const struct pithi_gpu_item *it, uint64_t length) {
    items->status[it->index] = it->status;
    if (length && items->lengths) items->lengths[it->index] = it->status == PITH_OK ? length : 0;
}

#endif
