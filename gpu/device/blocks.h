/* blocks.h - checksums of a frame's blocks: made, or compared.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where blocks have checksums a team has whole ones. It takes as many at a time as it has threads,
 * and divides its threads between them. */
#ifndef PITHI_GPU_DEVICE_BLOCKS_H
#define PITHI_GPU_DEVICE_BLOCKS_H

#include "device/team.h"

/* ---- Hash of bytes ---------------------------------------------------------------------------*/

PITHI_DEVICE uint64_t pithi_hash_lanes(struct pithi_quad q, uint64_t number) {
    return pithi_nh_term((uint64_t)q.word[1] << 32 | q.word[0], number) +
           pithi_nh_term((uint64_t)q.word[3] << 32 | q.word[2], number + 1);
}

/* The lanes of the 16 bytes from `at` on, a multiple of 16, of a whole that begins at p; bytes from
 * `end` on do not count. */
PITHI_DEVICE uint64_t pithi_hash_quad(const uint8_t *p, uint64_t at, uint64_t end) {
    const uint64_t number = at / 8;
    uint64_t lane[2] = {0, 0};
    const uint32_t left = end - at < 16 ? (uint32_t)(end - at) : 16;
    if (left == 16 && pithi_is_aligned(p + at, 16))
        return pithi_hash_lanes(pithi_get_quad(p + at), number);
    PITHI_UNROLL for (uint32_t k = 0; k < 16; k++) {
        const uint64_t byte = k < left ? p[at + k] : 0;
        lane[k / 8] |= byte << k % 8 * 8;
    }
    return pithi_nh_term(lane[0], number) + (left > 8 ? pithi_nh_term(lane[1], number + 1) : 0);
}

/* Returns the part of a hash that every step-th run of 16 bytes has, from the i-th on, of bytes
 * [from, to) of what is hashed; from is a multiple of 16. The parts of all i add up to the hash. */
PITHI_DEVICE uint64_t pithi_hash_part(const uint8_t *p, uint64_t from, uint64_t to, uint32_t i,
                                      uint32_t step) {
    const uint64_t stride = 16 * (uint64_t)step;
    uint64_t at = from + 16 * (uint64_t)i, sum = 0;
    for (; pithi_is_aligned(p, 16) && at + 3 * stride + 16 <= to; at += 4 * stride) {
        struct pithi_quad q[4]; /* under way at once */
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            q[k] = pithi_get_quad(p + at + k * stride);
        }
        PITHI_UNROLL for (uint32_t k = 0; k < 4; k++) {
            sum += pithi_hash_lanes(q[k], (at + k * stride) / 8);
        }
    }
    for (; at < to; at += stride) sum += pithi_hash_quad(p, at, to);
    return sum;
}

/* ---- Blocks ----------------------------------------------------------------------------------*/

/* `count` blocks from block `number` on, at most a thread each: the first at `at` in the payload,
 * each of `each` bytes, but none reaching beyond `end`. */
struct pithi_gpu_batch {
    uint64_t at, each, end, number;
    uint32_t count;
};

PITHI_DEVICE uint64_t pithi_batch_at(const struct pithi_gpu_batch *b, uint32_t i) {
    return b->at + i * b->each;
}
PITHI_DEVICE uint64_t pithi_batch_bytes(const struct pithi_gpu_batch *b, uint32_t i) {
    const uint64_t left = b->end - pithi_batch_at(b, i);
    return left < b->each ? left : b->each;
}

PITHI_PHASE(pithi_blocks_clear, uint32_t tid) {
    (void)a, (void)tid;
    s->sums[t->tid] = 0;
}

PITHI_PHASE(pithi_blocks_sum, const struct pithi_gpu_item *it, struct pithi_gpu_batch b) {
    uint32_t lanes = PITHI_TEAM;
    (void)a;
    while (lanes * b.count > PITHI_TEAM) lanes /= 2;
    const uint32_t i = t->tid / lanes;
    if (i >= b.count) return;
    pithi_atomic_add64(&s->sums[i],
                       pithi_hash_part(it->payload + pithi_batch_at(&b, i), 0,
                                       pithi_batch_bytes(&b, i), t->tid % lanes, lanes));
}

/* checked NULL: into the frame. */
PITHI_PHASE(pithi_blocks_finish, const struct pithi_gpu_item *it, struct pithi_gpu_batch b,
            struct pithi_gpu_checked *checked) {
    (void)a;
    if (t->tid >= b.count) return;
    const uint64_t number = b.number + t->tid;
    uint8_t *const entry = it->payload + it->form->checks + 8 * number;
    const uint64_t sum =
        pithi_nh_finish(s->sums[t->tid], pithi_batch_bytes(&b, t->tid), PITHI_CHECK_TAG + number);
    s->sums[t->tid] = 0;
    if (!checked)
        pithi_put64(entry, sum);
    else if (pithi_get64(entry) != sum)
        pithi_atomic_max32(&checked->failed, PITHI_FAILED_CHECKSUM);
}

/* The team's next blocks, before block `last`; and what holds the exempt values. */
PITHI_DEVICE struct pithi_gpu_batch pithi_batch_next(const struct pithi_gpu_item *it,
                                                     uint64_t number, uint64_t last) {
    const uint64_t each = it->form->block_bytes, left = last - number;
    struct pithi_gpu_batch b;
    b.at = it->form->data + number * each;
    b.each = each;
    b.end = it->slot->exempt_bytes ? it->slot->exempt_values : it->form->payload_bytes;
    b.number = number;
    b.count = left < PITHI_TEAM ? (uint32_t)left : (uint32_t)PITHI_TEAM;
    return b;
}
PITHI_DEVICE struct pithi_gpu_batch pithi_batch_exempt(const struct pithi_gpu_item *it) {
    const uint64_t at = it->slot->exempt_values, each = pithi_pad16(it->slot->exempt_bytes);
    const struct pithi_gpu_batch b = {at, each, at + each, it->slot->blocks, 1};
    return b;
}

/* Part of a body: the checksums of the blocks that hold the team's elements. With exempt elements
 * their values are one more block, the first team's. */
PITHI_DEVICE void pithi_blocks(const struct pithi_gpu_call *a, struct pithi_gpu_shared *s,
                               struct pithi_gpu_thread *t, struct pithi_team *team,
                               const struct pithi_device_plan *p, const struct pithi_gpu_item *it,
                               struct pithi_gpu_checked *checked) {
    const uint64_t lo = it->begin > a->first ? it->begin : a->first;
    uint64_t number = lo >> p->block_log2;
    const uint64_t last = lo < it->end ? ((it->end - 1) >> p->block_log2) + 1 : number;
    bool exempt_values = it->first && it->slot->exempt_bytes;
    PITHI_RUN(pithi_blocks_clear, 0);
    while (number < last || exempt_values) {
        const bool block = number < last;
        const struct pithi_gpu_batch b =
            block ? pithi_batch_next(it, number, last) : pithi_batch_exempt(it);
        PITHI_RUN(pithi_blocks_sum, it, b);
        PITHI_RUN(pithi_blocks_finish, it, b, checked);
        number += PITHI_TEAM;
        exempt_values = exempt_values && block;
    }
}

#endif
