/* reduce_scatter.c - reduce-scatter: the hops to the owners of shards, and the sums of frames.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which shard is whose, and its slices, which are the slots of plans: shards.c. */
#include "hops.h"

/* ---- Hops ------------------------------------------------------------------------------------*/

/* Returns how many shards this rank collects, and the list of the ranks that own them. */
static uint32_t collected_here(const pith_collective_channel *ch, const uint32_t **list) {
    const uint32_t j = ch->two_level ? ch->place.local : ch->place.rank;
    *list = ch->collected + ch->collected_first[j];
    return ch->collected_first[j + 1] - ch->collected_first[j];
}

/* Lists the ranks of this node as targets and as sources. */
static bool connect_node(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    h->targets = h->sources = ch->place.locals;
    h->target = h->source = pithi_collective_ranks_of_node(ch);
    return h->target != NULL;
}

/* Lists as targets the owners of what this rank collects, and as sources the ranks that collect
 * this rank's shard, one on each node. */
static bool connect_nodes(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    const uint32_t *list;
    h->targets = collected_here(ch, &list);
    h->sources = ch->place.nodes;
    h->target = pithi_collective_take_ranks(ch, h->targets);
    h->source = pithi_collective_take_ranks(ch, h->sources);
    if (!h->target || !h->source) return false;
    for (uint32_t t = 0; t < h->targets; t++) h->target[t] = list[t];
    for (uint32_t m = 0; m < h->sources; m++) h->source[m] = pithi_collective_counterpart(ch, m);
    return true;
}

/* Makes the hop in which every rank sends what it has of each shard to the rank that collects it:
 * on one level its owner, on two levels a rank of the sender's own node. */
static pith_status first_hop(pith_collective_channel *ch, const char *spec, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t *list, one = ch->place.rank, none = 0;
    uint32_t *all = pithi_collective_all_ranks(ch);
    if (!all || !(ch->two_level ? connect_node(ch, h) : pithi_collective_connect_all(ch, h)))
        return PITH_ERR_MEMORY;
    h->put = (struct pithi_collective_parts){ch->collected, ch->collected_first};
    PITHI_COLLECTIVE_TRY(
        pithi_collective_make_encoder(ch, h, spec, ch->o.dtype, all, ch->place.ranks, error));
    if (ch->two_level)
        PITHI_COLLECTIVE_TRY(pithi_collective_make_decoder(ch, spec, ch->o.dtype, all,
                                                           ch->place.ranks, &h->decoder, error));
    else
        PITHI_COLLECTIVE_TRY(
            pithi_collective_make_decoder(ch, spec, ch->o.dtype, &one, 1, &h->decoder, error));
    const uint32_t each = ch->two_level ? collected_here(ch, &list) : 1;
    if (!pithi_collective_set_parts(ch, &h->get, h->sources, each, ch->two_level ? list : &none, 0))
        return PITH_ERR_MEMORY;
    pithi_collective_set_random(ch, h, 0);
    return PITH_OK;
}

/* Makes the hop in which sums of whole nodes, of dtype f32, go to the owners of the shards. The
 * shard of target t is part t of the encoder. */
static pith_status second_hop(pith_collective_channel *ch, const char *spec, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t *list, one = ch->place.rank, none = 0;
    uint32_t *all = pithi_collective_all_ranks(ch);
    const uint32_t shards = collected_here(ch, &list);
    if (!all || !connect_nodes(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(pithi_collective_make_encoder(ch, h, spec, PITH_F32, list, shards, error));
    PITHI_COLLECTIVE_TRY(
        pithi_collective_make_decoder(ch, spec, PITH_F32, &one, 1, &h->decoder, error));
    if (!pithi_collective_set_parts(ch, &h->put, h->targets, 1, all, 1) ||
        !pithi_collective_set_parts(ch, &h->get, h->sources, 1, &none, 0))
        return PITH_ERR_MEMORY;
    pithi_collective_set_random(ch, h, 1);
    return PITH_OK;
}

const char *pithi_collective_owner_spec(const pith_collective_channel *ch) {
    const pith_collective_options *o = &ch->o;
    const bool apart = ch->place.nodes > 1 && ch->place.nodes == ch->place.ranks;
    if (!ch->packed) return "raw";
    return o->inter && (ch->two_level || apart) ? o->inter : o->spec;
}

pith_status pithi_collective_reduce_scatter_hops(pith_collective_channel *ch, pith_error *error) {
    const char *const to_owners = pithi_collective_owner_spec(ch);
    PITHI_COLLECTIVE_TRY(first_hop(ch, ch->two_level ? ch->o.spec : to_owners, error));
    if (ch->two_level) PITHI_COLLECTIVE_TRY(second_hop(ch, to_owners, error));
    ch->in_count = ch->o.count;
    ch->out_count = ch->first[ch->place.rank + 1] - ch->first[ch->place.rank];
    return PITH_OK;
}

/* ---- Sums ------------------------------------------------------------------------------------*/

/* Fills in ch->sums[number], the sum of one slot, whose frames stand at `at` behind the header in
 * the messages of all sources; false when a message is too short. */
static bool list_sum(pith_collective_channel *ch, const struct pithi_collective_hop *h,
                     uint64_t slice, uint64_t slot, uint64_t at, size_t number) {
    const void **const frames = h->frames + number * h->sources;
    size_t *const lengths = h->lengths + number * h->sources;
    const uint64_t bytes = pith_plan_frame_bytes(h->decoder, slot, 0);
    for (uint32_t s = 0; s < h->sources; s++) {
        const struct pithi_collective_message *m = &h->in[slice * h->sources + s];
        if (m->payload < at + bytes) {
            pithi_collective_fail_text(ch, PITH_ERR_TRUNCATED,
                                       "a message is shorter than its frames");
            return false;
        }
        frames[s] = m->bytes + PITHI_COLLECTIVE_HEADER + at;
        lengths[s] = (size_t)bytes;
    }
    ch->sums[number] = (pith_sum){.size = sizeof *ch->sums,
                                  .stream = h->decoding,
                                  .slot = slot,
                                  .frames = frames,
                                  .lengths = lengths,
                                  .count = h->sources};
    return true;
}

/* Fills in sum and item `number`: the sum of part k of what the hop before has brought is the frame
 * of message k. Finished sums, which all targets share, are one part, and are scaled here. */
static bool list_recode(pith_collective_channel *ch, uint32_t hop, uint64_t slice, uint32_t k,
                        uint64_t at, size_t number) {
    const struct pithi_collective_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    const struct pithi_collective_message *m = &to->out[slice * to->targets + k];
    if (!list_sum(ch, from, slice, from->get.list[k] * ch->slices + slice, at, number))
        return false;
    ch->sums[number].scale = to->shared ? ch->call.scale : 1.0f;
    ch->items[number] = (pith_item){.size = sizeof *ch->items,
                                    .stream = to->encoding,
                                    .slot = to->put.list[k] * ch->slices + slice,
                                    .frame = m->bytes + PITHI_COLLECTIVE_HEADER,
                                    .capacity = (size_t)(m->cap - PITHI_COLLECTIVE_HEADER)};
    return true;
}

void pithi_collective_recode(pith_collective_channel *ch, uint32_t hop, uint64_t slice) {
    struct pithi_collective_hop *from = &ch->hop[hop - 1], *to = &ch->hop[hop];
    const struct pithi_collective_message *const out = &to->out[slice * to->targets];
    uint64_t at = 0;
    size_t n = 0;
    for (uint32_t k = 0; k < from->get.first[1]; k++) {
        if (!out[k].frames) continue;
        if (!list_recode(ch, hop, slice, k, at, n++)) return;
        at += pithi_collective_frame_stride(from->decoder, from->get.list[k] * ch->slices + slice);
    }
    if (!n) return;
    const pith_status status = pith_reduce_encode(ch->work, ch->sums, ch->items, n);
    if (!pithi_collective_note_encoded(ch, to, ch->items, n, status)) return;
    const pith_item *item = ch->items;
    for (uint32_t k = 0; k < from->get.first[1]; k++)
        if (out[k].frames)
            pithi_collective_hand_over(ch, to, slice, k, pithi_collective_pad(item++->length));
}

void pithi_collective_decode_sum(pith_collective_channel *ch, uint64_t slice) {
    const struct pithi_collective_hop *h = &ch->hop[ch->hops - 1];
    if (!pithi_collective_slot_count(h->decoder, slice) || !list_sum(ch, h, slice, slice, 0, 0))
        return;
    ch->sums->scale = ch->call.scale;
    const bool in_place = pithi_collective_output_of(ch, h, slice, &ch->sums->view);
    if (pithi_collective_good(ch, pith_reduce(ch->work, ch->sums, 1)) && !in_place)
        pithi_collective_copy_out(ch, h, slice);
}
