/* held.h - the set that a slot holds, as frames without indices know it: by the hash of its map.
 * SPDX-License-Identifier: Apache-2.0
 *
 * XXH64 takes the map from end to end, so that no more than a team can hash it: all its threads
 * read, four have a lane each. */
#ifndef PITHI_GPU_DEVICE_SPARSE_HELD_H
#define PITHI_GPU_DEVICE_SPARSE_HELD_H

#include "device/sparse/set.h"

/* Stripes of four words that a team reads at a time. */
enum { PITHI_STRIPE = 32, PITHI_STRIPES = PITHI_TEAM / 4 };

/* own: the lane. */
PITHI_LOCAL(pithi_lane_begin, uint64_t seed) {
    (void)a, (void)s;
    t->predict.own = t->tid == 0   ? seed + PITHI_XXH_1 + PITHI_XXH_2
                     : t->tid == 1 ? seed + PITHI_XXH_2
                     : t->tid == 2 ? seed
                                   : seed - PITHI_XXH_1;
}
PITHI_PHASE(pithi_lane_read, const uint8_t *map, uint64_t first, uint64_t stripes) {
    const uint64_t at = PITHI_STRIPE * first + 8 * (uint64_t)t->tid;
    (void)a;
    if (at < PITHI_STRIPE * stripes) s->strip.scan[0][t->tid] = pithi_get_aligned64(map + at);
}
PITHI_PHASE(pithi_lane_take, uint64_t first, uint64_t stripes) {
    (void)a;
    for (uint32_t i = 0; t->tid < 4 && i < PITHI_STRIPES && first + i < stripes; i++)
        t->predict.own = pithi_xxh_round(t->predict.own, s->strip.scan[0][4 * i + t->tid]);
}
PITHI_PHASE(pithi_lane_publish, uint32_t lanes) {
    (void)a;
    if (t->tid < lanes) s->strip.scan[1][t->tid] = t->predict.own;
}

/* Part of a body: the lanes of the map of n elements are in s->strip.scan[1]. */
PITHI_DEVICE void pithi_map_lanes(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                  struct pithi_gpu_thread *t, struct pithi_team *team,
                                  const uint8_t *map, uint64_t n) {
    const uint64_t stripes = (n + 7) / 8 / PITHI_STRIPE;
    PITHI_STEP(pithi_lane_begin, 0);
    for (uint64_t first = 0; first < stripes; first += PITHI_STRIPES) {
        PITHI_RUN(pithi_lane_read, map, first, stripes);
        PITHI_RUN(pithi_lane_take, first, stripes);
    }
    PITHI_RUN(pithi_lane_publish, 4);
}

/* Returns the hash of the map (FORMAT.md, section CHOSEN) when all threads have hashed their parts;
 * called by one thread. */
PITHI_DEVICE uint64_t pithi_map_hash(const struct pithi_gpu_shared *s, const uint8_t *map,
                                     uint64_t n) {
    const uint64_t bytes = (n + 7) / 8;
    uint64_t at = bytes / PITHI_STRIPE * PITHI_STRIPE;
    uint64_t h = (at ? pithi_xxh_join(s->strip.scan[1]) : PITHI_XXH_5) + bytes;
    for (; at + 8 <= bytes; at += 8) h = pithi_xxh_word(h, pithi_get_aligned64(map + at));
    if (at + 4 <= bytes) {
        h ^= pithi_get_aligned32(map + at) * PITHI_XXH_1;
        h = pithi_rotl(h, 23) * PITHI_XXH_2 + PITHI_XXH_3;
        at += 4;
    }
    for (; at < bytes; at++) h = pithi_rotl(h ^ map[at] * PITHI_XXH_5, 11) * PITHI_XXH_1;
    return pithi_xxh_end(h);
}

#endif
