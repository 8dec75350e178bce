/* replica.c - bf16 conversion and a hash of the live weights across ranks.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replica.h"

#include <stdlib.h>
#include <string.h>

int replica_create(struct replica *replica, size_t count, size_t width) {
    *replica = (struct replica){count, width, calloc(count, width)};
    return replica->live ? 0 : -1;
}

void replica_destroy(struct replica *replica) { free(replica->live); }

/* Round to nearest even; gradients that are not finite never get as far as a weight. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void replica_round(const struct replica *replica, void *to, const float *from, size_t count) {
    if (replica->width == sizeof(float)) {
        memcpy(to, from, count * sizeof(float));
        return;
    }
    uint16_t *out = to;
    for (size_t i = 0; i < count; i++) out[i] = to_bf16(from[i]);
}

void replica_read(const struct replica *replica, float *to) {
    if (replica->width == sizeof(float)) {
        memcpy(to, replica->live, replica->count * sizeof(float));
        return;
    }
    const uint16_t *in = replica->live;
    for (size_t i = 0; i < replica->count; i++) to[i] = from_bf16(in[i]);
}

/* FNV-1a over words of four bytes; the replica's own code, so that it does not trust pith's. */
static uint64_t hash(const unsigned char *bytes, size_t count) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i += 4) {
        uint32_t word = 0;
        memcpy(&word, bytes + i, count - i < 4 ? count - i : 4);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    return sum;
}

int replica_agrees(const struct replica *replica, const struct world *world) {
    const uint64_t mine = hash(replica->live, replica->count * replica->width);
    const uint64_t both[2] = {mine, ~mine};
    uint64_t least[2];
    MPI_Allreduce(both, least, 2, MPI_UINT64_T, MPI_MIN, world->comm);
    return least[0] == ~least[1];
}
