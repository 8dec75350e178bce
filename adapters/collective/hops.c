/* hops.c - what hops of all kinds are made of: plans over shards, parts of messages, random bits.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "hops.h"

/* ---- Runs: slots of plans --------------------------------------------------------------------*/

struct pithi_collective_run *pithi_collective_cut_slices(const pith_collective_channel *ch,
                                                         uint64_t first, uint64_t count,
                                                         struct pithi_collective_run *to) {
    for (uint64_t i = 0; i < ch->slices; i++, to++) {
        to->first = first;
        to->count = pithi_collective_slice_count(ch, count, i);
        first += to->count;
    }
    return to;
}

pith_status pithi_collective_make_shard_plan(pith_collective_channel *ch, const char *spec,
                                             uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                             const pith_plan **plan, pith_error *error) {
    struct pithi_collective_run *runs = pithi_collective_take(ch, count * ch->slices, sizeof *runs);
    struct pithi_collective_run *end = runs;
    if (!runs) return PITH_ERR_MEMORY;
    for (uint32_t k = 0; k < count; k++)
        end = pithi_collective_cut_slices(ch, ch->first[ranks[k]],
                                          ch->first[ranks[k] + 1] - ch->first[ranks[k]], end);
    return pithi_collective_make_plan(ch, spec, dtype, runs, count * ch->slices, plan, error);
}

pith_status pithi_collective_make_encoder(pith_collective_channel *ch,
                                          struct pithi_collective_hop *h, const char *spec,
                                          uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                          pith_error *error) {
    uint32_t *const kept = pithi_collective_take(ch, count, sizeof *kept);
    if (!kept) return PITH_ERR_MEMORY;
    memcpy(kept, ranks, count * sizeof *kept);
    h->encoded_of = kept;
    h->encoded_count = count;
    return pithi_collective_make_shard_plan(ch, spec, dtype, ranks, count, &h->encoder, error);
}

pith_status pithi_collective_make_decoder(pith_collective_channel *ch, const char *spec,
                                          uint32_t dtype, const uint32_t *ranks, uint32_t count,
                                          const pith_plan **plan, pith_error *error) {
    char text[PITH_SPEC_MAX];
    PITHI_COLLECTIVE_TRY(pithi_collective_decoder_spec(spec, text, error));
    return pithi_collective_make_shard_plan(ch, text, dtype, ranks, count, plan, error);
}

/* ---- Parts: what stands in messages ----------------------------------------------------------*/

uint32_t *pithi_collective_take_ranks(pith_collective_channel *ch, uint64_t count) {
    return pithi_collective_take(ch, count + 1, sizeof(uint32_t));
}

bool pithi_collective_set_parts(pith_collective_channel *ch, struct pithi_collective_parts *g,
                                uint32_t messages, uint32_t each, const uint32_t *from,
                                uint32_t step) {
    g->list = pithi_collective_take_ranks(ch, (uint64_t)messages * each);
    g->first = pithi_collective_take_ranks(ch, messages + UINT64_C(1));
    if (!g->list || !g->first) return false;
    for (uint32_t i = 0; i < messages; i++) {
        for (uint32_t k = 0; k < each; k++) g->list[i * each + k] = from[i * step + k];
        g->first[i + 1] = (i + 1) * each;
    }
    return true;
}

/* ---- Who sends to whom -----------------------------------------------------------------------*/

bool pithi_collective_connect_all(pith_collective_channel *ch, struct pithi_collective_hop *h) {
    h->targets = h->sources = ch->place.ranks;
    h->target = h->source = pithi_collective_all_ranks(ch);
    return h->target != NULL;
}

static bool is_antithetic(const pith_plan *plan) {
    char text[PITH_SPEC_MAX];
    return pith_plan_spec(plan, text, sizeof text) == PITH_OK && strstr(text, "round=antithetic");
}

void pithi_collective_set_random(const pith_collective_channel *ch, struct pithi_collective_hop *h,
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

static pith_status make_kind(pith_collective_channel *ch, pith_error *error) {
    switch (ch->o.kind) {
    case PITH_COLLECTIVE_REDUCE_SCATTER: return pithi_collective_reduce_scatter_hops(ch, error);
    case PITH_COLLECTIVE_ALLREDUCE: return pithi_collective_allreduce_hops(ch, error);
    case PITH_COLLECTIVE_ALLGATHER: return pithi_collective_allgather_hop(ch, error);
    default: return pithi_collective_alltoall_hop(ch, error);
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

static pith_status make_work(pith_collective_channel *ch, pith_error *error) {
    const pith_plan *plans[2 * PITHI_COLLECTIVE_ENCODED];
    for (uint32_t k = 0; k < ch->encoded_hops; k++) {
        plans[2 * k] = ch->hop[k].encoder;
        plans[2 * k + 1] = ch->hop[k].decoder;
    }
    return pithi_collective_make_work(ch, plans, 2 * ch->encoded_hops, error);
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
        PITHI_COLLECTIVE_TRY(pithi_collective_forwarding_hop(ch, error));
    PITHI_COLLECTIVE_TRY(make_lists(ch));
    return make_work(ch, error);
}
