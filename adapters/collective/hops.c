/* hops.c - which hops a kind of call has: who sends to whom, and with which plans.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

uint64_t pithi_collective_slice_count(const pith_collective_channel *ch, uint64_t count,
                                      uint64_t slice) {
    const uint64_t from = slice * ch->slice; /* fits, since slice < slices */
    if (from >= count) return 0;
    return count - from < ch->slice ? count - from : ch->slice;
}

/* ---- Runs: slots of plans --------------------------------------------------------------------*/

static struct pithi_collective_run *cut_slices(const pith_collective_channel *ch, uint64_t first,
                                               uint64_t count, struct pithi_collective_run *to) {
    for (uint64_t i = 0; i < ch->slices; i++, to++) {
        to->first = first;
        to->count = pithi_collective_slice_count(ch, count, i);
        first += to->count;
    }
    return to;
}

/* Makes a plan over the shards of some ranks. */
static pith_status plan_of(pith_collective_channel *ch, const char *spec, uint32_t dtype,
                           const uint32_t *ranks, uint32_t count, const pith_plan **plan,
                           pith_error *error) {
    struct pithi_collective_run *runs = pithi_collective_take(ch, count * ch->slices, sizeof *runs);
    struct pithi_collective_run *end = runs;
    if (!runs) return PITH_ERR_MEMORY;
    for (uint32_t k = 0; k < count; k++)
        end =
            cut_slices(ch, ch->first[ranks[k]], ch->first[ranks[k] + 1] - ch->first[ranks[k]], end);
    return pithi_collective_make_plan(ch, spec, dtype, runs, count * ch->slices, plan, error);
}

/* Makes the plan of what a hop encodes. */
static pith_status encoder_of(pith_collective_channel *ch, struct pithi_collective_hop *h,
                              const char *spec, uint32_t dtype, const uint32_t *ranks,
                              uint32_t count, pith_error *error) {
    uint32_t *const kept = pithi_collective_take(ch, count, sizeof *kept);
    if (!kept) return PITH_ERR_MEMORY;
    memcpy(kept, ranks, count * sizeof *kept);
    h->encoded_of = kept;
    h->encoded_count = count;
    return plan_of(ch, spec, dtype, ranks, count, &h->encoder, error);
}

/* Makes a plan for frames that a rank only decodes or adds up. */
static pith_status decoder_of(pith_collective_channel *ch, const char *spec, uint32_t dtype,
                              const uint32_t *ranks, uint32_t count, const pith_plan **plan,
                              pith_error *error) {
    char text[PITH_SPEC_MAX];
    PITHI_COLLECTIVE_TRY(pithi_collective_decoder_spec(spec, text, error));
    return plan_of(ch, text, dtype, ranks, count, plan, error);
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
        end = cut_slices(ch, *total, counts[r], end);
        *total += counts[r];
    }
    return pithi_collective_make_plan(ch, spec, ch->o.dtype, runs, ranks * ch->slices, plan, error);
}

/* ---- Parts: what stands in messages ----------------------------------------------------------*/

static uint32_t *take_ranks(pith_collective_channel *ch, uint64_t count) {
    return pithi_collective_take(ch, count + 1, sizeof(uint32_t));
}

/* Gives message i `each` parts: from[i * step] and on. first[1] is there without messages, too. */
static bool set_parts(pith_collective_channel *ch, struct pithi_collective_parts *g,
                      uint32_t messages, uint32_t each, const uint32_t *from, uint32_t step) {
    g->list = take_ranks(ch, (uint64_t)messages * each);
    g->first = take_ranks(ch, messages + UINT64_C(1));
    if (!g->list || !g->first) return false;
    for (uint32_t i = 0; i < messages; i++) {
        for (uint32_t k = 0; k < each; k++) g->list[i * each + k] = from[i * step + k];
        g->first[i + 1] = (i + 1) * each;
    }
    return true;
}

/* Returns the list 0, 1, 2, ... of parts or ranks. */
static uint32_t *count_up(pith_collective_channel *ch, uint32_t count) {
    uint32_t *all = take_ranks(ch, count);
    for (uint32_t i = 0; all && i < count; i++) all[i] = i;
    return all;
}

static uint32_t own_share(const pith_collective_channel *ch, const uint32_t **list) {
    const uint32_t j = ch->two_level ? ch->place.local : ch->place.rank;
    *list = ch->share + ch->share_first[j];
    return ch->share_first[j + 1] - ch->share_first[j];
}

/* ---- Who sends to whom -----------------------------------------------------------------------*/

static bool with_all(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    h->targets = h->sources = ch->place.ranks;
    h->target = h->source = count_up(ch, ch->place.ranks);
    return h->target != NULL;
}

/* Returns the list of the ranks of this rank's node. */
static uint32_t *ranks_of_node(pith_collective_channel *ch) {
    uint32_t *list = take_ranks(ch, ch->place.locals);
    for (uint32_t j = 0; list && j < ch->place.locals; j++)
        list[j] = pithi_collective_local_rank(ch, ch->place.node, j);
    return list;
}

static bool with_node(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    h->targets = h->sources = ch->place.locals;
    h->target = h->source = ranks_of_node(ch);
    return h->target != NULL;
}

/* Returns the counterpart of this rank on a node. */
static uint32_t counterpart(const pith_collective_channel *ch, uint32_t node) {
    return pithi_collective_local_rank(ch, node, ch->place.local % ch->node_size[node]);
}

/* Connects a collector with those it collects for, and every node's collector with this rank. */
static bool with_nodes(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    const uint32_t *list;
    h->targets = own_share(ch, &list);
    h->sources = ch->place.nodes;
    h->target = take_ranks(ch, h->targets);
    h->source = take_ranks(ch, h->sources);
    if (!h->target || !h->source) return false;
    for (uint32_t t = 0; t < h->targets; t++) h->target[t] = list[t];
    for (uint32_t m = 0; m < h->sources; m++) h->source[m] = counterpart(ch, m);
    return true;
}

static bool is_here(const pith_collective_channel *ch, uint32_t rank) {
    return ch->node_of[rank] == ch->place.node;
}

/* Returns which local rank of this node a rank of another node has as its counterpart. */
static uint32_t local_counterpart(const pith_collective_channel *ch, uint32_t rank) {
    return ch->local_of[rank] % ch->place.locals;
}

/* Connects a rank with those of its node and its counterpart on each other node, and with the ranks
 * whose counterpart it is. */
static bool with_counterparts(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    const uint32_t ranks = ch->place.ranks;
    h->target = take_ranks(ch, ranks);
    h->source = take_ranks(ch, ranks);
    if (!h->target || !h->source) return false;
    for (uint32_t m = 0; m < ch->place.nodes; m++) {
        if (m != ch->place.node) h->target[h->targets++] = counterpart(ch, m);
        for (uint32_t j = 0; m == ch->place.node && j < ch->place.locals; j++)
            h->target[h->targets++] = pithi_collective_local_rank(ch, m, j);
    }
    for (uint32_t r = 0; r < ranks; r++)
        if (is_here(ch, r) || local_counterpart(ch, r) == ch->place.local)
            h->source[h->sources++] = r;
    return true;
}

static bool is_antithetic(const pith_plan *plan) {
    char text[PITH_SPEC_MAX];
    return pith_plan_spec(plan, text, sizeof text) == PITH_OK && strstr(text, "round=antithetic");
}

/* Sets the random bits of a hop by its role: 0 the first, 1 the second, 2 the gathering one. */
static void set_random(const pith_collective_channel *ch, struct pithi_collective_hop *h,
                       uint32_t role) {
    const pith_collective_place *p = &ch->place;
    const uint32_t first = ch->o.rng_stream + role * p->ranks;
    h->role = role;
    h->random = (pith_stream_options){
        .size = sizeof h->random, .seed = ch->o.seed, .rng_stream = first + p->rank};
    if (role == 2 || ch->o.kind == PITH_COLLECTIVE_ALLGATHER ||
        ch->o.kind == PITH_COLLECTIVE_ALLTOALLV || !is_antithetic(h->encoder))
        return;
    h->random.rng_stream = first + (role == 0 && ch->two_level ? p->node : 0);
    h->random.rank = role ? p->node : ch->two_level ? p->local : p->rank;
    h->random.ranks = role ? p->nodes : ch->two_level ? p->locals : p->ranks;
}

/* ---- Hops ------------------------------------------------------------------------------------*/

/* Makes the hop in which every rank's part of each shard goes to who collects it. */
static pith_status first_hop(pith_collective_channel *ch, const char *spec, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t *list, one = ch->place.rank, none = 0;
    uint32_t *all = count_up(ch, ch->place.ranks);
    if (!all || !(ch->two_level ? with_node(ch, h) : with_all(ch, h))) return PITH_ERR_MEMORY;
    h->put = (struct pithi_collective_parts){ch->share, ch->share_first};
    PITHI_COLLECTIVE_TRY(encoder_of(ch, h, spec, ch->o.dtype, all, ch->place.ranks, error));
    if (ch->two_level)
        PITHI_COLLECTIVE_TRY(
            decoder_of(ch, spec, ch->o.dtype, all, ch->place.ranks, &h->decoder, error));
    else
        PITHI_COLLECTIVE_TRY(decoder_of(ch, spec, ch->o.dtype, &one, 1, &h->decoder, error));
    const uint32_t each = ch->two_level ? own_share(ch, &list) : 1;
    if (!set_parts(ch, &h->get, h->sources, each, ch->two_level ? list : &none, 0))
        return PITH_ERR_MEMORY;
    set_random(ch, h, 0);
    return PITH_OK;
}

/* Makes the hop in which the node's sums go to the owners of the shards. */
static pith_status second_hop(pith_collective_channel *ch, const char *spec, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t *list, one = ch->place.rank, none = 0;
    uint32_t *all = count_up(ch, ch->place.ranks);
    const uint32_t shares = own_share(ch, &list);
    if (!all || !with_nodes(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(encoder_of(ch, h, spec, PITH_F32, list, shares, error));
    PITHI_COLLECTIVE_TRY(decoder_of(ch, spec, PITH_F32, &one, 1, &h->decoder, error));
    if (!set_parts(ch, &h->put, h->targets, 1, all, 1) ||
        !set_parts(ch, &h->get, h->sources, 1, &none, 0))
        return PITH_ERR_MEMORY;
    set_random(ch, h, 1);
    return PITH_OK;
}

/* Makes the hop in which the finished shard goes from its owner to all, or to those who forward
 * it. */
static pith_status last_hop(pith_collective_channel *ch, const char *spec, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t one = ch->place.rank, none = 0, ranks = ch->place.ranks;
    const uint32_t *all = count_up(ch, ranks);
    h->shared = true;
    if (!all || !with_counterparts(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(encoder_of(ch, h, spec, PITH_F32, &one, 1, error));
    PITHI_COLLECTIVE_TRY(decoder_of(ch, spec, PITH_F32, all, ranks, &h->decoder, error));
    if (!set_parts(ch, &h->put, h->targets, 1, &none, 0) ||
        !set_parts(ch, &h->get, h->sources, 1, h->source, 1))
        return PITH_ERR_MEMORY;
    set_random(ch, h, 2);
    return PITH_OK;
}

/* Makes the hops of a sum, as pith_collective.h promises for the number of nodes found and the
 * threshold. */
static pith_status sum_hops(pith_collective_channel *ch, pith_error *error) {
    const pith_collective_options *o = &ch->o;
    const char *only =
        o->inter && ch->place.nodes == ch->place.ranks && ch->place.nodes > 1 ? o->inter : o->spec;
    const char *last = ch->two_level ? o->inter : only;
    PITHI_COLLECTIVE_TRY(first_hop(ch,
                                   !ch->packed     ? "raw"
                                   : ch->two_level ? o->spec
                                                   : only,
                                   error));
    if (ch->two_level) PITHI_COLLECTIVE_TRY(second_hop(ch, o->inter, error));
    if (o->kind == PITH_COLLECTIVE_ALLREDUCE) {
        if (o->gather) last = o->gather;
        PITHI_COLLECTIVE_TRY(last_hop(ch, ch->packed ? last : "raw", error));
    }
    ch->in_count = o->count;
    ch->out_count = o->kind == PITH_COLLECTIVE_ALLREDUCE
                        ? o->count
                        : ch->first[ch->place.rank + 1] - ch->first[ch->place.rank];
    return PITH_OK;
}

static pith_status gather_hop(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    const uint32_t one = ch->place.rank, ranks = ch->place.ranks;
    const uint32_t *all = count_up(ch, ranks);
    const char *spec = ch->packed ? ch->o.spec : "raw";
    h->shared = true;
    if (!all || !with_counterparts(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(plan_of(ch, spec, ch->o.dtype, all, ranks, &h->encoder, error));
    h->decoder = h->encoder;
    if (!set_parts(ch, &h->put, h->targets, 1, &one, 0) ||
        !set_parts(ch, &h->get, h->sources, 1, h->source, 1))
        return PITH_ERR_MEMORY;
    set_random(ch, h, 0);
    ch->in_count = ch->first[one + 1] - ch->first[one];
    ch->out_count = ch->o.count;
    return PITH_OK;
}

static pith_status exchange_hop(pith_collective_channel *ch, pith_error *error) {
    struct pithi_collective_hop *h = &ch->hop[ch->encoded_hops++];
    char text[PITH_SPEC_MAX];
    if (!with_all(ch, h)) return PITH_ERR_MEMORY;
    PITHI_COLLECTIVE_TRY(
        plan_of_counts(ch, ch->o.spec, ch->o.send_counts, &h->encoder, &ch->in_count, error));
    PITHI_COLLECTIVE_TRY(pithi_collective_decoder_spec(ch->o.spec, text, error));
    PITHI_COLLECTIVE_TRY(
        plan_of_counts(ch, text, ch->o.recv_counts, &h->decoder, &ch->out_count, error));
    if (!set_parts(ch, &h->put, h->targets, 1, h->target, 1) ||
        !set_parts(ch, &h->get, h->sources, 1, h->source, 1))
        return PITH_ERR_MEMORY;
    set_random(ch, h, 0);
    return PITH_OK;
}

/* Lists what this rank forwards, in the order of those who encoded it: each message from another
 * node to every other rank of this node. */
static bool list_forwarded(pith_collective_channel *ch, const struct pithi_collective_hop *from,
                           const uint32_t *node, struct pithi_collective_hop *h) {
    const uint64_t most = (uint64_t)(from->sources - ch->place.locals) * ch->place.locals;
    uint32_t *const forwarded = take_ranks(ch, most), *const origins = take_ranks(ch, most);
    h->target = take_ranks(ch, most);
    h->forwarded = forwarded;
    if (!forwarded || !origins || !h->target) return false;
    for (uint32_t s = 0; s < from->sources; s++)
        for (uint32_t j = 0; j < ch->place.locals && !is_here(ch, from->source[s]); j++) {
            if (node[j] == ch->place.rank) continue;
            forwarded[h->targets] = s;
            origins[h->targets] = from->source[s];
            h->target[h->targets++] = node[j];
        }
    return set_parts(ch, &h->put, h->targets, 1, origins, 1);
}

/* Lists what others forward to this rank: from each of them in the same order. */
static bool list_taken(pith_collective_channel *ch, const uint32_t *node,
                       struct pithi_collective_hop *h) {
    uint32_t *const origins = take_ranks(ch, ch->place.ranks);
    h->source = take_ranks(ch, ch->place.ranks);
    if (!origins || !h->source) return false;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        if (is_here(ch, r) || local_counterpart(ch, r) == ch->place.local) continue;
        origins[h->sources] = r;
        h->source[h->sources++] = node[local_counterpart(ch, r)];
    }
    return set_parts(ch, &h->get, h->sources, 1, origins, 1);
}

/* Makes the hop in which frames that came from other nodes go to the other ranks of this node. It
 * has the plans and the decoding stream of the hop before, and encodes nothing. */
static pith_status forwarding_hop(pith_collective_channel *ch, pith_error *error) {
    const struct pithi_collective_hop *from = &ch->hop[ch->encoded_hops - 1];
    struct pithi_collective_hop *h = &ch->hop[ch->hops++];
    const uint32_t *node = ranks_of_node(ch);
    h->shared = true;
    h->encoder = h->decoder = from->decoder;
    h->decoding = from->decoding;
    if (!node || !list_forwarded(ch, from, node, h) || !list_taken(ch, node, h))
        return PITH_ERR_MEMORY;
    return pithi_collective_make_messages(ch, h, error);
}

static pith_status make_kind(pith_collective_channel *ch, pith_error *error) {
    switch (ch->o.kind) {
    case PITH_COLLECTIVE_ALLGATHER: return gather_hop(ch, error);
    case PITH_COLLECTIVE_ALLTOALLV: return exchange_hop(ch, error);
    default: return sum_hops(ch, error);
    }
}

/* Checks that sums have a fixed rate: they need to know where each frame lies before it arrives. */
static pith_status check_fixed(const pith_collective_channel *ch,
                               const struct pithi_collective_hop *h, pith_error *error) {
    pith_sizes sizes = {.size = sizeof sizes};
    PITHI_COLLECTIVE_TRY(pith_plan_sizes(h->encoder, &sizes));
    if (sizes.fixed || ch->o.kind == PITH_COLLECTIVE_ALLGATHER ||
        ch->o.kind == PITH_COLLECTIVE_ALLTOALLV)
        return PITH_OK;
    pithi_collective_say(error, "sums take specs of fixed rate only");
    return PITH_ERR_UNSUPPORTED;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Allocates lists as long as any stage needs: what a slice puts into the messages of a hop, the
 * sums of what it brought, or a frame from each of its sources; and memory for a slice of elements
 * of any dtype. */
static pith_status make_lists(pith_collective_channel *ch) {
    uint32_t most = 1;
    for (uint32_t k = 0; k < ch->hops; k++) {
        const struct pithi_collective_hop *h = &ch->hop[k];
        most = larger(most, larger(h->put.first[h->targets], h->sources));
        most = larger(most, h->get.first[1]);
    }
    ch->items = pithi_collective_take(ch, most, sizeof *ch->items);
    ch->sums = pithi_collective_take(ch, most, sizeof *ch->sums);
    ch->scratch = pithi_collective_take(ch, pithi_collective_slice_count(ch, ch->longest, 0), 8);
    return ch->items && ch->sums && ch->scratch ? PITH_OK : PITH_ERR_MEMORY;
}

pith_status pithi_collective_make_hops(pith_collective_channel *ch, pith_error *error) {
    if (pithi_collective_is_sparse(ch->o.kind)) return pithi_collective_make_sparse(ch, error);
    PITHI_COLLECTIVE_TRY(make_kind(ch, error));
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        PITHI_COLLECTIVE_TRY(check_fixed(ch, &ch->hop[k], error));
        PITHI_COLLECTIVE_TRY(pithi_collective_make_streams(ch, &ch->hop[k], error));
        PITHI_COLLECTIVE_TRY(pithi_collective_make_messages(ch, &ch->hop[k], error));
    }
    ch->hops = ch->encoded_hops;
    if (ch->hop[ch->hops - 1].shared && ch->place.nodes > 1 && ch->place.locals > 1)
        PITHI_COLLECTIVE_TRY(forwarding_hop(ch, error));
    PITHI_COLLECTIVE_TRY(make_lists(ch));
    return pithi_collective_make_work(ch, error);
}
