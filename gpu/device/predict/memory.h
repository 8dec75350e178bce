/* memory.h - what kernels of codecs with a bound have besides: registers of a thread, memory of the
 * team.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITHI_GPU_DEVICE_PREDICT_MEMORY_H
#define PITHI_GPU_DEVICE_PREDICT_MEMORY_H

#include "device/call.h"
#include "device/phase.h"
#include "predict/bitplane_choice.h"

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
    /* Parts of the block. */
    const uint8_t *which, *values, *body;
    uint32_t body_bytes;
};

/* What rows a block of embed has. */
struct pithi_gpu_rows {
    uint32_t row, rows, distinct; /* elements of one; how many; how many that differ */
    uint32_t kind, width, wide;   /* of the map; bits of its numbers; bytes of a centre */
    bool mapped;                  /* decode: the map is to be read */
    /* In the workspace: codes of all rows; decode: of the distinct ones, encode: centres; the
     * number among the distinct of every row; encode: the first row of each number, and the table
     * by which they are found, two places a row. */
    uint32_t *code, *spare, *number, *first, *place;
    uint8_t *map, *numbers, *centre; /* parts of the block */
    uint32_t largest;                /* of the centres */
    uint64_t without, with;          /* bits of samples, without centres and with them */
};

/* The team's memory. */
struct pithi_gpu_strip {
    struct pithi_gpu_block block;
    struct pithi_gpu_rows rows;
    uint64_t scan[2][PITHI_TEAM];
    uint64_t carry[2], run[2]; /* of the strips before; the strip that is summed, and the next */
    uint32_t low, high, touched, fault;
    uint32_t misses, bits[PITHI_TILE_NDIM + 1], counts[PITHI_PACK_MOST];
    struct pithi_bitplane_scratch choice;
    uint8_t table[PITHI_PACK_WIDTHS], name[PITHI_TEAM];
    uint32_t word[PITHI_BITPLANE_GROUP][PITHI_TEAM]; /* of each thread's group */
};

#endif
