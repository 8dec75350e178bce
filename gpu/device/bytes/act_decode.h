/* act_decode.h - blocks of act whose map or numbers are coded: to maps, and numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A team reads the map of its block, by which it knows how many numbers there are, and finds the
 * strings of coded words; launches behind it make numbers of these as for rows. */
#ifndef PITHI_GPU_DEVICE_BYTES_ACT_DECODE_H
#define PITHI_GPU_DEVICE_BYTES_ACT_DECODE_H

#include "device/bytes/act_lanes.h"

/* The form of the map; of a piece its beginning. */
PITHI_PHASE(pithi_act_map_open, uint64_t block) {
    struct pithi_gpu_zeros *const z = &s->rans.bounded.zeros;
    const bool lanes = s->from.frame[PITHI_AT_REVISION] > 2;
    if (t->tid) return;
    const uint8_t *const form = pithi_planes_take(s, 1);
    z->depth = form ? *form : PITHI_ZEROS_LANES + 1u;
    s->rans.fault = z->depth > (lanes ? PITHI_ZEROS_LANES : PITHI_ZEROS_LANES - 1);
    s->rans.foreign = !s->rans.fault && z->depth == PITHI_ZEROS_LANES - 1;
    if (s->rans.foreign) s->rans.fault = 1;
    if (z->depth == PITHI_ZEROS_PIECE)
        pithi_lossless_read_whole(a, s, block, PITHI_STRINGS_MAP, z->n[0], false);
}
PITHI_PHASE(pithi_act_map_copy, bool ones) {
    const struct pithi_bounded_shared *const e = &s->rans.bounded;
    const uint8_t *const from = pithi_lossless_part(s, PITHI_STRINGS_MAP);
    const uint32_t bytes = e->zeros.n[0], rest = e->block.count % 8;
    (void)a;
    for (uint32_t i = t->tid; i < bytes; i += PITHI_TEAM)
        e->zeros.map[i] = !ones                    ? from[i]
                          : rest && i + 1 == bytes ? (uint8_t)((1u << rest) - 1)
                                                   : (uint8_t)255;
}
PITHI_LOCAL(pithi_act_map_count, uint32_t bytes) {
    (void)a;
    t->rans.total = 0;
    for (uint32_t i = t->tid; i < bytes; i += PITHI_TEAM)
        t->rans.total += pithi_ones32(s->rans.bounded.zeros.map[i]);
}
/* What is behind the map; launches to come find in the entry how long it is, and its ones. Words
 * that are packed are theirs. */
PITHI_PHASE(pithi_act_map_end, uint64_t block) {
    struct pithi_bounded_shared *const e = &s->rans.bounded;
    struct pithi_gpu_entry *const entry = pithi_entry(e->block.workspace, block);
    (void)a;
    if (t->tid) return;
    e->rows.distinct = (uint32_t)pithi_coded_all(s);
    entry->bounded.distinct = e->rows.distinct;
    entry->bounded.map = (uint32_t)(s->rans.at - e->block.body);
    s->rans.fault =
        !pithi_zeros_tail(e->zeros.map, e->block.count) || (!e->rows.distinct && s->rans.left);
    if (!s->rans.fault && e->rows.distinct && e->zeros.form & PITHI_ZEROS_CODED)
        s->rans.fault = !pithi_strings_words_parse(s);
    entry->bounded.kind = !s->rans.fault;
}

/* Part of a body: the map, a fault where it is damaged. */
PITHI_DEVICE void pithi_act_read_map(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                                     struct pithi_gpu_thread *t, struct pithi_team *team,
                                     uint64_t block) {
    PITHI_RUN(pithi_act_map_open, block);
    if (s->rans.fault) return;
    const uint32_t form = s->rans.bounded.zeros.depth;
    if (form == PITHI_ZEROS_PIECE) pithi_strings_levels(a, s, t, team);
    const bool sound = !s->rans.fault;
    PITHI_MEET(); /* all have looked */
    if (!sound) return;
    if (form == PITHI_ZEROS_LANES)
        pithi_lanes_read(a, s, t, team, block);
    else
        PITHI_RUN(pithi_act_map_copy, form == PITHI_ZEROS_ONES);
    if (s->rans.fault) return;
    PITHI_STEP(pithi_act_map_count, s->rans.bounded.zeros.n[0]);
    PITHI_WARP_ADD(rans.total);
    PITHI_RUN(pithi_coded_publish, block);
    PITHI_RUN(pithi_act_map_end, block);
}

/* A team a block. */
PITHI_BODY(pithi_act_read) {
    PITHI_RUN(pithi_strings_read_open, number);
    if (!s->rans.live) return;
    const uint64_t block = s->rans.bounded.block.number;
    pithi_act_read_map(a, s, t, team, block);
    const bool words = !s->rans.fault && s->rans.bounded.rows.distinct &&
                       s->rans.bounded.zeros.form & PITHI_ZEROS_CODED;
    PITHI_MEET(); /* all have looked */
    if (words) pithi_strings_read_parts(a, s, t, team, block);
    PITHI_STEP(pithi_strings_read_close, block);
}

#endif
