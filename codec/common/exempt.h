/* exempt.h - elements that go around a codec: where they lie and where their values stand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A map belongs to a plan and speaks of the whole tensor. A frame's exempt values stand together in
 * one area behind its blocks, in order, each in its range's dtype. */
#ifndef PITHI_COMMON_EXEMPT_H
#define PITHI_COMMON_EXEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pith/pith.h"

struct pithi_exempt_range {
    uint64_t first, count;
    uint64_t at;    /* bytes of the exempt values of the tensor before this range */
    uint32_t how;   /* PITH_EXEMPT_* */
    uint32_t dtype; /* the dtype in which the values are stored */
};

struct pithi_exempt_map {
    const struct pithi_exempt_range *range;
    size_t count;
};

/* A run of exempt elements: part of one range. */
struct pithi_exempt_run {
    uint64_t first, count; /* elements of the tensor */
    uint64_t at;           /* bytes of exempt values before it, as in a range */
    uint32_t how, dtype;
};

/* Returns the dtype in which values of `dtype` are stored; PITH_NONE for another `how`. */
uint32_t pithi_exempt_dtype(uint32_t how, uint32_t dtype);
/* Where ranges come from: a caller's array, or a frame. */
struct pithi_exempt_source {
    const void *from;
    size_t count;
    pith_exempt (*at)(const void *from, size_t i);
};
/* Checks ranges (ascending, apart from each other, inside count elements) and, unless `to` is NULL,
 * makes the map of them. *bytes becomes the bytes of all exempt values. Returns the number of
 * ranges before the first that is not good: of all where there is none. */
size_t pithi_exempt_build(struct pithi_exempt_range *to, const struct pithi_exempt_source *source,
                          uint32_t dtype, uint64_t count, uint64_t *bytes);
/* Returns the bytes of the exempt values before element e. */
uint64_t pithi_exempt_at(const struct pithi_exempt_map *map, uint64_t e);
/* Finds the first run in elements [*first, end), and moves *first behind it. False when there is
 * none. */
bool pithi_exempt_next(const struct pithi_exempt_map *map, uint64_t *first, uint64_t end,
                       struct pithi_exempt_run *run);

#endif
