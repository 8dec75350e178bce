/* memory.h - what kernels of codecs in pages have besides: registers of a thread, memory of the
 * team.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_KV_MEMORY_H
#define PITHI_GPU_DEVICE_KV_MEMORY_H

#include <stdalign.h>

#include "device/group/trellis_memory.h"
#include "device/kv/setting.h"
#include "device/phase.h"
#include "group/outliers_value.h"

/* A thread's columns of a tile, from this one of this head on, and its tokens, up to the tile's
 * end. n: columns, 0 where there are none. */
struct pithi_gpu_column {
    uint32_t head, in_head, n, token, end;
};

/* Units of a full tile that a thread has, of the same columns: see full.h. */
enum { PITHI_DEEP = 4 };

/* Elements of a group whose range is searched that a thread has. */
enum { PITHI_PLACED = 32 };

/* A group that is searched, one of whose threads the thread is: its number in the tile, its
 * elements, 0 when there are none to code, and where its values lie. more: it is searched for a
 * part of its range. */
struct pithi_gpu_sought {
    uint32_t index, count, at;
    bool more;
};

struct pithi_kv_thread {
    /* Extremes of units or columns, or their scales and zero points. */
    uint32_t up[PITHI_UNIT], down[PITHI_UNIT];
    struct pithi_gpu_column column;
    struct pithi_gpu_sought sought;
    /* Sums over a lane of a group that is searched, see search.h. */
    float vq[PITHI_TRIES], vq_other[PITHI_TRIES];
    int32_t qq[PITHI_TRIES], qq_other[PITHI_TRIES];
    float cells; /* of Lloyd-Max codes: the guess */
    /* Used where a range is searched: what is known; the part that is tried; the thread's integers,
     * four a word. */
    struct pithi_shrink shrink;
    struct pithi_part part;
    uint32_t placed[PITHI_PLACED / 4];
    uint64_t word[2], word_other[2], floor[2]; /* see outliers.h */
    /* Used for full tiles: what was fetched, and values; largest values and those of what is below
     * 0, of units; in exchanges what is kept, and what goes and comes. */
    struct pithi_quad raw[PITHI_DEEP], grids[2];
    float deep[PITHI_DEEP][PITHI_UNIT];
    float edge[2][PITHI_UNITS], kept[2], given[2], taken[2];
    struct pithi_quad strip[PITHI_STRIP_DEEP]; /* used for strips: values, or codes */
    uint64_t tokens;                           /* and the tokens of outliers, a byte each */
    /* Used for segments (segments.h), whose values are in `strip`. */
    uint32_t pairs[4], pairs_other[4], by[PITHI_SEGMENT_UNITS], apart[1], apart_other[1];
    uint32_t owned_most, owned_unit, owned_other;
    uint32_t owner[PITHI_SEGMENT_UNITS]; /* the lane that has what is owned of a unit */
    float squares[PITHI_SEGMENT_UNITS], squares_given[4], squares_taken[4];
    float sum_given[4], sum_taken[4];
    /* Used for full tiles of f32 (full_wide.h): largest values as ordered numbers; grids of a unit
     * each. */
    uint32_t high[2], high_given[2], high_taken[2];
    float step[4], step_other[4];
    /* What the thread's code means, in high halves, codes, and what they mean. */
    uint32_t meant[PITHI_UNITS], codes[PITHI_UNITS][PITHI_UNIT], means[PITHI_UNITS][PITHI_UNIT];
};

/* A team's page, or the part of it that is the team's: see page.h. */
struct pithi_gpu_page {
    uint8_t *bytes, *values;               /* values: where `at` counts from */
    uint8_t *codes, *places, *exact;       /* the last two of outliers */
    uint8_t *base;                         /* of its first element; or NULL */
    uint64_t number, first;                /* of the page, and of its first element, in the slot */
    int64_t at, token_stride, head_stride; /* in elements: of the page's first; between its rows */
    uint64_t scale_bytes, code_bytes, place_bytes, exact_bytes;
    uint64_t length, whole; /* bytes; and of a page that is not cut */
    struct pithi_rotation rotation;
    uint32_t tokens, heads, dim;
    uint32_t along, groups;     /* of a head, of the page */
    uint32_t string;            /* bytes of codes of a head */
    uint32_t outliers;          /* of a group */
    uint32_t lo, hi;            /* elements that are wanted */
    uint32_t part, tile, tiles; /* tiles [tile, tiles) hold these */
    uint32_t lanes, log2, rows, chunks;
    uint32_t full, fulls; /* tiles [full, fulls) are full, see full.h */
    bool live;
    bool plain; /* units lie in a run, in the tensor too */
    bool apart; /* units do not begin at whole lanes of the base's hash */
};

/* A segment: words of units, then how states are reached; in the end what sums are formed of. Of
 * groups: what values are multiplied by, 0 where there are no codes; and as pithi_trellis_shared
 * has it. */
struct pithi_gpu_segment {
    union {
        alignas(16) struct pithi_quad slot[PITHI_SEGMENT_UNITS * PITHI_TEAM];
        alignas(16) float product[2 * PITHI_ROW];
    };
    uint32_t unit[PITHI_SEGMENT_GROUPS];
    uint8_t begin[PITHI_SEGMENT_GROUPS], chosen[PITHI_SEGMENT_UNITS * PITHI_TEAM];
};

/* The team's memory. */
struct pithi_gpu_paged {
    struct pithi_gpu_page page;
    struct pithi_codebook book;
    union {
        struct {
            union {
                struct pithi_grid grid[PITHI_UNITS * PITHI_TEAM];
                /* Trellises, a slot a unit; in the end 16 times the levels, below them codes. */
                alignas(16) struct pithi_quad slot[PITHI_UNITS * PITHI_TEAM];
                alignas(16) int16_t both[PITHI_TILE];
            };
            alignas(16) uint32_t up[PITHI_UNITS * PITHI_TEAM];
            alignas(16) uint32_t down[PITHI_UNITS * PITHI_TEAM];
            uint32_t rough; /* one more than the last full tile whose codes need limits */
            /* Values of groups that are looked at as a whole, and of full tiles along tokens. */
            alignas(16) float values[PITHI_TILE];
            union {
                /* The words that come first from below, and from above, of groups with outliers
                 * that are worked on at once. */
                uint64_t first[PITHI_TEAM / PITHI_LANES][2][PITHI_OUTLIERS_MOST + 1];
                /* What codes of strips are looked up by. */
                struct {
                    float threshold[PITHI_STRIP_CELLS];
                    uint32_t below[PITHI_STRIP_CELLS];
                } strips;
                float sum[2][PITHI_UNITS * PITHI_TEAM]; /* sums of trellises, a group each */
            };
        };
        struct pithi_gpu_segment segment;
    };
    /* Trellises: as pithi_trellis_shared has it, of the groups of a tile. */
    struct {
        struct pithi_trellis_tables tables;
        uint32_t other[PITHI_UNITS * PITHI_TEAM];
        uint16_t count[PITHI_UNITS * PITHI_TEAM]; /* elements */
        uint8_t begin[PITHI_UNITS * PITHI_TEAM], chosen[PITHI_TILE / PITHI_UNIT];
    } paths;
};

/* Bytes of it that a launch needs. */
static inline size_t pithi_paged_bytes(const struct pithi_device_plan *to) {
    if (to->device.groups.set.codebook == PITHI_CODEBOOK_TRELLIS)
        return sizeof(struct pithi_gpu_paged);
    if (to->device.pages.outliers) return offsetof(struct pithi_gpu_paged, paths);
    return pithi_pages_keep(to) || to->device.pages.channel
               ? offsetof(struct pithi_gpu_paged, first)
               : offsetof(struct pithi_gpu_paged, values);
}

#endif
