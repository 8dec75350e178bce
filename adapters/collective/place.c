/* place.c - which ranks share a node, and who collects for whom.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

/* Fills node_of with the lowest rank of every rank's node. */
static void find_lowest(pith_collective_channel *ch) {
    const uint32_t size = ch->o.ranks_per_node, *const given = ch->t.node_of;
    for (uint32_t r = 0; r < ch->place.ranks; r++) {
        uint32_t lowest = 0;
        if (size)
            lowest = r / size * size;
        else if (given)
            while (given[lowest] != given[r]) lowest++;
        ch->node_of[r] = lowest;
    }
}

/* Turns lowest ranks into node numbers: a node's own number is set before any other rank needs
 * it. */
static void number_nodes(pith_collective_channel *ch) {
    pith_collective_place *p = &ch->place;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint32_t lowest = ch->node_of[r];
        const uint32_t node = lowest == r ? p->nodes++ : ch->node_of[lowest];
        ch->node_of[r] = node;
        ch->local_of[r] = ch->node_size[node]++;
    }
    p->node = ch->node_of[p->rank];
    p->local = ch->local_of[p->rank];
    p->locals = ch->node_size[p->node];
}

void pithi_collective_find_place(pith_collective_channel *ch) {
    find_lowest(ch);
    number_nodes(ch);
}

uint32_t pithi_collective_local_rank(const pith_collective_channel *ch, uint32_t node,
                                     uint32_t local) {
    uint32_t r = 0;
    while (ch->node_of[r] != node || ch->local_of[r] != local) r++;
    return r;
}

/* Finds which shards each rank collects. At one level every rank collects its own. At two levels
 * local rank j of a node of R ranks collects for every rank whose local rank is j mod R: on nodes
 * of equal size these are the ranks with its own local rank (pith_slot_order). */
void pithi_collective_find_shares(pith_collective_channel *ch) {
    const uint32_t ranks = ch->place.ranks;
    const uint32_t collectors = ch->two_level ? ch->place.locals : ranks;
    uint32_t filled = 0;
    for (uint32_t j = 0; j < collectors; j++) {
        ch->share_first[j] = filled;
        for (uint32_t r = 0; r < ranks; r++)
            if (ch->two_level ? ch->local_of[r] % collectors == j : r == j) ch->share[filled++] = r;
    }
    ch->share_first[collectors] = filled;
}

pith_status pith_collective_get_place(const pith_collective_channel *ch,
                                      pith_collective_place *out) {
    return ch ? pithi_collective_give(out, &ch->place, sizeof ch->place) : PITH_ERR_ARG;
}

pith_status pith_collective_shard(const pith_collective_channel *ch, uint32_t rank, uint64_t *first,
                                  uint64_t *count) {
    if (!ch || !first || !count || rank >= ch->place.ranks ||
        ch->o.kind == PITH_COLLECTIVE_ALLTOALLV)
        return PITH_ERR_ARG;
    *first = ch->first[rank];
    *count = ch->first[rank + 1] - ch->first[rank];
    return PITH_OK;
}
