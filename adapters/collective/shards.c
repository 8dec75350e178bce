/* shards.c - which shard each rank owns, its slices, and who collects it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

pith_status pithi_collective_count_slices(pith_collective_channel *ch, pith_error *error) {
    ch->slices = ch->longest ? (ch->longest - 1) / ch->slice + 1 : 1;
    if (ch->slices <= INT32_MAX) return PITH_OK;
    pithi_collective_say(error, "too many slices");
    return PITH_ERR_ARG;
}

pith_status pithi_collective_find_shards(pith_collective_channel *ch, pith_error *error) {
    const uint64_t n = ch->o.count, ranks = ch->place.ranks, even = (n + ranks - 1) / ranks;
    uint64_t most = 0;
    for (uint64_t r = 0; r < ranks; r++) {
        const uint64_t left = n - ch->first[r];
        uint64_t count = ch->o.counts ? ch->o.counts[r] : even < left ? even : left;
        if (count > left || (ch->o.counts && r + 1 == ranks && count != left)) {
            pithi_collective_say(error, "the sum of counts is not count");
            return PITH_ERR_ARG;
        }
        ch->first[r + 1] = ch->first[r] + count;
        if (count > most) most = count;
    }
    ch->longest = ch->longest_of_all = most;
    return pithi_collective_count_slices(ch, error);
}

void pithi_collective_find_collectors(pith_collective_channel *ch) {
    const uint32_t ranks = ch->place.ranks;
    const uint32_t collectors = ch->two_level ? ch->place.locals : ranks;
    uint32_t filled = 0;
    for (uint32_t j = 0; j < collectors; j++) {
        ch->collected_first[j] = filled;
        for (uint32_t r = 0; r < ranks; r++)
            if (ch->two_level ? ch->local_of[r] % collectors == j : r == j)
                ch->collected[filled++] = r;
    }
    ch->collected_first[collectors] = filled;
}

uint64_t pithi_collective_slice_count(const pith_collective_channel *ch, uint64_t count,
                                      uint64_t slice) {
    const uint64_t from = slice * ch->slice; /* fits, since slice < slices */
    if (from >= count) return 0;
    return count - from < ch->slice ? count - from : ch->slice;
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
