/* alltoall.c - all-to-all: the counts that ranks send each other, and the hop.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hops.h"

/* Checks what this rank sends and expects, of which *most becomes the longest part. */
static pith_status check_counts(const pith_collective_channel *ch, pith_error *error,
                                uint64_t *most) {
    uint64_t sent = 0, got = 0;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        const uint64_t to = ch->o.send_counts[r], from = ch->o.recv_counts[r];
        if (to >> 48 || from >> 48 || (sent += to) >> 48 || (got += from) >> 48) {
            pithi_collective_say(error, "the counts are too large");
            return PITH_ERR_ARG;
        }
        if (to > *most) *most = to;
        if (from > *most) *most = from;
    }
    return PITH_OK;
}

pith_status pithi_collective_cut_alltoall(pith_collective_channel *ch, pith_error *error) {
    uint64_t *const heard = pithi_collective_take(ch, ch->place.ranks, sizeof *heard);
    const pith_status own = heard ? check_counts(ch, error, &ch->longest) : PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(pithi_collective_agree_text(ch, own, error));
    PITHI_COLLECTIVE_TRY(pithi_collective_transpose(ch, ch->o.send_counts, heard));
    ch->longest_of_all = ch->longest;
    PITHI_COLLECTIVE_TRY(pithi_collective_largest(ch, &ch->longest_of_all));
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        if (heard[r] == ch->o.recv_counts[r]) continue;
        const unsigned long long expected = ch->o.recv_counts[r];
        pithi_collective_say(error, "recv_counts has %llu element%s from rank %u, which sends %llu",
                             expected, expected == 1 ? "" : "s", r, (unsigned long long)heard[r]);
        return PITH_ERR_SHAPE;
    }
    return pithi_collective_count_slices(ch, error);
}

/* Makes a plan over parts of any counts, end to end. */
static pith_status plan_of_counts(pith_collective_channel *ch, const char *spec,
                                  const uint64_t *counts, const pith_plan **plan, uint64_t *total,
                                  pith_error *error) {
    const uint64_t ranks = ch->place.ranks;
    struct pithi_collective_run *runs = pithi_collective_take(ch, ranks * ch->slices, sizeof *runs);
    struct pithi_collective_run *end = runs;
    if (!runs) return PITH_ERR_MEMORY;
    for (uint64_t r = 0; r < ranks; r++) {
        end = pithi_collective_cut_slices(ch, *total, counts[r], end);
        *total += counts[r];
    }
    return pithi_collective_make_plan(ch, spec, ch->o.dtype, runs, ranks * ch->slices, plan, error);
}

pith_status pithi_collective_alltoall_hop(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    char text[PITH_SPEC_MAX];
    if (!pithi_collective_connect_all(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(
        plan_of_counts(ch, ch->o.spec, ch->o.send_counts, &h->encoder, &ch->in_count, error));
    PITHI_COLLECTIVE_TRY(pithi_collective_decoder_spec(ch->o.spec, text, error));
    PITHI_COLLECTIVE_TRY(
        plan_of_counts(ch, text, ch->o.recv_counts, &h->decoder, &ch->out_count, error));
    if (!pithi_collective_set_parts(ch, &h->put, h->targets, 1, h->target, 1) ||
        !pithi_collective_set_parts(ch, &h->get, h->sources, 1, h->source, 1))
        return PITH_ERR_MEMORY;
    pithi_collective_set_random(ch, h, 0);
    return PITH_OK;
}
