/* allreduce.c - all-reduce: a reduce-scatter, and the hop that brings finished sums to all.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hops.h"

/* Makes the hop in which the finished shard goes from its owner to all, or to those who forward
 * it. */
static pith_status last_hop(pith_collective_channel *ch, const char *spec, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t one = ch->place.rank, none = 0, ranks = ch->place.ranks;
    const uint32_t *all = pithi_collective_all_ranks(ch);
    h->shared = true;
    if (!all || !pithi_collective_connect_counterparts(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(pithi_collective_make_encoder(ch, h, spec, PITH_F32, &one, 1, error));
    PITHI_COLLECTIVE_TRY(
        pithi_collective_make_decoder(ch, spec, PITH_F32, all, ranks, &h->decoder, error));
    if (!pithi_collective_set_parts(ch, &h->put, h->targets, 1, &none, 0) ||
        !pithi_collective_set_parts(ch, &h->get, h->sources, 1, h->source, 1))
        return PITH_ERR_MEMORY;
    pithi_collective_set_random(ch, h, 2);
    return PITH_OK;
}

pith_status pithi_collective_allreduce_hops(pith_collective_channel *ch, pith_error *error) {
    const char *const gather = ch->packed ? ch->o.gather : NULL;
    PITHI_COLLECTIVE_TRY(pithi_collective_reduce_scatter_hops(ch, error));
    PITHI_COLLECTIVE_TRY(last_hop(ch, gather ? gather : pithi_collective_owner_spec(ch), error));
    ch->out_count = ch->o.count;
    return PITH_OK;
}

bool pithi_collective_decode_finished(pith_collective_channel *ch,
                                      const struct pithi_collective_hop *h, const pith_item *items,
                                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        h->frames[i] = items[i].frame;
        h->lengths[i] = items[i].length;
        ch->sums[i] = (pith_sum){.size = sizeof *ch->sums,
                                 .stream = items[i].stream,
                                 .slot = items[i].slot,
                                 .frames = &h->frames[i],
                                 .lengths = &h->lengths[i],
                                 .count = 1,
                                 .scale = 1.0f,
                                 .view = items[i].view};
    }
    return pithi_collective_good(ch, pith_reduce(ch->work, ch->sums, n));
}
