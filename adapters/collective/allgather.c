/* allgather.c - all-gather: the hop to all ranks, and the one that forwards inside nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hops.h"

/* ---- Hops ------------------------------------------------------------------------------------*/

/* Whether a rank is on this node. */
static bool is_here(const pith_collective_channel *ch, uint32_t rank) {
    return ch->node_of[rank] == ch->place.node;
}

/* Returns which local rank of this node a rank of another node has as its counterpart. */
static uint32_t local_counterpart(const pith_collective_channel *ch, uint32_t rank) {
    return ch->local_of[rank] % ch->place.locals;
}

bool pithi_collective_connect_counterparts(pith_collective_channel *ch,
                                           struct pithi_collective_hop *h) {
    const uint32_t ranks = ch->place.ranks;
    h->target = pithi_collective_take_ranks(ch, ranks);
    h->source = pithi_collective_take_ranks(ch, ranks);
    if (!h->target || !h->source) return false;
    for (uint32_t m = 0; m < ch->place.nodes; m++) {
        if (m != ch->place.node) h->target[h->targets++] = pithi_collective_counterpart(ch, m);
        for (uint32_t j = 0; m == ch->place.node && j < ch->place.locals; j++)
            h->target[h->targets++] = pithi_collective_local_rank(ch, m, j);
    }
    for (uint32_t r = 0; r < ranks; r++)
        if (is_here(ch, r) || local_counterpart(ch, r) == ch->place.local)
            h->source[h->sources++] = r;
    return true;
}

pith_status pithi_collective_allgather_hop(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t one = ch->place.rank, ranks = ch->place.ranks;
    const uint32_t *all = pithi_collective_all_ranks(ch);
    const char *spec = ch->packed ? ch->o.spec : "raw";
    h->shared = true;
    if (!all || !pithi_collective_connect_counterparts(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(
        pithi_collective_make_shard_plan(ch, spec, ch->o.dtype, all, ranks, &h->encoder, error));
    h->decoder = h->encoder;
    if (!pithi_collective_set_parts(ch, &h->put, h->targets, 1, &one, 0) ||
        !pithi_collective_set_parts(ch, &h->get, h->sources, 1, h->source, 1))
        return PITH_ERR_MEMORY;
    pithi_collective_set_random(ch, h, 0);
    ch->in_count = ch->first[one + 1] - ch->first[one];
    ch->out_count = ch->o.count;
    return PITH_OK;
}

/* Lists what this rank forwards, in the order of those who encoded it: each message from another
 * node to every other rank of this node. */
static bool list_forwarded(pith_collective_channel *ch, const struct pithi_collective_hop *from,
                           const uint32_t *node, struct pithi_collective_hop *h) {
    const uint64_t most = (uint64_t)(from->sources - ch->place.locals) * ch->place.locals;
    uint32_t *const forwarded = pithi_collective_take_ranks(ch, most);
    uint32_t *const origins = pithi_collective_take_ranks(ch, most);
    h->target = pithi_collective_take_ranks(ch, most);
    h->forwarded = forwarded;
    if (!forwarded || !origins || !h->target) return false;
    for (uint32_t s = 0; s < from->sources; s++)
        for (uint32_t j = 0; j < ch->place.locals && !is_here(ch, from->source[s]); j++) {
            if (node[j] == ch->place.rank) continue;
            forwarded[h->targets] = s;
            origins[h->targets] = from->source[s];
            h->target[h->targets++] = node[j];
        }
    return pithi_collective_set_parts(ch, &h->put, h->targets, 1, origins, 1);
}

/* Lists what others forward to this rank: from each of them in the same order. */
static bool list_taken(pith_collective_channel *ch, const uint32_t *node,
                       struct pithi_collective_hop *h) {
    uint32_t *const origins = pithi_collective_take_ranks(ch, ch->place.ranks);
    h->source = pithi_collective_take_ranks(ch, ch->place.ranks);
    if (!origins || !h->source) return false;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        if (is_here(ch, r) || local_counterpart(ch, r) == ch->place.local) continue;
        origins[h->sources] = r;
        h->source[h->sources++] = node[local_counterpart(ch, r)];
    }
    return pithi_collective_set_parts(ch, &h->get, h->sources, 1, origins, 1);
}

pith_status pithi_collective_forwarding_hop(pith_collective_channel *ch, pith_error *error) {
    const struct pithi_collective_hop *from = &ch->hop[ch->encoded_hops - 1];
    struct pithi_collective_hop *h = &ch->hop[ch->hops++];
    const uint32_t *node = pithi_collective_ranks_of_node(ch);
    h->shared = true;
    h->encoder = h->decoder = from->decoder;
    h->decoding = from->decoding;
    if (!node || !list_forwarded(ch, from, node, h) || !list_taken(ch, node, h))
        return PITH_ERR_MEMORY;
    return pithi_collective_make_messages(ch, h, error);
}

/* ---- Stages ----------------------------------------------------------------------------------*/

const struct pithi_collective_message *pithi_collective_forwarded(const pith_collective_channel *ch,
                                                                  uint64_t slice, uint32_t target) {
    const struct pithi_collective_hop *const from = &ch->hop[ch->encoded_hops - 1];
    return &from->in[slice * from->sources + from[1].forwarded[target]];
}

void pithi_collective_forward(pith_collective_channel *ch, struct pithi_collective_hop *h,
                              uint64_t slice) {
    struct pithi_collective_message *const out = &h->out[slice * h->targets];
    for (uint32_t t = 0; t < h->targets; t++)
        out[t].payload = pithi_collective_forwarded(ch, slice, t)->payload;
}

bool pithi_collective_own_base(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                               uint64_t slot) {
    const struct pithi_collective_list *out = &ch->call.out;
    uint64_t first = 0, count = 0;
    pith_view run;
    if (!ch->call.has_out) return true;
    pith_plan_slot(h->decoder, slot, &first, &count);
    const bool in_place = pithi_collective_cut(out, first, count, &run);
    if (!in_place) run = pith_view_flat(ch->scratch, out->views[0].dtype, count);
    if (!pithi_collective_good(ch, pith_stream_get_base(ch->work, h->decoding, slot, &run)))
        return false;
    if (!in_place) pithi_collective_copy_out(ch, h, slot);
    return true;
}
