/* memory.c - memory of channels: everything comes from the caller's allocator, at creation.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "channel.h"

/* The head of every block; it is as large as the alignment, so that the block keeps it. */
struct pithi_collective_block {
    struct pithi_collective_block *next;
    size_t bytes;
    uint8_t pad[64 - sizeof(void *) - sizeof(size_t)];
};

static void *allocate(const pith_env *env, size_t bytes) {
    if (env->alloc) return env->alloc(env->alloc_user, bytes, 64);
    return aligned_alloc(64, bytes);
}

static void release(const pith_env *env, void *memory, size_t bytes) {
    if (env->release)
        env->release(env->alloc_user, memory, bytes);
    else
        free(memory);
}

void *pithi_collective_take(pith_collective_channel *ch, uint64_t count, uint64_t bytes) {
    if (bytes && count > (UINT64_C(1) << 48) / bytes) return NULL;
    const uint64_t padded = (count * bytes + 63) / 64 * 64;
    if (padded > SIZE_MAX / 2) return NULL; /* on machines of 32 bits */
    const size_t total = sizeof(struct pithi_collective_block) + (size_t)padded;
    struct pithi_collective_block *block = allocate(&ch->env, total);
    if (!block) return NULL;
    memset(block, 0, total);
    block->bytes = total;
    block->next = ch->blocks;
    ch->blocks = block;
    return block + 1;
}

static size_t channel_bytes(void) { return (sizeof(pith_collective_channel) + 63) / 64 * 64; }

pith_collective_channel *pithi_collective_new(const pith_env *env) {
    pith_collective_channel *ch = allocate(env, channel_bytes());
    if (!ch) return NULL;
    memset(ch, 0, channel_bytes());
    ch->env = *env;
    return ch;
}

void pithi_collective_free(pith_collective_channel *ch) {
    const pith_env env = ch->env;
    while (ch->blocks) {
        struct pithi_collective_block *block = ch->blocks;
        ch->blocks = block->next;
        release(&env, block, block->bytes);
    }
    release(&env, ch, channel_bytes());
}
