/* set.h - the parts of a block of topk, for kernels that make it and those that read it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * doc/FORMAT.md, sections 5.9 and 6.9. Both sides compute a byte of the frame, or an element, from
 * what lies around it, so that no two threads write one byte. */
#ifndef PITHI_GPU_DEVICE_SPARSE_SET_H
#define PITHI_GPU_DEVICE_SPARSE_SET_H

#include "device/sparse/choose.h"
#include "sparse/index.h"

/* The head of a block: the form and the low bits of ELIAS_FANO in a byte, and, unless the set is
 * empty, its elements - 1 in three. */
enum { PITHI_SET_FORM = 7, PITHI_SET_LOW_BITS = 3, PITHI_SET_EMPTY = 1, PITHI_SET_HEAD = 4 };
/* Groups of PACKED that a team takes at a time: a warp has one. */
enum {
    PITHI_SET_GROUPS = PITHI_TEAM / PITHI_WARP,
    PITHI_SET_EACH = PITHI_PACKED_GROUP / PITHI_WARP
};

/* Bytes of the values of so many elements. */
PITHI_DEVICE uint64_t pithi_values_bytes(const struct pithi_device_plan *p, uint64_t count) {
    const uint32_t dtype = p->device.sets.values;
    if (dtype != PITH_I8) return count * pithi_dtype_bytes(dtype);
    return (count + p->device.groups.set.group - 1) / p->device.groups.set.group * 4 + count;
}

PITHI_DEVICE uint64_t pithi_low_bytes(const struct pithi_gpu_set *c) {
    return ((uint64_t)c->count * c->low_bits + 7) / 8;
}
PITHI_DEVICE uint64_t pithi_high_bits(const struct pithi_gpu_set *c) {
    return (uint64_t)c->count + ((c->n - 1) >> c->low_bits);
}

PITHI_DEVICE uint32_t pithi_set_groups(const struct pithi_gpu_set *c) {
    return (c->count + PITHI_PACKED_GROUP - 1) / PITHI_PACKED_GROUP;
}
/* Numbers of group g. */
PITHI_DEVICE uint32_t pithi_packed_count(const struct pithi_gpu_set *c, uint32_t g) {
    const uint32_t left = c->count - g * PITHI_PACKED_GROUP;
    return left < PITHI_PACKED_GROUP ? left : (uint32_t)PITHI_PACKED_GROUP;
}
/* Bytes of group g, of which `byte` says width and exceptions. */
PITHI_DEVICE uint32_t pithi_packed_group_bytes(const struct pithi_gpu_set *c, uint32_t g,
                                               uint32_t byte) {
    return (uint32_t)pithi_packed_bytes(pithi_packed_count(c, g), byte);
}

/* Sets up a set without a list; block: where it begins in the slot, and its elements. */
PITHI_DEVICE void pithi_set_open(const struct pithi_device_plan *p, const struct pithi_gpu_item *it,
                                 uint64_t block, struct pithi_gpu_set *c) {
    const uint64_t size = (uint64_t)1 << p->block_log2;
    c->first = block << p->block_log2;
    c->n = (uint32_t)(it->slot->count - c->first < size ? it->slot->count - c->first : size);
    c->count = c->form = c->low_bits = 0;
    c->found = c->ties = c->runs = c->exceptions = 0;
    c->total = 0;
}

#endif
