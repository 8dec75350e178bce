/* memory.h - what kernels of codecs with a bound have besides: registers of a thread, memory of the
 * team.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PREDICT_MEMORY_H
#define PITHI_GPU_DEVICE_PREDICT_MEMORY_H

#include "device/call.h"
#include "device/phase.h"
#include "predict/bitplane_choice.h"
#include "predict/estimate_value.h"
#include "predict/interp_value.h"
#include "sparse/select.h"

/* The k-th largest magnitude is found in three passes: by its upper 11 bits, the next 10, the last
 * 10. */
enum { PITHI_SELECT_LEVELS = 3, PITHI_SELECT_BINS = 1 << 11 };

/* Whether blocks may be interpolated: those of eb that are coded under an absolute bound. */
PITHI_INLINE bool pithi_interpolates(const struct pithi_device_plan *t) {
    return t->device.kind == PITHI_KIND_BOUNDED && t->device.coded &&
           t->device.requested.target != PITHI_TARGET_PWREL;
}

struct pithi_predict_thread {
    uint64_t total;     /* what is summed over the team */
    uint64_t own;       /* what total was before */
    uint32_t low, high; /* what the largest of is sought */
};

/* A team's tile, and its block of the frame. */
struct pithi_gpu_block {
    struct pithi_tile tile;
    struct pithi_quant quant;
    uint64_t number, before; /* before: elements of the tiles before it */
    uint32_t part, parts;    /* the team's part of it, of how many */
    uint64_t lo, hi;         /* decode: the elements of the slot that are wanted */
    uint32_t count, groups;
    uint32_t named; /* groups of packed words */
    uint8_t *workspace;
    uint8_t *bytes;
    uint32_t length, method, order, misses;
    bool live, plain, bitmap;
    /* decode: all of the slot is wanted; the parts of the block are known. What branches look at
     * must not change in the phases behind them. */
    bool whole, legible;
    /* decode, of coded words: launches before have left their differences where codes lie; or
     * values that were predicted by interpolation, which wait to be rounded. */
    bool joined, interpolated;
    /* Parts of the block. */
    const uint8_t *which, *values, *body;
    uint32_t body_bytes;
};

/* What rows a block of embed has. */
struct pithi_gpu_rows {
    uint32_t row, rows, distinct; /* elements of one; how many; how many that differ */
    uint32_t kind, width, wide;   /* of the map; bits of its numbers; bytes of a centre */
    uint32_t coded;               /* bytes of a map that is coded */
    bool mapped;                  /* decode: the map is to be read */
    /* In the workspace: codes of all rows; scratch: codes of the distinct rows (decode), centres
     * (encode); the number among the distinct of every row; encode: the first row of each number,
     * NULL where all rows are distinct and in order, and the table by which they are found, two
     * places a row. */
    uint32_t *code, *scratch, *number, *first, *place;
    uint8_t *map, *numbers, *centre; /* parts of the block */
    uint32_t largest;                /* of the centres */
    uint64_t without, with;          /* bits of samples, without centres and with them */
};

/* A block of act: its map, the bitmaps inside of it, and its numbers, all in the workspace. */
enum { PITHI_ZEROS_DEPTH = 8 };
struct pithi_gpu_zeros {
    uint32_t form, used;   /* of the numbers; how many, which are the ones of the map */
    uint32_t *number;      /* decode: then the codes that are not 0 */
    uint8_t *map, *piece;  /* piece, encode: the bytes of the map in a frame */
    uint32_t bytes, depth; /* of these, so far; decode: read. Number of the innermost bitmap */
    uint32_t n[PITHI_ZEROS_DEPTH], at[PITHI_ZEROS_DEPTH]; /* bytes of each bitmap, its place */
    /* The bytes of each bitmap that are not 0: how many, the least, the largest. */
    uint32_t ones[PITHI_ZEROS_DEPTH], least[PITHI_ZEROS_DEPTH], most[PITHI_ZEROS_DEPTH];
    const uint8_t *from; /* decode: the bytes that are put next; NULL: all of them are `fill` */
    uint32_t fill;
    bool go[PITHI_ZEROS_DEPTH + 2]; /* decode: whether a step can be taken */
};

/* A set of elements of a block of topk, and its values. */
struct pithi_gpu_set {
    uint64_t first;                 /* element of the slot where the block begins */
    uint32_t n, count;              /* elements of the block, and of the set */
    uint32_t form, low_bits;        /* how the set is coded */
    uint32_t *list;                 /* encode: the set; NULL: all elements of the block */
    uint8_t *index, *values;        /* parts of the block */
    uint64_t index_bytes, shortest; /* shortest: of the forms that were measured */
    uint64_t total;                 /* what the team adds up */
    uint32_t found, ties, runs;     /* the same */
    uint32_t exceptions;            /* the same, of PATCHED */
    uint32_t differs;               /* encode: it is not what the slot held in the block before */
    uint8_t *out;                   /* decode: the slot's first element */
    uint32_t dtype;                 /* of these */
    bool add;                       /* to what is there */
    uint32_t *marks;                /* hold: the map of the block, as words */
};

/* Runs of a slot of topk: values that become coefficients, or the reverse. */
struct pithi_gpu_transform {
    const uint8_t *from; /* the slot's first element, f32 where it is inverse */
    uint8_t *to;
    uint64_t count, lo, hi; /* elements of the slot; those that are written */
    uint32_t from_dtype, to_dtype;
    bool inverse, add;
};

/* Moments of the values that topk chooses from: of each thread, and of all before. */
struct pithi_gpu_moments {
    double sum[3][PITHI_TEAM]; /* of x, x * x, |x| */
    uint32_t finite[PITHI_TEAM], largest[PITHI_TEAM];
    struct pithi_moments all;
};

/* A tile, or a box of one, that is predicted by interpolation, at the level that is coded. */
struct pithi_gpu_interp {
    uint32_t extent[PITHI_TILE_NDIM], pitch[PITHI_TILE_NDIM]; /* of the box */
    uint32_t grid[PITHI_TILE_NDIM];                           /* elements of the level's grid */
    uint64_t apart[PITHI_TILE_NDIM]; /* elements of the tensor to the next along a dimension */
    uint64_t first;                  /* the box's first element in the tensor */
    uint32_t row, level;
    float bound, step, inverse;    /* bound: of the tile */
    float *y;                      /* reconstructions, in the order of the box */
    uint32_t *words;               /* differences, in the order of coding */
    uint32_t *map;                 /* encode: bits of missed values; NULL: nobody asks */
    struct pithi_weights *weights; /* encode: those that were chosen */
    const uint8_t *stored;         /* decode: weights of classes to come, in the block */
    /* A class of a weighted level: the number of its first word, its terms. */
    uint32_t at, parities, terms;
    float weight[PITHI_WEIGHTED_TERMS];
    uint8_t term[PITHI_WEIGHTED_TERMS];
    /* Encode: how the block is coded; what words of interpolation and of differences are said to
     * take; the row from which on, and boxes in which, weighted interpolation is looked at, none
     * where it is not; the least that a row is said to take of differences. */
    uint32_t method, cost, lorenzo, rows, boxes, share;
    bool better; /* the row that was looked at is better than those before */
    bool kept;   /* few enough values are stored exactly */
};

/* What a sample of a class says of the best weights, some of its parts at a time. term: of each
 * value, without weights; left: what these leave of it; share: what it counts, below 0 where it
 * does not. */
enum { PITHI_FIT_PARTS = 4, PITHI_FIT_VALUES = PITHI_FIT_PARTS * PITHI_WEIGHTED_SAMPLE };
struct pithi_gpu_fit {
    float term[PITHI_WEIGHTED_TERMS][PITHI_FIT_VALUES];
    double left[PITHI_FIT_VALUES], share[PITHI_FIT_VALUES];
    struct pithi_equations equations;
    int32_t stored[PITHI_WEIGHTED_TERMS];
    float weight[PITHI_WEIGHTED_TERMS];
    bool solved;
    uint64_t before, after, count; /* 1/256 bits of a sample with the usual weights and these */
    /* Words of boxes: of differences, and of weighted interpolation the coarse ones and those of
     * each class. */
    struct pithi_kinds lorenzo, weighted[PITHI_WEIGHTED_CLASSES + 1];
};

/* The team's memory. */
struct pithi_gpu_strip {
    struct pithi_gpu_block block;
    struct pithi_gpu_rows rows;
    struct pithi_gpu_zeros zeros;
    struct pithi_gpu_set set;
    struct pithi_gpu_transform transform;
    struct pithi_gpu_interp interp;
    uint64_t scan[2][PITHI_TEAM];
    uint64_t carry[2], run[2]; /* of the strips before; the strip that is summed, and the next */
    uint32_t low, high, touched, fault;
    uint32_t sums; /* decode: there are differences along rows to be summed */
    uint32_t misses, bits[PITHI_TILE_NDIM + 1], counts[PITHI_PACK_MOST];
    struct pithi_bitplane_scratch choice;
    uint8_t table[PITHI_PACK_WIDTHS], name[PITHI_TEAM];
    union {
        uint32_t word[PITHI_BITPLANE_GROUP][PITHI_TEAM]; /* of each thread's group */
        struct pithi_kinds kinds[PITHI_TILE_NDIM + 1];   /* of samples, by order */
        struct pithi_kinds levels[2]; /* of samples that are interpolated: finest level, others */
        struct pithi_gpu_fit fit;
        uint32_t bins[PITHI_SELECT_BINS];
        struct pithi_gpu_moments moments;
        float values[PITHI_TILE];
    };
};

#endif
