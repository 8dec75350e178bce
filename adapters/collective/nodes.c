/* nodes.c - which ranks share a node, and which rank of another node is whose counterpart.
 * SPDX-License-Identifier: Apache-2.0 */
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

void pithi_collective_find_nodes(pith_collective_channel *ch) {
    find_lowest(ch);
    number_nodes(ch);
}

uint32_t pithi_collective_local_rank(const pith_collective_channel *ch, uint32_t node,
                                     uint32_t local) {
    uint32_t r = 0;
    while (ch->node_of[r] != node || ch->local_of[r] != local) r++;
    return r;
}

uint32_t *pithi_collective_all_ranks(pith_collective_channel *ch) {
    uint32_t *all = pithi_collective_take(ch, ch->place.ranks, sizeof *all);
    for (uint32_t r = 0; all && r < ch->place.ranks; r++) all[r] = r;
    return all;
}

uint32_t *pithi_collective_ranks_of_node(pith_collective_channel *ch) {
    uint32_t *list = pithi_collective_take(ch, ch->place.locals, sizeof *list);
    for (uint32_t j = 0; list && j < ch->place.locals; j++)
        list[j] = pithi_collective_local_rank(ch, ch->place.node, j);
    return list;
}

uint32_t pithi_collective_counterpart(const pith_collective_channel *ch, uint32_t node) {
    return pithi_collective_local_rank(ch, node, ch->place.local % ch->node_size[node]);
}

pith_status pith_collective_get_place(const pith_collective_channel *ch,
                                      pith_collective_place *out) {
    return ch ? pithi_collective_give(out, &ch->place, sizeof ch->place) : PITH_ERR_ARG;
}
