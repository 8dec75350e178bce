/* setting.h - what follows from the setting of a codec in pages, for kernels and who launches them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_KV_SETTING_H
#define PITHI_GPU_DEVICE_KV_SETTING_H

#include "device/call.h"

/* Whether an encode in pages searches for scales; whether it looks at groups as a whole. */
PITHI_INLINE bool pithi_pages_search(const struct pithi_device_plan *p) {
    return p->device.groups.set.shrink || p->device.groups.set.codebook == PITHI_CODEBOOK_LLOYD;
}
PITHI_INLINE bool pithi_pages_keep(const struct pithi_device_plan *p) {
    return pithi_pages_search(p) || p->device.pages.outliers ||
           p->device.groups.set.codebook == PITHI_CODEBOOK_TRELLIS;
}

/* Strips of pages along tokens, see strips.h: tokens and columns of one; threads beside each other,
 * which have 8 columns each, threads below each other, and tokens of a thread. */
enum {
    PITHI_STRIP_TOKENS = 128,
    PITHI_STRIP_LANES = 16,
    PITHI_STRIP_COLUMNS = 8 * PITHI_STRIP_LANES,
    PITHI_STRIP_ROWS = 16,
    PITHI_STRIP_DEEP = PITHI_STRIP_TOKENS / PITHI_STRIP_ROWS,
    PITHI_STRIP_CELLS = 32
};
#define PITHI_STRIP_FINE 16.0f

/* Segments of pages along heads whose paths are found at once, see segments.h: tiles, units of a
 * thread, groups, and values of a group. */
enum {
    PITHI_SEGMENT_TILES = 4,
    PITHI_SEGMENT_UNITS = PITHI_SEGMENT_TILES * PITHI_UNITS,
    PITHI_SEGMENT_GROUPS = 128,
    PITHI_SEGMENT_GROUP = 128
};

/* Whether pages may have strips: those of preset kvquant-lite. */
PITHI_INLINE bool pithi_pages_strips(const struct pithi_device_plan *p) {
    const struct pithi_group_setting *const set = &p->device.groups.set;
    return p->device.pages.channel && p->device.pages.outliers && !p->device.pages.rotated &&
           p->dtype == PITH_BF16 && p->base_dtype == PITH_NONE && !set->asymmetric &&
           set->group == PITHI_STRIP_TOKENS && set->bits == 4 && set->scale_dtype == PITH_F16 &&
           set->codebook == PITHI_CODEBOOK_NF;
}

/* The most threads that share a page's columns, or a group: those whose tile the team's memory has
 * space for, where groups are searched, but whole heads where they are rotated. */
PITHI_INLINE uint32_t pithi_pages_lanes(const struct pithi_device_plan *p) {
    const uint32_t lanes = PITHI_TILE / PITHI_UNIT / p->device.groups.set.group;
    const bool all = !pithi_pages_keep(p) || !p->device.pages.channel || p->device.pages.rotated;
    return all || lanes > 32 ? 32 : lanes;
}

#endif
