/* place.c - which ranks share a node, and who collects for whom.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "channel.h"

static bool lowest_on_node(pith_mpi_channel *ch, int *lowest) {
    MPI_Comm node;
    int rank = (int)ch->place.rank;
    if (MPI_Comm_split_type(ch->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node))
        return false;
    const int rc = MPI_Allreduce(&rank, lowest, 1, MPI_INT, MPI_MIN, node);
    return !MPI_Comm_free(&node) && !rc;
}

/* Fills node_of with the lowest rank of every rank's node. */
static bool find_lowest(pith_mpi_channel *ch) {
    const uint32_t size = ch->o.ranks_per_node;
    for (uint32_t r = 0; size && r < ch->place.ranks; r++) ch->node_of[r] = r / size * size;
    if (size) return true;
    int lowest = 0;
    return lowest_on_node(ch, &lowest) &&
           !MPI_Allgather(&lowest, 1, MPI_INT, ch->node_of, 1, MPI_INT, ch->comm);
}

/* From lowest ranks to node numbers: a node's own number is set before any other rank needs it. */
static void number_nodes(pith_mpi_channel *ch) {
    pith_mpi_place *p = &ch->place;
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

pith_status pithi_mpi_find_place(pith_mpi_channel *ch) {
    return find_lowest(ch) ? (number_nodes(ch), PITH_OK) : PITH_ERR_MPI;
}

uint32_t pithi_mpi_local_rank(const pith_mpi_channel *ch, uint32_t node, uint32_t local) {
    uint32_t r = 0;
    while (ch->node_of[r] != node || ch->local_of[r] != local) r++;
    return r;
}

/* At two levels local rank j of a node of R collects for every rank whose local rank is j mod R: on
 * nodes of equal size those are its namesakes (pith_slot_order). */
void pithi_mpi_find_shares(pith_mpi_channel *ch) {
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

pith_status pith_mpi_get_place(const pith_mpi_channel *ch, pith_mpi_place *out) {
    return ch ? pithi_mpi_give(out, &ch->place, sizeof ch->place) : PITH_ERR_ARG;
}

pith_status pith_mpi_shard(const pith_mpi_channel *ch, uint32_t rank, uint64_t *first,
                           uint64_t *count) {
    if (!ch || !first || !count || rank >= ch->place.ranks || ch->o.kind == PITH_MPI_ALLTOALLV)
        return PITH_ERR_ARG;
    *first = ch->first[rank];
    *count = ch->first[rank + 1] - ch->first[rank];
    return PITH_OK;
}
