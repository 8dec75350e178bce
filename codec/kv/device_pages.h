/* device_pages.h - what device kernels know of a codec whose blocks are pages of tokens.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_KV_DEVICE_PAGES_H
#define PITHI_KV_DEVICE_PAGES_H

#include "group/codebook_value.h"

/* Entropy-coded pages have a string a head: as many as devices have memory for. */
enum { PITHI_CODED_HEADS = 256 };

/* The part of struct pithi_device that kinds of pages have. */
struct pithi_pages {
    uint32_t tokens; /* tokens of a page */
    bool channel;    /* groups run along tokens */
    bool rotated;    /* heads are rotated */
    bool outliers;   /* some values of every group are kept exactly */
    struct pithi_codebook book;
    /* The most bytes and elements of a page, and heads of a slot. */
    uint64_t most_bytes, most_elements, most_heads;
};

/* The part of struct pithi_device_plan_slot that kinds of pages have: a row has heads * dim
 * elements; outliers: of a group. */
struct pithi_pages_slot {
    uint32_t heads, dim, outliers, unused;
};

#endif
